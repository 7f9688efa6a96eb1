"""Grouping of values by a key."""

from foldline.sequences import grouped


def test_keys_and_values_keep_their_order() -> None:
    groups = grouped([("b", 2), ("a", 1), ("b", 1)])
    assert list(groups.items()) == [("b", [2, 1]), ("a", [1])]


def test_without_pairs_there_are_no_groups() -> None:
    assert grouped([]) == {}
