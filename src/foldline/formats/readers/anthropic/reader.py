"""Reader for chats with messages that consist of content blocks, as in Anthropic's API.

Such files are written by Amp (`amp threads export`), Cline 3 (`ID.messages.json`), older versions of Cline
and its forks (`api_conversation_history.json`), and Goose (JSON lines, `goose session export`). A file may
also contain only the messages. Amp and Goose have their own forms of some blocks.
"""

import re
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlparse

from foldline.formats.base import (
    ForeignSession,
    Json,
    JsonObject,
    bytes_in,
    json_lines,
    object_in,
    parse_document,
)
from foldline.formats.parts import UsageFields, arguments_text, user_messages
from foldline.formats.relist import relist
from foldline.formats.tool_results import changes_of
from foldline.formats.transcript import Transcript
from foldline.history import Damage
from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
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

_BLOCKS = (
    "tool_use",
    "tool_result",
    "toolRequest",
    "toolResponse",
    "thinking",
    "redacted_thinking",
)
"""Types of blocks that never occur in OpenAI chats."""
NO_MESSAGES = "{path} has no chat messages: nothing in it has both a role and content."
_LISTS = ("messages", "conversation")
_CLINE = "api_conversation_history"
_PROGRAM = re.compile(
    r"\s*(?:<(?:environment_details|system-reminder|info-msg|turn-context|explicit_instructions|file_content"
    r"|folder_content|attachedFiles|user_state)\b"
    r"|\[[\w ]+(?: for [^\n]*)?\] Result:|\[TASK RESUMPTION\]|\[ERROR\])"
)
"""Matches the prefixes of texts that these programs themselves write in the role "user"."""
_CACHED = "cache_read_input_tokens|cacheReadInputTokens|cached"
_USAGE = UsageFields(
    input=(
        "input_tokens|inputTokens|prompt",
        _CACHED,
        "cache_creation_input_tokens|cacheCreationInputTokens",
    ),
    output=("output_tokens|outputTokens|completion",),
    cached=_CACHED,
)
_CLINE_USAGE = UsageFields(("inputTokens",), ("outputTokens",), "cacheReadTokens")
_CLINE_TAG = re.compile(
    r'<user_(?:input mode|command slash)="[^>]*>(.*?)</user_(?:input|command)>',
    re.DOTALL,
)
"""Matches the tag that Cline 3 stores around a prompt, but does not send to the model."""


def recognises(records: Sequence[JsonObject]) -> bool:
    """Return whether any message contains blocks as in Anthropic's API."""
    first = records[0] if records else JsonObject()
    of_goose = {"working_dir", "message_count"} <= first.keys()
    of_amp = first.text("id").startswith("T-") and isinstance(
        first.get("messages"), list
    )
    messages = [*records]
    for record in records:
        for name in _LISTS:
            messages += record.objects(name)
    return of_goose or of_amp or any(map(_has_blocks, messages))


def _has_blocks(message: JsonObject) -> bool:
    kinds = {block.kind for block in message.objects("content")}
    return message.role in ("user", "assistant") and not kinds.isdisjoint(_BLOCKS)


def _is_message(record: JsonObject) -> bool:
    has_content = isinstance(record.get("content"), str | list)
    return has_content and record.role in ("user", "assistant", "system")


def read(data: bytes, path: Path) -> ForeignSession:
    """Read a chat. Its indices count entries, not messages."""
    about, messages, damage = _chat(data)
    if not any(map(_is_message, messages)):
        raise FoldlineError(NO_MESSAGES, path=path)
    truncated = _truncated(path, len(messages))
    log = _read_messages(about, messages, truncated, _compaction(path))
    file_name = path.parent.name if path.stem == _CLINE else path.stem
    name = about.first("id", "sessionId") or file_name
    cwd = about.text("working_dir") or _tree(about)
    begun = _time(about, "created")
    notes = [*log.notes()]
    stated = about.count("message_count")
    if stated not in (0, len(messages)):
        notes.insert(
            0,
            f"According to the file, it has {stated:,} messages, but it contains {len(messages):,}.",
        )
    return log.session("anthropic", name, cwd, damage, notes, begun=begun)


def _chat(data: bytes) -> tuple[JsonObject, list[JsonObject], Damage]:
    """Return the chat's metadata, its messages, and the damage found."""
    document = parse_document(data, "messages")
    if document is not None and not _is_message(document):
        messages = document.objects("messages") or document.objects("conversation")
        return document, messages, Damage()
    lines, damage = json_lines(data)
    records = [line.record for line in lines]
    about = JsonObject()
    if records and not _is_message(records[0]):
        about = records.pop(0)
    return about, records, damage


def _truncated(path: Path, count: int) -> range:
    """Return the positions of the messages that Cline no longer sends."""
    if path.stem != _CLINE:
        return range(0)
    data = bytes_in(path.with_name("ui_messages.json"))
    shown = parse_document(data, "messages") or JsonObject()
    for message in reversed(shown.objects("messages")):
        match message.array("conversationHistoryDeletedRange"):
            case [int(first), int(last)] if first <= last < count:
                return range(first, last + 1)
            case [_, _]:
                break
    return range(0)


def _compaction(path: Path) -> JsonObject:
    """Return Cline 3's newest compaction, which is stored in a file next to the messages."""
    name, ending, _ = path.name.partition(".messages.json")
    return (
        object_in(path.with_name(f"{name}.compaction.json")) if ending else JsonObject()
    )


def _tree(about: JsonObject) -> str:
    trees = about.objects("env", "initial", "trees")
    uri = urlparse(trees[0].text("uri") if trees else "")
    return unquote(uri.path) if uri.scheme == "file" else ""


def _time(record: JsonObject, *path: str) -> datetime | None:
    """Parse a time, which may be recorded as text, in seconds or in milliseconds."""
    value = record.at(*path)
    in_seconds = (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and abs(value) < 1e11
    )
    return record.time(*path, unit=1 if in_seconds else 1000)


# --- messages ---------------------------------------------------------------------------------------


def _read_messages(
    about: JsonObject,
    messages: Sequence[JsonObject],
    truncated: range,
    compaction: JsonObject,
) -> Transcript:
    """Convert messages to entries.

    Args:
        truncated: positions of the messages that are no longer sent.
        compaction: a compaction of Cline 3, or an empty object. Its messages replace the first
            `source_message_count` messages.
    """
    log = Transcript("anthropic")
    compacted = compaction.count("source_message_count")
    title = about.first("title", "description").strip()
    if title:
        log.add(Title(title=title))
    prompt = about.pieces("system") or about.pieces("system_prompt")
    texts = [block.text("text") for block in prompt]
    system = "\n".join(filter(None, texts))
    if system:
        log.add(SystemMessage(parts=text_parts(system)))
    hidden = set()
    for place, message in enumerate(messages):
        at = (
            _time(message, "timestamp")
            or _time(message, "ts")
            or _time(message, "created")
        )
        at = at or _time(message, "meta", "sentAt")
        indices = {log.add(entry, at) for entry in _entries(message, log)}
        if place in truncated or _is_hidden(message):
            hidden |= indices
        if place + 1 == compacted:
            context = []
            for new in compaction.objects("messages"):
                context += [
                    entry
                    for entry in _entries(new, log)
                    if isinstance(entry, BaseMessage)
                ]
            if context:
                relist(log, context, _time(compaction, "updated_at"), strategy="cline")
    if hidden:  # Goose and Roo Code store the summary as an ordinary message
        shown = [index for index in log.context() if index not in hidden]
        relist(log, shown, None, strategy="anthropic")
    return log


def _is_hidden(message: JsonObject) -> bool:
    """Return whether a message is marked as no longer sent."""
    is_visible = message.object("metadata").get("agentVisible", True) is not False
    return not is_visible or bool(
        message.get("condenseParent") or message.get("truncationParent")
    )


def _entries(message: JsonObject, log: Transcript) -> Sequence[Entry]:
    blocks = message.pieces("content")
    match message.role:
        case "assistant":
            return [_answer(message, log)]
        case "user":
            results = []
            others = []
            for block in blocks:
                result = _result_in(block)
                if result is None:
                    others.append(_untagged(block))
                else:
                    results.append(_result(result, log))
            prompts = user_messages(_parts(others, log), _is_program)
            return [*results, *prompts] or [log.unknown(message, "user")]
        case "system":
            parts = _parts(blocks, log)
            if any(
                isinstance(entry, UserMessage | AssistantMessage)
                for entry in log.entries.values()
            ):
                return [DeveloperMessage(parts=parts)]
            return [SystemMessage(parts=parts)]
        case _:
            return [log.unknown(message, message.role)]


def _is_program(text: str) -> bool:
    return _PROGRAM.match(text) is not None


def _parts(blocks: Sequence[JsonObject], log: Transcript) -> tuple[Part, ...]:
    return log.parts(
        [block for block in blocks if block.kind != "text" or block.get("text")]
    )


def _untagged(block: JsonObject) -> JsonObject:
    """Return a block without Cline 3's tags."""
    text, tags = _CLINE_TAG.subn(r"\1", block.text("text"))
    return JsonObject({**block, "text": text.strip()}) if tags else block


def _answer(message: JsonObject, log: Transcript) -> AssistantMessage:
    usage = message.object("usage") or message.object("metrics", "tokens")
    model = (
        usage.text("model")
        or message.text("model")
        or message.text("modelInfo", "modelId")
    )
    blocks = list(map(_call, message.pieces("content")))
    return AssistantMessage(
        parts=_parts(blocks, log),
        model=model or None,
        usage=_USAGE.read(usage) or _CLINE_USAGE.read(message.get("metrics")),
        stop_reason="cancelled" if message.at("state", "type") == "cancelled" else None,
    )


def _call(block: JsonObject) -> JsonObject:
    """Convert a Goose call to an Anthropic block."""
    if block.kind != "toolRequest":
        return block
    call = block.object("toolCall", "value") or block.object("toolCall")
    arguments = call.get("arguments")
    return JsonObject(
        type="tool_use",
        id=block.get("id"),
        name=call.get("name"),
        input=arguments,
    )


# --- results ----------------------------------------------------------------------------------------


class _Result(NamedTuple):
    call_id: str
    content: Json
    failed: bool = False
    cancelled: bool = False


def _result(result: _Result, log: Transcript) -> ToolResultMessage:
    parts = _parts(JsonObject(content=result.content).pieces("content"), log)
    return log.result(
        result.call_id,
        parts,
        changes=changes_of,
        failed=result.failed,
        cancelled=result.cancelled,
    )


def _result_in(block: JsonObject) -> _Result | None:
    """Read a tool result from any of these agents.

    Returns None for other blocks.
    """
    content = block.get("content")
    match block.kind:
        case "toolResponse":
            return _goose_result(block)
        case "tool_result" if "run" in block:
            return _amp_result(block.text("toolUseID"), block.object("run"))
        case "tool_result" if "toolUseID" in block:
            return _Result(
                block.text("toolUseID"),
                _output(block, "output"),
                block.get("status") == "error",
            )
        case "tool_result":
            if _is_data(content):
                content = arguments_text(content)
            return _Result(block.text("tool_use_id"), content, block.flag("is_error"))
        case _:
            return None


def _is_data(content: Json) -> bool:
    """Return whether a result is structured data, which the model receives as JSON."""
    pieces = JsonObject(content=content).pieces("content")
    return isinstance(content, dict) or any("type" not in piece for piece in pieces)


def _goose_result(block: JsonObject) -> _Result:
    outcome = block.object("toolResult")
    value = block.object("toolResult", "value")
    content = block.array("toolResult") or outcome.array("value")
    failed = outcome.get("status") == "error" or value.flag("isError")
    return _Result(
        block.text("id"), content or value.get("content", outcome.get("error")), failed
    )


def _amp_result(call_id: str, run: JsonObject) -> _Result:
    status = run.get("status")
    error = run.object("error")
    if status in ("done", None) and not error:
        return _Result(call_id, _output(run, "result"))
    if status == "done" or error:
        return _Result(
            call_id, error.text("message") or _output(run, "error"), failed=True
        )
    return _Result(call_id, run.first("reason", "status"), cancelled=True)


def _output(record: JsonObject, key: str) -> Json:
    """Return a result as a string, blocks or JSON."""
    value = record.get(key)
    blocks = record.objects(key)
    if isinstance(value, str):
        return value
    if blocks and all("type" in block for block in blocks):
        return value
    fields = record.object(key)
    output = fields.first("output", "content") or fields.array("content")
    if output or value is None or fields.get("content") == "":
        return output or ""
    return arguments_text(value)
