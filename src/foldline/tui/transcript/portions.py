"""How much of a long history is shown at once. Pure."""

from collections.abc import Sequence
from typing import Final

from foldline.context.outline import MessageOutline, Outline

AT_FIRST: Final = 2_000_000
"""Tokens of the newest entries that are shown: some windows full, read in a moment."""
AT_A_TIME: Final = 400_000
"""Tokens of the entries before these that come at a time, when the reader gets there."""
AT_MOST: Final = 4_000
"""Entries that are shown, or come, at once, however short they are: a sixth of a second."""


def first_of_newest(outlines: Sequence[Outline], worth: int) -> int:
    """Where the newest part of a history begins that is worth so many tokens: with a prompt, where there is
    one. No more than `AT_MOST` entries."""
    at, room = len(outlines), worth
    while at > max(0, len(outlines) - AT_MOST) and room >= 0:
        at -= 1
        outline = outlines[at]
        room -= outline.tokens + outline.thinking if isinstance(outline, MessageOutline) else 0
    if not at:
        return 0
    prompts = (
        place
        for place in range(at, len(outlines))
        if isinstance(outline := outlines[place], MessageOutline) and outline.type == "user"
    )
    return next(prompts, at)
