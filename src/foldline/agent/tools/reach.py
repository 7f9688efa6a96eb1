"""Whether a shell command stays in the working folder, as far as its words tell. Reads the disk.

A hint for approvals, and no wall: a program opens what it likes. The unclear counts as outside.
"""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from .paths import is_open

_UNCLEAR = re.compile(r"[$`{}\x00]")
"""What the shell makes something else of that we do not work out."""
_PIECE = re.compile(r"[\w./+%~*?\[\]^-]+")
"""What may be one of several paths in a word: of `--out=a`, `a:b`, `open('a')`."""
_APART = re.compile(r"[^\w./+%~*?\[\]^-]")
_MOST_PLACES = 1_000
"""In one word at which a path may begin; what has more is a text of its own, or a program."""
_ABOVE = re.compile(r"\.[*?\[]")
"""Begins a name that is expanded to others of which the folder above, `..`, is one."""
_MOVES = ("cd", "pushd", "popd")
_ENDS = frozenset(";&|()<>")
_NOWHERE = "/dev/null"
_LONGEST = 10_000
"""Characters that are looked at; a longer command is a program of its own."""


def command_inside(command: str, cwd: Path) -> bool:
    """Whether no word of a command leads out of a folder; links are followed, `~` and variables are not."""
    if len(command) > _LONGEST or _UNCLEAR.search(command):
        return False
    lexer = shlex.shlex(command.replace("\n", " ; "), posix=True, punctuation_chars=True)
    lexer.commenters = ""
    lexer.whitespace_split = True
    try:
        words = list(lexer)
    except ValueError:
        return False
    return not _goes_home(words) and all(
        _word_inside(word, cwd) for at, word in enumerate(words) if at or not word.startswith("/")
    )


def _goes_home(words: list[str]) -> bool:
    """Whether the folder is changed to one that is not named: `cd`, `cd -`, `popd`."""
    follows = [*words[1:], ";"]
    return any(
        word in _MOVES and (after == "-" or word == "popd" or after[:1] in _ENDS)
        for word, after in zip(words, follows, strict=True)
    )


def _word_inside(word: str, cwd: Path) -> bool:
    is_bounded = len(_APART.findall(word)) < _MOST_PLACES
    return is_bounded and all(_path_inside(path, cwd) for path in _paths_in(word))


def _paths_in(word: str) -> Iterator[str]:
    """Whatever in a word may be a path: each piece, and all there is from each place on where one may begin,
    for the name of a link may itself hold what stands between two paths. An option may have its value right
    behind its letter: `-I/usr`.
    """
    starts = (0, *(found.end() for found in _APART.finditer(word)))
    for path in (*(word[start:] for start in starts), *_PIECE.findall(word)):
        if path and path != _NOWHERE:
            yield path
            if path.startswith("-"):
                yield path[2:]


def _path_inside(path: str, cwd: Path) -> bool:
    if path.startswith("~") or any(_ABOVE.match(part) for part in path.split("/")):
        return False
    return is_open(cwd / path, cwd)
