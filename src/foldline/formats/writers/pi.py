"""Writer for pi: a tree of records, of which a branch is the view, its compactions included."""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from foldline.context.numbers import many
from foldline.context.view import is_preamble, is_summary
from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    Compaction,
    CompactionDetails,
    Entry,
    ImagePart,
    ModelChange,
    Part,
    SessionHeader,
    TextPart,
    ThinkingPart,
    Title,
    ToolCallPart,
    ToolResultMessage,
    Usage,
    UserMessage,
)

from ..base import JsonObject, parse_object
from ..export import Exported, Original
from ..pi import shell_text
from .view_changes import (
    Appended,
    Record,
    Unrelated,
    ViewChanged,
    common_start,
    left_out,
    record_line,
    same,
    view_changes,
)

PROVIDER = "unknown"
"""Whose model answered, where nobody wrote it down: pi asks for a model when it opens the session."""

_BROKEN_OFF = {"cancelled": "aborted", "error": "error"}
_NO_COST = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0}


def iso(moment: datetime | None) -> str:
    at = (moment or datetime.fromtimestamp(0, UTC)).astimezone(UTC)
    return f"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond // 1000:03}Z"


def _milliseconds(moment: datetime | None) -> int:
    return int(moment.timestamp() * 1000) if moment else 0


@dataclass
class Speaker:
    """Spells messages, and counts what could not be spelt."""

    provider: str = PROVIDER
    _unspelt: set[tuple[int, str]] = field(default_factory=set)
    """Calls whose arguments pi cannot hold, by their answer's index and their id."""
    _mended: int = 0
    """Answers that broke off, and are in the view all the same."""

    def notes(self) -> list[str]:
        notes = []
        if self._unspelt:
            calls = many(len(self._unspelt), "call has", "calls have")
            notes.append(
                f"{calls} arguments that are no JSON object, which pi cannot hold: none are written."
            )
        if self._mended:
            answers = many(self._mended, "answer")
            notes.append(
                f"Written as whole, though broken off: {answers}, which pi would not show to its model."
            )
        return notes

    def record(self, message: BaseMessage, *, again: bool, at: datetime | None) -> tuple[str, Record]:
        """The type of a message's record, and what it holds."""
        match message:
            case AssistantMessage():
                spoken = self._answer(message, again=again)
            case ToolResultMessage():
                spoken = _result(message)
            case UserMessage(origin="shell") if (ran := _shell(message)) is not None:
                spoken = ran
            case UserMessage():
                by_agent = {} if message.origin == "typed" else {"attribution": "agent"}
                spoken = {"role": "user", "content": _content(message.parts), **by_agent}
            case _:
                kind = "foldline.summary" if is_summary(message) else "foldline.notice"
                content = _content(message.parts)
                return "custom_message", {"customType": kind, "content": content, "display": True}
        return "message", {"message": {**spoken, "timestamp": _milliseconds(at)}}

    def broken_off(self, message: AssistantMessage, at: datetime | None) -> tuple[str, Record]:
        """The record of an answer that no view holds: pi shows its model none that broke off."""
        spoken = {**self._spoken(message, Usage()), "stopReason": _BROKEN_OFF[message.stop_reason or "error"]}
        return "message", {"message": {**spoken, "timestamp": _milliseconds(at)}}

    def _answer(self, message: AssistantMessage, *, again: bool) -> Record:
        self._mended += message.stop_reason in _BROKEN_OFF and not again
        usage = Usage() if again or message.usage is None else message.usage
        ended_early = message.stop_reason in ("length", "repeated")
        stop = "toolUse" if message.calls else "length" if ended_early else "stop"
        return {**self._spoken(message, usage), "stopReason": stop}

    def _spoken(self, message: AssistantMessage, usage: Usage) -> Record:
        record = {
            "role": "assistant",
            "content": _content(message.parts, lambda call: self._call(message.index, call)),
            "api": "openai-completions",
            "provider": self.provider,
            "model": message.model or PROVIDER,
            "usage": _usage(usage),
        }
        return {**record, "errorMessage": message.error} if message.error else record

    def _call(self, answer: int, call: ToolCallPart) -> Record:
        arguments = arguments_held(call.arguments)
        if arguments is None:
            self._unspelt.add((answer, call.call_id))
        return {"type": "toolCall", "id": call.call_id, "name": call.name, "arguments": arguments or {}}


_LEVELS = 8
"""More than the levels of a record around the arguments in it."""


def arguments_held(text: str) -> Record | None:
    """The arguments of a call, if they are an object that JSON around them can hold."""
    data = text.encode()
    arguments = parse_object(data)
    if arguments is None or parse_object(b'{"":' * _LEVELS + data + b"}" * _LEVELS) is None:
        return None
    try:
        json.dumps(arguments, allow_nan=False)
    except ValueError:  # Python reads NaN and numbers without end, which are no JSON
        return None
    return arguments


def _usage(usage: Usage) -> Record:
    return {
        "input": max(0, usage.input - usage.cached),
        "output": usage.output,
        "cacheRead": usage.cached,
        "cacheWrite": 0,
        "totalTokens": usage.total,
        **({"reasoning": usage.reasoning} if usage.reasoning else {}),
        "cost": _NO_COST,
    }


def _result(message: ToolResultMessage) -> Record:
    shown = message.details
    details = {"diff": shown.diff, "fullOutputPath": shown.full_output}
    if shown.files:
        details["path"] = shown.files[0].path
    return {
        "role": "toolResult",
        "toolCallId": message.call_id,
        "toolName": message.name,
        "content": _content(message.parts),
        "details": {name: value for name, value in details.items() if value},
        "isError": message.is_error,
    }


def _shell(message: UserMessage) -> Record | None:
    """A command the user ran, as pi records it; None where its text is not said the same way."""
    if not message.text.startswith("$ ") or any(not isinstance(part, TextPart) for part in message.parts):
        return None
    command, _, output = message.text.removeprefix("$ ").partition("\n")
    record = {"role": "bashExecution", "command": command, "output": output}
    return (
        {**record, "cancelled": False, "truncated": False}
        if shell_text(JsonObject(record)) == message.text
        else None
    )


def _content(
    parts: Iterable[Part], spell_call: Callable[[ToolCallPart], Record] | None = None
) -> list[Record]:
    pieces: list[Record] = []
    for part in parts:
        match part:
            case TextPart():
                pieces.append({"type": "text", "text": part.text})
            case ThinkingPart():
                signed = {"thinkingSignature": signature} if (signature := part.exported_signature) else {}
                pieces.append({"type": "thinking", "thinking": part.text, **signed})
            case ImagePart():
                pieces.append({"type": "image", "data": part.data, "mimeType": part.media_type})
            case ToolCallPart() if spell_call is not None:
                pieces.append(spell_call(part))
            case _:
                pass
    return pieces


def write_pi(original: Original) -> Exported:
    """A session file of pi. The system prompt and instruction files, of which pi has its own, are kept in
    records that its model never sees.
    """
    writer = _Writer(original.header)
    for change in view_changes(original.entries):
        match change:
            case Appended(message):
                writer.add(message)
            case ViewChanged(view, compaction):
                writer.turn(view, compaction)
            case Unrelated(entry):
                writer.beside(entry)
    writer.finish()
    name = f"{original.header.id}.jsonl"
    notes = (*left_out(writer.left_out, "pi"), *writer.notes())
    return Exported({name: b"".join(writer.lines)}, name, notes)


@dataclass(frozen=True, slots=True)
class _Node:
    id: str
    message: BaseMessage | None = None
    """What it says to the model; of a compaction, the summary."""
    first_kept: int | None = None
    """Of a compaction: the place on the branch of the first record that it keeps."""

    @property
    def said(self) -> BaseMessage | None:
        return self.message if self.first_kept is None else None


@dataclass
class _Writer:
    header: SessionHeader
    left_out: list[Entry] = field(default_factory=list)
    lines: list[bytes] = field(default_factory=list)
    _branch: list[_Node] = field(default_factory=list)
    _speaker: Speaker = field(default_factory=Speaker)
    _newest: str | None = None
    _at: datetime | None = None
    _preamble: int = 0
    _changes: int = 0

    def __post_init__(self) -> None:
        self._at = self.header.created_at
        about = {"id": self.header.id, "timestamp": iso(self._at), "cwd": self.header.cwd}
        self.lines.append(record_line({"type": "session", "version": 3, **about}))

    def notes(self) -> list[str]:
        notes = self._speaker.notes()
        if self._preamble:
            notes.append(
                f"pi brings its own system prompt: {many(self._preamble, 'message')} of prompt and "
                "instructions will not be in its view."
            )
        if self._changes:
            times = "once" if self._changes == 1 else f"{self._changes} times"
            notes.append(
                f"The view changed {times} in a way that pi has no record for: what it kept is said again."
            )
        return notes

    def finish(self) -> None:
        """Make the last record of the file the tip, where the view ended on an earlier one."""
        tip = self._branch[-1].id if self._branch else None
        if self._newest != tip:
            self._write("custom", {"customType": "foldline.branch"})

    # --- what happens ------------------------------------------------------------------------------

    def beside(self, entry: Entry) -> None:
        match entry:
            case ModelChange():
                self._speaker.provider = entry.provider or PROVIDER
                record = {"provider": self._speaker.provider, "modelId": entry.model}
                self._write("model_change", record, at=entry.at)
            case Title():
                self._write("session_info", {"name": entry.title}, at=entry.at)
            case BaseMessage() if is_preamble(entry):
                self._preamble += 1
                data = {"role": entry.type, "text": entry.text}
                self._write("custom", {"customType": "foldline.preamble", "data": data}, at=entry.at)
            case AssistantMessage(stop_reason="cancelled" | "error"):
                self._write(*self._speaker.broken_off(entry, entry.at or self._at), at=entry.at)
            case _:
                self.left_out.append(entry)

    def add(self, message: BaseMessage, *, again: bool = False) -> None:
        """One more message at the end. Said `again`, it reports no usage: that was of another view."""
        kind, record = self._speaker.record(message, again=again, at=message.at or self._at)
        self._write(kind, record, message=message, at=message.at)

    def turn(self, view: Sequence[BaseMessage], compaction: Compaction | None) -> None:
        """Make the view of the tip this one: by going on, by a compaction, or on a new branch."""
        place, known = self._shared(view)
        if not known and view and is_summary(view[0]):
            known = self._compact(view, compaction)
        elif place < len(self._branch):
            self._branch = self._branch[:place]
            self._changes += 1
        for message in view[known:]:
            self.add(message, again=True)

    # --- the branch --------------------------------------------------------------------------------

    def _shared(self, view: Sequence[BaseMessage]) -> tuple[int, int]:
        """Up to how many of its records the branch gives a view that begins this one, and how many of its
        messages that is.
        """
        places = [place for place, node in enumerate(self._branch) if node.first_kept is not None]
        best = (0, 0)
        for compaction, end in zip([None, *places], [*places, len(self._branch)], strict=True):
            start = [] if compaction is None else self._view_at(compaction)
            if common_start(start, view) < len(start):
                continue
            place, known = 0 if compaction is None else compaction + 1, len(start)
            for node in self._branch[place:end]:
                if node.message is not None:
                    if known == len(view) or not same(node.message, view[known]):
                        break
                    known += 1
                place += 1
            if known >= best[1]:
                best = (place, known)
        return best

    def _view_at(self, compaction: int) -> list[BaseMessage]:
        node = self._branch[compaction]
        kept = self._branch[node.first_kept : compaction]
        return [said for said in (node.message, *(each.said for each in kept)) if said is not None]

    def _kept_by_a_compaction(self, view: Sequence[BaseMessage]) -> int | None:
        """The place on the branch from which a compaction gives this view; None where none does."""
        place = len(self._branch)
        for message in reversed(view[1:]):
            place = next((at for at in range(place - 1, -1, -1) if self._branch[at].said), -1)
            said = self._branch[place].said if place >= 0 else None
            if said is None or not same(said, message):
                return None
        return place

    def _compact(self, view: Sequence[BaseMessage], compaction: Compaction | None) -> int:
        """A compaction; how many messages of the view it gives. Where that is not all of them, it keeps none:
        then it names a record that says nothing.
        """
        summary, kept = view[0], self._kept_by_a_compaction(view)
        given = 1 if kept is None else len(view)
        self._changes += given < len(view)
        if kept is None or kept == len(self._branch):
            kept = len(self._branch)
            self._write("custom", {"customType": "foldline.cut"}, at=summary.at)
        details = compaction.details if compaction else CompactionDetails()
        record = {
            "summary": summary.text,
            "firstKeptEntryId": self._branch[kept].id,
            "tokensBefore": compaction.tokens_before if compaction else 0,
            "details": {"readFiles": details.read_files, "modifiedFiles": details.modified_files},
            "fromHook": False,
        }
        self._write("compaction", record, at=summary.at or (compaction.at if compaction else None))
        self._branch[-1] = _Node(self._branch[-1].id, summary, kept)
        return given

    def _write(
        self,
        kind: str,
        record: Record,
        *,
        message: BaseMessage | None = None,
        at: datetime | None = None,
    ) -> None:
        """The next record of the branch. A record without a time has that of the one before."""
        self._at = at or self._at
        parent = self._branch[-1].id if self._branch else None
        node = _Node(f"{len(self.lines):08x}", message)
        head = {"type": kind, "id": node.id, "parentId": parent, "timestamp": iso(self._at)}
        self.lines.append(record_line({**head, **record}))
        self._branch.append(node)
        self._newest = node.id
