"""Walks through a session of 100,000 entries in a real terminal, and reports pauses of the event loop.

    PYTHONPATH=tests .venv/bin/python -m bench.pauses [--session FILE] [--source SRC] [--only WORDS]

prints the longest pause of every action, and where in the code it was. `--source` measures another source
tree; `--only` runs the start and the steps whose names contain one of these words.
"""

import argparse
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.bytecode import compiled
from bench.sessions import (
    ENTRIES,
    SIZE,
    events_of,
    large_session,
    prepare,
    session_copy,
)
from bench.tables import Table
from bench.timing import ms
from support.terminal import Terminal, terminal

COLUMNS, ROWS = 160, 48
WINDOW = 1_000_000
"""Window in tokens: large enough for the view after the compaction is undone."""
RARE = "mod_7"
PASTE = ("a line of a long log\n" * 4 + "and 订单 in it\n") * 50_000
TARGET = 0.050
"""Longest allowed pause in seconds (docs/design/performance.md)."""
QUIET = 0.15
"""Seconds without output and CPU use that end an action."""
STARTING = 120.0
"""Timeout of a start in seconds."""
UP, DOWN, HOME, END, ESCAPE = (
    "\x1b[A",
    "\x1b[B",
    "\x1b[H",
    "\x1b[F",
    "\x1b",
)
PAGE_UP, PAGE_DOWN, CTRL_END, CTRL_P = "\x1b[5~", "\x1b[6~", "\x1b[1;5F", "\x10"
F2, F4 = "\x1bOQ", "\x1bOS"
WATCHED = Path(__file__).with_name("loop_watch.py").resolve()


@dataclass(frozen=True)
class Step:
    """An action: keys, each sent after the previous one has been handled."""

    name: str
    keys: tuple[str, ...]
    patience: float = 60.0
    """Longest wait before the next key, in seconds."""
    leaves: str = ""
    """The action is over once this text has left the screen."""


WALK = (
    Step("page up, 5 times", (PAGE_UP,) * 5),
    Step("back to the end", (CTRL_END,)),
    Step("Inspector beside the chat", (F2,)),
    Step("Inspector over all", ("m",)),
    Step("through the panels", ("\t", "\t", "\t", "\t")),
    Step("to a compaction, g and back", ("1", "{", "g", "g")),
    Step("home, end", (HOME, END)),
    Step("pages up", (PAGE_UP,) * 5),
    Step("cursor up, 20 times", (UP,) * 20),
    Step("open an entry, close, reopen", ("\r", "\r", "\r", "\r")),
    Step("search what is rare", ("/", RARE, "\r")),
    Step("next matches", ("n", "n", "n", "N")),
    Step("leave the search", (ESCAPE,)),
    Step("search what is nowhere", ("/", "qxzqxzqxz", "\r", ESCAPE)),
    Step("system notes, and hidden again", ("a", "a")),
    Step("timeline, 10 requests back", ("4", "4", *(",",) * 10)),
    Step("back to now", ("0",)),
    Step("earlier requests , , .", (",", ",", ".")),
    Step("compaction before, < < >", ("<", "<", ">")),
    Step("what differs, d", ("d", ESCAPE)),
    Step("back to now, 0", ("0",)),
    Step("close the Inspector", (F2,)),
    Step("open it again, close it", (F2, ESCAPE, F2)),
    Step("palette: find, leave", (CTRL_P, "the", ESCAPE)),
    Step("Inspector by size", (F4, "\t", DOWN, F2)),
    Step("compaction", ("/compact\r",), leaves="Compacting"),
    Step("undo", ("/undo\r",)),
    Step("a prompt and its answer", ("hello there\r",)),
    Step("a paste of 5 MB", (f"\x1b[200~{PASTE}\x1b[201~", ESCAPE)),
    Step("sessions, and leave", ("/sessions\r", ESCAPE)),
    Step(
        "sessions: search, leave",
        ("/sessions\r", "/", RARE, ESCAPE, ESCAPE),
        patience=5.0,
    ),
)


@dataclass
class Pauses:
    """Measurements between two moments, in seconds of the monotonic clock."""

    name: str
    begun: float
    ended: float
    callbacks: list[dict[str, Any]] = field(default_factory=list)
    beats: list[dict[str, Any]] = field(default_factory=list)
    collections: list[dict[str, Any]] = field(default_factory=list)

    @property
    def longest(self) -> dict[str, Any]:
        """The callback with the longest wall time."""
        return max(
            self.callbacks,
            key=lambda callback: float(callback["wall"]),
            default={"wall": 0.0, "cpu": 0.0},
        )

    @property
    def busiest(self) -> float:
        """Most CPU time of the loop's thread in one callback, independent of other programs."""
        return max((callback["cpu"] for callback in self.callbacks), default=0.0)

    @property
    def late(self) -> dict[str, Any]:
        """The most delayed beat."""
        return max(
            self.beats,
            key=lambda beat: float(beat["wall"]),
            default={"wall": 0.0, "process": 0.0},
        )

    @property
    def ours(self) -> float:
        """Longest delay of a key caused by this process: a late beat, limited to our own work."""
        return max(
            (min(beat["wall"], beat["process"]) for beat in self.beats), default=0.0
        )


class Walker:
    """Walks through a session, and notes the start and end of each action."""

    def __init__(self, term: Terminal) -> None:
        self._term = term
        self.marks: list[Pauses] = []

    def start(self, start_time: float) -> None:
        self._term.until(lambda term: "offline" in term.rows[0])
        self.dealt_with()
        self.marks.append(Pauses("start", start_time, time.monotonic()))

    def walk(
        self,
        steps: Iterable[Step],
        report: Callable[[str, str], None] = lambda _name, _screen: None,
    ) -> None:
        for step in steps:
            start_time = time.monotonic()
            for key in step.keys:
                self._term.send(key)
                self.dealt_with(step.patience)
            if step.leaves:
                self._term.until(lambda term, word=step.leaves: word not in term.text)  # type: ignore[misc]
                self.dealt_with()
            self.marks.append(Pauses(step.name, start_time, time.monotonic()))
            report(f"{len(self.marks):02} {step.name}", self._term.text)

    def end(self) -> None:
        os.kill(self._term.child.pid, signal.SIGTERM)
        self._term.ended()

    def dealt_with(self, patience: float = STARTING) -> None:
        """Wait until the program neither writes nor uses the CPU.

        A thread may still work without output.
        """
        began = since = time.monotonic()
        size = len(self._term.raw)
        looks = 0
        at_work = 0
        while time.monotonic() - began < patience and self._term.read():
            looks, at_work = looks + 1, at_work + _wants_processor(self._term.child.pid)
            if len(self._term.raw) > size or at_work > looks / 2:
                since = time.monotonic()
                size = len(self._term.raw)
                looks = 0
                at_work = 0
            elif time.monotonic() - since >= QUIET and looks > 2:
                return


def _wants_processor(pid: int) -> bool:
    """Return whether a thread of this process is running, runnable or reading from disk."""
    for stat in Path(f"/proc/{pid}/task").glob("*/stat"):
        with suppress(OSError):
            if stat.read_text().rpartition(") ")[2][0] in "RD":
                return True
    return False


def walk_session(
    folder: Path,
    steps: Iterable[Step] = WALK,
    report: Callable[[str, str], None] | None = None,
    **env: str,
) -> list[Pauses]:
    """Walk through the last session of this folder; return the measurements of each action."""
    target = folder.with_name("watched.json")
    env = {**compiled(env.get("PYTHONPATH", "")), **env}
    start = time.monotonic()
    program = (sys.executable, "-P", str(WATCHED))
    with terminal(
        *(folder, "-c"),
        columns=COLUMNS,
        rows=ROWS,
        program=program,
        WATCHED_TO=str(target),
        FOLDLINE_MODEL="offline",
        FOLDLINE_CONTEXT_WINDOW=str(WINDOW),
        FOLDLINE_OFFLINE__PACE="0",
        **env,
    ) as term:
        walker = Walker(term)
        walker.start(start)
        walker.walk(steps, *([report] if report else []))
        walker.end()
    data = json.loads(target.read_text(encoding="utf-8"))
    for kind in ("callbacks", "beats", "collections"):
        for record in data[kind]:
            for mark in walker.marks:
                if mark.begun <= record["at"] < mark.ended:
                    getattr(mark, kind).append(record)
    return walker.marks


def pause_table(marks: Iterable[Pauses], title: str) -> Table:
    table = Table(
        title,
        ("action", "took", "late beat", "of it ours", "callback", "loop CPU", "GC"),
    )
    for mark in marks:
        collected = max((value["cpu"] for value in mark.collections), default=0.0)
        seconds = (
            mark.late["wall"],
            mark.ours,
            mark.longest["wall"],
            mark.busiest,
            collected,
        )
        table.row(
            mark.name,
            f"{mark.ended - mark.begun:.1f} s",
            *(ms(value) if value else "·" for value in seconds),
        )
    table.note(
        f"·: under 10 ms. target: nothing holds up the loop for more than {ms(TARGET)}"
    )
    return table


def pause_lines(
    mark: Pauses, least: float = 0.03, most: int = 4, deep: int = 6
) -> Iterator[str]:
    """Yield the longest pauses first: `most` callbacks with `deep` code locations each."""
    for record in sorted(mark.callbacks, key=lambda record: -float(record["wall"]))[
        :most
    ]:
        if record["wall"] < least:
            break
        wall, cpu = ms(record["wall"]), ms(record["cpu"])
        yield f"{mark.name}: {wall} ({cpu} CPU of the loop) in {record['what'][:80]}"
        yield from (
            f"    {count:3} × {place or '(not in ours)'}"
            for place, count in record["places"][:deep]
        )
        if record["cpu"] < record["wall"] / 2:
            yield from (
                f"    meanwhile {count:3} × {place}"
                for place, count in record["others"][:deep]
            )
    for record in sorted(mark.collections, key=lambda record: -float(record["wall"]))[
        :most
    ]:
        if record["wall"] >= least:
            yield (
                f"{mark.name}: garbage collection of generation {record['generation']}: "
                f"{ms(record['wall'])} ({ms(record['cpu'])} CPU), {record['where']}"
            )


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--entries", type=int, default=ENTRIES)
    options.add_argument("--size", type=int, default=SIZE)
    options.add_argument(
        "--session", type=Path, help="an event file to copy, else one is made"
    )
    options.add_argument("--source", help="the folder `src` of another tree")
    options.add_argument(
        "--only", nargs="*", default=[], help="words of the steps to do"
    )
    options.add_argument(
        "--screens", type=Path, help="a folder for the screen after each step"
    )
    chosen = options.parse_args()
    env = {"PYTHONPATH": chosen.source} if chosen.source else {}
    steps = [
        step
        for step in WALK
        if not chosen.only or any(word in step.name for word in chosen.only)
    ]

    def keep(name: str, screen: str) -> None:
        if chosen.screens:
            chosen.screens.mkdir(exist_ok=True, parents=True)
            (chosen.screens / f"{name.replace('/', '')}.txt").write_text(screen)

    events = chosen.session
    session = (
        session_copy(events)
        if events
        else large_session(entries=chosen.entries, size=chosen.size)
    )
    with session as folder:
        prepare(events_of(folder), **env)
        marks = walk_session(folder, steps, keep, **env)
    for mark in marks:
        for line in pause_lines(mark):
            print(line)
    print()
    print("\n".join(pause_table(marks, "Pauses of the event loop").lines()))


if __name__ == "__main__":
    main()
