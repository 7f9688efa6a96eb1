"""Streamed text in pieces that can be read aloud: whole lines and sentences, never half a word."""

import re
from typing import Final

_END: Final = re.compile(r"\n|[.!?:;][\"'”’)\]]*[ \t]+|[。！？；：]")
"""Where a piece may end: a line, a sentence, a clause that is long enough to be spoken alone."""
_LONG: Final = 400
"""Characters after which a piece ends between two words, for text that has no sentences."""


class SentenceBuffer:
    """Holds what is streamed until it can be said."""

    def __init__(self) -> None:
        self._held = ""

    def add(self, text: str) -> str:
        """What can be said now that this has come; often nothing."""
        searched = max(len(self._held) - 8, 0)  # an end may begin in what is held
        self._held += text
        ends = [found.end() for found in _END.finditer(self._held, searched)]
        if ends:
            return self._take(ends[-1])
        if len(self._held) > _LONG:
            return self._take(self._held.rfind(" ") + 1 or len(self._held))
        return ""

    def rest(self) -> str:
        """What is left when nothing more comes."""
        return self._take(len(self._held))

    def _take(self, end: int) -> str:
        said, self._held = self._held[:end], self._held[end:]
        return said
