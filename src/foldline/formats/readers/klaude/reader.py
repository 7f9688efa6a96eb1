"""Reader for the sessions of klaude-code: `events.jsonl`, with `meta.json` beside it.

One index a record. A checkpoint that a rewind goes back to takes one more, after its own message.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from foldline.formats.base import ForeignSession, JsonLine, JsonObject, known_lines, object_in
from foldline.formats.parts import UsageFields, stop_reason, sub_agent_note, text_in
from foldline.formats.tool_results import line_count, tool_result, touched
from foldline.formats.transcript import Transcript
from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    Compaction,
    CompactionDetails,
    DeveloperMessage,
    Edit,
    Entry,
    ImagePart,
    ModelChange,
    NoticeRecord,
    Part,
    Revert,
    SystemMessage,
    ThinkingPart,
    ToolResultMessage,
    UserMessage,
    text_parts,
)

_MESSAGES = ("SystemMessage", "DeveloperMessage", "UserMessage", "AssistantMessage", "ToolResultMessage")
_KINDS = (*_MESSAGES, "CompactionEntry", "RewindEntry", "TaskMetadataItem", "SpawnSubAgentEntry")
_SILENT = (
    "AwaySummaryEntry", "CacheHitRateEntry", "FallbackModelConfigWarnEntry", "PromptSuggestionEntry",
    "RetractEntry", "RewindEntry", "SideQuestionEntry", "SpawnSubAgentEntry", "TaskFileChangeSummaryEntry",
    "TaskMetadataItem",
)  # fmt: skip
_CHECKPOINT = re.compile(r"<system-reminder>Checkpoint ([0-9]{1,18})</system-reminder>")
_USAGE = UsageFields(("input_tokens",), ("output_tokens",), "cached_tokens", "reasoning_tokens")


def recognises(record: JsonObject) -> bool:
    return record.get("type") in _KINDS and isinstance(record.get("data"), dict)


def read(data: bytes, path: Path) -> ForeignSession:
    """A session."""
    lacks = "event of klaude-code: no line has the type and data of one"
    lines, damage = known_lines(data, path, recognises, lacks)
    rewinds = [line.record for line in lines if line.record.get("type") == "RewindEntry"]
    meta = beside(path)
    reader = _Reader({rewind.count("data", "checkpoint_id") for rewind in rewinds}, is_by_agent(meta))
    for line in lines:
        reader.read(line)
    log = reader.log
    name = path.parent.name if path.stem == "events" and path.parent.name else path.stem
    name, cwd, begun = meta.text("id") or name, meta.text("work_dir"), meta.time("created_at", unit=1)
    notes = (*log.notes(_SILENT), *sub_agent_note(reader.by_agent))
    return log.session("klaude-code", name, cwd, damage, notes, begun=begun)


def beside(path: Path) -> JsonObject:
    """What lies beside the events, in `meta.json`; empty where nothing readable does."""
    return object_in(path.with_name("meta.json"))


def is_by_agent(meta: JsonObject) -> bool:
    return bool(meta.object("sub_agent_state") or meta.text("parent_session_id"))


@dataclass
class _Item:
    """One of klaude-code's own list of the session: what its numbers count."""

    index: int
    kind: str
    entry: Entry
    klaude_checkpoint: int | None = None
    checkpoint: int | None = None
    after: frozenset[int] = frozenset()
    """The context after a compaction."""


@dataclass
class _Reader:
    targets: set[int]
    by_agent: bool
    log: Transcript = field(default_factory=lambda: Transcript("klaude"))
    _items: list[_Item] = field(default_factory=list)

    def read(self, line: JsonLine) -> None:
        kind, data = line.record.text("type"), line.record.object("data")
        index = self.log.next_index(line.position)
        entry = self._entry(kind, data, index) or self.log.unknown(line.record, kind)
        self.log.put(index, entry, data.time("created_at"))
        item = _Item(index, kind, self.log.entries[index])
        self._items.append(item)
        if isinstance(entry, DeveloperMessage):
            self._checkpoint(item, entry, line.position)
        if isinstance(entry, Compaction):
            item.after = frozenset(self.log.messages())

    def _entry(self, kind: str, data: JsonObject, index: int) -> Entry | None:
        match kind:
            case kind if kind in _MESSAGES:
                return self._message(kind, data)
            case "CompactionEntry":
                return self._compaction(data, index)
            case "RewindEntry":
                return self._rewind(data)
            case "RetractEntry":
                return self._retract(data.text("retracted_text"))
            case "StreamErrorItem":
                return NoticeRecord(text=data.text("error"), level="error")
            case "InterruptEntry":
                return NoticeRecord(text="The turn was interrupted.")
            case "FallbackModelConfigWarnEntry" if not data.get("sub_agent_type") and data.text("to_model"):
                return ModelChange(model=data.text("to_model"), provider=data.text("to_provider") or None)
            case _:
                return None

    def _message(self, kind: str, data: JsonObject) -> BaseMessage:
        parts = self._parts(data.objects("parts"))
        match kind:
            case "SystemMessage":
                return SystemMessage(parts=parts)
            case "DeveloperMessage" if any(isinstance(part, ImagePart) for part in parts):
                return UserMessage(parts=parts, origin="machine")
            case "DeveloperMessage":
                return DeveloperMessage(parts=parts)
            case "UserMessage" if data.get("source") == "bash_mode":
                return UserMessage(parts=parts, origin="shell")
            case "UserMessage":
                return UserMessage(parts=parts, origin="machine" if self.by_agent else "typed")
            case "AssistantMessage":
                return AssistantMessage(
                    parts=parts,
                    model=data.text("usage", "model_name") or None,
                    usage=_USAGE.read(data.get("usage")),
                    stop_reason=stop_reason(data.text("stop_reason")),
                )
            case _:
                return self._tool_result(data, parts)

    def _tool_result(self, data: JsonObject, images: tuple[Part, ...]) -> ToolResultMessage:
        """A result: its text stands apart from its other parts."""
        call_id, text, status = data.text("call_id"), data.text("output_text"), data.get("status")
        call, name = self.log.calls.get(call_id), data.text("tool_name")
        call = call.model_copy(update={"name": name}) if call and status == "success" else None
        return tool_result(
            call_id,
            name,
            (*text_parts(text), *images),
            failed=status in ("error", "aborted"),
            brief="cancelled" if status == "aborted" else "failed" if status == "error" else line_count(text),
            changes=touched(call),
        )

    def _parts(self, pieces: Sequence[JsonObject]) -> tuple[Part, ...]:
        """The parts of a message. A signature stands behind the thought it is of."""
        parts: list[Part] = []
        for piece in pieces:
            last = parts[-1] if parts else None
            if piece.kind != "thinking_signature":
                parts += self.log.parts([piece])
                continue
            signature = piece.text("signature") or None
            if isinstance(last, ThinkingPart) and last.signature is None:
                parts[-1] = last.model_copy(update={"signature": signature})
            else:
                parts.append(ThinkingPart(text="", signature=signature))
        return tuple(parts)

    # --- markers ---------------------------------------------------------------------------------

    def _checkpoint(self, item: _Item, message: DeveloperMessage, position: int) -> None:
        found = _CHECKPOINT.search(message.text)
        item.klaude_checkpoint = int(found[1]) if found else None
        if item.klaude_checkpoint in self.targets:
            index = self.log.next_index(position)
            item.checkpoint = self.log.checkpoint(self.log.entries[item.index].at, index=index)

    def _compaction(self, data: JsonObject, index: int) -> Entry:
        """A summary, then the session from the first kept item on."""
        listed = self._items[self._cut(data) :]
        kept = [item.index for item in listed if isinstance(item.entry, BaseMessage | Revert)]
        details = data.object("details")
        return self.log.compaction(
            index,
            text_parts(data.text("summary")),
            kept,
            strategy="klaude-code",
            tokens_before=data.count("tokens_before"),
            details=CompactionDetails(
                read_files=tuple(filter(None, details.texts("read_files"))),
                modified_files=tuple(filter(None, details.texts("modified_files"))),
            ),
        )

    def _cut(self, data: JsonObject) -> int:
        """The place of the first kept item.

        klaude-code counts in its list of the session, which a reload shortens to the last summary and what it
        kept: after a compaction, a number may count in either list. What the event says it kept tells which.
        """
        named = data.get("first_kept_index")
        named = len(self._items) if not isinstance(named, int) or named < 0 else named
        full = min(named, len(self._items))
        compactions = [place for place, item in enumerate(self._items) if item.kind == "CompactionEntry"]
        if not compactions:
            return full
        kept_before = self._first_kept(compactions[-1])
        listed = [place for place in range(kept_before, len(self._items)) if place not in compactions]
        shorter = listed[named - 1] if 0 < named <= len(listed) else len(self._items)
        said = _counts(data.objects("kept_items_brief"))
        if said is not None and (said == self._count(full)) != (said == self._count(shorter)):
            return full if said == self._count(full) else shorter
        return shorter if full < kept_before else full

    def _first_kept(self, compaction: int) -> int:
        kept = self._items[compaction].after
        places = (place for place, item in enumerate(self._items) if item.index in kept)
        return next(places, compaction)

    def _count(self, cut: int) -> tuple[int, int]:
        entries = [item.entry for item in self._items[cut:]]
        users = sum(isinstance(entry, UserMessage) for entry in entries)
        results = sum(isinstance(entry, ToolResultMessage) for entry in entries)
        answers = sum(isinstance(entry, AssistantMessage) and bool(entry.text.strip()) for entry in entries)
        return users, users + results + answers

    def _rewind(self, data: JsonObject) -> Entry | None:
        """Back to a checkpoint, with a message to itself. Without one, nothing is taken back."""
        wanted = data.get("checkpoint_id")
        said = "\n\n".join(filter(None, (data.text("rationale"), data.text("note"))))
        marked = (place for place, item in enumerate(self._items) if item.klaude_checkpoint == wanted)
        place = next(marked, None)
        if place is None or wanted is None:
            return DeveloperMessage(origin="dmail", parts=text_parts(said))
        target = self._items[place]
        del self._items[place + 1 :]
        if target.checkpoint is None:
            return None
        return Revert(checkpoint=target.checkpoint, message=said or None)

    def _retract(self, text: str) -> Entry | None:
        item = next((item for item in reversed(self._items) if isinstance(item.entry, UserMessage)), None)
        if item is None or not isinstance(item.entry, UserMessage) or text_in(item.entry.parts, "") != text:
            return None
        self._items.remove(item)
        if item.index not in self.log.context():
            return None
        return Edit(target=item.index, action="drop")


def _counts(brief: list[JsonObject]) -> tuple[int, int] | None:
    """How many prompts, and how many items in all, an event says were kept; None where it does not say."""
    users = sum(item.count("count") for item in brief if item.get("item_type") == "User")
    return (users, sum(item.count("count") for item in brief)) if brief else None
