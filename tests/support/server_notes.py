"""Summaries as long as models write them, and in the form that was asked for. What they say is made up.

For measurements of cost: recorded summaries of large windows, where they are prose, have 970 to 2,790 tokens.
"""

import re
from collections.abc import Iterator
from itertools import count as numbers
from typing import Any

from support.server_checks import count

LONGEST = 2_000
"""Tokens of a summary, unless less room was left for it."""
_SHARE = 2
"""Of the longest answer the request allows, what a summary takes at most: a half."""
_NOTE_SHARE = 0.6
"""Of what a note may take at most, what it takes."""

_SECTIONS = (
    "Goal",
    "Constraints & Preferences",
    "Progress",
    "Key Decisions",
    "Next Steps",
    "Critical Context",
)
_TAGS = (
    *("current_focus", "environment", "completed_tasks", "active_issues", "code_state", "important_context"),
)
_PIECE = re.compile(r'<(turn|topic) number="(\d+)" tokens="(\d+)">')
_AT_MOST = re.compile(r"At most about (\d+) tokens")


def notes(asked: str, body: dict[str, Any]) -> str:
    """The summary that a request asks for in its last message."""
    pieces = _PIECE.findall(asked)
    if pieces:
        return "\n\n".join(
            f"### {level.capitalize()} {number}\n{_lines(int(tokens) * _NOTE_SHARE)}"
            for level, number, tokens in pieces
        )
    allowed = int(body.get("max_completion_tokens") or body.get("max_tokens") or 2 * LONGEST)
    wanted = min([LONGEST, allowed // _SHARE, *map(int, _AT_MOST.findall(asked))])
    if f"<{_TAGS[0]}>" in asked:
        return "\n".join(f"<{tag}>\n{_lines(wanted / len(_TAGS))}\n</{tag}>" for tag in _TAGS)
    return "\n\n".join(f"## {title}\n{_lines(wanted / len(_SECTIONS))}" for title in _SECTIONS)


def _lines(tokens: float) -> str:
    """Lines of about so many tokens; at least one."""
    told: list[str] = []
    for line in _sentences():
        if told and tokens < count(line):
            break
        told.append(line)
        tokens -= count(line)
    return "\n".join(told)


def _sentences() -> Iterator[str]:
    for n in numbers(1):
        yield f"- Done: src/part_{n}/reader.py reads step {n} whole; checked with `pytest tests/part_{n} -q`"
        yield f"- Decided: keep the order of step {n}, because what comes after it leans on line {n * 17}"
        yield f"- Open: the case that test_{n}_at_the_end names, expected {n * 31}, got {n * 29}"
