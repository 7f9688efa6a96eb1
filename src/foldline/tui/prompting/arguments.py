"""What may stand behind a slash command: the names that are known by now. Nothing here asks a server."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from textual.app import App

from foldline.context.harmless import clean_line
from foldline.tui import numbers
from foldline.tui.prompting.fuzzy import fit
from foldline.tui.widgets.completion import Candidate

if TYPE_CHECKING:
    from foldline.tui.runner import Runner


@runtime_checkable
class _HasRunner(Protocol):
    @property
    def runner(self) -> "Runner | None": ...


Named = tuple[str, str]
"""A name, and what it stands for."""


def arguments(command: str, typed: str, app: App[Any]) -> tuple[Candidate, ...]:
    """The arguments of a command that fit what was typed, best first; none where nobody knows any."""
    source = _SOURCES.get(command)
    if source is None:
        return ()
    ranked = [
        (rank, at, name, note)
        for at, (name, note) in enumerate(source(app))
        if (rank := fit(typed.lower(), name.lower())) is not None
    ]
    return tuple(Candidate(name, clean_line(name), clean_line(note)) for _, _, name, note in sorted(ranked))


def _themes(app: App[Any]) -> Sequence[Named]:
    from foldline.tui.dressed import DressedApp
    from foldline.tui.themes import described

    return described(app.themes) if isinstance(app, DressedApp) else ()


def _strategies(_: App[Any]) -> Sequence[Named]:
    from foldline.compaction import BUILT_IN

    return [(name, _first_sentence(strategy.__doc__)) for name, strategy in BUILT_IN.items()]


def _models(_: App[Any]) -> Sequence[Named]:
    from foldline.llm.models import table

    return [(name, f"window {numbers.short_tokens(row['window'])}") for name, row in table().by_model.items()]


def _servers(app: App[Any]) -> Sequence[Named]:
    runner = app.runner if isinstance(app, _HasRunner) else None
    servers = None if runner is None else runner.agent.state.servers
    return [] if servers is None else [(state.name, str(state)) for state in servers.states]


def _first_sentence(text: str | None) -> str:
    return " ".join((text or "").replace("`", "").split()).partition(". ")[0].rstrip(".")


_SOURCES: dict[str, Callable[[App[Any]], Sequence[Named]]] = {
    "theme": _themes,
    "strategy": _strategies,
    "model": _models,
    "mcp": _servers,
}
