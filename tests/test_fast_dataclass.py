"""The dataclasses of `foldline.fast_dataclass` behave like those of the standard library."""

from copy import deepcopy
from dataclasses import field, fields, replace

import pytest

from foldline.fast_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Point:
    x: int
    y: int = 0
    note: str = field(default="", compare=False, repr=False)


@dataclass
class Basket:
    items: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True, eq=False)
class Thing:
    name: str


@dataclass(frozen=True)
class Empty:
    """Has no fields."""


def test_equality_and_hash_use_the_compared_fields() -> None:
    assert Point(1, note="a") == Point(1, note="b")
    assert hash(Point(1, note="a")) == hash(Point(1, note="b"))
    assert Point(1) != Point(2)
    assert Point(1) != (1, 0)
    assert Empty() == Empty() and hash(Empty()) == hash(Empty())


def test_an_instance_that_can_change_has_no_hash() -> None:
    assert Basket([1]) == Basket([1])
    with pytest.raises(TypeError):
        hash(Basket())


def test_without_equality_instances_are_compared_by_identity() -> None:
    thing = Thing("a")
    assert thing == thing and thing != Thing("a")
    assert {thing: 1}[thing] == 1


def test_the_representation_names_the_fields() -> None:
    assert repr(Point(1, note="hidden")) == "Point(x=1, y=0)"


def test_instances_can_be_matched_copied_and_replaced() -> None:
    match Point(1, 2):
        case Point(1, y):
            assert y == 2
    assert replace(Point(1), y=3) == Point(1, 3)
    assert deepcopy(Point(1)) == Point(1)
    assert [each.name for each in fields(Point)] == ["x", "y", "note"]
    assert not hasattr(Point(1), "__dict__")
