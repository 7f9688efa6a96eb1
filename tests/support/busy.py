"""The real program with a first turn that never ends.

python busy.py HOW ARGUMENTS…
"""

import asyncio
import os
import re
import sys
from pathlib import Path
from typing import Any

from foldline import termination
from foldline.agent.turn.turn import Turn
from foldline.cli import main


def _spin() -> None:
    while True:
        pass


def _backtrack() -> None:
    re.search(r"(a+)+$", f"{'a' * 60}b")


def _wait() -> None:
    os.mkfifo("fifo")
    Path("fifo").read_bytes()


async def _turn(*_: Any, **__: Any) -> None:
    Path("busy").touch()
    how = {"spin": _spin, "backtrack": _backtrack, "wait": _wait}[
        _HOW.removeprefix("thread-")
    ]
    if _HOW.startswith("thread-"):
        await asyncio.to_thread(how)
    how()


if __name__ == "__main__":
    _HOW = sys.argv.pop(1)
    Turn.run = _turn  # type: ignore[assignment]
    if (
        _HOW != "backtrack"
    ):  # only the system can end that; give the others more time on a busy machine
        termination._LAST_SECONDS = 60.0  # type: ignore[misc]
    sys.exit(main())
