"""Outlines: all that the projection asks of an entry."""

from hypothesis import given
from hypothesis import strategies as st

from foldline.context.outline import MemoryEntries, MessageOutline, outline_of
from foldline.context.projection import Projection, project
from foldline.context.tokens import message_tokens, thinking_tokens
from foldline.context.view import with_text
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
from support.history import History, call, history, read

texts = st.text(max_size=80)


def worked() -> History:
    """0 system, 1 request, 2 two calls, 3-4 their results, 5 checkpoint the model is told of, 6 answer."""
    begun = history().system("s").user("go", images=1)
    asked = begun.assistant("I look", calls=[call("read", path="a"), call("bash")], thinking="hm")
    results = asked.result("text " * 40, files=[read("a.py")], images=1).result("out")
    return results.checkpoint(0, shown=True).assistant("done", usage=Usage(input=900, output=20), model="m")


class Unread(MemoryEntries):
    def message(self, outline: MessageOutline) -> BaseMessage:
        raise AssertionError(f"entry {outline.index} was looked at")


def test_projecting_looks_at_nothing_that_was_said() -> None:
    summary = SystemMessage(origin="summary", parts=text_parts("so far"))
    written = Written(message=summary, covers=((1, 2),))
    clip = Kept(ref=3, content="te…", fate="clipped")
    fold = Compaction(first_kept_index=3, head=(written,), replaced=(clip,))
    made = worked().edit("pin", 1).add(fold).turn("more", "yes").revert(0).undo().clear().undo()
    projection = Projection(Unread(made.entries))
    assert [item.key for item in projection.view] == [item.key for item in made.projection().view]


def test_an_item_of_the_view_weighs_what_its_message_weighs() -> None:
    for made in (worked(), worked().edit("hide", 3).edit("hide", 4).checkpoint(1, shown=True)):
        for item in made.projection().view:
            assert item.tokens == message_tokens(item.message)
            assert item.thinking == thinking_tokens(item.message)


@given(said=texts, thought=texts, instead=texts, asked=st.lists(texts, max_size=3))
def test_a_message_with_another_text_is_weighed_without_a_look_at_it(
    said: str, thought: str, instead: str, asked: list[str]
) -> None:
    made = history().assistant(said, calls=[call("read", path=path) for path in asked], thinking=thought)
    for entry in made.result(said, images=1).user(said, images=1).system(said).entries:
        assert isinstance(entry, BaseMessage)
        outline = outline_of(entry)
        assert isinstance(outline, MessageOutline)
        assert outline.tokens_with(instead) == message_tokens(with_text(entry, instead))


def test_an_altered_message_is_made_once_for_as_long_as_somebody_uses_it() -> None:
    [item] = [item for item in worked().edit("hide", 3).projection().view if item.fate == "hidden"]
    message = item.message
    assert item.message is message


def test_a_checkpoint_the_model_is_told_of_ends_the_message_and_leaves_the_entry_as_it_is() -> None:
    projection = project(worked().entries)
    marked = next(item for item in projection.view if item.checkpoint == 0)
    assert marked.message.checkpoint == 0
    entry = projection.entry(marked.index)
    assert isinstance(entry, BaseMessage)
    assert entry.checkpoint is None


def test_reasoning_alone_is_nothing_for_the_model() -> None:
    outline = outline_of(history().assistant(" \n", thinking="hm").entries[0])
    assert isinstance(outline, MessageOutline)
    assert not outline.says
    assert outline.thinking == thinking_tokens(SystemMessage(parts=(ThinkingPart(text="hm"),)))
