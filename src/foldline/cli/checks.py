"""`foldline verify` and `audit`: check requests and compactions.

`verify` checks requests against the history; `audit` lists facts that compactions lost.
"""

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import takewhile
from typing import Final

from foldline.formats.base import Digests
from foldline.memory.audit import Audit, Lost, attached_again, audit, removed
from foldline.memory.mentions import FactKind
from foldline.past.compactions import (
    compacted_count,
    describe_compaction,
    sizes_of,
    sizes_words,
)
from foldline.past.proof import Unproved, recorded_requests, unproved
from foldline.protocol import AssistantMessage, Compaction, Entry, RequestRecord
from foldline.text.numbers import many
from foldline.view.budget import Size
from foldline.view.calls import unannounced_tool_changes
from foldline.view.projection import Projection
from foldline.view.rules import broken, dangling

from .output import Cell, Column, entries_of, say, say_heading, say_json, say_table
from .sources import SourceSession, read_source

# --- foldline verify ---------------------------------------------------------------------------------


def verify(source: str, as_json: bool, format_name: str | None) -> int:
    """Check the history of a session and its subagents, and return the exit code."""
    checked = [
        (session, verify_session(session))
        for session in read_source(source, format_name).tree()
    ]
    ok = all(verdict.ok for _, verdict in checked)
    if as_json:
        root, *children = [_verdict_json(verdict) for _, verdict in checked]
        for child, (session, _) in zip(children, checked[1:], strict=True):
            child["id"] = session.header.id
        say_json({**root, "ok": ok, "subagents": children})
        return 0 if ok else 1
    for number, (session, verdict) in enumerate(checked):
        say_heading(f"{session.name}: {verdict}" if number else str(verdict))
        for failure in (*verdict.unproved, *verdict.faults):
            say(str(failure))
    return 0 if ok else 1


def _verdict_json(verdict: "Verdict") -> dict[str, object]:
    failures: list[dict[str, object]] = [
        {"request": failure.number, "entry": failure.index, "text": str(failure)}
        for failure in verdict.unproved
    ]
    failures += [
        {"request": None, "entry": None, "text": fault} for fault in verdict.faults
    ]
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


CONSISTENT = "the file is consistent"
PROVED = "{requests} proved, {counts}: {result}"
NO_REQUESTS = (
    "No requests were recorded, so there is nothing to prove. {counts}: {result}."
)
UNRECORDED = "The file does not record its {requests}, so there is nothing to prove. {counts}: {result}."
"""The result for another agent's file that contains answers but not their requests."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of verifying a session file."""

    requests: int
    unrecorded: int
    """Number of requests that are missing from another agent's file.

    The file contains their answers.
    """
    compactions: int
    entries: int
    unproved: list[Unproved]
    faults: list[str]
    """Descriptions of damage, dangling references, violated rules for views, and wrong digests."""
    digests: int = 0
    """Number of digests in another agent's file that were recomputed."""

    @property
    def ok(self) -> bool:
        return not (self.unproved or self.faults)

    def __str__(self) -> str:
        counts = f"{many(self.compactions, 'compaction')}, {entries_of(self.entries)}"
        if self.digests:
            counts += f", {many(self.digests, 'digest')} checked"
        result = CONSISTENT
        if not self.ok:
            result = many(len(self.unproved) + len(self.faults), "fault")
        if not self.requests:
            sentence = UNRECORDED if self.unrecorded else NO_REQUESTS
            requests = many(self.unrecorded, "request")
            return sentence.format(requests=requests, counts=counts, result=result)
        requests = many(self.requests, "request")
        if self.unproved:
            requests = f"{self.requests - len(self.unproved):,} of {requests}"
        if self.unrecorded:
            counts = (
                f"{many(self.unrecorded, 'earlier request')} not recorded, {counts}"
            )
        return PROVED.format(requests=requests, counts=counts, result=result)


def verify_session(source: SourceSession) -> Verdict:
    """Project the history again, and check every request's digest."""
    projection = source.project()
    damage = [str(source.damage)] if source.damage else []
    digests = source.digests or Digests(0)
    return Verdict(
        requests=len(recorded_requests(source.entries)),
        unrecorded=0
        if source.is_foldline or projection.meter.reports_view
        else _unrecorded(source.entries),
        compactions=len(projection.all_compactions),
        entries=len(source.entries),
        unproved=unproved(source.entries),
        faults=[
            *damage,
            *digests.faults,
            *dangling(projection),
            *broken(projection),
            *unannounced_tool_changes(source.entries),
        ],
        digests=digests.checked,
    )


def _unrecorded(entries: Iterable[Entry]) -> int:
    """Count the answers before the first recorded request.

    An older version of an agent may not record requests, and a newer version may have continued its file.
    """
    earlier = takewhile(lambda entry: not isinstance(entry, RequestRecord), entries)
    return sum(
        isinstance(entry, AssistantMessage) and bool(entry.parts) for entry in earlier
    )


# --- foldline audit ----------------------------------------------------------------------------------


def show_audit(source: str, as_json: bool, format_name: str | None) -> int:
    session = read_source(source, format_name)
    compactions = list(audit_session(session))
    if as_json:
        say_json({"compactions": [compaction.as_json() for compaction in compactions]})
        return 0
    if not compactions:
        say(NO_COMPACTION.format(name=session.name))
    for number, compaction in enumerate(compactions):
        if number:
            say()
        say_audit(compaction, session.header.cwd)
    return 0


NO_COMPACTION = "{name} has no active compaction, so nothing was removed from the view."
_NAMES: Final[dict[FactKind, str]] = {"todo": "open todo"}
"""Displayed names of fact kinds, if they differ from the kind."""
_MOST_ENTRIES = 3
"""Maximum number of entries listed per fact. Further entries are only counted."""


@dataclass(frozen=True, slots=True)
class AuditedCompaction:
    """An active compaction, with the facts that it lost."""

    entry: Compaction
    sizes: tuple[Size, Size]
    sizes_text: str
    """Sizes before and after, such as `116.2k → 27.4k tokens`."""
    entries: int
    """Number of entries removed from the view."""
    description: str
    """Description of the compaction's effect.

    This is `123 entries compacted` or, without a cut, a list of its changes.
    """
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


def audit_session(source: SourceSession) -> Iterator[AuditedCompaction]:
    """Yield the active compactions, oldest first, with the facts that each has lost."""
    now = source.project()
    projection = Projection()
    in_force = {entry.index for entry in now.compactions()}
    for next_place, entry in enumerate(source.entries, start=1):
        if not isinstance(entry, Compaction) or entry.index not in in_force:
            projection.append(entry)
            continue
        later = map(source.entries.__getitem__, range(next_place, len(source.entries)))
        before = [item.message for item in projection.view]
        projection.append(entry)
        after = [item.message for item in projection.view]
        yield AuditedCompaction(
            entry=entry,
            sizes=sizes_of(now, entry),
            sizes_text=sizes_words(now, entry, "tokens"),
            entries=compacted_count(projection, entry),
            description=describe_compaction(projection, entry),
            audit=audit(removed(before, after), [*after, *attached_again(later)]),
        )


def say_audit(compaction: AuditedCompaction, cwd: str) -> None:
    entry = compaction.entry
    lost = compaction.audit.lost
    counts = f"{len(lost)} of {compaction.audit.facts} facts lost"
    sizes = f"{compaction.sizes_text}, {compaction.description}"
    say_heading(f"{entry.index} {entry.reason} {sizes}, {counts}")
    if lost:
        columns = (Column("lost"), Column("fact", grows=True), Column("entries"))
        say_table(columns, [_lost_row(fact, cwd) for fact in lost])


def _lost_row(lost: Lost, cwd: str) -> list[Cell | str]:
    """Return a fact's table row. Its path is relative to `cwd`."""
    shown = ", ".join(map(str, lost.indices[:_MOST_ENTRIES]))
    more = len(lost.indices) - _MOST_ENTRIES
    return [
        Cell(_NAMES.get(lost.kind, lost.kind), "alert"),
        " ".join(lost.text.split()).removeprefix(f"{cwd.rstrip('/')}/"),
        Cell(f"{shown} +{more}" if more > 0 else shown, "muted"),
    ]
