"""Made-up summaries of realistic length, in the requested form.

For measurements of cost: recorded prose summaries of large windows have 970 to 2,790 tokens.
"""

import re
from collections.abc import Iterator
from itertools import count as numbers
from typing import Any

from support.server_checks import count

LONGEST = 2_000
"""Tokens of a summary, if there is room."""
_SHARE = 2
"""Largest share of the answer limit that a summary takes: a half."""
_NOTE_SHARE = 0.6
"""Share of a note's limit that it takes."""

_SECTIONS = (
    "Goal",
    "Constraints & Preferences",
    "Progress",
    "Key Decisions",
    "Next Steps",
    "Critical Context",
)
_TAGS = (
    *(
        "current_focus",
        "environment",
        "completed_tasks",
        "active_issues",
        "code_state",
        "important_context",
    ),
)
_PIECE = re.compile(r'<(turn|topic) number="(\d+)" tokens="(\d+)">')
_AT_MOST = re.compile(r"At most about (\d+) tokens")


def notes(request: str, body: dict[str, Any]) -> str:
    """Return the summary requested by the last message."""
    pieces = _PIECE.findall(request)
    if pieces:
        return "\n\n".join(
            f"### {level.capitalize()} {number}\n{_lines(int(tokens) * _NOTE_SHARE)}"
            for level, number, tokens in pieces
        )
    allowed = int(
        body.get("max_completion_tokens") or body.get("max_tokens") or 2 * LONGEST
    )
    length = min([LONGEST, allowed // _SHARE, *map(int, _AT_MOST.findall(request))])
    if f"<{_TAGS[0]}>" in request:
        return "\n".join(
            f"<{tag}>\n{_lines(length / len(_TAGS))}\n</{tag}>" for tag in _TAGS
        )
    return "\n\n".join(
        f"## {title}\n{_lines(length / len(_SECTIONS))}" for title in _SECTIONS
    )


def _lines(tokens: float) -> str:
    """Return lines of about `tokens` tokens; at least one."""
    lines: list[str] = []
    for line in _sentences():
        if lines and tokens < count(line):
            break
        lines.append(line)
        tokens -= count(line)
    return "\n".join(lines)


def _sentences() -> Iterator[str]:
    for n in numbers(1):
        yield f"- Done: src/part_{n}/reader.py reads step {n} whole; checked with `pytest tests/part_{n} -q`"
        yield f"- Decided: keep the order of step {n}, because what comes after it leans on line {n * 17}"
        yield f"- Open: the case that test_{n}_at_the_end names, expected {n * 31}, got {n * 29}"
