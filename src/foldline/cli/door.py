"""From a command line to an exit code: 0 done, 1 failed, 2 wrong usage, 130 interrupted."""

import sys

from foldline.version import __version__

from .streams import flush_out, forget, open_closed_streams, write_out, write_utf8

TYPE_CHECKING = False  # That of `typing`, as in `foldline`.
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType


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
    from .arguments import UsageError, parse

    try:
        invocation = parse(arguments)
    except UsageError as wrong:
        return _fail(str(wrong), 2)
    if argv is None and not invocation.debug:
        sys.excepthook = _one_sentence
    try:
        code = invocation.run()
        flush_out()
    except BrokenPipeError:
        forget(sys.stdout)  # whoever read us has seen enough
        return 0
    except OSError as error:
        if invocation.debug:
            raise
        if error.filename == "stdout":
            forget(sys.stdout)
        where = f"{error.filename}: " if error.filename else ""
        return _fail(f"{where}{error.strerror or error}.", 1)
    except invocation.failures() as failure:
        if invocation.debug:
            raise
        return _fail(str(failure), 2 if isinstance(failure, UsageError) else 1)
    return code


def _version() -> int:
    try:
        write_out(f"foldline {__version__}\n")
        flush_out()
    except BrokenPipeError:
        forget(sys.stdout)
    except OSError as error:
        forget(sys.stdout)
        return _fail(f"stdout: {error.strerror}.", 1)
    return 0


def _fail(sentence: str, code: int) -> int:
    from .output import note

    note(sentence)
    return code


def _one_sentence(kind: type[BaseException], error: BaseException, trace: "TracebackType | None") -> None:
    """For errors nobody foresaw: they end the program as errors do, with one sentence."""
    from .output import note

    said = (str(error).splitlines() or [""])[0]  # further lines quote what was worked on
    note(f"an error in Foldline itself, {kind.__name__}: {said}; with --debug it shows where.")
