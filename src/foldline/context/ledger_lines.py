"""The lines of a ledger as it stands in a summary: read, written, and which of them were used since. Pure."""

import re
from collections.abc import Iterable
from itertools import groupby
from typing import NamedTuple

from foldline.protocol import BaseMessage

from . import facts
from .ledger import defined_in, names, said_in
from .ledger_score import Key

_HEAD = re.compile(r"\[entry (\d{1,18})\](:?) ?(.*)")
_CALLED = re.compile(r"[A-Za-z_]\w{0,80}+(?=[(`])")
"""A name that only its place tells from a word of prose: `fold(items)`, or quoted as code."""


class LedgerLine(NamedTuple):
    """The names that an entry showed, or one line of text that it held."""

    entry: int
    place: str
    """The file, or the beginning of the command."""
    text: str
    is_text: bool

    @property
    def id(self) -> str:
        """Names it among the lines of a ledger."""
        return f"{self.entry}: {self.text}"

    @property
    def keys(self) -> frozenset[Key]:
        """What the ledger's index knows it by: its names; of a text, all of it and what it defines."""
        if not self.is_text:
            return frozenset(key for key, _ in names(self.text))
        return frozenset([("line", self.text), *(("identifier", name) for name in defined_in(self.text))])


def ledger_lines(body: str) -> list[LedgerLine]:
    """The lines of a ledger: `[entry 12] src/a.py: name name`, and indented the text below it."""
    found: list[LedgerLine] = []
    entry, place = -1, ""
    for line in body.splitlines():
        if head := _HEAD.fullmatch(line):
            entry, rest = int(head[1]), head[3]
            place, _, named = ("", "", rest) if head[2] else rest.rpartition(": ")
            if named and not (place or head[2]):
                place, named = named, ""
            if named:
                found.append(LedgerLine(entry, place, named, is_text=False))
        elif entry >= 0 and line.startswith("  "):
            found.append(LedgerLine(entry, place, line.strip(), is_text=True))
    return found


def ledger_items(lines: Iterable[LedgerLine]) -> list[str]:
    """The lines as they are written, an item for each entry and place."""
    items: list[str] = []
    for (entry, place), group in groupby(sorted(lines, key=_order), key=lambda line: line[:2]):
        listed = list(group)
        named = " ".join(line.text for line in listed if not line.is_text)
        head = f"[entry {entry}] {place}".rstrip()
        texts = [line.text for line in listed if line.is_text]
        items.append("\n  ".join([f"{head}: {named}" if named else head, *texts]))
    return items


def _order(line: LedgerLine) -> tuple[int, str, bool]:
    return line.entry, line.place, line.is_text


def used_lines(lines: Iterable[LedgerLine], said: Iterable[BaseMessage]) -> frozenset[str]:
    """The ids of the lines that these messages say: any of the names, the whole text, or what it defines.
    Linear in the messages; names are looked for only in those that hold some letters of one."""
    wanted = [(line.id, line.keys) for line in lines]
    ends = {text.rpartition("/")[2] if kind != "line" else text for _, keys in wanted for kind, text in keys}
    hits = [each for each in said if any(end in text for text in facts.texts(each) for end in ends)]
    called = (name for each in hits for text in facts.texts(each) for name in _CALLED.findall(text))
    keys = said_in(hits) | {("identifier", name) for name in called}
    return frozenset(id for id, of_line in wanted if not keys.isdisjoint(of_line))
