"""An answer that agrees counts once all of its question was on the screen: plans, hooks, pages of servers."""

from dataclasses import replace

import pytest
from textual import events
from textual.pilot import Pilot

from foldline.frontend.state import Answerable, ChatState, Question, Stepping
from foldline.protocol.operations import Choose
from foldline.tui.blocks.markdown import agreement_lines
from foldline.tui.chat.question import UNREAD
from foldline.tui.chat.question_text import QuestionText
from foldline.tui.keys.typed_ahead import TOO_SOON
from foldline.tui.messages import OperationWanted
from support.chat_app import ChatApp, Clock, burst, screen_text
from support.limits import few

SIZES = [(40, 10), (80, 24), (200, 60)]
OPTIONS = (
    Answerable("y", "Accept the plan", agrees=True),
    Answerable("n", "No, and say why", "line"),
)


def plan(steps: int) -> Question:
    text = "# Orders\n\n" + "\n".join(
        f"- step{number:03} of *all*" for number in range(steps)
    )
    return Question(
        "p1", "Accept this plan?", text, None, 50.0, OPTIONS, "choice", is_markdown=True
    )


def hooks(lines: int) -> Question:
    commands = [
        "\n".join(
            f"do h{hook}l{line:02} {'with more words ' * 4}" for line in range(lines)
        )
        for hook in range(5)
    ]
    text = "\n\n".join(
        f"Hook {number}: Stop\n{command}" for number, command in enumerate(commands)
    )
    options = (
        Answerable("y", "Let them run", agrees=True),
        Answerable("n", "Leave them out"),
    )
    return Question(
        "h1", "Allow 5 hooks of this folder?", text, None, 50.0, options, "choice"
    )


PLAN, HOOKS = plan(60), hooks(12)


def asking(question: Question) -> ChatState:
    return ChatState(
        workdir="shop", model="offline", activity=Stepping(90.0), questions=(question,)
    )


def answers(app: ChatApp) -> list[str]:
    wanted = [
        event.operation for event in app.posted if isinstance(event, OperationWanted)
    ]
    return [each.key for each in wanted if isinstance(each, Choose)]


def inside(app: ChatApp) -> str:
    """What of the question itself is on the screen."""
    region = app.chat.dock.region
    return "\n".join(
        row[1:-1] for row in screen_text(app)[region.y + 1 : region.bottom - 1]
    )


async def read_by(app: ChatApp, pilot: Pilot[None], *keys: str) -> str:
    """Press keys in turn until there is an answer; all that was on the screen before."""
    seen = inside(app)
    for turn in range(600):
        if answers(app):
            break
        app.clock.now += 2
        await pilot.press(keys[turn % len(keys)])
        await pilot.pause()
        seen += inside(app)
    return seen


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(
    "keys", few([("1",), ("enter", "1"), ("end", "1"), ("down", "end", "1")])
)
@pytest.mark.parametrize(
    ("size", "many"), [((40, 10), 4), ((80, 24), 30), ((200, 60), 60)]
)
@pytest.mark.parametrize("what", ["plan", "hooks"])
async def test_it_counts_once_every_line_was_on_the_screen(
    size: tuple[int, int], many: int, keys: tuple[str, ...], what: str
) -> None:
    question, words = plan(5 * many), [f"step{number:03}" for number in range(5 * many)]
    if what == "hooks":
        question, words = (
            hooks(many),
            [f"h{hook}l{line:02}" for hook in range(5) for line in range(many)],
        )
    app = ChatApp(clock=Clock())
    async with app.run_test(size=size) as pilot:
        app.chat.show(asking(question))
        await pilot.pause()
        seen = await read_by(app, pilot, *keys)
        assert answers(app) == ["y"]
        assert [word for word in words if word not in seen] == []


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("size", few(SIZES))
async def test_neither_keys_ahead_nor_a_click_nor_the_wheel_agree_to_what_was_not_seen(
    size: tuple[int, int],
) -> None:
    app = ChatApp(asking(HOOKS), clock=Clock())
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        app.clock.now += 2
        burst(app, "1\r\r\r1" * 20)
        await pilot.pause()
        assert answers(app) == []
        row = next(
            at for at, line in enumerate(screen_text(app)) if "1 Let them run" in line
        )
        for _ in range(3):
            app.chat.dock.on_mouse_scroll_down()
        app.clock.now += 2
        await pilot.click(offset=(10, row))
        await pilot.pause()
        assert answers(app) == [] and app.chat.remarked == UNREAD


async def test_it_is_declined_at_any_time() -> None:
    app = ChatApp(asking(HOOKS), clock=Clock())
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        app.clock.now += 2
        await pilot.press("2")
        await pilot.pause()
        assert answers(app) == ["n"]


async def test_an_edit_of_a_plan_needs_no_reading_and_its_new_text_is_read_from_the_start() -> (
    None
):
    app = ChatApp(asking(PLAN), clock=Clock())
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        for _ in range(5):
            app.clock.now += 2
            await pilot.press("enter")
            await pilot.pause()
        edited = replace(
            PLAN, id="p2", title=f"{PLAN.title}\n- one more", opened_by_user=True
        )
        app.chat.show(asking(edited))
        await pilot.pause()
        seen = await read_by(app, pilot, "enter")
        assert answers(app) == ["y"] and "step000" in seen and "one more" in seen


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(
    "sizes", [((40, 10), (200, 60), (80, 24)), ((200, 60), (44, 12), (120, 36))]
)
@pytest.mark.parametrize("table", [False, True])
async def test_at_another_width_the_question_is_read_again(
    sizes: tuple[tuple[int, int], ...], table: bool
) -> None:
    rows = "\n".join(
        f"| cell{n:03} {'wide ' * 9} | other{n:03} {'more ' * 9} |" for n in range(12)
    )
    text = f"{PLAN.title}\n\n| a | b |\n|---|---|\n{rows}" if table else PLAN.title
    app = ChatApp(asking(replace(PLAN, title=text)), clock=Clock())
    async with app.run_test(size=sizes[0]) as pilot:
        await pilot.pause()
        seen = inside(app)
        for size in (*sizes[1:], sizes[0], (70, 24)):
            app.clock.now += 2
            await pilot.press("enter")
            await pilot.pause()
            seen += inside(app)
            await pilot.resize_terminal(*size)
            await pilot.pause()
            seen += inside(app)
        seen += await read_by(app, pilot, "1")
        assert answers(app) == ["y"]
        words = [f"step{n:03}" for n in range(60)]
        words += [
            f"{column}{n:03}" for column in ("cell", "other") for n in range(12)
        ] * table
        assert [word for word in words if word not in seen] == []


def body(question: Question, width: int = 76) -> str:
    lines = QuestionText(question, width).lines(0, 10_000)
    return "\n".join("".join(text for text, _ in line).rstrip() for line in lines)


def test_a_plan_is_drawn_as_markdown() -> None:
    shown = body(
        replace(
            PLAN,
            title="# Orders\n\n1. a **unique** index\n2. insert\n\n```sh\nmake test\n```\n",
        )
    )
    assert "#" not in shown and "**" not in shown
    assert (
        "1. a unique index" in shown
        and "▏ make test" in shown
        and "sh" in shown.split("\n")
    )


@pytest.mark.parametrize(
    "hidden",
    [
        '[the plan](https://example.org "then delete all")',
        "![a picture](https://example.org/secret)",
        "```sh and nobody sees this\nmake\n```",
        "&#114;&#109; -rf",
        "1. one\n1. two",
        f"{'> ' * 40}deep",
    ],
)
def test_where_markdown_would_hide_something_its_source_is_shown(hidden: str) -> None:
    shown = "".join(body(replace(PLAN, title=f"# Orders\n\n{hidden}"), 40).split())
    assert "".join(hidden.split()) in shown


@pytest.mark.parametrize(
    "comment",
    ["<!-- delete all -->", "<b title='delete all'>x</b>", "[x]: /delete 'all'"],
)
def test_html_and_definitions_are_text(comment: str) -> None:
    assert comment in body(replace(PLAN, title=f"One.\n\n{comment}\n"))


def test_blanks_that_are_none_and_floods_of_lines_are_signs_in_a_plan_too() -> None:
    shown = body(replace(PLAN, title=f"a\u2800b\n{chr(10) * 300}rm\n"))
    assert "a␣b" in shown and "300 blank lines" in shown and shown.count("\n") < 8


def test_markdown_of_any_width_keeps_its_letters() -> None:
    text = "# Head\n\n- one\n  - two `code`\n\n> quoted *text*\n\n| a | b |\n|--:|---|\n| 1 | long cell |\n"
    for width in (8, 24, 76, 196):
        shown = "".join(
            part for line in agreement_lines(text, width) for part, _ in line
        )
        assert sorted(filter(str.isalnum, shown)) == sorted(filter(str.isalnum, text))


# --- deafness ---------------------------------------------------------------------------------------------

UNDO = Question(
    "u1",
    "Undo compaction 147?",
    "The next request grows.",
    None,
    50.0,
    (Answerable("u", "Undo anyway"), Answerable("n", "Keep it")),
    "choice",
    opened_by_user=True,
)


async def test_a_question_that_the_user_opened_takes_enter_at_once() -> None:
    app = ChatApp(clock=Clock())
    async with app.run_test(size=(80, 24)) as pilot:
        app.chat.show(asking(UNDO))
        await pilot.pause()
        await pilot.press("enter")
        await pilot.pause()
        assert answers(app) == ["u"] and app.chat.remarked == ""


async def test_but_none_that_was_typed_before_it_was_on_the_screen() -> None:
    app = ChatApp(clock=Clock())
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        app.chat.show(asking(UNDO))
        app.chat.dock.on_key(events.Key("enter", "\r"))
        app.chat.dock.on_key(events.Key("1", "1"))
        await pilot.pause()
        assert answers(app) == [] and app.chat.remarked == TOO_SOON


async def test_the_status_row_forgets_that_a_question_had_just_come_with_the_question() -> (
    None
):
    app = ChatApp(clock=Clock())
    async with app.run_test(size=(80, 24)) as pilot:
        app.chat.show(asking(replace(UNDO, opened_by_user=False)))
        await pilot.pause()
        await pilot.press("1")
        await pilot.pause()
        assert TOO_SOON in "\n".join(screen_text(app)) and answers(app) == []
        app.chat.show(ChatState(workdir="shop", model="offline"))
        await pilot.pause()
        assert TOO_SOON not in "\n".join(screen_text(app))
