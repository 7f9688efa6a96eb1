"""`foldline eval` over folders: many sessions side by side, in processes.

A line of JSON a session goes to a file as soon as it is measured, and a second run continues from there. What
cannot be read or measured is a line that says why.
"""

import asyncio
import hashlib
import json
import os
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    Executor,
    Future,
    ProcessPoolExecutor,
    wait,
)
from dataclasses import asdict, dataclass, replace
from multiprocessing import get_context, parent_process
from pathlib import Path
from threading import Thread
from typing import Any

from foldline.agent.settings import Settings
from foldline.evaluation.arms import recording
from foldline.evaluation.comparison import Cell, NotCompared, Setup, Subject, check_arms, compare
from foldline.evaluation.figures import meter_named
from foldline.evaluation.recall import ATOMS_VERSION
from foldline.evaluation.record import Meter
from foldline.evaluation.replay import recorded_messages, recorded_pins, session_name
from foldline.files import is_folder
from foldline.formats import session_file
from foldline.formats.readers.codex.items import ABSENT, SEALED
from foldline.history.paths import explained
from foldline.protocol import AssistantMessage, Compaction, FoldlineError, UserMessage
from foldline.version import __version__

from .output import Bar
from .sources import read_source

# What one session came to: key, source, session, rows as `--json` has them, not_compared, error.
Line = dict[str, Any]
_SUFFIXES = frozenset({".json", ".jsonl", ".traj"})  # files of a folder that may be sessions


@dataclass(frozen=True, slots=True)
class Task:
    """One session to measure, and how. It travels to another process."""

    source: str
    format_name: str | None
    arms: tuple[str, ...]
    windows: tuple[int, ...]
    tokenizer: str
    settings: Settings

    @property
    def key(self) -> str:
        """The same where a second run would measure the same again."""
        path = Path(self.source).expanduser()
        file = (path.stat().st_size, path.stat().st_mtime_ns) if path.exists() else ()
        sizes = [asdict(self.settings.budget_settings(window, "")) for window in self.windows]
        how = [self.source, file, self.arms, self.windows, self.tokenizer, sizes, ATOMS_VERSION, __version__]
        return hashlib.sha256(json.dumps(how).encode()).hexdigest()[:16]


def sessions_in(sources: Sequence[str]) -> list[str]:
    """The sources; for a folder that is no session itself, all files below it that may be sessions."""
    found: dict[str, None] = {}
    for source in sources:
        path = Path(source).expanduser()
        try:
            session_file(path)
        except FoldlineError:
            files = sorted(path.rglob("*")) if is_folder(path) else ()
            found |= {str(file): None for file in files if file.suffix in _SUFFIXES and file.is_file()}
        else:
            found[source] = None
    return list(found)


def subjects_of(sources: Sequence[str], format_name: str | None, meter: Meter) -> list[Subject]:
    """The sessions, each once. Where two would be called the same, they are called as they were asked for."""
    by_source = {source: _subject(source, format_name, meter) for source in dict.fromkeys(sources)}
    named = Counter(subject.name for subject in by_source.values())
    return [
        replace(subject, name=source) if named[subject.name] > 1 else subject
        for source, subject in by_source.items()
    ]


def _subject(source: str, format_name: str | None, meter: Meter) -> Subject:
    found = read_source(source, format_name)
    history = recorded_messages(found.entries)
    if not any(isinstance(message, UserMessage) for message in history):
        raise FoldlineError(f"{source} holds no request of a user: there is nothing to replay.")
    if not any(isinstance(message, AssistantMessage) for message in history):
        raise FoldlineError(f"{source} holds no answer of a model: there is nothing to replay.")
    name = session_name(Path(found.name))
    whole = all(
        entry.summary not in (SEALED, ABSENT) for entry in found.entries if isinstance(entry, Compaction)
    )
    own = recording(found.entries, session=name, meter=meter) if whole else None
    return Subject(name, history, Path(found.header.cwd), recorded_pins(found.entries), own)


def tasks_of(
    files: Sequence[str], setup: Setup, tokenizer: str, settings: Settings, format_name: str | None
) -> list[Task]:
    """A task a session.

    Raises:
        FoldlineError: there is none, or an arm cannot be made: said once, and not by each session.
    """
    if not files:
        raise FoldlineError("No session is there: nothing was measured.")
    check_arms(setup, Path.cwd())
    arms, windows = tuple(setup.arms), tuple(setup.windows)
    return [Task(file, format_name, arms, windows, tokenizer, settings) for file in files]


def measured_session(task: Task) -> Line:
    """All rows of one session. Runs in the process of a worker, and asks no model."""
    meter, sizes = meter_named(task.tokenizer), task.settings.budget_settings
    setup = Setup(arms=task.arms, windows=task.windows, meter=meter, sizes=sizes)

    async def compared() -> list[Cell | NotCompared]:
        return [cell async for cell in compare(subjects, setup)]

    try:
        subjects = subjects_of([task.source], task.format_name, meter)
        found = asyncio.run(compared())
    except Exception as failure:  # noqa: BLE001 (one bad session is a line, and not the end)
        kind = "" if isinstance(failure, FoldlineError) else f"{type(failure).__name__}: "
        return _line(task, error=f"{kind}{failure}")
    return _line(
        task,
        session=subjects[0].name,
        rows=[cell.figures.as_json() for cell in found if isinstance(cell, Cell)],
        not_compared=[asdict(cell) for cell in found if isinstance(cell, NotCompared)],
    )


def _line(task: Task, **found: object) -> Line:
    empty: Line = {"session": "", "rows": [], "not_compared": [], "error": None}
    return {"key": task.key, "source": task.source, **empty, **found}


# --- side by side -------------------------------------------------------------------------------------


def processes(jobs: int) -> Executor:
    """So many processes of this machine."""
    os.environ["PYTHONSAFEPATH"] = "1"  # else they would import `multiprocessing` from the working folder
    return ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=_end_with_parent)


def _end_with_parent() -> None:
    """Ends this process when the one that started it is killed: it would wait for work for ever."""

    def watch() -> None:
        if parent := parent_process():
            parent.join()
            os._exit(1)

    Thread(target=watch, daemon=True).start()


def measure_all(tasks: Sequence[Task], jobs: int, results: str | None) -> Iterator[Line]:
    """A line for each task: first those of an earlier run's file, then each as it is measured and added.

    Raises:
        FoldlineError: the file cannot be read or written.
    """
    file = Path(results).expanduser() if results else None
    waiting = {task.key: task for task in tasks}
    with Bar(len(waiting)) as bar:
        for line in _lines_in(file) if file and file.exists() else ():
            if waiting.pop(line["key"], None):
                bar.step("")
                yield line
        for line in measured(list(waiting.values()), jobs):
            if file:
                with (
                    explained(f"{file} cannot be read or written"),
                    file.open("a", encoding="utf-8") as stream,
                ):
                    stream.write(json.dumps(line, ensure_ascii=False) + "\n")
            bar.step(line["source"])
            yield line


def measured(tasks: Sequence[Task], jobs: int) -> Iterator[Line]:
    """A line for each, as they are ready. Where a process of the pool dies, what was under way is measured
    again, one at a time: whose process dies again is the one."""
    groups = deque([(deque(tasks), jobs)] if tasks else [])
    while groups:
        waiting, at_once = groups.popleft()
        running: dict[Future[Line], Task] = {}
        lost: list[Task] = []
        with processes(at_once) as executor:
            try:
                while (waiting and not lost) or running:
                    while waiting and not lost and len(running) < at_once:
                        task = waiting.popleft()
                        try:
                            running[executor.submit(measured_session, task)] = task
                        except BrokenExecutor:
                            lost.append(task)
                    for future in wait(running, return_when=FIRST_COMPLETED).done:
                        task = running.pop(future)
                        if at_once > 1 and isinstance(future.exception(), BrokenExecutor):
                            lost.append(task)
                        else:
                            yield _outcome(task, future)
            finally:
                for future in running:
                    future.cancel()
        groups.extendleft([(waiting, at_once)] if waiting else [])
        groups.extendleft((deque([task]), 1) for task in lost)


def _outcome(task: Task, future: Future[Line]) -> Line:
    try:
        return future.result()
    except Exception as failure:  # noqa: BLE001 (its process died, again and again)
        return _line(task, error=f"{type(failure).__name__}: {failure}")


# --- the file of results ------------------------------------------------------------------------------


def _lines_in(path: Path) -> Iterator[Line]:
    """The lines of an earlier run. A last one that was cut off is taken out of the file."""
    whole = 0
    with explained(f"{path} cannot be read or written"), path.open("rb") as file:
        for data in file:
            if not data.endswith(b"\n"):
                os.truncate(path, whole)
                return
            whole += len(data)
            try:
                line: Line = json.loads(data)
                _ = line["key"]
            except (ValueError, KeyError, TypeError):
                raise FoldlineError(f"{path} holds no results of foldline eval: name a new file.") from None
            yield line
