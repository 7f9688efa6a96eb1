"""The row of the meter that tells branch and changed files."""

import subprocess
from pathlib import Path

import pytest

from foldline.tui.app.git import git_state


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


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(
    "setting", ["core.fsmonitor", "filter.other.clean", "filter.other.process"]
)
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
    subprocess.run(
        ["git", "-C", str(repository), "status"], check=False, capture_output=True
    )
    assert ran.exists(), "without our care it would have run"


def test_a_name_that_cannot_be_emptied_is_not_asked_about(
    repository: Path, tmp_path: Path
) -> None:
    """`git -c` would take `filter.a` for the name of `filter "a=b"`."""
    ran = tmp_path / "ran"
    (repository / ".gitattributes").write_text("*.txt filter=a=b\n")
    with (repository / ".git" / "config").open("a") as config:
        config.write(f'[filter "a=b"]\n\tclean = touch {ran}; cat\n')
    (repository / "a.txt").write_text("two\n")
    assert git_state(repository) == ""
    assert not ran.exists()
    subprocess.run(
        ["git", "-C", str(repository), "status"], check=False, capture_output=True
    )
    assert ran.exists(), "without our care it would have run"


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("way", ["ssh", "ext", "uploadpack"])
def test_nothing_is_fetched_for_a_repository_that_lacks_objects(
    repository: Path, tmp_path: Path, way: str
) -> None:
    """A partial clone asks its remote for them: by ssh, by a program, by a program beside a local one."""
    ran = tmp_path / "ran"
    url = {
        "ssh": "ssh://host/x",
        "ext": f"ext::touch {ran}",
        "uploadpack": str(tmp_path),
    }[way]
    tree = subprocess.check_output(
        ["git", "-C", str(repository), "rev-parse", "HEAD^{tree}"], text=True
    )
    (repository / ".git" / "objects" / tree[:2] / tree[2:].strip()).unlink()
    for name, value in {
        "core.repositoryformatversion": "1",
        "extensions.partialclone": "origin",
        "remote.origin.promisor": "true",
        "remote.origin.url": url,
        "remote.origin.uploadpack": f"touch {ran};",
        "core.sshcommand": f"touch {ran};",
        "protocol.ext.allow": "always",
    }.items():
        git(repository, "config", name, value)
    git_state(repository)
    assert not ran.exists()
    subprocess.run(
        ["git", "-C", str(repository), "status"], check=False, capture_output=True
    )
    assert ran.exists(), "without our care it would have run"
