"""Reader for the sessions of Claude Code: JSON lines that make a tree by their `uuid` and `parentUuid`."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, cast

from foldline.context.files import file_lists
from foldline.context.numbers import many
from foldline.context.view import extends
from foldline.formats.base import ForeignChild, ForeignSession, JsonLine, JsonObject, known_lines
from foldline.formats.transcript import Transcript
from foldline.history import Damage
from foldline.protocol import (
    NEW,
    BaseMessage,
    Compaction,
    Entry,
    Kept,
    NoticeRecord,
    SystemMessage,
    Title,
    UserMessage,
    text_parts,
)

from .children import children_of, is_sidechain
from .messages import (
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
from .requests import (
    PARTS_OF_REQUESTS,
    REQUEST,
    Draft,
    RecordedRequests,
    arranged,
    in_order,
    proved,
)

_KINDS_BESIDE = {
    "file-history-snapshot": "messageId", "summary": "leafUuid", "queue-operation": "operation",
    "last-prompt": "lastPrompt", "custom-title": "customTitle", "ai-title": "aiTitle",
}  # fmt: skip
"""Records that may open a file before its first message, each with a field that is its own."""

_SILENT = (
    *_KINDS_BESIDE, "agent-color", "agent-name", "agent-setting", "attachment", "atis-latch", "cost-state",
    "file-history-delta", "mode", "permission-mode", "pr-link", "progress", "system", "tag", "tools-used",
    "worktree",
)  # fmt: skip
_SPOKEN = ("user", "assistant", "attachment")


def recognises(record: JsonObject) -> bool:
    kind = record.text("type")
    if kind in ("system", "progress", *_SPOKEN):
        return isinstance(record.get("uuid"), str) and "parentUuid" in record
    return kind in _KINDS_BESIDE and isinstance(record.get(_KINDS_BESIDE[kind]), str)


def read(data: bytes, path: Path) -> ForeignSession:
    """A session of Claude Code, or of one of its sub-agents."""
    lacks = "record of Claude Code: no line has a known type, a `uuid` and a `parentUuid`"
    lines, damage = known_lines(data, path, recognises, lacks)
    main = [line for line in lines if not is_sidechain(line.record)]
    aside = [line for line in lines if is_sidechain(line.record)]
    if any(line.record.get("type") in ("user", "assistant") for line in main):
        return _session(main, damage, path, children_of(main, aside, path, _session))
    read = _session(lines, damage, path)
    return replace(read, notes=("This is the session of a sub-agent.", *read.notes)) if aside else read


def _session(
    lines: Sequence[JsonLine], damage: Damage, path: Path = Path(), children: Iterable[ForeignChild] = ()
) -> ForeignSession:
    lines, branches, notes = _branches(in_order(lines))
    reader = _Reader(lines, branches, children)
    records = [line.record for line in lines]
    # The oldest folder and time, but the newest id: a fork opens with records of the session before it.
    name = next(filter(None, (record.text("sessionId") for record in reversed(records))), path.stem)
    cwd = next(filter(None, (record.text("cwd") for record in records)), "")
    origin = next(filter(None, (record.text("forkedFrom", "sessionId") for record in records)), "")
    forked = [f"The session was forked from session {origin}."] if origin else []
    return reader.log.session("claude-code", name, cwd, damage, (*forked, *notes, *reader.notes()))


# --- branches -----------------------------------------------------------------------------------------
#
# Records point to their parent, from the newest one to the first. The pointers make a tree even where nothing
# ever branched: answers are written in pieces, and the results of parallel calls hang on different pieces.
# Such side shoots belong to their branch; one that holds a request or an answer of its own is another branch.


class _Branch(NamedTuple):
    places: set[int]
    start: int | None
    """The place of the record of another branch that it goes on from; None where it has a beginning of its
    own."""


def _branches(lines: Sequence[JsonLine]) -> tuple[list[JsonLine], list[_Branch], list[str]]:
    """Each record once, in file order, and all branches, the one of the newest message first. What is on none
    stands beside the conversation."""
    notes: list[str] = []
    main, copies = _without_copies(lines)
    if copies:
        notes.append(f"Left out: {many(copies, 'record')} that the file holds a second time.")
    tree = _Tree(main)
    branches, gaps = tree.branches()
    others = sum(tree.messages(branch.places) for branch in branches[1:])
    if others:
        are = "is" if others == 1 else "are"
        notes.append(
            f"{many(others, 'message')} {are} on other branches than the one last used: /tree shows them."
        )
    if gaps:
        notes.append(f"The chain of records is broken {many(gaps, 'time')}; the record before was taken.")
    return main, branches, notes


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
        self._places = {
            record["uuid"]: place
            for place, record in enumerate(self._records)
            if isinstance(record.get("uuid"), str)
        }
        self._messages = [place for place in self._places.values() if self._is_message(place)]
        self._pieces: dict[str, list[int]] = defaultdict(list)
        """The records of each answer."""
        self._results: dict[str, list[int]] = defaultdict(list)
        """The records that hold a result of each call."""
        for place, record in enumerate(self._records):
            self._pieces[_answer_id(record)].append(place)
            if record.get("type") == "user":
                for block in blocks_of(record):
                    self._results[block.text("tool_use_id")].append(place)

    def branches(self) -> tuple[list[_Branch], int]:
        """All of them, and how often the chain of the first, which the newest message is on, is broken."""
        if not self._messages:
            return [], 0
        first, gaps = self._walk(self._messages[-1], frozenset())
        found, taken = [first], set(first.places)
        for place in reversed(self._places.values()):
            if place not in taken and self._speaks(place):
                found.append(self._walk(place, taken)[0])
                taken |= found[-1].places
        branch_of = {place: branch for branch in found for place in branch.places}
        for place in self._places.values():  # what is noted beside a branch is on it
            parent = self._places.get(self._records[place].text("parentUuid"))
            if place not in branch_of and parent in branch_of:
                branch_of[place] = branch_of[parent]
                branch_of[place].places.add(place)
        return found, gaps

    def _walk(self, tip: int, taken: Set[int]) -> tuple[_Branch, int]:
        """The branch of this record back to where it left another one."""
        walked: set[int] = set()
        gaps, place = 0, cast("int | None", tip)
        while place is not None and place not in taken:
            walked.add(place)
            place, is_gap = self._step(place, walked)
            gaps += is_gap
        return _Branch(walked | (self._answers_of(walked) - taken), place), gaps

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

    def _speaks(self, place: int) -> bool:
        """Whether a record says something of its own; else it notes something beside a branch."""
        record = self._records[place]
        return record.get("type") == "assistant" or (
            record.get("type") == "user" and not record.get("isMeta")
        )

    def _answers_of(self, walked: set[int]) -> set[int]:
        """The pieces of the answers on a branch, and the results of their calls."""
        answers = {_answer_id(self._records[place]) for place in walked} - {""}
        pieces = {place for answer in answers for place in self._pieces[answer]}
        calls = {
            block.text("id")
            for place in pieces | walked
            for block in blocks_of(self._records[place])
            if block.get("type") == "tool_use"
        }
        return pieces | {place for call in calls for place in self._results.get(call, ())}

    def messages(self, places: Iterable[int]) -> int:
        """How many messages these records are. Pieces of an answer are one."""
        spoken = [place for place in places if self._records[place].get("type") in ("user", "assistant")]
        return len({_answer_id(self._records[place]) or place for place in spoken})


# --- records ----------------------------------------------------------------------------------------


class _Here(NamedTuple):
    """How far a branch is read."""

    newest: int
    """Index of its newest entry."""
    summary: str
    prompt: int | None
    contents: dict[int, str]


class _Reader:
    """Turns records into entries, in file order. An index is the place of a record; where one holds several
    messages, those after it are later than the places. Where the file goes on on another branch than before,
    so does the history, by a rewind to the moment it was left at."""

    def __init__(
        self, lines: Sequence[JsonLine], branches: Sequence[_Branch], children: Iterable[ForeignChild] = ()
    ) -> None:
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
        self._requests = RecordedRequests(lines)
        self._waiting: list[tuple[JsonLine, BaseMessage]] = []
        """Messages that the next request puts in their places."""
        self._sent: dict[int, Sequence[BaseMessage]] = {}
        """What each request sent that has the digest in the file, by the index of its record."""
        self._prompt: int | None = None
        """The system prompt of this branch."""
        self._known: tuple[Sequence[BaseMessage], list[int]] = (), []
        """What the newest request sent, and the entries that say it."""
        self._contents: dict[int, str] = {}
        """The texts that stand in the view in place of what entries say."""
        self._read_branches(lines, branches)
        if self._boundary is not None:  # the file ends before the summary: nothing is compacted yet
            boundary = self._boundary
            self._add(boundary, self.log.next_index(boundary.position), [], [])
        self._release()
        self._put_waiting()
        for record in proved(self.log.in_order(), self._sent):
            self.log.entries[record.index] = record

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

    def _read_branches(self, lines: Sequence[JsonLine], branches: Sequence[_Branch]) -> None:
        branch_of = {place: nth for nth, branch in enumerate(branches) for place in branch.places}
        starts = {branch.start for branch in branches}
        at_start: dict[int | None, _Here] = {None: self._here()}
        at_end: dict[int, _Here] = {}
        now: int | None = None
        for place, line in enumerate(lines):
            then = branch_of.get(place, now)
            if then is not None and then != now:
                self._close_boundary()
                self._put_waiting()
                if now is not None:
                    at_end[now] = self._here()
                    self._go_to(at_end.get(then) or at_start.get(branches[then].start), line)
                now = then
            self._read(line)
            if place in starts:
                self._put_waiting()
                at_start[place] = self._here()

    def _here(self) -> "_Here":
        newest = max(self.log.entries, default=NEW)
        summary, contents = self._newest_summary, dict(self._contents)
        return _Here(newest, summary, self._prompt, contents)

    def _go_to(self, there: "_Here | None", line: JsonLine) -> None:
        """Go on from there; from here where the file has not been there yet."""
        if there is None or there.newest == max(self.log.entries, default=NEW):
            return
        self.log.go_to_branch(there.newest, line.record.time("timestamp"), line.position)
        self._newest_summary = there.summary
        self._prompt, self._contents, self._known = there.prompt, dict(there.contents), ((), [])

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
        if record.kind == REQUEST:
            self._request(line)
        elif record.kind in PARTS_OF_REQUESTS:
            pass
        elif line.position in self._requests.waiting:
            entries = [*filter(None, self._entries(line, NEW))]
            messages = [(line, entry) for entry in entries if isinstance(entry, BaseMessage)]
            if messages and len(messages) == len(entries):
                self._waiting += messages
            else:
                self._add(line, self.log.next_index(line.position), entries, [line])
        elif record.get("type") != "assistant":
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
            if isinstance(entry, Compaction):
                changed = (piece for piece in (*entry.head, *entry.replaced) if isinstance(piece, Kept))
                self._contents |= {piece.ref: piece.content for piece in changed if piece.content is not None}
                self._known = (), []

    # --- requests --------------------------------------------------------------------------------------

    def _put_waiting(self) -> None:
        """Add the messages that no request has put elsewhere, in the order of the file."""
        waiting, self._waiting = self._waiting, []
        for line, message in waiting:
            self._put(line, message, line.position)

    def _put(self, line: JsonLine, message: BaseMessage, position: int) -> int:
        index = self.log.add(message, line.record.time("timestamp"), position=position)
        self._compactions.add(self.log.message(index), [_uuid(line)])
        return index

    def _request(self, line: JsonLine) -> None:
        """Make the view what this request sent, and add its record."""
        sent = self._requests.read(line.record)
        if sent is None:
            self._put_waiting()
        else:
            self._send(line, sent.messages)
        index = self.log.next_index(line.position)
        record = self._requests.entry(line.record)
        self.log.put(index, record.model_copy(update={"after": index - 1}), line.record.time("timestamp"))
        if sent is not None and sent.is_whole:
            self._sent[index] = sent.messages

    def _send(self, line: JsonLine, sent: Sequence[BaseMessage]) -> None:
        waiting, self._waiting = self._waiting, []
        indices = ([] if self._prompt is None else [self._prompt]) + self.log.context()
        before, places = self._known
        if not (extends(before, sent) and indices[: len(places)] == places):
            before, places = (), []
        view = [
            (index, self.log.message(index), self._contents.get(index)) for index in indices[len(places) :]
        ]
        order = arranged(sent[len(before) :], view, [message for _, message in waiting])
        now, contents = [*places], dict[int, str]()
        for each in order:
            if isinstance(each, Kept):
                now.append(each.ref)
                contents |= {each.ref: each.content} if each.content is not None else {}
                continue
            origin = line if each.nth is None else waiting[each.nth][0]
            now.append(self._put(origin, each.message, line.position))
            if isinstance(each.message, SystemMessage):
                self._prompt = now[-1]
        placed = {each.nth for each in order if isinstance(each, Draft)}
        # What the user said may be sent later; of the program's notes, what is not sent is none.
        unsent = (each for nth, each in enumerate(waiting) if nth not in placed)
        self._waiting += [(line, message) for line, message in unsent if isinstance(message, UserMessage)]
        if contents or now[: len(indices)] != indices:
            self._relist(line, now, contents)
        self._known = sent, now

    def _relist(self, line: JsonLine, items: Sequence[int], contents: Mapping[int, str]) -> None:
        """The request sent other things, or in another order, than what came before leads to."""
        self._contents |= contents
        details, at = file_lists(self.log.projection), line.record.time("timestamp")
        how = {"contents": contents, "strategy": "claude-code", "details": details}
        self.log.compact((), items, at, line.position, **how)

    # --- other records ---------------------------------------------------------------------------------

    def _entries(self, line: JsonLine, index: int) -> Sequence[Entry | None]:
        record = line.record
        match record.get("type"):
            case "user":
                return self._user(record)
            case "attachment":
                attachment = record.object("attachment")
                message = attached(record)
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
