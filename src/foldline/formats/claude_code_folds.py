"""Compactions of Claude Code: a boundary record, a summary record, and what both say about what was kept.

Versions before 2 write the summary without a boundary. Newer ones also take single tool results out of the
context, or shorten them: folds without a summary.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Literal

from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    Compaction,
    CompactionDetails,
    Kept,
    Part,
    ToolResultMessage,
)

from .base import JsonObject, as_count, as_list, as_object, as_text
from .foreign_view import ForeignView

CLEARED = "[Old tool result content cleared]"
"""What the model sees in the place of a result that Claude Code took out of its context."""


class Folds:
    """Follows the messages and makes the folds. `chain` is the parent of each record, both by id."""

    def __init__(self, chain: Mapping[str, str]) -> None:
        self.without_summary = 0
        self.lost_kept = 0
        self._chain = chain
        self._view = ForeignView()
        self._ahead: tuple[int, ...] = ()
        """What the newest fold put before its summary."""
        self._details = CompactionDetails()
        self._messages: dict[int, BaseMessage] = {}
        self._of_record: dict[str, list[int]] = defaultdict(list)
        """The messages each record went into, by the record's id."""
        self._groups: dict[str, list[int]] = {}
        """An answer and the results of its call, by the id of the call."""
        self._seen: set[int] = set()
        """The messages that were in the view at some time."""

    def add(self, message: BaseMessage, records: Sequence[str]) -> None:
        """One more message, with its index, and the ids of the records it comes from."""
        before = len(self._view.messages)
        self._view.add(message)
        if len(self._view.messages) > before:
            self._seen.add(message.index)
        self._messages[message.index] = message
        for uuid in records:
            self._of_record[uuid].append(message.index)
        if isinstance(message, AssistantMessage):
            self._groups.update({call.call_id: [message.index] for call in message.calls})
        elif isinstance(message, ToolResultMessage):
            self._groups.setdefault(message.call_id, []).append(message.index)

    def fold(self, index: int, boundary: JsonObject, summary: Sequence[Part]) -> Compaction:
        """The fold at this index. A boundary without fields is one that the file does not have."""
        self.without_summary += not summary
        kept = self._kept(boundary)
        is_ahead = _anchor(boundary) == boundary.get("uuid")
        self._details = self._file_lists(kept)
        told = as_object(boundary.get("compactMetadata"))
        fold = self._view.folded(
            index,
            summary,
            () if is_ahead else kept,
            ahead=kept if is_ahead else (),
            strategy="claude-code",
            tokens_before=as_count(told.get("preTokens")),
            tokens_after=as_count(told.get("postTokens")),
            details=self._details,
        )
        self._ahead = tuple(kept) if is_ahead else ()
        reason = "threshold" if told.get("trigger") == "auto" else "manual"
        return fold.model_copy(update={"reason": reason, "focus": as_text(told.get("userContext")) or None})

    def _kept(self, boundary: JsonObject) -> list[int]:
        """The messages that a fold kept word for word, tool groups whole, in their order."""
        records = _kept_records(boundary, self._chain)
        self.lost_kept += records is None
        named = {index for uuid in records or () for index in self._of_record.get(uuid, ())}
        firsts = {self._group_of(index)[0] for index in named}
        whole = {index for first in firsts for index in self._group_of(first)} | named
        return sorted(whole & self._seen, key=lambda index: (self._group_of(index)[0], index))

    def _group_of(self, index: int) -> list[int]:
        """A message alone; an answer with the results of its calls; a result behind its answer."""
        message = self._messages[index]
        match message:
            case AssistantMessage():
                groups = [self._groups[call.call_id] for call in message.calls]
                return [index, *(result for group in groups if group[0] == index for result in group[1:])]
            case ToolResultMessage():
                return [self._groups[message.call_id][0], index]
            case _:
                return [index]

    def _file_lists(self, kept: Collection[int]) -> CompactionDetails:
        """The files of all results that were ever folded, as the results name them."""
        touches = [
            touch
            for index in self._view.messages
            if index not in kept and isinstance(message := self._messages[index], ToolResultMessage)
            for touch in message.details.files
        ]
        modified = [
            *self._details.modified_files,
            *(touch.path for touch in touches if touch.action == "modified"),
        ]
        read = [*self._details.read_files, *(touch.path for touch in touches if touch.action == "read")]
        return CompactionDetails(
            read_files=tuple(path for path in dict.fromkeys(read) if path not in modified),
            modified_files=tuple(dict.fromkeys(modified)),
        )

    def cleared(self, index: int, record: JsonObject) -> Compaction | None:
        """The fold that takes the results out of the context which a record names."""
        told = as_object(record.get("microcompactMetadata"))
        contents = {as_text(call_id): CLEARED for call_id in as_list(told.get("compactedToolIds"))}
        return self._replaced(index, contents, "hidden", as_count(told.get("preTokens")))

    def shortened(self, index: int, record: JsonObject) -> Compaction | None:
        """The fold that shows the model less of the results which a record names."""
        replacements = [as_object(one) for one in as_list(record.get("replacements"))]
        contents = {as_text(one.get("toolUseId")): as_text(one.get("replacement")) for one in replacements}
        return self._replaced(index, contents, "clipped", 0)

    def _replaced(
        self, index: int, contents: Mapping[str, str], fate: Literal["hidden", "clipped"], tokens_before: int
    ) -> Compaction | None:
        """The fold after which these results, by the ids of their calls, read otherwise; None for none."""
        view, ahead = self._view.messages, self._ahead
        pieces = {
            place: Kept(ref=place, content=contents[message.call_id], fate=fate)
            for place in view
            if isinstance(message := self._messages[place], ToolResultMessage) and message.call_id in contents
        }
        if not pieces:
            return None
        earlier = self._view.fold
        return Compaction(
            index=index,
            first_kept_index=view[len(ahead)] if len(ahead) < len(view) else index,
            head=(
                *(pieces.get(place, Kept(ref=place)) for place in ahead),
                *((Kept(ref=earlier.index),) if earlier else ()),
            ),
            replaced=tuple(piece for place, piece in pieces.items() if place not in ahead),
            strategy="claude-code",
            reason="threshold",
            tokens_before=tokens_before,
            details=self._details,
        )


def _anchor(boundary: JsonObject) -> str:
    """The record that the kept ones follow: the boundary itself where they stand before the summary."""
    told = as_object(boundary.get("compactMetadata"))
    kept = as_object(told.get("preservedMessages")) or as_object(told.get("preservedSegment"))
    return as_text(kept.get("anchorUuid")) or "the summary"


def _kept_records(boundary: JsonObject, chain: Mapping[str, str]) -> Sequence[str] | None:
    """The ids of the kept records; None where some cannot be found.

    Newer versions list them. Older ones name the first and the last of a chain.
    """
    told = as_object(boundary.get("compactMetadata"))
    listed = as_object(told.get("preservedMessages"))
    if listed:
        uuids = [as_text(uuid) for uuid in as_list(listed.get("uuids"))]
        return uuids if all(uuid in chain for uuid in uuids) else None
    segment = as_object(told.get("preservedSegment"))
    return (
        _segment(as_text(segment.get("headUuid")), as_text(segment.get("tailUuid")), chain) if segment else []
    )


def _segment(head: str, tail: str, chain: Mapping[str, str]) -> list[str] | None:
    """The chain from tail to head; None where the way from the tail does not come to the head."""
    uuids: dict[str, None] = {}
    uuid = tail
    while uuid in chain and uuid not in uuids:
        uuids[uuid] = None
        if uuid == head:
            return list(uuids)
        uuid = chain[uuid]
    return None
