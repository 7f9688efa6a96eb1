"""A walk through every screen there is, at every size: rows of the right width, one heavy frame, a way out.

Screens are found through the registry of commands: a new one is walked to without a word here.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import filterfalse
from pathlib import Path

from rich.cells import cell_len
from textual.pilot import Pilot

from foldline.frontend.commands import COMMANDS
from support.scenes import Scene, scene, shop_api
from support.stories import screen_rows

TOO_SMALL = (39, 9)
SIZES = [(40, 10), (60, 20)]
IN_ASCII = (80, 24)
ELSEWHERE = {
    "quit",
    "fork",
    "new",
    "init",
    "retry",
    "undo",
    "clear",
    "editor",
    "compact",
}
"""Commands that open no screen, and would change or leave the session that is walked through."""
WAYS_OUT = ("Esc", "F2")


def walked() -> list[str]:
    return [
        c.id
        for c in COMMANDS
        if c.id == "palette"
        or (c.palette and c.place != "prompt" and c.id not in ELSEWHERE)
    ]


def faults(rows: list[str], width: int, height: int) -> Iterator[str]:
    """What is wrong with a screen of this size."""
    if len(rows) != height:
        yield f"{len(rows)} rows"
    for number, row in enumerate(rows):
        if cell_len(row) != width:
            yield f"row {number} takes {cell_len(row)} cells: {row!r}"
    text = "\n".join(rows)
    if (width, height) == TOO_SMALL:
        if text.split() != ["Too", "small:", "needs", "40x10"]:
            yield "it does not say that it is too small"
        return
    for corner in "┏┓┗┛":
        if text.count(corner) > 1:
            yield f"{text.count(corner)} corners {corner}"
    for above, below in ("┏┗", "┓┛", "┌└", "┐┘"):
        if above in "┏┓" and text.count(above) != text.count(below):
            yield f"a frame with {text.count(above)} {above} and {text.count(below)} {below}"
    if not any(way in text for way in WAYS_OUT):
        yield "no way out is said"


def other_signs(rows: list[str], width: int, height: int) -> Iterator[str]:
    """What is no ASCII."""
    yield from sorted(set(filterfalse(str.isascii, "".join(rows))))
    if any(cell_len(row) != width for row in rows):
        yield "a sign of another width"


async def walk(scene: Scene, pilot: Pilot[None]) -> dict[str, list[str]]:
    """What is wrong with the screens behind all commands, by command and size; the last size is in ASCII."""
    found: dict[str, list[str]] = {}
    app, chat = scene.app, scene.app.chat
    seen = {type(chat)}
    for command in walked():
        chat.run_command(command)
        await scene.until(pilot, lambda: app.chat.presenter.settled)
        is_new = type(app.screen) not in seen
        seen.add(type(app.screen))
        for width, height in (TOO_SMALL, *SIZES, IN_ASCII) if is_new else ():
            is_ascii = (width, height) == IN_ASCII
            app.use_charset("marks" if is_ascii else "unicode")
            await pilot.resize_terminal(width, height)
            await pilot.pause()
            wrong = list(
                (other_signs if is_ascii else faults)(
                    screen_rows(scene.app), width, height
                )
            )
            if wrong:
                found[f"{command} {width}x{height}"] = wrong
        for _ in range(4):
            if app.screen is not chat:
                await pilot.press("escape")
        if app.screen is not chat:
            found[command] = [*found.get(command, ()), "Esc does not leave it"]
            while app.screen is not chat:
                app.pop_screen()
    return found


async def test_every_screen_at_every_size_and_in_ascii(tmp_path: Path) -> None:
    shown = scene(tmp_path / "shop-api", shop_api())
    shown.llm.info = replace(
        shown.llm.info, provider="offline"
    )  # which its own screens know
    async with shown.app.run_test(size=(120, 36)) as pilot:
        await shown.ready(pilot)
        found = await walk(shown, pilot)
        in_chat = list(other_signs(screen_rows(shown.app), *IN_ASCII))
    assert not found, "\n".join(f"{place}: {wrong}" for place, wrong in found.items())
    assert not in_chat
