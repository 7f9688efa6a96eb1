"""`foldline verify`, `audit` and `stats`: is the history sound, what was lost, what did the session take."""

from argparse import ArgumentParser
from dataclasses import asdict

from .arguments import Handler, add_json, add_source


def verify_command(parser: ArgumentParser) -> Handler:
    add_source(parser)
    add_json(parser)
    return verify


def audit_command(parser: ArgumentParser) -> Handler:
    add_source(parser)
    add_json(parser)
    return show_audit


def stats_command(parser: ArgumentParser) -> Handler:
    add_source(parser)
    parser.add_argument(
        "--cache", action="store_true", help="requests of which the provider's cache had less than it should"
    )
    add_json(parser)
    return stats


def verify(source: str, as_json: bool, format_name: str | None) -> int:
    from .check_results import verdict_on
    from .output import say, say_heading, say_json
    from .sources import read_source

    verdict = verdict_on(read_source(source, format_name))
    if as_json:
        failures: list[dict[str, object]] = [
            {"request": failure.number, "entry": failure.index, "text": str(failure)}
            for failure in verdict.unproved
        ]
        failures += [{"request": None, "entry": None, "text": fault} for fault in verdict.unsound]
        say_json(
            {
                "ok": verdict.ok,
                "requests": verdict.requests,
                "proved": verdict.requests - len(verdict.unproved),
                "folds": verdict.folds,
                "entries": verdict.entries,
                "failures": failures,
            }
        )
    else:
        say_heading(str(verdict))
        for failure in (*verdict.unproved, *verdict.unsound):
            say(str(failure))
    return 0 if verdict.ok else 1


def show_audit(source: str, as_json: bool, format_name: str | None) -> int:
    from .check_results import audited, say_audited
    from .output import say, say_json
    from .sources import read_source

    found = read_source(source, format_name)
    compactions = list(audited(found))
    if as_json:
        say_json({"folds": [each.as_json() for each in compactions]})
        return 0
    if not compactions:
        say(f"{found.name} has no compaction in force: nothing was taken out of the view.")
    for number, each in enumerate(compactions):
        if number:
            say()
        say_audited(each, found.header.cwd)
    return 0


def stats(source: str, cache: bool, as_json: bool, format_name: str | None) -> int:
    from foldline.context.compactions import taken_out
    from foldline.context.files import file_lists
    from foldline.context.numbers import many, tokens
    from foldline.context.stats import stats_of
    from foldline.context.weight import view_size

    from .check_results import iso_time, say_uses
    from .output import entries_of, say, say_heading, say_json
    from .sources import read_source

    found = read_source(source, format_name)
    projection = found.project()
    if cache:
        from .cache_results import show_cache

        show_cache(projection, found.name, as_json)
        return 0
    stats, files = stats_of(found.entries), file_lists(projection)
    size, away = view_size(projection), taken_out(projection)
    if as_json:
        times = {"first": iso_time(stats.first), "last": iso_time(stats.last)}
        view = {"tokens": size.tokens, "view_items": len(projection.view), "folded_away": away.tokens}
        say_json({**asdict(stats), **times, **view, **files.model_dump()})
        return 0
    counted = (entries_of(stats.entries), many(stats.prompts, "prompt"), many(stats.answers, "answer"))
    say_heading(", ".join(counted))
    if stats.first is not None and stats.last is not None:
        first, last = (at.astimezone().strftime("%Y-%m-%d %H:%M") for at in (stats.first, stats.last))
        say(f"from {first} to {last}")
    undone = stats.folds - len(projection.compactions())
    made = f"{stats.folds:,}" + (f", {undone:,} undone" if undone else "")
    weight = tokens(size.tokens, estimated=size.estimated)
    say(f"view         {weight} tokens in {len(projection.view):,} items")
    gone = f"{tokens(away.tokens, estimated=away.estimated)} tokens taken out of the view"
    say(f"compactions  {made}, {gone}")
    say(f"files        {len(files.modified_files):,} modified, {len(files.read_files):,} read")
    say_uses(stats)
    return 0
