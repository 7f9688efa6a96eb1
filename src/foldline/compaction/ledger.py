"""Puts the ledger into a view.

It goes into the new summary or, without one, into the placeholders of hidden results.
"""

from collections.abc import Mapping, Sequence
from threading import Lock
from typing import TYPE_CHECKING

from foldline.memory.ledger import Ledger, LedgerGroup, keys_in
from foldline.memory.ledger_lines import ledger_items
from foldline.protocol import NEW, BaseMessage, Clear, Edit, Revert
from foldline.text.harmless import clean
from foldline.view.items import (
    STANDING,
    Key,
    Messages,
    is_hidden_placeholder,
    is_summary,
    with_text,
)
from foldline.view.outline import MessageOutline
from foldline.view.tokens import estimate_tokens, message_tokens

from .summary_text import harmless, ledger_of, unframed, with_ledger

if TYPE_CHECKING:
    from foldline.view.projection import Projection
    from foldline.view.undo import ViewMarker

SHARE = 0.5
"""Maximum share of the free tokens below the threshold that the ledger may use.

The value was chosen by measurement (docs/decisions/0038-ledger.md).
"""
MOST = 8_000
"""Maximum size of the ledger in tokens, regardless of the window.

In measurements, this was the best of 3,000, 4,000, 6,000 and 8,000 (docs/decisions/0038-ledger.md).
"""
_NEW_SHARE = 5
"""New placeholders get at least 1/_NEW_SHARE (a fifth) of the ledger's budget.

Earlier placeholders keep their lines, because these are in the provider's cache
(docs/decisions/0039-price.md).
"""
_MOST_READ = 10_000
"""Maximum number of entries read when a session is reopened, starting with the newest.

Reading them takes about 6 s in a thread. In a running session, all entries are read. Of the lines that turned
out to be needed, only one in a thousand was older than 600 entries.
"""


class SessionLedger:
    """The ledger of a session, updated whenever a compaction is drafted.

    The ledger is a cache: it can be discarded and rebuilt from the session.
    """

    def __init__(self, ledger: Ledger | None = None) -> None:
        self.ledger = ledger or Ledger()
        self._position = 0
        """Position, in the history, of the first entry that has not been added to the ledger."""
        self._removals: tuple[int, ...] = ()
        """Indexes of the markers that removed messages. If they change, the ledger is rebuilt."""
        self._lock = Lock()

    def follow(self, projection: "Projection") -> Ledger:
        """Update the ledger from the projection, and return it.

        Blocks while reading new entries from disk, so do not call this on the event loop. Messages that were
        dropped, rewound or cleared are left out.
        """
        with self._lock:
            removals = tuple(
                marker.index for marker in projection.markers if _removes(marker)
            )
            if removals != self._removals:
                self.ledger = Ledger(self.ledger.score)
                self._position = 0
                self._removals = removals
            outlines = projection.entries.outlines
            start = max(self._position, len(outlines) - _MOST_READ)
            for position in range(start, len(outlines)):
                outline = outlines[position]
                if (
                    isinstance(outline, MessageOutline)
                    and projection.fate(outline.index).kind in STANDING
                ):
                    message = projection.entries[position]
                    if isinstance(message, BaseMessage):
                        self.ledger.add(message)
            self._position = len(outlines)
            return self.ledger


def _removes(marker: "ViewMarker") -> bool:
    if isinstance(marker, Edit):
        return marker.action == "drop"
    return isinstance(marker, Clear | Revert)


def budget_of(room: int) -> int:
    """Return how many of the `room` free tokens the ledger may use."""
    return max(0, min(MOST, int(SHARE * room)))


def with_ledger_in(
    before: Messages,
    after: Messages,
    ledger: Ledger,
    room: int,
) -> list[BaseMessage]:
    """Add the ledger to a new view.

    Of the lines that are not in the view, those most likely to be needed are chosen. They go into the new
    summary or, if there is none, into the placeholders of newly hidden results.

    Args:
        before: the view that was compacted.
        room: number of free tokens, as estimated.
    """
    view = list(after)
    budget = budget_of(room)
    summaries = [
        at
        for at, message in enumerate(view)
        if message.index == NEW and is_summary(message)
    ]
    if summaries:
        _fill_summary(before, view, summaries[-1], ledger, budget)
    else:
        _fill_placeholders(
            {message.key: message for message in before}, view, ledger, budget
        )
    return view


def _fill_summary(
    before: Messages,
    view: list[BaseMessage],
    position: int,
    ledger: Ledger,
    budget: int,
) -> None:
    """Put the pinned lines and the ledger into the summary at `position`."""
    pinned = _pinned_lines(before, view)
    summary = view[position]
    view[position] = with_text(summary, _with_lines(summary, [], pinned))
    room = budget - estimate_tokens("\n".join(pinned))
    lines = [clean(group.text) for group in ledger.choose(room, keys_in(view))]
    summary = view[position]
    view[position] = with_text(summary, _with_lines(summary, lines))


def _fill_placeholders(
    before: Mapping[Key, BaseMessage],
    view: list[BaseMessage],
    ledger: Ledger,
    budget: int,
) -> None:
    """Put the ledger into the placeholders of newly hidden results.

    Earlier placeholders keep their lines if there is still enough room for the new placeholders.
    """
    earlier = {}
    used = 0
    for at, message in enumerate(view):
        old_message = before.get(message.key)
        if old_message is not None and is_hidden_placeholder(old_message.text):
            earlier[at] = old_message
            used += message_tokens(old_message) - message_tokens(message)
    least = budget // _NEW_SHARE
    if used + least <= budget / SHARE:
        for at, placeholder in earlier.items():
            view[at] = placeholder
        budget = max(least, budget - used)
    hidden = {
        message.index: at
        for at, message in enumerate(view)
        if is_hidden_placeholder(message.text) and before.get(message.key) != message
    }
    for group in ledger.choose(budget, keys_in(view), entries=hidden):
        at = hidden[group.entry]
        excerpt = harmless(clean(_excerpt(group)))
        view[at] = with_text(view[at], f"{view[at].text}\n{excerpt}")


def _pinned_lines(before: Messages, after: Messages) -> list[str]:
    """Return the pinned lines of the summaries that were replaced."""
    kept = {message.key for message in after}
    lines = {}
    for message in before:
        if is_summary(message) and message.key not in kept:
            _, pinned = ledger_of(unframed(message))
            lines.update(dict.fromkeys(pinned))
    return ledger_items(lines)


def _with_lines(
    message: BaseMessage, items: Sequence[str], pinned: Sequence[str] | None = None
) -> str:
    """Return the text of a summary message, with this ledger inside the frame."""
    summary = unframed(message)
    if not summary:
        return message.text
    return message.text.replace(summary, with_ledger(summary, items, pinned), 1)


def _excerpt(group: LedgerGroup) -> str:
    return "\n".join([" ".join(group.names), *group.lines]).strip()
