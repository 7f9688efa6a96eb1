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

_PATHS = ("path", "file_path", "filePath", "filename", "file", "notebook_path", "directory", "absolute_path")
_PATTERNS = ("pattern", "query", "regex")
_OLD = frozenset({"old", "oldText", "old_text", "oldString", "old_string", "old_str"})
"""What edit tools call the text to replace: ours, pi, Claude Code, opencode, SWE-agent, kimi-cli."""
_PATCH = "*** Begin Patch"
"""Begins the one argument of apply_patch, as Codex and others have it."""
_PATCHED = ("*** Update File: ", "*** Delete File: ")


def arguments(message: AssistantMessage) -> Iterator[tuple[Argument, str]]:
    """The arguments of an answer's calls, each with its text."""
    for call in message.calls:
        given = call.parsed()
        yield from (("path", path) for name in _PATHS if isinstance(path := given.get(name), str))
        yield from (("pattern", text) for name in _PATTERNS if isinstance(text := given.get(name), str))
        yield from (("command", line) for line in facts.command_arguments(given) if _PATCH not in line)
        yield from (("old text", old) for old in old_texts(call))
        yield from (("path", path) for patch in _patches(call) for path in _patched(patch))


def old_texts(call: ToolCallPart) -> Iterator[str]:
    """What an edit says is in the file: each replacement, each hunk of a patch."""
    yield from _named_old(call.parsed())
    for patch in _patches(call):
        hunk: list[str] = []
        for line in [*patch.splitlines(), "@@"]:
            if line[:1] in ("-", " "):
                hunk.append(line[1:])
            elif line.startswith(("@@", "***")) and hunk:
                yield "\n".join(hunk)
                hunk = []


def _patches(call: ToolCallPart) -> Iterator[str]:
    return (text for text in facts.strings(call.parsed()) if text.lstrip().startswith(_PATCH))


def _patched(patch: str) -> Iterator[str]:
    for line in patch.splitlines():
        for sign in _PATCHED:
            if line.startswith(sign):
                yield line[len(sign) :].strip()


def _named_old(given: object) -> Iterator[str]:
    """At any depth: some tools take a list of replacements."""
    pending = [given]
    while pending:
        match pending.pop():
            case dict() as mapping:
                yield from (text for key, text in mapping.items() if key in _OLD and isinstance(text, str))
                pending += mapping.values()
            case list() as items:
                pending += items
            case _:
                pass
