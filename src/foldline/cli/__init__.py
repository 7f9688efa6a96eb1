"""The command line's entry point.

Exit codes: 0 success, 1 failure, 2 wrong usage, 130 interrupted.

This module imports very little, so that `foldline --version` responds instantly.
"""

import sys

from foldline.version import __version__

from .streams import (
    discard_stream,
    flush_out,
    open_closed_streams,
    write_out,
    write_utf8,
)

TYPE_CHECKING = (
    False  # stands in for `typing.TYPE_CHECKING`, as `typing` is slow to import
)
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

__all__ = ["FOLDER_GONE", "main"]

FOLDER_GONE = (
    "The current folder no longer exists. Change to another folder and try again."
)
OUT_OF_MEMORY = (
    "out of memory: raise this shell's limit (`ulimit -v`), or close other programs."
)
INTERNAL_ERROR = "internal error in Foldline"
TRY_DEBUG = "Use --debug to see where it happened."


def main(argv: "Sequence[str] | None" = None) -> int:
    """Run a command, and return its exit code.

    An error is reported as one sentence on stderr, or as a traceback with `--debug`.
    """
    try:
        return _run(argv)
    except KeyboardInterrupt:
        return 130


def _run(argv: "Sequence[str] | None") -> int:
    arguments = list(sys.argv[1:] if argv is None else argv)
    open_closed_streams()
    write_utf8()
    if arguments == ["--version"]:
        return _version()  # answered before anything is imported
    import gc

    # With Python's default of 700 new objects, garbage collection takes a tenth of a start.
    gc.set_threshold(10_000, 3, 30)
    if argv is None:
        from foldline.process import protect_process

        protect_process()
    from .arguments import UsageError
    from .commands import parse

    try:
        command = parse(arguments)
    except UsageError as wrong:
        return _fail(str(wrong), 2)
    if argv is None and not command.debug:
        sys.excepthook = _report_crash
    try:
        code = command.run()
        flush_out()
    except BrokenPipeError:
        discard_stream(sys.stdout)  # the reader closed the pipe
        return 0
    except OSError as error:
        if command.debug:
            raise
        return _system_failed(error)
    except (UsageError, _foldline_error()) as failure:
        if command.debug:
            raise
        return _fail(str(failure), getattr(failure, "exit_code", 1))
    return code


def _foldline_error() -> type[Exception]:
    """Return the base class of expected errors.

    The class is imported only here, because the import is slow.
    """
    from foldline.protocol import FoldlineError

    return FoldlineError


def _version() -> int:
    try:
        write_out(f"foldline {__version__}\n")
        flush_out()
    except BrokenPipeError:
        discard_stream(sys.stdout)
    except OSError as error:
        return _system_failed(error)
    return 0


def _system_failed(error: OSError) -> int:
    if error.filename == "stdout":
        discard_stream(sys.stdout)
    if (
        isinstance(error, FileNotFoundError) and not error.filename
    ):  # raised by `os.getcwd`
        return _fail(FOLDER_GONE, 1)
    where = f"{error.filename}: " if error.filename else ""
    return _fail(f"{where}{error.strerror or error}.", 1)


def _fail(sentence: str, code: int) -> int:
    from .output import note

    note(sentence)
    return code


def _report_crash(
    kind: type[BaseException], error: BaseException, trace: "TracebackType | None"
) -> None:
    """Report an unexpected error as one sentence.

    Only the first line of its message is printed, because further lines may quote the user's data.
    """
    from .output import note

    if issubclass(kind, MemoryError):
        note(OUT_OF_MEMORY)
        return
    message, *_ = str(error).splitlines() or [""]
    named = ": ".join(filter(None, (kind.__name__, message.rstrip("."))))
    note(f"{INTERNAL_ERROR}, {named}. {TRY_DEBUG}")
