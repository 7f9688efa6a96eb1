"""The text of a summary: what a model or the digest wrote, and what is appended from the history itself."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from foldline.context.clip import clip_to_tokens
from foldline.context.conversation import defused
from foldline.context.cut import LEAST_COMPACTED
from foldline.context.facts import constraints, same_words
from foldline.context.language import NONE, SECTIONS, within_frame
from foldline.context.ledger import LedgerLine, ledger_items, ledger_lines
from foldline.context.tokens import estimate_tokens, message_tokens
from foldline.protocol import NEW, BaseMessage, CompactionDetails, SystemMessage, UserMessage, text_parts
from foldline.protocol.operations import LedgerChange

from .strategy import load_prompt

CONSTRAINTS = "standing-constraints"
LAST_MESSAGES = "last-user-messages"
KEPT = "kept-below"
LEDGER = "ledger"
PINNED = "pinned-lines"
"""Lines of the ledger that every compaction keeps."""
_LISTS = f"{CONSTRAINTS}|{LAST_MESSAGES}|read-files|modified-files|{KEPT}|{PINNED}|{LEDGER}"

_OPEN, _CLOSE = "<summary>", "</summary>"
_BEGIN = re.compile(rf"<({_LISTS})>\n")
_QUOTE = re.compile(r"^\[entry (\d{1,18})\] ", re.MULTILINE)
"""Begins each quoted message: the number it can be read back by."""
_UNLISTED = "[foldline: {} more are not listed here; history_search finds them]"
_LABEL_TOKENS = 12
"""Of such a beginning at most, with the line end before it."""
_LIST_SHARE = 4
"""Each appended list takes at most a quarter of the summary's tokens; the newest items stay."""


def framed(summary: str) -> SystemMessage:
    """The message that carries a summary in the view: delimited, and marked as data
    (docs/design/compaction.md)."""
    frame = load_prompt("summary-frame").replace("{summary}", defused(summary, "summary"))
    return SystemMessage(origin="summary", parts=text_parts(frame))


def unframed(message: BaseMessage) -> str:
    """The summary a message carries; its whole text where it has no frame, as in imported sessions."""
    return within_frame(message.text)


def unwrapped(answer: str) -> str:
    """A model's summary without the tags some put around it: they are those of the frame."""
    inner = answer.strip()
    if inner.startswith(_OPEN) and inner.endswith(_CLOSE):
        inner = inner[len(_OPEN) : -len(_CLOSE)].strip()
    return inner


@dataclass(frozen=True, slots=True)
class _List:
    """An appended list within a summary, with the line ends before it."""

    start: int
    end: int
    name: str
    body: str


def notes_of(summary: str) -> str:
    """The summary without the lists that are appended anew each time."""
    lists = _lists(summary)
    ends = [0, *(found.end for found in lists)]
    starts = [*(found.start for found in lists), len(summary)]
    return "".join(summary[end:start] for end, start in zip(ends, starts, strict=True)).strip()


def appendix_of(summary: str) -> str:
    """Those lists, as they stand at the end of a summary; empty or begun by an empty line."""
    return "".join(f"\n\n{summary[found.start : found.end].strip()}" for found in _lists(summary))


def lists_of(summary: str) -> list[tuple[str, list[str]]]:
    """Those lists by name, each with its items; a quoted message may span lines."""
    return [(found.name, _items(found.name, found.body)) for found in _lists(summary)]


def _lists(summary: str) -> list[_List]:
    """The lists in order. Each end is looked for once, in a text that may be all beginnings."""
    found: list[_List] = []
    unended: set[str] = set()
    last = 0
    for begin in _BEGIN.finditer(summary):
        name, end = begin[1], -1
        if begin.start() >= last and name not in unended:
            end = summary.find(f"\n</{name}>", begin.end())
            if end < 0:
                unended.add(name)
        if end >= 0:
            start = begin.start()
            while start > last and summary[start - 1] == "\n":
                start -= 1
            last = end + len(f"\n</{name}>")
            found.append(_List(start, last, name, summary[begin.end() : end]))
    return found


def harmless(text: str) -> str:
    """The text with the tags of the lists in brackets: what is quoted can neither begin nor end one."""
    return defused(text, *_LISTS.split("|"))


def with_appendix(
    notes: str, compacted: Sequence[BaseMessage], previous: str, details: CompactionDetails, max_tokens: int
) -> str:
    """The notes, then quoted lists: standing constraints, the last user messages and the files."""
    room = max_tokens // _LIST_SHARE
    rules = _listed(_constraints(compacted, previous), room)
    freed = sum(map(message_tokens, compacted)) + estimate_tokens(previous) - 2 * LEAST_COMPACTED
    sections = (
        (CONSTRAINTS, rules),
        # Mostly quoted, a small compaction would free nothing.
        (LAST_MESSAGES, _last_messages(compacted, previous, min(room, freed // _LIST_SHARE))),
        ("read-files", _listed(list(details.read_files), room)),
        ("modified-files", _listed(list(details.modified_files), room)),
    )
    blocks = [_block(tag, items) for tag, items in sections if items]
    return "\n\n".join([harmless(_without(notes.strip(), rules)), *blocks])


def _without(notes: str, quoted: Sequence[str]) -> str:
    """The notes without the constraints that are quoted below them; a section left empty says so."""
    known = set(map(same_words, quoted))
    kept: list[str] = []
    for line in notes.splitlines():
        if not line.startswith("- ") or same_words(line) not in known:
            if line.startswith("#") and kept and kept[-1].startswith(SECTIONS.constraints.heading):
                kept.append(NONE)
            kept.append(line)
    return "\n".join(kept)


def with_ledger(summary: str, items: Sequence[str], pinned: Sequence[str] | None = None) -> str:
    """The summary with this ledger in place of the one it has, at its end, below the lines that are `pinned`;
    None: those that it has."""
    kept = _bodies(summary, PINNED) if pinned is None else pinned
    rest = summary
    for old in reversed([found for found in _lists(summary) if found.name in (PINNED, LEDGER)]):
        rest = rest[: old.start] + rest[old.end :]
    blocks = [_block(PINNED, kept)] if kept else []
    blocks += [_block(LEDGER, [load_prompt("ledger"), *items])] if items else []
    return "\n\n".join([rest, *(defused(block, "summary") for block in blocks)])


def ledger_of(summary: str) -> tuple[list[LedgerLine], list[LedgerLine]]:
    """The lines of its ledger, and those that are pinned."""
    lines, pinned = (ledger_lines("\n".join(_bodies(summary, name))) for name in (LEDGER, PINNED))
    return lines, pinned


def revised_ledger(summary: str, changes: Mapping[str, LedgerChange]) -> str:
    """The summary with some lines of its ledger dropped, pinned or no longer pinned, by their ids."""
    lines, pinned = ledger_of(summary)
    stays = [line for line in (*lines, *pinned) if changes.get(line.id) != "drop"]
    was = {line.id for line in pinned}
    kept = [line for line in stays if changes.get(line.id, "pin" if line.id in was else "") == "pin"]
    others = [line for line in stays if line not in kept]
    return with_ledger(summary, ledger_items(others), ledger_items(kept))


def _bodies(summary: str, name: str) -> list[str]:
    return [found.body for found in _lists(summary) if found.name == name]


def counted(items: Iterable[str]) -> int:
    """How many things a list stands for: those it shows, and those it says it has no room for."""
    return sum(_unlisted(item) or 1 for item in items)


def _constraints(compacted: Iterable[BaseMessage], previous: str) -> list[str]:
    """Oldest first; what was said again, in whatever spacing or quotes, stands once, where it was newest."""
    found = [
        sentence
        for message in compacted
        if isinstance(message, UserMessage)
        for sentence in constraints(message.typed)
    ]
    newest: dict[str, str] = {}
    for rule in reversed([*_items_of(previous, CONSTRAINTS), *found]):
        newest.setdefault(same_words(rule), rule)
    return list(newest.values())[::-1]


def _last_messages(compacted: Iterable[BaseMessage], previous: str, room: int) -> list[str]:
    """What the user typed last, oldest first, each under its number and at most half the room. Earlier quotes
    come along as far as the newer ones leave room."""
    quotes = {_number(quote): quote for quote in _items_of(previous, LAST_MESSAGES)}
    for message in compacted:
        if isinstance(message, UserMessage) and message.typed.strip():
            quotes[message.index] = _quote(message, room // 2 - _LABEL_TOKENS)
    return _newest([quotes[number] for number in sorted(quotes)], room)


def _quote(message: UserMessage, max_tokens: int) -> str:
    text = clip_to_tokens(message.typed.strip(), max_tokens, message.index)
    return f"[entry {message.index}] " + _QUOTE.sub(r" \g<0>", text)


def _number(quote: str) -> int:
    found = _QUOTE.match(quote)
    return int(found[1]) if found else NEW


def _items_of(summary: str, tag: str) -> list[str]:
    return [item for name, items in lists_of(summary) if name == tag for item in items]


def _items(tag: str, body: str) -> list[str]:
    if tag not in (LAST_MESSAGES, PINNED, LEDGER):
        return body.splitlines()
    starts = [found.start() for found in _QUOTE.finditer(body)]
    return [body[start:end].rstrip("\n") for start, end in pairwise([*starts, len(body)])]


def _listed(items: list[str], max_tokens: int) -> list[str]:
    """The newest items that fit, after a line that counts those that do not: nothing goes without a word."""
    kept = _newest(items, max_tokens)
    if len(kept) < len(items):
        room = max_tokens - estimate_tokens(_UNLISTED.format(counted(items))) - 1
        kept = _newest([item for item in items if not _unlisted(item)], room)
        kept.insert(0, _UNLISTED.format(counted(items) - len(kept)))
    return kept


def _unlisted(item: str) -> int:
    found = re.match(r"\[foldline: (\d{1,9}) more are not listed", item)
    return int(found[1]) if found else 0


def _newest(items: list[str], max_tokens: int) -> list[str]:
    """The newest items that fit; a single one too long for what is left makes no older one disappear."""
    kept: list[str] = []
    for item in reversed(items):
        tokens = estimate_tokens(item) + 1
        if tokens <= max_tokens:
            max_tokens -= tokens
            kept.append(item)
    return kept[::-1]


def _block(tag: str, items: Sequence[str]) -> str:
    return "\n".join([f"<{tag}>", *map(harmless, items), f"</{tag}>"])
