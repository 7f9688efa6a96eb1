"""`foldline eval` over many sessions: side by side, continued from a file, and no bad session ends it."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from foldline.agent.settings import Settings
from foldline.cli import eval_corpus
from foldline.cli.eval_corpus import Line, Task, measured
from support.front_door import FrontDoor
from support.history import history
from support.workers import dies_for_a_bad_one

OPTIONS = ("--window", "8k", "--strategies", "hide,oracle")


@pytest.fixture
def folder(door: FrontDoor) -> Path:
    """Three sessions that fill a window of 8k, and one file that is none."""
    made = door.cwd / "corpus"
    (made / "below").mkdir(parents=True)
    for nth in range(3):
        built = history().system("s").user(f"Do part {nth}.")
        for step in range(12):
            text = f"value_{nth}_{step} = 1\n" * 120
            built.step("read", text, path=f"src/part_{nth}_{step}.py")
        for step in range(12):
            built.step("bash", "ok", command=f"grep value_{nth}_{step} src/part_{nth}_{step}.py")
        kept = door.keep(built.assistant("Done.").entries)
        (made / "below" / f"session_{nth}.jsonl").write_bytes((kept / "events.jsonl").read_bytes())
    (made / "notes.json").write_text('{"no": "session"}')
    (made / "README.md").write_text("no session, and not looked at")
    return made


def lines_of(path: Path) -> list[Line]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def task(source: Path) -> Task:
    return Task(str(source), None, ("raw", "hide"), (8_192,), "weights", Settings())


@pytest.mark.slow
def test_a_folder_is_measured_in_processes_and_a_bad_file_is_a_row(door: FrontDoor, folder: Path) -> None:
    results = door.cwd / "results.jsonl"
    said = door("eval", folder, "--jobs", "2", "--results", results, *OPTIONS)
    assert said.code == 0, said.err
    found = {Path(line["source"]).name: line for line in lines_of(results)}
    assert sorted(found) == ["notes.json", "session_0.jsonl", "session_1.jsonl", "session_2.jsonl"]
    assert found["notes.json"]["error"]
    assert found["notes.json"]["rows"] == []
    assert [row["strategy"] for row in found["session_0.jsonl"]["rows"]] == ["raw", "hide", "oracle"]
    assert "3 of 4 sessions" in said.out
    assert "oracle (impossible)" in said.out
    assert "notes.json: not measured:" in said.out


def test_what_is_in_the_file_is_not_measured_again(
    door: FrontDoor, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = door.cwd / "results.jsonl"
    asked: list[str] = []

    def counted(one: Task) -> Line:
        asked.append(Path(one.source).name)
        return {
            "key": one.key,
            "source": one.source,
            "session": "s",
            "rows": [],
            "not_compared": [],
            "error": None,
        }

    monkeypatch.setattr(eval_corpus, "processes", ThreadPoolExecutor)
    monkeypatch.setattr(eval_corpus, "measured_session", counted)
    assert door("eval", folder, "--results", results, *OPTIONS).code == 0
    assert len(asked) == 4
    whole = results.read_text()
    results.write_text("".join(whole.splitlines(keepends=True)[:2]) + '{"key": "cut off in the mid')
    asked.clear()
    assert door("eval", folder, "--results", results, *OPTIONS).code == 0
    assert len(asked) == 2
    assert sorted(results.read_text().splitlines()) == sorted(whole.splitlines())
    asked.clear()
    assert door("eval", folder, "--results", results, "--window", "16k", "--strategies", "hide").code == 0
    assert len(asked) == 4


def test_a_file_that_holds_something_else_is_not_added_to(door: FrontDoor, folder: Path) -> None:
    other = door.cwd / "mine.jsonl"
    other.write_text('{"mine": 1}\n')
    said = door("eval", folder, "--results", other, *OPTIONS)
    assert (said.code, other.read_text()) == (1, '{"mine": 1}\n')
    assert "holds no results" in said.err


@pytest.mark.slow
def test_a_session_whose_process_dies_is_a_row_and_the_others_are_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(eval_corpus, "measured_session", dies_for_a_bad_one)
    tasks = [task(tmp_path / name) for name in ("a", "bad", "b", "c")]
    found = {Path(line["source"]).name: line["error"] for line in measured(tasks, 2)}
    assert {name: bool(error) for name, error in found.items()} == {
        "a": False, "b": False, "c": False, "bad": True,
    }  # fmt: skip


def test_many_sessions_are_not_judged_by_a_model(door: FrontDoor, folder: Path) -> None:
    said = door("eval", folder, "--judge")
    assert (said.code, "without a model" in said.err) == (2, True)


def test_an_arm_that_is_none_is_said_once(door: FrontDoor, folder: Path) -> None:
    said = door("eval", folder, "--strategies", "magic-fold")
    assert (said.code, said.err.count("There is no strategy magic-fold")) == (2, 1)
