"""What a row says of a message: its first words, a call's title, the kind; cheap for texts of any size."""

from typing import Final

from foldline.context.calls import subject_of
from foldline.context.projection import Projection
from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    CheckpointPart,
    DeveloperMessage,
    ImagePart,
    SystemMessage,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultMessage,
    UserMessage,
)
from foldline.tui.blocks import clean_line

_LOOK: Final = 2_000
"""Characters of a text that a row looks at: the first words are there, or nowhere a row could show."""
_SHOWN: Final = 400
"""Characters a row may need: more than the widest terminal has cells."""

KINDS: Final = {"system": "system", "user": "user", "assistant": "assist", "developer": "dev"}


def first_words(text: str) -> str:
    """The first line with something in it, clean and short."""
    for line in text[:_LOOK].splitlines():
        if line.strip():
            return clean_line(line.strip()[:_SHOWN])
    return ""


def message_words(message: BaseMessage) -> tuple[str, str]:
    """The first words of a message and their style; of an answer without text what it thinks or calls."""
    for part in message.parts:
        if isinstance(part, TextPart) and (words := first_words(part.text)):
            return _with_source(message, words), "text"
    if isinstance(message, AssistantMessage) and message.error:
        return f"failed: {first_words(message.error)}", "alert"
    for part in message.parts:
        if isinstance(part, ThinkingPart) and (words := first_words(part.text)):
            return words, "muted italic"
    calls = [part for part in message.parts if isinstance(part, ToolCallPart)]
    if calls:
        return f"calls {', '.join(clean_line(call.name) for call in calls[:8])}", "muted"
    images = sum(isinstance(part, ImagePart) for part in message.parts)
    if images:
        return "an image" if images == 1 else f"{images} images", "muted"
    return "empty", "muted"


def _with_source(message: BaseMessage, words: str) -> str:
    if isinstance(message, DeveloperMessage) and message.source:
        return f"{clean_line(message.source)}: {words}"
    return words


def kind_of(message: BaseMessage) -> str:
    """The kind column of a message that is no tool result."""
    if isinstance(message, SystemMessage) and message.origin == "summary":
        return "summary"
    if isinstance(message, UserMessage) and message.origin == "machine":
        return "machine"  # what a program said in the user's place is not passed off as typed
    return KINDS.get(message.type, clean_line(message.type))


def call_of(projection: Projection, result: ToolResultMessage) -> ToolCallPart | None:
    """The call a result answers; None for an orphan."""
    caller = projection.entry(projection.group(result.index)[0])
    if isinstance(caller, AssistantMessage):
        return next((call for call in caller.calls if call.call_id == result.call_id), None)
    return None


def call_title(call: ToolCallPart | None, cwd: str = "") -> tuple[str, bool]:
    """A call on one line, and whether that is a path; line ends become `⏎`. Paths below `cwd` are shown
    relative to it."""
    if call is None:
        return "", False
    subject = subject_of(call)
    if subject.kind == "path":
        return clean_line(short_path(subject.text, cwd)[:_SHOWN]), True
    words = clean_line(_relative(subject.text, cwd).strip()[:_SHOWN])
    return (f'"{words}"' if subject.kind == "search" else words), False


def _relative(words: str, cwd: str) -> str:
    """A command without the change into the directory it is in anyway, and with paths relative to it."""
    words = words[:_LOOK]
    if not cwd.strip("/"):
        return words
    return words.removeprefix(f"cd {cwd} && ").removeprefix(f"cd {cwd}\n").replace(f"{cwd}/", "")


def short_path(path: str, cwd: str) -> str:
    """A path relative to the working directory where it lies below it."""
    return path.removeprefix(f"{cwd.rstrip('/')}/") if cwd.rstrip("/") else path


def full_text(projection: Projection, message: BaseMessage) -> str:
    """Everything of a message that search looks at."""
    parts: list[str] = []
    if isinstance(message, ToolResultMessage):
        call = call_of(projection, message)
        parts += [message.name, call.arguments if call else "", message.details.brief]
    for part in message.parts:
        match part:
            case TextPart() | ThinkingPart():
                parts.append(part.text)
            case ToolCallPart():
                parts.append(f"{part.name} {part.arguments}")
            case ImagePart() | CheckpointPart():
                pass
    return "\n".join(parts)
