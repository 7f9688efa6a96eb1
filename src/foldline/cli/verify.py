"""`foldline verify`: folds the history again and holds every request ever sent against it."""

from dataclasses import dataclass

from foldline.context.calls import unannounced_tool_changes
from foldline.context.invariants import broken, dangling
from foldline.context.numbers import many
from foldline.context.proof import Unproved, recorded_requests, unproved

from .output import say, say_heading, say_json
from .sources import Source, read_source


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of it."""

    requests: int
    folds: int
    entries: int
    unproved: list[Unproved]
    unsound: list[str]
    """What else does not hold: damage, references that lead nowhere, a view that breaks its rules."""

    @property
    def ok(self) -> bool:
        return not (self.unproved or self.unsound)

    def __str__(self) -> str:
        counted = f"{many(self.folds, 'fold')}, {many(self.entries, 'entry', 'entries')}"
        if not self.requests:
            sound = "" if self.ok else f": {many(len(self.unsound), 'fault')}"
            return f"no request is recorded, so there is none to prove, {counted}{sound or ': all is sound'}"
        proved = self.requests - len(self.unproved)
        if self.ok:
            return f"{many(proved, 'request')} proved, {counted}: all as recorded"
        faults = many(len(self.unproved) + len(self.unsound), "fault")
        return f"{proved:,} of {many(self.requests, 'request')} proved, {counted}: {faults}"


def run(source: str, as_json: bool, format_name: str | None) -> int:
    verdict = verify(read_source(source, format_name))
    if as_json:
        say_json(verdict_json(verdict))
    else:
        say_heading(str(verdict))
        for failure in (*verdict.unproved, *verdict.unsound):
            say(str(failure))
    return 0 if verdict.ok else 1


def verify(source: Source) -> Verdict:
    """Everything that can be checked from the file alone."""
    projection = source.project()
    damage = [str(source.damage)] if source.damage else []
    return Verdict(
        requests=len(recorded_requests(source.entries)),
        folds=len(projection.all_compactions),
        entries=len(source.entries),
        unproved=unproved(source.entries),
        unsound=[
            *damage,
            *dangling(projection),
            *broken(projection),
            *unannounced_tool_changes(source.entries),
        ],
    )


def verdict_json(verdict: Verdict) -> dict[str, object]:
    failures: list[dict[str, object]] = [
        {"request": failure.number, "entry": failure.index, "text": str(failure)}
        for failure in verdict.unproved
    ]
    failures += [{"request": None, "entry": None, "text": fault} for fault in verdict.unsound]
    return {
        "ok": verdict.ok,
        "requests": verdict.requests,
        "proved": verdict.requests - len(verdict.unproved),
        "folds": verdict.folds,
        "entries": verdict.entries,
        "failures": failures,
    }
