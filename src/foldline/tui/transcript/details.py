"""What is open in the transcript, and how far: calls, summaries, thoughts, long prompts; all in place.

ALSO: What the reading side asks of whoever fills the transcript. It costs nothing before the first paint.
ALSO: What copying takes along from a place in the transcript, and the words search looks through there. Pure.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

from foldline.context.harmless import with_signs
from foldline.context.numbers import many
from foldline.context.outline import MessageOutline
from foldline.context.projection import Projection
from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    Compaction,
    Entry,
    ToolCallPart,
    ToolResultMessage,
    UserMessage,
)
from foldline.tui.blocks import Block, BlockView, Key, LaterBlock, MarkdownBlock
from foldline.tui.blocks.cutter import Code
from foldline.tui.transcript import calls, rows
from foldline.tui.transcript.calls import Call, CallBook, Opening, altered_letter, call_row
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
    """Opens and closes what stands at a place. Nothing is read from the history before it is drawn."""

    def __init__(self, view: BlockView, projection: Projection, calls: CallBook) -> None:
        self._view = view
        self._projection = projection
        self._calls = calls
        self._levels: dict[Key, Opening] = {}
        self.thought_seconds: dict[int, float] = {}
        """How long the answers thought that came while somebody looked."""
        self._revealed: tuple[Key, Opening] | None = None
        """What is open only because a search stands on it, and how far it was open before."""
        self.altered: set[Key] = set()
        """Calls whose row carries the letter of a fate."""

    def level(self, key: Key) -> Opening:
        """How far it is open. The pieces of a thought are as open as their row."""
        return self._levels.get((key[0], THOUGHT) if is_thought(key) else key, "closed")

    def opens(self, key: Key) -> bool:
        """Whether there is anything to open or close here."""
        if key in self._levels or is_thought(key) or self._calls.get(key) is not None:
            return True
        entry = self._projection.entry(key[0])
        return isinstance(entry, Compaction) or (isinstance(entry, UserMessage) and _opens(entry))

    def reveal(self, key: Key, needle: str) -> bool:
        """Open it as far as `needle` needs to be seen, and close what was opened for another one."""
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
        index = self._view.index_of(key)
        while index is not None and index < self._view.count:
            block = self._view.block_at(index)
            same_thought = is_thought(key) and is_thought(block.key) and block.key[0] == key[0]
            if block.key != key and not same_thought:
                break
            if needle.lower() in block.text().lower():
                return True
            index += 1
        return False

    def toggle(self, key: Key) -> None:
        """One step: open; where that showed a part only, all of it; closed."""
        self._revealed = None  # from here on it is as the reader wants it
        if (call := self._calls.get(key)) is not None:
            now = self.level(key)
            more = now == "part" and self._body(call, "part").more
            self.set(key, "part" if now == "closed" else "whole" if more else "closed")
        else:
            self.set(key, "closed" if self.level(key) != "closed" else "whole")

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
        if level == "closed":
            self._levels.pop(key, None)
        else:
            self._levels[key] = level
        if key in self._calls.keys:
            self.redraw_call(key, follow=False)
        elif is_thought(key):
            self._set_thought(key[0], before != "closed", level != "closed", block.gap)
        elif (other := self._other(key, level)) is not None:
            self._view.replace(key, replace(other, gap=block.gap))

    def _other(self, key: Key, level: Opening) -> Block | None:
        entry = self._projection.entry(key[0])
        match entry:
            case Compaction():
                return rows.fold_block(entry, self._projection, opened=level != "closed")
            case UserMessage(origin="shell"):
                return calls.shell_block(entry, self._projection, opened=level != "closed")
            case UserMessage():
                return rows.prompt_block(entry, opening="part" if level == "closed" else level)
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
        return call_row(call, self._projection, opening=level, gap=gap, body=self._below(call, level))

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
        answer = self._projection.entry(call.key[0])
        result = None if call.result is None else self._projection.entry(call.result)
        assert isinstance(answer, AssistantMessage), "a call stands in an answer"
        further = f"{key_name('open' if level == 'part' else 'inspect')} opens"
        return call_body(
            call.key,
            answer.calls[call.number],
            result if isinstance(result, ToolResultMessage) else None,
            most=PART if level == "part" else WHOLE,
            further=further,
        )

    def toggle_all_calls(self) -> Iterator[None]:
        """Open every tool call, or close them all where one is open: in slices, what is seen first."""
        opened = [key for key in self._levels if self._calls.get(key) is not None]
        for key in opened:
            del self._levels[key]
        if not opened:
            self._levels |= dict.fromkeys(self._calls.keys, "part")
        yield from self.redrawn(opened or self._calls.keys)

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
            key = blocks[0].key
            blocks[:1] = [
                self._thought_row(message, self.level(key) != "closed", blocks[0].gap),
                *(thought_pieces(message.index, message.thinking) if self.level(key) != "closed" else ()),
            ]
        return blocks

    def _thought_row(self, message: AssistantMessage, opened: bool, gap: int) -> Block:
        tokens = rows.thought_tokens(message, self._projection)
        seconds = self.thought_seconds.get(message.index)
        return thought_row(message.index, tokens, seconds, opened=opened, gap=gap)

    def _set_thought(self, index: int, before: bool, opened: bool, gap: int) -> None:
        message = self._projection.entry(index)
        if not isinstance(message, AssistantMessage) or before == opened:
            return
        row = self._thought_row(message, opened, gap)
        self._view.replace(row.key, row)
        if opened:
            self._view.insert_after(row.key, *thought_pieces(index, message.thinking))
        else:
            self.close_pieces(index)

    def close_pieces(self, index: int) -> None:
        """Take the words of a thought away, below its row."""
        at = self._view.index_of((index, THOUGHT))
        gone: list[Key] = []
        while at is not None and at + 1 + len(gone) < self._view.count:
            key = self._view.block_at(at + 1 + len(gone)).key
            if key[0] != index or not is_thought(key):
                break
            gone.append(key)
        self._view.remove_blocks(gone)


def _opens(prompt: UserMessage) -> bool:
    return rows.is_long(prompt) or (prompt.origin == "shell" and calls.command_of(prompt) is not None)


@dataclass(frozen=True, slots=True)
class Taken:
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


class Source(Protocol):
    """The transcript as its reader's keys see it."""

    @property
    def prompts(self) -> Sequence[Key]:
        """Places of the user's prompts, in order."""

    @property
    def folds(self) -> Sequence[Key]:
        """Places of the lines that compactions left, in order."""

    @property
    def earlier(self) -> int:
        """Entries before those that are shown."""

    def read_earlier(self) -> Iterator[None]:
        """Show some of them, in slices."""

    def toggle(self, key: Key) -> None:
        """Open or close what stands there."""

    def opens(self, key: Key) -> bool:
        """Whether there is anything to open or close."""

    def entry_of(self, key: Key) -> int:
        """The entry that stands there."""

    def take(self, key: Key, *, again: bool) -> Taken | None:
        """What copying takes there; `again`: what it takes the second time."""

    def words_at(self, key: Key) -> str:
        """All that stands there, opened or not: what search looks through."""

    def reveal(self, key: Key, needle: str) -> bool:
        """Open it as far as `needle` needs to be seen; whether it can be. What was opened for an earlier one
        closes again."""

    def conceal(self) -> None:
        """Close what was opened for a search."""


def taken(block: Block, call: Call | None, projection: Projection, *, again: bool) -> Taken | None:
    """What is at this block: a piece of code, what a call gave back, else the entry. `again`: what the second
    press of the key takes. None where there is nothing."""
    if call is not None:
        return _of_call(call, projection, again)
    entry = projection.entry(block.key[0])
    if is_thought(block.key) and isinstance(entry, AssistantMessage):
        return Taken(entry.thinking.strip(), "the thought")
    whole = _of_entry(entry, block)
    if isinstance(block, MarkdownBlock) and isinstance(block.content, Code) and not again:
        instead = whole.what if whole is not None else ""
        return Taken("\n".join(block.content.fence.source), "the code block", instead)
    return whole


def _of_call(call: Call, projection: Projection, again: bool) -> Taken | None:
    answer = projection.entry(call.key[0])
    assert isinstance(answer, AssistantMessage), "a call stands in an answer"
    part = answer.calls[call.number]
    given = _given(part)
    if call.result is None or again:
        return Taken(*given, "" if call.result is None else "what it gave back")
    result = projection.entry(call.result)
    if not isinstance(result, ToolResultMessage):
        return None
    if result.details.diff:
        return Taken(with_signs(result.details.diff.rstrip("\n")), "the diff", given[1])
    return Taken(plain_output(result.text.rstrip("\n")), f"the output of {call.name}", given[1])


def _given(part: ToolCallPart) -> tuple[str, str]:
    command = part.parsed().get("command")
    return (command, "the command") if isinstance(command, str) else (part.arguments, "the arguments")


def _of_entry(entry: Entry | None, block: Block) -> Taken | None:
    match entry:
        case AssistantMessage():
            return Taken(entry.text.strip(), "the answer") if entry.text.strip() else None
        case Compaction():
            return Taken(entry.summary, "the summary") if entry.summary.strip() else None
        case BaseMessage(type="user"):
            return Taken(entry.text, "the prompt")
        case BaseMessage():
            return Taken(entry.text, "the entry")
        case _:
            return Taken(block.text(), "the line")


def streamed(blocks: Sequence[Block], at: Block, *, again: bool) -> Taken:
    """The same of an answer that is still being written, from what is shown of it."""
    if _is_code(at) and not again:
        first = last = next(number for number, block in enumerate(blocks) if block.key == at.key)
        while first and not blocks[first].gap and _is_code(blocks[first - 1]):
            first -= 1
        while last + 1 < len(blocks) and not blocks[last + 1].gap and _is_code(blocks[last + 1]):
            last += 1
        code = "\n".join(block.text() for block in blocks[first : last + 1])
        return Taken(code, "the code block so far", "the answer so far")
    text = "\n\n".join(block.text() for block in blocks if block.key[1] > 0)
    return Taken(text, "the answer so far")


def _is_code(block: Block) -> bool:
    return isinstance(block, MarkdownBlock) and isinstance(block.content, Code)


# --- search ----------------------------------------------------------------------------------------------


def words_at(block: Block, call: Call | None, projection: Projection) -> str:
    """All that stands at a block, opened or not."""
    if call is not None:
        return "\n".join((call.title, *_words_of_call(call, projection)))
    entry = projection.entry(block.key[0])
    if is_thought(block.key):
        own = block.key[1] == THOUGHT and isinstance(entry, AssistantMessage)
        return entry.thinking if own and isinstance(entry, AssistantMessage) else ""
    if isinstance(entry, Compaction):
        return f"{block.text()}\n{entry.summary}"
    if isinstance(entry, BaseMessage) and not isinstance(entry, AssistantMessage):
        return entry.text
    return block.text()


def _words_of_call(call: Call, projection: Projection) -> tuple[str, ...]:
    answer = projection.entry(call.key[0])
    given = answer.calls[call.number].arguments if isinstance(answer, AssistantMessage) else ""
    result = None if call.result is None else projection.entry(call.result)
    if not isinstance(result, ToolResultMessage):
        return (given,)
    return (given, result.details.diff or "", result.text)
