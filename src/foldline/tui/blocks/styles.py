"""The colour roles as Rich styles, what is laid over drawn lines, and the thumb of the scrollbar."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from rich.color import Color as RichColor
from rich.segment import Segment, Segments
from rich.style import Style
from textual.color import Color, ColorParseError
from textual.scrollbar import ScrollBarRender
from textual.strip import Strip
from textual.theme import Theme
from textual.widget import Widget

from foldline.context.harmless import PLACEHOLDER
from foldline.tui.blocks.links import FileLinks

if TYPE_CHECKING:
    from foldline.tui.blocks.pictures import Picture, Placement

ROLES: Final = ("text", "muted", "accent", "live", "altered", "folded", "alert", "code")
"""What a colour may mean: docs/design/screens.md."""

_ATTRIBUTES: Final = {
    **{name: Style.parse(name) for name in ("bold", "italic", "underline", "strike", "dim", "reverse")},
    # Drawn, but no part of the text: left out when a selection is copied.
    "deco": Style(meta={"deco": True}),
}


_KEPT: Final = 2_000
"""Styles that are remembered."""


@dataclass(frozen=True)
class Styles:
    """Colour roles as Rich styles. `styles["live bold"]` is the style of a space-separated specification
    of roles and attributes (bold, italic, underline, strike, dim, reverse, deco), and of links, as in
    `blocks/links.py`; `key:f2` is of a button, a click on which presses that key, `entry:7` of what stands
    for an entry. Equal styles draw equally.
    """

    colors: tuple[tuple[str, str], ...] = ()
    """(role, colour as Rich understands it); a role without one is drawn in the terminal's own."""
    no_color: bool = False
    background: Style = field(default_factory=Style)
    """Behind all of it; without a colour where the terminal's own is."""
    files: FileLinks | None = None
    """None: paths are no links."""
    pictures: "Callable[[Picture, int], Placement | None] | None" = None
    """Gives a picture a place in the terminal, at most so wide; None: none is shown among lines."""
    _known: dict[str, Style] = field(default_factory=dict, compare=False, repr=False)

    def __getitem__(self, spec: str) -> Style:
        style = self._known.get(spec)
        if style is None:
            if len(self._known) > _KEPT:
                self._known.clear()  # of links there is no end
            style = self._known[spec] = self._combined(spec)
        return style

    def _combined(self, spec: str) -> Style:
        colors = dict(self.colors)
        style = Style(color=colors.get("text"))
        for word in spec.split():
            if word in _ATTRIBUTES:
                style += _ATTRIBUTES[word]
            elif word in ROLES:
                style += Style(color=colors.get(word))
            elif word.startswith("link="):
                style += Style(link=word[5:])
            elif word.startswith("path="):
                style += Style(link=self.files.address(word[5:]) if self.files else None)
            elif word.startswith(("key:", "entry:")):
                name, _, value = word.partition(":")
                style += Style(meta={name: value})
            else:
                raise KeyError(f"{word!r} is neither a colour role nor an attribute")
        return style


def styles_from(variables: Mapping[str, str], no_color: bool, files: FileLinks | None = None) -> Styles:
    """The styles of a theme's CSS variables (`role-muted` …). With `no_color` no role has a colour; marks,
    bold and reverse stay."""
    if no_color:
        return Styles(no_color=True, files=files)
    found = ((role, _rich_color(variables.get(f"role-{role}"))) for role in ROLES)
    behind = variables.get("role-background", "")
    background = Style(bgcolor=_rich_color(behind)) if behind.startswith("#") else Style()
    colors = tuple((role, color) for role, color in found if color is not None)
    return Styles(colors, background=background, files=files)


def _rich_color(value: str | None) -> str | None:
    """A CSS colour as a Rich colour name, or None where it says nothing about one (`auto 87%`, empty)."""
    if not value:
        return None
    try:
        color = Color.parse(value).rich_color
    except ColorParseError:
        return None
    return color.name


class Themed(Widget):
    """A widget that draws with the roles of the theme, whichever that is."""

    roles = Styles()

    def on_mount(self) -> None:
        self._restyle()
        self.app.theme_changed_signal.subscribe(self, self._on_theme)

    def on_unmount(self) -> None:
        self.app.theme_changed_signal.unsubscribe(self)  # it would keep us

    def _on_theme(self, _: Theme) -> None:
        self._restyle()

    def _restyle(self) -> None:
        app = self.app
        roles = styles_from(app.theme_variables, app.no_color, getattr(app, "files", None))
        pictures = getattr(app, "pictures", None)
        self.roles = replace(roles, pictures=pictures.place) if pictures else roles
        self.refresh()


_DEFAULT: Final = RichColor.default()


def cursor_row(strip: Strip, style: Style) -> Strip:
    """A line in reverse from end to end, in one colour; bold stays."""
    bold = style + Style(bold=True)
    return _recolored(strip, lambda own: bold if own is not None and own.bold else style)


def faded(strip: Strip, style: Style) -> Strip:
    """A line in the colour of `style`; bold, italics and marks stay."""
    color = style.color
    if color is None:
        return strip
    fade = Style(color=color)
    return _recolored(strip, lambda own: (own or fade) + fade)


def _recolored(strip: Strip, look: Callable[[Style | None], Style]) -> Strip:
    """A line in other colours, but for its pictures."""
    return Strip(
        [Segment(text, own if PLACEHOLDER in text else look(own)) for text, own, _ in strip],
        strip.cell_length,
    )


def with_matches(strip: Strip, needle: re.Pattern[str], style: Style, start: int) -> Strip:
    """A line with every match from character `start` on in `style`."""
    spans = [match.span() for match in needle.finditer(strip.text, start) if match[0]]
    return _restyled(strip, spans, style) if spans else strip


def with_selection(strip: Strip, start: int, stop: int, style: Style) -> Strip:
    """A line with its characters from `start` to `stop` (-1: its end) in `style`."""
    return _restyled(strip, [(start, len(strip.text) if stop < 0 else stop)], style)


def selected_text(strip: Strip, start: int, stop: int) -> str:
    """The text of a line between two characters (-1: its end), without what only decorates it."""
    text, position = "", 0
    for segment in strip:
        end = position + len(segment.text)
        low, high = max(start, position), end if stop < 0 else min(stop, end)
        if low < high and not (segment.style and segment.style.meta.get("deco")):
            text += segment.text[low - position : high - position]
        position = end
    return text.rstrip()


def _restyled(strip: Strip, spans: Sequence[tuple[int, int]], style: Style) -> Strip:
    """A line with a style added to some of its characters, given as spans in order."""
    edges = [edge for span in spans for edge in span]
    segments: list[Segment] = []
    position = 0
    for text, own, _ in strip:
        end = position + len(text)
        inner = () if PLACEHOLDER in text else edges  # each cell of a picture is several characters
        cuts = {0, len(text)} | {edge - position for edge in inner if position < edge < end}
        for low, high in pairwise(sorted(cuts)):
            inside = bool(inner) and any(start <= position + low < stop for start, stop in spans)
            segments.append(Segment(text[low:high], (own or Style()) + style if inside else own))
        position = end
    return Strip(segments, strip.cell_length)


class ThinBar(ScrollBarRender):
    """A half-cell thumb and no track: the frame next to it stays the only line."""

    @classmethod
    def render_bar(
        cls,
        size: int = 25,
        virtual_size: float = 50,
        window_size: float = 20,
        position: float = 0,
        thickness: int = 1,
        vertical: bool = True,
        back_color: RichColor = _DEFAULT,
        bar_color: RichColor = _DEFAULT,
    ) -> Segments:
        """One glyph a row; the actions of the mouse are those of Textual's own bar."""
        size = int(size)
        if not window_size or virtual_size <= window_size:
            return Segments([Segment(" " * thickness, Style())] * size, new_lines=True)
        thumb = max(1, min(round(size * window_size / virtual_size), size))
        start = round((size - thumb) * min(max(position / (virtual_size - window_size), 0), 1))
        if position > 0 and start == 0 and size > thumb:
            start = 1  # at the top only where the first line is on screen
        above = Segment(" " * thickness, Style(meta={"@mouse.down": "scroll_up"}))
        below = Segment(" " * thickness, Style(meta={"@mouse.down": "scroll_down"}))
        grip = Segment("▐" * thickness, Style(color=bar_color, meta={"@mouse.down": "grab"}))
        rows = [above] * start + [grip] * thumb + [below] * (size - start - thumb)
        return Segments(rows, new_lines=True)
