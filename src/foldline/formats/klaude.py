"""Reader for the sessions of klaude-code: `events.jsonl`, with `meta.json` beside it.

One index a record. A checkpoint that a rewind goes back to takes one more, after its own message.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from foldline.files import read_regular
from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    Checkpoint,
    Compaction,
    CompactionDetails,
    DeveloperMessage,
    Edit,
    Entry,
    FoldlineError,
    ImagePart,
    ModelChange,
    NoticeRecord,
    Part,
    Revert,
    SessionHeader,
    SystemMessage,
    ToolResultMessage,
    Unknown,
    UserMessage,
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
    parse_object,
)
from .detection import left_out_note, unknown_records_note
from .foreign_view import ForeignView, Moment
from .klaude_messages import Calls, answer, checkpoint_of, parts_of, tool_result

_MESSAGES = ("SystemMessage", "DeveloperMessage", "UserMessage", "AssistantMessage", "ToolResultMessage")

_SILENT = (
    "AwaySummaryEntry",
    "CacheHitRateEntry",
    "FallbackModelConfigWarnEntry",
    "PromptSuggestionEntry",
    "RetractEntry",
    "RewindEntry",
    "SideQuestionEntry",
    "SpawnSubAgentEntry",
    "TaskFileChangeSummaryEntry",
    "TaskMetadataItem",
)
"""Events that say nothing to the model."""


def is_klaude(records: Sequence[JsonObject]) -> bool:
    """Whether records are events of klaude-code."""
    kinds = (*_MESSAGES, "CompactionEntry", "RewindEntry", "TaskMetadataItem", "SpawnSubAgentEntry")
    return any(record.get("type") in kinds and isinstance(record.get("data"), dict) for record in records)


def read_klaude(data: bytes, path: Path) -> ForeignSession:
    """A session.

    Raises:
        FoldlineError: no record of the file is klaude-code's.
    """
    lines, damage = json_lines(data)
    if not is_klaude([line.record for line in lines]):
        raise FoldlineError(f"{path} has no event of klaude-code: no line has the type and data of one.")
    rewinds = [
        as_object(line.record.get("data")) for line in lines if line.record.get("type") == "RewindEntry"
    ]
    meta = _meta(path)
    by_agent = bool(as_object(meta.get("sub_agent_state")) or as_text(meta.get("parent_session_id")))
    reader = _Reader({as_count(rewind.get("checkpoint_id")) for rewind in rewinds}, by_agent)
    for line in lines:
        reader.read(line)
    notes = [*([f"{damage}."] if damage else []), *reader.notes()]
    return ForeignSession(
        "klaude-code", _header(meta, reader.entries, path), reader.entries, damage, tuple(notes)
    )


def _meta(path: Path) -> JsonObject:
    """What lies beside the events; empty where nothing readable does."""
    try:
        return parse_object(read_regular(path.parent / "meta.json")) or {}
    except OSError:
        return {}


def _header(meta: JsonObject, entries: Sequence[Entry], path: Path) -> SessionHeader:
    seconds = meta.get("created_at")
    created = as_time(seconds * 1000) if isinstance(seconds, int | float) else None
    created = created or next((entry.at for entry in entries if entry.at), datetime.fromtimestamp(0, UTC))
    name = path.parent.name if path.stem == "events" and path.parent.name else path.stem
    return SessionHeader(
        id=as_text(meta.get("id")) or name, created_at=created, cwd=as_text(meta.get("work_dir"))
    )


@dataclass
class _Item:
    """One of klaude-code's own list of the session: what its numbers count."""

    index: int
    kind: str
    entry: Entry
    message: bool = False
    klaude_checkpoint: int | None = None
    checkpoint: int | None = None
    """Our id of the checkpoint after it."""
    after: Moment | None = None
    """The view after a fold, or at a checkpoint that a rewind goes back to."""


@dataclass
class _Reader:
    """Turns events into entries, one after the other."""

    targets: set[int]
    """The checkpoints that rewinds go back to."""
    by_agent: bool
    """Whether another agent, and no person, wrote the prompts."""
    entries: list[Entry] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    _view: ForeignView = field(default_factory=ForeignView)
    _items: list[_Item] = field(default_factory=list)
    _calls: Calls = field(default_factory=dict)
    _extra: int = 0
    _checkpoints: int = 0

    def notes(self) -> list[str]:
        notes = [*left_out_note(self.left_out), *unknown_records_note(self.entries, _SILENT)]
        if self.by_agent:
            notes.append("These are the steps of a sub-agent: the agent that started it wrote its prompts.")
        return notes

    def read(self, line: JsonLine) -> None:
        kind, data = as_text(line.record.get("type")), as_object(line.record.get("data"))
        index = line.position + self._extra
        entry = self._entry(kind, data, index)
        if entry is None:
            entry = Unknown(type=f"klaude.{kind or 'record'}", record=line.record)
        entry = entry.model_copy(update={"index": index, "at": as_time(data.get("created_at"))})
        self.entries.append(entry)
        item = _Item(index, kind, entry, message=isinstance(entry, BaseMessage))
        self._items.append(item)
        if isinstance(entry, BaseMessage):
            self._view.add(entry)
        if isinstance(entry, DeveloperMessage):
            self._checkpoint(item, entry)
        if isinstance(entry, Compaction):
            item.after = self._view.moment()

    def _entry(self, kind: str, data: JsonObject, index: int) -> Entry | None:
        """The entry of an event; None for one that says nothing to us."""
        match kind:
            case "SystemMessage":
                return SystemMessage(parts=self._parts(data.get("parts")))
            case "DeveloperMessage":
                parts = self._parts(data.get("parts"))
                if any(isinstance(part, ImagePart) for part in parts):
                    return UserMessage(parts=parts, origin="machine")
                return DeveloperMessage(parts=parts)
            case "UserMessage":
                parts = self._parts(data.get("parts"))
                if data.get("source") == "bash_mode":
                    return UserMessage(parts=parts, origin="shell")
                return UserMessage(parts=parts, origin="machine" if self.by_agent else "typed")
            case "AssistantMessage":
                message = answer(data, self._parts(data.get("parts")))
                self._calls.update({call.call_id: call for call in message.calls})
                return message
            case "ToolResultMessage":
                return tool_result(data, self._parts(data.get("parts")), self._calls)
            case "CompactionEntry":
                return self._fold(data, index)
            case "RewindEntry":
                return self._rewind(data)
            case "RetractEntry":
                return self._retract(as_text(data.get("retracted_text")))
            case "StreamErrorItem":
                return NoticeRecord(text=as_text(data.get("error")), level="error")
            case "InterruptEntry":
                return NoticeRecord(text="The turn was interrupted.")
            case "FallbackModelConfigWarnEntry" if not data.get("sub_agent_type"):
                model = as_text(data.get("to_model"))
                return (
                    ModelChange(model=model, provider=as_text(data.get("to_provider")) or None)
                    if model
                    else None
                )
            case _:
                return None

    def _parts(self, pieces: Json) -> tuple[Part, ...]:
        parts, left_out = parts_of(pieces)
        self.left_out += left_out
        return parts

    def _checkpoint(self, item: _Item, message: DeveloperMessage) -> None:
        item.klaude_checkpoint = checkpoint_of(message.text)
        if item.klaude_checkpoint not in self.targets:
            return
        item.checkpoint, item.after = self._checkpoints, self._view.moment()
        self._checkpoints += 1
        self._extra += 1
        self.entries.append(Checkpoint(index=item.index + 1, at=message.at, id=item.checkpoint))

    # --- markers ---------------------------------------------------------------------------------

    def _fold(self, data: JsonObject, index: int) -> Entry:
        """A fold: the summary, then the session from the first kept item on."""
        cut = self._cut(data)
        known = set(self._view.messages) | {item.index for item in self._items[cut:] if item.message}
        kept = [item.index for item in self._items[cut:] if item.index in known]
        details = as_object(data.get("details"))
        return self._view.folded(
            index,
            text_parts(as_text(data.get("summary"))),
            kept,
            strategy="klaude-code",
            tokens_before=as_count(data.get("tokens_before")),
            details=CompactionDetails(
                read_files=tuple(filter(None, map(as_text, as_list(details.get("read_files"))))),
                modified_files=tuple(filter(None, map(as_text, as_list(details.get("modified_files"))))),
            ),
        )

    def _cut(self, data: JsonObject) -> int:
        """The place of the first kept item.

        klaude-code counts in its list of the session, which a reload shortens to the last summary and what it
        kept: after a fold, a number may count in either list. What the event says it kept tells which.
        """
        named = data.get("first_kept_index")
        named = len(self._items) if not isinstance(named, int) or named < 0 else named
        full = min(named, len(self._items))
        folds = [place for place, item in enumerate(self._items) if item.kind == "CompactionEntry"]
        if not folds:
            return full
        kept_before = self._first_kept(folds[-1])
        listed = [place for place in range(kept_before, len(self._items)) if place not in folds]
        shorter = listed[named - 1] if 0 < named <= len(listed) else len(self._items)
        said = _counts(as_list(data.get("kept_items_brief")))
        if said is not None and (said == self._count(full)) != (said == self._count(shorter)):
            return full if said == self._count(full) else shorter
        return shorter if full < kept_before else full

    def _first_kept(self, fold: int) -> int:
        """The place of the first item that this fold kept."""
        kept = self._items[fold].after
        places = [place for place, item in enumerate(self._items) if kept and item.index in kept.messages]
        return places[0] if places else fold

    def _count(self, cut: int) -> tuple[int, int]:
        entries = [item.entry for item in self._items[cut:]]
        users = sum(isinstance(entry, UserMessage) for entry in entries)
        results = sum(isinstance(entry, ToolResultMessage) for entry in entries)
        answers = sum(isinstance(entry, AssistantMessage) and bool(entry.text.strip()) for entry in entries)
        return users, users + results + answers

    def _rewind(self, data: JsonObject) -> Entry | None:
        """Back to a checkpoint, with a message to itself. Without one, nothing is taken back."""
        wanted = data.get("checkpoint_id")
        said = "\n\n".join(filter(None, (as_text(data.get("rationale")), as_text(data.get("note")))))
        place = next(
            (place for place, item in enumerate(self._items) if item.klaude_checkpoint == wanted), None
        )
        if place is None or wanted is None:
            return DeveloperMessage(origin="dmail", parts=text_parts(said))
        target = self._items[place]
        del self._items[place + 1 :]
        if target.after is None or target.checkpoint is None:
            return None
        self._view.go_back_to(target.after)
        return Revert(checkpoint=target.checkpoint, message=said or None)

    def _retract(self, text: str) -> Entry | None:
        """The newest prompt was taken back before it was answered."""
        item = next((item for item in reversed(self._items) if isinstance(item.entry, UserMessage)), None)
        if item is None or not isinstance(item.entry, UserMessage):
            return None
        if "".join(part.text for part in item.entry.parts if part.type == "text") != text:
            return None
        self._items.remove(item)
        if item.index not in self._view.messages:
            return None
        self._view.messages.remove(item.index)
        return Edit(target=item.index, action="drop")


def _counts(brief: list[Json]) -> tuple[int, int] | None:
    """How many prompts, and how many items in all, an event says were kept; None where it does not say."""
    kinds = [
        (as_text(as_object(item).get("item_type")), as_count(as_object(item).get("count"))) for item in brief
    ]
    if not kinds:
        return None
    return sum(count for kind, count in kinds if kind == "User"), sum(count for _, count in kinds)
