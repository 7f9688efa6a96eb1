"""Whole processes from nothing: what starting costs, beside the floor of each, started in turns with it."""

import os
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.bytecode import compiled
from bench.floor_app import SEEN
from bench.seat import COLUMNS, FLOOR, ROWS, Seat, processor, seated
from bench.sessions import events_of, twin
from bench.tables import table
from bench.timing import Times, ms
from foldline.history.paths import INDEX
from support.server_process import running_server

Benchmark = Callable[..., object]

ROUNDS = 9
TARGET = 1.5
"""Times a minimal Textual app, until the prompt is painted (docs/performance.md)."""
_ENOUGH = 1.2
"""A busy machine may add so much to a ratio before a benchmark fails."""

COMMANDS = {
    "python -c pass": ("-c", "pass"),
    "foldline --version": ("-m", "foldline", "--version"),
    "import Textual": ("-c", "import textual.app, textual.widgets"),
    "import the chat": ("-c", "import foldline.tui.app"),
}
FLOORS = {"foldline --version": "python -c pass", "import the chat": "import Textual"}


def test_commands_and_imports(benchmark: Benchmark) -> None:
    found: defaultdict[str, list[float]] = defaultdict(list)
    env = {**os.environ, **compiled()}

    def rounds() -> None:
        for nth in range(ROUNDS + 1):
            for name, arguments in COMMANDS.items():
                began = time.perf_counter()
                subprocess.run([sys.executable, *arguments], check=True, capture_output=True, env=env)
                if nth:  # the first one fills the caches of the disk
                    found[name].append(time.perf_counter() - began)

    benchmark.pedantic(rounds, rounds=1)  # type: ignore[attr-defined]
    times = {name: Times.of(seconds) for name, seconds in found.items()}
    shown = table("Processes without a terminal", "what", "median", "least", "worst", "× floor")
    for name, each in times.items():
        floor = FLOORS.get(name)
        ratio = f"{each.median / times[floor].median:.1f}" if floor else ""
        shown.row(name, ms(each.median), ms(each.seconds[0]), ms(each.worst), ratio)
    shown.note("targets: --version ≤ 3 × python -c pass; the floor of the chat's import is that of Textual")
    version, bare = times["foldline --version"], times["python -c pass"]
    assert version.seconds[0] < 3 * _ENOUGH * bare.seconds[0]


class Starts:
    """What was seen of many starts of one kind."""

    def __init__(self) -> None:
        self.painted: list[float] = []
        self.used: list[float] = []
        self.echoed: list[float] = []
        self.opened: list[float] = []

    def note(self, seat: Seat, prompt: bytes, opened: bytes = b"") -> None:
        """Seconds until the prompt is painted, of the processor until then, until a key pressed at once is
        echoed, and until the session is there."""
        self.painted.append(seat.until(prompt) - seat.begun)
        self.used.append(processor(seat.pid))
        self.echoed.append(seat.echo("q"))
        if opened:
            self.opened.append(seat.until(opened) - seat.begun)


def test_the_first_paint(benchmark: Benchmark, large: Path, tmp_path: Path) -> None:
    found: defaultdict[str, Starts] = defaultdict(Starts)
    with running_server() as server, twin(large, index=False) as unindexed:
        shop = tmp_path / "shop"
        asked = {
            "OPENAI_BASE_URL": server.base_url,
            "OPENAI_API_KEY": "a-key",
            "FOLDLINE_MODEL": server.model,
        }

        def rounds() -> None:
            for nth in range(ROUNDS + 1):

                def start(
                    name: str,
                    folder: Path,
                    *arguments: str,
                    program: Sequence[str] = (),
                    prompt: str = "❯",
                    opened: str = "",
                    counts: bool = nth > 0,  # the first round fills the caches of the disk
                    **env: str,
                ) -> None:
                    with seated(folder, *arguments, program=program, **env) as seat:
                        (found[name] if counts else Starts()).note(seat, prompt.encode(), opened.encode())

                start("a minimal Textual app", tmp_path / "floor", program=FLOOR, prompt=SEEN)
                start("foldline", shop, opened="offline")
                start("foldline, a server set up", shop, opened=server.model, **asked)
                start("foldline, the very first time", tmp_path / f"first{nth}", FOLDLINE_MODEL="")
                start("foldline -c, 1 GB", large, "-c", opened="offline")
                held, home = events_of(large), events_of(large).parents[3]
                start("foldline -r, of another folder", shop, "-r", str(held), FOLDLINE_HOME=str(home))
                unindexed.with_name(INDEX).unlink(missing_ok=True)
                last = "offline" if nth == ROUNDS else ""  # it takes long, and once is enough
                start("foldline -r, 1 GB, no index", large, "-r", str(unindexed), opened=last)

        benchmark.pedantic(rounds, rounds=1)  # type: ignore[attr-defined]
    _show(found)


def _show(found: dict[str, Starts]) -> None:
    shown = table(
        "From the start of the process to the prompt",
        *("what", "painted", "× floor", "processor", "× floor", "worst", "first key echoed", "session there"),
    )
    floor = next(iter(found.values()))
    painted, used = Times.of(floor.painted), Times.of(floor.used)
    for name, starts in found.items():
        times, cost, echoed = Times.of(starts.painted), Times.of(starts.used), Times.of(starts.echoed)
        ratios = times.median / painted.median, cost.median / used.median
        shown.row(
            name,
            ms(times.median),
            f"{ratios[0]:.2f}",
            ms(cost.median),
            f"{ratios[1]:.2f}",
            ms(times.worst),
            f"+{ms(echoed.median)}",
            ms(Times.of(starts.opened).median) if starts.opened else "",
        )
    shown.note(
        f"medians of {len(floor.painted)}, started in turns; target: painted ≤ {TARGET} × the minimal app, "
        f"in a terminal of {COLUMNS}x{ROWS}"
    )
    shown.note("first key echoed: a key pressed the moment the prompt is painted")
    shown.note("session there: its model is named in the header; processor: used until the prompt, in 10 ms")
    ours = found["foldline"]
    ratios = Times.of(ours.painted).median / painted.median, min(ours.painted) / min(floor.painted)
    assert min(ratios) < TARGET * _ENOUGH
