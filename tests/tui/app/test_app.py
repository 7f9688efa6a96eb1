"""The program under Pilot, a real agent behind it: what the reader sees when things happen."""

import asyncio
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from foldline.agent import Agent
from foldline.frontend.runner import COPY_OF
from foldline.history import EVENTS, Session
from foldline.history.log import LineReader
from foldline.llm import LLMError
from foldline.past.describe import CLEAR_UNDONE, CLEARED
from foldline.protocol import Compaction, FoldlineError, UserMessage, events, operations
from foldline.tui.app.app import FoldlineApp
from foldline.tui.app.open_session import OPENING
from foldline.tui.app.startup import ONCE_OPEN
from foldline.tui.blocks.markdown import markdown_blocks
from foldline.tui.browser.inspector.screen import InspectorScreen
from foldline.tui.chat.escape_actions import ESC_CANCELS, QUIT_WARNING
from foldline.tui.messages import NOT_NOW
from foldline.tui.overlays.help import HelpScreen
from foldline.tui.terminal.app import NOT_LOADED
from foldline.tui.transcript import rows
from foldline.tui.transcript.calls import INDENT
from support.agents import PATIENCE, Gate, Hang, reply, tool_reply
from support.history import history
from support.live import FULL, Live, StreamedAnswer, live, session_in
from support.projections import compactions_of
from support.reopened_sessions import write_events
from support.stories import shop

pytestmark = pytest.mark.slow

LONG_ANSWER = "\n\n".join(
    f"Paragraph {number} of a long answer." for number in range(40)
)


def prompts(running: Live) -> list[str]:
    return [entry.text for entry in running.entries if isinstance(entry, UserMessage)]


async def fill(running: Live) -> None:
    """Prompts until the next one has to wait for a compaction."""
    for _ in range(6):
        await running.agent.prompt(FULL)
    await running.at_rest()
    assert running.agent.must_make_room(
        running.agent.session.projection.view[-2].message.parts
    )


# --- prompts ----------------------------------------------------------------------------------------


@pytest.mark.quick
async def test_a_prompt_is_answered(tmp_path: Path) -> None:
    async with live(tmp_path / "shop-api", "Hello **there**") as running:
        await running.ask("hi")
        assert " ┃ ❯ hi" in running.text and " ┃   Hello there" in running.text
        assert "shop-api ▸ hi" in running.screen[0]
        assert running.editor_text == ""


@asynccontextmanager
async def still_opening(
    donor: Live, root: Path, opened: threading.Event, prompt: str = ""
) -> AsyncIterator[Live]:
    """The program with the agent of `donor`, which it does not get before `opened`."""

    def load() -> Agent:
        assert opened.wait(PATIENCE)
        return donor.agent

    app = FoldlineApp(load, root=root, prompts=(prompt,) if prompt else ())
    async with app.run_test(size=(120, 36)) as pilot:
        yield Live(app, pilot, donor.llm, donor.agent)


@pytest.mark.quick
async def test_prompts_typed_before_the_session_is_open_are_sent_in_order(
    tmp_path: Path,
) -> None:
    opened = threading.Event()
    async with (
        live(tmp_path / "other") as donor,
        still_opening(donor, tmp_path, opened, "first") as early,
    ):
        await early.enter("second")
        assert "2 queued" in early.text
        opened.set()
        await early.until(lambda: early.app.runner is not None)
        await early.until(lambda: prompts(early) == ["first", "second"])
        await early.at_rest()
        assert "queued" not in early.text


async def test_a_command_entered_before_the_session_is_open_is_carried_out_then(
    tmp_path: Path,
) -> None:
    opened = threading.Event()
    async with live(tmp_path / "other", "An answer") as donor:
        await donor.ask("hi")
        async with still_opening(donor, tmp_path, opened) as early:
            await early.enter("/rename Early words")
            assert ONCE_OPEN.format(command="Rename this session") in early.text
            await early.press("f2", "f2")  # once more, since nothing was seen to happen
            opened.set()
            await early.until(lambda: isinstance(early.app.screen, InspectorScreen))
            await early.until(lambda: early.app.state.title == "Early words")


async def test_what_needs_no_session_is_done_before_it_is_open(tmp_path: Path) -> None:
    opened = threading.Event()
    async with (
        live(tmp_path / "other") as donor,
        still_opening(donor, tmp_path, opened) as early,
    ):
        await early.enter("/help")
        await early.until(lambda: isinstance(early.app.screen, HelpScreen))
        assert early.app.runner is None
        opened.set()


async def test_a_prompt_entered_before_the_session_is_open_keeps_what_would_change_its_context(
    tmp_path: Path,
) -> None:
    opened = threading.Event()
    async with live(tmp_path / "other", "An answer", "Another") as donor:
        await donor.ask("hi")
        async with still_opening(donor, tmp_path, opened) as early:
            await early.enter("go on")
            await early.enter("/clear")
            assert NOT_NOW.format(command="Clear the context") in early.text
            opened.set()
            await early.until(lambda: prompts(early) == ["hi", "go on"])
            await early.at_rest()
        assert "An answer" in str(donor.llm.requests[-1].messages)


async def test_a_session_that_takes_long_to_open_says_how_far_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of three records of a megabyte, the second is not read before the test says so."""
    go_on = threading.Event()
    take = LineReader.take

    def slow(reader: LineReader, line: bytes) -> object:
        assert b'"index":1' not in line[:50] or go_on.wait(20)
        return take(reader, line)

    write_events(
        tmp_path / EVENTS,
        history().user("a" * 2**20).user("b" * 2**20).user("c" * 2**20).entries,
    )
    async with live(tmp_path / "other") as donor:

        def load() -> object:
            monkeypatch.setattr(LineReader, "take", slow)
            Session.open(tmp_path / EVENTS)
            return donor.agent

        app = FoldlineApp(load, root=tmp_path)  # type: ignore[arg-type]
        async with app.run_test(size=(120, 36)) as pilot:
            early = Live(app, pilot, donor.llm, donor.agent)
            await early.until(lambda: f"{OPENING}: 33%" in early.text)
            go_on.set()
            await early.until(lambda: app.runner is not None)
            await early.drawn()
            assert "Opening" not in early.text


@pytest.mark.quick
async def test_a_session_that_cannot_be_opened_ends_the_program_with_its_sentence(
    tmp_path: Path,
) -> None:
    def load() -> object:
        raise FoldlineError("There is no session x: foldline sessions lists them.")

    app = FoldlineApp(load, root=tmp_path)  # type: ignore[arg-type]
    async with app.run_test() as pilot:
        await Live(app, pilot, None, None).until(lambda: app.failure)  # type: ignore[arg-type]
    assert app.failure == "There is no session x: foldline sessions lists them."
    assert app.return_code == 1


async def test_prompts_typed_while_it_works_wait_and_are_sent_in_order(
    tmp_path: Path,
) -> None:
    opened = asyncio.Event()
    async with live(tmp_path, Gate(opened, "one is done")) as running:
        await running.enter("one")
        await running.llm.silent.wait()
        await running.enter("two")
        await running.enter("three")
        await running.drawn()
        assert "2 queued" in running.text
        opened.set()
        await running.until(lambda: len(prompts(running)) == 3)
        await running.at_rest()
        assert prompts(running) == ["one", "two", "three"]
        assert "queued" not in running.text


@pytest.mark.quick
async def test_escape_during_a_turn_pauses_the_queue_and_keeps_what_was_said(
    tmp_path: Path,
) -> None:
    async with live(tmp_path, Hang("Half a sen")) as running:
        await running.enter("one")
        await running.llm.silent.wait()
        await running.enter("two")
        await running.press("escape")
        await running.at_rest()
        assert "Half a sen" in running.text and "cancelled here" in running.text
        assert "‖ 1 queued" in running.text and "Cancelled" in running.text
        assert prompts(running) == ["one"]
        await running.press("enter")
        await running.at_rest()
        assert prompts(running) == ["one", "two"]


async def test_a_failed_request_is_told_in_full_in_the_transcript(
    tmp_path: Path,
) -> None:
    sentence = (
        "The key was refused by the server at https://api.example.com: check OPENAI_API_KEY, "
        * 2
    )
    async with live(
        tmp_path, LLMError(sentence.strip(), status=401), size=(80, 24)
    ) as running:
        await running.ask("hi")
        told = " ".join(line.strip() for line in running.transcript_rows())
        assert f"✗ {sentence.strip()}" in told
        assert any("✗ The key was refused" in line for line in running.screen[-3:])


# --- compactions ------------------------------------------------------------------------------------------


@pytest.mark.quick
async def test_a_prompt_is_held_while_a_compaction_makes_room(tmp_path: Path) -> None:
    opened = asyncio.Event()
    summary = Gate(opened, "## Goal\n- all of it")
    async with live(tmp_path, window=16_384, summaries=(summary,)) as running:
        await fill(running)
        await running.enter(f"And now. {FULL}")
        await running.until(
            lambda: (
                running.app.state.compacting is not None and running.llm.silent.is_set()
            )
        )
        await running.drawn()
        assert "held And now. All there is" in running.text and "1 held" in running.text
        assert "Compacting · threshold" in running.text
        assert "And now." not in "".join(running.transcript_rows())
        opened.set()
        await running.until(lambda: len(prompts(running)) == 7)
        await running.at_rest()
        compaction = next(
            entry for entry in running.entries if isinstance(entry, Compaction)
        )
        assert "entries compacted" in "\n".join(
            block.text() for block in running.blocks if block.key[0] == compaction.index
        )
        assert "1 held" not in running.text


async def test_escape_during_the_compaction_gives_the_prompt_back(
    tmp_path: Path,
) -> None:
    async with live(tmp_path, window=16_384, summaries=(Hang(),)) as running:
        await fill(running)
        await running.enter(f"And now. {FULL}")
        await running.until(lambda: running.llm.silent.is_set())
        await running.press("escape")
        await running.at_rest()
        assert running.editor_text.startswith("And now.")
        assert "Not sent: you cancelled the compaction" in running.text
        assert (
            running.agent.session.projection.all_compactions == []
            and "1 held" not in running.text
        )


async def test_escape_during_the_compaction_with_text_in_the_editor_keeps_the_prompt_first(
    tmp_path: Path,
) -> None:
    async with live(tmp_path, window=16_384, summaries=(Hang(),)) as running:
        await fill(running)
        await running.enter(f"And now. {FULL}")
        await running.until(lambda: running.llm.silent.is_set())
        await running.enter("queued behind it")
        await running.type("a draft")
        await running.press("escape")
        await running.at_rest()
        assert running.editor_text == "a draft"
        assert "‖ 2 queued" in running.text and "1    ‖ And now." in running.text
        assert "2    ‖ queued behind it" in running.text
        await running.press("enter")
        await running.at_rest()
        assert prompts(running)[-3:][0].startswith("And now.")
        assert prompts(running)[-2:] == ["queued behind it", "a draft"]
        compactions = running.agent.session.projection.all_compactions
        held = next(
            entry.index
            for entry in running.entries
            if entry.type == "user" and "And now." in entry.text
        )
        assert all(compaction.index > held for compaction in compactions), (
            "it went uncompacted, once"
        )


@pytest.mark.quick
async def test_a_commit_turns_gutters_adds_one_line_and_moves_no_row(
    tmp_path: Path,
) -> None:
    opened = asyncio.Event()
    async with live(
        tmp_path, window=16_384, summaries=(Gate(opened, "## Goal\n- all"),)
    ) as running:
        for number in range(9):
            running.llm.script.append(f"Answer {number}.\n\nIn two paragraphs.")
            await running.ask(f"Question {number}. {'Words to fill the window. ' * 20}")
        await running.press("pageup")
        assert not running.app.chat.transcript.follow
        running.agent.executor.submit(operations.CompactSession(reason="threshold"))
        await running.until(lambda: running.llm.silent.is_set())
        await running.drawn()
        before, gutters, top = (
            running.transcript_rows(),
            running.gutters(),
            running.app.chat.transcript.top,
        )
        cut = running.app.chat.reading.source._cut
        assert set(gutters) <= {"┃", "┣", " "}
        opened.set()
        await running.at_rest()
        after = running.transcript_rows()
        assert before == after
        assert running.app.chat.transcript.top == top
        assert "┊" in running.gutters()
        compaction = running.agent.session.projection.all_compactions[-1]
        assert cut is not None and compaction.first_kept_index == cut[0]
        assert [block.key for block in running.blocks][-1] == (compaction.index, 0)
        await running.press("ctrl+end")
        assert " · Enter expand · u undo" in running.text


async def test_the_line_of_a_compaction_that_the_user_asked_for_is_in_sight(
    tmp_path: Path,
) -> None:
    async with live(tmp_path, window=16_384) as running:
        await fill(running)
        await running.press("pageup")
        assert not running.app.chat.transcript.follow
        await running.enter("/compact")
        await running.at_rest()
        assert (
            "full: you asked" in running.text
            and " · Enter expand · u undo" in running.text
        )


async def compacted(running: Live) -> int:
    """Some long prompts, compacted by hand: the index of that; its line is on the screen."""
    for _ in range(3):
        await running.ask(FULL)
    await running.enter("/compact")
    await running.until(lambda: running.agent.session.projection.all_compactions)
    await running.at_rest()
    return int(running.agent.session.projection.all_compactions[-1].index)


def line_of_compaction(running: Live) -> int:
    """The row of the screen that has it."""
    return next(
        row for row, line in enumerate(running.screen) if "full: you asked" in line
    )


async def test_enter_in_the_empty_prompt_opens_the_newest_compaction_and_closes_it(
    tmp_path: Path,
) -> None:
    async with live(tmp_path, window=16_384) as running:
        await compacted(running)
        assert "Enter expand" in running.screen[line_of_compaction(running)]
        await running.press("enter")
        row = line_of_compaction(running)
        assert "Enter collapse" in running.screen[row]
        assert "Goal" in running.screen[row + 1], "what it opens is in sight"
        assert running.app.chat.prompt.editor.has_focus
        await running.press("enter")
        assert "Goal" not in running.text and running.app.chat.transcript.follow
        await running.press("pageup", "pageup")
        await running.until(lambda: "you asked" not in running.text)
        before = running.transcript_rows()
        await running.press("enter")
        assert running.transcript_rows() == before, "what is out of sight is left alone"


async def test_u_on_the_line_of_a_compaction_takes_it_back_and_the_offer_goes(
    tmp_path: Path,
) -> None:
    async with live(tmp_path, window=16_384) as running:
        await compacted(running)
        await running.type("u")
        assert (
            running.editor_text == "u"
            and running.agent.session.projection.compactions()
        )
        await running.press("backspace", "tab")
        assert "u undo" in running.screen[-1], "the keys that work here"
        await running.press("u")
        await running.until(lambda: not running.agent.session.projection.compactions())
        await running.at_rest()
        assert "u undo" not in running.text and "undone" in running.text


async def test_a_click_on_the_line_of_a_compaction_opens_it_and_on_its_undo_takes_it_back(
    tmp_path: Path,
) -> None:
    async with live(tmp_path, window=16_384) as running:
        await compacted(running)
        row = line_of_compaction(running)
        await running.pilot.click(offset=(8, row))
        assert "Enter collapse" in running.text
        row = line_of_compaction(running)
        await running.pilot.click(offset=(8, row))
        assert "Enter expand" in running.text
        row = line_of_compaction(running)
        await running.pilot.click(offset=(running.screen[row].index("u undo") + 2, row))
        await running.until(lambda: not running.agent.session.projection.compactions())
        await running.at_rest()
        assert "undone" in running.text and "Enter expand" in running.text


async def test_compact_with_a_focus_compacts_at_once(tmp_path: Path) -> None:
    async with live(tmp_path, window=16_384) as running:
        for _ in range(3):
            await running.ask(FULL)
        await running.enter("/compact the payments table")
        await running.until(lambda: running.agent.session.projection.all_compactions)
        await running.at_rest()
        (compaction,) = compactions_of(running.agent.session.projection)
        assert (
            compaction.focus == "the payments table" and compaction.reason == "manual"
        )
        assert (
            "the payments table" in running.llm.summary_requests[-1].messages[-1].text
        )
        assert (
            "Compactions" in running.text and f"┊ {compaction.index} " in running.text
        )


@pytest.mark.quick
async def test_undo_brings_the_gutters_back(tmp_path: Path) -> None:
    async with live(tmp_path, window=16_384) as running:
        for _ in range(3):
            await running.ask(FULL)
        await running.enter("/compact")
        await running.until(lambda: running.agent.session.projection.all_compactions)
        await running.at_rest()
        assert "┊" in running.gutters() + "".join(running.screen)
        await running.enter("/undo")
        await running.until(lambda: not running.agent.session.projection.compactions())
        await running.at_rest()
        assert "┊" not in running.gutters() and "undone" in running.text
        assert (
            f"compaction {running.agent.session.projection.all_compactions[0].index} undone"
            in running.text
        )


async def test_undo_after_a_clear_takes_the_clear_back(tmp_path: Path) -> None:
    async with live(tmp_path, window=16_384) as running:
        for _ in range(3):
            await running.ask(FULL)
        await running.enter("/compact")
        await running.until(lambda: running.agent.session.projection.all_compactions)
        await running.at_rest()
        view = list(running.agent.session.projection.view)
        await running.enter("/clear")
        await running.until(lambda: running.agent.session.projection.view != view)
        await running.at_rest()
        await running.enter("/undo")
        await running.until(lambda: running.agent.session.projection.view == view)
        await running.at_rest()
        assert CLEAR_UNDONE in running.text


@pytest.mark.quick
async def test_clear_takes_the_gutters_away_and_keeps_the_lines(tmp_path: Path) -> None:
    async with live(tmp_path, "Hello there") as running:
        await running.ask("hi")
        await running.enter("/clear")
        await running.until(lambda: CLEARED in running.text)
        await running.at_rest()
        assert "hi" in running.text and "Hello there" in running.text
        assert "┃" not in running.gutters()


async def test_the_cut_is_marked_at_a_tool_call_where_the_answer_has_no_text(
    tmp_path: Path,
) -> None:
    story = history().system("s")
    for number in range(4):
        story.user(f"Question {number}").step(
            "read", "text " * 400, path=f"a{number}.py"
        ).assistant("Read.")
    session = Session.from_entries(session_in(tmp_path).header, story.entries)
    async with live(tmp_path, session=session) as running:
        transcript = running.app.chat.presenter.shown.transcript
        assert transcript is not None
        transcript.plan_cut(10)  # the answer that only calls a tool
        await running.pilot.pause()
        rows_with_mark = [line for line in running.screen if line.startswith(" ┣")]
        assert len(rows_with_mark) == 1 and "▸ read  a2.py" in rows_with_mark[0]


# --- what is written while it is written --------------------------------------------------------------


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(
    "text",
    [
        "Hello",
        "Hello **there**\n\n- one\n- two\n\n```python\nx = 1\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n",
        LONG_ANSWER,
        "移动端重试仍然会产生两个订单。先找出原因,不要修改任何东西。",
        "[/nope] list[str] \x1b[2J\x1b]0;title\x07 \x9b2J",
    ],
)
async def test_streamed_blocks_are_the_final_blocks(tmp_path: Path, text: str) -> None:
    spoken = StreamedAnswer()
    async with live(tmp_path, spoken) as running:
        await running.enter("go on")
        await running.llm.silent.wait()
        for start in range(0, len(text), 7):
            spoken.say(text[start : start + 7])
            if start % 70 == 0:
                await running.drawn()
        await running.until(lambda: spoken.pieces.empty())
        await running.drawn()
        index = running.agent.session.next_index
        streamed = [part for part in running.shown if part[0][0] == index]
        on_screen = running.transcript_rows()
        spoken.end()
        await running.at_rest()
        assert [part for part in running.shown if part[0][0] == index] == streamed
        whole = markdown_blocks(text, index, rows.TEXT_PIECE, indent=INDENT)
        assert [(block.key, block.gap, block.text()) for block in whole] == streamed
        assert running.transcript_rows() == on_screen
        assert "\x1b" not in running.text and "\x9b" not in running.text


async def test_an_answer_that_comes_in_one_piece_is_shown_once(tmp_path: Path) -> None:
    async with live(tmp_path, "Hello there, all at once.") as running:
        await running.ask("hi")
        assert (
            sum("Hello there, all at once." in part[2] for part in running.shown) == 1
        )


@pytest.mark.quick
async def test_a_cancelled_step_leaves_no_ghost_text(tmp_path: Path) -> None:
    spoken = StreamedAnswer()
    async with live(tmp_path, spoken) as running:
        await running.enter("go on")
        await running.llm.silent.wait()
        spoken.think("I wonder what")
        await running.until(lambda: "▸ thinking" in running.text)
        await running.press("escape")
        await running.at_rest()
        assert "thinking" not in running.text
        assert "cancelled here" in running.text
        kept = {entry.index for entry in running.entries}
        assert {part[0][0] for part in running.shown} <= kept


async def test_an_empty_answer_takes_its_thinking_with_it(tmp_path: Path) -> None:
    spoken = StreamedAnswer()
    async with live(tmp_path, spoken) as running:
        await running.enter("go on")
        await running.llm.silent.wait()
        spoken.think("half a thought")
        await running.until(lambda: "▸ thinking" in running.text)
        spoken.end()
        await running.at_rest()
        assert "thinking" not in running.text


async def test_a_request_that_is_sent_again_takes_back_what_it_had_said(
    tmp_path: Path,
) -> None:
    spoken = StreamedAnswer()
    async with live(tmp_path, spoken) as running:
        await running.enter("go on")
        await running.llm.silent.wait()
        heard: list[object] = []
        running.agent.executor.subscribe(heard.append)
        spoken.say("Half of the first")
        await running.until(lambda: "Half of the first" in running.text)
        spoken.retry("The server broke off.")
        await running.until(lambda: "Half of the first" not in running.text)
        spoken.say("The second")
        await running.until(lambda: "The second" in running.text)
        [told] = [event for event in heard if isinstance(event, events.Retrying)]
        assert str(told) == "The server broke off. Trying again in 1 s (1 of 3)."
        spoken.end()
        await running.at_rest()
        assert [part[2] for part in running.shown][-1] == "The second"


async def test_a_prompt_that_is_queued_while_one_reads_above_moves_nothing(
    tmp_path: Path,
) -> None:
    async with live(tmp_path / "w", FULL, Hang(), size=(80, 24)) as running:
        await running.ask("first")
        await running.enter("second")
        await running.llm.silent.wait()
        await running.press("pageup", "pageup")
        before = running.transcript_rows()
        await running.enter("third")
        await running.until(lambda: running.app.state.waiting.count == 1)
        assert running.transcript_rows() == before
        await running.press("ctrl+c")
        await running.at_rest()


async def test_reading_above_is_not_disturbed_by_what_streams_below(
    tmp_path: Path,
) -> None:
    spoken = StreamedAnswer()
    async with live(tmp_path, LONG_ANSWER, spoken, size=(80, 24)) as running:
        await running.ask("a long one")
        await running.enter("more")
        await running.llm.silent.wait()
        await running.press("pageup")
        before = running.transcript_rows()
        for number in range(30):
            spoken.say(f"Line {number}\n\n")
        await running.until(lambda: spoken.pieces.empty())
        await running.drawn()
        assert running.transcript_rows() == before
        assert "new below, End" in running.text
        spoken.end()
        await running.at_rest()
        assert running.transcript_rows() == before
        await running.press("end")
        assert "Line 29" in running.text and "new below" not in running.text


# --- tools ------------------------------------------------------------------------------------------


async def test_the_output_of_a_running_command_is_seen_as_a_terminal_shows_it(
    tmp_path: Path,
) -> None:
    gate = tmp_path / "go"
    shown = 'printf "\\tone\\n10%%\\r100%%\\n\\033[31mred\\033[0m\\n"'
    command = f"{shown}; until [ -e {gate} ]; do sleep 0.02; done"
    folder = tmp_path / "work"
    async with live(
        folder, tool_reply(("bash", {"command": command})), "done"
    ) as running:
        await running.enter("run it")
        await running.until(
            lambda: "red" in [row.strip() for row in running.transcript_rows()]
        )
        await running.drawn()
        shown = [row.strip() for row in running.transcript_rows()]
        assert "one" in shown and "100%" in shown and "red" in shown
        assert "Running · bash printf" in running.text and ESC_CANCELS in running.text
        gate.touch()
        await running.at_rest()
        assert "exit 0" in running.text
        assert "100%" not in [row.strip() for row in running.transcript_rows()], (
            "its row is closed"
        )


async def test_what_a_running_command_puts_out_changes_no_line_under_a_readers_eyes(
    tmp_path: Path,
) -> None:
    step, end = tmp_path / "step", tmp_path / "end"
    waits = "until [ -e {} ]; do sleep 0.02; done"
    command = f"seq 1 60; {waits.format(step)}; seq 61 120; {waits.format(end)}"
    folder = tmp_path / "work"
    async with live(
        folder, FULL, tool_reply(("bash", {"command": command})), "done", size=(80, 24)
    ) as running:
        await running.ask("a long one")
        await running.enter("run it")
        await running.until(
            lambda: "60" in [row.strip() for row in running.transcript_rows()]
        )
        running.app.chat.transcript.scroll_lines(-3)
        await running.drawn()
        before = running.transcript_rows()
        heard: list[str] = []
        running.agent.executor.subscribe(
            lambda event: (
                heard.append(event.text)
                if isinstance(event, events.ToolOutput)
                else None
            )
        )
        step.touch()
        await running.until(lambda: "120" in "".join(heard))
        await running.drawn()
        assert running.transcript_rows() == before
        end.touch()
        await running.at_rest()


@pytest.mark.quick
async def test_enter_opens_a_tool_row_in_place_and_closes_it(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("alpha\nbeta\n")
    async with live(
        tmp_path, tool_reply(("read", {"path": "a.txt"})), "done"
    ) as running:
        await running.ask("read it")
        closed = running.shown
        call = next(key for key, _, text in closed if "▸ read" in text)
        running.app.chat.transcript.focus()
        running.app.chat.transcript.cursor_to(call)
        await running.press("enter")
        assert "▾ read" in running.text and "beta" in running.text
        await running.press("enter")
        assert running.shown == closed
        await running.press("ctrl+o")
        assert "beta" in running.text


@pytest.mark.quick
async def test_a_question_is_answered_and_the_file_changed(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("alpha\nbeta\n")
    edit = (
        tool_reply(("read", {"path": "a.txt"})),
        tool_reply(
            ("edit", {"path": "a.txt", "old": "beta", "new": "gamma"}), stem="d"
        ),
    )
    async with live(tmp_path, *edit, "done", approvals="ask") as running:
        await running.enter("change it")
        await running.until(lambda: running.app.state.question is not None)
        await running.drawn()
        assert "Allow this edit?" in running.text
        assert "− beta" in running.text and "+ gamma" in running.text
        running.app._clock.now += 2  # type: ignore[attr-defined]
        await running.press("alt+y")
        await running.at_rest()
        assert (tmp_path / "a.txt").read_text() == "alpha\ngamma\n"
        assert "a.txt" in "".join(line[87:] for line in running.screen), (
            "in the side list"
        )


# --- other screens ----------------------------------------------------------------------------------


async def test_the_inspector_opens_live(tmp_path: Path) -> None:
    async with live(
        tmp_path, "Hello there", "And again", "Gone on", size=(159, 44)
    ) as running:
        await running.ask("hi")
        await running.press("f2")
        await running.until(lambda: isinstance(running.app.screen, InspectorScreen))
        assert "Hello there" in running.text and "LLM view" in running.text
        assert running.app.runner is not None
        running.app.runner.send("while you look")
        await running.until(lambda: "And again" in running.text)
        await running.press("f2")
        await running.until(lambda: running.app.screen is running.app.chat)
        await running.at_rest()
        assert "And again" in running.text
        await running.ask(
            "once more"
        )  # one that was closed is not kept up to date: it has let go of all rows
        assert running.app.state.news is None


@pytest.mark.quick
async def test_ctrl_c_cancels_from_any_screen(tmp_path: Path) -> None:
    async with live(tmp_path, Hang("Half")) as running:
        await running.enter("one")
        await running.llm.silent.wait()
        await running.press("f2")
        await running.until(lambda: isinstance(running.app.screen, InspectorScreen))
        await running.press("ctrl+c")
        await running.until(lambda: not running.agent.executor.busy)
        assert running.app.is_running


@pytest.mark.parametrize(
    "screen", ["f1", "f2", "f3", "ctrl+p", "/approvals", "/rewind"]
)
async def test_the_warning_before_a_quit_is_seen_on_every_screen(
    tmp_path: Path, screen: str
) -> None:
    async with live(tmp_path, *["done"] * 3) as running:
        for _ in range(3):
            await running.ask(FULL)
        await (
            running.enter(screen) if screen.startswith("/") else running.press(screen)
        )
        await running.until(lambda: running.app.screen is not running.app.chat)
        await running.at_rest()
        await running.press("ctrl+c")
        await running.drawn()
        assert running.app.is_running and QUIT_WARNING in running.text


async def test_one_key_never_quits(tmp_path: Path) -> None:
    async with live(tmp_path) as running:
        await running.press("ctrl+q", "ctrl+c")
        assert running.app.is_running and QUIT_WARNING in running.text
        await running.press("ctrl+c")
        await running.until(
            lambda: running.app.return_value is None and not running.app.is_running
        )


# --- whole histories --------------------------------------------------------------------------------


@pytest.mark.quick
async def test_a_session_that_is_opened_again_looks_as_it_did(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("alpha\n")
    folder = tmp_path / "w"
    script = (
        tool_reply(("bash", {"command": "echo hi"})),
        "Said **hi**.",
        reply("More", usage=None),
    )
    async with live(folder, *script, window=16_384) as running:
        await running.ask("say hi")
        await running.ask(FULL)
        await running.ask(FULL)
        await running.enter("/compact")
        await running.until(lambda: running.agent.session.projection.all_compactions)
        await running.at_rest()
        await running.enter("/undo")
        await running.at_rest()
        shown, path = running.shown, running.agent.session.path
    assert path is not None
    async with live(folder, session=Session.open(path), window=16_384) as again:
        assert again.shown == shown


async def test_foreign_markup_and_control_sequences_stay_text(tmp_path: Path) -> None:
    nasty = "[/nope] [bold]list[str] \x1b[2J\x1b]0;x\x07\u202e"
    story = history().system("s").user(nasty).assistant(nasty, thinking=nasty)
    story.step("bash", nasty * 3, command=nasty).user("幂等订单：移动端重试")
    session = Session.from_entries(session_in(tmp_path).header, story.entries)
    async with live(tmp_path, session=session) as running:
        await running.press("ctrl+o")
        assert "[/nope] [bold]list[str]" in running.text
        assert "幂等订单" in running.text
        assert not {sign for sign in running.text if ord(sign) < 32 and sign != "\n"}
        assert "\u202e" not in running.text


@pytest.mark.quick
async def test_gutters_letters_and_cut_of_a_compacted_history(tmp_path: Path) -> None:
    session = Session.from_entries(session_in(tmp_path).header, shop().entries)
    async with live(tmp_path, session=session, size=(120, 60)) as running:
        gutter_of = {
            line[2:].strip()[:40]: line[1]
            for line in running.screen
            if line[1:2] in "┃╏┊┣ "
        }
        assert any(
            "Yes, do that." in text and gutter == "┣"
            for text, gutter in gutter_of.items()
        )
        assert any(
            "pytest -q" in text and gutter == "╏" for text, gutter in gutter_of.items()
        )
        assert any(
            "printenv" in text and gutter == " " for text, gutter in gutter_of.items()
        )
        assert "C " in running.text and "H " in running.text


async def test_only_what_is_seen_is_drawn_of_thousands_of_entries(
    tmp_path: Path,
) -> None:
    story = history().system("s")
    for number in range(900):
        story.user(f"request {number}").step(
            "read", f"text {number}", path=f"f{number % 50}.py"
        ).assistant("ok")
    session = Session.from_entries(session_in(tmp_path).header, story.entries)
    async with live(tmp_path, session=session, window=1_000_000) as running:
        view = running.app.chat.transcript
        assert view.count == 2_700 and view.rendered < 100
        before = view.rendered
        await running.press("pageup")
        assert view.rendered - before < 100
        await running.press("ctrl+o")
        assert view.rendered - before < 300, "opened calls are drawn when they are seen"


async def test_a_streamed_word_draws_its_block_and_computes_no_figure(
    tmp_path: Path, monkeypatch
) -> None:  # type: ignore[no-untyped-def]
    spoken = StreamedAnswer()
    async with live(tmp_path, spoken) as running:
        await running.enter("go on")
        await running.llm.silent.wait()
        spoken.say("Once upon a time ")
        await running.until(lambda: "Once upon" in running.text)
        figures = running.app.chat.presenter.shown.figures
        assert figures is not None

        def counted(*_: object) -> None:
            raise AssertionError("no figure changes by a streamed word")

        monkeypatch.setattr(figures, "room", counted)
        monkeypatch.setattr(figures, "sidebar", counted)
        widgets = len(list(running.app.screen.walk_children()))
        rendered = running.app.chat.transcript.rendered
        for number in range(20):
            spoken.say(f"word{number} ")
            await running.until(lambda n=number: f"word{n}" in running.text)
        assert running.app.chat.transcript.rendered - rendered <= 2 * 20
        assert len(list(running.app.screen.walk_children())) == widgets
        monkeypatch.undo()
        spoken.end()
        await running.at_rest()


# --- starting ---------------------------------------------------------------------------------------


async def test_a_copy_says_what_it_is_a_copy_of_until_something_is_said_in_it(
    tmp_path: Path,
) -> None:
    async with live(tmp_path / "w", "one") as running:
        await running.ask("first")
        copy = await running.agent.session.copy(
            home=tmp_path / "home", session_id="20260314-130000-copy"
        )
        begun, last = (
            running.agent.session.id[-4:],
            running.agent.session.entries[-1].index,
        )
    async with live(tmp_path / "w", "two", session=copy) as running:
        assert COPY_OF.format(id=begun, index=last) in running.text


async def test_a_part_that_cannot_be_imported_is_said_and_all_else_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with live(tmp_path, "still here") as running:
        for key, part in (("f4", "overlays.jobs"), ("ctrl+p", "overlays.palette")):
            monkeypatch.setitem(sys.modules, f"foldline.tui.{part}", None)
            await running.pilot.press(key)
            await running.until(
                lambda name=part: (
                    name in running.text and NOT_LOADED[:20] in running.text
                )
            )
            running.app.chat.remark("")
            monkeypatch.undo()
        await running.ask("and you?")
        assert "still here" in running.text


async def test_a_program_whose_parts_cannot_be_imported_ends_with_a_sentence(
    tmp_path: Path,
) -> None:
    def load() -> object:
        raise ImportError("No module named 'foldline.agent.agent'")

    app = FoldlineApp(load, root=tmp_path)  # type: ignore[arg-type]
    async with app.run_test() as pilot:
        await Live(app, pilot, None, None).until(lambda: app.failure)  # type: ignore[arg-type]
    assert app.failure is not None and "foldline.agent.agent" in app.failure
    assert app.return_code == 1
