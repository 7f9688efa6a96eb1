"""Writer for kimi-cli.

A summary at the start of the view begins with kimi-cli's own introduction.
"""

from collections.abc import Iterable, Iterator, Sequence

from foldline.formats.export import Exported, HandedView
from foldline.formats.parts import first_text
from foldline.formats.readers.kimi_cli.reader import MACHINE, SUMMARY, parts_open_with
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
from foldline.text.shorten import first_line

from .records import Record, content_of, image_url, lines, record_line

_SUMMARY_HEAD = TextPart(text=f"{SUMMARY}. Here is the compaction output:</system>")
"""The sentence with which kimi-cli introduces a summary."""
_SPACE = TextPart(text=" ")
"""A part that is placed before texts that kimi-cli would otherwise mistake for its own."""


def write_kimi(view: HandedView) -> Exported:
    """Write `context.jsonl`, and the title in `state.json`."""
    prompts = (
        message for _, message in view.messages if isinstance(message, UserMessage)
    )
    title = view.title or first_text(first_line(prompt.text) for prompt in prompts)
    title = " ".join(title.split())[:80]
    side_files = {}
    if title:
        state = {"version": 1, "custom_title": title}
        side_files["state.json"] = record_line(state)
    return view.exported(
        "kimi-cli",
        lines(_kimi_rows(view)),
        "Left out: times and models, which kimi-cli does not store.",
        side_files=side_files,
    )


def _kimi_rows(view: HandedView) -> Iterator[Record]:
    """Yield the messages as rows.

    A checkpoint precedes each prompt, and the context size follows each answer.
    """
    checkpoints = 1
    yield {"role": "_checkpoint", "id": 0}
    if view.summary is not None:
        parts = view.summary.parts
        if not parts_open_with(parts, SUMMARY):
            parts = (_SUMMARY_HEAD, *parts)
        yield {"role": "user", "content": _kimi_content(parts)}
    for nth, (_, message) in enumerate(view.messages):
        if is_typed(message) and (nth > 0 or view.summary is not None):
            yield {"role": "_checkpoint", "id": checkpoints}
            checkpoints += 1
        yield _kimi_row(message)
        if isinstance(message, AssistantMessage) and message.usage is not None:
            yield {"role": "_usage", "token_count": message.usage.total}


def _kimi_row(message: BaseMessage) -> Record:
    role = "user"
    more: Record = {}
    match message:
        case AssistantMessage():
            role = "assistant"
            parts = _own_words(message, SUMMARY)
            if message.calls:
                more["tool_calls"] = list(map(_kimi_call, message.calls))
        case ToolResultMessage():
            role = "tool"
            parts = message.parts
            more["tool_call_id"] = message.call_id
            if message.is_error:
                more["isError"] = True
        case UserMessage(origin="typed"):
            parts = _own_words(message, MACHINE)
        case _:
            parts = _program_words(message.parts)
    return {"role": role, "content": _kimi_content(parts), **more}


def _kimi_call(call: ToolCallPart) -> Record:
    function = {"name": call.name, "arguments": call.arguments}
    return {"type": "function", "id": call.call_id, "function": function}


def _own_words(
    message: BaseMessage, beginnings: str | tuple[str, ...]
) -> Sequence[Part]:
    """Return the parts in a form that kimi-cli does not mistake for its own text."""
    if parts_open_with(message.parts, beginnings):
        return (_SPACE, *message.parts)
    return message.parts


def _program_words(parts: Sequence[Part]) -> Sequence[Part]:
    """Enclose the program's texts in `<system>` and `</system>`."""
    if parts_open_with(parts, MACHINE) and not parts_open_with(parts, SUMMARY):
        return parts
    marked = [
        _in_system_tag(part) if isinstance(part, TextPart) else part for part in parts
    ]
    if parts_open_with(marked, MACHINE):
        return marked
    return [TextPart(text="<system>Images:</system>"), *marked]


def _in_system_tag(part: TextPart) -> TextPart:
    """Enclose text in a `<system>` tag.

    Closing tags inside the text are escaped.
    """
    defused = part.text.replace("</system", r"<\/system")
    return TextPart(text=f"<system>{defused}</system>")


def _kimi_content(parts: Iterable[Part]) -> list[Record]:
    return content_of(
        parts,
        lambda image: {"type": "image_url", "image_url": {"url": image_url(image)}},
    )
