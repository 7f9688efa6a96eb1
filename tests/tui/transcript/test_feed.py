"""The blocks of a whole history, read before the screen shows them; and of an answer that comes."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from textual.app import App, ComposeResult

from foldline.protocol import (
    AssistantMessage,
    Clear,
    Compaction,
    Entry,
    TextPart,
    ThinkingPart,
)
from foldline.tui.blocks.plain import RuleBlock
from foldline.tui.blocks.view import BlockView
from foldline.tui.look.themes import DEFAULT_THEME, load_theme
from foldline.tui.transcript import feed
from foldline.tui.transcript.feed import ChatTranscript
from foldline.tui.transcript.rows import SCROLL_UP, THOUGHT
from support.chat_app import screen_text
from support.history import History, call, history
from support.stories import SUMMARY, Story


def turns(count: int) -> History:
    made = history().system("s")
    for turn in range(count):
        made.user(f"prompt {turn}").assistant(calls=[call("read", path="a.py")]).result(
            "text " * 50
        )
        made.assistant(f"answer {turn}")
    return made


def test_of_a_very_long_history_the_newest_turns_are_read_and_the_rest_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    projection = turns(20).projection()
    monkeypatch.setattr(feed, "AT_FIRST", projection.tokens // 4)
    transcript = ChatTranscript(BlockView(), projection)
    rule, *shown = transcript.read(projection.entries)
    assert isinstance(rule, RuleBlock)
    first = transcript.prompts[0]
    assert shown[0].key == first
    assert rule.label == SCROLL_UP.format(count=first[0])
    assert len(transcript.prompts) == 5
    assert [block.key[0] for block in shown] == sorted(block.key[0] for block in shown)


def test_any_other_history_is_read_whole() -> None:
    projection = turns(20).projection()
    transcript = ChatTranscript(BlockView(), projection)
    assert not any(
        isinstance(block, RuleBlock) for block in transcript.read(projection.entries)
    )
    assert len(transcript.prompts) == 20


class Alone(App[None]):
    """A transcript on a screen of its own, and a clock the test turns."""

    def __init__(self, story: History) -> None:
        super().__init__()
        theme = load_theme(DEFAULT_THEME, None, dark=True)
        assert theme is not None
        self.register_theme(theme)
        self.theme = theme.name
        self.now = 0.0
        self.view = BlockView()
        self.transcript = ChatTranscript(
            self.view, story.projection(), clock=lambda: self.now
        )

    def compose(self) -> ComposeResult:
        yield self.view

    @property
    def text(self) -> str:
        return "\n".join(line.rstrip() for line in screen_text(self))


@asynccontextmanager
async def shown(story: History) -> AsyncIterator[Alone]:
    app = Alone(story)
    async with app.run_test(size=(80, 24)) as pilot:
        app.transcript.show(app.transcript.read(app.transcript.projection.entries))
        await pilot.pause()
        yield app


async def test_thinking_is_one_line_that_counts_and_its_words_come_only_where_it_is_open() -> (
    None
):
    async with shown(history().system("s").user("go")) as app:
        transcript = app.transcript
        index = transcript.projection.last_index + 1
        transcript.begin_step()
        transcript.think("First I look. " * 45)
        app.now = 6.0
        transcript.flush()
        assert "▸ thinking  0.2k · 6 s" in app.text and "First I look" not in app.text
        transcript.toggle((index, THOUGHT))
        assert "▾ thinking  0.2k · 6 s" in app.text and "First I look" in app.text
        transcript.think("\nThen I write.")
        transcript.flush()
        assert app.text.count("Then I write.") == 1
        transcript.toggle((index, THOUGHT))
        assert "Then I write." not in app.text
        transcript.write("Done.")
        transcript.flush()
        parts = (
            ThinkingPart(text="First I look. " * 45 + "\nThen I write."),
            TextPart(text="Done."),
        )
        answer = AssistantMessage(index=index, parts=parts)
        transcript.projection.append(answer)
        transcript.add(answer)
        assert "▸ thinking  0.2k · 6 s" in app.text and "Then I write." not in app.text
        transcript.toggle((index, THOUGHT))
        assert app.text.index("Then I write.") < app.text.index("Done.")
        transcript.toggle((index, THOUGHT))
        assert "Then I write." not in app.text


async def test_what_was_compacted_is_muted_and_what_was_kept_is_not() -> None:
    story = Story().system("s").user("before").assistant("said before")
    story.user("after").assistant("said after").compaction(3, SUMMARY, first=1)
    async with shown(story) as app:
        muted = app.view.roles["muted"].color
        colors = {
            segment.text.strip(): segment.style and segment.style.color
            for row in range(10)
            for segment in app.view.render_line(row)
        }
        assert colors["said before"] == muted != colors["said after"]
        assert colors["before"] == muted and [
            line for line in app.text.split("\n") if "┊" in line
        ]


async def test_opening_and_weighing_all_calls_reads_nothing_that_is_not_on_screen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with shown(turns(200)) as app:
        transcript = app.transcript
        read: list[int] = []
        entry = transcript.projection.entry
        monkeypatch.setattr(
            transcript.projection,
            "entry",
            lambda index: read.append(index) or entry(index),
        )
        for _ in transcript.openings.toggle_all_calls():
            pass
        assert len(set(transcript.calls.keys)) == 200 and len(read) < 60
        read.clear()
        monkeypatch.setattr(transcript, "_scale", 2.0)
        for _ in transcript.reweigh():
            pass
        assert len(read) < 60


def changed(lines: int) -> str:
    """A diff of so many new lines."""
    return f"--- /dev/null\n+++ a.py\n@@ -0,0 +1,{lines} @@\n" + "".join(
        f"+line {n}\n" for n in range(lines)
    )


async def test_a_short_diff_is_open_by_itself_and_ctrl_o_leaves_it_open() -> None:
    story = Story().system("s").user("go")
    story.tool("edit", "ok", path="short.py", diff=changed(12)).tool(
        "edit", "ok", path="long.py", diff=changed(13)
    )
    async with shown(story.tool("read", "some text", path="b.py")) as app:
        transcript = app.transcript
        (short, long, _) = transcript.calls.keys
        assert "12 + line 11" in app.text and "13 + line 12" not in app.text
        transcript.toggle(short)
        assert "line" not in app.text
        for levels in (("part", "part"), ("part", "closed"), ("part", "part")):
            for _ in transcript.openings.toggle_all_calls():
                pass
            assert (
                transcript.openings.level(short),
                transcript.openings.level(long),
            ) == levels


@pytest.mark.parametrize(
    ("entry", "moves"),
    [
        (Clear(), True),
        (Compaction(first_kept_index=60, reason="manual"), True),
        (Compaction(first_kept_index=60, reason="threshold"), False),
    ],
)
async def test_the_line_of_what_the_user_did_comes_into_sight_and_no_other(
    entry: Entry, moves: bool
) -> None:
    async with shown(turns(20)) as app:
        app.view.action_home()
        assert not app.view.follow
        app.transcript.projection.append(
            entry.model_copy(update={"index": app.transcript.projection.last_index + 1})
        )
        app.transcript.add(app.transcript.projection.entries[-1])
        assert app.view.follow is moves
