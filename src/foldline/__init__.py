"""Foldline as a library.

It compresses chat messages, reads and compacts sessions, and runs the agent.

Textual is not needed.

    result = await foldline.compress(messages, window=128_000)

    session = foldline.open_session("path/to/session")
    view = foldline.project(session).view
    await foldline.compact(session, focus="the failing test")

Importing this package imports no other modules. Each function imports the modules that it needs.
"""

from .version import __version__

TYPE_CHECKING = (
    False  # Importing `typing` takes as long as the rest of `foldline --version`.
)
if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Sequence

    from foldline.agent import Agent
    from foldline.compaction import CompactionStrategy, Proposal
    from foldline.compaction.chat_messages import ChatMessage, Source
    from foldline.compaction.compressor import Compressed, Compressor, Summarise
    from foldline.history import Session
    from foldline.llm import LLM
    from foldline.protocol import Entry, FoldlineError
    from foldline.view.projection import Projection
    from foldline.view.tokens import estimate_text_tokens

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
    """Compress chat messages until they fit into the window.

    The messages are dictionaries in the format of OpenAI's or Anthropic's API. They may be the result of an
    earlier call, with new messages appended. For a conversation that grows, use a `Compressor`, which takes
    the same arguments and remembers earlier calls.

    Raises:
        FoldlineError: a message has an unknown role, or the messages cannot be compressed enough to fit.
    """
    from foldline.compaction.compressor import Compressor

    compressor = Compressor(
        window=window, max_output=max_output, overhead=overhead, summarise=summarise
    )
    return await compressor.compress(messages, focus=focus, force=force)


def open_session(path: "str | os.PathLike[str]") -> "Session":
    """Open the session in a file or session folder.

    Other agents' sessions are opened read-only.

    Raises:
        FoldlineError: there is no session, or its format is unknown.
    """
    from pathlib import Path

    from foldline.formats import read_foreign
    from foldline.history import Session

    foreign = read_foreign(Path(path))
    if foreign.format == "foldline":
        return Session.open(Path(path).expanduser())
    return Session.from_entries(foreign.header, foreign.entries, damage=foreign.damage)


def project(history: "Session | Iterable[Entry]") -> "Projection":
    """Project a history onto the view of the next request.

    The projection also contains the fate of each entry.
    """
    from foldline.history import Session
    from foldline.view.projection import project as projected

    if isinstance(history, Session):
        return projected(history.entries)
    return projected(history)


async def compact(
    session: "Session",
    *,
    strategy: "CompactionStrategy | None" = None,
    llm: "LLM | None" = None,
    focus: str | None = None,
) -> "Proposal | None":
    """Compact a session and commit the result.

    Returns None if there is nothing to compact.

    Args:
        strategy: name of the strategy. By default, this is the strategy in the settings for the session's
            folder.
        llm: model that writes the summary. Its connection stays open. By default, this is the model in the
            settings.

    Raises:
        FoldlineError: the compaction failed, or the session is read-only. The session remains unchanged.
    """
    import os
    from contextlib import AsyncExitStack, aclosing
    from pathlib import Path

    from foldline.agent.settings.settings import (
        connect_llm,
        connect_summariser,
        known_window,
        load_settings,
    )
    from foldline.compaction import (
        dependencies,
        plan,
        plans_by_cut,
        propose,
        strategy_for,
    )
    from foldline.protocol import FoldlineError
    from foldline.view.budget import budget_for

    if session.read_only:
        raise FoldlineError(session.read_only)
    settings = load_settings(session.cwd, os.environ)
    async with AsyncExitStack() as opened:
        if llm is not None:
            model = llm
            writer = llm
        else:
            model = await opened.enter_async_context(
                aclosing(connect_llm(settings, os.environ))
            )
            writer = model
            summariser = connect_summariser(settings, os.environ)
            if summariser is not None:
                writer = await opened.enter_async_context(aclosing(summariser))
        window = await known_window(model)
        budget = budget_for(
            window,
            model.info.max_output,
            settings.budget_settings(window),
        )
        resources = dependencies(writer, Path(session.cwd), session=session)
        strategy = strategy_for(strategy or settings.strategy(resources), "manual")
        if (
            plans_by_cut(strategy)
            and plan(session.projection, budget, "manual") is None
        ):
            return None
        session.claim()  # before the model is called
        proposal = await propose(
            session.projection,
            strategy=strategy,
            llm=writer,
            budget=budget,
            reason="manual",
            focus=focus,
        )
        if proposal is not None:
            await session.append(proposal.entry, durable=True)
        return proposal


_MODULES = {
    "Agent": "foldline.agent",
    "Compressed": "foldline.compaction.compressor",
    "Compressor": "foldline.compaction.compressor",
    "FoldlineError": "foldline.protocol",
    "Source": "foldline.compaction.chat_messages",
    "estimate_text_tokens": "foldline.view.tokens",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_MODULES[name]), name)
