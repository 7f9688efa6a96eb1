"""Reader for chats whose messages hold blocks as Anthropic's API has them: of Amp (`amp threads export`), of
Cline and its kin (`api_conversation_history.json`), of Goose (JSON lines, `goose session export`), or bare.

Amp and Goose spell some blocks in their own way: here they become Anthropic's first.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Literal
from urllib.parse import unquote, urlparse

from foldline.files import read_regular
from foldline.history import Damage
from foldline.protocol import (
    AssistantMessage,
    DeveloperMessage,
    Entry,
    FoldlineError,
    Part,
    SessionHeader,
    SystemMessage,
    TextPart,
    Title,
    ToolCallPart,
    ToolResultMessage,
    Unknown,
    Usage,
    UserMessage,
    text_parts,
)

from .base import (
    ForeignSession,
    Json,
    JsonObject,
    as_count,
    as_list,
    as_object,
    as_text,
    as_time,
    json_lines,
    parse_object,
)
from .changes import Changes
from .chat_parts import arguments_text, usage_count
from .claude_code_messages import parts_of
from .detection import kind_of, left_out_note, unknown_records_note
from .tool_runs import changes_of, first_text, tool_result
from .transcript import Transcript

_BLOCKS = ("tool_use", "tool_result", "toolRequest", "toolResponse", "thinking", "redacted_thinking")
"""Kinds of blocks that OpenAI's chats do not have."""
_LISTS = ("messages", "conversation")
_PROGRAM = re.compile(
    r"\s*(?:<(?:environment_details|system-reminder|info-msg|turn-context|explicit_instructions|file_content"
    r"|folder_content|attachedFiles|user_state)\b"
    r"|\[[\w ]+(?: for [^\n]*)?\] Result:|\[TASK RESUMPTION\]|\[ERROR\])"
)
"""How texts begin that these programs write in the user's name."""


def is_anthropic_chat(records: Sequence[JsonObject]) -> bool:
    """Whether these are chat messages with blocks of Anthropic's, or objects that hold some."""
    first = records[0] if records else {}
    of_goose = {"working_dir", "message_count"} <= first.keys()
    of_amp = as_text(first.get("id")).startswith("T-") and isinstance(first.get("messages"), list)
    inside = (as_object(one) for record in records for name in _LISTS for one in as_list(record.get(name)))
    return of_goose or of_amp or any(map(_has_blocks, (*records, *inside)))


def _has_blocks(message: JsonObject) -> bool:
    blocks = map(as_object, as_list(message.get("content")))
    return message.get("role") in ("user", "assistant") and any(
        block.get("type") in _BLOCKS for block in blocks
    )


def _is_message(record: JsonObject) -> bool:
    return record.get("role") in ("user", "assistant", "system") and isinstance(
        record.get("content"), str | list
    )


def read_anthropic_chat(data: bytes, path: Path) -> ForeignSession:
    """A chat. An index counts entries: a message may be several of ours.

    Raises:
        FoldlineError: there is no message in the file.
    """
    about, records, damage = _chat(data)
    if not any(map(_is_message, records)):
        raise FoldlineError(f"{path} holds no chat messages: nothing in it has a role and content.")
    reader = _Reader()
    if title := first_text(about, ("title", "description")).strip():
        reader.transcript.add(Title(title=title))
    if system := _text(about.get("system")):
        reader.transcript.add(SystemMessage(parts=text_parts(system)))
    spans = [reader.read(record) for record in records]
    reader.hide(spans, _truncated(path))
    entries = reader.transcript.entries
    times = (_time(about.get("created")), *(entry.at for entry in entries))
    header = SessionHeader(
        id=as_text(about.get("id")) or (path.parent.name if path.stem == _CLINE else path.stem),
        created_at=next(filter(None, times), datetime.fromtimestamp(0, UTC)),
        cwd=as_text(about.get("working_dir")) or _tree(about),
    )
    notes = [
        *([f"{damage}."] if damage else []),
        *_missing_note(about, len(records)),
        *left_out_note(reader.left_out),
        *unknown_records_note(entries, ()),
    ]
    return ForeignSession("anthropic", header, entries, damage, tuple(notes))


def _chat(data: bytes) -> tuple[JsonObject, list[JsonObject], Damage]:
    """What the file says about the chat, and its messages."""
    # A list is read as an object around it: the same mending of half characters then serves both.
    document = parse_object(data) or parse_object(b'{"messages":' + data + b"}")
    if document is not None and not _is_message(document):
        listed = next((as_list(document.get(name)) for name in _LISTS if document.get(name)), [])
        return document, [as_object(message) for message in listed], Damage()
    lines, damage = json_lines(data)
    records = [line.record for line in lines]
    about = records.pop(0) if records and not _is_message(records[0]) else {}
    return about, records, damage


def _missing_note(about: JsonObject, messages: int) -> tuple[str, ...]:
    """What a session of Goose says of its length, where that is not what it holds."""
    told = as_count(about.get("message_count"))
    differs = f"The file says that it has {told:,} messages, and holds {messages:,}."
    return (differs,) if told and told != messages else ()


_CLINE = "api_conversation_history"


def _truncated(path: Path) -> tuple[int, int] | None:
    """The messages that Cline no longer sends: its `ui_messages.json`, beside the chat, says which."""
    if path.stem != _CLINE:
        return None
    try:
        beside = parse_object(b'{"messages":' + read_regular(path.with_name("ui_messages.json")) + b"}") or {}
    except OSError:
        return None
    shown = [as_object(message) for message in as_list(beside.get("messages"))]
    spans = [as_list(message.get("conversationHistoryDeletedRange")) for message in shown]
    newest = next((span for span in reversed(spans) if len(span) == 2), None)
    return (as_count(newest[0]), as_count(newest[1])) if newest else None


def _tree(about: JsonObject) -> str:
    """The folder an Amp thread was held in."""
    trees = as_list(as_object(as_object(about.get("env")).get("initial")).get("trees"))
    uri = urlparse(as_text(as_object(next(iter(trees), None)).get("uri")))
    return unquote(uri.path) if uri.scheme == "file" else ""


def _time(value: Json) -> datetime | None:
    """A moment, from text, or seconds or milliseconds since 1970."""
    in_seconds = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e11
    return as_time(value * 1000 if in_seconds else value)


def _text(value: Json) -> str:
    """A text, or the texts of a list of blocks."""
    if isinstance(value, str):
        return value
    return "\n".join(filter(None, (as_text(as_object(block).get("text")) for block in as_list(value))))


# --- blocks -----------------------------------------------------------------------------------------


def _blocks(message: JsonObject) -> list[JsonObject]:
    """The blocks of a message, all in Anthropic's spelling."""
    content = message.get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return [_block(as_object(piece)) for piece in as_list(content)]


def _block(block: JsonObject) -> JsonObject:
    match block.get("type"):
        case "toolRequest":
            asked = as_object(block.get("toolCall"))
            call = as_object(asked.get("value")) or asked
            return {"type": "tool_use", "id": block.get("id"), "name": call.get("name"),
                    "input": call.get("arguments")}  # fmt: skip
        case "toolResponse":
            return {"type": "tool_result", "tool_use_id": block.get("id"), **_goose(block.get("toolResult"))}
        case "tool_result" if "run" in block:
            return {"type": "tool_result", "tool_use_id": block.get("toolUseID"),
                    **_amp(as_object(block.get("run")))}  # fmt: skip
        case "tool_result" if "toolUseID" in block:
            failed = block.get("status") == "error"
            return {"type": "tool_result", "tool_use_id": block.get("toolUseID"), "is_error": failed,
                    "content": _written(block.get("output"))}  # fmt: skip
        case "image" if "data" in block:
            return {"type": "image", "source": {"data": block["data"], "media_type": block.get("mimeType")}}
        case _:
            return block


def _goose(result: Json) -> JsonObject:
    """A result of Goose: the content itself, or under `value`, or there under `content`."""
    if isinstance(result, list):
        return {"content": result}
    outcome = as_object(result)
    value = outcome.get("value")
    inner = as_object(value)
    content = value if isinstance(value, list) else inner.get("content", outcome.get("error"))
    return {"content": content, "is_error": outcome.get("status") == "error" or inner.get("isError") is True}


def _amp(run: JsonObject) -> JsonObject:
    status, error = run.get("status"), as_object(run.get("error"))
    if status in ("done", None) and not error:
        return {"content": _written(run.get("result"))}
    if status == "done" or error:
        return {"content": as_text(error.get("message")) or _written(run.get("error")), "is_error": True}
    return {"content": first_text(run, ("reason", "status")), "is_error": True, "is_cancelled": True}


def _written(value: Json) -> Json:
    """A result as content: text or blocks, else as JSON; of an object, what it says was put out."""
    if isinstance(value, str) or (
        isinstance(value, list) and value and all("type" in as_object(block) for block in value)
    ):
        return value
    fields = as_object(value)
    said = first_text(fields, ("output", "content")) or fields.get("content")
    if isinstance(said, str) or (isinstance(said, list) and said):
        return said
    return "" if value is None else arguments_text(value)


# --- messages ---------------------------------------------------------------------------------------


@dataclass
class _Reader:
    transcript: Transcript = field(default_factory=Transcript)
    left_out: list[str] = field(default_factory=list)
    """The kinds of the blocks that cannot be shown here."""
    _calls: dict[str, ToolCallPart] = field(default_factory=dict)
    _hidden: set[int] = field(default_factory=set)
    """The entries that are not sent to the model any more."""

    def read(self, message: JsonObject) -> tuple[int, int]:
        """Add the entries of a message; where they begin and end."""
        start = len(self.transcript.entries)
        at = next(
            filter(None, map(_time, (message.get(key) for key in ("timestamp", "ts", "created")))), None
        )
        at = at or _time(as_object(message.get("meta")).get("sentAt"))
        for entry in self._entries(message):
            self.transcript.add(entry, at)
        end = len(self.transcript.entries)
        seen = as_object(message.get("metadata")).get("agentVisible", True) is not False
        if not seen or message.get("condenseParent") or message.get("truncationParent"):
            self._hidden.update(range(start, end))
        return start, end

    def hide(self, spans: Sequence[tuple[int, int]], gone: tuple[int, int] | None) -> None:
        """What is not sent any more leaves the context: of these messages the first and the last `gone`, and
        what says so itself. The summary of Goose or Roo Code is a message like others."""
        if gone is not None and gone[0] <= gone[1] < len(spans):
            self._hidden.update(range(spans[gone[0]][0], spans[gone[1]][1]))
        stays = [index for index in self.transcript.view.messages if index not in self._hidden]
        self.transcript.relist(stays, None, strategy="anthropic")

    def _entries(self, message: JsonObject) -> Sequence[Entry]:
        blocks = _blocks(message)
        match message.get("role"):
            case "assistant":
                return [self._answer(message, blocks)]
            case "user":
                results = [self._result(block) for block in blocks if block.get("type") == "tool_result"]
                others = [block for block in blocks if block.get("type") != "tool_result"]
                return [*results, *self._said(others)] or [_unknown(message)]
            case "system":
                parts = self._parts(blocks)
                first = not any(
                    isinstance(one, UserMessage | AssistantMessage) for one in self.transcript.entries
                )
                return [SystemMessage(parts=parts) if first else DeveloperMessage(parts=parts)]
            case _:
                return [_unknown(message)]

    def _parts(self, blocks: Sequence[JsonObject]) -> tuple[Part, ...]:
        parts: list[Part] = []
        for block in blocks:
            found, left_out = parts_of([block])
            parts += found
            if left_out:
                self.left_out.append(kind_of(block))
        return tuple(parts)

    def _answer(self, message: JsonObject, blocks: Sequence[JsonObject]) -> AssistantMessage:
        parts = self._parts(blocks)
        self._calls |= {part.call_id: part for part in parts if isinstance(part, ToolCallPart)}
        state, chosen = as_object(message.get("state")), as_object(message.get("modelInfo"))
        usage = as_object(message.get("usage")) or as_object(as_object(message.get("metrics")).get("tokens"))
        models = (usage.get("model"), message.get("model"), chosen.get("modelId"))
        return AssistantMessage(
            parts=parts,
            model=next(filter(None, map(as_text, models)), None),
            usage=_usage(usage),
            stop_reason="cancelled" if state.get("type") == "cancelled" else None,
        )

    def _result(self, block: JsonObject) -> ToolResultMessage:
        call_id, content = as_text(block.get("tool_use_id")), block.get("content")
        listed = (
            as_list(content) if isinstance(content, list) else [{"type": "text", "text": as_text(content)}]
        )
        parts = self._parts([_block(as_object(piece)) for piece in listed])
        call = self._calls.get(call_id)
        failed = "failed" if block.get("is_error") is True else ""
        return tool_result(
            call_id,
            call.name if call else "",
            parts,
            failed="cancelled" if block.get("is_cancelled") else failed,
            done=Changes() if failed or call is None else changes_of(call),
        )

    def _said(self, blocks: Sequence[JsonObject]) -> Sequence[UserMessage]:
        """What these blocks say, the user's own words apart from the program's."""
        voices: list[tuple[Literal["typed", "machine"], Part]] = []
        for part in self._parts(blocks):
            text = part.text if isinstance(part, TextPart) else ""
            voices.append(("machine" if _PROGRAM.match(text) else "typed", part))
        return [
            UserMessage(origin=voice, parts=tuple(part for _, part in group))
            for voice, group in groupby(voices, key=lambda pair: pair[0])
        ]


def _usage(usage: JsonObject) -> Usage | None:
    cached = as_count(usage_count(usage, "cache_read_input_tokens", "cacheReadInputTokens", "cached"))
    written = as_count(usage_count(usage, "cache_creation_input_tokens", "cacheCreationInputTokens"))
    reported = Usage(
        input=as_count(usage_count(usage, "input_tokens", "inputTokens", "prompt")) + cached + written,
        cached=cached,
        output=as_count(usage_count(usage, "output_tokens", "outputTokens", "completion")),
    )
    return reported if reported.total else None


def _unknown(message: JsonObject) -> Unknown:
    return Unknown(type=f"anthropic.{as_text(message.get('role')) or 'record'}", record=message)
