"""Writer for kimi-cli: the view as the `context.jsonl` that it resumes, with the title in `state.json`."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from foldline.context.calls import paired
from foldline.context.view import first_words, is_preamble, is_summary
from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    ImagePart,
    Part,
    TextPart,
    ToolCallPart,
    ToolResultMessage,
    UserMessage,
    is_typed,
)

from ..export import Exported, Original
from ..readers.kimi_cli.reader import MACHINE, SUMMARY
from .records import Record, record_line

_SUMMARY_HEAD = f"{SUMMARY}. Here is the compaction output:</system>"
"""How kimi-cli announces a summary, by which it is known."""
_APART = TextPart(text=" ")
"""Comes before words that would be taken for the program's, or for a summary, and are not."""


def write_kimi(original: Original) -> Exported:
    """A context folder of kimi-cli. Calls without a result get the one that a request would state.

    A system prompt is never written: kimi-cli would take it in place of its own.
    """
    view = [item.message for item in original.projection.view]
    writer = _Writer()
    for message in paired(message for message in view if not is_preamble(message)):
        writer.add(message)
    title = _title(original)
    beside = {"state.json": record_line({"version": 1, "custom_title": title})} if title else {}
    notes = []
    if any(map(is_preamble, view)):
        notes.append("kimi-cli has a system prompt of its own, and reads instruction files itself.")
    if original.projection.model or any(isinstance(message, AssistantMessage) for message in view):
        notes.append("kimi-cli keeps neither times nor the models that answered.")
    return Exported(b"".join(map(record_line, writer.rows)), tuple(notes), beside)


def _title(original: Original) -> str:
    """What kimi-cli lists the session as: its title, or the beginning of its first prompt."""
    prompts = (entry for entry in original.entries if isinstance(entry, UserMessage) and entry.text.strip())
    first = next(prompts, None)
    words = original.projection.title or (first_words(first) if first else "")
    return " ".join(words.split())[:80]


@dataclass
class _Writer:
    """Writes messages as rows, with a checkpoint at the beginning and before each prompt."""

    rows: list[Record] = field(default_factory=list)
    _checkpoints: int = 0
    _has_summary: bool = False

    def __post_init__(self) -> None:
        self._checkpoint()

    def _checkpoint(self) -> None:
        if not self.rows or self.rows[-1]["role"] != "_checkpoint":
            self.rows.append({"role": "_checkpoint", "id": self._checkpoints})
            self._checkpoints += 1

    def add(self, message: BaseMessage) -> None:
        """Writes a message, and behind an answer the size of the context, which kimi-cli counts there."""
        if is_typed(message):
            self._checkpoint()
        opens = is_summary(message) and not self._has_summary
        self._has_summary |= opens
        self.rows.append(_announced(message) if opens else _record(message))
        if isinstance(message, AssistantMessage) and message.usage is not None:
            self.rows.append({"role": "_usage", "token_count": message.usage.total})


# --- records ------------------------------------------------------------------------------------------


def _record(message: BaseMessage) -> Record:
    match message:
        case AssistantMessage():
            record: Record = {"role": "assistant", "content": _content(_apart(message, (SUMMARY,)))}
            if message.calls:
                record["tool_calls"] = [_call(call) for call in message.calls]
            return record
        case ToolResultMessage():
            record = {"role": "tool", "content": _content(message.parts), "tool_call_id": message.call_id}
            return {**record, "isError": True} if message.is_error else record
        case UserMessage(origin="typed"):
            return {"role": "user", "content": _content(_apart(message, MACHINE))}
        case _:
            return {"role": "user", "content": _content(_marked(message))}


def _opens_with(parts: Sequence[Part], start: tuple[str, ...]) -> bool:
    return bool(parts) and isinstance(parts[0], TextPart) and parts[0].text.lstrip().startswith(start)


def _apart(message: BaseMessage, openings: tuple[str, ...]) -> Sequence[Part]:
    """The parts, unmistakably somebody's own words."""
    return (_APART, *message.parts) if _opens_with(message.parts, openings) else message.parts


def _announced(summary: BaseMessage) -> Record:
    """The summary that a state opens with: kimi-cli knows one, further ones are texts of the program."""
    known = _opens_with(summary.parts, (SUMMARY,))
    parts = summary.parts if known else (TextPart(text=_SUMMARY_HEAD), *summary.parts)
    return {"role": "user", "content": _content(parts)}


def _marked(message: BaseMessage) -> Sequence[Part]:
    """Machine text as kimi-cli marks it: in the role user, between `<system>` and `</system>`."""
    if _opens_with(message.parts, MACHINE) and not _opens_with(message.parts, (SUMMARY,)):
        return message.parts
    marked = [_tagged(part) if isinstance(part, TextPart) else part for part in message.parts]
    return marked if _opens_with(marked, MACHINE) else [TextPart(text="<system>Images:</system>"), *marked]


def _tagged(part: TextPart) -> TextPart:
    """Its text as the program's. A closing tag inside is defused: nothing quoted steps out."""
    defused = part.text.replace("</system", r"<\/system")
    return TextPart(text=f"<system>{defused}</system>")


def _content(parts: Iterable[Part]) -> list[Record]:
    return [piece for part in parts if (piece := _piece(part)) is not None]


def _piece(part: Part) -> Record | None:
    match part:
        case TextPart():
            return {"type": "text", "text": part.text}
        case ImagePart():
            return {"type": "image_url", "image_url": {"url": f"data:{part.media_type};base64,{part.data}"}}
        case _:
            return None


def _call(call: ToolCallPart) -> Record:
    function = {"name": call.name, "arguments": call.arguments}
    return {"type": "function", "id": call.call_id, "function": function}
