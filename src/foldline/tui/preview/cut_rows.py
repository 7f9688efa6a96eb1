"""The rows of the Cut panel: the view by turns, with the gutter of what would be. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final, Literal

from textual.strip import Strip

from foldline.context import numbers
from foldline.protocol import AssistantMessage, ToolCallPart, ToolResultMessage, UserMessage
from foldline.tui.blocks import Block, Column, Key, RowBlock, Span, Spans, Styles, clean_line
from foldline.tui.blocks.cells import crop, to_strip
from foldline.tui.fates import GUTTER_SIGNS, gutter_sign, letter
from foldline.tui.panels.words import call_title, first_words, message_words
from foldline.tui.preview.outlook import Outlook, Part, Would, held_tokens

PREAMBLE_KEY: Final[Key] = (-2, 0)
CUT_KEY: Final[Key] = (-3, 0)
HELD_KEY: Final[Key] = (-4, 0)
NOTE_KEY: Final[Key] = (-5, 0)
GUTTER: Final = 4
"""Cursor, letter, sign, flag."""
_TOKENS: Final = 5

Kind = Literal["preamble", "summary", "pin", "turn", "step", "cut", "held", "note"]


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the panel."""

    kind: Kind
    key: Key
    words: str
    position: int = 0
    """Where its first item stands in the view."""
    indices: tuple[int, ...] = ()
    """The entries it stands for, in the view's order."""
    fate: Would = "live"
    pinned: bool = False
    is_cut_point: bool = False
    """Whether the cut may be before it."""
    tokens: int | None = None
    """As decisions use them."""
    name: str = ""
    """Of the one tool that was called."""
    is_path: bool = False
    brief: str = ""
    """What came of the call."""
    remark: str = ""
    """What would be changed of it."""
    prompt: bool = False
    """Whether it begins with something the user asked."""
    index: int | None = None

    @property
    def gone(self) -> bool:
        return self.fate in ("summarised", "truncated")

    @property
    def stands_for_items(self) -> bool:
        """Whether a cut can be sought from it."""
        return self.kind not in ("preamble", "note")


def cut_rows(outlook: Outlook, held: str | None = None, cwd: str = "", strategy: str = "") -> list[Row]:
    """The whole panel: preamble, turns with the cut between them, the held prompt."""
    preamble = [part for part in outlook.parts if part.preamble]
    size = outlook.calibrated(sum(part.tokens for part in preamble) + outlook.overhead)
    words = f"system, instructions{', tools' if outlook.overhead else ''}: never compacted"
    indices = tuple(part.index for part in preamble)
    rows = [Row("preamble", PREAMBLE_KEY, words, tokens=size, indices=indices)]
    if outlook.cut is None:
        decides = f"{strategy or 'This strategy'} decides itself what stays: there is no cut to move"
        rows.append(Row("note", NOTE_KEY, clean_line(decides)))
    for turn in _turns(outlook):
        rows += _turn_rows(outlook, turn, cwd)
    if outlook.cut is not None:
        position = outlook.cut
        behind = (at for at, row in enumerate(rows) if row.kind != "preamble" and row.position >= position)
        rows.insert(next(behind, len(rows)), Row("cut", CUT_KEY, cut_words(outlook), position=position))
    if held is not None:
        tokens, end = held_tokens(outlook, held), len(outlook.parts)
        rows.append(Row("held", HELD_KEY, first_words(held), position=end, tokens=tokens, prompt=True))
    return rows


def cut_words(outlook: Outlook) -> str:
    """`cut 352 ━ 82.9k compacted above, 16.2k kept below`."""
    assert outlook.cut is not None
    compacted, kept = numbers.tokens(outlook.compacted), numbers.tokens(outlook.kept_below)
    return f"cut {outlook.index_at(outlook.cut)} ━ {compacted} compacted above, {kept} kept below"


# --- from the view to rows ----------------------------------------------------------------------------


def _turns(outlook: Outlook) -> Iterator[list[Part]]:
    """The parts behind the preamble: summaries alone, everything else by turns."""
    turn: list[Part] = []
    for part in outlook.parts:
        if part.preamble:
            continue
        starts = part.item.written or isinstance(part.item.message, UserMessage)
        if turn and (starts or turn[-1].item.written):
            yield turn
            turn = []
        turn.append(part)
    if turn:
        yield turn


def _turn_rows(outlook: Outlook, turn: Sequence[Part], cwd: str) -> Iterator[Row]:
    """One row for a turn that goes as a whole; its prompt and steps where any of it stays."""
    if turn[0].item.written:
        yield _summary(outlook, turn[0])
        return
    own = [part for part in turn if not part.pinned]
    # What the cut divides is open on both sides of it.
    closed = bool(own) and all(part.gone for part in own)
    calls = {call.call_id: call for part in turn for call in _calls(part)}
    for _, group in groupby(turn, key=lambda part: outlook.group_of(part.index)):
        parts = list(group)
        if closed and parts[0] is own[0]:
            yield _row("turn", outlook, own, _words(parts, calls, cwd))
        elif parts[0].pinned or not closed:
            is_prompt = isinstance(parts[0].item.message, UserMessage)
            kind: Kind = "pin" if parts[0].pinned else "turn" if is_prompt else "step"
            yield _row(kind, outlook, parts, _words(parts, calls, cwd), _changed(outlook, parts))


def _summary(outlook: Outlook, part: Part) -> Row:
    words = {
        "summarised": "earlier summary, goes into the draft",
        "truncated": "earlier summary, left out",
    }.get(part.fate, "earlier summary, stays")
    return Row(
        "summary",
        part.item.key,
        words,
        position=part.position,
        indices=(part.index,),
        # Whatever stands in a summary the model has only through it.
        fate="truncated" if part.fate == "truncated" else "summarised",
        pinned=part.pinned,
        tokens=outlook.size([part]),
        index=part.index,
    )


def _row(kind: Kind, outlook: Outlook, parts: Sequence[Part], words: "Words", remark: str = "") -> Row:
    first = parts[0]
    altered = (part.fate for part in parts if part.fate in ("clipped", "hidden"))
    return Row(
        kind,
        first.item.key,
        words.text,
        name=words.name,
        is_path=words.is_path,
        brief=words.brief,
        position=first.position,
        indices=tuple(part.index for part in parts),
        fate=first.fate if first.gone else next(altered, "live"),
        pinned=first.pinned,
        is_cut_point=outlook.is_cut_point(first.position),
        tokens=outlook.size(parts),
        remark=remark,
        prompt=isinstance(first.item.message, UserMessage),
        index=first.index,
    )


def _calls(part: Part) -> tuple[ToolCallPart, ...]:
    return tuple(part.item.message.calls) if isinstance(part.item.message, AssistantMessage) else ()


def _changed(outlook: Outlook, parts: Iterable[Part]) -> str:
    """`8.6k, clipped`: what the changed results of a step weigh as they were."""
    changed = [part for part in parts if part.fate in ("clipped", "hidden")]
    if not changed:
        return ""
    fresh = [part for part in changed if part.item.fate == "live"]
    was = outlook.calibrated(sum(part.item.tokens for part in fresh))
    return f"{numbers.tokens(was)}, {changed[0].fate}" if fresh else changed[0].fate


# --- words --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Words:
    """What a row says: `read`, a path, `312 lines`; of several calls or none only the text."""

    text: str
    name: str = ""
    is_path: bool = False
    brief: str = ""


def _words(parts: Sequence[Part], calls: dict[str, ToolCallPart], cwd: str) -> Words:
    results = [part.item.message for part in parts if isinstance(part.item.message, ToolResultMessage)]
    if not results:
        text, _ = message_words(parts[0].item.message)
        return Words(text)
    if len(results) == 1:
        title, is_path = call_title(calls.get(results[0].call_id), cwd)
        return Words(title, _name(results[0]), is_path, clean_line(results[0].details.brief))
    return Words(", ".join(_short_call(result, calls, cwd) for result in results[:8]))


def _short_call(result: ToolResultMessage, calls: dict[str, ToolCallPart], cwd: str) -> str:
    """`edit service.py`: one of several calls."""
    title, is_path = call_title(calls.get(result.call_id), cwd)
    return f"{_name(result)} {title.rpartition('/')[2] if is_path else title}".rstrip()


def _name(result: ToolResultMessage) -> str:
    return clean_line(result.name)[:24]


# --- blocks -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class CutBlock(Block):
    """`━━◆ cut 352 ━ 82.9k compacted above, 16.2k kept below ━━━`."""

    label: str
    wide: bool = field(default=True, kw_only=True)
    stop: bool = field(default=False, kw_only=True)

    def render(self, width: int, styles: Styles) -> list[Strip]:
        line = crop([(f"━━◆ {self.label} ", "accent")], width)
        blanks = len(line[-1][0])
        return [to_strip([*line[:-1], ("━" * blanks, "accent")], styles)]

    def estimate(self, width: int) -> int:
        return 1

    def text(self) -> str:
        return self.label


def row_blocks(rows: Sequence[Row]) -> list[Block]:
    """The rows as blocks, their numbers below each other."""
    width = max((len(str(row.index)) for row in rows if row.index is not None), default=1)
    return [_block(row, width) for row in rows]


def _block(row: Row, width: int) -> Block:
    if row.kind == "cut":
        return CutBlock(row.key, row.words)
    columns: list[Column] = []
    if row.brief:
        columns.append(Column(row.brief, style="muted", drop="first"))
    if row.remark:
        columns.append(Column(row.remark, style="altered", drop="last"))
    if row.tokens is not None:
        columns.append(Column(numbers.tokens(row.tokens), _TOKENS, "muted", space=1))
    return RowBlock(
        row.key,
        _lead(row, width),
        ((row.words, "text"),),
        tuple(columns),
        cut="left" if row.is_path else "right",
        stop=row.kind != "note",
        roomy=12,
        least=8,
    )


def _lead(row: Row, width: int) -> Spans:
    """` ├119 ❯ `, indented where it is a step of a turn."""
    spans: list[Span] = []
    if row.kind == "held":
        spans.append((" held ", "muted"))
    elif row.index is not None:
        indent = " " if row.kind == "step" else ""
        spans.append((f"{indent}{'├' if row.is_cut_point else ' '}", "accent"))
        spans.append((f"{row.index:>{width}} ", "muted"))
    if row.prompt:
        spans.append(("❯ ", "bold"))
    if row.name:
        spans.append((f"{row.name} ", "text"))
    return tuple(spans)


def row_gutter(row: Row | None) -> Spans:
    """The gutter: the letter of what would be changed or left out, the sign, the pin."""
    if row is None or row.kind in ("cut", "note"):
        return ()
    if row.kind == "held":
        return ((" ", ""), (" ", ""), GUTTER_SIGNS["whole"], (" ", ""))
    shown = row.fate in ("clipped", "hidden", "truncated")
    pinned = ("*", "accent") if row.pinned else (" ", "")
    return ((" ", ""), letter(row.fate) if shown else (" ", ""), gutter_sign(row.fate), pinned)
