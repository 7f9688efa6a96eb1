"""Blocks: the immutable pieces a transcript or a panel is made of. Their plain kinds are in `plain`.

Text given to a block must be clean (`clean()`); it is drawn as it is and never parsed as markup.
"""

from dataclasses import dataclass, field
from typing import Final

from textual.strip import Strip

from foldline.tui.blocks.styles import Styles

Key = tuple[int, int]
"""(entry index, piece number): the one way to name a place; a row number never is."""

MIN_WIDTH: Final = 8
"""Narrower bodies are drawn at this width and cropped by the screen."""


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """One immutable piece; a changed block is a new object with the same key.

    Equality is identity, so that drawn strips can be cached by the block itself.
    """

    key: Key
    gap: int = field(default=0, kw_only=True)
    """Blank lines above the body; they belong to this block."""
    stop: bool = field(default=True, kw_only=True)
    """Whether the cursor stops here."""
    wide: bool = field(default=False, kw_only=True)
    """Drawn across the gutter, of which only the cursor's column stays."""

    def render(self, width: int, styles: Styles) -> list[Strip]:
        """The lines of the body, each at most `width` cells, without gap and gutter."""
        raise NotImplementedError

    def estimate(self, width: int) -> int:
        """About how many lines `render` gives; cheap, corrected when the block is first drawn."""
        raise NotImplementedError

    def text(self) -> str:
        """What search looks at and copying the whole block gives."""
        raise NotImplementedError
