"""What survives the compactions of a run: of all facts compacted so far, those the view still says.

What a fact is and when a view says it is the audit's rule, so that a path may be absolute or relative, but a
paraphrase counts as lost. `Known` belongs to the session: its facts are looked for once, for all its runs.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import get_args

from foldline.context import facts
from foldline.context.audit import (
    FactKind,
    Mention,
    ViewText,
    Voice,
    error_message,
    mentions,
    namesakes,
    taken,
)
from foldline.context.digest import one_line
from foldline.context.todos import open_todos
from foldline.protocol import BaseMessage, ToolResultMessage, is_typed

from .recall import answered_steps
from .record import Messages, Meter, PerMessage, Presence, Run, Share

KINDS: tuple[FactKind, ...] = get_args(FactKind)


@dataclass(frozen=True, slots=True)
class Survived:
    """The facts of everything compacted up to one moment, and how many of them the view then says."""

    facts: Share
    by_kind: Mapping[FactKind, Share]  # kinds of which something was compacted
    tokens: int  # of the view

    @property
    def density(self) -> float | None:
        """Facts kept per 1,000 tokens of the view. To be shown, never ranked by: a tiny view would win."""
        return self.facts.kept / self.tokens * 1_000 if self.tokens else None


@dataclass(frozen=True, slots=True)
class Survival:
    """What one run kept."""

    compactions: tuple[Survived, ...]  # right after each compaction
    end: Survived
    constraints: Share
    """CS_end: sentences of the user that command or forbid, verbatim in the last view."""
    constraints_throughout: Share
    """CS_min: those in every request after they were said."""
    pins_throughout: Share  # CS_min of those in pinned messages: must be all
    todos: Share  # items open at the end of the session, and in the last view
    edited_files: Share  # files the session changed, and named in the last view


class Known:
    """The facts of a session, and which messages say them. Made once, for all its runs."""

    def __init__(self, history: Messages, meter: Meter) -> None:
        self.history = tuple(history)
        self.tokens = PerMessage(meter.tokens)
        self.facts = [fact for fact in mentions(history) if fact.kind != "todo"]
        self.facts += _todos(history)
        self.constraints = tuple(_constraints(history))
        self._signs = [_sign(fact) for fact in self.facts]
        self._named = namesakes(self.facts)
        self.says = PerMessage(self._says)
        """The facts, by number, that a message says."""
        self.quotes = PerMessage(self._quotes)
        """The constraints, by number, that a message holds verbatim."""
        self._noting = [(at, message.text) for at, message in enumerate(history) if _notes(message)]

    def _says(self, message: BaseMessage) -> frozenset[int]:
        view = ViewText([message], self._named)
        text = "\n".join(facts.texts(message)).casefold()
        likely = [n for n, sign in enumerate(self._signs) if sign in text]
        return frozenset(n for n in likely if view.holds(self.facts[n]))

    def _quotes(self, message: BaseMessage) -> frozenset[int]:
        said = one_line("\n".join(facts.texts(message)))
        return frozenset(n for n, constraint in enumerate(self.constraints) if constraint.text in said)

    def open_todos(self, upto: int) -> frozenset[str]:
        """What is to do after so many messages of the session."""
        noted = "\n".join(text for at, text in self._noting if at < upto)
        return frozenset(open_todos(self.history[:upto])) | frozenset(facts.todos(noted))

    def compacted(self, upto: int, view: Messages) -> Iterator[int]:
        """The facts, by number, of those of the first `upto` messages that the view has not as they were."""
        gone = {message.index for message in taken(self.history[:upto], view)}
        still_open = self.open_todos(upto)
        for n, fact in enumerate(self.facts):
            done = fact.kind == "todo" and fact.text not in still_open
            if not done and not gone.isdisjoint(fact.indices):
                yield n


def survival(run: Run, known: Known) -> Survival:
    """What a run kept after each of its compactions and at its end."""
    said = Presence(known.says)
    asked, throughout, at_end = _constraints_present(run, known)
    compactions = tuple(
        _survived(compaction.before, compaction.after, known, said) for compaction in run.compactions
    )
    end = _survived(known.history, run.last_view, known, said)
    still_open = known.open_todos(len(known.history))
    facts_now = list(enumerate(known.facts))
    return Survival(
        compactions=compactions,
        end=end,
        constraints=_share(n in at_end for n in range(len(known.constraints))),
        constraints_throughout=_share(n in throughout for n in asked),
        pins_throughout=_share(n in throughout for n in asked if known.constraints[n].index in run.pins),
        todos=_share(n in said for n, fact in facts_now if fact.kind == "todo" and fact.text in still_open),
        edited_files=_share(n in said for n, fact in facts_now if fact.changed),
    )


# -- facts of what was compacted ----------------------------------------------------------------------


def _survived(before: Messages, after: Messages, known: Known, said: Presence[int]) -> Survived:
    """Shows the view `after`."""
    said.show(after)
    compacted = list(known.compacted(_length(before, known.history), after))
    all_of = Counter(known.facts[n].kind for n in compacted)
    kept = Counter(known.facts[n].kind for n in compacted if n in said)
    return Survived(
        facts=Share(kept.total(), all_of.total()),
        by_kind={kind: Share(kept[kind], all_of[kind]) for kind in KINDS if all_of[kind]},
        tokens=sum(map(known.tokens, after)),
    )


def _length(view: Messages, history: Messages) -> int:
    """How many messages the history had when this was its view: the newest one is always in it."""
    shown = {message.key for message in view}
    return next((at + 1 for at in reversed(range(len(history))) if history[at].key in shown), 0)


def _sign(fact: Mention) -> str:
    """Small letters without which no text says this fact, in any form; empty where there are none for sure.

    Only to spare most messages a closer look: few facts are in few messages.
    """
    text = fact.text
    if fact.kind == "path":
        text = facts.path_parts(text)[-1]
    elif fact.kind == "error":
        text = error_message(text)
    certain = _LETTERS.findall(text.casefold())
    if fact.kind in ("constraint", "todo"):
        certain = certain[1:-1]  # blanks within do not count
    return max(certain, key=len, default="")


_LETTERS = re.compile(r"[a-z]+")


def _todos(history: Messages) -> list[Mention]:
    """Whatever was to do at any time, with the messages that say it."""
    found: dict[str, Mention] = {}
    for message in history:
        noted = facts.todos(message.text) if _notes(message) else ()
        for item in dict.fromkeys([*noted, *open_todos([message])]):
            found.setdefault(item, Mention("todo", item, Voice.ASSISTANT, [])).indices.append(message.index)
    return list(found.values())


_TODO_SIGN = re.compile(r"\[[ xX]\]|TODO|FIXME|待办|待做")


def _notes(message: BaseMessage) -> bool:
    """Whether a message may say what is to do, or that it is done. What a file or an output says is none."""
    return not isinstance(message, ToolResultMessage) and bool(_TODO_SIGN.search(message.text))


# -- constraints -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Constraint:
    text: str
    """In single blanks."""
    index: int
    """Of the message that said it first."""


def _constraints(history: Messages) -> Iterator[_Constraint]:
    said: set[str] = set()
    for message in history:
        if is_typed(message):
            new = dict.fromkeys(map(one_line, facts.constraints(message.typed)))
            yield from (_Constraint(text, message.index) for text in new if text not in said)
            said |= new.keys()


def _constraints_present(run: Run, known: Known) -> tuple[list[int], frozenset[int], frozenset[int]]:
    """Constraints, by number: those that a request came after, those in each such request, and at the end."""
    shown = Presence(known.quotes)
    asked: set[int] = set()
    missed: set[int] = set()
    for step in answered_steps(run):
        shown.show(step.messages)
        due = {n for n, constraint in enumerate(known.constraints) if constraint.index < step.answer}
        asked |= due
        missed |= {n for n in due if n not in shown}
    shown.show(run.last_view)
    at_end = frozenset(n for n in range(len(known.constraints)) if n in shown)
    return sorted(asked), frozenset(asked - missed), at_end


def _share(kept: Iterable[bool]) -> Share:
    marks = list(kept)
    return Share(sum(marks), len(marks))
