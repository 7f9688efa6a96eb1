"""What the other agent's model had before it, followed while its session is read.

Readers need it to say what a fold of that agent covered and kept. It follows the rules of our projection,
which must come to the same messages.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    Compaction,
    CompactionDetails,
    Kept,
    Part,
    Span,
    SystemMessage,
    TextPart,
    ToolResultMessage,
    Written,
)


@dataclass(frozen=True, slots=True)
class Moment:
    """A view to go back to."""

    messages: tuple[int, ...]
    fold: Compaction | None


@dataclass
class ForeignView:
    """The entries in the model's context, system prompts aside: one list of indices, in their order."""

    messages: list[int] = field(default_factory=list)
    fold: Compaction | None = None
    """The fold whose summary is part of it."""
    _fold_place: int = 0
    """How many messages stand before that summary."""
    _order: list[int] = field(default_factory=list)
    """Every message and fold so far."""
    _callers: dict[str, list[int]] = field(default_factory=dict)
    """The answers whose calls of this id wait for a result."""
    _group: dict[int, int] = field(default_factory=dict)
    """Of each result, the answer that asked for it."""
    _sayable: set[int] = field(default_factory=set)
    """All messages but results that a view can hold."""
    _standing: set[int] = field(default_factory=set)
    """The folds whose summaries are among the messages."""

    def add(self, message: BaseMessage) -> None:
        """One more message, with its index. Results stand with their call; one without a call stays out."""
        self._order.append(message.index)
        match message:
            case ToolResultMessage():
                self._add_result(message)
            case AssistantMessage():
                for call in message.calls:
                    self._callers[call.call_id] = []
                for call in message.calls:
                    self._callers[call.call_id].append(message.index)
                if message.text.strip() or message.calls:
                    self._append(message.index)
            case SystemMessage():
                pass
            case _ if message.parts:
                self._append(message.index)
            case _:
                pass

    def _append(self, index: int) -> None:
        self.messages.append(index)
        self._sayable.add(index)

    def _add_result(self, result: ToolResultMessage) -> None:
        waiting = self._callers.get(result.call_id)
        if not waiting:
            return
        caller = self._group[result.index] = waiting.pop()
        for place in range(len(self.messages) - 1, -1, -1):  # from the end: that is where it nearly always is
            index = self.messages[place]
            if self._group.get(index, index) == caller:
                self.messages.insert(place + 1, result.index)
                return

    def results(self) -> dict[int, list[int]]:
        """The results of each answer, in their order: they are in a view with it, or not at all."""
        results: dict[int, list[int]] = {}
        for result, caller in self._group.items():
            results.setdefault(caller, []).append(result)
        return results

    def moment(self) -> Moment:
        return Moment(tuple(self.messages), self.fold)

    def go_back_to(self, moment: Moment) -> None:
        self.messages, self.fold = list(moment.messages), moment.fold

    def clear(self) -> None:
        self.go_back_to(Moment((), None))

    def folded(
        self,
        index: int,
        summary: Sequence[Part],
        kept: Sequence[int],
        *,
        ahead: Sequence[int] = (),
        strategy: str,
        tokens_before: int = 0,
        tokens_after: int = 0,
        details: CompactionDetails | None = None,
    ) -> Compaction:
        """The fold at this index, after which the view is `ahead`, the summary and `kept`.

        Without a summary, what is gone is gone: nothing stands for it. A result never stays without its call.
        """
        kept = self._in_groups(kept)
        stays = {*ahead, *kept}
        tail = _common_tail(self.messages, kept)
        gone = {place for place in self.messages if place not in stays}
        absorbed = {self.fold.index} if self.fold else set()
        text = Written(
            message=SystemMessage(origin="summary", parts=tuple(summary)),
            covers=self._spans(gone - self._standing),
            inputs=tuple(sorted(absorbed | (gone & self._standing))),
        )
        fold = Compaction(
            index=index,
            summary="\n".join(part.text for part in summary if isinstance(part, TextPart)),
            first_kept_index=kept[-tail] if tail else index,
            head=(
                *(Kept(ref=place) for place in ahead),
                *((text,) if summary else ()),
                *(Kept(ref=place) for place in kept[: len(kept) - tail]),
            ),
            strategy=strategy,
            tokens_before=tokens_before,
            tokens_after=tokens_after,
            details=details or CompactionDetails(),
        )
        self.messages, self.fold = [*ahead, *kept], fold if summary else None
        self._fold_place = len(ahead)
        self._order.append(index)
        return fold

    def scope_folded(
        self, index: int, summary: Sequence[Part], gone: Collection[int], *, before: int, strategy: str
    ) -> Compaction:
        """The fold at this index that takes messages out and puts a summary before another one. All others,
        and the summaries of earlier such folds, stay where they are."""
        gone = {each for each in self.messages if self._group.get(each, each) in gone} - self._standing
        before = self._group.get(before, before)
        cut = self.messages.index(before) if before in self.messages else len(self.messages)
        ahead = [message for message in self.messages[:cut] if message not in gone]
        if self.fold is not None:
            ahead.insert(self._fold_place, self.fold.index)
            self._standing.add(self.fold.index)
            self.fold = None
        fold = self.folded(index, summary, self.messages[cut:], ahead=ahead, strategy=strategy)
        self.messages.insert(len(ahead), index)
        self._standing.add(index)
        self.fold = None
        return fold

    def _in_groups(self, kept: Sequence[int]) -> list[int]:
        """These messages with each result right after its call; without what was never in a view."""
        results: dict[int, list[int]] = {}
        for index in kept:
            if index in self._group:
                results.setdefault(self._group[index], []).append(index)
        alone = [index for index in kept if index in self._sayable and index not in self._group]
        return [place for index in alone for place in (index, *results.get(index, ()))]

    def _spans(self, covered: Collection[int]) -> tuple[Span, ...]:
        """The covered messages as ranges. A range holds no other message, and no summary."""
        spans: list[Span] = []
        open_span = False
        for index in self._order:
            if index in covered:
                start = spans.pop()[0] if open_span else index
                spans.append((start, index))
            open_span = index in covered
        return tuple(spans)


def _common_tail(view: Sequence[int], kept: Sequence[int]) -> int:
    """How many of the last of `kept` are the last of the view, in the same order."""
    length = 0
    while length < min(len(view), len(kept)) and view[-1 - length] == kept[-1 - length]:
        length += 1
    return length
