"""Outlines: everything the projection reads from an entry."""

from hypothesis import given
from hypothesis import strategies as st

from foldline.protocol import (
    BaseMessage,
    Compaction,
    Kept,
    SystemMessage,
    ThinkingPart,
    Usage,
    Written,
    text_parts,
)
from foldline.view.items import with_text
from foldline.view.outline import MemoryEntries, MessageOutline, outline_of
from foldline.view.projection import Projection, project
from foldline.view.tokens import message_tokens, thinking_tokens
from support.history import History, call, history, read

texts = st.text(max_size=80)


def small_session() -> History:
    """0 system, 1 request, 2 two calls, 3-4 their results, 5 announced checkpoint, 6 answer."""
    begun = history().system("s").user("go", images=1)
    asked = begun.assistant(
        "I look", calls=[call("read", path="a"), call("bash")], thinking="hm"
    )
    results = asked.result("text " * 40, files=[read("a.py")], images=1).result("out")
    return results.checkpoint(0, shown=True).assistant(
        "done", usage=Usage(input=900, output=20), model="m"
    )


class OutlinesOnly(MemoryEntries):
    def message(self, outline: MessageOutline) -> BaseMessage:
        raise AssertionError(f"entry {outline.index} was looked at")


def test_projecting_reads_no_message_text() -> None:
    summary = SystemMessage(origin="summary", parts=text_parts("so far"))
    written = Written(message=summary, covers=((1, 2),))
    clip = Kept(ref=3, content="te…", fate="clipped")
    compaction = Compaction(first_kept_index=3, head=(written,), replaced=(clip,))
    made = (
        small_session()
        .edit("pin", 1)
        .add(compaction)
        .turn("more", "yes")
        .revert(0)
        .undo()
        .clear()
        .undo()
    )
    projection = Projection(OutlinesOnly(made.entries))
    assert [item.key for item in projection.view] == [
        item.key for item in made.projection().view
    ]


def test_a_view_item_has_the_size_of_its_message() -> None:
    for made in (
        small_session(),
        small_session().edit("hide", 3).edit("hide", 4).checkpoint(1, shown=True),
    ):
        for item in made.projection().view:
            assert item.tokens == message_tokens(item.message)
            assert item.thinking == thinking_tokens(item.message)


@given(said=texts, thought=texts, instead=texts, asked=st.lists(texts, max_size=3))
def test_a_replaced_message_is_sized_without_reading_it(
    said: str, thought: str, instead: str, asked: list[str]
) -> None:
    made = history().assistant(
        said, calls=[call("read", path=path) for path in asked], thinking=thought
    )
    for entry in made.result(said, images=1).user(said, images=1).system(said).entries:
        assert isinstance(entry, BaseMessage)
        outline = outline_of(entry)
        assert isinstance(outline, MessageOutline)
        assert outline.tokens_with(instead) == message_tokens(with_text(entry, instead))


def test_an_altered_message_is_built_once_while_in_use() -> None:
    [item] = [
        item
        for item in small_session().edit("hide", 3).projection().view
        if item.fate == "hidden"
    ]
    message = item.message
    assert item.message is message


def test_an_announced_checkpoint_is_appended_to_the_message_not_to_the_entry() -> None:
    projection = project(small_session().entries)
    marked = next(item for item in projection.view if item.checkpoint == 0)
    assert marked.message.checkpoint == 0
    entry = projection.entry(marked.index)
    assert isinstance(entry, BaseMessage)
    assert entry.checkpoint is None


def test_an_answer_with_only_reasoning_is_not_sent() -> None:
    outline = outline_of(history().assistant(" \n", thinking="hm").entries[0])
    assert isinstance(outline, MessageOutline)
    assert not outline.says
    assert outline.thinking == thinking_tokens(
        SystemMessage(parts=(ThinkingPart(text="hm"),))
    )
