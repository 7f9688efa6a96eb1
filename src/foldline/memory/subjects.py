"""The subject of a tool call: its most informative argument."""

from collections.abc import Mapping
from typing import Literal, NamedTuple

from foldline.protocol import ToolCallPart

from .facts import PATCHED, PLACE_ARGUMENTS, patches, scripted_commands
from .todos import current_todo, todo_list

_SEARCHES = ("pattern", "query")
_WORDS = ("command", "cmd", *_SEARCHES, "url", "prompt", "description", "name")


class Subject(NamedTuple):
    """The most informative argument of a call.

    The text is untrusted, so sanitise it before displaying it.
    """

    text: str
    kind: Literal["path", "search", "words"]


def subject_of(call: ToolCallPart) -> Subject:
    """Return the path, command, pattern or text of a call.

    For a todo list, returns the current item; for a script or patch, the commands or files in it; for a
    prompt, the first line.
    """
    arguments = call.parsed()
    todos = todo_list(arguments)
    if todos is not None:
        return Subject(current_todo(todos), "words")
    source = arguments.get("input")
    subject = _subject_of_source(source, arguments) if isinstance(source, str) else None
    return subject or _telling_argument(arguments)


def _telling_argument(arguments: Mapping[str, object]) -> Subject:
    texts = {
        name: value
        for name, value in arguments.items()
        if isinstance(value, str) and value.strip()
    }
    is_search = any(isinstance(arguments.get(name), str) for name in _SEARCHES)
    paths = () if is_search else PLACE_ARGUMENTS
    name = next((name for name in (*paths, *_WORDS, *texts) if name in texts), None)
    if name is None:
        return Subject("", "words")
    if name in paths:
        return Subject(texts[name], "path")
    text = texts[name].strip()
    if name in _SEARCHES:
        return Subject(text, "search")
    if name == "prompt":
        text = text.partition("\n")[0]
    return Subject(text, "words")


def _subject_of_source(source: str, arguments: Mapping[str, object]) -> Subject | None:
    """Return the subject of a call to Codex's `exec` or `apply_patch`.

    The subject consists of the commands or files in the call's input.
    """
    commands = "\n".join(scripted_commands(arguments))
    if commands:
        return Subject(commands, "words")
    paths = dict.fromkeys(
        path for patch in patches(source) for path in PATCHED.findall(patch)
    )
    if paths:
        return Subject(", ".join(paths), "path" if len(paths) == 1 else "words")
    call = source.partition("await tools.")[
        2
    ].strip()  # `write_stdin({session_id:1})` in `const r = …`
    return Subject(call, "words") if call else None
