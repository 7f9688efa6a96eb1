"""Values cached per message, by identity, and never returned for another message."""

from hypothesis import given
from hypothesis import strategies as st

from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    ToolCallPart,
    ToolResultMessage,
    text_parts,
)
from foldline.view.items import interrupted_result
from foldline_eval.record import PerMessage, Presence


def counting() -> tuple[PerMessage[BaseMessage], list[BaseMessage]]:
    """Return a function that returns its message, and the list of its arguments."""
    asked: list[BaseMessage] = []

    def same(message: BaseMessage) -> BaseMessage:
        asked.append(message)
        return message

    return PerMessage(same), asked


def test_a_message_and_its_copy_with_other_usage_are_computed_once() -> None:
    once, asked = counting()
    message = AssistantMessage(index=1, parts=text_parts("Mended."))
    copy = message.model_copy(update={"model": "m"})
    assert [once(message), once(copy), once(message)] == [message] * 3
    assert len(asked) == 1


def test_messages_without_text_are_distinguished() -> None:
    once, _ = counting()
    empty = [ToolResultMessage(index=at, call_id="a") for at in range(3)]
    assert [once(message) for message in empty] == empty


def test_generated_results_are_computed_once_per_call() -> None:
    once, asked = counting()
    calls = [ToolCallPart(call_id=name, name="read") for name in "ab"]
    made = [interrupted_result(call, 5) for _ in range(3) for call in calls]
    assert [once(message).call_id for message in made] == ["a", "b"] * 3  # type: ignore[attr-defined]
    assert len(asked) == 2


@given(st.lists(st.sets(st.integers(0, 5))))
def test_presence_refers_to_the_newest_view(views: list[set[int]]) -> None:
    messages = [
        AssistantMessage(index=at, parts=text_parts(f"{at}")) for at in range(6)
    ]
    held = Presence[int](lambda message: {message.index, message.index // 2 + 10})
    for view in views:
        held.show(messages[at] for at in view)
        expected = view | {at // 2 + 10 for at in view}
        assert {thing for thing in range(20) if thing in held} == expected
