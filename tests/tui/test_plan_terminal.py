"""A question of the model, and a plan, in the real program in a real terminal."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from foldline.agent.permissions.approvals import ANSWER_FREELY
from foldline.agent.session.plan import OWN_WORDS
from foldline.history import Session
from foldline.protocol import ToolResultMessage
from support.server import MODEL, running_server
from support.terminal import Terminal, terminal

pytestmark = pytest.mark.slow
PLAN = "# Orders\n\n1. a unique index\n2. insert first"
ASKS = {
    "name": "ask_user",
    "arguments": {"question": "Which base?", "choices": ["SQLite", "Postgres"]},
}
ONE_SECOND = 1.1
"""In which a question takes no answer."""


@contextmanager
def working(folder: Path, *calls: dict[str, Any], **env: str) -> Iterator[Terminal]:
    script = [
        {"when": {"content": f"do {nth}"}, "times": 1, "answer": {"tool_calls": [each]}}
        for nth, each in enumerate(calls)
    ]
    with running_server(script=script, then_default=True) as server:
        given = {
            "OPENAI_BASE_URL": server.base_url,
            "OPENAI_API_KEY": "k",
            "FOLDLINE_MODEL": MODEL,
        }
        with terminal(folder, columns=80, rows=24, **given, **env) as term:
            term.until("Enter sends")
            yield term


def held(folder: Path) -> Session:
    [file] = (folder.parent / f"{folder.name}-home").rglob("events.jsonl")
    return Session.open(file)


def results(folder: Path) -> list[str]:
    return [
        entry.text
        for entry in held(folder).entries
        if isinstance(entry, ToolResultMessage)
    ]


def test_a_question_stands_in_the_prompts_place_and_is_answered_by_row_or_in_own_words(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "shop"
    with working(folder, ASKS, ASKS) as term:
        term.ask("do 0", wait=False)
        term.until(f"3 {ANSWER_FREELY}")
        assert "Which base?" in term.text and "1 SQLite" in term.text
        term.lives_for(ONE_SECOND)
        term.send("\x1b[B\x1b[B\r")  # the second row
        term.until("Enter sends")
        term.ask("do 1", wait=False)
        term.until(f"3 {ANSWER_FREELY}")
        term.lives_for(ONE_SECOND)
        term.send("3")
        term.until("Enter done")
        term.send("a file\r")
        term.until("Enter sends")
    assert results(folder) == [
        "The user chose: Postgres",
        OWN_WORDS.format(answer="a file"),
    ]


def test_a_plan_is_edited_accepted_and_pinned_and_the_mode_before_comes_back(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "shop"
    editor = tmp_path / "editor"
    editor.write_text("#!/bin/sh\nprintf '3. and a test\\n' >> \"$1\"\n")
    editor.chmod(0o700)
    hand_in = {"name": "plan", "arguments": {"text": PLAN}}
    with working(folder, hand_in, VISUAL=str(editor)) as term:
        term.send("/plan\r")
        term.until("mode: plan")
        term.ask("do 0", wait=False)
        term.until("3 No, and say why")
        assert "2. insert first" in term.text
        term.lives_for(ONE_SECOND)
        term.send("2")
        term.until("3. and a test")
        term.lives_for(ONE_SECOND)
        term.send("1")
        term.until("Enter sends")
        term.until(lambda seen: "mode: plan" not in seen.text)
    [item] = [
        item for item in held(folder).projection.view if item.outline.origin == "plan"
    ]
    assert item.pinned and item.message.text.endswith(f"{PLAN}3. and a test")
