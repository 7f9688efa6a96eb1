"""What ↑ goes back through in a session that is opened: what was typed in it, with the pictures."""

from collections.abc import Iterable
from typing import Final

from foldline.context.history_entries import Entries
from foldline.context.outline import MessageOutline
from foldline.protocol import BaseMessage, UserMessage
from foldline.tui.prompting.attachments import Attachments
from foldline.tui.transcript.shell import command_of

_MOST: Final = 1_000
"""Earlier prompts that ↑ goes back through."""


def typed_in(entries: Entries) -> list[BaseMessage]:
    """The newest prompts and commands, oldest first; nothing else that was said is looked at. For a thread:
    they may be on disk."""
    typed = [o for o in entries.outlines if isinstance(o, MessageOutline) and o.origin in ("typed", "shell")]
    return [entries.message(outline) for outline in typed[-_MOST:]]


def recalled(typed: Iterable[BaseMessage], attachments: Attachments) -> list[str]:
    """These as they were typed; their pictures are attached again."""
    found = []
    for message in typed:
        attachments.remember(message)
        if isinstance(message, UserMessage) and message.origin == "shell":
            if command := command_of(message):
                found.append(f"!{command}")
        else:
            found.append(message.text)
    return found
