"""The question of a tool call: what always would allow is shown before it is granted, at any size."""

from dataclasses import replace

import pytest
from rich.cells import cell_len

from foldline.tui.chat import QuestionAnswered
from foldline.tui.state import ONCE, ChatState, Question, Stepping
from support.chat_app import ChatApp, Clock, screen_text

CALL = Question("c1", "bash", "make clean", None, 50.0, promises=("make …", "exactly this command"))
IDLE = ChatState(workdir="shop-api", model="offline")


def asking(*questions: Question) -> ChatState:
    return replace(IDLE, activity=Stepping(90.0), questions=questions)


def answers(app: ChatApp) -> list[tuple[str, str, int]]:
    posted = [event for event in app.posted if isinstance(event, QuestionAnswered)]
    return [(event.call_id, event.answer, event.nth) for event in posted]


@pytest.mark.parametrize("size", [(80, 24), (120, 36), (40, 12)])
async def test_the_rule_that_always_would_grant_is_shown_and_another_one_on_demand(
    size: tuple[int, int],
) -> None:
    clock = Clock()
    app = ChatApp(asking(CALL), clock=clock)
    async with app.run_test(size=size) as pilot:
        clock.now += 2
        await pilot.pause()
        assert "always: make …" in "\n".join(screen_text(app))
        await pilot.press("alt+w")
        await pilot.pause()
        assert "always: exactly this" in "\n".join(screen_text(app))
        await pilot.press("alt+p")
        await pilot.pause()
        assert answers(app) == [("c1", "project", 1)]


@pytest.mark.parametrize(
    ("key", "answer"), [("alt+y", "once"), ("alt+a", "always"), ("alt+p", "project"), ("alt+n", "deny")]
)
async def test_the_keys_answer_while_the_user_types_and_eat_no_text(key: str, answer: str) -> None:
    clock = Clock()
    app = ChatApp(asking(CALL), clock=clock)
    async with app.run_test(size=(80, 24)) as pilot:
        clock.now += 2
        await pilot.press("a", "p", "w", key, "y", "n")
        await pilot.pause()
        assert app.chat.prompt.editor.text == "apwyn"
        assert answers(app) == [("c1", answer, 0)]


@pytest.mark.parametrize("outside", [True, False])
@pytest.mark.parametrize("key", ["alt+a", "alt+p"])
async def test_where_no_rule_can_stand_for_it_always_is_not_taken(outside: bool, key: str) -> None:
    clock = Clock()
    question = replace(CALL, promises=(), options=ONCE, outside=outside)
    app = ChatApp(asking(question), clock=clock)
    async with app.run_test(size=(80, 24)) as pilot:
        clock.now += 2
        await pilot.press(key)
        await pilot.pause()
        assert not app.posted
        shown = "\n".join(screen_text(app))
        assert "each such call asks" in shown
        assert ("may leave this folder" in shown) == outside
        assert "Alt+A" not in shown and "Alt+P" not in shown
        await pilot.press("alt+y")
        await pilot.pause()
        assert answers(app) == [("c1", "once", 0)]


async def test_what_cannot_be_shown_is_not_granted() -> None:
    clock = Clock()
    app = ChatApp(asking(CALL), clock=clock)
    async with app.run_test(size=(40, 10)) as pilot:
        clock.now += 2
        await pilot.press("alt+a")
        await pilot.pause()
        assert not app.posted
        await pilot.resize_terminal(80, 24)
        await pilot.press("alt+a")
        await pilot.pause()
        assert answers(app) == [("c1", "always", 0)]


async def test_two_questions_in_a_row_each_show_their_own_rule() -> None:
    clock = Clock()
    second = replace(CALL, id="c2", title="git status", promises=("git status …",))
    app = ChatApp(asking(CALL, second), clock=clock)
    async with app.run_test(size=(80, 24)) as pilot:
        clock.now += 2
        await pilot.press("alt+w", "alt+a")
        await pilot.pause()
        app.chat.show(asking(second))
        await pilot.press("alt+a")  # in the first second: meant for the one before
        await pilot.pause()
        assert "always: git status …" in "\n".join(screen_text(app))
        clock.now += 2
        await pilot.press("alt+a")
        await pilot.pause()
        assert answers(app) == [("c1", "always", 1), ("c2", "always", 0)]


NASTY = "[/nope] [bold]x[/] \x1b[2J\x1b]52;c;eA==\x07 \u202eevil\u2066 \r\n\x00 幂等" * 200
DIFF = "--- a\n+++ b\n@@ -1,40 +1,40 @@\n" + "".join(
    f"-old {n} {NASTY[:60]!r}\n+new {n} \x1b[2J\u202e\n" for n in range(40)
)


@pytest.mark.parametrize("size", [(80, 24), (120, 36)])
async def test_an_endless_title_with_nasty_characters_scrolls_and_its_rule_stays_in_sight(
    size: tuple[int, int],
) -> None:
    clock = Clock()
    question = Question("c1", "bash", NASTY, DIFF, 50.0, promises=(f"git {NASTY[:80]} …",))
    app = ChatApp(asking(question), clock=clock)
    async with app.run_test(size=size) as pilot:
        clock.now += 2
        await pilot.press("tab")
        await pilot.pause()
        before = screen_text(app)
        await pilot.press(*["down"] * 5)
        await pilot.pause()
        lines = screen_text(app)
        assert lines != before
        assert all(cell_len(line) == size[0] for line in lines)
        shown = "\n".join(lines)
        assert "always: git [/nope]" in shown
        assert not set(shown) & set("\x1b\x07\x00\r\u202e\u2066")
        assert "❯" in shown and "asks" in shown
        await pilot.press("y")
        await pilot.pause()
        assert answers(app) == [("c1", "once", 0)]


@pytest.mark.parametrize(
    ("tool", "says"),
    [
        ("write", "outside, or a file that acts"),
        ("read", "outside this folder"),
        ("bash", "may leave this folder"),
        ("fetch", "not a public address"),
    ],
)
async def test_what_a_call_reaches_beyond_is_said_in_the_words_of_its_kind(tool: str, says: str) -> None:
    app = ChatApp(asking(replace(CALL, name=tool, promises=(), options=ONCE, outside=True)), clock=Clock())
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        assert says in "\n".join(screen_text(app))
