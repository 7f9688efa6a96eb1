"""The branch in use of a Claude Code session: the records that its model has seen, told from those it left.

Records point to their parent, from the newest one to the first. The pointers make a tree even where nothing
ever branched: answers are written in pieces, and the results of parallel calls hang on different pieces. Such
side shoots belong to the branch; one that holds a request or an answer of its own is another branch.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from .base import Json, JsonLine, JsonObject, as_list, as_object, as_text

_NAMED_BRANCHES = 5
"""How many left-out branches a note names one by one."""


@dataclass(frozen=True, slots=True)
class Branch:
    lines: list[JsonLine]
    """The records of the branch in file order, and those that are outside the tree."""
    notes: list[str]


def active_branch(lines: Sequence[JsonLine]) -> Branch:
    """The branch of the newest message. Sub-agents and other branches are left out, with a note."""
    main, notes = _without_sub_agents(lines)
    main, copies = _without_copies(main)
    if copies:
        notes.append(f"Left out: {_times(copies, 'record')} that the file holds a second time.")
    tree = _Tree(main)
    on_branch, gaps = tree.walk()
    on_branch |= tree.answers_of(on_branch)
    others = [shoot for shoot in tree.shoots(on_branch) if tree.is_branch(shoot)]
    left_out = {place for shoot in others for place in shoot}
    if others:
        notes.append(_branch_note([tree.messages(shoot) for shoot in others]))
    if gaps:
        notes.append(f"The chain of records is broken {_times(gaps, 'time')}; the record before was taken.")
    return Branch([line for place, line in enumerate(main) if place not in left_out], notes)


def is_boundary(record: JsonObject) -> bool:
    return record.get("type") == "system" and record.get("subtype") == "compact_boundary"


def is_summary(record: JsonObject) -> bool:
    return record.get("type") == "user" and record.get("isCompactSummary") is True


def blocks_of(record: JsonObject) -> list[JsonObject]:
    """The content of a message record, in blocks."""
    content: Json = as_object(record.get("message")).get("content")
    return [{"type": "text", "text": content}] if isinstance(content, str) else _objects(content)


def answer_id(record: JsonObject) -> str:
    """What the pieces of one answer share; empty where a record is no answer, or stands for itself."""
    return as_text(as_object(record.get("message")).get("id")) if record.get("type") == "assistant" else ""


def _objects(value: Json) -> list[JsonObject]:
    return [item for item in as_list(value) if isinstance(item, dict)]


def _without_sub_agents(lines: Sequence[JsonLine]) -> tuple[list[JsonLine], list[str]]:
    """The records of the main agent; all of them where the file is the session of a sub-agent."""
    main = [line for line in lines if not _is_of_sub_agent(line.record)]
    if not any(line.record.get("type") in ("user", "assistant") for line in main):
        return list(lines), ["This is the session of a sub-agent."] if len(main) < len(lines) else []
    left_out = len(lines) - len(main)
    return main, [f"Left out: {_times(left_out, 'record')} of sub-agents."] if left_out else []


def _is_of_sub_agent(record: JsonObject) -> bool:
    return record.get("isSidechain") is True or as_object(record.get("data")).get("type") == "agent_progress"


def _without_copies(lines: Sequence[JsonLine]) -> tuple[list[JsonLine], int]:
    """Each record once: some versions append the history again, uuids included, when they compact it."""
    seen: set[str] = set()
    once = []
    for line in lines:
        uuid = as_text(line.record.get("uuid"))
        if not uuid or uuid not in seen:
            once.append(line)
        seen.add(uuid)
    return once, len(lines) - len(once)


class _Tree:
    """The records with an id, by their place among the lines."""

    def __init__(self, lines: Sequence[JsonLine]) -> None:
        self._records = [line.record for line in lines]
        self._positions = [line.position for line in lines]
        self._places = {
            record["uuid"]: place
            for place, record in enumerate(self._records)
            if isinstance(record.get("uuid"), str)
        }
        self._messages = [place for place in self._places.values() if self._is_message(place)]

    def walk(self) -> tuple[set[int], int]:
        """The way from the newest message to the first, and how often it was broken."""
        walked: set[int] = set()
        gaps = 0
        place = self._messages[-1] if self._messages else None
        while place is not None:
            walked.add(place)
            step, is_gap = self._step(place, walked)
            gaps += is_gap
            place = step
        return walked, gaps

    def _step(self, place: int, walked: set[int]) -> tuple[int | None, bool]:
        """The record before this one, and whether it had to be guessed.

        A compaction starts a new chain: it names the record before it, or in older versions does not. What it
        names may be a record of a hook, with a parent that is wrong.
        """
        record = self._records[place]
        parent: Json = record.get("parentUuid")
        new_chain = is_boundary(record) or (is_summary(record) and parent is None)
        if new_chain:
            parent = record.get("logicalParentUuid")
        elif parent is None:
            return None, False
        step = self._places.get(parent) if isinstance(parent, str) else None
        if step is not None and step not in walked and not (new_chain and not self._is_message(step)):
            return step, False
        before = bisect_left(self._messages, place) - 1
        while before >= 0 and self._messages[before] in walked:
            before -= 1
        return (self._messages[before], not new_chain) if before >= 0 else (None, False)

    def _is_message(self, place: int) -> bool:
        return self._records[place].get("type") in ("user", "assistant", "attachment")

    def answers_of(self, on_branch: set[int]) -> set[int]:
        """All pieces of the answers on the branch, and the results of their calls."""
        answers = {answer_id(self._records[place]) for place in on_branch} - {""}
        pieces = {place for place, record in enumerate(self._records) if answer_id(record) in answers}
        calls = {
            as_text(block.get("id"))
            for place in pieces | on_branch
            for block in blocks_of(self._records[place])
            if block.get("type") == "tool_use"
        }
        return pieces | {
            place
            for place, record in enumerate(self._records)
            if record.get("type") == "user"
            and any(as_text(block.get("tool_use_id")) in calls for block in blocks_of(record))
        }

    def shoots(self, on_branch: set[int]) -> Iterator[list[int]]:
        """The parts of the tree that are not on the branch, each from where it leaves the branch."""
        children: dict[int, list[int]] = {}
        roots = []
        for place in self._places.values():
            if place in on_branch:
                continue
            parent = self._places.get(as_text(self._records[place].get("parentUuid")))
            if parent is None or parent in on_branch:
                roots.append(place)
            else:
                children.setdefault(parent, []).append(place)
        for root in roots:
            shoot, waiting = [], [root]
            while waiting:
                place = waiting.pop()
                shoot.append(place)
                waiting += children.pop(place, [])
            yield sorted(shoot)
        if children:  # records that point in a circle
            yield sorted(place for shoot in children.values() for place in shoot)

    def is_branch(self, shoot: Iterable[int]) -> bool:
        """Whether a shoot says something of its own; else it holds what was noted beside the branch."""
        return any(
            record.get("type") == "assistant" or (record.get("type") == "user" and not record.get("isMeta"))
            for record in map(self._records.__getitem__, shoot)
        )

    def messages(self, shoot: Sequence[int]) -> tuple[int, int]:
        """Where in the file a shoot begins, and how many messages it holds. Pieces of an answer are one."""
        keys = {
            answer_id(self._records[place]) or place
            for place in shoot
            if self._records[place].get("type") in ("user", "assistant")
        }
        return self._positions[shoot[0]], len(keys)


def _branch_note(branches: Sequence[tuple[int, int]]) -> str:
    total = sum(messages for _, messages in branches)
    named = [f"{_times(messages, 'message')} from record {start} on" for start, messages in branches]
    if len(named) > _NAMED_BRANCHES:
        named[_NAMED_BRANCHES:] = [f"{len(named) - _NAMED_BRANCHES} more"]
    return (
        f"Left out: {_times(total, 'message')} on other branches ({', '.join(named)}); "
        "only the branch last used is read."
    )


def _times(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
