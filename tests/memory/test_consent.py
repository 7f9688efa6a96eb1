"""Messages that only agree, and messages that depend on the one they answer."""

import pytest

from foldline.memory.conversation import is_consent, needs_context


@pytest.mark.parametrize(
    "text",
    [
        "ok",
        "OK, do as you said.",
        "yes, go ahead!",
        "Sounds good, please continue",
        "yeah, do it all",
        "ok, this looks amazing, start implementing",
        "👍 thanks",
        "lgtm",
        "好的",
        "继续",
        "好的，按你说的做",
        "可以，就这样改吧。",
        "没问题，请继续",
        "按照你的方案来做吧",
        "OK，继续",
        "はい、お願いします",
        "続けてください",
        "네, 계속해 주세요",
        "genau, weiter",
    ],
)
def test_a_message_that_only_agrees_is_a_consent(text: str) -> None:
    assert is_consent(text)
    assert needs_context(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ok, but never touch schema.sql",
        "yes, and add a test for the empty cart",
        "no",
        "don't do that",
        "wait",
        "fix cart.py",
        "不行",
        "不要继续",
        "好的，但是不要改数据库",
        "执行测试",
        "继续，用第二个方案",
        "いいえ",
        "ok " * 100,
    ],
)
def test_a_message_with_content_of_its_own_is_not_a_consent(text: str) -> None:
    assert not is_consent(text)


@pytest.mark.parametrize(
    "text",
    ["use option 2, but without the cache", "继续，用第二个方案", "the second one"],
)
def test_a_choice_depends_on_the_offered_options(text: str) -> None:
    assert needs_context(text)


@pytest.mark.parametrize(
    "text", ["Add an export to CSV", "把配置文件改成 UTF-8 编码", "read src/cart.py"]
)
def test_a_self_contained_request_depends_on_no_other_message(text: str) -> None:
    assert not needs_context(text)
