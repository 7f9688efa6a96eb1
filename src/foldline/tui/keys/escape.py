"""What Esc and Ctrl+C do: two tables, first match wins. Pure."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

EscAction = Literal[
    "close-completion",
    "end-search",
    "leave-queue",
    "leave-choice",
    "decline",
    "to-prompt",
    "cancel",
    "pause",
    "unselect",
    "stash",
    "rewind",
    "none",
]


@dataclass(frozen=True, slots=True)
class EscFacts:
    """What decides where Esc steps."""

    completion_open: bool = False
    searching: bool = False
    """Something is looked for in the transcript, and the focus is there."""
    in_queue: bool = False
    """A queued prompt is marked, or was taken into the editor."""
    choice_focused: bool = False
    question_focused: bool = False
    """The question of a tool call has the focus."""
    panel_focused: bool = False
    """Something other than prompt and question has the focus."""
    retrying: bool = False
    """A request has failed, and waits to leave again."""
    compacting: bool = False
    running: bool = False
    cancelling: bool = False
    """A cancel is on its way; another one would change nothing."""
    drafting_ahead: bool = False
    """The next compaction is drafted in the background."""
    queue_waits: bool = False
    """Prompts wait and are not paused."""
    selection: bool = False
    text: bool = False
    again: bool = False
    """It was pressed on an empty prompt a moment ago."""


@dataclass(frozen=True, slots=True)
class EscStep:
    """What Esc does now, and how the status row says so."""

    action: EscAction
    label: str = ""


_TABLE: tuple[tuple[Callable[[EscFacts], bool], EscStep], ...] = (
    (lambda f: f.completion_open, EscStep("close-completion", "Esc closes the list")),
    (lambda f: f.searching, EscStep("end-search", "Esc ends the search")),
    (lambda f: f.in_queue, EscStep("leave-queue", "Esc leaves it, keeps the text")),
    (lambda f: f.choice_focused, EscStep("leave-choice", "Esc leaves it undecided")),
    (lambda f: f.question_focused, EscStep("decline", "Esc declines this call")),
    (lambda f: f.panel_focused, EscStep("to-prompt", "Esc to the prompt")),
    (lambda f: f.retrying and not f.cancelling, EscStep("cancel", "Esc gives up")),
    (lambda f: f.compacting and not f.cancelling, EscStep("cancel", "Esc cancels, prompts stay")),
    (lambda f: f.running and not f.cancelling, EscStep("cancel", "Esc cancels")),
    (lambda f: f.drafting_ahead and not f.running, EscStep("cancel", "Esc cancels the draft")),
    (lambda f: f.queue_waits, EscStep("pause", "Esc pauses the queue")),
    (lambda f: f.selection, EscStep("unselect", "Esc unselects")),
    (lambda f: f.text, EscStep("stash", "Esc stashes it, ↑ returns it")),
    (lambda f: f.again, EscStep("rewind", "Esc again: rewind")),
)


def escape_step(facts: EscFacts) -> EscStep:
    """The one step Esc takes now. It never discards anything."""
    return next((step for holds, step in _TABLE if holds(facts)), EscStep("none"))


REWIND_WITHIN = 1.0
"""Seconds in which a second Esc on an empty prompt opens Rewind."""

QUIT_WITHIN = 2.0
"""Seconds in which the second Ctrl+C quits."""

InterruptAction = Literal["copy", "cancel", "warn", "quit"]


@dataclass(frozen=True, slots=True)
class InterruptFacts:
    """What decides what Ctrl+C does."""

    selection: bool = False
    running: bool = False
    cancelling: bool = False
    since_last: float | None = None
    """Seconds since the Ctrl+C that warned; None where there was none."""


def interrupt_step(facts: InterruptFacts) -> InterruptAction:
    """Copy a selection; else cancel what runs; else quit at the second press."""
    if facts.selection:
        return "copy"
    if facts.running and not facts.cancelling:
        return "cancel"
    if facts.since_last is not None and facts.since_last <= QUIT_WITHIN:
        return "quit"
    return "warn"
