"""What was asked: every request of a history with its weight, as a timeline is drawn from it."""

from typing import NamedTuple


class Asked(NamedTuple):
    """One request to a model. Weights in tokens."""

    entry: int
    """Index of its record; in a history without records, of its answer."""
    position: int
    """Of that entry among all entries."""
    estimated: int
    """Calibrated by what was known before it left."""
    reported: int = 0
    """What its provider counted; 0 where that is not known."""

    @property
    def tokens(self) -> int:
        """The report where there is one, else the estimate."""
        return self.reported or self.estimated

    @property
    def is_estimated(self) -> bool:
        return not self.reported

    @property
    def error(self) -> float | None:
        """By how much of the report the estimate is off: -0.01 is one per cent too low. None without one."""
        return (self.estimated - self.reported) / self.reported if self.reported else None
