"""What waits when the chat ends waits when it opens again."""

from pathlib import Path

from foldline.history import Session
from foldline.protocol import UserMessage
from support.agents import Hang
from support.live import live


async def test_queue_and_draft_are_there_again_and_nothing_is_sent_by_itself(
    tmp_path: Path,
) -> None:
    async with live(tmp_path / "w", "one", Hang()) as running:
        await running.ask("first")
        await running.enter("second")
        await running.llm.silent.wait()
        await running.enter("third")
        await running.enter("fourth")
        await running.type("half a sen")
        path = running.agent.session.path
    assert path is not None
    async with live(
        tmp_path / "w", "three", "four", session=Session.open(path)
    ) as running:
        assert "‖" in running.text and running.editor_text == "half a sen"
        assert running.app.state.waiting.queued == ("third", "fourth")
        assert not running.llm.requests
        running.app.chat.prompt.editor.put("")
        await running.press("enter")
        await running.until(lambda: not running.app.state.waiting.count)
        await running.at_rest()
        asked = [
            entry.text for entry in running.entries if isinstance(entry, UserMessage)
        ]
        assert asked == ["first", "second", "third", "fourth"]
