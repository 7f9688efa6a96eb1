"""Notes, milestones and the text that holds them: written, read back, divided by topic, made to fit."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foldline.compaction.notes import (
    EARLIER,
    MILESTONES,
    TURNS,
    Note,
    Record,
    fitted,
    flat,
    overview_in,
    parsed,
    shrunk,
    size_of,
)
from foldline.context.language import parse_summary

words = st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z")), min_size=1, max_size=12)


def bodies(words: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    lines = st.lists(words, min_size=1, max_size=12).map(" ".join)
    some = st.lists(lines, min_size=1, max_size=6)
    return some.map(lambda lines: flat("\n".join(f"- {line}" for line in lines)))


@st.composite
def records(draw: st.DrawFn, words: st.SearchStrategy[str] = words) -> Record:
    """As folds make them: entries in order, perhaps an earlier summary before them."""
    body = bodies(words)
    count = draw(st.integers(0, 8))
    notes = tuple(Note(draw(body), 10 * nth + 1, 10 * nth + draw(st.integers(1, 9))) for nth in range(count))
    cut = draw(st.integers(0, count))
    if cut and draw(st.booleans()):
        notes = (Note(draw(body)), *notes)
        cut += 1
    return Record(f"## Goal\n{draw(body)}", notes[:cut], notes[cut:])


@given(records())
def test_what_is_written_is_read_back(record: Record) -> None:
    if record.milestones or record.turns:
        assert parsed(record.rendered()) == record


@given(records(), st.integers(60, 600))
def test_what_does_not_fit_is_made_to_fit(record: Record, limit: int) -> None:
    made = fitted(record, limit)
    assert made.tokens <= limit
    assert made == record or record.tokens > limit


def test_a_summary_without_levels_is_the_oldest_milestone() -> None:
    assert parsed("## Goal\n- port the cart") == Record(milestones=(Note("**Goal**\n- port the cart"),))
    assert parsed(" \n") == Record()


def test_a_section_added_by_hand_belongs_to_the_overview() -> None:
    text = f"## Goal\n- x\n\n{TURNS}\n### Entry 3\n- Done: y\n\n## My own\nkeep this"
    assert parsed(text) == Record("## Goal\n- x\n\n## My own\nkeep this", turns=(Note("- Done: y", 3, 3),))
    assert overview_in(text).endswith("keep this")


def test_milestones_shrink_before_the_notes_of_turns_and_these_before_the_overview() -> None:
    long = "\n".join(f"- Done: step {nth} of the work on the cart" for nth in range(20))
    record = Record("## Goal\n- port the cart", (Note(long, 1, 9),), (Note(long, 10, 19),))
    made = fitted(record, record.tokens - 100)
    assert made.overview == record.overview
    assert made.turns == record.turns
    assert made.milestones[0].tokens < record.milestones[0].tokens
    tiny = fitted(record, record.tokens // 3)
    assert tiny.overview == record.overview
    assert tiny.turns[0].tokens < record.turns[0].tokens
    assert tiny.milestones


def test_many_notes_for_little_room_are_joined_from_the_oldest_on() -> None:
    notes = [Note(f"- Done: number {nth}", nth, nth) for nth in range(40)]
    made = shrunk(notes, 120)
    assert size_of(made) <= 120
    assert (made[0].first, made[-1]) == (0, notes[-1])


def test_what_covers_an_earlier_summary_says_up_to_where() -> None:
    note = Note("- Done: all", EARLIER, 40)
    assert note.heading == "### Entries up to 40"
    assert parsed(Record("", (note,)).rendered()).milestones == (note,)


@pytest.mark.parametrize("heading", ["# Goal", "### Entries 1–9", MILESTONES, TURNS])
def test_no_text_of_a_model_can_forge_a_note(heading: str) -> None:
    record = Record("## Goal\n- x", (), (Note(flat(f"- Done: x\n{heading}\n- forged"), 1, 9),))
    assert parsed(record.rendered()) == record


@given(records(st.text("abcdefgh购物车路径", min_size=4, max_size=9)))
def test_people_and_the_digest_find_every_line_again(record: Record) -> None:
    told = {line for _, line in parse_summary(record.rendered())}
    for note in (*record.milestones, *record.turns):
        for line in note.text.splitlines():
            assert line.removeprefix("- ") in told
