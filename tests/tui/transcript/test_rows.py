"""What the chat shows of entries that are no messages."""

import pytest

from foldline.protocol import (
    AssistantMessage,
    Compaction,
    Entry,
    Kept,
    ModelChange,
    NoticeRecord,
    RequestRecord,
    SystemMessage,
    Undo,
    Written,
    text_parts,
)
from foldline.tui.blocks.block import Block
from foldline.tui.blocks.view import BlockView
from foldline.tui.look.styles import Styles
from foldline.tui.transcript.feed import ChatTranscript
from foldline.tui.transcript.rows import (
    CANCELLED,
    CUT_OFF,
    EMPTY,
    FILTERED,
    NO_SUMMARY,
    compaction_block,
    entry_blocks,
)
from support.history import History, history
from support.stories import Story


def test_the_words_of_an_answer_that_was_given_up_stay_on_the_screen() -> None:
    record = RequestRecord(
        digest="",
        model="m",
        error="The window is full.",
        said="The first half\n\nof it",
    )
    story = history().user("sum it up").add(record)
    failure, *words = entry_blocks(story.entries[-1], story.projection())
    assert failure.text() == "The window is full."
    assert [block.text() for block in words] == ["The first half", "of it"]
    keys = [block.key for block in (failure, *words)]
    assert keys == sorted(set(keys))


ALL_OF_IT = (
    "http://localhost:8000/v1 has no model kimi-k9 (404): choose another with -m. " * 8
)


@pytest.mark.parametrize(
    "failed",
    [
        RequestRecord(digest="", model="m", error=ALL_OF_IT),
        NoticeRecord(level="error", text=ALL_OF_IT),
    ],
    ids=["request", "turn"],
)
def test_a_failure_is_there_in_full_and_marked_without_colour(failed: Entry) -> None:
    story = history().user("hello").add(failed)
    [block] = entry_blocks(story.entries[-1], story.projection())
    lines = [strip.text.rstrip() for strip in block.render(76, Styles())]
    assert lines[0].startswith(
        "  ✗ http://localhost:8000/v1 has no model kimi-k9 (404)"
    )
    assert all(line.startswith("    ") for line in lines[1:])
    assert " ".join(" ".join(lines).replace("✗", "").split()) == ALL_OF_IT.strip()


@pytest.mark.parametrize(
    ("provider", "said"),
    [
        ("api.deepseek.com", "model: m · api.deepseek.com"),
        (None, "model: m"),
        ("m", "model: m"),
    ],
)
def test_another_model_is_named_with_its_server(
    provider: str | None, said: str
) -> None:
    story = history().user("hello").add(ModelChange(model="m", provider=provider))
    [block] = entry_blocks(story.entries[-1], story.projection())
    assert block.text() == said


def last_block(story: History) -> Block:
    projection = story.projection()
    return ChatTranscript(BlockView(), projection).read(projection.entries)[-1]


@pytest.mark.parametrize(
    ("ended", "said"),
    [
        ({"stop_reason": "length"}, CUT_OFF),
        ({"stop_reason": "filtered"}, FILTERED),
        ({"stop_reason": "cancelled"}, CANCELLED),
    ],
)
def test_an_answer_that_did_not_end_as_it_should_says_so(
    ended: dict[str, str], said: str
) -> None:
    answer = AssistantMessage.model_validate(
        {"parts": text_parts("The first half"), **ended}
    )
    story = history().user("tell me").add(answer)
    assert last_block(story).text().startswith(said)


def test_an_empty_answer_says_so_with_and_without_thoughts() -> None:
    thought = history().user("tell me").assistant(thinking="hm")
    last = last_block(thought)
    nothing = (
        history()
        .user("tell me")
        .add(RequestRecord(digest="", model="m", stop_reason="stop"))
    )
    [only] = entry_blocks(nothing.entries[-1], nothing.projection())
    assert last.text() == only.text() == EMPTY


def compaction(**made: object) -> Compaction:
    summary = SystemMessage(origin="summary", parts=text_parts("what was done"))
    head = (
        ()
        if made.get("rung") == "hide"
        else (Written(message=summary, covers=((0, 1),)),)
    )
    return Compaction(
        first_kept_index=2,
        head=head,
        tokens_before=116_200,
        tokens_after=27_400,
        reason="threshold",
    ).model_copy(update=made)


@pytest.mark.parametrize(
    ("made", "says"),
    [
        ({}, "2 entries compacted"),
        ({"facts": 214, "lost": 6}, "2 entries compacted · 6 of 214 facts lost"),
        ({"facts": 214}, "2 entries compacted · 0 of 214 facts lost"),
        ({"rung": "digest"}, "2 entries compacted · digest without a model"),
        ({"rung": "hide"}, "old results hidden"),
    ],
)
def test_the_line_of_a_compaction_says_how_it_was_made_and_what_it_lost(
    made: dict[str, object], says: str
) -> None:
    story = history().user("one").assistant("two").user("three").add(compaction(**made))
    (line,) = entry_blocks(story.entries[-1], story.projection())
    assert line.text() == f"116.2k → 27.4k tokens · window full · {says}"


def hiding() -> Story:
    """A session whose one compaction only hid two results."""
    story = Story().system("s").user("go").tool("read", "a\n" * 90, path="a.py")
    story.tool("read", "b\n" * 90, path="b.py")
    stubs = tuple(Kept(ref=at, content="[hidden]", fate="hidden") for at in (3, 5))
    head = (Kept(ref=1), Kept(ref=2), stubs[0], Kept(ref=4), stubs[1])
    story.add(
        Compaction(
            first_kept_index=6, head=head, tokens_before=9_600, tokens_after=6_100
        )
    )
    return story


def test_a_compaction_that_only_hides_says_how_many_results_and_never_shows_an_empty_summary() -> (
    None
):
    story = hiding()
    compaction = story.entries[-1]
    assert isinstance(compaction, Compaction)
    closed = compaction_block(compaction, story.projection(), opened=False)
    assert closed.text() == "9.6k → 6.1k tokens · you asked · 2 results hidden"
    opened = compaction_block(compaction, story.projection(), opened=True)
    assert opened.body is not None
    assert opened.body.text() == NO_SUMMARY.format(scope="2 results hidden")


def test_in_a_narrow_terminal_the_line_of_a_compaction_keeps_how_it_was_made_and_what_opens_it() -> (
    None
):
    story = (
        history()
        .user("one")
        .assistant("two")
        .user("three")
        .add(compaction(rung="clip", facts=9))
    )
    (line,) = entry_blocks(story.entries[-1], story.projection())
    (drawn,) = line.render(70, Styles())
    assert "116.2k → 27.4k · window full · Enter expand · u undo" in drawn.text
    (drawn,) = line.render(90, Styles())
    assert (
        "116.2k → 27.4k · window full · large results clipped · Enter expand · u undo"
        in drawn.text
    )
    (drawn,) = line.render(30, Styles())
    assert "▸─ 116.2k → 27.4k ──" in drawn.text, "what fits"


def test_the_line_of_the_newest_compaction_offers_its_keys_and_undo_where_that_takes_it_back() -> (
    None
):
    story = history().user("one").assistant("two").user("three").add(compaction())
    first = story.last
    story.user("four").assistant("five").add(compaction())

    def offered() -> list[str]:
        made = story.projection()
        compactions = [
            entry for entry in story.entries if isinstance(entry, Compaction)
        ]
        lines = [
            compaction_block(each, made, opened=False).render(120, Styles())[0].text
            for each in compactions
        ]
        return [line.partition(" compacted")[2].partition(" ─")[0] for line in lines]

    assert offered() == ["", " · Enter expand · u undo"]
    story.add(Undo(target=story.last))
    assert offered() == [" · u undo", " · Enter expand"]
    story.add(Undo(target=first))
    assert offered() == ["", " · Enter expand"]


def test_an_edit_that_is_undone_is_named_by_what_it_did() -> None:
    story = Story().system("s").user("go").tool("read", "all of it", path="a.py")
    story.edit("drop", 2).undo()
    (line,) = entry_blocks(story.entries[-1], story.projection())
    assert line.text() == "drop of 2–3 undone"
