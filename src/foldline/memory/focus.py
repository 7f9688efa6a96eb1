"""The focus of a compaction: the topic that the user wants the summary to cover."""

from foldline.text.patterns import lazy_pattern

from .cues import WIDE, words_of

_TERM = lazy_pattern(rf"[{WIDE}]{{2}}|[^\W{WIDE}]{{2,40}}")
_COMMON_WORDS = words_of(
    """
    the and for with about what that this from into keep focus all any are was please on of to in is it
    """
)


class Focus:
    """The words of a focus.

    For scripts without spaces, pairs of characters are used instead of words.
    """

    def __init__(self, text: str) -> None:
        self._terms = {term.casefold() for term in _TERM.findall(text)} - _COMMON_WORDS

    def __bool__(self) -> bool:
        return bool(self._terms)

    def share(self, text: str) -> float:
        """Return the fraction of the focus words contained in text."""
        if not self._terms:
            return 0
        text = text.casefold()
        return sum(term in text for term in self._terms) / len(self._terms)
