"""Builds and parses the text of a summary: notes, followed by lists quoted from the history.

The notes are written by a model or by the digest.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from foldline.memory.clip import clip_to_tokens
from foldline.memory.facts import constraints, same_words
from foldline.memory.language import NONE, SECTIONS, within_frame
from foldline.memory.ledger_lines import LedgerLine, ledger_items, ledger_lines
from foldline.protocol import (
    NEW,
    BaseMessage,
    CompactionDetails,
    SystemMessage,
    UserMessage,
    text_parts,
)
from foldline.protocol.operations import LedgerChange
from foldline.text.tags import defused
from foldline.view.cut import LEAST_COMPACTED
from foldline.view.tokens import estimate_tokens

from .strategy import load_prompt, tokens_of

CONSTRAINTS = "standing-constraints"
LAST_MESSAGES = "last-user-messages"
KEPT = "kept-below"
LEDGER = "ledger"
PINNED = "pinned-lines"
"""Tag around the ledger's pinned lines, which every compaction keeps."""
_LISTS = (
    f"{CONSTRAINTS}|{LAST_MESSAGES}|read-files|modified-files|{KEPT}|{PINNED}|{LEDGER}"
)

_OPEN = "<summary>"
_CLOSE = "</summary>"
_LIST_START = re.compile(rf"<({_LISTS})>\n")
_QUOTE = re.compile(r"^\[entry (\d{1,18})\] ", re.MULTILINE)
"""The label of a quoted message, containing the index of its entry in the history."""
_UNLISTED = "[foldline: {} more are not listed here; history_search finds them]"
_LABEL_TOKENS = 12
"""Maximum number of tokens in the label of a quote, including the preceding line end."""
_LIST_SHARE = 4
"""Each appended list may take up at most 1/_LIST_SHARE (a quarter) of the summary's tokens.

The newest items are kept.
"""


def framed(summary: str) -> SystemMessage:
    """Return a summary message whose text is marked as data (docs/design/compaction.md)."""
    frame = load_prompt("summary-frame").replace(
        "{summary}", defused(summary, "summary")
    )
    return SystemMessage(origin="summary", parts=text_parts(frame))


def unframed(message: BaseMessage) -> str:
    """Return the text of a summary message without its frame.

    If there is no frame, as in imported sessions, returns the entire text.
    """
    return within_frame(message.text)


def unwrapped(answer: str) -> str:
    """Return a model's response without the enclosing `<summary>` tags."""
    summary = answer.strip()
    if summary.startswith(_OPEN) and summary.endswith(_CLOSE):
        summary = summary[len(_OPEN) : -len(_CLOSE)].strip()
    return summary


@dataclass(frozen=True, slots=True)
class _AppendedList:
    """A list in a summary.

    `start` and `end` include the line ends before the list.
    """

    start: int
    end: int
    name: str
    body: str


def notes_of(summary: str) -> str:
    """Return a summary without its appended lists."""
    parts: list[str] = []
    end = 0
    for appended in _lists(summary):
        parts.append(summary[end : appended.start])
        end = appended.end
    parts.append(summary[end:])
    return "".join(parts).strip()


def appendix_of(summary: str) -> str:
    """Return the appended lists of a summary, as text."""
    lists = [
        summary[appended.start : appended.end].strip() for appended in _lists(summary)
    ]
    return "".join(f"\n\n{text}" for text in lists)


def lists_of(summary: str) -> list[tuple[str, list[str]]]:
    """Return the name and the items of each appended list of a summary.

    An item may span several lines.
    """
    return [
        (appended.name, _items(appended.name, appended.body))
        for appended in _lists(summary)
    ]


def _lists(summary: str) -> list[_AppendedList]:
    """Return the appended lists in order.

    Takes linear time, because each missing end tag is searched for only once.
    """
    lists: list[_AppendedList] = []
    unclosed: set[str] = set()
    last_end = 0
    for opening in _LIST_START.finditer(summary):
        name = opening[1]
        if opening.start() < last_end or name in unclosed:
            continue
        body_end = summary.find(f"\n</{name}>", opening.end())
        if body_end < 0:
            unclosed.add(name)
            continue
        start = opening.start()
        while start > last_end and summary[start - 1] == "\n":
            start -= 1
        last_end = body_end + len(f"\n</{name}>")
        lists.append(
            _AppendedList(start, last_end, name, summary[opening.end() : body_end])
        )
    return lists


def harmless(text: str) -> str:
    """Defuse the list tags in text, so that it can neither open nor close a list."""
    return defused(text, *_LISTS.split("|"))


def with_appendix(
    notes: str,
    compacted: Sequence[BaseMessage],
    previous: str,
    details: CompactionDetails,
    max_tokens: int,
) -> str:
    """Append constraints, user messages and files to the notes."""
    room = max_tokens // _LIST_SHARE
    rules = _listed(_constraints(compacted, previous), room)
    freed = tokens_of(compacted) + estimate_tokens(previous) - 2 * LEAST_COMPACTED
    # Limit the quotes by the freed tokens: otherwise a small compaction would free nothing.
    quotes = _last_messages(compacted, previous, min(room, freed // _LIST_SHARE))
    lists = {
        CONSTRAINTS: rules,
        LAST_MESSAGES: quotes,
        "read-files": _listed(list(details.read_files), room),
        "modified-files": _listed(list(details.modified_files), room),
    }
    blocks = [_block(tag, items) for tag, items in lists.items() if items]
    return "\n\n".join([harmless(_without(notes.strip(), rules)), *blocks])


def _without(notes: str, constraints: Sequence[str]) -> str:
    """Return the notes without the constraints that are quoted below the notes.

    If this leaves the section on constraints empty, a line is added that says so.
    """
    quoted = set(map(same_words, constraints))
    lines: list[str] = []
    for line in notes.splitlines():
        if line.startswith("- ") and same_words(line) in quoted:
            continue
        previous_line = lines[-1] if lines else ""
        if line.startswith("#") and previous_line.startswith(
            SECTIONS.constraints.heading
        ):
            lines.append(NONE)
        lines.append(line)
    return "\n".join(lines)


def with_ledger(
    summary: str, items: Sequence[str], pinned: Sequence[str] | None = None
) -> str:
    """Replace the ledger of a summary.

    Args:
        pinned: the new pinned lines; if None, the summary's pinned lines are kept.
    """
    if pinned is None:
        pinned = _bodies(summary, PINNED)
    text = summary
    for appended in reversed(_lists(summary)):
        if appended.name in (PINNED, LEDGER):
            text = text[: appended.start] + text[appended.end :]
    blocks: list[str] = []
    if pinned:
        blocks.append(_block(PINNED, pinned))
    if items:
        blocks.append(_block(LEDGER, [load_prompt("ledger"), *items]))
    return "\n\n".join([text, *(defused(block, "summary") for block in blocks)])


def ledger_of(summary: str) -> tuple[list[LedgerLine], list[LedgerLine]]:
    """Return the ledger lines and the pinned lines of a summary."""
    lines = ledger_lines("\n".join(_bodies(summary, LEDGER)))
    pinned = ledger_lines("\n".join(_bodies(summary, PINNED)))
    return lines, pinned


def revised_ledger(summary: str, changes: Mapping[str, LedgerChange]) -> str:
    """Return the summary, with lines of its ledger pinned, unpinned or dropped.

    Args:
        changes: the change to each line, by line id.
    """
    lines, old_pinned = ledger_of(summary)
    old_pinned_ids = {line.id for line in old_pinned}
    unpinned: list[LedgerLine] = []
    pinned: list[LedgerLine] = []
    for line in (*lines, *old_pinned):
        default = "pin" if line.id in old_pinned_ids else ""
        change = changes.get(line.id, default)
        if change == "pin":
            pinned.append(line)
        elif change != "drop":
            unpinned.append(line)
    return with_ledger(summary, ledger_items(unpinned), ledger_items(pinned))


def _bodies(summary: str, name: str) -> list[str]:
    return [appended.body for appended in _lists(summary) if appended.name == name]


def counted(items: Iterable[str]) -> int:
    """Return the number of items in a list.

    This includes items that did not fit, which the list only counts.
    """
    return sum(_unlisted(item) or 1 for item in items)


def _constraints(compacted: Iterable[BaseMessage], previous: str) -> list[str]:
    """Return the standing constraints, oldest first.

    A repeated constraint appears only once, at the position of its last occurrence.
    """
    rules = _items_of(previous, CONSTRAINTS)
    for message in compacted:
        if isinstance(message, UserMessage):
            rules.extend(constraints(message.typed))
    newest: dict[str, str] = {}
    for rule in reversed(rules):
        newest.setdefault(same_words(rule), rule)
    return list(newest.values())[::-1]


def _last_messages(
    compacted: Iterable[BaseMessage], previous: str, room: int
) -> list[str]:
    """Return quotes of the last messages that the user typed, oldest first.

    Each quote takes up at most half of the room. If there is room left, quotes from the previous summary are
    kept.
    """
    quotes = {_number(quote): quote for quote in _items_of(previous, LAST_MESSAGES)}
    for message in compacted:
        if isinstance(message, UserMessage) and message.typed.strip():
            quotes[message.index] = _quote(message, room // 2 - _LABEL_TOKENS)
    return _newest([quotes[number] for number in sorted(quotes)], room)


def _quote(message: UserMessage, max_tokens: int) -> str:
    text = clip_to_tokens(message.typed.strip(), max_tokens, message.index)
    return f"[entry {message.index}] " + _QUOTE.sub(r" \g<0>", text)


def _number(quote: str) -> int:
    label = _QUOTE.match(quote)
    return int(label[1]) if label else NEW


def _items_of(summary: str, tag: str) -> list[str]:
    items: list[str] = []
    for body in _bodies(summary, tag):
        items += _items(tag, body)
    return items


def _items(tag: str, body: str) -> list[str]:
    if tag not in (LAST_MESSAGES, PINNED, LEDGER):
        return body.splitlines()
    positions = [label.start() for label in _QUOTE.finditer(body)]
    positions.append(len(body))
    return [body[start:end].rstrip("\n") for start, end in pairwise(positions)]


def _listed(items: list[str], max_tokens: int) -> list[str]:
    """Return the newest items that fit.

    If any items were left out, the first line gives their number.
    """
    kept = _newest(items, max_tokens)
    if len(kept) == len(items):
        return kept
    total = counted(items)
    room = max_tokens - estimate_tokens(_UNLISTED.format(total)) - 1
    kept = _newest([item for item in items if not _unlisted(item)], room)
    return [_UNLISTED.format(total - len(kept)), *kept]


def _unlisted(item: str) -> int:
    """Return the number of omitted items that an item stands for.

    Returns 0 for an ordinary item.
    """
    remark = re.match(r"\[foldline: (\d{1,9}) more are not listed", item)
    return int(remark[1]) if remark else 0


def _newest(items: list[str], max_tokens: int) -> list[str]:
    """Return the newest items that fit.

    Items that are too long are skipped.
    """
    kept: list[str] = []
    for item in reversed(items):
        tokens = estimate_tokens(item) + 1
        if tokens <= max_tokens:
            max_tokens -= tokens
            kept.append(item)
    return kept[::-1]


def _block(tag: str, items: Sequence[str]) -> str:
    lines = "\n".join(map(harmless, items))
    return f"<{tag}>\n{lines}\n</{tag}>"
