"""The transcript's panel, with its keys, its search and copying."""

import asyncio
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final

from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.message import Message
from textual.widgets import Input, Label
from textual.worker import Worker

from foldline.frontend.keymap import hint_words, works
from foldline.text.harmless import clean_line
from foldline.tui.blocks.block import Key
from foldline.tui.blocks.view import BlockView
from foldline.tui.keys.bindings import bindings
from foldline.tui.look.textual_private import OrderedInput, act_now
from foldline.tui.messages import EntryWanted, PromptEditWanted, SubagentWanted
from foldline.tui.terminal import clipboard
from foldline.tui.transcript.keys import KEYS, ReadingFacts, key_name

if TYPE_CHECKING:
    from foldline.protocol import ImagePart
    from foldline.tui.transcript.feed import ChatTranscript


_PAUSE: Final = 0.1
"""Seconds to wait after the last typed letter before searching."""
NOTHING_TO_COPY: Final = "Nothing to copy here"
NO_PICTURE: Final = "No picture here"
NO_SEARCH_YET: Final = "Press {key} to search first"
NO_MATCH: Final = "No match for “{needle}” in this transcript"
NO_MATCH_IN_LOADED: Final = NO_MATCH + "; {earlier:,} earlier entries are not loaded"
NO_MATCHES: Final = "no matches"
NOT_SHOWN: Final = (
    "The chat does not show the part with “{needle}”. Press {key} to inspect the entry."
)
NOT_LOADED: Final = " · {earlier:,} earlier entries not loaded"
COPIED: Final = "Copied {words}"
COPY_AGAIN: Final = "press {key} again for {noun}"
_SLICE: Final = 200_000
"""Number of characters to search before yielding to the event loop.

This takes a few milliseconds, including the time to read them from disk.
"""


@dataclass(frozen=True, slots=True)
class Search:
    """A search: its text, the matching blocks in order, and the current match."""

    needle: str = ""
    places: tuple[Key, ...] = ()
    at: int | None = None
    """Index of the current match in `places`."""
    done: bool = True

    @property
    def place(self) -> Key | None:
        return None if self.at is None else self.places[self.at]

    @property
    def words(self) -> str:
        """The state of the search as shown to the user: `3 of 17`."""
        if not self.needle:
            return ""
        if not self.done:
            return "…"
        if self.at is None:
            return NO_MATCHES
        return f"{self.at + 1} of {len(self.places)}"

    def with_places(self, places: tuple[Key, ...], near: Key | None) -> "Search":
        """Return the completed search with its matches.

        The current match is the last match at or above `near`, or otherwise the first match below it. The
        reason is that users at the end of a long session usually look for earlier text.
        """
        if not places:
            return replace(self, places=(), at=None, done=True)
        above = len(places) if near is None else bisect_right(places, near)
        return replace(self, places=places, at=max(above - 1, 0), done=True)

    def step(self, step: int) -> "Search":
        """Return the search, moved to the next (1) or previous (-1) match.

        The search wraps around at both ends.
        """
        if self.at is None:
            return self
        return replace(self, at=(self.at + step) % len(self.places))


async def places_of(
    view: BlockView, needle: str, words_at: Callable[[Key], str]
) -> tuple[Key, ...]:
    """Return the keys of the blocks that contain `needle`, ignoring case.

    Yields to the event loop regularly.
    """
    from foldline.history.stored import without_gc  # not needed on the first screen

    pattern = re.compile(re.escape(needle), re.IGNORECASE)
    places: list[Key] = []
    characters = 0
    number = 0
    with without_gc():  # searching creates thousands of entries
        while number < view.count:  # the number of blocks may change during `sleep`
            block = view.block_at(number)
            number += 1
            if not block.stop:
                continue
            words = words_at(block.key)
            if pattern.search(words):
                places.append(block.key)
            characters += len(words) + 400
            if characters > _SLICE:
                characters = 0
                await asyncio.sleep(0)
    return tuple(places)


class SearchBar(Horizontal):
    """The search field shown below the transcript during a search."""

    DEFAULT_CSS: ClassVar[str] = """
    SearchBar { height: 1; display: none; }
    SearchBar Input, SearchBar Input:focus {
        border: none; height: 1; padding: 0; width: 1fr; background: $role-background;
    }
    SearchBar Label { color: $role-muted; }
    SearchBar #find-sign { color: $role-accent; }
    """

    def __init__(self) -> None:
        super().__init__(id="search-bar")
        self.field = OrderedInput(id="find-in-transcript", select_on_focus=True)
        self._count = Label(markup=False)

    def compose(self) -> ComposeResult:
        yield Label(" / ", id="find-sign", markup=False)
        yield self.field
        yield self._count

    def open(self) -> None:
        self.display = True
        self.screen.set_focus(
            self.field
        )  # immediate; with `focus()`, the next key would go elsewhere

    def close(self) -> None:
        self.display = False
        with self.prevent(Input.Changed):
            self.field.value = ""
        self.show_count("")

    def show_count(self, words: str) -> None:
        """Show the number of matches at the right end of the search field."""
        self._count.update(f"  {words} " if words else "")


class TranscriptPanel(BlockView):
    """The transcript's view.

    The view posts its keys' commands as messages, and `ReadingPane` runs them.
    """

    BINDINGS: ClassVar[list[BindingType]] = bindings(KEYS, "read")
    opens_at_once = True

    @dataclass
    class CommandRequested(Message):
        """A key in `KEYS` was pressed that the view does not handle itself."""

        command: str

    class TopReached(Message):
        """The first block has become visible."""

    def __init__(
        self, facts: Callable[[], ReadingFacts], search: Callable[[], None]
    ) -> None:
        """Create the view.

        Args:
            facts: Returns the state that determines which keys are active.
            search: Opens the search field.
        """
        super().__init__(id="transcript")
        self._facts = facts
        self._search = search
        self._reported_top: Key | None = None
        """The key of the second block when `TopReached` was last posted.

        Each time earlier entries are loaded, the message can be posted once more.
        """

    def works_now(self, command: str) -> bool:
        """Whether the key of this command is currently active."""
        return works(KEYS, command, self._facts())

    async def _on_key(self, event: events.Key) -> None:
        """Pass letters typed right after the search key to the search field.

        Otherwise they would be treated as commands.
        """
        focused = self.screen.focused
        is_covered = self.app.screen is not self.screen
        if is_covered:
            return
        if focused not in (self, None):
            focused.post_message(events.Key(event.key, event.character))
        elif not await act_now(self, event.key):
            return
        event.stop()
        event.prevent_default()

    def action_read(self, command: str) -> None:
        if command == "search":
            self._search()  # immediately, so that the next letters go into its field
        else:
            self.post_message(self.CommandRequested(command))

    def on_click(self, event: events.Click) -> None:
        """Undo a compaction if the user clicks `u undo` in its line.

        Clicks elsewhere in the line expand it.
        """
        command = event.style.meta.get("key")
        if command is not None and self.text_selection is None:
            event.prevent_default()
            self.post_message(self.CommandRequested(command))

    def _place(self) -> None:
        super()._place()
        if not self.is_mounted or not self.count or self.follow:
            return
        second = self.block_at(min(1, self.count - 1)).key
        if self._viewport.top[0] == 0 and second != self._reported_top:
            self._reported_top = second
            self.post_message(self.TopReached())


class ReadingPane(Vertical):
    """The transcript's view, with its search bar.

    `source` is None until a session is open.
    """

    DEFAULT_CSS: ClassVar[str] = "ReadingPane { width: 1fr; height: 1fr; }"

    class Changed(Message):
        """Posted when the active keys or the effect of Esc may have changed."""

    @dataclass
    class PicturesWanted(Message):
        """Posted when the user wants to see these images on a separate screen."""

        pictures: "Sequence[ImagePart]"

    def __init__(
        self, remark: Callable[[str], None], run: Callable[[str], None]
    ) -> None:
        """Create the pane.

        Args:
            remark: Shows feedback on a key press in the status row.
            run: Runs a chat command.
        """
        super().__init__(id="reading")
        self.view = TranscriptPanel(lambda: self.facts, self._open_search)
        self.bar = SearchBar()
        self.source: ChatTranscript | None = None
        self._remark = remark
        self._run_command = run
        self._search = Search()
        self._search_start: tuple[Key, int] | None = None
        """The position of the top line when the search began."""
        self._copied: Key | None = None
        """The block copied last. If the key is pressed again, its alternative text is copied."""
        self._loading = False

    def compose(self) -> ComposeResult:
        yield self.view
        yield self.bar

    # --- for the screen ---------------------------------------------------------------------------------

    @property
    def focused(self) -> bool:
        """Whether the transcript has the focus."""
        return self.is_attached and self.screen.focused is self.view

    @property
    def searching(self) -> bool:
        """Whether Esc currently ends a search."""
        return self.bar.display and self.screen.focused in (self.view, self.bar.field)

    @property
    def facts(self) -> ReadingFacts:
        cursor, source = self.view.cursor, self.source
        if source is None:
            return ReadingFacts(opens=False)
        facts = ReadingFacts(
            prompts=len(source.prompts),
            compactions=len(source.compactions),
            searched=bool(self._search.places),
            opens=False,
        )
        if cursor is None:
            return facts
        return replace(
            facts,
            opens=source.openings.opens(cursor),
            edits=(cursor[0], 0) in source.prompts,
            undoes=source.projection.undoable == cursor[0],
        )

    @property
    def hints(self) -> list[tuple[str, str]]:
        """The key hints as (keys, word) pairs."""
        return list(hint_words(KEYS, self.facts))

    def to_prompt(self, step: int) -> None:
        """Scroll to the previous or next prompt, relative to the top line.

        If there is no next prompt, scroll to the end.
        """
        place = self.view.top
        if place is None or not self._prompts:
            return
        top, line = place
        if step < 0:
            # If the top prompt is partly hidden, it counts as the previous one.
            above = (bisect_right if line > 0 else bisect_left)(self._prompts, top)
            self.view.scroll_to_key(
                self._prompts[max(above - 1, 0)], only_if_hidden=False
            )
            return
        after = bisect_right(self._prompts, top)
        if after < len(self._prompts):
            self.view.scroll_to_key(self._prompts[after], only_if_hidden=False)
        else:
            self.view.follow_end()

    def toggle_compaction(self) -> None:
        """Expand or collapse the line of the newest compaction, if the line is visible."""
        if self.source is not None and self.source.compactions:
            key = self.source.compactions[-1]
            if self.view.in_sight(key):
                self.source.toggle(key)
                self.view.scroll_to_key(key)  # its body may be below the last row
                self.view.fill()

    def page(self, step: int) -> None:
        """Scroll by one screen.

        If the transcript has the focus, the cursor moves too.
        """
        if self.view.has_focus:
            self.view.action_page(step)
        else:
            self.view.scroll_pages(step)

    def end_search(self) -> None:
        """Close the search.

        If the search field has the focus, scroll back to the position at which the search began.
        """
        was_typing = self.bar.field.has_focus
        self._search = Search()
        self.bar.close()
        self.view.set_search("")
        if self.source is not None:
            self.source.openings.conceal()
        if was_typing and self._search_start is not None:
            self.view.scroll_to_line(*self._search_start)
        self.screen.set_focus(
            self.view
        )  # immediate, unlike `focus()`, which would miss the next key
        self.post_message(self.Changed())

    # --- keys -------------------------------------------------------------------------------------------

    @on(TranscriptPanel.CommandRequested)
    def _run(self, event: TranscriptPanel.CommandRequested) -> None:
        event.stop()
        if event.command == "copy":
            self._copy()
            return
        self._copied = None
        compactions = () if self.source is None else self.source.compactions
        step = -1 if event.command.startswith(("older", "previous")) else 1
        match event.command:
            case "older-prompt" | "newer-prompt":
                self._jump(step, self._prompts, "prompt")
            case "older-compaction" | "newer-compaction":
                self._jump(step, compactions, "compaction")
            case "picture":
                self._show_pictures()
            case "next-match" | "previous-match":
                self._step(step)
            case "undo":
                self._run_command("undo")
            case "edit" if self.view.cursor is not None:
                self.post_message(PromptEditWanted(self.view.cursor[0]))
            case "inspect" if self.view.cursor is not None and self.source is not None:
                self.post_message(EntryWanted(self.source.entry_of(self.view.cursor)))

    @on(BlockView.BlockOpened)
    def _opened(self, event: BlockView.BlockOpened) -> None:
        event.stop()
        if self.source is None:
            return
        subagent = self.source.child_at(event.key)
        if subagent is not None:
            self.post_message(SubagentWanted(subagent))
        elif self.source.openings.opens(event.key):
            self.source.toggle(event.key)
        elif self.source.pictures(event.key):
            self._show_pictures()
        elif event.view.index_of(event.key) == 0:
            self._load_earlier()

    @on(BlockView.CursorMoved)
    def _moved(self, event: BlockView.CursorMoved) -> None:
        event.stop()
        self._copied = None
        self.post_message(self.Changed())

    @on(TranscriptPanel.TopReached)
    def _load_earlier(self) -> None:
        if self.source is not None and self.source.earlier and not self._loading:
            self._loading = True
            self.run_worker(
                self._in_slices(self.source.read_earlier()), group="earlier"
            )

    async def _in_slices(self, slices: Iterator[None]) -> None:
        try:
            for _ in slices:
                await asyncio.sleep(0)
        finally:
            self._loading = False

    @property
    def _prompts(self) -> Sequence[Key]:
        return () if self.source is None else self.source.prompts

    def _jump(self, step: int, places: Sequence[Key], noun: str) -> None:
        """Move the cursor to the next or previous of these blocks.

        The view scrolls so that the block is at the top.
        """
        cursor = self.view.cursor or (0, 0)
        at = (
            bisect_right(places, cursor)
            if step > 0
            else bisect_left(places, cursor) - 1
        )
        if not 0 <= at < len(places):
            self._remark(f"No {noun} {'below' if step > 0 else 'above'}")
            return
        self.view.cursor_to(places[at], scroll=False)
        self.view.scroll_to_key(places[at], only_if_hidden=False)

    def _copy(self) -> None:
        key = self.view.cursor
        if key is None or self.source is None:
            return
        again = self._copied == key
        copied = self.source.copied(key, again=again)
        if copied is None or not copied.text:
            self._remark(NOTHING_TO_COPY)
            return
        doubt = clipboard.copy(self.app, copied.text)
        self._copied = None if again else key
        notes = [COPIED.format(words=copied.words)]
        if copied.instead:
            notes.append(COPY_AGAIN.format(key=key_name("copy"), noun=copied.instead))
        if doubt:
            notes.append(doubt)
        self._remark(" · ".join(notes))

    def _show_pictures(self) -> None:
        key = self.view.cursor
        if key is None or self.source is None or not self.source.pictures(key):
            self._remark(NO_PICTURE)
        else:
            self.post_message(self.PicturesWanted(self.source.pictures(key)))

    # --- search -----------------------------------------------------------------------------------------

    def _open_search(self) -> None:
        self._copied = None
        if not self.bar.display:
            self._search_start = self.view.top
        self.bar.open()
        self.post_message(self.Changed())

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        event.stop()
        self._search = Search(event.value, done=not event.value)
        self._show_count()
        self.view.set_search(event.value)
        work = partial(self._find, event.value)
        _: Worker[None] = self.run_worker(work, group="search", exclusive=True)

    async def _find(self, needle: str) -> None:
        await asyncio.sleep(_PAUSE)
        if self.source is None or not needle:
            return
        places = await places_of(self.view, needle, self.source.words_at)
        self._search = self._search.with_places(places, self.view.cursor)
        self._show_match()

    @on(Input.Submitted)
    def _entered(self, event: Input.Submitted) -> None:
        event.stop()
        if not self._search.needle:
            self.end_search()
            return
        self.screen.set_focus(self.view)
        self._show_match()

    def _step(self, step: int) -> None:
        if not self._search.needle:
            self._remark(NO_SEARCH_YET.format(key=key_name("search")))
            return
        self._search = self._search.step(step)
        self._show_match()

    def _show_count(self) -> None:
        """Show the number of matches, and the number of entries that have not been loaded."""
        words = self._search.words
        if (
            self._search.at is not None
            and self.source is not None
            and self.source.earlier
        ):
            words += NOT_LOADED.format(earlier=self.source.earlier)
        self.bar.show_count(words)

    def _show_match(self) -> None:
        """Move the cursor to the current match, and scroll the matching line into view."""
        search = self._search
        source = self.source
        self._show_count()
        self.post_message(self.Changed())
        if source is None or not search.done or not search.needle:
            return
        needle = clean_line(search.needle)
        if search.place is None:
            sentence = NO_MATCH_IN_LOADED if source.earlier else NO_MATCH
            self._remark(sentence.format(needle=needle, earlier=source.earlier))
            return
        is_visible = source.openings.reveal(search.place, search.needle)
        self.view.cursor_to(search.place, quiet=True, scroll=False)
        self.view.show_match(search.place)
        if not is_visible:
            self._remark(NOT_SHOWN.format(needle=needle, key=key_name("inspect")))
