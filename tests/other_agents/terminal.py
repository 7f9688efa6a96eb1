"""A program with a screen, on a terminal of its own: what it offers nowhere else is typed."""

import contextlib
import os
import time
from collections.abc import Callable
from typing import cast

import pexpect

from .workspace import RunError, Workspace

ROWS, COLUMNS = 45, 140
QUIET = 1.5
"""Seconds without output after which a screen is taken to be drawn."""


class Terminal:
    """A running program. As a context manager it is ended at the end."""

    def __init__(self, place: Workspace, command: str, *arguments: str) -> None:
        self._typed = False
        self._log = (place.folder / "terminal.txt").open("ab")
        self._process = pexpect.spawn(
            command,
            list(arguments),
            cwd=str(place.work),
            env=place.environment,
            dimensions=(ROWS, COLUMNS),
            logfile=self._log,
        )

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.close(force=True)
        self._log.close()

    def settle(self, timeout: float = 60) -> None:
        """Read what it draws, until it has drawn something, and then nothing for a while."""
        limit = end = time.monotonic() + timeout
        while time.monotonic() < min(limit, end):
            if self._read():
                end = time.monotonic() + QUIET

    def type(self, text: str) -> None:
        """Type a line, and Enter once the program has taken it in."""
        self._typed = True
        self._process.send(text)
        self.settle(5)
        self._process.send("\r")

    def wait_until(
        self, done: Callable[[], bool], what: str, timeout: float = 90
    ) -> None:
        """Read on until something has happened.

        Raises:
            RunError: it did not happen in time.
        """
        limit = time.monotonic() + timeout
        while not done():
            if time.monotonic() > limit:
                raise RunError(f"{what} did not end")
            self._read()

    def _read(self) -> bool:
        """Read for a moment.

        Some programs wait at their start for the place of the cursor. A later answer would be an Escape.
        """
        with contextlib.suppress(pexpect.TIMEOUT, pexpect.EOF):
            drawn = cast(bytes, self._process.read_nonblocking(65_536, timeout=0.2))
            if b"\x1b[6n" in drawn and not self._typed:
                os.write(self._process.child_fd, b"\x1b[1;1R")
            return True
        return False
