"""The files that `foldline import` brings along and `foldline export` writes."""

import re
import shutil
import sys
from pathlib import Path

from foldline.context.harmless import with_signs
from foldline.files import is_folder
from foldline.formats.bundle import BUNDLED, unpack
from foldline.formats.export import Exported, ExportFormat, Original
from foldline.history import EVENTS, Session, typed_path
from foldline.history.contents import share_files
from foldline.history.paths import holds_home
from foldline.protocol import FoldlineError, system_words

from .output import note
from .sources import Source, check_new, write_new
from .streams import write_data, write_out


def bring_along(found: Source, copy: Session) -> None:
    """Copies the whole outputs and kept contents that lie beside the session, or are packed with it."""
    assert copy.path is not None
    folder = copy.path.parent
    if found.ours and found.path.name == EVENTS:
        share_files(found.path.parent, folder)
    elif found.format == BUNDLED:
        damaged = unpack(found.path, folder)
        if damaged:
            note(f"{found.name}: damaged, and left out: {', '.join(damaged)}.")


def folder_held(recorded: str) -> Path:
    """Where the session was held, if that is a folder here that is worked in; else the current one."""
    held = Path(recorded)
    is_here = bool(recorded) and held.is_absolute() and is_folder(held)
    return held if is_here and not holds_home(held) else Path.cwd()


def destination(out: str | None, form: ExportFormat, found: Source) -> Path:
    """A path that is free: the one asked for, or one named after the session."""
    if out is not None:
        path = typed_path(out)
    else:
        name = re.sub(r"[^\w.-]+", "-", found.header.id).strip("-.")[:100] or "session"
        path = Path(f"{name}-{form.name}" if form.kind == "folder" else f"{name}{form.suffix}")
    check_new(path)
    return path


def original_of(found: Source) -> Original:
    folder = found.path.parent if found.ours and found.path.name == EVENTS else None
    return Original(found.header, found.entries, found.project(), folder)


def say_data(data: bytes) -> None:
    """The export itself, byte for byte; to a terminal without what would act on it."""
    if sys.stdout.isatty():
        write_out(with_signs(data.decode("utf-8", "replace")))
    else:
        write_data(data)


def write_exported(exported: Exported, form: ExportFormat, path: Path) -> None:
    """Writes the file, or the folder with all of its files, or nothing."""
    if form.kind != "folder":
        write_new(path, exported.data)
        return
    try:
        path.mkdir(mode=0o700)
    except OSError as error:
        raise FoldlineError(f"{path} cannot be made: {system_words(error)}.") from None
    try:
        for name, data in exported.files.items():
            write_new(path / name, data)
    except BaseException:
        shutil.rmtree(path, ignore_errors=True)
        raise
