"""The branches of a Claude Code session.

Each record names its parent. The pointers make a tree even in a session without branches: answers are written
in pieces, and the results of parallel calls hang on different pieces. These side shoots belong to the branch
of their answer. A shoot with a prompt or an answer of its own is another branch.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass

from foldline.formats.base import JsonLine, JsonObject
from foldline.formats.parts import of_kind

from .messages import SPOKEN, blocks_of, is_boundary, is_summary


@dataclass(eq=False)
class Branch:
    """A branch, by the places of its records in the list of records."""

    places: set[int]
    start: int | None
    """The record of another branch that it continues; None for the first record of a conversation."""
    gaps: int = 0
    """How many parents had to be guessed."""


def answer_id(record: JsonObject) -> str:
    """Return the id that all records of an answer share."""
    return record.text("message", "id") if record.kind == "assistant" else ""


def branches_of(lines: Sequence[JsonLine]) -> list[Branch]:
    """Return all branches, that of the newest message first.

    A record on no branch belongs to no conversation.
    """
    tree = _Tree(lines)
    if not tree.messages:
        return []
    main = tree.branch(tree.messages[-1], frozenset())
    branches = [main]
    taken = set(main.places)
    for place in reversed(tree.places.values()):
        if place not in taken and tree.opens_branch(place):
            branch = tree.branch(place, taken)
            branches.append(branch)
            taken |= branch.places
    tree.attach_notes(branches)
    return branches


def message_count(lines: Sequence[JsonLine], branches: Iterable[Branch]) -> int:
    """Count the messages on these branches, each answer once."""
    messages: set[str | int] = set()
    for branch in branches:
        for place in branch.places:
            record = lines[place].record
            if record.kind in ("user", "assistant"):
                messages.add(answer_id(record) or place)
    return len(messages)


class _Tree:
    def __init__(self, lines: Sequence[JsonLine]) -> None:
        self._records = [line.record for line in lines]
        self.places: dict[str, int] = {}
        """The place of each record, by its `uuid`."""
        self._answers: dict[str, list[int]] = defaultdict(list)
        """All records of each answer, with the results of its calls."""
        self._answer_at: dict[int, str] = {}
        callers: dict[str, str] = {}
        for place, record in enumerate(self._records):
            if isinstance(uuid := record.get("uuid"), str):
                self.places[uuid] = place
            if record.kind == "assistant":
                name = answer_id(record) or record.text("uuid")
                self._answers[name].append(place)
                self._answer_at[place] = name
                callers.update({call.text("id"): name for call in of_kind(blocks_of(record), "tool_use")})
        for place, record in enumerate(self._records):
            if record.kind == "user":
                for block in blocks_of(record):
                    self._answers[callers.get(block.text("tool_use_id"), "")].append(place)
        self.messages = [place for place in self.places.values() if self._is_message(place)]

    def branch(self, tip: int, taken: Set[int]) -> Branch:
        """Return the branch from this record back to `taken` ones."""
        walked: set[int] = set()
        gaps = 0
        place: int | None = tip
        while place is not None and place not in taken:
            walked.add(place)
            place, is_gap = self._step(place, walked)
            gaps += is_gap
        return Branch(walked | (self._answers_on(walked) - taken), place, gaps)

    def _step(self, place: int, walked: Set[int]) -> tuple[int | None, bool]:
        """Return the record before, and whether it is a guess.

        A compaction starts a new chain. It names the record before it, except in older versions. That record
        may be one of a hook, with a wrong parent.
        """
        record = self._records[place]
        has_parent = record.get("parentUuid") is not None
        starts_chain = is_boundary(record) or (is_summary(record) and not has_parent)
        if not starts_chain and not has_parent:
            return None, False
        name = record.get("logicalParentUuid" if starts_chain else "parentUuid")
        parent = self.places.get(name) if isinstance(name, str) else None
        is_usable = not starts_chain or (parent is not None and self._is_message(parent))
        if parent is not None and parent not in walked and is_usable:
            return parent, False
        before = bisect_left(self.messages, place) - 1
        while before >= 0 and self.messages[before] in walked:
            before -= 1
        if before < 0:
            return None, False
        return self.messages[before], not starts_chain

    def _answers_on(self, walked: Set[int]) -> set[int]:
        """Return all records and results of the answers on a branch."""
        answers = {self._answer_at[place] for place in walked if place in self._answer_at}
        return {place for answer in answers - {""} for place in self._answers[answer]}

    def attach_notes(self, branches: Sequence[Branch]) -> None:
        """Add each remaining record to the branch of its parent."""
        branch_at = {place: branch for branch in branches for place in branch.places}
        for place in self.places.values():
            parent = self.places.get(self._records[place].text("parentUuid"))
            if place not in branch_at and parent in branch_at:
                branch_at[place] = branch_at[parent]
                branch_at[place].places.add(place)

    def _is_message(self, place: int) -> bool:
        return self._records[place].kind in SPOKEN

    def opens_branch(self, place: int) -> bool:
        """Return whether this record is a prompt or an answer."""
        record = self._records[place]
        return record.kind == "assistant" or (record.kind == "user" and not record.get("isMeta"))
