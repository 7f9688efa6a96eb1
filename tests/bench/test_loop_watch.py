"""The event loop watcher finds blocking callbacks and their location: part of `make test`."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bench.pauses import WATCHED, Pauses

_RUN = """
import asyncio, importlib.util, json, sys

def loaded(path):
    spec = importlib.util.spec_from_file_location("module", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module

watch, slow = loaded(sys.argv[1]).Watch(), loaded(sys.argv[2])

async def main():
    await asyncio.sleep(0)
    await getattr(slow, sys.argv[3])(lambda: sum(watch._places.values()) > 3)
    while not watch.beats and sys.argv[3] == "holds":
        await asyncio.sleep(0)

watch.begin()
asyncio.run(main())
print(json.dumps(watch.report()))
"""
_SLOW = """
import asyncio

def grinds(seen):
    while not seen():
        pass

async def holds(seen):
    grinds(seen)

async def waits(seen):
    for _ in range(100):
        await asyncio.sleep(0)
"""


@pytest.fixture
def slow(tmp_path: Path) -> Path:
    path = tmp_path / "src" / "foldline" / "slow.py"
    path.parent.mkdir(parents=True)
    path.write_text(_SLOW)
    return path


def watched(slow: Path, what: str) -> dict[str, list[dict[str, Any]]]:
    command = [sys.executable, "-P", "-c", _RUN, str(WATCHED), str(slow), what]
    done = subprocess.run(
        command, check=True, capture_output=True, text=True, timeout=60
    )
    report: dict[str, list[dict[str, Any]]] = json.loads(done.stdout)
    return report


def test_a_callback_that_holds_up_the_loop_is_found_with_its_place(slow: Path) -> None:
    report = watched(slow, "holds")
    long = [
        callback
        for callback in report["callbacks"]
        if any("slow.py" in place for place, _ in callback["places"])
    ]
    assert len(long) == 1
    assert long[0]["what"].endswith("main")
    assert any(
        "holds > " in place or place.endswith("grinds")
        for place, _ in long[0]["places"]
    )
    assert any(
        beat["at"] < long[0]["at"] + long[0]["wall"] for beat in report["beats"]
    ), "and a beat was late"


def test_a_task_that_lets_others_run_is_not(slow: Path) -> None:
    report = watched(slow, "waits")
    assert not [
        callback
        for callback in report["callbacks"]
        if any("slow.py" in place for place, _ in callback["places"])
    ]


def test_what_other_programs_take_is_not_counted_as_ours() -> None:
    beats = [
        {"at": 1.0, "wall": 0.4, "process": 0.03},
        {"at": 2.0, "wall": 0.06, "process": 0.05},
    ]
    assert Pauses("start", 0.0, 3.0, beats=beats).ours == 0.05
    assert Pauses("start", 0.0, 3.0).ours == 0.0
