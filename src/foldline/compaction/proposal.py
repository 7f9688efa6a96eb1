"""A proposal: a finished, validated compaction, not committed. It can be looked at, revised, applied."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import count
from typing import Literal

from foldline.context.audit import Audit, audit, taken
from foldline.context.cut import Cut, cut_at, cut_points
from foldline.context.derive import derive
from foldline.context.projection import Projection
from foldline.context.tokens import message_tokens, thinking_tokens
from foldline.context.view import ViewItem, is_preamble, is_summary
from foldline.protocol import NEW, BaseMessage, Compaction, Reason
from foldline.protocol.operations import LedgerChange

from .rewrite import faults
from .strategy import CompactionFailed, DraftRejected
from .summary_text import appendix_of, framed, harmless, notes_of, revised_ledger, unframed

_ids = count(1)

State = Literal["current", "edited", "stale"]


@dataclass(frozen=True, slots=True)
class Outline:
    """What a compaction at the present cut compacts and keeps, in tokens as decisions use them."""

    compacted: int
    """Entries, as `Proposal.compacted` counts them."""
    tokens_after: int
    """Of the next request; for a stale draft as if its summary stayed as long as it is."""


@dataclass(frozen=True)
class Proposal:
    """What is previewed is what is applied. Sizes in tokens, as decisions use them."""

    entry: Compaction
    """What would be appended. Its `tokens_after` is the size of the view with it."""
    view: tuple[ViewItem, ...]
    """The view it was made for: it fits no other."""
    drafted: tuple[BaseMessage, ...]
    """The new view as it was drafted, before the user's own pins."""
    after: tuple[BaseMessage, ...]
    """The new view."""
    audit: Audit
    model_calls: int
    troubles: tuple[str, ...]
    """Why the rungs before the one that made it gave up, as sentences."""
    groups: tuple[tuple[int, ...], ...]
    """The tool groups of the view, each pinned as one; the call stands first."""
    originals: Mapping[int, BaseMessage] = field(default_factory=dict)
    """What is hidden or clipped in the view, as it was: a pin shows it whole again."""
    pinned_before: frozenset[int] = frozenset()
    overhead: int = 0
    """Estimate of the tool schemas, before calibration."""
    scale: float = 1.0
    replays_reasoning: bool = False
    """Whether reasoning is sent back, and counts."""
    left_out: frozenset[tuple[int, int]] = frozenset()
    """Keys of what was truncated after a summary had been written: it covers none of them."""
    cut: Cut[ViewItem] | None = None
    """Where the user may move it from; None where the strategy knows no cut."""
    drafted_for: int | None = None
    """The first kept index of the cut it was drafted for."""
    pins: frozenset[int] = frozenset()
    """Entries to pin with it."""
    edited: bool = False
    outdated: bool = False
    """Whether something else than the cut has changed that only a new draft can follow."""
    id: str = field(default_factory=lambda: f"p{next(_ids)}")

    @property
    def state(self) -> State:
        """`stale`: the draft was made for another cut or focus, and has to be made again."""
        moved = self.cut is not None and self.cut.first_kept_index != self.drafted_for
        return "stale" if moved or self.outdated else "edited" if self.edited else "current"

    @property
    def compacted(self) -> int:
        """How many entries it compacts, as `compacted_count` says of it once it is applied."""
        spans = [span for piece in self.entry.written for span in piece.covers]
        if not spans:  # nothing was written: what it left out
            survivors = {message.key for message in self.after}
            return sum(item.key not in survivors and not item.written for item in self.view)
        return sum(
            not item.written and any(first <= item.index <= last for first, last in spans)
            for item in self.view
        )

    @cached_property
    def kept(self) -> int:
        survivors = {message.key for message in self.after}
        return sum(item.key in survivors for item in self.view)

    @property
    def left(self) -> float:
        """The share of the view that it leaves, by estimate."""
        return self._tokens(self.after) / max(1, self._weight(self.view))

    @property
    def notes(self) -> str:
        """The text of the summary that a person may edit: without the lists appended from the history."""
        return notes_of(self.entry.summary)

    @property
    def editable(self) -> bool:
        """Whether there is one new text to edit."""
        return len([message for message in self.drafted if message.index == NEW]) == 1

    @property
    def outline(self) -> Outline:
        """Follows the cut and the pins at once, also where the draft does not."""
        stays = self._stays()
        written = self._tokens(message for message in self.after if message.index == NEW)
        if self.state == "stale":
            kept = self._weight(item for item in self.view if item.key in stays)
        else:
            kept = self._tokens(message for message in self.after if message.index != NEW)
        return Outline(
            compacted=sum(not item.written and item.key not in stays for item in self.view)
            if self.state == "stale"
            else self.compacted,
            tokens_after=round((kept + written + self.overhead) * self.scale),
        )

    def _tokens(self, messages: Iterable[BaseMessage]) -> int:
        """Estimate before calibration."""
        with_thinking = self.replays_reasoning
        return sum(message_tokens(one) + (thinking_tokens(one) if with_thinking else 0) for one in messages)

    def _weight(self, items: Iterable[ViewItem]) -> int:
        """As `_tokens`, of what was weighed already."""
        return sum(item.tokens + (item.thinking if self.replays_reasoning else 0) for item in items)

    def _stays(self) -> set[tuple[int, int]]:
        """Keys of the items that stay in the view, as the cut is now."""
        if self.state == "stale" and self.cut is not None:
            leaves = {message.key for message in (*self.cut.compacted, *self.cut.previous)}
            return {item.key for item in self.view} - leaves
        return {message.key for message in self.after if message.index != NEW}

    def fits(self, projection: Projection) -> bool:
        """Whether the view is still the one it was made for, pins included, or has only grown since."""
        return tuple(projection.view[: len(self.view)]) == self.view

    def grown(self, projection: Projection, reason: Reason, tokens_before: int) -> "Proposal":
        """The same compaction of the view as it is now, which has only grown since: for this reason, of this
        size.

        Raises:
            CompactionFailed: it may not replace the view as it is now; the sentence says why.
        """
        more = tuple(projection.view[len(self.view) :])
        messages = tuple(item.message for item in more)
        entry = self.entry.model_copy(update={"reason": reason, "tokens_before": tokens_before})
        made = replace(
            self,
            entry=entry,
            view=self.view + more,
            drafted=self.drafted + messages,
            after=self.after + messages,
            groups=tuple(dict.fromkeys([*self.groups, *(projection.group(item.index) for item in more)])),
            scale=projection.scale,
        )
        return made.revised()

    def revised(
        self,
        *,
        notes: str | None = None,
        pins: frozenset[int] | None = None,
        ledger: Mapping[str, LedgerChange] | None = None,
    ) -> "Proposal":
        """Another proposal with this text, these pins, these changes of the ledger, checked like a draft. No
        model call.

        Raises:
            CompactionFailed: what comes out may not replace the view; the sentence says why.
        """
        made = self
        if notes is not None and notes.strip() != self.notes:
            made = replace(self, drafted=self._with_notes(notes.strip()), edited=True)
        if ledger:
            drafted = tuple(
                framed(revised_ledger(unframed(message), ledger)) if message.index == NEW else message
                for message in made.drafted
            )
            made = replace(made, drafted=drafted, edited=True)
        chosen = self._whole_groups(self.pins if pins is None else pins) - self.pinned_before
        self._refuse_what_cannot_be_pinned(chosen)
        made = made.with_pins(chosen)
        return made if made.cut is None else made._cut_at(made.cut.first_kept_index)

    def moved(self, first_kept_index: int) -> "Proposal":
        """With the cut at another legal place: stale, where the draft was made for another one.

        Raises:
            CompactionFailed: no cut can be there.
        """
        if self.cut is None:
            raise CompactionFailed("This strategy decides itself what it keeps: there is no cut to move.")
        return self._cut_at(first_kept_index)

    def _cut_at(self, first_kept_index: int) -> "Proposal":
        pins = self.pinned_before | self.pins
        # Also at what is pinned with it: that stays in either case.
        places = cut_points(self.view, self.pinned_before)
        legal = (at for at in places if self.view[at].index == first_kept_index)
        place = next(legal, None)
        cut = None if place is None else cut_at(self.view, place, pins=pins)
        if cut is None:
            raise CompactionFailed(f"Nothing can be cut at entry {first_kept_index}.")
        moved = replace(self, cut=cut, id=f"p{next(_ids)}")
        messages = [item.message for item in self.view]
        after: Sequence[BaseMessage] = self.after
        if moved.state == "stale":
            stays = moved._stays()
            after = [message for message in messages if message.key in stays]
            after += [message for message in self.after if message.index == NEW]
        return replace(moved, audit=audit(taken(messages, after), after))

    def out_of_date(self) -> "Proposal":
        """The same draft, to be made again before it can be applied."""
        return replace(self, outdated=True, id=f"p{next(_ids)}")

    def _with_notes(self, notes: str) -> tuple[BaseMessage, ...]:
        if not notes:
            raise DraftRejected("The text of the summary is empty.")
        if not self.editable:
            raise DraftRejected("This compaction has not one new text: it cannot be edited.")
        return tuple(
            framed(harmless(notes) + appendix_of(unframed(message))) if message.index == NEW else message
            for message in self.drafted
        )

    def _refuse_what_cannot_be_pinned(self, indices: frozenset[int]) -> None:
        """Raises CompactionFailed where one of these is no message of the conversation in this view."""
        known = {item.index for item in self.view if not (item.written or item.is_preamble)}
        if unknown := sorted(indices - known):
            raise CompactionFailed(
                f"Entry {unknown[0]} is no message of the conversation in this view: it cannot be pinned."
            )

    def _whole_groups(self, indices: frozenset[int]) -> frozenset[int]:
        whole = {index for group in self.groups if indices & {*group} for index in group}
        return frozenset(whole | indices)

    def with_pins(self, pins: frozenset[int]) -> "Proposal":
        """The compaction of what was drafted, with these entries pinned: its entry, its view, its audit.

        Raises:
            CompactionFailed: it may not replace the view; the sentence says why.
        """
        before = shown(self.view, self.originals, pins)
        after = with_kept(before, self.drafted, pins)
        refused = self.entry.reason == "overflow"
        wrong = faults(before, after, self.pinned_before | pins, unseen_may_be_clipped=refused)
        if not wrong and self._tokens(after) >= self._weight(self.view):
            wrong = ["with these pins it is not smaller"]
        if wrong:
            raise CompactionFailed(f"The compaction was rejected: {'; '.join(wrong)}.")
        found = audit(taken(before, after), after)
        entry = derive(before, after, self.left_out).model_copy(
            update={
                **{name: getattr(self.entry, name) for name in _CARRIED},
                "summary": summary_of(after),
                "pins": tuple(sorted({group[0] for group in self.groups if pins & {*group}})),
                "tokens_after": round((self._tokens(after) + self.overhead) * self.scale),
                "facts": found.facts,
                "lost": len(found.lost),
            }
        )
        return replace(
            self,
            entry=entry,
            after=tuple(after),
            audit=found,
            pins=pins,
            id=f"p{next(_ids)}",
        )


_CARRIED = ("strategy", "rung", "reason", "focus", "model", "usage", "tokens_before", "details")
"""What of an entry does not depend on the text and the pins."""


def summary_of(after: Sequence[BaseMessage]) -> str:
    return "\n\n".join(unframed(message) for message in after if message.index == NEW)


def originals_of(projection: Projection) -> dict[int, BaseMessage]:
    """What is hidden or clipped in the view, as it was, by index."""
    changed = (projection.entry(item.index) for item in projection.view if item.fate != "live")
    return {message.index: message for message in changed if isinstance(message, BaseMessage)}


def shown(
    view: Sequence[ViewItem], originals: Mapping[int, BaseMessage], pins: frozenset[int]
) -> list[BaseMessage]:
    """The messages of a view once these entries are pinned: what is pinned is shown whole."""
    return [originals.get(item.index, item.message) if item.index in pins else item.message for item in view]


def with_kept(
    before: Sequence[BaseMessage], after: Sequence[BaseMessage], wanted: frozenset[int]
) -> list[BaseMessage]:
    """`after` with these entries of `before` verbatim: in their order, behind the summaries."""
    originals = {m.key: m for m in before if m.index in wanted and not is_summary(m)}
    missing = [m for m in originals.values() if all(m.key != kept.key for kept in after)]
    made = [originals.get(message.key, message) for message in after]
    places = {message.key: place for place, message in enumerate(before)}
    new = [place for place, message in enumerate(made) if message.index == NEW]
    head = new[-1] + 1 if new else 0
    for message in missing:
        later = (
            at
            for at in range(head, len(made))
            if not _is_first(made[at]) and places[made[at].key] > places[message.key]
        )
        made.insert(next(later, len(made)), message)
    return made


def _is_first(message: BaseMessage) -> bool:
    """Whether it opens a view, whenever it came."""
    return message.index == NEW or is_preamble(message)
