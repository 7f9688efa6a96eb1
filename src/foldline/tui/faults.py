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
        """Ends the app, as Textual's own handler does; `run_app` raises the first error."""
        self._return_code = 1
        if self._exception is None:
            self._exception = error
            self._exception_event.set()
        self._close_messages_no_wait()


def run_app(app: PlainApp[Result]) -> None:
    """Run an app on the terminal until it ends.

    Raises:
        Exception: whatever nobody had foreseen, after the terminal is as it was.
    """
    app.run()
    error = app._exception
    if isinstance(error, WorkerFailed) and isinstance(error.error, Exception):
        raise error.error
    if error is not None:
        raise error
