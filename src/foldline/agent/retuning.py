"""Settings that were changed while an agent works: what of them holds from now on."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from foldline.compaction import load_strategy
from foldline.llm import LLM
from foldline.protocol.events import Event, TaskFinished

from .settings import Settings, connect_summariser

if TYPE_CHECKING:
    from .agent import Agent
    from .desk import Desk


def at_rest(agent: "Agent", do: Callable[[], None]) -> bool:
    """Do it now, or, where something runs, between that and what comes next; whether it was now."""
    if not agent.executor.busy:
        do()
        return True

    def hear(event: Event) -> None:
        if isinstance(event, TaskFinished):
            stop()
            do()

    stop = agent.executor.subscribe(hear)
    return False


def retune(desk: "Desk", now: Settings, environ: Mapping[str, str]) -> Callable[[], LLM | None]:
    """What lets these settings hold for the folds to come: call it when nothing runs. It gives back the
    summariser that is of no more use, to be closed.

    Raises:
        FoldlineError: the strategy cannot be loaded, or the model for summaries cannot be asked; nothing has
            changed.
    """
    strategy = load_strategy(now.compaction.strategy, desk.dependencies)
    summariser = connect_summariser(now, environ)

    def do() -> LLM | None:
        mode = now.compaction.mode
        desk.mode = "auto" if mode == "ask" and not desk.choices.interactive else mode
        desk.budget_settings = now.budget_settings
        desk.strategy = strategy
        desk.ahead.on = now.compaction.draft_ahead == "on"
        desk.ahead.drop()  # the strategy is another, and the model that writes may be closed now
        unused, desk.summary_llm = desk.summary_llm, summariser
        return unused

    return do
