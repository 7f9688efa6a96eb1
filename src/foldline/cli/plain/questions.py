"""What waits for the person's word, as numbered lines, and what each answer asks of the agent. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Final, Literal

from foldline.context import numbers
from foldline.context.harmless import BLANKS, FLOOD, clean, clean_line, nothing_hidden
from foldline.protocol import operations
from foldline.protocol.events import ProposalReady
from foldline.protocol.operations import Operation
from foldline.tui.state import Question

_WORDS: Final[dict[str, tuple[Literal["once", "always", "project", "deny"], str]]] = {
    "y": ("once", "yes, this once"),
    "a": ("always", "yes, and in this session always: {promise}"),
    "p": ("project", "yes, and in this project always: {promise}"),
    "n": ("deny", "no"),
}
"""What the letters of a call's question mean."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer: the letter that gives it, its words, and what it asks of the agent."""

    key: str
    words: str
    operation: Operation


@dataclass(frozen=True, slots=True)
class Asked:
    """A question with its answers, the last of which is the one given where nobody is there."""

    id: str
    lines: tuple[str, ...]
    answers: tuple[Answer, ...]

    def all_lines(self) -> Iterator[str]:
        """The question, and `1  y  yes, this once` for each answer."""
        yield from self.lines
        for number, answer in enumerate(self.answers, start=1):
            yield f"{number}  {answer.key}  {answer.words}"

    def taken(self, typed: str) -> Answer | None:
        """The answer that was typed, as a letter or as its number; None where it is none."""
        word = typed.strip().lower()
        for number, answer in enumerate(self.answers, start=1):
            if word in (answer.key, str(number)):
                return answer
        return None


def asked_about(question: Question) -> Asked:
    """What a tool call, or a choice, asks."""
    return _choice(question) if question.kind == "choice" else _call(question)


def _call(question: Question) -> Asked:
    beyond = ", and reaches beyond what this folder holds" if question.outside else ""
    diff = _diff_lines(question.diff) if question.diff else ()
    promise = nothing_hidden(question.promises[0]) if question.promises else ""
    return Asked(
        question.id,
        (
            f"{clean_line(question.name)} asks before it runs{beyond}:",
            nothing_hidden(question.title),
            *diff,
        ),
        tuple(
            Answer(
                option.key,
                _WORDS[option.key][1].format(promise=promise),
                operations.Approve(call_id=question.id, answer=_WORDS[option.key][0]),
            )
            for option in question.options
        ),
    )


def _diff_lines(diff: str) -> Iterator[str]:
    """A diff with nothing hidden in it; floods of blank lines are counted."""
    lines = map(nothing_hidden, diff.rstrip("\n").split("\n"))
    for sign, found in groupby(lines, lambda line: "" if line[1:].strip(BLANKS) else line[:1]):
        run = list(found)
        yield from [f"{sign}{len(run):,} blank lines"] if sign and len(run) >= FLOOD else run


def _choice(question: Question) -> Asked:
    leaves = Answer("l", "leave it undecided", operations.Choose(choice=question.id, key=""))
    return Asked(
        question.id,
        tuple(line for line in (clean(question.name), *clean(question.title).split("\n")) if line),
        (
            *(
                Answer(o.key, clean_line(o.label), operations.Choose(choice=question.id, key=o.key))
                for o in question.options
            ),
            leaves,
        ),
    )


def asked_about_fold(ready: ProposalReady) -> Asked:
    """What is asked where a drafted fold waits for its reader."""
    sizes = f"{numbers.tokens(ready.tokens_before)} → {numbers.tokens(ready.tokens_after)} tokens"
    lost = f"{ready.lost} of {ready.facts} facts lost"
    change = f"{sizes}, {ready.folded} entries folded, {lost}"
    return Asked(
        ready.proposal,
        (
            f"A fold is drafted, and nothing has changed yet: {change}.",
            *clean(ready.summary).rstrip("\n").split("\n"),
        ),
        (
            Answer("y", "apply it", operations.ApplyProposal(proposal=ready.proposal)),
            Answer("n", "throw it away", operations.DiscardProposal(proposal=ready.proposal)),
        ),
    )
