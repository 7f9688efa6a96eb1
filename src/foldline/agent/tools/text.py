"""Text on its way to the model and to titles: free of what JSON, terminals and readers stumble over."""

import re
import unicodedata

_UNSENDABLE = re.compile("[\x00\ud800-\udfff]")
_ESCAPES = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor
    r"|\][^\x07\x1b]*(?:\x07|\x1b\\)?"  # OSC: titles, links
    r"|[PX^_][^\x1b]*(?:\x1b\\)?"  # device strings
    r"|[ -/]*[0-~])"
)
_BOMS = (
    (b"\xef\xbb\xbf", "utf-8"),
    (b"\xff\xfe\x00\x00", "utf-32-le"),
    (b"\x00\x00\xfe\xff", "utf-32-be"),
    (b"\xff\xfe", "utf-16-le"),
    (b"\xfe\xff", "utf-16-be"),
)


def sendable(text: str) -> str:
    """The text without NUL and lone surrogates, which no JSON API takes."""
    return _UNSENDABLE.sub("�", text)


def one_line(text: str) -> str:
    """The whole text on one line: line ends as `⏎`, other control and direction characters as escapes.

    Two texts that differ in a line end never give the same line: approvals compare these lines.
    """
    out = []
    for char in text.strip().replace("\r\n", "\n"):
        if char == "\n":
            out.append(" ⏎ ")
        elif char == "\t":
            out.append(" ")
        elif char == "⏎" or unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp"):
            out.append(f"\\u{ord(char):04x}")
        else:
            out.append(char)
    return "".join(out)


def decoded(content: bytes) -> str:
    """Bytes of a text file as text, without its byte order mark; what is not UTF-8 becomes U+FFFD."""
    for bom, encoding in _BOMS:
        if content.startswith(bom):
            return content[len(bom) :].decode(encoding, "replace")
    return content.decode("utf-8", "replace")


def is_wide(content: bytes) -> bool:
    """Whether this is text in UTF-16 or UTF-32, by its mark."""
    return any(content.startswith(bom) for bom, encoding in _BOMS if encoding != "utf-8")


def is_binary(content: bytes) -> bool:
    """Whether this is no text: a NUL in the first 8 kB (git's rule) and no UTF-16 or UTF-32 mark."""
    return b"\x00" in content[:8192] and not is_wide(content)


def printed(output: bytes) -> str:
    """What a program's output shows: without terminal sequences, of overwritten lines only the last state."""
    text = _ESCAPES.sub("", output.decode("utf-8", "replace")).replace("\r\n", "\n")
    if "\r" in text:
        text = "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))
    return sendable(text)


def line_count(text: str) -> int:
    """Lines as an editor counts them: a last line without a line end counts, an empty text has none."""
    return text.count("\n") + (0 if not text or text.endswith("\n") else 1)


def lines_from(text: str, first: int, limit: int | None) -> str:
    """`limit` lines, or all, from line `first` on, counted from 1; their line ends as they are."""
    if first == 1 and limit is None:
        return text
    start = _line_start(text, 0, first - 1)
    return text[start:] if limit is None else text[start : _line_start(text, start, limit)]


def _line_start(text: str, start: int, lines: int) -> int:
    """Where the line begins that is this many lines after `start`; the end where there are fewer."""
    for _ in range(lines):
        start = text.find("\n", start) + 1
        if not start:
            return len(text)
    return start


def counted(number: int, noun: str, plural: str = "") -> str:
    """`1 line`, `312 lines`."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


def sized(size: int) -> str:
    """A size in bytes for people: `812 B`, `4.1 kB`."""
    if size < 1000:
        return f"{size} B"
    value = float(size)
    for unit in ("kB", "MB", "GB"):
        value /= 1000
        if value < 999.95:
            return f"{value:.1f} {unit}"
    return f"{value / 1000:.1f} TB"
