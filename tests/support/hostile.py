"""Text that would act on a terminal or an interface, if anybody let it (DESIGN §5, invariant 13)."""

from collections.abc import Mapping
from pathlib import Path

SEQUENCES: Mapping[str, str] = {
    "clipboard": "\x1b]52;c;UFdORUQ=\x07",
    "link": "\x1b]8;;http://pwned.example/\x1b\\here\x1b]8;;\x1b\\",
    "title": "\x1b]0;PWNED\x07\x1b]2;PWNED\x1b\\",
    "cursor": "\x1b[131;37H\x1b[99A\x1b[s\x1b[u",
    "alternate screen": "\x1b[?1049l\x1b[?47h",
    "erase": "\x1b[2J\x1b[3J",
    "reset": "\x1bc\x1b[!p",
    "queries": "\x1b[6n\x1b[>c\x1bP$qm\x1b\\",
    "modes": "\x1b[?1003l\x1b[?2004l\x1b[20h",
    "eight-bit controls": "\x9b131;37H\x9d52;c;UFdORUQ=\x9c\x90q\x9c",
    "overwriting": "safe\b\b\b\b\rPWNED\x7f",
    "bidi": "\u202egpj.exe\u202c \u2066x\u2069 \u200f",
    "zero width": "rm\u200b -\u2060rf\ufeff",
    "tags": "\U000e0041\U000e0042\U000e007f",
    "line ends": "one\u2028two\u2029three\x85four\x0bfive\x0csix",
}
MARKUP = "[bold red]PWNED[/] [@click=app.quit]PWNED[/] [link=http://pwned.example]PWNED[/link] [/] [$accent]"
"""What Textual and Rich would take for orders; shown, it is text like any other."""
HOSTILE = " ".join([*SEQUENCES.values(), MARKUP])

_ACTING = (
    *(b"\x1b]52;", b"\x1b]8;;", b"\x1b]0;PWNED", b"\x1b]2;PWNED"),
    *(b"\x1b[131;37H", b"\x1b[99A", b"\x1b[?47h", b"\x1b[2J", b"\x1b[3J", b"\x1bc", b"\x1b[!p"),
    *(b"\x1b[6n", b"\x1b[>c", b"\x1bP", b"\x1b[20h", b"\x08", b"\x7f", b"\x0b", b"\x0c"),
    *(
        char.encode()
        for char in "\x85\x90\x9b\x9c\x9d\u200b\u200f\u2028\u2029\u202c\u202e\u2060\u2066\u2069\ufeff"
    ),
    *(char.encode() for char in "\U000e0041\U000e0042\U000e007f"),
)


def acting(written: bytes | str) -> list[bytes]:
    """What of it reached the terminal: empty where all of it stayed text."""
    raw = written.encode("utf-8", "surrogatepass") if isinstance(written, str) else written
    return [sign for sign in _ACTING if sign in raw]


def hostile_file(folder: Path) -> Path:
    """A file whose name and content are hostile, as far as the system takes such names."""
    path = folder / f"evil{SEQUENCES['title']}{SEQUENCES['bidi']}.txt"
    path.write_text(HOSTILE + "\n", "utf-8")
    return path
