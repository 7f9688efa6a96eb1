"""`ToolResultHidingCompaction`: older tool results become short stubs. No model call."""

from collections.abc import Sequence

from foldline.context.cut import seen_up_to
from foldline.context.stubs import hidden_stub, is_hidden_stub, with_text
from foldline.context.tokens import estimate_tokens, message_tokens
from foldline.protocol import AssistantMessage, BaseMessage, ToolResultMessage

from .strategy import CompactionContext

KEPT_GROUPS = 5
"""As in kimi-cli: the newest so many tool groups keep their results."""


class ToolResultHidingCompaction:
    """Hides the results of all but the newest `keep` tool groups; parallel calls are one group.

    The stub is stable and keeps the call's id; nothing else is touched. A result that is no longer than its
    stub stays, and so does one that no request has carried yet.
    """

    def __init__(self, *, keep: int = KEPT_GROUPS) -> None:
        self._keep = keep

    async def compact(self, ctx: CompactionContext) -> Sequence[BaseMessage] | None:
        return self.hidden(ctx.history, ctx.pins)

    def hidden(self, messages: Sequence[BaseMessage], pins: frozenset[int]) -> Sequence[BaseMessage] | None:
        """The messages with old results hidden; None where there is nothing more to hide."""
        groups = [
            at
            for at, message in enumerate(messages)
            if isinstance(message, AssistantMessage) and message.calls
        ]
        if len(groups) <= self._keep:
            return None
        until = min([*groups[len(groups) - self._keep :], seen_up_to(messages)])
        older = [_hidden(message) if message.index not in pins else message for message in messages[:until]]
        if all(a is b for a, b in zip(older, messages, strict=False)):
            return None
        return [*older, *messages[until:]]


def _hidden(message: BaseMessage) -> BaseMessage:
    if not isinstance(message, ToolResultMessage) or is_hidden_stub(message.text):
        return message
    stub = hidden_stub(message)
    return with_text(message, stub) if estimate_tokens(stub) < message_tokens(message) else message
