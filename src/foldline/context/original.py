"""What an entry says, whole and readable: the text that searches look into and that recall shows.

A call's arguments stand here as values, not as the JSON they travel in: a command is found and read as it
was run, a file as it was written, whatever had to be escaped on the way.
"""

import json
from collections.abc import Collection, Iterator

from foldline.protocol import AssistantMessage, BaseMessage, Compaction, Entry, Revert, ToolCallPart


def original(entry: Entry, *, without_calls: Collection[str] = ()) -> str | None:
    """The text of a message, of a fold's summary or of the message a rewind carries; None for other entries.

    Nothing is shortened. Calls of the tools in `without_calls` are left out.
    """
    match entry:
        case AssistantMessage():
            calls = [call for call in entry.calls if call.name not in without_calls]
            return "\n".join(_answer(entry, calls))
        case BaseMessage():
            return entry.text
        case Compaction():
            return entry.summary
        case Revert():
            return entry.message
        case _:
            return None


def _answer(message: AssistantMessage, calls: Collection[ToolCallPart]) -> Iterator[str]:
    if message.thinking:
        yield f"[thinking]\n{message.thinking}"
    if message.text:
        yield f"[answer]\n{message.text}" if message.thinking else message.text
    for call in calls:
        yield _call(call)


def _call(call: ToolCallPart) -> str:
    arguments = call.parsed()
    if not arguments:
        return f"[call {call.name}]\n{call.arguments}"
    return "\n".join([f"[call {call.name}]", *(_argument(*item) for item in arguments.items())])


def _argument(name: str, value: object) -> str:
    shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return f"{name}:\n{shown}" if "\n" in shown else f"{name}: {shown}"
