"""Detects the operating system's mechanism for confining commands."""

import functools
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from foldline.programs import find_program, why_missing

from .sandbox_launcher import (
    MOVES_SINCE,
    SOCKETS_SINCE,
    filter_bytes,
    landlock_version,
)
from .sandbox_policy import SandboxPolicy, bubblewrap_words

NO_SEATBELT = "This macOS has no sandbox-exec."
OTHER_SYSTEM = "Foldline has no sandbox for this operating system."
UNUSABLE = "bubblewrap cannot be used: {reason}"
BROKEN = "bubblewrap does not work here ({reason})"
ONLY_LANDLOCK = (
    "{reason}. Landlock alone cannot keep commands from changing hooks and settings "
    "in the folder."
)
NO_LANDLOCK = "{reason}, and this kernel has no Landlock."
PIPES_OPEN = "This kernel cannot keep commands from reading named pipes in folders that they can see."
SOCKETS_OPEN = (
    "This kernel cannot keep commands from using sockets in folders that they can see (Linux 7.1 can), or "
    "from reading named pipes there."
)
ALL_OPEN = (
    "This kernel cannot keep commands from using sockets and named pipes in folders that they can see (Linux "
    "7.1 with Landlock can, except for reading pipes)."
)

_PATIENCE = 10.0
"""Timeout of the test run that detects the engine, in seconds."""
SEATBELT = "/usr/bin/sandbox-exec"


class Engine(NamedTuple):
    """The operating system's mechanism for confining commands."""

    name: Literal["bubblewrap", "landlock", "seatbelt", ""]
    why: str = ""
    """Message about the mechanism's limits, or about the reason why it is missing."""

    @property
    def holds(self) -> bool:
        """Whether the mechanism is strong enough to run commands without asking the user."""
        return self.name in ("bubblewrap", "seatbelt")


@functools.cache
def engine_here() -> Engine:
    """Detect the best engine on this machine by running it once.

    Blocking: do not call it on the event loop.
    """
    if sys.platform == "darwin":
        if Path(SEATBELT).exists():
            return Engine("seatbelt")
        return Engine("", NO_SEATBELT)
    if not sys.platform.startswith("linux"):
        return Engine("", OTHER_SYSTEM)
    if find_program("bwrap") is None:
        why = UNUSABLE.format(reason=why_missing("bwrap"))
    else:
        words = bubblewrap_words(
            SandboxPolicy("/"), is_root=os.geteuid() == 0, filter_from=None
        )
        why = _failure([*words, "/bin/sh", "-c", ":"])
        if not why:
            return Engine("bubblewrap", _beyond_this_kernel(landlock_version()))
        why = BROKEN.format(reason=why)
    if landlock_version() >= 1 and filter_bytes(os.uname().machine, network=False):
        return Engine("landlock", ONLY_LANDLOCK.format(reason=why))
    return Engine("", NO_LANDLOCK.format(reason=why))


def _beyond_this_kernel(landlock: int) -> str:
    """Return a message about the gaps in bubblewrap's protection with this version of Landlock."""
    if landlock >= SOCKETS_SINCE:
        return PIPES_OPEN
    return SOCKETS_OPEN if landlock >= MOVES_SINCE else ALL_OPEN


def _failure(argv: Sequence[str]) -> str:
    """Run a program and return its last line of error output.

    Returns an empty string if the program succeeds.
    """
    try:
        process = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PATIENCE,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if process.returncode == 0:
        return ""
    lines = process.stderr.decode("utf-8", "replace").strip().splitlines()
    return lines[-1] if lines else f"exit {process.returncode}"
