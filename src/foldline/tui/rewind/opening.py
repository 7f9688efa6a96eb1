"""Connects the Rewind screen to the agent: shows where to go back to, goes, and gives the prompt back."""

from collections.abc import Callable
from typing import Any

from textual.app import App

from foldline.agent.rewind import foresee
from foldline.context.rewind_points import rewind_points
from foldline.protocol import operations
from foldline.tui.rewind.screen import Outcome, RewindScreen, begin
from foldline.tui.runner import Runner


def open_rewind(app: App[Any], runner: Runner, give_back: Callable[[str], bool]) -> None:
    """Show the places. The prompt of a turn that the context left comes back through `give_back`."""
    agent_state = runner.agent.state
    state = begin(rewind_points(agent_state.projection))

    async def look(checkpoint: int) -> Outcome:
        foreseen = await foresee(agent_state, checkpoint)
        scale = agent_state.projection.calibration.scale(agent_state.projection.model)
        # No report is true of the view that is left: all of it is estimated, as it will be then.
        after = round((foreseen.tokens + agent_state.overhead) * scale)
        return Outcome(agent_state.size(), after, foreseen.items, foreseen.prompts, foreseen.files)

    def go(asked: operations.Rewind | None) -> None:
        if asked is not None:
            app.run_worker(_carry_out(asked), group="rewind")

    async def _carry_out(asked: operations.Rewind) -> None:
        place = next(place for place in state.places if place.id == asked.checkpoint)
        executor = runner.agent.executor
        finished = await executor.wait_for(executor.submit(asked))
        if finished.outcome == "done" and asked.context and place.prompt:
            give_back(place.prompt)

    app.push_screen(RewindScreen(state, look), go)
