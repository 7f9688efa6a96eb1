"""Foldline as a library: chat messages compressed, sessions, their projections, and the agent. No Textual.

    result = await foldline.compress(messages, window=128_000)

    session = foldline.open_session("path/to/session")
    view = foldline.project(session).view
    await foldline.compact(session, focus="the failing test")

Importing this imports nothing else; each function brings what it needs.
"""

from .version import __version__

TYPE_CHECKING = False  # That of `typing`, which takes as long as all else of `foldline --version`.
if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Sequence

    from foldline.agent import Agent
    from foldline.compaction import CompactionStrategy, Proposal
    from foldline.compaction.chat_messages import ChatMessage, Source
    from foldline.compaction.compressor import Compressed, Compressor, Summarise
    from foldline.context.projection import Projection
    from foldline.context.tokens import estimate_text_tokens
    from foldline.history import Session
    from foldline.llm import LLM
    from foldline.protocol import Entry, FoldlineError

__all__ = [
    "Agent",
    "Compressed",
    "Compressor",
    "FoldlineError",
    "Source",
    "__version__",
    "compact",
    "compress",
    "estimate_text_tokens",
    "open_session",
    "project",
]


async def compress(
    messages: "Sequence[ChatMessage]",
    *,
    window: int,
    max_output: int | None = None,
    overhead: int = 0,
    summarise: "Summarise | None" = None,
    focus: str | None = None,
    force: bool = False,
) -> "Compressed":
    """What to send of these chat messages, dictionaries of OpenAI's or Anthropic's API, so that they fit.

    They may be the result of an earlier call, with more behind it. For a conversation that grows, a
    `Compressor` knows more: the arguments are its own.

    Raises:
        FoldlineError: a message has an unknown role, or no way was found to make them fit.
    """
    from foldline.compaction.compressor import Compressor

    compressor = Compressor(window=window, max_output=max_output, overhead=overhead, summarise=summarise)
    return await compressor.compress(messages, focus=focus, force=force)


def open_session(path: "str | os.PathLike[str]") -> "Session":
    """The session in a file or session folder. Another agent's is open for reading only.

    Raises:
        FoldlineError: there is none, or it is of a format that is not known.
    """
    from pathlib import Path

    from foldline.formats import read_foreign
    from foldline.history import Session

    found = read_foreign(Path(path))
    if found.format == "foldline":
        return Session.open(Path(path).expanduser())
    return Session.from_entries(found.header, found.entries, damage=found.damage)


def project(history: "Session | Iterable[Entry]") -> "Projection":
    """Project a history: the view the next request would send, and the fate of every entry."""
    from foldline.context.projection import project as projected
    from foldline.history import Session

    return projected(history.entries if isinstance(history, Session) else history)


async def compact(
    session: "Session",
    *,
    strategy: "CompactionStrategy | None" = None,
    llm: "LLM | None" = None,
    focus: str | None = None,
) -> "Proposal | None":
    """Compact a session now and commit that; None where there was nothing to compact.

    Without `strategy` and `llm`, those of the settings in force in the session's folder. An `llm` that was
    handed in writes the summary, too, and stays open.

    Raises:
        FoldlineError: it failed, or the session is read-only; nothing has changed.
    """
    import os
    from contextlib import AsyncExitStack, aclosing
    from pathlib import Path

    from foldline.agent.settings import (
        connect_embedder,
        connect_llm,
        connect_summariser,
        known_window,
        load_settings,
    )
    from foldline.compaction import dependencies, plan, plans_by_cut, propose, strategy_for
    from foldline.context.budget import budget_for
    from foldline.protocol import FoldlineError

    if session.read_only:
        raise FoldlineError(session.read_only)
    settings = load_settings(session.cwd, os.environ)
    async with AsyncExitStack() as opened:
        if llm is not None:
            model = writer = llm
        else:
            model = await opened.enter_async_context(aclosing(connect_llm(settings, os.environ)))
            own = connect_summariser(settings, os.environ)
            writer = await opened.enter_async_context(aclosing(own)) if own else model
        window = await known_window(model)
        budget = budget_for(window, model.info.max_output, settings.budget_settings(window, model.info.id))
        embedder = connect_embedder(settings, os.environ) if llm is None else None
        given = dependencies(writer, Path(session.cwd), session=session, embedder=embedder)
        chosen = strategy_for(strategy or settings.strategy(given), "manual")
        if plans_by_cut(chosen) and plan(session.projection, budget, "manual") is None:
            return None
        session.claim()  # before the model is asked
        proposal = await propose(
            session.projection,
            strategy=chosen,
            llm=writer,
            budget=budget,
            reason="manual",
            focus=focus,
        )
        if proposal is not None:
            await session.append(proposal.entry, durable=True)
        return proposal


_HOME = {
    "Agent": "foldline.agent",
    "Compressed": "foldline.compaction.compressor",
    "Compressor": "foldline.compaction.compressor",
    "FoldlineError": "foldline.protocol",
    "Source": "foldline.compaction.chat_messages",
    "estimate_text_tokens": "foldline.context.tokens",
}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOME[name]), name)
