"""Widgets that draw whole lines of styled text themselves, and frames around such lines.

Frames are drawn as text, so that no title is parsed as markup: heavy has the focus, light has not.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

from textual import events
from textual.geometry import Offset, Size
from textual.screen import Screen
from textual.selection import Selection
from textual.strip import Strip
from textual.widget import Widget

from foldline.tui.blocks.cells import Span, Spans, crop, to_strip, width_of
from foldline.tui.blocks.styles import Themed, selected_text, with_selection
from foldline.tui.keys.names import character_of, pressed_by
from foldline.tui.textual_private import SelectedByDragging

Line = list[Span]


class Lines(Themed, SelectedByDragging):
    """Draws what `lines(width)` says; repaints only when that changed. Text in spans must be clean."""

    DEFAULT_CSS: ClassVar[str] = "Lines { height: 1; width: 1fr; background: transparent; }"

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._drawn: Sequence[Sequence[Span]] = ()
        self._drawn_size = Size(-1, -1)
        self._pressed: tuple[str, Offset] = "", Offset()
        """The key whose hint the mouse was pressed on, and where."""

    def lines(self, width: int) -> Sequence[Sequence[Span]]:
        """The lines at this width."""
        raise NotImplementedError

    def update(self) -> None:
        """Draw again, where something to see has changed. While hidden it has no lines: the old ones must
        not stand there when it is shown again at the same size."""
        size = self.size
        fresh = self.lines(size.width) if size.width > 0 else ()
        if size == self._drawn_size and fresh == self._drawn:
            return
        self._drawn, self._drawn_size = fresh, size
        self.refresh()

    def on_mouse_down(self, event: events.MouseDown) -> None:
        # Not at the click: the focus that comes with the mouse may bring other hints before that.
        self._pressed = event.style.meta.get("key", ""), event.screen_offset

    def on_click(self, event: events.Click) -> None:
        key, where = self._pressed
        if key and where == event.screen_offset:
            event.stop()
            press(self, key)

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        if self.size != self._drawn_size:
            # A frame may be painted between a new layout and `update`: never with the lines of the old one.
            self._drawn, self._drawn_size = self.lines(width), self.size
        drawn = self._drawn[y] if y < len(self._drawn) else ()
        strip = to_strip(drawn, self.roles).adjust_cell_length(width)
        if self.roles.background:
            strip = strip.apply_style(self.roles.background)
        if self.text_selection is not None and (span := self.text_selection.get_span(y)) is not None:
            strip = with_selection(strip, *span, self.roles["reverse"])
        return strip.simplify().apply_offsets(0, y)

    def get_selection(self, selection: Selection) -> tuple[str, str]:
        """The selected text, without the frame around it."""
        strips = (to_strip(line, self.roles) for line in self._drawn)
        spans = ((strip, selection.get_span(at)) for at, strip in enumerate(strips))
        texts = (selected_text(strip, *span) for strip, span in spans if span is not None)
        return "\n".join(text.lstrip(_STROKES).rstrip(f"{_STROKES} ") for text in texts), "\n"


@runtime_checkable
class TakesKeys(Protocol):
    """A part of the screen with keys of its own, which work while it has the focus."""

    def enter(self) -> None:
        """Take the focus, at once."""


def press(hint: Widget, key: str) -> None:
    """Do what a key does that a hint names, in the part of the screen where the hint stands."""
    part = next((node for node in hint.ancestors_with_self if isinstance(node, TakesKeys)), None)
    if part is not None and isinstance(part, Widget) and not part.has_focus_within:
        part.enter()
    pressed = events.Key(key, character_of(key) or None)
    pressed.set_sender(hint.app)  # else it would bubble no further than up to here
    hint.app.post_message(pressed)


class Row(Lines):
    """One line, drawn by a function of its width."""

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
    """The strokes of a frame and the style they are drawn in."""

    strokes: str
    """Top left, top right, bottom left, bottom right, horizontal, vertical."""
    style: str


_STROKES = "┏┓┗┛━┃┌┐└┘─│┠┨"
HEAVY = Frame("┏┓┗┛━┃", "accent")
LIGHT = Frame("┌┐└┘─│", "muted")


def frame(focused: bool) -> Frame:
    return HEAVY if focused else LIGHT


def edge(look: Frame, top: bool, left: Spans, right: Spans, width: int) -> list[Span]:
    """The upper or lower edge with a title left and a remark right: `┏━ left ━━━━━━ right ━┓`."""
    start, end = (look.strokes[0], look.strokes[1]) if top else (look.strokes[2], look.strokes[3])
    stroke = look.strokes[4]
    if right and width_of(left) + width_of(right) + 10 > width:
        right = ()
    spans: list[Span] = [(start + stroke, look.style)]
    if left:
        room = max(width - 6, 0)
        text = left if width_of(left) <= room else tuple(crop(left, room))
        spans += [(" ", ""), *text, (" ", "")]
    tail: list[Span] = [(" ", ""), *right, (" ", "")] if right else []
    tail.append((stroke + end, look.style))
    fill = width - width_of(spans) - width_of(tail)
    return [*spans, (stroke * max(fill, 0), look.style), *tail]


def sides(look: Frame, inside: list[Span], width: int) -> list[Span]:
    """A line between the two sides; `inside` is cut or filled to `width` - 2 cells."""
    side = (look.strokes[5], look.style)
    return [side, *crop(inside, max(width - 2, 0)), side]


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule across the box, with a title at its left end and a remark at its right one."""

    title: Spans = ()
    tail: Spans = ()


def boxed(
    width: int,
    title: Spans,
    count: str | Spans,
    body: "Iterable[Line | Rule]",
    foot: Spans = (),
    aid: Spans = (),
) -> list[Line]:
    """A box of `width` cells: title and count in the upper edge, keys and an aid in the lower one.

    The lines of the body are cut or filled to `width` - 2 cells.
    """
    if isinstance(count, str):
        count = ((count, "muted"),) if count else ()
    return [
        edge(HEAVY, True, title, count, width),
        *(_rule(line, width) if isinstance(line, Rule) else sides(HEAVY, line, width) for line in body),
        edge(HEAVY, False, foot, aid, width),
    ]


def _rule(rule: Rule, width: int) -> Line:
    side, stroke = HEAVY.style, "─"
    left: Line = [(f"{stroke} ", side), *rule.title, (" ", "")] if rule.title else []
    right: Line = [(" ", ""), *rule.tail, (f" {stroke}", side)] if rule.tail else []
    fill = max(width - 2 - width_of(left) - width_of(right), 0)
    inside = crop([*left, (stroke * fill, side), *right], max(width - 2, 0))
    return [("┠", side), *inside, ("┨", side)]


def filled(lines: Sequence[Line], rows: int) -> list[Line]:
    """Exactly so many lines: cut at the end, or followed by blank ones."""
    return [*lines[:rows], *([[]] * (rows - len(lines)))]


def button(spans: Iterable[Span], key: str) -> Spans:
    """A click on these presses the key that hints call so."""
    pressed = pressed_by(key)
    return tuple((text, f"{style} key:{pressed[0][1]}" if pressed else style) for text, style in spans)


def hint(keys: str, word: str, style: str = "muted", of_keys: str = "accent") -> Spans:
    """`F2 inspector`, a button: each key that is shown presses itself, the word the first of them."""
    spans = [(part, f"{of_keys} key:{key}") for part, key in pressed_by(keys)] or [(keys, of_keys)]
    return (*spans, *button([(f" {word}", style)] * bool(word), keys))


def hints_in(words: str, style: str) -> Spans:
    """Words with hints between points, as `Enter opens · f filter`; other parts, which may not begin as a key
    does, are text."""
    parts: list[Spans] = []
    for part in words.split(" · "):
        each = part.split(" ")
        keys = next((at for at, word in enumerate(each) if not pressed_by(word)), len(each))
        named = hint(" ".join(each[:keys]), " ".join(each[keys:]), style, style)
        parts.append(named if keys else ((part, style),))
    return _between_points(parts, style)


def key_words(pairs: Iterable[tuple[str, str]], style: str = "text") -> Spans:
    """`Enter select · Esc close`, of (keys, word)."""
    return _between_points((hint(keys, word, style) for keys, word in pairs), "muted")


def _between_points(parts: Iterable[Spans], style: str) -> Spans:
    return tuple(span for part in parts for span in ((" · ", style), *part))[1:]


def window_start(marked: int, count: int, rows: int) -> int:
    """The first of `count` rows that is shown, so that the marked one is in sight."""
    return max(0, min(marked - rows + 1, count - rows))


LEAST = (40, 10)
"""Columns and rows below which nothing can be read."""


class TooSmall(Lines):
    """The one line of a terminal that is too small; what runs, runs on."""

    DEFAULT_CSS: ClassVar[str] = """
    TooSmall { display: none; }
    TooSmall.covers {
        display: block; overlay: screen; position: absolute; offset: 0 0;
        width: 100%; height: 100%; background: $role-background;
    }
    """

    def lines(self, width: int) -> list[list[Span]]:
        columns, rows = LEAST
        return [crop([(f"Too small: needs {columns}x{rows}", "text")], width)]


def fits(size: Size) -> bool:
    """Whether something can be read in a terminal of this size."""
    return size.width >= LEAST[0] and size.height >= LEAST[1]


def cover_if_too_small(screen: Screen[Any], size: Size) -> None:
    """Lay the line over a screen that does not show it, as long as the terminal is too small."""
    shown = list(screen.query(TooSmall))
    if fits(size):
        for each in shown:
            if each.has_class("covers"):
                each.remove()
    elif not shown:
        screen.mount(TooSmall(classes="covers"))
