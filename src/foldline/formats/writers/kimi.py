"""Writer for kimi-cli: the view as `context.jsonl`, and beside it what it was before each compaction, rewind,
clear and edit, as `context_1.jsonl` and so on, which is how kimi-cli itself leaves them behind. The title is
in `state.json`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from foldline.context.calls import paired
from foldline.context.view import first_words, interrupted_result, is_preamble, is_summary
from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    Checkpoint,
    Entry,
    ImagePart,
    Part,
    SystemMessage,
    TextPart,
    ThinkingPart,
    Title,
    ToolCallPart,
    ToolResultMessage,
    UserMessage,
)

from ..export import Exported, Original
from ..kimi import MACHINE, SUMMARY
from .view_changes import (
    Appended,
    Record,
    Unrelated,
    ViewChanged,
    common_start,
    left_out,
    record_line,
    view_changes,
)

_SUMMARY_HEAD = f"{SUMMARY}. Here is the compaction output:</system>"
"""How kimi-cli announces a summary, by which it is known."""
OURS = "You are Foldline, "
"""How Foldline's own system prompt begins."""
_APART = TextPart(text=" ")
"""Comes before words that would be taken for the program's, or for a summary, and are not."""


def write_kimi(original: Original) -> Exported:
    """A context folder of kimi-cli. Calls without a result get the one that a request would state."""
    writer = _Writer(_prompt(original))
    for change in view_changes(original.entries):
        match change:
            case Appended(message):
                writer.grow(message)
            case ViewChanged(view):
                writer.turn(view)
            case Unrelated(entry):
                writer.beside(entry)
    generations = writer.finished()
    files = {f"context_{number}.jsonl": data for number, data in enumerate(generations[:-1], start=1)}
    files["context.jsonl"] = generations[-1]
    title = _title(original)
    if title:
        files["state.json"] = record_line({"version": 1, "custom_title": title})
    notes = [*left_out(writer.left_out, "kimi-cli")]
    if not writer.prompt and any(isinstance(entry, SystemMessage) for entry in original.entries):
        notes.append("kimi-cli has a system prompt of its own: Foldline's is left out.")
    if any(isinstance(entry, AssistantMessage) for entry in original.entries):
        notes.append("kimi-cli keeps neither times nor the models that answered.")
    return Exported(files, "context.jsonl", tuple(notes))


def _prompt(original: Original) -> str:
    """The system prompt, to which instruction files belong in kimi-cli. Ours names tools that it does not
    have: without any, it takes its own, and reads the instruction files itself."""
    preamble = [item.message for item in original.projection.view if is_preamble(item.message)]
    if any(_is_ours(message) for message in preamble):
        return ""
    return "\n\n".join(message.text for message in preamble)


def _is_ours(message: BaseMessage) -> bool:
    return isinstance(message, SystemMessage) and message.text.startswith(OURS)


def _title(original: Original) -> str:
    """What kimi-cli lists the session as: its title, or the beginning of its first prompt."""
    prompts = (entry for entry in original.entries if isinstance(entry, UserMessage) and entry.text.strip())
    first = next(prompts, None)
    words = original.projection.title or (first_words(first) if first else "")
    return " ".join(words.split())[:80]


@dataclass(frozen=True, slots=True)
class _Row:
    record: Record
    message: BaseMessage | None = None

    @property
    def is_checkpoint(self) -> bool:
        return bool(self.record["role"] == "_checkpoint")


@dataclass
class _Writer:
    prompt: str
    left_out: list[Entry] = field(default_factory=list)
    _states: list[bytes] = field(default_factory=list)
    _rows: list[_Row] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._rows = [_Row({"role": "_system_prompt", "content": self.prompt})] if self.prompt else []
        self._checkpoint()

    def _checkpoint(self) -> None:
        if not self._rows or not self._rows[-1].is_checkpoint:
            before = next((row.record["id"] for row in reversed(self._rows) if row.is_checkpoint), -1)
            self._rows.append(_Row({"role": "_checkpoint", "id": before + 1}))

    def _said(self) -> list[BaseMessage]:
        return [row.message for row in self._rows if row.message is not None]

    def _waiting(self) -> list[ToolResultMessage]:
        return _missing(row.message for row in reversed(self._rows) if row.message is not None)

    def beside(self, entry: Entry) -> None:
        if isinstance(entry, Checkpoint) and not self._waiting():  # it has none within a step
            self._checkpoint()
        elif not (isinstance(entry, Title) or (isinstance(entry, BaseMessage) and is_preamble(entry))):
            self.left_out.append(entry)

    def grow(self, message: BaseMessage) -> None:
        """One more message. kimi-cli counts the whole context after each answer."""
        if not isinstance(message, ToolResultMessage):
            self._close_group()
        self._add(message)
        if isinstance(message, AssistantMessage) and message.usage is not None:
            self._rows.append(_Row({"role": "_usage", "token_count": message.usage.total}))

    def _close_group(self) -> None:
        for result in self._waiting():
            self._add(result)

    def _add(self, message: BaseMessage) -> None:
        if isinstance(message, UserMessage) and message.origin == "typed":
            self._checkpoint()
        opens = is_summary(message) and not any(map(is_summary, self._said()))
        self._rows.append(_Row(_announced(message) if opens else _record(message), message))

    def turn(self, view: Sequence[BaseMessage]) -> None:
        """Make the current state this view: by going on, or in a new state."""
        target = paired(view)
        target = target[: len(target) - len(_missing(reversed(view)))]
        said = self._said()
        common = common_start(said, target)
        if common < len(said):
            self._states.append(_data(self._rows))
            common = self._go_back_to(common)
        for message in target[common:]:
            self._add(message)

    def _go_back_to(self, common: int) -> int:
        """Begin a state with so many of the messages of this one, or with those up to the checkpoint before,
        as a rewind of kimi-cli does; how many they are.
        """
        kept = 0
        while kept < len(self._rows) and (common or self._rows[kept].message is None):
            common -= self._rows[kept].message is not None
            kept += 1
        rows = self._rows[:kept]
        while rows and not rows[-1].is_checkpoint:
            rows.pop()
        if not any(row.message for row in rows):
            self._begin()
            return 0
        self._rows = rows
        return len(self._said())

    def finished(self) -> list[bytes]:
        self._close_group()
        return [*self._states, _data(self._rows)]


def _data(rows: Iterable[_Row]) -> bytes:
    return b"".join(record_line(row.record) for row in rows)


def _missing(newest_first: Iterable[BaseMessage]) -> list[ToolResultMessage]:
    """Stated results for the calls of the last answer that have none yet."""
    answered: list[str] = []
    for message in newest_first:
        if isinstance(message, ToolResultMessage):
            answered.append(message.call_id)
            continue
        if not isinstance(message, AssistantMessage):
            break
        waiting = list(message.calls)
        for call_id in answered:
            call = next((call for call in waiting if call.call_id == call_id), None)
            if call is not None:
                waiting.remove(call)
        return [interrupted_result(call, message.index) for call in waiting]
    return []


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
        case ThinkingPart():
            signed = {"encrypted": signature} if (signature := part.exported_signature) else {}
            return {"type": "think", "think": part.text, **signed}
        case ImagePart():
            return {"type": "image_url", "image_url": {"url": f"data:{part.media_type};base64,{part.data}"}}
        case _:
            return None


def _call(call: ToolCallPart) -> Record:
    function = {"name": call.name, "arguments": call.arguments}
    return {"type": "function", "id": call.call_id, "function": function}
