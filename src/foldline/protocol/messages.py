"""Messages to and from the model, in parts, and the base classes of all records.

A message is also an entry of the history. Its `index` and `at` are set when it is appended; a message that
was never appended has the index `NEW`.
"""

import json
from datetime import datetime
from typing import Annotated, Literal, TypeGuard, TypeVar, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from foldline.json_text import JsonObject, is_nested_deeper

_T = TypeVar("_T")


def _clamp_year(time: datetime) -> datetime:
    year = min(max(time.year, 2), 9998)
    return time if year == time.year else time.replace(year=year)


Timestamp = Annotated[datetime, AfterValidator(_clamp_year)]
"""A time from JSON, limited to the years 2 to 9998.

Time zone conversion therefore cannot overflow.
"""


def _clamp_count(count: int) -> int:
    return count if -_LARGEST_COUNT < count < _LARGEST_COUNT else _LARGEST_COUNT


_LARGEST_COUNT = 10**15
Count = Annotated[int, AfterValidator(_clamp_count)]
"""A count from JSON, such as a token count, limited so that arithmetic cannot overflow."""


def omitted_if(default: _T) -> _T:
    """Return a field that is omitted from the JSON if it has this default value."""
    field: _T = Field(default=default, exclude_if=lambda value: value == default)
    return field


class Record(BaseModel):
    """An immutable value that is stored and sent as JSON.

    Unknown fields, which newer versions may have written, are kept.
    """

    model_config = ConfigDict(frozen=True, extra="allow", defer_build=True)


class FoldlineError(Exception):
    """An error that the user can do something about.

    `str(error)` is the message shown to the user.
    """

    exit_code = 1

    def __init__(self, sentence: str, **values: object) -> None:
        """
        Args:
            sentence: the message, which may contain placeholders.
            values: values for the placeholders.
        """
        super().__init__(sentence.format(**values) if values else sentence)


class OptionError(FoldlineError):
    """A command-line option has an invalid value."""

    exit_code = 2


def system_words(error: OSError) -> str:
    """Return the reason for a system error, worded as the end of a sentence.

    For example, `no space left on device`.
    """
    return (error.strerror or str(error)).lower()


NEW = -1
"""Index of a message or marker that has not been appended to a history."""

DEEPEST = 100
"""Maximum nesting depth of a call's arguments.

The limit is fixed, because Python's own limit depends on the stack.
"""


def json_object(text: str) -> JsonObject | None:
    """Parse a call's arguments, which must be a single JSON object.

    Returns None for any other text, and for objects nested more deeply than `DEEPEST`.
    """
    try:
        # JSON has no NaN and no Infinity, although Python parses them.
        value = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict) or is_nested_deeper(value, DEEPEST):
        return None
    return value


def _refuse(constant: str) -> None:
    raise ValueError(constant)


TextOrigin = Literal["typed", "piped", "command", "resource"]


class TextPart(Record):
    type: Literal["text"] = "text"
    text: str
    """Text as the model reads it.

    Attached text is enclosed in tags (`foldline.text.tags`).
    """
    origin: TextOrigin = omitted_if("typed")
    """Source of the text in a prompt.

    The text was typed, piped into the program, expanded from a command, or read from a tool server's
    resource. Always `typed` in messages other than prompts.
    """


DETAILS = "reasoning_details"
"""Name of the chat completion field that contains blocks of reasoning.

In a signature, this is the key under which one block is stored.
"""


class ThinkingPart(Record):
    """A model's reasoning.

    It is sent back only to the server that signed it, or if the dialect requires it.
    """

    type: Literal["thinking"] = "thinking"
    text: str
    signature: str | None = None
    """Signature or encrypted reasoning, which only the provider can interpret."""
    signed_by: str | None = omitted_if(None)
    """The only receiver of the signature, as `MODEL@HOST`.

    If this is None, the receiver is unknown and the signature is not sent.
    """


class ImagePart(Record):
    type: Literal["image"] = "image"
    media_type: str
    data: str
    """Data in Base64, without a `data:` prefix."""
    width: Count | None = None
    height: Count | None = None


class ToolCallPart(Record):
    type: Literal["tool_call"] = "tool_call"
    call_id: str
    name: str
    arguments: str = "{}"
    """Arguments, as the JSON text that the model wrote.

    Requests repeat this text byte for byte.
    """
    signature: str | None = omitted_if(None)
    """Signature of the reasoning that preceded the call.

    Gemini requires it to be sent back.
    """

    def parsed(self) -> JsonObject:
        """Return the arguments as a dictionary.

        The dictionary is empty if the arguments are not a JSON object, or are nested too deeply.
        """
        return json_object(self.arguments) or {}


class CheckpointPart(Record):
    """A checkpoint to which the model can send a D-Mail.

    This part occurs only in views, never in the history.
    """

    type: Literal["checkpoint"] = "checkpoint"
    id: int


Part = Annotated[
    TextPart | ThinkingPart | ImagePart | ToolCallPart | CheckpointPart,
    Field(discriminator="type"),
]


UsageSource = Literal["reported", "cached beside", "cached twice", "estimated"]
"""The source of a usage's input count.

`reported`: the provider reported it. `estimated`: the provider did not report it. `cached beside` and `cached
twice`: the reported count was corrected, because it did not include cached tokens or included them twice.
"""


class Usage(Record):
    """Token counts of one request, as reported by the provider."""

    input: Count = 0
    """Number of input tokens, including those read from a cache."""
    cached: Count = 0
    written: Count = omitted_if(0)
    """Number of input tokens written to a cache, if the provider reports it."""
    written_1h: Count = omitted_if(0)
    """Number of `written` tokens that are cached for an hour, at a higher price."""
    output: Count = 0
    """Number of output tokens, including reasoning."""
    reasoning: Count = 0
    window: Count = omitted_if(0)
    """The model's context window in tokens.

    Set only if another agent recorded it here; otherwise 0.
    """
    source: UsageSource = omitted_if("reported")
    """Source of `input`."""

    @property
    def total(self) -> int:
        return self.input + self.output

    @property
    def is_reported(self) -> bool:
        """Whether the provider reported the input count."""
        return self.input > 0 and self.source != "estimated"

    def __add__(self, other: "Usage") -> "Usage":
        """Add two usages. The result has no `window`."""
        counted = ("input", "cached", "written", "written_1h", "output", "reasoning")
        source: UsageSource = (
            "estimated" if "estimated" in (self.source, other.source) else "reported"
        )
        return Usage(
            **{name: getattr(self, name) + getattr(other, name) for name in counted},
            source=source,
        )


class Entry(Record):
    """Base class of all entries in a history."""

    type: str
    index: int = NEW
    """Index of the entry.

    Indices strictly increase within a history, and are never reused or renumbered.
    """
    at: Timestamp | None = None


class BaseMessage(Entry):
    """Base class of all messages."""

    parts: tuple[Part, ...] = ()
    nth: int = omitted_if(0)
    """A summary's number among the new messages of its compaction.

    0 for all other messages.
    """

    @property
    def text(self) -> str:
        """All text parts, joined by newlines.

        Reasoning is not included.
        """
        return "\n".join(part.text for part in self.parts if isinstance(part, TextPart))

    @property
    def thinking(self) -> str:
        return "\n".join(
            part.text
            for part in self.parts
            if isinstance(part, ThinkingPart) and part.text
        )

    @property
    def checkpoint(self) -> int | None:
        """Id of the checkpoint that is named at the end of this message."""
        return next(
            (part.id for part in self.parts if isinstance(part, CheckpointPart)), None
        )

    @property
    def key(self) -> tuple[int, int]:
        """Identity within a view: the index of the message's entry, and `nth`."""
        return (self.index, self.nth)


class SystemMessage(BaseMessage):
    type: Literal["system"] = "system"
    origin: Literal["prompt", "summary"] = "prompt"


class DeveloperMessage(BaseMessage):
    """Text from the program to the model.

    Messages are never compacted if their origin is in `PINNED`, or if it is `instructions`, which is used for
    files such as AGENTS.md.
    """

    type: Literal["developer"] = "developer"
    origin: Literal[
        "instructions", "skill", "plan", "goal", "mode", "todo", "notice", "dmail"
    ] = "notice"
    source: str | None = None
    """Path of the file that the text was read from, if any."""
    role: Literal["system", "user"] = omitted_if("system")
    """Role in another agent's request.

    In Foldline's own requests, the dialect determines the role.
    """


PINNED = frozenset({"skill", "plan", "goal"})
"""Origins of messages that are always pinned: skills, the accepted plan, and the goal."""


class UserMessage(BaseMessage):
    type: Literal["user"] = "user"
    origin: Literal["typed", "shell", "machine"] = "typed"

    @property
    def typed(self) -> str:
        """The text that the user typed, without attached text.

        Empty for shell commands, and for text written by the program.
        """
        return self._text_of("typed") if self.origin == "typed" else ""

    @property
    def editable(self) -> str:
        """The text that is returned to the editor.

        Its commands and resources are expanded again when it is sent.
        """
        return self._text_of("typed", "piped")

    def _text_of(self, *origins: TextOrigin) -> str:
        return "\n".join(
            part.text
            for part in self.parts
            if isinstance(part, TextPart) and part.origin in origins
        )

    @property
    def attached(self) -> tuple[TextPart, ...]:
        """Text that the user did not type: piped input, expanded commands and resources."""
        return tuple(
            part
            for part in self.parts
            if isinstance(part, TextPart) and part.origin != "typed"
        )

    @property
    def attached_text(self) -> str:
        return "\n".join(part.text for part in self.attached)


def is_typed(entry: object) -> TypeGuard[UserMessage]:
    """Return whether the entry is a message that the user typed."""
    return isinstance(entry, UserMessage) and entry.origin == "typed"


StopReason = Literal[
    "stop", "tool_calls", "length", "repeated", "cancelled", "error", "filtered"
]


class AssistantMessage(BaseMessage):
    type: Literal["assistant"] = "assistant"
    model: str | None = None
    usage: Usage | None = None
    stop_reason: StopReason | None = None
    error: str | None = None

    @property
    def calls(self) -> tuple[ToolCallPart, ...]:
        return tuple(part for part in self.parts if isinstance(part, ToolCallPart))


class FileTouch(Record):
    """A file that a tool call read or changed."""

    path: str
    action: Literal["read", "modified"]
    added: int = 0
    removed: int = 0


class ToolDetails(Record):
    """Data for displaying a tool result.

    The model sees only the result's parts.
    """

    brief: str = ""
    """The outcome in a few words, such as `312 lines`, `exit 1` or `+9 −6`."""
    seconds: float | None = None
    files: tuple[FileTouch, ...] = ()
    diff: str | None = None
    """Unified diff, if the call edited or wrote a file."""
    full_output: str | None = None
    """Path of a file with the full output.

    Set if `parts` contains only part of the output.
    """
    child: str | None = None
    """Id of the child session in which a subagent worked."""


class ToolResultMessage(BaseMessage):
    type: Literal["tool_result"] = "tool_result"
    call_id: str
    name: str = ""
    is_error: bool = False
    details: ToolDetails = ToolDetails()


AnyMessage = (
    SystemMessage
    | DeveloperMessage
    | UserMessage
    | AssistantMessage
    | ToolResultMessage
)
Message = Annotated[AnyMessage, Field(discriminator="type")]
MESSAGE_TYPES = get_args(AnyMessage)


def text_parts(text: str) -> tuple[TextPart, ...]:
    """Return a tuple with one text part.

    For an empty string, returns an empty tuple.
    """
    return (TextPart(text=text),) if text else ()
