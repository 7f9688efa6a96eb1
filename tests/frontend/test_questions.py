"""Questions as lines of text, and the operations of their answers."""

from dataclasses import replace

import pytest

from foldline.frontend.questions import (
    LEAVES_FOLDER,
    operation_of,
    option_for,
    option_label,
    options_of,
    proposal_question,
    question_lines,
)
from foldline.frontend.state import ONCE, Answerable, Question
from foldline.protocol import operations
from foldline.protocol.events import ProposalReady

CALL = Question(
    "c1",
    "edit",
    "src/a\x1b[2J.py",
    "-old\n+new\x07\n",
    0.0,
    promises=("any edit",),
    outside=True,
)
CHOICE = Question(
    "c2",
    "The window is full.",
    "",
    None,
    0.0,
    (Answerable("h", "hide results"),),
    "choice",
)
COMPACTION = ProposalReady(
    proposal="p1", reason="manual", summary="## Goal", compacted=3, facts=8, lost=2
)


@pytest.mark.parametrize(
    ("typed", "answer"),
    [
        ("y", "once"),
        (" Y ", "once"),
        ("2", "always"),
        ("p", "project"),
        ("4", "deny"),
        ("5", None),
        ("yes", None),
    ],
)
def test_a_call_is_answered_by_letter_or_number(typed: str, answer: str | None) -> None:
    taken = option_for(CALL, typed)
    assert (taken and operation_of(CALL, taken)) == (
        answer and operations.Approve(call_id="c1", answer=answer)
    )  # type: ignore[arg-type]


def test_a_typed_line_is_the_answer() -> None:
    option = Answerable("t", "Answer, typed here", "line")
    question = replace(CHOICE, options=(option,))
    assert option_for(question, "t") is option
    chosen = operations.Choose(choice="c2", key="t", text="36")
    assert operation_of(question, option, "36") == chosen


def test_what_is_asked_about_is_shown_whole_and_harmless() -> None:
    text = "\n".join(question_lines(CALL))
    assert "\x1b" not in text and "\x07" not in text
    hidden = replace(
        CALL,
        title="rm\u2800x\x1b]0;~\x07",
        diff="+a\x1b]0;rm\x07\rb\n" + "+\n" * 99 + "+z\n",
    )
    lines = question_lines(hidden)
    assert lines[1:5] == ["rm␣x␛]0;~␇", "+a␛]0;rm␇␍b", "+99 blank lines", "+z"]
    assert LEAVES_FOLDER in text and "src/a␛[2J.py\n-old\n+new␇" in text
    always = options_of(CALL)[1]
    assert option_label(CALL, always) == "Always in this session: any edit"


@pytest.mark.parametrize(
    ("asked", "last"),
    [
        (CALL, operations.Approve(call_id="c1", answer="deny")),
        (
            Question("c3", "bash", "ls", None, 0.0, ONCE),
            operations.Approve(call_id="c3", answer="deny"),
        ),
        (CHOICE, operations.Choose(choice="c2", key="")),
        (proposal_question(COMPACTION), operations.DiscardProposal(proposal="p1")),
    ],
)
def test_where_nobody_is_there_nothing_is_allowed_or_changed(
    asked: Question, last: operations.Operation
) -> None:
    assert operation_of(asked, options_of(asked)[-1]) == last
