"""The guide is accurate: its keys are bound, its commands completed, its signs drawn."""

import re
from pathlib import Path

import pytest
from textual.strip import Strip

from foldline.frontend.commands import COMMANDS
from foldline.frontend.key_names import pressed_by
from foldline.tui.app.session_commands import CHANGES_TITLE
from foldline.tui.keys.registry import SCREENS, table_of
from foldline.tui.overlays.rewind import TITLE
from support.chat_app import screen_text
from support.scenes import Scene, scene, shop_api

DOCS = Path(__file__).parents[2] / "docs"
GUIDE = "\n".join(
    (DOCS / f"{page}.md").read_text(encoding="utf-8")
    for page in ("chat", "compaction", "sessions", "permissions")
)
PROSE = re.sub(r"```.*?```", "", GUIDE, flags=re.DOTALL)
SPANS = set(re.findall(r"`([^`\n]+)`", PROSE))
_MODIFIED = re.compile(r"(?:(?:Ctrl|Alt|Shift)\+)+\S+|F\d{1,2}")
TYPED = {
    "Ctrl+A",
    "Ctrl+E",
    "Ctrl+W",
    "Ctrl+U",
    "Ctrl+K",
    "Ctrl+Y",
    "Ctrl+_",
    "Alt+B",
    "Alt+F",
    "Alt+D",
}
"""Keys of the text field, which no table lists."""
OF_THE_SHELL = {"Ctrl+Z"}


def test_every_modified_key_in_the_guide_is_bound() -> None:
    bound = {
        key for screen in SCREENS for each in table_of(screen) for key in each.pressed
    }
    named = {span for span in SPANS if _MODIFIED.fullmatch(span)} - TYPED - OF_THE_SHELL
    assert len(named) > 20
    missing = {
        span
        for span in named
        if (keys := pressed_by(span)) and not {key for _, key in keys} <= bound
    }
    assert not missing


@pytest.mark.slow
async def test_every_command_in_the_guide_is_completed(tmp_path: Path) -> None:
    named = {
        found[1] for span in SPANS if (found := re.match(r"/([a-z]+)(?: |$)", span))
    }
    named.discard("name")  # a placeholder for the reader's own command
    assert len(named) > 15
    known = {
        name
        for each in COMMANDS
        for name in (each.slash and each.id, *getattr(each, "aliases", ()))
    }
    assert named <= known
    made = scene(tmp_path / "shop-api", shop_api())
    async with made.app.run_test(size=(120, 36)) as pilot:
        await made.ready(pilot)
        for name in sorted(named - {"retry"}):  # offered only after a failure
            made.app.chat.prompt.editor.load_text("")
            await pilot.press("/", *name[:-1])
            words = f"/{name}"
            await made.until(
                pilot, lambda words=words: words in "\n".join(screen_text(made.app))
            )


async def test_the_gutter_and_meter_signs_in_the_guide_are_on_the_screen(
    tmp_path: Path,
) -> None:
    explained = GUIDE[
        GUIDE.index("## What the marks say") : GUIDE.index("## The prompt")
    ]
    made = scene(tmp_path / "shop-api", shop_api())
    async with made.app.run_test(size=(120, 36)) as pilot:
        await made.ready(pilot)
        rows = "\n".join(screen_text(made.app))
        for sign in ("┃", "╏", "┊", "▓", "▒", "█", "·"):
            assert f"`{sign}`" in explained and sign in rows, sign


OPENS = {
    "F1": "Help · Chat",
    "F2": "1 History",
    "F3": "1 Cut",
    "F4": "1 Use",
    "Ctrl+P": "What do you want to do?",
    "Ctrl+R": "Earlier prompts",
    "Ctrl+T": "Open sessions",
    "Shift+Tab": "Permissions",
    "/approvals": "Permissions",
    "/context": "1 Use",
    "/diff": CHANGES_TITLE,
    "/jobs": "Background jobs",
    "/rewind": TITLE,
    "/sessions": "Sessions ▸ This folder",
    "/settings": "Context window",
    "/status": "compacts at",
    "/theme": "Choose a theme",
}
"""Keys and commands of the guide, with words on the screen each opens."""


def strips(made: Scene) -> list[Strip]:
    """Return the rows drawn now, of a screen that may not be laid out yet."""
    return made.app.screen._compositor.render_strips()


@pytest.mark.slow
async def test_every_screen_in_the_guide_opens_and_closes_with_esc(
    tmp_path: Path,
) -> None:
    assert OPENS.keys() <= SPANS
    made = scene(
        tmp_path / "shop-api",
        shop_api(),
        summaries=("## Goal\n- shown before it is made",),
    )
    async with made.app.run_test(size=(120, 36)) as pilot:
        await made.ready(pilot)
        chat = made.app.chat
        for named, words in OPENS.items():
            if named.startswith("/"):
                await made.enter(pilot, named)
            else:
                await pilot.press(next(key for _, key in pressed_by(named)))
            await pilot.pause()
            await made.until(
                pilot,
                lambda words=words: any(words in strip.text for strip in strips(made)),
            )
            for _ in range(4):
                if (
                    made.app.screen is not chat
                    or made.app.focused is not chat.prompt.editor
                ):
                    await pilot.press("escape")
            assert made.app.screen is chat, named
