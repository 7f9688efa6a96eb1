"""The files that `foldline import` brings along, and what `foldline export` reads and prints."""

import sys
from pathlib import Path

from foldline.context.harmless import with_signs
from foldline.files import is_folder
from foldline.formats.bundle import BUNDLED, unpack
from foldline.formats.export import Original
from foldline.history import EVENTS, Session
from foldline.history.contents import share_files
from foldline.history.paths import holds_home

from .output import note
from .sources import Source
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


def original_of(found: Source) -> Original:
    folder = found.path.parent if found.ours and found.path.name == EVENTS else None
    return Original(found.header, found.entries, found.project(), folder)


def say_data(data: bytes) -> None:
    """The export itself, byte for byte; to a terminal without what would act on it."""
    if sys.stdout.isatty():
        write_out(with_signs(data.decode("utf-8", "replace")))
    else:
        write_data(data)
