"""The palette: what is in it on which screen, how it is found, and that it acts on the screen below it."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from foldline.tui.lists.picker import SLICE, ranked, ranking
from foldline.tui.lists.rows import PickerItem
from foldline.tui.overlays.palette import ItemSource, Palette, PaletteItem, open_palette
from support.live import Live, live

pytestmark = pytest.mark.usefixtures("data_folder")

CHOICES = [
    PickerItem("clear", "Clear the context", "/clear"),
    PickerItem("compact", "Compact the context", "/compact [focus]"),
    PickerItem("theme", "Theme: foldline-dark", "dark"),
    PickerItem("undo", "Undo the last line", "", "Ctrl+U"),
]


@pytest.mark.parametrize(
    ("typed", "ids"),
    [
        ("", ["clear", "compact", "theme", "undo"]),
        ("co", ["compact", "clear"]),
        ("line", ["undo", "theme"]),
        ("context cl", ["clear"]),
        ("ctc", ["clear", "compact"]),
        ("/comp", ["compact"]),
        ("ctrl+u", ["undo"]),
        ("fldark", ["theme"]),
        ("xyz", []),
    ],
)
def test_choices_are_found_by_words_by_letters_and_by_their_keys(
    typed: str, ids: list[str]
) -> None:
    assert [each.choice.id for each in ranked(typed, CHOICES)][: len(ids)] == ids
    assert bool(ids) == bool(ranked(typed, CHOICES))


def test_the_letters_that_were_typed_are_known() -> None:
    first, *_ = ranked("cont clear", CHOICES)
    assert (
        "".join(first.choice.label[at] for at in sorted(first.letters)) == "Clearcont"
    )


def test_a_word_costs_no_more_than_the_length_of_the_text() -> None:
    """`textual.fuzzy` would look at every way to spread these letters: more than there are atoms."""
    assert ranked("e" * 40, [PickerItem("1", "e" * 41 + " x " + "e " * 2_000)])
    assert not ranked("e" * 40 + "y", [PickerItem("1", "e " * 2_000)])


def test_thousands_of_choices_are_looked_at_in_slices() -> None:
    many = [
        PickerItem(str(number), f"Session: {number} 幂等")
        for number in range(10 * SLICE)
    ]
    *pauses, last = ranking("session 99", many)
    assert pauses == [None] * 9 and last is not None
    assert last[0].choice.id == "99"


class Acted:
    """Items that say what was chosen."""

    def __init__(self, *names: str) -> None:
        self.took: list[str] = []
        self.items = [
            PaletteItem(
                PickerItem(name, name), lambda name=name: self.took.append(name)
            )
            for name in names
        ]

    async def source(self) -> Sequence[PaletteItem]:
        await asyncio.sleep(0)
        return self.items


async def opened(running: Live, *keys: str) -> Palette:
    await running.press(*keys)
    await running.until(lambda: isinstance(running.app.screen, Palette))
    assert isinstance(running.app.screen, Palette)
    return running.app.screen


async def chosen(running: Live, typed: str, label: str) -> None:
    """Type this, and take what is then the first."""
    await running.press(*(" " if letter == " " else letter for letter in typed))
    await running.until(lambda: f"▶{label}" in running.text)
    await running.press("enter")
    await running.until(lambda: not isinstance(running.app.screen, Palette))


async def test_what_can_be_chosen_is_offered_directly(tmp_path: Path) -> None:
    async with live(tmp_path / "shop") as running:
        palette = await opened(running, "ctrl+p")
        await running.until(lambda: {"theme:dusk", "setting:theme"} <= {*palette.items})
        labels = {item.choice.label for item in palette.items.values()}
        assert {"Theme: dusk", "Strategy: digest", "Setting: Compaction"} <= labels
        assert any(label.startswith("Model: ") for label in labels)
        await chosen(running, "theme dusk", "Theme: dusk")
        await running.until(lambda: running.app.theme == "dusk")
        assert running.app.chat.prompt.editor.has_focus
        await opened(running, "ctrl+p")
        await running.until(lambda: "▶Theme: dusk" in running.text)


@pytest.mark.slow
async def test_over_another_screen_it_acts_on_that_screen(tmp_path: Path) -> None:
    async with live(tmp_path / "shop", "one") as running:
        await running.ask("first")
        await running.press("f2")
        await running.until(lambda: "▸ Inspector" in running.screen[0])
        focused = running.app.focused
        palette = await opened(running, "ctrl+p")
        offered = {*palette.items}
        assert {
            "inspector.pin",
            "inspector.search",
            "chat.compact",
            "chat.quit",
        } <= offered
        assert not offered & {
            "chat.inspector",
            "inspector.move",
            "chat.page-up",
            "chat.send",
            "chat.retry",
        }
        await chosen(running, "pin", "Pin")
        await running.until(
            lambda: any(entry.type == "edit" for entry in running.entries)
        )
        assert running.app.focused is focused
        await opened(running, "ctrl+p")
        await chosen(running, "rename", "Rename this session")
        await running.until(lambda: "/rename TITLE" in running.text)
        assert "▸ Inspector" in running.screen[0], (
            "the answer is seen where the reader is"
        )


@pytest.mark.slow
async def test_it_opens_over_help_and_closes_by_its_own_key(tmp_path: Path) -> None:
    async with live(tmp_path / "shop") as running:
        await running.press("f1")
        await opened(running, "ctrl+p")
        await running.press("ctrl+p")
        await running.until(lambda: running.app.screen is running.app.chat)


@pytest.mark.slow
async def test_what_was_chosen_last_stands_first_and_late_items_do_not_move_the_mark(
    tmp_path: Path,
) -> None:
    acted = Acted("one", "two", "three")
    sources: list[ItemSource] = [acted.source]
    async with live(tmp_path / "shop") as running:
        app = running.app
        app.recent.append("chat.rewind")
        app.call_later(open_palette, app, app.recent, app.palette_items, sources)
        await running.until(lambda: isinstance(app.screen, Palette))
        await running.until(lambda: "▶Rewind" in running.text)
        await chosen(running, "two", "two")
        assert acted.took == ["two"] and app.recent == ["two", "chat.rewind"]


@pytest.mark.slow
async def test_of_thousands_the_one_that_was_typed_is_found(tmp_path: Path) -> None:
    acted = Acted(*(f"Session: {number} 幂等" for number in range(5 * SLICE)))
    async with live(tmp_path / "shop") as running:
        app = running.app
        app.call_later(open_palette, app, app.recent, app.palette_items, [acted.source])
        await running.until(
            lambda: (
                isinstance(app.screen, Palette) and len(app.screen.items) > 5 * SLICE
            )
        )
        await chosen(running, "1999", "Session: 1999 幂等")
        assert acted.took == ["Session: 1999 幂等"]
