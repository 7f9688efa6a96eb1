"""`foldline acp`: Foldline as an agent for editors, by the Agent Client Protocol."""

import gc
import sys
from importlib.util import find_spec

from foldline.cli.arguments import UsageError
from foldline.protocol import FoldlineError
from foldline.termination import run_async

MISSING = "`foldline acp` needs agent-client-protocol: `pip install 'foldline[acp]'` brings it."


def acp(model: str | None, window: int | None, strategy: str | None) -> int:
    if sys.stdin.isatty() or sys.stdout.isatty():
        raise UsageError("`foldline acp` is started by an editor, and speaks with it over stdin and stdout.")
    if find_spec("acp") is None:
        raise FoldlineError(MISSING)
    from .server import serve

    chosen = {"model": model, "context__window": window, "compaction__strategy": strategy}
    try:
        return run_async(serve(chosen))
    finally:
        # The interpreter would look through all models of the package on its way out: that takes a second,
        # and who ends it waits for two.
        gc.freeze()
