"""`foldline eval`: recorded sessions replayed under each strategy; what it costs, and what survives."""

from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path

from .arguments import Handler, UsageError, add_format, add_json, add_model, add_yes, tokens_of

USUAL_WINDOW = 32_768
"""Tokens, where nobody says: small enough that most sessions fill it several times."""


def eval_command(parser: ArgumentParser) -> Handler:
    parser.add_argument(
        "sources", nargs="+", metavar="FILE|ID|FOLDER", help="recorded sessions of any format"
    )
    add_format(parser)
    parser.add_argument(
        "--strategies", type=_names, metavar="A,B", help="what is compared; all that comes along by default"
    )
    parser.add_argument(
        "--window", dest="windows", type=_windows, metavar="N,M", help="context windows in tokens: 32k,128k"
    )
    add_model(parser)
    parser.add_argument(
        "--tokenizer", choices=("weights", "o200k"), default="weights", help="how tokens are counted"
    )
    parser.add_argument("--prices", metavar="MODEL", help="also in dollars, at this model's prices")
    parser.add_argument("--price-table", metavar="FILE.toml", help="another table of prices than ours")
    parser.add_argument("--plot", metavar="FILE.svg", help="draw it to this new file")
    parser.add_argument(
        "--judge", action="store_true", help="ask the model questions about what was compacted"
    )
    parser.add_argument("--jobs", type=int, metavar="N", help="measure many sessions in so many processes")
    parser.add_argument("--cluster", metavar="ADDRESS", help="measure them on this Dask cluster")
    parser.add_argument(
        "--results", metavar="FILE.jsonl", help="a line a session; what is in it is not measured again"
    )
    add_yes(parser, "send what costs money without asking")
    add_json(parser)
    return evaluate


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _windows(text: str) -> list[int]:
    return [tokens_of(name) for name in _names(text)]


def _new_picture(plot: str) -> Path:
    from foldline.history.paths import check_new

    target = Path(plot).expanduser()
    if target.suffix.lower() != ".svg":
        raise UsageError(f"--plot draws SVG: call it {target.with_suffix('.svg').name}.")
    check_new(target)
    return target


def evaluate(
    sources: Sequence[str],
    strategies: Sequence[str] | None,
    windows: Sequence[int] | None,
    model: str | None,
    tokenizer: str,
    prices: str | None,
    price_table: str | None,
    plot: str | None,
    judge: bool,
    jobs: int | None,
    cluster: str | None,
    results: str | None,
    yes: bool,
    as_json: bool,
    format_name: str | None,
) -> int:
    from foldline.evaluation.comparison import RAW, Setup, default_arms
    from foldline.evaluation.figures import meter_named
    from foldline.evaluation.selftest import self_test
    from foldline.llm.models import price_table as prices_in
    from foldline.protocol import FoldlineError
    from foldline.termination import run_async

    from .agents import settings_here
    from .eval_corpus import measure_all, sessions_in, tasks_of
    from .eval_pooled import say_pooled
    from .eval_report import report_json, say_judgement, say_report
    from .eval_run import draw, known_price, measure, subjects_of
    from .output import say_json

    settings = settings_here(model=model, offline__pace=0)
    table = prices_in(Path(price_table).expanduser()) if price_table else prices_in()
    setup = Setup(
        arms=list(dict.fromkeys([RAW, *(strategies or default_arms())])),
        windows=list(windows or [USUAL_WINDOW]),
        meter=meter_named(tokenizer),
        price=None if prices is None else known_price(prices, table),
        prices_dated=table.date,
        sizes=settings.budget_settings,
    )
    target = _new_picture(plot) if plot else None
    files = sessions_in(sources)
    is_corpus = bool(jobs or cluster or results) or files != list(dict.fromkeys(sources))
    if is_corpus and (judge or plot or prices or model not in (None, "offline")):
        raise UsageError("Many sessions are measured without a model, --judge, --prices and --plot.")
    if faults := self_test():
        raise FoldlineError(f"The instrument failed its own test, so nothing was measured: {faults[0]}")
    if is_corpus:
        lines = measure_all(
            tasks_of(files, setup, tokenizer, settings, format_name), jobs or 1, cluster, results
        )
        if as_json:
            say_json({"sessions": sorted(lines, key=lambda line: line["source"])})
        else:
            say_pooled(lines)
        return 0
    subjects = subjects_of(sources, format_name, setup.meter)
    found = run_async(measure(subjects, setup, settings, judge=judge, yes=yes))
    report, answers = found.report, found.judgement
    if as_json:
        say_json({**report_json(report), "judgement": answers.as_json() if answers else None})
    else:
        say_report(report)
        if answers is not None:
            say_judgement(answers)
    if target is not None:
        draw(target, found.runs, report.rows)
    if report.violations:
        raise FoldlineError(
            f"A rule that holds for every strategy was broken {len(report.violations)} times, first: "
            f"{report.violations[0]}"
        )
    return 0
