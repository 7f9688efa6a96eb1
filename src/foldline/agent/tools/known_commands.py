"""Commands whose leading words say what they do: what "always" may allow beyond one exact command. Pure.

A rule by leading words must not become a general licence. So it is made only of commands known here, only
where the shell would change nothing about their words, and only with options known here: those that start no
other program, load no code or settings, write to no file they name, and do not change the folder or anything
else of the shell that runs them. Nor does it hold commands that follow links they find by themselves (`diff`
of two folders).
"""

import re
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path

from .shell_syntax import SimpleCommand, Word

_TABLE = Path(__file__).with_name("known_commands.txt")
"""`LEADING WORDS  OPTIONS`: letters after one `-` may stand together, as in `-la`; names of several letters
after one `-` (`find`, `go`) are whole words. A value may follow as `=VALUE`, or as the next word."""

_WHOLE_WORDS = ("find", "go")
"""Programs whose options of several letters begin with one `-`."""

_FRONTS = {
    "uv run": ("pytest", "mypy", "black", "isort", "flake8", "ruff check", "ruff format"),
    "poetry run": ("pytest", "mypy", "black", "isort", "flake8", "ruff check", "ruff format"),
    "python -m": ("pytest",),  # of others, a file of that name in the project would take the place
    "python3 -m": ("pytest",),
}
"""What may stand before some of them without changing what they do."""

_NAMES_A_SCRIPT = (("npm", "run"), ("pnpm", "run"), ("yarn", "run"))
"""Commands of which the next word is part of what they do; of `make`, all targets are."""

_FILTERS = frozenset(
    re.findall(r"\w+", "cat head tail wc nl cut tr sort comm cmp md5sum sha256sum grep rg file echo true")
)
"""What only looks at what it is given to read: of others, an editor or a script may take it for commands."""

_NUMBER = re.compile(r"-[0-9]+")
_PLAIN = re.compile(r"[A-Za-z][\w.:-]*", re.ASCII)


def _table() -> Iterator[tuple[tuple[str, ...], frozenset[str], str]]:
    for row in re.split(r"\n(?! )", _TABLE.read_text(encoding="utf-8").strip()):
        words = row.split()
        leading = tuple(takewhile(lambda word: not word.startswith("-"), words))
        options = words[len(leading) :]
        whole = leading[0] in _WHOLE_WORDS
        letters = "" if whole else "".join(o[1:] for o in options if not o.startswith("--"))
        named = frozenset(o for o in options if whole or o.startswith("--"))
        yield leading, named, letters


_KNOWN = {leading: (named, letters) for leading, named, letters in _table()}
_KNOWN |= {
    (*front.split(), *name.split()): _KNOWN[tuple(name.split())]
    for front, names in _FRONTS.items()
    for name in names
}
_MOST_LEADING = max(map(len, _KNOWN))


def leading_words(command: SimpleCommand) -> str:
    """The words a rule may be made of: `git status`, `npm run build`; empty where no rule but one for the
    exact command line will do."""
    words = [word.text for word in command.words if word.kind == "literal"]
    if len(words) < len(command.words) and not _only_prints(command):
        return ""
    starts = (tuple(words[:count]) for count in range(min(_MOST_LEADING, len(words)), 0, -1))
    leading = next((start for start in starts if start in _KNOWN), None)
    if leading is None or (command.is_fed and leading[0] not in _FILTERS):
        return ""
    named, letters = _KNOWN[leading]
    rest = words[len(leading) :]
    if leading in _NAMES_A_SCRIPT:
        if not rest or not _PLAIN.fullmatch(rest[0]):
            return ""
        leading, rest = (*leading, rest[0]), rest[1:]
    if leading == ("make",):
        targets = [word for word in rest if not word.startswith("-") and not word.isdecimal()]
        if not all(map(_PLAIN.fullmatch, targets)):
            return ""  # a variable, with its `=`, can name a program that is started
        leading = (*leading, *targets)
    return " ".join(leading) if all(_changes_nothing(word, named, letters) for word in rest) else ""


def _only_prints(command: SimpleCommand) -> bool:
    """Whether nothing that other commands print can make it do anything but print that."""
    first, *rest = command.words
    return first == Word("echo") and all(word.kind in ("literal", "output") for word in rest)


def _changes_nothing(word: str, named: frozenset[str], letters: str) -> bool:
    """Whether a word after the leading ones does not change what kind of command it is."""
    if not word.startswith("-"):
        return not word.startswith("@")  # a file of that name would hold options
    if word == "-" or word in named or _NUMBER.fullmatch(word):
        return True
    name, _, value = word.partition("=")
    if value or word.startswith("--"):
        return name in named
    return bool(letters) and all(char in letters for char in word[1:].rstrip("0123456789"))
