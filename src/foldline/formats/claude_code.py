"""Reader for the sessions of Claude Code: JSON lines that make a tree by their `uuid` and `parentUuid`."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from foldline.context.numbers import many
from foldline.history import Damage
from foldline.protocol import BaseMessage, Entry, NoticeRecord, Title, text_parts

from .base import ForeignChild, ForeignSession, JsonLine, JsonObject, known_lines
from .claude_code_children import children_of, is_sidechain
from .claude_code_messages import (
    Compactions,
    answer,
    attached,
    blocks_of,
    is_boundary,
    is_for_model,
    is_summary,
    notice,
    said_by_user,
    text_of,
    tool_result,
)
from .transcript import Transcript

_KINDS_BESIDE = {
    "file-history-snapshot": "messageId", "summary": "leafUuid", "queue-operation": "operation",
    "last-prompt": "lastPrompt", "custom-title": "customTitle", "ai-title": "aiTitle",
}  # fmt: skip
"""Records that may open a file before its first message, each with a field that is its own."""

_SILENT = (
    *_KINDS_BESIDE, "agent-color", "agent-name", "agent-setting", "attachment", "atis-latch", "mode",
    "permission-mode", "pr-link", "progress", "system", "tag", "worktree",
)  # fmt: skip
_SPOKEN = ("user", "assistant", "attachment")
_NAMED_BRANCHES = 5


def is_claude_code(record: JsonObject) -> bool:
    kind = record.text("type")
    if kind in ("system", "progress", *_SPOKEN):
        return isinstance(record.get("uuid"), str) and "parentUuid" in record
    return kind in _KINDS_BESIDE and isinstance(record.get(_KINDS_BESIDE[kind]), str)


def read_claude_code(data: bytes, path: Path) -> ForeignSession:
    """A session of Claude Code, or of one of its sub-agents."""
    lacks = "record of Claude Code: no line has a known type, a `uuid` and a `parentUuid`"
    lines, damage = known_lines(data, path, is_claude_code, lacks)
    main = [line for line in lines if not is_sidechain(line.record)]
    aside = [line for line in lines if is_sidechain(line.record)]
    if any(line.record.get("type") in ("user", "assistant") for line in main):
        return _session(main, damage, path, children_of(main, aside, path, _session))
    read = _session(lines, damage, path)
    return replace(read, notes=("This is the session of a sub-agent.", *read.notes)) if aside else read


def _session(
    lines: Sequence[JsonLine], damage: Damage, path: Path = Path(), children: Iterable[ForeignChild] = ()
) -> ForeignSession:
    lines, notes = _active_branch(lines)
    reader = _Reader(lines, children)
    records = [line.record for line in lines]
    # The oldest folder and time, but the newest id: a fork opens with records of the session before it.
    name = next(filter(None, (record.text("sessionId") for record in reversed(records))), path.stem)
    cwd = next(filter(None, (record.text("cwd") for record in records)), "")
    origin = next(filter(None, (record.text("forkedFrom", "sessionId") for record in records)), "")
    forked = [f"The session was forked from session {origin}."] if origin else []
    return reader.log.session("claude-code", name, cwd, damage, (*forked, *notes, *reader.notes()))


# --- the branch in use --------------------------------------------------------------------------------
#
# Records point to their parent, from the newest one to the first. The pointers make a tree even where nothing
# ever branched: answers are written in pieces, and the results of parallel calls hang on different pieces.
# Such side shoots belong to the branch; one that holds a request or an answer of its own is another branch.


def _active_branch(lines: Sequence[JsonLine]) -> tuple[list[JsonLine], list[str]]:
    """The records of the branch of the newest message, in file order, and those that are outside the tree.
    Other branches are left out, with a note."""
    notes: list[str] = []
    main, copies = _without_copies(lines)
    if copies:
        notes.append(f"Left out: {many(copies, 'record')} that the file holds a second time.")
    tree = _Tree(main)
    on_branch, gaps = tree.walk()
    on_branch |= tree.answers_of(on_branch)
    others = [shoot for shoot in tree.shoots(on_branch) if tree.is_branch(shoot)]
    left_out = {place for shoot in others for place in shoot}
    if others:
        notes.append(_branch_note([tree.messages(shoot) for shoot in others]))
    if gaps:
        notes.append(f"The chain of records is broken {many(gaps, 'time')}; the record before was taken.")
    return [line for place, line in enumerate(main) if place not in left_out], notes


def _answer_id(record: JsonObject) -> str:
    """What the pieces of one answer share; empty where a record is no answer, or stands for itself."""
    return record.text("message", "id") if record.get("type") == "assistant" else ""


def _without_copies(lines: Sequence[JsonLine]) -> tuple[list[JsonLine], int]:
    """Each record once: some versions append the history again, uuids included, when they compact it."""
    seen: set[str] = set()
    once = []
    for line in lines:
        uuid = _uuid(line)
        if not uuid or uuid not in seen:
            once.append(line)
        seen.add(uuid)
    return once, len(lines) - len(once)


class _Tree:
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
        walked: set[int] = set()
        gaps = 0
        place = self._messages[-1] if self._messages else None
        while place is not None:
            walked.add(place)
            place, is_gap = self._step(place, walked)
            gaps += is_gap
        return walked, gaps

    def _step(self, place: int, walked: set[int]) -> tuple[int | None, bool]:
        """The record before this one, and whether it had to be guessed.

        A compaction starts a new chain: it names the record before it, or in older versions does not. What it
        names may be a record of a hook, with a parent that is wrong.
        """
        record = self._records[place]
        parent = record.get("parentUuid")
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
        return self._records[place].get("type") in _SPOKEN

    def answers_of(self, on_branch: set[int]) -> set[int]:
        answers = {_answer_id(self._records[place]) for place in on_branch} - {""}
        pieces = {place for place, record in enumerate(self._records) if _answer_id(record) in answers}
        calls = {
            block.text("id")
            for place in pieces | on_branch
            for block in blocks_of(self._records[place])
            if block.get("type") == "tool_use"
        }
        return pieces | {
            place
            for place, record in enumerate(self._records)
            if record.get("type") == "user"
            and any(block.text("tool_use_id") in calls for block in blocks_of(record))
        }

    def shoots(self, on_branch: set[int]) -> Iterator[list[int]]:
        """The parts of the tree that are not on the branch, each from where it leaves the branch."""
        children: dict[int, list[int]] = {}
        roots = []
        for place in self._places.values():
            if place in on_branch:
                continue
            parent = self._places.get(self._records[place].text("parentUuid"))
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
            _answer_id(self._records[place]) or place
            for place in shoot
            if self._records[place].get("type") in ("user", "assistant")
        }
        return self._positions[shoot[0]], len(keys)


def _branch_note(branches: Sequence[tuple[int, int]]) -> str:
    total = sum(messages for _, messages in branches)
    named = [f"{many(messages, 'message')} from record {start} on" for start, messages in branches]
    if len(named) > _NAMED_BRANCHES:
        named[_NAMED_BRANCHES:] = [f"{len(named) - _NAMED_BRANCHES} more"]
    return (
        f"Left out: {many(total, 'message')} on other branches ({', '.join(named)}); "
        "only the branch last used is read."
    )


# --- records ----------------------------------------------------------------------------------------


class _Reader:
    """Turns the records of a branch into entries, in file order. An index is the place of a record; where one
    holds several messages, those after it are later than the places."""

    def __init__(self, lines: Sequence[JsonLine], children: Iterable[ForeignChild] = ()) -> None:
        self.log = Transcript("claude-code", children={child.id: child for child in children})
        parents = {_uuid(line): line.record.text("parentUuid") for line in lines}
        self._compactions = Compactions(self.log, parents)
        self._boundary: JsonLine | None = None
        """A boundary whose summary has not come yet."""
        self._held: list[JsonLine] = []
        self._newest_summary = ""
        self._pieces = _pieces_of_answers(lines)
        self._titles = _titles(lines)
        self._without_text = 0
        for line in lines:
            self._read(line)
        if self._boundary is not None:  # the file ends before the summary: nothing is compacted yet
            boundary = self._boundary
            self._add(boundary, self.log.next_index(boundary.position), [], [])
        self._release()

    def notes(self) -> Iterable[str]:
        yield from self.log.notes(_SILENT)
        if self._without_text:
            yield f"Left out: {self._without_text} notes to the model whose text is not in the file."
        if self._compactions.without_summary:
            yield f"{self._compactions.without_summary} compactions have no summary in the file."
        if self._compactions.lost_kept:
            yield (
                f"{self._compactions.lost_kept} compactions name kept records that are not in the file: "
                "nothing before them is kept."
            )

    def _read(self, line: JsonLine) -> None:
        record = line.record
        if is_boundary(record):
            self._close_boundary()
            self._boundary = line
        elif is_summary(record) and (  # a compaction may have several: this is its first
            self._boundary is not None
            or not record.text("parentUuid")
            or record.text("parentUuid") != self._newest_summary
        ):
            boundary = self._boundary.record if self._boundary else JsonObject()
            self._boundary, self._newest_summary = None, _uuid(line)
            self._release()
            self._compact(line, boundary, text_of(record))
        elif self._boundary is not None and record.get("type") not in _SPOKEN:
            self._held.append(line)
        else:
            self._close_boundary()
            self._read_plain(line)

    def _compact(self, line: JsonLine, boundary: JsonObject, summary: str) -> None:
        index = self.log.next_index(line.position)
        compaction = self._compactions.compaction(index, boundary, text_parts(summary))
        self.log.put(index, compaction, line.record.time("timestamp"))

    def _close_boundary(self) -> None:
        """A boundary after which the conversation goes on without a summary."""
        if self._boundary is not None:
            line, self._boundary = self._boundary, None
            self._compact(line, line.record, "")
            self._release()

    def _release(self) -> None:
        held, self._held = self._held, []
        for line in held:
            self._read_plain(line)

    def _read_plain(self, line: JsonLine) -> None:
        """The entries of a record. An answer is whole at its first piece; there is nothing at the others."""
        record = line.record
        if record.get("type") != "assistant":
            index = self.log.next_index(line.position)
            self._add(line, index, self._entries(line, index), [line])
        elif (pieces := self._pieces.get(line.position)) is not None:
            index = self.log.next_index(line.position)
            self._add(line, index, [answer(self.log, [piece.record for piece in pieces])], pieces)

    def _add(
        self, line: JsonLine, index: int, entries: Iterable[Entry | None], pieces: Sequence[JsonLine]
    ) -> None:
        found = list(filter(None, entries))
        found = found or [self.log.unknown(line.record, line.record.text("type"))]
        records = list(map(_uuid, pieces))
        for nth, entry in enumerate(found):
            index = self.log.next_index(line.position) if nth else index
            self.log.put(index, entry, line.record.time("timestamp"))
            if isinstance(message := self.log.entries[index], BaseMessage):
                self._compactions.add(message, records)

    def _entries(self, line: JsonLine, index: int) -> Sequence[Entry | None]:
        record = line.record
        match record.get("type"):
            case "user":
                return self._user(record)
            case "attachment":
                attachment = record.object("attachment")
                message = attached(attachment)
                self._without_text += message is None and is_for_model(attachment)
                return [message]
            case "system" if record.get("subtype") == "microcompact_boundary":
                return [self._compactions.cleared(index, record) or notice(record)]
            case "system" if record.get("subtype") == "local_command":
                block = JsonObject(type="text", text=record.text("content"))
                return said_by_user(self.log, record, [block])
            case "system":
                return [notice(record)]
            case "content-replacement":
                return [self._compactions.shortened(index, record)]
            case _ if line.position in self._titles:
                return [Title(title=self._titles[line.position])]
            case _:
                return ()

    def _user(self, record: JsonObject) -> Sequence[Entry]:
        """Results come first, as the API asks. What the program noted about a run is about the only one."""
        if record.flag("isVisibleInTranscriptOnly") and not is_summary(record):
            return [NoticeRecord(text=text_of(record))]
        blocks = blocks_of(record)
        results = [block for block in blocks if block.get("type") == "tool_result"]
        noted = record.object("toolUseResult") if len(results) == 1 else JsonObject()
        messages: list[Entry] = [tool_result(self.log, block, noted) for block in results]
        others = [block for block in blocks if block not in results]
        return [*messages, *said_by_user(self.log, record, others)]


def _uuid(line: JsonLine) -> str:
    return line.record.text("uuid")


def _pieces_of_answers(lines: Iterable[JsonLine]) -> dict[int, list[JsonLine]]:
    """The records that each answer was written to, by the position of the first. None spans a compaction."""
    answers: dict[tuple[int, str | int], list[JsonLine]] = {}
    compactions = 0
    for line in lines:
        compactions += is_boundary(line.record) or is_summary(line.record)
        if line.record.get("type") == "assistant":
            key = (compactions, _answer_id(line.record) or line.position)
            answers.setdefault(key, []).append(line)
    return {pieces[0].position: pieces for pieces in answers.values()}


def _titles(lines: Sequence[JsonLine]) -> dict[int, str]:
    """The titles of this session, by position. The program's own count only where the user gave none.

    A `summary` may be the title of another session, whose records are not here.
    """
    here = set(map(_uuid, lines)) - {""}
    given: dict[int, str] = {}
    made: dict[int, str] = {}
    for line in lines:
        match line.record.get("type"):
            case "custom-title":
                given[line.position] = line.record.text("customTitle")
            case "ai-title":
                made[line.position] = line.record.text("aiTitle")
            case "summary" if line.record.text("leafUuid") in here:
                made[line.position] = line.record.text("summary")
            case _:
                pass
    return {position: title for position, title in (given or made).items() if title.strip()}
