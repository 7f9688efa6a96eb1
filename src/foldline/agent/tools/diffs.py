"""Unified diffs of two versions of a file."""

import difflib
from dataclasses import dataclass

from foldline.sequences import same_start

_CONTEXT = 3
_MOST_COMPARED = 4_000
"""Maximum number of lines compared per side of a change.

A larger change is shown as one replacement.
"""
_MOST_KEPT = 2_000
"""Maximum number of lines of a diff that are stored in the history.

An approval shows the whole diff.
"""


@dataclass(frozen=True, slots=True)
class UnifiedDiff:
    text: str
    """The complete unified diff; empty if nothing changed."""
    added: int
    removed: int

    @property
    def brief(self) -> str:
        return f"+{self.added} −{self.removed}"

    @property
    def clipped(self) -> str | None:
        """The part of the diff that is stored in the history, if anything changed."""
        lines = self.text.split("\n", _MOST_KEPT)
        if len(lines) > _MOST_KEPT and lines[-1]:
            lines[-1] = f"… {lines[-1].count(chr(10))} more lines\n"
        return "\n".join(lines) or None


def unified_diff(before: str, after: str, name: str) -> UnifiedDiff:
    """Return the differences between two versions of a file.

    CRLF and LF count as different.
    """
    old = _lines(before)
    new = _lines(after)
    same_before = same_start(old, new)
    same_after = same_start(old[same_before:][::-1], new[same_before:][::-1])
    start = max(0, same_before - _CONTEXT)
    tail = max(0, same_after - _CONTEXT)
    old = old[start : len(old) - tail]
    new = new[start : len(new) - tail]
    if max(len(old), len(new)) > _MOST_COMPARED:
        lead = same_before - start
        old_end = len(old) - same_after + tail
        new_end = len(new) - same_after + tail
        groups = [
            [
                ("equal", 0, lead, 0, lead),
                ("replace", lead, old_end, lead, new_end),
                ("equal", old_end, len(old), new_end, len(new)),
            ]
        ]
    else:
        groups = list(
            difflib.SequenceMatcher(None, old, new, autojunk=False).get_grouped_opcodes(
                _CONTEXT
            )
        )
    lines = [f"--- {name if before else '/dev/null'}", f"+++ {name}"]
    for group in groups:
        _, old_from, _, new_from, _ = group[0]
        _, _, old_to, _, new_to = group[-1]
        old_range = _range(old_from + start, old_to + start)
        new_range = _range(new_from + start, new_to + start)
        lines.append(f"@@ -{old_range} +{new_range} @@")
        for tag, old_from, old_to, new_from, new_to in group:
            if tag == "equal":
                lines += [f" {line}" for line in old[old_from:old_to]]
            else:
                lines += [f"-{line}" for line in old[old_from:old_to]]
                lines += [f"+{line}" for line in new[new_from:new_to]]
    if len(lines) == 2:
        return UnifiedDiff("", 0, 0)
    added = sum(line.startswith("+") for line in lines) - 1
    removed = sum(line.startswith("-") for line in lines) - 1
    return UnifiedDiff("\n".join(lines) + "\n", added, removed)


def _lines(text: str) -> list[str]:
    """Split text into lines.

    A last line without LF gets a note, so that the missing LF shows up as a difference.
    """
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    else:
        lines[-1] += "\n\\ No newline at end of file"
    return lines


def _range(first: int, end: int) -> str:
    count = end - first
    if count == 1:
        return str(first + 1)
    return f"{first + 1 if count else first},{count}"
