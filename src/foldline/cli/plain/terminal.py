"""The plain chat's line-based input and output."""

import asyncio
import os
import re
import sys
import termios
import threading
from collections import deque
from contextlib import suppress
from io import BufferedReader, FileIO
from typing import Final

from foldline.cli.output import say
from foldline.cli.streams import flush_out, has_terminal, write_out
from foldline.text.harmless import with_signs


class PlainTerminal:
    """Writes to stdout. Output is delayed while the user types."""

    def __init__(self) -> None:
        self._is_in_prose = False
        """Whether streamed text has left the last line unfinished."""
        self._is_paused = False
        self._delayed: list[str] = []
        self.error: OSError | None = None
        """The error from the first write that failed.

        Nothing is written after that.
        """

    def line(self, text: str = "") -> None:
        """Write one or more lines, after ending an unfinished line."""
        end = "\n" if self._is_in_prose else ""
        self._is_in_prose = False
        self._write(f"{end}{with_signs(text)}\n")

    def prose(self, text: str) -> None:
        """Append streamed text to the current line."""
        self._write(with_signs(text))
        self._is_in_prose = not text.endswith("\n")

    def pause(self) -> None:
        """Delay all output until `resume`, while the user types."""
        if self._is_in_prose:
            self._write("\n")
            self._is_in_prose = False
        self._is_paused = True

    def resume(self, *, new_line: bool) -> None:
        """Write the delayed output.

        With `new_line`, the line that the user was typing is ended first.
        """
        self._is_paused = False
        if new_line:
            self._write("\n")
        self._write("".join(self._delayed))
        self._delayed.clear()

    def _write(self, text: str) -> None:
        if self._is_paused:
            self._delayed.append(text)
        elif text and self.error is None:
            try:
                write_out(text)
                flush_out()
            except OSError as error:
                self.error = error


PROMPT = "> "
MORE = ". "
"""Prompt for a continuation line."""
_HERE_DOCUMENT: Final = re.compile(r"<<(\w+)")
_LONGEST = 32 * 1024 * 1024
"""Maximum length of a piped line, in bytes.

A longer line is read as several lines.
"""


class Interrupted(Exception):
    """Raised to a reader of a line when Ctrl+C was pressed."""


class PromptReader:
    """Reads prompts and answers from stdin, with line editing on a terminal.

    Each line is read in a daemon thread, because a read cannot be cancelled. After an interrupt, the next
    line is therefore read by the thread that is already reading. Piped input is echoed, so that the output
    reads as a conversation.
    """

    def __init__(self, terminal: PlainTerminal) -> None:
        self._terminal = terminal
        self.is_terminal = sys.stdin.isatty()
        self._modes = termios.tcgetattr(0) if self.is_terminal else None
        self._lines: asyncio.Queue[str | Exception] = asyncio.Queue()
        self._is_reading = False
        self._is_awaited = False
        self._dropped = ""
        """What the user had typed before pressing Ctrl+C."""
        self._kept_prompts: deque[str] = deque()
        # Not `sys.stdin`, whose lock makes the interpreter abort if it exits during a read.
        self._stream = BufferedReader(FileIO(0, closefd=False))
        self._edits = has_terminal()
        if self._edits:
            _edit_lines()

    def close(self) -> None:
        """Restore the terminal if a line is still being read."""
        if self._modes is not None:
            termios.tcsetattr(0, termios.TCSADRAIN, self._modes)

    async def prompt(self) -> str:
        """Read a prompt.

        A prompt is one line, several lines that each end in a backslash except the last, or the lines from
        `<<WORD` to `WORD`.

        Raises:
            EOFError: the input has ended.
            Interrupted: Ctrl+C was pressed.
        """
        if self._kept_prompts:
            text = self._kept_prompts.popleft()
            _echo(PROMPT, text)
            return text
        line = await self.line(PROMPT)
        lines = []
        if here_document := _HERE_DOCUMENT.fullmatch(line.strip()):
            while (line := await self.line(MORE)).strip() != here_document[1]:
                lines.append(line)
            return "\n".join(lines)
        while line.endswith("\\"):
            lines.append(line[:-1])
            line = await self.line(MORE)
        return "\n".join((*lines, line))

    async def line(self, mark: str) -> str:
        """Read one line. Raises the same errors as `prompt`."""
        self._terminal.pause()
        self._is_awaited = True
        is_complete = False
        try:
            if self._is_reading:
                write_out(mark)
                flush_out()
            elif self._lines.empty():
                self._is_reading = True
                loop = asyncio.get_running_loop()
                reading = threading.Thread(
                    target=self._read, args=(mark, loop), daemon=True
                )
                reading.start()
            line = await self._lines.get()
            if isinstance(line, Exception):
                raise line
            is_complete = True
            return line
        finally:
            self._is_awaited = False
            self._terminal.resume(new_line=self.is_terminal and not is_complete)

    def keep(self, text: str) -> None:
        """Store text for `prompt` to return next."""
        self._kept_prompts.append(text)

    def interrupt(self) -> None:
        """Drop the line that the user is typing, and raise `Interrupted` to its reader."""
        if self._is_awaited:
            if self._edits:
                self._dropped = _typed()
            self._lines.put_nowait(Interrupted())

    def _read(self, mark: str, loop: asyncio.AbstractEventLoop) -> None:
        """Read a line in a thread."""
        line: str | Exception
        try:
            line = input(mark) if self._edits else self._piped_line(mark)
        except (EOFError, OSError):
            line = EOFError()
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(self._deliver, line)

    def _piped_line(self, mark: str) -> str:
        data = self._stream.readline(_LONGEST)
        if not data:
            raise EOFError
        line = data.decode("utf-8", "replace").rstrip("\r\n")
        _echo(mark, line)
        return line

    def _deliver(self, line: str | Exception) -> None:
        self._is_reading = False
        if isinstance(line, str):
            line = line.removeprefix(self._dropped)
        self._dropped = ""
        self._lines.put_nowait(line)


def _echo(mark: str, line: str) -> None:
    with suppress(OSError):  # the next write fails, too, and is reported
        say(f"{mark}{line}")


def _edit_lines() -> None:
    """Enable line editing and a history, without escape sequences on dumb terminals."""
    try:
        import readline
    except ImportError:  # missing on some systems, where the terminal edits the line
        return
    readline.parse_and_bind("set enable-meta-key off")
    if os.environ.get("NO_COLOR") or os.environ.get("TERM", "dumb") == "dumb":
        # Bracketed paste prints escape sequences. Without it, each pasted line becomes a prompt.
        readline.parse_and_bind("set enable-bracketed-paste off")


def _typed() -> str:
    """Return the beginning of the line that the user is typing."""
    try:
        import readline
    except ImportError:
        return ""
    return readline.get_line_buffer()
