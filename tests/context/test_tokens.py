"""The published rule with agentkit's examples, the finer estimate that decisions use, and its calibration."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foldline.context.tokens import (
    HIGHEST,
    IMAGE_CAP,
    IMAGE_TOKENS,
    LOWEST,
    MARGIN,
    START,
    Calibration,
    estimate_text_tokens,
    estimate_tokens,
    image_tokens,
    message_tokens,
)
from foldline.protocol import AssistantMessage, ImagePart, ThinkingPart, UserMessage, text_parts
from support.history import IMAGE, call

CHINESE = "请把订单服务的取消逻辑改成幂等的，并且补上测试"


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        ("hello world", 2),
        ("你好世界", 4),
        ("こんにちは", 5),
        ("안녕하세요", 5),
        ("你好 hello world", 2 + 3),
        ("abc", 0),
    ],
)
def test_agentkit_rule_counts_cjk_one_each_and_the_rest_by_four_rounded_down(text: str, tokens: int) -> None:
    assert estimate_text_tokens(text) == tokens


@pytest.mark.parametrize("edge", ["\u4e00\u9fff", "\u3040\u30ff", "\uac00\ud7af"])
def test_agentkit_ranges_include_both_ends(edge: str) -> None:
    assert estimate_text_tokens(edge) == 2
    outside = chr(ord(edge[0]) - 1) + chr(ord(edge[1]) + 1)
    assert estimate_text_tokens(outside) < 2


def test_agentkit_mixed_text_adds_up() -> None:
    wide, narrow = "你好世界" * 3, "hello world!" * 2
    assert estimate_text_tokens(wide + narrow) == estimate_text_tokens(wide) + estimate_text_tokens(narrow)


def test_agentkit_a_hundred_chinese_messages_count_at_least_four_times_as_much_as_before() -> None:
    messages = ["请继续检查下一个模块的错误处理"] * 100
    assert sum(map(estimate_text_tokens, messages)) >= 4 * sum(len(text) // 4 for text in messages)


def test_cjk_counts_about_one_a_character_where_it_decides() -> None:
    assert estimate_tokens(CHINESE) >= 0.7 * len(CHINESE) > 2.5 * len(CHINESE) / 4


@given(st.text(), st.text())
def test_the_estimate_never_falls_when_text_is_added(first: str, second: str) -> None:
    both = estimate_tokens(first + second)
    assert both >= max(estimate_tokens(first), estimate_tokens(second))
    assert both <= estimate_tokens(first) + estimate_tokens(second)


@given(st.text(min_size=1))
def test_every_text_counts_something_in_decisions(text: str) -> None:
    assert estimate_tokens(text) >= 1


def test_call_names_and_arguments_count() -> None:
    bare = AssistantMessage(parts=(call("write"),))
    full = AssistantMessage(parts=(call("write", path="a.py", content="x = 1\n" * 500),))
    assert message_tokens(full) > message_tokens(bare) + 1_000


def test_images_count_by_size_with_a_cap_and_1200_where_it_is_unknown() -> None:
    assert image_tokens(IMAGE) == 10
    assert image_tokens(ImagePart(media_type="image/png", data="")) == IMAGE_TOKENS == 1_200
    assert image_tokens(ImagePart(media_type="image/png", data="", width=9_000, height=9_000)) == IMAGE_CAP
    unknown = ImagePart(media_type="image/png", data="")
    assert message_tokens(UserMessage(parts=(unknown,))) > IMAGE_TOKENS


def test_thinking_that_is_not_sent_back_counts_nothing() -> None:
    said = AssistantMessage(parts=text_parts("ok"))
    thought = AssistantMessage(parts=(ThinkingPart(text="hm " * 900), *text_parts("ok")))
    assert message_tokens(thought) == message_tokens(said)


def test_an_unknown_model_starts_high_and_the_first_report_replaces_that() -> None:
    assert Calibration().ratio("m") == START
    assert Calibration().learn("m", 1_000, 1_210).ratio("m") == pytest.approx(1.21)


def test_later_reports_move_the_ratio_towards_what_they_say() -> None:
    learnt = Calibration().learn("m", 1_000, 1_000)
    for _ in range(20):
        learnt = learnt.learn("m", 1_000, 1_200)
    assert learnt.ratio("m") == pytest.approx(1.2, abs=0.001)


def test_each_model_has_a_ratio_of_its_own() -> None:
    learnt = Calibration().learn("m", 1_000, 1_000)
    assert (learnt.ratio("m"), learnt.ratio("other")) == (1.0, START)


def test_a_usage_below_seventy_per_cent_of_a_calibrated_estimate_is_never_learnt() -> None:
    learnt = Calibration().learn("m", 1_000, 1_200)
    assert learnt.learn("m", 1_000, 839) is learnt
    assert learnt.learn("m", 1_000, 841).ratio("m") < 1.2


def test_the_ratio_stays_within_sense() -> None:
    assert Calibration().learn("m", 100, 10_000).ratio("m") == HIGHEST
    assert Calibration().learn("m", 1_000, 600).ratio("m") == LOWEST


def test_decisions_err_high() -> None:
    assert Calibration().learn("m", 1_000, 1_200).scale("m") == pytest.approx(1.2 * MARGIN)
