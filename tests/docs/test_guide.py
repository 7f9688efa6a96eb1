"""The guide names what there is: keys that are bound, commands that are completed, marks that are drawn."""

import re
from pathlib import Path

from textual.strip import Strip

from foldline.tui.keys.commands import COMMANDS
from foldline.tui.keys.names import pressed_by
from foldline.tui.keys.registry import SCREENS, table_of
from support.chat_app import screen_text
from support.scenes import Scene, scene, shop_api

GUIDE = (Path(__file__).parents[2] / "docs" / "guide.md").read_text(encoding="utf-8")
PROSE = re.sub(r"```.*?```", "", GUIDE, flags=re.DOTALL)
SPANS = set(re.findall(r"`([^`\n]+)`", PROSE))
_MODIFIED = re.compile(r"(?:(?:Ctrl|Alt|Shift)\+)+\S+|F\d{1,2}")
TYPED = {"Ctrl+A", "Ctrl+E", "Ctrl+W", "Ctrl+U", "Ctrl+K", "Ctrl+Y", "Ctrl+_", "Alt+B", "Alt+F", "Alt+D"}
"""Keys of the text field, which are in no table."""
OF_THE_SHELL = {"Ctrl+Z"}


def test_every_key_with_a_modifier_that_the_guide_names_is_bound() -> None:
    bound = {key for screen in SCREENS for each in table_of(screen) for key in each.pressed}
    named = {span for span in SPANS if _MODIFIED.fullmatch(span)} - TYPED - OF_THE_SHELL
    assert len(named) > 20
    missing = {span for span in named if (keys := pressed_by(span)) and not {key for _, key in keys} <= bound}
    assert not missing


async def test_every_command_that_the_guide_names_is_completed(tmp_path: Path) -> None:
    named = {found[1] for span in SPANS if (found := re.match(r"/([a-z]+)(?: |$)", span))}
    named.discard("name")  # stands for one of the reader's own
    assert len(named) > 15
    known = {name for each in COMMANDS for name in (each.slash and each.id, *getattr(each, "aliases", ()))}
    assert named <= known
    made = scene(tmp_path / "shop-api", shop_api())
    async with made.app.run_test(size=(120, 36)) as pilot:
        await made.ready(pilot)
        for name in sorted(named - {"retry"}):  # which is offered only where something failed
            made.app.chat.prompt.editor.load_text("")
            await pilot.press("/", *name[:-1])
            words = f"/{name}"
            await made.until(pilot, lambda words=words: words in "\n".join(screen_text(made.app)))


async def test_the_signs_of_gutter_and_meter_that_the_guide_explains_are_on_the_screen(
    tmp_path: Path,
) -> None:
    explained = GUIDE[GUIDE.index("## What the marks say") : GUIDE.index("## The prompt")]
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
    "/cost": "Cost of this session",
    "/diff": "Changed since the session began",
    "/jobs": "Background jobs",
    "/rewind": "Rewind to right before",
    "/sessions": "1 This folder",
    "/settings": "type to find a setting",
    "/status": "compacts at",
    "/theme": "Choose a theme",
    "/tree": "the beginning of the session",
}
"""Keys and commands of the guide, and words of what each opens."""


def strips(made: Scene) -> list[Strip]:
    """The rows that are drawn now, of a screen that may not be laid out yet."""
    return made.app.screen._compositor.render_strips()


async def test_what_the_guide_says_opens_something_opens_it_and_esc_leads_back(tmp_path: Path) -> None:
    assert OPENS.keys() <= SPANS
    made = scene(tmp_path / "shop-api", shop_api(), summaries=("## Goal\n- shown before it is made",))
    async with made.app.run_test(size=(120, 36)) as pilot:
        await made.ready(pilot)
        chat = made.app.chat
        for named, words in OPENS.items():
            if named.startswith("/"):
                await made.enter(pilot, named)
            else:
                await pilot.press(next(key for _, key in pressed_by(named)))
            await pilot.pause()
            await made.until(pilot, lambda words=words: any(words in strip.text for strip in strips(made)))
            for _ in range(4):
                if made.app.screen is not chat or made.app.focused is not chat.prompt.editor:
                    await pilot.press("escape")
            assert made.app.screen is chat, named
