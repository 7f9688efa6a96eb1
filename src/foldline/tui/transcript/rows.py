"""Entries of the history as blocks of the chat, thoughts in pieces, and the gutter beside them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from foldline.context import numbers
from foldline.context.compactions import compacted_count, describe_compaction, sizes_words, why_compacted
from foldline.context.harmless import clean, clean_line
from foldline.context.numbers import many
from foldline.context.outline import MessageOutline, Outline
from foldline.context.permissions import approval_words
from foldline.context.projection import Projection
from foldline.context.rewind_points import rewind_words
from foldline.protocol import (
    Approval,
    AssistantMessage,
    Clear,
    Compaction,
    DeveloperMessage,
    Edit,
    Entry,
    ImagePart,
    ModelChange,
    NoticeRecord,
    RequestRecord,
    Revert,
    Undo,
    UserMessage,
    entered,
)
from foldline.tui.blocks.block import Block, Key
from foldline.tui.blocks.cells import Spans, cut_right
from foldline.tui.blocks.markdown import markdown_blocks
from foldline.tui.blocks.pictures import PicturesBlock
from foldline.tui.blocks.plain import RowBlock, RuleBlock, StackBlock, TextBlock
from foldline.tui.blocks.view import BlockView
from foldline.tui.fates import GONE, GUTTER_SIGNS, gutter_sign
from foldline.tui.prompting.attachments import named_pictures
from foldline.tui.state import rung_words
from foldline.tui.transcript.calls import CALL_PIECE, INDENT, Opening, call_of, call_row, shell_block
from foldline.tui.transcript.output import PART, WHOLE, pictures_of
from foldline.tui.transcript.panel import key_name

CANCELLED: Final = "cancelled here"
EMPTY: Final = "! the model gave an empty answer: /retry asks it again"
TEXT_PIECE: Final = 1
"""Number of an answer's first text block."""
EARLIER: Final = (-1, 0)
"""Place of the rule above the newest part of a very long history."""
AT_FIRST: Final = 2_000_000
"""Tokens of the newest entries that are shown: some windows full, read in a moment."""
AT_A_TIME: Final = 400_000
"""Tokens of the entries before these that come at a time, when the reader gets there."""
AT_MOST: Final = 4_000
"""Entries that are shown, or come, at once, however short they are: a sixth of a second."""
THOUGHT: Final = -1_000_000
"""Number of an answer's thinking row: before all else of it. Its pieces follow, and end before 0."""
_LINES: Final = 20
_CHARACTERS: Final = 1_500
"""Where a piece ends: none is drawn again once the next has begun."""


def entry_blocks(entry: Entry, projection: Projection) -> list[Block]:
    """The blocks of one entry; none for what the chat does not show."""
    key = (entry.index, 0)
    match entry:
        case UserMessage(origin="shell") if ran := shell_block(entry, projection, opened=False):
            return [ran]
        case UserMessage():
            return [prompt_block(entry, projection)]
        case AssistantMessage():
            return list(answer_blocks(entry, projection))
        case Compaction():
            return [compaction_block(entry, projection, opened=False)]
        case RequestRecord():
            return list(_failure(entry, projection))
        case NoticeRecord(level="error"):
            return [_failed(key, entry.text)]
        case _ if rule := _rule_words(entry, projection):
            return [RuleBlock(key, rule, right=_time(entry.at))]
        case DeveloperMessage():
            note = f"{entry.source or entry.origin}: {_first_line(entry.text)}"
            return [RowBlock(key, ((" " * INDENT, ""),), ((clean_line(note), "muted"),), gap=1)]
        case _ if note := _note_words(entry):
            return [_aside(key, note)]
        case _:
            return []


def _rule_words(entry: Entry, projection: Projection) -> str:
    """What stands on the rule of a marker that changes the view."""
    match entry:
        case Undo():
            return _undone(projection, entry.target)
        case Clear():
            return "context cleared: the history stays"
        case Revert():
            return clean_line(rewind_words(projection, entry))
        case _:
            return ""


def _note_words(entry: Entry) -> str:
    """What one muted line says of an entry."""
    match entry:
        case NoticeRecord():
            return entry.text
        case ModelChange():
            there = f" · {entry.provider}" if entry.provider and entry.provider != entry.model else ""
            return f"model: {entry.model}{there}"
        case Approval():
            return approval_words(entry)
        case _:
            return ""


def answer_blocks(
    message: AssistantMessage, projection: Projection, text: Sequence[Block] | None = None
) -> Iterator[Block]:
    """Thinking, text and calls of an answer, in the order they are shown. `text`: the blocks of its text,
    where they are there already."""
    if message.thinking.strip():
        yield thought_row(message.index, thought_tokens(message, projection), None, opened=False)
    if text is None:
        text = markdown_blocks(message.text, message.index, TEXT_PIECE, indent=INDENT)
    yield from text
    for number, call in enumerate(message.calls):
        key = (message.index, CALL_PIECE + number)
        gap = 1 if number == 0 else 0
        yield call_row(call_of(key, number, call), projection, opening="closed", gap=gap, body=None)
    if ending := _ending(message):
        yield _aside((message.index, CALL_PIECE - 1), ending)


def _ending(message: AssistantMessage) -> str:
    """How an answer ended, where it did not end as one should; that a request failed stands below it."""
    match message.stop_reason:
        case "cancelled":
            return CANCELLED
        case "length":
            return "! cut off at the model's output limit: ask for the rest"
        case "repeated":
            return "! stopped: it repeated itself"
        case "filtered":
            return "! stopped by the provider's content filter"
        case "error":
            return ""
        case _:
            return "" if message.text.strip() or message.calls else EMPTY


def is_call(block: Block) -> bool:
    return block.key[1] >= CALL_PIECE


def earlier_block(count: int) -> RuleBlock:
    """What stands above the newest part of a very long history."""
    label = f"{count:,} earlier entries: scroll up to load them"
    return RuleBlock(EARLIER, label, "muted", briefs=(f"{count:,} earlier entries",))


def compaction_block(compaction: Compaction, projection: Projection, *, opened: bool) -> RuleBlock:
    """The one line a compaction leaves in the transcript; opened, its summary below. That of the newest says
    which keys act on it."""
    sizes, (why, brief) = sizes_words(projection, compaction), why_compacted(projection, compaction)
    how = clean_line(rung_words(compaction.rung))
    taken = (
        describe_compaction(projection, compaction)
        if compacted_count(projection, compaction) or not how
        else ""
    )
    lost = f"{compaction.lost} of {compaction.facts} facts lost" if compaction.facts else ""
    keys = []
    if projection.all_compactions[-1].index == compaction.index:
        keys.append((key_name("open"), "closes" if opened else "opens"))
    if projection.undoable == compaction.index:
        keys.append((key_name("undo"), "undo"))
    label, *briefs = (
        " · ".join(filter(None, parts))
        for parts in (
            (sizes and f"{sizes} tokens", why, taken, lost, how),
            (sizes, why, how or taken),
            (sizes, why),
            (sizes, brief),
            (sizes or brief,),
        )
    )
    key = (compaction.index, 0)
    return RuleBlock(
        key,
        label,
        briefs=tuple(briefs),
        hint=tuple(
            span for name, word in keys for span in ((" · ", "muted"), (name, "accent"), (f" {word}", "text"))
        ),
        lead="▾─" if opened else "▸─",
        right=_time(compaction.at),
        body=StackBlock(key, tuple(_summary(compaction, projection))) if opened else None,
        indent=INDENT + 3,
    )


def _summary(compaction: Compaction, projection: Projection) -> list[Block]:
    if compaction.summary.strip():
        return list(markdown_blocks(compaction.summary, compaction.index, gap=0))
    # An empty line would look like a failed summary.
    none = f"No summary was written: {describe_compaction(projection, compaction)}."
    words = f"{none} The history has all of it, and /undo brings it back."
    return [TextBlock((compaction.index, 0), words, "folded")]


def prompt_block(
    message: UserMessage,
    projection: Projection,
    *,
    cut: bool = False,
    opening: Opening = "part",
    gap: int = 1,
) -> Block:
    """What the user said, of a long prompt its first lines, and its pictures. `cut`: a compaction would cut
    here. The mark has room kept for it, so that nothing is wrapped anew."""
    text, more = _shortened(message.text, opening)
    lead = {"typed": "❯ ", "shell": "! ", "machine": "· "}[message.origin]
    said = TextBlock(
        (message.index, 0),
        clean(text) + _with_pictures(message),
        "text bold" if message.origin == "typed" else "muted",
        lead=((lead, "accent"),),
        right=(("◆ " if cut else "  ", "accent"), *_time(message.at)),
        prose=message.origin != "shell",
        gap=gap,
    )
    below: list[Block] = []
    if more:
        opens = key_name("open") if opening == "part" else key_name("inspect")
        below += [TextBlock(said.key, f"… {more}, {opens} opens", "muted", lead=(("  ", "deco"),))]
    if pictures := pictures_of(message, projection, named_pictures(message.text)):
        below += [PicturesBlock(said.key, pictures, INDENT)]
    return StackBlock(said.key, (said, *below), gap=gap) if below else said


def is_long(message: UserMessage) -> bool:
    """Whether the chat shows a part of this prompt only, until it is opened."""
    return bool(_shortened(message.text, "part")[1])


def _shortened(text: str, opening: Opening) -> tuple[str, str]:
    """The first lines of a prompt, and how much more there is, in words."""
    if opening == "part" and (said := entered(text)) != text:
        return _shortened(said, opening)[0], "and what the command stands for"
    lines, characters = (PART, PART * 200) if opening == "part" else (WHOLE, WHOLE * 200)
    first = text.split("\n", lines)
    rest = first.pop() if len(first) > lines else ""
    shown = "\n".join(first)
    if len(shown) > characters:
        return shown[:characters], f"{len(text) - characters:,} more characters"
    return shown, many(rest.count("\n") + 1, "more line", "more lines") if rest else ""


def _with_pictures(message: UserMessage) -> str:
    """Those that the text does not name itself."""
    count = sum(isinstance(part, ImagePart) for part in message.parts) - len(named_pictures(message.text))
    return f"  [{many(count, 'picture')}]" if count > 0 else ""


def thought_tokens(message: AssistantMessage, projection: Projection) -> int:
    """What its reasoning weighs, as its provider reported, else estimated."""
    reported = message.usage.reasoning if message.usage is not None else 0
    outline = projection.outline(message.index)
    estimate = outline.thinking if isinstance(outline, MessageOutline) else 0
    return reported or round(estimate * projection.scale)


def _undone(projection: Projection, index: int) -> str:
    target = projection.entry(index)
    match target:
        case Compaction():
            sizes = sizes_words(projection, target)
            return f"compaction {target.index} undone{f': {sizes} taken back' if sizes else ''}"
        case Clear():
            return "clear undone: the context is back"
        case Edit():
            group = projection.group(target.target)
            entries = f"{group[0]}–{group[-1]}" if len(group) > 1 else str(group[0])
            return f"{target.action} of {entries} undone"
        case Revert():
            return "rewind undone: context and files are as before" if target.files else "rewind undone"
        case None:
            return "undone"
        case _:
            return f"entry {target.index} undone"


def _failure(request: RequestRecord, projection: Projection) -> Iterator[Block]:
    """What became of a request without an answer: in full, because the status row shows one line only."""
    key = (request.index, 0)
    if request.error:
        yield _failed(key, request.error)
        yield from markdown_blocks(request.said or "", request.index, TEXT_PIECE, indent=INDENT)
    elif request.stop_reason and not isinstance(projection.entry(request.index - 1), AssistantMessage):
        yield _aside(key, CANCELLED if request.stop_reason == "cancelled" else EMPTY)


def _aside(key: Key, text: str) -> TextBlock:
    return TextBlock(key, cut_right(clean_line(text), 400), "muted", lead=((" " * INDENT, ""),), gap=1)


def _failed(key: Key, sentence: str) -> TextBlock:
    """A failure in full: the status row has room for a part of it."""
    return TextBlock(key, clean_line(sentence), "alert", lead=((" " * INDENT + "✗ ", "alert"),), gap=1)


def _first_line(text: str) -> str:
    return clean_line(next((line for line in text.splitlines() if line.strip()), ""))


def _time(at: datetime | None) -> tuple[tuple[str, str], ...]:
    """Time of day as the reader's clock shows it."""
    return () if at is None else ((f"{at.astimezone():%H:%M}", "muted"),)


class TranscriptGutter:
    """What stands left of each line: the sign of its entry's fate, asked of the projection while the line is
    painted. `entry_of` says which entry a block stands for: of a tool call its result."""

    def __init__(self, view: BlockView, projection: Projection, entry_of: Callable[[Key], int]) -> None:
        self._view = view
        self._projection = projection
        self._entry_of = entry_of
        self.cut: Key | None = None
        """The first block of the verbatim tail."""

    def gutter(self, key: Key, line: int) -> Spans:
        at = self._view.index_of(key)
        if at is None:
            return ()
        block = self._view.block_at(at)
        if line < block.gap and at:
            key = self._view.block_at(at - 1).key  # what separates two entries belongs to the upper one
        elif key == self.cut and line == block.gap:
            return ((" ", ""), ("┣", "accent"), (" ", ""))
        index = self._entry_of(key)
        being_written = index > self._projection.last_index
        sign = GUTTER_SIGNS["whole"] if being_written else gutter_sign(self._projection.fate(index).kind)
        return ((" ", ""), sign, (" ", ""))

    def faded(self, key: Key) -> bool:
        """Whether the model has this no longer, or only through a summary."""
        index = self._entry_of(key)
        return index <= self._projection.last_index and self._projection.fate(index).kind in GONE


def gap_below(above: Block | None, block: Block | None) -> int:
    """Blank lines before a block: none at the very top, below a rule, and between one call and the next."""
    if above is None or isinstance(above, RuleBlock):
        return 0
    return 0 if block is not None and is_call(block) and is_call(above) else 1


def spaced(blocks: Sequence[Block], above: Block | None) -> list[Block]:
    """An entry's blocks below what is above them, as far from it as they stand there."""
    if blocks and blocks[0].gap > gap_below(above, blocks[0]):
        return [replace(blocks[0], gap=0), *blocks[1:]]
    return list(blocks)


def first_of_newest(outlines: Sequence[Outline], worth: int) -> int:
    """Where the newest `worth` tokens begin, at a prompt where there is one; at most `AT_MOST` entries."""
    at, room = len(outlines), worth
    while at > max(0, len(outlines) - AT_MOST) and room >= 0:
        at -= 1
        outline = outlines[at]
        room -= outline.tokens + outline.thinking if isinstance(outline, MessageOutline) else 0
    if not at:
        return 0
    prompts = (
        place
        for place in range(at, len(outlines))
        if isinstance(outline := outlines[place], MessageOutline) and outline.type == "user"
    )
    return next(prompts, at)


def is_thought(key: Key) -> bool:
    """Whether this is the place of a thinking row or one of its pieces."""
    return key[1] < 0


def thought_row(index: int, tokens: int, seconds: float | None, *, opened: bool, gap: int = 1) -> RowBlock:
    """`▸ thinking  0.4k · 6 s`."""
    spent = ""
    if seconds is not None:
        spent = f" · {seconds:.0f} s" if seconds < 99.5 else f" · {numbers.elapsed(seconds)}"
    return RowBlock(
        (index, THOUGHT),
        (("▾ " if opened else "▸ ", "muted"),),
        (("thinking  ", "muted"), (f"{numbers.tokens(tokens)}{spent}", "muted")),
        gap=gap,
    )


@dataclass(slots=True)
class Pieces:
    """Cuts a thought into pieces as it comes: what is finished never changes."""

    index: int
    _open: str = ""
    _count: int = 0

    def feed(self, text: str) -> Iterator[Block]:
        """More of it: the pieces that are finished by that, and the open one as it is now."""
        self._open += text
        while (cut := _end_of_piece(self._open)) is not None:
            yield self._piece(self._open[:cut])
            self._open = self._open[cut:].removeprefix("\n")
            self._count += 1
        if self._open.strip():
            yield self._piece(self._open)

    def _piece(self, text: str) -> Block:
        lead = ((" " * INDENT, "deco"),)
        shown = clean(text).strip("\n")
        return TextBlock((self.index, THOUGHT + 1 + self._count), shown, "muted italic", lead=lead)


def thought_pieces(index: int, text: str) -> list[Block]:
    """A whole thought in pieces, as it would have come."""
    return list(Pieces(index).feed(text.strip()))


def _end_of_piece(text: str) -> int | None:
    """Where the first piece of this ends; None where it may continue."""
    at = -1
    for _ in range(_LINES):
        following = text.find("\n", at + 1)
        if following < 0 or following > _CHARACTERS:
            break
        at = following
    else:
        return at
    if len(text) <= _CHARACTERS:
        return None
    if at > 0:
        return at
    space = text.rfind(" ", 1, _CHARACTERS)
    return space if space > 0 else _CHARACTERS
