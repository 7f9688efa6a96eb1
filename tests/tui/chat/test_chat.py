"""The chat screen under Pilot: what keys do, what it posts, how it fits any terminal."""

import subprocess
import sys
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
from rich.cells import cell_len
from textual.pilot import Pilot

from foldline.frontend.state import ChatState, Question, Stepping, Waiting
from foldline.protocol.operations import Approve
from foldline.tui.blocks.block import Key
from foldline.tui.blocks.plain import TextBlock
from foldline.tui.blocks.view import BlockView
from foldline.tui.chat.escape_actions import (
    ESC_CANCELS,
    ESC_CANCELS_COMPACTION,
    ESC_TO_PROMPT,
    PROMPTS_KEPT,
    QUIT_WARNING,
)
from foldline.tui.lists.picker import Picker
from foldline.tui.messages import (
    CancelRequested,
    CommandInvoked,
    OperationWanted,
    PromptSubmitted,
    QueueEdited,
)
from foldline.tui.overlays.dialogs import pick_theme
from foldline.tui.overlays.help import HelpScreen
from foldline.tui.transcript.feed import ChatTranscript
from support.chat_app import (
    ChatApp,
    Clock,
    compacting_state,
    running_state,
    screen_text,
    sidebar_data,
)
from support.history import history
from support.limits import few

pytestmark = pytest.mark.slow

IDLE = ChatState(workdir="shop-api", model="offline")
QUEUED = replace(IDLE, activity=Stepping(90.0), waiting=Waiting(queued=("one", "two")))


def asked(state: ChatState = IDLE, call_id: str = "c1", *promises: str) -> ChatState:
    question = Question(call_id, "bash", "rm -rf build", None, 50.0, promises=promises)
    return replace(state, activity=Stepping(90.0), questions=(question,))


async def type_text(pilot: Pilot[None], text: str) -> None:
    await pilot.press(
        *(
            "space"
            if sign == " "
            else "slash"
            if sign == "/"
            else "at"
            if sign == "@"
            else sign
            for sign in text
        )
    )


def text_of(app: ChatApp) -> str:
    return app.chat.prompt.editor.text


@pytest.mark.quick
async def test_enter_sends_the_text_and_empties_the_editor() -> None:
    app = ChatApp(IDLE)
    async with app.run_test(size=(100, 30)) as pilot:
        await type_text(pilot, "hi there")
        await pilot.press("enter")
        await pilot.pause()
        (event,) = app.posted
        assert isinstance(event, PromptSubmitted) and event.text == "hi there"
        assert text_of(app) == ""


@pytest.mark.parametrize("key", ["ctrl+j", "shift+enter"])
async def test_a_new_line_grows_the_prompt_upwards(key: str) -> None:
    app = ChatApp(IDLE)
    async with app.run_test(size=(80, 24)) as pilot:
        before = screen_text(app)
        await pilot.press("a", key, "b")
        await pilot.pause()
        after = screen_text(app)
        assert text_of(app) == "a\nb"
        assert after[-4:][0] == before[-4:][0], "the lower edge stays where it is"
        assert after[-6].startswith("┃ ❯ a") and after[-5].startswith("┃   b")
        assert not app.posted


async def test_the_prompt_grows_to_eight_lines_and_no_further() -> None:
    app = ChatApp(IDLE)
    async with app.run_test(size=(80, 24)) as pilot:
        app.chat.prompt.editor.put("\n".join("abcdefghijkl"))
        await pilot.pause()
        assert app.chat.prompt.size.height == 10


@pytest.mark.quick
async def test_a_paste_keeps_its_lines_and_loses_its_control_sequences() -> None:
    from textual import events

    app = ChatApp(IDLE)
    async with app.run_test() as pilot:
        app.chat.prompt.editor.post_message(events.Paste("one\r\ntwo\x1b[2J"))
        await pilot.pause()
        assert text_of(app) == "one\ntwo␛"
        await pilot.press("x")
        assert text_of(app).endswith("␛x"), "the cursor stands behind what was pasted"


@pytest.mark.quick
async def test_slash_commands_go_to_the_program_with_their_argument() -> None:
    app = ChatApp(IDLE)
    async with app.run_test() as pilot:
        app.chat.prompt.editor.put("/compact keep the schema")
        await pilot.press("enter")
        await pilot.pause()
        (event,) = app.posted
        assert isinstance(event, CommandInvoked)
        assert (event.command, event.argument) == ("compact", "keep the schema")


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("typed", ["/nope", "/undo now"])
async def test_an_unknown_command_is_refused_and_its_text_stays(typed: str) -> None:
    app = ChatApp(IDLE)
    async with app.run_test(size=(100, 24)) as pilot:
        app.chat.prompt.editor.put(typed)
        await pilot.press("enter")
        await pilot.pause()
        assert not app.posted
        assert text_of(app) == typed
        assert typed.split()[0] in screen_text(app)[-2]


@pytest.mark.quick
async def test_completion_of_a_command_is_taken_by_enter_then_sent_by_enter() -> None:
    app = ChatApp(IDLE)
    async with app.run_test(size=(100, 30)) as pilot:
        await type_text(pilot, "/und")
        await pilot.pause()
        assert app.chat.completion.open
        await pilot.press("enter")
        assert text_of(app) == "/undo" and not app.posted
        await pilot.press("enter")
        await pilot.pause()
        assert [type(event) for event in app.posted] == [CommandInvoked]


async def test_a_command_typed_in_full_needs_no_second_enter() -> None:
    app = ChatApp(IDLE)
    async with app.run_test() as pilot:
        await type_text(pilot, "/clear")
        await pilot.press("enter")
        await pilot.pause()
        assert [type(event) for event in app.posted] == [CommandInvoked]


async def test_enter_ahead_of_the_list_takes_nothing_that_was_offered_for_less() -> (
    None
):
    app = ChatApp(IDLE)
    async with app.run_test() as pilot:
        await type_text(pilot, "/c")
        await pilot.pause()
        assert app.chat.completion.offered.marked is not None
        app.chat.prompt.editor.insert(
            "ompact"
        )  # in one burst with Enter: the list has not heard of it yet
        await app.chat.prompt._take_key("enter")
        await pilot.pause()
        assert [
            posted.command
            for posted in app.posted
            if isinstance(posted, CommandInvoked)
        ] == ["compact"]


@pytest.mark.quick
async def test_files_complete_after_an_at_sign(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "orders.py").write_text("")
    app = ChatApp(IDLE, root=tmp_path)
    async with app.run_test(size=(100, 30)) as pilot:
        await type_text(pilot, "see @ord")
        await app.workers.wait_for_complete()
        await pilot.pause()
        assert app.chat.completion.open
        await pilot.press("tab")
        assert text_of(app) == "see @src/orders.py "
        assert not app.chat.completion.open


async def test_esc_closes_the_completion_and_keeps_it_closed_for_that_word() -> None:
    app = ChatApp(IDLE)
    async with app.run_test() as pilot:
        await type_text(pilot, "/co")
        await pilot.press("escape")
        await pilot.press("m")
        await pilot.pause()
        assert not app.chat.completion.open
        assert text_of(app) == "/com"


@pytest.mark.quick
async def test_up_recalls_what_was_sent_and_down_returns_the_draft() -> None:
    app = ChatApp(IDLE)
    async with app.run_test() as pilot:
        app.chat.prompt.set_history(["first", "second"])
        await type_text(pilot, "draft")
        await pilot.press("up", "up")
        assert text_of(app) == "first"
        await pilot.press("down", "down")
        assert text_of(app) == "draft"


async def test_up_moves_inside_the_text_before_it_recalls() -> None:
    app = ChatApp(IDLE)
    async with app.run_test() as pilot:
        app.chat.prompt.set_history(["first"])
        app.chat.prompt.editor.put("a\nb")
        await pilot.press("up")
        assert text_of(app) == "a\nb"
        await pilot.press("up")
        assert text_of(app) == "first"


@pytest.mark.quick
async def test_a_queued_prompt_changes_places_with_the_text() -> None:
    app = ChatApp(QUEUED)
    async with app.run_test(size=(100, 34)) as pilot:
        await type_text(pilot, "mine")
        await pilot.press("up", "up", "enter")
        await pilot.pause()
        (event,) = app.posted
        assert isinstance(event, QueueEdited)
        assert (event.before, event.after, event.paused) == (
            ("one", "two"),
            ("mine", "two"),
            False,
        )
        assert text_of(app) == "one"


async def test_with_an_empty_editor_a_queued_prompt_is_taken_out() -> None:
    app = ChatApp(QUEUED)
    async with app.run_test(size=(100, 34)) as pilot:
        await pilot.press("up", "enter")
        await pilot.pause()
        (event,) = app.posted
        assert isinstance(event, QueueEdited) and event.after == ("one",)
        assert text_of(app) == "two"


@pytest.mark.quick
async def test_esc_leaves_the_queue_first_and_then_cancels() -> None:
    app = ChatApp(QUEUED)
    async with app.run_test(size=(100, 34)) as pilot:
        await pilot.press("up")
        assert not app.chat.prompt.editor.show_cursor, (
            "the marked prompt has the one cursor"
        )
        await pilot.press("escape")
        assert (
            not app.posted
            and not app.chat.prompt.in_queue
            and app.chat.prompt.editor.show_cursor
        )
        await pilot.press("escape")
        await pilot.pause()
        assert [type(event) for event in app.posted] == [CancelRequested]


@pytest.mark.quick
async def test_esc_pauses_a_waiting_queue_and_enter_resumes_it() -> None:
    app = ChatApp(replace(QUEUED, activity=IDLE.activity))
    async with app.run_test(size=(100, 34)) as pilot:
        await pilot.press("escape")
        await pilot.pause()
        paused = app.posted.pop()
        assert isinstance(paused, QueueEdited) and paused.paused
        app.chat.show(
            replace(app.first, waiting=Waiting(queued=("one", "two"), paused=True))
        )
        await pilot.pause()
        assert "Enter sends 2 queued prompts" in "\n".join(screen_text(app))
        await pilot.press("enter")
        await pilot.pause()
        resumed = app.posted.pop()
        assert (
            isinstance(resumed, QueueEdited)
            and not resumed.paused
            and resumed.after == ("one", "two")
        )


async def test_esc_puts_text_aside_and_up_returns_it() -> None:
    app = ChatApp(IDLE)
    async with app.run_test() as pilot:
        await type_text(pilot, "precious")
        await pilot.press("escape")
        assert text_of(app) == ""
        await pilot.press("up")
        assert text_of(app) == "precious"


async def test_a_prompt_that_was_not_sent_comes_back_only_to_an_empty_editor() -> None:
    app = ChatApp(IDLE)
    async with app.run_test() as pilot:
        assert app.chat.prompt.give_back("held")
        assert text_of(app) == "held"
        assert not app.chat.prompt.give_back("other")
        await pilot.pause()
        assert text_of(app) == "held"


@pytest.mark.quick
async def test_the_status_row_names_what_esc_does() -> None:
    app = ChatApp(compacting_state())
    async with app.run_test(size=(120, 36)) as pilot:
        await pilot.pause()
        assert screen_text(app)[-2].rstrip().endswith(ESC_CANCELS_COMPACTION)
        await pilot.press("tab")
        await pilot.pause()
        assert screen_text(app)[-2].rstrip().endswith(ESC_TO_PROMPT)


@pytest.mark.quick
async def test_ctrl_c_twice_quits_and_says_what_stays() -> None:
    clock = Clock()
    app = ChatApp(
        replace(IDLE, waiting=Waiting(queued=("one",), paused=True)), clock=clock
    )
    async with app.run_test(size=(100, 30)) as pilot:
        await pilot.press("ctrl+c")
        await pilot.pause()
        assert (
            QUIT_WARNING + PROMPTS_KEPT.format(prompts="1 prompt")
            in screen_text(app)[-2]
        )
        clock.now += 3
        await pilot.press("ctrl+c")
        assert not app.posted
        clock.now += 1
        await pilot.press("ctrl+c")
        await pilot.pause()
        (event,) = app.posted
        assert isinstance(event, CommandInvoked) and event.command == "quit"


async def test_ctrl_c_copies_a_selection_and_cancels_what_runs() -> None:
    app = ChatApp(running_state())
    async with app.run_test() as pilot:
        await type_text(pilot, "copy me")
        app.chat.prompt.editor.select_all()
        await pilot.press("ctrl+c")
        assert app.clipboard == "copy me"
        assert not app.posted and not app.chat.prompt.editor.selected_text
        await pilot.press("ctrl+c")
        await pilot.pause()
        assert [type(event) for event in app.posted] == [CancelRequested]


async def test_a_question_takes_no_focus_from_who_writes_and_is_deaf_for_a_second() -> (
    None
):
    clock = Clock()
    app = ChatApp(IDLE, clock=clock)
    async with app.run_test(size=(100, 30)) as pilot:
        await type_text(pilot, "ye")
        app.chat.show(asked())
        await type_text(pilot, "s")
        await pilot.press("alt+y")
        await pilot.pause()
        assert text_of(app) == "yes"
        assert not app.posted
        clock.now += 1.1
        await pilot.press("alt+y")
        await pilot.pause()
        (event,) = app.posted
        assert isinstance(event, OperationWanted)
        assert event.operation == Approve(call_id="c1", answer="once")


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(
    ("key", "answer"),
    [
        ("1", "once"),
        ("2", "always"),
        ("3", "project"),
        ("escape", "deny"),
        ("enter", "once"),
    ],
)
async def test_numbers_answer_a_question_that_has_the_focus(
    key: str, answer: str
) -> None:
    clock = Clock()
    app = ChatApp(asked(IDLE, "c1", "exactly this command"), clock=clock)
    async with app.run_test(size=(100, 30)) as pilot:
        await pilot.pause()
        clock.now += 2
        await pilot.press(key)
        await pilot.pause()
        (event,) = app.posted
        assert isinstance(event, OperationWanted) and isinstance(
            event.operation, Approve
        )
        assert event.operation.answer == answer


async def test_the_question_behind_an_answered_one_is_deaf_again() -> None:
    clock = Clock()
    app = ChatApp(asked(), clock=clock)
    async with app.run_test(size=(100, 30)) as pilot:
        await pilot.pause()
        clock.now += 2
        app.chat.show(asked(call_id="c2"))
        await pilot.press("1")
        await pilot.pause()
        assert not app.posted


async def test_an_answered_question_gives_the_focus_back_to_the_prompt() -> None:
    app = ChatApp(asked())
    async with app.run_test(size=(100, 30)) as pilot:
        await pilot.pause()
        assert app.focused is app.chat.dock
        app.chat.show(IDLE)
        await pilot.pause()
        assert app.focused is app.chat.prompt.editor


async def test_at_most_one_frame_is_heavy() -> None:
    app = ChatApp(asked())
    async with app.run_test(size=(100, 30)) as pilot:
        for _ in range(3):
            await pilot.press("tab")
            await pilot.pause()
            assert sum(line.startswith("┏") for line in screen_text(app)) <= 1
        await pilot.press("f1")
        await pilot.pause()
        assert sum(line.count("┏") for line in screen_text(app)) == 1


@pytest.mark.quick
async def test_tab_goes_round_and_esc_comes_back_to_the_prompt() -> None:
    app = ChatApp(IDLE)
    async with app.run_test() as pilot:
        await pilot.press("tab")
        assert app.focused is app.chat.transcript
        await pilot.press("escape")
        assert app.focused is app.chat.prompt.editor


async def test_page_keys_scroll_the_transcript_from_the_prompt() -> None:
    app = ChatApp(IDLE)
    async with app.run_test(size=(80, 24)) as pilot:
        app.chat.transcript.set_blocks(
            [TextBlock((n, 0), f"line {n}") for n in range(100)]
        )
        await pilot.pause()
        await pilot.press("pageup")
        app.chat.transcript.append(TextBlock((200, 0), "new"))
        await pilot.pause()
        assert "▼ 1 new below, End" in screen_text(app)[-2]
        assert app.focused is app.chat.prompt.editor
        await pilot.press("end")
        await pilot.pause()
        assert app.chat.transcript.follow
        assert "new below" not in screen_text(app)[-2]


class Prompted(ChatTranscript):
    """A transcript of which only the places of prompts are known."""

    def __init__(self, prompts: list[Key]) -> None:
        super().__init__(BlockView(), history().projection())
        self.prompts = prompts


async def test_alt_arrows_go_from_prompt_to_prompt() -> None:
    app = ChatApp(IDLE)
    async with app.run_test(size=(80, 24)) as pilot:
        app.chat.transcript.set_blocks(
            [TextBlock((n, 0), f"line {n}") for n in range(100)]
        )
        app.chat.reading.source = Prompted([(0, 0), (30, 0), (60, 0)])
        await pilot.pause()
        tops = []
        for key in ("alt+up", "alt+up", "alt+down", "alt+down"):
            await pilot.press(key)
            place = app.chat.transcript.top
            assert place is not None
            tops.append(place[0][0])
        assert tops[:3] == [60, 30, 60]
        assert app.chat.transcript.follow


@pytest.mark.quick
async def test_the_palette_runs_what_is_chosen() -> None:
    app = ChatApp(IDLE)
    async with app.run_test(size=(100, 30)) as pilot:
        await pilot.press("ctrl+p")
        await pilot.pause()
        assert isinstance(app.screen, Picker)
        await type_text(pilot, "compact")
        await pilot.press("enter")
        await pilot.pause()
        assert app.screen is app.chat
        (event,) = app.posted
        assert isinstance(event, CommandInvoked) and event.command == "compact"


async def test_a_theme_is_seen_before_it_is_chosen_and_esc_gives_the_old_one_back() -> (
    None
):
    app = ChatApp(IDLE)
    picked: list[str | None] = []
    async with app.run_test(size=(100, 30)) as pilot:
        before = app.theme
        pick_theme(app, picked.append)
        await pilot.pause()
        await pilot.press("down")
        await pilot.pause()
        assert app.theme != before
        await pilot.press("escape")
        await pilot.pause()
        assert app.theme == before and picked == [None]


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("key", ["f1", "question_mark"])
async def test_help_lists_everything_and_closing_it_gives_all_back(key: str) -> None:
    app = ChatApp(IDLE)
    async with app.run_test(size=(100, 120)) as pilot:
        if key == "question_mark":
            await pilot.press("tab")
        focused = app.focused
        await pilot.press(key)
        await pilot.pause()
        assert isinstance(app.screen, HelpScreen)
        assert "/compact [--preview] [focus]" in "\n".join(screen_text(app))
        await pilot.press("escape")
        await pilot.pause()
        assert app.focused is focused


async def test_a_question_mark_in_the_prompt_is_a_letter() -> None:
    app = ChatApp(IDLE)
    async with app.run_test() as pilot:
        await pilot.press("question_mark")
        assert text_of(app) == "?"


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(
    ("size", "state"),
    few(
        [
            *product(
                [(40, 10), (80, 16), (80, 24), (100, 30), (120, 36), (200, 60)],
                [IDLE, compacting_state(), running_state(), asked(), QUEUED],
            )
        ],
        *range(0, 30, 2),  # each size and each state, half of the pairs
    ),
)
async def test_every_screen_ends_in_its_fixed_rows_at_any_size(
    state: ChatState, size: tuple[int, int]
) -> None:
    app = ChatApp(state)
    async with app.run_test(size=size) as pilot:
        app.chat.sidebar.show(sidebar_data())
        app.chat.transcript.set_blocks(
            [TextBlock((n, 0), "幂等订单 line") for n in range(50)]
        )
        app.chat.prompt.editor.put("one\n二\nthree")
        await pilot.pause()
        lines = screen_text(app)
        assert all(cell_len(line) == size[0] for line in lines)
        rows = lines if size[1] < 18 else lines[:-1]
        assert "▐" in rows[-2], "the meter"
        assert rows[-3][0] in "┗└", "the prompt's lower edge"
        assert ("Ctrl+P everything" in lines[-1]) == (size[1] >= 18)
        assert any(" Modified  " in line for line in lines) == (size[0] >= 100)


async def test_a_tiny_terminal_says_so_in_one_line_and_recovers() -> None:
    app = ChatApp(running_state())
    async with app.run_test(size=(39, 9)) as pilot:
        await pilot.pause()
        lines = [line.strip() for line in screen_text(app)]
        assert lines[0] == "Too small: needs 40x10" and not any(lines[1:])
        await pilot.resize_terminal(80, 24)
        await pilot.pause()
        assert "Running" in screen_text(app)[-2]
        await pilot.pause()
        await type_text(pilot, "back")
        assert text_of(app).endswith("back"), "the focus is where it was"


@pytest.mark.quick
async def test_below_thirty_rows_the_queue_is_a_count_until_up_opens_it() -> None:
    app = ChatApp(QUEUED)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        assert not any("one" in line for line in screen_text(app))
        assert any("2 queued" in line for line in screen_text(app))
        await pilot.press("up")
        await pilot.pause()
        assert any("two" in line for line in screen_text(app))


async def test_foreign_text_everywhere_is_only_text() -> None:
    nasty = "[/nope] list[str] \x1b[2J 幂等"
    state = replace(
        compacting_state(),
        workdir=nasty,
        title=nasty,
        model=nasty,
        git=nasty,
        compacting=None,
        waiting=Waiting(nasty, (nasty,)),
        questions=(
            Question("c1", nasty, nasty, f"@@ -1 +1 @@\n-{nasty}\n+{nasty}", 1.0),
        ),
    )
    app = ChatApp(state)
    async with app.run_test(size=(160, 40)) as pilot:
        await pilot.pause()
        shown = "\n".join(screen_text(app))
        assert "[/nope] list[str] ␛" in shown
        assert "\x1b" not in shown


@pytest.mark.quick
async def test_an_idle_screen_sets_no_timer_and_a_busy_one_does() -> None:
    app = ChatApp(IDLE)
    async with app.run_test() as pilot:
        await pilot.pause()
        assert app.chat._wake is None
        app.chat.show(running_state())
        await pilot.pause()
        assert app.chat._wake is not None
        app.chat.show(IDLE)
        await pilot.pause()
        assert app.chat._wake is None


async def test_no_colour_keeps_every_mark(monkeypatch: pytest.MonkeyPatch) -> None:
    async def shown() -> list[str]:
        app = ChatApp(compacting_state())
        async with app.run_test(size=(120, 36)) as pilot:
            app.chat.sidebar.show(sidebar_data())
            await pilot.pause()
            return screen_text(app)

    coloured = await shown()
    monkeypatch.setenv("NO_COLOR", "1")
    assert await shown() == coloured


HEAVY = (
    "pydantic",
    "openai",
    "foldline.protocol",
    "foldline.agent",
    "foldline.history",
    "foldline.llm",
    "markdown_it",
    "pygments",
)


@pytest.mark.parametrize(
    "module",
    ["foldline.tui.chat.screen", "foldline.frontend.state", "foldline.tui.look.themes"],
)
def test_nothing_heavy_is_imported_before_the_first_paint(module: str) -> None:
    code = f"import {module}, sys; print([m for m in {HEAVY!r} if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


@pytest.mark.quick
def test_the_state_needs_no_textual() -> None:
    code = "import foldline.frontend.state, sys; print('textual' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "False"


async def test_a_screen_above_the_chat_leaves_only_the_hints_that_work_there() -> None:
    app = ChatApp(running_state())
    async with app.run_test(size=(100, 30)) as pilot:
        assert (
            "F2 inspector" in screen_text(app)[-1]
            and ESC_CANCELS in screen_text(app)[-2]
        )
        await pilot.press("ctrl+p")
        await pilot.pause()
        assert isinstance(app.screen, Picker)
        assert (
            screen_text(app)[-1].strip() == "Ctrl+P everything"
            and "Esc" not in screen_text(app)[-2]
        )
        await pilot.press("escape")
        await pilot.pause()
        assert "F2 inspector" in screen_text(app)[-1]
