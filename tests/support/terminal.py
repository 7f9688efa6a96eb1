"""The real program in a real pseudo-terminal: raw bytes, and the resulting screen."""

import os
import re
import sys
import termios
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import product
from pathlib import Path

import pexpect
import pyte
from pexpect.fdpexpect import fdspawn

from foldline.frontend.interrupt import QUIT_WITHIN
from support import warm

COLD = (str(Path(sys.executable).with_name("foldline")),)
"""`foldline` as a `program`: started cold, as users do."""
PATIENCE = 60.0
"""Seconds until a test waiting for the screen fails."""
ENTER, LEAVE = b"\x1b[?1049h", b"\x1b[?1049l"
CLEARS = (b"\x1b[2J", b"\x1b[3J", b"\x1b[J", b"\x1b[0J", b"\x1bc", b"\x1b[!p")
"""Sequences that clear the screen or its scroll-back: erase display, full reset, soft reset."""
# Sequences that pyte misreads: keyboard protocol (`CSI > 25 u`, `CSI < u`), queries (`CSI ? n $ p`), and
# Kitty's pictures.
_UNKNOWN_TO_PYTE = re.compile(
    rb"\x1b\[[<>=][0-9;]*u|\x1b\[\?[0-9;]*\$p|\x1b\]22;[^\x07]*\x07|\x1b_G[^\x1b]*\x1b\\"
)


class Warm(fdspawn):
    """`foldline` in a pseudo-terminal, forked from a process that has imported it."""

    exitstatus: int | None = None
    signalstatus: int | None = None

    def __init__(
        self,
        arguments: Sequence[str],
        env: Mapping[str, str],
        cwd: Path,
        rows: int,
        columns: int,
    ):
        here, there = os.openpty()
        termios.tcsetwinsize(there, (rows, columns))
        self._program = warm.Program("foldline", arguments, [there] * 3, env, cwd)
        os.close(there)
        super().__init__(here, timeout=PATIENCE)
        self.pid = self._program.pid

    def setwinsize(self, rows: int, columns: int) -> None:
        termios.tcsetwinsize(self.child_fd, (rows, columns))

    def wait(self) -> None:
        status = self._program.wait()
        self.exitstatus, self.signalstatus = (
            (status, None) if status >= 0 else (None, -status)
        )

    def close(self, force: bool = True) -> None:
        self._program.close()
        super().close()


class Terminal:
    """A program and its terminal."""

    def __init__(self, child: pexpect.spawn | Warm, columns: int, rows: int) -> None:
        self.child = child
        self.raw = b""
        self.modes = termios.tcgetattr(child.child_fd)
        """The line discipline before the program changed it."""
        self._screen = pyte.Screen(columns, rows)
        self._stream = pyte.ByteStream(self._screen)
        self._rows: list[str] = []
        self._held = b""

    @property
    def rows(self) -> list[str]:
        if self._screen.dirty:
            self._rows = list(self._screen.display)
            self._screen.dirty.clear()
        return self._rows

    @property
    def text(self) -> str:
        return "\n".join(line.rstrip() for line in self.rows)

    def cells(self) -> Iterator[tuple[int, int, pyte.screens.Char]]:
        """All cells with row and column."""
        size = product(range(self._screen.lines), range(self._screen.columns))
        return ((y, x, self._screen.buffer[y][x]) for y, x in size)

    def read(self, patience: float = 0.05) -> bool:
        """Read the program's output; return whether the program is alive."""
        try:
            chunk = self.child.read_nonblocking(65_536, timeout=patience)
        except pexpect.TIMEOUT:
            return True
        except pexpect.EOF:
            return False
        self.feed(chunk)
        return True

    def feed(self, chunk: bytes) -> None:
        """Draw output of the program."""
        self.raw += chunk
        # A read may split a sequence: keep its beginning for the next one.
        chunk = self._held + chunk
        cut = chunk.rfind(b"\x1b", max(0, len(chunk) - 24))
        picture = chunk.rfind(b"\x1b_G")
        if (
            picture >= 0
            and b"\x1b\\" not in chunk[picture : cut if cut > picture else len(chunk)]
        ):
            cut = picture
        self._held = b"" if cut < 0 else chunk[cut:]
        self._stream.feed(_UNKNOWN_TO_PYTE.sub(b"", chunk if cut < 0 else chunk[:cut]))

    def _flush(self) -> None:
        self._stream.feed(_UNKNOWN_TO_PYTE.sub(b"", self._held))
        self._held = b""

    def until(
        self,
        condition: str | Callable[["Terminal"], object],
        patience: float = PATIENCE,
    ) -> None:
        """Wait until this text or condition is on the screen."""
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline:
            alive = self.read()
            if (
                condition in self.text
                if isinstance(condition, str)
                else condition(self)
            ):
                self._read_on()
                return
            if self._held and b"\x1b[" in self._held:
                self._flush()
                continue
            if not alive:
                break
        raise AssertionError(f"{condition!r} did not come to the screen:\n{self.text}")

    def _read_on(self) -> None:
        """Read the rest of a frame.

        Below a partial frame stand rows of the previous screen. The next text to wait for may be in them, and
        keys would be sent too early.
        """
        for _ in range(8):
            before = len(self.raw)
            self.read(0.02)
            if len(self.raw) == before:
                return

    def settle(self) -> None:
        """Wait until the program is silent for a moment."""
        quiet = 0
        while quiet < 3:
            before = len(self.raw)
            self.read()
            quiet = quiet + 1 if len(self.raw) == before else 0

    def send(self, keys: str) -> None:
        self.child.send(keys)

    def ask(self, text: str, *, wait: bool = True) -> None:
        """Type a prompt, wait until the editor shows it, send it, and wait for the answer."""
        self.send(text)
        self.until(f"┃ ❯ {text}"[:40])
        self.send("\r")
        if wait:
            self.until(f"\n ┃ ❯ {text}"[:40])
            self.until("Enter sends")

    def resize(self, columns: int, rows: int) -> None:
        self._screen.resize(rows, columns)
        self.child.setwinsize(rows, columns)

    def forget_screen(self) -> None:
        """Clear the screen, so that it shows only later output."""
        self._screen.reset()

    def lives_for(self, seconds: float) -> bool:
        """Read for `seconds` or until the program ends; return whether it is alive."""
        deadline = time.monotonic() + seconds
        while alive := self.read():
            if time.monotonic() > deadline:
                break
        return alive

    def quit_by_keys(self) -> int | None:
        """Press Ctrl+C twice and return the exit status.

        Press again if the first one cancelled a compaction, or if the machine stalled so long between the two
        that both were first ones.
        """
        for _ in range(3):
            self.send("\x03")
            with suppress(AssertionError):
                self.until("Ctrl+C again", patience=4 * QUIT_WITHIN)
            self.send("\x03")
            if not self.lives_for(4 * QUIT_WITHIN):
                break
        return self.ended()

    def ended(self) -> int | None:
        """Wait for the end; return the exit status, or minus the terminating signal."""
        if self.lives_for(PATIENCE):
            raise AssertionError(f"the program does not end:\n{self.text}")
        self.child.wait()
        return (
            self.child.exitstatus
            if self.child.signalstatus is None
            else -self.child.signalstatus
        )

    @property
    def between(self) -> bytes:
        """All bytes of the full screen, from its start to its end or to now."""
        start = self.raw.index(ENTER)
        end = self.raw.find(LEAVE, start)
        return self.raw[start : end if end >= 0 else len(self.raw)]

    def not_restored(self) -> list[str]:
        """Return the terminal modes that the program has not restored."""
        wrong = []
        for what, on, off in (
            ("alternate screen", ENTER, LEAVE),
            ("hidden cursor", b"\x1b[?25l", b"\x1b[?25h"),
            ("mouse", b"\x1b[?1000h", b"\x1b[?1000l"),
            ("mouse movement", b"\x1b[?1003h", b"\x1b[?1003l"),
            ("bracketed paste", b"\x1b[?2004h", b"\x1b[?2004l"),
            ("no line wrap", b"\x1b[?7l", b"\x1b[?7h"),
            ("focus reports", b"\x1b[?1004h", b"\x1b[?1004l"),
            ("window title", b"\x1b[22;2t", b"\x1b[23;2t"),
            ("keyboard protocol", b"\x1b[>", b"\x1b[<u"),
        ):
            if self.raw.rfind(on) > self.raw.rfind(off):
                wrong.append(what)
        return wrong


@contextmanager
def terminal(
    folder: Path,
    *arguments: str,
    columns: int = 80,
    rows: int = 24,
    program: Sequence[str] = (),
    **env: str,
) -> Iterator[Terminal]:
    """Run `foldline ARGUMENTS` in this folder, with its own data home and no key.

    The model is the built-in one unless `env` names a server; FOLDLINE_MODEL="" is a first start. The program
    starts warm; `program` is a command to run cold instead.
    """
    folder.mkdir(exist_ok=True, parents=True)
    home = folder.parent / f"{folder.name}-home"
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("FOLDLINE", "OPENAI"))
    }
    inherited |= {
        "FOLDLINE_HOME": str(home),
        "TERM": "xterm-256color",
        "HOME": str(home),
        "LC_ALL": "C.UTF-8",
    }
    for name in ("NO_COLOR", "COLUMNS", "LINES"):
        inherited.pop(name, None)
    if not any(
        name.startswith(("FOLDLINE_MODEL", "FOLDLINE_PROVIDER", "OPENAI_"))
        for name in env
    ):
        inherited["FOLDLINE_MODEL"] = "offline"
    if program:
        child: pexpect.spawn | Warm = pexpect.spawn(
            program[0],
            [*program[1:], *arguments],
            env={**inherited, **env},  # type: ignore[arg-type]  # os._Environ in the stubs
            cwd=str(folder),
            dimensions=(rows, columns),
            timeout=PATIENCE,
        )
    else:
        child = Warm(arguments, {**inherited, **env}, folder, rows, columns)
    # The pseudo-terminal outlives the program, so that its modes can be checked afterwards.
    try:
        yield Terminal(child, columns, rows)
    finally:
        child.close(force=True)
