"""Errors nobody foresaw, on a screen: the terminal is put back in order, and the error is the caller's.

Textual would print a traceback with the values of local variables: keys, prompts, files. Ours goes to the
front door, which says one sentence, or with `--debug` where it happened (docs/security.md).

Most parts are imported when they are first asked for; by then another version may have been installed over
the one that runs. What cannot be imported is said, and all else goes on.
"""

from collections.abc import Mapping
from typing import TypeVar

from textual.actions import ActionParseResult
from textual.app import App
from textual.dom import DOMNode
from textual.worker import WorkerFailed

Result = TypeVar("Result")


class PlainApp(App[Result]):
    """An app that prints nothing of its own when it fails."""

    def say(self, words: str) -> None:
        """Answer a key in words. Where a screen has no row for them, they are not said."""

    async def run_action(
        self,
        action: "str | ActionParseResult",
        default_namespace: DOMNode | None = None,
        namespaces: Mapping[str, DOMNode] | None = None,
    ) -> bool:
        """What a key does, as Textual does it."""
        try:
            return await super().run_action(action, default_namespace, namespaces)
        except ImportError as missing:
            self.say(not_loaded(missing))
            return True

    def _handle_exception(self, error: Exception) -> None:
        """Ends the app, as Textual's own handler does; `raise_fault` raises the first error."""
        if isinstance(error, WorkerFailed) and isinstance(error.error, ImportError):
            self.say(not_loaded(error.error))
            return
        self._return_code = 1
        if self._exception is None:
            self._exception = error
            self._exception_event.set()
        self._close_messages_no_wait()


def not_loaded(missing: ImportError) -> str:
    """What is said of a part that cannot be imported."""
    return f"This part of Foldline cannot be loaded, {missing}: was it updated meanwhile? Start it again."


def raise_fault(app: PlainApp[Result]) -> None:
    """Raise what ended an app, where anything nobody had foreseen did."""
    error = app._exception
    if isinstance(error, WorkerFailed) and isinstance(error.error, Exception):
        raise error.error
    if error is not None:
        raise error
