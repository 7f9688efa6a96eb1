"""The rows of the list: a session, a match in it, the names of the columns. Drawn when they are looked at."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from rich.cells import cell_len
from textual.strip import Strip

from foldline.agent.tools.text import sized
from foldline.context import numbers
from foldline.context.text_search import Query, marks
from foldline.history import age
from foldline.history.paths import with_tilde
from foldline.history.session_search import SessionHit
from foldline.tui.blocks import Block, Span, Styles, TextBlock, clean_line, cut_left, cut_right
from foldline.tui.blocks.cells import crop, to_strip, width_of
from foldline.tui.inspector.text import KINDS
from foldline.tui.sessions.state import Listed, Scope, Shown

MATCH: Final = "accent bold underline"
_AGE, _GAP = 11, 2
_TITLE: Final = 76
"""Cells a title takes at most: it is no longer, and what stands behind it should not be far from it."""
_EXCERPT: Final = 16
"""Cells an excerpt has at least before it is said how many more matches there are."""
_KINDS: Final = {**KINDS, "tool_result": "result", "title": "title", "revert": "rewind"}
_WORDS_KEY = (-1, 0)


@dataclass(frozen=True, slots=True)
class Look:
    """What all rows are drawn by."""

    scope: Scope
    now: datetime
    asked: Query | None = None
    here: Path | None = None
    """The event file of the session of this chat."""


# --- columns ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Column:
    name: str
    cells: int
    least: int
    """It is left out where the title would have fewer cells than this."""
    right: bool = False


_OURS: Final = (_Column("tokens", 7, 20, True), _Column("entries", 7, 26, True))
_MODEL: Final = _Column("model", 18, 30)
_LAST: Final = _Column("last prompt", 60, 46)
_AGENT: Final = _Column("agent", 11, 12)
_SIZE: Final = _Column("size", 8, 22, True)


def _columns(width: int, scope: Scope) -> tuple[_Column, ...]:
    """The columns beside age and title that a width has room for, in the order in which they stand."""
    folder = _Column("folder", 36 if width >= 120 else 20, 18)
    wanted = {
        "here": (*_OURS, _MODEL, _LAST),
        "all": (folder, *_OURS, _MODEL, _LAST),
        "archived": (folder, *_OURS, _MODEL, _LAST),
        "others": (_AGENT, folder, _SIZE, _MODEL),
    }[scope]
    room = width - _AGE - _GAP
    taken: set[str] = set()
    for column in wanted:
        if room - column.cells - _GAP >= column.least:
            room -= column.cells + _GAP
            taken.add(column.name)
    order = (_AGENT, _LAST, folder, _OURS[1], _OURS[0], _SIZE, _MODEL)
    return tuple(column for column in order if column.name in taken)


def heading(width: int, scope: Scope) -> list[Span]:
    """The names of the columns."""
    columns = _columns(width, scope)
    line = f"{'written':<{_AGE}}{' ' * _GAP}" + _title_cell("session", width, columns)
    for column in columns:
        line += " " * _GAP + _padded(column.name, column)
    return [(line, "muted")]


def _title_width(width: int, columns: Sequence[_Column]) -> int:
    room = width - _AGE - _GAP - sum(column.cells + _GAP for column in columns)
    return max(min(room, _TITLE) if columns else room, 1)


def _title_cell(text: str, width: int, columns: Sequence[_Column]) -> str:
    room = _title_width(width, columns)
    return text + " " * max(room - cell_len(text), 0)


def _padded(text: str, column: _Column) -> str:
    cut = cut_left if column.name == "folder" else cut_right
    shown = cut(text, column.cells)
    blanks = " " * (column.cells - cell_len(shown))
    return blanks + shown if column.right else shown + blanks


# --- rows -------------------------------------------------------------------------------------------


def session_row(shown: Shown, look: Look, width: int) -> list[Span]:
    """` 3 h ago    Idempotent orders                  398    28.6k  kimi-k2`."""
    row, columns = shown.row, _columns(width, look.scope)
    room = _title_width(width, columns)
    spans: list[Span] = [(f"{age(row.updated_at, look.now):<{_AGE}}{' ' * _GAP}", "muted")]
    spans += crop(_title(row, look, room), room)
    for column in columns:
        style = "text" if column.name == "tokens" else "muted"
        spans += [(" " * _GAP, ""), (_padded(_cell(row, column.name), column), style)]
    return spans


def _title(row: Listed, look: Look, room: int) -> list[Span]:
    remark = " · this chat" if look.here is not None and row.path == look.here else ""
    sign = "! " if row.note else ""
    if not row.readable:
        return [(sign, "alert"), (cut_right(clean_line(named_note(row)), room - len(sign)), "alert")]
    text = cut_right(clean_line(title_of(row)), max(room - len(sign) - len(remark), 1))
    style = "text" if row.title else "muted"
    return [(sign, "alert"), *emphasised(text, look.asked, style), (remark, "accent")]


def title_of(row: Listed) -> str:
    """What a session is called."""
    return row.title or ("(nothing typed near its beginning)" if row.agent else "(nothing said yet)")


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
    spans: list[Span] = []
    at = 0
    for start, stop in hit.marks:
        spans += [(clean_line(hit.excerpt[at:start]), "text"), (clean_line(hit.excerpt[start:stop]), MATCH)]
        at = stop
    spans.append((clean_line(hit.excerpt[at:]), "text"))
    if width_of(spans) > room and len(spans) > 1:
        spans[0] = (cut_left(spans[0][0], max(room // 3, 1)), "text")
    return spans


def emphasised(text: str, asked: Query | None, style: str) -> list[Span]:
    """Clean text with what was asked for marked in it."""
    if asked is None:
        return [(text, style)]
    spans: list[Span] = []
    at = 0
    for start, stop in marks(text, asked):
        spans += [(text[at:start], style), (text[start:stop], MATCH)]
        at = stop
    return [*spans, (text[at:], style)]


# --- blocks -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class SessionBlock(Block):
    """A session of the list."""

    shown: Shown
    look: Look

    def render(self, width: int, styles: Styles) -> list[Strip]:
        return [to_strip(session_row(self.shown, self.look, width), styles)]

    def estimate(self, width: int) -> int:
        return 1

    def text(self) -> str:
        return f"{self.shown.row.id}  {clean_line(title_of(self.shown.row))}"


@dataclass(frozen=True, slots=True, eq=False)
class HitBlock(Block):
    """A match in the session above it."""

    shown: Shown
    hit: SessionHit
    more: int = 0
    """Matches that are not shown, said on the last one that is."""

    def render(self, width: int, styles: Styles) -> list[Strip]:
        return [to_strip(hit_row(self.hit, self.more, width), styles)]

    def estimate(self, width: int) -> int:
        return 1

    def text(self) -> str:
        return clean_line(self.hit.excerpt)


def session_blocks(sessions: Sequence[Shown], look: Look, numbered: Mapping[Path, int]) -> Iterator[Block]:
    """A row for each session, and below it its matches. Keys are (number of the session, match)."""
    for shown in sessions:
        number = numbered[shown.row.path]
        yield SessionBlock((number, 0), shown, look)
        last = len(shown.hits)
        for place, hit in enumerate(shown.hits, start=1):
            more = max(shown.total - last, 0) if place == last else 0
            yield HitBlock((number, place), shown, hit, more)


def words_block(sentences: Sequence[str], style: str = "muted") -> Block:
    """What stands in an empty list."""
    return TextBlock(_WORDS_KEY, "\n\n".join(sentences), style, gap=1, stop=False)
