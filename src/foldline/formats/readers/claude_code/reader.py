"""Reader for Claude Code's sessions.

These are JSON lines that form a tree by `uuid` and `parentUuid`.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from foldline.formats.base import (
    ForeignChild,
    ForeignSession,
    JsonLine,
    JsonObject,
    first_value,
    known_lines,
    lacks_parent,
)
from foldline.formats.parts import (
    beginning_note,
    branch_notes,
    lost_cuts_note,
    of_kind,
)
from foldline.formats.transcript import Transcript
from foldline.history import Damage
from foldline.protocol import NEW, BaseMessage, Entry, NoticeRecord, Title, UserMessage
from foldline.text.numbers import many
from foldline.view.items import ViewItem

from .arrangement import Arrangement, Draft, EqualStart
from .branches import Branch, answer_id, branches_of, message_count
from .children import children_of, is_sidechain
from .compactions import Compactions, compacting_records
from .messages import (
    SPOKEN,
    answer,
    attached,
    blocks_of,
    is_boundary,
    is_for_model,
    is_summary,
    notice,
    text_of,
    tool_result,
    user_messages,
    uuid_of,
)
from .requests import REFERENCED, REQUEST, RecordedRequests, in_order

_FIRST_RECORDS = {
    "file-history-snapshot": "messageId", "summary": "leafUuid", "queue-operation": "operation",
    "last-prompt": "lastPrompt", "custom-title": "customTitle", "ai-title": "aiTitle",
}  # fmt: skip
"""Types of records that may precede the first message, each with a field that identifies it."""

_SILENT = (
    *_FIRST_RECORDS, "agent-color", "agent-name", "agent-setting", "attachment", "atis-latch", "cost-state",
    "file-history-delta", "mode", "permission-mode", "pr-link", "progress", "system", "tag", "tools-used",
    "worktree",
)  # fmt: skip
"""Prefixes of types of records that are not sent to the model."""
FORKED = "The session was forked from session {origin}."
OF_SUBAGENT = "This is a subagent's session."
NOTES_WITHOUT_TEXT = "Left out: {notes} to the model without a text in the file."


def recognises(record: JsonObject) -> bool:
    if record.kind in ("system", "progress", *SPOKEN):
        return isinstance(record.get("uuid"), str) and "parentUuid" in record
    return isinstance(record.get(_FIRST_RECORDS.get(record.kind, "")), str)


def read(data: bytes, path: Path) -> ForeignSession:
    """Read a session, which may be a subagent's."""
    lacks = "Claude Code records: no line has a known type, a `uuid` and a `parentUuid`"
    lines, damage = known_lines(data, path, recognises, lacks)
    main = [line for line in lines if not is_sidechain(line.record)]
    aside = [line for line in lines if is_sidechain(line.record)]
    if any(line.kind in ("user", "assistant") for line in main):
        return _session(main, damage, path, children_of(main, aside, path, _session))
    session = _session(lines, damage, path)
    if aside:
        session = replace(session, notes=(OF_SUBAGENT, *session.notes))
    return session


def _session(
    lines: Sequence[JsonLine],
    damage: Damage,
    path: Path = Path(),
    children: Iterable[ForeignChild] = (),
) -> ForeignSession:
    unique = _without_copies(in_order(lines))
    branches = branches_of(unique)
    reader = _ClaudeCodeReader(unique, children)
    reader.read_all(branches)
    records = [line.record for line in unique]
    notes = []
    origin = first_value(records, "forkedFrom", "sessionId")
    if origin:
        notes.append(FORKED.format(origin=origin))
    copies = len(lines) - len(unique)
    if copies:
        repeated = many(copies, "repeated record")
        notes.append(f"Left out: {repeated}.")
    gaps = branches[0].gaps if branches else 0
    notes += branch_notes(message_count(unique, branches[1:]), gaps)
    first = next((line.record for line in unique if line.kind in SPOKEN), JsonObject())
    notes += beginning_note(is_lost=lacks_parent(first, records))
    # The oldest folder, but the newest id, because a fork begins with records of the original session.
    session_id = first_value(reversed(records), "sessionId")
    cwd = first_value(records, "cwd")
    return reader.log.session(
        "claude-code",
        session_id or path.stem,
        cwd,
        damage,
        (*notes, *reader.notes()),
    )


def _without_copies(lines: Sequence[JsonLine]) -> list[JsonLine]:
    """Drop repeated records.

    Some versions append the history to the file again.
    """
    seen = set()
    unique = []
    for line in lines:
        uuid = uuid_of(line)
        if not uuid or uuid not in seen:
            unique.append(line)
        seen.add(uuid)
    return unique


class _ClaudeCodeReader:
    """Converts records to entries, in file order.

    An index is the position of a record. After a record with several messages, indices may be higher. When
    the file switches to another branch, the history is rewound to the end of that branch.
    """

    def __init__(
        self, lines: Sequence[JsonLine], children: Iterable[ForeignChild]
    ) -> None:
        self.log = Transcript("claude-code")
        self.log.add_children(children)
        self._lines = lines
        self._compacting = compacting_records(lines)
        self._compactions = Compactions(self.log, lines)
        self._boundary = JsonObject()
        """The boundary record of the next compaction."""
        self._summaries: set[str] = set()
        """The ids of the first summary records, one for each compaction."""
        self._answers = _pieces_of_answers(lines)
        self._has_title = any(line.kind == "custom-title" for line in lines)
        """Whether the user has set a title.

        If so, generated titles are ignored.
        """
        self._uuids = {uuid_of(line) for line in lines} - {""}
        self._without_text = 0
        self._requests = RecordedRequests(lines)
        self._drafts: list[Draft] = []
        """Messages that are not in the history yet.

        The next request determines their order.
        """
        self._newest = EqualStart[ViewItem]()
        """The newest request, and the view after it."""

    def notes(self) -> Iterator[str]:
        yield from self.log.notes(_SILENT)
        if self._without_text:
            yield NOTES_WITHOUT_TEXT.format(notes=many(self._without_text, "note"))
        if self._compactions.without_summary:
            have = many(
                self._compactions.without_summary, "compaction has", "compactions have"
            )
            yield f"{have} no summary in the file."
        yield from lost_cuts_note(self._compactions.lost_kept)

    def read_all(self, branches: Iterable[Branch]) -> None:
        branch_at = {place: branch for branch in branches for place in branch.places}
        starts = {branch.start for branch in branches}
        ends: dict[Branch | int | None, int] = {None: NEW}
        """The newest entry of each branch so far, and at each position from which a branch starts."""
        current: Branch | None = None
        for place, line in enumerate(self._lines):
            branch = branch_at.get(place, current)
            if branch is not None and branch is not current:
                self._put_drafts()
                if current is not None:
                    ends[current] = self.log.newest_index
                    self._go_to(ends.get(branch, ends.get(branch.start)), line)
                current = branch
            self._read(line)
            if place in starts:
                self._put_drafts()
                ends[place] = self.log.newest_index
        self._put_drafts()

    def _go_to(self, newest: int | None, line: JsonLine) -> None:
        """Rewind to the context after the entry `newest`, if the entry is known."""
        if newest is not None and newest != self.log.newest_index:
            self.log.go_back_to(newest, line.at, line.position)

    # --- records -------------------------------------------------------------------------------------

    def _read(self, line: JsonLine) -> None:
        record = line.record
        # A compaction may have several summary records. The later ones are children of the first.
        is_first = record.text("parentUuid") not in self._summaries
        if is_boundary(record):
            self._boundary = record
            compacting = self._compacting.get(line.position)
            if compacting is None:
                self._add(line, [])
            elif compacting is line:
                self._compact(line)
        elif is_summary(record) and (self._boundary or is_first):
            self._summaries.add(uuid_of(line))
            self._compact(line)
        elif record.kind == REQUEST:
            self._request(line)
        elif record.kind == "assistant":
            self._answer(line)
        elif record.kind not in REFERENCED and not self._replaces_results(line):
            self._read_plain(line)

    def _compact(self, line: JsonLine) -> None:
        self._compactions.compact(line, self._boundary)
        self._boundary = JsonObject()

    def _replaces_results(self, line: JsonLine) -> bool:
        """Add a compaction if a record shortens tool results.

        Returns whether it does.
        """
        record = line.record
        if record.kind == "content-replacement":
            return self._compactions.shorten_results(line)
        if record.kind == "system" and record.get("subtype") == "microcompact_boundary":
            return self._compactions.clear_results(line)
        return False

    def _read_plain(self, line: JsonLine) -> None:
        entries = [entry for entry in self._entries(line) if entry]
        messages = [entry for entry in entries if isinstance(entry, BaseMessage)]
        is_unplaced = line.position in self._requests.unplaced
        if is_unplaced and entries and messages == entries:
            self._drafts += [Draft(line, message) for message in messages]
        else:
            self._add(line, entries)

    def _answer(self, line: JsonLine) -> None:
        """Add an answer when the first of its records is reached."""
        pieces = self._answers.get(line.position)
        if pieces is not None:
            self._add(
                line, [answer(self.log, [piece.record for piece in pieces])], pieces
            )

    def _add(
        self,
        line: JsonLine,
        entries: Sequence[Entry],
        records: Sequence[JsonLine] | None = None,
    ) -> None:
        """Add the entries of a record.

        If a record has no entries, it is added unchanged.
        """
        for entry in entries or [self.log.unknown(line.record, line.kind)]:
            index = self.log.add(entry, line.at, position=line.position)
            if isinstance(entry, BaseMessage):
                self._compactions.add(index, records or [line])

    def _entries(self, line: JsonLine) -> Sequence[Entry | None]:
        record = line.record
        match record.kind:
            case "user":
                return self._user(record)
            case "attachment":
                message = attached(record)
                self._without_text += message is None and is_for_model(
                    record.object("attachment")
                )
                return [message]
            case "system" if record.get("subtype") == "local_command":
                block = JsonObject(type="text", text=record.text("content"))
                return user_messages(self.log, record, [block])
            case "system":
                return [notice(record)]
            case "custom-title":
                return _titles(record.text("customTitle"))
            case "ai-title" if not self._has_title:
                return _titles(record.text("aiTitle"))
            # A `summary` may be the title of another session, whose records are not in the file.
            case "summary" if (
                not self._has_title and record.text("leafUuid") in self._uuids
            ):
                return _titles(record.text("summary"))
            case _:
                return ()

    def _user(self, record: JsonObject) -> Sequence[Entry]:
        """Return the tool results in a record, followed by its other messages."""
        if record.flag("isVisibleInTranscriptOnly") and not is_summary(record):
            return [NoticeRecord(text=text_of(record))]
        blocks = blocks_of(record)
        results = of_kind(blocks, "tool_result")
        others = [block for block in blocks if block.kind != "tool_result"]
        # The program's own record of a call is only used if the record has a single result.
        run = record.object("toolUseResult") if len(results) == 1 else JsonObject()
        messages = [tool_result(self.log, block, run) for block in results]
        return [*messages, *user_messages(self.log, record, others)]

    # --- requests ------------------------------------------------------------------------------------

    def _put_drafts(self) -> None:
        """Add the remaining drafts, in file order."""
        drafts = self._drafts
        self._drafts = []
        for draft in drafts:
            self._add(draft.line, [draft.message])

    def _request(self, line: JsonLine) -> None:
        """Make the view equal to this request, and record the request in the history."""
        sent = self._requests.read(line.record)
        if sent is None:
            self._put_drafts()
        else:
            self._send(line, sent)
        entry = self._requests.entry(line.record, sent, self.log.projection.view)
        index = self.log.next_index(line.position)
        self.log.put(index, entry.model_copy(update={"after": index - 1}), line.at)

    def _send(self, line: JsonLine, sent: Sequence[BaseMessage]) -> None:
        """Add the drafts in the order of the request.

        If the view still differs, add a compaction.
        """
        view = self.log.projection.view
        new_sent, new_view = self._newest.after(sent, view)
        drafts = self._drafts
        arrangement = Arrangement(new_view, drafts)
        arrangement.arrange(new_sent, line)
        indices = [item.index for item in view]
        same = indices[: len(view) - len(new_view)]
        sent_indices = same + [self._index_of(item, line) for item in arrangement.order]
        # Prompts that are not in this request may be sent later, but the program's notes will not be.
        prompts = [draft for draft in drafts if isinstance(draft.message, UserMessage)]
        self._drafts = [draft for draft in prompts if draft not in arrangement.order]
        if arrangement.contents or sent_indices[: len(indices)] != indices:
            self._compactions.relist(line, sent_indices, arrangement.contents)
        view = self.log.projection.view
        if [item.index for item in view] == sent_indices:
            self._newest = EqualStart(sent, [*view])

    def _index_of(self, item: ViewItem | Draft, request: JsonLine) -> int:
        """Return the index of a message, after adding it if it is a draft."""
        if isinstance(item, ViewItem):
            return item.index
        index = self.log.add(item.message, item.line.at, position=request.position)
        self._compactions.add(index, [item.line])
        return index


def _pieces_of_answers(lines: Iterable[JsonLine]) -> dict[int, list[JsonLine]]:
    """Return each answer's records, by the position of the first record.

    A compaction ends an answer.
    """
    answers: dict[tuple[int, str | int], list[JsonLine]] = defaultdict(list)
    compactions = 0
    for line in lines:
        compactions += is_boundary(line.record) or is_summary(line.record)
        if line.kind == "assistant":
            answers[compactions, answer_id(line.record) or line.position].append(line)
    return {pieces[0].position: pieces for pieces in answers.values()}


def _titles(title: str) -> list[Title]:
    return [Title(title=title)] if title.strip() else []
