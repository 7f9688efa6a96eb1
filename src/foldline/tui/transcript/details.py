"""What is behind a row of the transcript: how far it is open, what copying takes there, what search reads."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from foldline.context.calls import command_of
from foldline.context.harmless import with_signs
from foldline.context.numbers import many
from foldline.context.outline import MessageOutline
from foldline.context.projection import Projection
from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    Compaction,
    Entry,
    ImagePart,
    Subagent,
    ToolCallPart,
    ToolResultMessage,
    UserMessage,
)
from foldline.tui.blocks.block import Block, Key
from foldline.tui.blocks.cutter import Code
from foldline.tui.blocks.markdown import MarkdownBlock
from foldline.tui.blocks.plain import LaterBlock, StackBlock
from foldline.tui.blocks.view import BlockView
from foldline.tui.transcript import calls, rows
from foldline.tui.transcript.calls import Call, CallBook, Opening, altered_letter, call_row
from foldline.tui.transcript.children import Children
from foldline.tui.transcript.output import PART, WHOLE, Body, call_body, live_tail, plain_output
from foldline.tui.transcript.panel import key_name
from foldline.tui.transcript.rows import THOUGHT, is_thought, thought_pieces, thought_row

_SLICE: Final = 64
"""Calls that are drawn anew at a time: about 10 ms."""
_TOKENS_A_LINE: Final = 10
"""Of an output: what a height is guessed by before somebody looks."""
_FURTHER: Final[dict[Opening, tuple[Opening, ...]]] = {
    "closed": ("part", "whole"),
    "part": ("whole",),
    "whole": (),
}


class Openings:
    """What is open in the transcript, and how far: calls, summaries, thoughts, long prompts; all in place.

    Nothing is read from the history before it is drawn.
    """

    def __init__(self, view: BlockView, projection: Projection, calls: CallBook, children: Children) -> None:
        self._view = view
        self._projection = projection
        self._calls = calls
        self._children = children
        self._levels: dict[Key, Opening] = {}
        self.thought_seconds: dict[int, float] = {}
        """How long the answers thought that came while somebody looked."""
        self._revealed: tuple[Key, Opening] | None = None
        """What is open only because a search stands on it, and how far it was open before."""
        self.altered: set[Key] = set()
        """Calls whose row carries the letter of a fate."""

    def level(self, key: Key) -> Opening:
        """How far it is open: what changed a few lines is by itself. The pieces of a thought are as open as
        their row."""
        call = self._calls.get(key)
        by_itself: Opening = "part" if call is not None and call.opens else "closed"
        return self._levels.get((key[0], THOUGHT) if is_thought(key) else key, by_itself)

    def opens(self, key: Key) -> bool:
        """Whether there is anything to open or close here."""
        if key in self._levels or is_thought(key) or self._calls.get(key) is not None:
            return True
        entry = self._projection.entry(key[0])
        if isinstance(entry, UserMessage):
            ran = entry.origin == "shell" and command_of(entry) is not None
            return ran or rows.is_long(entry)
        return isinstance(entry, Compaction | Subagent)

    def reveal(self, key: Key, needle: str) -> bool:
        """Open it as far as `needle` needs, and close what was opened before; whether it is seen."""
        if self._revealed is not None and self._revealed[0] != key:
            self.conceal()
        before = self.level(key)
        for level in _FURTHER[before] if self.opens(key) else ():
            if self._shows(key, needle):
                break
            self._revealed = self._revealed or (key, before)
            self.set(key, level)
        return self._shows(key, needle)

    def conceal(self) -> None:
        """Close again what was opened for a search."""
        revealed, self._revealed = self._revealed, None
        if revealed is not None:
            self.set(*revealed)

    def _shows(self, key: Key, needle: str) -> bool:
        """Whether these words are drawn at a place."""
        for block in self._blocks_from(key):
            same_thought = is_thought(key) and is_thought(block.key) and block.key[0] == key[0]
            if block.key != key and not same_thought:
                return False
            if needle.lower() in block.text().lower():
                return True
        return False

    def _blocks_from(self, key: Key) -> Iterator[Block]:
        first = self._view.index_of(key)
        return iter(()) if first is None else map(self._view.block_at, range(first, self._view.count))

    def toggle(self, key: Key) -> None:
        """One step: open; where that showed a part only, all of it; closed."""
        self._revealed = None  # from here on it is as the reader wants it
        level, call = self.level(key), self._calls.get(key)
        if call is None:
            self.set(key, "closed" if level != "closed" else "whole")
        elif level == "closed":
            self.set(key, "part")
        else:
            self.set(key, "whole" if level == "part" and self._body(call, "part").more else "closed")

    def flip(self, key: Key) -> bool:
        """Note that it is open, or closed, without drawing anything: whether it is open now."""
        if self._levels.pop(key, None) is None:
            self._levels[key] = "whole"
        return key in self._levels

    def set(self, key: Key, level: Opening) -> None:
        """Open it this far, in place."""
        if is_thought(key):
            key = (key[0], THOUGHT)
        block = self._view.block(key)
        if block is None:
            return
        before = self.level(key)
        self._levels.pop(key, None)
        if level != self.level(key):
            self._levels[key] = level
        if key in self._calls.keys:
            self.redraw_call(key, follow=False)
        elif is_thought(key):
            if (before == "closed") != (level == "closed"):
                self._draw_thought(key[0], level != "closed", block.gap)
        elif (other := self._other(key, level)) is not None:
            self._view.replace(key, replace(other, gap=block.gap))

    def redraw(self, key: Key) -> None:
        """Draw it as it is now, as far open as it was."""
        self.set(key, self.level(key))

    def _other(self, key: Key, level: Opening) -> Block | None:
        entry = self._projection.entry(key[0])
        match entry:
            case Compaction():
                return rows.compaction_block(entry, self._projection, opened=level != "closed")
            case UserMessage(origin="shell"):
                return calls.shell_block(entry, self._projection, opened=level != "closed")
            case UserMessage():
                opening = "part" if level == "closed" else level
                return rows.prompt_block(entry, self._projection, opening=opening)
            case _:
                return None

    # --- calls -------------------------------------------------------------------------------------

    def redraw_call(self, key: Key, *, follow: bool = True) -> None:
        """Draw a call as it is now."""
        block = self._view.block(key)
        if block is not None:
            self._view.replace(key, self.call_block(key, block.gap), follow=follow)

    def call_block(self, key: Key, gap: int) -> Block:
        """The block of a call, open as far as it is."""
        call = self._calls.get(key)
        assert call is not None, "only the places of calls are asked for"
        if call.result is not None and altered_letter(self._projection, call.result):
            self.altered.add(key)
        else:
            self.altered.discard(key)
        level = self.level(key)
        below = self._below(call, level)
        if call.child is not None:
            line = self._children.line(key, call.child)
            below = line if below is None else StackBlock(key, (line, below))
        return call_row(call, self._projection, opening=level, gap=gap, body=below)

    def _below(self, call: Call, level: Opening) -> Block | None:
        if call.result is None and call.output:
            return live_tail(call.key, call.output)
        if level == "closed":
            return None
        outline = None if call.result is None else self._projection.outline(call.result)
        tokens = outline.tokens if isinstance(outline, MessageOutline) else 0
        lines = min(tokens // _TOKENS_A_LINE + 1, PART if level == "part" else WHOLE) + 1
        return LaterBlock(call.key, lambda: self._body(call, level).block, lines)

    def _body(self, call: Call, level: Opening) -> Body:
        given, result = parts_of_call(call, self._projection)
        further = f"{key_name('open' if level == 'part' else 'inspect')} opens"
        most = PART if level == "part" else WHOLE
        return call_body(call.key, given, result, self._projection, most=most, further=further)

    def toggle_all_calls(self) -> Iterator[None]:
        """Open every tool call, or leave open only what is by itself where another one is: in slices, what is
        seen first."""
        touched = [key for key in self._levels if self._calls.get(key) is not None]
        levels = [self._levels.pop(key) for key in touched]
        is_opened = any(level != "closed" for level in levels)
        if not is_opened:
            self._levels |= dict.fromkeys(self._calls.keys, "part")
        yield from self.redrawn(touched if is_opened else self._calls.keys)

    def redrawn(self, keys: Iterable[Key]) -> Iterator[None]:
        """Draw these calls anew, a slice at a time, from the top line on and then what is above it."""
        top = self._view.top
        ordered = sorted(keys, key=lambda key: (top is not None and key < top[0], key))
        for start in range(0, len(ordered), _SLICE):
            for key in ordered[start : start + _SLICE]:
                self.redraw_call(key, follow=False)
            yield

    # --- thoughts ----------------------------------------------------------------------------------

    def answer_blocks(self, message: AssistantMessage, text: Sequence[Block] | None = None) -> list[Block]:
        """The blocks of an answer, its thought as open as it was while it came. `text`: those of its text,
        where they are there already."""
        blocks = list(rows.answer_blocks(message, self._projection, text))
        if message.thinking.strip():
            opened = self.level(blocks[0].key) != "closed"
            blocks[:1] = [
                self._thought_row(message, opened, blocks[0].gap),
                *(thought_pieces(message.index, message.thinking) if opened else ()),
            ]
        return blocks

    def _thought_row(self, message: AssistantMessage, opened: bool, gap: int) -> Block:
        tokens = rows.thought_tokens(message, self._projection)
        seconds = self.thought_seconds.get(message.index)
        return thought_row(message.index, tokens, seconds, opened=opened, gap=gap)

    def _draw_thought(self, index: int, opened: bool, gap: int) -> None:
        message = self._projection.entry(index)
        if not isinstance(message, AssistantMessage):
            return
        row = self._thought_row(message, opened, gap)
        self._view.replace(row.key, row)
        if opened:
            self._view.insert_after(row.key, *thought_pieces(index, message.thinking))
        else:
            self.close_pieces(index)

    def close_pieces(self, index: int) -> None:
        """Take the words of a thought away, below its row."""
        gone: list[Key] = []
        for block in self._blocks_from((index, THOUGHT)):
            if block.key[0] != index or not is_thought(block.key):
                break
            gone.append(block.key)
        self._view.remove_blocks(gone[1:])


def parts_of_call(call: Call, projection: Projection) -> tuple[ToolCallPart, ToolResultMessage | None]:
    """What a call was given, and, where it is there, what it gave back."""
    answer = projection.entry(call.key[0])
    assert isinstance(answer, AssistantMessage), "a call stands in an answer"
    result = None if call.result is None else projection.entry(call.result)
    return answer.calls[call.number], result if isinstance(result, ToolResultMessage) else None


# --- copying --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Copied:
    """Text for the clipboard, and what it is, in words."""

    text: str
    what: str
    instead: str = ""
    """What the same key takes when it is pressed again; empty: the same."""

    @property
    def words(self) -> str:
        """`the code block: 14 lines`."""
        lines = self.text.count("\n") + 1
        size = many(lines, "line") if lines > 1 else many(len(self.text), "character")
        return f"{self.what}: {size}"


def copied(block: Block, call: Call | None, projection: Projection, *, again: bool) -> Copied | None:
    """What is at this block: a piece of code, what a call gave back, else the entry. `again`: what the second
    press of the key takes. None where there is nothing."""
    if call is not None:
        return _of_call(call, projection, again)
    entry = projection.entry(block.key[0])
    if is_thought(block.key) and isinstance(entry, AssistantMessage):
        return Copied(entry.thinking.strip(), "the thought")
    whole = _of_entry(entry, block)
    if isinstance(block, MarkdownBlock) and isinstance(block.content, Code) and not again:
        instead = whole.what if whole is not None else ""
        return Copied("\n".join(block.content.fence.source), "the code block", instead)
    return whole


def _of_call(call: Call, projection: Projection, again: bool) -> Copied | None:
    part, result = parts_of_call(call, projection)
    command = part.parsed().get("command")
    text, what = (command, "the command") if isinstance(command, str) else (part.arguments, "the arguments")
    if call.result is None or again:
        return Copied(text, what, "" if call.result is None else "what it gave back")
    if result is None:
        return None
    if result.details.diff:
        return Copied(with_signs(result.details.diff.rstrip("\n")), "the diff", what)
    return Copied(plain_output(result.text.rstrip("\n")), f"the output of {call.name}", what)


def _of_entry(entry: Entry | None, block: Block) -> Copied | None:
    match entry:
        case AssistantMessage():
            return Copied(entry.text.strip(), "the answer") if entry.text.strip() else None
        case Compaction():
            return Copied(entry.summary, "the summary") if entry.summary.strip() else None
        case BaseMessage():
            return Copied(entry.text, "the prompt" if entry.type == "user" else "the entry")
        case _:
            return Copied(block.text(), "the line")


def pictures_at(key: Key, call: Call | None, projection: Projection) -> tuple[ImagePart, ...]:
    """The pictures of a prompt, or of what a call gave back."""
    entry = projection.entry(key[0]) if call is None else parts_of_call(call, projection)[1]
    parts = entry.parts if isinstance(entry, BaseMessage) else ()
    return tuple(part for part in parts if isinstance(part, ImagePart))


# --- search ----------------------------------------------------------------------------------------------


def words_at(block: Block, call: Call | None, projection: Projection) -> str:
    """All that stands at a block, opened or not."""
    if call is not None:
        given, result = parts_of_call(call, projection)
        found = () if result is None else (result.details.diff or "", result.text)
        return "\n".join((call.title, given.arguments, *found))
    entry = projection.entry(block.key[0])
    if is_thought(block.key):
        return entry.thinking if block.key[1] == THOUGHT and isinstance(entry, AssistantMessage) else ""
    if isinstance(entry, Compaction):
        return f"{block.text()}\n{entry.summary}"
    if isinstance(entry, BaseMessage) and not isinstance(entry, AssistantMessage):
        return entry.text
    return block.text()
