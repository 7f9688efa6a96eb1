"""The words of the Sessions screen: header, frames, details, questions, status row, hints. Pure."""

from typing import Final

from foldline.agent.tools.text import sized
from foldline.context import numbers
from foldline.formats.detection import FOREIGN
from foldline.formats.homes import PLACES
from foldline.history import age, short_id
from foldline.history.lock import Holder
from foldline.history.paths import with_tilde
from foldline.history.session_search import SessionHit
from foldline.tui.blocks import Span, Spans, clean_line, cut_left
from foldline.tui.blocks.cells import Piece, piece, row
from foldline.tui.keys.commands import key_of
from foldline.tui.sessions.keys import Facts, called, hints
from foldline.tui.sessions.rows import Look, emphasised, named_note
from foldline.tui.sessions.state import SCOPES, Listed, Scope, SessionsState, Shown

_NAMES: Final[dict[Scope, str]] = {
    "here": "This folder",
    "all": "All folders",
    "archived": "Archived",
    "others": "Other agents",
}
_KEPT: Final = ("help", "resume", "search")
"""Commands whose hints a narrow row keeps longest: the first leads to all others."""
_LABEL: Final = 8


def header_row(title: str, state: SessionsState, width: int) -> list[Span]:
    """` shop-api ▸ Idempotent orders ▸ Sessions            all folders · F1 help `."""
    name: Spans = ((clean_line(title), "bold"), (" ▸ ", "muted"), ("Sessions", "text bold"))
    right = [
        piece(f"{_NAMES[state.scope].lower()} ·", "text", rank=1),
        Piece(((key_of("help"), "accent"), (" help", "muted")), rank=2, gap=1),
    ]
    return row([Piece(name, cut="left", least=width // 3)], right, width)


def tabs(scope: Scope) -> Spans:
    """`1 This folder  2 All folders  3 Archived  4 Other agents`, the chosen one bold."""
    spans: list[Span] = []
    for at, each in enumerate(SCOPES):
        spans.append((f"{'  ' if at else ''}{_scope_key(each)} ", "muted"))
        spans.append((_NAMES[each], "text bold" if each == scope else "muted"))
    return tuple(spans)


def _scope_key(scope: Scope) -> str:
    return called(f"scope-{SCOPES.index(scope) + 1}")


def count(state: SessionsState, sessions: tuple[Shown, ...]) -> str:
    """`12 sessions`, `4 of 3,000`."""
    if state.listing is None or state.listing.failure:
        return ""
    all_of_them = len(state.listing.rows)
    more = "+" if state.listing.more else ""
    if state.asked is not None:
        return f"{len(sessions):,} of {all_of_them:,}{more}"
    return f"{all_of_them:,}{more} session{'s' * (all_of_them != 1)}"


def search_foot(state: SessionsState) -> Spans:
    """How the search stands, in the lower edge of its frame."""
    if state.asked is None:
        return ()
    if state.scope == "others":
        return (("titles and first prompts; imported ones are searched whole", "muted"),)
    if state.trouble:
        return ((clean_line(state.trouble), "altered"),)
    if state.indexed:
        return ((f"the index is being built: {int(state.indexed * 100)} % is searched", "altered"),)
    if state.searching or state.found is None or state.indexed is not None:
        return (("searching …", "muted"),)
    if not state.found.complete:
        return (("there may be more: another word narrows it down", "muted"),)
    return (("titles, prompts and all that was said", "muted"),)


def empty(state: SessionsState) -> tuple[list[str], str]:
    """What stands in a list without rows, and its style."""
    if state.listing is None:
        return ["Reading the sessions …"], "muted"
    if state.listing.failure:
        return [
            state.listing.failure,
            f"Nothing was changed. {_scope_key('others')} shows what other agents keep.",
        ], "alert"
    if state.listing.rows:
        return _nothing_found(state), "muted"
    match state.scope:
        case "here":
            return [
                "No session of this folder has been kept yet. The first prompt makes one.",
                f"{_scope_key('all')} shows those of all folders, {_scope_key('others')} those of other "
                "agents.",
            ], "muted"
        case "all":
            return [
                "No session has been kept yet. The first prompt makes one.",
                f"{_scope_key('others')} shows those of other agents.",
            ], "muted"
        case "archived":
            return [
                f"Nothing is archived. In the other lists, {called('archive')} puts a session away."
            ], "muted"
        case "others":
            return [f"No sessions of {_agents()} in their usual folders."], "muted"


def _nothing_found(state: SessionsState) -> list[str]:
    query = clean_line(state.query.strip())
    if state.scope != "others" and (state.found is None or state.indexed is not None):
        return [f"No title or prompt holds “{query}”. What was said is being searched …"]
    where = {
        "here": "No session of this folder",
        "all": "No session",
        "archived": "No archived session",
        "others": "No title or first prompt of another agent's session",
    }[state.scope]
    several = " in one entry" if len(query.split()) > 1 and state.scope != "others" else ""
    sentences = [f"{where} holds “{query}”{several}."]
    if state.scope == "here":
        sentences.append(
            f"{_scope_key('all')} looks in those of all folders, {_scope_key('archived')} in archived ones."
        )
    return sentences


def _agents() -> str:
    titles = {known.name: known.title for known in FOREIGN}
    *others, last = [titles[place.agent] for place in PLACES if place.patterns]
    return f"{', '.join(others)} or {last}"


# --- the session under the cursor -------------------------------------------------------------------


def details(listed: Listed, holder: Holder | None, look: Look, width: int, rows: int) -> list[list[Span]]:
    """What is known of a session, in so many rows; trouble first, then what tells it from others."""
    lines: list[tuple[str, list[Span]]] = []
    if holder is not None and listed.path != look.here:
        lines.append(("held by", [(clean_line(str(holder)), "altered")]))
    if listed.note:
        lines.append(("damage", [(clean_line(named_note(listed)), "alert")]))
    lines.append(("first", _prompt(listed.first_prompt, look)))
    if listed.last_prompt and listed.last_prompt != listed.first_prompt:
        lines.append(("last", _prompt(listed.last_prompt, look)))
    lines.append(("what", [(_figures(listed, look), "text")]))
    path, cells = with_tilde(str(listed.path)), max(width - _LABEL - 4, 8)
    lines.append(("folder", [(cut_left(clean_line(_place(listed)), cells), "text")]))
    lines.append(("file", [(cut_left(clean_line(path), cells), "muted")]))
    while len(lines) > rows:
        names = [name for name, _ in lines]
        lines.pop(next(names.index(name) for name in _YIELDS if name in names))
    return [[(f" {name:<{_LABEL}}", "muted"), *spans] for name, spans in lines]


_YIELDS: Final = ("file", "last", "folder", "first", "what", "damage", "held by")
"""Details in the order in which they go where there is no room."""


def _prompt(text: str, look: Look) -> list[Span]:
    return emphasised(clean_line(text), look.asked, "text") if text else [("nothing typed", "muted")]


def _figures(listed: Listed, look: Look) -> str:
    known = [listed.agent, clean_line(listed.model)]
    if listed.ours and listed.readable:
        known.append(f"{listed.entries:,} entr{'y' if listed.entries == 1 else 'ies'}")
        known.append(f"{numbers.tokens(listed.tokens)} tokens" if listed.tokens else "")
    known.append(sized(listed.size) if listed.size else "")
    if listed.created_at is not None and listed.readable:
        known.append(f"begun {listed.created_at.astimezone(look.now.tzinfo):%Y-%m-%d %H:%M}")
    known.append("archived" if listed.archived else "")
    return " · ".join(filter(None, known))


def _place(listed: Listed) -> str:
    if listed.moved_from:
        return f"here now; moved from {with_tilde(listed.moved_from)}"
    return with_tilde(listed.cwd) or "not known"


def details_head(listed: Listed) -> str:
    return clean_line(short_id(listed.id) if listed.ours else f"{listed.agent}:{listed.id}")


# --- questions --------------------------------------------------------------------------------------


def name_of(listed: Listed) -> str:
    """A session in a sentence: its title, or its id."""
    return f"“{clean_line(listed.title)}”" if listed.title else short_id(listed.id)


def delete_question(listed: Listed, look: Look) -> str:
    known = [f"last written {age(listed.updated_at, look.now)}"]
    known.append(f"{listed.entries:,} entries" if listed.readable else "unreadable")
    known.append(sized(listed.size))
    return f"Delete {name_of(listed)} ({', '.join(known)}) for good? Nothing brings it back."


def held_question(listed: Listed, holder: Holder) -> str:
    return f"{name_of(listed)} is being written by {holder}: only one may write to a session."


def leaving_question(lost: str) -> str:
    return f"Leave this chat? {lost}"


# --- status and hints -------------------------------------------------------------------------------


def status_row(
    shown: Shown | None, hit: SessionHit | None, facts: Facts, news: str, closes: str, width: int
) -> list[Span]:
    """The news, or what keys would do to the session under the cursor. `closes`: what Esc does, where the row
    of hints has no room to say so."""
    words = clean_line(news) if news else _doing(shown, hit, facts)
    right = [piece(f"Esc {closes}", "muted", rank=1)] if closes else []
    left = [Piece(((words, "text"),), cut="right", least=width // 3)] if words else []
    return row(left, right, width)


def _doing(shown: Shown | None, hit: SessionHit | None, facts: Facts) -> str:
    if facts.mode == "asking":
        return "" if facts.in_strip else f"A question waits: {called('other')} goes to it"
    if facts.mode == "field":
        return "Enter goes to the list"
    if shown is None or not facts.row:
        return ""
    listed = shown.row
    if not listed.readable:
        return named_note(listed)
    if not listed.ours:
        return f"Enter reads it · {called('import')} copies it and goes on in the copy"
    if facts.here:
        return "Enter: back to this chat"
    size = f", {numbers.tokens(listed.tokens)} of context" if listed.tokens else ""
    if hit is not None:
        read, fork = called("read"), called("fork")
        return f"Enter goes on with it{size} · {read} reads it at {hit.index} · {fork} forks it there"
    return f"Enter goes on with it{size} · {called('fork')} goes on in a copy"


def hints_row(facts: Facts, closes: str, width: int) -> list[Span]:
    """The keys that work now."""
    ranks = {called(command): rank for rank, command in enumerate(_KEPT)}
    pieces = [
        Piece(((name, "accent"), (f" {word}", "muted")), rank=ranks.get(name, len(ranks) + place), gap=2)
        for place, (name, word) in enumerate(hints(facts, closes))
    ]
    *left, last = pieces
    return row(left, [Piece(last.spans, gap=2)], width)
