"""`foldline verify`, and `foldline view --request` against what a real server received."""

import json
from pathlib import Path
from typing import Any

import pytest

from foldline.cli.checks import CONSISTENT, NO_REQUESTS, PROVED, UNRECORDED
from foldline.llm.dialect import STRICT, dialect_for
from foldline.past.proof import CHANGED_SINCE_SENT, NOT_AS_SENT, digest_of
from foldline.protocol import RequestRecord, operations
from foldline.view.rules import DOES_NOT_EXIST, WRONG_FIELDS
from support.agents import agent_in, write_lines
from support.claude_code_rows import (
    blob,
    lines_of,
    piece,
    rendered,
    request,
    request_message,
    text,
    user,
)
from support.clients import chat_at
from support.command_line import CommandLine
from support.history import History, history
from support.server import running_server


def recorded() -> History:
    """Two requests and their records."""
    story = history().system("You are Foldline.").user("Why does the login fail?")
    for answer, question in (("The token is stale.", "Fix it."), ("Fixed.", "Thanks.")):
        messages = [item.message for item in story.projection().view]
        record = RequestRecord(
            digest=digest_of(messages),
            model="m",
            after=story.last,
            view_items=len(messages),
        )
        story.assistant(answer).add(record).user(question)
    return story


# --- what a server received -------------------------------------------------------------------------


async def talk(folder: Path) -> tuple[Path, list[Any], int]:
    """A session with two compactions, tool calls, Chinese text and an undo: its file, the messages that the
    server received (those that asked for a summary apart), and how many compactions there were."""
    folder.mkdir()
    for number in range(4):
        write_lines(folder / f"文件{number}.txt", 60)
    with running_server(strict=True, window=65_536) as server:
        assert dialect_for(server.base_url) == STRICT
        llm = chat_at(server.base_url, model=server.model, window=65_536)
        agent, _ = agent_in(folder, llm)
        of_compactions: set[int] = set()

        async def do(operation: operations.Operation) -> None:
            before = len(server.requests())
            end = await agent.executor.wait_for(agent.executor.submit(operation))
            assert end.outcome == "done", end
            of_compactions.update(seen.nth for seen in server.requests()[before:])

        await agent.prompt(
            "Read 文件0.txt and 文件1.txt one by one. 请用中文回答，不要改动任何文件。"
        )
        await agent.prompt("Say 你好，世界 🙂 and nothing else")
        await do(operations.CompactSession(reason="manual", focus="the files"))
        await agent.prompt("Read 文件2.txt")
        await agent.prompt("Read no-such-file.txt and 文件3.txt")
        await do(operations.CompactSession(reason="manual"))
        await agent.prompt("Say that we went on after the second compaction")
        await do(operations.UndoCompaction())
        await agent.prompt("Say that the second compaction was undone")
        path = agent.session.path
        assert path is not None
        compactions = len(agent.session.projection.all_compactions)
        await agent.aclose()
        assert [seen.violations for seen in server.requests() if seen.violations] == []
        return (
            path,
            [
                seen.messages
                for seen in server.requests()
                if seen.nth not in of_compactions
            ],
            compactions,
        )


async def test_view_prints_what_the_server_received_byte_for_byte(
    cli: CommandLine, tmp_path: Path
) -> None:
    path, received, compactions = await talk(tmp_path / "shop")
    assert compactions == 2
    assert len(received) >= 10
    for number, messages in enumerate(received, start=1):
        said = cli("view", path, "--request", str(number), "--json")
        assert said.code == 0, said.err
        assert json.dumps(said.json["messages"]) == json.dumps(messages)
        assert (said.json["request"]["proved"], said.json["request"]["dialect"]) == (
            True,
            "strict",
        )
    # The summary stands in marked user text, as this dialect has it, and not in a system message of its own.
    roles = [
        message["role"]
        for message in cli("view", path, "--request", "5", "--json").json["messages"]
    ]
    assert roles.count("system") == 1
    unknown = cli("view", path, "--request", str(len(received) + 1), "--json")
    assert (unknown.code, unknown.out) == (1, "")
    assert unknown.err.endswith(
        f"has no request {len(received) + 1}: its requests are 1 to {len(received)}.\n"
    )


async def test_verify_proves_every_request_of_that_session(
    cli: CommandLine, tmp_path: Path
) -> None:
    path, received, _ = await talk(tmp_path / "shop")
    entries = len(path.read_text(encoding="utf-8").splitlines()) - 1
    said = cli("verify", path)
    assert (said.code, said.err) == (0, "")
    proved = PROVED.format(
        requests=f"{len(received)} requests",
        counts=f"2 compactions, {entries} entries",
        result=CONSISTENT,
    )
    assert said.out == f"{proved}\n"
    # One character of one prompt, as an editor would change it.
    text = path.read_text(encoding="utf-8")
    assert text.count("Read no-such-file.txt") >= 1
    path.write_text(
        text.replace("Read no-such-file.txt", "Read no-such-film.txt", 1),
        encoding="utf-8",
    )
    said = cli("verify", path)
    assert said.code == 1
    verdict, first, *_ = said.out.splitlines()
    prompt = next(
        json.loads(line)["index"]
        for line in path.read_text("utf-8").splitlines()
        if "no-such-film" in line
    )
    assert f"of {len(received)} requests proved" in verdict
    assert CHANGED_SINCE_SENT.format("") in first
    assert str(prompt) in first.split(": ", 1)[1]


# --- verdicts ---------------------------------------------------------------------------------------


def test_a_session_that_is_as_recorded_is_one_line(cli: CommandLine) -> None:
    said = cli("verify", cli.keep(recorded().entries))
    counts = "0 compactions, 8 entries"
    proved = PROVED.format(requests="2 requests", counts=counts, result=CONSISTENT)
    assert (said.code, said.out) == (0, f"{proved}\n")
    assert cli("verify", cli.keep(recorded().entries), "--json").json == {
        "ok": True, "requests": 2, "proved": 2, "unrecorded": 0, "compactions": 0, "entries": 8,
        "digests": 0, "failures": [], "subagents": [],
    }  # fmt: skip


def test_one_changed_character_is_found_and_named(cli: CommandLine) -> None:
    folder = cli.keep(recorded().entries)
    file = folder / "events.jsonl"
    file.write_text(file.read_text().replace("Fix it.", "Fix if."))
    said = cli("verify", folder)
    assert said.code == 1
    assert said.out.splitlines() == [
        "1 of 2 requests proved, 0 compactions, 8 entries: 1 fault",
        f"request 2 (entry 6): {CHANGED_SINCE_SENT.format('one of the entries 2 and 4')}",
    ]
    found = cli("verify", folder, "--json")
    assert found.code == 1
    assert found.json["failures"] == [
        {"request": 2, "entry": 6, "text": said.out.splitlines()[1]}
    ]


def test_the_view_of_an_unproved_request_is_shown_and_said_to_be_unproved(
    cli: CommandLine,
) -> None:
    folder = cli.keep(recorded().entries)
    file = folder / "events.jsonl"
    file.write_text(file.read_text().replace("Fix it.", "Fix if."))
    said = cli("view", folder, "--request", "2", "--json")
    assert (said.code, said.json["request"]["proved"]) == (1, False)
    assert said.err.endswith(f"Request 2 (entry 6) is not proved: {NOT_AS_SENT}.\n")
    assert "request 2 to m, not proved" in cli("view", folder, "--request", "2").out
    assert "request 1 to m, proved" in cli("view", folder, "--request", "1").out


def test_a_session_without_records_says_that_there_is_nothing_to_prove(
    cli: CommandLine,
) -> None:
    said = cli("verify", cli.keep(history().turn("hello", "hi").entries))
    assert said.code == 0
    sentence = NO_REQUESTS.format(counts="0 compactions, 2 entries", result=CONSISTENT)
    assert said.out == f"{sentence}\n"


def claude_session(path: Path, *, recorded: bool) -> Path:
    """A session of Claude Code whose first request is not recorded; there may be a second, which is."""
    asked = (
        request_message("user", "Hi"),
        request_message("assistant", "Hello."),
        request_message("user", "On", "Kindly."),
    )
    records = [user("Hi"), piece("m1", text("Hello."))]
    if recorded:
        kindly = rendered("file", "Kindly.")
        records += [
            user("On"),
            kindly,
            *request("r1", *asked, base=""),
            piece("m2", text("Yes.")),
        ]
        records.insert(2, blob(asked[2]))
    path.write_bytes(lines_of(*records))
    return path


def test_another_agents_requests_are_proved_as_far_as_they_are_recorded(
    cli: CommandLine, tmp_path: Path
) -> None:
    older = claude_session(tmp_path / "older.jsonl", recorded=False)
    said = cli("verify", older)
    counts = "0 compactions, 2 entries"
    sentence = UNRECORDED.format(requests="1 request", counts=counts, result=CONSISTENT)
    assert (said.code, said.out) == (0, f"{sentence}\n")
    newer = claude_session(tmp_path / "newer.jsonl", recorded=True)
    said = cli("verify", newer)
    counts = "1 earlier request not recorded, 1 compaction, 8 entries"
    proved = PROVED.format(requests="1 request", counts=counts, result=CONSISTENT)
    assert (said.code, said.out) == (0, f"{proved}\n")


def test_another_agents_request_is_shown_in_the_roles_it_was_sent_in(
    cli: CommandLine, tmp_path: Path
) -> None:
    found = cli(
        "view",
        claude_session(tmp_path / "newer.jsonl", recorded=True),
        "--request",
        "1",
        "--json",
    )
    assert found.json["request"]["proved"] is True
    assert [
        (message["role"], message["content"]) for message in found.json["messages"]
    ] == [
        ("system", "Be useful."),
        ("user", "Hi"),
        ("assistant", "Hello."),
        ("user", "On"),
        ("user", "Kindly."),
    ]


def test_damage_is_a_fault_though_the_rest_is_proved(cli: CommandLine) -> None:
    folder = cli.keep(recorded().entries)
    file = folder / "events.jsonl"
    file.write_bytes(file.read_bytes() + b'{"type":"user","index":8,"par')
    said = cli("verify", folder)
    assert said.code == 1
    assert said.out.splitlines() == [
        "2 requests proved, 0 compactions, 8 entries: 1 fault",
        "1 damaged record (line 10) was left out",
    ]


def test_an_index_used_twice_is_damage(cli: CommandLine) -> None:
    folder = cli.keep(recorded().entries)
    file = folder / "events.jsonl"
    file.write_text(file.read_text().replace('"index":7', '"index":6'))
    said = cli("verify", folder)
    assert said.code == 1
    assert "1 damaged record (line 9) was left out" in said.out


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        (
            '{"type":"undo","index":8,"target":40}',
            f"entry 8 (undo) refers to entry 40, {DOES_NOT_EXIST}",
        ),
        (
            '{"type":"edit","index":8,"target":-3,"action":"pin"}',
            f"entry 8 (edit) refers to entry -3, {DOES_NOT_EXIST}",
        ),
        (
            '{"type":"revert","index":8,"checkpoint":5}',
            f"entry 8 (revert) goes back to checkpoint 5, {DOES_NOT_EXIST}",
        ),
        (
            '{"type":"compaction","index":8,"first_kept_index":99}',
            f"entry 8 (compaction) keeps the view from entry 99, {DOES_NOT_EXIST}",
        ),
        (
            '{"type":"compaction","index":8,"first_kept_index":7,"head":[{"ref":77}]}',
            f"entry 8 (compaction) keeps entry 77, {DOES_NOT_EXIST}",
        ),
        (
            '{"type":"compaction","index":8,"first_kept_index":7,"head":[{"message":{"type":"system"},'
            '"covers":[[1,44]],"inputs":[2]}]}',
            f"entry 8 (compaction) replaced the summary by compaction 2, {DOES_NOT_EXIST}",
        ),
        (
            '{"type":"user","index":8,"parts":"not a list"}',
            f"entry 8 (user) {WRONG_FIELDS}",
        ),
    ],
)
def test_a_reference_that_leads_nowhere_is_named(
    cli: CommandLine, line: str, fault: str
) -> None:
    folder = cli.keep(recorded().entries)
    file = folder / "events.jsonl"
    file.write_text(file.read_text() + line + "\n")
    said = cli("verify", folder)
    assert said.code == 1
    assert fault in said.out.splitlines()


def test_an_entry_of_a_type_of_tomorrow_is_no_fault(cli: CommandLine) -> None:
    folder = cli.keep(recorded().entries)
    file = folder / "events.jsonl"
    file.write_text(file.read_text() + '{"type":"dream","index":8,"of":"sheep"}\n')
    assert cli("verify", folder).code == 0
