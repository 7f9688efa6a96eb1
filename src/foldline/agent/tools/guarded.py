"""Files that a change makes act with nobody running them: each such change asks, whatever was allowed.

What tools run at the user's word (tests, builds, scripts) is code like any other and not meant here. Meant is
what acts by itself, later, elsewhere: hooks and settings of git, settings and instructions of Foldline and of
other agents, of editors and shells that look for them in a folder they open.
"""

import os
import re
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from foldline.data import real_path
from foldline.files import is_folder, is_there

from ..layers import up_to_top
from .environment import environment
from .paths import is_inside, is_open

_FOLDERS = frozenset(
    (
        ".git", ".githooks", ".husky", ".lefthook", ".ssh",
        ".vscode", ".idea", ".zed", ".devcontainer",
        ".claude", ".codex", ".cursor", ".gemini", ".kimi", ".klaude", ".opencode", ".pi", ".qwen",
    )
)  # fmt: skip
_FILES = re.compile(
    r"""head  # makes a folder a repository, whose settings name programs, without any `.git`
    | \.pre-commit-config\.ya?ml | \.?lefthook(-local)?\.\w+  # hooks
    | \.foldline\.toml | opencode\.jsonc? | \.mcp\.json  # of agents
    | (agents|claude|gemini|qwen)(\.local|\.override)?\.md | copilot-instructions\.md | .+\.instructions\.md
    | \.(cursor|windsurf|cline|roo)rules
    | \.devcontainer\.json | \.exrc | \.nvimrc | \.nvim\.lua | \.dir-locals(-2)?\.el  # of editors
    | \.envrc
    """,
    re.VERBOSE,
)
"""Names in small letters."""
_UNSEEN = re.compile("[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]")
"""What HFS+ does not see in names: `.g\u200cit` is `.git` there (git's own check, utf8.c)."""
_APART = re.compile(r"[\s;|&'\"()!=]+")
_PATIENCE = 5.0
"""Seconds git may take to tell its settings: a pipe may stand in place of one of their files."""
_MOST = 256 * 1024
"""Bytes of settings that are looked through; what has more is nothing people wrote."""


def may_be_changed(path: Path, cwd: Path) -> bool:
    """Whether a change of this file is one inside the folder that is worked in, and nothing more. Reads the
    disk, and asks git: call it off the event loop."""
    try:
        real, folder = Path(real_path(path)), Path(real_path(cwd))
    except OSError:
        return False  # where it leads cannot be told
    return is_open(real, folder) and not (
        _acts(real, folder) or _is_of_home(real, folder) or _is_named_by_git(real)
    )


def _acts(path: Path, folder: Path) -> bool:
    above = [each for each in path.parents if each.is_relative_to(folder)]
    return (
        _is_guarded(path.relative_to(folder).parts)
        # Of `.git`, also where the folder lies within one: a work tree never does.
        or ".git" in map(_plain, folder.parts)
        # A dangling link will do: git once wrote `HEAD` as one.
        or any(os.path.lexists(each / "HEAD") for each in above)
        or any(path.is_relative_to(target) for each in above for target in _led_to(each))
    )


def _is_guarded(parts: Sequence[str]) -> bool:
    names = [_plain(name) for name in parts]
    return not _FOLDERS.isdisjoint(names) or bool(names and _FILES.fullmatch(names[-1]))


def _led_to(folder: Path) -> Iterator[str]:
    """What guarded names in a folder are links to: `AGENTS.md -> docs/rules.md`."""
    try:
        with os.scandir(folder) as entries:
            links = [entry.path for entry in entries if entry.is_symlink() and _is_guarded([entry.name])]
        for link in links:
            yield real_path(link)
    except OSError:
        return


def _is_named_by_git(path: Path) -> bool:
    """Whether git's settings name this file, or a folder above it as that of hooks. Git itself is asked: some
    of its settings lie in files that others name."""
    there = next(above for above in path.parents if is_folder(above))
    top = up_to_top(there)[-1]
    if not is_there(top / ".git"):
        return False
    command = ["git", "-C", str(top), "config", "--null", "--list"]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PATIENCE,
            env=environment(),
            check=False,
        )
    except FileNotFoundError:
        return False  # without git, nothing acts for it
    except (OSError, subprocess.TimeoutExpired):
        return True
    if done.returncode or len(done.stdout) > _MOST:
        return True
    return any(
        _leads_to(path, top, *each.partition("\n")[::2]) for each in os.fsdecode(done.stdout).split("\0")
    )


def _leads_to(path: Path, top: Path, key: str, value: str) -> bool:
    """Whether a setting of git does: `core.hooksPath = tools/hooks`, `core.fsmonitor = ./tools/watch`."""
    of_hooks = key == "core.hookspath"
    for word in [value] if of_hooks else _APART.split(value):
        if of_hooks or "/" in word:
            named = top / os.path.expanduser(word)  # noqa: PTH111 - `Path.expanduser` raises for nobody
            if is_inside(path, named) and (of_hooks or not is_folder(named)):
                return True
    return False


def _is_of_home(path: Path, folder: Path) -> bool:
    """Whether it is one of the hidden files of the home folder, seen from there or from above: of shells,
    programs, desktops."""
    home = Path(real_path(os.path.expanduser("~")))  # noqa: PTH111 - `Path.home` raises for nobody
    if not home.is_relative_to(folder) or not is_inside(path, home):
        return False
    return path != home and path.relative_to(home).parts[0].startswith(".")


def _plain(name: str) -> str:
    """As file systems see it that do not tell capitals apart, pass over signs, or have short names."""
    seen = _UNSEEN.sub("", name).casefold().rstrip(". ")
    return ".git" if seen == "git~1" else seen
