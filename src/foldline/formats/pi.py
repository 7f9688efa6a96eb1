"""Reader for the sessions of pi, layouts 1 to 3, and of Oh My Pi: layout 3 with more record types.

A layout 1 file is a line of records. Layouts 2 and 3 are trees by `id` and `parentId`, whose last record is
the tip of the branch in use: that branch is read, the others are left out with a note.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    Clear,
    Compaction,
    CompactionDetails,
    DeveloperMessage,
    Entry,
    FoldlineError,
    Kept,
    ModelChange,
    NoticeRecord,
    Part,
    SessionHeader,
    Span,
    SystemMessage,
    Title,
    ToolResultMessage,
    Unknown,
    UserMessage,
    Written,
    text_parts,
)

from .base import (
    ForeignSession,
    Json,
    JsonLine,
    JsonObject,
    as_count,
    as_list,
    as_object,
    as_text,
    as_time,
    json_lines,
)
from .detection import left_out_note, unknown_records_note
from .pi_messages import Calls, assistant_message, parts_of, shell_text, tool_result

_ROLES = ("toolResult", "bashExecution")
_FIELDS = frozenset({"stopReason", "timestamp"})
"""What is pi's own in a message: other agents have records of the type `message`, too."""
_SILENT = (
    "credential_pin",
    "custom",
    "label",
    "mcp_tool_selection",
    "mode_change",
    "model_change",
    "model_usage",
    "service_tier_change",
    "session",
    "thinking_level_change",
    "title",
    "ttsr_injection",
)
"""How the types of records begin that say nothing to the model."""


def read_pi(data: bytes, path: Path) -> ForeignSession:
    """A pi session.

    Raises:
        FoldlineError: no line of the file is a session header or a message of pi.
    """
    lines, damage = json_lines(data)
    if not any(is_pi(line.record) for line in lines):
        raise FoldlineError(
            f"{path} has no record of pi: neither a session header with id, time and folder, nor a message."
        )
    heads = [line for line in lines if line.record.get("type") == "session"]
    header = next(
        (line for line in heads if is_pi_header(line.record)), heads[0] if heads else JsonLine(0, {})
    )
    notes = [f"{damage}."] if damage else []
    if not is_pi_header(header.record):
        notes.append("The session header is damaged or missing: what it does not say is not known.")
    body = [line for line in lines if line.record.get("type") != "session"]
    if any("id" in line.record for line in body):
        body = _active_branch(body, notes)
    reader = _Reader()
    for line in body:
        reader.read(line)
    notes += [*_origin_note(header.record), *reader.notes()]
    return ForeignSession("pi", _header(header, body, path), reader.entries, damage, tuple(notes))


def is_pi(record: JsonObject) -> bool:
    """Whether this is a record of pi that tells it from other agents': the header, or a message."""
    message = as_object(record.get("message"))
    return is_pi_header(record) or (
        record.get("type") == "message"
        and (message.get("role") in _ROLES or not _FIELDS.isdisjoint(message.keys()))
    )


def is_pi_header(record: JsonObject) -> bool:
    """Whether a record opens a pi session. Ours has `created_at` in place of `timestamp`."""
    return record.get("type") == "session" and all(
        isinstance(record.get(key), str) for key in ("id", "timestamp", "cwd")
    )


def _header(header: JsonLine, body: Iterable[JsonLine], path: Path) -> SessionHeader:
    record = header.record
    times = (as_time(line.record.get("timestamp")) for line in [header, *body])
    created = next((time for time in times if time is not None), datetime.fromtimestamp(0, UTC))
    return SessionHeader(
        id=as_text(record.get("id")) or path.stem, created_at=created, cwd=as_text(record.get("cwd"))
    )


def _origin_note(record: JsonObject) -> list[str]:
    origin = as_text(record.get("branchedFrom")) or as_text(record.get("parentSession"))
    return [f"The session was branched from {origin}."] if origin else []


def _active_branch(body: Sequence[JsonLine], notes: list[str]) -> list[JsonLine]:
    """The records from the root to the tip, in file order; records outside the tree stay where they are.

    Where a record's parent is lost (a damaged line), the walk goes on with the record before it in the file.
    """
    places = {
        line.record["id"]: place for place, line in enumerate(body) if isinstance(line.record.get("id"), str)
    }
    tree = sorted(places.values())
    on_branch: set[int] = set()
    gaps = 0
    place = tree[-1] if tree else None
    while place is not None and place not in on_branch:
        on_branch.add(place)
        parent = body[place].record.get("parentId")
        if parent is None:
            break
        step = places.get(parent) if isinstance(parent, str) else None
        if step is None or step >= place:
            gaps += 1
            step = next((earlier for earlier in reversed(tree) if earlier < place), None)
        place = step
    left_out = [body[place] for place in tree if place not in on_branch]
    messages = sum(line.record.get("type") == "message" for line in left_out)
    if messages:
        notes.append(
            f"{messages} messages on other branches were left out: only the branch last used is read."
        )
    if gaps:
        notes.append(
            f"The chain of records is broken in {gaps} places; it was continued with the line before."
        )
    in_tree = set(tree)
    return [line for place, line in enumerate(body) if place in on_branch or place not in in_tree]


@dataclass
class _Reader:
    """Turns records into entries, one after the other."""

    entries: list[Entry] = field(default_factory=list)
    _calls: Calls = field(default_factory=dict)
    _positions: dict[str, int] = field(default_factory=dict)
    _left_out: list[str] = field(default_factory=list)
    _lost_cuts: int = 0
    _in_view: set[int] = field(default_factory=set)
    """Indices of the messages the view holds verbatim at this point, as pi built it."""
    _last_fold: Compaction | None = None
    _has_prompt: bool = False

    def notes(self) -> list[str]:
        notes = [*left_out_note(self._left_out), *unknown_records_note(self.entries, _SILENT)]
        if self._lost_cuts:
            notes.append(
                f"{self._lost_cuts} compactions name a first kept record that is not in the file: "
                "nothing before them is kept."
            )
        return notes

    def read(self, line: JsonLine) -> None:
        record = line.record
        if isinstance(record.get("id"), str):
            self._positions.setdefault(record["id"], line.position)
        entry = self._entry(record, line.position) or Unknown(
            type=f"pi.{as_text(record.get('type')) or 'record'}", record=record
        )
        if isinstance(entry, BaseMessage) and not isinstance(entry, SystemMessage):
            self._in_view.add(line.position)
        at = as_time(record.get("timestamp")) or as_time(as_object(record.get("message")).get("timestamp"))
        self.entries.append(entry.model_copy(update={"index": line.position, "at": at}))

    def _entry(self, record: JsonObject, position: int) -> Entry | None:
        """The entry of a record; None for a record that says nothing to us."""
        match record.get("type"):
            case "message":
                return self._message(as_object(record.get("message")))
            case "compaction":
                return self._compaction(record, position)
            case "custom_message":
                return self._machine_text(record.get("content"))
            case "branch_summary":
                return self._machine_text(record.get("summary"))
            case "model_change":
                return _model_change(record)
            case "session_init" if as_text(record.get("systemPrompt")).strip() and not self._has_prompt:
                self._has_prompt = True
                return SystemMessage(parts=text_parts(as_text(record.get("systemPrompt"))))
            case "reset_boundary":
                self._in_view, self._last_fold = set(), None
                return Clear()
            case "session_info" | "title":
                title = as_text(record.get("name")) or as_text(record.get("title"))
                return Title(title=title) if title.strip() else None
            case _:
                return None

    def _message(self, message: JsonObject) -> BaseMessage | NoticeRecord | None:
        match message.get("role"):
            case "user":
                machine = message.get("attribution") == "agent" or message.get("synthetic") is True
                parts = self._parts(message.get("content"))
                return UserMessage(parts=parts, origin="machine" if machine else "typed")
            case "assistant":
                return self._assistant(message)
            case "toolResult":
                return self._tool_result(message)
            case "bashExecution":
                text = shell_text(message)
                if message.get("excludeFromContext") is True:
                    return NoticeRecord(text=text)
                return UserMessage(parts=text_parts(text), origin="shell")
            case "hookMessage" | "custom" | "developer":
                return self._machine_text(message.get("content"))
            case _:
                return None

    def _parts(self, content: Json) -> tuple[Part, ...]:
        parts, left_out = parts_of(content)
        self._left_out += left_out
        return parts

    def _assistant(self, message: JsonObject) -> AssistantMessage:
        answer = assistant_message(message, self._parts(message.get("content")))
        self._calls.update({call.call_id: call for call in answer.calls})
        return answer

    def _tool_result(self, message: JsonObject) -> ToolResultMessage:
        return tool_result(message, self._parts(message.get("content")), self._calls)

    def _machine_text(self, content: Json) -> DeveloperMessage:
        return DeveloperMessage(origin="notice", parts=self._parts(content))

    def _compaction(self, record: JsonObject, position: int) -> Compaction:
        """A fold of pi's: a summary, then every message from the first kept record on.

        A kept message that an earlier fold had removed comes back into pi's view; here it is named in `head`.
        """
        cut = self._cut(record, position)
        summary, before = as_text(record.get("summary")), self._last_fold
        covered = {index for index in self._in_view if index < cut}
        kept = [
            entry.index for entry in self.entries if isinstance(entry, BaseMessage) and entry.index >= cut
        ]
        text = Written(
            message=SystemMessage(origin="summary", parts=text_parts(summary)),
            covers=_spans(self.entries, covered),
            inputs=(before.index,) if before else (),
        )
        back = [Kept(ref=index) for index in kept if index not in self._in_view]
        fold = Compaction(
            index=position,
            summary=summary,
            first_kept_index=cut,
            head=(text, *back),
            strategy="pi",
            tokens_before=as_count(record.get("tokensBefore")),
            details=self._details(record, covered),
        )
        self._in_view = set(kept)
        self._last_fold = fold
        return fold

    def _cut(self, record: JsonObject, position: int) -> int:
        """The first kept record: named by its id, or in layout 1 by its position in the file."""
        named = record.get("firstKeptEntryIndex")
        cut = self._positions.get(as_text(record.get("firstKeptEntryId")))
        if cut is None and isinstance(named, int) and 0 <= named <= position:
            cut = named
        if cut is None:
            self._lost_cuts += 1
            return position
        for entry in self.entries:  # a result does not stay without its call
            if entry.index >= cut and isinstance(entry, ToolResultMessage):
                cut = entry.index + 1
            elif entry.index >= cut and isinstance(entry, BaseMessage):
                break
        return cut

    def _details(self, record: JsonObject, covered: set[int]) -> CompactionDetails:
        """pi's file lists; where it wrote none, those that the tool results say."""
        written = as_object(record.get("details"))
        if written:
            return CompactionDetails(
                read_files=tuple(filter(None, map(as_text, as_list(written.get("readFiles"))))),
                modified_files=tuple(filter(None, map(as_text, as_list(written.get("modifiedFiles"))))),
            )
        before = self._last_fold.details if self._last_fold else CompactionDetails()
        touches = [
            touch
            for entry in self.entries
            if isinstance(entry, ToolResultMessage) and entry.index in covered
            for touch in entry.details.files
        ]
        modified = [*before.modified_files, *(touch.path for touch in touches if touch.action == "modified")]
        read = [*before.read_files, *(touch.path for touch in touches if touch.action == "read")]
        return CompactionDetails(
            read_files=tuple(path for path in dict.fromkeys(read) if path not in modified),
            modified_files=tuple(dict.fromkeys(modified)),
        )


def _spans(entries: Sequence[Entry], covered: set[int]) -> tuple[Span, ...]:
    """The covered messages as ranges. A range holds no other message, and no summary."""
    spans: list[Span] = []
    open_span = False
    for entry in entries:
        if entry.index in covered:
            start = spans.pop()[0] if open_span else entry.index
            spans.append((start, entry.index))
            open_span = True
        elif isinstance(entry, BaseMessage | Compaction):
            open_span = False
    return tuple(spans)


def _model_change(record: JsonObject) -> ModelChange | None:
    """pi names provider and model apart, Oh My Pi as `provider/model`."""
    provider, model = as_text(record.get("provider")), as_text(record.get("modelId"))
    if not model:
        provider, _, model = as_text(record.get("model")).rpartition("/")
    return ModelChange(model=model, provider=provider or None) if model else None
