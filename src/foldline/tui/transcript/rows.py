"""The chat's blocks for history entries and thoughts, and the gutter."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final

from foldline.frontend.state import rung_words
from foldline.past.compactions import (
    compacted_count,
    describe_compaction,
    sizes_words,
    why_compacted,
)
from foldline.past.describe import describe, entry_text
from foldline.protocol import (
    Approval,
    AssistantMessage,
    Clear,
    Compaction,
    DeveloperMessage,
    Entry,
    ImagePart,
    ModelChange,
    NoticeRecord,
    RequestRecord,
    Revert,
    Undo,
    UserMessage,
)
from foldline.text import numbers
from foldline.text.harmless import clean, clean_line
from foldline.text.numbers import many
from foldline.tui.blocks.block import Block, Key
from foldline.tui.blocks.markdown import markdown_blocks
from foldline.tui.blocks.plain import RowBlock, RuleBlock, StackBlock, TextBlock
from foldline.tui.look.cells import Span, cut_right
from foldline.tui.prompting.attachments import named_pictures
from foldline.tui.transcript.calls import (
    CALL_PIECE,
    INDENT,
    Opening,
    shell_block,
)
from foldline.tui.transcript.keys import key_name
from foldline.tui.transcript.output import PART, WHOLE, expand_hint
from foldline.view.outline import MessageOutline, Outline
from foldline.view.projection import Projection

CANCELLED: Final = "cancelled here"
EMPTY: Final = "! the model's answer was empty; /retry asks again"
CUT_OFF: Final = "! cut off at the model's output limit; ask for the rest"
FILTERED: Final = "! stopped by the provider's content filter"
NO_SUMMARY: Final = "No summary was written: {scope}. The history has everything, and /undo restores it."
EXPANDED_COMMAND: Final = "and the expanded command"
EARLIER_ENTRIES: Final = "{count:,} earlier entries"
SCROLL_UP: Final = EARLIER_ENTRIES + "; scroll up to load them"
FACTS_LOST: Final = "{lost} of {facts} facts lost"
TEXT_PIECE: Final = 1
"""Piece number of the first text block of a response."""
EARLIER: Final = (-1, 0)
"""Key of the rule above the part of a very long history that is loaded."""
AT_FIRST: Final = 2_000_000
"""How many tokens of the newest entries to load at first, enough to fill a few context windows."""
AT_A_TIME: Final = 400_000
"""Number of tokens of earlier entries loaded each time the user scrolls to the top."""
AT_MOST: Final = 4_000
"""Maximum number of entries loaded at a time. Loading them takes a sixth of a second."""
THOUGHT: Final = -1
"""Piece number of the thinking row, the first block of a response."""


def entry_blocks(entry: Entry, projection: Projection) -> list[Block]:
    """Return the blocks of an entry that is not a response.

    The list is empty if the chat does not show entries of this type.
    """
    key = (entry.index, 0)
    match entry:
        case UserMessage(origin="shell") if command := shell_block(
            entry, projection, opened=False
        ):
            return [command]
        case UserMessage():
            return [prompt_block(entry, projection)]
        case Compaction():
            return [compaction_block(entry, projection, opened=False)]
        case RequestRecord():
            return list(_failure(entry, projection))
        case NoticeRecord(level="error"):
            return [_failed(key, entry.text)]
        case Undo() | Clear() | Revert():
            rule = describe(projection, entry).title
            return [RuleBlock(key, rule, right=_time(entry.at))]
        case DeveloperMessage():
            note = describe(projection, entry).title
            lead = ((" " * INDENT, ""),)
            return [RowBlock(key, lead, ((note, "muted"),), gap=1)]
        case ModelChange():
            return [_aside(key, describe(projection, entry).labelled)]
        case NoticeRecord() | Approval():
            return [_aside(key, entry_text(projection, entry))]
        case _:
            return []


def ending_blocks(message: AssistantMessage) -> list[Block]:
    """Return a block that says why a response ended early, in a list.

    The list is empty if the response is complete.
    """
    ending = _ending(message)
    return [_aside((message.index, CALL_PIECE - 1), ending)] if ending else []


def _ending(message: AssistantMessage) -> str:
    """Return the reason why a response ended early, or an empty string.

    Failed requests are left out, because they have their own entries.
    """
    is_empty = not (message.text.strip() or message.calls)
    return _ENDINGS.get(message.stop_reason or "", EMPTY if is_empty else "")


_ENDINGS: Final = {
    "cancelled": CANCELLED,
    "length": CUT_OFF,
    "repeated": "! stopped, because the answer repeated itself",
    "filtered": FILTERED,
    "error": "",
}


def is_call(block: Block) -> bool:
    return block.key[1] >= CALL_PIECE


def earlier_block(count: int) -> RuleBlock:
    """Return the rule above the part of a very long history that is loaded."""
    label = SCROLL_UP.format(count=count)
    brief = EARLIER_ENTRIES.format(count=count)
    return RuleBlock(EARLIER, label, "muted", briefs=(brief,))


def compaction_block(
    compaction: Compaction, projection: Projection, *, opened: bool
) -> RuleBlock:
    """Return the line of a compaction.

    If the line is expanded, the summary is shown below it. The line of the newest compaction contains key
    hints.
    """
    label, *briefs = _compaction_labels(compaction, projection)
    hint: list[Span] = []
    if projection.all_compactions[-1].index == compaction.index:
        hint += _key_hint("open", "collapse" if opened else "expand")
    if projection.undoable == compaction.index:
        hint += _key_hint("undo", "undo", " key:undo")
    key = (compaction.index, 0)
    return RuleBlock(
        key,
        label,
        briefs=tuple(briefs),
        hint=tuple(hint),
        lead="▾─" if opened else "▸─",
        right=_time(compaction.at),
        body=StackBlock(key, tuple(_summary(compaction, projection)))
        if opened
        else None,
        indent=INDENT + 3,
    )


def _key_hint(command: str, word: str, meta: str = "") -> list[Span]:
    """Return a key hint. `meta` is a word that is added to its style."""
    key = (key_name(command), f"accent{meta}")
    return [(" · ", "muted"), key, (f" {word}", f"text{meta}")]


def _compaction_labels(compaction: Compaction, projection: Projection) -> list[str]:
    """Return descriptions of a compaction in several lengths, longest first."""
    sizes = sizes_words(projection, compaction)
    why, brief = why_compacted(projection, compaction)
    rung = clean_line(rung_words(compaction.rung))
    scope = ""
    if compacted_count(projection, compaction) or not rung:
        scope = describe_compaction(projection, compaction)
    lost = ""
    if compaction.facts:
        lost = FACTS_LOST.format(lost=compaction.lost, facts=compaction.facts)
    labels = (
        (sizes and f"{sizes} tokens", why, scope, lost, rung),
        (sizes, why, rung or scope),
        (sizes, why),
        (sizes, brief),
        (sizes or brief,),
    )
    return [" · ".join(filter(None, parts)) for parts in labels]


def _summary(compaction: Compaction, projection: Projection) -> list[Block]:
    if compaction.summary.strip():
        return list(markdown_blocks(compaction.summary, compaction.index, gap=0))
    # Without this text, the compaction would look like a failed summary.
    scope = describe_compaction(projection, compaction)
    return [
        TextBlock((compaction.index, 0), NO_SUMMARY.format(scope=scope), "compacted")
    ]


def prompt_block(
    message: UserMessage,
    projection: Projection,
    *,
    opening: Opening = "part",
) -> Block:
    """Return the block of a prompt.

    For a long prompt, only the first lines are shown.
    """
    key = (message.index, 0)
    text, more = _shortened(message, opening)
    lead = {"typed": "❯ ", "shell": "! ", "machine": "· "}[message.origin]
    text_block = TextBlock(
        key,
        clean(text) + _picture_count(message),
        "text bold" if message.origin == "typed" else "muted",
        lead=((lead, "accent"),),
        right=_time(message.at),
        prose=message.origin != "shell",
        gap=1,
    )
    if not more:
        return text_block
    note = f"… {more} ({expand_hint(opening)})"
    note_block = TextBlock(key, note, "muted", lead=(("  ", "deco"),))
    return StackBlock(key, (text_block, note_block), gap=1)


def is_long(message: UserMessage) -> bool:
    """Whether a prompt is so long that only part of it is shown until the user expands it."""
    return bool(_shortened(message, "part")[1])


def _shortened(message: UserMessage, opening: Opening) -> tuple[str, str]:
    """Return the first lines of a prompt, and a description of the remaining text.

    The contents of expanded commands and resources are shown only if the prompt is expanded.
    """
    if opening == "part" and any(part.origin != "piped" for part in message.attached):
        return _first_lines(message.editable, opening)[0], EXPANDED_COMMAND
    return _first_lines(message.text, opening)


def _first_lines(text: str, opening: Opening) -> tuple[str, str]:
    most_lines = PART if opening == "part" else WHOLE
    most_characters = most_lines * 200
    first_lines = text.split("\n", most_lines)
    remaining = first_lines.pop() if len(first_lines) > most_lines else ""
    shown = "\n".join(first_lines)
    if len(shown) > most_characters:
        return shown[
            :most_characters
        ], f"{len(text) - most_characters:,} more characters"
    if remaining:
        return shown, many(remaining.count("\n") + 1, "more line", "more lines")
    return shown, ""


def _picture_count(message: UserMessage) -> str:
    """Return a note with the number of images not mentioned in the text.

    The note is empty if there are no such images.
    """
    pictures = sum(isinstance(part, ImagePart) for part in message.parts)
    count = pictures - len(named_pictures(message.text))
    return f"  [{many(count, 'picture')}]" if count > 0 else ""


def thought_tokens(message: AssistantMessage, projection: Projection) -> int:
    """Return the reasoning tokens of a response, as reported by the provider or estimated."""
    reported = message.usage.reasoning if message.usage is not None else 0
    outline = projection.outline(message.index)
    estimate = outline.thinking if isinstance(outline, MessageOutline) else 0
    return reported or round(estimate * projection.meter.scale)


def _failure(request: RequestRecord, projection: Projection) -> Iterator[Block]:
    """Yield the blocks for a request without a response.

    They show the entire error message, because the status row has room for only one line.
    """
    key = (request.index, 0)
    if request.error:
        yield _failed(key, request.error)
        yield from markdown_blocks(
            request.said or "", request.index, TEXT_PIECE, indent=INDENT
        )
    elif request.stop_reason and not isinstance(
        projection.entry(request.index - 1), AssistantMessage
    ):
        yield _aside(key, CANCELLED if request.stop_reason == "cancelled" else EMPTY)


def _aside(key: Key, text: str) -> TextBlock:
    return TextBlock(
        key,
        cut_right(clean_line(text), 400),
        "muted",
        lead=((" " * INDENT, ""),),
        gap=1,
    )


def _failed(key: Key, sentence: str) -> TextBlock:
    """Return the block of an error message."""
    return TextBlock(
        key,
        clean_line(sentence),
        "alert",
        lead=((" " * INDENT + "✗ ", "alert"),),
        gap=1,
    )


def _time(at: datetime | None) -> tuple[tuple[str, str], ...]:
    """Return the local time of day as styled text."""
    return () if at is None else ((f"{at.astimezone():%H:%M}", "muted"),)


def gap_below(above: Block | None, block: Block | None) -> int:
    """Return the number of blank lines above a block.

    The number is 0 at the top, below a rule and between calls, and otherwise 1.
    """
    if above is None or isinstance(above, RuleBlock):
        return 0
    return 0 if block is not None and is_call(block) and is_call(above) else 1


def spaced(blocks: Sequence[Block], above: Block | None) -> list[Block]:
    """Return an entry's blocks, adjusting the gap above the first block.

    The gap is removed if none is needed below `above`.
    """
    if blocks and blocks[0].gap > gap_below(above, blocks[0]):
        return [replace(blocks[0], gap=0), *blocks[1:]]
    return list(blocks)


def first_of_newest(outlines: Sequence[Outline], most_tokens: int) -> int:
    """Return the index at which to start loading the newest entries.

    The entries from that index to the end have about `most_tokens` tokens in total. If possible, the first of
    them is a prompt. There are at most `AT_MOST` of them.
    """
    start = len(outlines)
    tokens = 0
    while start > max(0, len(outlines) - AT_MOST) and tokens <= most_tokens:
        start -= 1
        outline = outlines[start]
        if isinstance(outline, MessageOutline):
            tokens += outline.tokens + outline.thinking
    if not start:
        return 0
    for at in range(start, len(outlines)):
        outline = outlines[at]
        if isinstance(outline, MessageOutline) and outline.type == "user":
            return at
    return start


def is_thought(key: Key) -> bool:
    """Whether this is the key of a thinking row."""
    return key[1] == THOUGHT


def thought_row(
    index: int,
    tokens: int,
    seconds: float | None,
    text: str | None = None,
    *,
    gap: int = 1,
) -> RowBlock:
    """Return the row of a thought: `▸ thinking  0.4k · 6 s`.

    If the row is expanded, `text` is shown below it. A very long text is cut off.
    """
    spent = ""
    if seconds is not None:
        spent = (
            f" · {seconds:.0f} s"
            if seconds < 99.5
            else f" · {numbers.elapsed(seconds)}"
        )
    key = (index, THOUGHT)
    body = None
    if text is not None:
        shown, more = _first_lines(text.strip(), "whole")
        if more:
            shown += f"\n… {more} ({expand_hint('whole')})"
        body = TextBlock(key, clean(shown), "muted italic")
    return RowBlock(
        key,
        (("▸ " if body is None else "▾ ", "muted"),),
        (("thinking  ", "muted"), (f"{numbers.tokens(tokens)}{spent}", "muted")),
        gap=gap,
        body=body,
        indent=INDENT,
    )
