"""The transcript as a panel: its keys, its search, and what they do."""

import asyncio
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final

from rich.cells import cell_len
from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.message import Message
from textual.widgets import Input, Label
from textual.worker import Worker

from foldline.context.harmless import clean_line
from foldline.tui.blocks.block import Key
from foldline.tui.blocks.view import BlockView
from foldline.tui.keys.table import (
    KeyTable,
    ScreenKey,
    bindings,
    cursor_keys,
    hint_words,
    jump_keys,
    name_of,
    search_keys,
    table,
    works,
)
from foldline.tui.messages import EntryWanted, PromptEditWanted, SubagentWanted
from foldline.tui.terminal import clipboard
from foldline.tui.textual_private import OrderedInput, act_now

if TYPE_CHECKING:
    from foldline.tui.transcript.feed import Transcript


_PAUSE: Final = 0.1
"""Seconds after the last letter until the search begins: typing costs no search a letter."""
_SLICE: Final = 200_000
"""Characters looked through between two breaths: a few milliseconds, with what is read from disk for it."""


@dataclass(frozen=True, slots=True)
class ReadingFacts:
    """What decides which keys do anything."""

    prompts: int = 0
    compactions: int = 0
    searched: bool = False
    """Whether something is looked for."""
    opens: bool = True
    """Whether the cursor stands on something that opens."""
    edits: bool = False
    """Whether it stands on a prompt."""
    undoes: bool = False
    """Whether it stands on the compaction that /undo would take back."""


KEYS: Final[KeyTable[ScreenKey[ReadingFacts]]] = table(
    "transcript",
    "Move",
    *cursor_keys(
        "Moves the cursor by a row, a paragraph, a piece of code.",
        "A screen up or down, the first line, the last one. At the last line the transcript follows.",
    ),
    ScreenKey(
        "open",
        ("enter",),
        "Opens in place what the cursor stands on: a tool call, a summary, a thought; once more, all of "
        "it where it is long; then closes it. Of a subagent: opens its session in the Inspector.",
        hint="open",
        works=lambda facts: facts.opens,
        own=True,
        title="Open or close",
    ),
    "Jump",
    *jump_keys("prompt", ("[", "]"), hint="prompt", works=lambda now: now.prompts > 0),
    *jump_keys("compaction", ("{", "}"), hint="compaction", works=lambda facts: facts.compactions > 0),
    "Search",
    *search_keys(
        "Finds text, also in closed calls, thoughts and summaries.",
        "place",
        hint="next",
        works=lambda facts: facts.searched,
    ),
    "Copy and inspect",
    ScreenKey(
        "copy",
        ("y",),
        "Copies the entry; of a piece of code only that, and pressed again the whole entry; of a tool "
        "call what it gave back, and pressed again what it was given.",
        hint="copy",
        title="Copy",
    ),
    ScreenKey("picture", ("v",), "Shows the pictures of the entry.", title="Show pictures"),
    ScreenKey(
        "undo",
        ("u",),
        "Takes back the compaction whose line the cursor stands on, where that is the newest change.",
        hint="undo",
        works=lambda facts: facts.undoes,
        title="Undo this compaction",
    ),
    ScreenKey(
        "edit",
        ("e",),
        "Edits an earlier prompt in place: sent, it goes back to there with the context and takes its place. "
        "The old way stays a branch in /tree.",
        hint="edit",
        works=lambda facts: facts.edits,
        title="Edit this prompt",
    ),
    ScreenKey(
        "inspect", ("o",), "Opens the Inspector on this entry.", hint="inspect", title="Open in the Inspector"
    ),
)

key_name = partial(name_of, KEYS)
"""How a sentence calls the key of one of these."""


@dataclass(frozen=True, slots=True)
class Search:
    """What is looked for, the places that hold it in order, and the one that is shown."""

    needle: str = ""
    places: tuple[Key, ...] = ()
    at: int | None = None
    done: bool = True

    @property
    def place(self) -> Key | None:
        return None if self.at is None else self.places[self.at]

    @property
    def words(self) -> str:
        """`3 of 17`."""
        if not self.needle:
            return ""
        if not self.done:
            return "…"
        return f"{self.at + 1} of {len(self.places)}" if self.at is not None else "nowhere"

    def found(self, places: tuple[Key, ...], near: Key | None) -> "Search":
        """With these places; shown is the last one down to `near`, else the first below it: somebody at the
        end of a long session looks for what was said before."""
        above = len(places) if near is None else bisect_right(places, near)
        at = None if not places else max(above - 1, 0)
        return replace(self, places=places, at=at, done=True)

    def step(self, step: int) -> "Search":
        """At the next place or the one before, round the end."""
        return self if self.at is None else replace(self, at=(self.at + step) % len(self.places))


async def places_of(view: BlockView, needle: str, words_at: Callable[[Key], str]) -> tuple[Key, ...]:
    """The places that hold `needle`, whatever its case, in order. In slices."""
    from foldline.history.stored import without_gc  # the first screen has no history

    found = re.compile(re.escape(needle), re.IGNORECASE).search
    places: list[Key] = []
    looked = number = 0
    with without_gc():  # entries are made by the thousand to be looked through
        while number < view.count:  # blocks come and go between two slices
            block = view.block_at(number)
            number += 1
            if not block.stop:
                continue
            words = words_at(block.key)
            if found(words):
                places.append(block.key)
            looked += len(words) + 400
            if looked > _SLICE:
                looked = 0
                await asyncio.sleep(0)
    return tuple(places)


class SearchBar(Horizontal):
    """Docked below the transcript while something is looked for."""

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
        self.screen.set_focus(self.field)  # at once: `focus()` lets the next key go by

    def close(self) -> None:
        self.display = False
        with self.prevent(Input.Changed):
            self.field.value = ""
        self.say("")

    def say(self, words: str) -> None:
        """How many there are, at the right end."""
        self._count.update(f"  {words} " if words else "")


class TranscriptPanel(BlockView):
    """Turns keys into messages; `ReadingPane` does what they ask for."""

    BINDINGS: ClassVar[list[BindingType]] = bindings(KEYS, "read")
    opens_at_once = True

    @dataclass
    class Asked(Message):
        """One of the keys of `KEYS` that are not the view's own."""

        command: str

    class TopReached(Message):
        """The first block is in sight."""

    def __init__(self, facts: Callable[[], ReadingFacts], search: Callable[[], None]) -> None:
        """`facts` are what its keys go by now, `search` opens the field of the search."""
        super().__init__(id="transcript")
        self._facts, self._search = facts, search
        self.first_asked: Key | None = None
        """The first block at the last such message."""

    def works_now(self, command: str) -> bool:
        """Whether one of its keys does anything."""
        return works(KEYS, command, self._facts())

    async def _on_key(self, event: events.Key) -> None:
        """Letters right behind the key of the search go into its field: here they would be commands."""
        focused, is_covered = self.screen.focused, self.app.screen is not self.screen
        if is_covered or (focused in (self, None) and not await act_now(self, event.key)):
            return
        if focused not in (self, None):
            focused.post_message(events.Key(event.key, event.character))
        event.stop()
        event.prevent_default()

    def action_read(self, command: str) -> None:
        if command == "search":
            self._search()  # at once: letters that are right behind go into its field
        else:
            self.post_message(self.Asked(command))

    def on_click(self, event: events.Click) -> None:
        """A click on `u undo` in the line of a compaction takes it back; elsewhere it opens the line."""
        from foldline.tui.blocks.plain import RuleBlock

        at = event.get_content_offset_capture(self)
        if self.text_selection is not None or (place := self._place_at(at.y)) is None:
            return
        block = self.block_at(place[0])
        if isinstance(block, RuleBlock) and block.opens and place[1] == block.gap:
            before, undo, _ = self._line(block, place[1]).text.rpartition(f" {key_name('undo')} undo ")
            if undo and 0 < at.x - cell_len(before) < cell_len(undo):
                event.prevent_default()
                self.post_message(self.Asked("undo"))

    def _place(self) -> None:
        super()._place()
        if not self.is_mounted or not self.count or self.follow:
            return
        second = self.block_at(min(1, self.count - 1)).key
        if self._viewport.top[0] == 0 and second != self.first_asked:
            self.first_asked = second
            self.post_message(self.TopReached())


class ReadingPane(Vertical):
    """Owns the view, the search, and what was copied last. `source` is there once a session is open."""

    DEFAULT_CSS: ClassVar[str] = "ReadingPane { width: 1fr; height: 1fr; }"

    class Changed(Message):
        """Other keys work now, or Esc does something else."""

    def __init__(self, remark: Callable[[str], None], run: Callable[[str], None]) -> None:
        """`remark` answers a key in the status row, `run` carries out a command of the chat."""
        super().__init__(id="reading")
        self.view = TranscriptPanel(lambda: self.facts, self._open_search)
        self.bar = SearchBar()
        self.source: Transcript | None = None
        self._remark, self._run_command = remark, run
        self._search = Search()
        self._began: tuple[Key, int] | None = None
        """The top line when the search began."""
        self._copied: Key | None = None
        self._loading = False

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
        cursor, source = self.view.cursor, self.source
        return ReadingFacts(
            prompts=len(self._prompts),
            compactions=0 if source is None else len(source.compactions),
            searched=bool(self._search.places),
            opens=cursor is not None and source is not None and source.openings.opens(cursor),
            edits=cursor is not None and (cursor[0], 0) in self._prompts,
            undoes=cursor is not None and source is not None and source.projection.undoable == cursor[0],
        )

    @property
    def hints(self) -> list[tuple[str, str]]:
        """(keys, word) of what works now."""
        return list(hint_words(KEYS, self.facts))

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

    def toggle_compaction(self) -> None:
        """Open or close the line of the newest compaction, where it is in sight."""
        if self.source is not None and self.source.compactions:
            key = self.source.compactions[-1]
            if self.view.in_sight(key):
                self.source.toggle(key)
                self.view.scroll_to_key(key)  # what opens at the end is below the last row
                self.view.fill()

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
            self.source.openings.conceal()
        if typing and self._began is not None:
            self.view.scroll_to_line(*self._began)
        self.screen.set_focus(self.view)  # at once: `focus()` lets the next key go by
        self.post_message(self.Changed())

    # --- keys -------------------------------------------------------------------------------------------

    @on(TranscriptPanel.Asked)
    def _asked(self, event: TranscriptPanel.Asked) -> None:
        event.stop()
        if event.command == "copy":
            self._copy()
            return
        self._copied = None
        compactions = () if self.source is None else self.source.compactions
        match event.command:
            case "older-prompt" | "newer-prompt":
                self._jump(-1 if event.command.startswith("older") else 1, self._prompts, "prompt")
            case "older-compaction" | "newer-compaction":
                self._jump(-1 if event.command.startswith("older") else 1, compactions, "compaction")
            case "picture":
                self._show_pictures()
            case "next-match" | "previous-match":
                self._step(1 if event.command.startswith("next") else -1)
            case "undo":
                self._run_command("undo")
            case "edit" if self.view.cursor is not None:
                self.post_message(PromptEditWanted(self.view.cursor[0]))
            case "inspect" if self.view.cursor is not None and self.source is not None:
                self.post_message(EntryWanted(self.source.entry_of(self.view.cursor)))

    @on(BlockView.Opened)
    def _opened(self, event: BlockView.Opened) -> None:
        event.stop()
        if self.source is None:
            return
        if (started := self.source.child_at(event.key)) is not None:
            self.post_message(SubagentWanted(started))
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
            self.run_worker(self._in_slices(self.source.read_earlier()), group="earlier")

    async def _in_slices(self, slices: Iterator[None]) -> None:
        try:
            for _ in slices:
                await asyncio.sleep(0)
        finally:
            self._loading = False

    @property
    def _prompts(self) -> Sequence[Key]:
        return () if self.source is None else self.source.prompts

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
        copied = self.source.copied(key, again=again)
        if copied is None or not copied.text:
            self._remark("Nothing to copy here")
            return
        doubt = clipboard.copy(self.app, copied.text)
        self._copied = None if again else key
        then = f"{key_name('copy')} again: {copied.instead}" if copied.instead else ""
        self._remark(" · ".join(filter(None, (f"Copied {copied.words}", then, doubt))))

    def _show_pictures(self) -> None:
        from importlib.util import find_spec

        key = self.view.cursor
        pictures = () if key is None or self.source is None else self.source.pictures(key)
        if not pictures:
            self._remark("No picture here")
        elif find_spec("textual_image") is None:
            self._remark("Pictures are an extra: pip install 'foldline[pictures]'")
        else:
            from foldline.tui.screens.picture import PictureScreen

            self.app.push_screen(PictureScreen(pictures))

    # --- search -----------------------------------------------------------------------------------------

    def _open_search(self) -> None:
        self._copied = None
        if not self.bar.display:
            self._began = self.view.top
        self.bar.open()
        self.post_message(self.Changed())

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        event.stop()
        self._search = Search(event.value, done=not event.value)
        self._say_count()
        self.view.set_search(event.value)
        work = partial(self._look, event.value)
        _: Worker[None] = self.run_worker(work, group="search", exclusive=True)

    async def _look(self, needle: str) -> None:
        await asyncio.sleep(_PAUSE)
        if self.source is None or not needle:
            return
        places = await places_of(self.view, needle, self.source.words_at)
        self._search = self._search.found(places, self.view.cursor)
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
            self._remark(f"Nothing to look for yet: {key_name('search')} asks")
            return
        self._search = self._search.step(step)
        self._show_match()

    def _say_count(self) -> None:
        """How many places there are, and what was not looked through."""
        words, earlier = self._search.words, 0 if self.source is None else self.source.earlier
        if self._search.at is not None and earlier:
            words += f" · {earlier:,} earlier entries not loaded"
        self.bar.say(words)

    def _show_match(self) -> None:
        """Put the cursor on the match, and the line of it that holds the words into sight."""
        search, source = self._search, self.source
        self._say_count()
        self.post_message(self.Changed())
        if source is None or not search.done or not search.needle:
            return
        needle = f"“{clean_line(search.needle)}”"
        if search.place is None:
            earlier = f"; {source.earlier:,} earlier entries are not loaded" if source.earlier else ""
            self._remark(f"{needle} is nowhere in this transcript{earlier}")
            return
        visible = source.openings.reveal(search.place, search.needle)
        self.view.cursor_to(search.place, quiet=True, scroll=False)
        self.view.show_match(search.place)
        if not visible:
            self._remark(f"{needle} is further on than the chat shows: {key_name('inspect')} opens all")
