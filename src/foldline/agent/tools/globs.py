"""Glob patterns as regular expressions: `*`, `?`, `[…]`, `**` across folders, `{a,b}`."""

import re
from collections.abc import Callable

SLOW = re.compile(r"(\*+[^*/]+){4}|\*{3}|(\*\*/.*){6}")
"""A pattern that keeps a regular expression busy for hours with one long name, and with it all of Python;
nobody needs so many stars."""
_MOST = 256
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
        if len(done) + len(pending) > _MOST:
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
