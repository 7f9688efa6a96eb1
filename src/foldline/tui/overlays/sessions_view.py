"""Texts and items of the list of sessions. Pure functions."""

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from foldline.formats.detection import FOREIGN
from foldline.formats.homes import AGENT_FOLDERS
from foldline.frontend.keymap import ScreenKey, name_of, table
from foldline.history import age, short_id
from foldline.history.paths import with_tilde
from foldline.history.session_search import SessionHit
from foldline.text import numbers
from foldline.text.harmless import clean_line
from foldline.text.numbers import sized
from foldline.text.search import Query, marks
from foldline.tui.lists.picker import PickerItem, Ranked
from foldline.tui.look.cells import Span, cut_left
from foldline.tui.overlays.sessions_list import (
    ListRow,
    Scope,
    SessionRow,
    SessionsState,
)

KEYS: Final = table(
    "sessions",
    "List",
    ScreenKey[None](
        "scope",
        ("tab",),
        "Goes to the next list: this folder, all folders, archived sessions, other agents' sessions.",
        hint="list",
        place="anywhere",
    ),
    ScreenKey(
        "actions",
        ("ctrl+o",),
        "Lists what can be done with the session: read, fork or import, rename, archive, delete.",
        hint="actions",
        place="anywhere",
    ),
)

_AGE = 11
_LEAD: Final = 24
"""Number of characters of an excerpt before its first match."""
_KINDS: Final = {
    "system": "system",
    "user": "user",
    "title": "title",
    "assistant": "assist",
    "developer": "dev",
    "tool_result": "result",
    "revert": "rewind",
}
SCOPE_NAMES: Final[dict[Scope, str]] = {
    "here": "This folder",
    "all": "All folders",
    "archived": "Archived",
    "others": "Other agents",
}
UNTITLED: Final = "(no prompt yet)"
UNTITLED_FOREIGN: Final = "(no prompt near the start)"
THIS_CHAT: Final = "this chat · "


@dataclass(frozen=True, slots=True)
class RowContext:
    """State that all rows share."""

    scope: Scope
    now: datetime
    query: Query | None = None
    here: Path | None = None
    """Event file of this chat."""


def row_id(row: ListRow) -> str:
    """Return the id of the row's item."""
    index = "" if row.hit is None else f"#{row.hit.index}"
    return f"{row.session.path}{index}"


def ranked_item(row: ListRow, context: RowContext) -> Ranked:
    """Return the item of a session or a match, with the positions of the query's letters."""
    if row.hit is not None:
        return _hit_item(row_id(row), row.hit, row.more)
    session = row.session
    lead = f"{age(session.updated_at, context.now):<{_AGE}}  {'! ' if session.note else ''}"
    is_here = context.here is not None and session.path == context.here
    if is_here:
        lead += THIS_CHAT
    title = clean_line(_title(session))
    ranges = marks(title, context.query) if context.query is not None else ()
    letters = {len(lead) + at for start, stop in ranges for at in range(start, stop)}
    item = PickerItem(
        row_id(row), lead + title, _note(session, context.scope), _sizes(session)
    )
    return Ranked(item, frozenset(letters))


def _title(session: SessionRow) -> str:
    if not session.readable:
        return short_note(session)
    return session.title or (UNTITLED_FOREIGN if session.agent else UNTITLED)


def _note(session: SessionRow, scope: Scope) -> str:
    """Return the folder of a session or, in the list of this folder, its last prompt."""
    if scope != "here":
        return " · ".join(filter(None, (session.agent, with_tilde(session.cwd))))
    repeats = session.last_prompt in (session.title, session.first_prompt)
    return "" if repeats else session.last_prompt


def _sizes(session: SessionRow) -> str:
    if not session.is_ours:
        return sized(session.size) if session.size else ""
    if not session.readable:
        return ""
    tokens = numbers.tokens(session.tokens) if session.tokens else ""
    return f"{session.entries:>6,} {tokens:>7}"


def _hit_item(id: str, hit: SessionHit, more: int) -> Ranked:
    """Return the item of a match, for example `     352  user    … the payments table …`."""
    kind = _KINDS.get(hit.kind, clean_line(hit.kind))
    lead = f"{hit.index:>{_AGE}}  {kind:<8}"
    first = hit.marks[0][0] if hit.marks else 0
    skipped = max(first - _LEAD, 0)
    if skipped:
        lead += "…"
    excerpt = clean_line(hit.excerpt[skipped:])
    letters = {
        len(lead) + at - skipped
        for start, stop in hit.marks
        for at in range(start, stop)
    }
    note = f"+{more:,} more" if more else ""
    return Ranked(PickerItem(id, lead + excerpt, note), frozenset(letters))


def short_note(row: SessionRow) -> str:
    """Return a message that describes a session's damage.

    The message contains no paths.
    """
    return row.note.replace(str(row.path), "the file").replace(
        str(row.path.parent), "the folder"
    )


FOREIGN_SEARCH: Final = (
    "titles and first prompts only; import a session to search its messages"
)
SEARCHING: Final = "searching …"
MORE_MATCHES: Final = "there may be more matches: add a word to narrow the search"
SEARCHED: Final = "titles, prompts and messages"
LISTING: Final = "Loading sessions …"
UNCHANGED: Final = "Nothing was changed."
NO_SESSIONS: Final[dict[Scope, str]] = {
    "here": "No sessions in this folder yet. The first prompt creates one.",
    "all": "No sessions yet. The first prompt creates one.",
    "archived": "No archived sessions. To archive a session, press {actions} in another list.",
    "others": "No sessions of {agents} found in the folders where these agents keep them.",
}
NO_MATCH_YET: Final = "No title or prompt contains “{query}”. Searching the messages …"
NO_MATCH: Final[dict[Scope, str]] = {
    "here": "No session in this folder contains “{query}”",
    "all": "No session contains “{query}”",
    "archived": "No archived session contains “{query}”",
    "others": "No title or first prompt of another agent's session contains “{query}”",
}
IN_ONE_ENTRY: Final = " in one entry"


def search_state(state: SessionsState) -> str:
    """Return a message about the search."""
    if state.parsed_query is None:
        return ""
    if state.scope == "others":
        return FOREIGN_SEARCH
    if state.search_error:
        return state.search_error
    if state.is_searching or state.matches is None:
        return SEARCHING
    return SEARCHED if state.matches.complete else MORE_MATCHES


def empty(state: SessionsState) -> str:
    """Return the message shown in an empty list."""
    if state.listing is None:
        return LISTING
    if state.listing.failure:
        return f"{state.listing.failure} {UNCHANGED}"
    if state.listing.rows:
        return _no_match(state)
    return NO_SESSIONS[state.scope].format(
        agents=_agents(), actions=name_of(KEYS, "actions")
    )


def _no_match(state: SessionsState) -> str:
    query = clean_line(state.query.strip())
    if state.scope == "others":
        return f"{NO_MATCH['others'].format(query=query)}."
    if state.matches is None:
        return NO_MATCH_YET.format(query=query)
    in_one_entry = IN_ONE_ENTRY if len(query.split()) > 1 else ""
    return f"{NO_MATCH[state.scope].format(query=query)}{in_one_entry}."


def _agents() -> str:
    titles = {agent.name: agent.title for agent in FOREIGN}
    *others, last = [titles[place.agent] for place in AGENT_FOLDERS if place.patterns]
    return f"{', '.join(others)} or {last}"


NO_PROMPT: Final = "no prompt"
MOVED: Final = "moved here from {folder}"
UNKNOWN_FOLDER: Final = "unknown"


def details(session: SessionRow, context: RowContext, width: int) -> list[list[Span]]:
    """Draw the details of a session, the most important first."""
    texts = {"damage": short_note(session), "about": _figures(session, context)}
    texts["first"] = session.first_prompt or NO_PROMPT
    if session.last_prompt != session.first_prompt:
        texts["last"] = session.last_prompt
    texts["folder"] = cut_left(clean_line(_folder(session)), width)
    texts["file"] = cut_left(clean_line(with_tilde(str(session.path))), width)
    return [
        [(f" {name:<8}", "muted"), (clean_line(text), "text")]
        for name, text in texts.items()
        if text
    ]


def _figures(session: SessionRow, context: RowContext) -> str:
    facts = [session.agent, clean_line(session.model)]
    if session.is_ours and session.readable:
        facts.append(numbers.many(session.entries, "entry", "entries"))
        facts.append(
            f"{numbers.tokens(session.tokens)} tokens" if session.tokens else ""
        )
    facts.append(sized(session.size) if session.size else "")
    if session.created_at is not None and session.readable:
        facts.append(
            f"started {session.created_at.astimezone(context.now.tzinfo):%Y-%m-%d %H:%M}"
        )
    facts.append("archived" if session.archived else "")
    return " · ".join(filter(None, facts))


def _folder(session: SessionRow) -> str:
    if session.moved_from:
        return MOVED.format(folder=with_tilde(session.moved_from))
    return with_tilde(session.cwd) or UNKNOWN_FOLDER


def session_name(session: SessionRow) -> str:
    """Return the session's title in quotes, or its id if it has no title."""
    return f"“{clean_line(session.title)}”" if session.title else short_id(session.id)


DELETE_QUESTION: Final = "Delete {session}?"
NO_UNDO: Final = "{facts}. This cannot be undone."


def delete_facts(session: SessionRow, context: RowContext) -> str:
    """Describe a session before its deletion."""
    facts = [f"last written {age(session.updated_at, context.now)}"]
    facts.append(
        numbers.many(session.entries, "entry", "entries")
        if session.readable
        else "unreadable"
    )
    facts.append(sized(session.size))
    return NO_UNDO.format(facts=", ".join(facts))
