"""Tests the measurements before they are used: on a made session whose figures are known."""

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from math import sqrt

from foldline.context.tokens import message_tokens
from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    SystemMessage,
    ToolCallPart,
    ToolResultMessage,
    UserMessage,
    text_parts,
)

from .cost import OPENAI_CACHE, cost
from .recall import needs, recall
from .record import Messages, Meter, Run, Sent, View
from .replay import STRIDE
from .safety import violations

_METER = Meter("script weights", message_tokens)
_STEPS = 120
_WINDOW = 200_000
_SIGMAS = 4.5
"""Of the binomial error that a right measurement may be off: once in 150,000 runs."""


def self_test() -> list[str]:
    """What is wrong with the instrument; empty where its figures can be believed."""
    history = _session()
    raw = _run(history, lambda at: history[:at])
    checks = (_raw_holds_all, _empty_holds_nothing, _losses_are_measured, _cache_is_modelled, _rules_bite)
    return [fault for check in checks for fault in check(history, raw)]


def _raw_holds_all(history: Messages, raw: Run) -> Iterator[str]:
    known = needs(history, _METER)
    if len(known.all) < _STEPS:
        yield f"it found only {len(known.all)} needs where every step has one"
    if recall(raw, known).grounded != 1:
        yield f"the whole history has a recall of {recall(raw, known).grounded}"
    if found := violations(raw, _METER):
        yield f"a valid session breaks a rule: {found[0]}"


def _empty_holds_nothing(history: Messages, raw: Run) -> Iterator[str]:
    empty = recall(_run(history, lambda _at: history[:1]), needs(history, _METER)).grounded
    if empty:
        yield f"a view of nothing but the system prompt has a recall of {empty}"


def _losses_are_measured(history: Messages, raw: Run) -> Iterator[str]:
    """A view that kept each thing with a known chance has that recall, within the error of chance."""
    known = needs(history, _METER)
    for share in (0.25, 0.8):
        chance = random.Random(1)
        names = [name for at in range(_STEPS) for name in _names(at)]
        kept = SystemMessage(parts=text_parts("\n".join(name for name in names if chance.random() < share)))
        view = (history[0], kept)
        measured = recall(_run(history, partial(_always, view)), known).grounded or 0.0
        error = _SIGMAS * sqrt(share * (1 - share) / len(names))
        if abs(measured - share) > error:
            yield f"of a view that kept {share:.0%} of all names it measured {measured:.1%}"


def _always(view: Messages, _at: int) -> Messages:
    return view


def _cache_is_modelled(history: Messages, raw: Run) -> Iterator[str]:
    sent = raw.requests[-1]
    twice = replace(raw, requests=(sent, sent))
    fresh = cost(twice, _METER).uncached - sent.tokens
    if fresh >= OPENAI_CACHE.granularity:
        yield f"the same request again has {fresh} fresh tokens"
    other = SystemMessage(index=history[0].index, parts=text_parts("Another beginning."))
    changed = replace(sent, messages=(other, *sent.messages[1:]))
    if cost(replace(raw, requests=(sent, changed)), _METER).cached:
        yield "a request with another first message was served from the cache"


def _rules_bite(history: Messages, raw: Run) -> Iterator[str]:
    sent = raw.requests[-1]
    newest_call = max(at for at, message in enumerate(sent.messages) if message.type == "assistant")
    broken = {
        "a call without its result": sent.messages[: newest_call + 1],
        "a result without its call": (sent.messages[0], *sent.messages[newest_call + 1 :]),
        "no user message": tuple(message for message in sent.messages if message.type != "user"),
    }
    for name, messages in broken.items():
        if not violations(replace(raw, requests=(replace(sent, messages=messages),)), _METER):
            yield f"{name} breaks no rule"
    if not violations(replace(raw, window=sent.tokens // 2), _METER):
        yield "a request of twice the window breaks no rule"


# --- a made session -----------------------------------------------------------------------------------


def _names(at: int) -> tuple[str, str]:
    """What step `at` reads about and step `at + 1` uses."""
    return f"src/part_{at:03d}/unit_{at:03d}.py", f"compute_total_{at:03d}"


def _session() -> View:
    said: list[BaseMessage] = [
        SystemMessage(parts=text_parts("You are careful.")),
        UserMessage(parts=text_parts("Go through all of it.")),
    ]
    answer = ""
    for at in range(_STEPS):
        call = ToolCallPart(call_id=f"c{at}", name="read", arguments='{"note": "next"}')
        said.append(AssistantMessage(parts=(*text_parts(answer), call)))
        path, name = _names(at)
        result = text_parts(f"The next place is {path}, its function {name}.")
        said.append(ToolResultMessage(call_id=call.call_id, name="read", parts=result))
        answer = f"On to {path} and {name}."
    said.append(AssistantMessage(parts=text_parts(answer)))
    return tuple(message.model_copy(update={"index": STRIDE * at}) for at, message in enumerate(said, 1))


def _run(history: Messages, view: Callable[[int], Messages]) -> Run:
    """A run that sends this view, given how many messages there were, for each recorded answer."""
    requests = []
    for at, message in enumerate(history):
        if isinstance(message, AssistantMessage):
            messages = tuple(view(at))
            tokens, output = sum(map(message_tokens, messages)), message_tokens(message)
            requests.append(Sent("step", messages, tokens, output, float(at), message.index))
    return Run("self-test", "raw", _WINDOW, "none", tuple(history), tuple(requests), (), tuple(history))
