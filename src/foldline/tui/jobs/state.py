"""What the Jobs screen shows. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class JobRow:
    """A job as it stands now."""

    number: int
    command: str
    ending: str = ""
    """How it ended, in a word or two; empty while it runs."""
    failed: bool = False
    since: str = ""
    """When it began, as a clock says it."""
    seconds: float = 0.0
    """How long it has run, or ran."""
    path: str = ""
    """The file with all it wrote, as people are told of it."""

    @property
    def runs(self) -> bool:
        return not self.ending


@dataclass(frozen=True, slots=True)
class JobsState:
    """The jobs, newest first, the mark among them, and the end of what the marked one wrote."""

    rows: tuple[JobRow, ...] = ()
    marked: int = 0
    """Its number."""
    tail: tuple[str, ...] = ()
    """Lines, the newest last."""
    tail_of: int = 0
    """The job that wrote them; 0 where nothing has been read yet."""
    confirming: bool = False
    """Whether ending it was asked for once."""

    @property
    def at(self) -> int:
        """The place of the mark."""
        return next((at for at, row in enumerate(self.rows) if row.number == self.marked), 0)

    @property
    def row(self) -> JobRow | None:
        """The marked one."""
        return self.rows[self.at] if self.rows else None

    def moved(self, step: int) -> "JobsState":
        if not self.rows:
            return self
        at = min(max(self.at + step, 0), len(self.rows) - 1)
        return replace(self, marked=self.rows[at].number, confirming=False)

    def refreshed(self, rows: Sequence[JobRow]) -> "JobsState":
        """The jobs as they are now. The mark stays with its job; without one, it is at the first."""
        fresh = replace(self, rows=tuple(rows))
        if fresh.row is not None and fresh.row.number != self.marked:
            fresh = replace(fresh, marked=fresh.row.number)
        ends = fresh.row is not None and fresh.row.runs
        return replace(fresh, confirming=self.confirming and ends)

    def read(self, number: int, lines: Sequence[str]) -> "JobsState":
        """The end of what a job has written by now."""
        return replace(self, tail=tuple(lines), tail_of=number)
