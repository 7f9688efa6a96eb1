"""The extractive digest: a summary made without a model.

It consists of lines quoted from the history. The `digest_points` module finds the candidates. This module
selects the best of them within the budget.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from foldline.sequences import grouped
from foldline.text.shorten import clip, one_line
from foldline.view.items import Messages
from foldline.view.tokens import estimate_tokens

from .clip import clip_line
from .conversation import Statement, statements_of, summaries_in
from .digest_lines import QUOTE, DigestPoint
from .digest_points import FOCUS_WEIGHT, points_of
from .facts import same_words
from .focus import Focus
from .language import SECTIONS, Section, render_summary

SMALLEST = 96
"""Size, in estimated tokens, below which a digest has no room for sections.

Such a digest consists of the goal only.
"""
_LOWEST_SCORE = 2.0
"""Lines with a lower score are left out even if there is room."""
_USEFUL_SHARE = 0.6
"""Maximum size of a digest, as a fraction of the conversation's tokens."""
_ALWAYS_USEFUL = 240
"""Number of tokens that a digest may always use, regardless of that fraction."""


def digest(
    messages: Messages,
    *,
    previous: str | None,
    focus: str | None,
    max_tokens: int,
) -> str:
    """Summarise messages in the usual sections.

    The result is empty only if there is nothing to summarise.

    Args:
        previous: the summary that precedes the messages. It is merged into the digest, like any summaries
            among the messages.
        focus: topic whose lines come first.
        max_tokens: maximum size, in estimated tokens.
    """
    statements = statements_of(messages)
    summaries = [previous, summaries_in(messages)]
    earlier = "\n\n".join(summary for summary in summaries if summary)
    if not statements and not earlier.strip():
        return ""
    points = _scored_points(statements, earlier, Focus(focus or ""))
    room = min(max_tokens, _useful_tokens(statements, earlier))
    chosen = _chosen(points, room) if max_tokens >= SMALLEST else []
    if not chosen:
        return _goal_alone(points, max_tokens)
    return render_summary(_lines_by_section(chosen))


def _scored_points(
    statements: Sequence[Statement],
    previous: str,
    focus: Focus,
) -> list[DigestPoint]:
    """Return the candidates worth quoting. There is at least one."""
    points = []
    for point in points_of(statements, previous, focus):
        score = point.score + FOCUS_WEIGHT * focus.share(point.text)
        points.append(replace(point, score=score))
    if not points:
        first_text = statements[0].text if statements else ""
        points = [DigestPoint(SECTIONS.goal, clip(one_line(first_text), QUOTE), 1, 0)]
    return [point for point in points if point.score >= _LOWEST_SCORE] or points


def _useful_tokens(statements: Sequence[Statement], previous: str) -> int:
    """Return the maximum size of a useful digest, in tokens.

    A digest as long as the conversation would not free any tokens.
    """
    tokens = sum(map(_tokens_of, statements))
    return estimate_tokens(previous) + max(_ALWAYS_USEFUL, int(_USEFUL_SHARE * tokens))


def _tokens_of(statement: Statement) -> int:
    return estimate_tokens(statement.text) + sum(
        estimate_tokens(call.about) for call in statement.calls
    )


def _goal_alone(points: Sequence[DigestPoint], room: int) -> str:
    goal = max(points, key=lambda point: (point.section is SECTIONS.goal, point.score))
    heading = f"{SECTIONS.goal.heading}\n- "
    room_below = room - estimate_tokens(heading)
    if room_below > 3:
        return heading + clip_line(goal.text, room_below)
    return clip_line(goal.text, max(1, room))


# -- choosing ----------------------------------------------------------------------------------------


def _chosen(points: Sequence[DigestPoint], room: int) -> list[DigestPoint]:
    """Select the best candidates in each section, then the best of the remaining candidates."""
    ranked = sorted(points, key=lambda point: (-point.score, point.order))
    selection = _LineSelection()
    room_for_lines = room - sum(map(_heading_cost, SECTIONS))
    for section in SECTIONS:
        share = int(room_for_lines * section.share)
        for point in ranked:
            if point.section is section:
                share -= selection.add(point, share, may_clip=section is SECTIONS.goal)
    for point in ranked:
        selection.add(
            point, room - selection.tokens - selection.heading_tokens(point.section)
        )
    return selection.points


_SHORTEST_CLIP = 12
"""Minimum size of a clipped line, in tokens."""


class _LineSelection:
    """The points selected so far.

    Within a section, no two points repeat each other.
    """

    def __init__(self) -> None:
        self.points: list[DigestPoint] = []
        self.tokens = 0
        self._words: dict[Section, list[str]] = {section: [] for section in SECTIONS}

    def heading_tokens(self, section: Section) -> int:
        """Return the size of an empty section's heading, in tokens."""
        return 0 if self._words[section] else _heading_cost(section)

    def add(
        self,
        point: DigestPoint,
        room: int,
        *,
        may_clip: bool = False,
    ) -> int:
        """Add a point if it is new and fits.

        Args:
            may_clip: whether the first line of the section may be clipped.

        Returns:
            The size of the added line in tokens; 0 if it was not added.
        """
        words = same_words(point.text)
        words_of_section = self._words[point.section]
        if not words or any(words in other for other in words_of_section):
            return 0
        cost = _cost(point.text)
        if cost > room:
            if not may_clip or words_of_section or room < _SHORTEST_CLIP:
                return 0
            point = replace(point, text=clip_line(point.text, room - 2))
            cost = _cost(point.text)
        self.tokens += cost + self.heading_tokens(point.section)
        words_of_section.append(words)
        self.points.append(point)
        return cost


def _cost(text: str) -> int:
    # Estimates are rounded up, so the sum over the lines is never less than the estimate of the digest.
    return estimate_tokens(f"- {text}\n")


def _heading_cost(section: Section) -> int:
    return estimate_tokens(render_summary({section: ()}) + "\n")


def _lines_by_section(points: Iterable[DigestPoint]) -> dict[Section, list[str]]:
    in_order = sorted(points, key=lambda point: point.order)
    return grouped((point.section, point.text) for point in in_order)
