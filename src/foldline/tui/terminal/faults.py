"""Errors nobody foresaw, on a screen: the terminal is put back in order, and the error is the caller's.

Textual would print a traceback with the values of local variables: keys, prompts, files. Ours goes to the
front door, which says one sentence, or with `--debug` where it happened (docs/security.md).
"""

from typing import TypeVar

from textual.app import App
from textual.worker import WorkerFailed

Result = TypeVar("Result")


class PlainApp(App[Result]):
    """An app that prints nothing of its own when it fails."""

    def _handle_exception(self, error: Exception) -> None:
        """Ends the app, as Textual's own handler does; `raise_fault` raises the first error."""
        self._return_code = 1
        if self._exception is None:
            self._exception = error
            self._exception_event.set()
        self._close_messages_no_wait()


def raise_fault(app: PlainApp[Result]) -> None:
    """Raise what ended an app, where anything nobody had foreseen did."""
    error = app._exception
    if isinstance(error, WorkerFailed) and isinstance(error.error, Exception):
        raise error.error
    if error is not None:
        raise error
