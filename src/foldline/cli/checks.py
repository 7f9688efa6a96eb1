"""`foldline verify` and `audit`: is the history sound, and what did each compaction lose."""

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import takewhile
from typing import Final

from foldline.context.audit import Audit, FactKind, Lost, attached_again, audit, taken
from foldline.context.budget import Size
from foldline.context.calls import unannounced_tool_changes
from foldline.context.compactions import compacted_count, describe_compaction, sizes_of, sizes_words
from foldline.context.invariants import broken, dangling
from foldline.context.numbers import many
from foldline.context.projection import Projection
from foldline.context.proof import Unproved, recorded_requests, unproved
from foldline.formats.base import Digests
from foldline.protocol import AssistantMessage, Compaction, Entry, RequestRecord

from .output import Cell, Column, entries_of, say, say_heading, say_json, say_table
from .sources import Source, read_source

# --- foldline verify ---------------------------------------------------------------------------------


def verify(source: str, as_json: bool, format_name: str | None) -> int:
    """Checks the history of a session, and those of its subagents."""
    found, *below = [(each, verdict_on(each)) for each in read_source(source, format_name).tree()]
    _, verdict = found
    ok = all(each.ok for _, each in (found, *below))
    if as_json:
        children = [{"id": child.header.id, **_verdict_json(each)} for child, each in below]
        say_json({**_verdict_json(verdict), "ok": ok, "subagents": children})
        return 0 if ok else 1
    for child, each in (found, *below):
        say_heading(str(each) if child is found[0] else f"{child.name}: {each}")
        for failure in (*each.unproved, *each.unsound):
            say(str(failure))
    return 0 if ok else 1


def _verdict_json(verdict: "Verdict") -> dict[str, object]:
    failures: list[dict[str, object]] = [
        {"request": failure.number, "entry": failure.index, "text": str(failure)}
        for failure in verdict.unproved
    ]
    failures += [{"request": None, "entry": None, "text": fault} for fault in verdict.unsound]
    return {
        "ok": verdict.ok,
        "requests": verdict.requests,
        "unrecorded": verdict.unrecorded,
        "proved": verdict.requests - len(verdict.unproved),
        "compactions": verdict.compactions,
        "entries": verdict.entries,
        "digests": verdict.digests,
        "failures": failures,
    }


@dataclass(frozen=True, slots=True)
class Verdict:
    """What can be checked from a session's file alone: every request ever sent, and the history itself."""

    requests: int
    unrecorded: int
    """Requests that another agent's file has only the answers of: what they sent cannot be known."""
    compactions: int
    entries: int
    unproved: list[Unproved]
    unsound: list[str]
    """What else does not hold: damage, references that lead nowhere, a view that breaks its rules, a digest
    of another agent's that its files contradict."""
    digests: int = 0
    """Digests of another agent's that were recomputed."""

    @property
    def ok(self) -> bool:
        return not (self.unproved or self.unsound)

    def __str__(self) -> str:
        counted = f"{many(self.compactions, 'compaction')}, {entries_of(self.entries)}"
        if self.digests:
            counted += f", {many(self.digests, 'digest')} of its own checked"
        faults = many(len(self.unproved) + len(self.unsound), "fault")
        if not self.requests:
            sound = "all is sound" if self.ok else faults
            nothing = "no request is recorded, so there is none to prove"
            if self.unrecorded:
                nothing = f"no record says what {many(self.unrecorded, 'request')} sent: none to prove"
            return f"{nothing}, {counted}: {sound}"
        proved = self.requests - len(self.unproved)
        if self.unrecorded:
            counted = f"{self.unrecorded:,} before them without a record, {counted}"
        if self.ok:
            return f"{many(proved, 'request')} proved, {counted}: all as recorded"
        return f"{proved:,} of {many(self.requests, 'request')} proved, {counted}: {faults}"


def verdict_on(source: Source) -> Verdict:
    """Projects the history again and holds every request against it."""
    projection = source.project()
    damage = [str(source.damage)] if source.damage else []
    digests = source.digests or Digests(0)
    return Verdict(
        requests=len(recorded_requests(source.entries)),
        unrecorded=0 if source.ours or projection.reports_view else _unrecorded(source.entries),
        compactions=len(projection.all_compactions),
        entries=len(source.entries),
        unproved=unproved(source.entries),
        unsound=[
            *damage,
            *digests.faults,
            *dangling(projection),
            *broken(projection),
            *unannounced_tool_changes(source.entries),
        ],
        digests=digests.checked,
    )


def _unrecorded(entries: Iterable[Entry]) -> int:
    """Answers before the first record of a request. Newer versions of an agent may have gone on in a file."""
    earlier = takewhile(lambda entry: not isinstance(entry, RequestRecord), entries)
    return sum(isinstance(entry, AssistantMessage) and bool(entry.parts) for entry in earlier)


# --- foldline audit ----------------------------------------------------------------------------------


def show_audit(source: str, as_json: bool, format_name: str | None) -> int:
    found = read_source(source, format_name)
    compactions = list(audited(found))
    if as_json:
        say_json({"compactions": [each.as_json() for each in compactions]})
        return 0
    if not compactions:
        say(f"{found.name} has no compaction in force: nothing was taken out of the view.")
    for number, each in enumerate(compactions):
        if number:
            say()
        say_audited(each, found.header.cwd)
    return 0


_NAMES: Final[dict[FactKind, str]] = {"todo": "open todo"}
"""What a kind is called, where not by its own name."""
_MOST_ENTRIES: Final = 3
"""Entries named for a fact; more are counted."""


@dataclass(frozen=True, slots=True)
class AuditedCompaction:
    """A compaction in force, and what it lost."""

    entry: Compaction
    sizes: tuple[Size, Size]
    words: str
    """The same: `116.2k → 27.4k tokens`."""
    entries: int
    """How many entries it took out of the view."""
    did: str
    """The same in words, and for a compaction that only altered what it found."""
    audit: Audit

    def as_json(self) -> dict[str, object]:
        return {
            "index": self.entry.index,
            "reason": self.entry.reason,
            "strategy": self.entry.strategy,
            "tokens_before": self.sizes[0].tokens,
            "tokens_after": self.sizes[1].tokens,
            "entries": self.entries,
            "facts": self.audit.facts,
            "lost": list(map(asdict, self.audit.lost)),
        }


def audited(source: Source) -> Iterator[AuditedCompaction]:
    """The compactions in force, oldest first, each against the views before and after it."""
    whole, projection = source.project(), Projection()
    in_force = {entry.index for entry in whole.compactions()}
    for place, entry in enumerate(source.entries, start=1):
        if not isinstance(entry, Compaction) or entry.index not in in_force:
            projection.append(entry)
            continue
        later = map(source.entries.__getitem__, range(place, len(source.entries)))
        before = [item.message for item in projection.view]
        projection.append(entry)
        after = [item.message for item in projection.view]
        yield AuditedCompaction(
            entry=entry,
            sizes=sizes_of(whole, entry),
            words=sizes_words(whole, entry, "tokens"),
            entries=compacted_count(projection, entry),
            did=describe_compaction(projection, entry),
            audit=audit(taken(before, after), [*after, *attached_again(later)]),
        )


def say_audited(each: AuditedCompaction, cwd: str) -> None:
    lost, entry = each.audit.lost, each.entry
    counted = f"{len(lost)} of {each.audit.facts} facts lost"
    say_heading(f"{entry.index} {entry.reason} {each.words}, {each.did}, {counted}")
    if lost:
        columns = (Column("lost"), Column("fact", grows=True), Column("entries"))
        say_table(columns, [_lost_row(fact, cwd) for fact in lost])


def _lost_row(lost: Lost, cwd: str) -> list[Cell | str]:
    """A fact on one line; a path below the session's folder is relative."""
    shown = ", ".join(map(str, lost.indices[:_MOST_ENTRIES]))
    more = len(lost.indices) - _MOST_ENTRIES
    return [
        Cell(_NAMES.get(lost.kind, lost.kind), "alert"),
        " ".join(lost.text.split()).removeprefix(f"{cwd.rstrip('/')}/"),
        Cell(f"{shown} +{more}" if more > 0 else shown, "muted"),
    ]
