"""Keys, output bytes and a clock for a program in a terminal. Times are in seconds.

Nothing is drawn during a measurement: a search in the bytes is cheap, a terminal emulator would cost more
than the measured program. A text counts as painted when its last byte was read from the terminal.
"""

import os
import random
import select
import signal
import string
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.bytecode import compiled
from support.terminal import COLD, Terminal, terminal

PATIENCE = 60.0
FLOOR = (sys.executable, "-P", str(Path(__file__).with_name("floor_app.py").resolve()))
"""Program to run instead of `foldline`, for the cost of Textual alone."""
COLUMNS, ROWS = 160, 48
BACKSPACE = b"\x7f"
_TICK = os.sysconf("SC_CLK_TCK")
_SEEN = 4
"""Length of a run of the last typed letters that is no coincidence."""


class TimedTerminal:
    def __init__(self, term: Terminal, start: float) -> None:
        self.term = term
        self.begun = start
        """Start time of the program."""
        self.raw = bytearray()
        self._fd = term.child.child_fd
        self._typed = b""

    @property
    def pid(self) -> int:
        return int(self.term.child.pid)

    def until(self, text: bytes, after: int = 0) -> float:
        """Return the time at which this text was painted, searched from the offset `after`."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            if text in self.raw[max(0, after) :]:
                return time.monotonic()
            self.read(0.5)
        raise AssertionError(
            f"{text!r} was not painted; the last bytes: {bytes(self.raw[-2_000:])!r}"
        )

    def read(self, seconds: float) -> bool:
        """Read output for at most `seconds`; return whether there was any."""
        if not select.select([self._fd], [], [], seconds)[0]:
            return False
        try:
            self.raw += os.read(self._fd, 65_536)
        except OSError as ended:
            raise AssertionError(f"the program ended:\n{self.draw().text}") from ended
        return True

    def drain(self, seconds: float) -> None:
        """Read output for `seconds`."""
        deadline = time.monotonic() + seconds
        while (remaining := deadline - time.monotonic()) > 0:
            self.read(remaining)

    def draw(self) -> Terminal:
        """Return the screen drawn from all bytes."""
        self.term.feed(bytes(self.raw[len(self.term.raw) :]))
        return self.term

    def press(self, keys: bytes) -> float:
        """Press keys; return the time."""
        pressed = time.monotonic()
        os.write(self._fd, keys)
        return pressed

    def echo(self, letter: str | None = None) -> float:
        """Type a letter at the end of the prompt; return the seconds until it is shown."""
        letter = letter or random.choice(string.ascii_lowercase)
        self._typed += letter.encode()
        after = len(self.raw)
        pressed = self.press(letter.encode())
        return self.until(self._typed[-_SEEN:], after) - pressed

    def clear(self) -> None:
        """Clear the prompt."""
        self.press(BACKSPACE * len(self._typed))
        self._typed = b""


@contextmanager
def timed_terminal(
    folder: Path,
    *arguments: str,
    program: Sequence[str] = COLD,
    columns: int = COLUMNS,
    rows: int = ROWS,
    **env: str,
) -> Iterator[TimedTerminal]:
    """Start a program, and kill it at the end so that its files stay unchanged."""
    env = {**compiled(), **env}
    start = time.monotonic()
    with terminal(
        folder, *arguments, columns=columns, rows=rows, program=program, **env
    ) as term:
        try:
            yield TimedTerminal(term, start)
        finally:
            os.kill(term.child.pid, signal.SIGKILL)


def processor(pid: int) -> float:
    """Return the CPU seconds of a process, in steps of a hundredth."""
    values = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(values[11]) + int(values[12])) / _TICK


@dataclass(frozen=True)
class Memory:
    """Memory of a process in megabytes."""

    resident: float
    shared_out: float
    """Proportional set size (PSS): shared pages are divided among their users."""
    most: float

    @classmethod
    def of(cls, pid: int) -> "Memory":
        sizes: dict[str, float] = {}
        for name in ("status", "smaps_rollup"):
            for line in Path(f"/proc/{pid}/{name}").read_text().splitlines():
                key, _, value = line.partition(":")
                if value.endswith(" kB"):
                    sizes[f"{name} {key}"] = int(value.split()[0]) / 1024
        return cls(
            sizes["status VmRSS"], sizes["smaps_rollup Pss"], sizes["status VmHWM"]
        )
