"""Entries of the history as blocks of the chat. Pure; asks the projection, keeps nothing."""

from collections.abc import Iterator
from datetime import datetime
from typing import Final

from foldline.agent.tools.text import printed
from foldline.context.calls import subject_of
from foldline.context.files import fold_words, folded_count
from foldline.context.permissions import approval_words
from foldline.context.places import rewind_words
from foldline.context.projection import Projection
from foldline.context.weight import entry_weight
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
    ToolCallPart,
    ToolResultMessage,
    Undo,
    UserMessage,
)
from foldline.tui import numbers
from foldline.tui.blocks import (
    Block,
    Column,
    DiffBlock,
    Key,
    RowBlock,
    RuleBlock,
    TextBlock,
    clean,
    clean_line,
    cut_right,
    lines_of_diff,
    markdown_blocks,
)
from foldline.tui.rungs import rung_words

from .output import OutputBlock

CANCELLED: Final = "cancelled here"
EMPTY: Final = "! the model gave an empty answer: /retry asks it again"
INDENT: Final = 2
"""Cells before an answer, where the marks of prompts and tool rows stand."""
THINKING_PIECE: Final = 0
TEXT_PIECE: Final = 1
"""Number of an answer's first text block."""
CALL_PIECE: Final = 1_000_000
"""Number of an answer's first tool call: after all its text."""
_BRIEF, _TOKENS, _SECONDS = 14, 6, 6
"""Cells of the columns of a tool row."""


def entry_blocks(entry: Entry, projection: Projection) -> list[Block]:
    """The blocks of one entry; none for what the chat does not show."""
    key = (entry.index, 0)
    match entry:
        case UserMessage():
            return [prompt_block(entry)]
        case AssistantMessage():
            return list(answer_blocks(entry, projection))
        case DeveloperMessage():
            return [_aside(key, f"{entry.source or entry.origin}: {_first_line(entry.text)}")]
        case Compaction():
            return [fold_block(entry, projection, opened=False)]
        case Undo():
            return [RuleBlock(key, _undone(projection, entry.target), right=_time(entry.at))]
        case Clear():
            return [RuleBlock(key, "context cleared: the history stays", right=_time(entry.at))]
        case Revert():
            return [RuleBlock(key, clean_line(rewind_words(projection, entry)), right=_time(entry.at))]
        case NoticeRecord():
            return [_failed(key, entry.text) if entry.level == "error" else _aside(key, entry.text)]
        case ModelChange():
            there = f" · {entry.provider}" if entry.provider and entry.provider != entry.model else ""
            return [_aside(key, f"model: {entry.model}{there}")]
        case Approval():
            return [_aside(key, approval_words(entry))]
        case RequestRecord():
            return list(_failure(entry, projection))
        case _:
            return []


def answer_blocks(message: AssistantMessage, projection: Projection) -> Iterator[Block]:
    """Thinking, text and calls of an answer, in the order they are shown."""
    if message.thinking.strip():
        yield thinking_block(message.index, message.thinking, opened=False)
    yield from markdown_blocks(message.text, message.index, TEXT_PIECE, indent=INDENT)
    for number, call in enumerate(message.calls):
        gap = 1 if number == 0 else 0
        yield call_block(call_key(message, number), call, None, projection, opened=False, gap=gap)
    if ending := _ending(message):
        yield _aside((message.index, CALL_PIECE - 1), ending)


def _ending(message: AssistantMessage) -> str:
    """How an answer ended, where it did not end as one should; that a request failed stands below it."""
    match message.stop_reason:
        case "cancelled":
            return CANCELLED
        case "length":
            return "! cut off at the model's output limit: ask for the rest"
        case "filtered":
            return "! stopped by the provider's content filter"
        case "error":
            return ""
        case _:
            return "" if message.text.strip() or message.calls else EMPTY


def call_key(message: AssistantMessage, number: int) -> Key:
    return (message.index, CALL_PIECE + number)


def is_call(block: Block) -> bool:
    return block.key[1] >= CALL_PIECE


def thinking_block(index: int, text: str, *, opened: bool) -> RowBlock:
    """Reasoning, on one line until it is opened."""
    body = TextBlock((index, 0), clean(text.strip()), "muted") if opened else None
    return RowBlock(
        (index, 0),
        (("▾ " if opened else "▸ ", "muted"),),
        (("thinking  ", "muted"), ("" if opened else _first_line(text), "muted italic")),
        gap=1,
        body=body,
        indent=INDENT,
    )


def earlier_block(count: int) -> RuleBlock:
    """What stands above the newest part of a very long history."""
    return RuleBlock(
        (-1, 0), f"{count:,} earlier entries: in the inspector", "muted", brief=f"{count:,} earlier"
    )


def call_block(
    key: Key,
    call: ToolCallPart,
    result: ToolResultMessage | None,
    projection: Projection,
    *,
    opened: bool,
    gap: int,
    output: str = "",
) -> RowBlock:
    """A tool call on one line, its result at the right; opened, with its diff or output below.

    `output` is what a call that still runs has written so far.
    """
    name = clean_line(call.name)
    return RowBlock(
        key,
        (("▾ " if opened else "▸ ", "muted"), (f"{name:<5} ", "text")),
        ((call_title(call), "text"),),
        _outcome(result, projection),
        cut="left" if name in ("read", "write", "edit", "ls") else "right",
        gap=gap,
        body=_body(key, call, result) if opened else _tail(key, output),
        indent=INDENT + 2,
        least=16,
    )


def call_title(call: ToolCallPart) -> str:
    """A call in one line: what it acts on."""
    subject = subject_of(call)
    words = clean_line(subject.text)
    if subject.kind != "search":
        return words
    where = call.parsed().get("path")
    return f'"{words}" {clean_line(where)}' if isinstance(where, str) else f'"{words}"'


def fold_block(fold: Compaction, projection: Projection, *, opened: bool) -> RuleBlock:
    """The one line a compaction leaves in the transcript; opened, its summary below."""
    sizes = f"{numbers.tokens(fold.tokens_before)} → {numbers.tokens(fold.tokens_after)} tokens"
    if not fold.tokens_after:
        sizes = f"{numbers.tokens(fold.tokens_before)} tokens before"
    how = clean_line(rung_words(fold.rung))
    folded = fold_words(projection, fold) if folded_count(projection, fold) or not how else ""
    lost = f"{fold.lost} of {fold.facts} facts lost" if fold.facts else ""
    hint, key = "" if opened else "Enter to read", (fold.index, 0)
    return RuleBlock(
        key,
        " · ".join(filter(None, (sizes, folded, lost, how, hint))),
        brief=" · ".join(filter(None, (sizes, how or folded, hint))),
        lead="▾─" if opened else "▸─",
        right=_time(fold.at),
        body=TextBlock(key, clean(fold.summary or _without_summary(projection, fold)), "folded")
        if opened
        else None,
        indent=INDENT + 3,
    )


def _without_summary(projection: Projection, fold: Compaction) -> str:
    """What opening a fold shows that wrote no text: an empty line would read as a summary that failed."""
    return (
        f"No summary was written: {fold_words(projection, fold)}. The history has all of it: "
        "the model opens it with history_read, /undo takes the fold back."
    )


def altered_letter(projection: Projection, index: int) -> str:
    """`C` or `H` for an entry that is in the view, but not as it was."""
    return {"clipped": "C", "hidden": "H"}.get(projection.fate(index).kind, "")


def prompt_block(message: UserMessage, *, cut: bool = False) -> TextBlock:
    """What the user said. `cut`: a fold that is being made would cut here. Its mark has room kept for it, so
    that nothing is wrapped anew when it comes or goes."""
    images = sum(isinstance(part, ImagePart) for part in message.parts)
    text = clean(message.text) + (f"  [{images} image{'s' if images > 1 else ''}]" if images else "")
    lead = {"typed": "❯ ", "shell": "! ", "machine": "· "}[message.origin]
    return TextBlock(
        (message.index, 0),
        text,
        "text bold" if message.origin == "typed" else "muted",
        lead=((lead, "accent"),),
        right=(("◆ " if cut else "  ", "accent"), *_time(message.at)),
        gap=1,
    )


def _undone(projection: Projection, index: int) -> str:
    target = projection.entry(index)
    match target:
        case Compaction():
            sizes = f"{numbers.tokens(target.tokens_before)} → {numbers.tokens(target.tokens_after)}"
            return f"fold {target.index} undone: {sizes} taken back"
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


def _outcome(result: ToolResultMessage | None, projection: Projection) -> tuple[Column, ...]:
    if result is None:
        return (Column("…", _BRIEF, "accent", align="left"),)
    details = result.details
    weight = entry_weight(projection, result)
    letter = altered_letter(projection, result.index)
    tokens = f"{letter} {numbers.tokens(weight.tokens)}".strip()
    brief = clean_line(details.brief) or ("failed ✗" if result.is_error else "")
    columns = [
        Column(brief, _BRIEF, "alert" if result.is_error else "text", align="left"),
        Column(tokens, _TOKENS, "altered" if letter else "muted", drop="last"),
    ]
    if details.seconds is not None:
        columns.append(Column(numbers.seconds(details.seconds), _SECONDS, "muted", drop="first"))
    return tuple(columns)


def _body(key: Key, call: ToolCallPart, result: ToolResultMessage | None) -> Block:
    if result is None:
        return OutputBlock(key, call.arguments)
    if result.details.diff:
        return DiffBlock(key, tuple(lines_of_diff(result.details.diff)))
    return OutputBlock(key, result.text, head=_command(call))


def _command(call: ToolCallPart) -> str:
    """A shell command in full: the row shows as much of it as there is room for."""
    command = call.parsed().get("command")
    return f"$ {command}" if isinstance(command, str) else ""


def _tail(key: Key, output: str, most: int = 6) -> Block | None:
    """The last lines of a command that still runs, as a terminal would show them."""
    lines = clean(printed(output[-4_000:].encode())).rstrip().splitlines()[-most:]
    return TextBlock(key, "\n".join(lines), "muted") if lines else None


def _aside(key: Key, text: str, style: str = "muted") -> TextBlock:
    return TextBlock(key, cut_right(clean_line(text), 400), style, lead=((" " * INDENT, ""),), gap=1)


def _failed(key: Key, sentence: str) -> TextBlock:
    """A failure in full: the status row has room for a part of it."""
    return TextBlock(key, clean_line(sentence), "alert", lead=((" " * INDENT + "✗ ", "alert"),), gap=1)


def _first_line(text: str) -> str:
    return clean_line(next((line for line in text.splitlines() if line.strip()), ""))


def _time(at: datetime | None) -> tuple[tuple[str, str], ...]:
    """Time of day as the reader's clock shows it."""
    return () if at is None else ((f"{at.astimezone():%H:%M}", "muted"),)
