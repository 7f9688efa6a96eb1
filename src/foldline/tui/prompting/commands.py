"""The chat's commands about the prompt: pictures, long pastes, earlier prompts."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from foldline.tui.widgets.prompt import Prompt

if TYPE_CHECKING:
    from foldline.tui.prompting.earlier import EarlierPrompts


def prompt_commands(prompt: Prompt, root: Path | None) -> dict[str, Callable[[str], None]]:
    """By command, what carries it out. `root` is the folder whose sessions are searched as well."""
    return {
        "paste-picture": lambda _: prompt.attaching.paste_picture(),
        "open-paste": lambda _: prompt.attaching.open_paste(),
        "search-prompts": lambda _: _search(prompt, root),
    }


def _search(prompt: Prompt, root: Path | None) -> None:
    """Earlier prompts, by what is in them: those of this session first, then those of the folder's others."""
    from foldline.tui.prompting.earlier import EarlierPrompts

    if isinstance(prompt.app.screen, EarlierPrompts):
        return
    screen = EarlierPrompts(prompt.recalled, root, above=prompt.size.height + _ROWS_BELOW)
    prompt.app.push_screen(screen, partial(_take, prompt, screen))


_ROWS_BELOW = 3
"""Meter, status row and hints."""


def _take(prompt: Prompt, screen: "EarlierPrompts", taken: str | None) -> None:
    if taken is not None:
        prompt.take_earlier(screen.text_of(taken))
