"""The ledger: an index of the names and lines in a session.

A compaction chooses items from it to keep. Pure and deterministic; each message is added once. The
`ledger_score` module computes the score of an item, and `ledger_lines` handles the text form of a ledger.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    ToolCallPart,
    ToolResultMessage,
    UserMessage,
)
from foldline.view.tokens import estimate_tokens

from . import facts
from .cues import DEFINITION
from .ledger_score import NEVER, FileActivity, ItemKey, Score, TrackedItem, likelihood

LONGEST_LINE = 240
"""Maximum length of a line, in characters, not counting indentation. Longer lines are data."""
_MOST_ITEMS = 9_000
_ITEMS_KEPT = 7_000
"""Number of items kept when the index is full: the ones most likely to be needed."""


class Ledger:
    """The index of one session.

    Args:
        score: returns the likelihood that an item will be needed before the next compaction.
    """

    def __init__(self, score: Score = likelihood) -> None:
        self.score = score
        self.items: dict[ItemKey, TrackedItem] = {}
        self.files: dict[str, FileActivity] = {}
        self.now = 0
        """Current time, given as the number of answers so far."""
        self._subjects: dict[str, str] = {}
        """Subject of each call without a result, by call id."""

    # -- adding ------------------------------------------------------------------------------------

    def add(self, message: BaseMessage) -> None:
        """Add the next message.

        Takes time linear in the length of the message's text.
        """
        match message:
            case AssistantMessage():
                self.now += 1
                self._add_uses(message.text, message.index)
                for call in message.calls:
                    self._add_call(call, message.index)
            case ToolResultMessage():
                self._add_result(message)
            case UserMessage():
                self._add_prompt(message)
            case _:
                pass
        if len(self.items) > _MOST_ITEMS:
            self._drop_unlikely()

    def _item(self, key: ItemKey, text: str) -> TrackedItem:
        item = self.items.get(key)
        if item is None:
            item = TrackedItem(key[0], text, _cost(text), self.now)
            self.items[key] = item
        elif key[0] == "path" and _is_longer_path(text, item.text):
            item.text = text
            item.tokens = _cost(text)
        return item

    def _add_prompt(self, message: UserMessage) -> None:
        for key, name in names(message.typed):
            item = self._item(key, name)
            item.requested = self.now
            item.entry = message.index
        self._add_shows(message.attached_text, message.index, "")

    def _add_uses(
        self,
        text: str,
        entry: int,
        *,
        in_edit: bool = False,
        place: str = "",
    ) -> None:
        for key, name in names(text):
            item = self._item(key, name)
            item.use(self.now, in_edit=in_edit)
            if item.entry == NEVER:
                item.entry = entry
                item.place = place

    def _add_call(self, call: ToolCallPart, entry: int) -> None:
        arguments = call.parsed()
        place = _subject_of(arguments)
        self._subjects[call.call_id] = place
        changes = list(_changes_of(arguments, place))
        text = "\n".join(facts.strings(arguments or [call.arguments]))
        self._add_uses(text, entry, in_edit=bool(changes), place=place)
        for change in changes:
            self._add_change(change, entry)

    def _add_change(self, change: "LineChange", entry: int) -> None:
        place = change.place
        file = self.files.setdefault(place, FileActivity())
        file.edits += 1
        file.edited = self.now
        remaining = set(change.new)
        for line in change.old:
            item = self.items.get(("line", line))
            if item:
                item.use(self.now, in_edit=False)
                item.replaced = line not in remaining
        for line in filter(_is_telling, change.new):
            item = self._item(("line", line), line)
            item.edit(self.now)
            item.replaced = False
            item.entry = entry
            item.place = place
        self._add_definitions("\n".join(change.new), entry, place)

    def _add_result(self, result: ToolResultMessage) -> None:
        place = self._subjects.pop(result.call_id, "")
        self._add_shows(result.text, result.index, place)
        if not (place and facts.is_path(place)):
            return
        self.files.setdefault(place, FileActivity()).read = self.now
        for line in telling_lines(result.text):
            item = self._item(("line", line), line)
            item.show(self.now, result.index, place)
            item.replaced = False
        self._add_definitions(result.text, result.index, place)

    def _add_shows(self, text: str, entry: int, place: str) -> None:
        for key, name in names(text):
            self._item(key, name).show(self.now, entry, place)

    def _add_definitions(self, text: str, entry: int, place: str) -> None:
        for match in DEFINITION.finditer(text):
            line = _unnumbered(_line_around(text, match))
            if len(line) > LONGEST_LINE:
                continue
            self._set_definition(("identifier", match[1]), line, entry, place)
            self._set_definition(("line", line), line, entry, place)

    def _set_definition(
        self,
        key: ItemKey,
        line: str,
        entry: int,
        place: str,
    ) -> None:
        item = self.items.get(key)
        if item:
            item.defined = line
            item.entry = entry
            item.place = place

    def likelihood(self, item: TrackedItem) -> float:
        """Return how likely this item is to be needed before the next compaction."""
        return self.score(item, self.files.get(item.place), self.now)

    def _drop_unlikely(self) -> None:
        """Drop the least likely items, which limits the memory used by a very long session."""
        ranked = sorted(
            self.items.items(),
            key=lambda pair: self.likelihood(pair[1]),
            reverse=True,
        )
        kept_keys = {key for key, _ in ranked[:_ITEMS_KEPT]}
        self.items = {key: item for key, item in self.items.items() if key in kept_keys}

    # -- choosing ----------------------------------------------------------------------------------

    def choose(
        self,
        budget: float,
        visible: Collection[ItemKey],
        *,
        entries: Collection[int] | None = None,
    ) -> "list[LedgerGroup]":
        """Choose the items most likely to be needed, grouped by entry.

        Items are chosen greedily by their likelihood per token. The lines of one edit are chosen as a block,
        because they are read together.

        Args:
            budget: maximum total size, in estimated tokens.
            visible: items that the view already contains.
            entries: choose only items shown by these entries; by default, all items.
        """
        candidates = [
            LedgerCandidate(self.likelihood(item), order, item)
            for order, (key, item) in enumerate(self.items.items())
            if key not in visible
            and item.entry >= 0
            and (entries is None or item.entry in entries)
        ]
        selection = _ItemSelection(budget)
        for candidate in _ranked(candidates):
            if selection.budget < _SMALLEST_NAME:
                break
            selection.add(candidate)
        return selection.finish(candidates)


class LedgerCandidate(NamedTuple):
    """A candidate item for the ledger."""

    likelihood: float
    order: int
    """Position in the index, ordered by first appearance."""
    item: TrackedItem

    @property
    def is_definition(self) -> bool:
        """Whether the item is a line that defines something."""
        return self.item.kind == "line" and bool(self.item.defined)


def _ranked(candidates: Sequence[LedgerCandidate]) -> list[LedgerCandidate]:
    """Sort by likelihood per token, best first.

    Items with a likelihood of 0 are left out.
    """
    blocks: dict[int, list[LedgerCandidate]] = {}
    for candidate in candidates:
        if candidate.item.is_written:
            blocks.setdefault(candidate.item.entry, []).append(candidate)
    block_gains = {entry: _gain_of_block(block) for entry, block in blocks.items()}
    ranks = []
    for candidate in candidates:
        item = candidate.item
        gain = (
            block_gains[item.entry]
            if item.is_written
            else candidate.likelihood / item.tokens
        )
        if gain > 0:
            ranks.append((-gain, candidate.order, candidate))
    return [candidate for *_, candidate in sorted(ranks)]


def _gain_of_block(block: Sequence[LedgerCandidate]) -> float:
    total = sum(candidate.likelihood for candidate in block)
    return total / sum(candidate.item.tokens for candidate in block)


_HEAD_TOKENS = 6
"""Size of a group's label, such as `[entry 123] `, in tokens."""
_SMALLEST_NAME = 4
"""Smallest size of a name in the ledger, in tokens."""
_COUNT_TOKENS = 12
"""Size of a note such as `… and 271 more definitions`, in tokens."""
_DEFINITION_LINES_SHARE = 1 / 16
"""Share of the budget for lines that define something.

In recorded summaries, such lines usually take up 2 % and at most 11 %.
"""
_DEFINITIONS_SHARE = 1 / 30
"""Share of the budget for definitions of the most likely names.

With a share of one sixth, recall of distant items was nine percentage points lower.
"""


class _ItemSelection:
    """The items chosen so far, and the number of remaining tokens."""

    def __init__(self, budget: float) -> None:
        self._line_room = budget * _DEFINITION_LINES_SHARE
        self._definition_room = budget * _DEFINITIONS_SHARE
        self.budget = budget - self._definition_room
        self._groups: dict[int, LedgerGroup] = {}
        self._definitions: set[str] = set()
        self._shortened: set[int] = set()
        """Entries whose group ends with the number of further definitions."""

    def add(self, candidate: LedgerCandidate) -> None:
        """Choose an item if it is new and fits."""
        item = candidate.item
        group = self._groups.get(item.entry)
        cost = item.tokens
        if group is None:
            group = LedgerGroup(item.entry, short_path(item.place))
            cost += _HEAD_TOKENS + estimate_tokens(group.place)
        if (item.defined or item.text) in self._definitions or cost > self.budget:
            return
        if candidate.is_definition:
            if item.tokens > self._line_room:
                self._reserve_count(item.entry)
                return
            self._line_room -= item.tokens
        self._groups[item.entry] = group
        self.budget -= cost
        self._put_into(group, candidate)

    def _reserve_count(self, entry: int) -> None:
        if entry not in self._shortened and self.budget >= _COUNT_TOKENS:
            self.budget -= _COUNT_TOKENS
            self._shortened.add(entry)

    def _put_into(self, group: "LedgerGroup", candidate: LedgerCandidate) -> None:
        item = candidate.item
        extra = _cost(item.defined) - item.tokens
        if item.defined and extra <= self._definition_room:
            self._definition_room -= max(0, extra)
            self._definitions.add(item.defined)
            group.lines_by_order[candidate.order] = item.defined
        elif item.kind == "line":
            group.lines_by_order[candidate.order] = item.text
        else:
            group.names.append(item.text)

    def finish(self, candidates: Iterable[LedgerCandidate]) -> "list[LedgerGroup]":
        """Count the definitions that were left out, and return the groups by entry."""
        for candidate in candidates:
            item = candidate.item
            if not candidate.is_definition or item.text in self._definitions:
                continue
            if item.entry in self._shortened and item.entry in self._groups:
                self._groups[item.entry].left_out += 1
        return [self._groups[entry] for entry in sorted(self._groups)]


@dataclass(slots=True)
class LedgerGroup:
    """The chosen items of one entry."""

    entry: int
    place: str
    names: list[str] = field(default_factory=list)
    lines_by_order: dict[int, str] = field(default_factory=dict)
    left_out: int = 0
    """Number of definitions of the entry that were left out; 0 if all had room."""

    @property
    def lines(self) -> list[str]:
        """The lines in order, followed by the number of definitions that were left out."""
        lines = [self.lines_by_order[order] for order in sorted(self.lines_by_order)]
        if self.left_out:
            definitions = "definition" if self.left_out == 1 else "definitions"
            lines.append(f"… and {self.left_out:,} more {definitions}")
        return lines

    @property
    def text(self) -> str:
        """The line `[entry 12] src/a.py: name name`, with the lines of text below it."""
        return group_text(self.entry, self.place, self.names, self.lines)


def group_text(
    entry: int,
    place: str,
    group_names: Sequence[str],
    lines: Sequence[str],
) -> str:
    """Return the text for the items from one entry and place."""
    head = f"[entry {entry}] {place}".rstrip()
    if group_names:
        head = f"{head}: {' '.join(group_names)}"
    return "\n  ".join([head, *lines])


# -- names and lines -------------------------------------------------------------------------------


def keys_in(messages: Iterable[BaseMessage]) -> set[ItemKey]:
    """Return the keys of all names and lines in these messages."""
    keys: set[ItemKey] = set()
    for message in messages:
        for text in facts.texts(message):
            keys.update(key for key, _ in names(text))
            keys.update(("line", line) for line in telling_lines(text))
    return keys


def names(text: str) -> Iterator[tuple[ItemKey, str]]:
    """Yield the names in text, with their keys.

    Paths with the same ending share a key.
    """
    for name in facts.identifiers(text):
        yield ("identifier", name), name
    for path in facts.paths(text):
        yield ("path", short_path(path)), path
    for url in facts.urls(text):
        yield ("url", url), url
    for digits in facts.hashes(text):
        yield ("hash", digits), digits


def short_path(path: str) -> str:
    """Return the last two components of a path."""
    return "/".join(facts.path_parts(path)[-2:])


def _is_longer_path(path: str, other: str) -> bool:
    """Return whether a path is more complete than another path.

    Relative paths are preferred to absolute ones.
    """
    is_rooted = path.startswith(("/", "~"))
    if is_rooted != other.startswith(("/", "~")):
        return not is_rooted
    return len(path) > len(other)


def telling_lines(text: str) -> Iterator[str]:
    """Yield the distinctive lines in text.

    Very short lines occur everywhere, and very long lines are data.
    """
    return filter(_is_telling, map(_unnumbered, text.splitlines()))


def _unnumbered(line: str) -> str:
    number = facts.NUMBERED.match(line)
    start = number.end() if number else 0
    return line[start:].strip()


def _is_telling(line: str) -> bool:
    return facts.SHORTEST_LINE <= len(line) <= LONGEST_LINE


def _line_around(text: str, match: re.Match[str]) -> str:
    start = text.rfind("\n", 0, match.start()) + 1
    end = text.find("\n", match.end())
    return text[start:] if end < 0 else text[start:end]


def _cost(text: str) -> int:
    return estimate_tokens(text) + 1


# -- edits -----------------------------------------------------------------------------------------

_NEW_ARGUMENTS = facts.NEW_ARGUMENTS | {"content", "file_text"}
"""Names of edit arguments that hold text to be written."""
_SEARCHED_FOR_PATHS = 2_000
"""Number of characters of an argument in which a path is searched for."""


def _subject_of(arguments: Mapping[str, object]) -> str:
    """Return the first file named in the arguments of a call."""
    for name in facts.FILE_ARGUMENTS:
        path = arguments.get(name)
        if isinstance(path, str):
            return path
    for text in facts.strings(dict(arguments)):
        paths = facts.paths(text[:_SEARCHED_FOR_PATHS])
        if paths:
            return paths[0]
    return ""


class LineChange(NamedTuple):
    """The lines that an edit removes from a file and adds to it.

    Surrounding white space is removed from the lines.
    """

    place: str
    old: list[str]
    new: list[str]


def _changes_of(arguments: Mapping[str, object], place: str) -> Iterator[LineChange]:
    """Yield the changes made by a call, one for each file.

    Args:
        place: the file to which text without a header belongs.
    """
    old = list(facts.strings_named(arguments, facts.OLD_ARGUMENTS))
    new = list(facts.strings_named(arguments, _NEW_ARGUMENTS))
    if old or new:
        yield LineChange(place, _lines(old), _lines(new))
    for patch in facts.patches(arguments):
        yield from _changes_in(patch, place)


def _changes_in(patch: str, place: str) -> Iterator[LineChange]:
    change = LineChange(place, [], [])
    for line in patch.splitlines():
        header = facts.PATCHED.match(line)
        sign = line[:1]
        if header:
            if change.old or change.new:
                yield change
            change = LineChange(header[1], [], [])
        if sign in ("-", " "):
            change.old.append(line[1:].strip())
        if sign in ("+", " "):
            change.new.append(line[1:].strip())
    if change.old or change.new:
        yield change


def _lines(texts: Iterable[str]) -> list[str]:
    return [line.strip() for text in texts for line in text.splitlines()]
