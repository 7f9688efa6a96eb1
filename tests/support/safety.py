"""Checks that every request and every compaction obeys the safety rules.

Each violation is a sentence.

The rules are W1 (window), P (pairing), C1 (coverage), C3 (pins), K1 (stable prefix), T1 (new messages), T2
(complete batches) and E2 (smaller views).
"""

from collections.abc import Iterator, Mapping
from itertools import pairwise

from foldline.llm.dialect import OPENAI, to_openai
from foldline.protocol import (
    BaseMessage,
    ToolResultMessage,
    UserMessage,
)
from foldline.sequences import grouped
from foldline.view.calls import pairing_faults
from foldline.view.tokens import message_tokens
from foldline_eval.broken_rules import (
    Fault,
    broken_rules,
    listed_once,
    newest_batch,
    unanswered_prompt,
)
from foldline_eval.cost import as_sent
from foldline_eval.record import (
    CommittedCompaction,
    Messages,
    PerMessage,
    ReplayRun,
    SentRequest,
)

Faults = Iterator[Fault]
NO_USER = "there is no user message"
PIN_CHANGED = "pinned entry {entry} is not verbatim"
PROMPT_CHANGED = "the user message in entry {entry} is not verbatim"
RESULT_CHANGED = "new entry {entry} is not verbatim"
PREFIX_CHANGED = "message {number} differs from the previous request"
RESULT_MISSING = "the compaction did not wait for the result in entry {entry}"


FRESH_SHARE = 4
"""New results may be clipped if their total size exceeds 1/FRESH_SHARE (a quarter) of the window.

Each clipped result must name the call with which it can be read again.
"""


def violations(run: ReplayRun) -> list[str]:
    """Return all violations in a run, including those that `foldline eval` reports.

    A repeated violation is listed only once.
    """
    repeated = grouped((fault, place) for place, fault in _Check(run).all())
    return [*broken_rules(run), *listed_once(repeated)]


_Shown = Mapping[int, BaseMessage]
"""The messages of a request, by index."""


class _Check:
    """Checks one run.

    Each rule is a method that yields the rule's violations.
    """

    def __init__(self, run: ReplayRun) -> None:
        self.run = run
        self.history = run.session.history
        self.positions = {message.index: at for at, message in enumerate(self.history)}
        pins = run.session.pins
        self.pins = [message for message in self.history if message.index in pins]
        self.is_sent = PerMessage(lambda message: bool(to_openai([message], OPENAI)))

    def all(self) -> Iterator[tuple[str, Fault]]:
        """Yield each violation, preceded by its location, for example `request 3`."""
        for number, sent in enumerate(self.run.requests, start=1):
            yield from ((f"request {number}", fault) for fault in self.of_request(sent))
        yield from self.stable_prefix()
        for number, compaction in enumerate(self.run.compactions, start=1):
            place = f"compaction {number} (after request {compaction.requests})"
            yield from ((place, fault) for fault in self.complete_batches(compaction))
            yield from ((place, fault) for fault in self.smaller(compaction))

    def of_request(self, sent: SentRequest) -> Faults:
        yield from self.pairs(sent)
        if sent.kind == "step" and sent.answer in self.positions:
            # Reversed, so that the caller replaces a placeholder result with the same index.
            shown = {message.index: message for message in reversed(sent.messages)}
            yield from self.pins_verbatim(sent.answer, shown)
            yield from self.fresh_verbatim(sent.answer, shown)

    def pairs(self, sent: SentRequest) -> Faults:
        """P: a server accepts the messages: calls and results are paired, and there is a user message."""
        messages = list(filter(self.is_sent, sent.messages))
        for fault in pairing_faults(messages):
            yield "P", fault
        if not any(isinstance(message, UserMessage) for message in messages):
            yield "P", NO_USER

    def pins_verbatim(self, answer: int, shown: _Shown) -> Faults:
        """C3: every later request contains the pinned messages verbatim."""
        for pin in self.pins:
            if pin.index < answer and not _verbatim(pin, shown):
                yield "C3", PIN_CHANGED.format(entry=pin.index)

    def fresh_verbatim(self, answer: int, shown: _Shown) -> Faults:
        """T1: the newest prompt and new results are kept verbatim."""
        before = self.history[: self.positions[answer]]
        prompt = unanswered_prompt(before)
        if prompt is not None and not _verbatim(prompt, shown):
            yield "T1", PROMPT_CHANGED.format(entry=prompt.index)
        batch = newest_batch(before)
        is_large = 0 < self.run.window < FRESH_SHARE * sum(map(message_tokens, batch))
        for original in batch:
            message = self.run.clipped.get(original.index, original)
            if _verbatim(message, shown) or (is_large and _is_clipped(message, shown)):
                continue
            yield "T1", RESULT_CHANGED.format(entry=message.index)

    def stable_prefix(self) -> Iterator[tuple[str, Fault]]:
        """K1: between two compactions, each request extends the previous one."""
        compacted_after = {compaction.requests for compaction in self.run.compactions}
        for (before, earlier), (at, later) in pairwise(self.run.steps()):
            if not compacted_after.isdisjoint(range(before + 1, at + 1)):
                continue
            position = _first_difference(earlier.messages, later.messages)
            if position is not None:
                sentence = PREFIX_CHANGED.format(number=position + 1)
                yield f"request {at + 1}", ("K1", sentence)

    def complete_batches(self, compaction: CommittedCompaction) -> Faults:
        """T2: a compaction waits for all results of the newest calls."""
        batch = newest_batch(compaction.before)
        if not batch or batch[0].index not in self.positions:
            return
        answered = {
            message.call_id
            for message in batch
            if isinstance(message, ToolResultMessage)
        }
        for message in self.history[self.positions[batch[0].index] + 1 :]:
            if not isinstance(message, ToolResultMessage):
                return
            if message.call_id not in answered:
                yield "T2", RESULT_MISSING.format(entry=message.index)

    def smaller(self, compaction: CommittedCompaction) -> Faults:
        """E2: a compaction never makes the view larger."""
        before = sum(map(message_tokens, compaction.before))
        after = sum(map(message_tokens, compaction.after))
        if after > before:
            yield ("E2", f"the view grew from {before:,} to {after:,} tokens")


# -- fresh and pinned messages ---------------------------------------------------------------------


def _verbatim(message: BaseMessage, shown: _Shown) -> bool:
    candidate = shown.get(message.index)
    return (
        candidate is not None
        and candidate.type == message.type
        and candidate.parts == message.parts
    )


def _is_clipped(result: BaseMessage, shown: _Shown) -> bool:
    """Return whether a result is clipped and names the call with which it can be read again."""
    candidate = shown.get(result.index)
    return (
        isinstance(candidate, ToolResultMessage)
        and f"history_read({result.index})" in candidate.text
    )


def _first_difference(earlier: Messages, later: Messages) -> int | None:
    """Return the position of the first difference.

    Returns None if `later` extends `earlier`.
    """
    for position, message in enumerate(earlier):
        if position == len(later):
            return position
        other = later[position]
        if message is not other and as_sent(message) != as_sent(other):
            return position
    return None
