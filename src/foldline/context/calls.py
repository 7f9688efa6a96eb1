"""What a tool call is about, in its own words: for rows, titles and lists. Knows our tools and others'."""

from typing import Literal, NamedTuple

from foldline.protocol import ToolCallPart

from .todos import at_hand, todo_list

_PATHS = ("path", "file_path", "filePath", "filename", "file", "notebook_path", "directory")
_SEARCHES = ("pattern", "query")
_WORDS = ("command", "cmd", *_SEARCHES, "url", "prompt", "description", "name")


class Subject(NamedTuple):
    """The argument that tells most. Foreign text: clean it before it is shown."""

    text: str
    kind: Literal["path", "search", "words"]


def subject_of(call: ToolCallPart) -> Subject:
    """The path a call acts on, else its command or pattern, else its first text; may be empty.

    Of a todo list, the item at hand.
    """
    arguments = call.parsed()
    todos = todo_list(arguments)
    if todos is not None:
        return Subject(at_hand(todos), "words")
    searches = any(isinstance(arguments.get(name), str) for name in _SEARCHES)
    for name in () if searches else _PATHS:
        value = arguments.get(name)
        if isinstance(value, str) and value.strip():
            return Subject(value, "path")
    for name in (*_WORDS, *arguments):
        value = arguments.get(name)
        if isinstance(value, str) and value.strip():
            return Subject(value.strip(), "search" if name in _SEARCHES else "words")
    return Subject("", "words")
