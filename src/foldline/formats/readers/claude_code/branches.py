"""The branches of a Claude Code session.

Each record names its parent. The records form a tree even in a session without branches: answers are written
in several records, and the results of parallel calls have different records as parents. Such side branches
belong to the branch of their answer, unless they contain a prompt or an answer of their own.
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
    """A branch, given by the positions of its records."""

    places: set[int]
    start: int | None
    """The position at which this branch leaves another branch, if it does.

    This is the position of a record on the other branch.
    """
    gaps: int = 0
    """The number of records whose parents had to be guessed."""


def answer_id(record: JsonObject) -> str:
    """Return the id that an answer's records share.

    Returns an empty string for other records.
    """
    return record.text("message", "id") if record.kind == "assistant" else ""


def branches_of(lines: Sequence[JsonLine]) -> list[Branch]:
    """Return all branches, starting with that of the newest message.

    Records that are not on any branch are not part of a conversation.
    """
    tree = _Tree(lines)
    if not tree.messages:
        return []
    main = tree.branch(tree.messages[-1], frozenset())
    branches = [main]
    assigned = set(main.places)
    for place in reversed(tree.places.values()):
        if place not in assigned and tree.opens_branch(place):
            branch = tree.branch(place, assigned)
            branches.append(branch)
            assigned |= branch.places
    tree.attach_notes(branches)
    return branches


def message_count(lines: Sequence[JsonLine], branches: Iterable[Branch]) -> int:
    """Count the messages on these branches.

    An answer counts as one message, however many records it has.
    """
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
        """The position of each record, by `uuid`."""
        self._answers: dict[str, list[int]] = defaultdict(list)
        """The positions of all records of each answer, including the results of its calls."""
        self._answer_at: dict[int, str] = {}
        callers: dict[str, str] = {}
        for place, record in enumerate(self._records):
            uuid = record.get("uuid")
            if isinstance(uuid, str):
                self.places[uuid] = place
            if record.kind == "assistant":
                name = answer_id(record) or record.text("uuid")
                self._answers[name].append(place)
                self._answer_at[place] = name
                for call in of_kind(blocks_of(record), "tool_use"):
                    callers[call.text("id")] = name
        for place, record in enumerate(self._records):
            if record.kind == "user":
                for block in blocks_of(record):
                    name = callers.get(block.text("tool_use_id"), "")
                    self._answers[name].append(place)
        self.messages = list(filter(self._is_message, self.places.values()))

    def branch(self, tip: int, assigned: Set[int]) -> Branch:
        """Return the branch from the record `tip` back to the first record in `assigned`."""
        walked: set[int] = set()
        gaps = 0
        place: int | None = tip
        while place is not None and place not in assigned:
            walked.add(place)
            place, is_gap = self._step(place, walked)
            gaps += is_gap
        shoots = self._answers_on(walked) - assigned
        return Branch(walked | shoots, place, gaps)

    def _step(self, place: int, walked: Set[int]) -> tuple[int | None, bool]:
        """Return the previous record's position, and whether it was guessed.

        A compaction starts a new chain of parents. Except in older versions, it names the record that
        precedes it. That record may come from a hook and have a wrong parent.
        """
        record = self._records[place]
        has_parent = record.get("parentUuid") is not None
        starts_chain = is_boundary(record) or (is_summary(record) and not has_parent)
        if not starts_chain and not has_parent:
            return None, False
        field = "logicalParentUuid" if starts_chain else "parentUuid"
        parent = self.places.get(record.text(field))
        if parent is None or parent in walked:
            is_usable = False
        else:
            is_usable = not starts_chain or self._is_message(parent)
        if is_usable:
            return parent, False
        before = bisect_left(self.messages, place)
        for message in reversed(self.messages[:before]):
            if message not in walked:
                return message, not starts_chain
        return None, False

    def _answers_on(self, walked: Set[int]) -> set[int]:
        """Return the positions of all records and results that belong to a branch's answers."""
        answers = {self._answer_at.get(place, "") for place in walked}
        places: set[int] = set()
        for answer in answers - {""}:
            places.update(self._answers[answer])
        return places

    def attach_notes(self, branches: Sequence[Branch]) -> None:
        """Add each remaining record to its parent's branch."""
        branch_at = {place: branch for branch in branches for place in branch.places}
        for place in self.places.values():
            name = self._records[place].text("parentUuid")
            parent = self.places.get(name)
            if parent in branch_at and place not in branch_at:
                branch = branch_at[parent]
                branch_at[place] = branch
                branch.places.add(place)

    def _is_message(self, place: int) -> bool:
        return self._records[place].kind in SPOKEN

    def opens_branch(self, place: int) -> bool:
        record = self._records[place]
        return record.kind == "assistant" or (
            record.kind == "user" and not record.get("isMeta")
        )
