"""A session of ours as one file, `NAME.foldline`, which travels: a zip of its history and what that names.

manifest.json     what this is, its version, what was left out and why
events.jsonl      the history, byte for byte
contents/SHA-256  what files held before and after our tools changed them
outputs/NAME      whole outputs of which the model got a piece
"""

import json
import zipfile
from collections.abc import Iterator, Sequence
from io import BytesIO
from pathlib import Path, PurePath

from foldline.files import read_regular
from foldline.history import CONTENTS, EVENTS, parse_log
from foldline.history.catalog.deleting import OUTPUTS
from foldline.protocol import Checkpoint, Entry, FoldlineError, ToolDetails, ToolResultMessage, dump_entry
from foldline.version import __version__

from .bundle_members import MANIFEST, NAME, SUFFIX, VERSION, is_member, most_bytes
from .redaction.session import side_files
from .writing import Exported, Original

_EPOCH = (1980, 1, 1, 0, 0, 0)
"""The date of every member: the same session gives the same file."""


def write_bundle(original: Original) -> Exported:
    """The session as one file. What could not come along is named in the manifest and in a note."""
    members: dict[str, bytes] = {EVENTS: _events(original)}
    left_out: dict[str, str] = {}
    spoken_of = _spoken_of(original.entries)
    for name, path in _side_files(original.folder):
        if not is_member(name):
            left_out[name] = "its name is none of a session's files"
        elif name not in spoken_of:
            continue
        elif (data := _read(path)) is None:
            left_out[name] = "it could not be read"
        elif original.redactor is None or (clean := original.redactor.data(data)) == data:
            members[name] = data
        elif name.startswith("contents/"):
            left_out[name] = "it holds a credential"  # redacted it would not be what its name says
        else:
            members[name] = clean
    manifest = {
        "format": NAME,
        "version": VERSION,
        "foldline": __version__,
        "session": original.header.id,
        "entries": len(original.entries),
        "redacted": dict(original.redactor.counts) if original.redactor is not None else None,
        "left_out": left_out,
    }
    packed = _packed({MANIFEST: json.dumps(manifest, indent=2).encode(), **members})
    name = f"{original.header.id}{SUFFIX}"
    return Exported(files={name: packed}, main=name, notes=(*_notes(left_out), *_too_large(members)))


def _spoken_of(entries: Sequence[Entry]) -> set[str]:
    """The side files that the history names. A fork shares those of what came later where it comes from."""
    found: set[str] = set()
    for entry in entries:
        match entry:
            case Checkpoint():
                kept = (content for image in entry.files for content in (image.before, image.after))
                found.update(f"{CONTENTS}/{content}" for content in kept if content)
            case ToolResultMessage(details=ToolDetails(full_output=str() as whole)):
                found.add(f"{OUTPUTS}/{PurePath(whole).name}")
            case _:
                pass
    return found


def _events(original: Original) -> bytes:
    """The event file as it is, where it holds these entries: not a view of it, nor what was redacted."""
    if original.redactor is None and original.folder is not None:
        data = _read(original.folder / EVENTS)
        if data is not None and _holds(data, original):
            return data
    lines = [original.header.model_dump_json().encode(), *map(dump_entry, original.entries)]
    return b"".join(line + b"\n" for line in lines)


def _holds(data: bytes, original: Original) -> bool:
    try:
        loaded = parse_log(data, Path(EVENTS))
    except FoldlineError:
        return False
    return loaded.header == original.header and loaded.entries == list(original.entries)


def _side_files(folder: Path | None) -> Iterator[tuple[str, Path]]:
    for path in side_files(folder):
        assert folder is not None
        yield path.relative_to(folder).as_posix(), path


def _read(path: Path) -> bytes | None:
    try:
        return read_regular(path)
    except OSError:
        return None


def _packed(members: dict[str, bytes]) -> bytes:
    packed = BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            info = zipfile.ZipInfo(name, _EPOCH)
            info.external_attr = 0o600 << 16
            archive.writestr(info, data, zipfile.ZIP_DEFLATED)
    return packed.getvalue()


def _notes(left_out: dict[str, str]) -> Iterator[str]:
    reasons: dict[str, list[str]] = {}
    for name, why in left_out.items():
        reasons.setdefault(why, []).append(name)
    for why, names in reasons.items():
        yield f"Left out, because {why}: {_shown(names)}."


def _too_large(members: dict[str, bytes]) -> Iterator[str]:
    for name, data in members.items():
        if len(data) > most_bytes(name):
            most = most_bytes(name) // 1024**2
            yield f"{name} is larger than {most} MB: `foldline import` will not read this file."


def _shown(names: Sequence[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more
