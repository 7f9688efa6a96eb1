"""Runs made by hand: what a replay would write down, for any rewriting of the view.

`answered(history(), view)` sends `view(messages so far)` for each recorded answer, `raw(history())` all of
them.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from foldline.context.calls import paired
from foldline.context.tokens import message_tokens
from foldline.context.view import hidden_placeholder, with_text
from foldline.evaluation.record import Compacted, Meter, Run, Sent
from foldline.protocol import AssistantMessage, BaseMessage, Compaction, SystemMessage, text_parts
from support.history import History

METER = Meter("script weights", message_tokens)
SECONDS = 10.0
"""Between two messages."""

View = Callable[[tuple[BaseMessage, ...]], Sequence[BaseMessage]]


def messages_of(built: History) -> tuple[BaseMessage, ...]:
    return tuple(entry for entry in built.entries if isinstance(entry, BaseMessage))


def length(messages: Sequence[BaseMessage]) -> int:
    return sum(map(METER.tokens, messages))


def sent(messages: Sequence[BaseMessage], *, at: float = 0.0, answer: int | None = None) -> Sent:
    """A step, or with no answer one whose answer is not recorded."""
    return Sent("step", tuple(messages), length(messages), output=100, at=at, answer=answer)


def summary_request(messages: Sequence[BaseMessage], *, at: float = 0.0, tools: bool = False) -> Sent:
    return Sent("summary", tuple(messages), length(messages), output=500, at=at, tools=tools)


def run_of(*requests: Sent, history: Sequence[BaseMessage] = ()) -> Run:
    return Run("made", "by hand", 0, "none", tuple(history), requests, (), tuple(history))


def answered(built: History, view: View) -> Run:
    """A run without folds that sends this view before each recorded answer."""
    history = messages_of(built)
    requests = tuple(
        sent(paired(view(history[:at])), at=at * SECONDS, answer=message.index)
        for at, message in enumerate(history)
        if isinstance(message, AssistantMessage)
    )
    return replace(run_of(*requests, history=history), last_view=tuple(view(history)))


def raw(built: History) -> Run:
    return answered(built, lambda so_far: so_far)


def folded_before(built: History, answer: int, fold: View) -> Run:
    """A run that folds once, right before this answer, and then goes on from what the fold made."""
    history = messages_of(built)
    until = next(at for at, message in enumerate(history) if message.index == answer)
    before = history[:until]
    after = tuple(fold(before))
    run = answered(built, lambda so_far: so_far if len(so_far) < until else (*after, *so_far[until:]))
    left = sum(request.answer is not None and request.answer < answer for request in run.requests)
    entry = Compaction(first_kept_index=answer, index=answer)
    return replace(run, compactions=(Compacted(entry, before, after, left),))


def summary(text: str, index: int = 1_000) -> SystemMessage:
    return SystemMessage(origin="summary", index=index, parts=text_parts(text))


def hidden(messages: Sequence[BaseMessage], *indices: int) -> list[BaseMessage]:
    """The messages, these results replaced by stubs."""
    return [
        with_text(message, hidden_placeholder(message)) if message.index in indices else message  # type: ignore[arg-type]
        for message in messages
    ]
