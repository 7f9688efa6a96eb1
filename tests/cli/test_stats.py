"""`foldline stats`: the counts for people and for programs, of any session that can be read."""

import json
from pathlib import Path

import pytest

from foldline.cli import main
from support.history import history, modified
from support.reopening import write_events


@pytest.fixture
def events(tmp_path: Path) -> Path:
    path = tmp_path / "events.jsonl"
    told = history().user("go").step("edit", "ok", files=[modified("a.py")]).assistant("done")
    write_events(path, told.entries)
    return path


def test_for_people_it_names_prompts_files_and_tools(
    events: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["stats", str(events)]) == 0
    said = capsys.readouterr().out
    assert "4 entries, 1 prompt, 2 answers" in said and "1 modified, 0 read" in said and "edit" in said


def test_for_programs_it_is_one_object(events: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["stats", str(events), "--json"]) == 0
    counted = json.loads(capsys.readouterr().out)
    assert (counted["entries"], counted["tools"]["edit"]["calls"]) == (4, 1)
    assert counted["modified_files"] == ["a.py"]
