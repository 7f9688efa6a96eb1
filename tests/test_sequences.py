"""Grouping of values by a key, and merging of spans."""

from foldline.sequences import grouped, merged_spans


def test_keys_and_values_keep_their_order() -> None:
    groups = grouped([("b", 2), ("a", 1), ("b", 1)])
    assert list(groups.items()) == [("b", [2, 1]), ("a", [1])]


def test_without_pairs_there_are_no_groups() -> None:
    assert grouped([]) == {}


def test_spans_that_touch_or_overlap_are_merged() -> None:
    assert merged_spans([(0, 2), (2, 5), (3, 4), (6, 7)]) == [(0, 5), (6, 7)]
    assert merged_spans([]) == []
