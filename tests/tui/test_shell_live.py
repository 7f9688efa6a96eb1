"""The user's own shell in the program: live output, queue, Esc, opening in place, resume."""

from pathlib import Path

import pytest

from foldline.protocol import ImagePart, UserMessage
from foldline.tui.app.app import FoldlineApp
from foldline.tui.chat.escape_actions import ESC_CANCELS
from support.images import image
from support.live import Live, live


def commands(running: Live) -> list[str]:
    return [
        entry.text.partition("\n")[0]
        for entry in running.entries
        if isinstance(entry, UserMessage) and entry.origin == "shell"
    ]


async def test_its_output_is_shown_as_it_comes_and_esc_ends_it(tmp_path: Path) -> None:
    async with live(tmp_path / "shop-api", "Hello") as running:
        await running.ask("hi")
        await running.enter("!echo [b]one; sleep 1000")
        await running.until(lambda: " ┃   [b]one" in running.text)
        assert (
            "Running · ! echo [b]one; sleep 1000" in running.text
            and ESC_CANCELS in running.text
        )
        live_row = next(
            row for row in running.transcript_rows() if row.startswith("! echo")
        )
        assert live_row.endswith("…")
        await running.enter("!echo later")
        assert "1 queued" in running.text
        await running.press("escape")
        await running.at_rest()
        assert (
            "cancelled ✗" in running.text and "[cancelled by the user" in running.text
        )
        assert "‖" in running.text, "what waits is paused"
        await running.press("enter")
        await running.until(lambda: "$ echo later" in commands(running))
        await running.at_rest()
        rows = running.transcript_rows()
        at = next(at for at, row in enumerate(rows) if row.startswith("! echo later"))
        assert "exit 0" in rows[at] and rows[at + 1].strip() == "later"
        assert len([row for row in rows if row.startswith("! ")]) == 2, (
            "nothing of the live row is left"
        )


@pytest.mark.slow
async def test_a_long_output_shows_its_end_and_opens_in_place(tmp_path: Path) -> None:
    async with live(tmp_path / "shop-api") as running:
        await running.enter("!seq 100; exit 2")
        await running.until(lambda: "exit 2 ✗" in running.text)
        await running.at_rest()
        assert "… 88 more lines above" in running.text and "100" in running.text
        (block,) = [block for block in running.blocks if "seq 100" in block.text()]
        running.app.chat.transcript.focus()
        running.app.chat.transcript.cursor_to(block.key)
        await running.press("enter")
        await running.until(
            lambda: "\n ┃   2\n" in running.text or "\n ┃   2 " in running.text
        )
        await running.press("enter")
        await running.until(lambda: "more lines above" in running.text)


@pytest.mark.slow
async def test_a_resumed_session_shows_and_recalls_commands_and_pictures(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "shop-api"
    folder.mkdir()
    (folder / "shot.png").write_bytes(image("png", 320, 200))
    async with live(folder, "A red button") as running:
        await running.ask("!echo first")
        await running.ask("What is on @shot.png?")
        assert "❯ What is on [picture 1: shot.png 320×200]?" in running.text
        sent = [entry for entry in running.entries if isinstance(entry, UserMessage)][
            -1
        ]
        assert any(isinstance(part, ImagePart) for part in sent.parts)
        app = FoldlineApp(lambda: running.agent, root=folder)
        async with app.run_test(size=(120, 36)) as pilot:
            again = Live(app, pilot, running.llm, running.agent)
            await again.until(lambda: app.runner is not None)
            assert "! echo first" in again.text
            await again.press("up")
            prompt = app.chat.prompt
            assert again.editor_text == "What is on [picture 1: shot.png 320×200]?"
            assert prompt.attachments.parts(again.editor_text) == sent.parts
            await again.press("up")
            assert again.editor_text == "!echo first"
