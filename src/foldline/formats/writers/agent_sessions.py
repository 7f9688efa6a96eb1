"""Writers for Claude Code, Codex, Copilot CLI and opencode: the view alone, as a session that they resume.

Its summary stands where their own compactions put one.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any
from uuid import NAMESPACE_OID, uuid5

from foldline.context.calls import paired
from foldline.context.numbers import many
from foldline.context.view import is_preamble, is_summary
from foldline.history import utc_now
from foldline.llm.messages import to_messages
from foldline.llm.responses import to_input
from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    DeveloperMessage,
    ImagePart,
    Part,
    TextPart,
    ToolCallPart,
    ToolResultMessage,
    UserMessage,
    is_typed,
    text_parts,
)
from foldline.version import __version__

from ..export import Exported, Original
from ..readers.opencode.reader import ASKED_TO_COMPACT
from .records import PROVIDER, Record, arguments_held, iso, record_line

_NOT_TIMED = {"input": 0, "output": 0, "reasoning": 0, "cache": {"read": 0, "write": 0}}


def _view(original: Original) -> list[BaseMessage]:
    """What is handed over: no preamble, of which each agent has its own; every call with a result."""
    view = paired(item.message for item in original.projection.view)
    return [_held(message) for message in view if not is_preamble(message)]


def _held(message: BaseMessage) -> BaseMessage:
    """The message; arguments that JSON cannot hold in place are an empty object, as in a request."""
    parts = tuple(
        part.model_copy(update={"arguments": "{}"}) if _is_unspelt(part) else part for part in message.parts
    )
    return message.model_copy(update={"parts": parts})


def _is_unspelt(part: Part) -> bool:
    return isinstance(part, ToolCallPart) and arguments_held(part.arguments) is None


def _spelled(message: BaseMessage) -> BaseMessage:
    """The message without the marks that tell a server who speaks: a record has a field for that."""
    return message.model_copy(update={"origin": "typed"}) if isinstance(message, UserMessage) else message


def _exported(original: Original, data: bytes, agent: str) -> Exported:
    notes = [f"{agent} brings its own system prompt and reads instruction files itself: none are written."]
    lost = sum(_is_unspelt(part) for item in original.projection.view for part in item.message.parts)
    if lost:
        calls = many(lost, "call has", "calls have")
        notes.append(f"{calls} arguments that are no JSON object: an empty one is written.")
    return Exported(data, tuple(notes))


# --- Claude Code --------------------------------------------------------------------------------------


def write_claude_code(original: Original) -> Exported:
    """A chain of records by `uuid` and `parentUuid`. A summary that opens the view follows a boundary."""
    lines = map(record_line, _claude_code_records(original))
    return _exported(original, b"".join(lines), "Claude Code")


def _claude_code_records(original: Original) -> Iterator[Record]:
    header, parent, at = original.header, None, original.header.created_at
    if original.projection.title:
        title = original.projection.title
        yield {"type": "custom-title", "customTitle": title, "sessionId": header.id}
    for place, message in enumerate(_view(original)):
        at = message.at or at
        records = list(_claude_code_message(message, opens=place == 0))
        for nth, record in enumerate(records):
            name = str(uuid5(NAMESPACE_OID, f"{header.id} {place} {nth}"))
            yield {
                "parentUuid": parent,
                "isSidechain": False,
                "userType": "external",
                "cwd": header.cwd,
                "sessionId": header.id,
                "version": __version__,
                "uuid": name,
                "timestamp": iso(at),
                **record,
            }
            parent = name


def _claude_code_message(message: BaseMessage, *, opens: bool) -> Iterator[Record]:
    rendered = to_messages([_spelled(message)], "")
    if not rendered:
        return
    content = rendered[-1]["content"]
    if isinstance(message, AssistantMessage):
        spoken = {
            "id": f"msg_{message.index}",
            "type": "message",
            "role": "assistant",
            "model": message.model or PROVIDER,
            "content": content,
            "stop_reason": "tool_use" if message.calls else "end_turn",
            "usage": {"input_tokens": 0, "output_tokens": 0},
        }
        yield {"type": "assistant", "message": spoken}
    elif opens and is_summary(message):
        about = {"trigger": "manual", "preTokens": 0}
        boundary = {"type": "system", "subtype": "compact_boundary", "compactMetadata": about}
        yield {**boundary, "content": "Conversation compacted", "level": "info", "isMeta": False}
        said = {"role": "user", "content": message.text}
        yield {"type": "user", "isCompactSummary": True, "isVisibleInTranscriptOnly": True, "message": said}
    else:
        by_program = not (is_typed(message) or isinstance(message, ToolResultMessage))
        yield {"type": "user", "isMeta": by_program, "message": {"role": "user", "content": content}}


# --- Codex --------------------------------------------------------------------------------------------


def write_codex(original: Original) -> Exported:
    """A rollout of Codex: items of the Responses API, and beside each prompt the event that says who typed
    it. A summary that opens the view is the context that a compaction left."""
    lines = map(record_line, _codex_rows(original))
    return _exported(original, b"".join(lines), "Codex")


def _codex_rows(original: Original) -> Iterator[Record]:
    header, at = original.header, original.header.created_at
    about = {"id": header.id, "timestamp": iso(at), "cwd": header.cwd, "source": "cli"}
    program = {"originator": "foldline", "cli_version": __version__, "model_provider": None}
    yield _row(at, "session_meta", {**about, **program})
    if original.projection.title:
        name = {"thread_id": header.id, "thread_name": original.projection.title}
        yield _row(at, "event_msg", {"type": "thread_name_updated", **name})
    for place, message in enumerate(_view(original)):
        at = message.at or at
        items = list(_codex_items(message))
        if place == 0 and is_summary(message):
            summary = [_codex_said("user", message.text)]
            yield _row(at, "compacted", {"message": message.text, "replacement_history": summary})
        else:
            for item in items:
                yield _row(at, "response_item", item)
        if is_typed(message) and items:
            yield _row(at, "event_msg", {"type": "user_message", "message": message.text})


def _row(at: datetime, kind: str, payload: Record) -> Record:
    return {"timestamp": iso(at), "type": kind, "payload": payload}


def _codex_said(role: str, text: str) -> Record:
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}


def _codex_items(message: BaseMessage) -> Iterator[Record]:
    by_program = isinstance(message, UserMessage) and not is_typed(message)
    if by_program and not any(isinstance(part, ImagePart) for part in message.parts):
        message = DeveloperMessage(parts=message.parts)
    for item in to_input([_spelled(message)], ""):
        match item:
            case {"type": "message", "content": str(text), "role": role}:
                yield _codex_said("developer" if role == "system" else role, text)
            case {"type": "message", "role": "user"} if isinstance(message, ToolResultMessage):
                pass  # the images of a result, which Codex keeps in it
            case {"type": "function_call_output"} if images := list(_images(message)):
                said = [{"type": "input_text", "text": message.text}] if message.text else []
                shown = [{"type": "input_image", "image_url": url} for _, url in images]
                yield {**item, "output": [*said, *shown]}
            case _:
                yield item


def _images(message: BaseMessage) -> Iterable[tuple[str, str]]:
    """Their media types, and their content as URLs."""
    for part in message.parts:
        if isinstance(part, ImagePart):
            yield part.media_type, f"data:{part.media_type};base64,{part.data}"


# --- Copilot CLI --------------------------------------------------------------------------------------


def write_copilot(original: Original) -> Exported:
    """A chain of events by `id` and `parentId`. A summary that opens the view is that of a compaction."""
    lines: list[bytes] = []
    header, parent = original.header, None
    for nth, (at, kind, data) in enumerate(_copilot_events(original)):
        name = str(uuid5(NAMESPACE_OID, f"{header.id} {nth}"))
        event = {"type": kind, "data": data, "id": name, "timestamp": iso(at), "parentId": parent}
        lines.append(record_line(event))
        parent = name
    return _exported(original, b"".join(lines), "Copilot CLI")


def _copilot_events(original: Original) -> Iterator[tuple[datetime, str, Record]]:
    header, at = original.header, original.header.created_at
    about = {"sessionId": header.id, "version": 1, "producer": "foldline", "copilotVersion": __version__}
    yield at, "session.start", {**about, "startTime": iso(at), "context": {"cwd": header.cwd}}
    if original.projection.title:
        yield at, "session.title_changed", {"title": original.projection.title}
    for place, message in enumerate(_view(original)):
        at, name = message.at or at, str(uuid5(NAMESPACE_OID, f"{header.id} message {place}"))
        match message:
            case AssistantMessage():
                calls = [
                    {
                        "toolCallId": call.call_id,
                        "name": call.name,
                        "arguments": call.parsed(),
                        "type": "function",
                    }
                    for call in message.calls
                ]
                said = {"messageId": name, "content": message.text, "toolRequests": calls}
                yield at, "assistant.message", {**said, "model": message.model or PROVIDER}
            case ToolResultMessage():
                result = {"content": message.text, "binaryResultsForLlm": _blobs(message, "image")}
                failure = {"error": {"message": message.text}} if message.is_error else {}
                ran = {"toolCallId": message.call_id, "success": not message.is_error, "result": result}
                yield at, "tool.execution_start", {"toolCallId": message.call_id, "toolName": message.name}
                yield at, "tool.execution_complete", {**ran, **failure}
            case _ if is_summary(message) and place == 0:
                yield at, "session.compaction_complete", {"success": True, "summaryContent": message.text}
            case _:
                origin = {} if is_typed(message) else {"source": "foldline"}
                yield (
                    at,
                    "user.message",
                    {"content": message.text, "attachments": _blobs(message, "blob"), **origin},
                )


def _blobs(message: BaseMessage, kind: str) -> list[Record]:
    images = (part for part in message.parts if isinstance(part, ImagePart))
    return [{"type": kind, "mimeType": image.media_type, "data": image.data} for image in images]


# --- opencode -----------------------------------------------------------------------------------------


def write_opencode(original: Original) -> Exported:
    """What `opencode export` writes and `opencode import` reads. A summary answers a request to compact."""
    session = _OpencodeSession(original)
    for message in _view(original):
        session.add(message)
    data = record_line({"info": session.info, "messages": session.messages})
    return _exported(original, data, "opencode")


class _OpencodeSession:
    """Ids begin with the time, in milliseconds and 4,096ths, and are in order: opencode sorts by them."""

    def __init__(self, original: Original) -> None:
        self._now = int(utc_now().timestamp() * 1000) - 60_000  # before all that opencode will add
        self._count = 0
        self._model = original.projection.model or PROVIDER
        self._cwd = original.header.cwd
        self._parent = ""
        self._calls: dict[str, Record] = {}
        self.messages: list[Record] = []
        self.info: Record = {
            "id": original.header.id,
            "slug": original.header.id.removeprefix("ses_"),
            "projectID": "global",
            "directory": self._cwd,
            "title": original.projection.title or "Handed over by Foldline",
            "version": __version__,
            "time": {"created": self._now, "updated": self._now},
        }

    def add(self, message: BaseMessage) -> None:
        match message:
            case AssistantMessage():
                self._answer(message)
            case ToolResultMessage():
                self._result(message)
            case _ if is_summary(message) and not self.messages:
                self._user([{"type": "compaction", "auto": False}])
                summary = text_parts(message.text.removeprefix(ASKED_TO_COMPACT))
                answer = AssistantMessage(parts=summary, model=self._model)
                self._answer(answer, {"summary": True, "mode": "compaction", "agent": "compaction"})
            case _:
                origin = {} if is_typed(message) else {"synthetic": True}
                texts = [part.text for part in message.parts if isinstance(part, TextPart) and part.text]
                parts: list[Record] = [{"type": "text", "text": text, **origin} for text in texts]
                self._user([*parts, *_files(message)])

    def _user(self, parts: list[Record]) -> None:
        chosen = {"agent": "build", "model": {"providerID": PROVIDER, "modelID": self._model}}
        self._parent = self._message({"role": "user", **chosen}, parts)

    def _answer(self, message: AssistantMessage, about: Record | None = None) -> None:
        parts: list[Record] = [{"type": "step-start"}]
        for part in message.parts:
            match part:
                case TextPart() if part.text:
                    parts.append({"type": "text", "text": part.text})
                case ToolCallPart():
                    self._calls[part.call_id] = {"status": "pending", "input": part.parsed(), "raw": ""}
                    state = self._calls[part.call_id]
                    parts.append({"type": "tool", "callID": part.call_id, "tool": part.name, "state": state})
                case _:
                    pass
        finish = "tool-calls" if message.calls else "stop"
        parts.append({"type": "step-finish", "reason": finish, "cost": 0, "tokens": _NOT_TIMED})
        info = {
            "role": "assistant",
            "parentID": self._parent,
            "modelID": message.model or self._model,
            "providerID": PROVIDER,
            "mode": "build",
            "agent": "build",
            "path": {"cwd": self._cwd, "root": self._cwd},
            "cost": 0,
            "tokens": _NOT_TIMED,
            "finish": finish,
        }
        self._message({**info, **(about or {})}, parts)

    def _result(self, message: ToolResultMessage) -> None:
        state = self._calls.pop(message.call_id, None)
        if state is None:
            return
        state.pop("raw")
        state["time"] = {"start": self._now, "end": self._now}
        holder = self.messages[-1]["info"]["id"]
        files = [self._part(holder, part) for part in _files(message)]
        if message.is_error and not files:  # a failure has no place for pictures
            state.update(status="error", error=message.text)
            return
        state.update(status="completed", output=message.text, title=message.name, metadata={})
        state.update({"attachments": files} if files else {})

    def _message(self, info: Record, parts: Iterable[Record]) -> str:
        name, at = self._id("msg"), self._now + self._count // 4096
        times = {"created": at, **({"completed": at} if info["role"] == "assistant" else {})}
        about: dict[str, Any] = {"id": name, "sessionID": self.info["id"], "time": times, **info}
        about.update({} if info.get("parentID", name) else {"parentID": name})
        self.messages.append({"info": about, "parts": [self._part(name, part) for part in parts]})
        return name

    def _part(self, message: str, part: Record) -> Record:
        return {"id": self._id("prt"), "sessionID": self.info["id"], "messageID": message, **part}

    def _id(self, kind: str) -> str:
        self._count += 1
        moment = (self._now * 4096 + self._count) % 2**48
        return f"{kind}_{moment:012x}{self._count:014d}"


def _files(message: BaseMessage) -> Iterator[Record]:
    for media_type, url in _images(message):
        yield {"type": "file", "mime": media_type, "url": url}
