"""The row of the meter that tells branch and changed files."""

import subprocess
from pathlib import Path

import pytest

from foldline.tui.git import git_state


def git(folder: Path, *words: str) -> None:
    subprocess.run(
        ["git", "-c", "user.name=x", "-c", "user.email=x@x", "-C", str(folder), *words],
        check=True,
        capture_output=True,
    )


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    git(folder, "init", "-b", "main")
    (folder / "a.txt").write_text("one\n")
    (folder / ".gitattributes").write_text("*.txt filter=other\n")
    git(folder, "add", ".")
    git(folder, "commit", "-m", "first")
    return folder


def test_it_tells_the_branch_and_how_many_files_changed(repository: Path) -> None:
    assert git_state(repository) == "main"
    (repository / "a.txt").write_text("two\n")
    (repository / "b.txt").write_text("new\n")
    assert git_state(repository) == "main ±2"


def test_outside_of_a_repository_it_is_empty(tmp_path: Path) -> None:
    assert git_state(tmp_path) == ""


@pytest.mark.parametrize("setting", ["core.fsmonitor", "filter.other.clean", "filter.other.process"])
def test_no_program_of_the_repositorys_own_configuration_runs(
    repository: Path, tmp_path: Path, setting: str
) -> None:
    ran, program = tmp_path / "ran", tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {ran}\ncat\n")
    program.chmod(0o755)
    git(repository, "config", setting, str(program))
    (repository / "a.txt").write_text("two\n")
    assert git_state(repository) == "main ±1"
    assert not ran.exists()
    subprocess.run(["git", "-C", str(repository), "status"], check=False, capture_output=True)
    assert ran.exists(), "without our care it would have run"
