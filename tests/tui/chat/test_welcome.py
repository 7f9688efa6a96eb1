"""The empty chat: what it offers, how that is picked, and when it is gone."""

import asyncio
from pathlib import Path

import pytest

from foldline.frontend.commands import key_of
from foldline.history import Session
from foldline.protocol import UserMessage, text_parts
from foldline.tui.chat.welcome import KEYS, PROMPTS
from support.live import live

pytestmark = pytest.mark.slow


@pytest.mark.quick
async def test_a_prompt_is_picked_by_keys_and_goes_out_with_enter(
    tmp_path: Path,
) -> None:
    async with live(tmp_path, "done", size=(80, 24)) as running:
        assert all(prompt in running.text for prompt in PROMPTS)
        assert (
            " · ".join(f"{key_of(command)} {words}" for command, words in KEYS)
            in running.text
        )
        await running.press("tab", "down", "enter")
        assert running.app.chat.prompt.editor.text == PROMPTS[1]
        assert running.app.focused is running.app.chat.prompt.editor
        await running.press("enter")
        await running.at_rest()
        assert PROMPTS[0] not in running.text and f"❯ {PROMPTS[1]}" in running.text
        assert not running.app.chat.welcome.display


async def test_a_prompt_is_picked_by_a_click(tmp_path: Path) -> None:
    async with live(tmp_path, "done", size=(80, 24)) as running:
        row = next(at for at, line in enumerate(running.screen) if PROMPTS[2] in line)
        await running.pilot.click(offset=(8, row))
        await running.pilot.pause()
        assert running.app.chat.prompt.editor.text == PROMPTS[2]


@pytest.mark.quick
async def test_the_last_sessions_of_the_folder_are_offered_and_resumed(
    tmp_path: Path,
) -> None:
    earlier = Session.create(tmp_path)
    await earlier.append(
        UserMessage(parts=text_parts("Why [/nope] does \x1b[2J it hang?"))
    )
    earlier.close()
    async with live(tmp_path, "done", size=(80, 24)) as running:
        await running.until(lambda: "Why [/nope] does" in running.text)
        await running.press("tab", "down", "down", "down", "enter")
        await running.until(lambda: running.app.chat.file == str(earlier.path))
        await running.until(lambda: running.app.sessions == [running.app.chat])


@pytest.mark.parametrize("size", [(40, 10), (60, 18)])
async def test_where_there_is_no_room_the_prompts_stay_last(
    tmp_path: Path, size: tuple[int, int]
) -> None:
    async with live(tmp_path, size=size) as running:
        assert all(prompt[:30] in running.text for prompt in PROMPTS)
        assert "Enter sends" in running.text


async def test_it_is_gone_where_something_was_said_and_for_a_command_of_the_shell(
    tmp_path: Path,
) -> None:
    async with live(tmp_path, size=(80, 24)) as running:
        await running.enter("!echo seen")
        await asyncio.wait_for(running.at_rest(), 60)
        assert not running.app.chat.welcome.display and "echo seen" in running.text


@pytest.mark.parametrize("width", [70, 60])
async def test_a_key_stands_beside_its_word_in_narrow_terminals(
    tmp_path: Path, width: int
) -> None:
    async with live(tmp_path, size=(width, 24)) as running:
        lines = [line.strip() for line in running.screen]
        assert all(f"{key_of(command)} {words}" in lines for command, words in KEYS)
