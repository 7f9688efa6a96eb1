"""Units of a view: messages that are kept or removed together."""

from foldline.view.units import Unit, units_of
from support.history import History, call, history


def units(built: History, *, pins: frozenset[int] = frozenset()) -> list[Unit]:
    return units_of((item.message for item in built.projection().view), pins)


def indices(found: list[Unit]) -> list[list[int]]:
    return [[message.index for message in unit.messages] for unit in found]


def test_a_group_of_parallel_calls_is_one_unit_and_any_other_message_its_own() -> None:
    built = (
        history()
        .system("s")
        .instructions("i")
        .user("go")
        .assistant(calls=[call("a"), call("b")])
    )
    built.result("1").result("2").assistant("done")
    assert indices(units(built)) == [[2], [3, 4, 5], [6]]


def test_a_notice_belongs_to_the_unit_before_it() -> None:
    built = (
        history().user("go").notice("a reminder").assistant("done").notice("another")
    )
    assert indices(units(built)) == [[0, 1], [2, 3]]


def test_a_notice_after_a_pinned_unit_is_a_unit_of_its_own() -> None:
    built = history().user("go").notice("a reminder").assistant("done")
    assert indices(units(built, pins=frozenset({0}))) == [[0], [1], [2]]


def test_a_unit_separates_its_text_by_author() -> None:
    built = (
        history()
        .user("go")
        .assistant("I look", calls=[call("read", path="a")])
        .result("text")
    )
    asked, group = units(built)
    assert (asked.prompt, asked.answer, group.prompt, group.answer) == (
        "go",
        "",
        "",
        "I look",
    )
    assert [result.text for result in group.results] == ["text"]
