"""What will soon be wanted and takes long to import: in threads, while nobody waits for it."""

import asyncio
import sys
from functools import partial
from typing import TYPE_CHECKING

from textual.app import App

if TYPE_CHECKING:
    from foldline.agent.state import AgentState
    from foldline.llm import LLM

QUIET = 1.0
"""Seconds after the session is there in which a first prompt has the processor to itself."""

_GIVE_WAY = 0.0005
"""Seconds after which the import gives way to what is typed; of Python's 5 ms, every key meets several."""


class Meanwhile:
    """The imports ahead of one program."""

    def __init__(self, app: App[None]) -> None:
        self._app = app
        self._client_of: LLM | None = None

    def session_is_there(self, state: "AgentState") -> None:
        """A window that only the server can tell: the meter shows it. And the screens that are many modules:
        opening one then holds up nobody."""
        self._app.run_worker(_ahead(state), group="screens", exit_on_error=False)

    def somebody_types(self, llm: "LLM") -> None:
        """What asks a server: 0.3 s and 24 MB, which a program that only waits does not need."""
        if llm is not self._client_of:
            self._client_of = llm
            self._app.run_worker(partial(_import_client, llm), thread=True, exit_on_error=False)


async def _ahead(state: "AgentState") -> None:
    await asyncio.sleep(QUIET)
    if state.window_is_assumed:
        await asyncio.to_thread(_import_client, state.llm)
        await state.learn_window()
    await asyncio.to_thread(_imported_screens)


def _imported_screens() -> None:
    from foldline.tui import inspector_host  # noqa: F401
    from foldline.tui.preview import screen  # noqa: F401


def _import_client(llm: "LLM") -> None:
    from foldline.llm.client import OpenAIChat, preload

    before = sys.getswitchinterval()
    sys.setswitchinterval(_GIVE_WAY)
    try:
        if isinstance(llm, OpenAIChat):
            preload()
        import markdown_it  # noqa: F401 - its answer is read with it, on the event loop
    finally:
        sys.setswitchinterval(before)
