"""`foldline run` with a plan that nobody is there to accept, and with questions of the model."""

from collections.abc import Iterator
from typing import Any

import pytest

from foldline.history import Session
from support.front_door import FrontDoor
from support.server import MODEL, running_server

PLAN = "# Plan\n\n1. a test\n2. the change"
ASKS = {"name": "ask_user", "arguments": {"question": "Which base?", "choices": ["SQLite", "Postgres"]}}


def rule(content: str, *calls: dict[str, Any]) -> dict[str, Any]:
    return {"when": {"content": content}, "times": 1, "answer": {"tool_calls": [*calls]}}


@pytest.fixture(autouse=True)
def server(door: FrontDoor, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    script = [
        rule("plan it", {"name": "write", "arguments": {"path": "a.txt", "content": "x"}}),
        rule("mode is plan", {"name": "plan", "arguments": {"text": PLAN}}),
        rule("choose", ASKS),
    ]
    with running_server(script=script, then_default=True, strict=True) as running:
        monkeypatch.setenv("OPENAI_BASE_URL", running.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "k")
        monkeypatch.setenv("FOLDLINE_MODEL", MODEL)
        yield running


def test_a_run_with_plan_prints_the_plan_and_changes_nothing(door: FrontDoor, server: Any) -> None:
    said = door("run", "--plan", "--yes", "plan it")
    assert (said.code, said.out) == (0, f"{PLAN}\n")
    assert [*door.cwd.iterdir()] == [] and len(server.requests()) == 2
    [file] = door.home.rglob("plan.md")
    assert file.read_text() == PLAN
    session = Session.open(file.with_name("events.jsonl"))
    assert any("the mode is plan" in getattr(entry, "text", "") for entry in session.entries)


def test_the_last_event_of_a_run_with_plan_holds_it(door: FrontDoor) -> None:
    assert door("run", "--plan", "--json", "plan it").lines[-1]["text"] == PLAN


def test_the_next_run_works_on_in_the_mode_before(door: FrontDoor, server: Any) -> None:
    door("run", "--plan", "plan it")
    assert door("run", "-c", "--yes", "hello").code == 0
    assert "The mode plan is over" in str(server.requests()[-1].messages)


@pytest.mark.parametrize(
    ("lines", "result"),
    [
        ("2\n", "The user chose: Postgres"),
        ("\n  SQLite  \n", "The user chose: SQLite"),
        ("neither\n", "The user answers in their own words: neither"),
        ("", "Nobody is here to answer. Take the likeliest choice, and say which one."),
        (None, "Nobody is here to answer. Take the likeliest choice, and say which one."),
    ],
)
def test_a_question_is_answered_by_the_next_line_of_a_file(
    door: FrontDoor, server: Any, lines: str | None, result: str
) -> None:
    given = []
    if lines is not None:
        (door.cwd / "answers.txt").write_text(lines)
        given = ["--answers", "answers.txt"]
    assert door("run", "choose", *given).code == 0
    assert server.requests()[-1].messages[-1]["content"] == result


def test_answers_that_cannot_be_read_are_said_before_anything_is_sent(door: FrontDoor, server: Any) -> None:
    said = door("run", "choose", "--answers", "nowhere.txt")
    assert said.code == 2
    assert "The answers in nowhere.txt cannot be read: no such file or directory.\n" in said.err
    assert not server.requests()
