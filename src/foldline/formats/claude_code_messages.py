"""The messages inside Claude Code's records: parts, answers put together from their pieces, tool results."""

import re
from collections.abc import Sequence

from foldline.protocol import (
    AssistantMessage,
    FileTouch,
    ImagePart,
    Part,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolDetails,
    ToolResultMessage,
    Usage,
    text_parts,
)
from foldline.protocol.messages import StopReason

from .base import Json, JsonObject, as_count, as_list, as_object, as_text
from .chat_parts import arguments_text, line_count, shown
from .claude_code_branch import blocks_of

Calls = dict[str, ToolCallPart]
"""The tool calls made so far, by id."""

_STOP_REASONS: dict[str, StopReason] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "filtered",
}
_READING = frozenset({"Read", "NotebookRead"})
_WRITING = frozenset({"Write", "Edit", "MultiEdit", "NotebookEdit"})
_EXIT_CODE = re.compile(r"(?:Error: )?Exit code (\d+)")
_NOT_RUN = re.compile(r"The user doesn't want to (?:proceed|take)|<tool_use_error>Sibling tool call errored")


def parts_of(blocks: Sequence[JsonObject]) -> tuple[tuple[Part, ...], list[str]]:
    """The parts of these blocks, and the kinds of those left out."""
    return shown([block for block in blocks if block.get("type") != "text" or block.get("text")], _part)


def _part(block: JsonObject) -> Part | None:
    match block.get("type"):
        case "text":
            return TextPart(text=as_text(block.get("text")))
        case "thinking":
            signature = as_text(block.get("signature")) or None
            return ThinkingPart(text=as_text(block.get("thinking")), signature=signature)
        case "tool_use":
            return ToolCallPart(
                call_id=as_text(block.get("id")),
                name=as_text(block.get("name")),
                arguments=arguments_text(block.get("input")),
            )
        case "image":
            source = as_object(block.get("source"))
            return image(source.get("data"), source.get("media_type"))
        case "tool_reference" if as_text(block.get("tool_name")):
            return TextPart(text=f"(loaded the tool {as_text(block.get('tool_name'))})")
        case _:
            return None


def image(data: Json, media_type: Json) -> ImagePart | None:
    if not as_text(data):
        return None
    return ImagePart(media_type=as_text(media_type) or "image/png", data=as_text(data))


def answer(pieces: Sequence[JsonObject]) -> tuple[AssistantMessage, list[str]]:
    """One answer, from the records that its pieces were written to as they came; and the blocks left out.

    The first pieces carry the usage as it stood when the answer began: the one with most output is the last.
    """
    messages = [as_object(piece.get("message")) for piece in pieces]
    if any(piece.get("isApiErrorMessage") is True for piece in pieces):
        text = "\n".join(as_text(block.get("text")) for piece in pieces for block in blocks_of(piece))
        return AssistantMessage(stop_reason="error", error=text or "the request failed"), []
    parts, left_out = parts_of([block for piece in pieces for block in blocks_of(piece)])
    usages = [usage for message in messages if (usage := _usage(as_object(message.get("usage"))))]
    models = [model for message in messages if (model := as_text(message.get("model")))]
    reasons = [
        reason
        for message in messages
        if (reason := _STOP_REASONS.get(as_text(message.get("stop_reason")))) is not None
    ]
    whole = AssistantMessage(
        parts=_each_call_once(parts),
        model=next((model for model in models if model != "<synthetic>"), None),
        usage=max(usages, key=lambda usage: usage.output, default=None),
        stop_reason=reasons[-1] if reasons else None,
    )
    return whole, left_out


def _each_call_once(parts: Sequence[Part]) -> tuple[Part, ...]:
    calls: set[str] = set()
    kept: list[Part] = []
    for part in parts:
        if isinstance(part, ToolCallPart):
            if part.call_id in calls:
                continue
            calls.add(part.call_id)
        kept.append(part)
    return tuple(kept)


def _usage(usage: JsonObject) -> Usage | None:
    """The size of the last request. Where tools ran at the provider's, an answer took several requests, and
    the totals add up what each sent anew; a request to an advisor is none of this conversation's."""
    requests = [
        each for each in map(as_object, as_list(usage.get("iterations"))) if each.get("type") == "message"
    ]
    return (_reported(requests[-1]) if requests else None) or _reported(usage)


def _reported(usage: JsonObject) -> Usage | None:
    cached = as_count(usage.get("cache_read_input_tokens"))
    reported = Usage(
        input=as_count(usage.get("input_tokens"))
        + cached
        + as_count(usage.get("cache_creation_input_tokens")),
        cached=cached,
        output=as_count(usage.get("output_tokens")),
    )
    return reported if reported.total else None


def tool_result(block: JsonObject, outcome: Json, calls: Calls) -> tuple[ToolResultMessage, list[str]]:
    """The result in a block, and the pieces left out. `outcome` is what the program noted about the run."""
    call_id, is_error = as_text(block.get("tool_use_id")), block.get("is_error") is True
    call = calls.get(call_id)
    name = call.name if call else ""
    content = block.get("content")
    parts, left_out = (
        (text_parts(content), [])
        if isinstance(content, str)
        else parts_of([as_object(piece) for piece in as_list(content)])
    )
    noted = as_object(outcome)
    diff = _diff(noted)
    touch = None if is_error else _touch(name, noted, call.parsed() if call else {}, diff)
    text = "\n".join(part.text for part in parts if isinstance(part, TextPart))
    milliseconds = as_count(noted.get("durationMs")) or as_count(noted.get("totalDurationMs"))
    result = ToolResultMessage(
        call_id=call_id,
        name=name,
        is_error=is_error,
        parts=parts,
        details=ToolDetails(
            brief=_brief(text, is_error, touch, diff),
            seconds=milliseconds / 1000 if milliseconds else None,
            files=(touch,) if touch else (),
            diff=diff,
            full_output=as_text(noted.get("persistedOutputPath")) or None,
        ),
    )
    return result, left_out


def _touch(name: str, noted: JsonObject, arguments: JsonObject, diff: str | None) -> FileTouch | None:
    """The file a successful call read or changed; None for other tools."""
    path = (
        as_text(noted.get("filePath"))
        or as_text(as_object(noted.get("file")).get("filePath"))
        or as_text(arguments.get("file_path"))
        or as_text(arguments.get("notebook_path"))
    )
    if not path:
        return None
    if name in _READING:
        return FileTouch(path=path, action="read")
    if name not in _WRITING:
        return None
    added, removed = _changed_lines(diff or "")
    if name == "Write" and not diff:
        added = len((as_text(noted.get("content")) or as_text(arguments.get("content"))).splitlines())
    return FileTouch(path=path, action="modified", added=added, removed=removed)


def _diff(noted: JsonObject) -> str | None:
    """A unified diff of the noted hunks."""
    lines: list[str] = []
    for hunk in map(as_object, as_list(noted.get("structuredPatch"))):
        old, new = (
            f"{as_count(hunk.get(side + 'Start'))},{as_count(hunk.get(side + 'Lines'))}"
            for side in ("old", "new")
        )
        lines += [f"@@ -{old} +{new} @@", *map(as_text, as_list(hunk.get("lines")))]
    if not lines:
        return None
    path = as_text(noted.get("filePath"))
    return "\n".join([f"--- {path}", f"+++ {path}", *lines, ""])


def _changed_lines(diff: str) -> tuple[int, int]:
    body = diff.split("\n")[2:]
    return sum(line.startswith("+") for line in body), sum(line.startswith("-") for line in body)


def _brief(text: str, is_error: bool, touch: FileTouch | None, diff: str | None) -> str:
    """The outcome in a few words."""
    if is_error:
        exit_code = _EXIT_CODE.match(text)
        if exit_code:
            return f"exit {exit_code[1]}"
        return "not run" if _NOT_RUN.match(text) else "failed"
    if touch is not None and diff:
        return f"+{touch.added} −{touch.removed}"
    if touch is not None and touch.action == "modified" and touch.added:
        return f"{touch.added} line" if touch.added == 1 else f"{touch.added} lines"
    return line_count(text)
