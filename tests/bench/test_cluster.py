"""`foldline eval --cluster` on a local Dask cluster of two worker processes, one of them killed half-way.

Skipped where the extra `cluster` is not installed.
"""

import os
import signal
from pathlib import Path

import pytest

from foldline.agent.settings import Settings
from foldline.cli.eval_corpus import Line, Task, measure_all, sessions_in
from support.recorded import SHARED, needs_recorded

distributed = pytest.importorskip("distributed")
FOLDERS = ("opencode", "kimi", "pi/prsui-v3-a.jsonl", "mini-swe-agent")


@needs_recorded
@pytest.mark.timeout(900)
def test_a_killed_worker_loses_no_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    results = tmp_path / "results.jsonl"
    files = sessions_in([str(SHARED / name) for name in FOLDERS])
    tasks = [Task(file, None, ("raw", "hide", "digest"), (16_384,), "weights", Settings()) for file in files]
    found: list[Line] = []
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        client.wait_for_workers(2)
        pids = list(client.run(os.getpid).values())
        for line in measure_all(tasks, 1, cluster.scheduler_address, str(results)):
            found.append(line)
            if len(found) == len(tasks) // 2:
                os.kill(pids[0], signal.SIGKILL)
                print(f"\nkilled worker {pids[0]} of {pids} after {len(found)} of {len(tasks)} sessions")
        client.wait_for_workers(2)
        print(f"workers at the end: {list(client.run(os.getpid).values())}")
    for line in found:
        print(f"  {Path(line['source']).name}: {len(line['rows'])} rows, {line['error'] or 'measured'}")
    assert sorted(line["source"] for line in found) == sorted(files)
    assert len(results.read_text().splitlines()) == len(files)
    assert not any("Killed" in (line["error"] or "") for line in found)
    assert sum(bool(line["rows"]) for line in found) >= 3
