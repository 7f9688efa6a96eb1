"""Reading and replacing whole files. Blocking: called in a thread."""

import os
import stat
from pathlib import Path

from foldline.data import real_path
from foldline.files import opened, put_whole
from foldline.protocol import system_words

from .base import ToolContext
from .failure import ToolFailure
from .paths import missing, named
from .text import sized

LARGEST = 64 * 1024 * 1024
"""Bytes of the largest file that is read as a whole."""


def contents(path: Path, context: ToolContext) -> bytes:
    """The bytes of an ordinary file.

    Raises:
        ToolFailure: it does not exist, is not an ordinary file (a pipe would block for ever), is too large,
        or
            may not be read.
    """
    shown = named(path, context)
    try:
        _refuse_unreadable(path.stat(), shown)
        # Without waiting: a pipe may have taken its place, and some of /proc wait for what happens next.
        with opened(path) as file:
            _refuse_unreadable(os.fstat(file.fileno()), shown)
            content = file.read(LARGEST + 1)
    except (FileNotFoundError, NotADirectoryError):
        raise missing(path, context) from None
    except OSError as error:
        raise ToolFailure(f"{shown} could not be read: {system_words(error)}.") from None
    if content is None:
        raise ToolFailure(f"{shown} could not be read: it has nothing to say yet.")
    if len(content) > LARGEST:  # it grows, or has no size: /proc
        raise _too_large(shown, f"more than {sized(LARGEST)}")
    return content


def _refuse_unreadable(status: os.stat_result, shown: str) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise ToolFailure(f"{shown} is a folder, not a file: use `ls` or `glob` to see what is in it.")
    if not stat.S_ISREG(status.st_mode):
        raise ToolFailure(f"{shown} is not an ordinary file (a pipe, socket or device) and was not opened.")
    if status.st_size > LARGEST:
        raise _too_large(shown, f"{sized(status.st_size)}, more than {sized(LARGEST)}")


def _too_large(shown: str, size: str) -> ToolFailure:
    return ToolFailure(
        f"{shown} has {size}: use `grep`, or `bash` with sed -n or tail, to see parts of it.",
        brief="too large ✗",
    )


def replace(path: Path, content: bytes, shown: str) -> None:
    """Make this the content of a file, all or nothing: a new file beside it takes its place.

    Links are followed, the mode of an existing file is kept, missing folders are made. `shown` names the file
    in sentences.

    Raises:
        ToolFailure: it could not be written; what was there is unchanged.
    """
    try:
        target = Path(real_path(path))
        mode = _mode(target, shown)
        target.parent.mkdir(parents=True, exist_ok=True)
        put_whole(target, content, mode, durable=True)
    except OSError as error:
        raise ToolFailure(f"{shown} could not be written: {system_words(error)}.") from None


def _mode(target: Path, shown: str) -> int | None:
    try:
        status = target.stat()
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(status.st_mode):
        raise ToolFailure(f"{shown} is a folder: give the path of a file in it.")
    if not stat.S_ISREG(status.st_mode):
        raise ToolFailure(f"{shown} is not an ordinary file (a pipe, socket or device) and was not written.")
    if not os.access(target, os.W_OK):
        raise ToolFailure(f"{shown} is write-protected.")  # a rename would pass over the protection
    return stat.S_IMODE(status.st_mode)
