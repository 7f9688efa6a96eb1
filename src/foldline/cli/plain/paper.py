"""Where a plain chat is written: one line after the other, none of them changed afterwards."""

import threading

from foldline.cli.streams import flush_out, write_out
from foldline.context.harmless import with_signs


class Paper:
    """Writes stdout, from any thread. While the reader writes a prompt, nothing breaks into it: what comes
    meanwhile is written after it."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._open = ""
        """Who began the line that is not ended; empty where none is open."""
        self._reading = False
        self._waiting: list[str] = []
        self.lost: OSError | None = None
        """Why nothing more can be written."""

    def line(self, text: str = "") -> None:
        """One line, or several; a line that is open ends first."""
        with self._lock:
            self._end_open()
            self._write(f"{with_signs(text)}\n")

    def begin(self, owner: str, text: str) -> None:
        """Begin a line that `owner` may end with `finish`."""
        with self._lock:
            self._end_open()
            self._write(with_signs(text))
            self._open = owner

    def finish(self, owner: str, end: str, whole: str) -> None:
        """End the line of `owner`; where another one came in between, write it as a `whole`."""
        with self._lock:
            if self._open != owner:
                self.line(whole)
                return
            self._open = ""
            self._write(f"{with_signs(end)}\n")

    def prose(self, text: str) -> None:
        """A piece of text as it streams: it goes on where the last piece ended."""
        with self._lock:
            if self._open != "prose":
                self._end_open()
            self._write(with_signs(text))
            self._open = "" if text.endswith("\n") else "prose"

    def reading(self, is_reading: bool, *, ends_line: bool = False) -> None:
        """The reader begins to write, or is done: then comes what was held back. `ends_line`: the reader has
        left the line with the cursor in it."""
        with self._lock:
            if is_reading:
                self._end_open()
            self._reading = is_reading
            if not is_reading:
                waiting, self._waiting = self._waiting, []
                self._write("\n" * ends_line + "".join(waiting))

    def _end_open(self) -> None:
        if self._open:
            self._write("\n")
            self._open = ""

    def _write(self, text: str) -> None:
        if self._reading:
            self._waiting.append(text)
        elif text and self.lost is None:
            try:
                write_out(text)
                flush_out()
            except OSError as error:
                self.lost = error
