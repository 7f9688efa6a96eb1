"""Which notes become one milestone: those about the same things, and only where room is short."""

from hypothesis import given
from hypothesis import strategies as st

from foldline.compaction.notes import Note, Record, promotion, size_of, topics


@given(st.lists(st.integers(1, 60), max_size=12), st.integers(0, 12), st.integers(1, 2_000))
def test_a_promotion_leaves_no_note_out_and_keeps_their_order(
    lengths: list[int], cut: int, room: int
) -> None:
    notes = tuple(Note(f"- Done: {'word ' * length}", nth, nth) for nth, length in enumerate(lengths))
    made = promotion(Record("", notes[:cut], notes[cut:]), room)
    assert [*(note for topic in made.topics for note in topic.notes), *made.turns] == [*notes]
    assert made.turns or not notes[cut:]
    assert all(topic.stays for topic in made.topics) or size_of(notes) > room


def test_neighbours_about_the_same_files_stay_together() -> None:
    cart = [Note(f"- Done: changed src/cart/basket.py, step {nth}") for nth in range(5)]
    docs = [Note(f"- Done: wrote docs/install.md, part {nth}") for nth in range(7)]
    again = [Note(f"- Done: changed src/cart/basket.py, retry {nth}") for nth in range(4)]
    assert topics([*cart, *docs, *again], 6) == [tuple(cart), tuple(docs), tuple(again)]
    assert topics([*cart, *docs], 1) == [(*cart, *docs)]
    assert topics(cart, 4) == [tuple(cart)]
    assert topics([], 4) == []


def test_neighbours_in_chinese_are_told_apart_too() -> None:
    cart = [Note(f"- Done: 修改购物车的价格计算 {nth}") for nth in range(4)]
    docs = [Note(f"- Done: 更新安装文档的说明 {nth}") for nth in range(4)]
    assert topics([*cart, *docs], 3) == [tuple(cart), tuple(docs)]
