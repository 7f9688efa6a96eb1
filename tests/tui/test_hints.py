"""Every key hint on every screen is a button: a click on it presses its key, where that key works."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from rich.cells import cell_len
from textual import events
from textual.pilot import Pilot
from textual.screen import ModalScreen
from textual.widgets import Input, TextArea

from foldline.tui.blocks.view import BlockView
from foldline.tui.chat.escape_actions import QUIT_WARNING
from foldline.tui.chat.question import QuestionDock
from foldline.tui.chat.welcome import Welcome
from foldline.tui.lists.page import TextScreen
from foldline.tui.lists.screen import ListBox
from support import scenes
from support.agents import tool_reply
from support.limits import few
from support.scenes import Scene, scene, shop_api

pytestmark = pytest.mark.slow

NAMED = re.compile(
    r"(?<![\w+/-])(?:Enter|Esc|Tab|Space|PgUp|PgDn|Home|End|Del|F[1-9]\d?|(?:Ctrl|Alt|Shift)\+\S+?)(?![\w/-])"
)
"""What looks as the name of a key."""
PROSE = (
    *(f"Alt+{letter} ┃" for letter in "YAPN"),
    "Alt+A or Alt+P to always",
    "Alt+P to always",
    "Enter: ",
    QUIT_WARNING.removeprefix("Press "),
    "Enter cuts at",
    "Enter edits the text",
)
"""Sentences, and none of them a hint, that begin with one."""


class Hint(NamedTuple):
    key: str
    x: int
    y: int
    """Where it begins on the screen."""


def hints_and_dead(app: Any) -> tuple[list[Hint], list[str]]:
    """The buttons of the screen in front, and what is called as a key there but is no button."""
    found: list[Hint] = []
    dead: list[str] = []
    for y, strip in enumerate(app.screen._compositor.render_strips()):
        keys = [(char, _key(style)) for text, style, _ in strip for char in text]
        cells = [0]
        for char, _ in keys:
            cells.append(cells[-1] + cell_len(char))
        row = "".join(char for char, _ in keys)
        before = ""
        for at, (_, key) in enumerate(keys):
            if key and key != before:
                found.append(Hint(key, cells[at], y))
            before = key
        for match in NAMED.finditer(row):
            x = cells[match.start()]
            if (
                not keys[match.start()][1]
                and _is_drawn_by_us(app, x, y)
                and not _prose(row[match.start() :])
            ):
                dead.append(
                    f"{y}: {row[max(match.start() - 30, 0) : match.end() + 30]!r}"
                )
    return found, dead


def _key(style: Any) -> str:
    return "" if style is None else str(style.meta.get("key", ""))


def _is_drawn_by_us(app: Any, x: int, y: int) -> bool:
    """Not an entry, nor a row of a list, of which a click opens or marks the whole."""
    widget, region = app.screen.get_widget_at(x, y)
    if isinstance(widget, ListBox):
        listed = isinstance(widget._owner, TextScreen) and y != region.bottom - 1
        return not listed and y - region.y not in getattr(widget._owner, "seen", ())
    return not isinstance(
        widget, BlockView | ModalScreen
    )  # below a modal screen another one is seen


def _prose(rest: str) -> bool:
    return rest.startswith(PROSE)


async def dead_hints(made: Scene, pilot: Pilot[None]) -> Iterator[str]:
    """What is wrong with the hints of the screen in front: called as a key and no button, or another key."""
    app, came = made.app, list[tuple[str, str | None, Any]]()
    focused = app.focused
    hints, dead = hints_and_dead(app)
    assert hints, "every screen has some"
    on_event = type(app).on_event

    async def swallow(event: events.Event) -> None:
        if isinstance(event, events.Key):
            typed = event.character if event.is_printable else None
            came.append((event.key, typed, app.focused))
        else:
            await on_event(app, event)

    app.on_event = swallow
    try:
        for hint in hints:
            app.screen.set_focus(focused)
            await pilot.pause()
            came.clear()
            await pilot.click(offset=(hint.x, hint.y))
            clicked = list(came)
            came.clear()
            await pilot.press(hint.key)
            if (
                clicked != came
                or len(came) != 1
                or (
                    isinstance(focused, Input)
                    and isinstance(came[0][2], ListBox | QuestionDock)
                )
            ):
                dead.append(f"{hint}: the click gives {clicked}, the key {came}")
            elif not _works(app, hint.key):
                dead.append(
                    f"{hint}: its key does nothing here, focus on {app.focused}"
                )
    finally:
        del app.on_event
    return iter(dead)


def _works(app: Any, key: str) -> bool:
    """Whether anything takes this key: a binding, or what has the focus and reads keys itself."""
    reads = isinstance(app.focused, TextArea | Input | QuestionDock | Welcome)
    return (
        key in app.screen.active_bindings
        or reads
        or getattr(app.screen, "question", None) is not None
    )


OPENED = (
    "inspector",
    "preview",
    "context",
    "sessions",
    "rewind",
    "diff",
    "approvals",
    "jobs",
    "settings",
    "model",
    "help",
    "palette",
    "theme",
)


@pytest.mark.parametrize("size", few([(80, 24), (200, 60)], 0), ids=str)
async def test_no_hint_of_any_screen_is_dead(
    tmp_path: Path, size: tuple[int, int], data_folder: None
) -> None:
    made = scene(tmp_path / "shop-api", shop_api())
    wrong: dict[str, list[str]] = {}
    async with made.app.run_test(size=size) as pilot:
        await made.ready(pilot)
        app, chat = made.app, made.app.chat
        wrong["chat"] = list(await dead_hints(made, pilot))
        chat.transcript.focus()
        await pilot.pause()
        wrong["transcript"] = list(await dead_hints(made, pilot))
        for command in OPENED:
            chat.prompt.editor.focus()
            chat.run_command(command)
            await made.until(
                pilot, lambda: app.screen is not chat or chat.docked.is_used
            )
            await made.until(pilot, lambda: app.chat.presenter.settled)
            wrong[command] = list(await dead_hints(made, pilot))
            while app.screen is not chat:
                await app.pop_screen()
            if chat.docked.is_used:
                await pilot.press("f2")
    assert not any(wrong.values()), "\n".join(
        f"{at}: {each}" for at, found in wrong.items() for each in found
    )


Play = Callable[[Scene, Pilot[None]], Any]


def keys(*pressed: str) -> Play:
    async def press(_: Scene, pilot: Pilot[None]) -> None:
        for key in pressed:
            await pilot.press(key)
            await pilot.pause()

    return press


async def beside_the_prompt(made: Scene, pilot: Pilot[None]) -> None:
    """The Inspector beside the chat, in which nobody is."""
    await pilot.resize_terminal(170, 40)
    await pilot.press("f2")
    await made.until(pilot, lambda: getattr(made.app.focused, "id", "") == "history")
    await pilot.press("escape")


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(
    "play",
    [
        scenes.ask_for_an_edit,
        scenes.compaction_with_a_queue,
        scenes.rewind,
        scenes.look_at_the_rules,
        beside_the_prompt,
        keys("slash"),
        keys("f2", "slash", *"order", "enter"),
        keys("f2", "4", "comma", "comma"),
        keys("f2", "comma", "d"),
        keys("f3", "e"),
        keys("f3", "3"),
    ],
    ids=lambda play: play.__qualname__,
)
async def test_no_hint_is_dead_while_something_is_under_way(
    tmp_path: Path, data_folder: None, play: Play
) -> None:
    (tmp_path / "shop-api").mkdir()
    (tmp_path / "shop-api" / "cancel.py").write_text("order = await by_id(id)\n")
    edit = {"path": "cancel.py", "old": "await by_id(id)", "new": "await by_key(id)"}
    script = (
        tool_reply(("read", {"path": "cancel.py"})),
        tool_reply(("edit", edit), stem="d"),
    )
    asks = play is scenes.ask_for_an_edit
    summaries = (
        scenes.held_compaction()
        if play is scenes.compaction_with_a_queue
        else scenes.written_compaction()
    )
    story = None if asks else shop_api()
    made = scene(
        tmp_path / "shop-api", story, *(script if asks else ()), summaries=summaries
    )
    async with made.app.run_test(size=(120, 36)) as pilot:
        await made.ready(pilot)
        await play(made, pilot)
        await pilot.pause()
        assert not (wrong := list(await dead_hints(made, pilot))), "\n".join(wrong)
