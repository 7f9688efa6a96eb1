"""What ↑ goes back through in a session that is opened: what was typed in it, with the pictures."""

from typing import Final

from foldline.context.history_entries import Entries
from foldline.context.outline import MessageOutline
from foldline.protocol import UserMessage
from foldline.tui.prompting.attachments import Attachments
from foldline.tui.transcript.shell import command_of

_MOST: Final = 1_000
"""Earlier prompts that ↑ goes back through."""


def recalled(entries: Entries, attachments: Attachments) -> list[str]:
    """The newest prompts and commands, oldest first; their pictures are attached again. Nothing else that was
    said is looked at."""
    typed = [o for o in entries.outlines if isinstance(o, MessageOutline) and o.origin in ("typed", "shell")]
    found = []
    for outline in typed[-_MOST:]:
        message = entries.message(outline)
        attachments.remember(message)
        if isinstance(message, UserMessage) and message.origin == "shell":
            if command := command_of(message):
                found.append(f"!{command}")
        else:
            found.append(message.text)
    return found
