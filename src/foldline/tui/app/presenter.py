"""Applies events to the state, the transcript and the figures.

Also draws them.
"""

import asyncio
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from textual.timer import Timer

from foldline.frontend.state import ChatState
from foldline.tui.chat.screen import ChatScreen
from foldline.tui.terminal.app import WindowTitle

if TYPE_CHECKING:
    from foldline.frontend.figures import Figures
    from foldline.frontend.runner import Runner
    from foldline.protocol.events import Event
    from foldline.tui.app.inspector_host import InspectorHost
    from foldline.tui.app.model_setup import ModelSetup
    from foldline.tui.app.preview_host import PreviewHost
    from foldline.tui.session_window import SessionWindow
    from foldline.tui.transcript.feed import ChatTranscript

FRAMES = 30
"""Maximum number of frames per second while text streams in."""
LEAST_FRAMES = 6
"""Minimum number of frames per second, used if frames are large."""
CHARACTERS_A_SECOND = 6_000
"""Output rate, in characters per second, above which frames are drawn less often.

The rate is in characters per second. A scrolled line takes about 500 characters.
"""


@dataclass(slots=True)
class Shown:
    """The objects that show one open session."""

    chat: "SessionWindow"
    runner: "Runner"
    transcript: "ChatTranscript"
    figures: "Figures"
    previewing: "PreviewHost"
    setup: "ModelSetup"
    inspected: "InspectorHost | None" = None
    """The host of the Inspector; None until it is first needed."""

    @property
    def inspecting(self) -> "InspectorHost":
        """The host of the Inspector.

        It is created only when needed, because its panels import 40 modules.
        """
        from foldline.tui.app.inspector_host import InspectorHost

        if self.inspected is None:
            self.inspected = InspectorHost(self)
        return self.inspected


class Presenter:
    """Holds and shows the state of the chat.

    `shown` is None until the session is open.
    """

    def __init__(
        self,
        chat: ChatScreen,
        state: ChatState,
        clock: Callable[[], float],
        written: Callable[[], int],
    ) -> None:
        """Create the presenter.

        Args:
            written: returns the number of characters written to the terminal.
        """
        self._chat = chat
        self._clock = clock
        self._count_written = written
        self._window = WindowTitle()
        self._frame: Timer | None = None
        self._drawn = -math.inf
        """Clock time of the last frame."""
        self._written = 0
        """Characters written to the terminal before the last frame."""
        self._pause = 1 / FRAMES
        """Seconds between frames, computed from the size of the last frame."""
        self._figures_stale = False
        self.state = state
        self.shown: Shown | None = None

    @property
    def settled(self) -> bool:
        """Whether all events are on the screen."""
        return self._frame is None

    def show(self, state: ChatState) -> None:
        """Set the state and show it now."""
        self.state = state
        self._chat.state = state
        self._window.show(self._chat.app, state, shown=self._chat.is_shown)
        if self.shown is not None and self.shown.inspected is not None:
            self.shown.inspected.on_state()

    # --- events from the executor ----------------------------------------------------------------------

    def on_event(self, event: "Event") -> None:
        """Handle an event. Draw immediately only if necessary."""
        from foldline.frontend.reduce import reduce
        from foldline.protocol import BaseMessage, events

        shown = self.shown
        assert shown is not None, "events come from a session that is shown"
        self.state = reduce(self.state, event, self._clock())
        shown.previewing.on_event(event)
        self._update_transcript(shown, event)
        self._update_figures(shown, event)
        match event:
            case events.TextDelta() | events.ThinkingDelta() | events.ToolOutput():
                self._request_frame()
            case (
                events.CompactionProgress() | events.EntryAppended(entry=BaseMessage())
            ):
                self._request_frame()
            case events.EntryAppended():
                self._draw()  # the gutter, the meter and the sidebar must change together
            case _:
                self._request_frame()
                self.show(self.state)  # the label of the Esc key must be up to date

    def _update_transcript(self, shown: Shown, event: "Event") -> None:
        """Apply an event to the transcript."""
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
                transcript.update_child(event)
            case events.EntryAppended():
                transcript.add(event.entry)
            case events.TaskFinished():
                transcript.drop_stream()

    def _update_figures(self, shown: Shown, event: "Event") -> None:
        """Mark the figures as stale if the event changes them.

        Also shows the cut of a running compaction.
        """
        from foldline.protocol import Compaction, events

        match event:
            case events.CompactionStart():
                shown.figures.compacting = event.reason
                shown.transcript.plan_cut(shown.figures.cut_index())
            case events.CompactionEnd():
                shown.figures.compacting = None
                shown.transcript.plan_cut(None)
            case events.EntryAppended(entry=Compaction()):
                shown.figures.compacting = (
                    None  # the meter marks nothing until the next compaction starts
                )
            case (
                events.EntryAppended()
                | events.TaskFinished()
                | events.ToolsListed()
                | events.WindowLearned()
            ):
                pass
            case _:
                return
        self._figures_stale = True

    # --- drawing ---------------------------------------------------------------------------------------

    def _request_frame(self) -> None:
        """Draw a frame, or schedule one if the last frame is too recent."""
        if self._frame is None:
            since = self._clock() - self._drawn
            if since < self._pause:
                self._frame = self._chat.set_timer(
                    self._pause - max(since, 0.0), self._draw
                )
            else:
                self._draw()

    def _draw(self) -> None:
        """Draw a frame: streamed text, state, and stale figures."""
        if self._frame is not None:
            self._frame.stop()
            self._frame = None
        self._drawn = self._clock()
        written = self._count_written()
        cost = (written - self._written) / CHARACTERS_A_SECOND
        self._written = written
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
        """Update the meter, the sidebar, the sizes and the Inspector."""
        self._figures_stale = False
        if self.shown is None:
            return
        figures, agent = self.shown.figures, self.shown.runner.agent
        cache = None if self.state.busy else figures.cache_ends(self._clock())
        self.show(
            replace(
                self.state,
                room=figures.room(),
                cache=cache,
                undo_adds=figures.undo_adds(),
                title=agent.session.meta().title,
                unanswered=figures.unanswered(),
                own_commands=tuple(agent.state.catalogue.by_name.values()),
            )
        )
        self._chat.sidebar.show(figures.sidebar())
        self.in_slices(self.shown.transcript.reweigh(), "weights")
        if self.shown.inspected is not None:
            self.shown.inspected.refresh()

    def in_slices(self, slices: Iterator[None], group: str) -> None:
        """Run the first slice of work now, the rest in the background."""
        if next(slices, self) is None:
            self._chat.run_worker(_run_slices(slices), group=group, exclusive=True)


async def _run_slices(slices: Iterator[None]) -> None:
    for _ in slices:
        await asyncio.sleep(0)
