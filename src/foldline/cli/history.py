"""`foldline history`: every entry of a session, and where it is now."""

from foldline.context.numbers import tokens
from foldline.context.projection import Projection
from foldline.context.tokens import message_tokens
from foldline.context.weight import Weight, entry_weight, view_size
from foldline.protocol import BaseMessage, Compaction, Entry

from .output import Cell, Column, note, say_heading, say_json, say_legend, say_table
from .rows import LEGEND, Naming, fate_cell, is_failure, is_last_of_group, kind_label, outcome
from .sources import Source, read_source


def run(source: str, as_json: bool, format_name: str | None) -> int:
    found = read_source(source, format_name)
    projection = found.project()
    if as_json:
        naming = Naming(found.header.cwd)
        for entry in found.entries:
            naming.note(entry)
            say_json(_entry_json(projection, entry, naming), pretty=False)
        return 0
    _say_history(found, projection)
    return 0


def _entry_json(projection: Projection, entry: Entry, naming: Naming) -> dict[str, object]:
    fate = projection.fate(entry.index)
    weight = _weight(projection, entry)
    return {
        "index": entry.index,
        "type": entry.type,
        "fate": fate.kind,
        "by": fate.by,
        "tokens": weight.tokens,
        "estimated": weight.estimated,
        "at": entry.at.isoformat() if entry.at else None,
        "preview": naming.preview(entry),
    }


def _weight(projection: Projection, entry: Entry) -> Weight:
    """What an entry weighs: a message as it was said, a compaction its new text, other markers nothing."""
    match entry:
        case BaseMessage():
            return entry_weight(projection, entry)
        case Compaction():
            scale = projection.calibration.scale(projection.model)
            new = sum(message_tokens(piece.message) for piece in entry.written)
            return Weight(round(new * scale), estimated=True)
        case _:
            return Weight(0, estimated=False)


def _say_history(source: Source, projection: Projection) -> None:
    entries = source.entries
    if not entries:
        note(f"{source.name} has no entries.")
        return
    size = view_size(projection)
    folds = len(projection.compactions())
    parts = (
        source.name,
        f"{len(entries)} entries",
        f"{folds} fold{'' if folds == 1 else 's'}" if folds else "never folded",
        f"{len(projection.view)} items in the view, {tokens(size.tokens, estimated=size.estimated)} tokens",
    )
    say_heading(" · ".join(parts))
    columns = (
        Column("fate"),
        Column("by", right=True),
        Column("no.", right=True),
        Column("type", most=16),
        Column("entry", grows=True),
        Column("outcome"),
        Column("tokens", right=True),
    )
    naming = Naming(source.header.cwd)
    rows: list[list[Cell | str]] = []
    for place, entry in enumerate(entries):
        naming.note(entry)
        fate, weight = projection.fate(entry.index), _weight(projection, entry)
        rows.append(
            [
                fate_cell(fate),
                Cell("" if fate.by is None else str(fate.by), "muted"),
                str(entry.index),
                _label(entry, is_last_of_group(entries, place)),
                naming.about(entry),
                Cell(outcome(entry), "alert" if is_failure(entry) else "muted"),
                Cell(tokens(weight.tokens, estimated=weight.estimated) if weight.tokens else "", "muted"),
            ]
        )
    say_table(columns, rows)
    say_legend(LEGEND)


def _label(entry: Entry, last_of_group: bool) -> Cell:
    label = kind_label(entry, last_of_group=last_of_group)
    if isinstance(entry, Compaction):
        return Cell(label, "folded")
    if isinstance(entry, BaseMessage):
        return Cell(label, "bold" if entry.type == "user" else None)
    return Cell(label, "muted")
