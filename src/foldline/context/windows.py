"""What a history proves of the context windows of its models."""

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class WindowProof:
    """What was seen of one model's window, in tokens; 0 where nothing was. Immutable."""

    stated: int = 0
    """What was last said of it where its answers came from: by its server, or by another agent."""
    largest: int = 0
    """The largest request that went through, with its answer, as reported."""
    refused: int = 0
    """The smallest request that was refused as too long, where a smaller one went through in its place: else
    it may not have been the length. And what a refusal named as the limit."""

    def answered(self, request: int, answer: int, stated: int, refused: int = 0) -> "WindowProof":
        """After a request of this size that went through, in place of one of `refused` tokens."""
        if request < refused:
            smallest = min(self.refused or refused, refused)
        else:
            smallest = self.refused if request < self.refused else 0  # the server takes more than it did
        return WindowProof(stated or self.stated, max(self.largest, request + answer), smallest)

    def bounded(self, named: int) -> "WindowProof":
        """After a refusal that named the window; 0 where it did not."""
        return replace(self, refused=min(self.refused or named, named or self.refused))

    def window(self, believed: int) -> int:
        """The window, where nobody has said for certain that it is `believed` tokens."""
        return max(self.stated or believed, self.largest)


NOTHING_SEEN = WindowProof()
