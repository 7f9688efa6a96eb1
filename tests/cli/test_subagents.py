"""Commands on a session with subagents: the tree is one session, and each of it can be looked at."""

import json
from pathlib import Path

import pytest

from foldline.history import Session
from foldline.history.children import child_events, children_of, write_child
from foldline.history.doctor import SUBAGENTS_MISSING
from foldline.history.origin import Spawned, foreign_upto, spawned_of
from foldline.protocol import SessionHeader, Subagent, dump_entry
from support.claude_code_rows import call as called
from support.claude_code_rows import piece, result, text, user
from support.command_line import CommandLine
from support.fake_secrets import SHAPES
from support.history import call, history

ID = "20260101-000000-abcdef"
BY_ID = Spawned(session=ID, call="", agent="")


@pytest.fixture
def events(cli: CommandLine) -> Path:
    """A session whose call has started a subagent, which started another; their event file."""
    story = (
        history()
        .user("Mend it")
        .assistant("", calls=[call("task", "c1", prompt="look")])
    )
    story.add(
        Subagent(child="a1", call_id="c1", agent="explore", title="Look around")
    ).result("found")
    events = cli.keep(story.entries, ID) / "events.jsonl"
    header = SessionHeader(id="a1", created_at="2026-01-02T03:04:05Z", cwd=str(cli.cwd))  # type: ignore[arg-type]
    below = (
        history()
        .user("look")
        .assistant("the needle")
        .add(Subagent(child="b2", call_id="", agent="plan"))
    )
    child = write_child(
        events,
        header,
        below.entries,
        Spawned(session=ID, call="c1", agent="explore"),
        str,
    )
    whole = child.parent / "outputs" / "1.txt"
    whole.parent.mkdir()
    whole.write_text("whole")
    deeper = header.model_copy(update={"id": "b2"})
    write_child(
        child,
        deeper,
        history().user("deeper").entries,
        BY_ID.model_copy(update={"session": "a1"}),
        str,
    )
    return events


def test_one_is_named_behind_its_session_wherever_a_session_is_named(
    cli: CommandLine, events: Path
) -> None:
    for ref in (
        f"{ID}/a1",
        "abcdef/a",
        events / "a1",
        events.parent / "a1",
        child_events(events, "a1"),
    ):
        seen = cli("view", ref, "--json")
        assert [message["content"] for message in seen.json["messages"]] == [
            "look",
            "the needle",
        ], seen.err
    assert cli("stats", "abcdef/b2", "--json").json["entries"] == 1
    refused = cli("history", "abcdef/zz").err
    assert "'zz' does not identify" in refused
    assert "it has a1, b2" in refused
    assert cli("view", "abcdef/../..").code != 0


def test_sessions_counts_them_and_lists_none_of_them(
    cli: CommandLine, events: Path
) -> None:
    (row,) = cli("sessions", "--json").json
    assert (row["id"], row["subagents"]) == (ID, 2)
    assert "subagents" in cli("sessions").out
    [marker] = [
        line for line in cli("history", ID).out.splitlines() if " agent " in line
    ]
    assert "explore: Look around" in marker and marker.endswith("a1")


def test_verify_looks_at_each_history_of_the_tree(
    cli: CommandLine, events: Path
) -> None:
    said = cli("verify", ID)
    assert said.code == 0
    assert [line.partition(": ")[0] for line in said.out.splitlines()[1:]] == [
        f"{ID}/a1",
        f"{ID}/a1/b2",
    ]
    with child_events(events, "a1").open("a") as file:
        file.write("{torn\n")
    said = cli("verify", ID, "--json")
    assert (said.code, said.json["ok"]) == (1, False)
    assert [(each["id"], each["ok"]) for each in said.json["subagents"]] == [
        ("a1", False),
        ("b2", True),
    ]


def test_what_they_said_is_found_and_named_with_its_session(
    cli: CommandLine, events: Path
) -> None:
    said = cli("search", "needle")
    assert "abcdef/a1 · " in said.out
    assert "`foldline open abcdef/a1`" in said.err
    [found] = cli("search", "needle", "--json").json["sessions"]
    assert found["id"] == f"{ID}/a1"
    assert cli("archive", ID).code == 0
    assert "archived" in cli("search", "needle").out
    assert cli("delete", "-y", ID).code == 0
    assert cli("search", "needle", "--json").json["sessions"] == []


def test_the_doctor_looks_at_each_and_repairs_it(
    cli: CommandLine, events: Path
) -> None:
    child = child_events(events, "a1")
    child.write_bytes(b"{torn\n" + child.read_bytes().partition(b"\n")[2])
    names = [
        (report["name"], report["ok"])
        for report in cli("doctor", ID, "--json").json["reports"]
    ]
    assert names == [("abcdef", True), ("abcdef/a1", False), ("abcdef/a1/b2", True)]
    assert cli("doctor", ID, "--repair").code == 0
    header = Session.open(child).header
    assert (header.id, header.cwd, spawned_of(header)) == (
        "a1",
        str(cli.cwd),
        BY_ID,
    )


def test_the_doctor_says_which_are_gone(cli: CommandLine, events: Path) -> None:
    child = child_events(events, "a1")
    child.parent.rename(cli.home / "elsewhere")
    missing = SUBAGENTS_MISSING.format(sessions="1 session", names="a1")
    assert missing in cli("doctor", ID).out


def test_one_file_takes_the_tree_along(
    cli: CommandLine, events: Path, tmp_path: Path
) -> None:
    file = tmp_path / "it.foldline"
    assert cli("export", ID, "--to", "foldline", "--out", file).code == 0
    assert [each["id"] for each in cli("verify", file, "--json").json["subagents"]] == [
        "a1",
        "b2",
    ]
    copy = Path(cli("import", file, "--json").json["path"])
    there = child_events(copy, "a1")
    for ours, theirs in (
        (events, copy),
        (child_events(events, "a1"), there),
        *pairs(events, there),
    ):
        assert (
            ours.read_bytes().partition(b"\n")[2]
            == theirs.read_bytes().partition(b"\n")[2]
        )
    header = Session.open(there).header
    assert spawned_of(header) == Spawned(
        session=copy.parent.name, call="c1", agent="explore"
    )
    assert foreign_upto(header) == 2


def pairs(events: Path, copy: Path) -> list[tuple[Path, Path]]:
    return [(child_events(child_events(events, "a1"), "b2"), child_events(copy, "b2"))]


def test_pages_show_them_below_their_call_and_openai_says_they_are_left_out(
    cli: CommandLine, events: Path
) -> None:
    page = cli("export", ID, "--to", "html").out
    assert page.index("<summary>explore: Look around") < page.index("the needle")
    names = [piece.partition('"')[0] for piece in page.split(' id="')[1:]]
    assert {"e0", "e0-a1", "e0-b2"} <= set(names)
    assert len(names) == len(set(names))
    document = cli("export", ID, "--to", "markdown").out
    assert document.index("<details><summary>explore: Look around") < document.index(
        "the needle"
    )
    assert "the steps of 1 subagent" in cli("export", ID, "--to", "openai").err
    assert "the needle" not in cli("export", ID, "--to", "html", "--view").out


def test_what_looks_like_a_credential_goes_from_the_whole_tree(
    cli: CommandLine, tmp_path: Path
) -> None:
    [(kind, secret), *_] = (
        SHAPES.items() if isinstance(SHAPES, dict) else [SHAPES[0][:2]]
    )
    story = history().user("go").add(Subagent(child="a1", call_id="", agent=""))
    events = cli.keep(story.entries, ID) / "events.jsonl"
    header = SessionHeader(id="a1", created_at="2026-01-02T03:04:05Z", cwd="/x")  # type: ignore[arg-type]
    write_child(events, header, history().user(f"use {secret}").entries, BY_ID, str)
    assert str(secret) in cli("export", ID, "--to", "html").out
    redacted = cli("export", ID, "--to", "html", "--redact")
    assert str(secret) not in redacted.out, kind
    assert "[redacted:" in redacted.out


def test_an_import_brings_the_subagents_of_another_agents_session(
    cli: CommandLine, tmp_path: Path
) -> None:
    rows = [
        user("go", uuid="a", parentUuid=None),
        piece(
            "m1",
            called("t1", "Task", prompt="look", subagent_type="Explore"),
            uuid="b",
            parentUuid="a",
        ),
        user("look", uuid="s1", parentUuid=None, isSidechain=True, agentId="../up"),
        piece(
            "m2",
            text("I looked"),
            uuid="s2",
            parentUuid="s1",
            isSidechain=True,
            agentId="../up",
        ),
        result("t1", "found", uuid="c", parentUuid="b"),
    ]
    file = tmp_path / "theirs.jsonl"
    file.write_text(
        "".join(
            json.dumps({"sessionId": "s", "cwd": "/x", **row}) + "\n" for row in rows
        )
    )
    copy = Path(cli("import", file, "--json").json["path"])
    [child] = children_of(copy)
    assert spawned_of(Session.open(child).header) == Spawned(
        session=copy.parent.name, call="t1", agent="Explore"
    )
    [marker] = [
        entry for entry in Session.open(copy).entries if isinstance(entry, Subagent)
    ]
    assert marker.child == child.parent.name
    assert b"I looked" in child.read_bytes()
    assert all(
        path.is_relative_to(copy.parent) or path == copy
        for path in cli.home.rglob("events.jsonl")
    )


def test_a_fork_has_subagents_of_its_own(cli: CommandLine, events: Path) -> None:
    made = cli("fork", ID, "--json").json
    child = child_events(Path(made["path"]), "a1")
    with child.open("ab") as file:
        file.write(
            dump_entry(
                history().user("more").entries[0].model_copy(update={"index": 9})
            )
            + b"\n"
        )
    assert cli("stats", f"{made['id']}/a1", "--json").json["entries"] == 4
    assert cli("stats", f"{ID}/a1", "--json").json["entries"] == 3
    assert (child.parent / "outputs" / "1.txt").read_text() == "whole"
