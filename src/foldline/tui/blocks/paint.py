"""What is laid over drawn lines: the cursor row, matches, the selection; and the scrollbar's thumb."""

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from rich.color import Color
from rich.segment import Segment, Segments
from rich.style import Style
from textual.scrollbar import ScrollBarRender
from textual.strip import Strip

_DEFAULT: Final = Color.default()


def cursor_row(strip: Strip, style: Style) -> Strip:
    """A line in reverse from end to end, in one colour; bold stays."""
    bold = style + Style(bold=True)
    return Strip(
        [Segment(text, bold if own is not None and own.bold else style) for text, own, _ in strip],
        strip.cell_length,
    )


def faded(strip: Strip, style: Style) -> Strip:
    """A line in the colour of `style`; bold, italics and marks stay."""
    color = style.color
    if color is None:
        return strip
    fade = Style(color=color)
    return Strip([Segment(text, (own or fade) + fade) for text, own, _ in strip], strip.cell_length)


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
        cuts = {0, len(text)} | {edge - position for edge in edges if position < edge < position + len(text)}
        for low, high in pairwise(sorted(cuts)):
            inside = any(start <= position + low < stop for start, stop in spans)
            segments.append(Segment(text[low:high], (own or Style()) + style if inside else own))
        position += len(text)
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
        back_color: Color = _DEFAULT,
        bar_color: Color = _DEFAULT,
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
