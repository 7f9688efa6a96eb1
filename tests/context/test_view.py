"""Placeholders for content that is hidden, clipped or missing."""

from foldline.context.tokens import estimate_tokens
from foldline.context.view import hidden_placeholder, is_hidden_placeholder, with_text
from foldline.protocol import AssistantMessage, ToolDetails, ToolResultMessage, text_parts
from support.history import IMAGE, call


def test_a_hidden_stub_is_stable_short_and_unmistakable() -> None:
    result = ToolResultMessage(index=7, call_id="c", name="bash", details=ToolDetails(brief="exit 1"))
    assert hidden_placeholder(result) == hidden_placeholder(result)
    assert is_hidden_placeholder(hidden_placeholder(result))
    assert "history_read(7)" in hidden_placeholder(result)
    assert estimate_tokens(hidden_placeholder(result)) < 50


def test_replaced_text_takes_images_with_it_and_leaves_calls() -> None:
    answer = AssistantMessage(parts=(*text_parts("long"), IMAGE, call("read", call_id="c")))
    assert [part.type for part in with_text(answer, "short").parts] == ["text", "tool_call"]
