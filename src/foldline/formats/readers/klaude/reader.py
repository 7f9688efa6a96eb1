"""Reader for klaude-code's sessions.

A session is an `events.jsonl` file, with a `meta.json` file next to it. Each record has one index, except
that a rewind has two.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from foldline.formats.base import (
    ForeignSession,
    JsonLine,
    JsonObject,
    known_lines,
    object_in,
)
from foldline.formats.parts import (
    UsageFields,
    has_image,
    stop_reason,
    sub_agent_note,
    text_in,
    user_message,
)
from foldline.formats.tool_results import details_in, line_count, touched
from foldline.formats.transcript import Transcript
from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    Compaction,
    DeveloperMessage,
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

_MESSAGES = (
    "SystemMessage",
    "DeveloperMessage",
    "UserMessage",
    "AssistantMessage",
    "ToolResultMessage",
)
_KINDS = (
    *_MESSAGES,
    "CompactionEntry",
    "RewindEntry",
    "TaskMetadataItem",
    "SpawnSubAgentEntry",
)
_SILENT = (
    "AwaySummaryEntry", "CacheHitRateEntry", "FallbackModelConfigWarnEntry", "LLMRequestEntry",
    "PromptSuggestionEntry", "RetractEntry", "RewindEntry", "SideQuestionEntry", "SpawnSubAgentEntry",
    "TaskFileChangeSummaryEntry", "TaskMetadataItem",
)  # fmt: skip
_CHECKPOINT = re.compile(r"<system-reminder>Checkpoint ([0-9]{1,18})</system-reminder>")
_USAGE = UsageFields(
    ("input_tokens",), ("output_tokens",), "cached_tokens", "reasoning_tokens"
)


def recognises(record: JsonObject) -> bool:
    return record.kind in _KINDS and isinstance(record.get("data"), dict)


def read(data: bytes, path: Path) -> ForeignSession:
    lacks = "klaude-code events: no line has the type and data of one"
    lines, damage = known_lines(data, path, recognises, lacks)
    meta = beside(path)
    by_agent = is_by_agent(meta)
    reader = _KlaudeReader(by_agent=by_agent)
    for line in _as_sent(lines):
        reader.read(line)
    name = path.parent.name if path.stem == "events" and path.parent.name else path.stem
    name = meta.text("id") or name
    begun = meta.time("created_at", unit=1)
    notes = (*reader.log.notes(_SILENT), *sub_agent_note(by_agent))
    return reader.log.session(
        "klaude-code",
        name,
        meta.text("work_dir"),
        damage,
        notes,
        begun=begun,
    )


def _as_sent(lines: Sequence[JsonLine]) -> list[JsonLine]:
    """Move reminders to the position at which they were sent.

    They were sent before a prompt, but follow it in the file.
    """
    ordered: list[JsonLine] = []
    prompt = 0
    """The position of the newest prompt, where the next such reminder is inserted."""
    for line in lines:
        is_before = line.record.at("data", "attachment_position") == "prepend"
        if line.kind == "DeveloperMessage" and is_before:
            ordered.insert(prompt, line)
            prompt += 1
            continue
        if line.kind == "UserMessage":
            prompt = len(ordered)
        elif line.kind in (
            "AssistantMessage",
            "ToolResultMessage",
            "CompactionEntry",
            "RewindEntry",
        ):
            prompt = len(ordered) + 1
        ordered.append(line)
    return [
        replace(line, position=old.position)
        for old, line in zip(lines, ordered, strict=True)
    ]


def beside(path: Path) -> JsonObject:
    """Read the `meta.json` next to the event file."""
    return object_in(path.with_name("meta.json"))


def is_by_agent(meta: JsonObject) -> bool:
    return bool(meta.object("sub_agent_state") or meta.text("parent_session_id"))


@dataclass
class _SessionItem:
    """An item in klaude-code's own list of the session's items.

    The numbers in its records refer to this list.
    """

    index: int
    entry: Entry
    name: int | None = None
    """klaude-code's number for the checkpoint, if the item is a checkpoint."""
    first_kept: int | None = None
    """For a compaction, the index of the first message that stays in the context."""


class _KlaudeReader:
    def __init__(self, *, by_agent: bool) -> None:
        self.log = Transcript("klaude")
        self._by_agent = by_agent
        self._items: list[_SessionItem] = []

    def read(self, line: JsonLine) -> None:
        record = line.record
        data = line.record.object("data")
        at = data.time("created_at")
        if record.kind == "RewindEntry" and self._rewind(data, at, line.position):
            return
        index = self.log.next_index(line.position)
        entry = self._entry(record.kind, data, index)
        self.log.put_record(index, entry, record, record.kind, at)
        item = _SessionItem(index, self.log.entries[index])
        self._items.append(item)
        if isinstance(entry, DeveloperMessage) and (
            mark := _CHECKPOINT.search(entry.text)
        ):
            item.name = int(mark[1])
        if isinstance(entry, Compaction):
            item.first_kept = min(self.log.messages(), default=index)

    def _entry(self, kind: str, data: JsonObject, index: int) -> Entry | None:
        match kind:
            case "CompactionEntry":
                return self._compaction(data, index)
            case "RewindEntry":
                parts = text_parts(_rewind_message(data))
                return DeveloperMessage(origin="dmail", parts=parts)
            case "RetractEntry":
                return self._retract(data.text("retracted_text"))
            case "StreamErrorItem":
                return NoticeRecord(text=data.text("error"), level="error")
            case "InterruptEntry":
                return NoticeRecord(text="The turn was interrupted.")
            case "FallbackModelConfigWarnEntry" if not data.get(
                "sub_agent_type"
            ) and data.text("to_model"):
                return ModelChange(
                    model=data.text("to_model"),
                    provider=data.text("to_provider") or None,
                )
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
                text = data.text("output_text")
                status = data.get("status")
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
        """Return a message's parts.

        In the file, a signature follows the thought that it belongs to.
        """
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
            parts.append(
                thought.model_copy(
                    update={"signature": piece.text("signature") or None}
                )
            )
        return tuple(parts)

    def _compaction(self, data: JsonObject, index: int) -> Entry:
        """Return a compaction to a summary and the items after the cut."""
        items = self._items[self._cut(data) :]
        kept = [
            item.index for item in items if isinstance(item.entry, BaseMessage | Revert)
        ]
        return self.log.compaction(
            index,
            text_parts(data.text("summary")),
            kept,
            strategy="klaude-code",
            tokens_before=data.count("tokens_before"),
            details=details_in(data.object("details"), "read_files", "modified_files"),
        )

    def _cut(self, data: JsonObject) -> int:
        """Return the first kept item's position in `_items`.

        klaude-code numbers the items in its own list. After a reload, this list contains only the last
        summary and the items kept by that compaction. A number may therefore refer to the full list or to the
        shorter one. The event's counts of kept items show which of them is meant.
        """
        end = len(self._items)
        named = data.get("first_kept_index")
        if not isinstance(named, int) or named < 0:
            named = end
        full = min(named, end)
        summaries = [
            place
            for place, item in enumerate(self._items)
            if item.first_kept is not None
        ]
        if not summaries:
            return full
        first_kept = self._items[summaries[-1]].first_kept or 0
        start = next(
            place for place, item in enumerate(self._items) if item.index >= first_kept
        )
        reloaded = [place for place in range(start, end) if place not in summaries]
        shorter = end
        if 0 < named <= len(reloaded):
            shorter = reloaded[named - 1]
        counts = _counts(data.objects("kept_items_brief"))
        matches = [cut for cut in (full, shorter) if self._counts_from(cut) == counts]
        if len(matches) == 1:
            return matches[0]
        return shorter if full < start else full

    def _counts_from(self, cut: int) -> tuple[int, int]:
        """Return the number of prompts, and of all messages, from position `cut` onward."""
        prompts = 0
        others = 0
        for item in self._items[cut:]:
            match item.entry:
                case UserMessage():
                    prompts += 1
                case ToolResultMessage():
                    others += 1
                case AssistantMessage() as answer:
                    others += bool(answer.text.strip())
        return prompts, prompts + others

    def _rewind(self, data: JsonObject, at: datetime | None, position: int) -> bool:
        """Rewind to a checkpoint.

        Returns False if Foldline's history does not contain it.
        """
        name = data.get("checkpoint_id")
        places = (place for place, item in enumerate(self._items) if item.name == name)
        place = next(places, None)
        if place is None or name is None:
            return False
        message = _rewind_message(data) or None
        self.log.go_back_to(self._items[place].index, at, position, message)
        revert = self.log.newest_index
        self._items[place + 1 :] = [_SessionItem(revert, self.log.entries[revert])]
        return True

    def _retract(self, text: str) -> Entry | None:
        """Return an edit that drops the newest prompt.

        Returns None if that prompt's text differs from `text`.
        """
        prompts = [item for item in self._items if isinstance(item.entry, UserMessage)]
        if (
            not prompts
            or text_in(self.log.message(prompts[-1].index).parts, "") != text
        ):
            return None
        self._items.remove(prompts[-1])
        return self.log.drop_of(prompts[-1].index)


def _rewind_message(data: JsonObject) -> str:
    """Return the note that klaude-code left for itself when it rewound."""
    return "\n\n".join(filter(None, (data.text("rationale"), data.text("note"))))


def _counts(brief: list[JsonObject]) -> tuple[int, int] | None:
    """Return the numbers of kept prompts and of all kept items, if an event states them."""
    if not brief:
        return None
    prompts = sum(
        item.count("count") for item in brief if item.get("item_type") == "User"
    )
    return prompts, sum(item.count("count") for item in brief)
