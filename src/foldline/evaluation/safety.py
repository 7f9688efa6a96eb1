"""What must hold of every request a server gets and of every compaction, as sentences on what does not.

W1 window, P1 to P7 pairing, C1 coverage, C3 pins, K1 stable prefix, T1 fresh messages, T2 whole batches, E2
smaller views. P8, reasoning that must come back, is not modelled: the records hold no dialect. P5 cannot
fail: the calls of an answer without any are not sent at all.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from operator import is_

from foldline.context.view import is_preamble
from foldline.llm.dialect import OPENAI, ChatMessage, to_openai
from foldline.protocol import AssistantMessage, BaseMessage, ToolResultMessage, UserMessage
from foldline.protocol.messages import json_object
from foldline.sequences import grouped

from .cost import as_sent
from .record import Compacted, Messages, Meter, PerMessage, Run, Sent

Fault = tuple[str, str]
"""A rule, and what breaks it."""
Faults = Iterator[Fault]


def _faults_when_sent(message: BaseMessage) -> tuple[Fault, ...] | None:
    """Return the faults of the message by itself, or None if it is empty and not sent."""
    rendered = to_openai([message], OPENAI)
    # The images of a result come after it, when its group is whole.
    return tuple(_own_faults(rendered[0], message.index)) if rendered else None


def _own_faults(chat: ChatMessage, index: int) -> Faults:
    calls: Sequence[ChatMessage] = chat.get("tool_calls", ())
    if chat["role"] == "assistant" and not calls and not (chat["content"] or "").strip():
        yield "P6", f"the answer in entry {index} has neither text nor calls"
    if len({call["id"] for call in calls}) < len(calls):
        yield "P3", f"two calls of entry {index} have the same id"
    for call in calls:
        if json_object(call["function"]["arguments"]) is None:
            yield "P4", f"the arguments of call {call['id']} in entry {index} are not JSON"


def _pairing_faults(
    messages: Iterable[BaseMessage], faults_of: Callable[[BaseMessage], tuple[Fault, ...] | None]
) -> Faults:
    """Every reason for which a server would refuse these messages, with its rule."""
    waiting: list[tuple[str, int]] = []  # the id of each open call, and the entry that made it
    has_user = False
    for message in messages:
        faults = faults_of(message)
        if faults is None:
            continue
        if isinstance(message, ToolResultMessage):
            answered = next((call for call in waiting if call[0] == message.call_id), None)
            if answered:
                waiting.remove(answered)
            else:
                yield "P2", f"the result in entry {message.index} answers no open call"
            continue
        yield from _without_result(waiting)
        calls = message.calls if isinstance(message, AssistantMessage) else ()
        waiting = [(call.call_id, message.index) for call in calls]
        has_user = has_user or isinstance(message, UserMessage)
        yield from faults
    yield from _without_result(waiting)
    if not has_user:
        yield "P7", "no user message is there"


def _without_result(waiting: Iterable[tuple[str, int]]) -> Faults:
    for call_id, caller in waiting:
        yield "P1", f"call {call_id} of entry {caller} has no result right after it"


FRESH_SHARE = 4
"""Results that no request has carried yet may come clipped where together they are more than this part of the
window, with the way to recall the rest."""


def violations(run: Run, meter: Meter) -> list[str]:
    """Every violation of a run; one that later requests repeat is reported once."""
    check = _Check(run, PerMessage(meter.tokens))
    repeated = grouped((fault, where) for where, fault in check.all())
    return [
        *(f"C1, {fault}" for fault in run.broken),
        *(f"{rule}, {_places(places)}: {what}" for (rule, what), places in repeated.items()),
    ]


def _places(places: Sequence[str]) -> str:
    more = len(places) - 1
    return f"{places[0]} and {more} later one{'' if more == 1 else 's'}" if more else places[0]


_Shown = Mapping[int, BaseMessage]
"""The messages of a request, by index."""


class _Check:
    """The rules, each a method that names its faults."""

    def __init__(self, run: Run, tokens: PerMessage[int]) -> None:
        self.run = run
        self.tokens = tokens
        self.positions = {message.index: at for at, message in enumerate(run.history)}
        self.pins = [message for message in run.history if message.index in run.pins]
        self.faults = PerMessage(_faults_when_sent)

    def all(self) -> Iterator[tuple[str, Fault]]:
        """Each fault behind the place it is in."""
        for number, sent in enumerate(self.run.requests, start=1):
            yield from ((f"request {number}", fault) for fault in self.of_request(sent))
        yield from self.stable_prefix()
        for number, compaction in enumerate(self.run.compactions, start=1):
            where = f"compaction {number} (after request {compaction.requests})"
            yield from ((where, fault) for fault in self.whole_batches(compaction))
            yield from ((where, fault) for fault in self.smaller(compaction))

    def of_request(self, sent: Sent) -> Faults:
        yield from self.window(sent)
        yield from _pairing_faults(sent.messages, self.faults)
        if sent.kind == "step" and sent.answer in self.positions:
            # From the end: the stated result of a call without one has its caller's index.
            shown = {message.index: message for message in reversed(sent.messages)}
            yield from self.pins_verbatim(sent.answer, shown)
            yield from self.fresh_verbatim(sent.answer, shown)

    def window(self, sent: Sent) -> Faults:
        """W1: input and a summary's answer, which is known, fit.

        A recorded answer, or what else must stay, may be longer than the window by itself: the session was
        not held in so small a one, and no strategy can help.
        """
        takes = sent.tokens + (0 if sent.kind == "step" else sent.output)
        if self.run.window and takes > self.run.window >= self._must_stay(sent):
            yield ("W1", f"a {sent.kind} does not fit the window of {self.run.window:,} tokens")

    def _must_stay(self, sent: Sent) -> int:
        """Tokens of what opens the request, and of what no compaction may take out of it."""
        if sent.answer is None:
            return 0
        before = self.run.history[: self.positions[sent.answer]]
        request = _unanswered(before)
        fresh = [*([request] if request else []), *_newest_batch(before)]
        let_in = (self.run.clipped.get(message.index, message) for message in fresh)
        opening = (message for message in sent.messages if is_preamble(message))
        return sum(map(self.tokens, (*opening, *let_in)))

    def pins_verbatim(self, answer: int, shown: _Shown) -> Faults:
        """C3: pins are in every request after they were said."""
        for pin in self.pins:
            if pin.index < answer and not _verbatim(pin, shown):
                yield ("C3", f"pinned entry {pin.index} is not there word for word")

    def fresh_verbatim(self, answer: int, shown: _Shown) -> Faults:
        """T1: the newest user message of the turn, and the calls and results that no request has carried."""
        upto = self.positions[answer]
        request = _unanswered(self.run.history[:upto])
        if request is not None and not _verbatim(request, shown):
            yield ("T1", f"the user message in entry {request.index} is not there word for word")
        batch = _newest_batch(self.run.history[:upto])
        large = 0 < self.run.window < FRESH_SHARE * sum(map(self.tokens, batch))
        for message in (self.run.clipped.get(message.index, message) for message in batch):
            if not _verbatim(message, shown) and not (large and _is_clipped(message, shown)):
                yield ("T1", f"fresh entry {message.index} is not there word for word")

    def stable_prefix(self) -> Iterator[tuple[str, Fault]]:
        """K1: between two compactions, each step's request goes on from the one before."""
        compacted_after = {compaction.requests for compaction in self.run.compactions}
        steps = [(number, sent) for number, sent in enumerate(self.run.requests, 1) if sent.kind == "step"]
        for (before, earlier), (number, later) in pairwise(steps):
            if any(count in compacted_after for count in range(before, number)):
                continue
            at = _first_difference(earlier.messages, later.messages)
            if at is not None:
                yield (
                    f"request {number}",
                    ("K1", f"it does not go on from the step before: message {at + 1} is another"),
                )

    def whole_batches(self, compaction: Compacted) -> Faults:
        """T2: no compaction comes while results of the newest calls are still to come."""
        batch = _newest_batch(compaction.before)
        caller = next((message for message in batch if isinstance(message, AssistantMessage)), None)
        if caller is None or caller.index not in self.positions:
            return
        seen = {message.call_id for message in batch if isinstance(message, ToolResultMessage)}
        for message in self.run.history[self.positions[caller.index] + 1 :]:
            if not isinstance(message, ToolResultMessage):
                return
            if message.call_id not in seen:
                yield ("T2", f"entry {message.index} was still to come for the calls before it")

    def smaller(self, compaction: Compacted) -> Faults:
        """E2: a compaction never makes the view longer."""
        before, after = (sum(map(self.tokens, view)) for view in (compaction.before, compaction.after))
        if after > before:
            yield ("E2", f"the view grew from {before:,} to {after:,} tokens")


# -- fresh and pinned messages ---------------------------------------------------------------------


def _verbatim(message: BaseMessage, shown: _Shown) -> bool:
    there = shown.get(message.index)
    return there is not None and there.type == message.type and there.parts == message.parts


def _is_clipped(result: BaseMessage, shown: _Shown) -> bool:
    """Whether it stands there shortened, with the way to recall the rest."""
    there = shown.get(result.index)
    return isinstance(there, ToolResultMessage) and f"history_read({result.index})" in there.text


def _unanswered(history: Messages) -> UserMessage | None:
    """The newest user message, unless an answer without calls has ended its turn."""
    for message in reversed(history):
        if isinstance(message, UserMessage):
            return message
        if isinstance(message, AssistantMessage) and not message.calls:
            return None
    return None


def _newest_batch(history: Messages) -> list[BaseMessage]:
    """The newest answer that called tools and its results, where nothing came after them."""
    for at in reversed(range(len(history))):
        message = history[at]
        if not isinstance(message, ToolResultMessage):
            return list(history[at:]) if isinstance(message, AssistantMessage) and message.calls else []
    return []


def _first_difference(earlier: Messages, later: Messages) -> int | None:
    """Where the later list does not go on from the earlier one; None where it does."""
    if len(later) >= len(earlier) and all(map(is_, earlier, later)):
        return None
    for at, message in enumerate(earlier):
        same = at < len(later) and (message is later[at] or as_sent(message) == as_sent(later[at]))
        if not same:
            return at
    return None
