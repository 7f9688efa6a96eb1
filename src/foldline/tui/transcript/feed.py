"""Feeds the transcript's view: whole entries as they are appended, an answer while it is written.

A streamed answer carries the index its entry will have, so that nothing moves when it is appended.
"""

import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from foldline.context.outline import Entries
from foldline.context.projection import Projection
from foldline.context.subagents import Work
from foldline.context.tokens import estimate_tokens
from foldline.protocol import (
    AssistantMessage,
    Clear,
    Compaction,
    DeveloperMessage,
    Edit,
    Entry,
    ImagePart,
    RequestRecord,
    Revert,
    Subagent,
    ToolResultMessage,
    Undo,
    UserMessage,
)
from foldline.tui.blocks.block import Block, Key
from foldline.tui.blocks.markdown import StreamingMarkdown
from foldline.tui.blocks.plain import RowBlock
from foldline.tui.blocks.view import BlockView
from foldline.tui.transcript import calls, rows
from foldline.tui.transcript.calls import INDENT, CallBook
from foldline.tui.transcript.children import Children
from foldline.tui.transcript.details import Copied, Openings, copied, pictures_at, words_at
from foldline.tui.transcript.output import as_printed
from foldline.tui.transcript.rows import (
    AT_A_TIME,
    AT_FIRST,
    THOUGHT,
    Pieces,
    TranscriptGutter,
    first_of_newest,
    gap_below,
    spaced,
    thought_row,
)

if TYPE_CHECKING:
    from foldline.protocol.events import SubagentProgress

_OUTPUT_KEPT = 8_000
"""Characters of a running command's output that are kept for the lines below its row."""

_ENTRIES = 32
"""Entries that are read between two breaths."""
_WORTH_IT = 0.02
"""Change of the calibration from which on weights that are shown look wrong."""


class Writing:
    """One answer on its way in. `index` is the one its entry will have, `gap` the blank lines above it;
    `clock` counts seconds, and `scale` is what an estimated token is worth."""

    def __init__(self, index: int, gap: int, clock: Callable[[], float], scale: float) -> None:
        self.index = index
        self.shown = False
        """Whether anything of it has been drawn."""
        self._gap = gap
        self._clock = clock
        self._scale = scale
        self._thought: list[str] = []
        self._thought_tokens = 0
        self._undrawn_thought = ""
        self._began: float | None = None
        self._ended: float | None = None
        self._pieces: Pieces | None = None
        self._text: list[str] = []
        self._drawn_text: list[str] = []
        self._markdown: StreamingMarkdown | None = None

    def think(self, text: str) -> None:
        if self._began is None:
            self._began = self._clock()
        self._thought.append(text)
        self._thought_tokens += estimate_tokens(text)
        self._undrawn_thought += text

    def write(self, text: str) -> None:
        if self._ended is None:
            self._ended = self._clock()
        self._text.append(text)

    @property
    def thought_for(self) -> float | None:
        """Seconds it has thought; None where it has not."""
        if self._began is None:
            return None
        return (self._clock() if self._ended is None else self._ended) - self._began

    def again(self, index: int, gap: int) -> "Writing":
        """The same for another index and gap, with nothing drawn yet."""
        self.index, self._gap, self.shown = index, gap, False
        self._pieces = self._markdown = None
        self._undrawn_thought = "".join(self._thought)
        self._text, self._drawn_text = [*self._drawn_text, *self._text], []
        return self

    def show(self, view: BlockView) -> None:
        """Draw what came since the last call."""
        if self._undrawn_thought.strip() and self._markdown is None:
            self._show_thought(view)
        if self._text:
            self._show_text(view)

    def open_thought(self, view: BlockView, opened: bool) -> None:
        """Show the words of the thought as far as there are any, or only how many there are."""
        self._pieces, self._undrawn_thought = Pieces(self.index) if opened else None, ""
        row = self._row(opened)
        if view.block(row.key) is None:
            return
        view.replace(row.key, row)
        if self._pieces is not None:
            view.insert_after(row.key, *self._pieces.feed("".join(self._thought).lstrip()))

    def _show_thought(self, view: BlockView) -> None:
        text, self._undrawn_thought = self._undrawn_thought, ""
        row = self._row(self._pieces is not None)
        if self.shown:
            view.replace(row.key, row, follow=True)
        else:
            view.append(row)
        self.shown = True
        if self._pieces is not None:
            _put(view, list(self._pieces.feed(text)))

    def _row(self, opened: bool) -> RowBlock:
        tokens = round(self._thought_tokens * self._scale)
        return thought_row(self.index, tokens, self.thought_for, opened=opened, gap=self._gap)

    def finish(self, view: BlockView, text: str) -> Sequence[Block] | None:
        """The blocks of the whole text, all of them drawn; None where another text was written than this."""
        self.show(view)
        if self._markdown is None or "".join(self._drawn_text) != text:
            return None
        _put(view, self._markdown.finish().blocks)
        first = view.index_of((self.index, rows.TEXT_PIECE))
        return [] if first is None else [view.block_at(at) for at in range(first, view.count)]

    def _show_text(self, view: BlockView) -> None:
        if self._markdown is None:
            gap = 1 if self._thought_tokens else self._gap
            self._markdown = StreamingMarkdown(self.index, rows.TEXT_PIECE, indent=INDENT, gap=gap)
        delta, self._text = "".join(self._text), []
        self._drawn_text.append(delta)
        blocks = self._markdown.feed(delta).blocks
        self.shown = self.shown or bool(blocks)
        _put(view, blocks)


def _put(view: BlockView, blocks: Sequence[Block]) -> None:
    """Draw what has changed."""
    if blocks:
        view.replace_from(blocks[0].key, blocks)


class Transcript:
    """Keeps a `BlockView` at what the projection and the running step say. Owns no history of its own."""

    def __init__(
        self, view: BlockView, projection: Projection, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._view = view
        self.projection = projection
        """What the transcript shows."""
        self._clock = clock
        self.prompts: list[Key] = []
        """Places of the user's prompts, in order."""
        self.compactions: list[Key] = []
        """Places of the lines that compactions left, in order."""
        self.calls = CallBook()
        self.children = Children(projection)
        self.openings = Openings(view, projection, self.calls, self.children)
        self._gutter = TranscriptGutter(view, projection, self.entry_of)
        self.earlier = 0
        """Entries before those that are shown."""
        self._stale_outputs: set[str] = set()
        self._stale_children: set[str] = set()
        self._writing: Writing | None = None
        self._shell: calls.Running | None = None
        self._planned: int | None = None
        self._said_undoable = 0
        self._scale = self.projection.scale

    def entry_of(self, key: Key) -> int:
        """The entry that stands at a place: of a tool call its result, once that is there."""
        call = self.calls.get(key)
        return key[0] if call is None or call.result is None else call.result

    # --- whole entries -----------------------------------------------------------------------------

    def read(self, entries: Entries) -> list[Block]:
        """The blocks of a whole history, for `show`. Touches no widget: for a thread.

        Of a very long one, those of its newest part, and a rule that says so.
        """
        self.earlier = first_of_newest(entries.outlines, AT_FIRST)
        blocks: list[Block] = [rows.earlier_block(self.earlier)] if self.earlier else []
        for entry in entries[self.earlier :]:
            self._read(entry, blocks)
        return self._with_results(blocks)

    def read_earlier(self) -> Iterator[None]:
        """Show entries from before, in slices: above what is there, which stays on its rows."""
        entries, stop = self.projection.entries, self.earlier
        start = first_of_newest(entries.outlines[:stop], AT_A_TIME)
        prompts, compactions = list[Key](), list[Key]()
        blocks: list[Block] = []
        for at in range(start, stop, _ENTRIES):
            for entry in entries[at : min(at + _ENTRIES, stop)]:
                self._read(entry, blocks, (prompts, compactions))
            yield
        if self.earlier != stop:
            return  # they came otherwise
        self.earlier = start
        self.prompts[:0], self.compactions[:0] = prompts, compactions
        below = self._view.block_at(1).key if self._view.count > 1 else None
        if below is not None:
            self._view.insert_before(below, *self._with_results(blocks))
        if start:
            self._view.replace(rows.EARLIER, rows.earlier_block(start))
        else:
            self._view.remove_blocks([rows.EARLIER])

    def show(self, blocks: Sequence[Block]) -> None:
        """Show the blocks of a whole history, and its gutter."""
        self._view.set_gutter(self._gutter.gutter, self._gutter.faded)
        self._view.set_blocks(blocks)
        self._said_undoable = self.projection.undoable or 0
        self._find_cut()

    def _read(
        self, entry: Entry, blocks: list[Block], places: tuple[list[Key], list[Key]] | None = None
    ) -> None:
        if isinstance(entry, ToolResultMessage):
            self.calls.answer(entry)
        elif not isinstance(entry, Subagent) or self.calls.start(entry) is None:
            blocks += self._blocks(entry, blocks[-1] if blocks else None, places)

    def _with_results(self, blocks: Sequence[Block]) -> list[Block]:
        """These, and of calls whatever more is known than their answer says."""
        calls = [(block, self.calls.get(block.key)) for block in blocks]
        return [
            block
            if call is None or (call.result is None and call.child is None)
            else self.openings.call_block(block.key, block.gap)
            for block, call in calls
        ]

    def add(self, entry: Entry) -> None:
        """Show one more entry. A marker that changes the view repaints the gutter.

        It scrolls nothing, except to the line of what the user did.
        """
        match entry:
            case ToolResultMessage():
                key = self.calls.answer(entry)
                if key is not None:
                    self.openings.redraw_call(key)
            case AssistantMessage():
                self._end_writing(entry)
            case Subagent() if (key := self.calls.start(entry)) is not None:
                self.openings.redraw_call(key)
            case _:
                below = self._make_way(entry)
                self._append(entry)
                if below is not None:
                    self._writing = below.again(entry.index + 1, gap_below(self._last(), None))
                if _is_act_of_user(entry):
                    self._view.follow_end()
        changes_view = isinstance(entry, Compaction | Undo | Clear | Revert | Edit)
        if changes_view:
            self.refresh_fates()
        if changes_view or isinstance(entry, DeveloperMessage):  # which may be the answer of one
            self._redraw_children({each.child for each in self.projection.subagents})

    def refresh_fates(self) -> None:
        """After a change of the view: the gutter, and the letters of rows that were or are altered."""
        self._find_cut()
        altered = {
            key
            for item in self.projection.view
            if item.fate != "live" and (key := self.calls.of_result(item.outline.index)) is not None
        }
        for key in self.openings.altered | altered:
            self.openings.redraw_call(key)
        before, self._said_undoable = self._said_undoable, self.projection.undoable or 0
        for index in {*(key[0] for key in self.compactions[-2:]), before, self._said_undoable}:
            self.openings.redraw((index, 0))  # what its line offers is another thing now
        self._view.refresh()

    def _blocks(
        self, entry: Entry, above: Block | None, places: tuple[list[Key], list[Key]] | None = None
    ) -> list[Block]:
        prompts, compactions = places or (self.prompts, self.compactions)
        match entry:
            case UserMessage():
                prompts.append((entry.index, 0))
            case Compaction():
                compactions.append((entry.index, 0))
            case AssistantMessage():
                self.calls.note(entry)
                return spaced(self.openings.answer_blocks(entry), above)
            case Subagent():
                return spaced([self.children.block(entry)], above)
        return spaced(rows.entry_blocks(entry, self.projection), above)

    def _last(self) -> Block | None:
        return self._view.block_at(self._view.count - 1) if self._view.count else None

    # --- subagents ----------------------------------------------------------------------------------

    def child_at(self, key: Key) -> Subagent | None:
        """The subagent that stands at a place."""
        call = self.calls.get(key)
        entry = self.projection.outline(key[0]) if call is None else call.child
        return entry if isinstance(entry, Subagent) else None

    def hear_child(self, event: "SubagentProgress") -> None:
        """Take what a subagent does now; `flush` shows it."""
        self.children.hear(event)
        self._stale_children.add(event.child)

    def learn_of_children(self, works: Sequence[tuple[str, Work]]) -> None:
        """Show what the histories of subagents say."""
        self.children.learn(works)
        self._redraw_children({child for child, _ in works})

    def _redraw_children(self, children: set[str]) -> None:
        for started in self.projection.subagents if children else ():
            if started.child not in children:
                continue
            key, alone = self.calls.of_child(started), (started.index, 0)
            if key is not None:
                self.openings.redraw_call(key, follow=False)
            elif (block := self._view.block(alone)) is not None:
                self._view.replace(alone, replace(self.children.block(started), gap=block.gap))

    # --- opening in place --------------------------------------------------------------------------

    def toggle(self, key: Key) -> None:
        """Open or close what stands at this key, in place."""
        writing = self._writing
        if writing is not None and key[0] == writing.index and key[1] < 0:
            opened = self.openings.flip((writing.index, THOUGHT))
            if not opened:
                self.openings.close_pieces(writing.index)
            writing.open_thought(self._view, opened)
        else:
            self.openings.toggle(key)

    def pictures(self, key: Key) -> Sequence[ImagePart]:
        """The pictures of what stands there."""
        return pictures_at(key, self.calls.get(key), self.projection)

    def reweigh(self) -> Iterator[None]:
        """The weights of calls, in slices, where the model's reports have changed what a token is worth."""
        scale = self.projection.scale
        if abs(scale / self._scale - 1) > _WORTH_IT:
            self._scale = scale
            yield from self.openings.redrawn(self.calls.answered_keys)

    # --- for the reader ------------------------------------------------------------------------------

    def copied(self, key: Key, *, again: bool) -> Copied | None:
        """What copying takes there; `again`: what it takes the second time."""
        block = self._view.block(key)
        if block is None:
            return None
        if key[0] > self.projection.last_index:
            written = (each.text() for each in self._blocks_of(key[0]) if each.key[1] > 0)
            return Copied("\n\n".join(written), "the answer so far")
        return copied(block, self.calls.get(key), self.projection, again=again)

    def words_at(self, key: Key) -> str:
        """All that stands there, opened or not: what search looks through."""
        block = self._view.block(key)
        return "" if block is None else words_at(block, self.calls.get(key), self.projection)

    # --- what is being written ----------------------------------------------------------------------

    def begin_step(self) -> None:
        """A request leaves; its answer will be the next entry. What an earlier one said in vain goes."""
        self.drop_stream()
        gap = gap_below(self._last(), None)
        self._writing = Writing(self.projection.last_index + 1, gap, self._clock, self.projection.scale)

    def think(self, text: str) -> None:
        if self._writing is not None:
            self._writing.think(text)

    def write(self, text: str) -> None:
        if self._writing is not None:
            self._writing.write(text)

    def start_tool(self, call_id: str, title: str = "") -> None:
        if call_id == calls.SHELL_CALL:
            self._shell = calls.Running(title)
            self._draw_shell()
        elif (call := self.calls.running(call_id)) is not None and call.name == "task":
            call.brief = "waits"  # until its subagent begins: so many work at once, and no more
        self._stale_outputs.add(call_id)

    def tool_output(self, call_id: str, text: str) -> None:
        running = self._shell if call_id == calls.SHELL_CALL else self.calls.running(call_id)
        if running is not None:
            running.output = (running.output + text)[-_OUTPUT_KEPT:]
            self._stale_outputs.add(call_id)

    def flush(self) -> None:
        """Show what came since the last flush; called at most 30 times a second."""
        if self._writing is not None:
            self._writing.show(self._view)
        stale, self._stale_children = self._stale_children, set()
        self._redraw_children(stale)
        is_new = self._shell is not None and self._shell.key is None
        if not (self._view.follow or is_new):
            return  # the newest lines take the place of others: not under the eyes of a reader (rule 1)
        if calls.SHELL_CALL in self._stale_outputs:
            self._draw_shell()
        for call_id in self._stale_outputs:
            if (call := self.calls.running(call_id)) is not None:
                self.openings.redraw_call(call.key)
        self._stale_outputs.clear()

    def drop_stream(self) -> None:
        """The step ended without an answer to keep: what was streamed goes."""
        self._drop_shell()
        writing, self._writing = self._writing, None
        if writing is not None and writing.shown:
            self._view.remove_blocks([block.key for block in self._blocks_of(writing.index)])

    def _draw_shell(self) -> None:
        """The user's command that runs, at the end, with the newest of its output."""
        if self._shell is None:
            return
        output = as_printed(self._shell.output)
        place = self._shell.key
        if place is None:
            self._shell.key = (self.projection.last_index + 1, 0)
            gap = gap_below(self._last(), None)
            self._view.append(calls.running_block(self._shell.key, self._shell.command, output, gap))
        elif (block := self._view.block(place)) is not None:
            running = calls.running_block(place, self._shell.command, output, block.gap)
            self._view.replace(place, running, follow=True)

    def _append(self, entry: Entry) -> None:
        """Show it at the end: in the place of the user's command that runs, which then moves below it, or,
        where this is its entry, is over."""
        running = None if self._shell is None else self._shell.key
        count = self._view.count - (running is not None)
        blocks = self._blocks(entry, self._view.block_at(count - 1) if count else None)
        if running is None or self._shell is None:
            self._view.append(*blocks)
            return
        self._shell.key = None
        self._view.replace_from(running, blocks)
        if isinstance(entry, UserMessage) and entry.origin == "shell":
            self._drop_shell()
        else:
            self._draw_shell()

    def _drop_shell(self) -> None:
        if self._shell is not None and self._shell.key is not None:
            self._view.remove_blocks([self._shell.key])
        self._shell = None

    def _make_way(self, entry: Entry) -> Writing | None:
        """Another entry takes the index that the answer was to have: what was streamed goes below it, and is
        given back for that, or, where the request ended without an answer, away."""
        writing = self._writing
        if writing is None or entry.index < writing.index:
            return None
        self.drop_stream()
        return None if isinstance(entry, RequestRecord) else writing

    def _end_writing(self, message: AssistantMessage) -> None:
        """Put the answer as it is kept in place of what was streamed; text that was drawn stays as it is."""
        writing, self._writing = self._writing, None
        if writing is not None and writing.thought_for is not None:
            self.openings.thought_seconds[message.index] = writing.thought_for
        text = None
        if writing is not None and writing.index == message.index:
            text = writing.finish(self._view, message.text)
        first = self._first_of(message.index)
        above = self._view.block_at(first - 1) if first else None
        self.calls.note(message)
        blocks = spaced(self.openings.answer_blocks(message, text), above)
        if writing is not None and writing.shown and writing.index == message.index:
            self._view.replace_from(self._view.block_at(first).key, blocks)
        else:
            self._view.append(*blocks)

    def _blocks_of(self, index: int) -> list[Block]:
        return [self._view.block_at(at) for at in range(self._first_of(index), self._first_of(index + 1))]

    def _first_of(self, index: int) -> int:
        """The number of the first block of this entry or a later one."""
        view = self._view
        return bisect_left(range(view.count), (index, THOUGHT), key=lambda at: view.block_at(at).key)

    # --- gutter --------------------------------------------------------------------------------------

    def plan_cut(self, index: int | None) -> None:
        """Mark where a compaction that is being made would cut; None takes the mark away again."""
        self._mark_prompt(self._planned, False)
        self._planned = index
        self._mark_prompt(index, True)
        self._find_cut()
        self._view.refresh()

    def _mark_prompt(self, index: int | None, cut: bool) -> None:
        entry = None if index is None else self.projection.entry(index)
        block = self._view.block((index or 0, 0))
        if isinstance(entry, UserMessage) and entry.origin != "shell" and block is not None:
            level = self.openings.level(block.key)
            opening = "part" if level == "closed" else level
            gap = block.gap
            prompt = rows.prompt_block(entry, self.projection, cut=cut, opening=opening, gap=gap)
            self._view.replace(block.key, prompt)

    def _find_cut(self) -> None:
        """The first block of the verbatim tail, planned or real."""
        made = self.projection.compactions()
        index = self._planned if self._planned is not None else made[-1].first_kept_index if made else None
        first = self._view.count if index is None else self._first_of(index)
        self._gutter.cut = self._view.block_at(first).key if first < self._view.count else None


def _is_act_of_user(entry: Entry) -> bool:
    """Whether the user changed the view by this: a D-Mail and most compactions are not theirs."""
    match entry:
        case Compaction():
            return entry.reason == "manual" or entry.cause == "asked"
        case Revert():
            return entry.message is None
        case _:
            return isinstance(entry, Undo | Clear)
