"""The extractive digest: a summary without a model. Every line of it is quoted from the history, none
invented.

`A → B` reads "A, and what came of it"; `tool · a, b` lists what a tool was called about; `…` marks what was
left out of a quotation.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from foldline.protocol import BaseMessage

from .language import GOAL, SECTIONS, Section, render_summary
from .points import Focus, Point, carried, points_of
from .quoting import clip, one_line, within
from .said import Said, said_in, said_in_text, summaries_in
from .tokens import estimate_tokens

SMALLEST = 96
"""Tokens below which there is no room for the sections: the digest is then the goal alone."""
_QUOTE = 320
_WORTH = 2.0
"""Points below this are left out, room or not: commands that only looked, "continue"."""
_USEFUL, _ALWAYS = 0.6, 240
"""Of the conversation's tokens, how many a digest may take; and how many it may always take."""


def digest(
    messages: Sequence[BaseMessage], *, previous: str | None, focus: str | None, max_tokens: int
) -> str:
    """A summary of messages in at most `max_tokens` (estimated), in the sections of DESIGN §7.

    `previous` and summaries among the messages are merged in, section by section; what matches `focus` comes
    first. Empty only where there is nothing to summarise.
    """
    earlier = "\n\n".join(filter(None, (previous, summaries_in(messages))))
    return _digest(said_in(messages), earlier, focus or "", max_tokens)


def digest_conversation(text: str, previous: str | None, focus: str | None, max_tokens: int) -> str:
    """The same from the text of a summary request, with its line labels."""
    return _digest(said_in_text(text), previous or "", focus or "", max_tokens)


def _digest(said: Sequence[Said], previous: str, focus: str, max_tokens: int) -> str:
    if not said and not previous.strip():
        return ""
    wanted = Focus(focus)
    points = [*carried(previous), *points_of(said, wanted)]
    points = [replace(point, score=point.score + 6 * wanted.share(point.text)) for point in points]
    if not points:
        points = [Point(GOAL, clip(one_line(next((s.text for s in said), "")), _QUOTE), 1, 0)]
    points = [point for point in points if point.score >= _WORTH] or points
    if max_tokens < SMALLEST:
        goal = max(points, key=lambda point: (point.section is GOAL, point.score))
        heading = f"{GOAL.heading}\n- "
        room = max_tokens - estimate_tokens(heading)
        return heading + within(goal.text, room) if room > 3 else within(goal.text, max(1, max_tokens))
    # A summary about as long as what it stands for would free nothing.
    useful = estimate_tokens(previous) + max(_ALWAYS, int(_USEFUL * sum(map(_size, said))))
    room = min(max_tokens, useful) - estimate_tokens(render_summary({}))
    return render_summary(_lines(_chosen(points, room)))


def _size(said: Said) -> int:
    return estimate_tokens(said.text) + sum(estimate_tokens(call.about) for call in said.calls)


# -- choosing ----------------------------------------------------------------------------------------


def _chosen(points: Sequence[Point], room: int) -> list[Point]:
    """The best points within a budget: first each section's share, then what is left to the best of all."""
    ranked = sorted(points, key=lambda point: (-point.score, point.order))
    taken = _Taken()
    for section in SECTIONS:
        share = int(room * section.share)
        for point in ranked:
            if point.section is section:
                share -= taken.add(point, share, clip=section is GOAL)
    for point in ranked:
        taken.add(point, room - taken.tokens)
    return taken.points


class _Taken:
    """Points taken so far, none of which says what another of its section says."""

    def __init__(self) -> None:
        self.points: list[Point] = []
        self.tokens = 0
        self._seen: dict[Section, list[str]] = {}

    def add(self, point: Point, room: int, clip: bool = False) -> int:
        """Takes a point where it is new and there is room; gives the tokens it takes.

        With `clip`, a section's first point is shortened rather than left out.
        """
        key = _key(point.text)
        seen = self._seen.setdefault(point.section, [])
        if not key or any(key in other for other in seen):
            return 0
        cost = _cost(point.text)
        if cost > room:
            if not clip or seen or room < 12:
                return 0
            point = replace(point, text=within(point.text, room - 2))
            cost = _cost(point.text)
        seen.append(key)
        self.points.append(point)
        self.tokens += cost
        return cost


def _cost(text: str) -> int:
    # Estimates are rounded up, so that the sum of the lines is never less than the estimate of the whole.
    return estimate_tokens(f"- {text}\n")


def _key(text: str) -> str:
    return "".join(char for char in text.casefold() if char.isalnum())


def _lines(points: Iterable[Point]) -> dict[Section, list[str]]:
    lines: dict[Section, list[str]] = {}
    for point in sorted(points, key=lambda point: point.order):
        lines.setdefault(point.section, []).append(point.text)
    return lines
