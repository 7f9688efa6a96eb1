"""`foldline acp`: Foldline as an agent for editors, by the Agent Client Protocol."""

import gc
import sys
from argparse import ArgumentParser
from importlib.util import find_spec

from foldline.cli.arguments import Handler, UsageError, add_model, add_strategy, add_window

MISSING = "`foldline acp` needs agent-client-protocol: `pip install 'foldline[acp]'` brings it."


def acp_command(parser: ArgumentParser) -> Handler:
    add_model(parser)
    add_window(parser)
    add_strategy(parser)
    return acp


def acp(model: str | None, window: int | None, strategy: str | None) -> int:
    from foldline.protocol import FoldlineError

    if sys.stdin.isatty() or sys.stdout.isatty():
        raise UsageError("`foldline acp` is started by an editor, and speaks with it over stdin and stdout.")
    if find_spec("acp") is None:
        raise FoldlineError(MISSING)
    from foldline.termination import run_async

    from .server import serve

    chosen = {"model": model, "context__window": window, "compaction__strategy": strategy}
    try:
        return run_async(serve(chosen))
    finally:
        # The interpreter would look through all models of the package on its way out: that takes a second,
        # and who ends it waits for two.
        gc.freeze()
