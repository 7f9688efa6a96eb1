"""Reader for chats whose messages hold blocks as Anthropic's API has them: of Amp (`amp threads export`), of
Cline 3 (`ID.messages.json`), of Cline and its kin before (`api_conversation_history.json`), of Goose (JSON
lines, `goose session export`), or bare.

Amp and Goose spell some blocks in their own way: here they become Anthropic's first.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from urllib.parse import unquote, urlparse

from foldline.formats.base import ForeignSession, Json, JsonObject, bytes_in, json_lines, parse_document
from foldline.formats.parts import UsageFields, arguments_text, user_messages
from foldline.formats.tool_results import Changes, changes_of, tool_result
from foldline.formats.transcript import Transcript
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
_CLINE_USAGE = UsageFields(("inputTokens",), ("outputTokens",), "cacheReadTokens")
_CLINE_TAG = re.compile(
    r'<user_(?:input mode|command slash)="[^>]*>(.*?)</user_(?:input|command)>', re.DOTALL
)
"""What Cline 3 stores around a prompt, and does not send."""


def recognises(records: Sequence[JsonObject]) -> bool:
    """Whether these are chat messages with blocks of Anthropic's, or objects that hold some."""
    first = records[0] if records else JsonObject()
    of_goose = {"working_dir", "message_count"} <= first.keys()
    of_amp = first.text("id").startswith("T-") and isinstance(first.get("messages"), list)
    inside = (one for record in records for name in _LISTS for one in record.objects(name))
    return of_goose or of_amp or any(map(_has_blocks, (*records, *inside)))


def _has_blocks(message: JsonObject) -> bool:
    return message.get("role") in ("user", "assistant") and any(
        block.get("type") in _BLOCKS for block in message.objects("content")
    )


def _is_message(record: JsonObject) -> bool:
    return record.get("role") in ("user", "assistant", "system") and isinstance(
        record.get("content"), str | list
    )


def read(data: bytes, path: Path) -> ForeignSession:
    """A chat. An index counts entries: a message may be several of ours."""
    about, records, damage = _chat(data)
    if not any(map(_is_message, records)):
        raise FoldlineError(f"{path} holds no chat messages: nothing in it has a role and content.")
    reader = _Reader()
    log = reader.log
    if title := about.first("title", "description").strip():
        log.add(Title(title=title))
    prompt = about.pieces("system") or about.pieces("system_prompt")
    if system := "\n".join(filter(None, (block.text("text") for block in prompt))):
        log.add(SystemMessage(parts=text_parts(system)))
    spans = [reader.read(record) for record in records]
    reader.hide(spans, _truncated(path))
    name = about.first("id", "sessionId") or (path.parent.name if path.stem == _CLINE else path.stem)
    cwd, begun = about.text("working_dir") or _tree(about), _time(about, "created")
    stated = about.count("message_count")
    differs = f"The file says that it has {stated:,} messages, and holds {len(records):,}."
    missing = [differs] if stated and stated != len(records) else []
    return log.session("anthropic", name, cwd, damage, (*missing, *log.notes()), begun=begun)


def _chat(data: bytes) -> tuple[JsonObject, list[JsonObject], Damage]:
    document = parse_document(data, "messages")
    if document is not None and not _is_message(document):
        return document, next(filter(None, map(document.objects, _LISTS)), []), Damage()
    lines, damage = json_lines(data)
    records = [line.record for line in lines]
    about = records.pop(0) if records and not _is_message(records[0]) else JsonObject()
    return about, records, damage


def _truncated(path: Path) -> tuple[int, int] | None:
    """The messages that Cline no longer sends: its `ui_messages.json`, beside the chat, says which."""
    if path.stem != _CLINE:
        return None
    beside = parse_document(bytes_in(path.with_name("ui_messages.json")), "messages")
    shown = beside.objects("messages") if beside else []
    spans = [message.array("conversationHistoryDeletedRange") for message in shown]
    first, last = next((span for span in reversed(spans) if len(span) == 2), (None, None))
    return (first, last) if isinstance(first, int) and isinstance(last, int) else None


def _tree(about: JsonObject) -> str:
    trees = about.objects("env", "initial", "trees")
    uri = urlparse(trees[0].text("uri") if trees else "")
    return unquote(uri.path) if uri.scheme == "file" else ""


def _time(record: JsonObject, *path: str) -> datetime | None:
    """A moment, from text, or seconds or milliseconds since 1970."""
    value = record.at(*path)
    in_seconds = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e11
    return record.time(*path, unit=1 if in_seconds else 1000)


# --- blocks -----------------------------------------------------------------------------------------


def _block(block: JsonObject) -> JsonObject:
    match block.get("type"):
        case "toolRequest":
            call = block.object("toolCall", "value") or block.object("toolCall")
            arguments = call.get("arguments")
            return JsonObject(type="tool_use", id=block.get("id"), name=call.get("name"), input=arguments)
        case "toolResponse":
            return JsonObject(type="tool_result", tool_use_id=block.get("id"), **_goose(block))
        case "tool_result" if "run" in block:
            return JsonObject(
                type="tool_result", tool_use_id=block.get("toolUseID"), **_amp(block.object("run"))
            )
        case "tool_result" if "toolUseID" in block:
            result = {"content": _written(block, "output"), "is_error": block.get("status") == "error"}
            return JsonObject(type="tool_result", tool_use_id=block.get("toolUseID"), **result)
        case "tool_result" if _is_data(block.get("content")):
            return JsonObject({**block, "content": arguments_text(block.get("content"))})
        case _:
            return block


def _untagged(block: JsonObject) -> JsonObject:
    """A piece of a prompt as Cline 3 sends it."""
    bare, tags = _CLINE_TAG.subn(r"\1", block.text("text"))
    return JsonObject({**block, "text": bare.strip()}) if tags else block


def _is_data(content: Json) -> bool:
    """Whether a result is no content of a message: Cline 3 sends its JSON."""
    return isinstance(content, dict) or any(
        "type" not in piece for piece in JsonObject(content=content).pieces("content")
    )


def _goose(block: JsonObject) -> dict[str, Json]:
    """A result of Goose: the content itself, or under `value`, or there under `content`."""
    outcome, inner = block.object("toolResult"), block.object("toolResult", "value")
    content = block.array("toolResult") or outcome.array("value")
    return {
        "content": content or inner.get("content", outcome.get("error")),
        "is_error": outcome.get("status") == "error" or inner.flag("isError"),
    }


def _amp(run: JsonObject) -> dict[str, Json]:
    status, error = run.get("status"), run.object("error")
    if status in ("done", None) and not error:
        return {"content": _written(run, "result")}
    if status == "done" or error:
        return {"content": error.text("message") or _written(run, "error"), "is_error": True}
    return {"content": run.first("reason", "status"), "is_error": True, "is_cancelled": True}


def _written(record: JsonObject, key: str) -> Json:
    """A result as content: text or blocks, else as JSON; of an object, what it says was put out."""
    value, blocks = record.get(key), record.objects(key)
    if isinstance(value, str) or (blocks and all("type" in block for block in blocks)):
        return value
    inner = record.object(key)
    said = inner.first("output", "content") or inner.array("content")
    return said or ("" if value is None or inner.get("content") == "" else arguments_text(value))


# --- messages ---------------------------------------------------------------------------------------


@dataclass
class _Reader:
    log: Transcript = field(default_factory=lambda: Transcript("anthropic"))
    _hidden: set[int] = field(default_factory=set)
    """The entries that are not sent to the model any more."""

    def read(self, message: JsonObject) -> tuple[int, int]:
        start = len(self.log.entries)
        times = (("timestamp",), ("ts",), ("created",), ("meta", "sentAt"))
        at = next(filter(None, (_time(message, *path) for path in times)), None)
        for entry in self._entries(message):
            self.log.add(entry, at)
        end = len(self.log.entries)
        seen = message.object("metadata").get("agentVisible", True) is not False
        if not seen or message.get("condenseParent") or message.get("truncationParent"):
            self._hidden.update(range(start, end))
        return start, end

    def hide(self, spans: Sequence[tuple[int, int]], gone: tuple[int, int] | None) -> None:
        """What is not sent any more leaves the context: of these messages the first and the last `gone`, and
        what says so itself. The summary of Goose or Roo Code is a message like others."""
        if gone is not None and gone[0] <= gone[1] < len(spans):
            self._hidden.update(range(spans[gone[0]][0], spans[gone[1]][1]))
        stays = [index for index in self.log.context() if index not in self._hidden]
        self.log.relist(stays, None, strategy="anthropic")

    def _entries(self, message: JsonObject) -> Sequence[Entry]:
        blocks = list(map(_block, message.pieces("content")))
        unknown = self.log.unknown(message, message.text("role"))
        match message.get("role"):
            case "assistant":
                return [self._answer(message, blocks)]
            case "user":
                results = [self._result(block) for block in blocks if block.get("type") == "tool_result"]
                others = self._parts(
                    [_untagged(block) for block in blocks if block.get("type") != "tool_result"]
                )
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
        return self.log.parts(shown)

    def _answer(self, message: JsonObject, blocks: Sequence[JsonObject]) -> AssistantMessage:
        usage = message.object("usage") or message.object("metrics", "tokens")
        models = (usage.text("model"), message.text("model"), message.text("modelInfo", "modelId"))
        return AssistantMessage(
            parts=self._parts(blocks),
            model=next(filter(None, models), None),
            usage=_USAGE.read(usage) or _CLINE_USAGE.read(message.get("metrics")),
            stop_reason="cancelled" if message.at("state", "type") == "cancelled" else None,
        )

    def _result(self, block: JsonObject) -> ToolResultMessage:
        call_id = block.text("tool_use_id")
        call = self.log.calls.get(call_id)
        cancelled, failed = bool(block.get("is_cancelled")), block.flag("is_error")
        return tool_result(
            call_id,
            call.name if call else "",
            self._parts(list(map(_block, block.pieces("content")))),
            failed=cancelled or failed,
            brief="cancelled" if cancelled else "",
            changes=Changes() if failed or call is None else changes_of(call),
        )
