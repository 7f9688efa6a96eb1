"""Runs the real program and records callbacks that block its event loop, with duration and location.

    WATCHED_TO=report.json python -P tests/bench/loop_watch.py ARGUMENTS OF foldline

At the end `report.json` holds the input of `bench.pauses`. Three instruments run in the process itself:

- a timer for every callback of the loop (a task's step is one): wall time, and CPU time of the loop's thread;
  while a callback runs long, a timer signal samples its stack every few milliseconds;
- a beat every 5 ms: its delay is that of a key, other callbacks and threads included;
- the garbage collector, which stops everything and is in no stack.

A callback with much wall time but little CPU time was waiting: for another thread of this process (if the
process was busy) or for another program (if not).
"""

import asyncio
import atexit
import gc
import json
import os
import signal
import sys
import threading
import time
from collections import Counter
from types import FrameType
from typing import Any

SLOW = 0.010
"""Shortest callback, late beat or collection to record, in seconds."""
LOOK, AGAIN = 0.015, 0.005
"""Seconds until a callback's stack is sampled, and between samples."""
BEAT = 0.005
_OURS = f"{os.sep}src{os.sep}foldline{os.sep}"


class Watch:
    def __init__(self) -> None:
        self.callbacks: list[dict[str, Any]] = []
        self.beats: list[dict[str, Any]] = []
        self.collections: list[dict[str, Any]] = []
        self._thread = threading.get_ident()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._places: Counter[str] = Counter()
        self._others: Counter[str] = Counter()
        self._collecting = _clocks()

    def begin(self) -> None:
        handle: Any = asyncio.events.Handle
        run = handle._run
        watched = self._run

        def _run(self: Any) -> Any:
            return watched(run, self)

        handle._run = _run
        signal.signal(signal.SIGALRM, self._look)
        gc.callbacks.append(self._collected)

    def report(self) -> dict[str, Any]:
        return {
            "callbacks": self.callbacks,
            "beats": self.beats,
            "collections": self.collections,
        }

    def _run(self, run: Any, handle: Any) -> Any:
        if threading.get_ident() != self._thread:
            return run(handle)
        if handle._loop is not self._loop:
            self._loop = handle._loop
            self._loop.call_soon(self._beat, *_clocks())
        what, clocks = handle._callback, _clocks()
        signal.setitimer(signal.ITIMER_REAL, LOOK, AGAIN)
        try:
            return run(handle)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            wall, cpu, process = _since(*clocks)
            if wall >= SLOW:
                self.callbacks.append(
                    {
                        "at": clocks[0],
                        "wall": wall,
                        "cpu": cpu,
                        "process": process,
                        "what": _name(what),
                        "places": self._places.most_common(6),
                        "others": self._others.most_common(3),
                    }
                )
            self._places, self._others = Counter(), Counter()

    def _beat(self, at: float, cpu: float, process: float) -> None:
        wall, used, all_used = _since(at, cpu, process)
        if wall - BEAT >= SLOW:
            self.beats.append(
                {"at": at, "wall": wall - BEAT, "cpu": used, "process": all_used}
            )
        if self._loop is not None:
            self._loop.call_later(BEAT, self._beat, *_clocks())

    def _look(self, _number: int, frame: FrameType | None) -> None:
        self._places[_place(frame)] += 1
        for thread, other in sys._current_frames().items():
            if thread != self._thread and _is_ours(other):
                self._others[_place(other)] += 1

    def _collected(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            self._collecting = _clocks()
            return
        wall, cpu, _process = _since(*self._collecting)
        if wall >= SLOW:
            where = (
                "loop" if threading.get_ident() == self._thread else "another thread"
            )
            note = {"at": self._collecting[0], "wall": wall, "cpu": cpu, "where": where}
            self.collections.append({**note, "generation": info["generation"]})


def _clocks() -> tuple[float, float, float]:
    """Return wall time, CPU seconds of this thread, and of the whole process."""
    return time.monotonic(), time.thread_time(), time.process_time()


def _since(at: float, cpu: float, process: float) -> tuple[float, float, float]:
    return (
        time.monotonic() - at,
        time.thread_time() - cpu,
        time.process_time() - process,
    )


def _name(callback: Any) -> str:
    """Return a task's coroutine name, or a callback's own name."""
    task = getattr(callback, "__self__", None)
    if isinstance(task, asyncio.Task):
        return (
            f"{task.get_name()} {getattr(task.get_coro(), '__qualname__', '')}".strip()
        )
    return str(getattr(callback, "__qualname__", repr(callback)))


def _place(frame: FrameType | None) -> str:
    """Return the running function, and our callers: `view.py:81 render_line > panel.py:12 rows: content.py:40
    wrap`.
    """
    ours: list[FrameType] = []
    at = frame
    while at is not None:
        if _OURS in at.f_code.co_filename:
            ours.append(at)
        at = at.f_back
    way = " > ".join(_spot(caller) for caller in reversed(ours[:4]))
    if frame is None or (ours and ours[0] is frame):
        return way
    return f"{way}: {_spot(frame)}"


def _spot(frame: FrameType) -> str:
    folder, _, file = frame.f_code.co_filename.rpartition(os.sep)
    return (
        f"{folder.rpartition(os.sep)[2]}/{file}:{frame.f_lineno} {frame.f_code.co_name}"
    )


def _is_ours(frame: FrameType) -> bool:
    at: FrameType | None = frame
    while at is not None:
        if _OURS in at.f_code.co_filename:
            return True
        at = at.f_back
    return False


def main() -> int:
    target = os.environ.pop("WATCHED_TO")
    watch = Watch()

    def write() -> None:
        with open(target, "w", encoding="utf-8") as file:  # noqa: PTH123 - avoids importing pathlib
            json.dump(watch.report(), file)

    atexit.register(write)
    watch.begin()
    sys.argv[0] = "foldline"
    from foldline.cli import main as run

    return run()


if __name__ == "__main__":
    sys.exit(main())
