"""What Claude Code's records say: answers from their pieces, tool results, who speaks, and compactions."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Literal

from foldline.context.files import file_lists
from foldline.formats.base import Json, JsonObject
from foldline.formats.parts import ANTHROPIC_USAGE, arguments_of, image, stop_reason, text_in
from foldline.formats.tool_results import FILE_TOOLS, Changes, edit_of, line_count
from foldline.formats.tool_results import tool_result as result_of
from foldline.formats.transcript import Transcript
from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    Compaction,
    DeveloperMessage,
    FileTouch,
    ImagePart,
    NoticeRecord,
    Part,
    TextPart,
    ToolCallPart,
    ToolResultMessage,
    Usage,
    UserMessage,
)

_EXIT_CODE = re.compile(r"(?:Error: )?Exit code (\d+)")
_NOT_RUN = re.compile(r"The user doesn't want to (?:proceed|take)|<tool_use_error>Sibling tool call errored")


def is_boundary(record: JsonObject) -> bool:
    return record.get("type") == "system" and record.get("subtype") == "compact_boundary"


def is_summary(record: JsonObject) -> bool:
    return record.get("type") == "user" and record.flag("isCompactSummary")


def blocks_of(record: JsonObject) -> list[JsonObject]:
    return record.pieces("message", "content")


def text_of(record: JsonObject) -> str:
    return "\n".join(block.text("text") for block in blocks_of(record))


def parts_of(log: Transcript, blocks: Sequence[JsonObject]) -> tuple[Part, ...]:
    shown = [block for block in blocks if block.get("type") != "text" or block.get("text")]
    return log.parts(shown)


# --- answers and results ----------------------------------------------------------------------------


def answer(log: Transcript, pieces: Sequence[JsonObject]) -> AssistantMessage:
    """One answer, from the records that its pieces were written to as they came.

    The first pieces carry the usage as it stood when the answer began: the one with most output is the last.
    """
    if any(piece.flag("isApiErrorMessage") for piece in pieces):
        text = "\n".join(map(text_of, pieces))
        return AssistantMessage(stop_reason="error", error=text or "the request failed")
    usages = filter(None, (usage_of(piece.object("message", "usage")) for piece in pieces))
    models = filter(None, (piece.text("message", "model") for piece in pieces))
    reasons = (stop_reason(piece.text("message", "stop_reason")) for piece in reversed(pieces))
    parts = parts_of(log, [block for piece in pieces for block in blocks_of(piece)])
    return AssistantMessage(
        parts=_each_call_once(parts),
        model=next((model for model in models if model != "<synthetic>"), None),
        usage=max(usages, key=lambda usage: usage.output, default=None),
        stop_reason=next(filter(None, reasons), None),
    )


def _each_call_once(parts: Sequence[Part]) -> tuple[Part, ...]:
    calls: set[str] = set()
    kept: list[Part] = []
    for part in parts:
        if not isinstance(part, ToolCallPart):
            kept.append(part)
        elif part.call_id not in calls:
            calls.add(part.call_id)
            kept.append(part)
    return tuple(kept)


def usage_of(usage: JsonObject) -> Usage | None:
    """The size of the last request. Where tools ran at the provider's, an answer took several requests, and
    the totals add up what each sent anew; a request to an advisor is none of this conversation's."""
    requests = [each for each in usage.objects("iterations") if each.get("type") == "message"]
    return (ANTHROPIC_USAGE.read(requests[-1]) if requests else None) or ANTHROPIC_USAGE.read(usage)


def tool_result(log: Transcript, block: JsonObject, noted: JsonObject) -> ToolResultMessage:
    """The result in a block. `noted` is what the program wrote down about the run."""
    call_id, is_error = block.text("tool_use_id"), block.flag("is_error")
    call, parts = log.calls.get(call_id), parts_of(log, block.pieces("content"))
    changes = _changes(call, noted, is_error)
    return result_of(
        call_id,
        call.name if call else "",
        parts,
        failed=is_error,
        brief=_failure(text_in(parts)) if is_error else _brief(changes, parts),
        changes=changes,
        milliseconds=noted.count("durationMs") or noted.count("totalDurationMs"),
        full_output=noted.text("persistedOutputPath"),
    )


def _changes(call: ToolCallPart | None, noted: JsonObject, is_error: bool) -> Changes:
    diff, name = _diff(noted), call.name if call else ""
    arguments = arguments_of(call)
    path = (
        noted.text("filePath")
        or noted.text("file", "filePath")
        or arguments.first("file_path", "notebook_path")
    )
    if not path or is_error or name not in FILE_TOOLS:
        return Changes(diff=diff or None)
    if FILE_TOOLS[name] == "read":
        return Changes((FileTouch(path=path, action="read"),), diff or None)
    if name == "Write" and not diff:
        written = (noted.text("content") or arguments.text("content")).splitlines()
        return Changes((FileTouch(path=path, action="modified", added=len(written)),))
    return edit_of(path, diff)


def _diff(noted: JsonObject) -> str:
    lines: list[str] = []
    for hunk in noted.objects("structuredPatch"):
        old, new = (f"{hunk.count(side + 'Start')},{hunk.count(side + 'Lines')}" for side in ("old", "new"))
        lines += [f"@@ -{old} +{new} @@", *hunk.texts("lines")]
    path = noted.text("filePath")
    return "\n".join([f"--- {path}", f"+++ {path}", *lines, ""]) if lines else ""


def _failure(text: str) -> str:
    if exit_code := _EXIT_CODE.match(text):
        return f"exit {exit_code[1]}"
    return "not run" if _NOT_RUN.match(text) else "failed"


def _brief(changes: Changes, parts: Sequence[Part]) -> str:
    [touch, *_] = changes.files or (None,)
    if touch is not None and changes.diff:
        return f"+{touch.added} −{touch.removed}"
    if touch is not None and touch.action == "modified" and touch.added:
        return f"{touch.added} line" if touch.added == 1 else f"{touch.added} lines"
    return line_count(text_in(parts))


# --- who speaks -------------------------------------------------------------------------------------

Voice = Literal["typed", "shell", "command", "program"]

_SHELL = re.compile(r"\s*<bash-(?:input|stdout|stderr)>")
_COMMAND = re.compile(r"\s*<command-(?:name|message)>")
_PROGRAM = re.compile(
    r"\s*(?:<(?:local-command-\w+|system-reminder|task-notification|bash-notification|teammate-message"
    r"|ide_\w+|user-prompt-submit-hook|channel|tick)\b[^>]*>"
    r"|\[Request interrupted by user|Operation stopped by hook:|Stop hook feedback:)"
)
"""How texts begin that the program writes in the user's name."""
_NEVER_SENT = frozenset({
    "already_read_file", "command_permissions", "hook_cancelled", "hook_error_during_execution",
    "hook_non_blocking_error", "hook_permission_decision", "hook_system_message", "max_turns_reached",
    "prompt_snapshot", "structured_output",
})  # fmt: skip
"""Kinds of attachments that are meant for people or for the program's own use."""
_HOOKS_THAT_SPEAK = frozenset({"SessionStart", "UserPromptSubmit"})
"""The model is shown what hooks print at these moments only."""
_TEXT_KEYS = (
    "content", "text", "prompt", "file", "snippet", "message", "subject", "planContent", "addedBlocks",
    "addedLines", "blockingError", "memories", "skills",
)  # fmt: skip
_DEPTH = 6
"""How deep in an attachment text is looked for; the deepest known lies at 4."""


def said_by_user(log: Transcript, record: JsonObject, blocks: Sequence[JsonObject]) -> list[BaseMessage]:
    voices = groupby(blocks, key=lambda block: _voice(record, block.text("text")))
    spoken = ((voice, parts_of(log, list(group))) for voice, group in voices)
    return [_message(voice, parts) for voice, parts in spoken if parts]


def _voice(record: JsonObject, text: str) -> Voice:
    """Who says this text of a row. What nobody else is known to have written, the user has typed."""
    if _SHELL.match(text):
        return "shell"
    if _COMMAND.match(text) or "planContent" in record:
        return "command"
    by_program = record.flag("isMeta") or record.flag("isCompactSummary")
    if by_program or record.text("origin", "kind") not in ("", "human") or _PROGRAM.match(text):
        return "program"
    return "typed"


def _message(voice: Voice, parts: tuple[Part, ...]) -> BaseMessage:
    """A message in this voice. A command, or an accepted plan, asks for an answer as a request does."""
    if voice in ("typed", "shell"):
        return UserMessage(parts=parts, origin="shell" if voice == "shell" else "typed")
    if voice == "command" or any(isinstance(part, ImagePart) for part in parts):
        return UserMessage(parts=parts, origin="machine")
    return DeveloperMessage(parts=parts, origin="notice")


def attached(record: JsonObject) -> BaseMessage | None:
    """What an attachment tells the model; None where it tells nothing, or the file does not hold the text.

    From 2.1.332 on the record holds the text as it is sent; a model that takes no system message between
    others gets it in the role user.
    """
    attachment = record.object("attachment")
    if not is_for_model(attachment):
        return None
    rendered = [piece for each in record.objects("rendered") for piece in each.pieces("content")]
    typed = attachment.get("type") == "queued_command" and attachment.get("commandMode", "prompt") == "prompt"
    parts = parts_of(Transcript(""), rendered)
    if parts and typed:
        return UserMessage(parts=parts)
    if parts:
        role: Literal["system", "user"] = "user" if record.text("renderedRole") == "user" else "system"
        path = attachment.first("path", "filename")
        return DeveloperMessage(parts=parts, source=path or None, role=role)
    if attachment.get("type") == "queued_command":
        return _queued(attachment)
    content = attachment.object("content")
    if content.get("type") == "image":
        picture = image(content.text("file", "base64"), content.text("file", "type"))
        if picture is not None:
            return UserMessage(parts=(picture,), origin="machine")
    text = "\n".join(text for text in _texts(attachment, _DEPTH) if text.strip())
    path = attachment.first("path", "filename")
    return DeveloperMessage(parts=(TextPart(text=text),), source=path or None) if text else None


def is_for_model(attachment: JsonObject) -> bool:
    if attachment.get("type") == "hook_success":
        return attachment.text("hookEvent") in _HOOKS_THAT_SPEAK and bool(attachment.text("content"))
    return attachment.text("type") not in _NEVER_SENT


def _queued(attachment: JsonObject) -> BaseMessage | None:
    """A message that came while the model worked: the user's, or a report of something in the background."""
    parts = parts_of(Transcript(""), attachment.pieces("prompt"))
    typed = attachment.get("commandMode", "prompt") == "prompt"
    return _message(_voice(attachment, text_in(parts)) if typed else "program", parts) if parts else None


def _texts(value: Json, depth: int) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif depth and isinstance(value, list):
        for item in value:
            yield from _texts(item, depth - 1)
    elif depth and isinstance(value, dict):
        for key in _TEXT_KEYS:
            if key in value:
                yield from _texts(value[key], depth - 1)


def notice(record: JsonObject) -> NoticeRecord | None:
    text = record.text("content") or record.object("error").first("formatted", "message")
    level = record.get("level")
    level = level if level in ("info", "warning", "error") else "info"
    return NoticeRecord(text=text, level=level) if text else None


# --- compactions ------------------------------------------------------------------------------------

CLEARED = "[Old tool result content cleared]"
"""What the model sees in the place of a result that Claude Code took out of its context."""


class Compactions:
    """Makes the compactions: of a boundary record, a summary record, and what both say about what was kept.

    Versions before 2 write the summary without a boundary. Newer ones also take single tool results out of
    the context, or shorten them: compactions without a summary. `chain` is the parent of each record, by id.
    """

    def __init__(self, log: Transcript, chain: Mapping[str, str]) -> None:
        self.without_summary = 0
        self.lost_kept = 0
        self._log = log
        self._chain = chain
        self._of_record: dict[str, list[int]] = defaultdict(list)

    def add(self, message: BaseMessage, records: Sequence[str]) -> None:
        for uuid in records:
            self._of_record[uuid].append(message.index)

    def compaction(self, index: int, boundary: JsonObject, summary: Sequence[Part]) -> Compaction:
        """The one at this index. A boundary without fields is one that the file does not have."""
        self.without_summary += not summary
        kept = self._kept(boundary)
        metadata = boundary.object("compactMetadata")
        preserved = metadata.object("preservedMessages") or metadata.object("preservedSegment")
        # The kept ones follow an anchor: the boundary itself where they stand before the summary.
        is_ahead = (preserved.text("anchorUuid") or "the summary") == boundary.get("uuid")
        return self._log.compaction(
            index,
            summary,
            () if is_ahead else kept,
            ahead=kept if is_ahead else (),
            strategy="claude-code",
            tokens_before=metadata.count("preTokens"),
            tokens_after=metadata.count("postTokens"),
            details=file_lists(self._log.projection),
            reason="threshold" if metadata.get("trigger") == "auto" else "manual",
            focus=metadata.text("userContext") or None,
        )

    def _kept(self, boundary: JsonObject) -> list[int]:
        """The messages that were kept word for word, tool groups whole, in their order."""
        records = _kept_records(boundary.object("compactMetadata"), self._chain)
        self.lost_kept += records is None
        named = (index for uuid in records or () for index in self._of_record.get(uuid, ()))
        return self._log.whole_groups(named)

    def cleared(self, index: int, record: JsonObject) -> Compaction | None:
        metadata = record.object("microcompactMetadata")
        contents = dict.fromkeys(filter(None, metadata.texts("compactedToolIds")), CLEARED)
        return self._replaced(index, contents, "hidden", metadata.count("preTokens"))

    def shortened(self, index: int, record: JsonObject) -> Compaction | None:
        replacements = record.objects("replacements")
        contents = {one.text("toolUseId"): one.text("replacement") for one in replacements}
        return self._replaced(index, contents, "clipped", 0)

    def _replaced(
        self, index: int, contents: Mapping[str, str], fate: Literal["hidden", "clipped"], tokens_before: int
    ) -> Compaction | None:
        messages = ((place, self._log.entries[place]) for place in self._log.messages())
        texts = {
            place: contents[message.call_id]
            for place, message in messages
            if isinstance(message, ToolResultMessage) and message.call_id in contents
        }
        if not texts:
            return None
        return self._log.compaction(
            index,
            (),
            self._log.context(),
            contents=texts,
            fate=fate,
            strategy="claude-code",
            reason="threshold",
            tokens_before=tokens_before,
            details=file_lists(self._log.projection),
        )


def _kept_records(metadata: JsonObject, chain: Mapping[str, str]) -> Sequence[str] | None:
    """The ids of the kept records; None where some cannot be found.

    Newer versions list them. Older ones name the first and the last of a chain.
    """
    if listed := metadata.object("preservedMessages"):
        uuids = listed.texts("uuids")
        return uuids if all(uuid in chain for uuid in uuids) else None
    if not (segment := metadata.object("preservedSegment")):
        return []
    walked: dict[str, None] = {}
    uuid, head = segment.text("tailUuid"), segment.text("headUuid")
    while uuid in chain and uuid not in walked:
        walked[uuid] = None
        if uuid == head:
            return list(walked)
        uuid = chain[uuid]
    return None
