"""Search in earlier prompts, docked at the prompt: this session's first, then those of its folder."""

import asyncio
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from foldline.context.calls import command_of
from foldline.context.outline import Entries, MessageOutline
from foldline.files import opened
from foldline.protocol import BaseMessage, UserMessage, entered
from foldline.tui.lists.picker import Choice, Picker
from foldline.tui.prompting.attachments import Attachments, detached

_SESSIONS: Final = 30
"""Other sessions of the folder that are looked through, the newest."""
_BYTES: Final = 32 * 2**20
"""Of the event file of one of them."""
_MOST: Final = 2_000
"""Prompts that are searched at most."""
_SHOWN: Final = 300
"""Characters of a prompt that are searched and shown."""


class EarlierPrompts(Picker):
    """Gives back the number of the prompt taken, as text; `text_of` has it in full."""

    DEFAULT_CSS = """
    EarlierPrompts { align: left bottom; }
    EarlierPrompts > ListBox { width: 100%; }
    """

    def __init__(self, prompts: Sequence[str], root: Path | None, *, above: int) -> None:
        """`prompts` of this session, oldest first; `above` is how many rows of the screen stay free below."""
        self._texts = list(dict.fromkeys(reversed(prompts)))[:_MOST]
        self._root = root
        self._above = above
        super().__init__("Earlier prompts", self._listed("this session"))

    def text_of(self, number: str) -> str:
        return self._texts[int(number)]

    def on_mount(self) -> None:
        self.box.styles.margin = (0, 0, self._above, 0)
        if self._root is not None:
            self.run_worker(self._look_further(self._root), group="earlier", exclusive=True)

    def _listed(self, where: str, first: int = 0) -> list[Choice]:
        return [
            Choice(str(at), text[:_SHOWN].strip(), where)
            for at, text in enumerate(self._texts[first:], start=first)
        ]

    async def _look_further(self, root: Path) -> None:
        for title, prompts in await asyncio.to_thread(lambda: list(prompts_of_folder(root))):
            known = set(self._texts)
            fresh = [text for text in dict.fromkeys(prompts) if text not in known]
            first = len(self._texts)
            self._texts += fresh[: max(_MOST - first, 0)]
            self.offer((*self._choices, *self._listed(title, first)))
            await asyncio.sleep(0)


def prompts_of_folder(root: Path) -> Iterator[tuple[str, list[str]]]:
    """(title, prompts, newest first) of the sessions of a folder, the one last written to first. Slow: for a
    thread. What cannot be read is passed over."""
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
    """What was typed in a session, newest first. Only lines that hold a user message are parsed."""
    with opened(events) as file:
        size = os.fstat(file.fileno()).st_size
        file.seek(max(size - _BYTES, 0))
        found = [text for line in file if line.startswith(b'{"type":"user"') and (text := _typed(line))]
    return found[::-1]


def _typed(line: bytes) -> str:
    try:
        record = json.loads(line)
        said = (part.get("text", "") for part in record["parts"] if part.get("type") == "text")
        return detached(entered("\n".join(said))) if record.get("origin", "typed") == "typed" else ""
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return ""


_MOST_RECALLED: Final = 1_000
"""Earlier prompts that ↑ goes back through."""


def typed_in(entries: Entries) -> list[BaseMessage]:
    """The newest prompts and commands, oldest first; nothing else that was said is looked at. For a thread:
    they may be on disk."""
    typed = [o for o in entries.outlines if isinstance(o, MessageOutline) and o.origin in ("typed", "shell")]
    return [entries.message(outline) for outline in typed[-_MOST_RECALLED:]]


def recalled(typed: Iterable[BaseMessage], attachments: Attachments) -> list[str]:
    """These as they were typed; their pictures are attached again."""
    found = []
    for message in typed:
        attachments.remember(message)
        if isinstance(message, UserMessage) and message.origin == "shell":
            if command := command_of(message):
                found.append(f"!{command}")
        else:
            found.append(entered(message.text))
    return found
