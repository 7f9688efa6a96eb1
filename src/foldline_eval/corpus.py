"""Finds, reads and measures the sessions of `foldline eval`.

With several jobs, sessions are measured in parallel processes.
"""

import asyncio
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context, parent_process
from pathlib import Path
from threading import Thread

from foldline.cli.output import progress_bar, step
from foldline.cli.sources import read_source
from foldline.files import is_folder
from foldline.formats import session_file
from foldline.protocol import AssistantMessage, FoldlineError, UserMessage

from .comparison import Comparison, EvalSetup, compare
from .record import RecordedSession
from .replay import recorded_messages, recorded_pins, session_name

NO_PROMPT = "{source} contains no user prompt, so it cannot be replayed."
NO_ANSWER = "{source} contains no answer by a model, so it cannot be replayed."
_SUFFIXES = frozenset({".json", ".jsonl", ".traj"})
"""Suffixes of files that could be sessions."""


@dataclass(frozen=True, slots=True)
class MeasuredSession:
    """The figures of all runs of a session."""

    source: str
    figures: Comparison = field(default_factory=Comparison)
    error: str = ""
    """Why the session could not be read or measured."""


def find_sessions(sources: Sequence[str]) -> dict[str, str]:
    """Return the session of each source, with its name in the report.

    A folder stands for the files in it and its subfolders that could be sessions. If sessions share a name,
    they are named after their files instead.
    """
    files: dict[str, str] = {}
    for source in sources:
        path = Path(source).expanduser()
        try:
            session_file(path)
        except FoldlineError:
            for file in sorted(path.rglob("*")) if is_folder(path) else ():
                if file.suffix in _SUFFIXES and file.is_file():
                    files[str(file)] = session_name(file)
        else:
            files[source] = session_name(path)
    counts = Counter(files.values())
    return {
        source: name if counts[name] == 1 else source for source, name in files.items()
    }


def read_session(source: str, name: str, format_name: str | None) -> RecordedSession:
    """Read a session to replay.

    Raises:
        FoldlineError: the session cannot be read, or has no prompt or no answer.
    """
    session = read_source(source, format_name)
    history = recorded_messages(session.entries)
    for kind, sentence in ((UserMessage, NO_PROMPT), (AssistantMessage, NO_ANSWER)):
        if not any(isinstance(message, kind) for message in history):
            raise FoldlineError(sentence, source=source)
    return RecordedSession(
        name, history, Path(session.header.cwd), recorded_pins(session.entries)
    )


def measure_session(
    source: str,
    name: str,
    setup: EvalSetup,
    format_name: str | None,
    on_run: Callable[[str], object] = lambda _run: None,
) -> MeasuredSession:
    """Measure one session. `on_run` is called after each run."""
    try:
        session = read_session(source, name, format_name)
        figures = asyncio.run(compare(session, setup, on_run))
    except FoldlineError as error:
        return MeasuredSession(source, error=str(error))
    return MeasuredSession(source, figures)


def measure_all(
    names: dict[str, str], setup: EvalSetup, format_name: str | None, jobs: int
) -> Iterator[MeasuredSession]:
    """Yield the figures of each session. `names` are those from `find_sessions`."""
    measure = partial(measure_session, setup=setup, format_name=format_name)
    with progress_bar(len(names) * setup.runs) as bar:
        if jobs == 1:
            for source, name in names.items():
                yield measure(source, name, on_run=partial(step, bar))
            return
        with processes(jobs) as pool:
            for session in pool.map(measure, names, names.values()):
                step(bar, session.source, setup.runs)
                yield session


def processes(jobs: int) -> Executor:
    """Return a pool of worker processes."""
    # Otherwise workers could import a module `multiprocessing` from the working folder.
    os.environ["PYTHONSAFEPATH"] = "1"
    return ProcessPoolExecutor(
        jobs, mp_context=get_context("spawn"), initializer=_end_with_parent
    )


def _end_with_parent() -> None:
    """Make this process exit when its parent does.

    Otherwise, the process would wait for tasks forever.
    """

    def watch() -> None:
        if parent := parent_process():
            parent.join()
            os._exit(1)

    Thread(target=watch, daemon=True).start()
