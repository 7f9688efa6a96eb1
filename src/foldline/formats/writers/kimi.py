"""Writer for kimi-cli. A summary that opens the view is announced as kimi-cli does."""

from collections.abc import Iterable, Iterator, Sequence

from foldline.context.view import first_words
from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    Part,
    TextPart,
    ToolCallPart,
    ToolResultMessage,
    UserMessage,
    is_typed,
)

from ..export import Exported, HandedView
from ..readers.kimi_cli.reader import MACHINE, SUMMARY
from .records import Record, content_of, image_url, lines, record_line

_SUMMARY_HEAD = TextPart(text=f"{SUMMARY}. Here is the compaction output:</system>")
"""How kimi-cli announces a summary."""
_SPACE = TextPart(text=" ")
"""Comes before words that kimi-cli would take for the program's."""


def write_kimi(view: HandedView) -> Exported:
    """Write `context.jsonl`, with the title in `state.json`."""
    prompts = (message for _, message in view.messages if isinstance(message, UserMessage))
    title = view.title or next(filter(None, map(first_words, prompts)), "")
    title = " ".join(title.split())[:80]
    beside = {"state.json": record_line({"version": 1, "custom_title": title})} if title else {}
    note = "kimi-cli keeps neither times nor the models that answered."
    return view.exported("kimi-cli", lines(_kimi_rows(view)), note, beside=beside)


def _kimi_rows(view: HandedView) -> Iterator[Record]:
    """Yield messages, with checkpoints before prompts and sizes after answers."""
    checkpoints = 1
    yield {"role": "_checkpoint", "id": 0}
    if view.summary is not None:
        parts = view.summary.parts
        is_announced = _opens_with(parts, (SUMMARY,))
        yield {"role": "user", "content": _kimi_content(parts if is_announced else (_SUMMARY_HEAD, *parts))}
    for nth, (_, message) in enumerate(view.messages):
        if is_typed(message) and (nth > 0 or view.summary is not None):
            yield {"role": "_checkpoint", "id": checkpoints}
            checkpoints += 1
        yield _kimi_row(message)
        if isinstance(message, AssistantMessage) and message.usage is not None:
            yield {"role": "_usage", "token_count": message.usage.total}


def _kimi_row(message: BaseMessage) -> Record:
    match message:
        case AssistantMessage():
            row: Record = {"role": "assistant", "content": _kimi_content(_own_words(message, (SUMMARY,)))}
            if message.calls:
                row["tool_calls"] = list(map(_kimi_call, message.calls))
        case ToolResultMessage():
            row = {"role": "tool", "content": _kimi_content(message.parts), "tool_call_id": message.call_id}
            if message.is_error:
                row["isError"] = True
        case UserMessage(origin="typed"):
            row = {"role": "user", "content": _kimi_content(_own_words(message, MACHINE))}
        case _:
            row = {"role": "user", "content": _kimi_content(_program_words(message.parts))}
    return row


def _kimi_call(call: ToolCallPart) -> Record:
    function = {"name": call.name, "arguments": call.arguments}
    return {"type": "function", "id": call.call_id, "function": function}


def _opens_with(parts: Sequence[Part], beginnings: tuple[str, ...]) -> bool:
    return bool(parts) and isinstance(parts[0], TextPart) and parts[0].text.lstrip().startswith(beginnings)


def _own_words(message: BaseMessage, beginnings: tuple[str, ...]) -> Sequence[Part]:
    return (_SPACE, *message.parts) if _opens_with(message.parts, beginnings) else message.parts


def _program_words(parts: Sequence[Part]) -> Sequence[Part]:
    """Put texts of the program between `<system>` and `</system>`."""
    if _opens_with(parts, MACHINE) and not _opens_with(parts, (SUMMARY,)):
        return parts
    marked = [_in_system_tag(part) if isinstance(part, TextPart) else part for part in parts]
    return marked if _opens_with(marked, MACHINE) else [TextPart(text="<system>Images:</system>"), *marked]


def _in_system_tag(part: TextPart) -> TextPart:
    """Put a text in a tag that it cannot close."""
    defused = part.text.replace("</system", r"<\/system")
    return TextPart(text=f"<system>{defused}</system>")


def _kimi_content(parts: Iterable[Part]) -> list[Record]:
    return content_of(parts, lambda image: {"type": "image_url", "image_url": {"url": image_url(image)}})
