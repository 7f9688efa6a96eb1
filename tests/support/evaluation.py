"""Replay runs built by hand for any rewriting of the view.

`answered(history(), view)` sends `view(messages so far)` for each recorded answer; `raw(history())` sends all
messages.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    Compaction,
    SystemMessage,
    text_parts,
)
from foldline.view.calls import paired
from foldline.view.items import hidden_placeholder, with_text
from foldline.view.tokens import message_tokens
from foldline_eval.record import (
    CommittedCompaction,
    RecordedSession,
    ReplayRun,
    SentRequest,
)
from support.history import History

SECONDS = 10.0
"""Seconds between two messages."""

View = Callable[[tuple[BaseMessage, ...]], Sequence[BaseMessage]]


def messages_of(built: History) -> tuple[BaseMessage, ...]:
    return tuple(entry for entry in built.entries if isinstance(entry, BaseMessage))


def length(messages: Sequence[BaseMessage]) -> int:
    return sum(map(message_tokens, messages))


def sent(
    messages: Sequence[BaseMessage], *, at: float = 0.0, answer: int | None = None
) -> SentRequest:
    """A request at one step; `answer` is the index of its recorded answer, if there is one."""
    return SentRequest(
        "step", tuple(messages), length(messages), output=100, at=at, answer=answer
    )


def summary_request(
    messages: Sequence[BaseMessage], *, at: float = 0.0, tools: bool = False
) -> SentRequest:
    return SentRequest(
        "summary", tuple(messages), length(messages), output=500, at=at, tools=tools
    )


def run_of(*requests: SentRequest, history: Sequence[BaseMessage] = ()) -> ReplayRun:
    session = RecordedSession("made", tuple(history), Path("/"))
    return ReplayRun(session, "by hand", 0, list(requests), last_view=tuple(history))


def run_with_view(built: History, view: View) -> ReplayRun:
    """A run without compactions that sends this view for each recorded answer."""
    history = messages_of(built)
    requests = tuple(
        sent(paired(view(history[:at])), at=at * SECONDS, answer=message.index)
        for at, message in enumerate(history)
        if isinstance(message, AssistantMessage)
    )
    return replace(run_of(*requests, history=history), last_view=tuple(view(history)))


def raw_run(built: History) -> ReplayRun:
    return run_with_view(built, lambda so_far: so_far)


def run_compacted_before(built: History, answer: int, compaction: View) -> ReplayRun:
    """A run that compacts once, right before this answer, and continues from there."""
    history = messages_of(built)
    until = next(at for at, message in enumerate(history) if message.index == answer)
    before = history[:until]
    after = tuple(compaction(before))
    run = run_with_view(
        built,
        lambda so_far: so_far if len(so_far) < until else (*after, *so_far[until:]),
    )
    position = sum(
        request.answer is not None and request.answer < answer
        for request in run.requests
    )
    entry = Compaction(first_kept_index=answer, index=answer)
    return replace(
        run, compactions=[CommittedCompaction(entry, before, after, position)]
    )


def summary(text: str, index: int = 1_000) -> SystemMessage:
    return SystemMessage(origin="summary", index=index, parts=text_parts(text))


def with_hidden_results(
    messages: Sequence[BaseMessage], *indices: int
) -> list[BaseMessage]:
    """Return the messages with these results replaced by placeholders."""
    return [
        with_text(message, hidden_placeholder(message))
        if message.index in indices
        else message  # type: ignore[arg-type]
        for message in messages
    ]
