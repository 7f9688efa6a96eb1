"""The commands in a shell line.

Like in `facts`, no regex can backtrack far.
"""

import re
from collections.abc import Iterable, Iterator

from foldline.text.patterns import lazy_pattern

from .cues import READS_ONLY
from .facts import LONGEST

# One part of a shell word. Quotes, escapes and substitutions are consumed in full, so that separators in them
# do not count. Their length is bounded, because an unclosed one is searched for again at the next character.
_PIECE = (
    r"(?:\"(?:[^\"\\]|\\.){0,4000}+\"|'[^']{0,4000}+'|\$\((?:[^()]|\([^()]{0,400}+\)){0,400}+\)|\\.|"
    r"&(?=>)|(?<=[<>])&|[^\s\"'\\&|;\n]|[\"'](?=\S))"
)
_COMMAND = lazy_pattern(rf"{_PIECE}++(?:[ \t]++{_PIECE}++)*+", re.DOTALL)
_HERE_DOCUMENT = lazy_pattern(r"<<-?[ \t]{0,8}[\"']?[A-Za-z_]")
"""Matches the beginning of a here-document. Here-documents do not contain commands."""
_CONTINUED = lazy_pattern(r"\\\n[ \t]*+")
_VARIABLES = lazy_pattern(
    rf"(?:[A-Za-z_]\w{{0,80}}+={_PIECE}*+(?:[ \t]++|\Z))*+", re.DOTALL
)
_BEFORE_COMMAND = lazy_pattern(
    r"(?:(?:[({!]|do|then|else|time|sudo|[^\s()\"'$=]{1,40}+\)|(?:ba|z)?sh[ \t]++-l?c(?=[ \t]++[^\"']))"
    r"[ \t]++)++"
)
"""Matches the words that precede a command in a loop, a group or a case, or after `bash -lc`."""
_AFTER_COMMAND = lazy_pattern(
    r"(?:[ \t]{1,8}(?:\d?>>?[ \t]{0,8}(?:&\d|/dev/null)|&>[ \t]{0,8}/dev/null|[)}]))++\Z"
)
"""Matches redirections and the end of a group."""


def script(line: str) -> str:
    """Return a command line without its here-document.

    Continued lines are joined.
    """
    document = _HERE_DOCUMENT.search(line)
    if document:
        line = line[: document.start()]
    return joined(line)


def joined(text: str) -> str:
    """Join lines that end in a backslash with the lines that follow."""
    return _CONTINUED.sub(" ", text)


def commands_of(lines: Iterable[str]) -> tuple[str, ...]:
    """Return the `effective_commands` in all these lines."""
    return tuple(command for line in lines for command in effective_commands(line))


def effective_commands(line: str) -> Iterator[str]:
    """Yield the first line of each command that has an effect.

    For example, yields `npm test` for `cd web && npm test 2>&1 | tail -5`.
    """
    for match in _COMMAND.finditer(script(line)):
        command = _without_frame(match[0])
        variables = _VARIABLES.match(command)
        program = command[variables.end() :] if variables else command
        if program and not program.startswith("#") and not READS_ONLY.match(program):
            yield command


def _without_frame(command: str) -> str:
    """Remove loops, groups and redirections around a command."""
    opening = _BEFORE_COMMAND.match(command)
    if opening:
        command = command[opening.end() :]
    command = command.split("\n", 1)[0].lstrip("(")
    command = _AFTER_COMMAND.sub("", command[:LONGEST]).strip()
    open_count = command.count("(")
    close_count = command.count(")")
    if open_count > close_count:
        return ""
    if close_count > open_count:
        return command.rstrip(")")
    return command
