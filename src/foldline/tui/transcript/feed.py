"""Shows appended entries and the streamed response in the transcript's view."""

import time
from bisect import bisect_left, insort
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from foldline.past.subagents import SubagentWork
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
from foldline.tui.blocks.view import BlockView
from foldline.tui.look.cells import Spans
from foldline.tui.look.fates import GONE, GUTTER_SIGNS, gutter_sign
from foldline.tui.transcript import calls, rows
from foldline.tui.transcript.calls import CallBook
from foldline.tui.transcript.children import Children
from foldline.tui.transcript.details import (
    Copied,
    Openings,
    copied,
    pictures_at,
    words_at,
)
from foldline.tui.transcript.output import as_printed
from foldline.tui.transcript.rows import (
    AT_A_TIME,
    AT_FIRST,
    THOUGHT,
    first_of_newest,
    gap_below,
    spaced,
)
from foldline.tui.transcript.streamed import StreamedAnswer
from foldline.view.outline import Entries
from foldline.view.projection import Projection

if TYPE_CHECKING:
    from foldline.protocol.events import SubagentProgress

_OUTPUT_SIZE = 8_000
"""Maximum number of characters kept of a running command's output. Older output is dropped."""

_ENTRIES = 32
"""Number of entries to read before yielding to the event loop."""
WAITING = "waiting"
"""Text in the result column of a call whose subagent is waiting, because too many are running."""
_WORTH_IT = 0.02
"""The displayed token counts are updated if the calibration has changed by at least this fraction."""


class ChatTranscript:
    """Keeps a `BlockView` in sync with the projection and the running step."""

    def __init__(
        self,
        view: BlockView,
        projection: Projection,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._view = view
        self.projection = projection
        """The projection of the session being shown."""
        self._clock = clock
        self.prompts: list[Key] = []
        """Keys of the user's prompts, in order."""
        self.compactions: list[Key] = []
        """Keys of the lines that represent compactions, in order."""
        self.calls = CallBook()
        self.children = Children(projection)
        self.openings = Openings(view, projection, self.calls, self.children)
        self.earlier = 0
        """Number of earlier entries that have not been loaded."""
        self._stale_outputs: set[str] = set()
        self._stale_children: set[str] = set()
        self._streamed: StreamedAnswer | None = None
        self._shell: calls.Running | None = None
        self._planned: int | None = None
        self._cut: Key | None = None
        """The first block of the part that is kept verbatim."""
        self._shown_undoable = 0
        self._scale = self.projection.meter.scale

    def entry_of(self, key: Key) -> int:
        """Return the index of a block's entry.

        For a tool call with a result, this is the entry of the result.
        """
        call = self.calls.get(key)
        if call is None or call.result is None:
            return key[0]
        return call.result

    # --- entries -----------------------------------------------------------------------------------

    def read(self, entries: Entries) -> list[Block]:
        """Create the blocks of a history, to be passed to `show`.

        This uses no widget, so it can be called in a thread. If the history is very long, only its newest
        part is loaded, with a rule above it.
        """
        self.earlier = first_of_newest(entries.outlines, AT_FIRST)
        blocks: list[Block] = [rows.earlier_block(self.earlier)] if self.earlier else []
        for entry in entries[self.earlier :]:
            self._read(entry, blocks)
        return self._with_results(blocks)

    def read_earlier(self) -> Iterator[None]:
        """Load earlier entries above the loaded entries.

        Each `yield` ends a slice of the work.
        """
        entries = self.projection.entries
        stop = self.earlier
        start = first_of_newest(entries.outlines[:stop], AT_A_TIME)
        blocks: list[Block] = []
        for at in range(start, stop, _ENTRIES):
            for entry in entries[at : min(at + _ENTRIES, stop)]:
                self._read(entry, blocks)
            yield
        if self.earlier != stop:
            return  # another call has already loaded these entries
        self.earlier = start
        if self._view.count > 1:
            self._view.insert_before(
                self._view.block_at(1).key, *self._with_results(blocks)
            )
        if start:
            self._view.replace(rows.EARLIER, rows.earlier_block(start))
        else:
            self._view.remove_blocks([rows.EARLIER])

    def show(self, blocks: Sequence[Block]) -> None:
        """Show the blocks of a history, and the gutter."""
        self._view.set_gutter(self.gutter, self.faded)
        self._view.set_blocks(blocks)
        self._shown_undoable = self.projection.undoable or 0
        self._find_cut()

    def _read(self, entry: Entry, blocks: list[Block]) -> None:
        if isinstance(entry, ToolResultMessage):
            self.calls.answer(entry)
        elif not isinstance(entry, Subagent) or self.calls.start(entry) is None:
            blocks += self._blocks(entry, blocks[-1] if blocks else None)

    def _with_results(self, blocks: Sequence[Block]) -> list[Block]:
        """Redraw the calls that have a result or a subagent, and return the blocks."""
        result = list(blocks)
        for at, block in enumerate(blocks):
            call = self.calls.get(block.key)
            if call is not None and (call.result is not None or call.child is not None):
                result[at] = self.openings.call_block(block.key, block.gap)
        return result

    def add(self, entry: Entry) -> None:
        """Show a new entry.

        If the entry changes the model's view, the gutter is repainted. If a user action created the entry,
        the transcript scrolls to the end.
        """
        match entry:
            case ToolResultMessage():
                key = self.calls.answer(entry)
                if key is not None:
                    self.openings.redraw(key, follow=True)
            case AssistantMessage():
                self._end_writing(entry)
            case Subagent() if (key := self.calls.start(entry)) is not None:
                self.openings.redraw(key, follow=True)
            case _:
                displaced = self._displace_answer(entry)
                self._append(entry)
                if displaced is not None:
                    displaced.move(entry.index + 1, gap_below(self._last(), None))
                    self._streamed = displaced
                if _is_user_action(entry):
                    self._view.follow_end()
        changes_view = isinstance(entry, Compaction | Undo | Clear | Revert | Edit)
        if changes_view:
            self.refresh_fates()
        if changes_view or isinstance(
            entry, DeveloperMessage
        ):  # which may be a subagent's answer
            self._redraw_children(
                {subagent.child for subagent in self.projection.subagents}
            )

    def refresh_fates(self) -> None:
        """Update everything that depends on the model's view, after the view has changed.

        This includes the gutter, the marks of clipped and hidden entries, and the lines of compactions.
        """
        self._find_cut()
        altered = (
            item.outline.index for item in self.projection.view if item.fate != "live"
        )
        altered_calls = {self.calls.of_result(index) for index in altered}
        for key in self.openings.altered | altered_calls:
            if key is not None:
                self.openings.redraw(key, follow=True)
        before = self._shown_undoable
        self._shown_undoable = self.projection.undoable or 0
        newest = (key[0] for key in self.compactions[-2:])
        for index in {*newest, before, self._shown_undoable}:
            self.openings.redraw(
                (index, 0)
            )  # the key hints in its line may have changed
        self._view.refresh()

    def _blocks(self, entry: Entry, above: Block | None) -> list[Block]:
        match entry:
            case UserMessage():
                insort(self.prompts, (entry.index, 0))
            case Compaction():
                insort(self.compactions, (entry.index, 0))
            case AssistantMessage():
                self.calls.note(entry)
                return spaced(self.openings.answer_blocks(entry), above)
            case Subagent():
                return spaced([self.children.block(entry)], above)
        return spaced(rows.entry_blocks(entry, self.projection), above)

    def _last(self) -> Block | None:
        if not self._view.count:
            return None
        return self._view.block_at(self._view.count - 1)

    # --- subagents ----------------------------------------------------------------------------------

    def child_at(self, key: Key) -> Subagent | None:
        """Return the subagent of a block.

        Returns None if the block has no subagent.
        """
        call = self.calls.get(key)
        entry = self.projection.outline(key[0]) if call is None else call.child
        return entry if isinstance(entry, Subagent) else None

    def update_child(self, event: "SubagentProgress") -> None:
        """Store the progress of a subagent.

        The next `flush` shows it.
        """
        self.children.update(event)
        self._stale_children.add(event.child)

    def add_child_works(self, works: Sequence[tuple[str, SubagentWork]]) -> None:
        """Show totals read from the subagents' histories."""
        self.children.add_works(works)
        self._redraw_children({child for child, _ in works})

    def _redraw_children(self, children: set[str]) -> None:
        if not children:
            return
        for subagent in self.projection.subagents:
            if subagent.child not in children:
                continue
            key = self.calls.of_child(subagent)
            self.openings.redraw((subagent.index, 0) if key is None else key)

    # --- opening in place --------------------------------------------------------------------------

    def toggle(self, key: Key) -> None:
        """Expand or collapse a block in place."""
        streamed = self._streamed
        if streamed is not None and key == (streamed.index, THOUGHT):
            streamed.open_thought(self._view, self.openings.flip(key))
        else:
            self.openings.toggle(key)

    def pictures(self, key: Key) -> Sequence[ImagePart]:
        """Return the images of a block."""
        return pictures_at(key, self.calls.get(key), self.projection)

    def reweigh(self) -> Iterator[None]:
        """Update the token counts of calls if the calibration has changed.

        Each `yield` ends a slice of the work.
        """
        scale = self.projection.meter.scale
        if abs(scale / self._scale - 1) > _WORTH_IT:
            self._scale = scale
            yield from self.openings.redraw_calls(self.calls.answered_keys)

    # --- copying and search --------------------------------------------------------------------------

    def copied(self, key: Key, *, again: bool) -> Copied | None:
        """Return the text to copy from a block, if there is any.

        If `again` is set, return the alternative text.
        """
        block = self._view.block(key)
        if block is None:
            return None
        if key[0] > self.projection.last_index:
            texts = (part.text() for part in self._blocks_of(key[0]) if part.key[1] > 0)
            return Copied("\n\n".join(texts), "the answer so far")
        return copied(block, self.calls.get(key), self.projection, again=again)

    def words_at(self, key: Key) -> str:
        """Return the searchable text of a block, including collapsed parts."""
        block = self._view.block(key)
        if block is None:
            return ""
        return words_at(block, self.calls.get(key), self.projection)

    # --- streaming ----------------------------------------------------------------------------------

    def begin_step(self) -> None:
        """Begin a new response.

        If a failed request left an unfinished response, remove it.
        """
        self.drop_stream()
        gap = gap_below(self._last(), None)
        self._streamed = StreamedAnswer(
            self.projection.last_index + 1,
            gap,
            self._clock,
            self.projection.meter.scale,
        )

    def think(self, text: str) -> None:
        if self._streamed is not None:
            self._streamed.think(text)

    def write(self, text: str) -> None:
        if self._streamed is not None:
            self._streamed.write(text)

    def start_tool(self, call_id: str, title: str = "") -> None:
        if call_id == calls.SHELL_CALL:
            self._shell = calls.Running(title)
            self._draw_shell()
        elif (call := self.calls.running(call_id)) is not None and call.name == "task":
            call.brief = WAITING
        self._stale_outputs.add(call_id)

    def tool_output(self, call_id: str, text: str) -> None:
        running = (
            self._shell if call_id == calls.SHELL_CALL else self.calls.running(call_id)
        )
        if running is not None:
            running.output = (running.output + text)[-_OUTPUT_SIZE:]
            self._stale_outputs.add(call_id)

    def flush(self) -> None:
        """Draw all changes since this was last called.

        Called at most 30 times a second.
        """
        if self._streamed is not None:
            self._streamed.show(self._view)
        stale, self._stale_children = self._stale_children, set()
        self._redraw_children(stale)
        is_new = self._shell is not None and self._shell.key is None
        if not (self._view.follow or is_new):
            return  # do not replace lines while the user is reading
        if calls.SHELL_CALL in self._stale_outputs:
            self._draw_shell()
        for call_id in self._stale_outputs:
            if (call := self.calls.running(call_id)) is not None:
                self.openings.redraw(call.key, follow=True)
        self._stale_outputs.clear()

    def drop_stream(self) -> None:
        """Remove the streamed blocks after a step that ended without a response."""
        self._drop_shell()
        streamed, self._streamed = self._streamed, None
        if streamed is not None and streamed.shown:
            self._view.remove_blocks(
                [block.key for block in self._blocks_of(streamed.index)]
            )

    def _draw_shell(self) -> None:
        """Draw the user's running command, with the last part of its output."""
        if self._shell is None:
            return
        output = as_printed(self._shell.output)
        place = self._shell.key
        if place is None:
            self._shell.key = (self.projection.last_index + 1, 0)
            gap = gap_below(self._last(), None)
            self._view.append(
                calls.running_block(self._shell.key, self._shell.command, output, gap)
            )
        elif (block := self._view.block(place)) is not None:
            running = calls.running_block(place, self._shell.command, output, block.gap)
            self._view.replace(place, running, follow=True)

    def _append(self, entry: Entry) -> None:
        """Show an entry at the end, but above the user's running command.

        The entry of that command itself replaces the running command.
        """
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

    def _displace_answer(self, entry: Entry) -> StreamedAnswer | None:
        """Remove the streamed response if this entry has taken its index.

        Returns:
            The response if its request has not ended, so that it must be drawn again below the entry;
                otherwise None.
        """
        streamed = self._streamed
        if streamed is None or entry.index < streamed.index:
            return None
        self.drop_stream()
        return None if isinstance(entry, RequestRecord) else streamed

    def _end_writing(self, message: AssistantMessage) -> None:
        """Replace the streamed blocks with those of the final response.

        The blocks of the text are reused.
        """
        streamed, self._streamed = self._streamed, None
        if streamed is not None and streamed.thought_for is not None:
            self.openings.thought_seconds[message.index] = streamed.thought_for
        text = None
        if streamed is not None and streamed.index == message.index:
            text = streamed.finish(self._view, message.text)
        first = self._first_of(message.index)
        above = self._view.block_at(first - 1) if first else None
        self.calls.note(message)
        blocks = spaced(self.openings.answer_blocks(message, text), above)
        if streamed is not None and streamed.shown and streamed.index == message.index:
            self._view.replace_from(self._view.block_at(first).key, blocks)
        else:
            self._view.append(*blocks)

    def _blocks_of(self, index: int) -> list[Block]:
        numbers = range(self._first_of(index), self._first_of(index + 1))
        return list(map(self._view.block_at, numbers))

    def _first_of(self, index: int) -> int:
        """Return the index of the first block that belongs to this entry or a later one."""
        view = self._view
        return bisect_left(
            range(view.count), (index, THOUGHT), key=lambda at: view.block_at(at).key
        )

    # --- gutter --------------------------------------------------------------------------------------

    def gutter(self, key: Key, line: int) -> Spans:
        """Return the gutter of a line, which shows the state of its entry in the model's view."""
        at = self._view.index_of(key)
        if at is None:
            return ()
        block = self._view.block_at(at)
        if line < block.gap and at:
            key = self._view.block_at(at - 1).key  # the gap belongs to the block above
        elif key == self._cut and line == block.gap:
            return ((" ", ""), ("┣", "accent"), (" ", ""))
        index = self.entry_of(key)
        if index > self.projection.last_index:  # still streaming
            sign = GUTTER_SIGNS["whole"]
        else:
            sign = gutter_sign(self.projection.fate(index).kind)
        return ((" ", ""), sign, (" ", ""))

    def faded(self, key: Key) -> bool:
        """Whether the model's view no longer contains the entry, or contains only a summary of it."""
        index = self.entry_of(key)
        if index > self.projection.last_index:
            return False
        return self.projection.fate(index).kind in GONE

    def plan_cut(self, index: int | None) -> None:
        """Mark the cut of the compaction in progress.

        If `index` is None, the mark is removed.
        """
        self._planned = index
        self._find_cut()
        self._view.refresh()

    def _find_cut(self) -> None:
        """Find the first block that the planned compaction keeps verbatim.

        If no compaction is planned, use the last compaction.
        """
        self._cut = None
        index = self._planned
        compactions = self.projection.compactions()
        if index is None and compactions:
            index = compactions[-1].first_kept_index
        if index is None:
            return
        first = self._first_of(index)
        if first < self._view.count:
            self._cut = self._view.block_at(first).key


def _is_user_action(entry: Entry) -> bool:
    """Whether the user made this change, not the model or an automatic compaction."""
    match entry:
        case Compaction():
            return entry.reason == "manual" or entry.cause == "asked"
        case Revert():
            return entry.message is None
        case _:
            return isinstance(entry, Undo | Clear)
