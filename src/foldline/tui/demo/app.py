"""The tour as an app: Foldline itself, with somebody typing the recorded prompts."""

import asyncio
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from textual import events

from foldline.tui.app import FoldlineApp

if TYPE_CHECKING:
    from foldline.agent import Agent

PACE = 0.015
"""Seconds a word of the replayed answers."""
_KEY = 0.012
"""Seconds between two letters that are typed."""
_BREATH = 1.6
"""Seconds to look at what has come before the next prompt."""

REMARKS = (
    "A recorded session, played by the real program. Esc stops the tour, then everything is yours",
    "Left of each line: the rail. ┃ means that the model has it word for word",
    "The bar below fills: ▓ system, █ verbatim. At ┃ the older part is folded",
    "F2 shows all entries beside what the model is sent, at any time",
    "┊ means: the model has it only through the summary. Nothing is gone from here",
)
END = "The recording ends here. F2 inspector · Tab, Enter on a ▸─ line: its summary · Ctrl+C twice quits"


class DemoApp(FoldlineApp):
    """Plays the recording once, then leaves the session to the reader."""

    def __init__(self, root: Path, *, pace: float = PACE, theme: str = "foldline-dark") -> None:
        super().__init__(lambda: self._recorded_agent(), root=root, theme=theme)
        self._demo_pace = pace
        self._kept = tempfile.TemporaryDirectory(prefix="foldline-demo-")
        """Holds the session of the tour; goes with the program."""
        self.toured = False
        """Whether the last recorded prompt has been answered, or the tour was stopped."""

    def _recorded_agent(self) -> "Agent":
        from foldline.tui.demo.recording import replaying_agent

        return replaying_agent(Path("/home/you/foldline"), Path(self._kept.name), self._demo_pace)

    def agent_ready(self) -> None:
        self.run_worker(self._tour(), group="tour", exclusive=True)

    async def _tour(self) -> None:
        from foldline.tui.demo.recording import recorded_prompts

        runner = self.runner
        assert runner is not None, "the tour begins when the agent is there"
        for number, prompt in enumerate(recorded_prompts()):
            self.chat.remark(REMARKS[number % len(REMARKS)])
            await self._type(prompt)
            self.chat.prompt.editor.put("")
            if self.toured:
                return
            runner.send(prompt)
            await runner.drained()
            await asyncio.sleep(_BREATH * self._demo_pace / PACE)
        self.toured = True
        self.chat.remark(END)

    async def on_event(self, event: events.Event) -> None:
        """Esc stops the tour, whatever else it does."""
        if isinstance(event, events.Key) and event.key == "escape" and not self.toured:
            self.toured = True
            self.chat.remark(END)
        await super().on_event(event)

    async def _type(self, text: str) -> None:
        for length in range(1, len(text) + 1):
            if self.toured:
                return
            self.chat.prompt.editor.put(text[:length])
            await asyncio.sleep(_KEY * self._demo_pace / PACE)
