"""From a command line to an exit code: 0 done, 1 failed, 2 wrong usage, 130 interrupted."""

import os
import sys
from collections.abc import Sequence
from types import TracebackType

from foldline.version import __version__


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command. Failures are one sentence on stderr; `--debug` shows the traceback instead."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    _open_closed_streams()
    _write_utf8()
    if arguments == ["--version"]:
        sys.stdout.write(f"foldline {__version__}\n")  # before anything is imported
        return 0
    from .arguments import UsageError, parse

    try:
        invocation = parse(arguments)
    except UsageError as wrong:
        return _fail(str(wrong), 2)
    if argv is None and not invocation.debug:
        sys.excepthook = _one_sentence
    try:
        code = invocation.run()
        sys.stdout.flush()
    except BrokenPipeError:
        _forget_stdout()  # whoever read us has seen enough
        return 0
    except KeyboardInterrupt:
        return 130
    except OSError as error:
        if invocation.debug:
            raise
        where = f"{error.filename}: " if error.filename else ""
        return _fail(f"{where}{error.strerror or error}.", 1)
    except invocation.failures() as failure:
        if invocation.debug:
            raise
        return _fail(str(failure), 2 if isinstance(failure, UsageError) else 1)
    return code


def _fail(sentence: str, code: int) -> int:
    from .output import note

    note(sentence)
    return code


def _open_closed_streams() -> None:
    """A stream that was closed before we came (`>&-`) leads nowhere, and no file of ours takes its place."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode))


def _write_utf8() -> None:
    """Both streams are UTF-8, whatever the locale says: what is shown is anything but ASCII."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(encoding="utf-8", errors="backslashreplace")


def _forget_stdout() -> None:
    """What is still buffered goes nowhere, so that the interpreter does not complain about it at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def _one_sentence(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """For errors nobody foresaw: they end the program as errors do, with one sentence."""
    sys.stderr.write(
        f"foldline: an error in Foldline itself, {kind.__name__}: {error}; with --debug it shows where.\n"
    )
