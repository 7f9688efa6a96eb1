"""Collects a reader's entries, and tracks the model's context.

The context is the projection of the entries, as in Foldline's own sessions. Readers use it to determine which
messages a compaction covered and kept.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import chain
from typing import Any, Literal, TypeVar

from foldline.history import Damage
from foldline.protocol import (
    NEW,
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
    Written,
)
from foldline.text.numbers import many, some
from foldline.view.derive import derive
from foldline.view.items import with_text
from foldline.view.outline import MessageOutline
from foldline.view.projection import Projection

from .base import (
    EPOCH,
    Counted,
    Digests,
    ForeignChild,
    ForeignSession,
    Json,
    JsonObject,
)
from .parts import (
    LONGEST_KIND,
    arguments_of,
    left_out_note,
    parts_of,
    text_in,
    unknown_note,
)
from .tool_results import Changes, tool_result

HeadPiece = TypeVar("HeadPiece", Kept, Kept | Written)
_UNDONE = ("reverted", "cleared", "dropped")
_BOOKKEEPING = frozenset({"usage", "tokens_after"})
"""Fields of an entry that do not affect the model's context."""
CHILDREN = "{subagents}: {names}. To read one, append its id to the file: FILE/ID."
ORPHANS = "Not in the view: {results} of tool calls that are not in the file."


@dataclass
class Transcript:
    """The entries read so far, with their calls, results and subagents."""

    agent: str
    """The agent's name, which prefixes the types of records that are kept unchanged."""
    entries: dict[int, Entry] = field(default_factory=dict)
    calls: dict[str, ToolCallPart] = field(default_factory=dict)
    """The tool calls made so far, by id."""
    left_out: list[str] = field(default_factory=list)
    """The types of message parts that are not supported."""
    children: dict[str, ForeignChild] = field(default_factory=dict)
    """The subagents, by id.

    Each has a marker after the call that started it or, without such a call, at the end.
    """
    counted: list[Counted] = field(default_factory=list)
    """The message counts that the file states for its requests."""
    newest_index: int = NEW
    """The highest index of an entry so far."""
    _marked: set[str] = field(default_factory=set)
    _last: int = -1
    _shift: int = 0
    _checkpoints: int = 0
    _results: dict[str, list[int]] = field(default_factory=dict)
    _projection: Projection = field(default_factory=Projection)
    _unprojected: list[int] = field(default_factory=list)
    """Indices of entries that have not been added to the projection yet."""

    def next_index(self, position: int = 0) -> int:
        """Return the next free index.

        This is the record's position in its file or, if that index is taken, a higher number.

        Without positions, indices count entries.
        """
        if position + self._shift <= self._last:
            self._shift = self._last + 1 - position
        self._last = position + self._shift
        return self._last

    def add(
        self, entry: Entry, at: datetime | None = None, *, position: int = 0
    ) -> int:
        return self.put(self.next_index(position), entry, at)

    def put(self, index: int, entry: Entry, at: datetime | None = None) -> int:
        """Add an entry at an index that was reserved earlier.

        Entries should be added in index order, because an earlier index requires rebuilding the projection.
        """
        entry = entry.model_copy(update={"index": index, "at": at})
        self.entries[index] = entry
        self.newest_index = max(self.newest_index, index)
        self._unprojected.append(index)
        if isinstance(entry, AssistantMessage):
            self.calls.update({call.call_id: call for call in entry.calls})
            self._mark(entry.calls, at)
        if isinstance(entry, ToolResultMessage):
            self._results.setdefault(entry.call_id, []).append(index)
        return index

    def _mark(self, calls: Iterable[ToolCallPart], at: datetime | None) -> None:
        """Add a marker for each subagent that was started by one of these calls."""
        for call in calls:
            arguments = arguments_of(call)
            prompt = arguments.first("prompt", "message", "task")
            agent = arguments.first("subagent_type", "agent_type", "subagent_name")
            for child in self._unmarked_children():
                has_prompt = bool(prompt) and prompt == child.prompt
                if child.call_id == call.call_id or (has_prompt and not child.call_id):
                    started = replace(
                        child,
                        call_id=call.call_id,
                        agent=child.agent or agent,
                        title=child.title or arguments.text("description"),
                    )
                    self._add_marker(started, at)

    def _unmarked_children(self) -> list[ForeignChild]:
        return [
            child for child in self.children.values() if child.id not in self._marked
        ]

    def _add_marker(self, child: ForeignChild, at: datetime | None) -> None:
        self._marked.add(child.id)
        self.children[child.id] = child
        self._last = max(self._last, self.newest_index) + 1
        self.put(self._last, child.marker, at)

    def change(self, index: int, **update: Any) -> None:
        """Change fields of an existing entry."""
        self.entries[index] = self.entries[index].model_copy(update=update)
        if not update.keys() <= _BOOKKEEPING and index <= self._projection.last_index:
            self._project_anew()

    # --- the model's context -------------------------------------------------------------------------

    @property
    def projection(self) -> Projection:
        """The projection of the entries so far, as in Foldline's own sessions."""
        last = self._projection.last_index
        if any(index <= last for index in self._unprojected):
            self._project_anew()
        for index in sorted(self._unprojected):
            self._projection.append(self.entries[index])
        self._unprojected = []
        return self._projection

    def _project_anew(self) -> None:
        """Rebuild the projection, after an entry was changed or added out of order."""
        self._projection = Projection()
        self._unprojected = list(self.entries)

    def context(self) -> list[int]:
        """Return the indices of the messages in the model's context, in the order in which they are sent.

        The system prompt is excluded. A summary is represented by the index of its compaction.
        """
        return [
            item.index
            for item in self.projection.view
            if not isinstance(self.entries[item.index], SystemMessage)
        ]

    def messages(self) -> list[int]:
        """Return the indices of the messages in the model's context, without summaries."""
        return list(self.visible())

    def visible(self) -> dict[int, BaseMessage]:
        """Return the messages in the model's context, by index.

        The system prompt and summaries are excluded.
        """
        messages: dict[int, BaseMessage] = {}
        for index in self.context():
            entry = self.entries[index]
            if isinstance(entry, BaseMessage):
                messages[index] = entry
        return messages

    def add_children(self, children: Iterable[ForeignChild]) -> None:
        self.children.update({child.id: child for child in children})

    def not_undone(self) -> list[int]:
        """Return the indices of the messages that were not reverted, cleared or dropped.

        Compacted messages are included.
        """
        fate = self.projection.fate
        return [
            entry.index
            for entry in self.in_order()
            if isinstance(entry, BaseMessage) and fate(entry.index).kind not in _UNDONE
        ]

    def newest_summary(self) -> Compaction | None:
        """Return the newest compaction that has its summary in the context."""
        return max(self._summaries(), key=lambda entry: entry.index, default=None)

    def _summaries(self) -> list[Compaction]:
        """Return the compactions whose summaries are in the context."""
        entries = [self.entries[index] for index in self.context()]
        return [entry for entry in entries if isinstance(entry, Compaction)]

    def whole_groups(self, indices: Iterable[int]) -> list[int]:
        """Return these indices in order, extended to whole groups of a call and its results."""
        groups = {self.projection.group(index) for index in indices}
        return self._in_groups(list(chain(*sorted(groups))))

    def _in_groups(self, indices: Sequence[int]) -> list[int]:
        """Put each result right after its call.

        Messages that cannot be in a view are left out.
        """
        chosen = set(indices)
        in_view = {item.index for item in self.projection.view}
        grouped_indices: list[int] = []
        for index in dict.fromkeys(indices):
            caller, *results = self.projection.group(index)
            if index != caller or not (index in in_view or self._says_something(index)):
                continue
            grouped_indices.append(index)
            grouped_indices += filter(chosen.__contains__, results)
        return grouped_indices

    def _says_something(self, index: int) -> bool:
        """Return whether this message can be in a view on its own."""
        outline = self.projection.outline(index)
        return (
            isinstance(outline, MessageOutline)
            and outline.says
            and outline.type != "tool_result"
        )

    def compact(
        self,
        summary: Sequence[Part],
        kept: Sequence[int],
        at: datetime | None,
        position: int = 0,
        **how: Any,
    ) -> None:
        """Add a compaction. The arguments in `how` are passed on to `compaction`."""
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
        """Return a compaction.

        After it, the context consists of `ahead`, the summary and `kept`.

        `ahead` and `kept` contain indices of messages, which need not be in the context, and of compactions
        whose summaries are kept. A result is never kept without its call. With an empty summary, the removed
        messages are not replaced.

        Args:
            contents: the messages' new texts, by index.
            fate: the fate of the messages with new texts.
            about: additional fields of the entry.
        """
        view = self.projection.view
        messages = {item.index: item.message for item in view}
        texts = contents or {}

        def after(indices: Sequence[int]) -> Iterator[BaseMessage]:
            for place in self._in_groups(indices):
                message = messages.get(place) or self.message(place)
                if place in texts:
                    message = with_text(message, texts[place])
                yield message

        context = [*after(ahead)]
        if summary:
            context.append(SystemMessage(origin="summary", parts=tuple(summary)))
        context += after(kept)
        entry = derive([item.message for item in view], context, as_listed=True)

        def with_fate(piece: HeadPiece) -> HeadPiece:
            if isinstance(piece, Kept) and piece.content is not None:
                return piece.model_copy(update={"fate": fate})
            return piece

        first_kept = entry.first_kept_index
        if first_kept > max(messages, default=-1):
            first_kept = index
        update = {
            "index": index,
            "summary": text_in(summary),
            "first_kept_index": first_kept,
            "head": tuple(map(with_fate, entry.head)),
            "replaced": tuple(map(with_fate, entry.replaced)),
        }
        return entry.model_copy(update={**update, **about})

    def clip(
        self, contents: Mapping[int, str], at: datetime | None, **about: Any
    ) -> None:
        """Add a compaction that replaces the text of some messages.

        Nothing is added unless one of the messages is in the context.
        """
        context = self.context()
        if not contents.keys().isdisjoint(context):
            self.compact(
                (), context, at, contents=contents, reason="threshold", **about
            )

    def results_of(self, index: int) -> tuple[int, ...]:
        """Return the indices of the results of this answer's calls."""
        caller, *results = self.projection.group(index)
        return tuple(results) if caller == index else ()

    def message(self, index: int) -> BaseMessage:
        """Return an entry's message; for a compaction, its summary."""
        entry = self.entries[index]
        if isinstance(entry, Compaction):
            return entry.written[0].message
        assert isinstance(entry, BaseMessage), "what is in a view says something"
        return entry

    def unknown(self, record: JsonObject, kind: str) -> Unknown:
        """Return an entry that keeps a record of an unknown kind unchanged."""
        return Unknown(type=f"{self.agent}.{kind or 'record'}", record=record)

    def put_record(
        self,
        index: int,
        entry: Entry | None,
        record: JsonObject,
        kind: str,
        at: datetime | None = None,
    ) -> int:
        """Add a record's entry.

        If the record has no entry, it is added unchanged.
        """
        return self.put(index, entry or self.unknown(record, kind), at)

    def parts(self, content: Json) -> tuple[Part, ...]:
        return parts_of(content, self.left_out)

    def content(self, message: JsonObject) -> tuple[Part, ...]:
        """Return the parts of a message's `content`."""
        return self.parts(message.get("content"))

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
        """Return a call's result, with the tool, the outcome and the files.

        Args:
            changes: returns the files that the call accessed. It is called only if the call succeeded.
            name: the tool's name, used if the call is unknown.
            brief: the outcome in a few words, for a successful call.
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
        """Return the compactions whose summaries are in the context.

        The result maps summary texts to indices.
        """
        return {entry.summary: entry.index for entry in self._summaries()}

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
        """Return the session.

        By default, the session began at the time of the first entry that has one.
        """
        self._mark(list(self.calls.values()), None)
        for child in self._unmarked_children():
            self._add_marker(child, None)
        entries = self.in_order()
        children = tuple(self.children.values())
        times = (begun, *(entry.at for entry in entries))
        header = SessionHeader(
            id=identity,
            created_at=next(filter(None, times), EPOCH),
            cwd=cwd,
        )
        damage_note = (f"{damage}.",) if damage else ()
        all_notes = (
            *damage_note,
            *notes,
            *self._orphans_note(),
            *_children_note(children),
        )
        return ForeignSession(
            format,
            header,
            entries,
            damage,
            all_notes,
            tuple(self.counted),
            children,
            digests,
        )

    def notes(self, silent: tuple[str, ...] = ()) -> tuple[str, ...]:
        """Return notes on message parts and records that are not in the view.

        Args:
            silent: prefixes of the types of records that are never sent to the model.
        """
        unknown: list[str] = []
        for entry in self.in_order():
            if isinstance(entry, Unknown):
                kind = entry.type.partition(".")[2]
                if kind and not kind.startswith(silent):
                    unknown.append(kind[:LONGEST_KIND])
        return (*left_out_note(self.left_out), *unknown_note(unknown))

    def _orphans_note(self) -> Iterator[str]:
        """Yield a note if the calls of some results are missing from the file."""
        called: set[str] = set()
        for entry in self.entries.values():
            if isinstance(entry, AssistantMessage):
                called.update(call.call_id for call in entry.calls)
        orphans = sum(
            len(self._results[call_id]) for call_id in self._results.keys() - called
        )
        if orphans:
            yield ORPHANS.format(results=many(orphans, "result"))

    # --- going back ----------------------------------------------------------------------------------

    def newest_result(self, call_id: str) -> ToolResultMessage | None:
        indices = self._results.get(call_id)
        if indices is None:
            return None
        result = self.entries[indices[-1]]
        return result if isinstance(result, ToolResultMessage) else None

    def drop(self, index: int, at: datetime | None = None) -> None:
        """Remove a message and its results from the context."""
        self.add(Edit(target=index, action="drop"), at)

    def drop_of(self, target: int | None) -> Edit | None:
        """Return an edit that drops a message.

        Returns None if the message is not in the context.
        """
        if target not in self.context():
            return None
        return Edit(target=target, action="drop")

    def checkpoint(self, index: int, at: datetime | None = None) -> int:
        """Add a checkpoint at a reserved index, and return its id."""
        checkpoint = self._checkpoints
        self._checkpoints += 1
        self.put(index, Checkpoint(id=checkpoint), at)
        return checkpoint

    def go_back_to(
        self,
        moment: int,
        at: datetime | None,
        position: int = 0,
        message: str | None = None,
    ) -> None:
        """Restore the context to its state after the entry `moment`.

        A `message` from the model is added.
        """
        checkpoint = self.checkpoint(self.next_index(position), at)
        revert = Revert(checkpoint=checkpoint, moment=moment, message=message)
        self.add(revert, at, position=position)

    def known_messages(self, key: "MessageKey | None" = None) -> "KnownMessages":
        """Return a lookup of messages by a key.

        By default, the key consists of a message's type and parts.
        """
        return KnownMessages(self.entries, set(self.messages()), key or _type_and_parts)


def _children_note(children: Sequence[ForeignChild]) -> Iterator[str]:
    if children:
        count = many(len(children), "subagent")
        names = [f"{child.id} {child.agent}".rstrip() for child in children]
        yield CHILDREN.format(subagents=count, names=some(names, 5))


MessageKey = Callable[[BaseMessage], object]


class KnownMessages:
    """Finds messages in the history by a key.

    Each message is found only once. Messages in the view are found first.
    """

    def __init__(
        self, entries: Mapping[int, Entry], seen: Set[int], key: MessageKey
    ) -> None:
        self._key = key
        self._places: dict[object, list[int]] = defaultdict(list)
        for index in sorted(entries, key=lambda index: (index in seen, -index)):
            entry = entries[index]
            if isinstance(entry, BaseMessage):
                self._places[key(entry)].append(index)

    def take(self, message: BaseMessage) -> int | None:
        places = self._places.get(self._key(message))
        return places.pop() if places else None


def _type_and_parts(message: BaseMessage) -> object:
    return message.type, message.parts
