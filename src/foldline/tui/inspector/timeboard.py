"""The board through time: a timeline below its panels, all of which may show an earlier moment."""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from textual import events
from textual.message import Message
from textual.widget import Widget
from textual.worker import Worker

from foldline.context.budget import Size
from foldline.context.moments import Moment, at_compaction, at_request, requests_before
from foldline.context.projection import Projection
from foldline.context.weight import view_size
from foldline.history.stored import without_gc
from foldline.tui.blocks import Key, Span
from foldline.tui.blocks.cells import Piece, row
from foldline.tui.inspector.board import Board
from foldline.tui.inspector.entry_view import EntryView
from foldline.tui.inspector.filelist import FileTable, file_table
from foldline.tui.inspector.keys import KEYS
from foldline.tui.inspector.layout import TIMELINE
from foldline.tui.inspector.marks import gutter_width
from foldline.tui.inspector.past import Past
from foldline.tui.inspector.timeline import (
    Scene,
    Series,
    TimelinePanel,
    brief,
    fold_slots,
    fold_words,
    now_words,
    request_words,
    rows_for,
    slot_of,
)
from foldline.tui.keys.names import joined
from foldline.tui.keys.table import key_of, name_of


@dataclass(frozen=True, slots=True)
class Stand:
    """A place in a list, by entries."""

    cursor: Key | None
    top: tuple[Key, int] | None
    follows: bool
    """Whether the last line is visible."""
    at_end: bool
    """Whether the cursor is on the last row."""


class Staying:
    """Takes a list through other moments: what the reader looks at stays where it is, or comes back to it as
    soon as it is there again; who follows the end goes on doing so."""

    def __init__(self, view: EntryView) -> None:
        self._view = view
        self._wanted = self._left = _stand(view)

    def before(self) -> None:
        """The rows are about to become others."""
        stand = _stand(self._view)
        if stand != self._left:  # the reader has moved since
            self._wanted = stand

    def after(self) -> None:
        """They have."""
        view, wanted = self._view, self._wanted
        if wanted.follows:
            view.follow_end()
        elif wanted.top is not None and view.index_of(wanted.top[0]) is not None:
            view.scroll_to_key(wanted.top[0], only_if_hidden=False)
            view.scroll_lines(wanted.top[1])
        place = wanted.cursor
        if place is not None and view.cursor is not None:
            last = _last(view) if wanted.at_end else None
            view.cursor_to(last or place, quiet=True, scroll=False)
        self._left = _stand(view)


def _stand(view: EntryView) -> Stand:
    return Stand(view.cursor, view.top, view.follow, view.cursor is not None and view.cursor == _last(view))


def _last(view: EntryView) -> Key | None:
    """The last row where the cursor may stand."""
    for index in range(view.count - 1, -1, -1):
        block = view.block_at(index)
        if block.stop:
            return block.key
    return None


_PAST: Final = (
    (("older-request", "newer-request"), "request"),
    (("now",), "now"),
    (("fold-before", "fold-after"), "fold to fold"),
    (("diff",), "diff"),
    (("move",), "move"),
    (("open",), "open"),
    (("next-panel",), "panel"),
    (("search",), "search"),
    (("filter",), "filter"),
    (("help",), "keys"),
    (("close",), "close"),
)
_TIMELINE: Final = (
    (("along",), "one request"),
    (("fold-before", "fold-after"), "fold to fold"),
    (("open",), "its first entry"),
    (("now",), "now"),
    (("mark",), "mark"),
    (("diff",), "diff"),
    (("next-panel",), "panel"),
    (("help",), "keys"),
    (("close",), "close"),
)


def time_hints(*, on_timeline: bool) -> list[tuple[str, str]]:
    """(keys, word) of what works on the timeline, or in the other panels at an earlier moment."""
    return [(_names(commands), word) for commands, word in (_TIMELINE if on_timeline else _PAST)]


def scrubbing_words() -> str:
    """What the timeline's lower edge says: `, . one request · < > fold to fold · 0 back to now`."""
    steps = _names(("older-request", "newer-request")), _names(("fold-before", "fold-after"))
    return f"{steps[0]} one request · {steps[1]} fold to fold · {name_of(KEYS, 'now')} back to now"


def _names(commands: tuple[str, ...]) -> str:
    names = [name for command in commands if (name := _name(command))]
    return joined(names) if names else ""


def _name(command: str) -> str:
    key = key_of(KEYS, command)
    return "".join(key.names[:2]) if command == "along" else key.name


_MANY: Final = 2_000
"""Touches of files from which on their list is made in a thread."""


class TimeBoard(Board):
    """Shows now, or the history as it was at a moment. A moment stays while entries come."""

    class MomentChanged(Message):
        """Another moment is shown, or on its way."""

    def __init__(
        self,
        projection: Projection,
        *,
        overhead: int = 0,
        window: int = 0,
        cwd: str = "",
        rows: bool = True,
        live: bool = False,
        threshold: int | None = None,
        activity: str = "",
        id: str | None = None,
    ) -> None:
        """As a board. `window` is the model's, in tokens; 0 where it is not known."""
        super().__init__(
            projection,
            overhead=overhead,
            cwd=cwd,
            rows=rows,
            live=live,
            threshold=threshold,
            activity=activity,
            id=id,
        )
        self._now = projection
        self._window = window
        self._past = Past(projection)
        self._series = Series()
        self._folds: tuple[tuple[int, int], ...] = ()
        self._moment: Moment | None = None
        """What the reader chose; None is now."""
        self._shown: Moment | None = None
        """What the panels show: the same, or what they showed before while that is on its way."""
        self._marked: Moment | None = None
        self._stays = tuple(Staying(sheet.view) for sheet in (self.history, self.view))
        self.timeline = TimelinePanel(scrubbing_words())

    def below(self) -> Iterable[Widget]:
        return (self.timeline,)

    def on_mount(self) -> None:
        self.call_after_refresh(self._show_timeline)

    def on_unmount(self) -> None:
        """Let go of all that is as large as the history: see `BlockCanvas.on_unmount`."""
        self._past.forget()
        self._projection = self._now
        for sheet in (self.history, self.view):
            sheet.forget()

    # --- For the owner --------------------------------------------------------------------------------

    @property
    def now(self) -> Projection:
        """The history as it is."""
        return self._now

    @property
    def moment(self) -> Moment | None:
        """The moment that is shown, or on its way; None is now."""
        return self._moment

    @property
    def settled(self) -> bool:
        """Whether the panels show what was chosen."""
        return self._moment == self._shown

    @property
    def past(self) -> Past:
        """The history as it was."""
        return self._past

    @property
    def marked(self) -> Moment | None:
        """The request that others are compared with."""
        return self._marked

    @property
    def weight(self) -> Size:
        """Of what is shown: what was reported of a request, where that is known."""
        return _asked_size(self._shown) or view_size(self._projection, overhead=self._overhead)

    @property
    def chosen_weight(self) -> Size | None:
        """Of the chosen moment; None while that is not known."""
        if self.settled:
            return self.weight
        if self._moment is None:
            return view_size(self._now, overhead=self._overhead)
        return _asked_size(self._moment)

    @property
    def live(self) -> bool:
        return super().live and self._moment is None and self._shown is None

    @property
    def as_of(self) -> str:
        """The moment that the panels show; nothing where that is now."""
        return self._shown.name if self._shown is not None else ""

    @property
    def panel_of_keys(self) -> int:
        return TIMELINE if self.timeline.has_focus else super().panel_of_keys

    @property
    def lists_have_focus(self) -> bool:
        return super().lists_have_focus and not self.timeline.has_focus

    def refresh_from(self, projection: Projection) -> None:
        """Show what has come since; the panels only where they show now."""
        if projection is not self._now:
            self._now, self._past, self._series = projection, Past(projection), Series()
            self._moment = self._shown = self._marked = None
            super().refresh_from(projection)
        elif self._moment is None and self._shown is None:
            super().refresh_from(projection)
        self._show_timeline()

    # --- Going there ----------------------------------------------------------------------------------

    def go_to(self, moment: Moment | None) -> None:
        """Show another moment; None is now. It is on its way at once, and takes its time where it is far."""
        if moment == self._moment:
            return
        self._moment = moment
        self._news = ""
        self.post_message(self.MomentChanged())
        self._show_timeline()
        self._describe()
        # The function and not what it gives: where it is overtaken at once, nothing was begun.
        _: Worker[None] = self.run_worker(self._turn, group="moment", exclusive=True)

    async def _turn(self) -> None:
        """Let the panels show what was chosen. Whoever chooses again cancels it."""
        with without_gc():
            await self._turn_to(self._moment)

    async def _turn_to(self, moment: Moment | None) -> None:
        then = self._now if moment is None else await self._past.fold(moment)
        view = await self.view.turn(then)
        news = self.view.news
        history = await self.history.turn(then, news.first_index if news is not None else None)
        table = await _files_of(then, self._cwd)
        for stay in self._stays:
            stay.before()
        self._projection, self._shown = then, moment
        if view is not None:
            self.view.put(view)
        if history is not None:
            self.history.put(history)
        for stay in self._stays:
            stay.after()
        self._files.put(then, table)
        width = gutter_width(then.last_index)
        for columns, sheet in zip(self._columns, (self.history, self.view), strict=True):
            sheet.view.widen_gutter(width)
            sheet.view.redraw()
            columns.show(width)
        if moment is None:
            super().refresh_from(then)  # what came while its rows were made
        self._link_here()
        self._show_timeline()
        self.post_message(self.MomentChanged())
        self.arrived()
        if moment is not None:
            await self._past.prove(moment, then)
            self._show_timeline()

    def arrived(self) -> None:
        """What was chosen is shown now."""

    # --- Keys -----------------------------------------------------------------------------------------

    def travel(self, command: str) -> bool:
        """Carry out a key of the timeline; False where it is none."""
        match command:
            case "older-request" | "newer-request":
                self._step(-1 if command == "older-request" else 1)
            case "fold-before" | "fold-after":
                self._step_fold(-1 if command == "fold-before" else 1)
            case "first-request":
                self._to_request(1)
            case "now":
                self.go_to(None)
            case _:
                return False
        return True

    def _step(self, step: int) -> None:
        """To the request before or after. A fold stands between two of them."""
        moment, count = self._moment, len(self._now.requests)
        if moment is None:
            if step > 0:
                self._news = "This is now: nothing is newer."
                return
            number = count
        elif moment.kind == "request":
            number = moment.number + step
        else:
            before = requests_before(self._now.requests, moment.length)
            number = before if step < 0 else before + 1
        if number > count:
            self.go_to(None)
        else:
            self._to_request(number)

    def _to_request(self, number: int) -> None:
        if not self._now.requests:
            self._news = "No request has been sent yet."
        elif number < 1:
            self._news = "This is the first request."
        else:
            self.go_to(at_request(self._now, number))

    def _step_fold(self, step: int) -> None:
        """To the fold before or after the moment; after the last one is now."""
        folds = [fold.index for fold in self._now.all_compactions]
        moment = self._moment
        if moment is None:
            found = folds if step < 0 else []
        else:
            known = [(index, self._now.count_up_to(index)) for index in folds]
            here = moment.length
            found = [i for i, length in known if (length < here if step < 0 else length > here)]
        if found:
            self.go_to(at_compaction(self._now, found[-1] if step < 0 else found[0]))
        elif step > 0 and moment is not None:
            self.go_to(None)
        else:
            self._news = "No fold before this." if step < 0 else "No fold after this."

    def _mark_request(self) -> None:
        moment = self._moment
        if moment is None or moment.kind != "request":
            back = name_of(KEYS, "older-request")
            self._news = f"Only a request that was sent can be marked: {back} goes back to one."
            return
        self._marked = None if self._marked == moment else moment
        diff = name_of(KEYS, "diff")
        self._news = f"△ {moment.name} is marked: at another one, {diff} compares." if self._marked else ""
        self._show_timeline()

    # --- Words ----------------------------------------------------------------------------------------

    def _hint_pairs(self) -> Sequence[tuple[str, str]]:
        if self.timeline.has_focus:
            return time_hints(on_timeline=True)
        return super()._hint_pairs() if self._moment is None else time_hints(on_timeline=False)

    def _status_row(self, cursor: Key | None) -> list[Span]:
        if not self.timeline.has_focus or self._news:
            return super()._status_row(cursor)
        words = self.timeline.scene.words
        if self.timeline.says_all or len(words) < 2:  # the keys may be faster than its first picture
            return row([], [], self.size.width)
        _, weight, *more = words
        return row([Piece(weight), *(Piece(words, cut="right") for words in more[-1:])], [], self.size.width)

    # --- The panel ------------------------------------------------------------------------------------

    def _lay_out(self) -> None:
        super()._lay_out()
        self._lay_out_timeline()

    def _lay_out_timeline(self) -> None:
        rows = rows_for(self.room.height, self.timeline.has_focus)
        self.timeline.display = self.timeline.has_focus or (bool(rows) and not self.one_at_a_time)
        self.timeline.styles.height = rows + 2

    def focus_timeline(self) -> None:
        """Give it the focus; on a short screen it is there only as long as it has it."""
        self._news = ""
        self.timeline.display = True
        self.timeline.focus()

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        self._lay_out_timeline()

    def on_descendant_blur(self) -> None:
        self.call_after_refresh(self._lay_out_timeline)

    def _show_timeline(self) -> None:
        """What the timeline says is so."""
        self._draw_timeline()
        if self.timeline.has_focus:
            self._describe()

    def _draw_timeline(self) -> None:
        if not self.is_mounted:
            return
        now, moment = self._now, self._moment
        self._series.follow(now)
        size = view_size(now, overhead=self._overhead)
        self._folds = fold_slots(now)
        self.timeline.show(
            Scene(
                sizes=self._series.sizes,
                latest=size.tokens,
                window=self._window,
                shown=slot_of(now, moment),
                folds=self._folds,
                marked=None if self._marked is None else slot_of(now, self._marked),
                words=self._words(size),
                brief=brief(moment, now, size),
            )
        )

    def _words(self, size: Size) -> tuple[tuple[tuple[str, str], ...], ...]:
        moment = self._moment
        if moment is None:
            return now_words(self._now, size, self._activity)
        then = self._projection if self.settled else None
        if moment.kind == "request":
            return request_words(self._now, moment, then, self._past.proof(moment))
        return fold_words(self._now, moment, then, name_of(KEYS, "diff"))


def _asked_size(moment: Moment | None) -> Size | None:
    if moment is None or moment.asked is None:
        return None
    return Size(moment.asked.tokens, moment.asked.is_estimated)


async def _files_of(projection: Projection, cwd: str) -> FileTable:
    if len(projection.touches) < _MANY:
        return file_table(projection, cwd)
    return await asyncio.to_thread(file_table, projection, cwd)
