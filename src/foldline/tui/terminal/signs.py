"""The ASCII set: what stands for our marks, frames, meters and spinner where a terminal cannot show them.

It is laid over the lines that are painted, after their widths are known: every sign is one cell, and so is
what stands for it. Terminals that draw `┃ ▸ …` two cells wide, as East Asian ones may, are such terminals.

"""

import unicodedata
from collections.abc import Mapping
from typing import Final, Literal

from rich.cells import split_graphemes
from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter

Charset = Literal["unicode", "marks", "ascii"]
"""All signs; foreign text as it is, and our own marks in ASCII; nothing but ASCII."""

_MARKS: Final = {
    # gutter and frames: a heavy frame keeps its `=`
    "┃╏┊┣┠┨": "|:.++|",
    "━─┄┆": "=--!",
    # meter, bars and timeline, from empty to full
    "·░▒▓█▐▌": "-.:%#[]",
    "▁▂▃▄▅▆▇": "_.:-=+*",
    # cursor, cut, opened and closed, up and down
    "▶▷◆▸▾▼▲△❯●○": ">}@>vv^^>*o",
    "↑↓→←↳": "^v><\\",
    # Rich's and Textual's own
    "▎▏▔▕╸╺": "||-|--",
    # words and numbers
    "…✓✗×±≈−–—‖•▪◦⋮⏎⑂": "*vxx+~---=**o:/Y",
    "“”„«»‘’": '"""<>\'\'',
    # the spinner turns twice while the other one turns once
    "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏": "|/-\\|/-\\|/",
    "�": "?",
}


def _of_boxes() -> dict[int, str]:
    """Any other sign to draw lines with, by the way its line goes."""
    table = {}
    for code in range(0x2500, 0x2580):
        name = unicodedata.name(chr(code))
        turns = " AND " in name or "DIAGONAL" in name or "ARC" in name
        across = "=" if "HEAVY" in name or "DOUBLE" in name else "-"
        table[code] = "+" if turns else across if "HORIZONTAL" in name else "|"
    return table


TABLE: Final = (
    _of_boxes()
    | dict.fromkeys(range(0x2580, 0x25A0), "#")
    | dict.fromkeys(range(0x2800, 0x2900), "*")
    | dict.fromkeys(range(0x2400, 0x2440), "?")
    | dict.fromkeys(range(0x25A0, 0x25FD), "*")
    | {ord(sign): mark for signs, marks in _MARKS.items() for sign, mark in zip(signs, marks, strict=True)}
)
"""From the code of a sign to what stands for it."""


class AsciiFilter(LineFilter):
    """Paints lines in the ASCII set; `strictly`, what it has no sign for becomes `?`, a cell each."""

    def __init__(self, *, strictly: bool) -> None:
        super().__init__()
        self._strictly = strictly

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """The segments in ASCII, cell by cell."""
        return [
            segment if segment.text.isascii() else Segment(self._shown(segment.text), *segment[1:])
            for segment in segments
        ]

    def _shown(self, text: str) -> str:
        text = text.translate(TABLE)
        if not self._strictly or text.isascii():
            return text
        pieces = ((text[start:stop], cells) for start, stop, cells in split_graphemes(text)[0])
        return "".join(piece if piece.isascii() else "?" * cells for piece, cells in pieces)


def charset_for(environ: Mapping[str, str], chosen: str | None) -> Charset:
    """What this terminal gets. `chosen` is the setting `ascii`: `on`, `off`, or `auto` and None, where the
    terminal decides: the console of Linux has no font for our marks, and a locale that names another
    encoding than UTF-8 has no way to send them.
    """
    if _names_other_encoding(environ):
        return "unicode" if chosen == "off" else "ascii"
    if chosen == "on":
        return "marks"
    return "marks" if chosen != "off" and environ.get("TERM") == "linux" else "unicode"


def _names_other_encoding(environ: Mapping[str, str]) -> bool:
    """Whether the locale is of another encoding. `C`, or none at all, says nothing: containers have that."""
    locale = next((environ[name] for name in ("LC_ALL", "LC_CTYPE", "LANG") if environ.get(name)), "")
    encoding = locale.partition(".")[2].partition("@")[0].lower().replace("-", "")
    return encoding not in ("", "utf8")
