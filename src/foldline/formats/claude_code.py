"""Reader for the sessions of Claude Code: JSON lines that make a tree by their `uuid` and `parentUuid`."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from foldline.protocol import (
    BaseMessage,
    Entry,
    FoldlineError,
    NoticeRecord,
    SessionHeader,
    Title,
    Unknown,
    text_parts,
)

from .base import ForeignSession, Json, JsonLine, JsonObject, as_object, as_text, as_time, json_lines
from .claude_code_branch import active_branch, answer_id, blocks_of, is_boundary, is_summary
from .claude_code_folds import Folds
from .claude_code_messages import Calls, answer, tool_result
from .claude_code_voices import attached, is_for_model, notice, said_by_user
from .detection import left_out_note, unknown_records_note

_KINDS_BESIDE = {
    "file-history-snapshot": "messageId",
    "summary": "leafUuid",
    "queue-operation": "operation",
    "last-prompt": "lastPrompt",
    "custom-title": "customTitle",
    "ai-title": "aiTitle",
}
"""Records that may open a file before its first message, each with a field that is its own."""

_SILENT = (
    *_KINDS_BESIDE,
    "agent-color",
    "agent-name",
    "agent-setting",
    "attachment",
    "atis-latch",
    "mode",
    "permission-mode",
    "pr-link",
    "progress",
    "system",
    "tag",
    "worktree",
)
"""How the types of records begin that may say nothing to the model."""


def is_claude_code(records: list[JsonObject]) -> bool:
    """Whether the first records of a file are those of a Claude Code session."""
    return any(_is_record(record) for record in records)


def read_claude_code(data: bytes, path: Path) -> ForeignSession:
    """A session of Claude Code, or of one of its sub-agents.

    Raises:
        FoldlineError: no line of the file is a record of Claude Code.
    """
    lines, damage = json_lines(data)
    if not is_claude_code([line.record for line in lines]):
        raise FoldlineError(
            f"{path} has no record of Claude Code: no line has a known type, a `uuid` and a `parentUuid`."
        )
    branch = active_branch(lines)
    reader = _Reader(branch.lines)
    reader.read_all()
    notes = [f"{damage}."] if damage else []
    notes += [*_fork_note(branch.lines), *branch.notes, *reader.notes()]
    return ForeignSession("claude-code", _header(branch.lines, path), reader.entries, damage, tuple(notes))


def _is_record(record: JsonObject) -> bool:
    kind = as_text(record.get("type"))
    if kind in ("user", "assistant", "system", "attachment", "progress"):
        return isinstance(record.get("uuid"), str) and "parentUuid" in record
    return kind in _KINDS_BESIDE and isinstance(record.get(_KINDS_BESIDE[kind]), str)


def _header(lines: Sequence[JsonLine], path: Path) -> SessionHeader:
    """The oldest folder and time, but the newest id: a fork opens with records of the session before it."""
    records = [line.record for line in lines]
    ids = (as_text(record.get("sessionId")) for record in reversed(records))
    folders = (as_text(record.get("cwd")) for record in records)
    times = (as_time(record.get("timestamp")) for record in records)
    return SessionHeader(
        id=next(filter(None, ids), path.stem),
        created_at=next(filter(None, times), datetime.fromtimestamp(0, UTC)),
        cwd=next(filter(None, folders), ""),
    )


def _fork_note(lines: Iterable[JsonLine]) -> list[str]:
    origins = (as_text(as_object(line.record.get("forkedFrom")).get("sessionId")) for line in lines)
    origin = next(filter(None, origins), "")
    return [f"The session was forked from session {origin}."] if origin else []


@dataclass
class _Reader:
    """Turns the records of a branch into entries, in file order."""

    lines: Sequence[JsonLine]
    entries: list[Entry] = field(default_factory=list)

    def __post_init__(self) -> None:
        records = [line.record for line in self.lines]
        self._folds = Folds({_uuid(record): as_text(record.get("parentUuid")) for record in records})
        self._boundary: JsonLine | None = None
        """A boundary whose summary has not come yet."""
        self._held: list[JsonLine] = []
        """Records since that boundary, which are none of the conversation."""
        self._newest_summary = ""
        self._pieces = _pieces_of_answers(self.lines)
        self._calls: Calls = {}
        self._titles = _titles(self.lines)
        self._shift = 0
        """How many entries more than records there are so far: where a record holds several messages, the
        indices after it are later than the positions."""
        self._left_out: list[str] = []
        self._without_text = 0

    def read_all(self) -> None:
        for line in self.lines:
            self._read(line)
        if self._boundary is not None:  # the file ends before the summary: nothing is folded yet
            self._add(self._boundary, [_unknown(self._boundary)])
        self._release()

    def notes(self) -> Iterable[str]:
        yield from left_out_note(self._left_out)
        yield from unknown_records_note(self.entries, _SILENT)
        if self._without_text:
            yield f"Left out: {self._without_text} notes to the model whose text is not in the file."
        if self._folds.without_summary:
            yield f"{self._folds.without_summary} compactions have no summary in the file."
        if self._folds.lost_kept:
            yield (
                f"{self._folds.lost_kept} compactions name kept records that are not in the file: "
                "nothing before them is kept."
            )

    def _read(self, line: JsonLine) -> None:
        record = line.record
        if is_boundary(record):
            self._close_boundary()
            self._boundary = line
        elif is_summary(record) and self._opens_a_fold(record):
            self._fold(line)
        elif self._boundary is not None and _kind(line) not in ("user", "assistant", "attachment"):
            self._held.append(line)
        else:
            self._close_boundary()
            self._read_plain(line)

    def _read_plain(self, line: JsonLine) -> None:
        if _kind(line) == "assistant":
            self._answer(line)
        else:
            self._add(line, self._entries(line))

    def _add(self, line: JsonLine, entries: Iterable[Entry], pieces: Sequence[JsonLine] = ()) -> None:
        """These entries, at the place of their record."""
        record_ids = [_uuid(piece.record) for piece in pieces or [line]]
        at = as_time(line.record.get("timestamp"))
        for nth, entry in enumerate(entries):
            self._shift += nth > 0
            placed = entry.model_copy(update={"index": line.position + self._shift, "at": at})
            self.entries.append(placed)
            if isinstance(placed, BaseMessage):
                self._folds.add(placed, record_ids)

    # --- folds -----------------------------------------------------------------------------------

    def _opens_a_fold(self, record: JsonObject) -> bool:
        """Whether a summary record is the first of its compaction."""
        parent = as_text(record.get("parentUuid"))
        return self._boundary is not None or not parent or parent != self._newest_summary

    def _fold(self, line: JsonLine) -> None:
        boundary = self._boundary.record if self._boundary else {}
        summary = "\n".join(as_text(block.get("text")) for block in blocks_of(line.record))
        self._boundary, self._newest_summary = None, _uuid(line.record)
        self._release()
        index = line.position + self._shift
        self._add(line, [self._folds.fold(index, boundary, text_parts(summary))])

    def _close_boundary(self) -> None:
        """A boundary after which the conversation goes on without a summary."""
        if self._boundary is not None:
            line, self._boundary = self._boundary, None
            self._add(line, [self._folds.fold(line.position + self._shift, line.record, ())])
            self._release()

    def _release(self) -> None:
        held, self._held = self._held, []
        for line in held:
            self._read_plain(line)

    # --- records ---------------------------------------------------------------------------------

    def _answer(self, line: JsonLine) -> None:
        """The whole answer at its first piece, nothing at the others."""
        pieces = self._pieces.get(line.position)
        if pieces is None:
            return
        message, left_out = answer([piece.record for piece in pieces])
        self._left_out += left_out
        self._calls.update({call.call_id: call for call in message.calls})
        self._add(line, [message], pieces)

    def _entries(self, line: JsonLine) -> Sequence[Entry]:
        """The entries of a record. What says nothing to us is kept as it is."""
        record, index = line.record, line.position + self._shift
        entries: Sequence[Entry | None]
        match _kind(line):
            case "user":
                entries = self._user(record)
            case "attachment":
                entries = [self._attachment(as_object(record.get("attachment")))]
            case "system" if record.get("subtype") == "microcompact_boundary":
                entries = [self._folds.cleared(index, record) or notice(record)]
            case "system" if record.get("subtype") == "local_command":
                entries = said_by_user(record, [{"type": "text", "text": as_text(record.get("content"))}])[0]
            case "system":
                entries = [notice(record)]
            case "content-replacement":
                entries = [self._folds.shortened(index, record)]
            case _ if line.position in self._titles:
                entries = [Title(title=self._titles[line.position])]
            case _:
                entries = ()
        found = [entry for entry in entries if entry is not None]
        return found or [_unknown(line)]

    def _user(self, record: JsonObject) -> Sequence[Entry]:
        """Results come first, as the API asks. What the program noted about a run is about the only one."""
        if record.get("isVisibleInTranscriptOnly") is True and not is_summary(record):
            texts = (as_text(block.get("text")) for block in blocks_of(record))
            return [NoticeRecord(text="\n".join(texts))]
        blocks = blocks_of(record)
        results = [block for block in blocks if block.get("type") == "tool_result"]
        messages: list[Entry] = []
        for block in results:
            outcome: Json = record.get("toolUseResult") if len(results) == 1 else None
            message, left_out = tool_result(block, outcome, self._calls)
            self._left_out += left_out
            messages.append(message)
        said, left_out = said_by_user(record, [block for block in blocks if block not in results])
        self._left_out += left_out
        return [*messages, *said]

    def _attachment(self, attachment: JsonObject) -> Entry | None:
        message = attached(attachment)
        self._without_text += message is None and is_for_model(attachment)
        return message


def _unknown(line: JsonLine) -> Unknown:
    return Unknown(type=f"claude-code.{_kind(line) or 'record'}", record=line.record)


def _uuid(record: JsonObject) -> str:
    return as_text(record.get("uuid"))


def _pieces_of_answers(lines: Iterable[JsonLine]) -> dict[int, list[JsonLine]]:
    """The records that each answer was written to, by the position of the first. No answer spans a fold."""
    answers: dict[tuple[int, str | int], list[JsonLine]] = {}
    folds = 0
    for line in lines:
        folds += is_boundary(line.record) or is_summary(line.record)
        if line.record.get("type") == "assistant":
            answers.setdefault((folds, answer_id(line.record) or line.position), []).append(line)
    return {pieces[0].position: pieces for pieces in answers.values()}


def _titles(lines: Sequence[JsonLine]) -> dict[int, str]:
    """The titles of this session, by position. The program's own count only where the user gave none.

    A `summary` may be the title of another session, whose records are not here.
    """
    here = {_uuid(line.record) for line in lines} - {""}
    given = {
        line.position: as_text(line.record.get("customTitle"))
        for line in lines
        if _kind(line) == "custom-title"
    }
    made = {
        line.position: as_text(line.record.get("aiTitle")) or as_text(line.record.get("summary"))
        for line in lines
        if _kind(line) == "ai-title"
        or (_kind(line) == "summary" and as_text(line.record.get("leafUuid")) in here)
    }
    return {position: title for position, title in (given or made).items() if title.strip()}


def _kind(line: JsonLine) -> str:
    return as_text(line.record.get("type"))
