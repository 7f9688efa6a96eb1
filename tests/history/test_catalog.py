"""Lists of sessions, lookup by id, ages, and rebuilt descriptions."""

import asyncio
import errno
import json
import os
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foldline.history import (
    EVENTS,
    Session,
    age,
    archive,
    catalog,
    data_home,
    find_session,
    latest,
    list_sessions,
    log,
    new_session_id,
    read_log,
    sessions_dir,
    short_id,
    workdir_key,
)
from foldline.history.catalog import GIVE_MORE, NO_SESSION, file_time, rebuilt
from foldline.history.loader import open_file
from foldline.history.log import EMPTY_FILE
from foldline.history.meta import Meta, describe
from foldline.protocol import (
    AssistantMessage,
    Clear,
    Entry,
    FoldlineError,
    ModelChange,
    Title,
    Usage,
    UserMessage,
    text_parts,
)
from support.reopened_sessions import write_events

START = datetime(2025, 3, 4, 5, 6, 7, tzinfo=UTC)


def make(
    home: Path,
    cwd: str,
    session_id: str,
    *texts: str,
    hour: int = 0,
    snapshot: bool = True,
) -> Session:
    session = Session.create(
        cwd, home=home, now=lambda: START + timedelta(hours=hour), session_id=session_id
    )
    for text in texts:
        asyncio.run(session.append(UserMessage(parts=text_parts(text))))
    if snapshot:
        session.save_meta()
    session.close()
    return session


def folder_of(session: Session) -> Path:
    assert session.path is not None
    return session.path.parent


def histories(home: Path) -> dict[str, tuple[int, bytes]]:
    return {
        str(path): (path.stat().st_mtime_ns, path.read_bytes()) for path in _all(home)
    }


def _all(home: Path) -> Iterator[Path]:
    return (
        path for path in home.rglob("*") if path.is_file() and path.name != "meta.json"
    )


def test_sessions_are_listed_newest_first_without_reading_histories(
    tmp_path: Path,
) -> None:
    make(tmp_path, "/tmp/a", "s-old", "first", hour=1)
    make(tmp_path, "/tmp/b", "s-new", "second", "third", hour=3, snapshot=False)
    make(tmp_path, "/tmp/a", "s-mid", "other", hour=2)
    before = histories(tmp_path)
    infos = list_sessions(tmp_path)
    assert [info.id for info in infos] == ["s-new", "s-mid", "s-old"]
    assert (infos[0].meta.title, infos[0].meta.last_prompt, infos[0].meta.entries) == (
        "second",
        "third",
        2,
    )
    assert [info.id for info in list_sessions(tmp_path, "/tmp/a")] == ["s-mid", "s-old"]
    assert histories(tmp_path) == before


def test_a_stale_or_broken_snapshot_is_ignored(tmp_path: Path) -> None:
    session = make(tmp_path, "/tmp/a", "s-1", "first")
    asyncio.run(session.append(Title(title="renamed")))
    session.close()
    assert list_sessions(tmp_path)[0].meta.title == "renamed"
    assert session.path is not None
    session.path.with_name("meta.json").write_bytes(b"{")
    assert list_sessions(tmp_path)[0].meta.title == "renamed"


def test_a_missing_snapshot_is_written_for_the_next_list(tmp_path: Path) -> None:
    session = make(tmp_path, "/tmp/a", "s-1", "first", snapshot=False)
    [info] = list_sessions(tmp_path)
    snapshot = folder_of(session) / "meta.json"
    assert json.loads(snapshot.read_bytes())["title"] == "first"
    snapshot.write_bytes(
        snapshot.read_bytes().replace(b'"title":"first"', b'"title":"told"')
    )
    assert [info.meta.title, list_sessions(tmp_path)[0].meta.title] == ["first", "told"]


def test_known_fields_of_a_newer_versions_snapshot_are_used(tmp_path: Path) -> None:
    session = make(tmp_path, "/tmp/a", "s-1", "first")
    snapshot = folder_of(session) / "meta.json"
    snapshot.write_text(
        snapshot.read_text().replace('{"id"', '{"mood":{"of":["the","day"]},"id"')
    )
    assert list_sessions(tmp_path)[0].meta.title == "first"
    assert "mood" in snapshot.read_text()


@pytest.mark.parametrize(
    "rubbish", ["folder", "fifo", "dangling link", "zeros", "list", "no time zone"]
)
def test_a_session_is_listed_with_anything_in_place_of_its_snapshot(
    tmp_path: Path, rubbish: str
) -> None:
    session = make(tmp_path, "/tmp/a", "s-1", "first")
    snapshot = folder_of(session) / "meta.json"
    kept = snapshot.read_bytes()
    snapshot.unlink()
    match rubbish:
        case "folder":
            snapshot.mkdir()
        case "fifo":
            os.mkfifo(snapshot)
        case "dangling link":
            snapshot.symlink_to(tmp_path / "nowhere")
        case "zeros":
            snapshot.write_bytes(b"\0" * 5000)
        case "list":
            snapshot.write_bytes(b"[" * 5000)
        case _:
            snapshot.write_bytes(kept.replace(b"Z", b""))
    [info] = list_sessions(tmp_path)
    assert (info.meta.title, info.meta.note) == ("first", "")
    assert not (tmp_path / "nowhere").exists()


def test_times_without_a_zone_are_listed_with_the_others(tmp_path: Path) -> None:
    session = make(tmp_path, "/tmp/a", "s-1", "first", snapshot=False)
    make(tmp_path, "/tmp/a", "s-2", "second")
    assert session.path is not None
    session.path.write_bytes(session.path.read_bytes().replace(b"Z", b""))
    assert [info.id for info in list_sessions(tmp_path)] == ["s-2", "s-1"]


def deny_access(monkeypatch: pytest.MonkeyPatch, name: str, folder: Path) -> None:
    """Make a system call fail for one path, as if permission were missing."""
    real = getattr(os, name)

    def call(path: Any, *arguments: Any, **named: Any) -> Any:
        if str(path).startswith(str(folder)):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return real(path, *arguments, **named)

    monkeypatch.setattr(os, name, call)


def test_an_unreadable_session_is_listed_with_the_reason_next_to_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shut = folder_of(make(tmp_path, "/tmp/a", "s-shut", "one"))
    make(tmp_path, "/tmp/a", "s-good", "one")
    deny_access(monkeypatch, "stat", shut / "events.jsonl")
    notes = {info.id: info.meta.note for info in list_sessions(tmp_path, "/tmp/a")}
    assert notes == {
        "s-good": "",
        "s-shut": f"{shut} cannot be read: permission denied.",
    }


def test_an_unreadable_folder_hides_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shut = folder_of(make(tmp_path, "/tmp/shut", "s-shut", "one")).parent
    make(tmp_path, "/tmp/a", "s-good", "one")
    deny_access(monkeypatch, "scandir", shut)
    notes = [info.meta.note for info in list_sessions(tmp_path)]
    assert notes == ["", f"The sessions in {shut} cannot be listed: permission denied."]
    assert [info.id for info in list_sessions(tmp_path, "/tmp/a")] == ["s-good"]
    assert find_session(tmp_path, "s-good").is_file()


def test_a_session_that_disappears_during_listing_is_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    going = folder_of(make(tmp_path, "/tmp/a", "s-going", "one"))
    make(tmp_path, "/tmp/a", "s-here", "one")
    real = os.stat

    def stat(path: Any, *arguments: Any, **named: Any) -> Any:
        shutil.rmtree(going, ignore_errors=True)
        return real(path, *arguments, **named)

    monkeypatch.setattr(os, "stat", stat)
    assert [info.id for info in list_sessions(tmp_path, "/tmp/a")] == ["s-here"]


def test_link_cycles_and_pipes_among_the_sessions_do_not_block(tmp_path: Path) -> None:
    key = folder_of(make(tmp_path, "/tmp/a", "s-1", "one")).parent
    (key / "circle").symlink_to("circle")
    (key.parent / "circle").symlink_to("circle")
    (key / "s-pipe").mkdir()
    os.mkfifo(key / "s-pipe" / "events.jsonl")
    assert [info.id for info in list_sessions(tmp_path)] == ["s-1"]
    assert list_sessions(tmp_path, "/tmp/elsewhere") == []


def test_a_folder_with_an_invalid_name_is_not_a_session(tmp_path: Path) -> None:
    with pytest.raises(
        FoldlineError, match=NO_SESSION.partition(".")[0].format(ref="~nobody-here")
    ):
        find_session(tmp_path, "~nobody-here")


@pytest.mark.parametrize(("now", "first"), [(5, "s-5"), (2, "s-1"), (-1, "s-9")])
def test_a_session_dated_in_the_future_is_the_latest_only_if_all_are(
    tmp_path: Path, now: int, first: str
) -> None:
    for day in (1, 5, 9):
        make(tmp_path, "/tmp/a", f"s-{day}", "one", hour=24 * day)
    assert (
        list_sessions(tmp_path, now=START + timedelta(days=now, hours=-1))[0].id
        == first
    )


def test_setting_a_title_does_not_make_a_session_the_latest(tmp_path: Path) -> None:
    old = make(tmp_path, "/tmp/a", "s-old", "one", hour=1)
    make(tmp_path, "/tmp/a", "s-new", "one", hour=2)
    again = Session.open(folder_of(old), now=lambda: START + timedelta(hours=3))
    asyncio.run(again.append(Title(title="a name at last")))
    again.close()
    assert [info.id for info in list_sessions(tmp_path)] == ["s-new", "s-old"]


def test_a_fork_is_newer_than_its_copied_entries(tmp_path: Path) -> None:
    old = make(tmp_path, "/tmp/a", "s-old", "one", hour=1)
    make(tmp_path, "/tmp/a", "s-new", "one", hour=2)
    asyncio.run(
        old.copy(
            home=tmp_path, session_id="s-fork", now=lambda: START + timedelta(hours=3)
        )
    ).close()
    assert [info.id for info in list_sessions(tmp_path)] == ["s-fork", "s-new", "s-old"]


def test_a_session_is_identified_by_the_name_of_its_folder(tmp_path: Path) -> None:
    session = make(tmp_path, "/tmp/a", "s-1", "one")
    shutil.copytree(folder_of(session), folder_of(session).with_name("by hand"))
    assert {info.id for info in list_sessions(tmp_path)} == {"s-1", "by hand"}
    assert (
        find_session(tmp_path, "by hand")
        == folder_of(session).with_name("by hand") / "events.jsonl"
    )


def test_a_linked_session_is_listed_without_writing_to_the_link_target(
    tmp_path: Path,
) -> None:
    home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    folder = folder_of(make(home, "/tmp/a", "s-1", "one", snapshot=False))
    folder.rename(elsewhere)
    folder.symlink_to(elsewhere)
    assert [info.meta.title for info in list_sessions(home)] == ["one"]
    assert not (elsewhere / "meta.json").exists()


def test_pattern_characters_in_an_id_match_only_themselves(tmp_path: Path) -> None:
    make(tmp_path, "/tmp/a", "s-[ab]*", "one")
    make(tmp_path, "/tmp/a", "s-ab", "two")
    assert find_session(tmp_path, "s-[ab]*").parent.name == "s-[ab]*"
    with pytest.raises(FoldlineError, match=NO_SESSION.partition("{")[0]):
        find_session(tmp_path, "s-*")


def test_archived_sessions_are_listed_separately_and_found_by_id(
    tmp_path: Path,
) -> None:
    away = make(tmp_path, "/tmp/a", "s-away", "one")
    make(tmp_path, "/tmp/a", "s-here", "one")
    events = archive(tmp_path, folder_of(away) / "events.jsonl")
    assert [info.id for info in list_sessions(tmp_path)] == ["s-here"]
    assert [
        (info.id, info.archived)
        for info in list_sessions(tmp_path, "/tmp/a", archived=True)
    ] == [("s-away", True)]
    assert find_session(tmp_path, "away") == events
    last = latest(tmp_path, "/tmp/a")
    assert last is not None
    assert last.id == "s-here"


def test_two_sessions_with_the_same_id_are_distinguished_by_their_folders(
    tmp_path: Path,
) -> None:
    one, two = (
        folder_of(make(tmp_path, cwd, "s-1", "x")) for cwd in ("/tmp/a", "/tmp/b")
    )
    with pytest.raises(FoldlineError) as refusal:
        find_session(tmp_path, "s-1")
    assert str(one) in str(refusal.value)
    assert str(two) in str(refusal.value)


def test_a_damaged_session_is_listed_with_a_note(tmp_path: Path) -> None:
    torn = make(tmp_path, "/tmp/a", "s-torn", "one", "two")
    lost = make(tmp_path, "/tmp/a", "s-lost", "one")
    make(tmp_path, "/tmp/a", "s-good", "one")
    assert torn.path is not None
    assert lost.path is not None
    torn.path.write_bytes(torn.path.read_bytes()[:-5])
    lost.path.write_bytes(b"\0" * 100)
    notes = {info.id: info.meta.note for info in list_sessions(tmp_path)}
    assert notes["s-good"] == ""
    assert "1 damaged record (line 3)" in notes["s-torn"]
    assert EMPTY_FILE.partition("}")[2] in notes["s-lost"]


def test_the_latest_session_of_a_folder_skips_unreadable_ones(tmp_path: Path) -> None:
    good = make(tmp_path, "/tmp/a", "s-good", "one")
    lost = make(tmp_path, "/tmp/a", "s-lost", "one", hour=5)
    assert lost.path is not None

    def last() -> Path | None:
        info = latest(tmp_path, "/tmp/a")
        return info and info.path

    assert last() == lost.path
    lost.path.write_bytes(b"junk")
    assert last() == good.path
    assert latest(tmp_path, "/tmp/elsewhere") is None


def test_a_home_without_sessions_gives_an_empty_list(tmp_path: Path) -> None:
    assert list_sessions(tmp_path / "nowhere") == []
    assert latest(tmp_path / "nowhere", "/tmp") is None


def test_a_session_is_found_by_its_id_the_end_of_its_id_or_its_path(
    tmp_path: Path,
) -> None:
    session = make(tmp_path, "/tmp/a", "20250304-050607-abc123", "one")
    make(tmp_path, "/tmp/b", "20250304-050607-abc", "one")
    make(tmp_path, "/tmp/b", "20250305-050607-xyz789", "one")
    path = session.path
    assert path is not None
    for ref in (
        "20250304-050607-abc123",
        "abc123",
        "c123",
        str(path),
        str(path.parent),
    ):
        assert find_session(tmp_path, ref) == path
    assert (
        find_session(tmp_path, "20250304-050607-abc").parent.name
        == "20250304-050607-abc"
    )
    assert find_session(tmp_path, "20250305").parent.name == "20250305-050607-xyz789"
    with pytest.raises(
        FoldlineError, match=r"'20250304' matches 2 sessions.*" + GIVE_MORE
    ):
        find_session(tmp_path, "20250304")
    for ref in ("nothing", ""):
        with pytest.raises(FoldlineError, match=NO_SESSION.partition("{")[0]):
            find_session(tmp_path, ref)


def test_ids_sort_by_time_and_have_a_short_ending() -> None:
    ids = [new_session_id(START + timedelta(seconds=n)) for n in range(50)]
    assert ids == sorted(ids)
    assert len({short_id(session_id) for session_id in ids}) == 50


def test_a_folder_is_keyed_by_its_real_path(tmp_path: Path) -> None:
    real = tmp_path / "my project"
    real.mkdir()
    link = tmp_path / "link"
    link.symlink_to(real)
    assert workdir_key(link) == workdir_key(real)
    assert workdir_key(real).startswith("my-project-")
    assert workdir_key(tmp_path / "other" / "my project") != workdir_key(real)
    assert workdir_key("/").startswith("root-")


def test_the_home_can_be_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FOLDLINE_HOME", str(tmp_path))
    assert data_home() == tmp_path
    assert sessions_dir(data_home()) == tmp_path / "sessions"
    monkeypatch.delenv("FOLDLINE_HOME")
    assert data_home().name == "foldline"


ENTRIES = st.sampled_from(
    [
        UserMessage(parts=text_parts("fix the login")),
        UserMessage(parts=text_parts("\n  and the tests\nplease")),
        UserMessage(origin="machine", parts=text_parts("not typed")),
        UserMessage(parts=text_parts(" \x07 ")),
        AssistantMessage(
            parts=text_parts("done"), model="m-1", usage=Usage(input=90, output=10)
        ),
        AssistantMessage(parts=text_parts("done again")),
        Title(title="a name"),
        ModelChange(model="m-2"),
        Clear(),
    ]
)


def write_session(home: Path, entries: list[Entry]) -> Path:
    session = Session.create("/tmp", home=home)
    for entry in entries:
        asyncio.run(session.append(entry))
    session.close()
    assert session.path is not None
    return session.path


def description_of(events: Path) -> Meta:
    loaded = read_log(events)
    meta = describe(loaded.header, loaded.entries, loaded.size)
    return meta.model_copy(update={"note": str(loaded.damage)})


def test_a_large_session_is_described_by_its_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / EVENTS
    write_events(
        path, [UserMessage(index=number, parts=text_parts("x")) for number in range(40)]
    )
    plain = rebuilt(path)
    monkeypatch.setattr(catalog, "open_file", partial(open_file, cache_from=1))
    assert rebuilt(path) == plain
    parsed: list[bytes] = []
    monkeypatch.setattr(log, "parse_entry", parsed.append)
    assert rebuilt(path) == plain
    assert not parsed


NOW = datetime(2026, 3, 14, 15, 9, 26, tzinfo=UTC)


@pytest.mark.parametrize(
    ("before", "said"),
    [
        (timedelta(), "just now"),
        (timedelta(seconds=59), "just now"),
        (timedelta(minutes=1), "1 min ago"),
        (timedelta(minutes=59, seconds=59), "59 min ago"),
        (timedelta(hours=1), "1 h ago"),
        (timedelta(hours=15), "15 h ago"),
        (timedelta(hours=16), "yesterday"),
        (timedelta(hours=39), "yesterday"),
        (timedelta(hours=40), "2 days ago"),
        (timedelta(days=9, hours=23), "10 days ago"),
        (timedelta(days=10), "2026-03-04"),
        (timedelta(days=4000), "2015-04-01"),
        (timedelta(seconds=-30), "just now"),
        (timedelta(days=-30), "2026-04-13"),
    ],
)
def test_an_age_is_shown_in_everyday_words(before: timedelta, said: str) -> None:
    assert age(NOW - before, NOW) == said


def test_a_recent_time_before_midnight_is_shown_in_hours() -> None:
    early = NOW.replace(hour=2)
    assert age(early - timedelta(hours=5), early) == "5 h ago"


def test_days_are_in_the_readers_time_zone() -> None:
    there = timezone(timedelta(hours=-9))
    then = datetime(2026, 1, 2, 3, tzinfo=UTC)
    assert age(then, NOW.astimezone(there)) == "2026-01-01"


@given(st.datetimes(min_value=datetime(1971, 1, 1), max_value=datetime(9000, 1, 1)))
def test_an_age_never_takes_more_than_eleven_cells(then: datetime) -> None:
    assert len(age(then.replace(tzinfo=UTC), NOW)) <= 11


@pytest.mark.parametrize(
    "zone", [timezone(timedelta(hours=14)), timezone(timedelta(hours=-14))]
)
@pytest.mark.parametrize("edge", [datetime.min, datetime.max])
def test_the_first_and_last_days_of_the_calendar_are_shown_as_dates(
    edge: datetime, zone: timezone
) -> None:
    said = age(edge.replace(tzinfo=UTC), NOW.astimezone(zone))
    assert said.startswith(f"{edge:%Y}-")


@pytest.mark.parametrize("seconds", [1e12, -1e12, 1e300])
def test_a_file_with_a_time_outside_the_calendar_is_dated_1970(seconds: float) -> None:
    assert file_time(seconds) == datetime(1970, 1, 1, tzinfo=UTC)
