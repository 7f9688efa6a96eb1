"""Requests rendered again by the dialect they were recorded with."""

import pytest

from foldline.llm import dialect as dialects
from foldline.llm.dialect import Dialect
from foldline.llm.messages import MESSAGES
from foldline.llm.responses import RESPONSES, as_openai, rendering_named
from foldline.protocol import (
    AssistantMessage,
    TextPart,
    ThinkingPart,
    UserMessage,
    text_parts,
)
from foldline.protocol.entries import REPLAYS_REASONING

DIALECTS = {
    value.name: value for value in vars(dialects).values() if isinstance(value, Dialect)
}
CONVERSATION = [
    UserMessage(parts=text_parts("hello")),
    AssistantMessage(
        parts=(
            ThinkingPart(
                text="hm",
                signature='{"type": "reasoning", "encrypted_content": "g"}',
                signed_by="m@host",
            ),
            TextPart(text="yes"),
        )
    ),
]


@pytest.mark.parametrize("name", [*DIALECTS, RESPONSES, MESSAGES])
def test_the_budget_counts_reasoning_exactly_if_it_is_sent_back(name: str) -> None:
    rendering = rendering_named(name, "m")
    assert rendering is not None
    sent = str(rendering(CONVERSATION))
    assert ("reasoning" in sent) is (name in REPLAYS_REASONING)


def test_a_request_of_an_unknown_sender_is_not_rendered() -> None:
    assert rendering_named("offline", "m") is None
    assert rendering_named("", "m") is None
    assert as_openai(CONVERSATION)[0] == {"role": "user", "content": "hello"}
