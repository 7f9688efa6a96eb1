"""A compaction strategy that keeps the user's prompts and drops the work."""

from collections.abc import Sequence
from pathlib import Path

from foldline.compaction import CompactionContext
from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    DeveloperMessage,
    SystemMessage,
    ToolResultMessage,
    UserMessage,
)


class OnlyQuestions:
    """Keeps prompts, answers that contain a word of `keep-words.txt`, and the newest messages."""

    def __init__(self, folder: Path, /, *, keep: int = 4) -> None:
        words = folder / "keep-words.txt"
        self.words = (
            words.read_text(encoding="utf-8").split() if words.is_file() else []
        )
        self.keep = keep

    async def compact(self, ctx: CompactionContext) -> Sequence[BaseMessage] | None:
        start = max(0, len(ctx.history) - self.keep)
        while start > 0 and isinstance(
            ctx.history[start], ToolResultMessage | DeveloperMessage
        ):
            start -= 1  # a call and its results stay together
        older = [m for m in ctx.history[:start] if m.index in ctx.pins or self.stays(m)]
        return [*older, *ctx.history[start:]] if len(older) < start else None

    def stays(self, message: BaseMessage) -> bool:
        match message:
            case SystemMessage() | UserMessage():
                return True
            case DeveloperMessage():
                return message.origin == "instructions"
            case AssistantMessage(calls=()):
                return any(word in message.text for word in self.words)
            case _:
                return False
