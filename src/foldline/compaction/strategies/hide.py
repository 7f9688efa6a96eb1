"""`ToolResultHidingCompaction`: old tool results become placeholders."""

from foldline.compaction.strategy import CompactionContext
from foldline.protocol import BaseMessage, ToolResultMessage
from foldline.view.cut import groups_from
from foldline.view.items import (
    Messages,
    bare_placeholder,
    hidden_placeholder,
    is_hidden_placeholder,
    with_text,
)
from foldline.view.tokens import message_tokens

KEPT_GROUPS = 5
"""Number of newest tool groups whose results are kept, as in kimi-cli."""


class ToolResultHidingCompaction:
    """Hides the results of all but the newest tool groups.

    Parallel calls form one group. Results that the model has not seen yet are kept. So are results that are
    not longer than their placeholder would be.
    """

    async def compact(self, ctx: CompactionContext) -> Messages | None:
        return with_hidden_results(ctx.history, ctx.pins)


def with_hidden_results(
    messages: Messages,
    pins: frozenset[int],
    *,
    keep: int = KEPT_GROUPS,
    max_kept: int | None = None,
    least: int = 0,
) -> Messages | None:
    """Return the messages with old results hidden.

    Returns None if no result can be hidden. If `least` is 0, earlier placeholders lose their ledger lines.
    The engine then distributes new lines among all placeholders, which share one budget.

    Args:
        max_kept: maximum size of the kept groups, in estimated tokens before calibration.
        least: minimum size, in estimated tokens, of a result that is hidden.
    """
    start_of_kept = groups_from(messages, keep, max_kept)
    older = []
    for message in messages[:start_of_kept]:
        is_kept = message.index in pins or message_tokens(message) < least
        older.append(message if is_kept else _hidden(message))
    if all(new is old for new, old in zip(older, messages, strict=False)):
        return None
    if not least:
        older = [bare_placeholder(message) for message in older]
    return [*older, *messages[start_of_kept:]]


def _hidden(message: BaseMessage) -> BaseMessage:
    if not isinstance(message, ToolResultMessage) or is_hidden_placeholder(
        message.text
    ):
        return message
    placeholder = with_text(message, hidden_placeholder(message))
    return (
        placeholder
        if message_tokens(placeholder) < message_tokens(message)
        else message
    )
