"""Files that a change makes act with nobody running them: each such change asks, whatever was allowed.

What tools run at the user's word (tests, builds, scripts) is code like any other and not meant here. Meant is
what acts by itself, later, elsewhere: hooks and settings of git, settings and instructions of Foldline and of
other agents, of editors and shells that look for them in a folder they open.
"""

import os
import re
from pathlib import Path

from .paths import is_inside, is_open

_FOLDERS = frozenset(
    (".git", ".githooks", ".husky", ".vscode", ".idea", ".devcontainer", ".claude", ".cursor", ".ssh")
)
_FILES = frozenset((".foldline.toml", "agents.md", "claude.md", ".mcp.json", ".envrc", "head"))
"""In small letters. `HEAD` makes a folder a repository, whose settings name programs, without any `.git`."""
_UNSEEN = re.compile("[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]")
"""What HFS+ does not see in names: `.g\u200cit` is `.git` there (git's own check, utf8.c)."""


def may_be_changed(path: Path, cwd: Path) -> bool:
    """Whether a change of this file is one inside the folder that is worked in, and nothing more."""
    real, folder = Path(os.path.realpath(path)), Path(os.path.realpath(cwd))
    return is_open(real, folder) and not _acts(real, folder) and not _is_of_home(real, folder)


def _acts(path: Path, folder: Path) -> bool:
    names = [_plain(name) for name in path.relative_to(folder).parts]
    # Of `.git`, also where the folder lies within one: a work tree never does.
    return (
        not _FOLDERS.isdisjoint(names)
        or ".git" in map(_plain, folder.parts)
        or bool(_FILES.intersection(names[-1:]))
        or any((above / "HEAD").is_file() for above in path.parents if above.is_relative_to(folder))
    )


def _is_of_home(path: Path, folder: Path) -> bool:
    """Whether it is one of the hidden files of the home folder, seen from there or from above: of shells,
    programs, desktops."""
    home = Path(os.path.realpath(os.path.expanduser("~")))  # noqa: PTH111 - `Path.home` raises for nobody
    if not home.is_relative_to(folder) or not is_inside(path, home):
        return False
    return path != home and path.relative_to(home).parts[0].startswith(".")


def _plain(name: str) -> str:
    """As file systems see it that do not tell capitals apart, pass over signs, or have short names."""
    seen = _UNSEEN.sub("", name).casefold().rstrip(". ")
    return ".git" if seen == "git~1" else seen
