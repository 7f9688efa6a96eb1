"""Commands defined in Markdown files, and prompts that call one, such as `/review src`."""

import re
import shlex
from collections.abc import Sequence
from functools import lru_cache

from foldline.agent.project.discovery import Extension, front_matter
from foldline.text.harmless import clean_line

NAME = re.compile(r"\w[\w.-]*(:\w[\w.-]*)*")
CALL = re.compile(r"/(\w[\w.:-]*)(?:\s+(.*))?", re.DOTALL)
"""Matches a prompt that may call a command. The groups are name and arguments."""
SHELL_LINE = re.compile(r"!`[^`\n]+`")
"""Matches a shell command in a prompt.

Claude Code runs such commands; here they stay plain text.
"""
EMPTY = "it is empty"
_PLACEHOLDER = re.compile(r"\$(ARGUMENTS|[1-9])(?!\w)")


@lru_cache(maxsize=512)
def parsed_command(data: bytes, parts: Sequence[str]) -> Extension:
    """Parse a command file.

    Args:
        parts: parts of the file's path below the commands folder, without `.md`. `a` and `b` make the command
            `a:b`.

    Raises:
        ValueError: the file is not a valid command. The message is a clause that states the reason.
    """
    fields, body = front_matter(data.decode("utf-8", "replace"))
    fields = fields or {}
    body = body.strip()
    if not body:
        raise ValueError(EMPTY)
    first_line = body.partition("\n")[0].strip("# ")
    default_hint = "[arguments]" if _PLACEHOLDER.search(body) else ""
    return Extension(
        "commands",
        ":".join(parts),
        description=clean_line(str(fields.get("description", first_line))),
        body=body,
        hint=clean_line(str(fields.get("argument-hint") or default_hint)),
    )


def words_of(arguments: str) -> list[str]:
    """Split arguments into words. Quotes work as in a shell."""
    try:
        return shlex.split(arguments)
    except ValueError:  # an unclosed quote, as in "don't"
        return arguments.split()


def filled(body: str, arguments: str) -> str:
    """Replace the placeholders in a command's text with arguments.

    Text in an argument that looks like a placeholder is not replaced.
    """
    words = words_of(arguments)

    def value(placeholder: re.Match[str]) -> str:
        if placeholder[1] == "ARGUMENTS":
            return arguments
        index = int(placeholder[1]) - 1
        return words[index] if index < len(words) else ""

    return _PLACEHOLDER.sub(value, body)
