"""Pictures among the lines: what the terminal is sent, what it shows of it, and that it keeps nothing."""

import asyncio
import base64
import fcntl
import os
import signal
import struct
import termios
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from io import BytesIO
from pathlib import Path
from typing import cast

import pytest
from PIL import Image
from textual.driver import Driver

from foldline.protocol import ImagePart
from foldline.tui.blocks.pictures import Picture, PicturesBlock, fitted
from foldline.tui.blocks.view import BlockView
from foldline.tui.terminal.app import TerminalApp
from foldline.tui.terminal.pictures import shows_among_lines, unpacked, way_for
from support.images import image
from support.kitty import Kept, Pictures
from support.terminal import ENTER, LEAVE, Terminal, terminal
from support.views import ViewApp

KITTY = {"TERM": "xterm-kitty", "COLORTERM": "truecolor"}


@pytest.mark.parametrize(
    ("environ", "way"),
    [
        ({"TERM": "xterm-256color"}, "Halfcell"),
        ({}, "Halfcell"),
        (KITTY, "TGP"),
        ({"TERM": "xterm-ghostty", "COLORTERM": "truecolor"}, "TGP"),
        ({"TERM": "xterm-kitty"}, "Halfcell"),
        ({"TERM": "xterm-256color", "TERM_PROGRAM": "iTerm.app"}, "Sixel"),
        ({"TERM": "xterm-256color", "LC_TERMINAL": "iTerm2"}, "Sixel"),
        ({"TERM": "xterm-256color", "TERM_PROGRAM": "WezTerm", "COLORTERM": "truecolor"}, "Sixel"),
        ({"TERM": "foot"}, "Sixel"),
        ({"TERM": "tmux-256color", "TERM_PROGRAM": "tmux", "KITTY_WINDOW_ID": "1"}, "Halfcell"),
        (KITTY | {"TMUX": "/tmp/tmux"}, "Halfcell"),
        ({"TERM": "screen.xterm-256color", "LC_TERMINAL": "iTerm2"}, "Halfcell"),
    ],
)
def test_pixels_go_only_to_terminals_that_draw_them_and_never_through_a_multiplexer(
    environ: dict[str, str], way: str
) -> None:
    assert way_for(environ, knows_cells=True) == way
    assert way_for(environ, knows_cells=False) == ("Halfcell" if way == "Sixel" else way)
    assert shows_among_lines(environ) == (way == "TGP")
    assert not shows_among_lines(environ | {"NO_COLOR": "1"})


@pytest.mark.parametrize(
    "data", [b"", b"no picture", image("jpeg"), image("png")[:60], b"%!PS-Adobe-3.0 EPSF-3.0"]
)
def test_what_is_no_whole_picture_is_said_to_be_none(data: bytes) -> None:
    with pytest.raises(ValueError, match="damaged"):
        unpacked(base64.b64encode(data).decode())


def test_a_picture_too_large_to_unpack_is_not_unpacked() -> None:
    head = (30_000).to_bytes(4) + (30_000).to_bytes(4) + bytes((8, 0, 0, 0, 0))
    body = b"IHDR" + head
    png = b"\x89PNG\r\n\x1a\n" + len(head).to_bytes(4) + body + zlib.crc32(body).to_bytes(4)
    with pytest.raises(ValueError):
        unpacked(base64.b64encode(png).decode())


# --- by hand: what `Pictures` writes, to a terminal of which the test is the other side --------------------


class Taking:
    """Takes what is written, a piece only once the test, or the clock, has let it."""

    is_headless = is_web = False

    def __init__(self) -> None:
        self.pictures = Pictures()
        self.pieces = 0
        self.waiting = 0

    def write(self, data: str) -> None:
        if "\x1b_G" in data:
            self.pictures.take(data.encode())
            self.pieces += 1
            assert self.waiting <= 1, "a frame would wait behind pieces of pictures"


class PicturesApp(TerminalApp[None], ViewApp):
    """A view of pictures in a terminal that shows them."""

    def __init__(self, *blocks: PicturesBlock) -> None:
        super().__init__(BlockView(blocks, follow=False))
        self.driver = Taking()

    @property
    def terminal_driver(self) -> Driver | None:
        return cast(Driver, self.driver)

    @property
    def unwritten(self) -> int:
        return self.driver.waiting

    def _leave_if_gone(self) -> None:
        """Standard input is no terminal here."""

    def on_mount(self) -> None:
        self.show_pictures()

    async def until(self, wanted: Callable[[Pictures], object]) -> Pictures:
        async with asyncio.timeout(60):
            while not wanted(self.driver.pictures):
                await asyncio.sleep(0.001)
        return self.driver.pictures


@pytest.fixture(autouse=True)
def in_kitty(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in KITTY.items():
        monkeypatch.setenv(name, value)
    for name in ("TMUX", "STY", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)


def png(width: int, height: int, seed: int = 0) -> bytes:
    """Of noise, which no compression makes small."""
    data = BytesIO()
    Image.frombytes("L", (width, height), os.urandom(width * height)).save(data, "PNG")
    return data.getvalue()


def picture(content: bytes | None, width: int, height: int, number: int = 0) -> Picture:
    part = None
    if content is not None:
        part = ImagePart(media_type="image/png", data=base64.b64encode(content).decode())
    return Picture(number, lambda: part, (width, height), f"picture {number}")


def block(index: int, *pictures: Picture) -> PicturesBlock:
    return PicturesBlock((index, 0), pictures)


async def test_a_picture_is_sent_once_and_no_larger_than_it_is_shown() -> None:
    one = picture(png(2_000, 1_000), 2_000, 1_000)
    app = PicturesApp(block(0, one), block(1, one))
    async with app.run_test(size=(80, 30)) as pilot:
        shown = await app.until(lambda now: [each.rows for each in now.kept.values()] == [12])
        (number,) = shown.kept
        assert Image.open(BytesIO(shown.kept[number].png)).size == (480, 240)
        assert shown.kept[number][1:] == (48, 12)
        await pilot.resize_terminal(40, 30)
        shown = await app.until(lambda now: now.kept[number][1:] == (35, 9))
        assert shown.transmitted == [number], "another size is another place for the same data"
    assert app.driver.pieces > 10


@pytest.mark.parametrize(
    ("content", "size", "cells"),
    [
        ("whole", (1, 1), (1, 1)),
        ("whole", (20_000, 3), (60, 1)),
        ("whole", (3, 8_000), (1, 12)),
        ("cut off", (300, 200), (30, 10)),
        ("no picture", (300, 200), (30, 10)),
        ("gone", (300, 200), (30, 10)),
    ],
)
async def test_whatever_a_picture_is_as_many_lines_are_kept_for_it_as_its_size_says(
    content: str, size: tuple[int, int], cells: tuple[int, int]
) -> None:
    contents = {"whole": png(*size), "cut off": png(*size)[:-30], "no picture": b"GIF89a", "gone": None}
    app = PicturesApp(block(0, picture(contents[content], *size)))
    async with app.run_test(size=(80, 30)):
        shown = await app.until(lambda now: any(each.rows for each in now.kept.values()))
        (kept,) = shown.kept.values()
        assert kept[1:] == cells == fitted(size, (60, 12), (10, 20))
        assert Image.open(BytesIO(kept.png)).format == "PNG"
        assert app.view.virtual_size.height == 1 + cells[1]


async def test_of_an_animation_the_first_picture_is_shown() -> None:
    frames = [Image.new("RGB", (40, 40), color) for color in ("red", "blue")]
    data = BytesIO()
    frames[0].save(data, "GIF", save_all=True, append_images=frames[1:])
    app = PicturesApp(block(0, picture(data.getvalue(), 40, 40)))
    async with app.run_test(size=(80, 30)):
        shown = await app.until(lambda now: any(each.rows for each in now.kept.values()))
        (kept,) = shown.kept.values()
        assert Image.open(BytesIO(kept.png)).convert("RGB").getpixel((20, 20)) == (255, 0, 0)


async def test_however_many_pictures_are_looked_at_the_terminal_keeps_few_and_those_on_the_screen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("foldline.tui.terminal.pictures._CELLS", 5 * 720)
    content = png(600, 240)
    blocks = [block(index, picture(content, 600, 240, index)) for index in range(14)]
    app = PicturesApp(*blocks)
    most = 0

    def is_kept(now: Pictures) -> bool:
        placed = app.pictures and app.pictures.place(each.pictures[0], 79)
        return placed is not None and now.kept.get(placed.number, Kept(b""))[1:] == placed[1:]

    async with app.run_test(size=(80, 13)) as pilot:
        for each in blocks:
            app.view.scroll_to_key(each.key, only_if_hidden=False)
            await pilot.pause()
            shown = await app.until(is_kept)
            most = max(most, sum(each.columns * each.rows for each in shown.kept.values()))
    assert most == 5 * 720
    assert len(shown.transmitted) <= len(blocks) + 4, "what is on the screen is sent anew once"


async def test_a_picture_that_is_half_sent_at_the_end_is_ended_and_deleted() -> None:
    app = PicturesApp(block(0, picture(png(1_000, 500), 1_000, 500)))
    async with app.run_test(size=(80, 30)):
        await app.until(lambda now: now.transmitted)
        app.driver.waiting = 1  # the terminal takes no more
        assert app.pictures is not None and app.driver.pieces < 20
        app.pictures.end()
        left, pieces = app.driver.pictures, app.driver.pieces
        assert not left.kept and left.deleted == left.transmitted
        app.driver.waiting = 0
        await app.workers.wait_for_complete()
        assert app.driver.pieces == pieces, "nothing comes after the end"


# --- the whole program ------------------------------------------------------------------------------------


@contextmanager
def kitty(folder: Path, columns: int, rows: int) -> Iterator[Terminal]:
    """The program in a terminal that says it is Kitty, with a prompt with a picture and its answer."""
    folder.mkdir()
    (folder / "shot.png").write_bytes(png(1_200, 300))
    with terminal(folder, columns=columns, rows=rows, **KITTY) as term:
        fcntl.ioctl(
            term.child.child_fd,
            termios.TIOCSWINSZ,
            struct.pack("HHHH", rows, columns, columns * 10, rows * 20),
        )
        term.until("of 16.4k")
        term.send("\x1b[200~shot.png\x1b[201~")
        term.until("[picture 1")
        term.send("\r")
        term.until("I could not follow")
        term.until("Enter sends")
        yield term


def place(term: Terminal) -> tuple[int, int] | None:
    """Row and column of the picture, were all of it on the screen; None where nothing of it is."""
    places = Pictures().take(term.raw).shown(iter(term.cells()))
    return next(iter(places.values()), None)


def place_soon(term: Terminal) -> tuple[int, int] | None:
    """The same while half a frame, or half a picture, may be there."""
    with suppress(AssertionError, KeyError, ValueError):
        return place(term)
    return None


@pytest.mark.slow
def test_a_picture_scrolls_with_the_lines_is_sent_once_and_deleted_at_the_end(tmp_path: Path) -> None:
    with kitty(tmp_path / "shop", 80, 40) as term:
        term.until(place_soon)
        term.settle()
        first, written = place(term), len(term.raw)
        assert first is not None and first[1] == 5 and "shot.png 1200×300 · " in term.rows[first[0] - 1]
        (number,) = Pictures().take(term.raw).transmitted

        term.send("\x1b[200~" + "\n".join("abcdefgh") + "\x1b[201~")  # the editor grows: lines move up
        term.until(lambda now: (place_soon(now) or first)[0] < first[0])
        term.send("\x1b")
        term.until(lambda now: place_soon(now) == first)
        assert len(term.raw) - written < 30_000

        term.send("\t")
        term.until("Esc to the prompt")
        for keys in (
            *["\x1b[A"] * 20,  # the cursor goes over it, which is a row in reverse elsewhere
            "\x1b[<0;10;4M\x1b[<32;40;12M\x1b[<0;40;12m",  # a selection across it
            "\x10",  # the palette, below which all is in one colour
            "\x1b",
        ):
            term.send(keys)
            term.settle()
            term.until(place_soon)
        for columns, cells in ((44, 37), (80, 60)):
            term.resize(columns, 40)
            term.until(lambda now, cells=cells: Pictures().take(now.raw).kept[number].columns == cells)  # type: ignore[misc]
            term.settle()
            term.until(place_soon)
        assert Pictures().take(term.raw).transmitted == [number], "it was sent once"

        term.send("\x1a")
        state = Path(f"/proc/{term.child.pid}/stat")
        term.until(lambda _: state.read_text().rpartition(") ")[2].startswith("T"))
        term.read()
        assert not Pictures().take(term.raw[: term.raw.rindex(LEAVE)]).kept, "deleted on its own screen"
        term.forget_screen()
        os.kill(term.child.pid, signal.SIGCONT)
        term.until(lambda now: now.raw.count(ENTER) == 2 and place_soon(now) is not None)
        os.kill(term.child.pid, signal.SIGTERM)
        term.ended()
        assert not Pictures().take(term.raw[: term.raw.rindex(LEAVE)]).kept
        assert term.not_restored() == []
