"""Whole processes: what starting costs, beside the floor of a bare interpreter in the same run."""

import subprocess
import sys
from collections.abc import Callable

Benchmark = Callable[..., object]


def run(*arguments: str) -> None:
    subprocess.run([sys.executable, *arguments], check=True, capture_output=True)


def test_floor_a_bare_interpreter(benchmark: Benchmark) -> None:
    benchmark(run, "-c", "pass")


def test_version(benchmark: Benchmark) -> None:
    benchmark(run, "-m", "foldline", "--version")


def test_floor_importing_textual(benchmark: Benchmark) -> None:
    benchmark(run, "-c", "import textual.app, textual.widgets")


def test_importing_the_chat(benchmark: Benchmark) -> None:
    benchmark(run, "-c", "import foldline.tui.app")
