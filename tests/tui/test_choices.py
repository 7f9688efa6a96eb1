"""A choice in the dock: its numbers, its second of deafness, and how it is left."""

from dataclasses import replace

import pytest
from rich.cells import cell_len

from foldline.agent.permissions.approvals import ANSWER_FREELY
from foldline.frontend.state import Answerable, ChatState, Question, Stepping
from foldline.protocol.operations import Approve, Choose
from foldline.tui.chat.escape_actions import ESC_LEAVES_CHOICE
from foldline.tui.chat.question import TO_ANSWER
from foldline.tui.messages import NOT_NOW, CommandInvoked, OperationWanted
from support.chat_app import ChatApp, Clock, screen_text

IDLE = ChatState(workdir="shop-api", model="offline")
OPTIONS = (
    Answerable("c", "compact now"),
    Answerable("p", "preview"),
    Answerable("x", "drop 361, 8.6k"),
    Answerable("s", "send as it is"),
)
CHOICE = Question(
    "w1",
    "window full",
    "361 bash alembic   8.6k\n370 bash pytest   4.8k",
    None,
    50.0,
    OPTIONS,
    "choice",
)
CALL = Question("w1", "bash", "rm -rf build", None, 50.0)


def asking(*questions: Question) -> ChatState:
    return replace(IDLE, activity=Stepping(90.0), questions=questions or (CHOICE,))


class Asked(ChatApp):
    @property
    def answers(self) -> list[tuple[str, str]]:
        wanted = [
            event.operation
            for event in self.posted
            if isinstance(event, OperationWanted)
        ]
        return [(each.choice, each.key) for each in wanted if isinstance(each, Choose)]


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(
    ("key", "answer"), [("1", "c"), ("3", "x"), ("4", "s"), ("escape", "")]
)
async def test_the_numbers_of_its_options_answer_a_choice_and_esc_leaves_it(
    key: str, answer: str
) -> None:
    clock = Clock()
    app = Asked(asking(), clock=clock)
    async with app.run_test(size=(120, 36)) as pilot:
        clock.now += 2
        await pilot.press(key)
        await pilot.pause()
        assert app.answers == [("w1", answer)]


async def test_on_a_low_and_narrow_screen_all_options_are_scrolled_to() -> None:
    clock = Clock()
    app = Asked(asking(), clock=clock)
    async with app.run_test(size=(40, 10)) as pilot:
        clock.now += 2
        seen = ""
        for _ in range(8):
            seen += "\n".join(screen_text(app))
            await pilot.press("down")
            await pilot.pause()
        assert all(
            f"{number} {option.label}" in seen
            for number, option in enumerate(OPTIONS, start=1)
        )
        await pilot.press("4")
        await pilot.pause()
        assert app.answers == [("w1", "s")]


async def test_a_long_answer_on_a_low_screen_still_says_how_many_there_are() -> None:
    long = replace(
        CHOICE, options=tuple(replace(each, label="wide " * 30) for each in OPTIONS)
    )
    app = Asked(asking(long), clock=Clock())
    async with app.run_test(size=(40, 10)) as pilot:
        await pilot.pause()
        [row] = [line for line in screen_text(app) if "1 wide" in line]
        assert "…" in row and "1 of 4" in row


async def test_enter_takes_the_option_that_the_arrows_have_marked() -> None:
    clock = Clock()
    app = Asked(asking(), clock=clock)
    async with app.run_test(size=(120, 36)) as pilot:
        clock.now += 2
        await pilot.press("down", "down", "enter")
        await pilot.pause()
        assert app.answers == [("w1", "p")]


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("key", ["enter", "c", "x", "y", "n", "up", "5"])
async def test_no_other_key_answers_a_choice_and_letters_are_text(key: str) -> None:
    clock = Clock()
    app = Asked(asking(), clock=clock)
    async with app.run_test(size=(120, 36)) as pilot:
        clock.now += 2
        await pilot.press(key)
        await pilot.pause()
        assert not app.posted
        assert app.chat.prompt.editor.text == (key if len(key) == 1 else "")


async def test_letters_are_text_while_the_prompt_has_the_focus() -> None:
    clock = Clock()
    app = Asked(asking(), clock=clock)
    async with app.run_test(size=(120, 36)) as pilot:
        clock.now += 2
        await pilot.press("c", "x", "alt+y", "alt+n")
        await pilot.pause()
        assert app.chat.prompt.editor.text == "cx"
        assert not app.posted
        assert (
            "? window full" in screen_text(app)[-2]
            or NOT_NOW.partition(":")[2] in screen_text(app)[-2]
        )


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("typed", ["", "half a prompt"])
async def test_a_choice_takes_the_focus_of_an_empty_prompt_only_and_is_deaf_for_a_second(
    typed: str,
) -> None:
    clock = Clock()
    app = Asked(IDLE, clock=clock)
    async with app.run_test(size=(120, 36)) as pilot:
        app.chat.prompt.editor.insert(typed)
        app.chat.show(asking())
        await pilot.pause()
        assert app.focused is (app.chat.prompt.editor if typed else app.chat.dock)
        assert (f"Tab {TO_ANSWER}" in screen_text(app)[-2]) == bool(typed)
        for key in (*["tab"] * bool(typed), "1", "enter", "escape"):
            await pilot.press(key)
        await pilot.pause()
        assert not app.posted
        clock.now += 1.1
        await pilot.press("1")
        await pilot.pause()
        assert app.answers == [("w1", "c")]


async def test_a_choice_behind_a_call_of_the_same_name_is_deaf_again() -> None:
    clock = Clock()
    app = Asked(asking(CALL, CHOICE), clock=clock)
    async with app.run_test(size=(120, 36)) as pilot:
        await pilot.pause()
        clock.now += 2
        await pilot.press("1")
        await pilot.pause()
        (event,) = app.posted
        assert isinstance(event, OperationWanted) and isinstance(
            event.operation, Approve
        )
        app.chat.show(asking(CHOICE))
        await pilot.press("4")
        await pilot.pause()
        assert len(app.posted) == 1
        assert app.focused is app.chat.dock, (
            "the reader came here, and has more to answer"
        )


async def test_an_answered_choice_gives_the_focus_back_to_the_prompt() -> None:
    app = Asked(asking())
    async with app.run_test(size=(120, 36)) as pilot:
        await pilot.pause()
        assert app.focused is app.chat.dock
        app.chat.show(IDLE)
        await pilot.pause()
        assert app.focused is app.chat.prompt.editor


async def test_the_frame_shows_title_details_keys_and_how_to_leave() -> None:
    clock = Clock()
    app = Asked(asking(), clock=clock)
    async with app.run_test(size=(120, 36)) as pilot:
        await pilot.pause()
        lines = screen_text(app)
        top = next(at for at, line in enumerate(lines) if "? window full" in line)
        assert lines[top].startswith("┏") and "Allow this" not in lines[top]
        assert (
            "361 bash alembic" in lines[top + 1] and "370 bash pytest" in lines[top + 2]
        )
        assert [line.strip("┃ ") for line in lines[top + 3 : top + 7]] == [
            f"{number} {option.label}" for number, option in enumerate(OPTIONS, start=1)
        ]
        assert ESC_LEAVES_CHOICE in lines[top + 7]
        assert ESC_LEAVES_CHOICE in lines[-2]


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("size", [(40, 24), (80, 24), (120, 36), (160, 44)])
@pytest.mark.parametrize("focused", [True, False])
async def test_a_long_title_and_many_keys_are_read_in_full_at_any_width(
    size: tuple[int, int], focused: bool
) -> None:
    title = "窗口已满:撤销 373 会让下一个请求从 28,600 变成 116,200 个词元,超过阈值 131,072。[/nope]"
    options = tuple(Answerable(key, f"选项 {key} {'很长 ' * 3}") for key in "cpxst")
    app = Asked(asking(replace(CHOICE, name=title, title="", options=options)))
    async with app.run_test(size=size) as pilot:
        if not focused:
            app.chat.set_focus(app.chat.prompt.editor)
        await pilot.pause()
        lines = screen_text(app)
        assert {cell_len(line) for line in lines} == {size[0]}
        dock = app.chat.dock.region
        shown = "".join(line.strip("┃│┏┓┗┛━─ ") for line in lines[dock.y : dock.bottom])
        if size != (
            40,
            24,
        ):  # a quarter of so small a screen does not hold it all: it scrolls
            assert "131,072。[/nope]" in shown.replace(" ", "")
            assert all(
                f"{number} 选项 {key}" in shown
                for number, key in enumerate("cpxst", start=1)
            )


async def test_the_commands_of_a_call_do_not_answer_a_choice() -> None:
    clock = Clock()
    app = Asked(asking(), clock=clock)
    async with app.run_test(size=(120, 36)) as pilot:
        clock.now += 2
        app.chat.run_command("allow-once")
        await pilot.pause()
        assert not [
            event for event in app.posted if not isinstance(event, CommandInvoked)
        ]
        assert NOT_NOW.partition(":")[2] in screen_text(app)[-2]


# --- answers that are written -----------------------------------------------------------------------------

WRITTEN = Question(
    "w2",
    "Which base?",
    "1. a plan\n\n2. in lines",
    None,
    50.0,
    (
        Answerable("a", "SQLite"),
        Answerable("e", "Edit it", "edit"),
        Answerable("o", ANSWER_FREELY, "line"),
    ),
    "choice",
)


def texts(app: Asked) -> list[tuple[str, str]]:
    wanted = [
        event.operation for event in app.posted if isinstance(event, OperationWanted)
    ]
    return [(each.key, each.text) for each in wanted if isinstance(each, Choose)]


async def test_an_answer_in_own_words_is_written_in_its_place_and_esc_closes_the_field() -> (
    None
):
    clock = Clock()
    app = Asked(asking(WRITTEN), clock=clock)
    async with app.run_test(size=(80, 24)) as pilot:
        clock.now += 2
        await pilot.press("3", *"no 12")
        await pilot.pause()
        shown = "\n".join(screen_text(app))
        assert "❯ no 12" in shown and "Enter done" in shown
        await pilot.press("escape")
        await pilot.pause()
        clock.now += 2
        assert not texts(app) and f"3 {ANSWER_FREELY}" in "\n".join(screen_text(app))
        await pilot.press("3", "enter")
        await pilot.pause()
        assert texts(app) == [("o", "no 12")]


async def test_an_answer_that_is_an_edit_goes_with_what_the_editor_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[str] = []
    left: list[str | None] = [None, "1. another plan"]

    def edited(_: object, text: str, __: object) -> str | None:
        seen.append(text)
        return left.pop(0)

    monkeypatch.setattr("foldline.tui.browser.panels.app_actions.edited", edited)
    clock = Clock()
    app = Asked(asking(WRITTEN), clock=clock)
    async with app.run_test(size=(80, 24)) as pilot:
        clock.now += 2
        await pilot.press("2")
        await pilot.pause()
        assert texts(app) == []
        await pilot.press("2")
        await pilot.pause()
        assert texts(app) == [("e", "1. another plan")] and seen == [WRITTEN.title] * 2


TYPED = (
    Answerable("d", "decline"),
    Answerable("t", "Answer, typed here", "line"),
)


async def test_an_answer_can_be_typed_in_the_place_of_its_option() -> None:
    clock = Clock()
    app = Asked(asking(replace(CHOICE, options=TYPED)), clock=clock)
    async with app.run_test(size=(120, 36)) as pilot:
        clock.now += 2
        await pilot.press("2")
        await pilot.pause()
        assert any("Answer, typed here" in line for line in screen_text(app))
        await pilot.press("4", "2", "enter")
        await pilot.pause()
        assert texts(app) == [("t", "42")]


async def test_what_was_typed_for_a_choice_is_sent_to_nobody_else_when_it_is_left() -> (
    None
):
    clock = Clock()
    app = Asked(asking(replace(CHOICE, options=TYPED)), clock=clock)
    async with app.run_test(size=(120, 36)) as pilot:
        clock.now += 2
        await pilot.press("2", "7", "escape")
        clock.now += 2
        await pilot.press("escape")
        await pilot.pause()
        app.state = IDLE
        await pilot.pause()
        assert app.answers == [("w1", "")]
        assert app.chat.prompt.editor.text == ""
