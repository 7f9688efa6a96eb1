"""ASCII replacements for marks, frames, meters and spinner, for terminals that cannot show them.

The characters are replaced in painted lines, after layout, because all of them are one cell wide. The
replacements are also needed in terminals that draw `┃ ▸ …` two cells wide, as East Asian terminals may.
"""

import unicodedata
from collections.abc import Mapping
from typing import Final, Literal

from rich.cells import split_graphemes
from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter

Charset = Literal["unicode", "marks", "ascii"]
"""Which characters are replaced with ASCII.

`unicode`: none; `marks`: only Foldline's own marks; `ascii`: all characters that are not ASCII.
"""

_MARKS: Final = {
    # gutter and frames; a heavy frame has `=`
    "┃╏┊┣┠┨": "|:.++|",
    "━─┄┆": "=--!",
    # meter, bars and timeline, from empty to full
    "·░▒▓█▐▌": "-.:%#[]",
    "▁▂▃▄▅▆▇": "_.:-=+*",
    # cursor, cut, expanded and collapsed, up and down
    "▶▷◆▸▾▼▲△❯●○": ">}@>vv^^>*o",
    "↑↓→←↳": "^v><\\",
    # Rich's and Textual's own
    "▎▏▔▕╸╺": "||-|--",
    # words and numbers
    "…✓✗×±≈−–—‖•▪◦⋮⏎⑂": "*vxx+~---=**o:/Y",
    "“”„«»‘’": '"""<>\'\'',
    # this spinner turns twice while the original turns once
    "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏": "|/-\\|/-\\|/",
    "�": "?",
}


def _of_boxes() -> dict[int, str]:
    """Return replacements for all box-drawing characters, by the direction of their lines."""
    table = {}
    for code in range(0x2500, 0x2580):
        name = unicodedata.name(chr(code))
        if " AND " in name or "DIAGONAL" in name or "ARC" in name:
            table[code] = "+"
        elif "HORIZONTAL" not in name:
            table[code] = "|"
        else:
            table[code] = "=" if "HEAVY" in name or "DOUBLE" in name else "-"
    return table


TABLE: Final = (
    _of_boxes()
    | dict.fromkeys(range(0x2580, 0x25A0), "#")
    | dict.fromkeys(range(0x2800, 0x2900), "*")
    | dict.fromkeys(range(0x2400, 0x2440), "?")
    | dict.fromkeys(range(0x25A0, 0x25FD), "*")
    | {
        ord(sign): mark
        for signs, marks in _MARKS.items()
        for sign, mark in zip(signs, marks, strict=True)
    }
)
"""The replacement for each code point."""


class AsciiFilter(LineFilter):
    """A line filter that replaces characters with ASCII characters.

    With `strictly`, unknown characters are replaced too, with one `?` per cell.
    """

    def __init__(self, *, strictly: bool) -> None:
        super().__init__()
        self._strictly = strictly

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """Replace the characters in the segments."""
        return [
            segment
            if segment.text.isascii()
            else Segment(self._shown(segment.text), *segment[1:])
            for segment in segments
        ]

    def _shown(self, text: str) -> str:
        text = text.translate(TABLE)
        if not self._strictly or text.isascii():
            return text
        pieces = (
            (text[start:stop], cells) for start, stop, cells in split_graphemes(text)[0]
        )
        return "".join(
            piece if piece.isascii() else "?" * cells for piece, cells in pieces
        )


def charset_for(environ: Mapping[str, str], chosen: str | None) -> Charset:
    """Return the character set for this terminal.

    `chosen` is the setting `ascii`. With `auto` or None, the result depends on the terminal. The font of the
    Linux console lacks Foldline's marks. If the locale's encoding is not UTF-8, the marks cannot be written
    at all.
    """
    if _names_other_encoding(environ):
        return "unicode" if chosen == "off" else "ascii"
    if chosen == "on":
        return "marks"
    if chosen != "off" and environ.get("TERM") == "linux":
        return "marks"
    return "unicode"


def _names_other_encoding(environ: Mapping[str, str]) -> bool:
    """Whether the locale specifies an encoding other than UTF-8.

    Neither the `C` locale nor an empty one specifies an encoding.
    """
    locale = next(
        (environ[name] for name in ("LC_ALL", "LC_CTYPE", "LANG") if environ.get(name)),
        "",
    )
    encoding = locale.partition(".")[2].partition("@")[0].lower().replace("-", "")
    return encoding not in ("", "utf8")
