"""The Inspector beside the chat: where it stands, who has the keys, and that a resize keeps the place."""

from pathlib import Path

import pytest
from textual import events

from foldline.tui.browser.inspector.screen import InspectorScreen
from support.live import Live, live

WIDE = (170, 36)


def frames(running: Live) -> int:
    return sum(row.count("┏") for row in running.screen)


async def panel_focused(running: Live) -> None:
    await running.until(lambda: getattr(running.app.focused, "id", "") == "history")


async def test_typing_goes_to_the_prompt_where_it_has_the_focus_and_letters_are_commands_in_the_panel(
    tmp_path: Path,
) -> None:
    async with live(tmp_path, "First", "Second", size=WIDE) as running:
        await running.ask("hi")
        lower = running.app.chat.status.region.y
        await running.press("f2")
        await panel_focused(running)
        assert (
            running.app.screen is running.app.chat
            and running.app.chat.transcript.region.right <= 88
        )
        assert running.app.chat.status.region.y == lower and frames(running) == 1
        await running.press("j", "k")
        assert running.app.chat.prompt.editor.text == ""
        await running.press("escape")
        await running.ask("and more")
        await running.until(
            lambda: running.text.count("Second") == 2
        )  # in the transcript, and in History
        assert frames(running) == 1
        await running.press("f2")
        await running.until(lambda: not running.app.chat.docked.is_used)
        assert running.app.focused is running.app.chat.prompt.editor


@pytest.mark.slow
async def test_tab_goes_from_the_prompt_to_the_transcript_through_the_panels_and_back(
    tmp_path: Path,
) -> None:
    async with live(tmp_path, "First", size=WIDE) as running:
        await running.ask("hi")
        await running.press("f2")
        await panel_focused(running)
        seen = []
        for _ in range(7):
            seen.append(getattr(running.app.focused, "id", ""))
            await running.press("tab")
        assert seen == [
            "history",
            "view",
            "files",
            "editor",
            "transcript",
            "files",
            "history",
        ]


@pytest.mark.slow
async def test_a_resize_across_the_limit_and_maximising_keep_the_place(
    tmp_path: Path,
) -> None:
    async with live(tmp_path, *["First"] * 3, size=WIDE) as running:
        for number in range(3):
            await running.ask(f"prompt {number}")
        await running.press("f2")
        await panel_focused(running)
        await running.press("[", "[")
        marked = next(row for row in running.screen if "▶" in row)
        assert "prompt 1" in marked
        for change in ("narrow", "wide", "m", "m"):
            if change == "m":
                await running.press("m")
            else:
                await running.pilot.resize_terminal(
                    *((120, 36) if change == "narrow" else WIDE)
                )
            full = change == "narrow" or (
                change == "m" and running.app.screen is not running.app.chat
            )
            await running.until(
                lambda full=full: (
                    isinstance(running.app.screen, InspectorScreen) == full
                )
            )
            await running.until(
                lambda: any("▶" in row and "prompt 1" in row for row in running.screen)
            )


@pytest.mark.slow
async def test_a_key_right_behind_the_one_that_opens_it_is_the_panels(
    tmp_path: Path,
) -> None:
    async with live(tmp_path, "First", size=WIDE) as running:
        await running.ask("hi")
        for key in (events.Key("f2", None), events.Key("slash", "/")):
            running.app.post_message(key)
        await running.until(
            lambda: getattr(running.app.focused, "id", "") == "one-line"
        )
        assert running.app.chat.prompt.editor.text == ""
