"""Which records of a Claude Code session are on the branch in use."""

from foldline.formats import ForeignSession
from foldline.formats.parts import OTHER_BRANCHES
from foldline.past.branches import branches
from foldline.protocol import Revert
from foldline.view.projection import project
from foldline.view.rules import broken, dangling
from support.claude_code_rows import (
    attachment,
    boundary,
    call,
    piece,
    read,
    result,
    summary,
    text,
    texts,
    user,
)


def ways(session: ForeignSession, *, inner: bool = False) -> list[list[str]]:
    """What the view of each branch says; with `inner`, of each turn."""
    projection = project(session.entries)
    assert broken(projection) == [] and dangling(projection) == []
    tips = [
        turn.moment for turn in branches(projection).turns if inner or not turn.children
    ]
    views = [
        projection.with_entries(Revert(checkpoint=-1, moment=moment)).view
        for moment in tips
    ]
    return [[item.message.text for item in view] for view in views]


def test_the_branch_of_the_last_message_is_the_view_and_the_others_can_be_gone_to() -> (
    None
):
    session = read(
        user("root", uuid="a"),
        piece("m1", text("answer"), uuid="b"),
        user("wrong way", uuid="c"),
        piece("m2", text("wrong answer"), uuid="d"),
        piece("m2", text("more of it"), uuid="e"),
        user("right way", uuid="f", parentUuid="b"),
    )
    assert texts(session) == ["root", "answer", "right way"]
    assert session.notes == (OTHER_BRANCHES.format(messages="2 messages are"),)
    assert ways(session) == [
        ["root", "answer", "wrong way", "wrong answer\nmore of it"],
        texts(session),
    ]


def test_calls_of_a_branch_that_was_left_are_left_too() -> None:
    session = read(
        user("root", uuid="a"),
        piece("m1", call("c1", "Bash"), uuid="b"),
        result("c1", "gone", uuid="c"),
        {**attachment("hook_additional_context", content=["gone too"]), "uuid": "d"},
        user("again", uuid="e", parentUuid="a"),
    )
    assert texts(session) == ["root", "again"]
    assert ["root", "", "gone", "gone too"] in ways(session, inner=True)


def test_each_of_many_branches_goes_on_where_it_left_another() -> None:
    tries = [user(f"try {n}", uuid=f"t{n}", parentUuid="a") for n in range(4)]
    more = [
        user("on", uuid="o", parentUuid="t1"),
        user("else", uuid="e", parentUuid="t1"),
    ]
    session = read(user("root", uuid="a"), *tries, *more, user("last", parentUuid="t0"))
    assert "5 messages are on other branches" in session.notes[0]
    assert sorted(ways(session)) == [
        ["root", "try 0", "last"],
        ["root", "try 1", "else"],
        ["root", "try 1", "on"],
        ["root", "try 2"],
        ["root", "try 3"],
    ]


def test_what_a_branch_compacted_is_compacted_on_no_other() -> None:
    session = read(
        user("one", uuid="a"),
        piece("m1", text("answer"), uuid="b"),
        {**boundary(), "uuid": "c", "logicalParentUuid": "b"},
        summary("so far", uuid="d", parentUuid="c"),
        user("on", uuid="e", parentUuid="d"),
        user("two", uuid="f", parentUuid="b"),
    )
    assert texts(session) == ["one", "answer", "two"]
    assert ways(session) == [["so far", "on"], ["one", "answer", "two"]]


def test_a_circle_beside_the_branch_is_another_branch() -> None:
    session = read(
        user("one", uuid="a", parentUuid="b"),
        user("two", uuid="b", parentUuid="a"),
        user("three", uuid="c", parentUuid=None),
    )
    assert texts(session) == ["three"]
    assert ways(session) == [["one", "two"], ["three"]]
