"""What an opened row shows below it: the whole message, in blocks of about a screen."""

import json
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from foldline.context.audit import LEDGER
from foldline.context.harmless import clean, clean_line
from foldline.context.ledger import LedgerLine, ledger_lines
from foldline.context.projection import Projection
from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    CheckpointPart,
    Compaction,
    DeveloperMessage,
    Entry,
    ImagePart,
    Part,
    Revert,
    SystemMessage,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultMessage,
)
from foldline.tui.blocks.block import Block, Key
from foldline.tui.blocks.diff import DiffBlock, lines_of_diff, path_in
from foldline.tui.blocks.markdown import markdown_blocks
from foldline.tui.blocks.plain import TextBlock
from foldline.tui.panels.entry_list import piece_key
from foldline.tui.panels.states import sharer
from foldline.tui.panels.words import call_of, note_text, usage_words

PIECE_LINES: Final = 40
"""Lines of a plain piece: pieces are drawn one by one."""
_LENGTH, _MOST = 1_600, 4_000
"""Characters of a plain piece from which on it ends with its line, or within it."""


@dataclass(frozen=True, slots=True, eq=False)
class _RawText(TextBlock):
    """Text as it came: cleaned when it is drawn."""

    def text(self) -> str:
        return clean(self.body)


@dataclass(frozen=True, slots=True, eq=False)
class LedgerBlock(TextBlock):
    """A line of a ledger."""

    line: LedgerLine = field(kw_only=True)


def ledger_blocks(
    lines: Sequence[LedgerLine], key_of: Callable[[int], Key], pinned: Container[str] = ()
) -> list[Block]:
    """` 262 src/a.py  apply_order retry_order`: the entry, what it was about, its names; texts below them."""
    digits = max((len(str(line.entry)) for line in lines), default=0)
    blocks: list[Block] = []
    place = (-1, "")
    for at, line in enumerate(lines):
        again, place = line[:2] == place, line[:2]
        about = clean_line(line.place) if line.place != line.text else ""
        words = clean_line(line.text) if line.is_text or not about else f"{about}  {clean_line(line.text)}"
        right = ((about, "muted"),) if line.is_text and not again else ()
        mark = ("* ", "accent") if line.id in pinned else ("  ", "")
        lead = (mark, (f"{line.entry:>{digits}} ", "muted"))
        blocks.append(LedgerBlock(key_of(at), words, lead=lead, right=right, line=line))
    return blocks


class _Pieces:
    """Collects the pieces below a row and numbers them."""

    def __init__(self, row: Key) -> None:
        self._row = row
        self.blocks: list[Block] = []

    @property
    def _key(self) -> Key:
        return piece_key(self._row, len(self.blocks))

    def _key_of(self, first: int, nth: int) -> Key:
        return piece_key(self._row, first + nth)

    def head(self, words: str) -> None:
        self.blocks.append(TextBlock(self._key, clean_line(words), "muted", gap=int(bool(self.blocks))))

    def plain(self, text: str, style: str = "text", *, gap: int = 0, prose: bool = False) -> None:
        for number, piece in enumerate(_chunks(text.rstrip("\n"))):
            self.blocks.append(_RawText(self._key, piece, style, prose=prose, gap=0 if number else gap))

    def markdown(self, text: str) -> None:
        index, first = self._key
        self.blocks += markdown_blocks(text, index, first, gap=int(bool(self.blocks)))

    def summary(self, text: str) -> None:
        """Markdown, but for the ledger: its lines stand one below the other."""
        at = 0
        for found in LEDGER.finditer(text):
            self.markdown(text[at : found.start()])
            self.head(found[1].replace("-", " "))
            self.blocks += ledger_blocks(ledger_lines(found[0]), partial(self._key_of, len(self.blocks)))
            at = found.end()
        self.markdown(text[at:])

    def diff(self, text: str) -> None:
        self.blocks.append(DiffBlock(self._key, tuple(lines_of_diff(text)), path_in(text)))

    def image(self, image: ImagePart) -> None:
        size = f", {image.width}×{image.height}" if image.width and image.height else ""
        self.head(f"[image {image.media_type}{size}]")

    def arguments(self, call: ToolCallPart) -> None:
        """Arguments by name; text as it is, everything else as JSON. Broken JSON is shown as it came."""
        arguments = call.parsed()
        if not arguments and call.arguments.strip() not in ("", "{}"):
            self.plain(call.arguments)
        for name, value in arguments.items():
            shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)
            self.plain(f"{name}: {shown}" if "\n" not in shown else f"{name}:\n{shown}")


def body_blocks(projection: Projection, entry: Entry, row: Key) -> list[Block]:
    """All that an entry holds, as blocks with keys below `row`: thinking, text, calls, results, diffs."""
    pieces = _Pieces(row)
    match entry:
        case Compaction():
            pieces.summary(entry.summary)
        case Revert():
            pieces.markdown(entry.text)
        case ToolResultMessage():
            _result(pieces, projection, entry)
        case BaseMessage():
            _message(pieces, entry)
        case _:
            pieces.plain(note_text(entry))
    if not pieces.blocks:
        pieces.head("nothing more here")
    return pieces.blocks


def _message(pieces: _Pieces, message: BaseMessage) -> None:
    is_summary = isinstance(message, SystemMessage) and message.origin == "summary"
    for part in message.parts:
        if is_summary and isinstance(part, TextPart):
            pieces.summary(part.text)
        else:
            _part(pieces, part, as_markdown=isinstance(message, AssistantMessage))
    if isinstance(message, AssistantMessage):
        if message.error:
            pieces.plain(message.error, "alert", gap=1)
        if words := _answer_words(message):
            pieces.head(words)
    if isinstance(message, DeveloperMessage) and message.source:
        pieces.head(f"from {message.source}")


def _part(pieces: _Pieces, part: Part, *, as_markdown: bool) -> None:
    match part:
        case TextPart() if as_markdown:
            pieces.markdown(part.text)
        case TextPart():
            pieces.plain(part.text, prose=True)
        case ThinkingPart():
            pieces.head("thinking")
            pieces.plain(part.text, "muted italic", prose=True)
        case ToolCallPart():
            pieces.head(f"calls {part.name}")
            pieces.arguments(part)
        case ImagePart():
            pieces.image(part)
        case CheckpointPart():
            pieces.head(f"checkpoint {part.id}: the model may come back here")


def _result(pieces: _Pieces, projection: Projection, result: ToolResultMessage) -> None:
    call = call_of(projection, result)
    if call is not None:
        pieces.head(f"{call.name} was called with")
        pieces.arguments(call)
        caller = projection.entry(projection.group(result.index)[0])
        if isinstance(caller, AssistantMessage) and sharer(projection, result.index) is not None:
            pieces.head(_answer_words(caller))
    if result.details.diff:
        pieces.head("changed")
        pieces.diff(result.details.diff)
    pieces.head("the result" if not result.is_error else "the error")
    for part in result.parts:
        match part:
            case TextPart():
                pieces.plain(part.text, "alert" if result.is_error else "text")
            case ImagePart():
                pieces.image(part)
    if not result.parts:
        pieces.plain("(no output)", "muted")
    if result.details.full_output:
        pieces.head(f"whole output: {result.details.full_output}")


def _answer_words(message: AssistantMessage) -> str:
    parts = [message.model or "", *(usage_words(message.usage) if message.usage is not None else ())]
    if message.stop_reason not in (None, "stop", "tool_calls"):
        parts.append(f"ended by {message.stop_reason}")
    return " · ".join(part for part in parts if part)


def _chunks(text: str) -> Iterator[str]:
    """Foreign text in pieces of about a screen. Touches no line of it: there may be a million."""
    at = 0
    while at < len(text) or not at:
        end = text.find("\n", at + _LENGTH, at + _MOST)
        if end < 0:
            end = min(at + _MOST, len(text))
        if text.count("\n", at, end) >= PIECE_LINES:
            end = at - 1
            for _ in range(PIECE_LINES):
                end = text.index("\n", end + 1)
        yield text[at:end]
        at = max(end + text.startswith("\n", end), at + 1)
