"""Esc: first match wins."""

from types import SimpleNamespace
from typing import Any

import pytest

from foldline.frontend.state import RetryWait, Waiting
from foldline.tui.chat.escape_actions import (
    ESC_CANCELS,
    ESC_CANCELS_COMPACTION,
    ESC_CANCELS_DRAFT,
    ESC_CLEARS,
    ESC_CLOSES_LIST,
    ESC_DECLINES,
    ESC_DESELECTS,
    ESC_ENDS_EDIT,
    ESC_ENDS_SEARCH,
    ESC_LEAVES_CHOICE,
    ESC_LEAVES_QUEUE,
    ESC_PAUSES,
    ESC_STOPS_RETRYING,
    ESC_TO_PROMPT,
    EscapeActions,
)

AGAIN = RetryWait(until=200.0, sentence="503", attempt=1, attempts=3)
STEPS: list[tuple[str, object, str]] = [
    ("completion.open", True, ESC_CLOSES_LIST),
    ("reading.searching", True, ESC_ENDS_SEARCH),
    ("prompt.in_queue", True, ESC_LEAVES_QUEUE),
    ("state.asks_choice", True, ESC_LEAVES_CHOICE),
    ("dock.has_focus", True, ESC_DECLINES),
    ("focused", "the transcript", ESC_TO_PROMPT),
    ("state.again", AGAIN, ESC_STOPS_RETRYING),
    ("state.compacting", object(), ESC_CANCELS_COMPACTION),
    ("state.busy", True, ESC_CANCELS),
    ("state.waiting", Waiting(queued=("one",)), ESC_PAUSES),
    ("prompt.edited", (4, 2), ESC_ENDS_EDIT),
    ("prompt.editor.selected_text", "x", ESC_DESELECTS),
    ("prompt.editor.text", "hello", ESC_CLEARS),
]


def chat() -> Any:
    """A chat in which Esc has nothing to do, and that writes down what it does."""
    done: list[str] = []
    state = SimpleNamespace(
        again=None,
        asks_choice=False,
        compacting=None,
        busy=False,
        cancelling=False,
        drafting_ahead=False,
        subagents=(),
    )
    state.waiting, state.retry_at = Waiting(), lambda now: state.again
    prompt = SimpleNamespace(
        in_queue=False, editor=SimpleNamespace(text="", selected_text="")
    )
    prompt.edited = None
    for name in (
        "close_completion",
        "leave_queue",
        "leave_edit",
        "unselect",
        "stash",
    ):
        setattr(prompt, name, lambda name=name: done.append(name))
    return SimpleNamespace(
        done=done,
        state=state,
        prompt=prompt,
        focused=None,
        completion=SimpleNamespace(open=False),
        reading=SimpleNamespace(
            searching=False, end_search=lambda: done.append("end search")
        ),
        dock=SimpleNamespace(
            has_focus=False,
            leave=lambda: done.append("leave"),
        ),
        set_focus=done.append,
        post_message=lambda message: done.append(type(message).__name__),
        run_command=done.append,
        show_status=lambda: None,
        set_timer=lambda seconds, do: None,
    )


def make(chat: Any, path: str, value: object) -> None:
    *parts, name = path.split(".")
    for part in parts:
        chat = getattr(chat, part)
    setattr(chat, name, value)


@pytest.mark.parametrize("at", range(len(STEPS)))
def test_the_outermost_of_all_that_hold_waits_for_those_before_it(at: int) -> None:
    it = chat()
    for path, value, _ in STEPS[at:]:
        make(it, path, value)
    it.dock.has_focus = at <= 4
    step = EscapeActions(it, lambda: 100.0).step
    assert step is not None and step.label == STEPS[at][2]


def test_a_cancel_on_its_way_is_not_asked_for_again() -> None:
    it = chat()
    it.state.busy = it.state.cancelling = True
    assert EscapeActions(it, lambda: 100.0).step is None


def test_a_draft_in_the_background_is_cancelled_where_nothing_else_runs() -> None:
    it = chat()
    it.state.drafting_ahead = True
    step = EscapeActions(it, lambda: 100.0).step
    assert step is not None and step.label == ESC_CANCELS_DRAFT


def test_twice_on_an_empty_prompt_rewinds_and_not_later() -> None:
    it, now = chat(), [100.0]
    actions = EscapeActions(it, lambda: now[0])
    actions.escape()
    assert it.done == []
    now[0] += 1.5
    actions.escape()
    assert it.done == []
    now[0] += 0.5
    actions.escape()
    assert it.done == ["rewind"]
