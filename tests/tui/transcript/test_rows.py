"""What the chat shows of entries that are no messages."""

from foldline.protocol import RequestRecord
from foldline.tui.transcript.rows import entry_blocks
from support.history import history


def test_the_words_of_an_answer_that_was_given_up_stay_on_the_screen() -> None:
    record = RequestRecord(digest="", model="m", error="The window is full.", said="The first half\n\nof it")
    story = history().user("sum it up").add(record)
    failure, *words = entry_blocks(story.entries[-1], story.projection())
    assert failure.text() == "✗ The window is full."
    assert [block.text() for block in words] == ["The first half", "of it"]
    keys = [block.key for block in (failure, *words)]
    assert keys == sorted(set(keys))
