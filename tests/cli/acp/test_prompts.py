"""Prompts of an editor, and what it is told of their answers. The agent runs in its own process."""

from pathlib import Path

import pytest
from acp import schema

from support.editor import editing

OFFLINE = ("-m", "offline")


async def test_an_answer_is_streamed_and_ends_the_turn(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("remember the milk\n")
    async with editing(*OFFLINE, home=tmp_path / "home") as editor:
        session = await editor.new(tmp_path)
        answer = await editor.say(session, "read notes.txt")
        assert answer.stop_reason == "end_turn"
        assert "remember the milk" in editor.text()
        print(editor.calls(), editor.updates)
        assert editor.check_trace() > 5
