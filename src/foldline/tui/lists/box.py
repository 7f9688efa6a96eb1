"""The drawing of a box: edges, rules, lines between the sides, key words. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from foldline.tui.blocks.cells import Span, Spans, crop, width_of
from foldline.tui.widgets.lines import HEAVY, edge, sides

Line = list[Span]


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule across the box, with a title at its left end and a remark at its right one."""

    title: Spans = ()
    tail: Spans = ()


def boxed(
    width: int,
    title: Spans,
    count: str | Spans,
    body: Iterable[Line | Rule],
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


def key_words(pairs: Iterable[tuple[str, str]], style: str = "text") -> Spans:
    """`Enter select · Esc close`, of (keys, word)."""
    spans: Line = []
    for keys, word in pairs:
        spans += [(" · ", "muted")] if spans else []
        spans += [(keys, "accent"), (f" {word}", style)]
    return tuple(spans)
