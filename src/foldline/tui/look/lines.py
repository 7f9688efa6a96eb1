"""Widgets that draw lines of styled text, and frames around lines.

Frames are drawn as text, so that titles are not parsed as markup. The frame with the focus has heavy lines.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, ClassVar, Protocol, runtime_checkable

from textual import events
from textual.geometry import Offset, Size
from textual.screen import Screen
from textual.selection import Selection
from textual.strip import Strip
from textual.widget import Widget

from foldline.frontend.key_names import character_of, pressed_by
from foldline.tui.look.cells import Span, Spans, crop, to_strip, width_of
from foldline.tui.look.styles import Themed, selected_text, with_selection
from foldline.tui.look.textual_private import SelectedByDragging

Line = list[Span]


class LinesWidget(Themed, SelectedByDragging):
    """A widget that draws the result of `lines(width)`.

    It repaints only if the result has changed. The text must not contain control characters.
    """

    DEFAULT_CSS: ClassVar[str] = (
        "LinesWidget { height: 1; width: 1fr; background: transparent; }"
    )

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._drawn: Sequence[Sequence[Span]] = ()
        self._drawn_size = Size(-1, -1)
        self._pressed: tuple[str, Offset] = "", Offset()
        """Where the mouse button was pressed.

        The key of the hint there, and the position of the mouse.
        """

    def lines(self, width: int) -> Sequence[Sequence[Span]]:
        """Return the lines to draw at this width."""
        raise NotImplementedError

    def update(self) -> None:
        """Redraw the widget if its lines have changed.

        A hidden widget has no lines, so that its old lines do not appear when it is shown again.
        """
        size = self.size
        fresh = self.lines(size.width) if size.width > 0 else ()
        if size == self._drawn_size and fresh == self._drawn:
            return
        self._drawn, self._drawn_size = fresh, size
        self.refresh()

    def on_mouse_down(self, event: events.MouseDown) -> None:
        # Save the key now, because the change of focus may replace the hints before the click is handled.
        self._pressed = event.style.meta.get("key", ""), event.screen_offset

    def on_click(self, event: events.Click) -> None:
        key, offset = self._pressed
        if key and offset == event.screen_offset:
            event.stop()
            press(self, key)

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        if self.size != self._drawn_size:
            # Textual may paint between a new layout and `update`. Do not draw the lines of the old size then.
            self._drawn = self.lines(width)
            self._drawn_size = self.size
        line = self._drawn[y] if y < len(self._drawn) else ()
        strip = to_strip(line, self.roles).adjust_cell_length(width)
        if self.roles.background:
            strip = strip.apply_style(self.roles.background)
        if (
            self.text_selection is not None
            and (span := self.text_selection.get_span(y)) is not None
        ):
            strip = with_selection(strip, *span, self.roles["reverse"])
        return strip.simplify().apply_offsets(0, y)

    def get_selection(self, selection: Selection) -> tuple[str, str]:
        """Return the selected text without the frame."""
        texts: list[str] = []
        for at, line in enumerate(self._drawn):
            span = selection.get_span(at)
            if span is not None:
                text = selected_text(to_strip(line, self.roles), *span)
                texts.append(text.lstrip(_STROKES).rstrip(f"{_STROKES} "))
        return "\n".join(texts), "\n"


@runtime_checkable
class TakesKeys(Protocol):
    """A part of the screen with its own keys.

    The keys work while this part has the focus.
    """

    def enter(self) -> None:
        """Take the focus immediately, not after the next message."""


def press(hint: Widget, key: str) -> None:
    """Act as if the key of a hint was pressed.

    Focuses the part of the screen with the hint first.
    """
    part = next(
        (node for node in hint.ancestors_with_self if isinstance(node, TakesKeys)), None
    )
    if part is not None and isinstance(part, Widget) and not part.has_focus_within:
        part.enter()
    pressed = events.Key(key, character_of(key) or None)
    pressed.set_sender(hint.app)  # otherwise the event would not bubble up to the app
    hint.app.post_message(pressed)


class LineWidget(LinesWidget):
    """A widget of one line, which a function draws for a given width."""

    def __init__(self, id: str) -> None:
        super().__init__(id=id)
        self._draw: Callable[[int], Sequence[Span]] = lambda width: ()

    def show(self, draw: Callable[[int], Sequence[Span]]) -> None:
        self._draw = draw
        self.update()

    def lines(self, width: int) -> Sequence[Sequence[Span]]:
        return [self._draw(width)]


@dataclass(frozen=True, slots=True)
class Frame:
    """The characters and the style of a frame."""

    strokes: str
    """Six characters: top left, top right, bottom left, bottom right, horizontal, vertical."""
    style: str


_STROKES = "┏┓┗┛━┃┌┐└┘─│┠┨"
HEAVY = Frame("┏┓┗┛━┃", "accent")
LIGHT = Frame("┌┐└┘─│", "muted")


def frame(focused: bool) -> Frame:
    return HEAVY if focused else LIGHT


def edge(
    frame_style: Frame,
    top: bool,
    left: Spans,
    right: Spans,
    width: int,
) -> list[Span]:
    """Return the top or bottom border of a frame: `┏━ left ━━━━━━ right ━┓`."""
    corners = frame_style.strokes[:2] if top else frame_style.strokes[2:4]
    stroke = frame_style.strokes[4]
    if right and width_of(left) + width_of(right) + 10 > width:
        right = ()
    spans: list[Span] = [(corners[0] + stroke, frame_style.style)]
    if left:
        room = max(width - 6, 0)
        text = left if width_of(left) <= room else tuple(crop(left, room))
        spans += [(" ", ""), *text, (" ", "")]
    tail: list[Span] = [(" ", ""), *right, (" ", "")] if right else []
    tail.append((stroke + corners[1], frame_style.style))
    fill = width - width_of(spans) - width_of(tail)
    return [*spans, (stroke * max(fill, 0), frame_style.style), *tail]


def sides(frame_style: Frame, inside: list[Span], width: int) -> list[Span]:
    """Return a line between the left and right sides of a frame.

    The content is cut or padded to `width` cells.
    """
    side = (frame_style.strokes[5], frame_style.style)
    return [side, *crop(inside, max(width - 2, 0)), side]


def boxed(
    width: int, title: Spans, body: Iterable[Line], foot: Spans, aid: Spans = ()
) -> list[Line]:
    """Draw a box of `width` cells.

    The title is in the top border. The key hints `foot` and the text `aid` are at the left and right of the
    bottom border. The lines of the body are cut or padded.
    """
    return [
        edge(
            HEAVY,
            True,
            title,
            (),
            width,
        ),
        *(sides(HEAVY, line, width) for line in body),
        edge(
            HEAVY,
            False,
            foot,
            aid,
            width,
        ),
    ]


def filled(lines: Sequence[Line], rows: int) -> list[Line]:
    """Return exactly `rows` lines: cut the list, or add blank lines."""
    blank: Line = []
    return [*lines[:rows], *[blank] * (rows - len(lines))]


def button(spans: Iterable[Span], key: str) -> Spans:
    """Turn styled text into a button that presses a key.

    `key` is the key's name in hints.
    """
    keys = pressed_by(key)
    if not keys:
        return tuple(spans)
    _, pressed = keys[0]
    return tuple((text, f"{style} key:{pressed}") for text, style in spans)


def hint(keys: str, word: str, style: str = "muted", of_keys: str = "accent") -> Spans:
    """Return a hint, `F2 inspector`, with a button for each key.

    The word is a button for the first key.
    """
    spans = [(part, f"{of_keys} key:{key}") for part, key in pressed_by(keys)] or [
        (keys, of_keys)
    ]
    if not word:
        return tuple(spans)
    return (*spans, *button([(f" {word}", style)], keys))


def hints_in(words: str, style: str) -> Spans:
    """Convert hints, `Enter opens · f filter`, to styled text with buttons.

    Parts that do not begin with the name of a key stay plain text.
    """
    parts: list[Spans] = []
    for text in words.split(" · "):
        words_of_part = text.split(" ")
        keys = list(takewhile(pressed_by, words_of_part))
        if keys:
            other_words = words_of_part[len(keys) :]
            parts.append(hint(" ".join(keys), " ".join(other_words), style, style))
        else:
            parts.append(((text, style),))
    return _between_points(parts, style)


def key_words(pairs: Iterable[tuple[str, str]]) -> Spans:
    """Return key hints from (keys, word) pairs: `Enter select · Esc close`."""
    return _between_points((hint(keys, word, "text") for keys, word in pairs), "muted")


def _between_points(parts: Iterable[Spans], style: str) -> Spans:
    return tuple(span for part in parts for span in ((" · ", style), *part))[1:]


def window_start(marked: int, count: int, rows: int) -> int:
    """Return the index of the first visible row of a list.

    It is chosen so that the selected row is visible.
    """
    return max(0, min(marked - rows + 1, count - rows))


LEAST = (40, 10)
"""Minimum number of columns and rows of a usable terminal."""


TOO_SMALL = "Too small: needs {columns}x{rows}"


class TooSmall(LinesWidget):
    """The message shown if the terminal is too small."""

    DEFAULT_CSS: ClassVar[str] = """
    TooSmall { display: none; }
    TooSmall.covers {
        display: block; overlay: screen; position: absolute; offset: 0 0;
        width: 100%; height: 100%; background: $role-background;
    }
    """

    def lines(self, width: int) -> list[list[Span]]:
        columns, rows = LEAST
        return [crop([(TOO_SMALL.format(columns=columns, rows=rows), "text")], width)]


def fits(size: Size) -> bool:
    """Whether a terminal of this size is large enough."""
    return size.width >= LEAST[0] and size.height >= LEAST[1]


def cover_if_too_small(screen: Screen[Any], size: Size) -> None:
    """Cover a screen with `TooSmall` if the terminal is too small.

    Otherwise remove the cover.
    """
    if fits(size):
        for cover in screen.query(".covers").results(TooSmall):
            cover.remove()
    elif not screen.query(TooSmall):
        screen.mount(TooSmall(classes="covers"))
