"""Colour roles as Rich styles, overlays on drawn lines, and the scrollbar."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from rich.color import Color as RichColor
from rich.segment import Segment, Segments
from rich.style import Style
from textual.color import Color, ColorParseError
from textual.scrollbar import ScrollBarRender
from textual.strip import Strip
from textual.theme import Theme
from textual.widget import Widget

from foldline.tui.look.links import FileLinks

ROLES: Final = (
    "text",
    "muted",
    "accent",
    "live",
    "altered",
    "compacted",
    "alert",
    "code",
)
"""The names of the colour roles, described in docs/design/screens.md."""

_ATTRIBUTES: Final = {
    **{
        name: Style.parse(name)
        for name in ("bold", "italic", "underline", "strike", "dim", "reverse")
    },
    # Decoration is drawn, but is left out when a selection is copied.
    "deco": Style(meta={"deco": True}),
}


_CACHED: Final = 2_000
"""Maximum number of styles in the cache."""


@dataclass(frozen=True)
class Styles:
    """Colour roles as Rich styles: `styles["live bold"]`.

    A specification is a list of roles, attributes (bold, italic, underline, strike, dim, reverse, deco) and
    links (`blocks/links.py`), separated by spaces. If it contains `key:f2`, a click on the text presses F2.
    If it contains `entry:7`, the text is a mark for entry 7.
    """

    colors: tuple[tuple[str, str], ...] = ()
    """(role, Rich colour name) pairs. Roles that are not listed have the terminal's default colour."""
    no_color: bool = False
    background: Style = field(default_factory=Style)
    """The background style. If it has no colour, the terminal's own background is used."""
    files: FileLinks | None = None
    """Converts paths to links; None if paths are not linked."""
    _known: dict[str, Style] = field(default_factory=dict, compare=False, repr=False)

    def __getitem__(self, spec: str) -> Style:
        style = self._known.get(spec)
        if style is None:
            if len(self._known) > _CACHED:
                self._known.clear()  # the number of links is not limited
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
                style += Style(
                    link=self.files.address(word[5:]) if self.files else None
                )
            elif word.startswith(("key:", "entry:")):
                name, _, value = word.partition(":")
                style += Style(meta={name: value})
            else:
                raise KeyError(f"{word!r} is neither a colour role nor an attribute")
        return style


def styles_from(
    variables: Mapping[str, str], no_color: bool, files: FileLinks | None = None
) -> Styles:
    """Create styles from a theme's CSS variables (`role-muted` …).

    If `no_color` is set, roles have no colour, but attributes such as bold are kept.
    """
    if no_color:
        return Styles(no_color=True, files=files)
    background = Style()
    background_color = variables.get("role-background", "")
    if background_color.startswith("#"):
        background = Style(bgcolor=_rich_color(background_color))
    role_colors = ((role, _rich_color(variables.get(f"role-{role}"))) for role in ROLES)
    colors = tuple((role, color) for role, color in role_colors if color is not None)
    return Styles(colors, background=background, files=files)


def _rich_color(value: str | None) -> str | None:
    """Convert a CSS colour to a Rich colour name.

    Returns None if the value is empty or not a fixed colour, such as `auto 87%`.
    """
    if not value:
        return None
    try:
        color = Color.parse(value).rich_color
    except ColorParseError:
        return None
    return color.name


class Themed(Widget):
    """A widget that draws with the current theme's colour roles."""

    roles = Styles()

    def on_mount(self) -> None:
        self._restyle()
        self.app.theme_changed_signal.subscribe(self, self._on_theme)

    def on_unmount(self) -> None:
        self.app.theme_changed_signal.unsubscribe(
            self
        )  # otherwise the signal keeps the widget alive

    def _on_theme(self, _: Theme) -> None:
        self._restyle()

    def _restyle(self) -> None:
        app = self.app
        self.roles = styles_from(
            app.theme_variables, app.no_color, getattr(app, "files", None)
        )
        self.refresh()


_DEFAULT: Final = RichColor.default()


def cursor_row(strip: Strip, style: Style) -> Strip:
    """Draw a line in one style, in reverse video. Bold and the actions of clicks are kept."""
    return _recolored(
        strip,
        lambda own: (
            style if own is None else style + Style(bold=own.bold, meta=own.meta)
        ),
    )


def faded(strip: Strip, style: Style) -> Strip:
    """Draw a line in the colour of `style`.

    Bold and italic are kept.
    """
    color = style.color
    if color is None:
        return strip
    fade = Style(color=color)
    return _recolored(strip, lambda own: (own or fade) + fade)


def _recolored(strip: Strip, look: Callable[[Style | None], Style]) -> Strip:
    """Change the style of a line."""
    segments = [Segment(text, look(own)) for text, own, _ in strip]
    return Strip(segments, strip.cell_length)


def with_matches(
    strip: Strip, needle: re.Pattern[str], style: Style, start: int
) -> Strip:
    """Draw all matches at or after character `start` in `style`."""
    spans = [match.span() for match in needle.finditer(strip.text, start) if match[0]]
    return _restyled(strip, spans, style) if spans else strip


def with_selection(strip: Strip, start: int, stop: int, style: Style) -> Strip:
    """Draw the characters from `start` up to `stop` in `style`. A `stop` of -1 means the end of the line."""
    return _restyled(strip, [(start, len(strip.text) if stop < 0 else stop)], style)


def selected_text(strip: Strip, start: int, stop: int) -> str:
    """Return the text from `start` up to `stop`, without decoration.

    A `stop` of -1 means the end of the line.
    """
    text, position = "", 0
    for segment in strip:
        end = position + len(segment.text)
        low = max(start, position)
        high = end if stop < 0 else min(stop, end)
        if low < high and not (segment.style and segment.style.meta.get("deco")):
            text += segment.text[low - position : high - position]
        position = end
    return text.rstrip()


def _restyled(strip: Strip, spans: Sequence[tuple[int, int]], style: Style) -> Strip:
    """Add a style to character ranges."""
    edges = [edge for span in spans for edge in span]
    segments: list[Segment] = []
    position = 0
    for text, own, _ in strip:
        cuts = {
            0,
            len(text),
            *(min(max(edge - position, 0), len(text)) for edge in edges),
        }
        for low, high in pairwise(sorted(cuts)):
            inside = any(start <= position + low < stop for start, stop in spans)
            added = (own or Style()) + style if inside else own
            segments.append(Segment(text[low:high], added))
        position += len(text)
    return Strip(segments, strip.cell_length)


class ThinBar(ScrollBarRender):
    """A scrollbar with a half-cell thumb and no track, beside the frame's line."""

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
        """Draw the scrollbar, with the same mouse actions as Textual's scrollbar."""
        size = int(size)
        if not window_size or virtual_size <= window_size:
            return Segments([Segment(" " * thickness, Style())] * size, new_lines=True)
        thumb = max(1, min(round(size * window_size / virtual_size), size))
        start = round(
            (size - thumb) * min(max(position / (virtual_size - window_size), 0), 1)
        )
        if position > 0 and start == 0 and size > thumb:
            start = 1  # the thumb is at the top only if the first line is visible
        above = Segment(" " * thickness, Style(meta={"@mouse.down": "scroll_up"}))
        below = Segment(" " * thickness, Style(meta={"@mouse.down": "scroll_down"}))
        grip = Segment(
            "▐" * thickness, Style(color=bar_color, meta={"@mouse.down": "grab"})
        )
        rows = [above] * start + [grip] * thumb + [below] * (size - start - thumb)
        return Segments(rows, new_lines=True)
