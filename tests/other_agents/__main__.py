"""`make agents`, and `make agents ONLY=codex,pi`: runs the agents one after the other, and writes the table.

Ends with 1 if there is a difference that `known` does not name, or an agent did not run to the end.
"""

import argparse
import sys

from .catalogue import AGENTS
from .runs import run
from .table import write_rows


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Run other agents, and compare their requests with the view."
    )
    parser.add_argument(
        "only", nargs="?", default="", help=f"some of {', '.join(AGENTS)}, with commas"
    )
    names = [name for name in parser.parse_args().only.split(",") if name] or list(
        AGENTS
    )
    if wrong := [name for name in names if name not in AGENTS]:
        parser.error(f"no such agent: {', '.join(wrong)}")
    outcomes = [run(AGENTS[name]) for name in names]
    write_rows(AGENTS.values(), outcomes)
    return int(any(outcome.unknown or outcome.stopped for outcome in outcomes))


sys.exit(main())
