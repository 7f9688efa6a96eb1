"""Questions of a plain chat, and streamed text in pieces."""

from dataclasses import replace

import pytest

from foldline.cli.plain.printer import SentenceBuffer
from foldline.cli.plain.questions import (
    LEAVES_FOLDER,
    plain_question,
    proposal_question,
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
    taken = plain_question(CALL).answer_for(typed)
    assert (taken and taken.operation) == (
        answer and operations.Approve(call_id="c1", answer=answer)
    )  # type: ignore[arg-type]


@pytest.mark.parametrize(("line", "text"), [(" 36 ", "36"), ("", "")])
def test_a_typed_line_is_the_answer(line: str, text: str) -> None:
    option = Answerable("t", "Answer, typed here", "line")
    typed = plain_question(replace(CHOICE, options=(option,))).answer_for("t")
    assert typed is not None
    assert typed.with_line(line) == operations.Choose(choice="c2", key="t", text=text)


def test_what_is_asked_about_is_shown_whole_and_harmless() -> None:
    text = "\n".join(plain_question(CALL).lines_with_answers())
    assert "\x1b" not in text and "\x07" not in text
    hidden = replace(
        CALL,
        title="rm\u2800x\x1b]0;~\x07",
        diff="+a\x1b]0;rm\x07\rb\n" + "+\n" * 99 + "+z\n",
    )
    lines = list(plain_question(hidden).lines_with_answers())
    assert lines[1:5] == ["rm␣x␛]0;~␇", "+a␛]0;rm␇␍b", "+99 blank lines", "+z"]
    assert LEAVES_FOLDER in text and "src/a␛[2J.py\n-old\n+new␇\n" in text
    assert "2  a  Always in this session: any edit\n" in text


@pytest.mark.parametrize(
    ("asked", "last"),
    [
        (plain_question(CALL), operations.Approve(call_id="c1", answer="deny")),
        (
            plain_question(Question("c3", "bash", "ls", None, 0.0, ONCE)),
            operations.Approve(call_id="c3", answer="deny"),
        ),
        (plain_question(CHOICE), operations.Choose(choice="c2", key="")),
        (proposal_question(COMPACTION), operations.DiscardProposal(proposal="p1")),
    ],
)
def test_where_nobody_is_there_nothing_is_allowed_or_changed(
    asked: object, last: object
) -> None:
    assert asked.answers[-1].operation == last  # type: ignore[attr-defined]


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_streamed_text_is_said_by_sentences_and_lines_and_none_is_lost(
    size: int,
) -> None:
    text = "One. Two is 1.5 long!\n- a list\n完了。次へ。" + "word " * 200 + "end"
    buffer = SentenceBuffer()
    pieces = [buffer.add(text[at : at + size]) for at in range(0, len(text), size)] + [
        buffer.remainder()
    ]
    assert "".join(pieces) == text
    assert all(piece[-1] in " \n。d" for piece in pieces if piece)
    if size == 1:
        assert [piece for piece in pieces if piece][:5] == [
            "One. ",
            "Two is 1.5 long!\n",
            "- a list\n",
            "完了。",
            "次へ。",
        ]
