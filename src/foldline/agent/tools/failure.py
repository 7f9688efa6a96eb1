"""What a tool raises that could not do what it was called for."""

from foldline.protocol import FoldlineError


class ToolFailure(FoldlineError):
    """A call that could not be done: one sentence for the model."""

    def __init__(self, sentence: str, brief: str = "failed ✗") -> None:
        super().__init__(sentence)
        self.brief = brief
