"""Entries as a reader gathers them, and what the other agent's model has before it at each moment.

Readers need that view to say what a compaction of that agent covered and kept. It follows the rules of our
projection, which must come to the same messages.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from foldline.context.files import lists_of
from foldline.context.numbers import many, some
from foldline.history import Damage
from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    Checkpoint,
    Clear,
    Compaction,
    CompactionDetails,
    Edit,
    Entry,
    Kept,
    Part,
    Revert,
    SessionHeader,
    Span,
    SystemMessage,
    ThinkingPart,
    ToolCallPart,
    ToolResultMessage,
    Unknown,
    UserMessage,
    Written,
)
from foldline.sequences import grouped, same_start

from .base import EPOCH, Counted, Digests, ForeignChild, ForeignSession, Json, JsonObject
from .parts import LONGEST_KIND, arguments_of, left_out_note, parts_of, text_in, unknown_note

_SNAPSHOT = "<state_snapshot>"
"""What Gemini CLI and Qwen Code ask their models to put around a summary."""


@dataclass(frozen=True, slots=True)
class Moment:
    messages: tuple[int, ...]
    compaction: Compaction | None
    summary_place: int = 0


@dataclass
class ForeignView:
    """The entries in the model's context, system prompts aside: one list of indices, in their order."""

    messages: list[int] = field(default_factory=list)
    compaction: Compaction | None = None
    _summary_place: int = 0
    """How many messages stand before that summary."""
    _order: list[int] = field(default_factory=list)
    _callers: dict[str, list[int]] = field(default_factory=dict)
    """The answers whose calls of this id wait for a result."""
    _group: dict[int, int] = field(default_factory=dict)
    """Of each result, the answer that asked for it."""
    _sayable: set[int] = field(default_factory=set)
    """All messages but results that a view can hold."""
    _standing: set[int] = field(default_factory=set)
    """The compactions whose summaries are among the messages."""

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
        return grouped((caller, result) for result, caller in self._group.items())

    def moment(self) -> Moment:
        return Moment(tuple(self.messages), self.compaction, self._summary_place)

    def go_back_to(self, moment: Moment) -> None:
        self.messages, self.compaction = list(moment.messages), moment.compaction
        self._summary_place = moment.summary_place

    def items(self) -> list[int]:
        """All of it in order, a summary by the index of its compaction."""
        if self.compaction is None:
            return list(self.messages)
        place = self._summary_place
        return [*self.messages[:place], self.compaction.index, *self.messages[place:]]

    def relisted(self, items: Sequence[int]) -> None:
        """The same as `items` gives it: what is not among them is gone."""
        summary = self.compaction.index if self.compaction else None
        self._summary_place = items.index(summary) if summary in items else 0
        self.compaction = self.compaction if summary in items else None
        self.messages = [index for index in items if index != summary]

    def clear(self) -> None:
        self.go_back_to(Moment((), None))

    def compacted(
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
        """The compaction at this index, after which the view is `ahead`, the summary and `kept`. `ahead` may
        name an earlier compaction, whose summary then stays.

        Without a summary, what is gone is gone: nothing stands for it. A result never stays without its call.
        """
        kept = self._in_groups(kept)
        stays = {*ahead, *kept}
        if self.compaction and self.compaction.index in stays:
            self._standing.add(self.compaction.index)
            self.compaction = None
        tail = same_start(self.messages[::-1], kept[::-1])
        gone = {place for place in self.messages if place not in stays}
        absorbed = {self.compaction.index} if self.compaction else set()
        text = Written(
            message=SystemMessage(origin="summary", parts=tuple(summary)),
            covers=self._spans(gone - self._standing),
            inputs=tuple(sorted(absorbed | (gone & self._standing))),
        )
        compaction = Compaction(
            index=index,
            summary=text_in(summary),
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
        self.messages, self.compaction = [*ahead, *kept], compaction if summary else None
        self._summary_place = len(ahead)
        self._order.append(index)
        return compaction

    def scope_compacted(
        self, index: int, summary: Sequence[Part], gone: Collection[int], *, before: int, strategy: str
    ) -> Compaction:
        """The compaction at this index that takes messages out and puts a summary before another one. All
        others, and the summaries of earlier such compactions, stay where they are."""
        gone = {each for each in self.messages if self._group.get(each, each) in gone} - self._standing
        before = self._group.get(before, before)
        cut = self.messages.index(before) if before in self.messages else len(self.messages)
        ahead = [message for message in self.messages[:cut] if message not in gone]
        if self.compaction is not None:
            ahead.insert(self._summary_place, self.compaction.index)
            self._standing.add(self.compaction.index)
            self.compaction = None
        compaction = self.compacted(index, summary, self.messages[cut:], ahead=ahead, strategy=strategy)
        self.messages.insert(len(ahead), index)
        self._standing.add(index)
        self.compaction = None
        return compaction

    def clipped(self, contents: Mapping[int, Kept], strategy: str) -> Compaction | None:
        """A compaction after which these results of the view read otherwise; None where none is in it."""
        seen = [contents[index] for index in self.messages if index in contents]
        if not seen:
            return None
        return Compaction(
            first_kept_index=self.messages[0],
            head=(Kept(ref=self.compaction.index),) if self.compaction else (),
            replaced=tuple(seen),
            strategy=strategy,
            reason="threshold",
        )

    def whole_groups(self, indices: Iterable[int]) -> list[int]:
        """These messages in order, each answer with all its results, each result with its answer."""
        results = self.results()
        callers = sorted({self._group.get(index, index) for index in indices})
        return self._in_groups([each for caller in callers for each in (caller, *results.get(caller, ()))])

    def _in_groups(self, kept: Sequence[int]) -> list[int]:
        """These messages with each result right after its call; without what was never in a view."""
        results = grouped((self._group[index], index) for index in kept if index in self._group)
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


@dataclass
class Transcript:
    """Entries by their index, with all that a reader keeps of them while it reads."""

    agent: str
    """How the types of records begin that become no entry of ours."""
    entries: dict[int, Entry] = field(default_factory=dict)
    view: ForeignView = field(default_factory=ForeignView)
    calls: dict[str, ToolCallPart] = field(default_factory=dict)
    """Those that were made so far, by id."""
    left_out: list[str] = field(default_factory=list)
    children: dict[str, ForeignChild] = field(default_factory=dict)
    """The subagents, by id: each is marked behind the call that started it, or else at the end."""
    _marked: set[str] = field(default_factory=set)
    _last: int = -1
    _shift: int = 0
    _moments: list[Moment] = field(default_factory=list)
    _results: dict[str, list[int]] = field(default_factory=dict)

    def next_index(self, position: int = 0) -> int:
        """An index for one more entry of the record at this place in its file: the place, as far as it is
        free. Where a record came to several entries, the indices after it are later than the places; where no
        places are given, an index counts entries."""
        if position + self._shift <= self._last:
            self._shift = self._last + 1 - position
        self._last = position + self._shift
        return self._last

    def add(self, entry: Entry, at: datetime | None = None, *, position: int = 0) -> int:
        return self.put(self.next_index(position), entry, at)

    def put(self, index: int, entry: Entry, at: datetime | None = None, *, in_view: bool = True) -> int:
        """Add an entry at an index taken before; where it is not yet `in_view`, `show` is still to come."""
        entry = self.entries[index] = entry.model_copy(update={"index": index, "at": at})
        if isinstance(entry, AssistantMessage):
            self.calls.update({call.call_id: call for call in entry.calls})
            self._mark(entry.calls, at)
        if isinstance(entry, ToolResultMessage):
            self._results.setdefault(entry.call_id, []).append(index)
        if isinstance(entry, BaseMessage) and in_view:
            self.view.add(entry)
        return index

    def _mark(self, calls: Iterable[ToolCallPart], at: datetime | None) -> None:
        """Add a marker for each subagent that one of these calls started."""
        for call in calls:
            for child in [one for one in self.children.values() if one.id not in self._marked]:
                arguments = arguments_of(call)
                said = arguments.first("prompt", "message", "task")
                if child.call_id == call.call_id or (not child.call_id and said and said == child.prompt):
                    known = replace(
                        child,
                        call_id=call.call_id,
                        agent=child.agent or arguments.first("subagent_type", "agent_type", "subagent_name"),
                        title=child.title or arguments.text("description"),
                    )
                    self._add_marker(known, at)

    def _add_marker(self, child: ForeignChild, at: datetime | None) -> None:
        self._marked.add(child.id)
        self.children[child.id] = child
        self._last = max(self._last, *self.entries) + 1
        self.put(self._last, child.marker, at)

    def message(self, index: int) -> BaseMessage:
        """The message of this entry; of a compaction, its summary."""
        entry = self.entries[index]
        if isinstance(entry, Compaction):
            return entry.written[0].message
        assert isinstance(entry, BaseMessage), "what is in a view says something"
        return entry

    def change(self, index: int, **update: Any) -> None:
        self.entries[index] = self.entries[index].model_copy(update=update)

    def compact(
        self, summary: Sequence[Part], kept: Sequence[int], at: datetime | None, position: int = 0, **how: Any
    ) -> None:
        """Add a compaction. `how` is what else `ForeignView.compacted` takes."""
        index = self.next_index(position)
        self.put(index, self.view.compacted(index, summary, kept, **how), at)

    def unknown(self, record: JsonObject, kind: str) -> Unknown:
        """A record that says nothing to us stays as it is."""
        return Unknown(type=f"{self.agent}.{kind or 'record'}", record=record)

    def parts(self, content: Json) -> tuple[Part, ...]:
        return parts_of(content, self.left_out)

    def standing_summaries(self) -> dict[str, int]:
        """The compactions whose summaries are in the view, by what these say."""
        newest = [self.view.compaction.index] if self.view.compaction else []
        return {
            entry.summary: index
            for index in (*self.view.messages, *newest)
            if isinstance(entry := self.entries[index], Compaction)
        }

    def in_order(self) -> list[Entry]:
        return [self.entries[index] for index in sorted(self.entries)]

    def session(
        self,
        format: str,
        identity: str,
        cwd: str,
        damage: Damage,
        notes: Iterable[str],
        *,
        begun: datetime | None = None,
        counted: Iterable[Counted] = (),
        digests: Digests | None = None,
    ) -> ForeignSession:
        """What was read. Where nothing says when it was `begun`, the first entry with a time does."""
        self._mark(list(self.calls.values()), None)
        for child in [one for one in self.children.values() if one.id not in self._marked]:
            self._add_marker(child, None)
        entries, children = self.in_order(), tuple(self.children.values())
        times = (begun, *(entry.at for entry in entries))
        header = SessionHeader(id=identity, created_at=next(filter(None, times), EPOCH), cwd=cwd)
        damaged = (f"{damage}.",) if damage else ()
        said = (*damaged, *notes, *self._orphans_note(), *_children_note(children))
        return ForeignSession(format, header, entries, damage, said, tuple(counted), children, digests)

    def notes(self, silent: tuple[str, ...] = ()) -> tuple[str, ...]:
        """Sentences on pieces and records that were left out. `silent` is how the kinds of records begin that
        say nothing to a model."""
        kinds = [
            entry.type.partition(".")[2][:LONGEST_KIND]
            for entry in self.in_order()
            if isinstance(entry, Unknown)
        ]
        unknown = [kind for kind in kinds if kind and not kind.startswith(silent)]
        return (*left_out_note(self.left_out), *unknown_note(unknown))

    def _orphans_note(self) -> Iterator[str]:
        """A sentence on results whose call is not in the file."""
        orphans = sum(len(places) for call, places in self._results.items() if call not in self.calls)
        if orphans:
            yield f"Not in the view, results of tool calls that are not in the file: {orphans}."

    # --- going back ----------------------------------------------------------------------------------

    def is_answered(self, call_id: str) -> bool:
        return call_id in self._results

    def drop(self, index: int, at: datetime | None = None) -> None:
        """Take a message out of the model's context; a call takes its results along."""
        self.add(self.dropped(index), at)

    def dropped(self, index: int) -> Edit:
        """The same, but for adding the entry."""
        entry = self.entries[index]
        calls = [call.call_id for call in entry.calls] if isinstance(entry, AssistantMessage) else []
        gone = {index, *(result for call in calls for result in self._results.get(call, ()))}
        self.view.messages = [place for place in self.view.messages if place not in gone]
        return Edit(target=index, action="drop")

    def checkpoint(
        self, at: datetime | None = None, *, index: int | None = None, moment: Moment | None = None
    ) -> int:
        """A place that the session comes back to; its id. It is here and now, unless said otherwise."""
        self._moments.append(moment or self.view.moment())
        checkpoint = len(self._moments) - 1
        self.put(self.next_index() if index is None else index, Checkpoint(id=checkpoint), at)
        return checkpoint

    def go_back_to(self, checkpoint: int, at: datetime | None = None, *, index: int | None = None) -> None:
        self.put(self.next_index() if index is None else index, Revert(checkpoint=checkpoint), at)
        self.view.go_back_to(self._moments[checkpoint])

    def go_to_branch(self, moment: int, view: Moment, at: datetime | None, position: int = 0) -> None:
        """Go on, at this record, with the view as it was when the entry of index `moment` was the newest."""
        checkpoint = self.checkpoint(at, index=self.next_index(position))
        self.add(Revert(checkpoint=checkpoint, moment=moment), at, position=position)
        self.view.go_back_to(view)

    def clear(self) -> None:
        self.add(Clear())
        self.view.clear()

    # --- a context that the file lists anew ----------------------------------------------------------

    def known_messages(self, key: "MessageKey") -> "KnownMessages":
        return KnownMessages(self.entries, set(self.view.messages), key)

    def relist(
        self,
        context: Sequence[int | BaseMessage],
        at: datetime | None,
        *,
        strategy: str,
        tokens_before: int = 0,
    ) -> None:
        """From here on the model's context is this list: of entries, or messages as they are to be.

        A message that the history holds is that entry; a result that says something else now replaces its
        text. Of what is new, the summary stands for what is gone, and the rest joins the history.
        """
        known = self.known_messages(_said)
        found = [known.take(piece) if isinstance(piece, BaseMessage) else piece for piece in context]
        new = [piece for piece, index in zip(context, found, strict=True) if index is None]
        before = self.view.compaction
        summary = _summary(new, before.summary if before else "")
        ahead: list[int] = []
        kept: list[int] = []
        place = kept if summary is None else ahead
        results = self.view.results()
        renewed: set[str] = set()
        listed: set[int] = set()
        texts: dict[int, Kept] = {}
        for piece, index in zip(context, found, strict=True):
            match piece:
                case UserMessage() if piece is summary:
                    place = kept
                    continue
                case ToolResultMessage() if piece.call_id in self._results and piece.call_id not in renewed:
                    index = self._results[piece.call_id][-1]
                    if piece.text != self._text(index):
                        texts[index] = Kept(ref=index, content=piece.text, fate="clipped")
                case AssistantMessage() if index is None:
                    renewed |= {call.call_id for call in piece.calls}
            if index is None:
                assert isinstance(piece, BaseMessage), "a place is known"
                index = self.add(piece, at)
            here = [one for one in (index, *results.get(index, ())) if one not in listed]
            place += here
            listed.update(here)
        stands = summary is not None and before is not None and summary.text == before.summary
        if [*ahead, *kept] != self.view.messages or stands == (summary is None):
            parts: tuple[Part, ...] = summary.parts if summary else ()
            self.compact(parts, kept, at, ahead=ahead, strategy=strategy, tokens_before=tokens_before)
        if (clipped := self.view.clipped(texts, f"{strategy}-clip")) is not None:
            self.add(clipped, at)

    def _text(self, index: int) -> str:
        entry = self.entries[index]
        return entry.text if isinstance(entry, BaseMessage) else ""


def _children_note(children: Sequence[ForeignChild]) -> Iterator[str]:
    if children:
        named = some([" ".join(filter(None, (child.id, child.agent))) for child in children], 5)
        yield f"{many(len(children), 'subagent')}: {named}. One is read by its id behind the name: FILE/ID."


def file_lists(before: CompactionDetails, compacted: Iterable[Entry]) -> CompactionDetails:
    """The files of everything that was ever compacted, as the results of tools name them."""
    results = (entry for entry in compacted if isinstance(entry, ToolResultMessage))
    return lists_of([before], (touch for result in results for touch in result.details.files))


MessageKey = Callable[[BaseMessage], object]


class KnownMessages:
    """The messages of the history, each to be found once by what it says, those in the view first."""

    def __init__(self, entries: Mapping[int, Entry], seen: Collection[int], key: MessageKey) -> None:
        self._key = key
        order = sorted(entries, key=lambda index: (index in seen, -index))
        messages = ((index, entries[index]) for index in order)
        self._places = grouped(
            (key(entry), index) for index, entry in messages if isinstance(entry, BaseMessage)
        )

    def take(self, message: BaseMessage) -> int | None:
        places = self._places.get(self._key(message))
        return places.pop() if places else None


def _said(message: BaseMessage) -> object:
    """Thinking is mostly stripped from what is sent again."""
    return message.type, tuple(part for part in message.parts if not isinstance(part, ThinkingPart))


def _summary(new: Sequence[int | BaseMessage], standing: str) -> UserMessage | None:
    """The summary among the new messages, which may be the one that stands now: agents put it into the role
    user."""
    users = [message for message in new if isinstance(message, UserMessage)]
    marked = (message for message in users if message.text == standing or _SNAPSHOT in message.text)
    return next(marked, next(iter(users), None))
