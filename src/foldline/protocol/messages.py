"""Records, and messages: what is said to and by the model, in parts.

A message is also the entry of the history it was appended as: `index` and `at` are set by the append,
and a message that was never appended carries `NEW`.
"""

import json
from collections.abc import Iterable
from datetime import datetime
from typing import Annotated, Any, Literal, TypeGuard, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field


def _in_reach(moment: datetime) -> datetime:
    return moment if 1 < moment.year < 9999 else moment.replace(year=min(max(moment.year, 2), 9998))


Moment = Annotated[datetime, AfterValidator(_in_reach)]
"""A time that can be said in any time zone, whoever wrote it down."""


def _reckonable(count: int) -> int:
    return count if -_ENDLESS < count < _ENDLESS else _ENDLESS


_ENDLESS = 10**15
Count = Annotated[int, AfterValidator(_reckonable)]
"""A number of tokens or the like. Whoever wrote it down, it can be divided: beyond all windows is endless."""


class Record(BaseModel):
    """An immutable value that travels as JSON. Fields a newer version wrote are kept, not dropped."""

    model_config = ConfigDict(frozen=True, extra="allow")


class FoldlineError(Exception):
    """A failure a person can act on. `str(error)` is the whole sentence shown to them."""

    exit_code = 1


class OptionError(FoldlineError):
    """An option of the command line has a value that cannot be used."""

    exit_code = 2


def system_words(error: OSError) -> str:
    """Why the system refused, as the end of a sentence: `no space left on device`."""
    return (error.strerror or str(error)).lower()


NEW = -1
"""The index of a message or marker that is not (yet) in a history."""

DEEPEST = 100
"""Levels of nesting that arguments may have. Python's own bound depends on who asks."""


def json_object(text: str) -> dict[str, Any] | None:
    """A text that is one JSON object, as arguments of a call must be; None for all else, and deeper than
    `DEEPEST`."""
    try:
        # JSON has no NaN and no Infinity, though Python reads them.
        value = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) and (_is_flat(text) or not _is_deep(value)) else None


def _refuse(constant: str) -> None:
    raise ValueError(constant)


def _is_flat(text: str) -> bool:
    return text.count("[") + text.count("{") <= DEEPEST


def _is_deep(value: object) -> bool:
    level = [value]
    for _ in range(DEEPEST):
        level = [child for each in level for child in _children(each)]
    return any(isinstance(each, dict | list) for each in level)


def _children(value: object) -> Iterable[object]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


class TextPart(Record):
    type: Literal["text"] = "text"
    text: str


DETAILS = "reasoning_details"
"""The field of a chat completion with its reasoning in blocks, and the key of such a block in a signature."""


class ThinkingPart(Record):
    """Reasoning a model showed. Sent back only to servers whose dialect asks for it, or that signed it."""

    type: Literal["thinking"] = "thinking"
    text: str
    signature: str | None = None
    """What its provider signed or encrypted it with, for nobody else to read."""
    signed_by: str | None = Field(default=None, exclude_if=lambda signer: signer is None)
    """`MODEL@HOST`, to which alone the signature goes back; None where nobody knows: it goes nowhere."""


class ImagePart(Record):
    type: Literal["image"] = "image"
    media_type: str
    data: str
    """Base64, without a `data:` prefix."""
    width: Count | None = None
    height: Count | None = None


class ToolCallPart(Record):
    type: Literal["tool_call"] = "tool_call"
    call_id: str
    name: str
    arguments: str = "{}"
    """JSON text exactly as the model wrote it, so that a request repeats it byte for byte."""
    signature: str | None = Field(default=None, exclude_if=lambda signature: signature is None)
    """Proof of the reasoning before the call, which Gemini wants back with it."""

    def parsed(self) -> dict[str, Any]:
        """The arguments as a dictionary; empty where they are not a JSON object, or nested without end."""
        return json_object(self.arguments) or {}


class CheckpointPart(Record):
    """Tells the model that it may come back here, with a D-Mail. Stands in views, never in the history."""

    type: Literal["checkpoint"] = "checkpoint"
    id: int


Part = Annotated[
    TextPart | ThinkingPart | ImagePart | ToolCallPart | CheckpointPart, Field(discriminator="type")
]


UsageSource = Literal["reported", "cached beside", "cached twice", "estimated"]
"""As its provider reported it; or corrected, because it counted cached tokens only beside it, or twice; or an
estimate, because it reported none."""


class Usage(Record):
    """Tokens of one request, as the provider reported them."""

    input: Count = 0
    """All input tokens, those served from a cache included."""
    cached: Count = 0
    written: Count = Field(default=0, exclude_if=lambda tokens: tokens == 0)
    """Of the input, what was written to a cache, where the provider says so."""
    written_1h: Count = Field(default=0, exclude_if=lambda tokens: tokens == 0)
    """Of that, what is kept for an hour: it costs more."""
    output: Count = 0
    """All output tokens, reasoning included."""
    reasoning: Count = 0
    window: Count = Field(default=0, exclude_if=lambda window: window == 0)
    """The model's context window, where another agent noted it with them; 0 elsewhere."""
    source: UsageSource = Field(default="reported", exclude_if=lambda source: source == "reported")
    """Where `input` comes from."""

    @property
    def total(self) -> int:
        return self.input + self.output

    @property
    def is_reported(self) -> bool:
        """Whether the provider reported the input."""
        return self.input > 0 and self.source != "estimated"

    def __add__(self, other: "Usage") -> "Usage":
        """Add two usages. `window` is dropped."""
        counted = ("input", "cached", "written", "written_1h", "output", "reasoning")
        source: UsageSource = "estimated" if "estimated" in (self.source, other.source) else "reported"
        return Usage(**{name: getattr(self, name) + getattr(other, name) for name in counted}, source=source)


class Entry(Record):
    """What every record of the history carries."""

    type: str
    index: int = NEW
    """Strictly increasing within a history, never re-used, never rebased."""
    at: Moment | None = None


class BaseMessage(Entry):
    parts: tuple[Part, ...] = ()
    nth: int = Field(default=0, exclude_if=lambda nth: nth == 0)
    """Which of the new messages of its compaction a summary is; 0 for everything else."""

    @property
    def text(self) -> str:
        """All text parts, joined by line ends. Thinking is not text."""
        return "\n".join(part.text for part in self.parts if isinstance(part, TextPart))

    @property
    def thinking(self) -> str:
        return "\n".join(part.text for part in self.parts if isinstance(part, ThinkingPart) and part.text)

    @property
    def checkpoint(self) -> int | None:
        """Id of the checkpoint that the model is shown at the end of this message."""
        return next((part.id for part in self.parts if isinstance(part, CheckpointPart)), None)

    @property
    def key(self) -> tuple[int, int]:
        """Identity within a view: the entry it comes from, and which message of that entry."""
        return (self.index, self.nth)


class SystemMessage(BaseMessage):
    type: Literal["system"] = "system"
    origin: Literal["prompt", "summary"] = "prompt"


class DeveloperMessage(BaseMessage):
    """Machine text for the model. Neither `instructions`, files such as AGENTS.md, nor what is `PINNED` are
    ever compacted."""

    type: Literal["developer"] = "developer"
    origin: Literal["instructions", "skill", "plan", "goal", "mode", "todo", "notice", "dmail"] = "notice"
    source: str | None = None
    """Path of the file it was read from."""
    role: Literal["system", "user"] = Field(default="system", exclude_if=lambda role: role == "system")
    """The role another agent sent it in. In requests of ours the dialect decides."""


PINNED = frozenset({"skill", "plan", "goal"})
"""The origins of what is pinned from its first moment: a skill, the plan that was accepted, the goal."""

PIPED_OPEN, PIPED_CLOSE = "\n\n<stdin>\n", "\n</stdin>"
"""What was piped in stands between these, at the end of a prompt."""
CALLED_OPEN, CALLED_CLOSE = '\n\n<slash-command source="', "\n</slash-command>"
"""What a command of the user's stands for, below the prompt that calls it, and above what was piped in."""
RESOURCE_OPEN, RESOURCE_CLOSE = '\n\n<resource source="', "\n</resource>"
"""What a tool server has of something that the prompt names, between these two."""
_BELOW = ((CALLED_OPEN, CALLED_CLOSE), (RESOURCE_OPEN, RESOURCE_CLOSE))


def entered(text: str) -> str:
    """What was entered, of the text of a prompt: without what a command stands for, or what was attached."""
    for opening, closing in _BELOW:
        while (start := text.find(opening)) >= 0 and (end := text.find(closing, start)) >= 0:
            text = text[:start] + text[end + len(closing) :]
    return text


class UserMessage(BaseMessage):
    type: Literal["user"] = "user"
    origin: Literal["typed", "shell", "machine"] = "typed"

    @property
    def typed(self) -> str:
        """The user's own words: nothing of what a program said, nor of what stands below them: what a command
        stands for, and what was piped in."""
        return self.text.removesuffix(self.piped) if self.origin == "typed" else ""

    @property
    def piped(self) -> str:
        """What stands below a prompt, with its tags; empty where nothing does."""
        text = self.text if self.origin == "typed" else ""
        starts = (text.find(each) for each in (PIPED_OPEN, CALLED_OPEN, RESOURCE_OPEN))
        start = min((at for at in starts if at >= 0), default=len(text))
        return text[start:] if text.endswith((PIPED_CLOSE, CALLED_CLOSE, RESOURCE_CLOSE)) else ""


def is_typed(entry: object) -> TypeGuard[UserMessage]:
    """Whether it is a message that the user typed."""
    return isinstance(entry, UserMessage) and entry.origin == "typed"


StopReason = Literal["stop", "tool_calls", "length", "repeated", "cancelled", "error", "filtered"]


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
    """A file a tool call read or changed."""

    path: str
    action: Literal["read", "modified"]
    added: int = 0
    removed: int = 0


class ToolDetails(Record):
    """What people see of a tool result; the model sees only its parts."""

    brief: str = ""
    """The outcome in a few words: `312 lines`, `exit 1`, `+9 −6`."""
    seconds: float | None = None
    files: tuple[FileTouch, ...] = ()
    diff: str | None = None
    """Unified diff of what an edit or write changed."""
    full_output: str | None = None
    """Path of a file that holds the whole output, where `parts` has only a piece of it."""
    child: str | None = None
    """Id of the child session that a subagent worked in."""


class ToolResultMessage(BaseMessage):
    type: Literal["tool_result"] = "tool_result"
    call_id: str
    name: str = ""
    is_error: bool = False
    details: ToolDetails = ToolDetails()


AnyMessage = SystemMessage | DeveloperMessage | UserMessage | AssistantMessage | ToolResultMessage
Message = Annotated[AnyMessage, Field(discriminator="type")]
MESSAGE_TYPES = get_args(AnyMessage)


def text_parts(text: str) -> tuple[TextPart, ...]:
    """A message body of one text part; empty for an empty text."""
    return (TextPart(text=text),) if text else ()
