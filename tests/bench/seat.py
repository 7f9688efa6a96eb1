"""A place in front of a program: keys to press, the bytes that come back, and a clock. Seconds.

Nothing is drawn meanwhile: finding a text in the bytes costs next to nothing, a screen would cost more than
what is measured. A text counts as painted when the last byte of it was read from the terminal.
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
"""What runs in place of `foldline` to see what Textual alone costs."""
COLUMNS, ROWS = 160, 48
BACKSPACE = b"\x7f"
_TICK = os.sysconf("SC_CLK_TCK")
_SEEN = 4
"""So many of the letters typed last, one behind the other, are no accident."""


class Seat:
    def __init__(self, term: Terminal, begun: float) -> None:
        self.term = term
        self.begun = begun
        """When the program was started."""
        self.raw = bytearray()
        self._fd = term.child.child_fd
        self._typed = b""

    @property
    def pid(self) -> int:
        return int(self.term.child.pid)

    def until(self, wanted: bytes, after: int = 0) -> float:
        """When this text was painted, looked for behind so many bytes."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            if wanted in self.raw[max(0, after) :]:
                return time.monotonic()
            self.read(0.5)
        raise AssertionError(f"{wanted!r} was not painted; the last bytes: {bytes(self.raw[-2_000:])!r}")

    def read(self, seconds: float) -> bool:
        """Take what comes next; whether anything came within so many seconds."""
        if not select.select([self._fd], [], [], seconds)[0]:
            return False
        try:
            self.raw += os.read(self._fd, 65_536)
        except OSError as ended:
            raise AssertionError(f"the program ended:\n{self.draw().text}") from ended
        return True

    def drain(self, seconds: float) -> None:
        """Take what comes during so many seconds."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            self.read(left)

    def draw(self) -> Terminal:
        """The screen that all these bytes make."""
        self.term.feed(bytes(self.raw[len(self.term.raw) :]))
        return self.term

    def press(self, keys: bytes) -> float:
        """When they were pressed."""
        pressed = time.monotonic()
        os.write(self._fd, keys)
        return pressed

    def echo(self, letter: str | None = None) -> float:
        """Type one more letter at the end of the prompt; after how long it is seen there."""
        letter = letter or random.choice(string.ascii_lowercase)
        self._typed += letter.encode()
        after = len(self.raw)
        pressed = self.press(letter.encode())
        return self.until(self._typed[-_SEEN:], after) - pressed

    def clear(self) -> None:
        """Empty the prompt of what was typed."""
        self.press(BACKSPACE * len(self._typed))
        self._typed = b""


@contextmanager
def seated(
    folder: Path,
    *arguments: str,
    program: Sequence[str] = COLD,
    columns: int = COLUMNS,
    rows: int = ROWS,
    **env: str,
) -> Iterator[Seat]:
    """A program, from its start to its end by force, which leaves its files as they are."""
    env = {**compiled(), **env}
    begun = time.monotonic()
    with terminal(folder, *arguments, columns=columns, rows=rows, program=program, **env) as term:
        try:
            yield Seat(term, begun)
        finally:
            os.kill(term.child.pid, signal.SIGKILL)


def processor(pid: int) -> float:
    """Seconds of processor time a process has used, in steps of a hundredth."""
    values = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(values[11]) + int(values[12])) / _TICK


@dataclass(frozen=True)
class Memory:
    """Megabytes."""

    resident: float
    shared_out: float
    """What it shares with others counted in parts (PSS)."""
    most: float

    @classmethod
    def of(cls, pid: int) -> "Memory":
        said: dict[str, float] = {}
        for name in ("status", "smaps_rollup"):
            for line in Path(f"/proc/{pid}/{name}").read_text().splitlines():
                key, _, value = line.partition(":")
                if value.endswith(" kB"):
                    said[f"{name} {key}"] = int(value.split()[0]) / 1024
        return cls(said["status VmRSS"], said["smaps_rollup Pss"], said["status VmHWM"])
