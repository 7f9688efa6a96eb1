"""Reads and writes a Foldline session as a single zip file, `NAME.foldline`."""

import json
import os
import re
import stat
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path, PurePath
from typing import Final

from foldline.files import make_private, read_regular, write_new
from foldline.history import CONTENTS, EVENTS, parse_log
from foldline.history.children import CHILDREN
from foldline.history.contents import OUTPUTS, content_id
from foldline.protocol import (
    Checkpoint,
    Entry,
    FoldlineError,
    ToolDetails,
    ToolResultMessage,
    dump_entry,
)
from foldline.sequences import grouped
from foldline.text.numbers import many, some
from foldline.version import __version__

from .base import ForeignSession, JsonObject, marked_child, parse_object
from .export import Exported, Original
from .parts import counted_notes
from .redaction import side_files

NAME: Final = "foldline-session"
VERSION: Final = 1
MANIFEST: Final = "manifest.json"
BUNDLED: Final = "foldline file"
"""The format name of a session that was read from a `.foldline` file."""

MOST_BYTES: Final = 8 * 1024**3
"""Maximum total size of all members, unpacked, in bytes.

A file that exceeds a limit is rejected.
"""
MOST_HISTORY: Final = 512 * 1024**2
"""Maximum size of an unpacked history, in bytes."""
MOST_SIDE_FILE: Final = 64 * 1024**2
"""Maximum size of any other unpacked member, in bytes.

Foldline itself stores at most 32 MiB in one.
"""
MOST_MEMBERS: Final = 200_000
"""Maximum number of members of a zip file."""
MOST_RATIO: Final = 300
"""Maximum compression ratio of a file that unpacks to more than `_ALWAYS_FINE` bytes.

Sessions have ratios of 5 to 30; a zip bomb has about 1,000.
"""
_ALWAYS_FINE: Final = 64 * 1024**2
_MANIFEST_BYTES: Final = 16 * 1024**2

DAMAGED: Final = "{path} is incomplete or damaged. Export the session again."
OTHER_ZIP: Final = "{path} is a zip file, but not one that `foldline export` wrote."
NOT_READ: Final = "{path} was not read: it {problem}."
NEWER: Final = "was written by a newer Foldline (file version {version}, newest known version {known})"
_REDACTED: Final = (
    "Credentials in this file were redacted when it was exported: see its manifest."
)
_LEFT_OUT: Final = (
    "{files} were left out of this file when it was exported: see its manifest."
)
_IGNORED: Final = "{files} in it do not belong to a session and were ignored."
_TOO_LARGE: Final = (
    "{name} is larger than {most} MB: `foldline import` will not read this file."
)

_CHILD: Final = re.compile(rf"(?:{CHILDREN}/[0-9A-Za-z][0-9A-Za-z_-]{{0,99}}/){{1,8}}")
"""Matches the folder of a subagent's session."""
_SIDE_FILE: Final = re.compile(
    r"contents/[0-9a-f]{64}|outputs/(?!\.{1,2}$)[^/\\\x00-\x1f\x7f:\ud800-\udfff]{1,200}"
)
_LONGEST_NAME: Final = 250
"""Maximum length of a file name, in bytes; longer names are invalid.

File systems accept 255 bytes.
"""
_METHODS: Final = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_ENCRYPTED: Final = 0x1
_BROKEN: Final = (
    zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, ValueError, RuntimeError,
)  # fmt: skip
"""Exceptions that `zipfile` raises for a damaged archive."""


def is_member(name: str) -> bool:
    """Return whether a name is valid for a side file."""
    own = _own_name(name)
    return (
        _SIDE_FILE.fullmatch(own) is not None and len(os.fsencode(own)) <= _LONGEST_NAME
    )


def _own_name(name: str) -> str:
    """Return a member's name relative to its session's folder."""
    child = _CHILD.match(name)
    return name[child.end() :] if child else name


@dataclass(frozen=True, slots=True)
class Bundle:
    """An opened session file.

    Names and sizes have been checked. Side files are read only on request.
    """

    path: Path
    events: bytes
    archive: zipfile.ZipFile
    members: tuple[zipfile.ZipInfo, ...]
    notes: tuple[str, ...]
    histories: dict[str, bytes]
    """Histories of subagents by folder, such as `children/ID/`."""

    def side_files(self) -> Iterator[tuple[str, bytes | None]]:
        """Yield each side file's name and content.

        The content is None if the file is damaged.
        """
        for member in self.members:
            data = _content(self.archive, member)
            own = _own_name(member.filename)
            if data is not None and own.startswith("contents/"):
                data = (
                    data if content_id(data) == own.removeprefix("contents/") else None
                )
            yield member.filename, data


def read_bundle(data: bytes, path: Path) -> Bundle:
    """Open a session file.

    Raises:
        FoldlineError: the file has another format, is damaged, was written by a newer Foldline, or would
            unpack to more than the allowed size.
    """
    try:
        archive = zipfile.ZipFile(BytesIO(data))
        infos = archive.infolist()
    except _BROKEN:
        raise FoldlineError(DAMAGED, path=path) from None
    by_name = {info.filename: info for info in infos}
    if MANIFEST not in by_name or EVENTS not in by_name:
        raise FoldlineError(OTHER_ZIP, path=path)
    sides = tuple(info for info in infos if is_member(info.filename))
    histories = [
        info
        for info in infos
        if info.filename != EVENTS and _own_name(info.filename) == EVENTS
    ]
    main = [info for info in infos if info.filename in (MANIFEST, EVENTS)]
    members = [*main, *sides, *histories]
    problem = _problem_of_members(members) or _problem_of_sizes(members, len(data))
    if problem:
        raise FoldlineError(NOT_READ, path=path, problem=problem)
    manifest = _manifest(archive, by_name[MANIFEST], path)
    events = _content(archive, by_name[EVENTS])
    if events is None:
        raise FoldlineError(DAMAGED, path=path)
    notes = _notes_on(manifest, ignored=len(infos) - len(members))
    children = {
        info.filename.removesuffix(EVENTS): _content(archive, info) or b""
        for info in histories
    }
    return Bundle(
        path,
        events,
        archive,
        sides,
        notes,
        children,
    )


def read_bundled(data: bytes, path: Path) -> ForeignSession:
    bundle = read_bundle(data, path)
    session = _read_history(bundle, "", bundle.events)
    return replace(session, notes=(*bundle.notes, *session.notes))


def _read_history(bundle: Bundle, folder: str, events: bytes) -> ForeignSession:
    """Read the session in this folder of the zip file, including its subagents."""
    loaded = parse_log(events, bundle.path)
    notes = (f"{loaded.damage}.",) if loaded.damage else ()
    children = []
    for child, history in bundle.histories.items():
        name = child.removeprefix(f"{folder}{CHILDREN}/").removesuffix("/")
        if f"{folder}{CHILDREN}/{name}/" == child and "/" not in name:
            session = _read_history(bundle, child, history)
            children.append(marked_child(session, name, loaded.entries))
    return ForeignSession(
        BUNDLED,
        loaded.header,
        loaded.entries,
        loaded.damage,
        notes,
        children=tuple(children),
    )


def _problem_of_members(infos: list[zipfile.ZipInfo]) -> str:
    [(most_often, times)] = Counter(info.filename for info in infos).most_common(1)
    if times > 1:
        return f"contains {most_often} more than once"
    if any(info.flag_bits & _ENCRYPTED for info in infos):
        return "is encrypted, but session files never are"
    if any(
        info.compress_type not in _METHODS or stat.S_ISLNK(info.external_attr >> 16)
        for info in infos
    ):
        return "contains links, or is compressed in a way that session files never are"
    if len(infos) > MOST_MEMBERS:
        return f"contains {len(infos):,} files; the maximum is {MOST_MEMBERS:,}"
    return ""


def _problem_of_sizes(infos: list[zipfile.ZipInfo], packed: int) -> str:
    """Return an error message if the sizes are suspicious, otherwise an empty string.

    `packed` is the size of the whole file, in bytes.
    """
    unpacked = sum(info.file_size for info in infos)
    if unpacked > MOST_BYTES:
        return f"would unpack to {unpacked / 1024**3:,.0f} GB; the maximum is {MOST_BYTES // 1024**3} GB"
    for info in infos:
        most = most_bytes(info.filename)
        if info.file_size > most:
            size = round(info.file_size / 1024**2)
            limit = round(most / 1024**2)
            return f"contains {info.filename} with {size:,} MB unpacked; the maximum is {limit} MB"
    if unpacked > _ALWAYS_FINE and unpacked > MOST_RATIO * packed:
        return f"would unpack to {unpacked // max(packed, 1):,} times its size; no session does"
    return ""


def most_bytes(name: str) -> int:
    """Return the maximum size of a member, unpacked, in bytes."""
    return {EVENTS: MOST_HISTORY, MANIFEST: _MANIFEST_BYTES}.get(
        _own_name(name), MOST_SIDE_FILE
    )


def _manifest(
    archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: Path
) -> JsonObject:
    manifest = parse_object(_content(archive, info) or b"") or JsonObject()
    version = manifest.count("version")
    if manifest.get("format") != NAME or not version:
        raise FoldlineError(OTHER_ZIP, path=path)
    if version > VERSION:
        problem = NEWER.format(version=manifest["version"], known=VERSION)
        raise FoldlineError(NOT_READ, path=path, problem=problem)
    return manifest


def _content(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes | None:
    """Return a member's content.

    Returns None if the member is damaged, or its size differs from the declared size.
    """
    try:
        with archive.open(info) as member:
            data = member.read(info.file_size + 1)
    except _BROKEN:
        return None
    return data if len(data) == info.file_size else None


def _notes_on(manifest: JsonObject, ignored: int) -> tuple[str, ...]:
    left_out = len(manifest.object("left_out"))
    counts = {
        _REDACTED: len(manifest.object("redacted")),
        _LEFT_OUT.format(files=many(left_out, "file")): left_out,
        _IGNORED.format(files=many(ignored, "file")): ignored,
    }
    return tuple(counted_notes(counts))


def unpack(path: Path, folder: Path) -> list[str]:
    """Unpack side files into a session's folder.

    Returns the names of the damaged side files.

    Raises:
        FoldlineError: the file is not a valid session file.
        OSError: writing to disk failed.
    """
    damaged = []
    for name, data in read_bundle(read_regular(path), path).side_files():
        if data is None:
            damaged.append(name)
            continue
        target = folder / name
        make_private(target.parent)
        write_new(target, data, durable=False)
    return damaged


_EPOCH = (1980, 1, 1, 0, 0, 0)
"""The date of every member.

It is constant, so that exporting the same session always produces the same file.
"""


def write_bundle(original: Original) -> Exported:
    members: dict[str, bytes] = {}
    left_out: dict[str, str] = {}
    _gather(original, "", members, left_out)
    manifest = {
        "format": NAME,
        "version": VERSION,
        "foldline": __version__,
        "session": original.header.id,
        "entries": len(original.entries),
        "redacted": dict(original.redactor.counts)
        if original.redactor is not None
        else None,
        "left_out": left_out,
    }
    packed = BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        members = {MANIFEST: json.dumps(manifest, indent=2).encode(), **members}
        for name, data in members.items():
            info = zipfile.ZipInfo(name, _EPOCH)
            info.external_attr = 0o600 << 16
            archive.writestr(info, data, zipfile.ZIP_DEFLATED)
    return Exported(packed.getvalue(), (*_notes(left_out), *_too_large(members)))


def _gather(
    original: Original,
    folder: str,
    members: dict[str, bytes],
    left_out: dict[str, str],
) -> None:
    """Add the members for a session and its subagents."""
    members[f"{folder}{EVENTS}"] = _events(original)
    named = _named_files(original.entries)
    for path in side_files(original.folder):
        own = f"{path.parent.name}/{path.name}"
        name = f"{folder}{own}"
        if not is_member(name):
            left_out[name] = "not a name of a session's file"
            continue
        if own not in named:
            continue
        data = _read(path)
        if data is None:
            left_out[name] = "could not be read"
            continue
        clean = data
        if original.redactor is not None:
            clean = original.redactor.data(data)
        if clean != data and own.startswith("contents/"):
            # It cannot be redacted, because its name is the digest of its content.
            left_out[name] = "contains a credential"
        else:
            members[name] = clean
    for child in original.children:
        _gather(child, f"{folder}{CHILDREN}/{child.header.id}/", members, left_out)


def _named_files(entries: Sequence[Entry]) -> set[str]:
    """Return the side files that the history refers to."""
    names: set[str] = set()
    for entry in entries:
        match entry:
            case Checkpoint():
                contents = (
                    content
                    for image in entry.files
                    for content in (image.before, image.after)
                )
                names.update(f"{CONTENTS}/{content}" for content in contents if content)
            case ToolResultMessage(details=ToolDetails(full_output=str() as path)):
                names.add(f"{OUTPUTS}/{PurePath(path).name}")
    return names


def _events(original: Original) -> bytes:
    """Return the content of the event file.

    It is copied byte for byte if its entries are unchanged.
    """
    if original.redactor is None and original.folder is not None:
        data = _read(original.folder / EVENTS) or b""
        with suppress(FoldlineError):
            loaded = parse_log(data, Path(EVENTS))
            if loaded.header == original.header and loaded.entries == list(
                original.entries
            ):
                return data
    lines = [
        original.header.model_dump_json().encode(),
        *map(dump_entry, original.entries),
    ]
    return b"".join(line + b"\n" for line in lines)


def _read(path: Path) -> bytes | None:
    try:
        return read_regular(path)
    except OSError:
        return None


def _notes(left_out: dict[str, str]) -> Iterator[str]:
    names_by_reason = grouped((reason, name) for name, reason in left_out.items())
    for reason, names in names_by_reason.items():
        yield f"Left out ({reason}): {some(names, 3)}."


def _too_large(members: dict[str, bytes]) -> Iterator[str]:
    for name, data in members.items():
        most = most_bytes(name)
        if len(data) > most:
            yield _TOO_LARGE.format(name=name, most=most // 1024**2)
