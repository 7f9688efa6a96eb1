"""The tables of keys of all screens: complete, without a clash, and one key has one meaning everywhere."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from foldline.frontend.commands import CHAT, COMMANDS, ChatCommand
from foldline.frontend.key_names import key_name, spelled
from foldline.frontend.keymap import ScreenKey
from foldline.tui.keys.registry import SCREENS, table_of

SAME: dict[str, str] = {
    **dict.fromkeys(("move", "up", "down", "recall-older", "recall-newer"), "moves"),
    **dict.fromkeys(
        ("page", "page-up", "page-down", "first", "last", "end"), "moves far"
    ),
    **dict.fromkeys(("left", "right"), "moves sideways"),
    "timeline": "part 4",
    # Enter goes inwards (rule 9), and a list of values is one step further in.
    **dict.fromkeys(
        ("send", "open", "toggle", "take", "enter", "resume", "steps", "change", "on"),
        "goes in",
    ),
    **dict.fromkeys(("entry", "read", "inspect"), "opens the entry"),
    **dict.fromkeys(("mark", "choose"), "marks"),
    **dict.fromkeys(("diff", "difference", "next-pair"), "compares"),
    **dict.fromkeys(
        ("drop", "revoke", "discard", "archive", "queue-delete", "remove"),
        "takes away",
    ),
    **dict.fromkeys(("restore", "reset"), "as it was"),
    **dict.fromkeys(("help", "help-panel"), "help"),
    **dict.fromkeys(("escape", "close", "back"), "steps outwards"),
    **dict.fromkeys(
        ("complete", "next-panel", "previous-panel", "scope"), "next panel"
    ),
    **{
        f"{name}-{number}": f"part {number}"
        for name in ("panel", "scope")
        for number in range(1, 5)
    },
    **{
        "ask": "part 1",
        "edits": "part 2",
        "sandboxed": "part 3",
        "read-only": "part 4",
        "queue-up": "moves it up",
        "queue-down": "moves it down",
    },
    **dict.fromkeys(("apply", "anyway", "go", "confirm"), "decides"),
}
"""Commands that are one thing to the reader."""

EXPLAINED: dict[str, str] = {
    "f2": "on the Inspector it closes, as it opened",
    "f3": "in a draft it closes, as it opened",
    "f4": "in the Inspector it changes the order, as it opened the list by size",
    "ctrl+o": "in the list of sessions it lists the actions; there are no calls there",
    "o": "on Rewind it is the only place where something may be overwritten",
    "shift+tab": "in the chat it leads to the modes, as in other agents; Tab goes through its panels",
}
"""Keys that mean two things, and why that misleads nobody."""


def every_key() -> Iterator[ScreenKey]:
    for screen in SCREENS:
        yield from table_of(screen)


@pytest.mark.parametrize("name", SCREENS)
def test_a_table_says_what_each_key_does_and_none_does_two_things(name: str) -> None:
    table = table_of(name)
    assert table and {key.screen for key in table} == {name}
    assert not [
        each for each, times in Counter(key.id for key in table).items() if times > 1
    ]
    pressed = Counter(spelled(each) for key in table for each in key.keys)
    assert None not in pressed and not [
        each for each, times in pressed.items() if times > 1
    ]
    for key in table:
        assert (
            key.help.endswith(".") and len(key.help) > 4 and key.group and key.label
        ), key.id
        assert key.keys or (isinstance(key, ChatCommand) and key.slash), key.id


def test_a_key_means_one_thing_on_all_screens() -> None:
    meanings: dict[str, set[str]] = {}
    for key in every_key():
        for each in key.keys:
            meanings.setdefault(spelled(each) or "", set()).add(
                SAME.get(key.id, key.id)
            )
    several = {each: found for each, found in meanings.items() if len(found) > 1}
    assert set(several) <= set(EXPLAINED), {
        key_name(k): v for k, v in several.items() if k not in EXPLAINED
    }
    assert set(EXPLAINED) <= set(several), "explained, and no longer so"


def test_the_page_of_commands_names_every_key_and_every_command() -> None:
    page = (Path(__file__).parents[2] / "docs" / "commands.md").read_text(
        encoding="utf-8"
    )
    for key in list(
        every_key()
    ):  # all tables are there before one names a key of another
        assert key.help_text in page
        assert key.own or f"`{key.id}`" in page
    assert f"[keys.{CHAT}]" in page and "[keys.inspector]" in page


def test_help_names_another_key_as_it_is_in_force() -> None:
    copying = next(command for command in COMMANDS if command.id == "copy")
    [own] = [key for key in table_of("transcript") if key.id == "copy"]
    assert f"In the transcript, {own.name} copies" in copying.help_text


def test_no_help_text_names_a_key_that_is_not_there() -> None:
    for screen in SCREENS:
        for key in table_of(screen):
            assert not re.search(r"[{}]", key.help_text)
