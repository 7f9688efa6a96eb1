"""`foldline search`: in which session something was said, called or returned."""

from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from .arguments import Handler, UsageError, add_json, count_of, text_of

if TYPE_CHECKING:
    from foldline.history import MessageKind


_LIMIT: Final = 10


def search_command(parser: ArgumentParser) -> Handler:
    parser.add_argument(
        "words",
        type=text_of,
        nargs="+",
        metavar="QUERY",
        help="words that stand in one entry, in any script; '\"several words\"' as they stand together",
    )
    parser.add_argument("--here", action="store_true", help="only in the sessions of this folder")
    parser.add_argument(
        "--kind",
        choices=("user", "assistant", "tool_result"),
        help="only what you said, what the model said and called, or what tools returned",
    )
    parser.add_argument(
        "--limit", type=count_of, metavar="N", help="the most sessions to list; 10 by default"
    )
    add_json(parser)
    return search


def search(
    words: Sequence[str], here: bool, kind: "MessageKind | None", limit: int | None, as_json: bool
) -> int:
    from foldline.history import data_home
    from foldline.history.session_search import SessionSearch

    from .output import note, say_json
    from .search_results import hits_json, refreshed, say_found

    query = " ".join(words)
    if not query.strip():
        raise UsageError("Say what to look for: `foldline search WORD…`.")
    index = SessionSearch(data_home())
    if not refreshed(index):
        note("Another process is at the search index: what it has not taken in yet was not searched.")
    found = index.find(query, limit=limit or _LIMIT, cwd=Path.cwd() if here else None, kind=kind)
    if index.trouble:
        note(index.trouble)
    if as_json:
        say_json({"sessions": [hits_json(session) for session in found.sessions], "complete": found.complete})
    else:
        say_found(found, query, here, kind)
    return 0
