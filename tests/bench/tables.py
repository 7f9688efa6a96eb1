"""What the benchmarks found, as tables: printed once, after all of them, where nothing scrolls them away."""

from dataclasses import dataclass, field

from rich.cells import cell_len


@dataclass
class Table:
    """Rows under a title. The first column stands left, numbers right."""

    title: str
    columns: tuple[str, ...]
    rows: list[tuple[str, ...]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def row(self, *cells: object) -> None:
        assert len(cells) == len(self.columns), cells
        self.rows.append(tuple(map(str, cells)))

    def note(self, sentence: str) -> None:
        """A line below the table: what a column means, or why a row is missing."""
        if sentence not in self.notes:
            self.notes.append(sentence)

    def lines(self) -> list[str]:
        grid = [self.columns, *self.rows]
        widths = [max(cell_len(row[at]) for row in grid) for at in range(len(self.columns))]
        return [
            self.title,
            *(self._line(row, widths) for row in grid if self.rows),
            *(f"  {note}" for note in self.notes),
        ]

    @staticmethod
    def _line(row: tuple[str, ...], widths: list[int]) -> str:
        cells = [
            cell + " " * (width - cell_len(cell)) if at == 0 else " " * (width - cell_len(cell)) + cell
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        return ("  " + "   ".join(cells)).rstrip()


TABLES: dict[str, Table] = {}
"""Those of this run, by title, in the order they were begun."""


def table(title: str, *columns: str) -> Table:
    """The table of this title, begun where there is none yet."""
    return TABLES.setdefault(title, Table(title, columns))


def add(finished: Table) -> Table:
    """A table that was filled elsewhere, to be printed with the others."""
    return TABLES.setdefault(finished.title, finished)
