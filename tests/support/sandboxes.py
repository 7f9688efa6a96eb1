"""Sandboxes for tests: the engines of this machine, and commands run in them."""

import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest

from foldline.agent.permissions.sandbox import Sandbox
from foldline.agent.permissions.sandbox_engine import Engine, engine_here
from foldline.agent.permissions.sandbox_launcher import landlock_version
from foldline.agent.permissions.sandbox_policy import SandboxOptions
from foldline.agent.tools.process import environment, spawn
from foldline.programs import shell

EngineName = Literal["bubblewrap", "landlock"]


def require_engine(name: EngineName) -> Engine:
    """Return the engine of this name; skip the test if it is unavailable."""
    if name == "landlock":
        if landlock_version() < 1:
            pytest.skip("this kernel has no Landlock, or has it switched off")
        return Engine("landlock", "for a test")
    engine = engine_here()
    if engine.name != "bubblewrap":
        pytest.skip(engine.why)
    return engine


@dataclass
class SandboxResult:
    """A command's exit status and output."""

    status: int | None
    text: str
    refused: str


@dataclass
class SandboxRunner:
    """Runs commands in a folder's sandbox."""

    sandbox: Sandbox
    env: dict[str, str] = field(default_factory=dict)

    @property
    def cwd(self) -> Path:
        return self.sandbox.cwd

    async def run(self, command: str, *words: str) -> SandboxResult:
        """Run a command with `words` as $1, $2, …"""
        output = bytearray()

        async def take(piece: bytes) -> bool:
            output.extend(piece)
            return True

        argv = [shell(), "-c", command, "sh", *words]
        async with spawn(
            argv, self.cwd, environment() | self.env, None, self.sandbox
        ) as child:
            await child.follow(take)
        text = output.decode("utf-8", "replace")
        refusal = self.sandbox.blocked(text, failed=True)
        return SandboxResult(child.status, text, refusal.words if refusal else "")

    async def python(self, code: str, *words: str) -> SandboxResult:
        """Run a Python program with `words` as sys.argv[1], …"""
        python = os.path.realpath(shutil.which("python3") or "python3")
        return await self.run('exec "$@"', python, "-c", code, *words)


@asynccontextmanager
async def sandbox_in(
    cwd: Path, engine: EngineName, *, may_change: bool = True, **options: Any
) -> AsyncIterator[SandboxRunner]:
    """Open the sandbox of a folder with an engine."""
    available = require_engine(engine)
    sandbox = Sandbox(cwd, SandboxOptions(**options), may_change=lambda: may_change)
    try:
        sandbox.engine = available
        await sandbox.ready()
        yield SandboxRunner(sandbox)
    finally:
        await sandbox.aclose()
