"""`foldline verify`, and `foldline view --request` against what a real server received."""

import json
from pathlib import Path
from typing import Any

import pytest

from foldline.context.proof import digest_of
from foldline.llm.dialect import STRICT, dialect_for
from foldline.protocol import RequestRecord, operations
from support.agents import agent_in, write_lines
from support.claude_code_rows import blob, lines_of, piece, rendered, request, said, text, user
from support.clients import chat_at
from support.front_door import FrontDoor
from support.history import History, history
from support.server import running_server


def recorded() -> History:
    """Two requests and their records."""
    story = history().system("You are Foldline.").user("Why does the login fail?")
    for answer, question in (("The token is stale.", "Fix it."), ("Fixed.", "Thanks.")):
        messages = [item.message for item in story.projection().view]
        record = RequestRecord(
            digest=digest_of(messages), model="m", after=story.last, view_items=len(messages)
        )
        story.assistant(answer).add(record).user(question)
    return story


# --- what a server received -------------------------------------------------------------------------


async def talk(folder: Path) -> tuple[Path, list[Any], int]:
    """A session with two folds, tool calls, Chinese text and an undo: its file, the messages that the server
    received (those that asked for a summary apart), and how many folds there were."""
    folder.mkdir()
    for number in range(4):
        write_lines(folder / f"文件{number}.txt", 60)
    with running_server(strict=True, window=65_536) as server:
        assert dialect_for(server.base_url) == STRICT
        llm = chat_at(server.base_url, model=server.model, window=65_536)
        agent, _ = agent_in(folder, llm)
        of_folds: set[int] = set()

        async def do(operation: operations.Operation) -> None:
            before = len(server.requests())
            end = await agent.executor.wait_for(agent.executor.submit(operation))
            assert end.outcome == "done", end
            of_folds.update(seen.nth for seen in server.requests()[before:])

        await agent.prompt("Read 文件0.txt and 文件1.txt one by one. 请用中文回答，不要改动任何文件。")
        await agent.prompt("Say 你好，世界 🙂 and nothing else")
        await do(operations.CompactSession(reason="manual", focus="the files"))
        await agent.prompt("Read 文件2.txt")
        await agent.prompt("Read no-such-file.txt and 文件3.txt")
        await do(operations.CompactSession(reason="manual"))
        await agent.prompt("Say that we went on after the second fold")
        await do(operations.UndoCompaction())
        await agent.prompt("Say that the second fold was undone")
        path = agent.session.path
        assert path is not None
        folds = len(agent.session.projection.all_compactions)
        await agent.aclose()
        assert [seen.violations for seen in server.requests() if seen.violations] == []
        return path, [seen.messages for seen in server.requests() if seen.nth not in of_folds], folds


async def test_view_prints_what_the_server_received_byte_for_byte(door: FrontDoor, tmp_path: Path) -> None:
    path, received, folds = await talk(tmp_path / "shop")
    assert folds == 2
    assert len(received) >= 10
    for number, messages in enumerate(received, start=1):
        said = door("view", path, "--request", str(number), "--json")
        assert said.code == 0, said.err
        assert json.dumps(said.json["messages"]) == json.dumps(messages)
        assert (said.json["request"]["proved"], said.json["request"]["dialect"]) == (True, "strict")
    # The summary stands in marked user text, as this dialect has it, and not in a system message of its own.
    roles = [message["role"] for message in door("view", path, "--request", "5", "--json").json["messages"]]
    assert roles.count("system") == 1
    unknown = door("view", path, "--request", str(len(received) + 1), "--json")
    assert (unknown.code, unknown.out) == (1, "")
    assert unknown.err.endswith(
        f"has no request {len(received) + 1}: its requests are 1 to {len(received)}.\n"
    )


async def test_verify_proves_every_request_of_that_session(door: FrontDoor, tmp_path: Path) -> None:
    path, received, _ = await talk(tmp_path / "shop")
    entries = len(path.read_text(encoding="utf-8").splitlines()) - 1
    said = door("verify", path)
    assert (said.code, said.err) == (0, "")
    assert said.out == f"{len(received)} requests proved, 2 compactions, {entries} entries: all as recorded\n"
    # One character of one prompt, as an editor would change it.
    text = path.read_text(encoding="utf-8")
    assert text.count("Read no-such-file.txt") >= 1
    path.write_text(text.replace("Read no-such-file.txt", "Read no-such-film.txt", 1), encoding="utf-8")
    said = door("verify", path)
    assert said.code == 1
    verdict, first, *_ = said.out.splitlines()
    prompt = next(
        json.loads(line)["index"] for line in path.read_text("utf-8").splitlines() if "no-such-film" in line
    )
    assert f"of {len(received)} requests proved" in verdict
    assert "is not as it was sent" in first
    assert str(prompt) in first.split(": ", 1)[1]


# --- verdicts ---------------------------------------------------------------------------------------


def test_a_session_that_is_as_recorded_is_one_line(door: FrontDoor) -> None:
    said = door("verify", door.keep(recorded().entries))
    assert (said.code, said.out) == (0, "2 requests proved, 0 compactions, 8 entries: all as recorded\n")
    assert door("verify", door.keep(recorded().entries), "--json").json == {
        "ok": True, "requests": 2, "proved": 2, "unrecorded": 0, "compactions": 0, "entries": 8,
        "digests": 0, "failures": [], "subagents": [],
    }  # fmt: skip


def test_one_changed_character_is_found_and_named(door: FrontDoor) -> None:
    folder = door.keep(recorded().entries)
    file = folder / "events.jsonl"
    file.write_text(file.read_text().replace("Fix it.", "Fix if."))
    said = door("verify", folder)
    assert said.code == 1
    assert said.out.splitlines() == [
        "1 of 2 requests proved, 0 compactions, 8 entries: 1 fault",
        "request 2 (entry 6): one of the entries 2 and 4 is not as it was sent",
    ]
    found = door("verify", folder, "--json")
    assert found.code == 1
    assert found.json["failures"] == [{"request": 2, "entry": 6, "text": said.out.splitlines()[1]}]


def test_the_view_of_an_unproved_request_is_shown_and_said_to_be_unproved(door: FrontDoor) -> None:
    folder = door.keep(recorded().entries)
    file = folder / "events.jsonl"
    file.write_text(file.read_text().replace("Fix it.", "Fix if."))
    said = door("view", folder, "--request", "2", "--json")
    assert (said.code, said.json["request"]["proved"]) == (1, False)
    assert said.err.endswith(
        "Request 2 (entry 6) is not proved: what the history gives is not what was sent.\n"
    )
    assert "request 2 to m, not proved" in door("view", folder, "--request", "2").out
    assert "request 1 to m, proved" in door("view", folder, "--request", "1").out


def test_a_session_without_records_says_that_there_is_nothing_to_prove(door: FrontDoor) -> None:
    said = door("verify", door.keep(history().turn("hello", "hi").entries))
    assert said.code == 0
    assert (
        said.out
        == "no request is recorded, so there is none to prove, 0 compactions, 2 entries: all is sound\n"
    )


def claude_session(path: Path, *, recorded: bool) -> Path:
    """A session of Claude Code whose first request is not recorded; there may be a second, which is."""
    asked = said("user", "Hi"), said("assistant", "Hello."), said("user", "On", "Kindly.")
    records = [user("Hi"), piece("m1", text("Hello."))]
    if recorded:
        kindly = rendered("file", "Kindly.")
        records += [user("On"), kindly, *request("r1", *asked, base=""), piece("m2", text("Yes."))]
        records.insert(2, blob(asked[2]))
    path.write_bytes(lines_of(*records))
    return path


def test_another_agents_requests_are_proved_as_far_as_they_are_recorded(
    door: FrontDoor, tmp_path: Path
) -> None:
    older = claude_session(tmp_path / "older.jsonl", recorded=False)
    said = door("verify", older)
    nothing = "no record says what 1 request sent: none to prove, 0 compactions, 2 entries: all is sound\n"
    assert (said.code, said.out) == (0, nothing)
    newer = claude_session(tmp_path / "newer.jsonl", recorded=True)
    said = door("verify", newer)
    proved = "1 request proved, 1 before them without a record, 1 compaction, 8 entries: all as recorded\n"
    assert (said.code, said.out) == (0, proved)


def test_another_agents_request_is_shown_in_the_roles_it_was_sent_in(door: FrontDoor, tmp_path: Path) -> None:
    found = door("view", claude_session(tmp_path / "newer.jsonl", recorded=True), "--request", "1", "--json")
    assert found.json["request"]["proved"] is True
    assert [(message["role"], message["content"]) for message in found.json["messages"]] == [
        ("system", "Be useful."),
        ("user", "Hi"),
        ("assistant", "Hello."),
        ("user", "On"),
        ("user", "Kindly."),
    ]


def test_damage_is_a_fault_though_the_rest_is_proved(door: FrontDoor) -> None:
    folder = door.keep(recorded().entries)
    file = folder / "events.jsonl"
    file.write_bytes(file.read_bytes() + b'{"type":"user","index":8,"par')
    said = door("verify", folder)
    assert said.code == 1
    assert said.out.splitlines() == [
        "2 of 2 requests proved, 0 compactions, 8 entries: 1 fault",
        "1 damaged record (line 10) was left out",
    ]


def test_an_index_used_twice_is_damage(door: FrontDoor) -> None:
    folder = door.keep(recorded().entries)
    file = folder / "events.jsonl"
    file.write_text(file.read_text().replace('"index":7', '"index":6'))
    said = door("verify", folder)
    assert said.code == 1
    assert "1 damaged record (line 9) was left out" in said.out


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ('{"type":"undo","index":8,"target":40}', "entry 8 (undo) is about entry 40, which is not there"),
        (
            '{"type":"edit","index":8,"target":-3,"action":"pin"}',
            "entry 8 (edit) is about entry -3, which is not there",
        ),
        (
            '{"type":"revert","index":8,"checkpoint":5}',
            "entry 8 (revert) goes back to checkpoint 5, which is not there",
        ),
        (
            '{"type":"compaction","index":8,"first_kept_index":99}',
            "entry 8 (compaction) keeps the view from entry 99, which is not there",
        ),
        (
            '{"type":"compaction","index":8,"first_kept_index":7,"head":[{"ref":77}]}',
            "entry 8 (compaction) keeps entry 77, which is not there",
        ),
        (
            '{"type":"compaction","index":8,"first_kept_index":7,"head":[{"message":{"type":"system"},'
            '"covers":[[1,44]],"inputs":[2]}]}',
            "entry 8 (compaction) has absorbed the summary of compaction 2, which is not there",
        ),
        (
            '{"type":"user","index":8,"parts":"not a list"}',
            "entry 8 (user) has not the shape of its type, and counts for nothing",
        ),
    ],
)
def test_a_reference_that_leads_nowhere_is_named(door: FrontDoor, line: str, fault: str) -> None:
    folder = door.keep(recorded().entries)
    file = folder / "events.jsonl"
    file.write_text(file.read_text() + line + "\n")
    said = door("verify", folder)
    assert said.code == 1
    assert fault in said.out.splitlines()


def test_an_entry_of_a_type_of_tomorrow_is_no_fault(door: FrontDoor) -> None:
    folder = door.keep(recorded().entries)
    file = folder / "events.jsonl"
    file.write_text(file.read_text() + '{"type":"dream","index":8,"of":"sheep"}\n')
    assert door("verify", folder).code == 0
