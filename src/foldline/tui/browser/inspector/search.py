"""Searches for entries by properties, such as `tool:bash state:hidden mark:failed`.

A search can combine properties with text.
"""

import re
from typing import Final, NamedTuple

from foldline.past.describe import KINDS, kind_name
from foldline.protocol import Clear, Revert, Undo
from foldline.view.items import IN_VIEW
from foldline.view.outline import CompactionOutline, MessageOutline
from foldline.view.projection import Projection

_TERM: Final = re.compile(r"(?<!\S)(?:tool|kind|state|mark):\S+", re.IGNORECASE)


class SearchQuery(NamedTuple):
    """A search: the text to find, and prefixes of properties that an entry must have."""

    text: str
    terms: tuple[str, ...] = ()

    def admits(self, properties: frozenset[str]) -> bool:
        """Whether an entry with these properties matches all terms of the search."""
        return all(
            any(name.startswith(term) for name in properties) for term in self.terms
        )


def parse_search(typed: str) -> SearchQuery:
    """Split the user's search into property terms and text."""
    terms = tuple(term.lower() for term in _TERM.findall(typed))
    text = _TERM.sub("", typed).strip() if terms else typed
    return SearchQuery(text, terms)


def properties_of(
    projection: Projection, index: int, new_from: int | None
) -> frozenset[str]:
    """Return the properties of an entry: `kind:tool`, `tool:bash`, `state:live`.

    Args:
        index: may be negative for a row that is not an entry.
        new_from: index of the first entry that has not been sent yet.
    """
    match projection.outline(index):
        case MessageOutline() as outline:
            return _of_message(projection, outline, new_from)
        case CompactionOutline():
            return frozenset({"kind:compaction", "kind:summary"})
        case Revert() | Clear() | Undo() as marker:
            return frozenset({f"kind:{kind_name(marker.type)}"})
        case _:
            entry = projection.entry(index)
            kinds = () if entry is None else (f"kind:{kind_name(entry.type)}",)
            return frozenset(kinds)


def _of_message(
    projection: Projection, outline: MessageOutline, new_from: int | None
) -> frozenset[str]:
    fate = projection.fate(outline.index).kind
    kind = kind_name(outline.type, outline.origin)
    names = {f"kind:{kind}", f"state:{fate}"}
    if KINDS.get(outline.type) == kind:  # not shortened, such as `kind:assistant`
        names.add(f"kind:{outline.type}")
    if outline.type == "tool_result":
        names.add(f"tool:{outline.name.lower()}")
    is_new = new_from is not None and outline.index >= new_from and fate in IN_VIEW
    marks = {
        "pinned": projection.is_pinned(outline.index),
        "new": is_new,
        "failed": outline.failed,
        "thinking": outline.thinking > 0,
    }
    names |= {f"mark:{name}" for name, is_set in marks.items() if is_set}
    return frozenset(names)
