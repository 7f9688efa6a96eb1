"""What a reader gathers while it goes through records: entries, and sentences on what was left out."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from foldline.protocol import Entry, Unknown

from .base import Counted, Json, as_object, as_text

_NAMED_KINDS = 8
"""How many kinds a note names one by one."""
_LONGEST_KIND = 40


@dataclass(frozen=True, slots=True)
class Noted:
    """Entries in index order, what a reader should know about them, and the folder where known."""

    entries: Sequence[Entry]
    notes: tuple[str, ...] = ()
    cwd: str = ""
    counted: tuple[Counted, ...] = ()


def kind_of(piece: Json) -> str:
    """What a piece of a message, or a record, calls itself."""
    return as_text(as_object(piece).get("type")).strip()[:_LONGEST_KIND] or "without a type"


def left_out_note(kinds: Iterable[str]) -> tuple[str, ...]:
    """A sentence on pieces of messages that are left out, with their kinds; none where there are none."""
    named = by_kind(kinds)
    return (f"Left out, pieces of messages of a kind that cannot be shown here: {named}.",) if named else ()


def unknown_records_note(entries: Iterable[Entry], known: tuple[str, ...]) -> tuple[str, ...]:
    """A sentence on records of unknown kinds: kept, but in no view.

    `known` is how the kinds begin that say nothing to a model.
    """
    return unknown_note(kind for kind in map(_record_kind, entries) if kind and not kind.startswith(known))


def unknown_note(kinds: Iterable[str]) -> tuple[str, ...]:
    named = by_kind(kinds)
    return (f"Not in the view, records of kinds unknown here: {named}.",) if named else ()


def _record_kind(entry: Entry) -> str:
    """What the record of an unknown entry is called, without the name of the agent; empty for others."""
    return entry.type.partition(".")[2][:_LONGEST_KIND] if isinstance(entry, Unknown) else ""


def by_kind(kinds: Iterable[str]) -> str:
    """`audio (2), document (1)`, the most frequent first."""
    counts = Counter(kinds).most_common()
    named = [f"{kind} ({count})" for kind, count in counts[:_NAMED_KINDS]]
    rest = counts[_NAMED_KINDS:]
    if rest:
        named.append(f"{len(rest)} more kinds ({sum(count for _, count in rest)})")
    return ", ".join(named)
