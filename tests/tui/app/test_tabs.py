"""Several sessions that are open at once: each works on, and is found again as it was left."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foldline.agent import Agent
from foldline.agent.session.rewind import FileDiff, RewindPreview
from foldline.frontend.state import Tab
from foldline.history import Session
from foldline.history.lock import holder_of
from foldline.past.rewind_points import FileChange, RewindPoint
from foldline.protocol import UserMessage, operations
from foldline.tui.app.app import CLOSE_NOTE, CURRENT_SESSION, QUIT_QUESTION
from foldline.tui.app.open_session import OpenSession
from foldline.tui.browser.inspector.screen import InspectorScreen
from foldline.tui.lists.picker import Picker
from foldline.tui.look.meter import tabs_spans
from foldline.tui.overlays.diff import DiffScreen
from foldline.tui.overlays.rewind import RewindDialog
from foldline.view.budget import Size
from foldline.view.rules import broken
from support.agents import Hang, tool_reply
from support.chat_app import Clock
from support.live import Live, StreamedAnswer, StreamingLLM, live, session_in

pytestmark = pytest.mark.slow

ASKS = tool_reply(("bash", {"command": "make"}))


async def at_rest(running: Live, chat: OpenSession) -> None:
    runner = chat.runner
    assert runner is not None
    await running.until(
        lambda: (
            not runner.agent.executor.busy
            and (runner._delivery is None or runner._delivery.done())
            and chat.presenter.settled
        )
    )


async def beside(running: Live) -> OpenSession:
    """A new session, open and shown."""
    before = running.app.chat
    before.run_command("new")
    await running.until(
        lambda: running.app.chat is not before and running.app.runner is not None
    )
    await running.drawn()
    return running.app.chat


async def to_the_other(running: Live) -> None:
    before = running.app.chat
    await running.press("ctrl+t", "enter")
    await running.until(lambda: running.app.chat is not before)


async def say(running: Live, text: str) -> None:
    """Send a prompt in the session that is shown, and wait for its answer."""
    chat = running.app.chat
    count = len(prompts(chat))
    await running.enter(text)
    await running.until(lambda: len(prompts(chat)) > count)
    await at_rest(running, chat)


def prompts(chat: OpenSession) -> list[str]:
    assert chat.runner is not None
    entries = chat.runner.agent.session.entries
    return [entry.text for entry in entries if isinstance(entry, UserMessage)]


def header(running: Live) -> str:
    return running.screen[0].rstrip()


@pytest.mark.quick
async def test_what_runs_in_another_session_runs_on_and_is_marked_until_it_is_seen(
    tmp_path: Path,
) -> None:
    slow = StreamedAnswer()
    async with live(tmp_path / "shop", slow, "quick") as running:
        first = running.app.chat
        await running.enter("slowly")
        await running.until(lambda: running.llm.silent.is_set())
        await beside(running)
        await running.enter("and this")
        await at_rest(running, running.app.chat)
        assert " … slowly │ and this" in header(running)
        slow.say("All there is to say.")
        slow.end()
        await at_rest(running, first)
        await running.until(lambda: " ● slowly │ and this" in header(running))
        assert "slowly: finished · Ctrl+T" in running.text
        await to_the_other(running)
        assert (
            "All there is to say." in running.text
            and " slowly │ and this" in header(running)
        )
        assert prompts(first) == ["slowly"] and prompts(running.app.sessions[1]) == [
            "and this"
        ]


@pytest.mark.quick
async def test_a_question_in_another_session_is_marked_and_answered_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    async with live(
        tmp_path / "shop", StreamedAnswer(), "quick", approvals="ask", clock=clock
    ) as running:
        called: list[str] = []
        monkeypatch.setattr(running.app, "notify_user", called.append)
        first, spoken = running.app.chat, running.llm.script[0]
        await running.enter("build it")
        await running.until(lambda: running.llm.silent.is_set())
        await beside(running)
        await running.type("half a prom")
        spoken.end(ASKS)
        await running.until(lambda: first.presenter.state.question is not None)
        await running.until(lambda: "? build it" in header(running))
        assert "build it: waits for you · Ctrl+T" in running.text
        assert called == ["? build it · waits for you"]
        assert (
            running.editor_text == "half a prom"
            and "Allow this bash call?" not in running.text
        )
        await to_the_other(running)
        assert "Allow this bash call?" in running.text
        assert running.app.window_title == "? build it · waits for you"
        clock.now += 2.0  # a question takes no key in its first second on the screen
        await running.press("alt+n", "enter")
        await running.until(lambda: first.presenter.state.question is None)


async def test_a_session_is_opened_beside_one_that_asks(tmp_path: Path) -> None:
    async with live(tmp_path / "shop", ASKS, "quick", approvals="ask") as running:
        await running.enter("build it")
        await running.until(lambda: running.app.state.question is not None)
        await beside(running)
        assert (
            "? build it │ new session" in header(running) and running.editor_text == ""
        )


async def test_a_failure_in_another_session_is_marked(tmp_path: Path) -> None:
    slow = StreamedAnswer()
    async with live(tmp_path / "shop", slow, "quick") as running:
        first = running.app.chat
        await running.enter("slowly")
        await running.until(lambda: running.llm.silent.is_set())
        await beside(running)
        assert first.runner is not None
        monkey = first.runner.agent.session
        monkey.read_only = "This disk is full."
        slow.end()
        await running.until(lambda: "✗ slowly" in header(running))


@pytest.mark.quick
async def test_each_session_keeps_its_place_its_draft_its_queue_and_its_inspector(
    tmp_path: Path,
) -> None:
    async with live(
        tmp_path / "shop", "Line.\n\n" * 60, Hang(), "quick", size=(100, 30)
    ) as running:
        first = running.app.chat
        await say(running, "tell me all")
        await running.enter("slowly")
        await running.until(lambda: first.presenter.state.busy)
        await running.enter("and then")
        await running.press("pageup", "pageup")
        await running.type("a draft")
        await running.press("f2")
        await running.until(lambda: isinstance(running.app.screen, InspectorScreen))
        await running.press("up", "up")
        await running.until(lambda: "after this turn" in running.text)
        before = running.text
        scrolled = first.transcript.scroll_y
        inspector = running.app.screen
        assert isinstance(inspector, InspectorScreen)
        cursor = inspector.panels.lists.history.view.cursor
        await beside(running)
        assert running.editor_text == ""
        await say(running, "here")
        await to_the_other(running)
        assert (
            running.app.screen is inspector
            and running.text.splitlines()[2:] == before.splitlines()[2:]
        )
        assert inspector.panels.lists.history.view.cursor == cursor
        await running.press("escape")
        await running.until(lambda: running.app.screen is first)
        assert (
            running.editor_text == "a draft" and first.transcript.scroll_y == scrolled
        )
        assert first.presenter.state.waiting.queued == ("and then",)
        await running.press("ctrl+c")


async def test_switching_takes_less_than_a_tenth_of_a_second(tmp_path: Path) -> None:
    """In time of the processor, of the best of several: whatever else the machine does."""
    long = "\n\n".join(f"Paragraph {at} of a long answer. " * 8 for at in range(200))
    async with live(tmp_path / "shop", long, long) as running:
        await say(running, "one")
        await beside(running)
        await say(running, "two")
        times = []
        for _ in range(6):
            other = next(
                each for each in running.app.sessions if each is not running.app.chat
            )
            begun = time.process_time()
            running.app.show_session(other)
            await running.pilot.pause()
            times.append(time.process_time() - begun)
        assert min(times) < 0.1


async def test_a_session_nothing_was_said_in_is_closed_when_it_is_left(
    tmp_path: Path,
) -> None:
    async with live(tmp_path / "shop", "done") as running:
        await say(running, "hi")
        await beside(running)
        blank = running.app.chat
        await to_the_other(running)
        await running.until(lambda: blank not in running.app.sessions)
        assert " shop ▸ hi" in header(running)
        await beside(running)
        await running.type("a draft")
        await to_the_other(running)
        assert len(running.app.sessions) == 2 and " hi │ new session" in header(running)


async def test_of_several_new_sessions_asked_for_at_once_one_stays(
    tmp_path: Path,
) -> None:
    async with live(tmp_path / "shop", "done") as running:
        await say(running, "a word")
        first = running.app.chat
        for _ in range(10):
            first.run_command("new")
        await running.until(lambda: len(running.app.sessions) > 2)
        await running.until(
            lambda: len(running.app.sessions) == 2 and running.app.runner is not None
        )
        await running.app.workers.wait_for_complete()
        assert (
            running.app.sessions == [first, running.app.chat]
            and running.app.chat.is_blank
        )


async def test_what_a_screen_opens_late_lies_over_its_own_session(
    tmp_path: Path,
) -> None:
    looked = asyncio.Event()

    async def look(_: operations.Rewind) -> RewindPreview:
        return RewindPreview(
            Size(2, estimated=False),
            Size(1, estimated=True),
            1,
            files=[FileChange("a.py", "write", None, None)],
        )

    async def diffs(_: int) -> list[FileDiff]:
        await looked.wait()
        return []

    async with live(tmp_path / "shop") as running:
        await say(running, "a word")
        first = running.app.chat
        other = await beside(running)
        await running.type("a draft")
        await to_the_other(running)
        point = RewindPoint(1, 1, None, "turn", "a word", 1)
        dialog = RewindDialog(first, [point], look, diffs)
        first.run_worker(dialog.choose())
        await running.until(lambda: isinstance(first.front, Picker))
        listed = first.front
        await running.press("enter")
        await running.until(lambda: first.front not in (first, listed))
        question = first.front
        assert isinstance(question, Picker)
        question.select("changes")
        await running.press("enter")
        await to_the_other(running)
        looked.set()
        await running.until(lambda: isinstance(first.front, DiffScreen))
        assert running.app.chat is other and other.front is other


async def test_closing_asks_only_where_something_runs_and_gives_the_session_back(
    tmp_path: Path,
) -> None:
    async with live(tmp_path / "shop", "one", Hang(), "three") as running:
        first = running.app.chat
        await say(running, "hi")
        second = await beside(running)
        await running.enter("slowly")
        await running.until(lambda: running.llm.silent.is_set())
        await running.enter("waits")
        file = Path(second.file)
        running.app.ask_to_close(second)
        await running.until(lambda: isinstance(running.app.screen, Picker))
        assert CLOSE_NOTE in running.text
        await running.press("enter")
        await running.until(lambda: running.app.screen is second)
        assert second.presenter.state.busy
        running.app.ask_to_close(second)
        await running.until(lambda: isinstance(running.app.screen, Picker))
        await running.press("down", "enter")
        await running.until(
            lambda: running.app.sessions == [first] and running.app.screen is first
        )
        await running.until(lambda: holder_of(file.parent) is None)
        assert (
            not broken(Session.open(file).projection)
            and (file.parent / "unsent.json").exists()
        )
        await say(running, "and on")


async def test_a_key_of_the_list_closes_a_session(tmp_path: Path) -> None:
    async with live(tmp_path / "shop", "one", "two") as running:
        first = running.app.chat
        await say(running, "hi")
        second = await beside(running)
        await say(running, "ho")
        await running.press("ctrl+t")
        await running.until(lambda: isinstance(running.app.screen, Picker))
        assert "Del close session" in running.text
        await running.press("delete")  # the one before is marked
        await running.until(
            lambda: running.app.sessions == [second] and running.app.screen is second
        )
        assert first not in running.app.sessions
        await running.press("ctrl+t")
        await running.until(lambda: isinstance(running.app.screen, Picker))
        assert "close session" not in running.text


@pytest.mark.quick
async def test_quitting_asks_once_what_of_several_sessions_still_runs(
    tmp_path: Path,
) -> None:
    async with live(tmp_path / "shop", Hang(), "two") as running:
        first = running.app.chat
        await running.enter("slowly")
        await running.until(lambda: running.llm.silent.is_set())
        second = await beside(running)
        await say(running, "hi")
        await running.press("ctrl+c", "ctrl+c")
        await running.until(
            lambda: QUIT_QUESTION.format(sessions="slowly") in running.text
        )
        await running.press("escape")
        await running.until(lambda: running.app.screen is second)
        await running.enter("/quit")
        await running.until(
            lambda: QUIT_QUESTION.format(sessions="slowly") in running.text
        )
        files = [Path(each.file) for each in (first, second)]
        await running.press("down", "enter")
        await running.until(lambda: not running.app.is_running)
    for file in files:
        again = Session.open(file)
        again.claim()
        again.close()
        assert not broken(again.projection)


async def test_a_session_that_cannot_be_opened_leaves_the_one_before(
    tmp_path: Path,
) -> None:
    async with live(tmp_path / "shop", "done") as running:
        await say(running, "hi")
        first, held = (
            running.app.chat,
            session_in(tmp_path / "shop", "20260314-120500-held"),
        )
        await held.append(UserMessage(text="mine"))
        running.app.open_session(str(held.path))
        await running.until(lambda: len(running.app.sessions) == 2)
        await running.until(
            lambda: running.app.sessions == [first] and running.app.chat is first
        )
        assert "is being written" in running.text or "another process" in running.text
        held.close()


async def test_the_list_says_how_it_is_with_each_and_opens_more(tmp_path: Path) -> None:
    async with live(tmp_path / "shop", Hang(), "two", size=(80, 24)) as running:
        await running.enter("slowly")
        await running.until(lambda: running.llm.silent.is_set())
        await beside(running)
        await say(running, "hi")
        await running.press("ctrl+t")
        await running.until(lambda: "Open sessions" in running.text)
        assert (
            "working · shop" in running.text
            and f"{CURRENT_SESSION} · shop" in running.text
        )
        await running.press("ctrl+t", "ctrl+t", "enter")  # past the second one
        await running.until(
            lambda: len(running.app.sessions) == 3 and running.app.runner is not None
        )
        await running.press("ctrl+c")


@pytest.mark.quick
def test_the_tabs_fit_and_the_one_that_is_shown_is_among_them() -> None:
    for shown in range(9):
        tabs = [
            Tab(f"{at} with a long name", "working", at == shown) for at in range(9)
        ]
        text = "".join(span[0] for span in tabs_spans(tabs, 48))
        assert len(text) <= 48 + len("+9 ") + len(" +9") and f"… {shown} with…" in text


ACTIONS = ("new", "other", "prompt", "hang", "close", "draft", "cancel")


@pytest.mark.slow
@settings(max_examples=8, deadline=None)
@given(st.lists(st.sampled_from(ACTIONS), max_size=10))
def test_in_any_order_every_history_is_valid_and_given_back(
    tmp_path_factory: pytest.TempPathFactory, actions: list[str]
) -> None:
    asyncio.run(_do_all(tmp_path_factory.mktemp("tabs"), actions))


async def _do_all(folder: Path, actions: list[str]) -> None:
    answers = [
        Hang() if action == "hang" else "said"
        for action in actions
        if action in ("hang", "prompt")
    ]
    files: set[Path] = set()
    async with live(
        folder / "shop", llm=StreamingLLM(*answers, *["more"] * 10, window=32_768)
    ) as running:
        does: dict[str, Callable[[], object]] = {
            "new": lambda: beside(running),
            "other": lambda: running.press("ctrl+t", "down", "enter"),
            "prompt": lambda: running.enter("say it"),
            "hang": lambda: running.enter("for long"),
            "draft": lambda: running.type("some words "),
            "cancel": lambda: running.press("escape"),
        }
        for action in actions:
            if action == "close":
                if len(running.app.sessions) > 1:
                    await running.app.close_session(running.app.chat)
            else:
                await does[action]()  # type: ignore[misc]
            await running.pilot.pause()
            await running.until(lambda: running.app.runner is not None)
            while running.app.screen is not running.app.chat:
                await running.press("escape")
            files |= {Path(each.file) for each in running.app.sessions if each.file}
    assert isinstance(running.agent, Agent)
    for file in files:
        again = Session.open(file)
        again.claim()
        again.close()
        assert not broken(again.projection) and not again.damage


async def test_a_session_whose_folder_was_moved_is_continued_there_with_what_was_typed(
    tmp_path: Path,
) -> None:
    writes = tool_reply(("write", {"path": "new.txt", "content": "x"}))
    async with live(tmp_path / "shop", "first done", writes, "second done") as running:
        await say(running, "first")
        before = running.app.chat
        (tmp_path / "shop").rename(tmp_path / "store")
        await running.enter("second")
        await running.until(lambda: isinstance(running.app.screen, Picker))
        assert "second" in running.editor_text
        await running.press("down", "enter")
        await running.until(
            lambda: (
                running.app.chat is not before
                and running.app.sessions == [running.app.chat]
            )
        )
        await running.until(lambda: running.app.runner is not None)
        await running.drawn()
        assert (
            header(running).startswith(" store ▸ first")
            and running.editor_text == "second"
        )
        await running.press("enter")
        await running.until(lambda: len(prompts(running.app.chat)) == 2)
        await at_rest(running, running.app.chat)
        assert (tmp_path / "store" / "new.txt").exists() and not (
            tmp_path / "shop"
        ).exists()


async def test_a_moved_folder_is_offered_once(tmp_path: Path) -> None:
    async with live(tmp_path / "shop", "first done", "second done") as running:
        await say(running, "first")
        (tmp_path / "shop").rename(tmp_path / "store")
        await running.enter("second")
        await running.until(lambda: isinstance(running.app.screen, Picker))
        await running.press("escape")
        await running.press("enter")
        await running.until(lambda: len(prompts(running.app.chat)) == 2)
        await at_rest(running, running.app.chat)
        assert not isinstance(running.app.screen, Picker)
