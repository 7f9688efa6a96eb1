"""Esc and Ctrl+C: first match wins."""

from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foldline.tui.keys.escape import EscFacts, InterruptFacts, escape_step, interrupt_step

STEPS = [
    ("completion_open", "close-completion"),
    ("in_queue", "leave-queue"),
    ("choice_focused", "leave-choice"),
    ("question_focused", "decline"),
    ("panel_focused", "to-prompt"),
    ("retrying", "cancel"),
    ("compacting", "cancel"),
    ("running", "cancel"),
    ("drafting_ahead", "cancel"),
    ("queue_waits", "pause"),
    ("selection", "unselect"),
    ("text", "stash"),
    ("again", "rewind"),
]


@pytest.mark.parametrize(("fact", "action"), STEPS)
def test_each_fact_alone_decides(fact: str, action: str) -> None:
    assert escape_step(replace(EscFacts(), **{fact: True})).action == action


@pytest.mark.parametrize("at", range(len(STEPS)))
def test_the_outermost_of_all_that_hold_waits_for_those_before_it(at: int) -> None:
    facts = EscFacts(**{fact: True for fact, _ in STEPS[at:]})
    assert escape_step(facts).action == STEPS[at][1]


def test_a_cancel_on_its_way_is_not_asked_for_again() -> None:
    assert escape_step(EscFacts(running=True, cancelling=True)).action == "none"


def test_a_compaction_promises_that_prompts_stay() -> None:
    assert escape_step(EscFacts(compacting=True, running=True)).label == "Esc cancels, prompts stay"


@given(st.builds(EscFacts, **{field.name: st.booleans() for field in fields(EscFacts)}))
def test_every_step_but_none_has_a_name(facts: EscFacts) -> None:
    step = escape_step(facts)
    assert bool(step.label) == (step.action != "none")


@pytest.mark.parametrize(
    ("facts", "action"),
    [
        (InterruptFacts(selection=True, running=True), "copy"),
        (InterruptFacts(running=True), "cancel"),
        (InterruptFacts(running=True, cancelling=True), "warn"),
        (InterruptFacts(running=True, cancelling=True, since_last=0.5), "quit"),
        (InterruptFacts(), "warn"),
        (InterruptFacts(since_last=1.9), "quit"),
        (InterruptFacts(since_last=2.1), "warn"),
    ],
)
def test_ctrl_c_copies_cancels_warns_quits(facts: InterruptFacts, action: str) -> None:
    assert interrupt_step(facts) == action
