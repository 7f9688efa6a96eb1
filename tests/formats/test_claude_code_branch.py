"""Which records of a Claude Code session are on the branch in use."""

from support.claude_code_rows import attachment, call, piece, read, result, text, texts, user


def test_the_branch_of_the_last_message_is_read_and_the_others_are_named() -> None:
    session = read(
        user("root", uuid="a"),
        piece("m1", text("answer"), uuid="b"),
        user("wrong way", uuid="c"),
        piece("m2", text("wrong answer"), uuid="d"),
        piece("m2", text("more of it"), uuid="e"),
        user("right way", uuid="f", parentUuid="b"),
    )
    assert texts(session) == ["root", "answer", "right way"]
    assert session.notes == (
        "Left out: 2 messages on other branches (2 messages from record 2 on); "
        "only the branch last used is read.",
    )


def test_calls_of_a_branch_that_was_left_are_left_too() -> None:
    session = read(
        user("root", uuid="a"),
        piece("m1", call("c1", "Bash"), uuid="b"),
        result("c1", "gone", uuid="c"),
        {**attachment("hook_additional_context", content=["gone too"]), "uuid": "d"},
        user("again", uuid="e", parentUuid="a"),
    )
    assert texts(session) == ["root", "again"]


def test_many_other_branches_are_not_all_named() -> None:
    tries = [user(f"try {n}", uuid=f"t{n}", parentUuid="a") for n in range(8)]
    [note] = read(user("root", uuid="a"), *tries).notes
    assert "7 messages on other branches" in note
    assert "from record 5 on, 2 more)" in note


def test_the_file_of_a_sub_agent_is_read_as_its_own_session() -> None:
    session = read(user("look", isSidechain=True), piece("m1", text("I looked"), isSidechain=True))
    assert texts(session) == ["look", "I looked"]
    assert session.notes == ("This is the session of a sub-agent.",)


def test_a_lost_record_does_not_cut_off_all_before_it() -> None:
    session = read(user("one"), b'{"type":"user","uuid":"lost', user("three", parentUuid="lost"))
    assert texts(session) == ["one", "three"]
    assert "broken 1 time" in session.notes[1]


def test_a_session_may_go_on_from_records_of_another_file() -> None:
    session = read(user("one", parentUuid="elsewhere"), user("two"))
    assert texts(session) == ["one", "two"]
    assert session.notes == ()


def test_records_that_point_in_a_circle_end() -> None:
    session = read(user("one", uuid="a", parentUuid="b"), user("two", uuid="b", parentUuid="a"))
    assert texts(session) == ["one", "two"]


def test_a_circle_beside_the_branch_is_another_branch() -> None:
    session = read(
        user("one", uuid="a", parentUuid="b"),
        user("two", uuid="b", parentUuid="a"),
        user("three", uuid="c", parentUuid=None),
    )
    assert texts(session) == ["three"]
    assert "2 messages from record 0 on" in session.notes[0]


def test_a_fork_names_where_it_comes_from() -> None:
    session = read(user("hi", forkedFrom={"sessionId": "s-0", "messageUuid": "x"}), user("on"))
    assert session.notes == ("The session was forked from session s-0.",)
