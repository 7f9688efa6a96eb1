"""JSON of other programs is parsed with one kind of error, however deep it is nested."""

import pytest

from foldline.json_text import is_nested_deeper, parse_json


@pytest.mark.parametrize("text", ["", "{", "nothing", '{"a": 1} x', "[" * 200_000])
def test_text_that_cannot_be_parsed_is_one_error(text: str) -> None:
    with pytest.raises(ValueError):
        parse_json(text)


@pytest.mark.parametrize(
    ("value", "levels"),
    [(1, 0), ("[[", 0), ([], 1), ({}, 1), ({"a": [1]}, 2), ([[], {"b": [[]]}], 4)],
)
def test_levels_of_nesting_are_counted(value: object, levels: int) -> None:
    assert not is_nested_deeper(value, levels)
    assert levels == 0 or is_nested_deeper(value, levels - 1)
