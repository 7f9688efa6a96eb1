"""Reads and writes a ledger in its text form within a summary.

Also finds the lines that have been used since the compaction.
"""

import re
from collections.abc import Iterable
from itertools import groupby
from typing import NamedTuple

from foldline.protocol import BaseMessage

from . import facts
from .cues import DEFINITION
from .ledger import group_text, keys_in, names
from .ledger_score import ItemKey

_HEAD = re.compile(r"\[entry (\d{1,18})\](:?) ?(.*)")
_COUNT = re.compile(r"  … and [\d,]+ more definitions?")
_CALLED_NAME = re.compile(r"[A-Za-z_]\w{0,80}+(?=[(`])")
"""Matches a name that is recognised only because of its context: `pack(items)`, or quoted as code."""


class LedgerLine(NamedTuple):
    """The names shown by an entry, or one line of the entry's text."""

    entry: int
    place: str
    """The file, or the beginning of the command."""
    text: str
    is_text: bool

    @property
    def id(self) -> str:
        """Identifies the line within a ledger."""
        return f"{self.entry}: {self.text}"

    @property
    def keys(self) -> frozenset[ItemKey]:
        """The keys of the names in this line, or of its text and the names that it defines."""
        if not self.is_text:
            return frozenset(key for key, _ in names(self.text))
        defined: list[ItemKey] = [
            ("identifier", name) for name in DEFINITION.findall(self.text)
        ]
        return frozenset([("line", self.text), *defined])


def ledger_lines(body: str) -> list[LedgerLine]:
    """Parse the lines of a ledger.

    A group has the form `[entry 12] src/a.py: name name`, with indented lines of text below it.
    """
    lines = []
    entry = -1
    place = ""
    for line in body.splitlines():
        head = _HEAD.fullmatch(line)
        if head:
            entry = int(head[1])
            place, listed_names = _place_and_names(
                head[3], is_without_place=head[2] == ":"
            )
            if listed_names:
                lines.append(LedgerLine(entry, place, listed_names, is_text=False))
        elif entry >= 0 and line.startswith("  ") and not _COUNT.fullmatch(line):
            lines.append(LedgerLine(entry, place, line.strip(), is_text=True))
    return lines


def _place_and_names(text: str, *, is_without_place: bool) -> tuple[str, str]:
    if is_without_place:
        return "", text
    place, _, listed_names = text.rpartition(": ")
    if not place:
        return listed_names, ""
    return place, listed_names


def ledger_items(lines: Iterable[LedgerLine]) -> list[str]:
    """Return the text of these lines, as one item for each entry and place."""
    items = []
    for (entry, place), group in groupby(
        sorted(lines, key=_order), key=lambda line: line[:2]
    ):
        lines_of_group = list(group)
        listed_names = [line.text for line in lines_of_group if not line.is_text]
        texts = [line.text for line in lines_of_group if line.is_text]
        items.append(group_text(entry, place, listed_names, texts))
    return items


def _order(line: LedgerLine) -> tuple[int, str, bool]:
    return line.entry, line.place, line.is_text


def used_lines(
    lines: Iterable[LedgerLine], messages: Iterable[BaseMessage]
) -> frozenset[str]:
    """Return the ids of the lines that these messages use.

    A message uses a line if it contains any of the line's names, the line's entire text, or a name defined in
    the line. Takes time linear in the length of the messages, because only messages that contain a name's
    letters are searched for names.
    """
    keys_by_id = [(line.id, line.keys) for line in lines]
    signs = {_sign(key) for _, keys in keys_by_id for key in keys}
    hits = [message for message in messages if _has_any(message, signs)]
    used_keys = keys_in(hits)
    for message in hits:
        for text in facts.texts(message):
            used_keys.update(
                ("identifier", name) for name in _CALLED_NAME.findall(text)
            )
    return frozenset(id for id, keys in keys_by_id if not keys.isdisjoint(used_keys))


def _sign(key: ItemKey) -> str:
    kind, text = key
    return text if kind == "line" else text.rpartition("/")[2]


def _has_any(message: BaseMessage, signs: Iterable[str]) -> bool:
    return any(sign in text for text in facts.texts(message) for sign in signs)
