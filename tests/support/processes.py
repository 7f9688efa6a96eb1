"""Processes started by commands: their pids, and whether they run."""

import asyncio
import contextlib
import os
from pathlib import Path

from support.agents import PATIENCE


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    with contextlib.suppress(OSError):
        return (
            Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
        )
    return True


async def process_ended(pid: int) -> None:
    async with asyncio.timeout(PATIENCE):
        while is_running(pid):
            await asyncio.sleep(0.005)


async def pids(path: Path, count: int) -> list[int]:
    """Wait for `count` pids written by a command, and return them."""
    async with asyncio.timeout(PATIENCE):
        while len(numbers_in(path)) < count:
            await asyncio.sleep(0.005)
    return numbers_in(path)


def numbers_in(path: Path) -> list[int]:
    """Return the numbers on complete lines."""
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    return [int(line) for line in lines if line.endswith("\n")]
