"""The tour as an app: somebody types the recorded prompts, then come the newcomer's own keys; its strip."""

import asyncio
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from textual import events
from textual.css.query import NoMatches

from foldline.tui.app import FoldlineApp
from foldline.tui.blocks.cells import Span, Spans, wrap
from foldline.tui.demo.tour import LAST, Facts, Tour, further, look, recorded_prompts, replaying_agent, steps
from foldline.tui.dock import CHAT_COLUMNS
from foldline.tui.keys.table import ScreenKey, bindings, name_of, table
from foldline.tui.widgets.lines import Frame, Lines, edge, hints_in, sides

KEYS: Final = table(
    "tour",
    ScreenKey[None]("skip-step", ("f8",), "Skips this step of the tour.", "Tour", place="anywhere"),
    ScreenKey("end-tour", ("f9",), "Ends the tour; the session stays open.", "Tour", place="anywhere"),
    title="Tour (foldline demo)",
)


PACE = 0.008
"""Seconds a word of the replayed answers: the whole recording in less than a minute."""
_KEY = 0.008
"""Seconds between two letters that are typed."""
_BREATH = 1.0
"""Seconds to look at what has come before the next prompt."""
_LOOKS = 0.1
"""Seconds between two looks at what the newcomer has done."""


class DemoApp(FoldlineApp):
    """Plays the recording once, then asks the newcomer to try things, and leaves the session to them."""

    BINDINGS = bindings(KEYS, "tour")

    def __init__(
        self,
        root: Path,
        *,
        pace: float = PACE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(
            lambda: replaying_agent(Path("/home/you/foldline"), Path(self._kept.name), pace),
            root=root,
            clock=clock,
        )
        self._demo_pace = pace
        self._kept = tempfile.TemporaryDirectory(prefix="foldline-demo-")
        """Holds the session of the tour; goes with the program."""
        self.played = False
        """Whether the last recorded prompt has been answered, or playing was stopped."""
        self._previewed = self._asked = False
        self.tour: Tour | None = None

    def agent_ready(self) -> None:
        self.tour = Tour(steps())
        self._show_strip(self.tour)
        self.set_interval(_LOOKS, self._look)
        self.run_worker(self._play(), group="tour", exclusive=True)

    # --- what the newcomer is asked to try ---------------------------------------------------------------

    def _look(self) -> None:
        """Whether the step is done, and the strip on the screen in front."""
        if self.tour is not None:
            self.tour = look(self.tour, self._facts())
            self._show_strip(self.tour)

    def _show_strip(self, tour: Tour) -> None:
        try:
            strip = self.screen.query_one(TourStrip)
        except NoMatches:
            self.screen.mount(TourStrip(tour), before=0)
            return
        is_docked = self.screen is self.chat and self.chat.docked.display
        strip.show(tour, beside=CHAT_COLUMNS if is_docked else None)

    def _facts(self) -> Facts:
        from foldline.protocol import Edit
        from foldline.tui.keys.table import active_tables

        shown = self.chat.presenter.shown
        if shown is None:
            return Facts()
        projection = shown.runner.agent.session.projection
        opened = shown.transcript.openings.level
        inspector = shown.inspecting.panels
        place = (
            inspector.lists.link.index if inspector is not None and inspector.lists.link is not None else -1
        )
        screens = frozenset(table.name for table in active_tables(self.screen))
        self._previewed |= "preview" in screens
        self._asked |= self.state.question is not None
        return Facts(
            screens=screens,
            previewed=self._previewed,
            played=self.played,
            compactions=len(projection.compactions()),
            summary_open=any(opened((each.index, 0)) != "closed" for each in projection.all_compactions),
            place=place,
            on_compaction=any(each.index == place for each in projection.all_compactions),
            past=inspector is not None and bool(inspector.travel.as_of),
            answered=self._asked and self.state.question is None,
            pins=sum(isinstance(marker, Edit) and marker.action == "pin" for marker in projection.markers),
        )

    def action_tour(self, command: str) -> None:
        """What a key of the table does."""
        match command:
            case "skip-step" if self.tour is not None:
                self._stop_playing()
                self.tour = further(self.tour, self._facts())
                self._show_strip(self.tour)
            case "end-tour":
                self._end()

    def _end(self) -> None:
        self._stop_playing()
        self.tour = None
        for screen in self.screen_stack:
            screen.query(TourStrip).remove()

    # --- the recording ------------------------------------------------------------------------------------

    async def _play(self) -> None:
        runner = self.runner
        assert runner is not None, "the tour begins when the agent is there"
        for prompt in recorded_prompts():
            await self._type(prompt)
            if self.played:
                return
            self.chat.prompt.editor.put("")
            runner.send(prompt)
            await runner.drained()
            await asyncio.sleep(_BREATH * self._demo_pace / PACE)
        self._stop_playing()

    def _stop_playing(self) -> None:
        """What was being typed is not the newcomer's: it goes."""
        if not self.played:
            self.played = True
            self.chat.prompt.editor.put("")

    async def on_event(self, event: events.Event) -> None:
        """Esc stops the playing, whatever else it does."""
        if isinstance(event, events.Key) and event.key == "escape":
            self._stop_playing()
        await super().on_event(event)

    async def _type(self, text: str) -> None:
        for length in range(1, len(text) + 1):
            if self.played:
                return
            self.chat.prompt.editor.put(text[:length])
            await asyncio.sleep(_KEY * self._demo_pace / PACE)


_WIDE: Final = 110
"""Columns from which the longest step fits into two lines of text; below, it takes three."""
_RULE: Final = Frame("───── ", "muted")
"""A frame that is a line above, and nothing beside."""


class TourStrip(Lines):
    """Docked at the top. Its height depends on nothing but the width: no step moves the screen."""

    DEFAULT_CSS = "TourStrip { dock: top; height: 4; background: $role-background; }"

    def __init__(self, tour: Tour) -> None:
        super().__init__(id="tour")
        self._tour = tour

    def show(self, tour: Tour, *, beside: int | None = None) -> None:
        """Show this step; `beside` something that stands from the first row on, in so many columns."""
        self._tour = tour
        self.styles.width = "100%" if beside is None else beside
        self.update()

    def on_resize(self) -> None:
        self.styles.height = 3 if self.size.width >= _WIDE else 4

    def lines(self, width: int) -> list[list[Span]]:
        step = self._tour.step
        skips, ends = name_of(KEYS, "skip-step"), name_of(KEYS, "end-tour")
        if step is None:
            title: Spans = (("The tour ends here", "accent bold"),)
            keys, said = f"{ends} closes this", LAST
        else:
            title = (
                (f"Tour {self._tour.number} of {self._tour.count} ▸ ", "muted"),
                (step.title, "accent bold"),
            )
            keys, said = f"{skips} skips · {ends} ends the tour", step.say
        text = [sides(_RULE, [(said[start:stop], "text")], width) for start, stop in wrap(said, width - 2)]
        return [edge(_RULE, True, title, hints_in(keys, "muted"), width), *text]
