"""Checks that a run obeys the rules that a strategy could break.

Each violation is a sentence. The rules are C1 (the invariants of the view) and W1 (requests fit the window).
"""

from collections.abc import Iterator, Mapping, Sequence

from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    ToolResultMessage,
    UserMessage,
)
from foldline.sequences import grouped
from foldline.view.items import is_preamble
from foldline.view.tokens import message_tokens

from .record import Messages, ReplayRun

Fault = tuple[str, str]
"""The name of a rule, and a description of its violation."""


def broken_rules(run: ReplayRun) -> list[str]:
    """Return all violations in a run. A repeated violation is listed only once."""
    too_large = grouped((fault, place) for place, fault in _too_large(run))
    return [*(f"C1, {fault}" for fault in run.broken), *listed_once(too_large)]


def listed_once(places: Mapping[Fault, Sequence[str]]) -> Iterator[str]:
    """Yield a sentence for each violation. `places` contains all of its locations."""
    for (rule, sentence), (first, *later) in places.items():
        place = f"{first} and {len(later)} later" if later else first
        yield f"{rule}, {place}: {sentence}"


def _too_large(run: ReplayRun) -> Iterator[tuple[str, Fault]]:
    """Yield the requests that exceed the window, with their location.

    A summary's output counts as well.

    It is not a violation if the messages that cannot be removed already exceed the window. In this case, the
    session was recorded with a larger window, so no strategy can help.
    """
    for number, sent in enumerate(run.requests, start=1):
        tokens = sent.tokens
        least = 0
        if sent.kind == "summary":
            tokens += sent.output
        else:
            least = _unremovable_tokens(sent.messages)
        if run.window and tokens > run.window >= least:
            sentence = (
                f"the {sent.kind} request exceeds the window of {run.window:,} tokens"
            )
            yield f"request {number}", ("W1", sentence)


def _unremovable_tokens(messages: Messages) -> int:
    """Return the size of the messages that must stay: the preamble and the new messages."""
    preamble = filter(is_preamble, messages)
    tokens = sum(map(message_tokens, (*preamble, *newest_batch(messages))))
    prompt = unanswered_prompt(messages)
    return tokens + message_tokens(prompt) if prompt else tokens


def unanswered_prompt(history: Messages) -> UserMessage | None:
    """Return the newest user message.

    Returns None if the message's turn has ended.
    """
    for message in reversed(history):
        if isinstance(message, UserMessage):
            return message
        if isinstance(message, AssistantMessage) and not message.calls:
            return None
    return None


def newest_batch(history: Messages) -> list[BaseMessage]:
    """Return the newest answer that contains calls, with its results.

    The result is empty if other messages follow them.
    """
    for position in reversed(range(len(history))):
        message = history[position]
        if isinstance(message, ToolResultMessage):
            continue
        if isinstance(message, AssistantMessage) and message.calls:
            return list(history[position:])
        return []
    return []
