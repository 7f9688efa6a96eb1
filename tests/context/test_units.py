from foldline.context.budget import Unit, units_of
from support.history import History, call, history


def units(built: History, *, pins: frozenset[int] = frozenset()) -> list[Unit]:
    return units_of((item.message for item in built.projection().view), pins)


def indices(found: list[Unit]) -> list[list[int]]:
    return [[message.index for message in unit.messages] for unit in found]


def test_a_group_of_parallel_calls_is_one_unit_and_messages_are_units_alone() -> None:
    built = history().system("s").instructions("i").user("go").assistant(calls=[call("a"), call("b")])
    built.result("1").result("2").assistant("done")
    assert indices(units(built)) == [[2], [3, 4, 5], [6]]


def test_a_notice_goes_with_what_it_came_after() -> None:
    built = history().user("go").notice("a reminder").assistant("done").notice("another")
    assert indices(units(built)) == [[0, 1], [2, 3]]


def test_a_notice_does_not_go_with_what_is_pinned() -> None:
    built = history().user("go").notice("a reminder").assistant("done")
    assert indices(units(built, pins=frozenset({0}))) == [[0], [1], [2]]


def test_a_unit_tells_who_said_what() -> None:
    built = history().user("go").assistant("I look", calls=[call("read", path="a")]).result("text")
    asked, group = units(built)
    assert (asked.asked, asked.said, group.asked, group.said) == ("go", "", "", "I look")
    assert [result.text for result in group.results] == ["text"]
