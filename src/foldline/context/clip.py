"""Clips a long text to a budget of tokens: its head, the lines that report failures, its tail.

Every clip of a tool result is made here. Linear in the text; the same text and budget give the same clip,
byte for byte, so that a provider's cache holds.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from foldline.protocol import BaseMessage

from .facts import BEFORE_FAILURE, FAILURE_SIGNS, LONGEST, reports_failure
from .tokens import estimate_tokens
from .view import with_text

Span = tuple[int, int]
"""Start and end of a piece of a text, in characters."""

_HEAD_SHARE = 0.6
"""Of the room, how much goes to the head: openings name things, ends hold the outcome."""
_FAILURE_SHARE = 0.5
"""Of the room, how much lines that report failures may take before head and tail are cut."""
_NEIGHBOURS = 2
"""Lines that are kept on either side of such a line."""
_MOST_SUSPECTS = 400
"""Lines with a sign of failure that are looked at, from each end of the text."""
_GAP_TOKENS = 16
"""Room for the line that marks a gap."""
MOST_CHARS = 8
"""More characters than a token ever stands for (of spaces, the lightest, it takes 6.8): a text longer than
that is not measured."""


def clip_to_tokens(text: str, max_tokens: int, index: int) -> str:
    """Clip the text of an entry, and say how to recall the rest."""
    total = estimate_tokens(text)
    if total <= max_tokens:
        return text
    note = (
        f"[foldline: clipped, about {total - max_tokens} of {total} tokens left out; "
        f"history_read({index}) shows all of entry {index}]"
    )
    spans = kept_spans(text, max_tokens - estimate_tokens(note) - 1)
    return joined(text, spans, [note, *("[…]" for _ in spans[2:])])


def clip_messages(messages: Iterable[BaseMessage], limits: Mapping[int, int]) -> list[BaseMessage]:
    """Clip the messages with these indices to their limit, in tokens."""
    return [
        with_text(message, clip_to_tokens(message.text, limits[message.index], message.index))
        if message.index in limits
        else message
        for message in messages
    ]


def fits(text: str, room: int) -> bool:
    """Whether a text takes no more than `room` tokens."""
    return len(text) <= max(room, 0) * MOST_CHARS and estimate_tokens(text) <= room


def first_lines(text: str, room: int) -> str:
    """As many whole lines from the start as fit `room` tokens; empty if the first one is too long."""
    end = _head_end(text, room)
    return text[:end] if text[:end].endswith("\n") else ""


def kept_spans(text: str, room: int) -> list[Span]:
    """What of a text that is too long is kept in `room` tokens, in order: the head first, the tail last, each
    of which may be empty. Whole lines if lines are of ordinary length."""
    for_failures = int(room * _FAILURE_SHARE)
    head, tail = _ends(text, room - for_failures)
    chosen, used = _chosen(text, _suspects(text, head, tail), for_failures)
    head, tail = _ends(text, room - used)
    spans = [(0, head)]
    for start, end in sorted(chosen):
        if start <= spans[-1][1]:
            spans[-1] = (spans[-1][0], max(end, spans[-1][1]))
        else:
            spans.append((start, end))
    while len(spans) > 1 and spans[-1][1] >= tail:
        tail = min(tail, spans.pop()[0])
    return [*spans, (max(tail, spans[-1][1]), len(text))]


def joined(text: str, spans: Sequence[Span], notes: Sequence[str]) -> str:
    """The spans of a text, each gap between them marked by a line of its own."""
    parts = [text[slice(*spans[0])]]
    for (start, end), note in zip(spans[1:], notes, strict=True):
        line_end = "" if not parts[-1] or parts[-1].endswith("\n") else "\n"
        parts += [f"{line_end}{note}\n", text[start:end]]
    return "".join(parts)


def gaps(spans: Sequence[Span]) -> Iterator[Span]:
    """What lies between the spans."""
    return ((before[1], after[0]) for before, after in pairwise(spans))


# --- head and tail -----------------------------------------------------------------------------------


def _ends(text: str, room: int) -> Span:
    """Where the head ends and the tail begins within so many tokens."""
    head = _head_end(text, int(max(room, 0) * _HEAD_SHARE))
    tail_room = max(room, 0) - estimate_tokens(text[:head])
    size = longest(len(text) - head, tail_room, lambda length: text[len(text) - length :])
    return head, _at_line_start(text, len(text) - size, head)


def _head_end(text: str, room: int) -> int:
    return _at_line_end(text, longest(len(text), room, lambda length: text[:length]))


def longest(most: int, room: int, piece: Callable[[int], str]) -> int:
    """The most characters a piece may have within `room` tokens, by bisection."""
    low, high = 0, min(most, max(room, 0) * MOST_CHARS)
    while low < high:
        middle = (low + high + 1) // 2
        if estimate_tokens(piece(middle)) <= room:
            low = middle
        else:
            high = middle - 1
    return low


def _at_line_end(text: str, end: int) -> int:
    """Back to the last whole line, unless that gives up more than half: then the line itself is too long."""
    snapped = text.rfind("\n", 0, end) + 1
    return snapped if snapped * 2 >= end else end


def _at_line_start(text: str, start: int, head_end: int) -> int:
    """On to the next whole line, under the same condition."""
    if start <= head_end or text[start - 1] == "\n":
        return max(start, head_end)
    snapped = text.find("\n", start) + 1
    return snapped if snapped and (len(text) - snapped) * 2 >= len(text) - start else start


# --- lines that report failures ------------------------------------------------------------------------


def _suspects(text: str, start: int, end: int) -> list[Span]:
    """Lines between two places that contain a sign of failure, in order; of long lines pieces."""
    found: set[Span] = set()
    for sign in FAILURE_SIGNS:
        first, last = start, end
        for _ in range(_MOST_SUSPECTS):
            at = text.find(sign, first, last)
            if at < 0:
                break
            line = _line_around(text, at)
            found.add(line)
            first = max(line[1], at + 1)
            at = max(at, text.rfind(sign, first, last))
            line = _line_around(text, at)
            found.add(line)
            last = max(first, min(line[0], at))
    return sorted(found)


def _line_around(text: str, at: int) -> Span:
    """The line at a place, without its line end; of a long one a piece around the place."""
    start = text.rfind("\n", max(0, at - LONGEST), at) + 1
    if not start and at > LONGEST:
        start = at - BEFORE_FAILURE
    end = text.find("\n", at, start + LONGEST)
    return start, end if end >= 0 else min(len(text), start + LONGEST)


def _chosen(text: str, suspects: Sequence[Span], room: int) -> tuple[list[Span], int]:
    """Lines that report failures, with their neighbours, in so many tokens, and what they take.

    The first, the last, the second and so on. Of lines that say the same, one is chosen.
    """
    chosen: list[Span] = []
    used, lines = 0, set[str]()
    for suspect in _from_both_ends(suspects):
        line = text[slice(*suspect)].strip()
        if line in lines or not reports_failure(line):
            continue
        lines.add(line)
        for piece in (_with_neighbours(text, *suspect), suspect):
            cost = estimate_tokens(text[slice(*piece)]) + _GAP_TOKENS
            if used + cost <= room:
                used += cost
                chosen.append(piece)
                break
    return chosen, used


def _from_both_ends(suspects: Sequence[Span]) -> Iterator[Span]:
    for place in range(min(len(suspects), _MOST_SUSPECTS)):
        yield suspects[place]
        yield suspects[-1 - place]


def _with_neighbours(text: str, start: int, end: int) -> Span:
    """A line and those around it, whole, with the line end; no neighbour that is very long."""
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
