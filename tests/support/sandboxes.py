"""Sandboxes for tests: each engine that this machine has, and a command run in one."""

import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest

from foldline.agent.sandbox import Engine, Sandbox, engine_here
from foldline.agent.sandbox_launcher import landlock_version
from foldline.agent.sandbox_policy import SandboxOptions
from foldline.agent.tools.process import environment, spawn
from foldline.programs import shell

EngineName = Literal["bubblewrap", "landlock"]


def need(name: EngineName) -> Engine:
    """The engine of this name; the test is skipped where this machine has none."""
    if name == "landlock":
        if landlock_version() < 1:
            pytest.skip("this kernel has no Landlock, or has it switched off")
        return Engine("landlock", "for a test")
    found = engine_here()
    if found.name != "bubblewrap":
        pytest.skip(found.why)
    return found


@dataclass
class Tried:
    """How a command ended, and what it wrote."""

    status: int | None
    text: str
    refused: str


@dataclass
class Trial:
    """Runs commands in the sandbox of a folder."""

    sandbox: Sandbox
    env: dict[str, str] = field(default_factory=dict)

    @property
    def cwd(self) -> Path:
        return self.sandbox.cwd

    async def run(self, command: str, *words: str) -> Tried:
        """The command, with `words` as $1, $2, …"""
        written = bytearray()

        async def take(piece: bytes) -> bool:
            written.extend(piece)
            return True

        argv = [shell(), "-c", command, "sh", *words]
        async with spawn(argv, self.cwd, environment() | self.env, None, self.sandbox) as child:
            await child.follow(take)
        text = written.decode("utf-8", "replace")
        found = self.sandbox.refused(text, failed=True)
        return Tried(child.status, text, found.words if found else "")

    async def python(self, code: str, *words: str) -> Tried:
        """A Python program, with `words` as sys.argv[1], …"""
        python = os.path.realpath(shutil.which("python3") or "python3")
        return await self.run('exec "$@"', python, "-c", code, *words)


@asynccontextmanager
async def sandbox_in(
    cwd: Path, engine: EngineName, *, may_change: bool = True, **options: Any
) -> AsyncIterator[Trial]:
    """The sandbox of a folder, by an engine."""
    found = need(engine)
    sandbox = Sandbox(cwd, SandboxOptions(**options), may_change=lambda: may_change)
    try:
        sandbox.engine = found
        await sandbox.ready()
        yield Trial(sandbox)
    finally:
        await sandbox.aclose()
