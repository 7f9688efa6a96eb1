"""The agent's questions as text, for the plain chat and for editors."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from foldline.frontend.state import Answerable, ChatState, Question
from foldline.protocol import operations
from foldline.protocol.events import ProposalReady
from foldline.protocol.operations import Operation
from foldline.text.harmless import (
    clean,
    clean_line,
    nothing_hidden,
    nothing_hidden_lines,
)
from foldline.text.numbers import many, tokens

LEAVES_FOLDER: Final = " It reaches outside this folder."
DRAFTED: Final = (
    "A compaction has been drafted; nothing has changed yet: {before} → {after} tokens, "
    "{entries} compacted, {lost} of {facts} facts lost."
)
UNDECIDED: Final = Answerable("l", "Leave undecided")
_CALL_ANSWERS: Final[dict[str, Literal["once", "always", "project", "deny"]]] = {
    "y": "once",
    "a": "always",
    "p": "project",
    "n": "deny",
}
"""Answers to the question about a call, by key."""


@dataclass(frozen=True, slots=True)
class PlainAnswer:
    """A possible answer to a question, with its key and operation."""

    key: str
    label: str
    operation: Operation
    asks: str = ""
    """The kind of text that the user must type with this answer.

    The values are those of `Answerable.asks`.
    """

    def with_line(self, line: str) -> Operation:
        """Return the answer's operation with the text that the user typed."""
        field = "why" if isinstance(self.operation, operations.Approve) else "text"
        return self.operation.model_copy(update={field: line.strip()})


@dataclass(frozen=True, slots=True)
class PlainQuestion:
    """A question with its possible answers. The last answer allows nothing."""

    id: str
    lines: tuple[str, ...]
    answers: tuple[PlainAnswer, ...]
    source: Question | None = None
    """The chat's question, or None for a drafted compaction."""

    @property
    def text(self) -> str:
        """The text to edit, for answers that ask for edited text."""
        return self.source.title if self.source else ""

    @property
    def interrupts(self) -> bool:
        """Whether the question appears unprompted."""
        return self.source is None or not self.source.opened_by_user

    def lines_with_answers(self) -> Iterator[str]:
        """Yield the question's lines, then a line for each answer, like `1  y  Allow once`."""
        yield from self.lines
        for number, answer in enumerate(self.answers, start=1):
            yield f"{number}  {answer.key}  {answer.label}"

    @property
    def unanswered(self) -> Operation:
        """The operation of the last answer, marked as not given by the user."""
        last = self.answers[-1].operation
        if isinstance(last, operations.Approve):
            return last.model_copy(update={"no_one_to_ask": True})
        return last

    def answer_for(self, typed: str) -> PlainAnswer | None:
        """Return the answer with this key or number, if any."""
        word = typed.strip().lower()
        for number, answer in enumerate(self.answers, start=1):
            if word in (answer.key, str(number)):
                return answer
        return None


def new_questions(before: ChatState, now: ChatState) -> Iterator[PlainQuestion]:
    """Yield the questions that are new in a chat's state.

    An updated proposal does not count as new.
    """
    old_proposal = before.proposal and before.proposal.proposal
    if now.proposal is not None and now.proposal.proposal != old_proposal:
        yield proposal_question(now.proposal)
    for question in now.questions:
        if question not in before.questions:
            yield plain_question(question)


def plain_question(question: Question) -> PlainQuestion:
    """Convert a question about a tool call or a choice."""
    if question.kind == "choice":
        options = (*question.options, UNDECIDED)
        lines = clean(f"{question.name}\n{question.title}".rstrip("\n")).split("\n")
        if question.asks_agreement:
            lines = [clean(question.name), *nothing_hidden_lines(question.title)]
    else:
        options = question.options
        outside = LEAVES_FOLDER if question.outside else ""
        lines = [f"{clean_line(question.sentence)}{outside}"]
        lines += nothing_hidden_lines(question.title)
        if question.diff:
            lines += nothing_hidden_lines(question.diff, signs=1)
    return PlainQuestion(
        question.id,
        tuple(lines),
        tuple(_answer(question, option) for option in options),
        question,
    )


def _answer(question: Question, option: Answerable) -> PlainAnswer:
    key = option.key
    label = clean_line(option.label)
    if question.kind == "choice":
        chosen = "" if option is UNDECIDED else key
        operation: Operation = operations.Choose(choice=question.id, key=chosen)
    else:
        answer = _CALL_ANSWERS[key]
        operation = operations.Approve(call_id=question.id, answer=answer)
        if answer in ("always", "project") and question.promises:
            label += f": {nothing_hidden(question.promises[0])}"
    return PlainAnswer(key, label, operation, option.asks)


def proposal_question(ready: ProposalReady) -> PlainQuestion:
    """Return the question about a drafted compaction."""
    sentence = DRAFTED.format(
        before=tokens(ready.tokens_before),
        after=tokens(ready.tokens_after),
        entries=many(ready.compacted, "entry", "entries"),
        lost=ready.lost,
        facts=ready.facts,
    )
    summary = clean(ready.summary).rstrip("\n").split("\n")
    apply = operations.ApplyProposal(proposal=ready.proposal)
    discard = operations.DiscardProposal(proposal=ready.proposal)
    answers = (
        PlainAnswer("y", "Apply it", apply),
        PlainAnswer("n", "Discard it", discard),
    )
    return PlainQuestion(ready.proposal, (sentence, *summary), answers)
