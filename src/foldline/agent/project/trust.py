"""Folder trust: files of a folder are used only after the user has agreed to their exact bytes.

The files are the project's settings, instruction files, skills, commands, agents and hooks, up to the top of
its repository. Imports only a few modules, because the settings may name the theme that the first paint
needs.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from foldline.data import data_home, real_path
from foldline.files import is_file, is_ours, make_private, put_private, read_regular

from .discovery import HOOK_FILES, KINDS, candidates, hook_files, leads_out, up_to_top

PROJECT_FILE = ".foldline.toml"
INSTRUCTION_FILES = ("AGENTS.md", "CLAUDE.md")
"""Names of instruction files, read in this order.

A file with the same text as an earlier one is skipped.
"""
LEADS_OUT = "it is a link that leads out of the project"
FOLDER = "trust"
_MOST_BYTES = 4_000_004
"""Maximum number of bytes read from a file.

It exceeds the size limit of every kind of file.
"""

Word = Literal["agreed", "declined", "own", ""]
"""The user's decision on a file.

`own` means that the file needs no decision, because it is directly in the home folder. Empty means undecided.
"""


@dataclass(frozen=True, slots=True)
class FolderFile:
    """A file that comes with a folder, and the user's decision on it."""

    path: Path
    data: bytes
    digest: str
    word: Word

    @property
    def is_trusted(self) -> bool:
        """Whether the file may be used."""
        return self.word in ("agreed", "own")


def read_trusted(path: Path, top: Path | None, most: int) -> bytes | None:
    """Read a configuration file of the user or the project.

    Args:
        top: top folder of the project; None for the user's own file.
        most: size limit in bytes. If the file is larger, one extra byte is returned.

    Returns:
        None if there is no file, or if the user has not agreed to it.

    Raises:
        ValueError: the file cannot be used. The message is a clause that states the reason.
    """
    try:
        data = read_regular(path, most + 1) if top is None else agreed_bytes(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        from foldline.protocol import system_words

        raise ValueError(system_words(error)) from None
    if top is not None and leads_out(path, top):
        raise ValueError(LEADS_OUT)
    return data and data[: most + 1]


def agreed_bytes(path: Path) -> bytes | None:
    """Return the content of a file if the user has agreed to it.

    Raises:
        OSError: the file cannot be read.
    """
    file = _brought(path)
    return file.data if file.is_trusted else None


def folder_files(cwd: Path) -> list[FolderFile]:
    """Return a folder's files that could have an effect.

    Files that are unreadable, empty, or outside the project are left out.
    """
    files = []
    for path in _paths(cwd):
        with suppress(OSError):
            file = _brought(path)
            if _has_effect(file):
                files.append(file)
    return files


def project_file(cwd: Path) -> Path | None:
    """Return the nearest `.foldline.toml` in the repository.

    Outside a repository, only the one in `cwd` is considered.
    """
    files = (folder / PROJECT_FILE for folder in up_to_top(cwd))
    return next(filter(is_file, files), None)


def _paths(cwd: Path) -> Iterator[Path]:
    folders = up_to_top(cwd)
    nearest = project_file(cwd)
    if nearest is not None:
        yield nearest
    paths = [
        folder / name for folder in reversed(folders) for name in INSTRUCTION_FILES
    ]
    for kind in KINDS:
        paths += [
            candidate.path
            for candidate in candidates(kind, cwd)
            if candidate.top is not None
        ]
    paths += [path for path, top in hook_files(cwd) if top is not None]
    for path in paths:
        if is_file(path) and not leads_out(path, folders[-1]):
            yield path


def _has_effect(file: FolderFile) -> bool:
    """Return whether a file could have an effect.

    Settings files of other agent programs have an effect only if they contain hooks.
    """
    if file.path.name in HOOK_FILES:
        return b'"hooks"' in file.data
    return bool(file.data.strip())


def decide(files: Iterable[FolderFile], word: Word) -> None:
    """Save the user's decision on the current content of files.

    An empty decision removes the saved one.

    Raises:
        OSError: the write to disk failed.
    """
    import json

    for file in files:
        record_path = _record_path(file.path)
        if not word:
            record_path.unlink(missing_ok=True)
            continue
        make_private(record_path.parent)
        record = {"path": _location(file.path), "digest": file.digest, "word": word}
        data = json.dumps(record).encode("utf-8", "surrogateescape")
        put_private(record_path, data, durable=True)


def _brought(path: Path) -> FolderFile:
    data = read_regular(path, _MOST_BYTES)
    digest = _digest(data)
    home = real_path(Path(os.path.expanduser("~")))  # noqa: PTH111 - `Path.home` raises without one
    if real_path(path.parent) == home and not path.is_symlink():
        return FolderFile(path, data, digest, "own")
    return FolderFile(path, data, digest, _word(path, digest))


def _digest(data: bytes) -> str:
    import hashlib

    return hashlib.sha256(data).hexdigest()


def _location(path: Path) -> str:
    """Return the absolute path of a file.

    If the file itself is a link, that link is not resolved.
    """
    return os.path.join(real_path(path.parent), path.name)  # noqa: PTH118 - any bytes


def _record_path(path: Path) -> Path:
    """Return the path of the file that records a decision."""
    digest = _digest(os.fsencode(_location(path)))
    return data_home() / FOLDER / f"{digest[:32]}.json"


def _word(path: Path, digest: str) -> Word:
    """Return the recorded decision on this content.

    Returns an empty string if the record is missing, damaged, writable by other users, or about different
    content.
    """
    from foldline.json_text import parse_json

    record_path = _record_path(path)
    try:
        if not is_ours(record_path.stat()):
            return ""
        record = parse_json(read_regular(record_path, 100_000))
    except (OSError, ValueError):
        return ""
    if not isinstance(record, dict) or record.get("digest") != digest:
        return ""
    return "agreed" if record.get("word") == "agreed" else "declined"
