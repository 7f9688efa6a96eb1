"""The compactions of Codex: what its model's context is after one, in terms of our entries."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    Compaction,
    DeveloperMessage,
    TextPart,
    UserMessage,
    text_parts,
)

from .base import JsonObject, as_text
from .codex_items import SUMMARIES, Book, Row

SEALED = "(What Codex's summary said here is not in the file: it is kept encrypted.)"
ABSENT = "(What Codex's summary said here is not in the file.)"
_SUMMARY_OPENING = "Another language model started to solve this problem and produced a summary"
"""How Codex introduces a summary that it wrote as text."""
_NO_SUMMARY = "(no summary available)"
_PROMPT_TOKENS = 20_000
"""How much of the user's words Codex carries over where it lists no new context (its `compact.rs`)."""
_BYTES_PER_TOKEN = 4

Messages = Callable[[JsonObject], Sequence[BaseMessage]]
"""The messages of an item."""


@dataclass
class _Context:
    """A context after a compaction: what precedes the summary, the summary, what follows it."""

    ahead: list[int]
    summary: str
    kept: list[int]
    sealed: bool = False
    """Whether there is a summary that cannot be read."""


def fold(row: Row, book: Book, messages_of: Messages, prompt_seen: int | None) -> tuple[Compaction, str]:
    """The compaction a row records, and its summary, `SEALED` and `ABSENT` included.

    What the new context says and the history has not said yet, such as a fresh description of the
    environment, is added to the history before it. `prompt_seen` is the index of the first prompt.
    """
    history, told = row.payload.get("replacement_history"), as_text(row.payload.get("message"))
    if isinstance(history, list):
        items = [item for item in history if isinstance(item, dict)]
        context = _replaced(row, book, items, told, messages_of)
    else:
        context = _Context(_carried_over(row, book, prompt_seen), told or _NO_SUMMARY, [])
    _let_go(book, {*context.ahead, *context.kept})
    summary = context.summary or (SEALED if context.sealed else ABSENT)
    folded = book.view.folded(
        book.next_index(row),
        text_parts(summary),
        context.kept,
        ahead=context.ahead,
        strategy="codex",
    )
    return folded, summary


def _replaced(
    row: Row, book: Book, items: Iterable[JsonObject], told: str, messages_of: Messages
) -> _Context:
    """The context as the row lists it."""
    known = _Known(book)
    context = _Context([], "", [])
    place = context.ahead
    for item in items:
        if item.get("type") in SUMMARIES:
            context.sealed |= bool(item.get("encrypted_content"))
            place = context.kept
            continue
        for message in messages_of(item):
            if _is_summary(message, told):
                context.summary, place = message.text, context.kept
            elif message.parts and not _is_silent(message):
                index = known.take(message)
                place.append(book.add(row, message) if index is None else index)
    return context


class _Known:
    """The messages of the history, each to be found once, those in the view first."""

    def __init__(self, book: Book) -> None:
        seen = set(book.view.messages)
        self._places: dict[object, list[int]] = {}
        for index in sorted(book.entries, key=lambda index: (index not in seen, index), reverse=True):
            entry = book.entries[index]
            if isinstance(entry, BaseMessage):
                self._places.setdefault((entry.type, entry.parts), []).append(index)

    def take(self, message: BaseMessage) -> int | None:
        places = self._places.get((message.type, message.parts))
        return places.pop() if places else None


def _is_summary(message: BaseMessage, told: str) -> bool:
    return isinstance(message, UserMessage) and (
        message.text.startswith(_SUMMARY_OPENING) or (bool(told) and message.text == told)
    )


def _is_silent(message: BaseMessage) -> bool:
    return isinstance(message, AssistantMessage) and not message.text.strip()


def _carried_over(row: Row, book: Book, prompt_seen: int | None) -> list[int]:
    """What versions that did not list the new context kept: the opening, and the newest words of the user."""
    opening: list[int] = []
    prompts: list[int] = []
    room = _PROMPT_TOKENS
    for index in reversed(book.view.messages):
        entry = book.entries[index]
        if isinstance(entry, DeveloperMessage) and (prompt_seen is None or index < prompt_seen):
            opening.append(index)
        elif isinstance(entry, UserMessage) and entry.origin == "typed" and room > 0:
            data = entry.text.encode()
            tokens = -(-len(data) // _BYTES_PER_TOKEN)
            prompts.append(index if tokens <= room else book.add(row, _shortened(data, room)))
            room -= tokens
    return [*reversed(opening), *reversed(prompts)]


def _shortened(text: bytes, tokens: int) -> UserMessage:
    half = tokens * _BYTES_PER_TOKEN // 2
    cut = -(-(len(text) - 2 * half) // _BYTES_PER_TOKEN)
    head, tail = text[:half].decode(errors="ignore"), text[-half:].decode(errors="ignore") if half else ""
    return UserMessage(origin="machine", parts=(TextPart(text=f"{head}…{cut} tokens truncated…{tail}"),))


def _let_go(book: Book, stays: set[int]) -> None:
    """Instructions that Codex left behind become plain machine text: ours open every view for good."""
    for index in book.view.messages:
        entry = book.entries[index]
        if index not in stays and isinstance(entry, DeveloperMessage) and entry.origin == "instructions":
            book.change(index, origin="notice")
