"""The agent's questions in every front end: their lines, their answers, and the operations of the answers."""

from collections.abc import Iterator
from typing import Final

from foldline.frontend.state import ANSWERS, Answerable, ChatState, Question
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
"""The answer that leaves a choice open. The chat's key for it is Esc."""
ON_PROPOSAL: Final = (Answerable("y", "Apply it"), Answerable("n", "Discard it"))
"""The answers to the question about a drafted compaction."""


def operation_of(
    question: Question, option: Answerable, text: str = "", nth: int = 0
) -> Operation:
    """Return the operation of an answer.

    Args:
        text: The text that was entered with the answer.
        nth: Index of the rule that "always" grants.
    """
    if question.kind == "choice":
        key = "" if option is UNDECIDED else option.key
        return operations.Choose(choice=question.id, key=key, text=text)
    if question.kind == "call":
        return operations.Approve(
            call_id=question.id, answer=ANSWERS[option.key], nth=nth, why=text
        )
    if option.key == "y":
        return operations.ApplyProposal(proposal=question.id)
    return operations.DiscardProposal(proposal=question.id)


# --- questions as lines of text -------------------------------------------------------------------------


def new_questions(before: ChatState, now: ChatState) -> Iterator[Question]:
    """Yield the questions that are new in a chat's state.

    An updated proposal does not count as new.
    """
    old_proposal = before.proposal and before.proposal.proposal
    if now.proposal is not None and now.proposal.proposal != old_proposal:
        yield proposal_question(now.proposal)
    for question in now.questions:
        if question not in before.questions:
            yield question


def proposal_question(ready: ProposalReady) -> Question:
    """Return the question about a drafted compaction."""
    sentence = DRAFTED.format(
        before=tokens(ready.tokens_before),
        after=tokens(ready.tokens_after),
        entries=many(ready.compacted, "entry", "entries"),
        lost=ready.lost,
        facts=ready.facts,
    )
    return Question(
        ready.proposal, sentence, ready.summary, None, 0.0, ON_PROPOSAL, "proposal"
    )


def options_of(question: Question) -> tuple[Answerable, ...]:
    """Return the possible answers. The last one allows nothing."""
    if question.kind == "choice":
        return (*question.options, UNDECIDED)
    return question.options


def option_label(question: Question, option: Answerable) -> str:
    """Return the label of an answer, with the rule that it grants."""
    label = clean_line(option.label)
    if option.grants_rule and question.promises:
        label += f": {nothing_hidden(question.promises[0])}"
    return label


def question_lines(question: Question) -> list[str]:
    """Return the lines of a question, without its answers."""
    if question.kind != "call":
        text = question.title
        if question.asks_agreement:
            return [clean(question.name), *nothing_hidden_lines(text)]
        return clean(f"{question.name}\n{text}".rstrip("\n")).split("\n")
    outside = LEAVES_FOLDER if question.outside else ""
    lines = [f"{clean_line(question.sentence)}{outside}"]
    lines += nothing_hidden_lines(question.title)
    if question.diff:
        lines += nothing_hidden_lines(question.diff, signs=1)
    return lines


def option_for(question: Question, typed: str) -> Answerable | None:
    """Return the answer with this key or number, if any."""
    word = typed.strip().lower()
    for number, option in enumerate(options_of(question), start=1):
        if word in (option.key, str(number)):
            return option
    return None


def unanswered(question: Question) -> Operation:
    """Return the operation of the last answer, marked as not given by the user."""
    operation = operation_of(question, options_of(question)[-1])
    if isinstance(operation, operations.Approve):
        return operation.model_copy(update={"no_one_to_ask": True})
    return operation
