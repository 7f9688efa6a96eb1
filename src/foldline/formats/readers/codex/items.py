"""The items of a Codex session, those of OpenAI's Responses API: what is said, called and compacted."""

import json
import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from foldline.context.facts import strings
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
from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    Compaction,
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

RESULTS = ("function_call_output", "custom_tool_call_output", "local_shell_call_output", "tool_search_output")
ON_THE_SERVER = ("web_search_call", "image_generation_call")
"""Calls that OpenAI runs itself: no item answers them."""
USAGE = UsageFields(("input_tokens",), ("output_tokens",), "cached_input_tokens", "reasoning_output_tokens")

_SUMMARIES = ("compaction", "compaction_summary", "context_compaction")
"""Items that stand for what was compacted. Their text is encrypted."""
_UNRECORDED = "(This ran on the provider's side; what it found is not in the file.)"
_FRAGMENT = re.compile(r"\s*<([A-Za-z][\w-]*)(?:[\s=][^<>]*)?>.*</\1[^<>]*>\s*", re.DOTALL)
"""One element from end to end: so Codex marks what it says in the user's name."""
_INSTRUCTIONS = re.compile(r"\s*# AGENTS\.md instructions(?: for (?P<folder>[^\n]+))?|\s*<user_instructions>")
_SHELL = re.compile(r"\s*<user_shell_command>")
_EXIT_CODE = re.compile(r"^(?:Process exited with code|Exit code:) (-?\d+)$", re.MULTILINE)
_SECONDS = re.compile(r"^Wall time:? ([\d.]{1,12}) seconds$", re.MULTILINE)
_OUTPUT = re.compile(r"^Output:\n?", re.MULTILINE)
_HEADER = 400
"""How far into a result the lines about the run go, in characters."""
_READS = ("view_image", "read_file")
_PIECES = ("input_text", "output_text", "text", "input_image", "encrypted_content")


# --- what is said -----------------------------------------------------------------------------------


def user_messages(
    content: Json, prompts: frozenset[str], left_out: list[str], *, trusted: bool
) -> list[BaseMessage]:
    """What an item of the role user holds, one message for each voice in turn.

    `prompts` is what the file elsewhere says was typed; where that list is `trusted`, nothing else was.
    """
    parts = parts_of(content, left_out)
    texts = [part.text for part in parts if isinstance(part, TextPart)]
    if not prompts.isdisjoint((*texts, "".join(texts), "\n".join(texts))):
        return [UserMessage(parts=parts)]
    messages: list[BaseMessage] = []
    for voice, said in by_voice((_voice(part), part) for part in parts):
        match voice:
            case "instructions":
                messages += map(_instructions, said)
            case "fragment":
                messages.append(DeveloperMessage(parts=said))
            case "shell":
                messages.append(UserMessage(origin="shell", parts=said))
            case _:
                messages.append(UserMessage(origin="machine" if trusted else "typed", parts=said))
    return messages


def _voice(part: Part) -> str:
    if not isinstance(part, TextPart):
        return "other"
    if _INSTRUCTIONS.match(part.text):
        return "instructions"
    if _SHELL.match(part.text):
        return "shell"
    return "fragment" if _FRAGMENT.fullmatch(part.text) else "other"


def _instructions(part: Part) -> DeveloperMessage:
    named = _INSTRUCTIONS.match(part.text) if isinstance(part, TextPart) else None
    folder = (named["folder"] or "").strip() if named else ""
    source = f"{folder}/AGENTS.md" if folder else "AGENTS.md"
    return DeveloperMessage(origin="instructions", source=source, parts=(part,))


def thinking(item: JsonObject) -> ThinkingPart | None:
    """The reasoning of an item: its own words, else the summary of them; None where both are encrypted."""
    for name in ("content", "summary"):
        texts = [piece.text("text") for piece in item.objects(name)]
        if any(texts):
            return ThinkingPart(text="\n\n".join(filter(None, texts)))
    return None


# --- calls ------------------------------------------------------------------------------------------


def call_of(item: JsonObject, position: int) -> ToolCallPart | None:
    """The tool call an item makes; None where it is no call. A text that is no JSON, such as a patch, becomes
    the argument `input`."""
    name, arguments = item.text("name"), item.get("arguments")
    match item.get("type"):
        case "function_call":
            space = item.text("namespace")
            name = space + name if space.endswith("__") else name
        case "custom_tool_call":
            arguments = {"input": item.get("input")}
        case "local_shell_call":
            name, arguments = "local_shell", item.get("action")
        case "tool_search_call":
            name = "tool_search"
        case "web_search_call":
            name, arguments = "web_search", item.get("action")
        case "image_generation_call":
            name, arguments = "image_generation", {"prompt": item.get("revised_prompt")}
        case _:
            return None
    call_id = item.text("call_id") or item.text("id") or f"call_{position}"
    return call_part(call_id, name, arguments)


def server_result(item: JsonObject, call: ToolCallPart) -> ToolResultMessage:
    image = item.text("result") if item.get("type") == "image_generation_call" else ""
    parts: tuple[Part, ...] = (
        (ImagePart(media_type="image/png", data=image),) if image else text_parts(_UNRECORDED)
    )
    return result_of(call.call_id, call.name, parts, brief="1 image" if image else "not recorded")


# --- results ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Run:
    body: str
    """The output, without the lines about the run."""
    exit_code: int = 0
    failed: bool = False
    seconds: float | None = None


def tool_result(
    item: JsonObject, call: ToolCallPart | None, changes: Changes | None, left_out: list[str]
) -> ToolResultMessage:
    """The result in an item. `changes` is what the file reports of its effect."""
    output = item.get("tools") if item.get("type") == "tool_search_output" else item.get("output")
    parts = _output_parts(output, left_out)
    run = _run(text_in(parts))
    failed = run.failed or run.exit_code != 0 or JsonObject.of(output).get("success") is False
    if changes is None and call is not None and not failed:
        changes = _written_in(call)
    brief = f"exit {run.exit_code}" if run.exit_code else "failed" if failed else ""
    return result_of(
        item.text("call_id"),
        call.name if call else item.text("name"),
        parts,
        failed=failed,
        brief=brief or (changes.brief if changes else "") or line_count(run.body),
        changes=changes,
        seconds=run.seconds,
    )


def _output_parts(output: Json, left_out: list[str]) -> tuple[Part, ...]:
    match output:
        case dict():
            names = ("content_items", "content", "output")
            inner = next((output[name] for name in names if output.get(name)), None)
            if isinstance(inner, str | list):
                return parts_of(inner, left_out)
            return text_parts(arguments_text(output))
        case list() if not any(JsonObject.of(piece).kind in _PIECES for piece in output):
            return text_parts(arguments_text(output))
        case _:
            return parts_of(output, left_out)


def _run(text: str) -> _Run:
    if text.startswith('{"output":'):
        return _run_as_json(text)
    found = _OUTPUT.search(text, 0, _HEADER)
    if found is None:
        return _Run(text)
    head = text[: found.start()]
    code, seconds = _EXIT_CODE.search(head), _SECONDS.search(head)
    return _Run(
        body=text[found.end() :],
        exit_code=int(code[1][:9]) if code else 0,
        failed=head.startswith("Script failed"),
        seconds=_number(seconds[1]) if seconds else None,
    )


def _run_as_json(text: str) -> _Run:
    """The older form: `{"output": …, "metadata": {"exit_code", "duration_seconds"}}`."""
    try:
        run = JsonObject.of(json.loads(text))
    except (ValueError, RecursionError):
        return _Run(text)
    code = run.at("metadata", "exit_code")
    return _Run(
        body=run.text("output"),
        exit_code=code if type(code) is int else 0,
        seconds=_number(str(run.at("metadata", "duration_seconds"))),
    )


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _written_in(call: ToolCallPart) -> Changes | None:
    if call.name in _READS:
        return touched(call)
    arguments = arguments_of(call)
    patch = next((text for text in strings(arguments) if "*** Begin Patch\n" in text), None)
    return patched(patch) if patch else None


# --- compactions ------------------------------------------------------------------------------------

SEALED = "(What Codex's summary said here is not in the file: it is kept encrypted.)"
ABSENT = "(What Codex's summary said here is not in the file.)"
_SUMMARY_OPENING = "Another language model started to solve this problem and produced a summary"
"""How Codex introduces a summary that it wrote as text."""
_NO_SUMMARY = "(no summary available)"
_PROMPT_TOKENS = 20_000
"""How much of the user's words Codex carries over where it lists no new context (its `compact.rs`)."""
_BYTES_PER_TOKEN = 4

Add = Callable[[BaseMessage], int]
"""Adds a message of a compaction's new context that the history has not said yet; its index."""


@dataclass
class NewContext:
    """A context after a compaction: what precedes the summary, the summary, what follows it."""

    ahead: list[int] = field(default_factory=list)
    summary: str = ""
    kept: list[int] = field(default_factory=list)

    def compaction(self, log: Transcript, index: int) -> Compaction:
        """Instructions that Codex left behind become plain machine text: ours open every view for good."""
        stays = {*self.ahead, *self.kept}
        for place in log.messages():
            entry = log.entries[place]
            if place not in stays and isinstance(entry, DeveloperMessage) and entry.origin == "instructions":
                log.change(place, origin="notice")
        return log.compaction(index, text_parts(self.summary), self.kept, ahead=self.ahead, strategy="codex")


def listed_context(
    log: Transcript,
    items: Iterable[JsonObject],
    summary: str,
    messages_of: Callable[[JsonObject], Sequence[BaseMessage]],
    add: Add,
) -> NewContext:
    """The context as a compaction lists it; `summary` is what it says of that apart."""
    known = log.known_messages(lambda message: (message.type, message.parts))
    context, sealed = NewContext(), False
    standing = log.standing_summaries()
    place = context.ahead
    for item in items:
        if item.get("type") in _SUMMARIES:
            sealed |= bool(item.get("encrypted_content"))
            place = context.kept
            continue
        for message in messages_of(item):
            if _is_summary(message, summary):
                context.summary, place = message.text, context.kept
            elif message.text in standing and place is context.ahead:
                place.append(standing.pop(message.text))
            elif message.parts and not (isinstance(message, AssistantMessage) and not message.text.strip()):
                index = known.take(message)
                place.append(add(message) if index is None else index)
    context.summary = context.summary or (SEALED if sealed else ABSENT)
    return context


def _is_summary(message: BaseMessage, summary: str) -> bool:
    return isinstance(message, UserMessage) and (
        message.text.startswith(_SUMMARY_OPENING) or (bool(summary) and message.text == summary)
    )


def carried_over(log: Transcript, summary: str, first_prompt: int | None, add: Add) -> NewContext:
    """What versions that did not list the new context kept: the opening, and the newest words of the user."""
    opening: list[int] = []
    prompts: list[int] = []
    room = _PROMPT_TOKENS
    for index in reversed(log.messages()):
        entry = log.entries[index]
        if isinstance(entry, DeveloperMessage) and (first_prompt is None or index < first_prompt):
            opening.append(index)
        elif is_typed(entry) and room > 0:
            data = entry.text.encode()
            tokens = -(-len(data) // _BYTES_PER_TOKEN)
            prompts.append(index if tokens <= room else add(_shortened(data, room)))
            room -= tokens
    return NewContext([*reversed(opening), *reversed(prompts)], summary or _NO_SUMMARY)


def _shortened(text: bytes, tokens: int) -> UserMessage:
    half = tokens * _BYTES_PER_TOKEN // 2
    cut = -(-(len(text) - 2 * half) // _BYTES_PER_TOKEN)
    head, tail = text[:half].decode(errors="ignore"), text[-half:].decode(errors="ignore") if half else ""
    return UserMessage(origin="machine", parts=(TextPart(text=f"{head}…{cut} tokens truncated…{tail}"),))
