"""Whether a conversation waits for the model."""

import pytest

from foldline.context.calls import broke_off, unanswered
from foldline.protocol import AssistantMessage, Compaction, SystemMessage, UserMessage, Written, text_parts
from support.history import History, call, history


def broken_answer(reason: str = "error") -> AssistantMessage:
    return AssistantMessage.model_validate({"parts": text_parts("half of"), "stop_reason": reason})


def open_at(story: History) -> int | None:
    found = unanswered(story.projection())
    return None if found is None else found.index


def asked() -> History:
    return history().system("Be kind.").user("read a.py")


def read() -> History:
    return asked().assistant(calls=[call("read", path="a.py")])


@pytest.mark.parametrize(
    ("story", "index"),
    [
        (history(), None),
        (history().system("Be kind."), None),
        (asked(), 1),
        (asked().notice("The key was refused."), 1),
        (read(), 2),
        (read().result("line"), 3),
        (read().result("line").assistant("Done."), None),
        (asked().add(broken_answer()), 2),
        (asked().add(broken_answer("cancelled")), 2),
        (asked().add(broken_answer()).edit("drop", 2), 1),
        (asked().add(broken_answer("length")), None),
        (asked().assistant("Done.").notice("The folder was moved."), None),
        (asked().assistant("Done.").add(UserMessage(parts=text_parts("$ ls"), origin="shell")), None),
        (asked().clear(), None),
        (asked().clear().user("again"), 3),
    ],
)
def test_what_the_model_has_yet_to_answer(story: History, index: int | None) -> None:
    assert open_at(story) == index


def test_after_a_rewind_the_step_gone_back_to_is_open_again() -> None:
    story = asked().checkpoint(7).assistant("Done.")
    assert open_at(story) is None
    assert open_at(story.revert(7)) == 1


def test_an_answer_that_was_folded_away_was_given() -> None:
    summary = Written(message=SystemMessage(origin="summary", parts=text_parts("so far")), covers=((1, 2),))
    folded = Compaction(summary="so far", first_kept_index=3, head=(summary,))
    assert open_at(asked().assistant("Done.").add(folded)) is None


def test_only_an_answer_breaks_off() -> None:
    assert broke_off(broken_answer("error")) and broke_off(broken_answer("cancelled"))
    assert not broke_off(broken_answer("length")) and not broke_off(asked().entries[-1])  # type: ignore[arg-type]
