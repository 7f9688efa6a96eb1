"""Each of the four cache marks at Anthropic and OpenRouter, by the cache loss without it."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from foldline.llm import Request
from foldline.llm.chat import ChatWire
from foldline.llm.marks import MarkPosition, request_ends
from foldline.llm.messages import MessagesWire
from foldline.llm.providers import PROVIDERS
from foldline.llm.rendering import MessageRendering
from foldline.llm.wire import DEFAULT, Wire
from foldline.view.calls import paired
from support.history import call
from support.server_messages import MarkedCache
from support.stories import Story

TEXT = "The keeper wrote down every ship that passed the lighthouse. "
LEAST_SHARE = 0.6
"""Least cached share of the newest request with all marks."""


def first_step() -> Story:
    return (
        Story()
        .system("You are careful. " + TEXT * 300)
        .user("Begin.")
        .step("read", TEXT * 300, path="a")
    )


def large_step() -> Sequence[Story]:
    return first_step(), first_step().step("read", TEXT, path="b")


def many_calls() -> Sequence[Story]:
    """Return more blocks than the cache's look-back distance."""
    last = first_step().assistant(
        calls=[call("read", path=str(number)) for number in range(30)]
    )
    for _ in range(30):
        last.result("ok")
    return first_step(), last


def after_compaction() -> Story:
    return (
        first_step()
        .user("Go on.")
        .assistant("Done.")
        .compaction(4, "Seen: " + TEXT * 600, first=1)
    )


def compaction() -> Sequence[Story]:
    return first_step(), first_step().user("Go on.").assistant("Done.").compaction(
        4, "Seen: " + TEXT, first=1
    )


def edit_behind_the_summary() -> Sequence[Story]:
    def after() -> Story:
        return (
            after_compaction()
            .user("Look.")
            .step("read", TEXT * 20, path="c")
            .assistant("So.")
            .user("And?")
        )

    edited = after()
    result = next(
        entry.index for entry in reversed(edited.entries) if entry.type == "tool_result"
    )
    return after(), edited.edit("hide", result)


def anthropic() -> tuple[Wire, str]:
    return MessagesWire(PROVIDERS["anthropic"], DEFAULT), "claude-sonnet-5-5"


def openrouter() -> tuple[Wire, str]:
    return ChatWire(PROVIDERS["openrouter"], DEFAULT), "anthropic/claude-sonnet-5.5"


def share(wire: Wire, model: str, stories: Sequence[Story]) -> float:
    """Return the cached share of the last of these requests."""
    cache = MarkedCache()
    served: Any = None
    for story in stories:
        messages = paired(item.message for item in story.projection().view)
        served = cache.serve(wire.body(Request(messages), model))
    return float(served.cached / served.total)


def of_kind(
    rendering: MessageRendering, places: list[MarkPosition], kind: str
) -> list[MarkPosition]:
    ends = request_ends(rendering.done)
    summary = [rendering.summary] if rendering.summary else []
    kinds = {
        "summary": summary,
        "request before": ends[:-1],
        "newest message": ends[-1:],
    }
    return kinds.get(kind, [at for at in places if at not in ends + summary])


CASES = [
    ("newest message", large_step),
    ("request before", many_calls),
    ("tools and system prompt", compaction),
    ("summary", edit_behind_the_summary),
]


@pytest.mark.parametrize("asked", [anthropic, openrouter])
@pytest.mark.parametrize(("kind", "requests"), CASES, ids=[kind for kind, _ in CASES])
def test_each_mark_caches_a_part_that_no_other_mark_covers(
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    requests: Callable[[], Sequence[Story]],
    asked: Callable[[], tuple[Wire, str]],
) -> None:
    assert share(*asked(), requests()) >= LEAST_SHARE
    marks = MessageRendering.marks.fget  # type: ignore[attr-defined]

    def without(rendering: MessageRendering) -> list[MarkPosition]:
        places: list[MarkPosition] = marks(rendering)
        lost = of_kind(rendering, places, kind)
        return [place for place in places if place not in lost]

    monkeypatch.setattr(MessageRendering, "marks", property(without))
    assert share(*asked(), requests()) < LEAST_SHARE
