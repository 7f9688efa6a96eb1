"""Where a plain chat is read and written: one line after the other, none of them changed afterwards."""

import os
import re
import sys
import threading
from collections import deque
from contextlib import suppress
from typing import Final

from foldline.cli.output import say
from foldline.cli.streams import flush_out, write_out
from foldline.context.harmless import with_signs


class Paper:
    """Writes stdout, from any thread. While the reader writes a prompt, nothing breaks into it: what comes
    then is written after it."""

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
        """A piece of text as it streams: it continues where the last piece ended."""
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


PROMPT: Final = "> "
MORE: Final = ". "
"""Before each further line of a prompt."""
_HERE: Final = re.compile(r"<<(\w+)")
_LONGEST: Final = 32 * 1024 * 1024
"""Characters of one line, as of a prompt that is piped to `foldline run`."""


class LineReader:
    """Lines from stdin, with line editing where it is a terminal. What is piped in is echoed, so that the
    output reads as the conversation it was.

    `with_prompt` raises `EOFError` where nothing more comes.
    """

    def __init__(self) -> None:
        self.is_terminal = sys.stdin.isatty()
        """Whether a person types."""
        self._ahead: deque[str] = deque()
        reconfigure = getattr(sys.stdin, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(encoding="utf-8", errors="replace")
        if self.is_terminal:
            _edit_lines()

    def prompt(self) -> str:
        """A whole prompt. A backslash at the end of a line, or `<<WORD` in place of the first one, say that
        it goes on."""
        if self._ahead:
            kept = self._ahead.popleft()
            self._echo(PROMPT, kept)
            return kept
        first = self._line(PROMPT)
        here = _HERE.fullmatch(first.strip())
        lines = self._until(here[1]) if here else self._continued(first)
        return "\n".join(lines)

    def answer(self, mark: str) -> str:
        """One line that answers a question."""
        return self._line(mark)

    def keep(self, text: str) -> None:
        """This was meant as the next prompt."""
        self._ahead.append(text)

    def _until(self, word: str) -> list[str]:
        lines = []
        while (line := self._line(MORE)).strip() != word:
            lines.append(line)
        return lines

    def _continued(self, line: str) -> list[str]:
        lines = [line]
        while lines[-1].endswith("\\"):
            lines[-1] = lines[-1][:-1]
            lines.append(self._line(MORE))
        return lines

    def _line(self, mark: str) -> str:
        if self.is_terminal:
            return input(mark)
        line = sys.stdin.readline(_LONGEST)
        if not line:
            raise EOFError
        line = line.rstrip("\r\n")
        self._echo(mark, line)
        return line

    def _echo(self, mark: str, line: str) -> None:
        with suppress(OSError):  # whoever writes next finds out
            say(f"{mark}{line}")


def _edit_lines() -> None:
    """Line editing and a history for this program only, and nothing that a plain terminal would show."""
    try:
        import readline
    except ImportError:  # not everywhere; the terminal's own editing does
        return
    readline.parse_and_bind("set enable-meta-key off")
    if os.environ.get("NO_COLOR") or os.environ.get("TERM", "dumb") == "dumb":
        # It announces pastes with escape sequences; without them, each line of a paste is a prompt.
        readline.parse_and_bind("set enable-bracketed-paste off")
