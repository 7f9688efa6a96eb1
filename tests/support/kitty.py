"""The terminal's side of Kitty's pictures: what it was sent of them, and what the cells of a screen show."""

import base64
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from pyte.screens import Char

from foldline.context.harmless import PLACEHOLDER
from foldline.tui.blocks.pictures import _MARKS as MARKS

_COMMAND = re.compile(rb"\x1b_G([^;\x1b]*)(?:;([^\x1b]*))?\x1b\\")
Places = dict[int, tuple[int, int]]
"""Row and column of the first cell of each picture a screen shows, were that on the screen."""


class Kept(NamedTuple):
    """A picture the terminal keeps: PNG, and the columns and rows it is placed in."""

    png: bytes
    columns: int = 0
    rows: int = 0


@dataclass
class Pictures:
    """Kept by number, as a terminal does that follows the protocol and nothing else."""

    kept: dict[int, Kept] = field(default_factory=dict)
    transmitted: list[int] = field(default_factory=list)
    """The numbers that came, each time one came."""
    deleted: list[int] = field(default_factory=list)
    _begun: tuple[int, bytes] | None = None

    def take(self, written: bytes) -> "Pictures":
        for command in _COMMAND.finditer(written):
            keys = dict(pair.split("=") for pair in command[1].decode().split(","))
            assert keys.pop("q") == "2", "answers would be taken for keys"
            self._carry_out(keys, command[2] or b"")
        return self

    def _carry_out(self, keys: dict[str, str], data: bytes) -> None:
        assert len(data) <= 4_096
        number = int(keys.get("i", 0))
        match keys:
            case {"a": "t", "f": "100", "m": more} if self._begun is None:
                assert 0 < number < 1 << 24, "a colour holds no more"
                self.transmitted.append(number)
                self._more(number, data, more)
            case {"m": more} if self._begun is not None and keys.keys() == {"m"}:
                assert len(self._begun[1]) % 4 == 0
                self._more(self._begun[0], self._begun[1] + data, more)
            case {"a": "p", "U": "1", "p": "1", "c": columns, "r": rows} if self._begun is None:
                self.kept[number] = Kept(self.kept[number].png, int(columns), int(rows))
            case {"a": "d", "d": "I"} if self._begun is None:
                self.deleted.append(number)
                self.kept.pop(number, None)
            case _:
                raise AssertionError(f"not now, or not at all: {keys}")

    def _more(self, number: int, data: bytes, more: str) -> None:
        self._begun = (number, data) if more == "1" else None
        if more == "0":
            self.kept[number] = Kept(base64.b64decode(data, validate=True))

    def shown(self, cells: Iterator[tuple[int, int, Char]]) -> Places:
        """The pictures among these cells of a screen. Each cell has the colour of a picture that is there,
        marks of a row and a column it has, and stands where its neighbours say."""
        places: Places = {}
        for y, x, cell in cells:
            if PLACEHOLDER not in cell.data:
                continue
            number, (sign, row, column) = int(cell.fg, 16), tuple(cell.data)
            kept = self.kept[number]
            at = MARKS.index(row), MARKS.index(column)
            assert sign == PLACEHOLDER and at < (kept.rows, 0) and at[1] < kept.columns
            assert not (cell.reverse or cell.bold or cell.underscore)
            place = y - at[0], x - at[1]
            assert places.setdefault(number, place) == place
        return places
