"""The command line: from its words to an exit code. 0 is done, 1 failed, 2 wrong usage, 130 interrupted.

Imports next to nothing, so that `foldline --version` is instant.
"""

import sys

from foldline.version import __version__

from .streams import flush_out, forget, open_closed_streams, write_out, write_utf8

TYPE_CHECKING = False  # That of `typing`, as in `foldline`.
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

__all__ = ["main"]


def main(argv: "Sequence[str] | None" = None) -> int:
    """Run one command. Failures are one sentence on stderr; `--debug` shows the traceback instead."""
    try:
        return _run(argv)
    except KeyboardInterrupt:
        return 130


def _run(argv: "Sequence[str] | None") -> int:
    arguments = list(sys.argv[1:] if argv is None else argv)
    open_closed_streams()
    write_utf8()
    if arguments == ["--version"]:
        return _version()  # before anything is imported
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
        sys.excepthook = _one_sentence
    try:
        code = command.run()
        flush_out()
    except BrokenPipeError:
        forget(sys.stdout)  # its reader has seen enough
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
    """The base of errors that are for people; imported only once something was raised."""
    from foldline.protocol import FoldlineError

    return FoldlineError


def _version() -> int:
    try:
        write_out(f"foldline {__version__}\n")
        flush_out()
    except BrokenPipeError:
        forget(sys.stdout)
    except OSError as error:
        return _system_failed(error)
    return 0


def _system_failed(error: OSError) -> int:
    if error.filename == "stdout":
        forget(sys.stdout)
    if isinstance(error, FileNotFoundError) and not error.filename:  # of `os.getcwd`
        return _fail("The folder this was started in is gone: change to another one.", 1)
    where = f"{error.filename}: " if error.filename else ""
    return _fail(f"{where}{error.strerror or error}.", 1)


def _fail(sentence: str, code: int) -> int:
    from .output import note

    note(sentence)
    return code


def _one_sentence(kind: type[BaseException], error: BaseException, trace: "TracebackType | None") -> None:
    """Reports an unforeseen error as one sentence. Its further lines quote what was worked on: left out."""
    from .output import note

    if issubclass(kind, MemoryError):
        note("memory is used up: raise the limit of this shell (`ulimit -v`), or close other programs.")
        return
    first = (str(error).splitlines() or [""])[0]
    note(f"an error in Foldline itself, {kind.__name__}: {first}; with --debug it shows where.")
