"""Each of the four marks, at Anthropic and OpenRouter, by what the cache loses where that one is missing."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from foldline.context.calls import paired
from foldline.llm import Request
from foldline.llm.chat import ChatWire
from foldline.llm.dialect import MessageRendering
from foldline.llm.marks import Place, request_ends
from foldline.llm.messages import MessagesWire
from foldline.llm.providers import PROVIDERS
from foldline.llm.wire import DEFAULT, Wire
from support.history import call
from support.server_messages import MarkedCache
from support.stories import Story

TEXT = "The keeper wrote down every ship that passed the lighthouse. "
LEAST = 0.6
"""Of the newest request, from the cache, with all marks."""


def begun() -> Story:
    return Story().system("You are careful. " + TEXT * 300).user("Begin.").step("read", TEXT * 300, path="a")


def large_step() -> Sequence[Story]:
    return begun(), begun().step("read", TEXT, path="b")


def many_calls() -> Sequence[Story]:
    """More blocks than the cache looks back."""
    last = begun().assistant(calls=[call("read", path=str(number)) for number in range(30)])
    for _ in range(30):
        last.result("ok")
    return begun(), last


def compacted() -> Story:
    return begun().user("Go on.").assistant("Done.").fold(4, "Seen: " + TEXT * 600, first=1)


def compaction() -> Sequence[Story]:
    return begun(), begun().user("Go on.").assistant("Done.").fold(4, "Seen: " + TEXT, first=1)


def edit_behind_the_summary() -> Sequence[Story]:
    def after() -> Story:
        return compacted().user("Look.").step("read", TEXT * 20, path="c").assistant("So.").user("And?")

    edited = after()
    result = next(entry.index for entry in reversed(edited.entries) if entry.type == "tool_result")
    return after(), edited.edit("hide", result)


def anthropic() -> tuple[Wire, str]:
    return MessagesWire(PROVIDERS["anthropic"], DEFAULT), "claude-sonnet-5-5"


def openrouter() -> tuple[Wire, str]:
    return ChatWire(PROVIDERS["openrouter"], DEFAULT), "anthropic/claude-sonnet-5.5"


def share(wire: Wire, model: str, stories: Sequence[Story]) -> float:
    """What the cache had of the last of these requests."""
    cache = MarkedCache()
    served: Any = None
    for story in stories:
        messages = paired(item.message for item in story.projection().view)
        served = cache.serve(wire.body(Request(messages), model))
    return float(served.cached / served.total)


def of_kind(rendering: MessageRendering, places: list[Place], kind: str) -> list[Place]:
    ends = request_ends(rendering.done)
    summary = [rendering.summary] if rendering.summary else []
    kinds = {"summary": summary, "request before": ends[:-1], "newest message": ends[-1:]}
    return kinds.get(kind, [at for at in places if at not in ends + summary])


CASES = [
    ("newest message", large_step),
    ("request before", many_calls),
    ("tools and system prompt", compaction),
    ("summary", edit_behind_the_summary),
]


@pytest.mark.parametrize("asked", [anthropic, openrouter])
@pytest.mark.parametrize(("kind", "requests"), CASES, ids=[kind for kind, _ in CASES])
def test_each_mark_keeps_what_no_other_does(
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    requests: Callable[[], Sequence[Story]],
    asked: Callable[[], tuple[Wire, str]],
) -> None:
    assert share(*asked(), requests()) >= LEAST
    marks = MessageRendering.marks.fget  # type: ignore[attr-defined]

    def without(rendering: MessageRendering) -> list[Place]:
        places: list[Place] = marks(rendering)
        lost = of_kind(rendering, places, kind)
        return [place for place in places if place not in lost]

    monkeypatch.setattr(MessageRendering, "marks", property(without))
    assert share(*asked(), requests()) < LEAST
