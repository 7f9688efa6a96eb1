"""Reader for the sessions of klaude-code: `events.jsonl`, with `meta.json` beside it.

One index a record. A checkpoint that a rewind goes back to takes one more, after its own message.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from foldline.formats.base import ForeignSession, JsonLine, JsonObject, known_lines, object_in
from foldline.formats.parts import UsageFields, has_image, stop_reason, sub_agent_note, text_in, user_message
from foldline.formats.tool_results import details_in, line_count, touched
from foldline.formats.transcript import Transcript
from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    Compaction,
    DeveloperMessage,
    Edit,
    Entry,
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
    "AwaySummaryEntry", "CacheHitRateEntry", "FallbackModelConfigWarnEntry", "LLMRequestEntry",
    "PromptSuggestionEntry", "RetractEntry", "RewindEntry", "SideQuestionEntry", "SpawnSubAgentEntry",
    "TaskFileChangeSummaryEntry", "TaskMetadataItem",
)  # fmt: skip
_CHECKPOINT = re.compile(r"<system-reminder>Checkpoint ([0-9]{1,18})</system-reminder>")
_USAGE = UsageFields(("input_tokens",), ("output_tokens",), "cached_tokens", "reasoning_tokens")


def recognises(record: JsonObject) -> bool:
    return record.kind in _KINDS and isinstance(record.get("data"), dict)


def read(data: bytes, path: Path) -> ForeignSession:
    """Read a session."""
    lacks = "event of klaude-code: no line has the type and data of one"
    lines, damage = known_lines(data, path, recognises, lacks)
    rewinds = (line.record for line in lines if line.record.kind == "RewindEntry")
    targets = {rewind.count("data", "checkpoint_id") for rewind in rewinds}
    meta = beside(path)
    by_agent = is_by_agent(meta)
    reader = _Reader(targets, by_agent=by_agent)
    for line in _as_sent(lines):
        reader.read(line)
    name = path.parent.name if path.stem == "events" and path.parent.name else path.stem
    name, begun = meta.text("id") or name, meta.time("created_at", unit=1)
    notes = (*reader.log.notes(_SILENT), *sub_agent_note(by_agent))
    return reader.log.session("klaude-code", name, meta.text("work_dir"), damage, notes, begun=begun)


def _as_sent(lines: Sequence[JsonLine]) -> list[JsonLine]:
    """Put reminders that are sent before a prompt before it; in the file they come after it."""
    ordered: list[JsonLine] = []
    prompt = 0
    """The place of the newest prompt, or of the reminder behind those before it."""
    for line in lines:
        is_before = line.record.at("data", "attachment_position") == "prepend"
        if line.kind == "DeveloperMessage" and is_before:
            ordered.insert(prompt, line)
            prompt += 1
            continue
        if line.kind == "UserMessage":
            prompt = len(ordered)
        elif line.kind in ("AssistantMessage", "ToolResultMessage", "CompactionEntry", "RewindEntry"):
            prompt = len(ordered) + 1
        ordered.append(line)
    return [replace(line, position=old.position) for old, line in zip(lines, ordered, strict=True)]


def beside(path: Path) -> JsonObject:
    """Read the `meta.json` beside the events."""
    return object_in(path.with_name("meta.json"))


def is_by_agent(meta: JsonObject) -> bool:
    return bool(meta.object("sub_agent_state") or meta.text("parent_session_id"))


@dataclass
class _Item:
    """An item of klaude-code's own list of the session, in which its numbers count."""

    index: int
    entry: Entry
    name: int | None = None
    """That of a checkpoint of klaude-code."""
    checkpoint: int | None = None
    """Ours, if a rewind goes back to it."""
    first_kept: int | None = None
    """The index of the first message in the context after a compaction."""


class _Reader:
    """Turns events into entries."""

    def __init__(self, targets: set[int], *, by_agent: bool) -> None:
        self.log = Transcript("klaude")
        self._targets = targets
        """The checkpoints that rewinds go back to."""
        self._by_agent = by_agent
        self._items: list[_Item] = []

    def read(self, line: JsonLine) -> None:
        record, data = line.record, line.record.object("data")
        index = self.log.next_index(line.position)
        entry = self._entry(record.kind, data, index)
        self.log.put_record(index, entry, record, record.kind, data.time("created_at"))
        item = _Item(index, self.log.entries[index])
        self._items.append(item)
        if isinstance(entry, DeveloperMessage) and (mark := _CHECKPOINT.search(entry.text)):
            item.name = int(mark[1])
        if item.name in self._targets:
            index = self.log.next_index(line.position)
            item.checkpoint = self.log.checkpoint(item.entry.at, index=index)
        if isinstance(entry, Compaction):
            item.first_kept = min(self.log.messages(), default=index)

    def _entry(self, kind: str, data: JsonObject, index: int) -> Entry | None:
        match kind:
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
                return self._message(kind, data) if kind in _MESSAGES else None

    def _message(self, kind: str, data: JsonObject) -> BaseMessage:
        parts = self._parts(data.objects("parts"))
        match kind:
            case "SystemMessage":
                return SystemMessage(parts=parts)
            case "DeveloperMessage" if has_image(parts):
                return UserMessage(parts=parts, origin="machine")
            case "DeveloperMessage":
                return DeveloperMessage(parts=parts)
            case "UserMessage" if data.get("source") == "bash_mode":
                return UserMessage(parts=parts, origin="shell")
            case "UserMessage":
                return user_message(parts, typed=not self._by_agent)
            case "AssistantMessage":
                return AssistantMessage(
                    parts=parts,
                    model=data.text("usage", "model_name") or None,
                    usage=_USAGE.read(data.get("usage")),
                    stop_reason=stop_reason(data.text("stop_reason")),
                )
            case _:
                text, status = data.text("output_text"), data.get("status")
                return self.log.result(
                    data.text("call_id"),
                    (*text_parts(text), *parts),
                    changes=touched,
                    name=data.text("tool_name"),
                    failed=status == "error",
                    cancelled=status == "aborted",
                    brief=line_count(text),
                )

    def _parts(self, pieces: Iterable[JsonObject]) -> tuple[Part, ...]:
        """Return a message's parts. A signature follows its thought."""
        parts: list[Part] = []
        for piece in pieces:
            if piece.kind != "thinking_signature":
                parts += self.log.parts([piece])
                continue
            thought = parts[-1] if parts else None
            if isinstance(thought, ThinkingPart) and thought.signature is None:
                parts.pop()
            else:
                thought = ThinkingPart(text="")
            parts.append(thought.model_copy(update={"signature": piece.text("signature") or None}))
        return tuple(parts)

    def _compaction(self, data: JsonObject, index: int) -> Entry:
        """Compact to a summary and the items from the cut on."""
        items = self._items[self._cut(data) :]
        kept = [item.index for item in items if isinstance(item.entry, BaseMessage | Revert)]
        return self.log.compaction(
            index,
            text_parts(data.text("summary")),
            kept,
            strategy="klaude-code",
            tokens_before=data.count("tokens_before"),
            details=details_in(data.object("details"), "read_files", "modified_files"),
        )

    def _cut(self, data: JsonObject) -> int:
        """Return the place of the first kept item.

        klaude-code counts in its list of the session, which a reload shortens to the last summary and what it
        kept: after a compaction, a number may count in either list. What the event says it kept tells which.
        """
        end = len(self._items)
        named = data.get("first_kept_index")
        if not isinstance(named, int) or named < 0:
            named = end
        full = min(named, end)
        summaries = [place for place, item in enumerate(self._items) if item.first_kept is not None]
        if not summaries:
            return full
        first_kept = self._items[summaries[-1]].first_kept or 0
        start = next(place for place, item in enumerate(self._items) if item.index >= first_kept)
        reloaded = [place for place in range(start, end) if place not in summaries]
        shorter = reloaded[named - 1] if 0 < named <= len(reloaded) else end
        counts = _counts(data.objects("kept_items_brief"))
        matches = [cut for cut in (full, shorter) if self._counts_from(cut) == counts]
        if len(matches) == 1:
            return matches[0]
        return shorter if full < start else full

    def _counts_from(self, cut: int) -> tuple[int, int]:
        """Count the prompts, and all messages, from there on."""
        entries = [item.entry for item in self._items[cut:]]
        prompts = sum(isinstance(entry, UserMessage) for entry in entries)
        results = sum(isinstance(entry, ToolResultMessage) for entry in entries)
        answers = sum(isinstance(entry, AssistantMessage) and bool(entry.text.strip()) for entry in entries)
        return prompts, prompts + results + answers

    def _rewind(self, data: JsonObject) -> Entry | None:
        """Go back to a checkpoint, with a note to itself."""
        name = data.get("checkpoint_id")
        message = "\n\n".join(filter(None, (data.text("rationale"), data.text("note"))))
        places = (place for place, item in enumerate(self._items) if item.name == name)
        place = next(places, None)
        if place is None or name is None:
            return DeveloperMessage(origin="dmail", parts=text_parts(message))
        checkpoint = self._items[place].checkpoint
        del self._items[place + 1 :]
        return None if checkpoint is None else Revert(checkpoint=checkpoint, message=message or None)

    def _retract(self, text: str) -> Entry | None:
        """Drop the newest prompt, if it has this text."""
        prompts = [item for item in self._items if isinstance(item.entry, UserMessage)]
        if not prompts or text_in(self.log.message(prompts[-1].index).parts, "") != text:
            return None
        self._items.remove(prompts[-1])
        target = prompts[-1].index
        return Edit(target=target, action="drop") if target in self.log.context() else None


def _counts(brief: list[JsonObject]) -> tuple[int, int] | None:
    """Return the kept prompts, and all kept items, by an event."""
    prompts = sum(item.count("count") for item in brief if item.get("item_type") == "User")
    return (prompts, sum(item.count("count") for item in brief)) if brief else None
