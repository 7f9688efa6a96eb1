"""The git branch and number of changed files of the working folder.

This code runs automatically in untrusted folders, so it must not run programs that the repository's
configuration names (docs/security.md).
"""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

from foldline.programs import keep_out, program, trusted_environment

_SECONDS = 2.0
"""Time limit for a git command, in seconds."""
_RUNS_PROGRAMS = r"^(core\.fsmonitor|filter\..*\.(clean|process))$"
"""Matches git settings that make `git status` start other programs."""
_BY_REPOSITORY = ("local", "worktree")
"""Scopes of git settings that come from the folder, not from the user."""
_NO_FETCH = {"GIT_NO_LAZY_FETCH": "1", "GIT_ALLOW_PROTOCOL": "none"}
"""Environment variables that prevent git from fetching missing objects with `ssh` or other programs.

See git(1), "Environment Variables". Older versions of git support only the second variable. No protocol is
named "none", so all protocols are forbidden.
"""


def git_state(folder: Path) -> str:
    """Return the state, such as `main ±3`, or an empty string.

    The string is empty if there is no repository, git is not installed, or a command timed out. Blocking:
    call it in a thread.
    """
    try:
        keep_out([folder])
        programs = tuple(_programs_of(folder))
        if any("=" in name for name in programs):
            return ""  # `-c` would split the name at its first "=" and so clear a different setting
        status = _git(
            folder,
            *(word for name in programs for word in ("-c", f"{name}=")),
            "status",
            "--porcelain",
            "--branch",
            "--untracked-files=normal",
            "--ignore-submodules=all",  # submodules have their own configurations
        )
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return ""
    head, *changed = status.splitlines() or [""]
    branch = head.removeprefix("## ").removeprefix("No commits yet on ").split("...")[0]
    return f"{branch} ±{len(changed)}" if changed else branch


def _programs_of(folder: Path) -> Iterator[str]:
    """Yield this repository's settings that start programs."""
    listed = (
        "config",
        "--includes",
        "--show-scope",
        "--name-only",
        "--get-regexp",
        _RUNS_PROGRAMS,
    )
    for line in _git(folder, *listed, may_be_none=True).splitlines():
        scope, _, name = line.partition("\t")
        if scope in _BY_REPOSITORY:
            yield name


def _git(folder: Path, *words: str, may_be_none: bool = False) -> str:
    """Run git and return its output.

    Raises:
        OSError, subprocess.SubprocessError, UnicodeDecodeError: Git is missing, failed or timed out.
    """
    command = [program("git"), "-C", str(folder), "--no-optional-locks", *words]
    process = subprocess.run(
        command,
        env={**trusted_environment(os.environ), **_NO_FETCH},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )
    allowed = (0, 1) if may_be_none else (0,)
    if process.returncode not in allowed:
        raise subprocess.CalledProcessError(process.returncode, command)
    return process.stdout
