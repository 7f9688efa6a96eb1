"""`foldline compact`: compacts a session from the command line, or only says what that would do."""

from argparse import ArgumentParser
from typing import TYPE_CHECKING

from .arguments import Handler, add_json, add_model, add_source, add_strategy, add_window, amount_of, text_of

if TYPE_CHECKING:
    from foldline.agent.settings_schema import Amount
    from foldline.protocol import Reason


def compact_command(parser: ArgumentParser) -> Handler:
    add_source(parser)
    add_strategy(parser)
    parser.add_argument(
        "--focus", type=text_of, metavar="TEXT", help="what the summary should keep above all"
    )
    add_window(parser)
    parser.add_argument(
        "--keep",
        type=amount_of,
        metavar="N",
        help="newest work to keep verbatim: 8000, 8k, 20%% of the window",
    )
    parser.add_argument("--dry-run", action="store_true", help="only the plan; nothing is written")
    parser.add_argument("--out", metavar="FILE", help="write the compacted session to this new file")
    add_model(parser)
    add_json(parser)
    return compact


def compact(
    source: str,
    strategy: str | None,
    focus: str | None,
    window: int | None,
    keep: "Amount | None",
    dry_run: bool,
    out: str | None,
    model: str | None,
    as_json: bool,
    format_name: str | None,
) -> int:
    from foldline.history import typed_path
    from foldline.history.paths import check_new
    from foldline.termination import run_async

    from .agents import settings_here
    from .compact_outcome import compact_source, outcome_json, say_outcome
    from .output import say_json
    from .sources import read_source

    found = read_source(source, format_name)
    settings = settings_here(
        found.header.cwd, model=model, context__window=window, compaction__strategy=strategy,
        compaction__keep_recent_tokens=keep,
        offline__pace=0,  # nobody watches it being written
    )  # fmt: skip
    target = typed_path(out) if out else None
    if target is not None:
        check_new(target)
    # An amount to keep that was asked for is kept; without one, compacting by hand keeps less.
    reason: Reason = "manual" if keep is None else "threshold"
    outcome = run_async(compact_source(found, settings, focus, reason=reason, dry_run=dry_run, out=target))
    if as_json:
        say_json(outcome_json(outcome))
    else:
        say_outcome(found, outcome)
    return 0
