"""What changed the view, in History: a compaction, rewind, clear or undo is a rule across the panel."""

from dataclasses import dataclass, field

from textual.strip import Strip

from foldline.context import numbers
from foldline.context.outline import CompactionOutline
from foldline.context.projection import Projection
from foldline.protocol import BaseMessage, Clear, Compaction, Revert, Undo
from foldline.tui.blocks import Block, RuleBlock, Styles, clean_line
from foldline.tui.inspector.places import is_undone

Marker = CompactionOutline | Revert | Clear | Undo


@dataclass(frozen=True, slots=True, eq=False)
class MarkerRow(Block):
    """A compaction, rewind, clear or undo: a rule across the panel."""

    projection: Projection
    marker: Marker
    label: str
    wide: bool = field(default=True, kw_only=True)

    def render(self, width: int, styles: Styles) -> list[Strip]:
        name, *more = self.label.split(" · ")
        # Where there is no room for all of it, the reason of a fold goes, and its sizes stay.
        brief = " · ".join([name, *more[1:]]) if isinstance(self.marker, CompactionOutline) else ""
        return RuleBlock(self.key, self.label, align="centre", brief=brief).render(width, styles)

    def estimate(self, width: int) -> int:
        return 1

    def text(self) -> str:
        fold = (
            self.projection.entry(self.marker.index) if isinstance(self.marker, CompactionOutline) else None
        )
        return f"{self.label}\n{fold.summary if isinstance(fold, Compaction) else ''}"


def marker_label(projection: Projection, marker: Marker) -> str:
    """What the rule of a marker says: `373 compaction · threshold · 116.2k → 27.4k`."""
    parts: list[str]
    match marker:
        case CompactionOutline():
            parts = [f"{marker.index} compaction", marker.reason]
            if known := numbers.sizes(marker.tokens_before, marker.tokens_after):
                parts.append(known)
            if is_undone(projection, marker.index):
                parts.append("undone")
        case Revert():
            what = "rewind" if marker.message is None else "D-Mail"
            parts = [f"{marker.index} {what}{_before(projection, marker)}"]
            if marker.files:
                parts.append("files restored")
        case Clear():
            parts = [f"{marker.index} clear"]
        case Undo():
            parts = [f"{marker.index} undo of {marker.target}"]
    return clean_line(" · ".join(parts))


def _before(projection: Projection, revert: Revert) -> str:
    """` to before 386`: the first entry that a rewind took away."""
    checkpoint = projection.checkpoint(revert.checkpoint)
    if checkpoint is None:
        return ""
    for entry in projection.after(checkpoint, 100):
        if isinstance(entry, BaseMessage) and entry.index != revert.kept:
            return f" to before {entry.index}"
    return ""
