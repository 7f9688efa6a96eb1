"""The question of a tool call: what always would allow is shown before it is granted, at any size."""

import re
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from textual.pilot import Pilot

from foldline.frontend.state import ANSWERS, ONCE, ChatState, Question, Stepping
from foldline.protocol.operations import Approve
from foldline.tui.blocks import diff
from foldline.tui.chat.question import (
    NO_RULE,
    SCROLLS,
    WHY,
)
from foldline.tui.chat.question_text import (
    MAY_LEAVE,
    NOT_PUBLIC,
    SENSITIVE,
    QuestionText,
)
from foldline.tui.keys.typed_ahead import TOO_SOON
from foldline.tui.look.cells import Span
from foldline.tui.messages import OperationWanted
from support.chat_app import ChatApp, Clock, screen_text
from support.limits import few

pytestmark = pytest.mark.slow

CALL = Question(
    "c1", "bash", "make clean", None, 50.0, promises=("make …", "exactly this command")
)
IDLE = ChatState(workdir="shop-api", model="offline")


def asking(*questions: Question) -> ChatState:
    return replace(IDLE, activity=Stepping(90.0), questions=questions)


def answers(app: ChatApp) -> list[tuple[str, str, int]]:
    wanted = [
        event.operation for event in app.posted if isinstance(event, OperationWanted)
    ]
    return [
        (each.call_id, each.answer, each.nth)
        for each in wanted
        if isinstance(each, Approve)
    ]


@pytest.mark.quick_cases(1)
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


async def test_the_mark_stays_on_its_answer_where_others_come_into_sight() -> None:
    clock = Clock()
    app = ChatApp(asking(CALL), clock=clock)
    async with app.run_test(size=(40, 10)) as pilot:
        clock.now += 2
        await pilot.press("down")
        assert "▶ 4 No" in "\n".join(screen_text(app)) and "2 Always" not in "\n".join(
            screen_text(app)
        )
        await pilot.resize_terminal(80, 24)
        await pilot.pause()
        assert "▶ 4 No" in "\n".join(screen_text(app)) and "2 Always" in "\n".join(
            screen_text(app)
        )
        await pilot.press("up", "up", "up")
        assert "▶ 1 Allow once" in "\n".join(screen_text(app))


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(
    ("key", "answer"), [("alt+y", "once"), ("alt+a", "always"), ("alt+p", "project")]
)
async def test_the_keys_answer_while_the_user_types_and_eat_no_text(
    key: str, answer: str
) -> None:
    clock = Clock()
    app = ChatApp(asking(CALL), clock=clock)
    async with app.run_test(size=(80, 24)) as pilot:
        clock.now += 2
        await pilot.press("a", "p", "w", key, "y", "n")
        await pilot.pause()
        assert app.chat.prompt.editor.text == "apwyn"
        assert answers(app) == [("c1", answer, 0)]


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("outside", [True, False])
@pytest.mark.parametrize("key", ["alt+a", "alt+p"])
async def test_where_no_rule_can_stand_for_it_always_is_not_taken(
    outside: bool, key: str
) -> None:
    clock = Clock()
    question = replace(CALL, promises=(), options=ONCE, outside=outside)
    app = ChatApp(asking(question), clock=clock)
    async with app.run_test(size=(80, 24)) as pilot:
        clock.now += 2
        await pilot.press(key)
        await pilot.pause()
        assert not app.posted
        shown = "\n".join(screen_text(app))
        assert NO_RULE in shown
        assert (MAY_LEAVE in shown) == outside
        assert "Alt+A" not in shown and "Alt+P" not in shown
        await pilot.press("alt+y")
        await pilot.pause()
        assert answers(app) == [("c1", "once", 0)]


@pytest.mark.quick
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


@pytest.mark.quick
async def test_where_the_prompt_is_empty_the_question_has_the_focus_and_text_goes_to_the_prompt() -> (
    None
):
    app = ChatApp(clock=Clock())
    async with app.run_test(size=(80, 24)) as pilot:
        app.chat.show(asking(CALL))
        await pilot.pause()
        assert app.focused is app.chat.dock
        app.clock.now += 2
        await pilot.press(*"yank", "1", "2")
        await pilot.pause()
        assert (
            app.focused is app.chat.prompt.editor
            and app.chat.prompt.editor.text == "yank12"
        )
        assert not app.posted


@pytest.mark.parametrize("before", ["text", "tab", "/"])
async def test_a_question_takes_the_focus_from_nobody_who_does_something(
    before: str,
) -> None:
    app = ChatApp(clock=Clock())
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press(
            *(before if before == "text" else [before.replace("/", "slash")])
        )
        await pilot.pause()
        had = app.focused
        app.chat.show(asking(CALL))
        await pilot.pause()
        assert app.focused is had and had is not app.chat.dock


async def test_no_is_the_same_number_where_always_is_not_offered() -> None:
    app = ChatApp(asking(replace(CALL, promises=(), options=ONCE)), clock=Clock())
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        app.clock.now += 2
        await pilot.press("2", "3")
        await pilot.pause()
        assert answers(app) == []
        assert "4 No, and say why" in "\n".join(screen_text(app))


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("typed", ["", "half a prompt"])
async def test_the_key_for_no_asks_why_and_leaves_the_prompt_as_it_is(
    typed: str,
) -> None:
    app = ChatApp(clock=Clock())
    async with app.run_test(size=(80, 24)) as pilot:
        app.chat.prompt.editor.insert(typed)
        app.chat.show(asking(CALL))
        await pilot.pause()
        app.clock.now += 2
        await pilot.press("alt+n", *"use a copy")
        await pilot.pause()
        shown = "\n".join(screen_text(app))
        assert "❯ use a copy" in shown and WHY in shown and not app.posted
        await pilot.press("enter")
        await pilot.pause()
        (event,) = app.posted
        assert isinstance(event, OperationWanted)
        assert event.operation == Approve(call_id="c1", answer="deny", why="use a copy")
        assert app.chat.prompt.editor.text == typed


async def test_enter_does_not_allow_a_call_whose_key_for_no_came_too_soon() -> None:
    app = ChatApp(asking(CALL), clock=Clock())
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        await pilot.press("alt+n")
        await pilot.pause()
        assert TOO_SOON in "\n".join(screen_text(app))
        app.clock.now += 2
        await pilot.press("enter")
        await pilot.pause()
        assert WHY in "\n".join(screen_text(app)) and not app.posted


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("keys", [["4"], ["up", "down", "down", "down", "enter"]])
async def test_a_call_is_declined_with_a_sentence_for_the_model(
    keys: Sequence[str],
) -> None:
    app = ChatApp(asking(CALL), clock=Clock())
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        app.clock.now += 2
        await pilot.press(*keys, *"use 4")
        await pilot.pause()
        shown = "\n".join(screen_text(app))
        assert "❯ use 4" in shown and "Enter done · Esc cancel" in shown
        await pilot.press("escape")
        app.clock.now += 2
        await pilot.press("4", "enter")
        await pilot.pause()
        (event,) = app.posted
        assert isinstance(event, OperationWanted)
        assert event.operation == Approve(call_id="c1", answer="deny", why="use 4")
        app.chat.show(IDLE)
        await pilot.pause()
        assert (
            app.focused is app.chat.prompt.editor and app.chat.prompt.editor.text == ""
        )


async def test_a_sentence_for_a_question_that_is_gone_is_kept_in_the_prompt() -> None:
    app = ChatApp(asking(CALL), clock=Clock())
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        app.clock.now += 2
        await pilot.press("4", *"not")
        app.chat.show(IDLE)
        await pilot.pause()
        await pilot.press(*"now")
        await pilot.pause()
        assert app.chat.prompt.editor.text == "notnow" and answers(app) == []


@pytest.mark.quick
async def test_a_click_on_an_answer_gives_it_and_the_wheel_reads() -> None:
    app = ChatApp(asking(replace(CALL, title=LONG)), clock=Clock())
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        app.clock.now += 2
        row = next(
            at
            for at, line in enumerate(screen_text(app))
            if "2 Always in this session" in line
        )
        await pilot.click(offset=(10, row))
        assert answers(app) == [] and app.chat.dock._now.top > 0
        app.clock.now += 2
        await pilot.pause()
        await pilot.click(offset=(10, row))
        await pilot.pause()
        assert answers(app) == [("c1", "always", 0)]


@pytest.mark.parametrize("size", [(40, 10), (70, 24), (80, 24), (120, 36), (80, 50)])
async def test_a_long_question_grows_to_three_fifths_of_the_screen_and_the_rows_below_stay(
    size: tuple[int, int],
) -> None:
    app = ChatApp(asking(replace(CALL, diff=DIFF)), clock=Clock())
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        lines = screen_text(app)
        height = app.chat.dock.size.height
        assert height == size[1] * 3 // 5 - (size[1] == 10)
        assert sum("? Allow this bash call?" in line for line in lines) == 2, (
            "in the status row, too"
        )
        assert re.search(r"lines 1–\d+ of \d+, ↓ to read all", "\n".join(lines))
        await pilot.press("tab", "tab", *"four words\nof a prompt".replace("\n", " "))
        await pilot.pause()
        assert app.chat.status.region.bottom <= size[1]


@pytest.mark.quick
async def test_two_questions_in_a_row_each_show_their_own_rule() -> None:
    clock = Clock()
    second = replace(CALL, id="c2", title="git status", promises=("git status …",))
    app = ChatApp(asking(CALL, second), clock=clock)
    async with app.run_test(size=(80, 24)) as pilot:
        clock.now += 2
        await pilot.pause()
        await pilot.press("alt+w")
        await pilot.pause()
        await pilot.press("alt+a")
        await pilot.pause()
        app.chat.show(asking(second))
        await pilot.press("alt+a")  # in the first second: meant for the one before
        await pilot.pause()
        assert "always: git status …" in "\n".join(screen_text(app))
        clock.now += 2
        await pilot.press("alt+a")
        await pilot.pause()
        assert answers(app) == [("c1", "always", 1), ("c2", "always", 0)]


NASTY = (
    "[/nope] [bold]x[/] \x1b[2J\x1b]52;c;eA==\x07 \u202eevil\u2066 \r\n\x00 幂等" * 200
)
DIFF = "--- a\n+++ b\n@@ -1,40 +1,40 @@\n" + "".join(
    f"-old {n} {NASTY[:60]!r}\n+new {n} \x1b[2J\u202e\n" for n in range(40)
)


@pytest.mark.parametrize("size", [(80, 24), (120, 36)])
async def test_an_endless_title_with_nasty_characters_scrolls_and_its_rule_stays_in_sight(
    size: tuple[int, int],
) -> None:
    clock = Clock()
    question = Question(
        "c1", "bash", NASTY, DIFF, 50.0, promises=(f"git {NASTY[:80]} …",)
    )
    app = ChatApp(asking(question), clock=clock)
    async with app.run_test(size=size) as pilot:
        clock.now += 2
        before = screen_text(app)
        await pilot.press(*["down"] * 5)
        await pilot.pause()
        lines = screen_text(app)
        assert lines != before
        assert all(cell_len(line) == size[0] for line in lines)
        shown = "\n".join(lines)
        assert "always: git [/nope]" in shown
        assert not set(shown) & set("\x1b\x07\x00\r\u202e\u2066")
        assert "❯" in shown and "Allow this bash call?" in shown
        await pilot.press("1")
        await pilot.pause()
        assert answers(app) == []


LONG = "echo start && " + "echo and again && " * 30 + "rm -rf /tmp/x"
SIZES = [(40, 10), (70, 24), (76, 24), (80, 24), (120, 36)]


def inside(app: ChatApp) -> str:
    """What of the question itself is on the screen, without blanks and frames."""
    region = app.chat.dock.region
    rows = screen_text(app)[region.y + 1 : region.bottom - 1]
    return "".join("".join(row[1:-1].split()) for row in rows)


async def read_by(app: ChatApp, pilot: Pilot[None], key: str, most: int = 99) -> str:
    """Press a key until it answers; all that was on the screen before."""
    seen = inside(app)
    for _ in range(most):
        if answers(app):
            break
        app.clock.now += 2
        await pilot.press(key)
        await pilot.pause()
        seen += inside(app)
    return seen


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("size", few(SIZES))
@pytest.mark.parametrize(
    ("key", "typed"), [("alt+y", ""), ("alt+y", "x"), ("enter", ""), ("1", "")]
)
async def test_a_command_is_allowed_once_all_of_it_was_on_the_screen(
    size: tuple[int, int], key: str, typed: str
) -> None:
    app = ChatApp(clock=Clock())
    async with app.run_test(size=size) as pilot:
        await pilot.press(*typed)
        app.chat.show(asking(replace(CALL, title=LONG)))
        await pilot.pause()
        if "/tmp/x" not in inside(app):
            shown = "\n".join(screen_text(app))
            assert re.search(
                rf"lines 1–\d+ of \d+, {'Alt.Y' if typed else '↓'} to read all", shown
            )
            assert f"Enter {SCROLLS}" in shown or typed
        seen = await read_by(app, pilot, key)
        assert answers(app) == [("c1", "once", 0)]
        assert "rm-rf/tmp/x" in seen and seen.count("again") >= 30


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("size", few(SIZES))
@pytest.mark.parametrize(
    ("key", "answer"), [("alt+y", "once"), ("alt+a", "always"), ("alt+p", "project")]
)
async def test_keys_ahead_of_what_is_painted_allow_nothing(
    size: tuple[int, int], key: str, answer: str
) -> None:
    diff = "@@ -1,1 +1,90 @@\n" + "".join(f"+line {number}\n" for number in range(90))
    app = ChatApp(asking(replace(CALL, name="write", diff=diff)), clock=Clock())
    async with app.run_test(size=size) as pilot:
        app.clock.now += 2
        for _ in range(200):
            app.chat.dock.give(
                next(letter for letter, word in ANSWERS.items() if word == answer)
            )
        await pilot.pause()
        assert answers(app) == []
        seen = await read_by(app, pilot, key)
        there_is_room = size != (40, 10) or answer == "once"
        assert answers(app) == [("c1", answer, 0)] * there_is_room
        assert "line89" in seen or not there_is_room


async def test_a_key_that_is_held_reads_to_the_end_and_stops_there() -> None:
    app = ChatApp(asking(replace(CALL, title=LONG)), clock=Clock())
    async with app.run_test(size=(70, 24)) as pilot:
        app.clock.now += 2
        for _ in range(20):
            app.clock.now += 0.1
            await pilot.press("alt+y")
        await pilot.pause()
        assert "/tmp/x" in inside(app) and answers(app) == []
        app.clock.now += 1
        await pilot.press("alt+n", "enter")
        await pilot.pause()
        assert answers(app) == [("c1", "deny", 0)]


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("size", few(SIZES))
async def test_what_was_not_read_can_be_declined(size: tuple[int, int]) -> None:
    app = ChatApp(asking(replace(CALL, title=LONG)), clock=Clock())
    async with app.run_test(size=size) as pilot:
        app.clock.now += 2
        await pilot.press("alt+n", "enter")
        await pilot.pause()
        assert answers(app) == [("c1", "deny", 0)]


@pytest.mark.parametrize(
    "sizes",
    [((120, 36), (44, 12), (90, 20)), ((40, 10), (200, 60)), ((76, 24), (30, 8))],
)
async def test_at_another_width_the_call_is_read_again(
    sizes: tuple[tuple[int, int], ...],
) -> None:
    words = "".join(f"w{number:03} " for number in range(220))
    app = ChatApp(asking(replace(CALL, title=words)), clock=Clock())
    async with app.run_test(size=sizes[0]) as pilot:
        await pilot.pause()
        seen = inside(app)
        for size in (*sizes[1:], sizes[0], (70, 24)):
            seen += await read_by(app, pilot, "alt+y", 1)
            await pilot.resize_terminal(*size)
            await pilot.pause()
            seen += inside(app)
        seen += await read_by(app, pilot, "alt+y")
        assert answers(app) == [("c1", "once", 0)]
        assert [number for number in range(220) if f"w{number:03}" not in seen] == []


async def test_what_lies_under_a_list_of_completions_was_not_on_the_screen() -> None:
    app = ChatApp(clock=Clock())
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("/")
        await pilot.pause()
        app.chat.show(asking(CALL))
        await pilot.pause()
        app.clock.now += 2
        await pilot.press("alt+y")
        await pilot.pause()
        assert app.chat.completion.open and answers(app) == []
        await pilot.press("backspace")
        seen = await read_by(app, pilot, "alt+y")
        assert answers(app) == [("c1", "once", 0)] and "makeclean" in seen


@pytest.mark.parametrize("title", ["make clean", ""])
async def test_what_came_while_the_terminal_was_too_small_is_read_first(
    title: str,
) -> None:
    app = ChatApp(clock=Clock())
    async with app.run_test(size=(30, 8)) as pilot:
        app.chat.show(asking(replace(CALL, title=title)))
        app.clock.now += 2
        await pilot.press("alt+y")
        await pilot.pause()
        assert answers(app) == []
        await pilot.resize_terminal(80, 24)
        await pilot.pause()
        app.clock.now += 2
        await pilot.press("alt+y")
        await pilot.pause()
        assert answers(app) == [("c1", "once", 0)]


@pytest.mark.quick
async def test_another_diff_of_the_same_call_is_read_anew() -> None:
    diff = "@@ -1,1 +1,40 @@\n" + "".join(f"+line {number}\n" for number in range(40))
    app = ChatApp(asking(CALL), clock=Clock())
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        app.chat.show(asking(replace(CALL, diff=diff)))
        app.clock.now += 2
        await pilot.press("alt+y")
        await pilot.pause()
        assert answers(app) == []


def body_of(question: Question, width: int = 76) -> str:
    return "\n".join(
        "".join(text for text, _ in line)
        for line in QuestionText(question, width).lines(0, 10_000)
    )


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(
    "blank",
    ["\u2800", "\u3000", "\u00a0", "\u2003", "\u200b", "\U0001d159", "\U000e0041"],
)
def test_what_looks_like_a_blank_or_like_nothing_is_a_sign(blank: str) -> None:
    body = body_of(
        replace(CALL, title=f"rm{blank}x", diff=f"@@ -1 +1 @@\n+a{blank}b\n")
    )
    assert blank not in body
    assert re.search("rm[␣�]x", body) and re.search("a[␣�]b", body)


@pytest.mark.quick
def test_floods_of_blanks_and_of_lines_are_counted() -> None:
    flood = replace(
        CALL,
        title=f"ls ⏎{'  ⏎' * 500} rm -rf{' ' * 900}~{chr(0x2800) * 900}x",
        diff="@@ -1,1 +1,502 @@\n+a\n" + "+ \n" * 500 + "+z\n",
    )
    body = body_of(flood)
    assert body.count("\n") < 8
    assert "⏎×501" in body and "␣×900 ~␣×900 x" in body
    assert "  2 + 500 blank lines\n502 + z" in body


@pytest.mark.quick
def test_a_diff_that_is_to_be_approved_is_shown_as_it_is() -> None:
    """No word is taken for a number, and nothing is swallowed by a sequence or a CR."""
    diff = "@@ -1,2 +1,3 @@\n-12 old\n+13 new\n+a\x1b]0;rm -rf ~\x07b\n+c\rd\n \tsame\n"
    body = body_of(replace(CALL, diff=diff)).split("\n")
    assert body[1:] == [
        "1 − 12 old",
        "1 + 13 new",
        "2 + a␛]0;rm -rf ~␇b",
        "3 + c␍d",
        "4          same",
    ]


@pytest.mark.quick
@given(st.text(), st.integers(24, 120))
def test_every_sign_of_a_call_is_in_its_lines_at_any_width(
    title: str, width: int
) -> None:
    signs = [
        sign for sign in title if sign.isascii() and sign.isprintable() and sign != " "
    ]
    shown = iter("".join(body_of(replace(CALL, title=title), width).split()))
    assert all(sign in shown for sign in signs)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("words", [4, 400])
async def test_a_rule_that_is_too_long_to_be_shown_is_not_granted(words: int) -> None:
    app = ChatApp(asking(replace(CALL, promises=("word " * words,))), clock=Clock())
    async with app.run_test(size=(80, 24)) as pilot:
        app.clock.now += 2
        await pilot.pause()  # until it is painted: before, no key allows anything
        await pilot.press("alt+a")
        await pilot.pause()
        assert bool(answers(app)) == (words == 4)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(
    ("tool", "says"),
    [
        ("write", SENSITIVE),
        ("read", "outside this folder"),
        ("bash", MAY_LEAVE),
        ("fetch", NOT_PUBLIC),
    ],
)
async def test_what_a_call_reaches_beyond_is_said_in_the_words_of_its_kind(
    tool: str, says: str
) -> None:
    app = ChatApp(
        asking(replace(CALL, name=tool, promises=(), options=ONCE, outside=True)),
        clock=Clock(),
    )
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        assert says in "\n".join(screen_text(app))


TURNED = "--- a.py\n+++ a.py\n@@ -1,30 +1,30 @@\n" + "".join(
    f"{sign}value_{number} = {sign}{number}\n" for sign in "-+" for number in range(30)
)


async def test_a_diff_that_comes_to_stand_side_by_side_is_read_anew() -> None:
    """Its new lines stood below the old ones: some of them were not seen yet, others were twice."""
    clock = Clock()
    app = ChatApp(asking(replace(CALL, name="edit", diff=TURNED)), clock=clock)
    async with app.run_test(size=(139, 60)) as pilot:
        clock.now += 2
        await pilot.pause()
        assert not side_by_side(app)
        await pilot.resize_terminal(140, 24)
        await pilot.pause()
        assert side_by_side(app)
        pages = 0
        while not answers(app):
            await pilot.press("alt+y")
            await pilot.pause()
            clock.now += 2
            pages += 1
        assert pages >= 3 and answers(app) == [("c1", "once", 0)]


def side_by_side(app: ChatApp) -> bool:
    return any(
        "1 − value_0" in line and "1 + value_0" in line for line in screen_text(app)
    )


@pytest.mark.quick
def test_what_is_asked_of_a_long_diff_is_coloured_where_it_is_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    colored: list[int] = []

    def counted(code: Sequence[str], language: str) -> list[list[Span]]:
        colored.append(len(code))
        return [[(line, "text")] for line in code]

    monkeypatch.setattr(diff, "highlighted", counted)
    long = "+++ a.py\n@@ -0,0 +1,5000 @@\n" + "+x = 1\n" * 5_000
    text = QuestionText(replace(CALL, diff=long), 76)
    assert len(text) == 5_001 and not colored
    assert len(text.lines(4_000, 10)) == 10 and sum(colored) <= 80
