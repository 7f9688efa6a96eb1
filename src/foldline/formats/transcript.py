"""Entries as a reader gathers them, and the other model's context at each moment.

The context is the projection of the entries so far, as for a session of ours. From it, a reader says what a
compaction covered and kept.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Literal

from foldline.context.derive import derive
from foldline.context.numbers import many, some
from foldline.context.outline import MessageOutline
from foldline.context.projection import Projection
from foldline.context.view import with_text
from foldline.history import Damage
from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    Checkpoint,
    Compaction,
    Edit,
    Entry,
    Kept,
    Part,
    Revert,
    SessionHeader,
    SystemMessage,
    ToolCallPart,
    ToolResultMessage,
    Unknown,
)
from foldline.sequences import grouped

from .base import EPOCH, Counted, Digests, ForeignChild, ForeignSession, Json, JsonObject
from .parts import LONGEST_KIND, arguments_of, left_out_note, parts_of, text_in, unknown_note
from .tool_results import Changes, tool_result

_UNDONE = ("reverted", "cleared", "dropped")
_BOOKKEEPING = frozenset({"usage", "tokens_after"})
"""Fields of an entry that change nothing in the model's context."""


@dataclass
class Transcript:
    """The entries read so far, by index, with the calls, results and subagents among them."""

    agent: str
    """Begins the types of records that stay as they are."""
    entries: dict[int, Entry] = field(default_factory=dict)
    calls: dict[str, ToolCallPart] = field(default_factory=dict)
    """The tool calls made so far, by id."""
    left_out: list[str] = field(default_factory=list)
    """The kinds of pieces of messages that cannot be shown."""
    children: dict[str, ForeignChild] = field(default_factory=dict)
    """The subagents, by id: each is marked behind the call that started it, or else at the end."""
    counted: list[Counted] = field(default_factory=list)
    """The file's counts of its requests' messages."""
    _marked: set[str] = field(default_factory=set)
    _last: int = -1
    _shift: int = 0
    _checkpoints: int = 0
    _results: dict[str, list[int]] = field(default_factory=dict)
    _projection: Projection = field(default_factory=Projection)
    _unprojected: list[int] = field(default_factory=list)
    """Indices of entries that the projection has not taken in yet."""

    def next_index(self, position: int = 0) -> int:
        """Take the next index: the record's place in its file, if free.

        After a record of several entries, the indices are later than the places. Without places, an index
        counts entries.
        """
        if position + self._shift <= self._last:
            self._shift = self._last + 1 - position
        self._last = position + self._shift
        return self._last

    def add(self, entry: Entry, at: datetime | None = None, *, position: int = 0) -> int:
        return self.put(self.next_index(position), entry, at)

    def put(self, index: int, entry: Entry, at: datetime | None = None) -> int:
        """Add an entry at an index that was taken before.

        Adding in index order is cheapest: a late entry has the later ones projected again.
        """
        entry = self.entries[index] = entry.model_copy(update={"index": index, "at": at})
        self._unprojected.append(index)
        if isinstance(entry, AssistantMessage):
            self.calls.update({call.call_id: call for call in entry.calls})
            self._mark(entry.calls, at)
        if isinstance(entry, ToolResultMessage):
            self._results.setdefault(entry.call_id, []).append(index)
        return index

    def _mark(self, calls: Iterable[ToolCallPart], at: datetime | None) -> None:
        """Add a marker for each subagent that one of these calls started."""
        for call in calls:
            arguments = arguments_of(call)
            prompt = arguments.first("prompt", "message", "task")
            for child in [child for child in self.children.values() if child.id not in self._marked]:
                if child.call_id == call.call_id or (not child.call_id and prompt and prompt == child.prompt):
                    started = replace(
                        child,
                        call_id=call.call_id,
                        agent=child.agent or arguments.first("subagent_type", "agent_type", "subagent_name"),
                        title=child.title or arguments.text("description"),
                    )
                    self._add_marker(started, at)

    def _add_marker(self, child: ForeignChild, at: datetime | None) -> None:
        self._marked.add(child.id)
        self.children[child.id] = child
        self._last = max(self._last, *self.entries) + 1
        self.put(self._last, child.marker, at)

    def change(self, index: int, **update: Any) -> None:
        """Change fields of an entry."""
        self.entries[index] = self.entries[index].model_copy(update=update)
        if not update.keys() <= _BOOKKEEPING and index <= self._projection.last_index:
            self._project_anew()

    # --- the model's context -------------------------------------------------------------------------

    @property
    def projection(self) -> Projection:
        """The entries so far, projected like those of our sessions."""
        new = sorted(self._unprojected)
        self._unprojected = []
        if new and new[0] <= self._projection.last_index:
            self._project_anew()
            new, self._unprojected = sorted(self._unprojected), []
        for index in new:
            self._projection.append(self.entries[index])
        return self._projection

    def _project_anew(self) -> None:
        """Start over, as an entry changed or came late."""
        self._projection = Projection()
        self._unprojected = list(self.entries)

    def context(self) -> list[int]:
        """Return the indices of the model's messages, in its order.

        The system prompt is left out. A summary has the index of its compaction.
        """
        indices = (item.index for item in self.projection.view)
        return [index for index in indices if not isinstance(self.entries[index], SystemMessage)]

    def messages(self) -> list[int]:
        """Return the same without summaries."""
        return [index for index in self.context() if not isinstance(self.entries[index], Compaction)]

    def visible(self) -> dict[int, BaseMessage]:
        """Return the messages that the model has, by index, without prompt and summaries."""
        entries = ((index, self.entries[index]) for index in self.messages())
        return {index: entry for index, entry in entries if isinstance(entry, BaseMessage)}

    def add_children(self, children: Iterable[ForeignChild]) -> None:
        self.children.update({child.id: child for child in children})

    def not_undone(self) -> list[int]:
        """Return the messages not reverted, cleared or dropped, also compacted ones."""
        fate = self.projection.fate
        messages = (entry.index for entry in self.in_order() if isinstance(entry, BaseMessage))
        return [index for index in messages if fate(index).kind not in _UNDONE]

    def newest_summary(self) -> Compaction | None:
        """Return the newest compaction with its summary in the context."""
        entries = (self.entries[index] for index in self.context())
        compactions = (entry for entry in entries if isinstance(entry, Compaction))
        return max(compactions, key=lambda entry: entry.index, default=None)

    def whole_groups(self, indices: Iterable[int]) -> list[int]:
        """Return these messages in order, with the rest of each tool group."""
        groups = {self.projection.group(index) for index in indices}
        return self._in_groups([index for group in sorted(groups) for index in group])

    def _in_groups(self, indices: Sequence[int]) -> list[int]:
        """Put each result right behind its call; leave out messages that no view can hold."""
        chosen, in_view = set(indices), {item.index for item in self.projection.view}
        grouped_indices: list[int] = []
        for index in dict.fromkeys(indices):
            caller, *results = self.projection.group(index)
            if index == caller and (index in in_view or self._says_something(index)):
                grouped_indices += [index, *(result for result in results if result in chosen)]
        return grouped_indices

    def _says_something(self, index: int) -> bool:
        """Return whether a view can hold this message by itself."""
        outline = self.projection.outline(index)
        return isinstance(outline, MessageOutline) and outline.says and outline.type != "tool_result"

    def compact(
        self, summary: Sequence[Part], kept: Sequence[int], at: datetime | None, position: int = 0, **how: Any
    ) -> None:
        """Add a compaction; `how` is passed to `compaction`."""
        index = self.next_index(position)
        self.put(index, self.compaction(index, summary, kept, **how), at)

    def compaction(
        self,
        index: int,
        summary: Sequence[Part],
        kept: Sequence[int],
        *,
        ahead: Sequence[int] = (),
        contents: Mapping[int, str] | None = None,
        fate: Literal["hidden", "clipped"] = "clipped",
        **about: Any,
    ) -> Compaction:
        """Return a compaction to `ahead`, the summary and `kept`.

        Both lists hold indices of messages, in the context or not, and of compactions with summaries that
        stay. A result never stays without its call. Without a summary, nothing replaces the removed messages.

        Args:
            contents: new texts of messages, by index.
            fate: the fate of these messages.
            about: more fields of the entry.
        """
        view = self.projection.view
        messages = {item.index: item.message for item in view}
        texts = contents or {}

        def after(indices: Sequence[int]) -> Iterator[BaseMessage]:
            for place in self._in_groups(indices):
                message = messages.get(place) or self.message(place)
                yield with_text(message, texts[place]) if place in texts else message

        new = [SystemMessage(origin="summary", parts=tuple(summary))] if summary else []
        entry = derive(
            [item.message for item in view],
            [*after(ahead), *new, *after(kept)],
            as_listed=True,
        )

        def altered(piece: Kept) -> Kept:
            return piece if piece.content is None else piece.model_copy(update={"fate": fate})

        is_behind = entry.first_kept_index > max(messages, default=-1)
        return entry.model_copy(
            update={
                "index": index,
                "summary": text_in(summary),
                "first_kept_index": index if is_behind else entry.first_kept_index,
                "head": tuple(altered(piece) if isinstance(piece, Kept) else piece for piece in entry.head),
                "replaced": tuple(map(altered, entry.replaced)),
                **about,
            }
        )

    def clip(self, contents: Mapping[int, str], at: datetime | None, **about: Any) -> None:
        """Add a compaction that gives new texts to messages of the context."""
        context = self.context()
        if not contents.keys().isdisjoint(context):
            self.compact((), context, at, contents=contents, reason="threshold", **about)

    def results_of(self, index: int) -> tuple[int, ...]:
        """Return the results of this answer's calls."""
        caller, *results = self.projection.group(index)
        return tuple(results) if caller == index else ()

    def message(self, index: int) -> BaseMessage:
        """Return the message of an entry; of a compaction, its summary."""
        entry = self.entries[index]
        if isinstance(entry, Compaction):
            return entry.written[0].message
        assert isinstance(entry, BaseMessage), "what is in a view says something"
        return entry

    def unknown(self, record: JsonObject, kind: str) -> Unknown:
        """Keep a record of an unknown kind as it is."""
        return Unknown(type=f"{self.agent}.{kind or 'record'}", record=record)

    def put_record(
        self, index: int, entry: Entry | None, record: JsonObject, kind: str, at: datetime | None = None
    ) -> int:
        """Add the entry of a record; without one, the record as it is."""
        return self.put(index, entry or self.unknown(record, kind), at)

    def parts(self, content: Json) -> tuple[Part, ...]:
        return parts_of(content, self.left_out)

    def result(
        self,
        call_id: str,
        parts: Sequence[Part],
        *,
        changes: Callable[[ToolCallPart], Changes],
        name: str = "",
        failed: bool = False,
        cancelled: bool = False,
        exit_code: int | str = 0,
        brief: str = "",
        milliseconds: int = 0,
    ) -> ToolResultMessage:
        """Return the result of a call, with its tool, outcome and files.

        Args:
            changes: reads from a successful call which files it touched.
            name: the tool, if the call is not known.
            brief: the outcome of a successful call.
        """
        call = self.calls.get(call_id)
        is_failure = failed or cancelled
        if cancelled:
            brief = "cancelled"
        elif failed or exit_code:
            brief = ""
        return tool_result(
            call_id,
            call.name if call else name,
            parts,
            failed=is_failure,
            exit_code=exit_code,
            brief=brief,
            changes=changes(call) if call and not is_failure else None,
            milliseconds=milliseconds,
        )

    def standing_summaries(self) -> dict[str, int]:
        """Return the compactions with a summary in the context, by its text."""
        entries = ((index, self.entries[index]) for index in self.context())
        return {entry.summary: index for index, entry in entries if isinstance(entry, Compaction)}

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
        digests: Digests | None = None,
    ) -> ForeignSession:
        """Return the session. By default, it began at the first entry with a time."""
        self._mark(list(self.calls.values()), None)
        for child in [child for child in self.children.values() if child.id not in self._marked]:
            self._add_marker(child, None)
        entries, children = self.in_order(), tuple(self.children.values())
        times = (begun, *(entry.at for entry in entries))
        header = SessionHeader(id=identity, created_at=next(filter(None, times), EPOCH), cwd=cwd)
        damage_note = (f"{damage}.",) if damage else ()
        all_notes = (*damage_note, *notes, *self._orphans_note(), *_children_note(children))
        return ForeignSession(
            format, header, entries, damage, all_notes, tuple(self.counted), children, digests
        )

    def notes(self, silent: tuple[str, ...] = ()) -> tuple[str, ...]:
        """Return sentences on the pieces and records that were left out.

        Args:
            silent: beginnings of the kinds of records that no model is sent.
        """
        kinds = [
            entry.type.partition(".")[2][:LONGEST_KIND]
            for entry in self.in_order()
            if isinstance(entry, Unknown)
        ]
        unknown = [kind for kind in kinds if kind and not kind.startswith(silent)]
        return (*left_out_note(self.left_out), *unknown_note(unknown))

    def _orphans_note(self) -> Iterator[str]:
        """Note the results whose call is not in the file."""
        answers = (entry for entry in self.entries.values() if isinstance(entry, AssistantMessage))
        called = {call.call_id for answer in answers for call in answer.calls}
        orphans = sum(len(indices) for call_id, indices in self._results.items() if call_id not in called)
        if orphans:
            yield f"Not in the view, results of tool calls that are not in the file: {orphans}."

    # --- going back ----------------------------------------------------------------------------------

    def newest_result(self, call_id: str) -> ToolResultMessage | None:
        indices = self._results.get(call_id)
        result = self.entries[indices[-1]] if indices else None
        return result if isinstance(result, ToolResultMessage) else None

    def drop(self, index: int, at: datetime | None = None) -> None:
        """Take a message, with its results, out of the context."""
        self.add(Edit(target=index, action="drop"), at)

    def checkpoint(self, at: datetime | None = None, *, index: int | None = None) -> int:
        """Add a checkpoint, here or at an index taken before; return its id."""
        checkpoint, self._checkpoints = self._checkpoints, self._checkpoints + 1
        self.put(self.next_index() if index is None else index, Checkpoint(id=checkpoint), at)
        return checkpoint

    def go_back_to(self, checkpoint: int, at: datetime | None = None, *, index: int | None = None) -> None:
        self.put(self.next_index() if index is None else index, Revert(checkpoint=checkpoint), at)

    def go_to_branch(self, moment: int, at: datetime | None, position: int = 0) -> None:
        """Go back to the context right after the entry `moment`."""
        checkpoint = self.checkpoint(at, index=self.next_index(position))
        self.add(Revert(checkpoint=checkpoint, moment=moment), at, position=position)

    def known_messages(self, key: "MessageKey | None" = None) -> "KnownMessages":
        """Return the messages to be found by this key; by type and parts without one."""
        return KnownMessages(self.entries, set(self.messages()), key or _type_and_parts)


def _children_note(children: Sequence[ForeignChild]) -> Iterator[str]:
    if children:
        named = some([" ".join(filter(None, (child.id, child.agent))) for child in children], 5)
        yield f"{many(len(children), 'subagent')}: {named}. One is read by its id behind the name: FILE/ID."


MessageKey = Callable[[BaseMessage], object]


class KnownMessages:
    """Messages of the history by their content, each taken once, those in the view first."""

    def __init__(self, entries: Mapping[int, Entry], seen: Set[int], key: MessageKey) -> None:
        self._key = key
        order = sorted(entries, key=lambda index: (index in seen, -index))
        messages = ((index, entries[index]) for index in order)
        self._places = grouped(
            (key(entry), index) for index, entry in messages if isinstance(entry, BaseMessage)
        )

    def take(self, message: BaseMessage) -> int | None:
        places = self._places.get(self._key(message))
        return places.pop() if places else None


def _type_and_parts(message: BaseMessage) -> object:
    return message.type, message.parts
