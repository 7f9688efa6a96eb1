"""`foldline search`: searches the text of all sessions."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from foldline.history import MessageKind, age, data_home, short_id, utc_now
from foldline.history.session_search import (
    SessionHit,
    SessionHits,
    search_sessions,
    sessions_to_search,
)
from foldline.text.shorten import cells, clip_cells

from .arguments import UsageError
from .output import (
    Json,
    note,
    progress_bar,
    say,
    say_json,
    shown_folder,
    step,
    width,
)

NO_MATCH = "No entry{kind}{folder} contains “{query}”{hint}."
NO_QUERY = "Enter a search query: `foldline search WORD…`."
INCOMPLETE = (
    "There may be more results. Add a word to narrow the search, or raise --limit."
)
HOW_TO_USE = "Run `foldline -r {root}` to continue the first session, or `foldline open {best}` to view it."
_HITS = 3
"""Maximum number of hits shown per session.

Further hits are only counted.
"""
_INDENT = 4
_LIMIT = 10
"""Default maximum number of listed sessions."""


def search(
    words: Sequence[str],
    here: bool,
    kind: MessageKind | None,
    limit: int | None,
    as_json: bool,
) -> int:
    query = " ".join(words)
    if not query.strip():
        raise UsageError(NO_QUERY)
    sessions = sessions_to_search(data_home(), Path.cwd() if here else None)
    with progress_bar(len(sessions)) as bar:
        results = search_sessions(
            sessions,
            query,
            limit=limit or _LIMIT,
            kind=kind,
            on_session=lambda info: step(
                bar, f"searching {clip_cells(info.meta.title, 40)}"
            ),
        )
    if as_json:
        hits = [hits_json(session) for session in results.sessions]
        say_json({"sessions": hits, "complete": results.complete})
        return 0
    if not results.sessions:
        note(no_match(query, here, kind))
    else:
        say_results(results.sessions)
    if not results.complete:
        note(INCOMPLETE)
    return 0


def hits_json(session: SessionHits) -> Json:
    fields = asdict(session)
    return {"matches": fields.pop("total"), **fields}


def say_results(sessions: Sequence[SessionHits]) -> None:
    for number, session in enumerate(sessions):
        if number:
            say()
        _say_session(session)
    best = _short(sessions[0].id)
    root = best.partition("/")[0]
    note(HOW_TO_USE.format(root=root, best=best))


def no_match(query: str, here: bool = False, kind: MessageKind | None = None) -> str:
    """Return the message for a search that has no hits."""
    return NO_MATCH.format(
        query=clip_cells(query, 60),
        kind=f" of kind {kind}" if kind else "",
        folder=" of this folder's sessions" if here else "",
        hint="; without --here, all sessions are searched" if here else "",
    )


def _short(session: str) -> str:
    """Return a session's short id.

    For a subagent's session, returns `PARENT/CHILD`.
    """
    root, *children = session.split("/")
    return "/".join((short_id(root), *children))


def _say_session(session: SessionHits) -> None:
    room = width()
    say(clip_cells(session.title or "(no prompt yet)", room), "bold")
    written = age(session.updated_at, utc_now().astimezone())
    details = [_short(session.id), written]
    if session.archived:
        details.append("archived")
    details.append(shown_folder(session.cwd, max(20, room - 30)))
    say("  " + clip_cells(" · ".join(details), room - 2), "muted")
    shown = session.hits[:_HITS]
    digits = max(len(str(hit.index)) for hit in shown)
    for hit in shown:
        prefix = f"{'':{_INDENT}}{hit.index:>{digits}}  {hit.kind:<11}  "
        say(prefix + _excerpt(hit, room - len(prefix)))
    more = session.total - len(shown)
    if more > 0:
        at_least = ", at least" if session.more else ""
        say(f"{'':{_INDENT + digits + 2}}and {more} more{at_least}", "muted")


def _excerpt(hit: SessionHit, room: int) -> str:
    """Return the excerpt, cut to `room` cells.

    If the first match would be cut off, the excerpt starts shortly before it.
    """
    text = hit.excerpt
    first, end = hit.marks[0] if hit.marks else (0, 0)
    if cells(text[:end]) >= room:
        text = "…" + text[max(0, first - room // 8) :]
    return clip_cells(text, room)
