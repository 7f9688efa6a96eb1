"""Branch and number of changed files of the working folder, for the meter's row."""

import subprocess
from pathlib import Path

_SECONDS = 2.0
"""A repository that takes longer to answer is shown without its state."""


def git_state(folder: Path) -> str:
    """`main ±3`; empty without repository, git, or an answer in time. Blocks: call it in a thread."""
    command = ["git", "-C", str(folder), "status", "--porcelain", "--branch", "--untracked-files=normal"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError):
        return ""
    if done.returncode:
        return ""
    head, *changed = done.stdout.splitlines() or [""]
    branch = head.removeprefix("## ").removeprefix("No commits yet on ").split("...")[0]
    return f"{branch} ±{len(changed)}" if changed else branch
