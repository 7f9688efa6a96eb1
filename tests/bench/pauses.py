"""Walks through a session of 100,000 entries in a real terminal, and tells what held up the event loop.

    PYTHONPATH=tests .venv/bin/python -m bench.pauses [--session FILE] [--source SRC] [--only WORDS]

prints, for every action of the walk, the longest time in which nothing else could happen, and where that was.
`--source` measures another tree of sources, `--only` the steps that hold one of these words (and the start).
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
from bench.sessions import ENTRIES, SIZE, copied, events_of, placed, prepare
from bench.tables import Table
from bench.timing import ms
from support.terminal import Terminal, terminal

COLUMNS, ROWS = 160, 48
WINDOW = 1_000_000
"""Tokens: what was folded fits in again when the fold is undone."""
RARE = "mod_7"
PASTE = ("a line of a long log\n" * 4 + "and 订单 in it\n") * 50_000
TARGET = 0.050
"""Seconds that nothing may hold up the loop for (docs/performance.md)."""
QUIET = 0.15
"""Seconds without a byte and without work, after which an action is over."""
STARTING = 120.0
"""Seconds after which a start is given up."""
UP, DOWN, LEFT, HOME, END, ESCAPE = "\x1b[A", "\x1b[B", "\x1b[D", "\x1b[H", "\x1b[F", "\x1b"
PAGE_UP, PAGE_DOWN, CTRL_END, CTRL_P = "\x1b[5~", "\x1b[6~", "\x1b[1;5F", "\x10"
F2, F4 = "\x1bOQ", "\x1bOS"
WATCHED = Path(__file__).with_name("watched.py").resolve()


@dataclass(frozen=True)
class Step:
    """An action: keys, each sent when the one before has been dealt with."""

    name: str
    keys: tuple[str, ...]
    patience: float = 60.0
    """Seconds after which the next key is pressed although this one is still being dealt with."""
    leaves: str = ""
    """A word on the screen, without which the action is over."""


WALK = (
    Step("page up, 5 times", (PAGE_UP,) * 5),
    Step("back to the end", (CTRL_END,)),
    Step("Inspector beside the chat", (F2,)),
    Step("Inspector over all", ("m",)),
    Step("through the panels", ("\t", "\t", "\t", "\t")),
    Step("to a fold, g and back", ("1", "{", "g", "g")),
    Step("home, end", (HOME, END)),
    Step("pages up", (PAGE_UP,) * 5),
    Step("cursor up, 20 times", (UP,) * 20),
    Step("open an entry, close, reopen", ("\r", "\r", "\r", "\r")),
    Step("search what is rare", ("/", RARE, "\r")),
    Step("next matches", ("n", "n", "n", "N")),
    Step("leave the search", (ESCAPE,)),
    Step("search what is nowhere", ("/", "qxzqxzqxz", "\r", ESCAPE)),
    Step("filter, and all again", ("f", DOWN, " ", "\r", ESCAPE)),
    Step("timeline, 10 requests back", ("4", *(LEFT,) * 10)),
    Step("timeline to the first, and now", (HOME, END)),
    Step("earlier requests , , .", (",", ",", ".")),
    Step("fold before, < < >", ("<", "<", ">")),
    Step("what differs, d", ("d", ESCAPE)),
    Step("back to now, 0", ("0",)),
    Step("close the Inspector", (F2,)),
    Step("open it again, close it", (F2, ESCAPE, F2)),
    Step("palette: find, leave", (CTRL_P, "the", ESCAPE)),
    Step("Context screen", (F4, "\t", DOWN, ESCAPE)),
    Step("fold", ("/compact\r",), leaves="Compacting"),
    Step("undo", ("/undo\r",)),
    Step("a prompt and its answer", ("hello there\r",)),
    Step("a paste of 5 MB", (f"\x1b[200~{PASTE}\x1b[201~", ESCAPE)),
    Step("sessions, and leave", ("/sessions\r", ESCAPE)),
    Step("sessions: search, leave", ("/sessions\r", "/", RARE, ESCAPE, ESCAPE), patience=5.0),
)


@dataclass
class Pauses:
    """What was seen between two moments. Seconds of the system's monotonic clock."""

    name: str
    begun: float
    ended: float
    callbacks: list[dict[str, Any]] = field(default_factory=list)
    beats: list[dict[str, Any]] = field(default_factory=list)
    collections: list[dict[str, Any]] = field(default_factory=list)

    @property
    def longest(self) -> dict[str, Any]:
        """The callback that took longest by the clock."""
        return max(self.callbacks, key=lambda each: float(each["wall"]), default={"wall": 0.0, "cpu": 0.0})

    @property
    def busiest(self) -> float:
        """Most processor time of the loop's thread in one callback: what no other program can make longer."""
        return max((each["cpu"] for each in self.callbacks), default=0.0)

    @property
    def late(self) -> dict[str, Any]:
        """The latest beat."""
        return max(self.beats, key=lambda each: float(each["wall"]), default={"wall": 0.0, "process": 0.0})

    @property
    def ours(self) -> float:
        """How long a key would have had to wait for this process: a late beat, as far as we were at work."""
        return max((min(each["wall"], each["process"]) for each in self.beats), default=0.0)


class Walker:
    """Goes through a session, and notes when each action began and ended."""

    def __init__(self, term: Terminal) -> None:
        self._term = term
        self.marks: list[Pauses] = []

    def start(self, begun: float) -> None:
        self._term.until(lambda term: "offline" in term.rows[0])
        self.dealt_with()
        self.marks.append(Pauses("start", begun, time.monotonic()))

    def walk(
        self, steps: Iterable[Step], said: Callable[[str, str], None] = lambda _name, _screen: None
    ) -> None:
        for step in steps:
            begun = time.monotonic()
            for key in step.keys:
                self._term.send(key)
                self.dealt_with(step.patience)
            if step.leaves:
                self._term.until(lambda term, word=step.leaves: word not in term.text)  # type: ignore[misc]
                self.dealt_with()
            self.marks.append(Pauses(step.name, begun, time.monotonic()))
            said(f"{len(self.marks):02} {step.name}", self._term.text)

    def end(self) -> None:
        os.kill(self._term.child.pid, signal.SIGTERM)
        self._term.ended()

    def dealt_with(self, patience: float = STARTING) -> None:
        """Until the program writes nothing and wants no processor: a thread may be at work in silence."""
        began = since = time.monotonic()
        written, looks, at_work = len(self._term.raw), 0, 0
        while time.monotonic() - began < patience and self._term.read():
            looks, at_work = looks + 1, at_work + _wants_processor(self._term.child.pid)
            if len(self._term.raw) > written or at_work > looks / 2:
                since, written, looks, at_work = time.monotonic(), len(self._term.raw), 0, 0
            elif time.monotonic() - since >= QUIET and looks > 2:
                return


def _wants_processor(pid: int) -> bool:
    """Whether a thread of this process runs, or would if the machine were less busy, or reads from a disk."""
    for stat in Path(f"/proc/{pid}/task").glob("*/stat"):
        with suppress(OSError):
            if stat.read_text().rpartition(") ")[2][0] in "RD":
                return True
    return False


def walked(
    folder: Path, steps: Iterable[Step] = WALK, said: Callable[[str, str], None] | None = None, **env: str
) -> list[Pauses]:
    """The last session of this folder, walked through; every action with what held it up."""
    target = folder.with_name("watched.json")
    env = {**compiled(env.get("PYTHONPATH", "")), **env}
    begun = time.monotonic()
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
        walker.start(begun)
        walker.walk(steps, *([said] if said else []))
        walker.end()
    found = json.loads(target.read_text(encoding="utf-8"))
    for kind in ("callbacks", "beats", "collections"):
        for each in found[kind]:
            for mark in walker.marks:
                if mark.begun <= each["at"] < mark.ended:
                    getattr(mark, kind).append(each)
    return walker.marks


def shown(marks: Iterable[Pauses], title: str) -> Table:
    table = Table(title, ("action", "took", "late beat", "of it ours", "callback", "loop CPU", "GC"))
    for mark in marks:
        collected = max((each["cpu"] for each in mark.collections), default=0.0)
        seconds = (mark.late["wall"], mark.ours, mark.longest["wall"], mark.busiest, collected)
        table.row(
            mark.name, f"{mark.ended - mark.begun:.1f} s", *(ms(each) if each else "·" for each in seconds)
        )
    table.note(f"·: under 10 ms. target: nothing holds up the loop for more than {ms(TARGET)}")
    return table


def told(mark: Pauses, least: float = 0.03, most: int = 4, deep: int = 6) -> Iterator[str]:
    """Where the long ones were, the longest first: so many callbacks, each with so many places."""
    for each in sorted(mark.callbacks, key=lambda each: -float(each["wall"]))[:most]:
        if each["wall"] < least:
            break
        yield f"{mark.name}: {ms(each['wall'])} ({ms(each['cpu'])} CPU of the loop) in {each['what'][:80]}"
        yield from (f"    {count:3} × {place or '(not in ours)'}" for place, count in each["places"][:deep])
        if each["cpu"] < each["wall"] / 2:
            yield from (f"    meanwhile {count:3} × {place}" for place, count in each["others"][:deep])
    for each in sorted(mark.collections, key=lambda each: -float(each["wall"]))[:most]:
        if each["wall"] >= least:
            yield (
                f"{mark.name}: garbage collection of generation {each['generation']}: "
                f"{ms(each['wall'])} ({ms(each['cpu'])} CPU), {each['where']}"
            )


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--entries", type=int, default=ENTRIES)
    options.add_argument("--size", type=int, default=SIZE)
    options.add_argument("--session", type=Path, help="an event file to copy, else one is made")
    options.add_argument("--source", help="the folder `src` of another tree")
    options.add_argument("--only", nargs="*", default=[], help="words of the steps to do")
    options.add_argument("--screens", type=Path, help="a folder for the screen after each step")
    chosen = options.parse_args()
    env = {"PYTHONPATH": chosen.source} if chosen.source else {}
    steps = [step for step in WALK if not chosen.only or any(word in step.name for word in chosen.only)]

    def keep(name: str, screen: str) -> None:
        if chosen.screens:
            chosen.screens.mkdir(exist_ok=True, parents=True)
            (chosen.screens / f"{name.replace('/', '')}.txt").write_text(screen)

    events = chosen.session
    session = copied(events) if events else placed(entries=chosen.entries, size=chosen.size)
    with session as folder:
        prepare(events_of(folder), **env)
        marks = walked(folder, steps, keep, **env)
    for mark in marks:
        for line in told(mark):
            print(line)
    print()
    print("\n".join(shown(marks, "Pauses of the event loop").lines()))


if __name__ == "__main__":
    main()
