"""Searches earlier prompts.

Prompts of this session come first, then those of other sessions in the same folder.
"""

import asyncio
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from foldline.files import opened
from foldline.protocol import BaseMessage, UserMessage
from foldline.tui.lists.picker import Picker
from foldline.tui.lists.rows import PickerItem
from foldline.tui.prompting.attachments import Attachments, detach_pictures
from foldline.view.calls import command_of
from foldline.view.outline import Entries, MessageOutline

TITLE: Final = "Earlier prompts"
THIS_SESSION: Final = "this session"
_SESSIONS: Final = 30
"""Maximum number of other sessions that are searched, newest first."""
_BYTES: Final = 32 * 2**20
"""Maximum number of bytes read from the end of each event file."""
_MOST: Final = 2_000
"""Maximum number of prompts listed. Older ones are left out."""
_SHOWN: Final = 300
"""Maximum number of characters of a prompt that are searched and shown."""


class EarlierPrompts(Picker):
    """A picker of earlier prompts, docked above the prompt.

    The result is the number of the chosen prompt, as a string. `text_of` returns its full text.
    """

    DEFAULT_CSS = """
    EarlierPrompts { align: left bottom; }
    EarlierPrompts > ListBox { width: 100%; }
    """

    def __init__(
        self, prompts: Sequence[str], root: Path | None, *, above: int
    ) -> None:
        """Create the picker.

        Args:
            prompts: Prompts of this session, oldest first.
            root: Folder whose other sessions are searched.
            above: Number of rows left free at the bottom of the screen.
        """
        self._texts = list(dict.fromkeys(reversed(prompts)))[:_MOST]
        self._root = root
        self._above = above
        super().__init__(TITLE, self._items(THIS_SESSION))

    def text_of(self, number: str) -> str:
        return self._texts[int(number)]

    def on_mount(self) -> None:
        self.box.styles.margin = (0, 0, self._above, 0)
        if self._root is not None:
            self.run_worker(
                self._search_folder(self._root), group="earlier", exclusive=True
            )

    def _items(self, session: str, first: int = 0) -> list[PickerItem]:
        return [
            PickerItem(str(number), text[:_SHOWN].strip(), session)
            for number, text in enumerate(self._texts[first:], start=first)
        ]

    async def _search_folder(self, root: Path) -> None:
        for title, prompts in await asyncio.to_thread(
            lambda: list(prompts_of_folder(root))
        ):
            first = len(self._texts)
            self._texts = list(dict.fromkeys((*self._texts, *prompts)))[:_MOST]
            self.offer((*self._choices, *self._items(title, first)))
            await asyncio.sleep(0)


def prompts_of_folder(root: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield the title and prompts of each session in a folder.

    The most recently written session and its newest prompt come first. Unreadable sessions are skipped.
    Blocking: run it in a thread.
    """
    from foldline.history import data_home, list_sessions
    from foldline.protocol import FoldlineError

    try:
        infos = list_sessions(data_home(), root)
    except FoldlineError:
        return
    for info in infos[:_SESSIONS]:
        try:
            yield info.meta.title or info.id, prompts_in(info.path)
        except OSError:
            continue


def prompts_in(events: Path) -> list[str]:
    """Read the prompts typed in a session, newest first.

    Only lines with user messages are parsed.
    """
    with opened(events) as file:
        size = os.fstat(file.fileno()).st_size
        file.seek(max(size - _BYTES, 0))
        texts = [
            _typed_text(line) for line in file if line.startswith(b'{"type":"user"')
        ]
    return list(filter(None, reversed(texts)))


def _typed_text(line: bytes) -> str:
    try:
        record = json.loads(line)
        if record.get("origin", "typed") != "typed":
            return ""
        texts = (
            part.get("text", "")
            for part in record["parts"]
            if part.get("type") == "text" and part.get("origin", "typed") == "typed"
        )
        return detach_pictures("\n".join(texts))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return ""


_MOST_RECALLED: Final = 1_000
"""Maximum number of earlier prompts of a session that ↑ recalls."""


def typed_messages(entries: Entries) -> list[BaseMessage]:
    """Return the newest prompts and shell commands, oldest first.

    Other messages are not read. Blocking, because messages may be on disk: run it in a thread.
    """
    outlines = [
        outline for outline in entries.outlines if isinstance(outline, MessageOutline)
    ]
    typed = [outline for outline in outlines if outline.origin in ("typed", "shell")]
    return [entries.message(outline) for outline in typed[-_MOST_RECALLED:]]


def prompt_texts(
    messages: Iterable[BaseMessage], attachments: Attachments
) -> list[str]:
    """Return the typed texts of messages, and store their images in `attachments`."""
    texts = []
    for message in messages:
        attachments.remember(message)
        if not isinstance(message, UserMessage) or message.origin != "shell":
            texts.append(
                message.editable if isinstance(message, UserMessage) else message.text
            )
        elif command := command_of(message):
            texts.append(f"!{command}")
    return texts
