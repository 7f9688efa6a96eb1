"""`foldline view` and `foldline history`."""

import json
from pathlib import Path

import pytest

from foldline.cli.view import UNKNOWN_DIALECT
from foldline.compaction.summary_text import framed
from foldline.past.proof import digest_of
from foldline.protocol import Compaction, RequestRecord, Title, Usage, Written
from support.codex_rows import META, answer, prompt, row, usage
from support.command_line import CommandLine
from support.history import History, call, history

HOSTILE = "\x1b]0;owned\x07\x1b[2J\u202egnp.exe\r\x9b31m"


def compacted() -> History:
    """Two turns, the first of them compacted into a summary."""
    return (
        history()
        .system("You are Foldline.")
        .user("Why does the login fail?")
        .step("read", "def login(): ...", path="src/login.py")
        .assistant("The token is stale.")
        .user("Fix it.")
        .assistant("Fixed.")
        .add(
            Compaction(
                summary="## Goal\n- login works",
                first_kept_index=5,
                head=(
                    Written(message=framed("## Goal\n- login works"), covers=((1, 4),)),
                ),
                strategy="SummaryCompaction",
                tokens_before=900,
                tokens_after=90,
            )
        )
    )


def test_view_json_aligns_its_items_with_the_view(cli: CommandLine) -> None:
    said = cli("view", cli.keep(compacted().entries), "--json")
    assert said.code == 0
    items = [(item["index"], item["kind"], item["fate"]) for item in said.json["items"]]
    assert items == [
        (0, "system", "live"),
        (7, "summary", "live"),
        (5, "user", "live"),
        (6, "assistant", "live"),
    ]
    assert [message["role"] for message in said.json["messages"]] == [
        "system",
        "system",
        "user",
        "assistant",
    ]
    assert "login works" in said.json["messages"][1]["content"]
    assert said.json["tokens"] > 0
    assert said.json["window"] > 0
    assert all(
        item["tokens"] > 0 and isinstance(item["estimated"], bool)
        for item in said.json["items"]
    )


def answered(model: str, reported: int) -> History:
    """A session of another agent, whose newest request was so large."""
    usage = Usage(input=reported, output=5)
    return (
        history()
        .user("Why does the login fail?")
        .assistant("It is stale.", usage=usage, model=model)
    )


@pytest.mark.parametrize(
    ("model", "reported", "window", "assumed"),
    [
        ("claude-opus-4-5", 60_000, 200_000, False),
        ("claude-opus-4-5", 350_000, 350_005, False),
        ("never-heard-of", 900, 32_768, True),
        ("never-heard-of", 137_000, 137_005, True),
    ],
)
def test_a_window_is_at_least_what_went_through_and_says_when_it_is_assumed(
    cli: CommandLine, model: str, reported: int, window: int, assumed: bool
) -> None:
    folder = cli.keep(answered(model, reported).entries)
    view = cli("view", folder, "--json").json
    assert (view["window"], view["window_assumed"]) == (window, assumed)
    assert ("k (assumed) " in cli("view", folder).out) is assumed


def test_a_foreign_file_that_tells_its_window_is_measured_against_it(
    cli: CommandLine, tmp_path: Path
) -> None:
    rows = (
        META,
        row("turn_context", model="gpt-5.6-sol"),
        *prompt("hi"),
        *answer("hello"),
    )
    file = tmp_path / "rollout.jsonl"
    told = [*rows, usage(13, window=258_400)]
    file.write_text("".join(json.dumps(each) + "\n" for each in told), encoding="utf-8")
    assert cli("view", file, "--json").json["window"] == 258_400
    assert cli("compact", file, "--json", "--dry-run").json["window"] == 258_400
    [copy] = [cli("import", file, "--json").json["id"]]
    view = cli("view", copy, "--json").json
    assert (view["window"], view["window_assumed"]) == (258_400, False)


def test_the_view_at_an_entry_is_the_compaction_of_the_shorter_history(
    cli: CommandLine,
) -> None:
    folder = cli.keep(compacted().entries)
    earlier = cli("view", folder, "--at", "4", "--json").json
    assert [item["index"] for item in earlier["items"]] == [0, 1, 2, 3, 4]
    assert cli("view", folder, "--at", "99").code == 1
    assert "its entries are 0 to 7" in cli("view", folder, "--at", "99").err


def test_the_view_of_a_request_ends_before_its_answer(cli: CommandLine) -> None:
    folder = cli.keep(compacted().entries)
    second = cli("view", folder, "--request", "2", "--json").json
    assert [item["index"] for item in second["items"]] == [0, 1, 2, 3]
    assert "its requests are 1 to 3" in cli("view", folder, "--request", "4").err
    assert cli("view", folder, "--request", "0").code == 1


def test_without_records_the_view_of_a_request_is_said_to_be_no_more_than_the_history_gives(
    cli: CommandLine,
) -> None:
    said = cli("view", cli.keep(compacted().entries), "--request", "2")
    assert said.code == 0
    assert "does not record requests" in said.err
    assert "request 2 ·" in said.out.splitlines()[0]


@pytest.mark.parametrize(
    ("dialect", "roles"),
    [
        ("openai", ["system", "system", "user", "assistant", "user"]),
        ("strict", ["system", "user", "assistant", "user"]),
        ("offline", ["system", "system", "user", "assistant", "user"]),
    ],
)
def test_a_request_is_rendered_as_its_record_says(
    cli: CommandLine, dialect: str, roles: list[str]
) -> None:
    story = compacted().user("And now?")
    messages = [item.message for item in story.projection().view]
    record = RequestRecord(
        digest=digest_of(messages),
        model="m",
        dialect=dialect,
        after=story.last,
        view_items=len(messages),
    )
    said = cli(
        "view",
        cli.keep(story.assistant("Done.").add(record).entries),
        "--request",
        "1",
        "--json",
    )
    assert said.code == 0
    assert [message["role"] for message in said.json["messages"]] == roles
    assert said.json["request"] == {
        "number": 1, "entry": 10, "model": "m", "dialect": dialect, "digest": record.digest, "proved": True,
    }  # fmt: skip


def test_a_dialect_nobody_here_knows_is_said(cli: CommandLine) -> None:
    story = history().user("hello")
    record = RequestRecord(
        digest=digest_of([item.message for item in story.projection().view]),
        model="m",
        dialect="my-own",
    )
    said = cli("view", cli.keep(story.add(record).entries), "--request", "1", "--json")
    assert said.code == 0
    assert UNKNOWN_DIALECT.format(dialect="my-own") in said.err


def test_a_failed_request_counts_and_an_answered_one_counts_once(
    cli: CommandLine,
) -> None:
    record = RequestRecord(digest="d", model="m", usage=Usage(input=5, output=1))
    entries = (
        history()
        .user("one")
        .add(record.model_copy(update={"error": "overflow"}))
        .assistant("first answer")
        .add(record)
        .user("two")
        .assistant("second answer")
        .add(record)
        .entries
    )
    folder = cli.keep(entries)
    sizes = [
        len(cli("view", folder, "--request", str(nth), "--json").json["items"])
        for nth in (1, 2, 3)
    ]
    assert sizes == [1, 1, 3]
    assert cli("view", folder, "--request", "4").code == 1


def test_a_call_without_a_result_is_shown_paired(cli: CommandLine) -> None:
    folder = cli.keep(
        history().user("go").assistant(calls=[call("bash", command="ls")]).entries
    )
    said = cli("view", folder, "--json").json
    assert said["messages"][-1]["role"] == "tool"
    assert "interrupted" in said["messages"][-1]["content"]
    assert len(said["items"]) == 2


def test_the_text_view_shows_marks_numbers_and_words(cli: CommandLine) -> None:
    said = cli("view", cli.keep(compacted().entries))
    lines = said.out.splitlines()
    assert "LLM view, now · 4 items" in lines[0]
    assert lines[1].split() == ["state", "no.", "kind", "item", "outcome", "tokens"]
    assert lines[3].startswith("  ┊")
    assert "summary" in lines[3]
    assert "of 1–4" in lines[3]
    assert "\x1b" not in said.out


def test_history_json_is_one_line_an_entry_with_its_fate(cli: CommandLine) -> None:
    said = cli(
        "history", cli.keep(compacted().add(Title(title="Login")).entries), "--json"
    )
    rows = said.lines
    assert [row["index"] for row in rows] == list(range(9))
    assert [row["fate"] for row in rows] == [
        "live", "summarised", "summarised", "summarised", "summarised", "live", "live", "live", "aside",
    ]  # fmt: skip
    assert rows[1]["by"] == 7
    assert rows[0]["by"] is None
    assert rows[3]["preview"].startswith("src/login.py")
    assert {"index", "type", "fate", "by", "tokens", "preview"} <= rows[0].keys()
    assert rows[7]["type"] == "compaction"
    assert rows[7]["tokens"] > 0


def test_the_text_history_shows_every_entry_once(cli: CommandLine) -> None:
    said = cli("history", cli.keep(compacted().entries))
    lines = said.out.splitlines()
    assert len(lines) == 2 + 8
    assert "8 entries · 1 compaction" in lines[0]
    assert lines[3].split()[:4] == ["S┊", "7", "1", "user"]
    assert "0.9k → 90" in lines[-1]


@pytest.mark.parametrize("command", ["view", "history"])
@pytest.mark.parametrize("options", [(), ("--json",)])
def test_control_characters_of_foreign_text_never_reach_the_terminal(
    cli: CommandLine, command: str, options: tuple[str, ...]
) -> None:
    entries = (
        history()
        .user(HOSTILE)
        .assistant(HOSTILE, calls=[call(HOSTILE, path=HOSTILE)])
        .result(HOSTILE)
        .add(Title(title=HOSTILE))
        .entries
    )
    said = cli(command, cli.keep(entries), *options)
    assert said.code == 0
    assert not set(said.out) & set("\x1b\x07\r\x9b\u202e")


def test_a_torn_session_is_read_with_a_note(cli: CommandLine) -> None:
    folder = cli.keep(compacted().entries)
    events = folder / "events.jsonl"
    events.write_bytes(events.read_bytes() + b'{"type":"user","index":8,"par')
    said = cli("history", folder, "--json")
    assert said.code == 0
    assert len(said.lines) == 8
    assert "1 damaged record" in said.err


def test_sessions_are_found_by_the_end_of_their_id(cli: CommandLine) -> None:
    cli.keep(compacted().entries, "20260101-000000-aaaaaa")
    cli.keep(compacted().entries, "20260101-000000-bbbbbb")
    assert cli("view", "bbbbbb").code == 0
    ambiguous = cli("view", "20260101")
    assert ambiguous.code == 1
    assert "'20260101' matches 2 sessions" in ambiguous.err
    assert "no session 'zzz'" in cli("view", "zzz").err


def test_an_empty_session_is_said_to_be_empty(cli: CommandLine) -> None:
    folder = cli.keep(history().add(Title(title="Nothing yet")).entries)
    said = cli("view", folder)
    assert (said.code, said.out) == (0, "")
    assert "the view is empty" in said.err
    assert cli("view", folder, "--json").json["messages"] == []
