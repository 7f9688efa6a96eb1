"""Expands, collapses and copies blocks of the transcript, and returns their text for search."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

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
from foldline.text.harmless import with_signs
from foldline.text.numbers import many
from foldline.tui.blocks.block import Block, Key
from foldline.tui.blocks.cutter import Code
from foldline.tui.blocks.markdown import MarkdownBlock, markdown_blocks
from foldline.tui.blocks.plain import LaterBlock, StackBlock
from foldline.tui.blocks.view import BlockView
from foldline.tui.transcript import calls, rows
from foldline.tui.transcript.calls import (
    CALL_PIECE,
    INDENT,
    CallBook,
    CallRow,
    Opening,
    altered_letter,
    call_row,
)
from foldline.tui.transcript.children import Children
from foldline.tui.transcript.output import (
    PART,
    WHOLE,
    Body,
    call_body,
    expand_hint,
    live_tail,
    plain_output,
)
from foldline.tui.transcript.rows import (
    TEXT_PIECE,
    THOUGHT,
    is_thought,
    thought_row,
)
from foldline.view.calls import command_of
from foldline.view.outline import MessageOutline
from foldline.view.projection import Projection

_SLICE: Final = 64
"""Number of tool calls redrawn before yielding to the event loop. Redrawing them takes about 10 ms."""
_TOKENS_A_LINE: Final = 10
"""Assumed number of tokens per line of output, for estimating heights before drawing."""
_LEVELS: Final[tuple[Opening, ...]] = ("closed", "part", "whole")


class Openings:
    """The expanded blocks of the transcript: calls, summaries, thoughts and long prompts.

    The content of expanded blocks is read from the history only when it is drawn.
    """

    def __init__(
        self,
        view: BlockView,
        projection: Projection,
        calls: CallBook,
        children: Children,
    ) -> None:
        self._view = view
        self._projection = projection
        self._calls = calls
        self._children = children
        self._levels: dict[Key, Opening] = {}
        self.thought_seconds: dict[int, float] = {}
        """Thinking time, in seconds, of each response streamed so far, by entry index."""
        self._revealed: tuple[Key, Opening] | None = None
        """The block expanded to reveal the current search match, and that block's previous level."""
        self.altered: set[Key] = set()
        """Keys of the calls that are marked as clipped or hidden."""

    def level(self, key: Key) -> Opening:
        """Return how much of a block is shown.

        Short diffs are expanded from the start. A thought is always expanded completely.
        """
        call = self._calls.get(key)
        default: Opening = "part" if call is not None and call.opens else "closed"
        return self._levels.get(key, default)

    def opens(self, key: Key) -> bool:
        """Whether this block can be expanded or collapsed."""
        if key in self._levels or is_thought(key) or self._calls.get(key) is not None:
            return True
        entry = self._projection.entry(key[0])
        if isinstance(entry, UserMessage):
            is_command = entry.origin == "shell" and command_of(entry) is not None
            return is_command or rows.is_long(entry)
        return isinstance(entry, Compaction | Subagent)

    def reveal(self, key: Key, needle: str) -> bool:
        """Expand a block until `needle` is visible, and collapse the previously revealed block.

        Returns:
            Whether `needle` is visible.
        """
        if self._revealed is not None and self._revealed[0] != key:
            self.conceal()
        before = self.level(key)
        levels = _LEVELS[_LEVELS.index(before) + 1 :] if self.opens(key) else ()
        for level in levels:
            if self._shows(key, needle):
                break
            self._revealed = self._revealed or (key, before)
            self.set(key, level)
        return self._shows(key, needle)

    def conceal(self) -> None:
        """Collapse the block that was expanded for a search."""
        revealed, self._revealed = self._revealed, None
        if revealed is not None:
            self.set(*revealed)

    def _shows(self, key: Key, needle: str) -> bool:
        """Whether the part of a block that is shown contains this text."""
        block = self._view.block(key)
        return block is not None and needle.lower() in block.text().lower()

    def toggle(self, key: Key) -> None:
        """Switch a block to its next level.

        Calls go from `closed` to `part`, to `whole` if there is more to show, and back to `closed`. Other
        blocks switch between `closed` and `whole`.
        """
        self._revealed = None  # the level is now the user's choice
        level = self.level(key)
        call = self._calls.get(key)
        if level == "closed":
            self.set(key, "whole" if call is None else "part")
        elif call is not None and level == "part" and self._body(call, "part").more:
            self.set(key, "whole")
        else:
            self.set(key, "closed")

    def flip(self, key: Key) -> bool:
        """Expand or collapse a block without drawing it, and return whether it is now expanded."""
        if self._levels.pop(key, None) is None:
            self._levels[key] = "whole"
        return key in self._levels

    def set(self, key: Key, level: Opening) -> None:
        """Set a block to this level, in place."""
        self._levels.pop(key, None)
        if level != self.level(key):
            self._levels[key] = level
        self.redraw(key)

    def redraw(self, key: Key, *, follow: bool = False) -> None:
        """Redraw a block at its current level."""
        block = self._view.block(key)
        if block is None:
            return
        if self._calls.get(key) is not None:
            self._view.replace(key, self.call_block(key, block.gap), follow=follow)
        elif (new_block := self._entry_block(key, self.level(key))) is not None:
            new_block = replace(new_block, gap=block.gap)
            self._view.replace(key, new_block, follow=follow)

    def _entry_block(self, key: Key, level: Opening) -> Block | None:
        entry = self._projection.entry(key[0])
        match entry:
            case AssistantMessage() if is_thought(key):
                return self._thought_row(entry)
            case Compaction():
                return rows.compaction_block(
                    entry, self._projection, opened=level != "closed"
                )
            case UserMessage(origin="shell"):
                return calls.shell_block(
                    entry, self._projection, opened=level != "closed"
                )
            case UserMessage():
                opening = "part" if level == "closed" else level
                return rows.prompt_block(entry, self._projection, opening=opening)
            case Subagent():
                return self._children.block(entry)
            case _:
                return None

    # --- calls -------------------------------------------------------------------------------------

    def call_block(self, key: Key, gap: int) -> Block:
        """Return the block of a call at its current level."""
        call = self._calls.get(key)
        assert call is not None, "the key is that of a call"
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

    def _below(self, call: CallRow, level: Opening) -> Block | None:
        if call.result is None and call.output:
            return live_tail(call.key, call.output)
        if level == "closed":
            return None
        outline = None if call.result is None else self._projection.outline(call.result)
        tokens = outline.tokens if isinstance(outline, MessageOutline) else 0
        lines = min(tokens // _TOKENS_A_LINE + 1, _most_lines(level)) + 1
        return LaterBlock(call.key, lambda: self._body(call, level).block, lines)

    def _body(self, call: CallRow, level: Opening) -> Body:
        part, result = parts_of_call(call, self._projection)
        hint = expand_hint(level)
        return call_body(
            call.key,
            part,
            result,
            self._projection,
            most=_most_lines(level),
            further=hint,
        )

    def toggle_all_calls(self) -> Iterator[None]:
        """Expand all tool calls.

        If the user has already expanded any, collapse all of them instead. Each `yield` ends a slice of the
        work.
        """
        changed = [key for key in self._levels if self._calls.get(key) is not None]
        levels = [self._levels.pop(key) for key in changed]
        if any(level != "closed" for level in levels):
            yield from self.redraw_calls(changed)
        else:
            self._levels |= dict.fromkeys(self._calls.keys, "part")
            yield from self.redraw_calls(self._calls.keys)

    def redraw_calls(self, keys: Iterable[Key]) -> Iterator[None]:
        """Redraw calls, first those at or below the top line, then those above.

        Each `yield` ends a slice of the work.
        """
        top = self._view.top
        ordered = sorted(keys, key=lambda key: (top is not None and key < top[0], key))
        for start in range(0, len(ordered), _SLICE):
            for key in ordered[start : start + _SLICE]:
                self.redraw(key)
            yield

    # --- thoughts ----------------------------------------------------------------------------------

    def answer_blocks(
        self, message: AssistantMessage, text: Sequence[Block] | None = None
    ) -> list[Block]:
        """Return the blocks of a response: thinking, text and calls.

        The calls must already be in the `CallBook`. `text` contains the blocks of the response's text, if
        they already exist. A thought stays expanded if it was expanded while streaming.
        """
        index = message.index
        blocks: list[Block] = []
        if message.thinking.strip():
            blocks.append(self._thought_row(message))
        if text is None:
            text = markdown_blocks(message.text, index, TEXT_PIECE, indent=INDENT)
        blocks += text
        for number in range(len(message.calls)):
            key = (index, CALL_PIECE + number)
            blocks.append(self.call_block(key, gap=int(number == 0)))
        return blocks + rows.ending_blocks(message)

    def _thought_row(self, message: AssistantMessage) -> Block:
        return thought_row(
            message.index,
            rows.thought_tokens(message, self._projection),
            self.thought_seconds.get(message.index),
            None
            if self.level((message.index, THOUGHT)) == "closed"
            else message.thinking,
        )


def _most_lines(level: Opening) -> int:
    return PART if level == "part" else WHOLE


def parts_of_call(
    call: CallRow, projection: Projection
) -> tuple[ToolCallPart, ToolResultMessage | None]:
    """Read a call and its result from the history."""
    answer = projection.entry(call.key[0])
    assert isinstance(answer, AssistantMessage), "calls are parts of answers"
    result = None if call.result is None else projection.entry(call.result)
    return answer.calls[call.number], result if isinstance(
        result, ToolResultMessage
    ) else None


# --- copying --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Copied:
    """Text for the clipboard, with a description."""

    text: str
    noun: str
    instead: str = ""
    """Description of what another press of the key would copy; empty if there is no alternative."""

    @property
    def words(self) -> str:
        """The description and the size: `the code block: 14 lines`."""
        lines = self.text.count("\n") + 1
        size = many(lines, "line") if lines > 1 else many(len(self.text), "character")
        return f"{self.noun}: {size}"


def copied(
    block: Block, call: CallRow | None, projection: Projection, *, again: bool
) -> Copied | None:
    """Return the text to copy from a block: its code, its call's result, or its entire entry.

    If `again` is set, the key was pressed a second time, which selects the alternative text. Returns None if
    there is no text.
    """
    if call is not None:
        return _of_call(call, projection, again)
    entry = projection.entry(block.key[0])
    if is_thought(block.key) and isinstance(entry, AssistantMessage):
        return Copied(entry.thinking.strip(), "the thought")
    entry_text = _of_entry(entry, block)
    if (
        isinstance(block, MarkdownBlock)
        and isinstance(block.content, Code)
        and not again
    ):
        instead = entry_text.noun if entry_text is not None else ""
        return Copied("\n".join(block.content.fence.source), "the code block", instead)
    return entry_text


def _of_call(call: CallRow, projection: Projection, again: bool) -> Copied | None:
    part, result = parts_of_call(call, projection)
    command = part.parsed().get("command")
    text, noun = part.arguments, "the arguments"
    if isinstance(command, str):
        text, noun = command, "the command"
    if call.result is None:
        return Copied(text, noun)
    if again:
        return Copied(text, noun, "the output")
    if result is None:
        return None
    if result.details.diff:
        return Copied(with_signs(result.details.diff.rstrip("\n")), "the diff", noun)
    return Copied(
        plain_output(result.text.rstrip("\n")), f"the output of {call.name}", noun
    )


def _of_entry(entry: Entry | None, block: Block) -> Copied | None:
    match entry:
        case AssistantMessage():
            return (
                Copied(entry.text.strip(), "the answer") if entry.text.strip() else None
            )
        case Compaction():
            return (
                Copied(entry.summary, "the summary") if entry.summary.strip() else None
            )
        case BaseMessage():
            return Copied(
                entry.text, "the prompt" if entry.type == "user" else "the entry"
            )
        case _:
            return Copied(block.text(), "the line")


def pictures_at(
    key: Key, call: CallRow | None, projection: Projection
) -> tuple[ImagePart, ...]:
    """Return the images in a prompt or in a call's result."""
    entry = (
        projection.entry(key[0]) if call is None else parts_of_call(call, projection)[1]
    )
    parts = entry.parts if isinstance(entry, BaseMessage) else ()
    return tuple(part for part in parts if isinstance(part, ImagePart))


# --- search ----------------------------------------------------------------------------------------------


def words_at(block: Block, call: CallRow | None, projection: Projection) -> str:
    """Return the searchable text of a block, including collapsed parts."""
    if call is not None:
        part, result = parts_of_call(call, projection)
        texts = [call.title, part.arguments]
        if result is not None:
            texts += [result.details.diff or "", result.text]
        return "\n".join(texts)
    entry = projection.entry(block.key[0])
    if is_thought(block.key) and isinstance(entry, AssistantMessage):
        return entry.thinking
    if isinstance(entry, Compaction):
        return f"{block.text()}\n{entry.summary}"
    if isinstance(entry, BaseMessage) and not isinstance(entry, AssistantMessage):
        return entry.text
    return block.text()
