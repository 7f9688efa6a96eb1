"""kimi-cli's context files: each state of the context, one after the other, as one history.

A later state is a fold of the one before (it opens with a summary), a rewind of it (it is the same up to a
checkpoint) or a fresh start.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from foldline.files import is_file, is_folder
from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    Checkpoint,
    Clear,
    DeveloperMessage,
    Entry,
    ImagePart,
    Part,
    Revert,
    SystemMessage,
    TextPart,
    ThinkingPart,
    ToolResultMessage,
    Unknown,
    Usage,
    UserMessage,
)

from .base import Json, JsonLine, JsonObject, as_count, as_text
from .chat_parts import content_parts, tool_call_parts
from .detection import Noted, left_out_note, unknown_records_note
from .foreign_view import ForeignView, Moment
from .kimi_wire import Calls, tool_result

SUMMARY = "<system>Previous context has been compacted"
"""How the message starts that holds the summary of a fold."""
_DMAIL = "<system>You just got a D-Mail"
MACHINE = ("<system>", "<system-reminder>", "<notification", "<task-notification")
"""How messages in the role user start that the program wrote."""
_MEDIA_FOLLOWS = "Non-text parts are sent as a user message below."
"""How the result of a tool ended, in older files, whose image came as a user message."""


@dataclass(frozen=True, slots=True)
class Generation:
    """One state of the context: a file."""

    name: str
    lines: list[JsonLine]

    @property
    def size(self) -> int:
        return self.lines[-1].position + 1 if self.lines else 0


def rotations(path: Path) -> list[Path]:
    """The earlier states of a context file that lie beside it, oldest first. A rotation has none of its own.

    Files of sub-agents are numbered alike, after `_sub` or `_read`: they are sessions of their own.
    """
    if path.stem.endswith(("_sub", "_read")) or not is_folder(path.parent):
        return []
    numbered = re.compile(re.escape(path.stem) + r"_([0-9]{1,9})" + re.escape(path.suffix))
    found = [
        (int(match[1]), file) for file in path.parent.iterdir() if (match := numbered.fullmatch(file.name))
    ]
    return [file for _, file in sorted(found) if is_file(file)]


def read_context(generations: Sequence[Generation], *, by_agent: bool) -> Noted:
    """All states as one history. `by_agent`: another agent, and no person, wrote the prompts."""
    prompts = [
        line.record.get("content")
        for generation in generations
        for line in generation.lines
        if line.record.get("role") == "_system_prompt"
    ]
    reader = _Reader(by_agent, prompts[-1] if prompts else None)
    for generation in generations:
        reader.read(generation)
    notes = [
        *left_out_note(reader.left_out),
        *unknown_records_note(reader.entries, ("_system_prompt", "_usage")),
    ]
    if any(prompt != prompts[-1] for prompt in prompts):
        notes.append("The system prompt changed: the last one stands for all.")
    if len(generations) > 1:
        names = ", ".join(generation.name for generation in generations[:-1])
        notes.append(f"The session begins in its earlier states: {names}.")
    if by_agent:
        notes.append("These are the steps of a sub-agent: the agent that started it wrote its prompts.")
    return Noted(reader.entries, tuple(notes))


@dataclass
class _Row:
    """A record of the current state, and what it became."""

    record: JsonObject
    index: int
    before: Moment
    """The view it was added to."""
    checkpoint: int | None = None
    """Our id of the checkpoint it is."""


@dataclass
class _Reader:
    """Turns records into entries, one state after the other."""

    by_agent: bool
    prompt: Json
    """The system prompt the model had last. Each state repeats its own, and a view has only one."""
    entries: list[Entry] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    _view: ForeignView = field(default_factory=ForeignView)
    _rows: list[_Row] = field(default_factory=list)
    """The current state."""
    _start: int = 0
    """The index of the first record of the file."""
    _calls: Calls = field(default_factory=dict)
    _checkpoints: int = 0
    _tokens: int = 0
    """The newest count of the context."""
    _estimated: bool = False
    """Whether the next count is kimi-cli's own estimate, as after a fold."""

    def read(self, generation: Generation) -> None:
        known = self._goes_on_from(generation) if self.entries else 0
        self._tokens = self._tokens if known else 0
        for line in generation.lines[known:]:
            self._add(line)
        self._start += generation.size + 1

    def _goes_on_from(self, generation: Generation) -> int:
        """Say how this state came out of the one before; how many of its records are known from there."""
        records = [line.record for line in generation.lines]
        before, self._rows = self._rows, []
        summary = next((place for place, record in enumerate(records) if _is_message(record)), None)
        if summary is not None and _opens_with(records[summary], SUMMARY):
            same_fold = any(row.record == records[summary] for row in before)
            if not same_fold:
                return self._fold(generation, summary, before)
        common = 0
        while common < min(len(records), len(before)) and records[common] == before[common].record:
            common += 1
        return self._rewind(before, common, records)

    def _fold(self, generation: Generation, place: int, before: list[_Row]) -> int:
        """A fold: the summary, then the newest messages of the state before, word for word."""
        for line in generation.lines[:place]:
            self._add(line)
        line = generation.lines[place]
        after = [later for later in generation.lines[place + 1 :] if _is_message(later.record)]
        was = [row for row in before if _is_message(row.record)]
        kept = _overlap([row.record for row in was], [later.record for later in after])
        index = self._start + line.position
        here = set(self._view.messages)
        moment = self._view.moment()
        parts = self._parts(line.record.get("content"))
        ahead = [row.index for row in self._rows if row.index in here]
        tail = [row.index for row in was[len(was) - kept :] if row.index in here]
        self.entries.append(
            self._view.folded(
                index, parts, tail, ahead=ahead, strategy="kimi-cli", tokens_before=self._tokens
            )
        )
        self._rows.append(_Row(line.record, index, moment))
        self._estimated = True
        for later, row in zip(after[:kept], was[len(was) - kept :], strict=True):
            self._rows.append(_Row(later.record, row.index, self._view.moment()))
        last = after[kept - 1].position if kept else line.position
        return sum(each.position <= last for each in generation.lines)

    def _rewind(self, before: list[_Row], common: int, records: Sequence[JsonObject]) -> int:
        """Back to a checkpoint, which comes anew; or a fresh start: no message is shared, no D-Mail came."""
        if common == len(before):
            self._rows = before
            return common
        place = max(
            (at for at, row in enumerate(before[: common + 1]) if row.checkpoint is not None), default=None
        )
        news = next((record for record in records[common:] if _is_message(record)), {})
        shared = _opens_with(news, _DMAIL) or any(_is_message(record) for record in records[:common])
        fold = self._view.fold.index if self._view.fold else -1
        if shared and place is not None and before[place].index > fold:
            self._rows = before[:place]
            self.entries.append(Revert(index=self._start - 1, checkpoint=before[place].checkpoint or 0))
            self._view.go_back_to(before[place].before)
            return place
        self.entries.append(Clear(index=self._start - 1))
        self._view.clear()
        return 0

    def _add(self, line: JsonLine) -> None:
        record, index = line.record, self._start + line.position
        row = _Row(record, index, self._view.moment())
        entry = self._entry(record, row) or Unknown(
            type=f"kimi.{as_text(record.get('role')) or 'record'}", record=record
        )
        entry = entry.model_copy(update={"index": index})
        self.entries.append(entry)
        if isinstance(entry, BaseMessage):
            self._view.add(entry)
        self._rows.append(row)

    def _entry(self, record: JsonObject, row: _Row) -> Entry | None:
        """The entry of a record; None for a record that says nothing to us."""
        match record.get("role"):
            case "_system_prompt":
                return self._system_prompt()
            case "_checkpoint":
                row.checkpoint = self._checkpoints
                self._checkpoints += 1
                return Checkpoint(id=row.checkpoint)
            case "_usage":
                self._count(as_count(record.get("token_count")))
                return None
            case "assistant" | "user" if _opens_with(record, SUMMARY):
                self._estimated = True
                parts = self._parts(record.get("content"))
                return self._view.folded(row.index, parts, (), ahead=self._view.messages, strategy="kimi-cli")
            case "user":
                return self._user(record)
            case "assistant":
                return self._assistant(record, row.index)
            case "tool":
                return tool_result(record, self._parts(record.get("content")), self._calls)
            case "system":
                return DeveloperMessage(parts=self._parts(record.get("content")))
            case _:
                return None

    def _system_prompt(self) -> SystemMessage | None:
        if any(isinstance(entry, SystemMessage) for entry in self.entries):
            return None
        return SystemMessage(parts=self._parts(self.prompt))

    def _user(self, record: JsonObject) -> BaseMessage:
        parts = self._parts(record.get("content"))
        if any(isinstance(part, ImagePart) for part in parts) and self._media_follows():
            return UserMessage(parts=parts, origin="machine")
        if not _opens_with(record, MACHINE):
            return UserMessage(parts=parts, origin="machine" if self.by_agent else "typed")
        if any(isinstance(part, ImagePart) for part in parts):
            return UserMessage(parts=parts, origin="machine")
        return DeveloperMessage(parts=parts, origin="dmail" if _opens_with(record, _DMAIL) else "notice")

    def _media_follows(self) -> bool:
        last = next((entry for entry in reversed(self.entries) if isinstance(entry, BaseMessage)), None)
        return isinstance(last, ToolResultMessage) and _MEDIA_FOLLOWS in last.text

    def _assistant(self, record: JsonObject, index: int) -> AssistantMessage:
        thinking = as_text(record.get("reasoning_content"))
        calls = tool_call_parts(record.get("tool_calls"), index)
        self._calls.update({call.call_id: call for call in calls})
        parts = (
            *((ThinkingPart(text=thinking),) if thinking else ()),
            *self._parts(record.get("content")),
            *calls,
        )
        return AssistantMessage(parts=parts)

    def _count(self, tokens: int) -> None:
        """A count of the whole context belongs to the answer right before it.

        Older files count before the answer, too: what it grew by is the answer. Newer ones know the sum only,
        which then stands as input.
        """
        before, self._tokens = self._tokens, tokens
        estimated, self._estimated = self._estimated, False
        answer = self.entries[-1] if self.entries else None
        if estimated or not isinstance(answer, AssistantMessage) or answer.usage or not tokens:
            return
        counted_before = len(self._rows) > 1 and self._rows[-2].record.get("role") == "_usage"
        grown = tokens - before if counted_before else 0
        usage = Usage(input=tokens - grown, output=grown) if 0 <= grown < tokens else Usage(input=tokens)
        self.entries[-1] = answer.model_copy(update={"usage": usage})

    def _parts(self, content: Json) -> tuple[Part, ...]:
        parts, left_out = content_parts(content)
        self.left_out += left_out
        return parts


def _is_message(record: JsonObject) -> bool:
    return not as_text(record.get("role")).startswith("_")


def _opens_with(record: JsonObject, start: str | tuple[str, ...]) -> bool:
    parts, _ = content_parts(record.get("content"))
    return bool(parts) and isinstance(parts[0], TextPart) and parts[0].text.lstrip().startswith(start)


def _overlap(before: Sequence[JsonObject], after: Sequence[JsonObject]) -> int:
    """The most records that end the one and open the other."""
    return next(
        (
            size
            for size in range(min(len(before), len(after)), 0, -1)
            if before[len(before) - size :] == after[:size]
        ),
        0,
    )
