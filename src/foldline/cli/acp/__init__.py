"""`foldline acp`: runs Foldline as an agent for editors, using the Agent Client Protocol."""

import gc
import sys
from importlib.util import find_spec

from foldline.cli.arguments import NEEDS_PIPES, UsageError
from foldline.protocol import FoldlineError
from foldline.termination import run_async

MISSING = "`foldline acp` needs the package agent-client-protocol. Run `pip install 'foldline[acp]'` first."


def acp(model: str | None, window: int | None, strategy: str | None) -> int:
    if sys.stdin.isatty() or sys.stdout.isatty():
        raise UsageError(NEEDS_PIPES)
    if find_spec("acp") is None:
        raise FoldlineError(MISSING)
    from .server import serve

    chosen = {
        "model": model,
        "context__window": window,
        "compaction__strategy": strategy,
    }
    try:
        return run_async(serve(chosen))
    finally:
        # Otherwise the last garbage collection takes a second to scan all models of the ACP package.
        # Editors wait for only two seconds.
        gc.freeze()
