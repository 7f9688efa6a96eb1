"""Esc: first match wins."""

from types import SimpleNamespace
from typing import Any

import pytest

from foldline.tui.escape_actions import EscapeActions
from foldline.tui.state import Retry, Waiting

AGAIN = Retry(until=200.0, sentence="503", attempt=1, attempts=3)
STEPS: list[tuple[str, object, str]] = [
    ("prompt.between_modes", True, "Esc to normal mode"),
    ("completion.open", True, "Esc closes the list"),
    ("reading.searching", True, "Esc ends the search"),
    ("prompt.in_queue", True, "Esc leaves it, keeps the text"),
    ("dock.why.display", True, "Esc back to the question"),
    ("state.asks_choice", True, "Esc leaves it undecided"),
    ("dock.has_focus", True, "Esc declines this call"),
    ("focused", "the transcript", "Esc to the prompt"),
    ("state.again", AGAIN, "Esc gives up"),
    ("state.compacting", object(), "Esc cancels, prompts stay"),
    ("state.busy", True, "Esc cancels"),
    ("state.waiting", Waiting(queued=("one",)), "Esc pauses the queue"),
    ("prompt.edited", (4, 2), "Esc ends the edit, ↑ returns the text"),
    ("prompt.editor.selected_text", "x", "Esc unselects"),
    ("prompt.editor.text", "hello", "Esc stashes it, ↑ returns it"),
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
    prompt = SimpleNamespace(in_queue=False, editor=SimpleNamespace(text="", selected_text=""))
    prompt.edited = None
    prompt.between_modes = False
    for name in ("to_normal_mode", "close_completion", "leave_queue", "leave_edit", "unselect", "stash"):
        setattr(prompt, name, lambda name=name: done.append(name))
    return SimpleNamespace(
        done=done,
        state=state,
        prompt=prompt,
        focused=None,
        completion=SimpleNamespace(open=False),
        reading=SimpleNamespace(searching=False, end_search=lambda: done.append("end search")),
        dock=SimpleNamespace(
            has_focus=False,
            leave=lambda: done.append("leave"),
            why=SimpleNamespace(display=False),
            keep_why=lambda: done.append("keep why"),
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
    it.dock.has_focus = at <= 6
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
    assert step is not None and step.label == "Esc cancels the draft"


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
