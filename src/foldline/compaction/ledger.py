"""The ledger in a view: in the summary that a strategy wrote, or in the placeholders of what it hid."""

from collections.abc import Sequence
from threading import Lock
from typing import TYPE_CHECKING

from foldline.context.harmless import clean
from foldline.context.ledger import Group, Ledger, ledger_items, said_in
from foldline.context.outline import MessageOutline
from foldline.context.tokens import estimate_tokens, message_tokens
from foldline.context.view import STANDING, is_hidden_placeholder, is_summary, with_text
from foldline.protocol import NEW, BaseMessage, Clear, Edit, Revert

from .summary_text import harmless, ledger_of, unframed, with_ledger

if TYPE_CHECKING:
    from foldline.context.projection import Projection
    from foldline.context.view_state import ViewMarker

SHARE = 0.5
"""Of what a compaction leaves free below the threshold, how much the ledger takes. Measured
(docs/decisions/0038-ledger.md)."""
MOST = 8_000
"""Tokens of it at most, however large the window. Of 3,000, 4,000, 6,000 and 8,000 the one with most
recall (docs/decisions/0038-ledger.md)."""
_LEAST_NEW = 5
"""What earlier placeholders quote stays as it is, for the cache holds it, as long as it leaves room for this
part of the budget; new ones get what is left of it, and at least that (docs/decisions/0039-price.md)."""
_FURTHEST = 10_000
"""Entries that are read of a session that was opened again, the newest ones: about 6 s in its thread.
One that runs takes in all. Of what was needed, one in a thousand had last been said 600 entries before."""


class SessionLedger:
    """The ledger of a session, brought up to date when a compaction is drafted: it can be thrown away."""

    def __init__(self, ledger: Ledger | None = None) -> None:
        self.ledger = ledger or Ledger()
        self._position = 0
        self._gone: tuple[int, ...] = ()
        self._lock = Lock()

    def follow(self, projection: "Projection") -> Ledger:
        """The ledger of what the projection holds now. Reads what is new from where it is kept: in a thread.
        What was dropped, rewound or cleared is not in it."""
        with self._lock:
            gone = tuple(marker.index for marker in projection.markers if _takes_away(marker))
            if gone != self._gone:
                self.ledger, self._position, self._gone = Ledger(self.ledger.score), 0, gone
            outlines = projection.entries.outlines
            for position in range(max(self._position, len(outlines) - _FURTHEST), len(outlines)):
                outline = outlines[position]
                if isinstance(outline, MessageOutline) and projection.fate(outline.index).kind in STANDING:
                    message = projection.entries[position]
                    if isinstance(message, BaseMessage):
                        self.ledger.add(message)
            self._position = len(outlines)
            return self.ledger


def _takes_away(marker: "ViewMarker") -> bool:
    return isinstance(marker, Clear | Revert) or (isinstance(marker, Edit) and marker.action == "drop")


def budget_of(room: int) -> int:
    """Tokens that a ledger may take where so many are free."""
    return max(0, min(MOST, int(SHARE * room)))


def with_ledger_in(
    before: Sequence[BaseMessage], after: Sequence[BaseMessage], ledger: Ledger, room: int
) -> list[BaseMessage]:
    """The view with what is most likely to be needed of all that it does not say: in the summary that was
    written, else in the placeholders of what was hidden.

    Args:
        before: the view that was compacted.
        room: estimated tokens that are free in it.
    """
    made = list(after)
    budget = budget_of(room)
    written = [at for at, message in enumerate(made) if message.index == NEW and is_summary(message)]
    if written:
        at = written[-1]
        pinned = _pinned(before, made)
        made[at] = with_text(made[at], _replaced(made[at], [], pinned))
        groups = ledger.choose(budget - estimate_tokens("\n".join(pinned)), said_in(made))
        made[at] = with_text(made[at], _replaced(made[at], [clean(group.text) for group in groups]))
        return made
    known = {message.key: message for message in before}
    kept = {
        at: known[stub.key]
        for at, stub in enumerate(made)
        if stub.key in known and is_hidden_placeholder(known[stub.key].text)
    }
    used = sum(message_tokens(stub) - message_tokens(made[at]) for at, stub in kept.items())
    least = budget // _LEAST_NEW
    if used + least <= budget / SHARE:
        for at, stub in kept.items():
            made[at] = stub
        budget = max(least, budget - used)
    hidden = {
        message.index: at
        for at, message in enumerate(made)
        if is_hidden_placeholder(message.text) and known.get(message.key) != message
    }
    for group in ledger.choose(budget, said_in(made), entries=hidden):
        stub = made[hidden[group.entry]]
        made[hidden[group.entry]] = with_text(stub, f"{stub.text}\n{harmless(clean(_excerpt(group)))}")
    return made


def _pinned(before: Sequence[BaseMessage], after: Sequence[BaseMessage]) -> list[str]:
    """The pinned lines of the summaries that are not there any more."""
    kept = {message.key for message in after}
    gone = [message for message in before if is_summary(message) and message.key not in kept]
    return ledger_items(dict.fromkeys(line for message in gone for line in ledger_of(unframed(message))[1]))


def _replaced(summary: BaseMessage, items: Sequence[str], pinned: Sequence[str] | None = None) -> str:
    """The text of a summary with this ledger, within its frame where it has one."""
    said = unframed(summary)
    return summary.text.replace(said, with_ledger(said, items, pinned), 1) if said else summary.text


def _excerpt(group: Group) -> str:
    return "\n".join([" ".join(group.names), *group.lines]).strip()
