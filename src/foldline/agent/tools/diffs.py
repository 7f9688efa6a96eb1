"""Unified diffs and the counts of added and removed lines, in time that a large file does not blow up."""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass

_CONTEXT = 3
_MOST_COMPARED = 4_000
"""Lines of either side that are compared one by one; a larger change is shown as all out, all in."""
_MOST_KEPT = 2_000
"""Lines of a diff that are kept in the history. Who is asked about a change is shown all of it."""


@dataclass(frozen=True, slots=True)
class Change:
    diff: str
    """All of it; empty where nothing changed."""
    added: int
    removed: int

    @property
    def brief(self) -> str:
        return f"+{self.added} −{self.removed}"

    @property
    def kept(self) -> str | None:
        """What of the diff is kept in the history, if anything changed."""
        lines = self.diff.split("\n", _MOST_KEPT)
        if len(lines) > _MOST_KEPT and lines[-1]:
            lines[-1] = f"… {lines[-1].count(chr(10))} more lines\n"
        return "\n".join(lines) or None


def change(before: str, after: str, name: str) -> Change:
    """What became of a file. Line ends of either kind compare by what they are: CRLF to LF is a change."""
    old, new = _lines(before), _lines(after)
    same_start = _same(old, new)
    same_end = _same(old[same_start:][::-1], new[same_start:][::-1])
    start = max(0, same_start - _CONTEXT)
    tail = max(0, same_end - _CONTEXT)
    old, new = old[start : len(old) - tail], new[start : len(new) - tail]
    if max(len(old), len(new)) > _MOST_COMPARED:
        lead, trail = same_start - start, same_end - tail
        groups = [
            [
                ("equal", 0, lead, 0, lead),
                ("replace", lead, len(old) - trail, lead, len(new) - trail),
                ("equal", len(old) - trail, len(old), len(new) - trail, len(new)),
            ]
        ]
    else:
        groups = list(difflib.SequenceMatcher(None, old, new, autojunk=False).get_grouped_opcodes(_CONTEXT))
    out = [f"--- {name if before else '/dev/null'}", f"+++ {name}"]
    added = removed = 0
    for group in groups:
        out.append(_range_line(group, start))
        for tag, old_from, old_to, new_from, new_to in group:
            if tag == "equal":
                out.extend(" " + line for line in old[old_from:old_to])
            else:
                out.extend("-" + line for line in old[old_from:old_to])
                out.extend("+" + line for line in new[new_from:new_to])
                removed += old_to - old_from
                added += new_to - new_from
    if not added and not removed:
        return Change("", 0, 0)
    return Change("\n".join(out) + "\n", added, removed)


def _lines(text: str) -> list[str]:
    """Lines without their LF; a last line without one is marked, as a change of it is a change."""
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    else:
        lines[-1] += "\n\\ No newline at end of file"
    return lines


def _same(old: Sequence[str], new: Sequence[str]) -> int:
    """How many lines both begin with."""
    count = 0
    for left, right in zip(old, new, strict=False):
        if left != right:
            break
        count += 1
    return count


def _range_line(group: Sequence[tuple[str, int, int, int, int]], start: int) -> str:
    old_from, old_to, new_from, new_to = group[0][1], group[-1][2], group[0][3], group[-1][4]
    return f"@@ -{_range(old_from + start, old_to + start)} +{_range(new_from + start, new_to + start)} @@"


def _range(first: int, end: int) -> str:
    count = end - first
    if count == 1:
        return str(first + 1)
    return f"{first + 1 if count else first},{count}"
