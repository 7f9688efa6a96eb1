"""Feeds the transcript view: whole entries as they are appended, an answer while it is written.

A streamed answer carries the index its entry will have, so that nothing moves when it is appended.
"""

from collections.abc import Iterable

from foldline.context.projection import Projection
from foldline.protocol import (
    AssistantMessage,
    Clear,
    Compaction,
    Edit,
    Entry,
    Revert,
    ToolCallPart,
    ToolResultMessage,
    Undo,
    UserMessage,
)
from foldline.protocol.messages import Entry as AnyEntry
from foldline.tui.blocks import Block, BlockView, Key, Spans, StreamingMarkdown

from . import rows

_RAILS = {
    "live": ("┃", "live"),
    "clipped": ("╏", "altered"),
    "hidden": ("╏", "altered"),
    "summarised": ("┊", "folded"),
}


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
        self._titles: dict[str, str] = {}
        self._outputs: dict[str, str] = {}
        self._stale_outputs: set[str] = set()
        self._stream: StreamingMarkdown | None = None
        self._thinking = ""
        self._text: list[str] = []
        self.planned_cut: int | None = None
        """Index of the entry where a fold that is being made would cut."""
        self._cut: int | None = None
        view.set_gutter(self._gutter)

    # --- whole entries -----------------------------------------------------------------------------

    def load(self, entries: Iterable[Entry]) -> None:
        """Show a whole history."""
        blocks: list[Block] = []
        for entry in entries:
            if isinstance(entry, ToolResultMessage):
                self._note_result(entry)
            else:
                blocks += self._blocks(entry)
        self._view.set_blocks(self._with_result(block) for block in blocks)
        self._find_cut()

    def add(self, entry: AnyEntry) -> None:
        """Show one more entry. A marker that changes the view repaints the rails, and moves nothing."""
        match entry:
            case ToolResultMessage():
                key = self._note_result(entry)
                if key is not None:
                    self._redraw_call(key)
            case AssistantMessage():
                self._end_stream(entry)
            case _:
                self._view.append(*self._blocks(entry))
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

    def _blocks(self, entry: Entry) -> list[Block]:
        if isinstance(entry, UserMessage):
            self.prompts.append((entry.index, 0))
        if isinstance(entry, AssistantMessage):
            for number, call in enumerate(entry.calls):
                key = rows.call_key(entry, number)
                self._calls[key] = call
                self._key_of[call.call_id] = key
        return rows.entry_blocks(entry, self._projection)

    def _note_result(self, result: ToolResultMessage) -> Key | None:
        key = self._key_of.pop(result.call_id, None)
        if key is not None:
            self._result_of[key] = result
            self._outputs.pop(result.call_id, None)
        return key

    def _with_result(self, block: Block) -> Block:
        return self._call_block(block.key, block.gap) if block.key in self._result_of else block

    def _redraw_call(self, key: Key) -> None:
        block = self._view.block(key)
        if block is not None:
            self._view.replace(key, self._call_block(key, block.gap), follow=self._view.follow)

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
            title=self._titles.get(call.call_id, ""),
            output=self._outputs.get(call.call_id, ""),
        )

    # --- opening in place --------------------------------------------------------------------------

    def toggle(self, key: Key) -> None:
        """Open or close what stands at this key, in place."""
        block = self._view.block(key)
        if block is None:
            return
        self._opened ^= {key}
        opened = key in self._opened
        entry = self._projection.entry(key[0])
        if key in self._calls:
            self._redraw_call(key)
        elif isinstance(entry, Compaction):
            self._view.replace(key, rows.fold_block(entry, self._projection, opened=opened))
        elif isinstance(entry, AssistantMessage) and key[1] == 0 and entry.thinking:
            self._view.replace(key, rows.thinking_block(entry.index, entry.thinking, opened=opened))

    def toggle_all_calls(self) -> None:
        """Open every tool call, or close them all where one is open."""
        calls = set(self._calls)
        changed = self._opened & calls or calls
        self._opened = self._opened - calls if self._opened & calls else self._opened | calls
        for key in sorted(changed):
            self._redraw_call(key)

    # --- what is being written ----------------------------------------------------------------------

    def begin_step(self) -> None:
        """A request leaves; its answer will be the next entry."""
        self._stream = None
        self._thinking = ""
        self._text = []

    def think(self, text: str) -> None:
        self._thinking += text

    def write(self, text: str) -> None:
        self._text.append(text)

    def start_tool(self, call_id: str, title: str) -> None:
        self._titles[call_id] = title
        self._stale_outputs.add(call_id)

    def tool_output(self, call_id: str, text: str) -> None:
        self._outputs[call_id] = (self._outputs.get(call_id, "") + text)[-8_000:]
        self._stale_outputs.add(call_id)

    def flush(self) -> None:
        """Show what came since the last flush; called at most 30 times a second."""
        index = self._projection.last_index + 1
        if self._thinking and self._stream is None and not self._text:
            self._put([rows.thinking_block(index, self._thinking, opened=False)])
        if self._text:
            if self._stream is None:
                self._stream = StreamingMarkdown(index, rows.TEXT_PIECE, indent=rows.INDENT)
            delta, self._text = "".join(self._text), []
            self._put(self._stream.feed(delta).blocks)
        for call_id in self._stale_outputs:
            if call_id in self._key_of:
                self._redraw_call(self._key_of[call_id])
        self._stale_outputs.clear()

    def _end_stream(self, message: AssistantMessage) -> None:
        blocks = self._blocks(message)
        self.begin_step()
        first = next(
            (key for piece in (0, rows.TEXT_PIECE) if self._has(key := (message.index, piece))), None
        )
        if first is not None:
            self._view.replace_from(first, blocks)
        elif blocks:
            self._view.append(*blocks)

    def drop_stream(self) -> None:
        """The step ended without an answer to keep: what was streamed goes."""
        index = self._projection.last_index + 1
        for piece in (0, rows.TEXT_PIECE):
            if self._has((index, piece)):
                self._view.replace_from((index, piece), [])
                break
        self.begin_step()

    def _has(self, key: Key) -> bool:
        return self._view.index_of(key) is not None

    def _put(self, blocks: "Iterable[Block]") -> None:
        blocks = list(blocks)
        if not blocks:
            return
        if self._has(blocks[0].key):
            self._view.replace_from(blocks[0].key, blocks)
        else:
            self._view.append(*blocks)

    # --- rails ---------------------------------------------------------------------------------------

    def _find_cut(self) -> None:
        folds = self._projection.compactions()
        self._cut = folds[-1].first_kept_index if folds else None

    def _gutter(self, key: Key, line: int) -> Spans:
        result = self._result_of.get(key)
        index = result.index if result is not None else key[0]
        cut = self._cut if self.planned_cut is None else self.planned_cut
        block = self._view.block(key)
        if index == cut and key[1] in (0, rows.TEXT_PIECE) and block is not None and line == block.gap:
            return ((" ", ""), ("┣", "accent"), (" ", ""))
        if index > self._projection.last_index:
            return ((" ┃ ", "live"),)
        rail, style = _RAILS.get(self._projection.fate(index).kind, (" ", ""))
        return ((" ", ""), (rail, style), (" ", ""))
