"""Cleans text for the model and for titles of what JSON, terminals and readers cannot handle."""

import re
import shlex
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from foldline.context.clip import Span, fits, gaps, joined, kept_spans
from foldline.context.numbers import many
from foldline.sequences import same_start

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


def in_form_of(before: bytes, text: str) -> bytes:
    """A text as all that a file holds: in the encoding, with the byte order mark and the line ends it had.

    A file that is new, binary or emptied holds the text as it is.
    """
    if not before or not text or is_binary(before):
        return text.encode()
    bom, encoding = next((each for each in _BOMS if before.startswith(each[0])), (b"", "utf-8"))
    old = before[len(bom) :] if encoding == "utf-8" else decoded(before).encode()
    content = with_line_ends(text.removeprefix("\ufeff"), old, old)
    return bom + (content if encoding == "utf-8" else content.decode().encode(encoding))


def with_line_ends(new: str, old: bytes, file: bytes) -> bytes:
    """New text with the line ends of the piece of a file that it replaces.

    Lines that the piece begins or ends with, too, keep theirs; the others get those of most of its lines, or
    of the file's, if it has none.
    """
    if b"\n" not in file:
        return new.encode()
    most = old if b"\n" in old else file
    usual = b"\r\n" if most.count(b"\r\n") * 2 > most.count(b"\n") else b"\n"
    lines, before = new.replace("\r\n", "\n").encode().split(b"\n"), old.split(b"\n")
    ends_before = [b"\r\n" if line.endswith(b"\r") else b"\n" for line in before[:-1]]
    before = [line.removesuffix(b"\r") for line in before[:-1]] + before[-1:]
    shorter = min(len(lines), len(before)) - 1
    start = min(same_start(lines, before), shorter)
    end = min(max(same_start(lines[::-1], before[::-1]) - 1, 0), shorter - start)
    others = [usual] * (len(lines) - 1 - start - end)
    ends = [*ends_before[:start], *others, *ends_before[len(ends_before) - end :], b""]
    return b"".join(line + line_end for line, line_end in zip(lines, ends, strict=True))


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
    """`limit` lines, or all, from line `first` on from 1; their line ends as they are."""
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


def line_span(offset: int | None, limit: int | None) -> str:
    """Which lines a call asks for, as its title says it: `:5-14`, `:5-`; nothing for all."""
    if offset is None and limit is None:
        return ""
    first = offset or 1
    return f":{first}-" if limit is None else f":{first}-{first + limit - 1}"


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


_POINTER_TOKENS = 80
"""Room for the line that says how to see what is left out."""


@dataclass(frozen=True, slots=True)
class FullText:
    """Where the whole of a clipped text can be read."""

    path: str
    """As `read` takes it."""
    first_line: int = 1
    """The line of that file at which the text starts."""
    by: str = ""
    """The call that shows lines of it, where that is not `read` with the path."""


def clipped(text: str, room: int, whole: FullText) -> str:
    """Clip a text to about `room` tokens, and say how to see the rest.

    A text that fits is returned as it is. However small the room, the pointer to the whole is always there.
    """
    if fits(text, room):
        return text
    spans = kept_spans(text, room - _POINTER_TOKENS)
    marks = [_lines_left_out(text, gap, whole) for gap in gaps(spans)]
    return joined(text, spans, [_pointer(text, spans, whole), *marks[1:]])


def _pointer(text: str, spans: Sequence[Span], whole: FullText) -> str:
    """How to see all that is left out between the first span and the last."""
    start, end = spans[0][1], spans[-1][0]
    size = many(sum(after - before for before, after in gaps(spans)), "character")
    first, last = _lines_of(text, (start, end), whole)
    in_line = (start > 0 and text[start - 1] != "\n") or text[end - 1] != "\n"
    if first == last and in_line:
        begin = start - (text.rfind("\n", 0, start) + 1)
        return (
            f"[… {size} of line {first} left out. To see them: `bash` "
            f"sed -n {first}p {shlex.quote(whole.path)} | cut -c {begin + 1}-{begin + 4000} …]"
        )
    lines = last - first + 1
    left_out = lines - sum(text.count("\n", *span) for span in spans[1:-1])
    more = "" if len(spans) == 2 else " but for what reports failures"
    return (
        f"[… {many(left_out, 'line')} ({size}) left out, {first}–{last}{more}. "
        f"To see them: {whole.by or f'`read` {whole.path}'} with offset {first} and limit {lines} …]"
    )


def _lines_left_out(text: str, gap: Span, whole: FullText) -> str:
    first, last = _lines_of(text, gap, whole)
    return f"[… {first}–{last} …]"


def _lines_of(text: str, span: Span, whole: FullText) -> tuple[int, int]:
    """The first and last line of a piece of the text, as its file counts them."""
    start, end = span
    first = whole.first_line + text.count("\n", 0, start)
    return first, first + text.count("\n", start, max(start, end - 1))


def with_notes(text: str, *notes: str) -> str:
    """The text, then each note that is not empty on a line of its own."""
    joined = "\n".join(filter(None, notes))
    if not text or not joined:
        return text or joined
    return text + ("" if text.endswith("\n") else "\n") + joined
