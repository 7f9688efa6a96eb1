"""Feeds the transcript view: whole entries as they are appended, an answer while it is written.

A streamed answer carries the index its entry will have, so that nothing moves when it is appended.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from foldline.context.history_entries import Entries
from foldline.context.outline import MessageOutline, Outline
from foldline.context.projection import Projection
from foldline.protocol import (
    AssistantMessage,
    Clear,
    Compaction,
    Edit,
    Entry,
    RequestRecord,
    Revert,
    ToolCallPart,
    ToolResultMessage,
    Undo,
    UserMessage,
)
from foldline.tui.blocks import Block, BlockView, Key, RuleBlock, Spans

from . import rows
from .writing import Writing

_RAILS = {
    "live": ("┃", "live"),
    "clipped": ("╏", "altered"),
    "hidden": ("╏", "altered"),
    "summarised": ("┊", "folded"),
}
_OUTPUT_KEPT = 8_000
"""Characters of a running command's output that are kept for the lines below its row."""

_SHOWN = 2_000_000
"""Tokens of the newest entries that are shown: some windows full, read in a moment."""
_SLICE = 64
"""Calls that are drawn anew at a time: about 10 ms."""
_WORTH_IT = 0.02
"""Change of the calibration from which on weights that are shown look wrong."""


class Transcript:
    """Keeps a `BlockView` at what the projection and the running step say. Owns no history of its own."""

    def __init__(self, view: BlockView, projection: Projection) -> None:
        self._view = view
        self._projection = projection
        self.prompts: list[Key] = []
        """Places of the user's prompts, in order."""
        self._calls: dict[Key, ToolCallPart] = {}
        self._key_of: dict[str, Key] = {}
        self._result_of: dict[Key, ToolResultMessage] = {}
        self._altered: set[Key] = set()
        self._opened: set[Key] = set()
        self._outputs: dict[str, str] = {}
        self._stale_outputs: set[str] = set()
        self._writing: Writing | None = None
        self._planned: int | None = None
        self._cut: Key | None = None
        self._scale = self._scale_now

    # --- whole entries -----------------------------------------------------------------------------

    def read(self, entries: Entries) -> list[Block]:
        """The blocks of a whole history, for `show`. Touches no widget: for a thread.

        Of a very long one, those of its newest part, and a rule that says so.
        """
        start = first_shown(entries.outlines)
        blocks: list[Block] = [rows.earlier_block(start)] if start else []
        for entry in entries[start:]:
            if isinstance(entry, ToolResultMessage):
                self._note_result(entry)
            else:
                blocks += self._blocks(entry, blocks[-1] if blocks else None)
        return [self._call_block(b.key, b.gap) if b.key in self._result_of else b for b in blocks]

    def show(self, blocks: Sequence[Block]) -> None:
        """Show the blocks of a whole history, and its rails."""
        self._view.set_gutter(self._gutter)
        self._view.set_blocks(blocks)
        self._find_cut()

    def add(self, entry: Entry) -> None:
        """Show one more entry. A marker that changes the view repaints the rails, and moves nothing."""
        match entry:
            case ToolResultMessage():
                key = self._note_result(entry)
                if key is not None:
                    self._redraw_call(key)
            case AssistantMessage():
                self._end_writing(entry)
            case _:
                self._make_way(entry)
                self._view.append(*self._blocks(entry, self._last()))
        if isinstance(entry, Compaction | Undo | Clear | Revert | Edit):
            self.refresh_fates()

    def refresh_fates(self) -> None:
        """After a change of the view: rails, and the letters of rows that were or are altered."""
        self._find_cut()
        candidates = self._altered | {
            key
            for key, result in self._result_of.items()
            if rows.altered_letter(self._projection, result.index)
        }
        for key in candidates:
            self._redraw_call(key)
        self._view.refresh()

    def _blocks(self, entry: Entry, above: Block | None) -> list[Block]:
        if isinstance(entry, UserMessage):
            self.prompts.append((entry.index, 0))
        if isinstance(entry, AssistantMessage):
            for number, call in enumerate(entry.calls):
                key = rows.call_key(entry, number)
                self._calls[key] = call
                self._key_of[call.call_id] = key
        return _spaced(rows.entry_blocks(entry, self._projection), above)

    def _last(self) -> Block | None:
        return self._view.block_at(self._view.count - 1) if self._view.count else None

    def _note_result(self, result: ToolResultMessage) -> Key | None:
        key = self._key_of.pop(result.call_id, None)
        if key is not None:
            self._result_of[key] = result
            self._outputs.pop(result.call_id, None)
        return key

    def _redraw_call(self, key: Key, *, follow: bool = True) -> None:
        block = self._view.block(key)
        if block is not None:
            self._view.replace(key, self._call_block(key, block.gap), follow=follow)

    def _call_block(self, key: Key, gap: int) -> Block:
        call, result = self._calls[key], self._result_of.get(key)
        if result is not None and rows.altered_letter(self._projection, result.index):
            self._altered.add(key)
        else:
            self._altered.discard(key)
        return rows.call_block(
            key,
            call,
            result,
            self._projection,
            opened=key in self._opened,
            gap=gap,
            output=self._outputs.get(call.call_id, ""),
        )

    # --- opening in place --------------------------------------------------------------------------

    def toggle(self, key: Key) -> None:
        """Open or close what stands at this key, in place."""
        block = self._view.block(key)
        if block is None:
            return
        opened = key not in self._opened
        entry = self._projection.entry(key[0])
        if key in self._calls:
            self._opened ^= {key}
            self._redraw_call(key, follow=False)
        elif isinstance(entry, Compaction):
            self._opened ^= {key}
            fold = rows.fold_block(entry, self._projection, opened=opened)
            self._view.replace(key, replace(fold, gap=block.gap))
        elif isinstance(entry, AssistantMessage) and key[1] == rows.THINKING_PIECE and entry.thinking:
            self._opened ^= {key}
            thought = rows.thinking_block(entry.index, entry.thinking, opened=opened)
            self._view.replace(key, replace(thought, gap=block.gap))

    def toggle_all_calls(self) -> Iterator[None]:
        """Open every tool call, or close them all where one is open: in slices, what is seen first."""
        calls = set(self._calls)
        changed = self._opened & calls or calls
        self._opened = self._opened - calls if self._opened & calls else self._opened | calls
        yield from self._redrawn(changed)

    def reweigh(self) -> Iterator[None]:
        """The weights of calls, in slices, where the model's reports have changed what a token is worth."""
        scale = self._scale_now
        if abs(scale / self._scale - 1) > _WORTH_IT:
            self._scale = scale
            yield from self._redrawn(self._result_of)

    @property
    def _scale_now(self) -> float:
        return self._projection.calibration.scale(self._projection.model)

    def _redrawn(self, keys: Iterable[Key]) -> Iterator[None]:
        """Draw these calls anew, a slice at a time, from the top line on and then what is above it."""
        top = self._view.top
        ordered = sorted(keys, key=lambda key: (top is not None and key < top[0], key))
        for start in range(0, len(ordered), _SLICE):
            for key in ordered[start : start + _SLICE]:
                self._redraw_call(key, follow=False)
            yield

    # --- what is being written ----------------------------------------------------------------------

    def begin_step(self) -> None:
        """A request leaves; its answer will be the next entry. What an earlier one said in vain goes."""
        self.drop_stream()
        self._writing = Writing(self._projection.last_index + 1, gap=_gap_below(self._last(), None))

    def think(self, text: str) -> None:
        if self._writing is not None:
            self._writing.think(text)

    def write(self, text: str) -> None:
        if self._writing is not None:
            self._writing.write(text)

    def start_tool(self, call_id: str) -> None:
        self._stale_outputs.add(call_id)

    def tool_output(self, call_id: str, text: str) -> None:
        self._outputs[call_id] = (self._outputs.get(call_id, "") + text)[-_OUTPUT_KEPT:]
        self._stale_outputs.add(call_id)

    def flush(self) -> None:
        """Show what came since the last flush; called at most 30 times a second."""
        if self._writing is not None:
            for blocks in self._writing.drawn():
                self._view.replace_from(blocks[0].key, blocks)
        for call_id in self._stale_outputs:
            if call_id in self._key_of:
                self._redraw_call(self._key_of[call_id])
        self._stale_outputs.clear()

    def drop_stream(self) -> None:
        """The step ended without an answer to keep: what was streamed goes."""
        writing, self._writing = self._writing, None
        if writing is not None and writing.shown:
            first = self._first_of(writing.index)
            last = self._first_of(writing.index + 1)
            self._view.remove_blocks([self._view.block_at(at).key for at in range(first, last)])

    def _make_way(self, entry: Entry) -> None:
        """Another entry takes the index that the answer was to have: what was streamed goes below it, or,
        where the request ended without an answer, away."""
        writing = self._writing
        if writing is not None and entry.index >= writing.index:
            self.drop_stream()
            if not isinstance(entry, RequestRecord):
                self._writing = writing.again(entry.index + 1)

    def _end_writing(self, message: AssistantMessage) -> None:
        """The answer as it will be kept takes the place of what was streamed of it."""
        writing, self._writing = self._writing, None
        streamed = writing is not None and writing.shown and writing.index == message.index
        first = self._first_of(message.index)
        above = self._view.block_at(first - 1) if first else None
        blocks = self._blocks(message, above)
        if streamed:
            self._view.replace_from(self._view.block_at(first).key, blocks)
        else:
            self._view.append(*blocks)

    def _first_of(self, index: int) -> int:
        """The number of the first block of this entry or a later one."""
        view = self._view
        return bisect_left(range(view.count), (index, 0), key=lambda at: view.block_at(at).key)

    # --- rails ---------------------------------------------------------------------------------------

    def plan_cut(self, index: int | None) -> None:
        """Mark where a fold that is being made would cut; None takes the mark away again."""
        self._mark_prompt(self._planned, False)
        self._planned = index
        self._mark_prompt(index, True)
        self._find_cut()
        self._view.refresh()

    def _mark_prompt(self, index: int | None, cut: bool) -> None:
        entry = None if index is None else self._projection.entry(index)
        block = self._view.block((index or 0, 0))
        if isinstance(entry, UserMessage) and block is not None:
            self._view.replace(block.key, replace(rows.prompt_block(entry, cut=cut), gap=block.gap))

    def _find_cut(self) -> None:
        """The first block of the verbatim tail, planned or real."""
        folds = self._projection.compactions()
        index = self._planned if self._planned is not None else folds[-1].first_kept_index if folds else None
        first = self._view.count if index is None else self._first_of(index)
        self._cut = self._view.block_at(first).key if first < self._view.count else None

    def _gutter(self, key: Key, line: int) -> Spans:
        at = self._view.index_of(key)
        if at is None:
            return ()
        block = self._view.block_at(at)
        if line < block.gap and at:
            key = self._view.block_at(at - 1).key  # what separates two entries belongs to the upper one
        elif key == self._cut and line == block.gap:
            return ((" ", ""), ("┣", "accent"), (" ", ""))
        result = self._result_of.get(key)
        index = result.index if result is not None else key[0]
        if index > self._projection.last_index:
            return ((" ┃ ", "live"),)
        rail, style = _RAILS.get(self._projection.fate(index).kind, (" ", ""))
        return ((" ", ""), (rail, style), (" ", ""))


def first_shown(outlines: Sequence[Outline]) -> int:
    """Where the newest part of a history begins that is worth `_SHOWN`: with a prompt, where there is one."""
    at, room = len(outlines), _SHOWN
    while at and room >= 0:
        at -= 1
        outline = outlines[at]
        room -= outline.tokens + outline.thinking if isinstance(outline, MessageOutline) else 0
    if not at:
        return 0
    prompts = (
        place
        for place in range(at, len(outlines))
        if isinstance(outline := outlines[place], MessageOutline) and outline.type == "user"
    )
    return next(prompts, at)


def _gap_below(above: Block | None, block: Block | None) -> int:
    """Blank lines before a block: none at the very top, below a rule, and between one call and the next."""
    if above is None or isinstance(above, RuleBlock):
        return 0
    return 0 if block is not None and rows.is_call(block) and rows.is_call(above) else 1


def _spaced(blocks: Sequence[Block], above: Block | None) -> list[Block]:
    if blocks and blocks[0].gap > _gap_below(above, blocks[0]):
        return [replace(blocks[0], gap=0), *blocks[1:]]
    return list(blocks)
