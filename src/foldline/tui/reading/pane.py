"""The transcript with its search row: does what the reader's keys ask for."""

import asyncio
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import ClassVar, Final

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.message import Message
from textual.worker import Worker

from foldline.tui.blocks import BlockView, Key
from foldline.tui.keys.table import bindings, works
from foldline.tui.messages import EntryWanted
from foldline.tui.reading.keys import KEYS, ReadingFacts, key_name
from foldline.tui.reading.search import Search, SearchBar, places_of
from foldline.tui.reading.source import Source
from foldline.tui.terminal import clipboard


class TranscriptPanel(BlockView):
    """Turns keys into messages; `ReadingPane` does what they ask for."""

    BINDINGS: ClassVar[list[BindingType]] = bindings(KEYS, "read")

    class Asked(Message):
        """One of the keys of `KEYS` that are not the view's own."""

        def __init__(self, command: str) -> None:
            super().__init__()
            self.command = command

    class TopReached(Message):
        """The first block is in sight."""

    first_asked: Key | None = None
    """The first block when that was last told."""

    def __init__(self, facts: Callable[[], ReadingFacts]) -> None:
        """`facts` are what its keys go by now."""
        super().__init__(id="transcript")
        self._facts = facts

    def works_now(self, command: str) -> bool:
        """Whether one of its keys does anything."""
        return works(KEYS, command, self._facts())

    def action_read(self, command: str) -> None:
        self.post_message(self.Asked(command))

    def _place(self) -> None:
        super()._place()
        if not self.is_mounted or not self.count or self.follow:
            return
        second = self.block_at(min(1, self.count - 1)).key
        if self._viewport.top[0] == 0 and second != self.first_asked:
            self.first_asked = second
            self.post_message(self.TopReached())


_PAUSE: Final = 0.1
"""Seconds after the last letter until the search begins: typing costs no search a letter."""


class ReadingPane(Vertical):
    """Owns the view, the search, and what was copied last. `source` is there once a session is open."""

    DEFAULT_CSS: ClassVar[str] = """
    ReadingPane { width: 1fr; height: 1fr; }
    """

    class Changed(Message):
        """Other keys work now, or Esc does something else."""

    def __init__(self, remark: Callable[[str], None]) -> None:
        """`remark` answers a key in the status row."""
        super().__init__(id="reading")
        self.view = TranscriptPanel(lambda: self.facts)
        self.bar = SearchBar()
        self.source: Source | None = None
        self._remark = remark
        self._search = Search()
        self._began: tuple[Key, int] | None = None
        """The top line when the search began."""
        self._copied: Key | None = None
        self._loading = False
        self._actions: dict[str, Callable[[], None]] = {
            "older-prompt": lambda: self._jump(-1, self._prompts, "prompt"),
            "newer-prompt": lambda: self._jump(1, self._prompts, "prompt"),
            "older-fold": lambda: self._jump(-1, self._folds, "fold"),
            "newer-fold": lambda: self._jump(1, self._folds, "fold"),
            "search": self._open_search,
            "next-match": lambda: self._step(1),
            "previous-match": lambda: self._step(-1),
            "copy": self._copy,
            "inspect": self._inspect,
        }

    def compose(self) -> ComposeResult:
        yield self.view
        yield self.bar

    # --- what the screen asks ---------------------------------------------------------------------------

    @property
    def focused(self) -> bool:
        """Whether the reader is in the transcript, not in a text field."""
        return self.is_attached and self.screen.focused is self.view

    @property
    def searching(self) -> bool:
        """Whether Esc ends a search."""
        return self.bar.display and self.screen.focused in (self.view, self.bar.field)

    @property
    def facts(self) -> ReadingFacts:
        cursor = self.view.cursor
        return ReadingFacts(
            prompts=len(self._prompts),
            folds=len(self._folds),
            searched=bool(self._search.places),
            opens=cursor is not None and self._opens(cursor),
        )

    def to_prompt(self, step: int) -> None:
        """Scroll to the prompt before or after the top line; past the last one, to the end."""
        place = self.view.top
        if place is None or not self._prompts:
            return
        top, line = place
        if step < 0:
            # A prompt of which the first lines are out of sight is itself the one before.
            above = (bisect_right if line > 0 else bisect_left)(self._prompts, top)
            self.view.scroll_to_key(self._prompts[max(above - 1, 0)], only_if_hidden=False)
            return
        after = bisect_right(self._prompts, top)
        if after < len(self._prompts):
            self.view.scroll_to_key(self._prompts[after], only_if_hidden=False)
        else:
            self.view.follow_end()

    def page(self, step: int) -> None:
        """A screen up or down; where the reader is in the transcript, the cursor goes along."""
        if self.view.has_focus:
            self.view.action_page(step)
        else:
            self.view.scroll_pages(step)

    def end_search(self) -> None:
        """Close the search; a field that was being typed in gives back the place it was opened from."""
        typing, self._search = self.bar.field.has_focus, Search()
        self.bar.close()
        self.view.set_search("")
        if self.source is not None:
            self.source.conceal()
        if typing and self._began is not None:
            self.view.scroll_to_place(*self._began)
        self.screen.set_focus(self.view)  # at once: `focus()` lets the next key go by
        self.post_message(self.Changed())

    # --- keys -------------------------------------------------------------------------------------------

    @on(TranscriptPanel.Asked)
    def _asked(self, event: TranscriptPanel.Asked) -> None:
        event.stop()
        self._actions[event.command]()
        if event.command != "copy":
            self._copied = None

    @on(BlockView.Opened)
    def _opened(self, event: BlockView.Opened) -> None:
        event.stop()
        if self.source is None:
            return
        if self.source.opens(event.key):
            self.source.toggle(event.key)
        elif event.view.index_of(event.key) == 0:
            self._load_earlier()

    @on(BlockView.CursorMoved)
    def _moved(self, event: BlockView.CursorMoved) -> None:
        event.stop()
        self._copied = None
        self.post_message(self.Changed())

    @on(TranscriptPanel.TopReached)
    def _load_earlier(self) -> None:
        source = self.source
        if source is None or not source.earlier or self._loading:
            return
        self._loading = True
        self.run_worker(self._in_slices(source.read_earlier()), group="earlier")

    async def _in_slices(self, slices: Iterator[None]) -> None:
        try:
            for _ in slices:
                await asyncio.sleep(0)
        finally:
            self._loading = False

    @property
    def _prompts(self) -> Sequence[Key]:
        return () if self.source is None else self.source.prompts

    @property
    def _folds(self) -> Sequence[Key]:
        return () if self.source is None else self.source.folds

    def _opens(self, key: Key) -> bool:
        return self.source is not None and self.source.opens(key)

    def _jump(self, step: int, places: Sequence[Key], what: str) -> None:
        """The cursor to the next of these places, and that to the top."""
        cursor = self.view.cursor or (0, 0)
        at = bisect_right(places, cursor) if step > 0 else bisect_left(places, cursor) - 1
        if not 0 <= at < len(places):
            self._remark(f"No {what} {'below' if step > 0 else 'above'}")
            return
        self.view.cursor_to(places[at], scroll=False)
        self.view.scroll_to_key(places[at], only_if_hidden=False)

    def _copy(self) -> None:
        key = self.view.cursor
        if key is None or self.source is None:
            return
        again = self._copied == key
        taken = self.source.take(key, again=again)
        if taken is None or not taken.text:
            self._remark("Nothing to copy here")
            return
        doubt = clipboard.copy(self.app, taken.text)
        self._copied = None if again else key
        then = f"{key_name('copy')} again: {taken.instead}" if taken.instead else ""
        self._remark(" · ".join(filter(None, (f"Copied {taken.words}", then, doubt))))

    def _inspect(self) -> None:
        if self.view.cursor is not None and self.source is not None:
            self.post_message(EntryWanted(self.source.entry_of(self.view.cursor)))

    # --- search -----------------------------------------------------------------------------------------

    def _open_search(self) -> None:
        if not self.bar.display:
            self._began = self.view.top
        self.bar.open()
        self.post_message(self.Changed())

    @on(SearchBar.Changed)
    def _typed(self, event: SearchBar.Changed) -> None:
        event.stop()
        self._search = Search(event.needle, done=not event.needle)
        self.bar.say(self._found_words())
        self.view.set_search(event.needle)
        work = partial(self._look, event.needle)
        _: Worker[None] = self.run_worker(work, group="search", exclusive=True)

    async def _look(self, needle: str) -> None:
        await asyncio.sleep(_PAUSE)
        if self.source is None or not needle:
            return
        places = await places_of(self.view, needle, self.source.words_at)
        self._search = self._search.found(places, self.view.cursor)
        self._show_match()

    def _found_words(self) -> str:
        """How many places there are, and what was not looked through."""
        words, earlier = self._search.words, 0 if self.source is None else self.source.earlier
        return (
            f"{words} · {earlier:,} earlier entries not loaded"
            if self._search.at is not None and earlier
            else words
        )

    @on(SearchBar.Entered)
    def _entered(self, event: SearchBar.Entered) -> None:
        event.stop()
        if not self._search.needle:
            self.end_search()
            return
        self.screen.set_focus(self.view)
        self._show_match()

    def _step(self, step: int) -> None:
        if not self._search.needle:
            self._remark(f"Nothing to look for yet: {key_name('search')} asks")
            return
        self._search = self._search.step(step)
        self._show_match()

    def _show_match(self) -> None:
        """Put the cursor on the match, and the line of it that holds the words into sight."""
        search, source = self._search, self.source
        self.bar.say(self._found_words())
        self.post_message(self.Changed())
        if source is None or not search.done or not search.needle:
            return
        if search.place is None:
            earlier = f"; {source.earlier:,} earlier entries are not loaded" if source.earlier else ""
            self._remark(f"{search.shown_needle} is nowhere in this transcript{earlier}")
            return
        visible = source.reveal(search.place, search.needle)
        self.view.cursor_to(search.place, quiet=True, scroll=False)
        self.view.show_match(search.place)
        if not visible:
            where = f"further on than the chat shows: {key_name('inspect')} opens all"
            self._remark(f"{search.shown_needle} is {where}")
