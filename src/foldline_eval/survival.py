"""Measures survival: the fraction of compacted facts that the view still contains.

The rules are those of the audit: a path may be absolute or relative, and a paraphrase counts as lost.
`KnownFacts` are computed once for all runs of a session.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import get_args

from foldline.memory import facts
from foldline.memory.audit import MentionedFact, ViewText, facts_of, namesakes, removed
from foldline.memory.mentions import FactKind, Voice
from foldline.memory.todos import open_todos
from foldline.protocol import BaseMessage, ToolResultMessage, is_typed
from foldline.text.shorten import one_line
from foldline.view.tokens import message_tokens

from .recall import answered_steps
from .record import Messages, PerMessage, Presence, Ratio, ReplayRun

KINDS: tuple[FactKind, ...] = get_args(FactKind)


@dataclass(frozen=True, slots=True)
class Survived:
    """The facts compacted up to one point in the session, and how many of them remain in the view."""

    facts: Ratio
    by_kind: Mapping[FactKind, Ratio]
    """The ratio for each type of fact. Types without compacted facts are left out."""
    tokens: int
    """Size of the view, in tokens."""

    @property
    def density(self) -> float | None:
        """Number of facts kept per 1,000 tokens.

        Not suitable for ranking, because a tiny view would win.
        """
        if not self.tokens:
            return None
        return self.facts.kept / self.tokens * 1_000


@dataclass(frozen=True, slots=True)
class Survival:
    """The facts, constraints, todos and files kept during a run."""

    compactions: tuple[Survived, ...]
    """The share of facts that survived each compaction."""
    end: Survived
    constraints: Ratio
    """Share of the user's commands and prohibitions that the last view contains verbatim."""
    constraints_throughout: Ratio
    """Share of these constraints that every later request contains verbatim."""
    todos: Ratio
    """Share of the todos open at the end of the session that the last view contains."""
    edited_files: Ratio
    """Share of the files changed in the session whose names the last view contains."""


class KnownFacts:
    """The facts of a session, and the messages that state them.

    They are computed once for all runs.
    """

    def __init__(self, history: Messages) -> None:
        self.history = tuple(history)
        self.facts = [fact for fact in facts_of(history) if fact.kind != "todo"]
        self.facts += _todos(history)
        self.constraints = _constraints(history)
        self._named = namesakes(self.facts)
        self.stated_in = PerMessage(self._stated_in)
        """Returns the indices of the facts that a message states."""
        self.quoted_in = PerMessage(self._quoted_in)
        """Returns the constraints that a message quotes verbatim."""

    def _stated_in(self, message: BaseMessage) -> frozenset[int]:
        view = ViewText([message], self._named)
        mentions = enumerate(self.facts)
        return frozenset(number for number, fact in mentions if view.holds(fact))

    def _quoted_in(self, message: BaseMessage) -> frozenset[str]:
        text = one_line("\n".join(facts.texts(message)))
        return frozenset(rule for rule in self.constraints if rule in text)

    def open_todos(self, count: int) -> frozenset[str]:
        """Return the todos that are open after the first `count` messages of the session."""
        history = self.history[:count]
        return frozenset([*open_todos(history), *facts.todos(_todo_text(history))])

    def compacted(self, count: int, view: Messages) -> Iterator[int]:
        """Yield the indices of the facts that have been compacted.

        These are the facts in those of the first `count` messages that are no longer in the view.
        """
        removed_indices = {
            message.index for message in removed(self.history[:count], view)
        }
        still_open = self.open_todos(count)
        for number, fact in enumerate(self.facts):
            is_done = fact.kind == "todo" and fact.text not in still_open
            if not is_done and not removed_indices.isdisjoint(fact.indices):
                yield number


def survival(run: ReplayRun, known: KnownFacts) -> Survival:
    """Measure the facts kept after each compaction and at the end."""
    shown = Presence(known.stated_in)
    compactions = tuple(
        _survived(compaction.before, compaction.after, known, shown)
        for compaction in run.compactions
    )
    end = _survived(known.history, run.last_view, known, shown)
    quoted = Presence(known.quoted_in)
    quoted.show(run.last_view)
    still_open = known.open_todos(len(known.history))
    todos = []
    edited_files = []
    for number, fact in enumerate(known.facts):
        if fact.kind == "todo" and fact.text in still_open:
            todos.append(number in shown)
        if fact.changed:
            edited_files.append(number in shown)
    return Survival(
        compactions=compactions,
        end=end,
        constraints=Ratio.of_marks(text in quoted for text in known.constraints),
        constraints_throughout=_constraints_throughout(run, known),
        todos=Ratio.of_marks(todos),
        edited_files=Ratio.of_marks(edited_files),
    )


# -- facts of compacted messages -----------------------------------------------------------------------


def _survived(
    before: Messages, after: Messages, known: KnownFacts, shown: Presence[int]
) -> Survived:
    """Count the compacted facts in the view `after`.

    Also switches `shown` to that view.
    """
    shown.show(after)
    compacted = list(known.compacted(_history_length(before, known.history), after))
    totals = Counter(known.facts[number].kind for number in compacted)
    kept = Counter(known.facts[number].kind for number in compacted if number in shown)
    return Survived(
        facts=Ratio(kept.total(), totals.total()),
        by_kind={
            kind: Ratio(kept[kind], totals[kind]) for kind in KINDS if totals[kind]
        },
        tokens=sum(map(message_tokens, after)),
    )


def _history_length(view: Messages, history: Messages) -> int:
    """Return the length of the history at the time of this view."""
    # A view always contains the newest message.
    keys = {message.key for message in view}
    length = len(history)
    while length and history[length - 1].key not in keys:
        length -= 1
    return length


def _todos(history: Messages) -> list[MentionedFact]:
    """Return all todos, open and done, with the messages that state them."""
    by_text: dict[str, MentionedFact] = {}
    for message in history:
        listed = [*facts.todos(_todo_text([message])), *open_todos([message])]
        for item in dict.fromkeys(listed):
            mention = by_text.setdefault(
                item, MentionedFact("todo", item, Voice.ASSISTANT, [])
            )
            mention.indices.append(message.index)
    return list(by_text.values())


def _todo_text(history: Messages) -> str:
    """Return the text in which todos may be stated or completed: all except tool results."""
    return "\n".join(
        message.text
        for message in history
        if not isinstance(message, ToolResultMessage)
    )


# -- constraints -----------------------------------------------------------------------------------


def _constraints(history: Messages) -> dict[str, int]:
    """Return each constraint on one line, with the index of the first message that states it."""
    constraints: dict[str, int] = {}
    for message in filter(is_typed, history):
        for text in map(one_line, facts.constraints(message.typed)):
            constraints.setdefault(text, message.index)
    return constraints


def _constraints_throughout(run: ReplayRun, known: KnownFacts) -> Ratio:
    """Return the share of constraints that every later request contains.

    Constraints without a later request are left out.
    """
    shown = Presence(known.quoted_in)
    due: set[str] = set()
    missed: set[str] = set()
    for step in answered_steps(run):
        shown.show(step.messages)
        earlier = {
            text for text, index in known.constraints.items() if index < step.answer
        }
        due |= earlier
        missed.update(text for text in earlier if text not in shown)
    return Ratio(len(due - missed), len(due))
