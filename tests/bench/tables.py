"""Result tables of the benchmarks, printed together at the end of a run."""

from dataclasses import dataclass, field

from rich.cells import cell_len


@dataclass
class Table:
    """A titled table: the first column is left-aligned, numbers right-aligned."""

    title: str
    columns: tuple[str, ...]
    rows: list[tuple[str, ...]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def row(self, *cells: object) -> None:
        assert len(cells) == len(self.columns), cells
        self.rows.append(tuple(map(str, cells)))

    def note(self, sentence: str) -> None:
        """Add a line below the table: the meaning of a column, or the reason for a missing row."""
        if sentence not in self.notes:
            self.notes.append(sentence)

    def lines(self) -> list[str]:
        grid = [self.columns, *self.rows]
        widths = [
            max(cell_len(row[at]) for row in grid) for at in range(len(self.columns))
        ]
        return [
            self.title,
            *(self._line(row, widths) for row in grid if self.rows),
            *(f"  {note}" for note in self.notes),
        ]

    @staticmethod
    def _line(row: tuple[str, ...], widths: list[int]) -> str:
        cells = [
            cell + " " * (width - cell_len(cell))
            if at == 0
            else " " * (width - cell_len(cell)) + cell
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        return ("  " + "   ".join(cells)).rstrip()


TABLES: dict[str, Table] = {}
"""Tables of this run by title, in order of creation."""


def table(title: str, *columns: str) -> Table:
    """Return the table of this title; create it on first use."""
    return TABLES.setdefault(title, Table(title, columns))


def add(finished: Table) -> Table:
    """Register a table that was filled elsewhere."""
    return TABLES.setdefault(finished.title, finished)
