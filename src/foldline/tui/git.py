"""The git branch and number of changed files of the working folder, for the meter's row.

Run automatically, in folders that may be somebody else's: nothing that the repository's own configuration
names may run (docs/security.md).
"""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

from foldline.programs import keep_out, program, trusted_environment

_SECONDS = 2.0
"""A repository that takes longer to answer is shown without its state."""
_RUNS_PROGRAMS = r"^(core\.fsmonitor|filter\..*\.(clean|process))$"
"""Settings with which `git status` starts other programs."""
_BY_REPOSITORY = ("local", "worktree")
"""The scopes that travel with a folder, and not with the user."""
_FETCHES_NOTHING = {"GIT_NO_LAZY_FETCH": "1", "GIT_ALLOW_PROTOCOL": "none"}
"""A repository that names a place for objects it lacks has git start `ssh`, or any program, to get them:
git(1), "Environment Variables". Older gits know the second only, and no protocol is called none."""


def git_state(folder: Path) -> str:
    """`main ±3`; empty without repository, git, or an answer in time. Blocks: call it in a thread."""
    try:
        keep_out([folder])
        programs = tuple(_programs_of(folder))
        if any("=" in name for name in programs):
            return ""  # `-c` takes the first of them for the end of the name: it would empty another setting
        status = _git(
            folder,
            *(word for name in programs for word in ("-c", f"{name}=")),
            "status",
            "--porcelain",
            "--branch",
            "--untracked-files=normal",
            "--ignore-submodules=all",  # they have configurations of their own
        )
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return ""
    head, *changed = status.splitlines() or [""]
    branch = head.removeprefix("## ").removeprefix("No commits yet on ").split("...")[0]
    return f"{branch} ±{len(changed)}" if changed else branch


def _programs_of(folder: Path) -> Iterator[str]:
    """The settings of this repository by which others' programs would run."""
    listed = ("config", "--includes", "--show-scope", "--name-only", "--get-regexp", _RUNS_PROGRAMS)
    for line in _git(folder, *listed, may_be_none=True).splitlines():
        scope, _, name = line.partition("\t")
        if scope in _BY_REPOSITORY:
            yield name


def _git(folder: Path, *words: str, may_be_none: bool = False) -> str:
    """What git says.

    Raises:
        OSError, subprocess.SubprocessError, UnicodeDecodeError: it could not be asked, failed, or took long.
    """
    command = [program("git"), "-C", str(folder), "--no-optional-locks", *words]
    done = subprocess.run(
        command,
        env={**trusted_environment(os.environ), **_FETCHES_NOTHING},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )
    if done.returncode and not (may_be_none and done.returncode == 1):
        raise subprocess.CalledProcessError(done.returncode, command)
    return done.stdout
