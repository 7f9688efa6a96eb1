"""Converts Claude Code's compactions.

A compaction consists of a boundary record and a summary record. Versions before 2 write only the summary.
Newer versions also clear or shorten individual tool results. These changes become compactions without a
summary.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from foldline.formats.base import JsonLine, JsonObject
from foldline.formats.transcript import Transcript
from foldline.past.files import file_lists
from foldline.protocol import ToolResultMessage, text_parts

from .messages import SPOKEN, is_boundary, is_summary, text_of, uuid_of

CLEARED = "[Old tool result content cleared]"
"""The text that the model sees in place of a cleared result."""


def compacting_records(lines: Iterable[JsonLine]) -> dict[int, JsonLine]:
    """Return the record that completes each compaction, by the position of its boundary.

    This is the summary or, if none follows, the boundary itself. A boundary at the end of the file is
    incomplete and is left out.
    """
    records = {}
    boundary: JsonLine | None = None
    for line in lines:
        begins = is_boundary(line.record)
        if boundary and (begins or line.kind in SPOKEN):
            records[boundary.position] = line if is_summary(line.record) else boundary
            boundary = None
        if begins:
            boundary = line
    return records


class Compactions:
    """Adds the compactions of a session to its transcript."""

    def __init__(self, log: Transcript, lines: Sequence[JsonLine]) -> None:
        self.without_summary = 0
        self.lost_kept = 0
        """The number of compactions whose kept records are missing from the file."""
        self._log = log
        self._parents = {
            uuid_of(line): line.record.text("parentUuid") for line in lines
        }
        self._of_record: dict[str, list[int]] = defaultdict(list)
        """The entries of each record, by the record's id."""

    def add(self, index: int, records: Iterable[JsonLine]) -> None:
        """Record that the entry `index` was made from these records."""
        for line in records:
            self._of_record[uuid_of(line)].append(index)

    def compact(self, line: JsonLine, boundary: JsonObject) -> None:
        """Add the compaction that ends at this summary, or at a boundary without a summary.

        Args:
            boundary: the boundary record; empty in versions without boundaries.
        """
        summary = text_parts(text_of(line.record) if is_summary(line.record) else "")
        self.without_summary += not summary
        kept = self._kept(boundary)
        ahead = []
        metadata = boundary.object("compactMetadata")
        preserved = metadata.object("preservedMessages") or metadata.object(
            "preservedSegment"
        )
        # Kept messages follow an anchor, which is the boundary itself if they come before the summary.
        anchor = preserved.text("anchorUuid")
        if anchor and anchor == boundary.text("uuid"):
            ahead = kept
            kept = []
        self._log.compact(
            summary,
            kept,
            line.at,
            line.position,
            ahead=ahead,
            tokens_before=metadata.count("preTokens"),
            tokens_after=metadata.count("postTokens"),
            reason="threshold" if metadata.get("trigger") == "auto" else "manual",
            focus=metadata.text("userContext") or None,
            **self._common(),
        )

    def _common(self) -> dict[str, Any]:
        """Return the fields that are the same in all compactions."""
        return {"strategy": "claude-code", "details": file_lists(self._log.projection)}

    def _kept(self, boundary: JsonObject) -> list[int]:
        """Return the indices of the messages kept verbatim.

        They are extended to whole groups of calls and results.
        """
        records = _kept_records(boundary.object("compactMetadata"), self._parents)
        if records is None:
            self.lost_kept += 1
            return []
        return self._log.whole_groups(
            index for uuid in records for index in self._of_record.get(uuid, ())
        )

    def clear_results(self, line: JsonLine) -> bool:
        """Replace tool results with a placeholder.

        Returns whether there were any such results.
        """
        metadata = line.record.object("microcompactMetadata")
        contents = dict.fromkeys(
            filter(None, metadata.texts("compactedToolIds")), CLEARED
        )
        return self._replace_results(
            line, contents, "hidden", metadata.count("preTokens")
        )

    def shorten_results(self, line: JsonLine) -> bool:
        """Replace tool results with shorter versions.

        Returns whether there were any such results.
        """
        replacements = line.record.objects("replacements")
        contents = {
            one.text("toolUseId"): one.text("replacement") for one in replacements
        }
        return self._replace_results(line, contents, "clipped")

    def _replace_results(
        self,
        line: JsonLine,
        contents: Mapping[str, str],
        fate: Literal["hidden", "clipped"],
        tokens_before: int = 0,
    ) -> bool:
        texts = {}
        for index, message in self._log.visible().items():
            if isinstance(message, ToolResultMessage) and message.call_id in contents:
                texts[index] = contents[message.call_id]
        self._log.clip(
            texts,
            line.at,
            position=line.position,
            fate=fate,
            tokens_before=tokens_before,
            **self._common(),
        )
        return bool(texts)

    def relist(
        self, line: JsonLine, items: Sequence[int], contents: Mapping[int, str]
    ) -> None:
        """Replace the context with a request's messages."""
        self._log.compact(
            (),
            items,
            line.at,
            line.position,
            contents=contents,
            **self._common(),
        )


def _kept_records(
    metadata: JsonObject, parents: Mapping[str, str]
) -> Sequence[str] | None:
    """Return the ids of the kept records.

    Returns None if any is missing from the file.

    Newer versions list the ids; older versions name the first and the last record of a chain.
    """
    listed = metadata.object("preservedMessages")
    if listed:
        uuids = listed.texts("uuids")
        return uuids if all(uuid in parents for uuid in uuids) else None
    segment = metadata.object("preservedSegment")
    if not segment:
        return []
    walked: dict[str, None] = {}
    uuid = segment.text("tailUuid")
    while uuid in parents and uuid not in walked:
        walked[uuid] = None
        if uuid == segment.text("headUuid"):
            return list(walked)
        uuid = parents[uuid]
    return None
