"""An imported session as a page of text: every entry, and every view."""

from collections.abc import Iterator
from typing import Any

from foldline.formats import ForeignSession
from foldline.history import Damage
from foldline.protocol import (
    BaseMessage,
    CheckpointPart,
    Clear,
    Compaction,
    Edit,
    Entry,
    ImagePart,
    Part,
    Revert,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    Written,
)
from foldline.view.projection import Projection

_LEFT_OUT = {
    "index",
    "type",
    "at",
    "parts",
    "head",
    "first_kept_index",
    "replaced",
    "summary",
}
"""Fields shown elsewhere on the page."""
_KINDS = {
    TextPart: "text",
    ThinkingPart: "thinking",
    ToolCallPart: "call",
    ImagePart: "image",
    CheckpointPart: "checkpoint",
}


def page_of(session: ForeignSession) -> str:
    """Return the page: header, entries, the view after each change, notes, subagents."""
    return "\n".join(_lines(session)) + "\n"


def _lines(session: ForeignSession) -> Iterator[str]:
    header = session.header
    yield f"{session.format} · {header.id} · {header.cwd or 'no folder'} · {header.created_at.isoformat()}"
    if session.damage != Damage():
        yield f"damage: {session.damage}"
    for note in session.notes:
        yield f"note: {note}"
    if session.digests is not None:
        yield f"digests: {session.digests.checked} checked, faults: {list(session.digests.faults)}"
    projection = Projection()
    before = None
    for entry in session.entries:
        projection.append(entry)
        yield f"{entry.index} {entry.type}" + (
            f" {entry.at}" if entry.at not in (None, before) else ""
        )
        before = entry.at or before
        yield from _entry(entry)
        if isinstance(entry, Compaction | Clear | Edit | Revert):
            yield f"  view: {_view(projection)}"
    yield f"view: {_view(projection)}"
    for child in session.children:
        yield ""
        yield f"subagent {child.id} · {child.agent} · {child.title} · {child.call_id}"
        yield from (f"  {line}" for line in _lines(child.session))


def _entry(entry: Entry) -> Iterator[str]:
    fields = entry.model_dump(mode="json", exclude_defaults=True)
    for name, value in _flat(
        {key: value for key, value in fields.items() if key not in _LEFT_OUT}
    ):
        yield f"  {name}: {value}"
    for part in entry.parts if isinstance(entry, BaseMessage) else ():
        yield from _part(part)
    if isinstance(entry, Compaction):
        yield from _compaction(entry)


def _part(part: Part) -> Iterator[str]:
    fields = part.model_dump(mode="json", exclude_defaults=True)
    text = fields.pop("text", "")
    named = "".join(f" {name}={value}" for name, value in _flat(fields))
    kind = _KINDS[type(part)]
    yield from _block(f"  {kind}{named}", text)


def _compaction(entry: Compaction) -> Iterator[str]:
    for piece in (*entry.head, *entry.replaced):
        fields = dict(
            _flat(
                piece.model_dump(
                    mode="json", exclude_defaults=True, exclude={"message"}
                )
            )
        )
        named = "".join(f" {name}={value}" for name, value in fields.items())
        if isinstance(piece, Written):
            yield from _block(f"  written{named}", piece.message.text)
        else:
            yield f"  kept{named}"
    yield f"  and all from {entry.first_kept_index} on"


def _block(head: str, text: str) -> Iterator[str]:
    first, *more = text.split("\n")
    yield f"{head} | {first}" if text else head
    yield from (f"    | {line}" for line in more)


def _flat(fields: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Flatten nested fields to dotted names."""
    for name, value in fields.items():
        if isinstance(value, dict) and value and not prefix.count("."):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield (
                f"{prefix}{name}",
                value if isinstance(value, int | float) else repr(value),
            )


def _view(projection: Projection) -> str:
    """Return the items in order; `*` marks a summary, `~` a replaced text."""
    names: list[str] = []
    for item in projection.view:
        mark = ""
        if item.written:
            mark = "*"
        elif item.content is not None:
            mark = "~"
        names.append(f"{item.index}{mark}")
    return " ".join(names) or "-"
