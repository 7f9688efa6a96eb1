"""The body of an expanded row: the complete entry, in blocks of about one screen."""

import json
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from foldline.memory.ledger_lines import LedgerLine, ledger_lines
from foldline.memory.mentions import LEDGER
from foldline.past.describe import call_of, entry_text, usage_words
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
from foldline.text.harmless import clean, clean_line
from foldline.tui.blocks.block import Block, Key
from foldline.tui.blocks.diff import DiffBlock, lines_of_diff, path_in
from foldline.tui.blocks.markdown import markdown_blocks
from foldline.tui.blocks.plain import TextBlock
from foldline.tui.browser.panels.entry_list import piece_key
from foldline.tui.browser.panels.states import sharer
from foldline.tui.look.cells import Spans
from foldline.view.projection import Projection

PIECE_LINES: Final = 40
"""Maximum number of lines in a plain block. Longer text is split, because only visible blocks are drawn."""
_SOFT_LENGTH: Final = 1_600
"""Once a plain block has this many characters, it ends at the next line end."""
NOTHING_MORE: Final = "no further content"
CHECKPOINT: Final = "checkpoint {id}: the model can rewind to this point"
_HARD_LENGTH: Final = 4_000
"""Once a plain block has this many characters, it ends even in the middle of a line."""


@dataclass(frozen=True, slots=True, eq=False)
class _RawText(TextBlock):
    """Text from which control characters are removed only when it is drawn."""

    def text(self) -> str:
        return clean(self.body)


@dataclass(frozen=True, slots=True, eq=False)
class LedgerBlock(TextBlock):
    """One line of a compaction's ledger."""

    line: LedgerLine = field(kw_only=True)


def ledger_blocks(
    lines: Sequence[LedgerLine],
    keys: Sequence[Key],
    pinned: Container[str] = (),
) -> list[Block]:
    """Return a block for each ledger line: ` 262 src/a.py  apply_order retry_order`.

    A block shows the entry number, the location in the code and the names. Lines of text have the location on
    the right.

    Args:
        keys: the key of each block.
        pinned: ids of the lines that later compactions keep.
    """
    digits = max((len(str(line.entry)) for line in lines), default=0)
    blocks: list[Block] = []
    previous = (-1, "")
    for key, line in zip(keys, lines, strict=True):
        is_repeated = line[:2] == previous
        previous = line[:2]
        text = clean_line(line.text)
        about = clean_line(line.place) if line.place != line.text else ""
        right: Spans = ()
        if line.is_text and not is_repeated:
            right = ((about, "muted"),)
        elif about and not line.is_text:
            text = f"{about}  {text}"
        mark = ("* ", "accent") if line.id in pinned else ("  ", "")
        lead = (mark, (f"{line.entry:>{digits}} ", "muted"))
        blocks.append(LedgerBlock(key, text, lead=lead, right=right, line=line))
    return blocks


class _BodyBuilder:
    """Collects and numbers the blocks of a row's body."""

    def __init__(self, row: Key) -> None:
        self._row = row
        self.blocks: list[Block] = []

    @property
    def _next_key(self) -> Key:
        return piece_key(self._row, len(self.blocks))

    @property
    def _gap(self) -> int:
        """Number of empty lines above a heading: 0 at the top of the body, otherwise 1."""
        return 1 if self.blocks else 0

    def add_heading(self, words: str) -> None:
        self.blocks.append(
            TextBlock(self._next_key, clean_line(words), "muted", gap=self._gap)
        )

    def add_text(
        self, text: str, style: str = "text", *, gap: int = 0, prose: bool = False
    ) -> None:
        for chunk in _chunks(text.rstrip("\n")):
            self.blocks.append(
                _RawText(self._next_key, chunk, style, prose=prose, gap=gap)
            )
            gap = 0

    def add_markdown(self, text: str) -> None:
        index, first = self._next_key
        self.blocks += markdown_blocks(text, index, first, gap=self._gap)

    def add_summary(self, text: str) -> None:
        """Add a summary's Markdown, with each ledger line in its own block."""
        start = 0
        for ledger in LEDGER.finditer(text):
            self.add_markdown(text[start : ledger.start()])
            self.add_heading(ledger[1].replace("-", " "))
            lines = ledger_lines(ledger[0])
            first = len(self.blocks)
            keys = [piece_key(self._row, first + nth) for nth in range(len(lines))]
            self.blocks += ledger_blocks(lines, keys)
            start = ledger.end()
        self.add_markdown(text[start:])

    def add_diff(self, text: str) -> None:
        self.blocks.append(
            DiffBlock(self._next_key, tuple(lines_of_diff(text)), path_in(text))
        )

    def add_image(self, image: ImagePart) -> None:
        size = f", {image.width}×{image.height}" if image.width and image.height else ""
        self.add_heading(f"[image {image.media_type}{size}]")

    def add_arguments(self, call: ToolCallPart) -> None:
        """Add a call's arguments: strings as text, other values as JSON.

        Arguments that are not valid JSON are shown as they are.
        """
        arguments = call.parsed()
        if not arguments and call.arguments.strip() not in ("", "{}"):
            self.add_text(call.arguments)
        for name, value in arguments.items():
            text = (
                value
                if isinstance(value, str)
                else json.dumps(value, ensure_ascii=False, indent=2)
            )
            separator = "\n" if "\n" in text else " "
            self.add_text(f"{name}:{separator}{text}")


def body_blocks(projection: Projection, entry: Entry, row: Key) -> list[Block]:
    """Return an entry's complete content, as blocks below its row."""
    body = _BodyBuilder(row)
    match entry:
        case Compaction():
            body.add_summary(entry.summary)
        case Revert():
            body.add_markdown(entry.text)
        case ToolResultMessage():
            _result(body, projection, entry)
        case BaseMessage():
            _message(body, entry)
        case _:
            body.add_text(entry_text(projection, entry))
    if not body.blocks:
        body.add_heading(NOTHING_MORE)
    return body.blocks


def _message(body: _BodyBuilder, message: BaseMessage) -> None:
    is_summary = isinstance(message, SystemMessage) and message.origin == "summary"
    for part in message.parts:
        if is_summary and isinstance(part, TextPart):
            body.add_summary(part.text)
        else:
            _part(body, part, as_markdown=isinstance(message, AssistantMessage))
    if isinstance(message, AssistantMessage):
        if message.error:
            body.add_text(message.error, "alert", gap=1)
        if words := _answer_words(message):
            body.add_heading(words)
    if isinstance(message, DeveloperMessage) and message.source:
        body.add_heading(f"from {message.source}")


def _part(body: _BodyBuilder, part: Part, *, as_markdown: bool) -> None:
    match part:
        case TextPart() if as_markdown:
            body.add_markdown(part.text)
        case TextPart():
            body.add_text(part.text, prose=True)
        case ThinkingPart():
            body.add_heading("thinking")
            body.add_text(part.text, "muted italic", prose=True)
        case ToolCallPart():
            body.add_heading(f"calls {part.name}")
            body.add_arguments(part)
        case ImagePart():
            body.add_image(part)
        case CheckpointPart():
            body.add_heading(CHECKPOINT.format(id=part.id))


def _result(
    body: _BodyBuilder, projection: Projection, result: ToolResultMessage
) -> None:
    call = call_of(projection, result)
    if call is not None:
        body.add_heading(f"arguments of {call.name}")
        body.add_arguments(call)
        caller = projection.entry(projection.group(result.index)[0])
        if (
            isinstance(caller, AssistantMessage)
            and sharer(projection, result.index) is not None
        ):
            body.add_heading(_answer_words(caller))
    if result.details.diff:
        body.add_heading("changes")
        body.add_diff(result.details.diff)
    body.add_heading("error" if result.is_error else "result")
    for part in result.parts:
        match part:
            case TextPart():
                body.add_text(part.text, "alert" if result.is_error else "text")
            case ImagePart():
                body.add_image(part)
    if not result.parts:
        body.add_text("(no output)", "muted")
    if result.details.full_output:
        body.add_heading(f"full output: {result.details.full_output}")


def _answer_words(message: AssistantMessage) -> str:
    parts = [message.model or ""]
    if message.usage is not None:
        parts += usage_words(message.usage)
    if message.stop_reason not in (None, "stop", "tool_calls"):
        parts.append(f"ended by {message.stop_reason}")
    return " · ".join(filter(None, parts))


def _chunks(text: str) -> Iterator[str]:
    """Split text into pieces of about one screen.

    This does not build a list of all lines.
    """
    start = 0
    while start < len(text) or not start:
        end = text.find("\n", start + _SOFT_LENGTH, start + _HARD_LENGTH)
        if end < 0:
            end = min(start + _HARD_LENGTH, len(text))
        if text.count("\n", start, end) >= PIECE_LINES:
            end = start - 1
            for _ in range(PIECE_LINES):
                end = text.index("\n", end + 1)
        yield text[start:end]
        start = max(end + text.startswith("\n", end), start + 1)
