"""The presenter: every event into state, transcript and figures, drawn up to 30 times a second."""

import asyncio
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from textual.timer import Timer

from foldline.tui.chat import ChatScreen
from foldline.tui.keys.commands import own_command
from foldline.tui.state import ChatState
from foldline.tui.terminal.app import Window

if TYPE_CHECKING:
    from foldline.protocol.events import Event
    from foldline.tui.figures import Figures
    from foldline.tui.idle_compaction import IdleCompaction
    from foldline.tui.inspector_host import InspectorHost
    from foldline.tui.model_setup import Setup
    from foldline.tui.open_session import OpenSession
    from foldline.tui.preview_host import PreviewHost
    from foldline.tui.runner import Runner
    from foldline.tui.transcript.feed import Transcript

FRAMES = 30
"""Times a second at most that what streams in is drawn."""
LEAST_FRAMES = 6
"""And this often where frames are large."""
CHARACTERS_A_SECOND = 6_000
"""What frames may write before they come less often: a scrolled line of a large window is half a kilobyte."""


@dataclass(slots=True)
class Shown:
    """What shows one session."""

    chat: "OpenSession"
    runner: "Runner"
    transcript: "Transcript"
    figures: "Figures"
    previewing: "PreviewHost"
    idle: "IdleCompaction"
    setup: "Setup"
    inspected: "InspectorHost | None" = None
    """What opens the Inspector, once that was wanted."""

    @property
    def inspecting(self) -> "InspectorHost":
        """Made when it is first wanted: its panels are 40 modules."""
        from foldline.tui.inspector_host import InspectorHost

        if self.inspected is None:
            self.inspected = InspectorHost(self.chat, self.runner.agent)
        return self.inspected


class Presenter:
    """Holds the state of the chat, and shows it. Before a session is `shown` there is only the state."""

    def __init__(
        self, chat: ChatScreen, state: ChatState, clock: Callable[[], float], written: Callable[[], int]
    ) -> None:
        """`written` tells how many characters frames have taken so far."""
        self._chat = chat
        self._clock = clock
        self._count = written
        self._window = Window()
        self._frame: Timer | None = None
        self._drawn = -math.inf
        """When the last frame was drawn."""
        self._written = 0
        """What had been written to the terminal then."""
        self._pause = 1 / FRAMES
        """Seconds from that frame to the next, by what the one before has written."""
        self._figures_stale = False
        self.state = state
        self.shown: Shown | None = None

    @property
    def settled(self) -> bool:
        """Whether all that was heard is on the screen."""
        return self._frame is None

    def show(self, state: ChatState) -> None:
        """Take this state, and show it now."""
        self.state = state
        self._chat.state = state
        self._window.show(self._chat.app, state, shown=self._chat.is_shown)
        if self.shown is not None and self.shown.inspected is not None:
            self.shown.inspected.on_state()

    # --- events from the executor ----------------------------------------------------------------------

    def hear(self, event: "Event") -> None:
        """Take one event. Only what may not wait for the next frame is drawn at once."""
        from foldline.protocol import BaseMessage, events
        from foldline.tui.machine import reduce

        shown = self.shown
        assert shown is not None, "events come from a session that is shown"
        self.state = reduce(self.state, event, self._clock())
        shown.previewing.on_event(event)
        shown.idle.hear(event)
        self._write_down(shown, event)
        self._follow_figures(shown, event)
        match event:
            case events.TextDelta() | events.ThinkingDelta() | events.ToolOutput():
                self._want_frame()
            case events.CompactionProgress() | events.EntryAppended(entry=BaseMessage()):
                self._want_frame()
            case events.EntryAppended():
                self._draw()  # Gutter, meter and side list change together.
            case _:
                self._want_frame()
                self.show(self.state)  # What Esc would do is never a frame behind.

    def _write_down(self, shown: Shown, event: "Event") -> None:
        """What the event means for the transcript."""
        from foldline.protocol import events

        transcript = shown.transcript
        match event:
            case events.StepStarted() | events.Retrying():
                transcript.begin_step()
            case events.TextDelta():
                transcript.write(event.text)
            case events.ThinkingDelta():
                transcript.think(event.text)
            case events.ToolStarted():
                transcript.start_tool(event.call_id, event.title)
            case events.ToolOutput():
                transcript.tool_output(event.call_id, event.text)
            case events.SubagentProgress():
                transcript.hear_child(event)
            case events.EntryAppended():
                transcript.add(event.entry)
            case events.TaskFinished():
                transcript.drop_stream()

    def _follow_figures(self, shown: Shown, event: "Event") -> None:
        """Whether the figures are still true, and what of the view a compaction is about to take."""
        from foldline.protocol import Compaction, events

        match event:
            case events.CompactionStart():
                shown.figures.compacting = event.reason
                shown.transcript.plan_cut(shown.figures.cut_index())
            case events.CompactionEnd():
                shown.figures.compacting = None
                shown.transcript.plan_cut(None)
            case events.EntryAppended(entry=Compaction()):
                shown.figures.compacting = None  # made: the meter shows no other one until that begins
            case (
                events.EntryAppended() | events.TaskFinished() | events.ToolsListed() | events.WindowLearned()
            ):
                pass
            case _:
                return
        self._figures_stale = True

    # --- drawing ---------------------------------------------------------------------------------------

    def _want_frame(self) -> None:
        """A frame now, where the last one is long enough ago, else when it is."""
        if self._frame is None:
            since = self._clock() - self._drawn
            if since < self._pause:
                self._frame = self._chat.set_timer(self._pause - max(since, 0.0), self._draw)
            else:
                self._draw()

    def _draw(self) -> None:
        """One frame: what was streamed, the state, and the figures where an entry or a compaction changed
        them."""
        if self._frame is not None:
            self._frame.stop()
            self._frame = None
        self._drawn = self._clock()
        before, self._written = self._written, self._count()
        cost = (self._written - before) / CHARACTERS_A_SECOND
        self._pause = min(max(cost, 1 / FRAMES), 1 / LEAST_FRAMES)
        if self.shown is None:
            return
        self.shown.transcript.flush()
        self.shown.previewing.draw()
        if self._figures_stale:
            self.refresh_figures()
        else:
            self.show(self.state)

    def refresh_figures(self) -> None:
        """Meter, side list, weights and Inspector as the session is now."""
        self._figures_stale = False
        if self.shown is None:
            return
        figures, agent = self.shown.figures, self.shown.runner.agent
        idle = agent.settings.compaction.idle if agent.settings is not None else "off"
        cache = None if self.state.busy else figures.cache_ends(idle, self._clock())
        self.shown.idle.follow(cache, self._clock())
        self.show(
            replace(
                self.state,
                room=figures.room(),
                cache=cache,
                undo_adds=figures.undo_adds(),
                title=agent.session.meta().title,
                unanswered=figures.unanswered(),
                own_commands=tuple(map(own_command, agent.state.catalogue.by_name.values())),
            )
        )
        self._chat.sidebar.show(figures.sidebar())
        self.in_slices(self.shown.transcript.reweigh(), "weights")
        if self.shown.inspected is not None:
            self.shown.inspected.refresh()

    def in_slices(self, slices: Iterator[None], group: str) -> None:
        """Do the first part of something long now, the rest with keys and frames in between."""
        if next(slices, self) is None:
            self._chat.run_worker(_rest_of(slices), group=group, exclusive=True)


async def _rest_of(slices: Iterator[None]) -> None:
    for _ in slices:
        await asyncio.sleep(0)
