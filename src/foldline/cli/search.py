"""`foldline search`: in which session something was said, called or returned."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

from foldline.context.harmless import with_signs
from foldline.history import MessageKind, age, data_home, short_id, utc_now
from foldline.history.meta import cells, clip_cells
from foldline.history.session_search import (
    SessionHit,
    SessionHits,
    SessionsFound,
    search_sessions,
    sessions_to_search,
)

from .arguments import UsageError
from .output import Bar, Json, note, paint, say, say_json, shown_folder, width
from .streams import write_out

_HITS: Final = 3
"""Shown of each session."""
_INDENT: Final = 4
_LIMIT: Final = 10
"""Sessions that are listed, where nobody says how many."""


def search(
    words: Sequence[str], here: bool, kind: MessageKind | None, limit: int | None, as_json: bool
) -> int:
    query = " ".join(words)
    if not query.strip():
        raise UsageError("Say what to look for: `foldline search WORD…`.")
    sessions = sessions_to_search(data_home(), Path.cwd() if here else None)
    with Bar(len(sessions)) as bar:
        found = search_sessions(
            sessions,
            query,
            limit=limit or _LIMIT,
            kind=kind,
            on_session=lambda info: bar.step(f"searching {clip_cells(info.meta.title, 40)}"),
        )
    if as_json:
        say_json({"sessions": [hits_json(session) for session in found.sessions], "complete": found.complete})
    else:
        say_found(found, query, here, kind)
    return 0


def hits_json(session: SessionHits) -> Json:
    fields = asdict(session)
    return {"matches": fields.pop("total"), **fields}


def say_found(found: SessionsFound, query: str, here: bool, kind: MessageKind | None) -> None:
    if not found.sessions:
        note(_nothing(query, here, kind))
    for place, session in enumerate(found.sessions):
        if place:
            say()
        _say_session(session)
    if found.sessions:
        best = _short(found.sessions[0].id)
        whole = best.partition("/")[0]
        note(f"`foldline -r {whole}` continues the first of them, `foldline open {best}` shows it.")
    if not found.complete:
        note("There may be more: another word narrows it down, --limit shows more sessions.")


def _nothing(query: str, here: bool, kind: MessageKind | None) -> str:
    where = "No session of this folder" if here else "No session"
    what = f" as {kind}" if kind else ""
    several = " in one entry" if len(query.split()) > 1 else ""
    rest = "; without --here, all are searched" if here else ""
    return f"{where} contains {clip_cells(query, 60)}{several}{what}{rest}."


def _short(session: str) -> str:
    """The id as it is typed; of a subagent's session, behind that of its parent."""
    own, *below = session.split("/")
    return "/".join((short_id(own), *below))


def _say_session(session: SessionHits) -> None:
    room = width()
    say(clip_cells(session.title or "(nothing said yet)", room), "bold")
    written = age(session.updated_at, utc_now().astimezone())
    about = [_short(session.id), written, *(["archived"] if session.archived else [])]
    folder = shown_folder(session.cwd, max(20, room - 30))
    say("  " + clip_cells(" · ".join([*about, folder]), room - 2), "muted")
    shown = session.hits[:_HITS]
    numbers = max(len(str(hit.index)) for hit in shown)
    for hit in shown:
        left = f"{'':{_INDENT}}{hit.index:>{numbers}}  {hit.kind:<11}  "
        write_out(left + _marked(hit, room - len(left)) + "\n")
    more = session.total - len(shown)
    if more > 0:
        at_least = ", at least" if session.more else ""
        say(f"{'':{_INDENT + numbers + 2}}and {more} more{at_least}", "muted")


def _marked(hit: SessionHit, room: int) -> str:
    """As much of the excerpt as fits around its first match, the matches painted."""
    start, end = _around(hit, room)
    shown = [paint("…", "muted")] if start else []
    at = start
    for first, last in hit.marks:
        if last <= start or first >= end:
            continue
        shown.append(with_signs(hit.excerpt[at : max(at, first)]))
        shown.append(paint(with_signs(hit.excerpt[max(at, first) : min(last, end)]), "altered"))
        at = min(last, end)
    shown.append(with_signs(hit.excerpt[at:end]))
    return "".join(shown) + (paint("…", "muted") if end < len(hit.excerpt) else "")


def _around(hit: SessionHit, room: int) -> tuple[int, int]:
    """The characters of the excerpt that are shown: a third of the room before its first match."""
    text = hit.excerpt
    if cells(text) <= room:
        return 0, len(text)
    first = hit.marks[0][0] if hit.marks else 0
    start = first
    while start > 0 and cells(text[start - 1 : first]) <= room // 3:
        start -= 1
    end = start
    while end < len(text) and cells(text[start : end + 1]) <= room - 2:
        end += 1
    return start, end
