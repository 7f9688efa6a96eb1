"""Reader for chats whose messages hold blocks as Anthropic's API has them: of Amp (`amp threads export`), of
Cline and its kin (`api_conversation_history.json`), of Goose (JSON lines, `goose session export`), or bare.

Amp and Goose spell some blocks in their own way: here they become Anthropic's first.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from urllib.parse import unquote, urlparse

from foldline.files import read_regular
from foldline.history import Damage
from foldline.protocol import (
    AssistantMessage,
    DeveloperMessage,
    Entry,
    FoldlineError,
    Part,
    SystemMessage,
    Title,
    ToolResultMessage,
    UserMessage,
    text_parts,
)

from .base import (
    ForeignSession,
    Json,
    JsonObject,
    count_at,
    first_text,
    header,
    json_lines,
    list_at,
    object_at,
    objects_at,
    parse_document,
    text_at,
    time_at,
    value_at,
)
from .parts import UsageFields, anthropic_part, arguments_text, user_messages
from .tool_results import Changes, changes_of, tool_result
from .transcript import Transcript

_BLOCKS = ("tool_use", "tool_result", "toolRequest", "toolResponse", "thinking", "redacted_thinking")
"""Kinds of blocks that OpenAI's chats do not have."""
_LISTS = ("messages", "conversation")
_CLINE = "api_conversation_history"
_PROGRAM = re.compile(
    r"\s*(?:<(?:environment_details|system-reminder|info-msg|turn-context|explicit_instructions|file_content"
    r"|folder_content|attachedFiles|user_state)\b"
    r"|\[[\w ]+(?: for [^\n]*)?\] Result:|\[TASK RESUMPTION\]|\[ERROR\])"
)
"""How texts begin that these programs write in the user's name."""
_WRITTEN, _CACHED = (
    "cache_creation_input_tokens|cacheCreationInputTokens",
    "cache_read_input_tokens|cacheReadInputTokens|cached",
)
_USAGE = UsageFields(
    input=("input_tokens|inputTokens|prompt", _CACHED, _WRITTEN),
    output=("output_tokens|outputTokens|completion",),
    cached=_CACHED,
)


def is_anthropic_chat(records: Sequence[JsonObject]) -> bool:
    """Whether these are chat messages with blocks of Anthropic's, or objects that hold some."""
    first = records[0] if records else {}
    of_goose = {"working_dir", "message_count"} <= first.keys()
    of_amp = text_at(first, "id").startswith("T-") and isinstance(first.get("messages"), list)
    inside = (one for record in records for name in _LISTS for one in objects_at(record, name))
    return of_goose or of_amp or any(map(_has_blocks, (*records, *inside)))


def _has_blocks(message: JsonObject) -> bool:
    return message.get("role") in ("user", "assistant") and any(
        block.get("type") in _BLOCKS for block in objects_at(message, "content")
    )


def _is_message(record: JsonObject) -> bool:
    return record.get("role") in ("user", "assistant", "system") and isinstance(
        record.get("content"), str | list
    )


def read_anthropic_chat(data: bytes, path: Path) -> ForeignSession:
    """A chat. An index counts entries: a message may be several of ours."""
    about, records, damage = _chat(data)
    if not any(map(_is_message, records)):
        raise FoldlineError(f"{path} holds no chat messages: nothing in it has a role and content.")
    reader = _Reader()
    log = reader.log
    if title := first_text(about, ("title", "description")).strip():
        log.add(Title(title=title))
    if system := _text(about.get("system")):
        log.add(SystemMessage(parts=text_parts(system)))
    spans = [reader.read(record) for record in records]
    reader.hide(spans, _truncated(path))
    head = header(
        text_at(about, "id") or (path.parent.name if path.stem == _CLINE else path.stem),
        (_time(about.get("created")), *(entry.at for entry in log.in_order())),
        text_at(about, "working_dir") or _tree(about),
    )
    told = count_at(about, "message_count")
    differs = f"The file says that it has {told:,} messages, and holds {len(records):,}."
    missing = [differs] if told and told != len(records) else []
    return log.session("anthropic", head, damage, (*missing, *log.notes()))


def _chat(data: bytes) -> tuple[JsonObject, list[JsonObject], Damage]:
    document = parse_document(data, "messages")
    if document is not None and not _is_message(document):
        listed: Json = next((document[name] for name in _LISTS if document.get(name)), [])
        return document, objects_at(listed), Damage()
    lines, damage = json_lines(data)
    records = [line.record for line in lines]
    about = records.pop(0) if records and not _is_message(records[0]) else {}
    return about, records, damage


def _truncated(path: Path) -> tuple[int, int] | None:
    """The messages that Cline no longer sends: its `ui_messages.json`, beside the chat, says which."""
    if path.stem != _CLINE:
        return None
    try:
        beside = parse_document(read_regular(path.with_name("ui_messages.json")), "messages")
    except OSError:
        return None
    shown = objects_at(beside, "messages")
    spans = [list_at(message, "conversationHistoryDeletedRange") for message in shown]
    newest = next((span for span in reversed(spans) if len(span) == 2), None)
    return (count_at(newest[0]), count_at(newest[1])) if newest else None


def _tree(about: JsonObject) -> str:
    trees = list_at(about, "env", "initial", "trees")
    uri = urlparse(text_at(next(iter(trees), None), "uri"))
    return unquote(uri.path) if uri.scheme == "file" else ""


def _time(value: Json) -> datetime | None:
    """A moment, from text, or seconds or milliseconds since 1970."""
    in_seconds = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e11
    return time_at(value * 1000 if in_seconds else value)


def _text(value: Json) -> str:
    if isinstance(value, str):
        return value
    return "\n".join(filter(None, (text_at(block, "text") for block in list_at(value))))


# --- blocks -----------------------------------------------------------------------------------------


def _blocks(message: JsonObject) -> list[JsonObject]:
    content = message.get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return list(map(_block, objects_at(content)))


def _block(block: JsonObject) -> JsonObject:
    match block.get("type"):
        case "toolRequest":
            call = object_at(block, "toolCall", "value") or object_at(block, "toolCall")
            return {"type": "tool_use", "id": block.get("id"), "name": call.get("name"),
                    "input": call.get("arguments")}  # fmt: skip
        case "toolResponse":
            return {"type": "tool_result", "tool_use_id": block.get("id"), **_goose(block.get("toolResult"))}
        case "tool_result" if "run" in block:
            return {"type": "tool_result", "tool_use_id": block.get("toolUseID"),
                    **_amp(object_at(block, "run"))}  # fmt: skip
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
    outcome = object_at(result)
    value = outcome.get("value")
    inner = object_at(value)
    content = value if isinstance(value, list) else inner.get("content", outcome.get("error"))
    return {"content": content, "is_error": outcome.get("status") == "error" or inner.get("isError") is True}


def _amp(run: JsonObject) -> JsonObject:
    status, error = run.get("status"), object_at(run, "error")
    if status in ("done", None) and not error:
        return {"content": _written(run.get("result"))}
    if status == "done" or error:
        return {"content": text_at(error, "message") or _written(run.get("error")), "is_error": True}
    return {"content": first_text(run, ("reason", "status")), "is_error": True, "is_cancelled": True}


def _written(value: Json) -> Json:
    """A result as content: text or blocks, else as JSON; of an object, what it says was put out."""
    if isinstance(value, str) or (
        isinstance(value, list) and value and all("type" in object_at(block) for block in value)
    ):
        return value
    said = first_text(value, ("output", "content")) or value_at(value, "content")
    if isinstance(said, str) or (isinstance(said, list) and said):
        return said
    return "" if value is None else arguments_text(value)


# --- messages ---------------------------------------------------------------------------------------


@dataclass
class _Reader:
    log: Transcript = field(default_factory=lambda: Transcript("anthropic"))
    _hidden: set[int] = field(default_factory=set)
    """The entries that are not sent to the model any more."""

    def read(self, message: JsonObject) -> tuple[int, int]:
        start = len(self.log.entries)
        told = (
            *(message.get(key) for key in ("timestamp", "ts", "created")),
            value_at(message, "meta", "sentAt"),
        )
        at = next(filter(None, map(_time, told)), None)
        for entry in self._entries(message):
            self.log.add(entry, at)
        end = len(self.log.entries)
        seen = object_at(message, "metadata").get("agentVisible", True) is not False
        if not seen or message.get("condenseParent") or message.get("truncationParent"):
            self._hidden.update(range(start, end))
        return start, end

    def hide(self, spans: Sequence[tuple[int, int]], gone: tuple[int, int] | None) -> None:
        """What is not sent any more leaves the context: of these messages the first and the last `gone`, and
        what says so itself. The summary of Goose or Roo Code is a message like others."""
        if gone is not None and gone[0] <= gone[1] < len(spans):
            self._hidden.update(range(spans[gone[0]][0], spans[gone[1]][1]))
        stays = [index for index in self.log.view.messages if index not in self._hidden]
        self.log.relist(stays, None, strategy="anthropic")

    def _entries(self, message: JsonObject) -> Sequence[Entry]:
        blocks = _blocks(message)
        unknown = self.log.unknown(message, text_at(message, "role"))
        match message.get("role"):
            case "assistant":
                return [self._answer(message, blocks)]
            case "user":
                results = [self._result(block) for block in blocks if block.get("type") == "tool_result"]
                others = self._parts([block for block in blocks if block.get("type") != "tool_result"])
                said = user_messages(others, lambda text: _PROGRAM.match(text) is not None)
                return [*results, *said] or [unknown]
            case "system":
                parts = self._parts(blocks)
                spoken = (UserMessage, AssistantMessage)
                first = not any(isinstance(one, spoken) for one in self.log.entries.values())
                return [SystemMessage(parts=parts) if first else DeveloperMessage(parts=parts)]
            case _:
                return [unknown]

    def _parts(self, blocks: Sequence[JsonObject]) -> tuple[Part, ...]:
        shown = [block for block in blocks if block.get("type") != "text" or block.get("text")]
        return self.log.parts(shown, anthropic_part)

    def _answer(self, message: JsonObject, blocks: Sequence[JsonObject]) -> AssistantMessage:
        usage = object_at(message, "usage") or object_at(message, "metrics", "tokens")
        models = (usage.get("model"), message.get("model"), value_at(message, "modelInfo", "modelId"))
        return AssistantMessage(
            parts=self._parts(blocks),
            model=next(filter(None, map(text_at, models)), None),
            usage=_USAGE.read(usage),
            stop_reason="cancelled" if value_at(message, "state", "type") == "cancelled" else None,
        )

    def _result(self, block: JsonObject) -> ToolResultMessage:
        call_id, content = text_at(block, "tool_use_id"), block.get("content")
        pieces = (
            objects_at(content) if isinstance(content, list) else [{"type": "text", "text": text_at(content)}]
        )
        call = self.log.calls.get(call_id)
        cancelled, failed = bool(block.get("is_cancelled")), block.get("is_error") is True
        return tool_result(
            call_id,
            call.name if call else "",
            self._parts(list(map(_block, pieces))),
            failed=cancelled or failed,
            brief="cancelled" if cancelled else "",
            changes=Changes() if failed or call is None else changes_of(call),
        )
