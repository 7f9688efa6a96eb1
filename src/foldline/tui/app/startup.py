"""Opens sessions in a thread, keeps the input entered until then, and preloads modules."""

import asyncio
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from foldline.frontend.commands import BY_ID
from foldline.frontend.state import ChatState, Waiting, Working
from foldline.tui.messages import NOT_NOW
from foldline.tui.terminal.app import not_loaded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from foldline.agent import Agent
    from foldline.agent.session.state import AgentState
    from foldline.frontend.figures import Figures
    from foldline.llm import LLM
    from foldline.protocol import BaseMessage
    from foldline.tui.blocks.block import Block
    from foldline.tui.blocks.view import BlockView
    from foldline.tui.chat.welcome import Resumable
    from foldline.tui.transcript.feed import ChatTranscript


ONCE_OPEN = "{command} will run as soon as the session is open"

Load = Callable[[], "Agent"]
"""Opens the session and creates its agent. Runs in a thread; may raise FoldlineError."""
Another = Callable[[str, Path, Callable[[str], bool]], tuple[Load, Path]]
"""Returns a loader for another session, and that session's folder.

Runs in a thread; may raise FoldlineError.

Its arguments are an event file (empty for a new session), the current folder, and a function that asks the
user.
"""


class Opened(NamedTuple):
    """An opened session and its parts on the screen, created in a thread."""

    agent: "Agent"
    transcript: "ChatTranscript"
    blocks: "Sequence[Block]"
    figures: "Figures"
    typed: "Sequence[BaseMessage]"
    """Earlier prompts, for the ↑ key."""


class Opening:
    """Opens a session that will be shown in `view`."""

    def __init__(self, load: Load, view: "BlockView", prompts: "Sequence[str]") -> None:
        self._load = load
        self._view = view
        self.is_cancelled = False
        """Set when the program ends. The thread then stops reading."""
        self.share_read = 0.0
        """Fraction of the file that has been read; stays 0 for short files."""
        self.prompts = list(prompts)
        """Prompts entered so far."""
        self.commands: list[tuple[str, str]] = []
        """Commands entered so far, each with its argument, without duplicates."""

    @property
    def waiting(self) -> Waiting:
        """The prompts entered so far, as a queue."""
        return Waiting(queued=tuple(self.prompts))

    def keep(self, command: str, argument: str, state: ChatState) -> str:
        """Keep a command until the session is open.

        The earlier prompts will be running by then, so a command that needs an idle agent is rejected.

        Returns:
            A message for the status row.
        """
        entry = BY_ID[command]
        if self.prompts and not entry.works(replace(state, activity=Working(0.0))):
            return NOT_NOW.format(command=entry.title)
        if (command, argument) not in self.commands:
            self.commands.append((command, argument))
        return ONCE_OPEN.format(command=entry.title)

    def run(self) -> "Opened | str":
        """Open the session; on failure, return the error message.

        Blocking, with slow imports: call it in a thread.
        """
        from foldline.history.loader import on_read_progress
        from foldline.protocol import FoldlineError

        def on_progress(share: float) -> None:
            if self.is_cancelled:
                raise asyncio.CancelledError
            self.share_read = share

        try:
            with on_read_progress(on_progress):
                return self._prepare(self._load())
        except FoldlineError as failure:
            return str(failure)
        except ImportError as missing:
            return not_loaded(missing)

    def _prepare(self, agent: "Agent") -> Opened:
        # Also imports modules that are used later, so that the event loop need not.
        from foldline.frontend import reduce, runner  # noqa: F401
        from foldline.frontend.figures import Figures
        from foldline.tui.app import model_setup, preview_host  # noqa: F401
        from foldline.tui.prompting.earlier import typed_messages
        from foldline.tui.transcript.feed import ChatTranscript

        transcript = ChatTranscript(self._view, agent.session.projection)
        figures = Figures(agent.state)
        figures.sidebar()  # fills the cache: the first call counts all files
        figures.cache_ends(0.0)  # fills the cache: reads the table of prices
        entries = agent.session.entries
        return Opened(
            agent,
            transcript,
            transcript.read(entries),
            figures,
            typed_messages(entries),
        )


def last_sessions(root: Path) -> "list[Resumable]":
    """Return the most recent sessions of a folder.

    Blocking: call it in a thread.
    """
    from foldline.history import age, data_home, list_sessions, utc_now
    from foldline.protocol import FoldlineError
    from foldline.tui.chat.welcome import Resumable

    try:
        infos = [info for info in list_sessions(data_home(), root) if info.readable]
    except FoldlineError:
        return []  # /sessions shows the error
    now = utc_now().astimezone()
    sessions = [
        Resumable(
            str(info.path),
            info.meta.title or info.meta.first_prompt,
            age(info.meta.updated_at, now),
        )
        for info in infos
    ]
    return [session for session in sessions if session.title][:LAST_SESSIONS]


LAST_SESSIONS: Final = 3
"""Number of sessions listed in an empty chat."""

QUIET: Final = 1.0
"""Seconds between opening the session and preloading.

The wait keeps preloading from delaying a first prompt.
"""

_GIVE_WAY = 0.0005
"""Thread switch interval during imports, in seconds.

With Python's default, 5 ms, keys would react slowly.
"""


async def import_ahead(state: "AgentState") -> None:
    """Preload modules of large screens.

    Also asks the server for the size of the context window if it is unknown.
    """
    await asyncio.sleep(QUIET)
    if state.models.llm.info.guessed:
        await asyncio.to_thread(import_client, state.models.llm)
        await state.models.learn_window()
    await asyncio.to_thread(_import_screens)


def _import_screens() -> None:
    from foldline.tui.app import inspector_host, session_commands  # noqa: F401


def import_client(llm: "LLM") -> None:
    """Import the client library of a model.

    Blocking: call it in a thread.

    Called only when the user starts to type, because the import takes 0.3 s and 24 MB.
    """
    from foldline.llm.client import ModelClient, preload

    before = sys.getswitchinterval()
    sys.setswitchinterval(_GIVE_WAY)
    try:
        if isinstance(llm, ModelClient):
            preload(llm.api)
        import markdown_it  # noqa: F401 - the answer is parsed with it on the event loop
    finally:
        sys.setswitchinterval(before)
