"""Whether a shell command stays in the working folder, as far as its words tell. Reads the disk.

A hint for approvals, and no wall: a program opens what it likes. The unclear counts as outside.
"""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from .paths import is_inside

_UNCLEAR = re.compile(r"[$`{}\x00]")
"""What the shell makes something else of that we do not work out."""
_APART = re.compile(r"[^\w./+%~*?\[\]^-]+")
"""What stands between two paths in one word: `--out=a`, `a:b`, `open('a')`."""
_ABOVE = re.compile(r"\.[*?\[]")
"""Begins a name that is expanded to others of which the folder above, `..`, is one."""
_MOVES = ("cd", "pushd", "popd")
_ENDS = frozenset(";&|()<>")
_NOWHERE = "/dev/null"
_MOST_WORDS = 2_000
"""Words that are looked at; a longer command is a program of its own."""


def command_inside(command: str, cwd: Path) -> bool:
    """Whether no word of a command leads out of a folder; links are followed, `~` and variables are not."""
    if _UNCLEAR.search(command):
        return False
    lexer = shlex.shlex(command.replace("\n", " ; "), posix=True, punctuation_chars=True)
    lexer.commenters = ""
    lexer.whitespace_split = True
    try:
        words = list(lexer)
    except ValueError:
        return False
    return (
        len(words) <= _MOST_WORDS
        and not _goes_home(words)
        and all(_word_inside(word, cwd) for at, word in enumerate(words) if at or not word.startswith("/"))
    )


def _goes_home(words: list[str]) -> bool:
    """Whether the folder is changed to one that is not named: `cd`, `cd -`, `popd`."""
    follows = [*words[1:], ";"]
    return any(
        word in _MOVES and (after == "-" or word == "popd" or after[:1] in _ENDS)
        for word, after in zip(words, follows, strict=True)
    )


def _word_inside(word: str, cwd: Path) -> bool:
    return all(_path_inside(path, cwd) for path in _paths_in(word))


def _paths_in(word: str) -> Iterator[str]:
    """Whatever in a word may be a path. An option may have its value right behind its letter: `-I/usr`."""
    for piece in _APART.split(word):
        if piece and piece != _NOWHERE:
            yield piece
            if piece.startswith("-"):
                yield piece[2:]


def _path_inside(path: str, cwd: Path) -> bool:
    if path.startswith("~") or any(_ABOVE.match(part) for part in path.split("/")):
        return False
    return is_inside(cwd / path, cwd)
