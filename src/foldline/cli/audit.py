"""`foldline audit`: what each fold of a session took out of the model's sight for good."""

from collections.abc import Iterator
from dataclasses import dataclass

from foldline.context.audit import Audit, FactKind, Lost, audit, taken
from foldline.context.budget import Size
from foldline.context.files import compacted_count, describe_compaction
from foldline.context.numbers import tokens
from foldline.context.projection import Projection
from foldline.context.weight import view_size
from foldline.protocol import Compaction

from .output import Cell, Column, say, say_heading, say_json, say_table
from .sources import Source, read_source

NAMES: dict[FactKind, str] = {"todo": "open todo"}
"""What a kind is called, where not by its own name."""
ENTRIES = 3
"""Entries named for a fact; more are counted."""


@dataclass(frozen=True, slots=True)
class AuditedFold:
    """A fold in force, and what it lost."""

    fold: Compaction
    before: Size
    after: Size
    entries: int
    """How many entries it took out of the view."""
    did: str
    """The same in words, and for a fold that only altered what it found."""
    audit: Audit


def run(source: str, as_json: bool, format_name: str | None) -> int:
    found = read_source(source, format_name)
    folds = list(audited_folds(found))
    if as_json:
        say_json({"folds": [_fold_json(each) for each in folds]})
        return 0
    if not folds:
        say(f"{found.name} has no fold in force: nothing was folded away.")
    for number, each in enumerate(folds):
        if number:
            say()
        _say_fold(each, found.header.cwd)
    return 0


def audited_folds(source: Source) -> Iterator[AuditedFold]:
    """The folds in force, oldest first, each against the views before and after it."""
    in_force = {fold.index for fold in source.project().compactions()}
    projection = Projection()
    for entry in source.entries:
        if not isinstance(entry, Compaction) or entry.index not in in_force:
            projection.append(entry)
            continue
        before, size = [item.message for item in projection.view], view_size(projection)
        projection.append(entry)
        after = [item.message for item in projection.view]
        yield AuditedFold(
            fold=entry,
            before=_recorded(entry.tokens_before, size),
            after=_recorded(entry.tokens_after, view_size(projection)),
            entries=compacted_count(projection, entry),
            did=describe_compaction(projection, entry),
            audit=audit(taken(before, after), after),
        )


def _recorded(count: int, size: Size) -> Size:
    """The size a fold recorded; other agents record only the one before it, or none."""
    return Size(count, estimated=False) if count else size


def _fold_json(each: AuditedFold) -> dict[str, object]:
    return {
        "index": each.fold.index,
        "reason": each.fold.reason,
        "strategy": each.fold.strategy,
        "tokens_before": each.before.tokens,
        "tokens_after": each.after.tokens,
        "entries": each.entries,
        "facts": each.audit.facts,
        "lost": [
            {"kind": lost.kind, "text": lost.text, "indices": list(lost.indices)} for lost in each.audit.lost
        ],
    }


def _say_fold(each: AuditedFold, cwd: str) -> None:
    sizes = " → ".join(tokens(size.tokens, estimated=size.estimated) for size in (each.before, each.after))
    lost, facts = len(each.audit.lost), each.audit.facts
    say_heading(
        f"{each.fold.index} {each.fold.reason} {sizes} tokens, {each.did}, {lost} of {facts} facts lost"
    )
    if lost:
        columns = (Column("lost"), Column("fact", grows=True), Column("entries"))
        say_table(columns, [_row(fact, cwd) for fact in each.audit.lost])


def _row(lost: Lost, cwd: str) -> list[Cell | str]:
    """A fact on one line; a path below the session's folder is told from there."""
    shown = ", ".join(map(str, lost.indices[:ENTRIES]))
    more = len(lost.indices) - ENTRIES
    return [
        Cell(NAMES.get(lost.kind, lost.kind), "alert"),
        " ".join(lost.text.split()).removeprefix(f"{cwd.rstrip('/')}/"),
        Cell(f"{shown} +{more}" if more > 0 else shown, "muted"),
    ]
