"""The standard streams as the shell left them: closed, of another encoding, full, or read by nobody any more.

Imports next to nothing: the front door needs it before anything else.
"""

import os
import sys

TYPE_CHECKING = False  # That of `typing`, as in `foldline`.
if TYPE_CHECKING:
    from typing import TextIO

UNREAD = 141
"""The exit code where stdout was closed while the model still worked: as of a shell's SIGPIPE, 128 + 13."""


def has_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def open_closed_streams() -> None:
    """A stream that was closed before we came (`>&-`) leads nowhere, and no file of ours takes its place."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode))


def write_utf8() -> None:
    """Both streams are UTF-8, whatever the locale says: what is shown is anything but ASCII."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(encoding="utf-8", errors="backslashreplace")


def write_out(text: str) -> None:
    """Write to stdout.

    Raises:
        OSError: it takes no more: `BrokenPipeError` where nobody reads it. Its `filename` says `stdout`.
    """
    try:
        sys.stdout.write(text)
    except OSError as error:
        raise _of_stdout(error) from None


def write_data(data: bytes) -> None:
    """Write bytes to stdout as they are.

    Raises:
        OSError: as with `write_out`.
    """
    flush_out()
    try:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    except OSError as error:
        raise _of_stdout(error) from None


def flush_out() -> None:
    """What was written to stdout is on its way.

    Raises:
        OSError: as with `write_out`.
    """
    try:
        sys.stdout.flush()
    except OSError as error:
        raise _of_stdout(error) from None


def write_beside(text: str) -> None:
    """Write to stderr; where that takes none, such as on a full disk, it is not said. The result counts."""
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except OSError:
        forget(sys.stderr)


def forget(stream: "TextIO") -> None:
    """What the stream could not write goes nowhere, so that the interpreter does not fail on it at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def _of_stdout(error: OSError) -> OSError:
    error.filename = "stdout"
    return error
