"""A proposal: a compaction that is complete and verified but not committed yet."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import count
from typing import Literal

from foldline.memory.audit import Audit, audit, removed
from foldline.protocol import NEW, BaseMessage, Compaction, Reason
from foldline.protocol.operations import LedgerChange
from foldline.view.cut import Cut, cut_at, cut_points
from foldline.view.derive import derive
from foldline.view.items import Key, Messages, ViewItem, is_preamble, is_summary
from foldline.view.projection import Projection
from foldline.view.tokens import message_tokens, thinking_tokens

from .rewrite import faults
from .strategy import CompactionFailed, DraftRejected
from .summary_text import (
    appendix_of,
    framed,
    harmless,
    notes_of,
    revised_ledger,
    unframed,
)

_ids = count(1)

State = Literal["current", "edited", "stale"]

NO_CUT = (
    "This strategy chooses the messages to keep itself, so there is no cut to move."
)
CANNOT_CUT = "The view cannot be cut at entry {}."
EMPTY_SUMMARY = "The summary is empty."
NOT_EDITABLE = (
    "This compaction cannot be edited, because it did not write exactly one summary."
)
CANNOT_PIN = (
    "Entry {} cannot be pinned, because it is not a conversation message in this view."
)
PINS_TOO_LARGE = "with these pins, the new view is not smaller"
REJECTED = "The compaction was rejected: {}."


@dataclass(frozen=True, slots=True)
class CompactionSizes:
    """The number of compacted entries and the resulting size, for the current cut."""

    compacted: int
    """Number of compacted entries; see `Proposal.compacted`."""
    tokens_after: int
    """Size of the next request. For a stale draft, the summary's length is assumed to stay the same."""


@dataclass(frozen=True)
class Proposal:
    """A compaction that can be previewed, revised and applied.

    The preview shows exactly the change that will be applied. Sizes are in calibrated tokens.
    """

    entry: Compaction
    """The entry to append. Its `tokens_after` is the size of a request with the new view."""
    view: tuple[ViewItem, ...]
    """The view for which the proposal was made.

    The proposal cannot be applied to a different view; see `fits`.
    """
    drafted: tuple[BaseMessage, ...]
    """The new view as drafted, without the messages that the user has pinned since then."""
    after: tuple[BaseMessage, ...]
    """The new view."""
    audit: Audit
    model_calls: int
    troubles: tuple[str, ...]
    """For each failed rung of the ladder, a sentence saying why it failed."""
    groups: tuple[tuple[int, ...], ...]
    """Indexes of the members of each tool group, starting with the call.

    A group can only be pinned as a whole.
    """
    originals: Mapping[int, BaseMessage] = field(default_factory=dict)
    """Originals of the messages that are hidden or clipped in the view.

    If such a message is pinned, the new view contains the original.
    """
    pinned_before: frozenset[int] = frozenset()
    overhead: int = 0
    """Size of the tool schemas, in estimated tokens before calibration."""
    scale: float = 1.0
    replays_reasoning: bool = False
    """Whether requests send the model's reasoning back, so that its tokens count."""
    left_out: frozenset[Key] = frozenset()
    """Keys of messages that were dropped after the summary was written. The summary does not cover them."""
    cut: Cut[ViewItem] | None = None
    """The cut, which the user can move; None if the strategy uses no cut."""
    drafted_for: int | None = None
    """Index of the first kept entry according to the cut for which the draft was made."""
    pins: frozenset[int] = frozenset()
    """Indexes of the entries that will be pinned when the compaction is applied."""
    edited: bool = False
    outdated: bool = False
    """Whether anything other than a moved cut makes a new draft necessary."""
    id: str = field(default_factory=lambda: f"p{next(_ids)}")

    @property
    def state(self) -> State:
        """The state of the draft.

        `stale` means that the draft was made for a different cut or focus and has to be redone.
        """
        is_moved = (
            self.cut is not None and self.cut.first_kept_index != self.drafted_for
        )
        if is_moved or self.outdated:
            return "stale"
        return "edited" if self.edited else "current"

    @property
    def compacted(self) -> int:
        """Number of entries covered by the new summaries.

        If there is no summary, this is the number of entries removed.
        """
        spans = [span for text in self.entry.written for span in text.covers]
        items = [item for item in self.view if not item.written]
        if not spans:  # no summary was written: count the entries that were left out
            survivors = {message.key for message in self.after}
            return sum(item.key not in survivors for item in items)
        covered = [range(first, last + 1) for first, last in spans]
        return sum(any(item.index in span for span in covered) for item in items)

    @cached_property
    def kept(self) -> int:
        survivors = {message.key for message in self.after}
        return sum(item.key in survivors for item in self.view)

    @property
    def left(self) -> float:
        """Estimated fraction of the view that remains after the compaction."""
        view_tokens = self._item_tokens(self.view)
        return self._tokens(self.after) / max(1, view_tokens)

    @property
    def notes(self) -> str:
        """The part of the summary that the user can edit."""
        return notes_of(self.entry.summary)

    @property
    def editable(self) -> bool:
        """Whether the user can edit the summary.

        This is possible if the compaction contains exactly one new text.
        """
        return len(_new_messages(self.drafted)) == 1

    @property
    def sizes(self) -> CompactionSizes:
        """The sizes that result from the current cut and pins."""
        kept_keys = self._kept_keys()
        if self.state == "stale":
            compacted = sum(
                not item.written and item.key not in kept_keys for item in self.view
            )
            tokens = self._item_tokens(
                item for item in self.view if item.key in kept_keys
            )
            tokens += self._tokens(_new_messages(self.after))
        else:
            compacted = self.compacted
            tokens = self._tokens(self.after)
        return CompactionSizes(compacted, self._calibrated(tokens))

    def _calibrated(self, tokens: int) -> int:
        """Return the size of a request in calibrated tokens, given that of its view in estimated tokens."""
        return round((tokens + self.overhead) * self.scale)

    def _tokens(self, messages: Iterable[BaseMessage]) -> int:
        """Return the size of messages, in estimated tokens before calibration."""
        tokens = 0
        for message in messages:
            tokens += message_tokens(message)
            if self.replays_reasoning:
                tokens += thinking_tokens(message)
        return tokens

    def _item_tokens(self, items: Iterable[ViewItem]) -> int:
        """Return the size of items, in estimated tokens before calibration."""
        if self.replays_reasoning:
            return sum(item.tokens + item.thinking for item in items)
        return sum(item.tokens for item in items)

    def _kept_keys(self) -> set[Key]:
        """Return the keys of the items that remain in the view."""
        if self.state == "stale" and self.cut is not None:
            removed = self.cut.compacted + self.cut.previous
            return {item.key for item in self.view}.difference(
                item.key for item in removed
            )
        return {message.key for message in self.after if message.index != NEW}

    def fits(self, projection: Projection) -> bool:
        """Return whether the view is unchanged, or has only grown, since the proposal was made."""
        start = projection.view[: len(self.view)]
        return tuple(start) == self.view

    def grown(
        self, projection: Projection, reason: Reason, tokens_before: int
    ) -> "Proposal":
        """Return the same compaction for a view that has grown since the proposal was made.

        Raises:
            CompactionFailed: the result is not allowed to replace the current view.
        """
        new_items = tuple(projection.view[len(self.view) :])
        messages = tuple(item.message for item in new_items)
        new_groups = [projection.group(item.index) for item in new_items]
        grown = replace(
            self,
            entry=self.entry.model_copy(
                update={"reason": reason, "tokens_before": tokens_before}
            ),
            view=self.view + new_items,
            drafted=self.drafted + messages,
            after=self.after + messages,
            groups=tuple(dict.fromkeys([*self.groups, *new_groups])),
            scale=projection.meter.scale,
        )
        return grown.revised()

    def revised(
        self,
        *,
        notes: str | None = None,
        pins: frozenset[int] | None = None,
        ledger: Mapping[str, LedgerChange] | None = None,
    ) -> "Proposal":
        """Return the proposal with different notes, pins or ledger lines.

        No model is called.

        Raises:
            CompactionFailed: the result is not allowed to replace the view.
        """
        revised = self
        if notes is not None and notes.strip() != self.notes:
            revised = replace(
                self, drafted=self._with_notes(notes.strip()), edited=True
            )
        if ledger:
            drafted = revised._with_summaries(
                lambda summary: revised_ledger(summary, ledger)
            )
            revised = replace(revised, drafted=drafted, edited=True)
        new_pins = (
            self._with_groups(self.pins if pins is None else pins) - self.pinned_before
        )
        self._check_pins(new_pins)
        revised = revised.with_pins(new_pins)
        if revised.cut is None:
            return revised
        return revised._with_cut(revised.cut.first_kept_index)

    def moved(self, first_kept_index: int) -> "Proposal":
        """Return the proposal with a different cut.

        The new proposal is stale if its draft was made for another cut.

        Raises:
            CompactionFailed: the view cannot be cut at that entry.
        """
        if self.cut is None:
            raise CompactionFailed(NO_CUT)
        return self._with_cut(first_kept_index)

    def _with_cut(self, first_kept_index: int) -> "Proposal":
        # A newly pinned entry is a legal cut point too, because it stays in the view anyway.
        positions = cut_points(self.view, self.pinned_before)
        legal = (at for at in positions if self.view[at].index == first_kept_index)
        position = next(legal, None)
        cut = None
        if position is not None:
            cut = cut_at(self.view, position, pins=self.pinned_before | self.pins)
        if cut is None:
            raise CompactionFailed(CANNOT_CUT.format(first_kept_index))
        moved = replace(self, cut=cut, id=f"p{next(_ids)}")
        messages = [item.message for item in self.view]
        after: Messages = self.after
        if moved.state == "stale":
            kept_keys = moved._kept_keys()
            after = [message for message in messages if message.key in kept_keys]
            after += _new_messages(self.after)
        return replace(moved, audit=audit(removed(messages, after), after))

    def out_of_date(self) -> "Proposal":
        """Return the proposal, marked as requiring a new draft."""
        return replace(self, outdated=True, id=f"p{next(_ids)}")

    def _with_notes(self, notes: str) -> tuple[BaseMessage, ...]:
        if not notes:
            raise DraftRejected(EMPTY_SUMMARY)
        if not self.editable:
            raise DraftRejected(NOT_EDITABLE)
        return self._with_summaries(
            lambda summary: harmless(notes) + appendix_of(summary)
        )

    def _with_summaries(self, revise: Callable[[str], str]) -> tuple[BaseMessage, ...]:
        """Return the draft, with `revise` applied to each new summary."""
        drafted: list[BaseMessage] = []
        for message in self.drafted:
            if message.index == NEW:
                message = framed(revise(unframed(message)))
            drafted.append(message)
        return tuple(drafted)

    def _check_pins(self, indices: frozenset[int]) -> None:
        """Raise `CompactionFailed` if an entry cannot be pinned."""
        pinnable = {
            item.index for item in self.view if not (item.written or item.is_preamble)
        }
        unknown = sorted(indices - pinnable)
        if unknown:
            raise CompactionFailed(CANNOT_PIN.format(unknown[0]))

    def _with_groups(self, indices: frozenset[int]) -> frozenset[int]:
        """Return the indexes, including those of all other members of the same tool groups."""
        members = {
            index for group in self.groups if indices & {*group} for index in group
        }
        return indices | members

    def with_pins(self, pins: frozenset[int]) -> "Proposal":
        """Return the proposal with these entries pinned.

        The draft does not change. The entry, the new view and the audit are recomputed.

        Raises:
            CompactionFailed: the result is not allowed to replace the view.
        """
        before = shown(self.view, self.originals, pins)
        after = with_kept(before, self.drafted, pins)
        was_refused = self.entry.reason == "overflow"
        problems = faults(
            before, after, self.pinned_before | pins, unseen_may_be_clipped=was_refused
        )
        if not problems and self._tokens(after) >= self._item_tokens(self.view):
            problems = [PINS_TOO_LARGE]
        if problems:
            raise CompactionFailed(REJECTED.format("; ".join(problems)))
        new_audit = audit(removed(before, after), after)
        pinned_groups = {group[0] for group in self.groups if pins & {*group}}
        entry = derive(before, after, self.left_out).model_copy(
            update={
                **{name: getattr(self.entry, name) for name in _CARRIED},
                "summary": "\n\n".join(map(unframed, _new_messages(after))),
                "pins": tuple(sorted(pinned_groups)),
                "tokens_after": self._calibrated(self._tokens(after)),
                "facts": new_audit.facts,
                "lost": len(new_audit.lost),
            }
        )
        return replace(
            self,
            entry=entry,
            after=tuple(after),
            audit=new_audit,
            pins=pins,
            id=f"p{next(_ids)}",
        )


_CARRIED = (
    "strategy",
    "rung",
    "reason",
    "focus",
    "model",
    "usage",
    "tokens_before",
    "details",
)
"""Fields of the entry that do not depend on the summary text or the pins."""


def _new_messages(messages: Iterable[BaseMessage]) -> list[BaseMessage]:
    return [message for message in messages if message.index == NEW]


def originals_of(projection: Projection) -> dict[int, BaseMessage]:
    """Return the originals of hidden and clipped messages, by index."""
    changed = (
        projection.entry(item.index) for item in projection.view if item.fate != "live"
    )
    return {
        message.index: message
        for message in changed
        if isinstance(message, BaseMessage)
    }


def shown(
    view: Sequence[ViewItem], originals: Mapping[int, BaseMessage], pins: frozenset[int]
) -> list[BaseMessage]:
    """Return the messages of a view, replacing pinned messages with their originals."""
    messages: list[BaseMessage] = []
    for item in view:
        message = item.message
        if item.index in pins:
            message = originals.get(item.index, message)
        messages.append(message)
    return messages


def with_kept(
    before: Messages, after: Messages, pins: frozenset[int]
) -> list[BaseMessage]:
    """Return the new view, with the pinned messages of `before` put back.

    They are placed after the new summaries.
    """
    pinned = {m.key: m for m in before if m.index in pins and not is_summary(m)}
    view = [pinned.pop(message.key, message) for message in after]
    positions = {message.key: position for position, message in enumerate(before)}
    new = [position for position, message in enumerate(view) if message.index == NEW]
    start = new[-1] + 1 if new else 0
    for message in pinned.values():
        at = start
        while at < len(view) and not _is_after(view[at], message, positions):
            at += 1
        view.insert(at, message)
    return view


def _is_after(
    kept: BaseMessage, message: BaseMessage, positions: Mapping[Key, int]
) -> bool:
    """Return whether a kept message comes after a given message in the original view.

    Returns False for the preamble, which always comes first in a view.
    """
    return not is_preamble(kept) and positions[kept.key] > positions[message.key]
