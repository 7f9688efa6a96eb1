"""Lists the files in a folder tree that git does not ignore, and matches glob patterns.

Patterns may contain `*`, `?`, `[…]`, `{a,b}`, and `**`, which also matches `/`.
"""

import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from foldline.files import is_there, read_regular

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

TOO_MANY_STARS = "it has too many `*` wildcards"
SLOW = re.compile(r"(\*+[^*/]+){4}|\*{3}|(\*\*/.*){6}")
"""Matches patterns whose regular expression could take hours for a single long name."""
_MOST_CHOICES = 256
"""Maximum number of alternatives that the braces of a pattern may produce.

A pattern with more is invalid.
"""


def matcher(pattern: str, *, anywhere: bool = False) -> Callable[[str], bool]:
    """Return a predicate for relative paths (with `/`) that match a glob pattern.

    Args:
        anywhere: whether a pattern without `/` matches the name in any folder, as with `rg --glob`.

    Raises:
        ValueError: the pattern is not valid. The message is a clause that states the reason.
    """
    pattern = pattern.removeprefix("./")
    if anywhere and "/" not in pattern:
        pattern = f"**/{pattern}"
    try:
        choices = _choices(pattern)
        if any(map(SLOW.search, choices)):
            raise ValueError(TOO_MANY_STARS)
        regex = re.compile("|".join(map(_regex, choices)), re.DOTALL)
    except re.error as error:
        raise ValueError(str(error)) from None
    return lambda path: regex.fullmatch(path) is not None


def _choices(pattern: str) -> list[str]:
    """Expand each `{a,b}`, and return all combinations.

    Unbalanced braces are plain characters.
    """
    choices: list[str] = []
    pending = [pattern]
    while pending:
        current = pending.pop()
        braces = re.search(r"\{([^{}]*,[^{}]*)\}", current)
        if braces is None:
            choices.append(current)
        else:
            start = current[: braces.start()]
            end = current[braces.end() :]
            pending.extend(start + part + end for part in braces[1].split(","))
        if len(choices) + len(pending) > _MOST_CHOICES:
            raise ValueError("it has too many alternatives in braces")
    return choices


def _regex(pattern: str) -> str:
    out: list[str] = []
    position = 0
    while position < len(pattern):
        at_name_start = position == 0 or pattern[position - 1] == "/"
        part = _PART.match(pattern, position)
        assert part is not None
        text = part[0]
        if text == "**/" and not at_name_start:
            text = "**"
        out.append(_part_regex(text))
        position += len(text)
    return "".join(out)


def _part_regex(part: str) -> str:
    """Translate a wildcard, a bracket expression or a plain character to a regular expression."""
    wildcard = _WILDCARDS.get(part)
    if wildcard is not None:
        return wildcard
    if len(part) == 1:
        return re.escape(part)
    is_negative = part[1] in "!^"
    characters = (
        part[2 if is_negative else 1 : -1].replace("\\", "\\\\").replace("[", "\\[")
    )
    if characters.startswith(("]", "^")):
        characters = "\\" + characters
    return f"[^/{characters}]" if is_negative else f"(?!/)[{characters}]"


_PART = re.compile(r"\*\*/|\*\*|\[[!^]?\]?[^\]]*\]|.", re.DOTALL)
_WILDCARDS = {"**/": "(?:[^/]+/)*", "**": ".*", "*": "[^/]*", "?": "[^/]"}


_MOST_BYTES = 1024 * 1024
"""Maximum number of bytes that are read from an ignore file. The rest has no effect."""


@dataclass(frozen=True, slots=True)
class _Rules:
    """The rules of one ignore file, which apply to its folder."""

    folder: str
    spec: "GitIgnoreSpec"

    def verdict(self, path: str, is_folder: bool) -> bool | None:
        """Return whether these rules ignore a path.

        Returns False if a pattern with `!` includes the path, and None if no pattern matches.
        """
        relative = path[len(self.folder.rstrip(os.sep)) + 1 :].replace(os.sep, "/")
        return self.spec.check_file(relative + "/" if is_folder else relative).include


def files_below(root: Path, stop: Callable[[], bool] = lambda: False) -> Iterator[str]:
    """Yield the absolute paths of all files below a folder that are not ignored.

    The paths are sorted by folder and name.

    In a repository, the `.gitignore` files from its top folder down to each folder apply; elsewhere, those of
    all parent folders. In a nested repository, only its own files apply. Links to folders are not followed,
    and unreadable folders are skipped. Ends early once `stop()` returns true.
    """
    start = os.path.abspath(root)  # noqa: PTH100 (links stay as the caller wrote them)
    pending: list[tuple[str, tuple[_Rules, ...]]] = [(start, _rules_above(start))]
    while pending and not stop():
        folder, inherited = pending.pop()
        entries, rules = _unignored(folder, inherited)
        yield from (entry.path for entry in entries if not _is_folder(entry))
        pending.extend(
            (entry.path, rules) for entry in reversed(entries) if _is_folder(entry)
        )


def entries_in(folder: Path) -> Iterator[str]:
    """Return the absolute paths of the entries of a folder that are not ignored.

    Paths of folders end with a separator.
    """
    start = os.path.abspath(folder)  # noqa: PTH100 (links stay as the caller wrote them)
    entries, _ = _unignored(start, _rules_above(start))
    return (entry.path + (os.sep if _is_folder(entry) else "") for entry in entries)


def _unignored(
    folder: str, inherited: tuple[_Rules, ...]
) -> tuple[list[os.DirEntry[str]], tuple[_Rules, ...]]:
    """Return the entries of a folder that are not ignored, and the rules that apply in the folder."""
    entries = _entries(folder)
    if any(entry.name == ".git" for entry in entries):
        inherited = ()
    rules = (*inherited, *_rules_of(folder))
    unignored = [
        entry
        for entry in entries
        if entry.name != ".git"
        and not _is_ignored(rules, entry.path, _is_folder(entry))
    ]
    return unignored, rules


def _is_ignored(rules: tuple[_Rules, ...], path: str, is_folder: bool) -> bool:
    for rule in reversed(rules):
        verdict = rule.verdict(path, is_folder)
        if verdict is not None:
            return verdict
    return False


def _rules_above(start: str) -> tuple[_Rules, ...]:
    """Return the rules of the parent folders, up to the top folder of the repository.

    Rules that ignore `start` itself are left out, so that the content of an ignored folder can be listed.
    """
    rules: list[_Rules] = []
    folder = Path(start)
    while not is_there(folder / ".git") and folder.parent != folder:
        folder = folder.parent
        rules.extend(_rules_of(str(folder)))
    return tuple(rule for rule in reversed(rules) if not rule.verdict(start, True))


def _rules_of(folder: str) -> list[_Rules]:
    rules = []
    for name in (".git/info/exclude", ".gitignore"):
        try:
            data = read_regular(Path(folder) / name, _MOST_BYTES)
        except OSError:
            continue
        rules.append(
            _Rules(folder, _spec_of(data.decode("utf-8", "replace").splitlines()))
        )
    return rules


def _spec_of(lines: Sequence[str]) -> "GitIgnoreSpec":
    """Compile the patterns of an ignore file, without invalid and slow ones."""
    from pathspec import (
        GitIgnoreSpec,  # slow to import, and needed only in folders with ignore files
    )

    quick = [line for line in lines if not SLOW.search(line)]
    try:
        return GitIgnoreSpec.from_lines(quick)
    except ValueError:
        return GitIgnoreSpec.from_lines(filter(_is_valid, quick))


def _is_valid(line: str) -> bool:
    from pathspec import GitIgnoreSpec

    try:
        GitIgnoreSpec.from_lines([line])
    except ValueError:
        return False
    return True


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except (OSError, ValueError):  # the folder is not readable, or the name is invalid
        return []


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:
        return False
