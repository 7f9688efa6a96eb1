"""Reads and writes a session of ours as one zip file, `NAME.foldline`."""

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

from foldline.context.numbers import many, some
from foldline.files import make_private, read_regular, write_new
from foldline.history import CONTENTS, EVENTS, parse_log
from foldline.history.children import CHILDREN
from foldline.history.contents import OUTPUTS, content_id
from foldline.protocol import Checkpoint, Entry, FoldlineError, ToolDetails, ToolResultMessage, dump_entry
from foldline.sequences import grouped
from foldline.version import __version__

from .base import ForeignSession, JsonObject, marked_child, parse_object
from .export import Exported, Original
from .redaction import side_files

NAME: Final = "foldline-session"
VERSION: Final = 1
MANIFEST: Final = "manifest.json"
BUNDLED: Final = "foldline file"
"""The format of such a session in results. Nothing can be appended to it."""

MOST_BYTES: Final = 8 * 1024**3
"""Of all members together, unpacked: they go to disk one by one."""
MOST_HISTORY: Final = 512 * 1024**2
MOST_SIDE_FILE: Final = 64 * 1024**2
"""Of one member, which is unpacked in memory. File contents are kept up to 32 MiB, outputs up to 17."""
MOST_MEMBERS: Final = 200_000
MOST_RATIO: Final = 300
"""Unpacked to packed, of what is larger than `_ALWAYS_FINE`: sessions come to 5 to 30, a bomb to 1,000."""
_ALWAYS_FINE: Final = 64 * 1024**2
_MANIFEST_BYTES: Final = 16 * 1024**2

_CHILD: Final = re.compile(rf"(?:{CHILDREN}/[0-9A-Za-z][0-9A-Za-z_-]{{0,99}}/){{1,8}}")
"""The folder of a subagent's session."""
_SIDE_FILE: Final = re.compile(
    r"contents/[0-9a-f]{64}|outputs/(?!\.{1,2}$)[^/\\\x00-\x1f\x7f:\ud800-\udfff]{1,200}"
)
_LONGEST_NAME: Final = 250
"""Bytes: file systems take 255 below a folder."""
_METHODS: Final = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_ENCRYPTED: Final = 0x1
_BROKEN: Final = (
    zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, ValueError, RuntimeError,
)  # fmt: skip
"""Exceptions that `zipfile` raises for a damaged archive."""


def is_member(name: str) -> bool:
    """Return whether a side file may have this name."""
    own = _own_name(name)
    return _SIDE_FILE.fullmatch(own) is not None and len(os.fsencode(own)) <= _LONGEST_NAME


def _own_name(name: str) -> str:
    """Return a member's name below its session's folder."""
    child = _CHILD.match(name)
    return name[child.end() :] if child else name


@dataclass(frozen=True, slots=True)
class Bundle:
    """An opened session file. Names and sizes are checked; side files are read on request."""

    path: Path
    events: bytes
    archive: zipfile.ZipFile
    members: tuple[zipfile.ZipInfo, ...]
    notes: tuple[str, ...]
    histories: dict[str, bytes]
    """Histories of subagents by folder: `children/ID/`."""

    def side_files(self) -> Iterator[tuple[str, bytes | None]]:
        """Yield each side file's name and content; None if damaged."""
        for member in self.members:
            data = _content(self.archive, member)
            own = _own_name(member.filename)
            if data is not None and own.startswith("contents/"):
                data = data if content_id(data) == own.removeprefix("contents/") else None
            yield member.filename, data


def read_bundle(data: bytes, path: Path) -> Bundle:
    """Open a session file.

    Raises:
        FoldlineError: it is another kind of file, damaged, from a newer Foldline, or would unpack to more
            than any session.
    """
    try:
        archive = zipfile.ZipFile(BytesIO(data))
        infos = archive.infolist()
    except _BROKEN:
        raise FoldlineError(f"{path} is cut off or damaged: export the session again.") from None
    by_name = {info.filename: info for info in infos}
    if MANIFEST not in by_name or EVENTS not in by_name:
        raise FoldlineError(f"{path} is a zip file, but no session that `foldline export` made.")
    sides = tuple(info for info in infos if is_member(info.filename))
    histories = [info for info in infos if info.filename != EVENTS and _own_name(info.filename) == EVENTS]
    main = [info for info in infos if info.filename in (MANIFEST, EVENTS)]
    members = [*main, *sides, *histories]
    problem = _problem_of_members(members) or _problem_of_sizes(members, len(data))
    if problem:
        raise FoldlineError(f"{path} {problem}: it was not read.")
    manifest = _manifest(archive, by_name[MANIFEST], path)
    events = _content(archive, by_name[EVENTS])
    if events is None:
        raise FoldlineError(f"{path} is damaged where its history is: export the session again.")
    notes = _notes_on(manifest, ignored=len(infos) - len(members))
    children = {info.filename.removesuffix(EVENTS): _content(archive, info) or b"" for info in histories}
    return Bundle(path, events, archive, sides, notes, children)


def read_bundled(data: bytes, path: Path) -> ForeignSession:
    """Read the session in a session file."""
    bundle = read_bundle(data, path)
    session = _read_history(bundle, "", bundle.events)
    return replace(session, notes=(*bundle.notes, *session.notes))


def _read_history(bundle: Bundle, folder: str, events: bytes) -> ForeignSession:
    """Read the session in this folder, with its subagents."""
    loaded = parse_log(events, bundle.path)
    notes = (f"{loaded.damage}.",) if loaded.damage else ()
    children = []
    for child, history in bundle.histories.items():
        name = child.removeprefix(f"{folder}{CHILDREN}/").removesuffix("/")
        if f"{folder}{CHILDREN}/{name}/" == child and "/" not in name:
            children.append(marked_child(_read_history(bundle, child, history), name, loaded.entries))
    return ForeignSession(
        BUNDLED, loaded.header, loaded.entries, loaded.damage, notes, children=tuple(children)
    )


def _problem_of_members(infos: list[zipfile.ZipInfo]) -> str:
    [(most_often, times)] = Counter(info.filename for info in infos).most_common(1)
    if times > 1:
        return f"holds {most_often} more than once"
    if any(info.flag_bits & _ENCRYPTED for info in infos):
        return "is encrypted, which no session file is"
    if any(info.compress_type not in _METHODS or stat.S_ISLNK(info.external_attr >> 16) for info in infos):
        return "holds links, or is packed in a way that no session file is"
    if len(infos) > MOST_MEMBERS:
        return f"holds {len(infos):,} files, and a session has {MOST_MEMBERS:,} at most"
    return ""


def _problem_of_sizes(infos: list[zipfile.ZipInfo], packed: int) -> str:
    """Return a complaint about sizes. `packed` is the file's."""
    unpacked = sum(info.file_size for info in infos)
    if unpacked > MOST_BYTES:
        return f"would unpack to {unpacked / 1024**3:,.0f} GB, and {MOST_BYTES // 1024**3} GB is the most"
    for info in infos:
        most = most_bytes(info.filename)
        if info.file_size > most:
            size = round(info.file_size / 1024**2)
            return (
                f"holds {info.filename} of {size:,} MB unpacked, and {round(most / 1024**2)} MB is the most"
            )
    if unpacked > _ALWAYS_FINE and unpacked > MOST_RATIO * packed:
        return f"would unpack to {unpacked // max(packed, 1):,} times its size, which no session does"
    return ""


def most_bytes(name: str) -> int:
    """Return the largest size of a member, unpacked."""
    return {EVENTS: MOST_HISTORY, MANIFEST: _MANIFEST_BYTES}.get(_own_name(name), MOST_SIDE_FILE)


def _manifest(archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: Path) -> JsonObject:
    data = _content(archive, info) if info.file_size <= _MANIFEST_BYTES else None
    manifest = parse_object(data) if data is not None else None
    if manifest is None or manifest.get("format") != NAME or not manifest.count("version"):
        raise FoldlineError(f"{path} is a zip file, but no session that `foldline export` made.")
    if manifest.count("version") > VERSION:
        raise FoldlineError(
            f"{path} was written by a newer Foldline (file version {manifest['version']}, this one knows "
            f"{VERSION}): it was not read."
        )
    return manifest


def _content(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes | None:
    """Return a member's content, of the size it claims; None if damaged."""
    try:
        with archive.open(info) as member:
            data = member.read(info.file_size + 1)
    except _BROKEN:
        return None
    return data if len(data) == info.file_size else None


def _notes_on(manifest: JsonObject, ignored: int) -> tuple[str, ...]:
    kinds = len(manifest.object("redacted"))
    left_out = len(manifest.object("left_out"))
    notes = (
        (kinds, f"Credentials in it were redacted before ({kinds} kinds): see its manifest."),
        (left_out, f"{many(left_out, 'file')} beside its history did not come along: see its manifest."),
        (ignored, f"{many(ignored, 'file')} in it that belong to no session were ignored."),
    )
    return tuple(note for count, note in notes if count)


def unpack(path: Path, folder: Path) -> list[str]:
    """Unpack side files into a session's folder. Return the damaged ones.

    Raises:
        FoldlineError: it cannot be read as one.
        OSError: the disk refused.
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
"""The date of every member: the same session gives the same file."""


def write_bundle(original: Original) -> Exported:
    """Write the session as one file."""
    members: dict[str, bytes] = {}
    left_out: dict[str, str] = {}
    _gather(original, "", members, left_out)
    manifest = {
        "format": NAME,
        "version": VERSION,
        "foldline": __version__,
        "session": original.header.id,
        "entries": len(original.entries),
        "redacted": dict(original.redactor.counts) if original.redactor is not None else None,
        "left_out": left_out,
    }
    packed = BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in {MANIFEST: json.dumps(manifest, indent=2).encode(), **members}.items():
            info = zipfile.ZipInfo(name, _EPOCH)
            info.external_attr = 0o600 << 16
            archive.writestr(info, data, zipfile.ZIP_DEFLATED)
    return Exported(packed.getvalue(), (*_notes(left_out), *_too_large(members)))


def _gather(original: Original, folder: str, members: dict[str, bytes], left_out: dict[str, str]) -> None:
    """Add the members of a session and its subagents."""
    members[f"{folder}{EVENTS}"] = _events(original)
    named = _named_files(original.entries)
    for path in side_files(original.folder):
        own = f"{path.parent.name}/{path.name}"
        name = f"{folder}{own}"
        if not is_member(name):
            left_out[name] = "its name is none of a session's files"
        elif own not in named:
            continue
        elif (data := _read(path)) is None:
            left_out[name] = "it could not be read"
        elif original.redactor is None or (clean := original.redactor.data(data)) == data:
            members[name] = data
        elif own.startswith("contents/"):
            left_out[name] = "it holds a credential"  # redacted it would not be what its name says
        else:
            members[name] = clean
    for child in original.children:
        _gather(child, f"{folder}{CHILDREN}/{child.header.id}/", members, left_out)


def _named_files(entries: Sequence[Entry]) -> set[str]:
    """Return the side files that the history names."""
    names: set[str] = set()
    for entry in entries:
        match entry:
            case Checkpoint():
                contents = (content for image in entry.files for content in (image.before, image.after))
                names.update(f"{CONTENTS}/{content}" for content in contents if content)
            case ToolResultMessage(details=ToolDetails(full_output=str() as path)):
                names.add(f"{OUTPUTS}/{PurePath(path).name}")
            case _:
                pass
    return names


def _events(original: Original) -> bytes:
    """Return the event file, byte for byte if its entries are unchanged."""
    if original.redactor is None and original.folder is not None:
        data = _read(original.folder / EVENTS) or b""
        with suppress(FoldlineError):
            loaded = parse_log(data, Path(EVENTS))
            if loaded.header == original.header and loaded.entries == list(original.entries):
                return data
    lines = [original.header.model_dump_json().encode(), *map(dump_entry, original.entries)]
    return b"".join(line + b"\n" for line in lines)


def _read(path: Path) -> bytes | None:
    try:
        return read_regular(path)
    except OSError:
        return None


def _notes(left_out: dict[str, str]) -> Iterator[str]:
    for reason, names in grouped((reason, name) for name, reason in left_out.items()).items():
        yield f"Left out, because {reason}: {some(names, 3)}."


def _too_large(members: dict[str, bytes]) -> Iterator[str]:
    for name, data in members.items():
        if len(data) > most_bytes(name):
            most = most_bytes(name) // 1024**2
            yield f"{name} is larger than {most} MB: `foldline import` will not read this file."
