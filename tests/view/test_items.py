"""Placeholders for content that is hidden, clipped or missing."""

from foldline.protocol import (
    AssistantMessage,
    ToolDetails,
    ToolResultMessage,
    UserMessage,
    text_parts,
)
from foldline.text.tags import piped_part
from foldline.view.items import hidden_placeholder, is_hidden_placeholder, with_text
from foldline.view.tokens import estimate_tokens
from support.history import IMAGE, call


def test_a_placeholder_is_stable_short_and_unmistakable() -> None:
    result = ToolResultMessage(
        index=7, call_id="c", name="bash", details=ToolDetails(brief="exit 1")
    )
    assert hidden_placeholder(result) == hidden_placeholder(result)
    assert is_hidden_placeholder(hidden_placeholder(result))
    assert "history_read(7)" in hidden_placeholder(result)
    assert estimate_tokens(hidden_placeholder(result)) < 50


def test_replacing_text_removes_images_and_keeps_calls() -> None:
    answer = AssistantMessage(
        parts=(*text_parts("long"), IMAGE, call("read", call_id="c"))
    )
    assert [part.type for part in with_text(answer, "short").parts] == [
        "text",
        "tool_call",
    ]


def test_an_edited_prompt_keeps_the_attached_text_at_its_end() -> None:
    piped = piped_part("+ a line")
    prompt = UserMessage(parts=(*text_parts("Review this:"), piped))
    edited = with_text(prompt, f"Read this:\n{piped.text}")
    assert isinstance(edited, UserMessage)
    assert (edited.typed, edited.attached) == ("Read this:", (piped,))
    assert with_text(prompt, "Nothing else").attached == ()
