"""Clips long text to a number of tokens.

Keeps the beginning, the lines that report failures, and the end. All tool results are clipped here. The time
is linear in the length of the text. The same text and budget always give the same clip, byte for byte, so
that a provider's cache stays valid.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice, pairwise

from foldline.protocol import BaseMessage
from foldline.sequences import merged_spans
from foldline.text.shorten import ELLIPSIS
from foldline.view.items import with_text
from foldline.view.tokens import estimate_tokens

from .cues import FAILURE_SIGNS
from .facts import BEFORE_FAILURE, LONGEST, reports_failure

Span = tuple[int, int]
"""Start and end of a part of the text, in characters."""

_HEAD_SHARE = 0.6
"""Share of the available tokens for the head, which usually says what the text is about.

The tail usually contains the outcome.
"""
_FAILURE_SHARE = 0.5
"""Maximum share of the tokens for lines that report failures.

The remaining tokens are divided between head and tail.
"""
_NEIGHBOURS = 2
"""Number of lines kept before and after a line that reports a failure."""
_MOST_SUSPECTS = 400
"""Maximum number of lines with a sign of failure that are examined from each end of the text."""
_GAP_TOKENS = 16
"""Tokens reserved for the line that marks a gap."""
MOST_CHARS = 8
"""More characters than any token has (at most 6.8, for spaces).

Text with more characters than this per available token is certainly too long, so its tokens need not be
estimated.
"""


def clip_to_tokens(text: str, max_tokens: int, index: int) -> str:
    """Clip the text of an entry, and add a note saying how to read the rest."""
    total = estimate_tokens(text)
    if total <= max_tokens:
        return text
    note = (
        f"[foldline: clipped, about {total - max_tokens} of {total} tokens left out; "
        f"history_read({index}) shows all of entry {index}]"
    )
    room = max_tokens - estimate_tokens(note) - 1
    while True:
        spans = kept_spans(text, room)
        clipped = joined(text, spans, [note, *("[…]" for _ in spans[2:])])
        excess = estimate_tokens(clipped) - max_tokens
        if excess <= 0 or room <= 0:
            return clipped
        room -= excess  # digits on both sides of a gap can count more than apart


def clip_messages(
    messages: Iterable[BaseMessage], limits: Mapping[int, int]
) -> list[BaseMessage]:
    """Clip messages to their limits.

    Args:
        limits: maximum size in tokens, by message index.
    """
    clipped = []
    for message in messages:
        limit = limits.get(message.index)
        if limit is not None:
            message = with_text(
                message, clip_to_tokens(message.text, limit, message.index)
            )
        clipped.append(message)
    return clipped


def clip_line(text: str, tokens: int) -> str:
    """Return the beginning of a line, at most `tokens` tokens long.

    At least one character is returned.
    """
    if estimate_tokens(text) <= tokens:
        return text
    length = longest(len(text), tokens, lambda end: text[:end] + ELLIPSIS)
    return text[:length].rstrip() + ELLIPSIS


def fits(text: str, room: int) -> bool:
    """Return whether text has at most `room` tokens."""
    return len(text) <= max(room, 0) * MOST_CHARS and estimate_tokens(text) <= room


def first_lines(text: str, room: int) -> str:
    """Return as many complete lines from the start as fit into `room` tokens."""
    head = text[: _head_end(text, room)]
    return head if head.endswith("\n") else ""


def kept_spans(text: str, room: int) -> list[Span]:
    """Return the spans of long text to keep within `room` tokens.

    The first span is the head and the last is the tail. Both may be empty. Spans consist of complete lines,
    unless lines are very long.
    """
    room_for_failures = int(room * _FAILURE_SHARE)
    head, tail = _ends(text, room - room_for_failures)
    failures, used = _failures(text, _suspects(text, head, tail), room_for_failures)
    head, tail = _ends(text, room - used)
    spans = merged_spans([(0, head), *sorted(failures)])
    while len(spans) > 1 and spans[-1][1] >= tail:
        start, _ = spans.pop()
        tail = min(tail, start)
    return [*spans, (max(tail, spans[-1][1]), len(text))]


def joined(text: str, spans: Sequence[Span], notes: Sequence[str]) -> str:
    """Join the spans of the text, inserting a note in each gap."""
    first_start, first_end = spans[0]
    parts = [text[first_start:first_end]]
    for (start, end), note in zip(spans[1:], notes, strict=True):
        line_end = "" if not parts[-1] or parts[-1].endswith("\n") else "\n"
        parts += [f"{line_end}{note}\n", text[start:end]]
    return "".join(parts)


def gaps(spans: Sequence[Span]) -> Iterator[Span]:
    """Return the gaps between the spans."""
    return ((before[1], after[0]) for before, after in pairwise(spans))


# --- head and tail -----------------------------------------------------------------------------------


def _ends(text: str, room: int) -> Span:
    """Return where the head ends and where the tail starts.

    Together, head and tail fit into `room` tokens.
    """
    room = max(room, 0)
    head = _head_end(text, int(room * _HEAD_SHARE))
    tail_room = room - estimate_tokens(text[:head])
    size = longest(
        len(text) - head, tail_room, lambda length: text[len(text) - length :]
    )
    return head, _at_line_start(text, len(text) - size, head)


def _head_end(text: str, room: int) -> int:
    return _at_line_end(text, longest(len(text), room, lambda length: text[:length]))


def longest(most: int, room: int, piece: Callable[[int], str]) -> int:
    """Return the largest argument, up to `most`, for which `piece` returns at most `room` tokens.

    The argument is found by bisection.
    """
    low = 0
    high = min(most, max(room, 0) * MOST_CHARS)
    while low < high:
        middle = (low + high + 1) // 2
        if estimate_tokens(piece(middle)) <= room:
            low = middle
        else:
            high = middle - 1
    return low


def _at_line_end(text: str, end: int) -> int:
    """Return the nearest line end at or before a position.

    If more than half of the text before the position would be lost, returns the position itself, in the
    middle of a line.
    """
    line_end = text.rfind("\n", 0, end) + 1
    return line_end if line_end * 2 >= end else end


def _at_line_start(text: str, start: int, head_end: int) -> int:
    """Return the nearest line start at or after a position.

    If more than half of the text after the position would be lost, returns the position itself, in the middle
    of a line.
    """
    if start <= head_end or text[start - 1] == "\n":
        return max(start, head_end)
    line_start = text.find("\n", start) + 1
    if line_start and (len(text) - line_start) * 2 >= len(text) - start:
        return line_start
    return start


# --- lines that report failures ------------------------------------------------------------------------


def _suspects(text: str, start: int, end: int) -> list[Span]:
    """Return the lines with a sign of failure, in order.

    For a long line, only parts of the line are returned.
    """
    lines: set[Span] = set()
    for sign in FAILURE_SIGNS:
        lines.update(islice(_lines_with(text, sign, start, end), 2 * _MOST_SUSPECTS))
    return sorted(lines)


def _lines_with(
    text: str,
    sign: str,
    start: int,
    end: int,
) -> Iterator[Span]:
    """Yield the lines with a sign of failure, alternating between both ends of the text."""
    at = text.find(sign, start, end)
    while at >= 0:
        line = _line_around(text, at)
        yield line
        start = max(line[1], at + 1)
        at = max(at, text.rfind(sign, start, end))
        line = _line_around(text, at)
        yield line
        end = max(start, min(line[0], at))
        at = text.find(sign, start, end)


def _line_around(text: str, at: int) -> Span:
    """Return the line at a position, without its line end.

    For a long line, only a part of the line is returned.
    """
    start = text.rfind("\n", max(0, at - LONGEST), at) + 1
    if not start and at > LONGEST:
        start = at - BEFORE_FAILURE
    end = text.find("\n", at, start + LONGEST)
    return start, end if end >= 0 else min(len(text), start + LONGEST)


def _failures(
    text: str,
    suspects: Sequence[Span],
    room: int,
) -> tuple[list[Span], int]:
    """Choose lines that report failures, and return these lines and their number of tokens.

    Neighbouring lines are included if they fit. The first line is chosen first, then the last, the second,
    and so on. A repeated line is chosen only once.
    """
    chosen = []
    lines = set()
    used = 0
    for start, end in _from_both_ends(suspects):
        line = text[start:end].strip()
        if line in lines or not reports_failure(line):
            continue
        lines.add(line)
        for span in (_with_neighbours(text, start, end), (start, end)):
            cost = estimate_tokens(text[span[0] : span[1]]) + _GAP_TOKENS
            if used + cost <= room:
                used += cost
                chosen.append(span)
                break
    return chosen, used


def _from_both_ends(suspects: Sequence[Span]) -> Iterator[Span]:
    for position in range(min(len(suspects), _MOST_SUSPECTS)):
        yield suspects[position]
        yield suspects[-1 - position]


def _with_neighbours(text: str, start: int, end: int) -> Span:
    """Extend a span to include the complete lines around it.

    Very long neighbouring lines are left out.
    """
    if end < len(text) and text[end] == "\n":
        end += 1
    for _ in range(_NEIGHBOURS):
        before = text.rfind("\n", max(0, start - LONGEST), max(0, start - 1)) + 1
        if start and text[start - 1] == "\n" and (before or start <= LONGEST):
            start = before
        after = text.find("\n", end, end + LONGEST) + 1
        if text[end - 1] == "\n" and after:
            end = after
    return start, end
