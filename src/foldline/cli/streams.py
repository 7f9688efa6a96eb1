"""Safe use of the standard streams.

The streams may be closed, may not be UTF-8, and may fail on writing. This module imports very little, because
the command line needs it before all others.
"""

import os
import sys

TYPE_CHECKING = (
    False  # stands in for `typing.TYPE_CHECKING`, as `typing` is slow to import
)
if TYPE_CHECKING:
    from typing import TextIO

UNREAD = 141
"""Exit code if stdout was closed during a run: 128 + SIGPIPE, as in shells."""


def has_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def open_closed_streams() -> None:
    """Open closed standard streams (`>&-`) on the null device.

    Otherwise, files opened later would get the descriptors of the standard streams.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode))


def write_utf8() -> None:
    """Set both output streams to UTF-8, regardless of the locale."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(encoding="utf-8", errors="backslashreplace")


def write_out(text: str) -> None:
    """Write to stdout.

    Raises:
        OSError: writing failed. The error's `filename` is `stdout`. For a closed pipe, this is a
            `BrokenPipeError`.
    """
    try:
        sys.stdout.write(text)
    except OSError as error:
        raise _of_stdout(error) from None


def write_data(data: bytes) -> None:
    """Write bytes to stdout unchanged.

    Raises:
        OSError: writing failed, as with `write_out`.
    """
    flush_out()
    try:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    except OSError as error:
        raise _of_stdout(error) from None


def flush_out() -> None:
    """Flush stdout.

    Raises:
        OSError: flushing failed, as with `write_out`.
    """
    try:
        sys.stdout.flush()
    except OSError as error:
        raise _of_stdout(error) from None


def write_error(text: str) -> None:
    """Write to stderr, ignoring errors like a full disk."""
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except OSError:
        discard_stream(sys.stderr)


def discard_stream(stream: "TextIO") -> None:
    """Redirect a failed stream to the null device.

    The interpreter's flush at exit then succeeds.
    """
    null_device = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null_device, stream.fileno())
    os.close(null_device)


def _of_stdout(error: OSError) -> OSError:
    error.filename = "stdout"
    return error
