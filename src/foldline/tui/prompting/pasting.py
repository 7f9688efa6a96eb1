"""What a paste becomes: itself, the pictures whose paths it is, or a placeholder where it is long."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from foldline.context.harmless import clean
from foldline.tui.prompting.attachments import Attachments, is_long
from foldline.tui.prompting.pictures import named_paths, pasted_paths, read_picture

MOST: Final = 16_000_000
"""Characters of a paste that are taken."""
_PIECE: Final = 64_000
"""Characters that are cleaned at a time: a few milliseconds."""


async def pasted(text: str, root: Path | None, attachments: Attachments) -> str:
    """What goes into the prompt for a paste; other things may run meanwhile.

    Raises:
        FoldlineError: it is a picture that cannot be taken, or far too long.
    """
    if len(text) > MOST:
        from foldline.protocol import FoldlineError

        raise FoldlineError(f"That is {len(text):,} characters, and {MOST:,} are taken: have a file read.")
    paths = () if root is None else await asyncio.to_thread(pasted_paths, text, root)
    if paths:
        return " ".join([await attached(path, attachments) for path in paths]) + " "
    cleaned = []
    for piece in _pieces(text):
        cleaned.append(clean(piece))
        await asyncio.sleep(0)
    harmless = "".join(cleaned)
    return attachments.paste(harmless) if is_long(harmless) else harmless


async def attached(path: Path, attachments: Attachments) -> str:
    """The placeholder of the picture in a file.

    Raises:
        FoldlineError: it cannot be taken.
    """
    return attachments.picture(path.name, await asyncio.to_thread(read_picture, path))


async def with_pictures(text: str, root: Path, attachments: Attachments) -> str:
    """The text with a placeholder for each picture file that it names with `@`.

    Raises:
        FoldlineError: one cannot be taken.
    """
    for word, path in await asyncio.to_thread(named_paths, text, root):
        text = text.replace(word, await attached(path, attachments))
    return text


def _pieces(text: str) -> Iterator[str]:
    """The text in pieces that end with a line, where lines are of ordinary length: what is read as one sign,
    such as CR LF, is not torn."""
    start = 0
    while start < len(text):
        end = text.rfind("\n", start, start + _PIECE) + 1 or start + _PIECE
        yield text[start:end]
        start = end
