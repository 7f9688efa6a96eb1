"""The second judge: which arguments of the recorded next call could have been written from the view alone.

An argument is a path, the text an edit replaces, a command or a search pattern. It could have been written
where *all* stands in the request that the argument takes from what was said before: the lines of a text to
replace, the names in the others. What it says for the first time is the model's own and asked of no view; an
argument that says nothing from before is not counted.
"""

from collections.abc import Iterator
from typing import Literal, get_args

from foldline.context import facts
from foldline.protocol import AssistantMessage, ToolCallPart

Argument = Literal["path", "old text", "command", "pattern"]
ARGUMENTS: tuple[Argument, ...] = get_args(Argument)

_PATTERNS = ("pattern", "query", "regex")
_PATCHED = ("*** Update File: ", "*** Delete File: ")


def arguments(message: AssistantMessage) -> Iterator[tuple[Argument, str]]:
    """The arguments of an answer's calls, each with its text."""
    for call in message.calls:
        given = call.parsed()
        yield from (
            ("path", path) for name in facts.PLACE_ARGUMENTS if isinstance(path := given.get(name), str)
        )
        yield from (("pattern", text) for name in _PATTERNS if isinstance(text := given.get(name), str))
        yield from (("command", line) for line in facts.command_arguments(given) if facts.PATCH not in line)
        yield from (("old text", old) for old in old_texts(call))
        yield from (("path", path) for patch in facts.patches(given) for path in _patched(patch))


def old_texts(call: ToolCallPart) -> Iterator[str]:
    """What an edit says is in the file: each replacement, each hunk of a patch."""
    given = call.parsed()
    yield from facts.named(given, facts.OLD_ARGUMENTS)
    for patch in facts.patches(given):
        hunk: list[str] = []
        for line in [*patch.splitlines(), "@@"]:
            if line[:1] in ("-", " "):
                hunk.append(line[1:])
            elif line.startswith(("@@", "***")) and hunk:
                yield "\n".join(hunk)
                hunk = []


def _patched(patch: str) -> Iterator[str]:
    for line in patch.splitlines():
        for sign in _PATCHED:
            if line.startswith(sign):
                yield line[len(sign) :].strip()
