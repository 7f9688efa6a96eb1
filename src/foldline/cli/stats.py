"""`foldline stats`: what a session came to: requests, tokens, tools, folds, files."""

from dataclasses import asdict
from datetime import datetime

from foldline.context.files import file_lists
from foldline.context.numbers import many, percent, tokens
from foldline.context.numbers import seconds as duration
from foldline.context.stats import ModelUse, Stats, stats_of
from foldline.context.weight import view_size

from .output import Column, entries_of, say, say_heading, say_json, say_table
from .sources import read_source


def run(source: str, as_json: bool, format_name: str | None) -> int:
    found = read_source(source, format_name)
    projection = found.project()
    stats, files = stats_of(found.entries), file_lists(projection)
    size = view_size(projection)
    if as_json:
        times = {"first": _time(stats.first), "last": _time(stats.last)}
        view = {"tokens": size.tokens, "view_items": len(projection.view)}
        say_json({**asdict(stats), **times, **view, **files.model_dump()})
        return 0
    counted = (entries_of(stats.entries), many(stats.prompts, "prompt"), many(stats.answers, "answer"))
    say_heading(", ".join(counted))
    if stats.first is not None and stats.last is not None:
        first, last = (at.astimezone().strftime("%Y-%m-%d %H:%M") for at in (stats.first, stats.last))
        say(f"from {first} to {last}")
    say(f"view     {tokens(size.tokens, estimated=size.estimated)} tokens in {len(projection.view):,} items")
    say(f"folds    {stats.folds:,}, {tokens(stats.folded_away)} tokens taken out of the view")
    say(f"files    {len(files.modified_files):,} modified, {len(files.read_files):,} read")
    _say_models(stats)
    _say_tools(stats)
    return 0


def _time(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat()


def _say_models(stats: Stats) -> None:
    if not stats.models:
        return
    say()
    right = (Column(title, right=True) for title in ("requests", "input", "cached", "output"))
    say_table([Column("model"), *right], [_model_row(name, use) for name, use in stats.models.items()])
    if stats.failed:
        say(f"{stats.failed:,} of the requests ended in an error.")


def _model_row(name: str, use: ModelUse) -> list[str]:
    cached = percent(use.cached, use.input) if use.input else ""
    return [name, f"{use.requests:,}", tokens(use.input), cached, tokens(use.output)]


def _say_tools(stats: Stats) -> None:
    if not stats.tools:
        return
    say()
    often = sorted(stats.tools.items(), key=lambda item: -item[1].calls)
    rows = [
        [
            name,
            f"{use.calls:,}",
            f"{use.errors:,}" if use.errors else "",
            duration(use.seconds) if use.seconds else "",
        ]
        for name, use in often
    ]
    right = (Column(title, right=True) for title in ("calls", "errors", "took"))
    say_table([Column("tool"), *right], rows)
