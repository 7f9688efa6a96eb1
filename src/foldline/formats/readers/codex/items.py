"""Converts the items of a Codex session, which are those of OpenAI's Responses API.

These are messages, calls, results and contexts.
"""

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from foldline.formats.base import Json, JsonObject
from foldline.formats.parts import (
    UsageFields,
    arguments_of,
    arguments_text,
    by_voice,
    call_part,
    parts_of,
    text_in,
)
from foldline.formats.tool_results import Changes, line_count, patched, touched
from foldline.formats.tool_results import tool_result as result_of
from foldline.formats.transcript import Transcript
from foldline.json_text import parse_json
from foldline.memory.facts import strings
from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    DeveloperMessage,
    ImagePart,
    Part,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultMessage,
    UserMessage,
    is_typed,
    text_parts,
)

RESULTS = (
    "function_call_output",
    "custom_tool_call_output",
    "local_shell_call_output",
    "tool_search_output",
)
ON_THE_SERVER = ("web_search_call", "image_generation_call")
"""Types of calls that run on OpenAI's servers. They have no result item."""
USAGE = UsageFields(
    ("input_tokens",),
    ("output_tokens",),
    "cached_input_tokens",
    "reasoning_output_tokens",
)

_SUMMARIES = ("compaction", "compaction_summary", "context_compaction")
"""Types of items that contain an encrypted summary."""
_UNRECORDED = "(This ran on the provider's servers; its result is not in the file.)"
_FRAGMENT = re.compile(
    r"\s*<([A-Za-z][\w-]*)(?:[\s=][^<>]*)?>.*</\1[^<>]*>\s*", re.DOTALL
)
"""Matches text that consists of a single XML element.

Codex marks its own text in the role "user" this way.
"""
_INSTRUCTIONS = re.compile(
    r"\s*# AGENTS\.md instructions(?: for (?P<folder>[^\n]+))?|\s*<user_instructions>"
)
_SHELL = re.compile(r"\s*<user_shell_command>")
_EXIT_CODE = re.compile(
    r"^(?:Process exited with code|Exit code:) (-?\d+)$", re.MULTILINE
)
_SECONDS = re.compile(r"^Wall time:? ([\d.]{1,12}) seconds$", re.MULTILINE)
_OUTPUT = re.compile(r"^Output:\n?", re.MULTILINE)
_HEADER = 400
"""Number of characters at the start of a result that are searched for lines about the run."""
_READS = ("view_image", "read_file")
_PIECES = ("input_text", "output_text", "text", "input_image", "encrypted_content")


# --- messages ---------------------------------------------------------------------------------------


def user_messages(
    content: Json,
    prompts: frozenset[str],
    left_out: list[str],
    *,
    trusted: bool,
) -> list[BaseMessage]:
    """Return one message for each author in an item.

    Args:
        prompts: the prompts that were reported by events.
        trusted: whether `prompts` contains everything that the user typed.
    """
    parts = parts_of(content, left_out)
    texts = [part.text for part in parts if isinstance(part, TextPart)]
    if not prompts.isdisjoint((*texts, "".join(texts), "\n".join(texts))):
        return [UserMessage(parts=parts)]
    messages: list[BaseMessage] = []
    for author, its_parts in by_voice((_author(part), part) for part in parts):
        match author:
            case "instructions":
                messages += map(_instructions, its_parts)
            case "fragment":
                messages.append(DeveloperMessage(parts=its_parts))
            case "shell":
                messages.append(UserMessage(origin="shell", parts=its_parts))
            case _:
                messages.append(
                    UserMessage(
                        origin="machine" if trusted else "typed", parts=its_parts
                    )
                )
    return messages


def _author(part: Part) -> str:
    if not isinstance(part, TextPart):
        return "other"
    if _INSTRUCTIONS.match(part.text):
        return "instructions"
    if _SHELL.match(part.text):
        return "shell"
    return "fragment" if _FRAGMENT.fullmatch(part.text) else "other"


def _instructions(part: Part) -> DeveloperMessage:
    heading = _INSTRUCTIONS.match(part.text) if isinstance(part, TextPart) else None
    folder = (heading["folder"] or "").strip() if heading else ""
    source = f"{folder}/AGENTS.md" if folder else "AGENTS.md"
    return DeveloperMessage(origin="instructions", source=source, parts=(part,))


def thinking(item: JsonObject) -> ThinkingPart | None:
    """Return the reasoning in an item.

    Returns None if it is encrypted.
    """
    for name in ("content", "summary"):
        texts = [piece.text("text") for piece in item.objects(name)]
        if any(texts):
            return ThinkingPart(text="\n\n".join(filter(None, texts)))
    return None


# --- calls ------------------------------------------------------------------------------------------


def call_of(item: JsonObject, position: int) -> ToolCallPart | None:
    """Return the tool call in an item.

    Returns None for other items.

    Arguments that are not JSON, such as a patch, become the argument `input`.
    """
    name = item.text("name")
    arguments = item.get("arguments")
    match item.kind:
        case "function_call":
            namespace = item.text("namespace")
            if namespace.endswith("__"):
                name = namespace + name
        case "custom_tool_call":
            arguments = {"input": item.get("input")}
        case "local_shell_call":
            name = "local_shell"
            arguments = item.get("action")
        case "tool_search_call":
            name = "tool_search"
        case "web_search_call":
            name = "web_search"
            arguments = item.get("action")
        case "image_generation_call":
            name = "image_generation"
            arguments = {"prompt": item.get("revised_prompt")}
        case _:
            return None
    return call_part(item.first("call_id", "id") or f"call_{position}", name, arguments)


def server_result(item: JsonObject, call: ToolCallPart) -> ToolResultMessage:
    image = item.text("result") if item.kind == "image_generation_call" else ""
    if image:
        part = ImagePart(media_type="image/png", data=image)
        return result_of(call.call_id, call.name, (part,), brief="1 image")
    return result_of(
        call.call_id, call.name, text_parts(_UNRECORDED), brief="not recorded"
    )


# --- results ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Run:
    output: str
    """The output, without the lines about the run."""
    exit_code: int = 0
    failed: bool = False
    seconds: float | None = None


def tool_result(
    item: JsonObject,
    call: ToolCallPart | None,
    changes: Changes | None,
    left_out: list[str],
) -> ToolResultMessage:
    """Return the result in an item.

    `changes` contains the file changes that were reported by events.
    """
    output = item.get("tools" if item.kind == "tool_search_output" else "output")
    parts = _output_parts(output, left_out)
    run = _run(text_in(parts))
    failed = (
        run.failed
        or run.exit_code != 0
        or JsonObject.of(output).get("success") is False
    )
    if changes is None and call is not None and not failed:
        changes = _changes_in(call)
    brief = ""
    if not failed:
        brief = (changes and changes.brief) or line_count(run.output)
    return result_of(
        item.text("call_id"),
        call.name if call else item.text("name"),
        parts,
        failed=failed,
        exit_code=run.exit_code,
        brief=brief,
        changes=changes,
        seconds=run.seconds,
    )


def _output_parts(output: Json, left_out: list[str]) -> tuple[Part, ...]:
    if isinstance(output, dict):
        content = (
            output.get("content_items") or output.get("content") or output.get("output")
        )
        if content and isinstance(content, str | list):
            return parts_of(content, left_out)
        return text_parts(arguments_text(output))
    if isinstance(output, list) and not any(
        JsonObject.of(piece).kind in _PIECES for piece in output
    ):
        return text_parts(arguments_text(output))
    return parts_of(output, left_out)


def _run(text: str) -> _Run:
    """Parse the lines about a run that precede its output."""
    if text.startswith('{"output":'):
        return _run_as_json(text)
    heading = _OUTPUT.search(text, 0, _HEADER)
    if heading is None:
        return _Run(text)
    head = text[: heading.start()]
    code = _EXIT_CODE.search(head)
    seconds = _SECONDS.search(head)
    return _Run(
        text[heading.end() :],
        exit_code=int(code[1][:9]) if code else 0,
        failed=head.startswith("Script failed"),
        seconds=_number(seconds[1]) if seconds else None,
    )


def _run_as_json(text: str) -> _Run:
    """Parse the older form of a result.

    This is `{"output": …, "metadata": {"exit_code", "duration_seconds"}}`.
    """
    try:
        run = JsonObject.of(parse_json(text))
    except ValueError:
        return _Run(text)
    code = run.at("metadata", "exit_code")
    seconds = _number(str(run.at("metadata", "duration_seconds")))
    return _Run(
        run.text("output"), exit_code=code if type(code) is int else 0, seconds=seconds
    )


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _changes_in(call: ToolCallPart) -> Changes | None:
    """Return the file changes that a call's arguments describe, if any."""
    if call.name in _READS:
        return touched(call)
    for text in strings(arguments_of(call)):
        if "*** Begin Patch\n" in text:
            return patched(text)
    return None


# --- compactions ------------------------------------------------------------------------------------

SEALED = "(Codex's summary is encrypted in the file, so it cannot be shown.)"
ABSENT = "(Codex's summary is not in the file.)"
_SUMMARY_OPENING = (
    "Another language model started to solve this problem and produced a summary"
)
"""The text with which Codex introduces a summary in plain text."""
_NO_SUMMARY = "(no summary available)"
_PROMPT_TOKENS = 20_000
"""Maximum size of the prompts that a compaction keeps, in tokens.

Used for compactions that do not list their context. The value is Codex's own (`compact.rs`).
"""
_BYTES_PER_TOKEN = 4


@dataclass
class NewContext:
    """The context after a compaction.

    It consists of indices of entries, and of messages that have not been added yet.
    """

    ahead: list[int | BaseMessage] = field(default_factory=list)
    """Entries and messages that precede the summary."""
    summary: str = ""
    kept: list[int | BaseMessage] = field(default_factory=list)


def listed_context(
    log: Transcript,
    items: Iterable[JsonObject],
    summary: str,
    messages_of: Callable[[JsonObject], Sequence[BaseMessage]],
) -> NewContext:
    """Return the context that a compaction's record lists in `items`.

    Args:
        messages_of: converts an item to messages.
    """
    history = log.known_messages()
    standing = log.standing_summaries()
    context = NewContext()
    is_sealed = False
    place = context.ahead
    for item in items:
        if item.kind in _SUMMARIES:
            is_sealed |= bool(item.get("encrypted_content"))
            place = context.kept
            continue
        for message in messages_of(item):
            if _is_summary(message, summary):
                context.summary = message.text
                place = context.kept
            elif message.text in standing and place is context.ahead:
                place.append(standing.pop(message.text))
            elif message.parts and (
                message.text.strip() or not isinstance(message, AssistantMessage)
            ):
                index = history.take(message)
                place.append(message if index is None else index)
    if not context.summary:
        context.summary = SEALED if is_sealed else ABSENT
    return context


def _is_summary(message: BaseMessage, summary: str) -> bool:
    if not isinstance(message, UserMessage):
        return False
    return message.text.startswith(_SUMMARY_OPENING) or (
        bool(summary) and message.text == summary
    )


def carried_over(log: Transcript, summary: str) -> NewContext:
    """Return the context after a compaction, for versions that do not list it.

    It consists of the instructions before the first prompt, and the newest prompts up to a token limit.
    """
    opening: list[int | BaseMessage] = []
    prompts: list[int | BaseMessage] = []
    all_prompts = [index for index, entry in log.entries.items() if is_typed(entry)]
    first_prompt = min(all_prompts, default=math.inf)
    room = _PROMPT_TOKENS
    for index, message in reversed(log.visible().items()):
        if isinstance(message, DeveloperMessage) and index < first_prompt:
            opening.append(index)
        elif is_typed(message) and room > 0:
            data = message.text.encode()
            tokens = math.ceil(len(data) / _BYTES_PER_TOKEN)
            prompts.append(index if tokens <= room else _shortened(data, room))
            room -= tokens
    return NewContext([*reversed(opening), *reversed(prompts)], summary or _NO_SUMMARY)


def _shortened(text: bytes, tokens: int) -> UserMessage:
    """Shorten a prompt by removing its middle, as Codex does."""
    half = tokens * _BYTES_PER_TOKEN // 2
    cut = math.ceil((len(text) - 2 * half) / _BYTES_PER_TOKEN)
    head = text[:half].decode(errors="ignore")
    tail = text[len(text) - half :].decode(errors="ignore")
    return UserMessage(
        origin="machine", parts=text_parts(f"{head}…{cut} tokens truncated…{tail}")
    )
