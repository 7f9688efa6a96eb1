"""The files of a tree as a programmer means them, without `.git` and what `.gitignore` leaves out; and glob
patterns: `*`, `?`, `[…]`, `**` across folders, `{a,b}`.
"""

import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pathspec import GitIgnoreSpec

from foldline.files import is_there, read_regular

SLOW = re.compile(r"(\*+[^*/]+){4}|\*{3}|(\*\*/.*){6}")
"""A pattern that keeps a regular expression busy for hours with one long name, and with it all of Python;
nobody needs so many stars."""
_MOST_CHOICES = 256
"""Alternatives a pattern with braces may stand for."""


def matcher(pattern: str, *, anywhere: bool = False) -> Callable[[str], bool]:
    """Whether a relative path (with `/`) fits the pattern.

    With `anywhere`, a pattern without `/` is about the name alone, in whatever folder, as in `rg --glob`.

    Raises:
        ValueError: the pattern makes no sense.
    """
    pattern = pattern.removeprefix("./")
    if anywhere and "/" not in pattern:
        pattern = f"**/{pattern}"
    try:
        choices = _choices(pattern)
        if any(map(SLOW.search, choices)):
            raise ValueError("too many stars in it")
        regex = re.compile("|".join(map(_regex, choices)), re.DOTALL)
    except re.error as error:
        raise ValueError(f"not a glob pattern: {error}") from None
    return lambda path: regex.fullmatch(path) is not None


def _choices(pattern: str) -> list[str]:
    """The pattern once for each combination of its `{a,b}`; unbalanced braces are plain characters."""
    done: list[str] = []
    pending = [pattern]
    while pending:
        current = pending.pop()
        braces = re.search(r"\{([^{}]*,[^{}]*)\}", current)
        if braces is None:
            done.append(current)
        else:
            parts = braces[1].split(",")
            pending.extend(current[: braces.start()] + part + current[braces.end() :] for part in parts)
        if len(done) + len(pending) > _MOST_CHOICES:
            raise ValueError("too many alternatives in braces")
    return done


def _regex(pattern: str) -> str:
    out: list[str] = []
    position = 0
    while position < len(pattern):
        rest = pattern[position:]
        if rest.startswith("**/") and (position == 0 or pattern[position - 1] == "/"):
            out.append("(?:[^/]+/)*")
            position += 3
        elif rest.startswith("**"):
            out.append(".*")
            position += 2
        elif rest[0] == "*":
            out.append("[^/]*")
            position += 1
        elif rest[0] == "?":
            out.append("[^/]")
            position += 1
        elif bracket := re.match(r"\[([!^]?)(\]?[^\]]*)\]", rest):
            inner = bracket[2].replace("\\", "\\\\").replace("[", "\\[")
            inner = "\\" + inner if inner.startswith(("]", "^")) else inner
            out.append(f"[^/{inner}]" if bracket[1] else f"(?!/)[{inner}]")
            position += bracket.end()
        else:
            out.append(re.escape(rest[0]))
            position += 1
    return "".join(out)


_MOST_BYTES = 1024 * 1024
"""Of an ignore file, which may be anything: a pipe, a link to what has no end."""


@dataclass(frozen=True, slots=True)
class _Rules:
    """The ignore file of one folder."""

    folder: str
    spec: GitIgnoreSpec

    def verdict(self, path: str, is_folder: bool) -> bool | None:
        """True: ignored. False: expressly not. None: says nothing."""
        relative = path[len(self.folder.rstrip(os.sep)) + 1 :].replace(os.sep, "/")
        return self.spec.check_file(relative + "/" if is_folder else relative).include


def files_below(root: Path, stop: Callable[[], bool] = lambda: False) -> Iterator[str]:
    """Absolute paths of the files below a folder, folder by folder in name order.

    `.gitignore` files from the repository's top down to each folder are honoured, in a repository or not;
    a repository within another has only its own.
    Links to folders are not entered, so loops end. Folders that may not be read are passed over. Ends early
    where `stop` says so.
    """
    start = os.path.abspath(root)  # noqa: PTH100 (links stay as the caller wrote them)
    pending: list[tuple[str, tuple[_Rules, ...]]] = [(start, _rules_above(start))]
    while pending and not stop():
        folder, inherited = pending.pop()
        entries, rules = _unignored(folder, inherited)
        yield from (entry.path for entry in entries if not _is_folder(entry))
        pending.extend((entry.path, rules) for entry in reversed(entries) if _is_folder(entry))


def entries_in(folder: Path) -> Iterator[str]:
    """Absolute paths of what lies in a folder and `files_below` would find; folders end in a separator."""
    start = os.path.abspath(folder)  # noqa: PTH100 (links stay as the caller wrote them)
    entries, _ = _unignored(start, _rules_above(start))
    return (entry.path + (os.sep if _is_folder(entry) else "") for entry in entries)


def _unignored(
    folder: str, inherited: tuple[_Rules, ...]
) -> tuple[list[os.DirEntry[str]], tuple[_Rules, ...]]:
    """What lies in a folder and is not ignored, and the rules that hold in it."""
    entries = _entries(folder)
    is_repository = any(entry.name == ".git" for entry in entries)
    rules = (*(() if is_repository else inherited), *_rules_of(folder))
    kept = [
        entry
        for entry in entries
        if entry.name != ".git" and not _is_ignored(rules, entry.path, _is_folder(entry))
    ]
    return kept, rules


def _is_ignored(rules: tuple[_Rules, ...], path: str, is_folder: bool) -> bool:
    for rule in reversed(rules):
        verdict = rule.verdict(path, is_folder)
        if verdict is not None:
            return verdict
    return False


def _rules_above(start: str) -> tuple[_Rules, ...]:
    """The rules of the folders above, up to the repository's top. Rules that ignore `start` itself do not
    count: whoever names an ignored folder wants to see into it."""
    found: list[_Rules] = []
    folder = Path(start)
    while not is_there(folder / ".git") and folder.parent != folder:
        folder = folder.parent
        found.extend(_rules_of(str(folder)))
    return tuple(rules for rules in reversed(found) if not rules.verdict(start, True))


def _rules_of(folder: str) -> list[_Rules]:
    rules = []
    for name in (".git/info/exclude", ".gitignore"):
        try:
            data = read_regular(Path(folder) / name, _MOST_BYTES)
        except OSError:
            continue
        rules.append(_Rules(folder, _spec_of(data.decode("utf-8", "replace").splitlines())))
    return rules


def _spec_of(lines: Sequence[str]) -> GitIgnoreSpec:
    """One bad pattern does not take the others with it."""
    quick = [line for line in lines if not SLOW.search(line)]
    try:
        return GitIgnoreSpec.from_lines(quick)
    except ValueError:
        good = []
        for line in quick:
            try:
                GitIgnoreSpec.from_lines([line])
            except ValueError:
                continue
            good.append(line)
        return GitIgnoreSpec.from_lines(good)


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except (OSError, ValueError):  # it may not be listed, or no folder can have this name
        return []


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:
        return False
