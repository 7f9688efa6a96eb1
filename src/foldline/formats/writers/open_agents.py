"""Writers of sessions for pi, kimi-cli and opencode. Only the view is written."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from foldline.context.numbers import many
from foldline.context.view import first_words, is_summary
from foldline.history import utc_now
from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    ImagePart,
    Part,
    TextPart,
    ToolCallPart,
    ToolResultMessage,
    Usage,
    UserMessage,
    is_typed,
    text_parts,
)
from foldline.version import __version__

from ..export import PROVIDER, Exported, HandedView
from ..readers.kimi_cli.reader import MACHINE, SUMMARY
from ..readers.opencode.reader import ASKED_TO_COMPACT
from ..readers.pi.reader import FRAME
from .agent_sessions import Record, content_of, image_url, images_of, iso, lines, record_line

# --- pi -----------------------------------------------------------------------------------------------


def write_pi(view: HandedView) -> Exported:
    """Write a chain of records by `id` and `parentId`."""
    header = view.header
    session = {
        "type": "session",
        "version": 3,
        "id": header.id,
        "timestamp": iso(header.created_at),
        "cwd": header.cwd,
    }
    notes = []
    cut_off = sum(
        isinstance(message, AssistantMessage) and message.stop_reason in ("cancelled", "error")
        for _, message in view.messages
    )
    if cut_off:
        answers = many(cut_off, "answer")
        notes.append(f"Written as whole, though broken off: {answers}, which pi would not show to its model.")
    return view.exported("pi", lines([session, *_pi_chain(_pi_records(view))]), *notes)


def _pi_chain(records: Iterable[Record]) -> Iterator[Record]:
    parent = None
    for nth, record in enumerate(records):
        if record["type"] == "compaction":  # keeps nothing: the record before it says nothing
            record["firstKeptEntryId"] = parent
        name = f"{nth:08x}"
        yield {"id": name, "parentId": parent, **record}
        parent = name


def _pi_records(view: HandedView) -> Iterator[Record]:
    start = iso(view.header.created_at)
    if view.title:
        yield {"type": "session_info", "timestamp": start, "name": view.title}
    if view.model:
        yield {"type": "model_change", "timestamp": start, "provider": PROVIDER, "modelId": view.model}
    if view.summary is not None:
        time = iso(view.summary.at or view.header.created_at)
        files = view.files
        yield {"type": "custom", "timestamp": time, "customType": "foldline.cut"}
        yield {
            "type": "compaction",
            "timestamp": time,
            "summary": view.summary.text.removeprefix(FRAME[0]).removesuffix(FRAME[1]),
            "tokensBefore": 0,
            "details": {"readFiles": files.read_files, "modifiedFiles": files.modified_files},
            "fromHook": False,
        }
    for at, message in view.messages:
        yield {"timestamp": iso(at), **_pi_record(at, message)}


def _pi_record(at: datetime, message: BaseMessage) -> Record:
    match message:
        case AssistantMessage():
            record = _pi_answer(message)
        case ToolResultMessage():
            record = _pi_result(message)
        case UserMessage():
            record = _pi_prompt(message)
        case _:
            kind = "foldline.summary" if is_summary(message) else "foldline.notice"
            content = _pi_content(message)
            return {"type": "custom_message", "customType": kind, "content": content, "display": True}
    return {"type": "message", "message": {**record, "timestamp": int(at.timestamp() * 1000)}}


def _pi_answer(message: AssistantMessage) -> Record:
    stop_reason = "length" if message.stop_reason in ("length", "repeated") else "stop"
    record = {
        "role": "assistant",
        "content": _pi_content(message),
        "api": "openai-completions",
        "provider": PROVIDER,
        "model": message.model or PROVIDER,
        "usage": _pi_usage(message.usage or Usage()),
        "stopReason": "toolUse" if message.calls else stop_reason,
    }
    if message.error:
        record["errorMessage"] = message.error
    return record


def _pi_usage(usage: Usage) -> Record:
    record: Record = {
        "input": max(0, usage.input - usage.cached),
        "output": usage.output,
        "cacheRead": usage.cached,
        "cacheWrite": 0,
        "totalTokens": usage.total,
        "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0},
    }
    if usage.reasoning:
        record["reasoning"] = usage.reasoning
    return record


def _pi_result(message: ToolResultMessage) -> Record:
    files = message.details.files
    details = {
        "diff": message.details.diff,
        "fullOutputPath": message.details.full_output,
        "path": files[0].path if files else None,
    }
    return {
        "role": "toolResult",
        "toolCallId": message.call_id,
        "toolName": message.name,
        "content": _pi_content(message),
        "details": {name: value for name, value in details.items() if value},
        "isError": message.is_error,
    }


def _pi_prompt(message: UserMessage) -> Record:
    if message.origin == "shell":
        command, _, output = message.text.removeprefix("$ ").partition("\n")
        is_same = f"$ {command}\n{output}".rstrip("\n") == message.text  # as pi will show it
        if is_same and not images_of(message):
            run = {"role": "bashExecution", "command": command, "output": output}
            return {**run, "cancelled": False, "truncated": False}
    record = {"role": "user", "content": _pi_content(message)}
    return record if is_typed(message) else {**record, "attribution": "agent"}


def _pi_content(message: BaseMessage) -> list[Record]:
    return content_of(message.parts, _pi_image, _pi_call)


def _pi_image(image: ImagePart) -> Record:
    return {"type": "image", "data": image.data, "mimeType": image.media_type}


def _pi_call(call: ToolCallPart) -> Record:
    return {"type": "toolCall", "id": call.call_id, "name": call.name, "arguments": call.parsed()}


# --- kimi-cli -----------------------------------------------------------------------------------------

_SUMMARY_HEAD = TextPart(text=f"{SUMMARY}. Here is the compaction output:</system>")
"""How kimi-cli announces a summary."""
_SPACE = TextPart(text=" ")
"""Comes before words that kimi-cli would take for the program's."""


def write_kimi(view: HandedView) -> Exported:
    """Write `context.jsonl`, with the title in `state.json`."""
    prompts = (message for _, message in view.messages if isinstance(message, UserMessage))
    title = view.title or next(filter(None, map(first_words, prompts)), "")
    title = " ".join(title.split())[:80]
    beside = {"state.json": record_line({"version": 1, "custom_title": title})} if title else {}
    note = "kimi-cli keeps neither times nor the models that answered."
    return view.exported("kimi-cli", lines(_kimi_rows(view)), note, beside=beside)


def _kimi_rows(view: HandedView) -> Iterator[Record]:
    """Yield messages, with checkpoints before prompts and sizes after answers."""
    checkpoints = 1
    yield {"role": "_checkpoint", "id": 0}
    if view.summary is not None:
        parts = view.summary.parts
        is_announced = _opens_with(parts, (SUMMARY,))
        yield {"role": "user", "content": _kimi_content(parts if is_announced else (_SUMMARY_HEAD, *parts))}
    for nth, (_, message) in enumerate(view.messages):
        if is_typed(message) and (nth > 0 or view.summary is not None):
            yield {"role": "_checkpoint", "id": checkpoints}
            checkpoints += 1
        yield _kimi_row(message)
        if isinstance(message, AssistantMessage) and message.usage is not None:
            yield {"role": "_usage", "token_count": message.usage.total}


def _kimi_row(message: BaseMessage) -> Record:
    match message:
        case AssistantMessage():
            row: Record = {"role": "assistant", "content": _kimi_content(_own_words(message, (SUMMARY,)))}
            if message.calls:
                row["tool_calls"] = list(map(_kimi_call, message.calls))
        case ToolResultMessage():
            row = {"role": "tool", "content": _kimi_content(message.parts), "tool_call_id": message.call_id}
            if message.is_error:
                row["isError"] = True
        case UserMessage(origin="typed"):
            row = {"role": "user", "content": _kimi_content(_own_words(message, MACHINE))}
        case _:
            row = {"role": "user", "content": _kimi_content(_program_words(message.parts))}
    return row


def _kimi_call(call: ToolCallPart) -> Record:
    function = {"name": call.name, "arguments": call.arguments}
    return {"type": "function", "id": call.call_id, "function": function}


def _opens_with(parts: Sequence[Part], beginnings: tuple[str, ...]) -> bool:
    return bool(parts) and isinstance(parts[0], TextPart) and parts[0].text.lstrip().startswith(beginnings)


def _own_words(message: BaseMessage, beginnings: tuple[str, ...]) -> Sequence[Part]:
    return (_SPACE, *message.parts) if _opens_with(message.parts, beginnings) else message.parts


def _program_words(parts: Sequence[Part]) -> Sequence[Part]:
    """Put texts of the program between `<system>` and `</system>`."""
    if _opens_with(parts, MACHINE) and not _opens_with(parts, (SUMMARY,)):
        return parts
    marked = [_in_system_tag(part) if isinstance(part, TextPart) else part for part in parts]
    return marked if _opens_with(marked, MACHINE) else [TextPart(text="<system>Images:</system>"), *marked]


def _in_system_tag(part: TextPart) -> TextPart:
    """Put a text in a tag that it cannot close."""
    defused = part.text.replace("</system", r"<\/system")
    return TextPart(text=f"<system>{defused}</system>")


def _kimi_content(parts: Iterable[Part]) -> list[Record]:
    return content_of(parts, lambda image: {"type": "image_url", "image_url": {"url": image_url(image)}})


# --- opencode -----------------------------------------------------------------------------------------


def write_opencode(view: HandedView) -> Exported:
    """Write the document that `opencode import` reads."""
    session = _OpencodeSession(view)
    if view.summary is not None:
        session.add_summary(view.summary.text.removeprefix(ASKED_TO_COMPACT))
    for _, message in view.messages:
        session.add(message)
    document = {"info": session.info, "messages": session.messages}
    return view.exported("opencode", record_line(document))


class _OpencodeSession:
    """Collects messages. Ids begin with the time and a count: opencode sorts by them."""

    def __init__(self, view: HandedView) -> None:
        self._now = int(utc_now().timestamp() * 1000) - 60_000  # before all that opencode will add
        self._count = 0
        self._model = view.model or PROVIDER
        self._cwd = view.header.cwd
        self._parent = ""
        """The id of the newest prompt, which answers refer to."""
        self._calls: dict[str, Record] = {}
        """The states of calls without a result, by call id."""
        self.messages: list[Record] = []
        self.info: Record = {
            "id": view.header.id,
            "slug": view.header.id.removeprefix("ses_"),
            "projectID": "global",
            "directory": self._cwd,
            "title": view.title or "Handed over by Foldline",
            "version": __version__,
            "time": {"created": self._now, "updated": self._now},
        }

    def add_summary(self, text: str) -> None:
        """Add a summary as the answer to a request to compact."""
        self._add_prompt([{"type": "compaction", "auto": False}])
        answer = AssistantMessage(parts=text_parts(text), model=self._model)
        self._add_answer(answer, summary=True, mode="compaction", agent="compaction")

    def add(self, message: BaseMessage) -> None:
        match message:
            case AssistantMessage():
                self._add_answer(message)
            case ToolResultMessage():
                self._add_result(message)
            case _:
                origin = {} if is_typed(message) else {"synthetic": True}
                texts = [part.text for part in message.parts if isinstance(part, TextPart) and part.text]
                parts = [{"type": "text", "text": text, **origin} for text in texts]
                self._add_prompt([*parts, *_image_files(message)])

    def _add_prompt(self, parts: list[Record]) -> None:
        model = {"providerID": PROVIDER, "modelID": self._model}
        self._parent = self._add({"role": "user", "agent": "build", "model": model}, parts)

    def _add_answer(self, message: AssistantMessage, **about: object) -> None:
        parts: list[Record] = [{"type": "step-start"}]
        for part in message.parts:
            match part:
                case TextPart() if part.text:
                    parts.append({"type": "text", "text": part.text})
                case ToolCallPart():
                    state = {"status": "pending", "input": part.parsed(), "raw": ""}
                    self._calls[part.call_id] = state
                    parts.append({"type": "tool", "callID": part.call_id, "tool": part.name, "state": state})
                case _:
                    pass
        finish = "tool-calls" if message.calls else "stop"
        usage = {"input": 0, "output": 0, "reasoning": 0, "cache": {"read": 0, "write": 0}}
        parts.append({"type": "step-finish", "reason": finish, "cost": 0, "tokens": usage})
        info = {
            "role": "assistant",
            "modelID": message.model or self._model,
            "providerID": PROVIDER,
            "mode": "build",
            "agent": "build",
            "path": {"cwd": self._cwd, "root": self._cwd},
            "cost": 0,
            "tokens": usage,
            "finish": finish,
        }
        self._add({**info, **about}, parts)

    def _add_result(self, message: ToolResultMessage) -> None:
        state = self._calls.pop(message.call_id, None)
        if state is None:
            return
        del state["raw"]
        state["time"] = {"start": self._now, "end": self._now}
        answer_id = self.messages[-1]["info"]["id"]
        files = [self._part(answer_id, file) for file in _image_files(message)]
        if message.is_error and not files:  # a failure has no field for images
            state.update(status="error", error=message.text)
            return
        state.update(status="completed", output=message.text, title=message.name, metadata={})
        if files:
            state["attachments"] = files

    def _add(self, info: Record, parts: list[Record]) -> str:
        """Add a message and return its id."""
        name = self._id("msg")
        at = self._now + self._count // 4096
        times = {"created": at}
        if info["role"] == "assistant":
            times["completed"] = at
            info = {"parentID": self._parent or name, **info}
        info = {"id": name, "sessionID": self.info["id"], "time": times, **info}
        self.messages.append({"info": info, "parts": [self._part(name, part) for part in parts]})
        return name

    def _part(self, message_id: str, part: Record) -> Record:
        return {"id": self._id("prt"), "sessionID": self.info["id"], "messageID": message_id, **part}

    def _id(self, kind: str) -> str:
        self._count += 1
        moment = (self._now * 4096 + self._count) % 2**48
        return f"{kind}_{moment:012x}{self._count:014d}"


def _image_files(message: BaseMessage) -> list[Record]:
    return [
        {"type": "file", "mime": image.media_type, "url": image_url(image)} for image in images_of(message)
    ]
