"""A session written to a new file in our format, with one more entry. What it came from is never touched."""

import os
from collections.abc import Sequence
from pathlib import Path

from foldline.files import is_folder
from foldline.files import write_new as write_whole
from foldline.history import new_session_id, utc_now
from foldline.protocol import Compaction, Entry, FoldlineError, SessionHeader, dump_entry, system_words


def check_new(path: Path) -> None:
    """Raises FoldlineError where this path cannot become a new file, before any work is done for it."""
    if os.path.lexists(path):
        raise FoldlineError(f"{path} exists already: name a new file, nothing is ever overwritten.")
    if not is_folder(path.parent):
        raise FoldlineError(f"There is no folder {path.parent} to write {path.name} to.")


def write_copy(path: Path, header: SessionHeader, entries: Sequence[Entry], fold: Compaction) -> Compaction:
    """The entries, indices included, and behind them the fold, as it was stored. The whole file or none.

    Raises:
        FoldlineError: it exists already, or the disk refused.
    """
    now = utc_now()
    last = entries[-1].index if entries else -1
    stored = fold.model_copy(update={"index": last + 1, "at": now})
    ours = SessionHeader(id=new_session_id(now), created_at=now, cwd=header.cwd)
    lines = [ours.model_dump_json().encode(), *(dump_entry(entry) for entry in (*entries, stored))]
    write_new(path, b"".join(line + b"\n" for line in lines))
    return stored


def write_new(path: Path, data: bytes) -> None:
    """A new file that only its owner may read: the whole of it or none.

    Raises:
        FoldlineError: it exists already, or the disk refused.
    """
    try:
        write_whole(path, data)
    except FileExistsError:
        raise FoldlineError(f"{path} exists already: name a new file, nothing is ever overwritten.") from None
    except OSError as error:
        raise FoldlineError(f"{path} cannot be written: {system_words(error)}.") from None
