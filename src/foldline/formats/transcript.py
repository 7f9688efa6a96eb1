"""Entries as a reader gathers them, and the context of the other agent's model at each moment.

Readers ask for that context to say what a compaction covered and kept. It is the projection of the entries
so far, the same that shows a session of ours.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Literal

from foldline.context.derive import derive
from foldline.context.numbers import many, some
from foldline.context.outline import MessageOutline
from foldline.context.projection import Projection
from foldline.context.view import is_summary, with_text
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
    ThinkingPart,
    ToolCallPart,
    ToolResultMessage,
    Unknown,
    UserMessage,
)
from foldline.sequences import grouped

from .base import EPOCH, Counted, Digests, ForeignChild, ForeignSession, Json, JsonObject
from .parts import LONGEST_KIND, arguments_of, left_out_note, parts_of, text_in, unknown_note
from .tool_results import Changes, tool_result

_SNAPSHOT = "<state_snapshot>"
"""What Gemini CLI and Qwen Code ask their models to put around a summary."""
_UNDONE = ("reverted", "cleared", "dropped")
_BOOKKEEPING = frozenset({"usage", "tokens_after"})
"""Fields of an entry that change nothing in the model's context."""


@dataclass
class Transcript:
    """Entries by their index, with everything that a reader keeps of them while it reads."""

    agent: str
    """How the types of records begin that become no entry of ours."""
    entries: dict[int, Entry] = field(default_factory=dict)
    calls: dict[str, ToolCallPart] = field(default_factory=dict)
    """The tool calls made so far, by id."""
    left_out: list[str] = field(default_factory=list)
    """The kinds of pieces of messages that cannot be shown."""
    children: dict[str, ForeignChild] = field(default_factory=dict)
    """The subagents, by id: each is marked behind the call that started it, or else at the end."""
    _marked: set[str] = field(default_factory=set)
    _last: int = -1
    _shift: int = 0
    _checkpoints: int = 0
    _results: dict[str, list[int]] = field(default_factory=dict)
    _projection: Projection = field(default_factory=Projection)
    _unprojected: list[int] = field(default_factory=list)
    """Indices of entries that the projection has not taken in yet."""

    def next_index(self, position: int = 0) -> int:
        """Return an index for one more entry of the record at this place in its file.

        It is the place, as far as that is free. Where a record came to several entries, the indices after it
        are later than the places; where no places are given, an index counts entries.
        """
        if position + self._shift <= self._last:
            self._shift = self._last + 1 - position
        self._last = position + self._shift
        return self._last

    def add(self, entry: Entry, at: datetime | None = None, *, position: int = 0) -> int:
        return self.put(self.next_index(position), entry, at)

    def put(self, index: int, entry: Entry, at: datetime | None = None) -> int:
        """Add an entry at an index that was taken before. Entries may come in any order until somebody asks
        for the context."""
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

    def change(self, index: int, **update: Any) -> None:
        """Change fields of an entry."""
        self.entries[index] = self.entries[index].model_copy(update=update)
        if not update.keys() <= _BOOKKEEPING and index <= self._projection.last_index:
            self._project_anew()

    # --- the model's context -------------------------------------------------------------------------

    @property
    def projection(self) -> Projection:
        """The entries so far, projected as those of a session of ours are."""
        new = sorted(self._unprojected)
        self._unprojected = []
        if new and new[0] <= self._projection.last_index:
            self._project_anew()
            new, self._unprojected = sorted(self._unprojected), []
        for index in new:
            self._projection.append(self.entries[index])
        return self._projection

    def _project_anew(self) -> None:
        """An entry changed, or came late, after a later one had been projected."""
        self._projection = Projection()
        self._unprojected = list(self.entries)

    def context(self) -> list[int]:
        """The indices of the messages that the model has, in its order, without the system prompt.

        A summary has the index of its compaction.
        """
        indices = (item.index for item in self.projection.view)
        return [index for index in indices if not isinstance(self.entries[index], SystemMessage)]

    def messages(self) -> list[int]:
        """The same without summaries."""
        return [index for index in self.context() if not isinstance(self.entries[index], Compaction)]

    def visible(self) -> dict[int, BaseMessage]:
        """Return the messages that the model has, by index, without prompt and summaries."""
        return {index: self.message(index) for index in self.messages()}

    def add_children(self, children: Iterable[ForeignChild]) -> None:
        self.children.update({child.id: child for child in children})

    def not_undone(self) -> list[int]:
        """Return all messages but those that were reverted, cleared or dropped; compacted ones, too."""
        fate = self.projection.fate
        messages = (entry.index for entry in self.in_order() if isinstance(entry, BaseMessage))
        return [index for index in messages if fate(index).kind not in _UNDONE]

    def newest_summary(self) -> Compaction | None:
        """The newest compaction whose summary is in the context."""
        summaries = (self.entries[item.index] for item in self.projection.view if is_summary(item.message))
        newest = max(summaries, key=lambda entry: entry.index, default=None)
        return newest if isinstance(newest, Compaction) else None

    def whole_groups(self, indices: Iterable[int]) -> list[int]:
        """These messages in order, each answer with all its results, each result with its answer."""
        groups = {self.projection.group(index) for index in indices}
        return self._in_groups([index for group in sorted(groups) for index in group])

    def _in_groups(self, indices: Sequence[int]) -> list[int]:
        """These messages with each result right behind its call; without those that no view can hold."""
        chosen, here = set(indices), {item.index for item in self.projection.view}
        together: list[int] = []
        for index in dict.fromkeys(indices):
            caller, *results = self.projection.group(index)
            if index == caller and (index in here or self._says_something(index)):
                together += [index, *(result for result in results if result in chosen)]
        return together

    def _says_something(self, index: int) -> bool:
        """Return whether this entry is a message that can stand in a view by itself."""
        outline = self.projection.outline(index)
        return isinstance(outline, MessageOutline) and outline.says and outline.type != "tool_result"

    def compact(
        self, summary: Sequence[Part], kept: Sequence[int], at: datetime | None, position: int = 0, **how: Any
    ) -> None:
        """Add a compaction. `how` is passed on to `compaction`."""
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
        """Return the compaction at this index, after which the context is `ahead`, the summary and `kept`.

        Both lists hold indices of messages, in the context or not, and of compactions whose summaries stay. A
        result never stays without its call. Without a summary, nothing stands for what is gone.

        Args:
            contents: texts that stand in place of those of messages from now on, by index.
            fate: what this makes of these messages.
            about: more fields of the entry.
        """
        view = self.projection.view
        messages = {item.index: item.message for item in view}
        texts = contents or {}

        def after(indices: Sequence[int]) -> Iterator[BaseMessage]:
            for each in self._in_groups(indices):
                message = messages.get(each) or self.message(each)
                yield with_text(message, texts[each]) if each in texts else message

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
                "head": tuple(altered(each) if isinstance(each, Kept) else each for each in entry.head),
                "replaced": tuple(map(altered, entry.replaced)),
                **about,
            }
        )

    def clip(self, contents: Mapping[int, str], at: datetime | None, **about: Any) -> None:
        """Add a compaction after which these messages read otherwise, if any of them is in the context."""
        context = self.context()
        if not contents.keys().isdisjoint(context):
            self.compact((), context, at, contents=contents, reason="threshold", **about)

    def results_of(self, index: int) -> tuple[int, ...]:
        """The results of the calls of this answer."""
        caller, *results = self.projection.group(index)
        return tuple(results) if caller == index else ()

    def message(self, index: int) -> BaseMessage:
        """The message of this entry; of a compaction, its summary."""
        entry = self.entries[index]
        if isinstance(entry, Compaction):
            return entry.written[0].message
        assert isinstance(entry, BaseMessage), "what is in a view says something"
        return entry

    def unknown(self, record: JsonObject, kind: str) -> Unknown:
        """A record that says nothing to us stays as it is."""
        return Unknown(type=f"{self.agent}.{kind or 'record'}", record=record)

    def put_record(
        self, index: int, entry: Entry | None, record: JsonObject, kind: str, at: datetime | None = None
    ) -> int:
        """Add what a record of this kind says; a record that says nothing stays as it is."""
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
        exit_code: str = "",
        brief: str = "",
        milliseconds: int = 0,
    ) -> ToolResultMessage:
        """Return the result of a call, named and judged by the call that is known.

        Args:
            changes: tells what a call that went well did to files.
            name: the tool, if no call is known.
            brief: the outcome of a call that went well.
        """
        call = self.calls.get(call_id)
        is_failure = failed or cancelled
        if exit_code:
            brief = f"exit {exit_code}"
        elif is_failure:
            brief = "cancelled" if cancelled else "failed"
        return tool_result(
            call_id,
            call.name if call else name,
            parts,
            failed=is_failure,
            brief=brief,
            changes=changes(call) if call and not is_failure else None,
            milliseconds=milliseconds,
        )

    def standing_summaries(self) -> dict[str, int]:
        """The compactions whose summaries are in the context, by what these say."""
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
        self.add(Edit(target=index, action="drop"), at)

    def checkpoint(self, at: datetime | None = None, *, index: int | None = None) -> int:
        """Add a place that the session comes back to, here or at an index taken before. Return its id."""
        checkpoint, self._checkpoints = self._checkpoints, self._checkpoints + 1
        self.put(self.next_index() if index is None else index, Checkpoint(id=checkpoint), at)
        return checkpoint

    def go_back_to(self, checkpoint: int, at: datetime | None = None, *, index: int | None = None) -> None:
        self.put(self.next_index() if index is None else index, Revert(checkpoint=checkpoint), at)

    def go_to_branch(self, moment: int, at: datetime | None, position: int = 0) -> None:
        """Go on, at this record, with the context as it was when the entry `moment` was the newest."""
        checkpoint = self.checkpoint(at, index=self.next_index(position))
        self.add(Revert(checkpoint=checkpoint, moment=moment), at, position=position)

    # --- a context that the file lists anew ----------------------------------------------------------

    def known_messages(self, key: "MessageKey | None" = None) -> "KnownMessages":
        """Return the messages to be found by this key; by type and parts without one."""
        return KnownMessages(self.entries, set(self.messages()), key or _type_and_parts)

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
        before = self.newest_summary()
        standing = before.summary if before else ""
        summary = _summary(new, standing)
        ahead: list[int] = []
        kept: list[int] = []
        place = kept if summary is None else ahead
        renewed: set[str] = set()
        listed: set[int] = set()
        texts: dict[int, str] = {}
        for piece, index in zip(context, found, strict=True):
            match piece:
                case UserMessage() if piece is summary:
                    place = kept
                    continue
                case ToolResultMessage() if piece.call_id in self._results and piece.call_id not in renewed:
                    index = self._results[piece.call_id][-1]
                    if piece.text != self._text(index):
                        texts[index] = piece.text
                case AssistantMessage() if index is None:
                    renewed |= {call.call_id for call in piece.calls}
            if index is None:
                assert isinstance(piece, BaseMessage), "a place is known"
                index = self.add(piece, at)
            new_here = [each for each in (index, *self.results_of(index)) if each not in listed]
            place += new_here
            listed.update(new_here)
        parts: tuple[Part, ...] = summary.parts if summary else ()
        is_new = summary is not None and (before is None or summary.text != before.summary)
        now = [index for index in self.context() if before is None or index != before.index]
        if is_new or [*ahead, *kept] != now:
            self.compact(parts, kept, at, ahead=ahead, strategy=strategy, tokens_before=tokens_before)
        self.clip(texts, None, strategy=f"{strategy}-clip")

    def _text(self, index: int) -> str:
        entry = self.entries[index]
        return entry.text if isinstance(entry, BaseMessage) else ""


def _children_note(children: Sequence[ForeignChild]) -> Iterator[str]:
    if children:
        named = some([" ".join(filter(None, (child.id, child.agent))) for child in children], 5)
        yield f"{many(len(children), 'subagent')}: {named}. One is read by its id behind the name: FILE/ID."


MessageKey = Callable[[BaseMessage], object]


class KnownMessages:
    """The messages of the history, each to be found once by what it says, those in the view first."""

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


def _said(message: BaseMessage) -> object:
    """Thinking is mostly stripped from what is sent again."""
    return message.type, tuple(part for part in message.parts if not isinstance(part, ThinkingPart))


def _summary(new: Sequence[int | BaseMessage], standing: str) -> UserMessage | None:
    """The summary among the new messages, which may be the one that stands now: agents put it into the role
    user."""
    users = [message for message in new if isinstance(message, UserMessage)]
    marked = (message for message in users if message.text == standing or _SNAPSHOT in message.text)
    return next(marked, next(iter(users), None))
