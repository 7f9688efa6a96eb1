"""A key as people paste it, and as it is carried about: nothing that prints values can print it. Pure."""

import re
from typing import Final

_SET: Final = re.compile(r"(?:export\s+|set\s+|\$env:)?[A-Za-z_][A-Za-z0-9_]*\s*=\s*(?=[^\s=])")
"""What stands before a key that was copied with its variable: `export OPENAI_API_KEY=`."""
_BEARER: Final = re.compile(r"(?:authorization:\s*)?bearer\s+", re.IGNORECASE)
_QUOTES: Final = "\"'`“”‘’«»"


class Secret:
    """A key. Only `reveal` gives it away."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        return self._text

    def __len__(self) -> int:
        return len(self._text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._text == self._text

    def __hash__(self) -> int:
        return hash(len(self._text))

    def __repr__(self) -> str:
        return f"Secret({len(self._text)} characters)"

    @property
    def fault(self) -> str:
        """Why this can be no key, as a sentence; empty where it may be one."""
        if not self._text.isascii() or not self._text.isprintable() or " " in self._text:
            return "A key has no blanks and no other than plain characters: copy it again."
        return ""


def cleaned_key(pasted: str) -> str:
    """The key alone: without blanks and line ends around it, quotes, and the words it was copied with."""
    text = pasted.strip().rstrip(";")
    for words in (_SET, _BEARER):
        match = words.match(text)
        if match:
            text = text[match.end() :]
    return text.strip().strip(_QUOTES).strip()
