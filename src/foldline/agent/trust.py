"""Folder trust: what a folder brings does nothing until the user has agreed to these very bytes of it.

That is the project's settings, instruction files, skills, commands, agents and hooks, up to the top of its
repository. Imports little: the theme may be among the settings, and is looked for before the first paint.
"""

import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Literal

from foldline.data import data_home, real_path
from foldline.files import is_file, is_ours, make_private, put_private, read_regular

from .discovery import HOOK_FILES, KINDS, candidates, hook_files, leads_out, up_to_top

PROJECT_FILE = ".foldline.toml"
INSTRUCTION_FILES = ("AGENTS.md", "CLAUDE.md")
"""Read in this order; one that says the same as an earlier one is left out."""
FOLDER = "trust"
_MOST_BYTES = 4_000_004
"""More than is used of any of these files."""

Word = Literal["agreed", "declined", "own", ""]
"""What the user said of a file; own: it lies in their home folder and needs no word; empty: nothing yet."""


@dataclass(frozen=True, slots=True)
class Brought:
    """A file that a folder brings, as it is now."""

    path: Path
    data: bytes
    digest: str
    word: Word

    @property
    def counts(self) -> bool:
        """Whether it is used."""
        return self.word in ("agreed", "own")


def read_brought(path: Path, top: Path | None, most: int) -> bytes | None:
    """The first `most` bytes of a file that people keep for their agents, and one more where it is longer.
    None where there is none, or the project below `top` brings it, and the user has not agreed to it.

    Raises:
        ValueError: it is left aside; why, as the end of a sentence.
    """
    try:
        data = read_regular(path, most + 1) if top is None else agreed_bytes(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        from foldline.protocol import system_words

        raise ValueError(system_words(error)) from None
    if top is not None and leads_out(path, top):
        raise ValueError("it is a link that leads out of the project")
    return data and data[: most + 1]


def agreed_bytes(path: Path) -> bytes | None:
    """The content of a file that a folder brings; None where the user has not agreed to it.

    Raises:
        OSError: it cannot be read.
    """
    found = _brought(path)
    return found.data if found.counts else None


def brought(cwd: Path) -> list[Brought]:
    """The files in effect in a folder, or that would be. What cannot be read, or is empty, is left out."""
    folders = up_to_top(cwd)
    settings = (folder / PROJECT_FILE for folder in folders if is_file(folder / PROJECT_FILE))
    instructions = [folder / name for folder in reversed(folders) for name in INSTRUCTION_FILES]
    lent = [(each.path, each.top) for kind in KINDS for each in candidates(kind, cwd)]
    others = (path for path, top in (*lent, *hook_files(cwd)) if top is not None)
    within = (path for path in (*instructions, *others) if is_file(path) and not leads_out(path, folders[-1]))
    found = []
    for path in [*islice(settings, 1), *within]:
        with suppress(OSError):
            found.append(_brought(path))
    return [each for each in found if _does_something(each)]


def _does_something(file: Brought) -> bool:
    """Other agents' settings do nothing here but for their hooks."""
    return b'"hooks"' in file.data if file.path.name in HOOK_FILES else bool(file.data.strip())


def decide(files: Iterable[Brought], word: Word) -> None:
    """Keep the user's word on these files as they are; on their earlier content it counts no longer. Empty,
    it takes back what was said of them.

    Raises:
        OSError: the disk refused.
    """
    import json

    for each in files:
        kept = _kept_at(each.path)
        if not word:
            kept.unlink(missing_ok=True)
            continue
        make_private(kept.parent)
        record = {"path": _place(each.path), "digest": each.digest, "word": word}
        put_private(kept, json.dumps(record).encode("utf-8", "surrogateescape"), durable=True)


def _brought(path: Path) -> Brought:
    data = read_regular(path, _MOST_BYTES)
    digest = _digest(data)
    home = real_path(Path(os.path.expanduser("~")))  # noqa: PTH111 - `Path.home` raises without one
    if real_path(path.parent) == home and not path.is_symlink():
        return Brought(path, data, digest, "own")
    return Brought(path, data, digest, _word(path, digest))


def _digest(data: bytes) -> str:
    import hashlib

    return hashlib.sha256(data).hexdigest()


def _place(path: Path) -> str:
    """Where a file lies, whatever a link there leads to."""
    return os.path.join(real_path(path.parent), path.name)  # noqa: PTH118 - any bytes


def _kept_at(path: Path) -> Path:
    """Where the word on a file is kept."""
    return data_home() / FOLDER / f"{_digest(os.fsencode(_place(path)))[:32]}.json"


def _word(path: Path, digest: str) -> Word:
    """Nothing where the record is missing, damaged, can be written by others, or is about other content."""
    import json

    kept = _kept_at(path)
    try:
        if not is_ours(kept.stat()):
            return ""
        record = json.loads(read_regular(kept, 100_000))
    except (OSError, ValueError, RecursionError):
        return ""
    if not isinstance(record, dict) or record.get("digest") != digest:
        return ""
    return "agreed" if record.get("word") == "agreed" else "declined"
