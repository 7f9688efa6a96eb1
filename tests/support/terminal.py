"""The real program in a real pseudo-terminal: its raw bytes, and the screen they make."""

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

from foldline.tui.keys.commands import QUIT_WITHIN
from support import warm

COLD = (str(Path(sys.executable).with_name("foldline")),)
"""`foldline` as a `program`: started as people do."""
PATIENCE = 60.0
"""Seconds after which a test that waits for something on the screen fails."""
ENTER, LEAVE = b"\x1b[?1049h", b"\x1b[?1049l"
CLEARS = (b"\x1b[2J", b"\x1b[3J", b"\x1b[J", b"\x1b[0J", b"\x1bc", b"\x1b[!p")
"""What would empty the screen or its scroll-back: erase display, full reset, soft reset."""
# Sequences pyte takes for others: keyboard protocol (`CSI > 25 u`, `CSI < u`), queries (`CSI ? n $ p`), and
# Kitty's pictures.
_UNKNOWN_TO_PYTE = re.compile(
    rb"\x1b\[[<>=][0-9;]*u|\x1b\[\?[0-9;]*\$p|\x1b\]22;[^\x07]*\x07|\x1b_G[^\x1b]*\x1b\\"
)


class Warm(fdspawn):
    """`foldline` in a pseudo-terminal of its own, forked from a process that has imported it."""

    exitstatus: int | None = None
    signalstatus: int | None = None

    def __init__(self, arguments: Sequence[str], env: Mapping[str, str], cwd: Path, rows: int, columns: int):
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
        self.exitstatus, self.signalstatus = (status, None) if status >= 0 else (None, -status)

    def close(self, force: bool = True) -> None:
        self._program.close()
        super().close()


class Terminal:
    """A program and the terminal it runs in."""

    def __init__(self, child: pexpect.spawn | Warm, columns: int, rows: int) -> None:
        self.child = child
        self.raw = b""
        self.modes = termios.tcgetattr(child.child_fd)
        """The line discipline before the program touched it."""
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
        """All cells, each with its row and column."""
        size = product(range(self._screen.lines), range(self._screen.columns))
        return ((y, x, self._screen.buffer[y][x]) for y, x in size)

    def read(self, patience: float = 0.05) -> bool:
        """Take what the program has written; whether it still lives."""
        try:
            chunk = self.child.read_nonblocking(65_536, timeout=patience)
        except pexpect.TIMEOUT:
            return True
        except pexpect.EOF:
            return False
        self.feed(chunk)
        return True

    def feed(self, chunk: bytes) -> None:
        """Draw this, which the program has written."""
        self.raw += chunk
        # A sequence may be cut in two by the read: the rest of it comes with the next one.
        chunk = self._held + chunk
        cut = chunk.rfind(b"\x1b", max(0, len(chunk) - 24))
        picture = chunk.rfind(b"\x1b_G")
        if picture >= 0 and b"\x1b\\" not in chunk[picture : cut if cut > picture else len(chunk)]:
            cut = picture
        self._held = b"" if cut < 0 else chunk[cut:]
        self._stream.feed(_UNKNOWN_TO_PYTE.sub(b"", chunk if cut < 0 else chunk[:cut]))

    def _flush(self) -> None:
        self._stream.feed(_UNKNOWN_TO_PYTE.sub(b"", self._held))
        self._held = b""

    def until(self, wanted: str | Callable[["Terminal"], object], patience: float = PATIENCE) -> None:
        """Until this text, or this condition, is on the screen."""
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline:
            alive = self.read()
            if wanted in self.text if isinstance(wanted, str) else wanted(self):
                self._read_on()
                return
            if self._held and b"\x1b[" in self._held:
                self._flush()
                continue
            if not alive:
                break
        raise AssertionError(f"{wanted!r} did not come to the screen:\n{self.text}")

    def _read_on(self) -> None:
        """Take the rest of a frame, which comes in pieces: below it stand rows of the screen before, in which
        the next thing to wait for may be found, so that keys are sent too early."""
        for _ in range(8):
            before = len(self.raw)
            self.read(0.02)
            if len(self.raw) == before:
                return

    def settle(self) -> None:
        """Until the program has nothing more to say for a moment."""
        quiet = 0
        while quiet < 3:
            before = len(self.raw)
            self.read()
            quiet = quiet + 1 if len(self.raw) == before else 0

    def send(self, keys: str) -> None:
        self.child.send(keys)

    def ask(self, text: str, *, wait: bool = True) -> None:
        """Type a prompt and send it, once it is seen in the editor; wait until it has been answered."""
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
        """Only what is drawn from now on is on the screen."""
        self._screen.reset()

    def lives_for(self, seconds: float) -> bool:
        """Read on for so long, or until the program ends; whether it still lives."""
        deadline = time.monotonic() + seconds
        while alive := self.read():
            if time.monotonic() > deadline:
                break
        return alive

    def quit_by_keys(self) -> int | None:
        """Ctrl+C twice, and its exit status; again where the first one cancelled a compaction, or where the
        machine stalled so long between the two that each was a first one."""
        for _ in range(3):
            self.send("\x03")
            with suppress(AssertionError):
                self.until("Ctrl+C again quits", patience=4 * QUIT_WITHIN)
            self.send("\x03")
            if not self.lives_for(4 * QUIT_WITHIN):
                break
        return self.ended()

    def ended(self) -> int | None:
        """Wait for the end; the exit status, or minus the signal that ended it."""
        if self.lives_for(PATIENCE):
            raise AssertionError(f"the program does not end:\n{self.text}")
        self.child.wait()
        return self.child.exitstatus if self.child.signalstatus is None else -self.child.signalstatus

    @property
    def between(self) -> bytes:
        """All bytes from the start of the full screen to its end, or to now."""
        start = self.raw.index(ENTER)
        end = self.raw.find(LEAVE, start)
        return self.raw[start : end if end >= 0 else len(self.raw)]

    def not_restored(self) -> list[str]:
        """What of the terminal is not as it was before the program."""
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
    """`foldline ARGUMENTS` in this folder, with a data home of its own and no key. The model is the built-in
    one where `env` names no server; FOLDLINE_MODEL="" is a first start. It starts warm; `program` is a
    command that runs in place of it, from cold."""
    folder.mkdir(exist_ok=True, parents=True)
    home = folder.parent / f"{folder.name}-home"
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("FOLDLINE", "OPENAI"))}
    kept |= {"FOLDLINE_HOME": str(home), "TERM": "xterm-256color", "HOME": str(home), "LC_ALL": "C.UTF-8"}
    for name in ("NO_COLOR", "COLUMNS", "LINES"):
        kept.pop(name, None)
    if not any(name.startswith(("FOLDLINE_MODEL", "FOLDLINE_PROVIDER", "OPENAI_")) for name in env):
        kept["FOLDLINE_MODEL"] = "offline"
    if program:
        child: pexpect.spawn | Warm = pexpect.spawn(
            program[0],
            [*program[1:], *arguments],
            env={**kept, **env},  # type: ignore[arg-type]  # os._Environ in the stubs
            cwd=str(folder),
            dimensions=(rows, columns),
            timeout=PATIENCE,
        )
    else:
        child = Warm(arguments, {**kept, **env}, folder, rows, columns)
    # The pseudo-terminal outlives the program, so that its modes can be looked at afterwards.
    try:
        yield Terminal(child, columns, rows)
    finally:
        child.close(force=True)
