from hypothesis import given
from hypothesis import strategies as st

from foldline.context.importance import similarity, terms


def test_what_shares_rare_words_is_nearer_than_what_shares_common_ones() -> None:
    texts = ["the login handler checks the token", "the invoice has the vat", "the chart of the year"]
    near = similarity("why is the token of the login refused", texts)
    assert near[0] > max(near[1:])


def test_names_of_code_are_found_by_their_parts() -> None:
    assert {"parseorder", "parse", "order"} <= set(terms("parseOrder"))
    assert {"max_total", "max", "total"} <= set(terms("max_total"))
    assert similarity("parse the order", ["def parseOrder():", "def drawChart():"])[1] == 0


def test_chinese_is_compared_by_pairs_of_characters() -> None:
    near = similarity("数据库连接失败", ["修复数据库的连接", "更新发票模板"])
    assert near[0] > near[1] == 0


def test_the_same_text_is_as_near_as_can_be() -> None:
    text = "retry the payment three times"
    assert similarity(text, [text, "other words here"])[0] > 0.99


@given(st.text(), st.lists(st.text(), max_size=5))
def test_any_texts_are_somewhere_between_nothing_and_the_same(task: str, texts: list[str]) -> None:
    near = similarity(task, texts)
    assert len(near) == len(texts)
    assert all(0 <= value <= 1 for value in near)
