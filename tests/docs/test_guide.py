"""The guide names what there is: keys that are bound, commands that are completed, marks that are drawn."""

import re
from pathlib import Path

from foldline.tui.keys.commands import COMMANDS
from foldline.tui.keys.names import pressed_by
from foldline.tui.keys.registry import SCREENS, table_of
from support.chat_app import screen_text
from support.scenes import scene, shop_api

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
