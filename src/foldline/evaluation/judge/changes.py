"""What the tool calls of a session did to the lines of files: which line became which. Pure."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from foldline.protocol import ToolCallPart

_PAIRS = (
    ("old", "new"),
    ("oldText", "newText"),
    ("old_text", "new_text"),
    ("old_string", "new_string"),
    ("oldString", "newString"),
    ("old_str", "new_str"),
)
"""What the edit tools of the agents we know call the text before and the text after."""
_WHOLE = ("content", "contents", "file_text")
_PATHS = ("path", "file_path", "filePath")
_MOST_LINES = 2_000
"""Lines of one replaced text that are compared."""


@dataclass(frozen=True, slots=True)
class Block:
    """Lines of a file that other lines took the place of."""

    path: str
    """Empty where the call does not say."""
    removed: tuple[str, ...]
    added: tuple[str, ...]
    whole: bool = False
    """Whether `added` is all that the file holds now."""

    def pairs(self) -> Iterator[tuple[str, str]]:
        """The lines that became another line, each with what it became."""
        removed, added = self.removed[:_MOST_LINES], self.added[:_MOST_LINES]
        matcher = SequenceMatcher(None, removed, added, autojunk=False)
        for tag, i, i_end, j, j_end in matcher.get_opcodes():
            if tag == "replace" and i_end - i == j_end - j:
                yield from zip(removed[i:i_end], added[j:j_end], strict=True)


def blocks(call: ToolCallPart) -> Iterator[Block]:
    """The changes a call asks for; none where it edits nothing."""
    arguments = call.parsed()
    path = next((str(arguments[name]) for name in _PATHS if isinstance(arguments.get(name), str)), "")
    for name in _WHOLE:
        if isinstance(content := arguments.get(name), str):
            yield Block(path, (), _lines(content), whole=True)
            return
    yield from _within(path, arguments)


def _within(path: str, arguments: Mapping[str, object]) -> Iterator[Block]:
    for old, new in _PAIRS:
        before, after = arguments.get(old), arguments.get(new)
        if isinstance(before, str) and isinstance(after, str):
            yield Block(path, _lines(before), _lines(after))
    for value in arguments.values():
        match value:
            case str() if value.lstrip().startswith(("*** Begin Patch", "--- ", "diff --git")):
                yield from _patched(path, value.splitlines())
            case list():
                for item in value:
                    if isinstance(item, dict):
                        yield from _within(path, item)
            case _:
                pass


_NAMED = re.compile(r"\*\*\* (?:Update|Add) File: (.+)|\+\+\+ (?:b/)?(\S+)")
_HEADER = re.compile(r"--- |\*\*\* |diff --git|index ")


def _patched(path: str, lines: Sequence[str]) -> Iterator[Block]:
    """The runs of removed and added lines of a patch."""
    removed: list[str] = []
    added: list[str] = []
    for line in [*lines, " "]:
        named = _NAMED.match(line)
        if not named and not _HEADER.match(line):
            if line.startswith("+"):
                added.append(line[1:].strip())
                continue
            if line.startswith("-") and not added:
                removed.append(line[1:].strip())
                continue
        if removed or added:
            yield Block(path, tuple(removed), tuple(added))
        removed, added = [], []
        if named:
            path = (named[1] or named[2]).strip()
        elif line.startswith("-") and not _HEADER.match(line):
            removed.append(line[1:].strip())


def _lines(text: str) -> tuple[str, ...]:
    return tuple(line.strip() for line in text.splitlines())


# -- a line with a gap ------------------------------------------------------------------------------

GAP = "____"
_TOKEN = re.compile(r"\"[^\"]{0,60}\"|'[^']{0,60}'|[#@]?[\w$]+(?:[./%-][\w$]+)*%?|\s+|.")
_VALUE = re.compile(r"[\w#$@%&+.:/\-\"' ]{1,60}")
_WORDS = 4
_AROUND = 6
"""Letters and digits that must stand around a gap, so that the line can be told from others."""


@dataclass(frozen=True, slots=True)
class Change:
    """One value in a line of a file that became another."""

    before: str
    after: str
    head: str
    tail: str

    @property
    def line(self) -> str:
        return f"{self.head}{GAP}{self.tail}"


def change(old: str, new: str) -> Change | None:
    """What differs between two lines, if it is one short value; None otherwise."""
    a, b = _TOKEN.findall(old), _TOKEN.findall(new)
    head = 0
    while head < min(len(a), len(b)) and a[head] == b[head]:
        head += 1
    tail = 0
    while tail < min(len(a), len(b)) - head and a[-1 - tail] == b[-1 - tail]:
        tail += 1
    before, after = "".join(a[head : len(a) - tail]), "".join(b[head : len(b) - tail])
    around = "".join(b[:head]), "".join(b[len(b) - tail :])
    if not (_is_value(before) and _is_value(after)) or _weight("".join(around)) < _AROUND:
        return None
    return Change(_bare(before), _bare(after), *around)


def _weight(text: str) -> int:
    """Its letters and digits; an ideograph says about as much as three of them."""
    return sum(3 if ord(char) > 0x2E80 else 1 for char in text if char.isalnum())


def _is_value(text: str) -> bool:
    telling = any(map(str.isdigit, text)) or sum(map(str.isalpha, text)) > 1
    return telling and _VALUE.fullmatch(text) is not None and len(text.split()) <= _WORDS


def _bare(value: str) -> str:
    return value.strip().strip("\"'")
