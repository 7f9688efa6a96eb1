"""Checks and repairs of sessions: a repair keeps every byte, and the next check finds no faults."""

import asyncio
import errno
import os
import random
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foldline.history import EVENTS, Contents, Session, child_events, parse_log
from foldline.history.doctor import (
    CUT_OFF,
    NO_INDEX,
    NOT_JSON,
    NOT_UTF8,
    ONLY_NULS,
    REPAIR_LATER,
    REPEATED,
    USE_NEWER,
    Finding,
    examine,
    inspect_session,
    scan,
)
from foldline.history.origin import SPAWNED
from foldline.history.paths import INDEX
from foldline.history.repair import (
    NEWER_VERSION,
    REPAIR_NOTICE,
    repair,
    repair_plan,
    tidy_up,
)
from foldline.protocol import (
    Checkpoint,
    FileImage,
    FoldlineError,
    ToolDetails,
    ToolResultMessage,
    UserMessage,
    dump_entry,
    text_parts,
)
from foldline.view.rules import DOES_NOT_EXIST
from support.damage import (
    NOW,
    SESSION_ID,
    damage,
    everything_in,
    story,
    view_of,
    write_session,
)
from support.history import call, history
from support.limits import examples
from support.reopened_sessions import write_events


def findings(events: Path) -> dict[str, Finding]:
    """Return the names of all warnings and faults."""
    return {
        found.name: found
        for found in examine(inspect_session(events))
        if found.mark != "ok"
    }


def kept_file(events: Path) -> Path:
    [kept] = events.parent.glob(f"{EVENTS}.before-repair-*")
    return kept


# --- healthy sessions ----------------------------------------------------------------------------------


def test_a_healthy_session_has_no_findings_and_a_repair_changes_nothing(
    tmp_path: Path,
) -> None:
    events = write_session(tmp_path)
    before = everything_in(events.parent)
    assert findings(events) == {}
    assert not repair(events, NOW)
    assert {**before, "lock": b""} == everything_in(events.parent)


def test_a_check_writes_nothing(tmp_path: Path) -> None:
    events = write_session(tmp_path)
    damage(events, random.Random(1), 3)
    before = everything_in(tmp_path)
    examine(inspect_session(events))
    repair_plan(inspect_session(events), NOW)
    assert everything_in(tmp_path) == before


# --- damage --------------------------------------------------------------------------------------------


@given(seed=st.integers(0, 10**9), times=st.integers(1, 4))
@settings(max_examples=examples(60))
def test_the_view_is_the_same_before_and_after_repairing_any_damage(
    seed: int, times: int
) -> None:
    with tempfile.TemporaryDirectory() as home:
        events = write_session(Path(home))
        hurt = damage(events, random.Random(seed), times)
        before = Session.open(events)
        repair(events, NOW)
        after = Session.open(events)
        assert view_of(after) == view_of(before)
        assert after.entries[: len(before.entries)] == list(before.entries)
        assert not after.damage
        assert after.next_index >= before.next_index
        assert not repair_plan(inspect_session(events), NOW)
        if before.damage:
            assert kept_file(events).read_bytes() == hurt
        asyncio.run(after.append(UserMessage(parts=text_parts("on we go"))))


@given(seed=st.integers(0, 10**9), times=st.integers(1, 5))
@settings(max_examples=examples(100))
def test_the_doctor_reads_the_same_entries_as_the_program(
    seed: int, times: int
) -> None:
    with tempfile.TemporaryDirectory() as home:
        events = write_session(Path(home))
        data = damage(events, random.Random(seed), times)
    found, loaded = scan(data), parse_log(data, events)
    assert found.entries == list(loaded.entries)
    assert tuple(line.number for line in found.damaged) == loaded.damage.lines
    assert found.taken == loaded.last_index


def test_each_damaged_line_is_reported_with_its_fault(tmp_path: Path) -> None:
    events = write_session(tmp_path)
    lines = events.read_bytes().split(b"\n")
    lines[3] = b"\0" * 40
    lines[4] = lines[4][:60]
    lines[5] = lines[5].replace(b"index", b"inde\xff")
    lines[7] = lines[2]
    lines[8] = b'{"type":"user"}'
    events.write_bytes(b"\n".join(lines)[:-20])
    assert findings(events)["records"].details == (
        f"line 4 {ONLY_NULS.format(count=40)}",
        f"line 5 {NOT_JSON}",
        f"line 6 {NOT_UTF8}",
        f"line 8 {REPEATED.format(index=1)}",
        f"line 9 {NO_INDEX}",
        f"line 11 {CUT_OFF}",
    )


def test_intact_records_stay_byte_for_byte_including_unknown_types(
    tmp_path: Path,
) -> None:
    events = write_session(tmp_path)
    odd = b'{ "type": "hologram",  "index": 40, "depth": {"z": null, "x": 1.0e0} }'
    whole = events.read_bytes()
    events.write_bytes(whole + b"\0\0" + odd + b"\n{torn")
    repair(events, NOW)
    kept, notice, end = events.read_bytes().removeprefix(whole).split(b"\n")
    assert kept == odd
    assert REPAIR_NOTICE.partition(":")[0].encode() in notice
    assert end == b""


def test_a_lost_index_is_not_reused_after_the_repair(tmp_path: Path) -> None:
    events = write_session(tmp_path)
    with events.open("ab") as file:
        file.write(b'{"type":"user","index":77,"parts":[{"ty')
    repair(events, NOW)
    assert Session.open(events).next_index > 77


# --- a lost header -------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["torn", "NULs", "garbage", "gone", "empty line"])
@pytest.mark.parametrize("known_by", ["meta.json", "a session beside it"])
def test_a_session_that_lost_its_header_opens_again(
    tmp_path: Path, how: str, known_by: str
) -> None:
    events = write_session(tmp_path)
    before = Session.open(events)
    if known_by == "meta.json":
        before.save_meta()
    else:
        write_session(tmp_path, session_id="20260102-030405-zzz999")
    first, rest = events.read_bytes().split(b"\n", 1)
    lost = {
        "torn": first[:60],
        "NULs": bytes(len(first)),
        "garbage": b"\xff{",
        "empty line": b"",
    }
    events.write_bytes(rest if how == "gone" else lost[how] + b"\n" + rest)
    with pytest.raises(FoldlineError):
        Session.open(events)
    assert findings(events)["header"].mark == "bad"
    hurt = events.read_bytes()
    repair(events, NOW)
    after = Session.open(events)
    assert (after.header.id, after.header.cwd) == (SESSION_ID, "/work/shop")
    assert after.header.created_at == before.header.created_at
    assert view_of(after) == view_of(before)
    assert list(after.entries) == list(before.entries)
    assert kept_file(events).read_bytes() == hurt
    assert not repair_plan(inspect_session(events), NOW)


def test_a_session_of_a_newer_version_is_never_changed(tmp_path: Path) -> None:
    events = write_session(tmp_path)
    events.write_bytes(
        events.read_bytes().replace(b'"version":1', b'"version":2', 1) + b"{torn"
    )
    before = events.read_bytes()
    assert findings(events)["header"].advice == USE_NEWER
    with pytest.raises(FoldlineError, match=NEWER_VERSION.partition("}")[2]):
        repair(events, NOW)
    assert events.read_bytes() == before


# --- all or nothing ------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", ["fsync", "link", "replace"])
def test_a_repair_that_fails_halfway_leaves_the_file_unchanged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    events = write_session(tmp_path)
    damage(events, random.Random(3), 4)
    hurt = events.read_bytes()

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, step, full)
    if step == "link":
        monkeypatch.setattr(os, "open", full)
    with pytest.raises(FoldlineError, match="no space left on device"):
        repair(events, NOW)
    monkeypatch.undo()
    assert events.read_bytes() == hurt
    assert not list(events.parent.glob(f".{EVENTS}*"))
    repair(events, NOW.replace(second=9))
    assert not Session.open(events).damage


async def test_a_session_with_an_active_writer_is_not_repaired(tmp_path: Path) -> None:
    events = write_session(tmp_path)
    writer = Session.open(events)
    writer.claim()
    with events.open("ab") as file:
        file.write(b"{torn")
    before = events.read_bytes()
    with pytest.raises(FoldlineError, match=r"this process .* cannot be repaired now"):
        repair(events, NOW)
    assert findings(events)["writer"].advice == REPAIR_LATER
    assert events.read_bytes() == before
    writer.close()


def test_a_link_to_an_event_file_remains_a_link(tmp_path: Path) -> None:
    events = write_session(tmp_path)
    with events.open("ab") as file:
        file.write(b"{torn")
    link = tmp_path / "link.jsonl"
    link.symlink_to(events)
    repair(link, NOW)
    assert link.is_symlink()
    assert not Session.open(events).damage
    assert kept_file(events).read_bytes().endswith(b"{torn")


# --- files beside the log ------------------------------------------------------------------------------


def test_remains_of_a_dead_process_are_found_and_removed(tmp_path: Path) -> None:
    events = write_session(tmp_path)
    folder = events.parent
    (folder / "holder.json").write_text('{"pid": 1}')
    (folder / ".foldline-0123456789ab.tmp").write_text("{")
    (folder / "notes.txt").write_text("mine")
    folder.chmod(0o755)
    events.chmod(0o644)
    assert set(findings(events)) == {"writer", "left over", "modes"}
    assert len(repair(events, NOW).steps) == 4
    assert findings(events) == {}
    assert sorted(path.name for path in folder.iterdir()) == [
        EVENTS,
        "lock",
        "notes.txt",
    ]
    assert folder.stat().st_mode & 0o777 == 0o700
    assert events.stat().st_mode & 0o777 == 0o600


def test_tidying_up_removes_remains_and_leaves_the_log_alone(tmp_path: Path) -> None:
    events = write_session(tmp_path)
    folder = events.parent
    assert tidy_up(events, NOW) == ()
    (folder / "holder.json").write_text('{"pid": 1}')
    (folder / ".foldline-0123456789ab.tmp").write_text("{")
    folder.chmod(0o755)
    before = events.read_bytes()
    assert len(tidy_up(events, NOW)) == 3
    assert findings(events) == {}
    assert events.read_bytes() == before
    assert tidy_up(events, NOW) == ()


def test_nothing_is_tidied_up_beside_an_active_writer(tmp_path: Path) -> None:
    events = write_session(tmp_path)
    writer = Session.open(events)
    writer.claim()
    draft = events.parent / ".foldline-0123456789ab.tmp"
    draft.write_text("{")
    assert tidy_up(events, NOW) == ()
    assert draft.exists()
    writer.close()


def test_a_subagents_lost_header_names_its_parent_again(tmp_path: Path) -> None:
    parent = write_session(tmp_path)
    other = write_session(tmp_path, session_id="no-time-in-this-id")
    child = child_events(parent, other.parent.name)
    child.parent.parent.mkdir()
    other.parent.rename(child.parent)
    child.write_bytes(child.read_bytes().split(b"\n", 1)[1])
    repair(child, NOW)
    header = Session.open(child).header
    assert header.id == "no-time-in-this-id"
    assert (header.model_extra or {})[SPAWNED]["session"] == SESSION_ID


@pytest.mark.parametrize(
    "content",
    [b"", b"not JSON", b'{"id":"x","cwd":"/","created_at":"2026-01-01T00:00:00Z"}'],
)
def test_an_empty_or_wrong_snapshot_is_rebuilt(tmp_path: Path, content: bytes) -> None:
    events = write_session(tmp_path)
    events.with_name("meta.json").write_bytes(content)
    assert "meta.json" in findings(events)
    repair(events, NOW)
    assert findings(events) == {}


def test_a_wrong_snapshot_for_the_right_log_size_is_found(tmp_path: Path) -> None:
    events = write_session(tmp_path)
    Session.open(events).save_meta()
    snapshot = events.with_name("meta.json")
    snapshot.write_text(snapshot.read_text().replace("thanks", "no thanks"))
    assert findings(events)["meta.json"].mark == "bad"


def test_the_cache_of_a_log_changed_in_the_middle_is_deleted(tmp_path: Path) -> None:
    events = tmp_path / EVENTS
    beginning = history().user("words " * 1_000)
    write_events(
        events, beginning.user("3.141592653").user("many words " * 400_000).entries
    )
    Session.open(events)
    assert INDEX not in findings(events)
    changed = events.read_bytes().replace(b"3.141592653", b"about three")
    events.write_bytes(
        changed + dump_entry(UserMessage(index=3, parts=text_parts("more"))) + b"\n"
    )
    assert findings(events)[INDEX].mark == "bad"
    repair(events, NOW)
    assert not events.with_name(INDEX).exists()
    assert findings(events) == {}


def test_missing_contents_and_outputs_are_named(tmp_path: Path) -> None:
    missing, wrong = "0" * 64, "1" * 64
    details = ToolDetails(full_output="/elsewhere/outputs/bash-1.txt")
    built = history().user("go").assistant(calls=[call("bash", call_id="b")])
    built.add(
        ToolResultMessage(
            call_id="b", name="bash", parts=text_parts("…"), details=details
        )
    )
    image = FileImage(path="a.py", before=missing, after=wrong)
    events = write_session(tmp_path, built.add(Checkpoint(id=0, files=(image,))))
    kept = Contents(events.parent)
    kept.keep(b"whole")
    (events.parent / "contents" / wrong).write_bytes(b"something else")
    found = findings(events)
    assert found["contents"].details == (missing, wrong, wrong)
    assert found["outputs"].details == ("bash-1.txt",)
    (events.parent / "outputs").mkdir()
    (events.parent / "outputs" / "bash-1.txt").write_text("whole")
    assert "outputs" not in findings(events)


# --- the history ---------------------------------------------------------------------------------------


def test_a_reference_to_a_lost_entry_is_reported(tmp_path: Path) -> None:
    events = write_session(tmp_path, story().edit("pin", 4))
    lines = events.read_bytes().split(b"\n")
    events.write_bytes(b"\n".join([*lines[:5], *lines[6:]]))
    assert f"entry 4, {DOES_NOT_EXIST}" in findings(events)["references"].found
