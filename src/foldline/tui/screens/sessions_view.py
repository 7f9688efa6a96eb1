"""What the Sessions screen shows: its keys, its words, the rows of its list. Pure."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Final, Literal

from rich.cells import cell_len

from foldline.agent.tools.text import sized
from foldline.context import numbers
from foldline.context.harmless import clean_line
from foldline.context.text_search import Query, marks
from foldline.formats.detection import FOREIGN
from foldline.formats.homes import AGENT_FOLDERS
from foldline.history import age, short_id
from foldline.history.paths import with_tilde
from foldline.history.session_search import SessionHit
from foldline.tui.blocks.cells import Side, Span, Spans, crop, cut_left, cut_right, width_of
from foldline.tui.blocks.plain import Column, RowBlock
from foldline.tui.keys.table import HELP, ScreenKey, moves, name_of, table
from foldline.tui.screens.sessions_list import SCOPES, Listed, Scope, SessionsState

KEYS: Final = table(
    "sessions",
    "Session",
    ScreenKey[None](
        "resume",
        ("enter",),
        "Opens the session, beside this chat. Where another process writes to it, asks what "
        "to do instead; another agent's is opened to be read.",
        hint="resume",
    ),
    ScreenKey(
        "read",
        ("o",),
        "Opens it in the Inspector, read-only: at the match, where the mark stands on one.",
        hint="read",
    ),
    ScreenKey("fork", ("f",), "Goes on in a copy; on a match, in one that ends there.", hint="fork"),
    ScreenKey("import", ("i",), "Copies another agent's session and goes on in the copy.", hint="import"),
    ScreenKey("rename", ("r",), "Gives the session another title.", hint="rename"),
    ScreenKey("archive", ("x",), "Archives the session, or brings it back.", hint="archive"),
    ScreenKey("delete", ("D",), "Deletes the session for good, after a question.", hint="delete"),
    "List",
    ScreenKey(
        "search",
        ("/",),
        "To the search line: what titles and prompts hold is there at once, then what was ever said. "
        'Every word must occur in one entry; "quoted words" as they stand.',
        hint="search",
    ),
    ScreenKey("other", ("tab", "shift+tab"), "To the search line and back."),
    ScreenKey("scope-1", ("1",), "The sessions of this folder."),
    ScreenKey("scope-2", ("2",), "The sessions of all folders."),
    ScreenKey("scope-3", ("3",), "The archived sessions."),
    ScreenKey("scope-4", ("4",), "The sessions other agents keep in their own folders."),
    ScreenKey("scope", ("s",), "The next of these four.", hint="scope", shown="s 1–4"),
    *moves("row", far="A screen"),
    "Program",
    HELP,
    ScreenKey(
        "close",
        ("escape",),
        "Leaves the field or the search line, ends the search, else closes the screen.",
        hint="close",
    ),
)

called = partial(name_of, KEYS)
"""How a sentence calls the key of a command."""


MATCH: Final = "accent bold underline"
_AGE, _GAP = 11, 2
_EXCERPT: Final = 16
"""Cells an excerpt has at least before it is said how many more matches there are."""
_KINDS: Final = {
    **{each: each for each in ("system", "user", "title")},
    "assistant": "assist",
    "developer": "dev",
    "tool_result": "result",
    "revert": "rewind",
}


@dataclass(frozen=True, slots=True)
class Look:
    """What all rows are drawn by."""

    scope: Scope
    now: datetime
    asked: Query | None = None
    here: Path | None = None
    """The event file of the session of this chat."""


_COLUMNS: Final[dict[str, tuple[int, Side, Literal["first", "last"]]]] = {
    "agent": (11, "left", "last"),
    "last prompt": (60, "left", "first"),
    "folder": (22, "left", "last"),
    "entries": (7, "right", "last"),
    "tokens": (7, "right", "last"),
    "size": (8, "right", "last"),
    "model": (18, "left", "first"),
}
"""In the order in which they stand: cells, alignment, when a narrow row gives them up."""
_ONLY: Final[dict[str, tuple[Scope, ...]]] = {
    "agent": ("others",),
    "last prompt": ("here", "all", "archived"),
    "folder": ("all", "archived", "others"),
    "entries": ("here", "all", "archived"),
    "tokens": ("here", "all", "archived"),
    "size": ("others",),
}
"""Columns that not every scope has."""


def _line(lead: str, main: Spans, cell: Callable[[str], str], scope: Scope, width: int) -> list[Span]:
    columns = []
    for name, (cells, side, drop) in _COLUMNS.items():
        if scope in _ONLY.get(name, SCOPES):
            shown = (cut_left if name == "folder" else cut_right)(cell(name), cells)
            blanks = " " * (cells - cell_len(shown))
            style = "text" if name == "tokens" else "muted"
            columns.append(
                Column(shown + blanks if side == "left" else blanks + shown, style=style, drop=drop)
            )
    return RowBlock((0, 0), ((f"{lead:<{_AGE + _GAP}}", "muted"),), main, tuple(columns), least=15).line(
        width
    )


def heading(width: int, scope: Scope) -> list[Span]:
    """The names of the columns."""
    line = _line("written", (("session", ""),), lambda name: name, scope, width)
    return [(text, "muted") for text, _ in crop(line, width)]


def session_row(row: Listed, look: Look, width: int) -> list[Span]:
    """` 3 h ago    Idempotent orders                  398    28.6k  kimi-k2`."""
    cell = partial(_cell, row)
    return crop(
        _line(age(row.updated_at, look.now), tuple(_title(row, look)), cell, look.scope, width), width
    )


def _title(row: Listed, look: Look) -> list[Span]:
    remark = ("this chat · ", "accent") if look.here is not None and row.path == look.here else ("", "")
    sign = ("! " if row.note else "", "alert")
    if not row.readable:
        return [sign, (clean_line(named_note(row)), "alert")]
    title = row.title or ("(nothing typed near its beginning)" if row.agent else "(nothing said yet)")
    return [sign, remark, *_asked_for(clean_line(title), look, "text" if row.title else "muted")]


def named_note(row: Listed) -> str:
    """What is wrong with it, its long path left out."""
    return row.note.replace(str(row.path), "its file").replace(str(row.path.parent), "its folder")


def _cell(row: Listed, column: str) -> str:
    match column:
        case "agent":
            return row.agent
        case "last prompt":
            return clean_line("" if row.last_prompt in (row.title, row.first_prompt) else row.last_prompt)
        case "folder":
            return clean_line(with_tilde(row.cwd))
        case "model":
            return clean_line(row.model.rsplit("/", 1)[-1])
        case "entries":
            return f"{row.entries:,}" if row.readable else ""
        case "tokens":
            return numbers.tokens(row.tokens) if row.tokens else ""
        case _:
            return sized(row.size) if row.size else ""


def hit_row(hit: SessionHit, more: int, width: int) -> list[Span]:
    """`     352 user    … never touch the payments table …   +12 more`."""
    kind = _KINDS.get(hit.kind, clean_line(hit.kind))
    lead = f"{'':{_GAP}}{hit.index:>{_AGE - 2}}  {kind:<8}"
    tail = f"   +{more:,} more" if more else ""
    if width - len(lead) - len(tail) < _EXCERPT:
        tail = ""
    room = max(width - len(lead) - len(tail), 1)
    return crop([(lead, "muted"), *crop(_around(hit, room), room), (tail, "muted")], width)


def _around(hit: SessionHit, room: int) -> list[Span]:
    """The excerpt, its matches marked; where it is too long, from a little before the first of them."""
    spans = _marked(hit.excerpt, hit.marks, "text")
    if width_of(spans) > room and len(spans) > 1:
        spans[0] = (cut_left(spans[0][0], max(room // 3, 1)), "text")
    return spans


def _asked_for(text: str, look: Look, style: str) -> list[Span]:
    """Clean text with what was asked for marked in it."""
    return _marked(text, marks(text, look.asked) if look.asked is not None else (), style)


def _marked(text: str, places: Iterable[tuple[int, int]], style: str) -> list[Span]:
    spans: list[Span] = []
    at = 0
    for start, stop in places:
        spans += [(clean_line(text[at:start]), style), (clean_line(text[start:stop]), MATCH)]
        at = stop
    return [*spans, (clean_line(text[at:]), style)]


_NAMES: Final[dict[Scope, str]] = {
    "here": "This folder",
    "all": "All folders",
    "archived": "Archived",
    "others": "Other agents",
}
_LABEL: Final = 8


def title_spans(title: str) -> Spans:
    """`shop-api ▸ Idempotent orders ▸ Sessions`."""
    return (clean_line(title), "bold"), (" ▸ ", "muted"), ("Sessions", "text bold")


def tabs(scope: Scope) -> Spans:
    """`1 This folder  2 All folders  3 Archived  4 Other agents`, the chosen one bold."""
    spans: list[Span] = []
    for at, each in enumerate(SCOPES):
        key = called(f"scope-{at + 1}")
        spans.append((f"{'  ' if at else ''}{key} ", "muted"))
        spans.append((_NAMES[each], "text bold" if each == scope else "muted"))
    return tuple(spans)


def count(state: SessionsState, shown: int) -> str:
    """`12 sessions`, `4 of 3,000`, of which so many are shown."""
    if state.listing is None or state.listing.failure:
        return ""
    all_of_them = len(state.listing.rows)
    more = "+" if state.listing.more else ""
    if state.asked is not None:
        return f"{shown:,} of {all_of_them:,}{more}"
    return f"{all_of_them:,}{more} session{'s' * (all_of_them != 1)}"


def search_foot(state: SessionsState) -> Spans:
    """How the search stands, on the rule below its line."""
    if state.asked is None:
        return ()
    if state.scope == "others":
        return (("titles and first prompts; imported ones are searched whole", "muted"),)
    if state.trouble:
        return ((clean_line(state.trouble), "altered"),)
    if state.searching or state.found is None:
        return (("searching …", "muted"),)
    if not state.found.complete:
        return (("there may be more: another word narrows it down", "muted"),)
    return (("titles, prompts and all that was said", "muted"),)


def empty(state: SessionsState) -> Span:
    """What stands in a list without rows, and its style. Where else to look, the tabs above it say."""
    if state.listing is None:
        return "Reading the sessions …", "muted"
    if state.listing.failure:
        return f"{state.listing.failure} Nothing was changed.", "alert"
    if state.listing.rows:
        return _nothing_found(state), "muted"
    sentence = {
        "here": "No session of this folder has been kept yet. The first prompt makes one.",
        "all": "No session has been kept yet. The first prompt makes one.",
        "archived": f"Nothing is archived. In the other lists, {called('archive')} puts a session away.",
        "others": f"No sessions of {_agents()} in their usual folders.",
    }[state.scope]
    return sentence, "muted"


def _nothing_found(state: SessionsState) -> str:
    query = clean_line(state.query.strip())
    if state.scope != "others" and state.found is None:
        return f"No title or prompt holds “{query}”. What was said is being searched …"
    where = {
        "here": "No session of this folder",
        "all": "No session",
        "archived": "No archived session",
        "others": "No title or first prompt of another agent's session",
    }[state.scope]
    several = " in one entry" if len(query.split()) > 1 and state.scope != "others" else ""
    return f"{where} holds “{query}”{several}."


def _agents() -> str:
    titles = {known.name: known.title for known in FOREIGN}
    *others, last = [titles[place.agent] for place in AGENT_FOLDERS if place.patterns]
    return f"{', '.join(others)} or {last}"


def details(listed: Listed, look: Look, width: int, rows: int) -> list[list[Span]]:
    """What is known of a session, in so many rows; trouble first, then what tells it from others."""
    lines: list[tuple[str, list[Span]]] = []
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


_YIELDS: Final = ("file", "last", "folder", "first", "what", "damage")
"""Details in the order in which they go where there is no room."""


def _prompt(text: str, look: Look) -> list[Span]:
    return _asked_for(clean_line(text), look, "text") if text else [("nothing typed", "muted")]


def _figures(listed: Listed, look: Look) -> str:
    known = [listed.agent, clean_line(listed.model)]
    if listed.ours and listed.readable:
        known.append(numbers.many(listed.entries, "entry", "entries"))
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


def session_name(listed: Listed) -> str:
    """A session in a sentence: its title, or its id."""
    return f"“{clean_line(listed.title)}”" if listed.title else short_id(listed.id)


def delete_question(listed: Listed, look: Look) -> str:
    known = [f"last written {age(listed.updated_at, look.now)}"]
    known.append(numbers.many(listed.entries, "entry", "entries") if listed.readable else "unreadable")
    known.append(sized(listed.size))
    return f"Delete {session_name(listed)} ({', '.join(known)}) for good? Nothing brings it back."
