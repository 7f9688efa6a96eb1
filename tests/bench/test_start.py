"""Cold starts of whole processes, each alternating with its floor."""

import os
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.bytecode import compiled
from bench.floor_app import SEEN
from bench.sessions import events_of, twin
from bench.tables import table
from bench.timed_terminal import (
    COLUMNS,
    FLOOR,
    ROWS,
    TimedTerminal,
    processor,
    timed_terminal,
)
from bench.timing import Times, ms
from foldline.history.paths import INDEX
from support.server_process import running_server

Benchmark = Callable[..., object]

ROUNDS = 9
TARGET = 1.5
"""Allowed time until the prompt is painted, relative to a minimal app (docs/design/performance.md)."""
_ENOUGH = 1.2
"""Tolerance of ratios for a busy machine."""

COMMANDS = {
    "python -c pass": ("-c", "pass"),
    "foldline --version": ("-m", "foldline", "--version"),
    "import Textual": ("-c", "import textual.app, textual.widgets"),
    "import the chat": ("-c", "import foldline.tui.app.app"),
}
FLOORS = {"foldline --version": "python -c pass", "import the chat": "import Textual"}


def test_commands_and_imports(benchmark: Benchmark) -> None:
    results: defaultdict[str, list[float]] = defaultdict(list)
    env = {**os.environ, **compiled()}

    def rounds() -> None:
        for nth in range(ROUNDS + 1):
            for name, arguments in COMMANDS.items():
                began = time.perf_counter()
                subprocess.run(
                    [sys.executable, *arguments],
                    check=True,
                    capture_output=True,
                    env=env,
                )
                if nth:  # the first round fills the disk cache
                    results[name].append(time.perf_counter() - began)

    benchmark.pedantic(rounds, rounds=1)  # type: ignore[attr-defined]
    times = {name: Times.of(seconds) for name, seconds in results.items()}
    output = table(
        "Processes without a terminal", "what", "median", "least", "worst", "× floor"
    )
    for name, durations in times.items():
        floor = FLOORS.get(name)
        ratio = f"{durations.median / times[floor].median:.1f}" if floor else ""
        output.row(
            name,
            ms(durations.median),
            ms(durations.seconds[0]),
            ms(durations.worst),
            ratio,
        )
    output.note(
        "targets: --version ≤ 3 × python -c pass; the floor of the chat's import is that of Textual"
    )
    version, bare = times["foldline --version"], times["python -c pass"]
    assert version.seconds[0] < 3 * _ENOUGH * bare.seconds[0]


class Starts:
    """Measurements of many starts of one kind."""

    def __init__(self) -> None:
        self.painted: list[float] = []
        self.used: list[float] = []
        self.echoed: list[float] = []
        self.opened: list[float] = []

    def note(self, term: TimedTerminal, prompt: bytes, ready_text: bytes = b"") -> None:
        """Measure a start in seconds.

        Wall and CPU time until the prompt is painted, until a key pressed at once is echoed, and until the
        session is open.
        """
        self.painted.append(term.until(prompt) - term.begun)
        self.used.append(processor(term.pid))
        self.echoed.append(term.echo("q"))
        if ready_text:
            self.opened.append(term.until(ready_text) - term.begun)


def test_the_first_paint(benchmark: Benchmark, large: Path, tmp_path: Path) -> None:
    starts_by_name: defaultdict[str, Starts] = defaultdict(Starts)
    with running_server() as server, twin(large, index=False) as unindexed:
        shop = tmp_path / "shop"
        server_env = {
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
                    counts: bool = nth > 0,  # the first round fills the disk cache
                    **env: str,
                ) -> None:
                    with timed_terminal(
                        folder, *arguments, program=program, **env
                    ) as term:
                        (starts_by_name[name] if counts else Starts()).note(
                            term, prompt.encode(), opened.encode()
                        )

                start(
                    "a minimal Textual app",
                    tmp_path / "floor",
                    program=FLOOR,
                    prompt=SEEN,
                )
                start("foldline", shop, opened="offline")
                start(
                    "foldline, a server set up", shop, opened=server.model, **server_env
                )
                start(
                    "foldline, the very first time",
                    tmp_path / f"first{nth}",
                    FOLDLINE_MODEL="",
                )
                start("foldline -c, 1 GB", large, "-c", opened="offline")
                events, home = events_of(large), events_of(large).parents[3]
                start(
                    "foldline -r, of another folder",
                    shop,
                    "-r",
                    str(events),
                    FOLDLINE_HOME=str(home),
                )
                unindexed.with_name(INDEX).unlink(missing_ok=True)
                last = (
                    "offline" if nth == ROUNDS else ""
                )  # it is slow, and once is enough
                start(
                    "foldline -r, 1 GB, no index",
                    large,
                    "-r",
                    str(unindexed),
                    opened=last,
                )

        benchmark.pedantic(rounds, rounds=1)  # type: ignore[attr-defined]
    _show(starts_by_name)


def _show(starts_by_name: dict[str, Starts]) -> None:
    output = table(
        "From the start of the process to the prompt",
        *(
            "what",
            "painted",
            "× floor",
            "processor",
            "× floor",
            "worst",
            "first key echoed",
            "session there",
        ),
    )
    floor = next(iter(starts_by_name.values()))
    painted, used = Times.of(floor.painted), Times.of(floor.used)
    for name, starts in starts_by_name.items():
        times = Times.of(starts.painted)
        cost = Times.of(starts.used)
        echoed = Times.of(starts.echoed)
        ratios = times.median / painted.median, cost.median / used.median
        output.row(
            name,
            ms(times.median),
            f"{ratios[0]:.2f}",
            ms(cost.median),
            f"{ratios[1]:.2f}",
            ms(times.worst),
            f"+{ms(echoed.median)}",
            ms(Times.of(starts.opened).median) if starts.opened else "",
        )
    output.note(
        f"medians of {len(floor.painted)}, started in turns; target: painted ≤ {TARGET} × the minimal app, "
        f"in a terminal of {COLUMNS}x{ROWS}"
    )
    output.note("first key echoed: a key pressed the moment the prompt is painted")
    output.note(
        "session there: its model is named in the header; processor: used until the prompt, in 10 ms"
    )
    ours = starts_by_name["foldline"]
    ratios = (
        Times.of(ours.painted).median / painted.median,
        min(ours.painted) / min(floor.painted),
    )
    assert min(ratios) < TARGET * _ENOUGH
