"""Evidence for the size of a model's window, in tokens.

The evidence comes from the server's own statement and from answered and rejected requests.
"""

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class WindowProof:
    """The evidence for one model's window, in tokens; 0 means no evidence.

    Immutable.
    """

    stated: int = 0
    """The size most recently stated by the model's server or by another agent."""
    largest: int = 0
    """Reported size of the largest request that was answered, including the answer."""
    refused: int = 0
    """Size of the smallest request rejected as too long, or the limit stated in a rejection.

    The size counts only if a smaller request was answered afterwards. Otherwise, the request may have been
    rejected for a reason other than its length.
    """

    def answered(
        self, request: int, answer: int, stated: int, refused: int = 0
    ) -> "WindowProof":
        """Return the evidence after an answered request.

        Args:
            request: size of the request, in tokens.
            refused: size of the rejected request that this one replaced, in tokens; 0 if there was none.
        """
        if request < refused:
            smallest = min(self.refused or refused, refused)
        elif request < self.refused:
            smallest = self.refused
        else:
            smallest = 0  # the server accepts more than it once did
        return WindowProof(
            stated or self.stated, max(self.largest, request + answer), smallest
        )

    def announced(self, window: int) -> "WindowProof":
        """Return the evidence after the server stated its window."""
        return replace(self, stated=window)

    def bounded(self, limit: int) -> "WindowProof":
        """Return the evidence after a rejection that stated `limit`.

        Args:
            limit: in tokens; 0 if the rejection stated no limit.
        """
        return replace(self, refused=min(self.refused or limit, limit or self.refused))

    def window(self, default: int) -> int:
        """Return the window size according to this evidence; `default` if no size was stated."""
        return max(self.stated or default, self.largest)


NOTHING_SEEN = WindowProof()
