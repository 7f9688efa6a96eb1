"""Commands that an "always" rule may cover by their leading words, for example `git status`.

A rule for leading words must not allow arbitrary actions. Therefore, it covers only the commands and options
listed here, and only if the shell does not expand their words. Listed options start no other program, load no
code or settings, write to no named file, and do not change the working folder or the state of the shell.
Commands that follow symbolic links they encounter, such as `diff` for two folders, are not listed.

All functions are pure.
"""

import re
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path

from .shell_syntax import SimpleCommand, Word

_TABLE = Path(__file__).with_name("known_commands.txt")
"""File with rows of the form `LEADING WORDS  OPTIONS`.

Letters after a single `-` can be combined, as in `-la`, except for `find` and `go`, where they form one word.
The value of an option follows as `=VALUE` or as the next word."""

_WHOLE_WORDS = ("find", "go")
"""Programs whose long options begin with a single `-`."""

_PYTHON_TOOLS = (
    "pytest",
    "mypy",
    "black",
    "isort",
    "flake8",
    "ruff check",
    "ruff format",
)
_FRONTS = {
    "uv run": _PYTHON_TOOLS,
    "poetry run": _PYTHON_TOOLS,
    "python -m": ("pytest",),  # a file in the project could shadow the other modules
    "python3 -m": ("pytest",),
}
"""Prefixes that do not change the meaning of a command, each with the commands that may follow."""

_NAMES_A_SCRIPT = (("npm", "run"), ("pnpm", "run"), ("yarn", "run"))
"""Commands whose next word, a script's name, is part of the rule.

For `make`, all targets are part of it.
"""

_FILTERS = frozenset(
    re.findall(
        r"\w+",
        "cat head tail wc nl cut tr sort comm cmp md5sum sha256sum grep rg file echo true",
    )
)
"""Commands that only read their input.

Other commands, such as an editor, could execute their input.
"""

_NUMBER = re.compile(r"-[0-9]+")
_PLAIN = re.compile(r"[A-Za-z][\w.:-]*", re.ASCII)


def _rows() -> Iterator[tuple[tuple[str, ...], tuple[frozenset[str], str]]]:
    for row in re.split(r"\n(?! )", _TABLE.read_text(encoding="utf-8").strip()):
        words = row.split()
        leading = tuple(takewhile(lambda word: not word.startswith("-"), words))
        options = words[len(leading) :]
        names = frozenset(options)
        letters = ""
        if leading[0] not in _WHOLE_WORDS:
            names = frozenset(option for option in options if option.startswith("--"))
            letters = "".join(option[1:] for option in options if option not in names)
        yield leading, (names, letters)


_KNOWN = dict(_rows())
_KNOWN |= {
    (*front.split(), *name.split()): _KNOWN[tuple(name.split())]
    for front, names in _FRONTS.items()
    for name in names
}
_MOST_LEADING = max(map(len, _KNOWN))


def leading_words(command: SimpleCommand) -> str:
    """Return the leading words of a command for a rule, for example `npm run build`.

    Returns an empty string if only a rule for the exact command line is safe.
    """
    words = [word.text for word in command.words if word.kind == "literal"]
    if len(words) < len(command.words) and not _only_prints(command):
        return ""
    starts = (
        tuple(words[:count]) for count in range(min(_MOST_LEADING, len(words)), 0, -1)
    )
    leading = next((start for start in starts if start in _KNOWN), None)
    if leading is None or (command.is_fed and leading[0] not in _FILTERS):
        return ""
    options, letters = _KNOWN[leading]
    arguments = words[len(leading) :]
    if leading in _NAMES_A_SCRIPT:
        if not arguments or not _PLAIN.fullmatch(arguments[0]):
            return ""
        leading = (*leading, arguments.pop(0))
    if leading == ("make",):
        targets = [
            word
            for word in arguments
            if not word.startswith("-") and not word.isdecimal()
        ]
        if not all(map(_PLAIN.fullmatch, targets)):
            return ""  # an assignment to a variable can name a program to start
        leading = (*leading, *targets)
    if not all(_is_harmless(word, options, letters) for word in arguments):
        return ""
    return " ".join(leading)


def _only_prints(command: SimpleCommand) -> bool:
    """Return whether this is an `echo` of plain words and command substitutions."""
    program, *arguments = command.words
    return program == Word("echo") and all(
        word.kind in ("literal", "output") for word in arguments
    )


def _is_harmless(word: str, options: frozenset[str], letters: str) -> bool:
    """Return whether an argument is a listed option, or not an option at all."""
    if not word.startswith("-"):
        return not word.startswith("@")  # `@` would read options from a file
    if word == "-" or word in options or _NUMBER.fullmatch(word):
        return True
    name, _, value = word.partition("=")
    if value or word.startswith("--"):
        return name in options
    return bool(letters) and all(
        char in letters for char in word[1:].rstrip("0123456789")
    )
