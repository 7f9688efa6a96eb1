"""The beginning of a Codex session that lies in another file: a fork, or a thread that was reverted.

Since 0.145 such a file holds only what came after. Its `history_base` names the file before it, by the id
that ends its name, and how far that one counts: in bytes, and by the ordinals of its records. Files only
grow, so that a chain of them is the whole history.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from foldline.files import read_regular
from foldline.protocol import system_words

from .base import JsonLine, JsonObject, as_object, as_text, json_lines

_ID = re.compile(r"[0-9A-Za-z][0-9A-Za-z_-]{3,127}")
_HOMES = ("sessions", "archived_sessions")
_LONGEST = 1_000
"""Files of one history."""


@dataclass
class Lineage:
    """The records before a file's own, oldest first; and what is to be said of them."""

    lines: list[JsonLine] = field(default_factory=list)
    """Without the headers, their positions counting on from file to file; the first is 1."""
    notes: list[str] = field(default_factory=list)


def lineage(header: JsonObject, path: Path) -> Lineage:
    """What came before the file with this header."""
    found = Lineage()
    pieces: list[list[JsonLine]] = []
    seen = {path}
    while base := as_object(header.get("history_base")):
        name = as_text(base.get("thread_id"))
        file = next(_files(name, path), None)
        if file is None or file in seen or len(seen) > _LONGEST:
            found.notes.append(_missing(name, path))
            break
        seen.add(file)
        try:
            data = read_regular(file)
        except OSError as error:
            found.notes.append(f"Its beginning, {file}, cannot be read: {system_words(error)}.")
            break
        end = base.get("end_byte_offset")
        if not _is_between_lines(data, end):
            found.notes.append(f"{file.name} is not what it was: it is read by the ordinals of its records.")
            end = len(data)
        lines, damage = json_lines(data[:end])
        lines = [line for line in lines if _counts(line, base.get("end_ordinal_exclusive"))]
        if damage:
            found.notes.append(f"{file.name}: {damage}.")
        header = next((as_object(line.record.get("payload")) for line in lines if _is_header(line)), {})
        pieces.append([line for line in lines if not _is_header(line)])
        path = file
        found.notes.append(f"The session begins in {file.name}.")
    for piece in reversed(pieces):
        found.lines += (JsonLine(len(found.lines) + nth, line.record) for nth, line in enumerate(piece, 1))
    return found


def _is_header(line: JsonLine) -> bool:
    return line.record.get("type") == "session_meta"


def _is_between_lines(data: bytes, end: object) -> bool:
    return isinstance(end, int) and 0 < end <= len(data) and data[end - 1 : end] == b"\n"


def _counts(line: JsonLine, end: object) -> bool:
    ordinal = line.record.get("ordinal")
    return not isinstance(end, int) or not isinstance(ordinal, int) or ordinal < end


def _files(name: str, path: Path) -> Iterator[Path]:
    """The files with this id in their names: beside the one that names it, then wherever Codex keeps any."""
    if not _ID.fullmatch(name):
        return
    pattern = f"*{name}.jsonl"
    yield from filter(Path.is_file, sorted(path.parent.glob(pattern)))
    home = next((folder.parent for folder in path.parents if folder.name in _HOMES), None)
    if home is not None:
        for kept in _HOMES:
            yield from filter(Path.is_file, sorted((home / kept).rglob(pattern)))


def _missing(name: str, path: Path) -> str:
    return (
        f"The beginning of the session is missing: it lies in the file whose name ends in {name}.jsonl, "
        f"which is neither beside {path.name} nor among Codex's sessions (one that ends in .zst: unpack it)."
    )
