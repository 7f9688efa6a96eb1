"""`foldline view` and `foldline history`: what the model sees, now or at any earlier moment; every entry."""

from argparse import ArgumentParser

from .arguments import Handler, add_json, add_source, number_of


def view_command(parser: ArgumentParser) -> Handler:
    add_source(parser)
    moment = parser.add_mutually_exclusive_group()
    moment.add_argument("--at", type=number_of, metavar="INDEX", help="as of this entry")
    moment.add_argument("--request", type=number_of, metavar="N", help="as the N-th request sent it")
    add_json(parser, "OpenAI messages and their provenance as JSON")
    return view


def view(source: str, at: int | None, request: int | None, as_json: bool, format_name: str | None) -> int:
    from foldline.context.moments import at_request, size_at
    from foldline.context.projection import project

    from .output import note
    from .sources import read_source
    from .view_rows import check_number, entries_until, show_sent, show_view

    found = read_source(source, format_name)
    if request is None:
        moment = "now" if at is None else f"entry {at}"
        show_view(found, project(entries_until(found, at)), moment, as_json)
        return 0
    now = found.project()
    check_number(found, len(now.requests), request)
    sent = at_request(now, request)
    size = size_at(now, sent)
    if sent.sent is not None and size is not None:
        return show_sent(found, now, sent.sent, size, as_json)
    note(f"{found.name} has no record of its requests: this is what the history gives for one.")
    show_view(found, project(found.entries[: sent.length]), sent.name, as_json, size)
    return 0


def history_command(parser: ArgumentParser) -> Handler:
    add_source(parser)
    add_json(parser, "one JSON object a line, one line an entry")
    return history


def history(source: str, as_json: bool, format_name: str | None) -> int:
    from .output import say_json
    from .sources import read_source
    from .view_rows import Naming, history_weight, say_history

    found = read_source(source, format_name)
    projection = found.project()
    if not as_json:
        say_history(found, projection)
        return 0
    naming = Naming(found.header.cwd, projection)
    for entry in found.entries:
        naming.note(entry)
        fate, weight = projection.fate(entry.index), history_weight(projection, entry)
        line = {
            "index": entry.index,
            "type": entry.type,
            "fate": fate.kind,
            "by": fate.by,
            "tokens": weight.tokens,
            "estimated": weight.estimated,
            "at": entry.at.isoformat() if entry.at else None,
            "preview": naming.preview(entry),
        }
        say_json(line, pretty=False)
    return 0
