"""`foldline run` with a plan that nobody is there to accept, and with questions of the model."""

from collections.abc import Iterator
from typing import Any

import pytest

from foldline.agent.session.plan import NO_USER, OWN_WORDS
from foldline.agent.turn.calls import REFUSED
from foldline.agent.turn.reminders import PLAN_MODE_OVER
from foldline.history import Session
from support.command_line import CommandLine
from support.server import MODEL, running_server

PLAN = "# Plan\n\n1. a test\n2. the change"
ASKS = {
    "name": "ask_user",
    "arguments": {"question": "Which base?", "choices": ["SQLite", "Postgres"]},
}


def rule(content: str, *calls: dict[str, Any]) -> dict[str, Any]:
    return {
        "when": {"content": content},
        "times": 1,
        "answer": {"tool_calls": [*calls]},
    }


@pytest.fixture(autouse=True)
def server(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    script = [
        rule(
            "plan it", {"name": "write", "arguments": {"path": "a.txt", "content": "x"}}
        ),
        rule("in plan mode", {"name": "plan", "arguments": {"text": PLAN}}),
        rule("choose", ASKS),
    ]
    with running_server(script=script, then_default=True, strict=True) as running:
        monkeypatch.setenv("OPENAI_BASE_URL", running.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "k")
        monkeypatch.setenv("FOLDLINE_MODEL", MODEL)
        yield running


def test_a_run_with_plan_prints_the_plan_and_changes_nothing(
    cli: CommandLine, server: Any
) -> None:
    said = cli("run", "--plan", "--yes", "plan it")
    assert (said.code, said.out) == (0, f"{PLAN}\n")
    assert [*cli.cwd.iterdir()] == [] and len(server.requests()) == 2
    [file] = cli.home.rglob("plan.md")
    assert file.read_text() == PLAN
    session = Session.open(file.with_name("events.jsonl"))
    assert any(
        REFUSED["plan"] in getattr(entry, "text", "") for entry in session.entries
    )


def test_the_last_event_of_a_run_with_plan_holds_it(cli: CommandLine) -> None:
    assert cli("run", "--plan", "--json", "plan it").lines[-1]["text"] == PLAN


def test_the_next_run_works_on_in_the_mode_before(
    cli: CommandLine, server: Any
) -> None:
    cli("run", "--plan", "plan it")
    assert cli("run", "-c", "--yes", "hello").code == 0
    assert PLAN_MODE_OVER in str(server.requests()[-1].messages)


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize(
    ("lines", "result"),
    [
        ("2\n", "The user chose: Postgres"),
        ("\n  SQLite  \n", "The user chose: SQLite"),
        ("neither\n", OWN_WORDS.format(answer="neither")),
        ("", NO_USER),
        (None, NO_USER),
    ],
)
def test_a_question_is_answered_by_the_next_line_of_a_file(
    cli: CommandLine, server: Any, lines: str | None, result: str
) -> None:
    given = []
    if lines is not None:
        (cli.cwd / "answers.txt").write_text(lines)
        given = ["--answers", "answers.txt"]
    assert cli("run", "choose", *given).code == 0
    assert server.requests()[-1].messages[-1]["content"] == result


def test_answers_that_cannot_be_read_are_said_before_anything_is_sent(
    cli: CommandLine, server: Any
) -> None:
    said = cli("run", "choose", "--answers", "nowhere.txt")
    assert said.code == 2
    assert "nowhere.txt cannot be read: no such file or directory.\n" in said.err
    assert not server.requests()
