"""Cleans, measures and clips text for the model and for titles."""

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from foldline.memory.clip import Span, fits, gaps, joined, kept_spans
from foldline.sequences import same_start
from foldline.text.numbers import many

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
    """Replace NUL and lone surrogates, which JSON APIs reject."""
    return _UNSENDABLE.sub("�", text)


def decoded(content: bytes) -> str:
    """Decode a text file without its byte order mark.

    Invalid bytes become U+FFFD.
    """
    for bom, encoding in _BOMS:
        if content.startswith(bom):
            return content[len(bom) :].decode(encoding, "replace")
    return content.decode("utf-8", "replace")


def is_wide(content: bytes) -> bool:
    """Return whether content begins with a byte order mark of UTF-16 or UTF-32."""
    return any(
        content.startswith(bom) for bom, encoding in _BOMS if encoding != "utf-8"
    )


def is_binary(content: bytes) -> bool:
    """Return whether content is binary.

    As in git, content is binary if its first 8 kB contain a NUL.

    Text in UTF-16 or UTF-32 with a byte order mark is not binary.
    """
    return b"\x00" in content[:8192] and not is_wide(content)


def in_form_of(before: bytes, text: str) -> bytes:
    """Encode new text in the form of a file's old content.

    The encoding, byte order mark and line endings stay the same. If the old content is empty or binary, the
    text is encoded as UTF-8 with its own line endings.
    """
    if not before or not text or is_binary(before):
        return text.encode()
    bom, encoding = next(
        (pair for pair in _BOMS if before.startswith(pair[0])), (b"", "utf-8")
    )
    old = decoded(before).encode() if bom else before
    content = with_line_ends(text.removeprefix("\ufeff"), old, old)
    return bom + content.decode().encode(encoding) if bom else content


def with_line_ends(new: str, old: bytes, file: bytes) -> bytes:
    """Encode new text with the line endings of `old`, the part of a file that it replaces.

    Unchanged lines at the start and end keep their line endings. The other lines get the most frequent line
    ending of `old` or, if `old` has only one line, of the file.
    """
    if b"\n" not in file:
        return new.encode()
    most = old if b"\n" in old else file
    usual = b"\r\n" if most.count(b"\r\n") * 2 > most.count(b"\n") else b"\n"
    lines = new.replace("\r\n", "\n").encode().split(b"\n")
    before = old.split(b"\n")
    ends_before = [b"\r\n" if line.endswith(b"\r") else b"\n" for line in before[:-1]]
    before = [line.removesuffix(b"\r") for line in before[:-1]] + before[-1:]
    shorter = min(len(lines), len(before)) - 1
    start = min(same_start(lines, before), shorter)
    end = min(max(same_start(lines[::-1], before[::-1]) - 1, 0), shorter - start)
    others = [usual] * (len(lines) - 1 - start - end)
    ends = [*ends_before[:start], *others, *ends_before[len(ends_before) - end :], b""]
    return b"".join(line + line_end for line, line_end in zip(lines, ends, strict=True))


def printed(output: bytes) -> str:
    """Return a program's output as plain text.

    Terminal sequences are removed, and only the last state of each line is kept.
    """
    text = _ESCAPES.sub("", output.decode("utf-8", "replace")).replace("\r\n", "\n")
    if "\r" in text:
        text = "\n".join(
            line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n")
        )
    return sendable(text)


def line_count(text: str) -> int:
    """Count the lines in `text`, including a last line without a line ending."""
    count = text.count("\n")
    return count if not text or text.endswith("\n") else count + 1


def lines_from(text: str, first: int, limit: int | None) -> str:
    """Return `limit` lines, or all remaining ones, starting with line `first` (counted from 1)."""
    start = _line_start(text, 0, first - 1)
    if limit is None:
        return text[start:]
    return text[start : _line_start(text, start, limit)]


def _line_start(text: str, start: int, lines: int) -> int:
    """Return the offset that is `lines` lines after the offset `start`, or the end of the text."""
    for _ in range(lines):
        start = text.find("\n", start) + 1
        if not start:
            return len(text)
    return start


def line_span(offset: int | None, limit: int | None) -> str:
    """Format the requested lines for a title, for example `:5-14` or `:5-`.

    Returns an empty string for all lines.
    """
    if offset is None and limit is None:
        return ""
    first = offset or 1
    return f":{first}-" if limit is None else f":{first}-{first + limit - 1}"


PART_OF_LINE = (
    "[… {size} of line {line} left out. To see them: `bash` "
    "sed -n {line}p {path} | cut -c {first}-{last} …]"
)
LEFT_OUT = (
    "[… {lines} ({size}) left out, {first}–{last}{more}. To see them: {call} with offset {first} and limit "
    "{limit} …]"
)
EXCEPT_FAILURES = " except lines that report failures"
_POINTER_TOKENS = 80
"""Tokens reserved for the note on how to read the omitted part."""


@dataclass(frozen=True, slots=True)
class FullText:
    """The location of the full version of clipped text."""

    path: str
    """Path to pass to `read`."""
    first_line: int = 1
    """Number of the line in the file at which the text starts."""
    by: str = ""
    """The call that shows lines of the text.

    If empty, this is `read` with the path.
    """


def clipped(text: str, room: int, full: FullText) -> str:
    """Clip text to about `room` tokens, and add a note on how to read the omitted part.

    Text that fits is returned unchanged. Otherwise, the note is always added, even if it does not fit.
    """
    if fits(text, room):
        return text
    spans = kept_spans(text, room - _POINTER_TOKENS)
    marks = [_omitted_lines(text, gap, full) for gap in gaps(spans)]
    return joined(text, spans, [_pointer(text, spans, full), *marks[1:]])


def _pointer(text: str, spans: Sequence[Span], full: FullText) -> str:
    """Return the note on how to read everything between the first and the last span."""
    start = spans[0][1]
    end = spans[-1][0]
    size = many(sum(after - before for before, after in gaps(spans)), "character")
    first, last = _lines_of(text, (start, end), full)
    is_part = (start > 0 and text[start - 1] != "\n") or text[end - 1] != "\n"
    if first == last and is_part:
        begin = start - (text.rfind("\n", 0, start) + 1)
        return PART_OF_LINE.format(
            size=size,
            line=first,
            path=shlex.quote(full.path),
            first=begin + 1,
            last=begin + 4000,
        )
    lines = last - first + 1
    left_out = lines - sum(text.count("\n", *span) for span in spans[1:-1])
    return LEFT_OUT.format(
        lines=many(left_out, "line"),
        size=size,
        first=first,
        last=last,
        more="" if len(spans) == 2 else EXCEPT_FAILURES,
        call=full.by or f"`read` {full.path}",
        limit=lines,
    )


def _omitted_lines(text: str, gap: Span, full: FullText) -> str:
    first, last = _lines_of(text, gap, full)
    return f"[… {first}–{last} …]"


def _lines_of(text: str, span: Span, full: FullText) -> tuple[int, int]:
    """Return the numbers that a span's first and last lines have in the file."""
    start, end = span
    first = full.first_line + text.count("\n", 0, start)
    return first, first + text.count("\n", start, max(start, end - 1))


def with_notes(text: str, *notes: str) -> str:
    """Append the notes that are not empty, each on a separate line."""
    note_lines = "\n".join(filter(None, notes))
    if text and note_lines and not text.endswith("\n"):
        text += "\n"
    return text + note_lines
