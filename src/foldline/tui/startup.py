"""The start: the session is read in a thread, input entered until then is kept, imports come ahead."""

import asyncio
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from foldline.tui.keys.commands import BY_ID
from foldline.tui.state import ChatState, Waiting, Working
from foldline.tui.terminal.app import not_loaded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from foldline.agent import Agent
    from foldline.agent.state import AgentState
    from foldline.llm import LLM
    from foldline.protocol import BaseMessage
    from foldline.tui.blocks.block import Block
    from foldline.tui.blocks.view import BlockView
    from foldline.tui.figures import Figures
    from foldline.tui.transcript.feed import Transcript
    from foldline.tui.widgets.welcome import Resumable


Load = Callable[[], "Agent"]
"""Makes the agent: opens the session, connects the model. Runs in a thread, and may raise FoldlineError."""
Another = Callable[[str, Path, Callable[[str], bool]], tuple[Load, Path]]
"""What loads the session in an event file, or a new one where that is empty, and the folder it works in; from
the folder of the one before, and what asks the user. Runs in a thread, and may raise FoldlineError."""


class Opened(NamedTuple):
    """What a session needs to be shown, made in a thread."""

    agent: "Agent"
    transcript: "Transcript"
    blocks: "Sequence[Block]"
    figures: "Figures"
    typed: "Sequence[BaseMessage]"
    """What ↑ goes back through."""


class Opening:
    """Opens one session, to be shown in `view`."""

    def __init__(self, load: Load, view: "BlockView", prompt: str = "") -> None:
        self._load = load
        self._view = view
        self.given_up = False
        """The program ends, and its end waits for its threads."""
        self.share_read = 0.0
        """Of its file; 0 where that is no work."""
        self.prompts = [prompt] if prompt else []
        """Those entered so far."""
        self.commands: list[tuple[str, str]] = []
        """And the commands, with what was typed behind them; each once."""

    @property
    def waiting(self) -> Waiting:
        """The prompts as a queue."""
        return Waiting(queued=tuple(self.prompts))

    def keep(self, command: str, argument: str, state: ChatState) -> str:
        """Keep a command for when the session is there; what is said of it. By then the prompts entered
        before it run: what cannot be done beside them is refused, as it will be then."""
        asked = BY_ID[command]
        if self.prompts and not asked.works(replace(state, activity=Working(0.0))):
            return f"{asked.title}: not now"
        if (command, argument) not in self.commands:
            self.commands.append((command, argument))
        return f"{asked.title}: as soon as the session is open"

    def run(self) -> "Opened | str":
        """The agent and what its session looks like, or why there is none. In a thread: all of it may take
        long, its imports first."""
        from foldline.history.index import on_read_progress
        from foldline.protocol import FoldlineError

        def far(share: float) -> None:
            if self.given_up:
                raise asyncio.CancelledError
            self.share_read = share

        try:
            with on_read_progress(far):
                return self._shown_by(self._load())
        except FoldlineError as failure:
            return str(failure)
        except ImportError as missing:
            return not_loaded(missing)

    def _shown_by(self, agent: "Agent") -> Opened:
        # Imported here, not on the event loop, also where they are used later.
        import foldline.tui.model_setup  # noqa: F401
        from foldline.tui import machine, preview_host, runner  # noqa: F401
        from foldline.tui.figures import Figures
        from foldline.tui.prompting.earlier import typed_in
        from foldline.tui.transcript.feed import Transcript

        transcript = Transcript(self._view, agent.session.projection)
        figures = Figures(agent.state)
        figures.sidebar()  # counts all that was touched, once
        figures.cache_ends("off", 0.0)  # reads the table of prices, once, where a cache is to be said of
        entries = agent.session.entries
        return Opened(agent, transcript, transcript.read(entries), figures, typed_in(entries))


def last_sessions(root: Path) -> "list[Resumable]":
    """The last sessions of a folder that something was said in. In a thread."""
    from foldline.history import age, data_home, list_sessions, utc_now
    from foldline.protocol import FoldlineError
    from foldline.tui.widgets.welcome import Resumable

    try:
        infos = [info for info in list_sessions(data_home(), root) if info.readable]
    except FoldlineError:
        return []  # /sessions says why
    now = utc_now().astimezone()
    named = [(info, title) for info in infos if (title := info.meta.title or info.meta.first_prompt)]
    return [
        Resumable(str(info.path), title, age(info.meta.updated_at, now))
        for info, title in named[:LAST_SESSIONS]
    ]


LAST_SESSIONS = 3
"""Of a folder, in an empty chat."""

QUIET = 1.0
"""Seconds after the session is there in which a first prompt has the processor to itself."""

_GIVE_WAY = 0.0005
"""Seconds after which the import gives way to what is typed; of Python's 5 ms, every key meets several."""


async def import_ahead(state: "AgentState") -> None:
    """Once the session is there: learn a window that only the server can tell, which the meter shows; import
    the screens that are many modules, so that opening one holds up nobody."""
    await asyncio.sleep(QUIET)
    if state.llm.info.guessed:
        await asyncio.to_thread(import_client, state.llm)
        await state.learn_window()
    await asyncio.to_thread(_imported_screens)


def _imported_screens() -> None:
    from foldline.tui import inspector_host, session_commands  # noqa: F401
    from foldline.tui.preview import screen  # noqa: F401


def import_client(llm: "LLM") -> None:
    """Once somebody types: import what asks a server. A program that only waits is spared 0.3 s and 24 MB.
    For a thread."""
    from foldline.llm.client import ModelClient, preload

    before = sys.getswitchinterval()
    sys.setswitchinterval(_GIVE_WAY)
    try:
        if isinstance(llm, ModelClient):
            preload(llm.api)
        import markdown_it  # noqa: F401 - its answer is read with it, on the event loop
    finally:
        sys.setswitchinterval(before)
