"""Summaries in the LLM view: what they stand for, and their first lines while they are closed."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from textual.strip import Strip

from foldline.context.language import within_frame
from foldline.context.projection import Projection
from foldline.context.view import ViewItem
from foldline.tui.blocks import Block, Key, Span, Styles, cut_right
from foldline.tui.blocks.cells import to_strip
from foldline.tui.inspector.places import preview_key
from foldline.tui.inspector.text import first_words

PREVIEW_LINES: Final = 6
"""Lines of a summary that show while it is closed."""


@dataclass(frozen=True, slots=True, eq=False)
class SummaryPreview(Block):
    """The first lines of a closed summary. Where it names the file of the other panel's cursor, those lines
    come in the place of the last ones; the height stays the same."""

    lines: tuple[str, ...]
    marked: frozenset[int]
    """Lines that name the file: the gutter gives them `▷`."""
    more: int
    stop: bool = field(default=False, kw_only=True)

    def render(self, width: int, styles: Styles) -> list[Strip]:
        shown: list[list[Span]] = [[(cut_right(line, width - 2), "text")] for line in self.lines]
        if self.more:
            more = f"… {self.more} more line{'s' * (self.more > 1)}, Enter opens"
            shown.append([(cut_right(more, width - 2), "muted")])
        return [to_strip([("┊ ", "folded deco"), *line], styles) for line in shown]

    def estimate(self, width: int) -> int:
        return len(self.lines) + bool(self.more)

    def text(self) -> str:
        return ""


def summary_preview(row: Key, text: str, names: tuple[str, ...]) -> SummaryPreview:
    """The closed summary at `row`. Always as high, whatever `names` it is asked for."""
    # The sentence around it says nothing of this session.
    lines = [words for line in within_frame(text).split("\n") if (words := first_words(line))]
    shown = list(range(min(len(lines), PREVIEW_LINES)))
    naming = [at for at, line in enumerate(lines) if any(name in line for name in names)]
    wanted = [at for at in naming if at not in shown][: max(PREVIEW_LINES - 3, 0)]
    if wanted and not any(at in shown for at in naming):
        shown = [*shown[: len(shown) - len(wanted)], *wanted]
    return SummaryPreview(
        preview_key(row),
        tuple(lines[at] for at in shown),
        frozenset(number for number, at in enumerate(shown) if at in naming),
        len(lines) - len(shown),
    )


def summary_words(projection: Projection, item: ViewItem) -> str:
    """`of 118 and 119–351, 123 entries`: what a summary stands for."""
    inputs = _inputs(projection, item)
    spans = [f"{first}–{last}" if last > first else str(first) for first, last in item.covers]
    count = projection.compacted(item.index, item.covers)
    named = [*map(str, inputs), *_abridged(spans)]
    of = " and ".join(filter(None, (", ".join(named[:-1]), named[-1]))) if named else ""
    entries = f"{count} entr{'y' if count == 1 else 'ies'}" if count else ""
    return ("of " if of else "") + ", ".join(part for part in (of, entries) if part)


def _abridged(spans: Sequence[str]) -> Sequence[str]:
    return spans if len(spans) <= 3 else (spans[0], "…", spans[-1])


def _inputs(projection: Projection, item: ViewItem) -> tuple[int, ...]:
    written, nth = projection.written_by(item.index), item.key[1]
    return written[nth].inputs if nth < len(written) else ()
