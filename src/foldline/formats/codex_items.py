"""The items of a Codex session, those of OpenAI's Responses API: what is said, called and answered."""

import json
import math
import re
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby
from typing import Any

from foldline.protocol import (
    BaseMessage,
    Checkpoint,
    DeveloperMessage,
    Entry,
    FileTouch,
    ImagePart,
    Part,
    Revert,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolDetails,
    ToolResultMessage,
    Usage,
    UserMessage,
    text_parts,
)

from .base import Json, JsonObject, as_count, as_list, as_object, as_text, parse_object
from .changes import Changes, patched, texts_in
from .chat_parts import arguments_text, content_parts, line_count
from .foreign_view import ForeignView, Moment

RESULTS = ("function_call_output", "custom_tool_call_output", "local_shell_call_output", "tool_search_output")
SUMMARIES = ("compaction", "compaction_summary", "context_compaction")
"""Items that stand for what was folded. Their text is encrypted."""
ON_THE_SERVER = ("web_search_call", "image_generation_call")
"""Calls that OpenAI runs itself: no item answers them."""
UNRECORDED = "(This ran on the provider's side; what it found is not in the file.)"

_FRAGMENT = re.compile(r"\s*<([A-Za-z][\w-]*)(?:[\s=][^<>]*)?>.*</\1[^<>]*>\s*", re.DOTALL)
"""One element from end to end: so Codex marks what it says in the user's name."""
_INSTRUCTIONS = re.compile(r"\s*# AGENTS\.md instructions(?: for (?P<folder>[^\n]+))?|\s*<user_instructions>")
_SHELL = re.compile(r"\s*<user_shell_command>")
_EXIT_CODE = re.compile(r"^(?:Process exited with code|Exit code:) (-?\d+)$", re.MULTILINE)
_SECONDS = re.compile(r"^Wall time:? ([\d.]{1,12}) seconds$", re.MULTILINE)
_OUTPUT = re.compile(r"^Output:\n?", re.MULTILINE)
_HEADER = 400
"""How far into a result the lines about the run go, in characters."""
_READS = {"view_image": "path", "read_file": "file_path"}
"""The tools that read one file, and the argument that names it."""


# --- what is said -----------------------------------------------------------------------------------


def user_messages(
    content: Json, prompts: frozenset[str], *, trusted: bool
) -> tuple[list[BaseMessage], list[str]]:
    """What an item of the role user holds, one message for each voice in turn; and the pieces left out.

    `prompts` is what the file elsewhere says was typed; where that list is `trusted`, nothing else was.
    """
    parts, left_out = content_parts(content)
    texts = [part.text for part in parts if isinstance(part, TextPart)]
    if not prompts.isdisjoint((*texts, "".join(texts), "\n".join(texts))):
        return [UserMessage(parts=parts)], left_out
    voices = [(_voice(part), part) for part in parts]
    messages: list[BaseMessage] = []
    for voice, group in groupby(voices, key=lambda pair: pair[0]):
        said = tuple(part for _, part in group)
        match voice:
            case "instructions":
                messages += [_instructions(part) for part in said]
            case "fragment":
                messages.append(DeveloperMessage(parts=said))
            case "shell":
                messages.append(UserMessage(origin="shell", parts=said))
            case _:
                messages.append(UserMessage(origin="machine" if trusted else "typed", parts=said))
    return messages, left_out


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
    return DeveloperMessage(
        origin="instructions", source=f"{folder}/AGENTS.md" if folder else "AGENTS.md", parts=(part,)
    )


def thinking(item: JsonObject) -> ThinkingPart | None:
    """The reasoning of an item: its own words, else the summary of them; None where both are encrypted."""
    for pieces in (item.get("content"), item.get("summary")):
        texts = [as_text(as_object(piece).get("text")) for piece in as_list(pieces)]
        if any(texts):
            return ThinkingPart(text="\n\n".join(filter(None, texts)))
    return None


# --- calls ------------------------------------------------------------------------------------------


def call_part(item: JsonObject, position: int) -> ToolCallPart | None:
    """The tool call an item makes; None where it is no call.

    A text that is no JSON, such as a patch, becomes the argument `input`.
    """
    name, arguments = as_text(item.get("name")), "{}"
    match item.get("type"):
        case "function_call":
            space = as_text(item.get("namespace"))
            name = space + name if space.endswith("__") else name
            arguments = arguments_text(item.get("arguments"))
        case "custom_tool_call":
            arguments = arguments_text({"input": item.get("input")})
        case "local_shell_call":
            name, arguments = "local_shell", arguments_text(item.get("action"))
        case "tool_search_call":
            name, arguments = "tool_search", arguments_text(item.get("arguments"))
        case "web_search_call":
            name, arguments = "web_search", arguments_text(item.get("action"))
        case "image_generation_call":
            name, arguments = "image_generation", arguments_text({"prompt": item.get("revised_prompt")})
        case _:
            return None
    call_id = as_text(item.get("call_id")) or as_text(item.get("id")) or f"call_{position}"
    return ToolCallPart(call_id=call_id, name=name, arguments=arguments)


def server_result(item: JsonObject, call: ToolCallPart) -> ToolResultMessage:
    """The result of a call that OpenAI ran itself, as far as the file has one."""
    image = as_text(item.get("result")) if item.get("type") == "image_generation_call" else ""
    return ToolResultMessage(
        call_id=call.call_id,
        name=call.name,
        parts=(ImagePart(media_type="image/png", data=image),) if image else text_parts(UNRECORDED),
        details=ToolDetails(brief="1 image" if image else "not recorded"),
    )


# --- results ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Run:
    """What a result says about the run of its tool."""

    exit_code: int = 0
    failed: bool = False
    seconds: float | None = None
    body: str = ""
    """The output, without the lines about the run."""


def tool_result(
    item: JsonObject, call: ToolCallPart | None, changes: Changes | None
) -> tuple[ToolResultMessage, list[str]]:
    """The result in an item, and the pieces left out. `changes` is what the file reports of its effect."""
    output = item.get("tools") if item.get("type") == "tool_search_output" else item.get("output")
    parts, left_out = _output_parts(output)
    run = _run("\n".join(part.text for part in parts if isinstance(part, TextPart)))
    failed = run.failed or run.exit_code != 0 or as_object(output).get("success") is False
    if changes is None and call is not None and not failed:
        changes = _written_in(call)
    done = changes or Changes()
    if run.exit_code:
        brief = f"exit {run.exit_code}"
    else:
        brief = "failed" if failed else done.brief or line_count(run.body)
    result = ToolResultMessage(
        call_id=as_text(item.get("call_id")),
        name=call.name if call else as_text(item.get("name")),
        is_error=failed,
        parts=parts,
        details=ToolDetails(brief=brief, seconds=run.seconds, files=done.files, diff=done.diff),
    )
    return result, left_out


def _output_parts(output: Json) -> tuple[tuple[Part, ...], list[str]]:
    """Text, pieces, or an object around either: shapes of different versions."""
    match output:
        case dict():
            inner = next(
                (output[key] for key in ("content_items", "content", "output") if output.get(key)), None
            )
            return content_parts(inner) if isinstance(inner, str | list) else (_as_json(output), [])
        case list() if not any(as_object(piece).get("type") in _PIECES for piece in output):
            return _as_json(output), []
        case _:
            return content_parts(output)


_PIECES = ("input_text", "output_text", "text", "input_image", "encrypted_content")


def _as_json(value: Json) -> tuple[Part, ...]:
    return text_parts(arguments_text(value))


def _run(text: str) -> _Run:
    if text.startswith('{"output":'):
        return _run_as_json(text)
    found = _OUTPUT.search(text, 0, _HEADER)
    if found is None:
        return _Run(body=text)
    head, body = text[: found.start()], text[found.end() :]
    code, seconds = _EXIT_CODE.search(head), _SECONDS.search(head)
    return _Run(
        exit_code=int(code[1][:9]) if code else 0,
        failed=head.startswith("Script failed"),
        seconds=_number(seconds[1]) if seconds else None,
        body=body,
    )


def _run_as_json(text: str) -> _Run:
    """The older form: `{"output": …, "metadata": {"exit_code", "duration_seconds"}}`."""
    try:
        told = as_object(json.loads(text))
    except (ValueError, RecursionError):
        return _Run(body=text)
    about = as_object(told.get("metadata"))
    code = about.get("exit_code")
    return _Run(
        exit_code=code if type(code) is int else 0,
        seconds=_number(str(about.get("duration_seconds"))),
        body=as_text(told.get("output")),
    )


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _written_in(call: ToolCallPart) -> Changes | None:
    """What a call that went well did to files, judged by its arguments alone."""
    arguments = parse_object(call.arguments.encode()) or {}
    if call.name in _READS:
        path = as_text(arguments.get(_READS[call.name]))
        return Changes((FileTouch(path=path, action="read"),)) if path else None
    patch = next((text for text in texts_in(arguments) if "*** Begin Patch\n" in text), None)
    return patched(patch) if patch else None


# --- usage ------------------------------------------------------------------------------------------


def usage_of(usage: JsonObject, window: int) -> Usage:
    """`window` is the model's, in tokens, as it is told beside them; 0 where it is not."""
    return Usage(
        input=as_count(usage.get("input_tokens")),
        cached=as_count(usage.get("cached_input_tokens")),
        output=as_count(usage.get("output_tokens")),
        reasoning=as_count(usage.get("reasoning_output_tokens")),
        window=window,
    )


@dataclass(frozen=True, slots=True)
class Row:
    """One record of the file."""

    position: int
    kind: str
    payload: JsonObject
    record: JsonObject
    at: datetime | None

    def is_event(self, name: str) -> bool:
        return self.kind == "event_msg" and self.payload.get("type") == name


def told_in(row: Row, event: str, item: str) -> tuple[str, ...]:
    """The texts of a message as the interface was told of it: whole, then piece by piece.

    Since 0.145, paginated sessions have it in an `item_completed` in place of an event of its own.
    """
    if row.is_event(event):
        return (as_text(row.payload.get("message")),)
    told = as_object(row.payload.get("item")) if row.is_event("item_completed") else {}
    if told.get("type") != item:
        return ()
    pieces = [as_text(as_object(piece).get("text")) for piece in as_list(told.get("content"))]
    return ("".join(pieces), *pieces)


@dataclass
class Book:
    entries: dict[int, Entry] = field(default_factory=dict)
    view: ForeignView = field(default_factory=ForeignView)
    _shift: int = 0
    _last: int = -1

    def next_index(self, row: Row) -> int:
        """An index for one more entry of this row: its place in the file, as far as that is still free."""
        if row.position + self._shift <= self._last:
            self._shift = self._last + 1 - row.position
        self._last = row.position + self._shift
        return self._last

    def add(self, row: Row, entry: Entry) -> int:
        index = self.next_index(row)
        self.put(index, row.at, entry)
        return index

    def put(self, index: int, at: datetime | None, entry: Entry) -> None:
        """Add an entry at an index taken before."""
        entry = self.entries[index] = entry.model_copy(update={"index": index, "at": at})
        if isinstance(entry, BaseMessage):
            self.view.add(entry)

    def change(self, index: int, **update: Any) -> None:
        self.entries[index] = self.entries[index].model_copy(update=update)

    def in_order(self) -> list[Entry]:
        return [self.entries[index] for index in sorted(self.entries)]


@dataclass
class Turns:
    """Going back takes the machine text before a prompt along, but not what opens the session."""

    book: Book
    wanted: bool
    """Whether the session goes back anywhere: else checkpoints would only be in the way."""
    _in_force: list[tuple[int, Moment]] = field(default_factory=list)
    _opened: tuple[int, Moment] | None = None
    """Where machine text that may belong to the next prompt began."""
    _made: int = 0

    def machine_text(self, row: Row) -> None:
        """Machine text is about to be added."""
        if self.wanted and self._in_force and self._opened is None:
            self._opened = self._here(row)

    def answered(self) -> None:
        """The model or a tool has spoken: machine text before that belongs to no later prompt."""
        self._opened = None

    def begin(self, row: Row) -> None:
        """A prompt is about to be added."""
        if not self.wanted:
            return
        index, moment = self._opened or self._here(row)
        self._opened = None
        self.book.put(index, row.at, Checkpoint(id=self._made))
        self._in_force.append((self._made, moment))
        self._made += 1

    def take_back(self, row: Row, turns: int) -> bool:
        """Back to before the last so many turns, as far as there are any; whether there are."""
        turns = min(turns, len(self._in_force))
        if turns == 0:
            return False
        checkpoint, moment = self._in_force[-turns]
        del self._in_force[-turns:]
        self._opened = None
        self.book.view.go_back_to(moment)
        self.book.add(row, Revert(checkpoint=checkpoint))
        return True

    def _here(self, row: Row) -> tuple[int, Moment]:
        return self.book.next_index(row), self.book.view.moment()
