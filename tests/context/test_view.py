"""Placeholders for content that is hidden, clipped or missing."""

from hypothesis import given
from hypothesis import strategies as st

from foldline.context.tokens import estimate_tokens
from foldline.context.view import clip_to_tokens, hidden_placeholder, is_hidden_placeholder, with_text
from foldline.protocol import AssistantMessage, ToolDetails, ToolResultMessage, text_parts
from support.history import IMAGE, call

SCRIPTS = st.sampled_from(["a", "word ", "7", "{}", "\n", "漢字", "かな", "한글", "🚀", "、。"])


@given(st.lists(st.tuples(SCRIPTS, st.integers(1, 400)), max_size=8), st.integers(60, 400))
def test_a_clipped_text_fits_the_budget_whatever_it_is_made_of(pieces: list, budget: int) -> None:
    text = "".join(piece * times for piece, times in pieces)
    clipped = clip_to_tokens(text, budget, 12)
    assert estimate_tokens(clipped) <= budget
    assert (clipped == text) == (estimate_tokens(text) <= budget)


def test_a_clipped_text_keeps_head_and_tail_and_says_how_to_recall_the_rest() -> None:
    clipped = clip_to_tokens("first line\n" + "middle\n" * 2_000 + "last line", 200, 12)
    assert clipped.startswith("first line\n")
    assert clipped.endswith("last line")
    assert "history_read(12)" in clipped


def test_a_hidden_stub_is_stable_short_and_unmistakable() -> None:
    result = ToolResultMessage(index=7, call_id="c", name="bash", details=ToolDetails(brief="exit 1"))
    assert hidden_placeholder(result) == hidden_placeholder(result)
    assert is_hidden_placeholder(hidden_placeholder(result))
    assert "history_read(7)" in hidden_placeholder(result)
    assert estimate_tokens(hidden_placeholder(result)) < 50


def test_replaced_text_takes_images_with_it_and_leaves_calls() -> None:
    answer = AssistantMessage(parts=(*text_parts("long"), IMAGE, call("read", call_id="c")))
    assert [part.type for part in with_text(answer, "short").parts] == ["text", "tool_call"]
