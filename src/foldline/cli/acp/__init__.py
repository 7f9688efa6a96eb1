"""`foldline acp`: runs Foldline as an agent for editors, using the Agent Client Protocol."""

import sys

from foldline.cli.arguments import NEEDS_PIPES, UsageError
from foldline.termination import run_async


def acp(model: str | None, window: int | None, strategy: str | None) -> int:
    if sys.stdin.isatty() or sys.stdout.isatty():
        raise UsageError(NEEDS_PIPES)
    from .server import serve

    chosen = {
        "model": model,
        "context__window": window,
        "compaction__strategy": strategy,
    }
    return run_async(serve(chosen))
