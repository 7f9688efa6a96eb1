"""Bounds on what a turn and a session may spend, and calls that are repeated with the same result."""

import asyncio
import hashlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING

from foldline.context.harmless import with_signs
from foldline.context.numbers import many
from foldline.context.outline import CompactionOutline, RequestOutline
from foldline.history import Session, children_of
from foldline.llm.models import price_of, price_table
from foldline.protocol import (
    AssistantMessage,
    Compaction,
    DeveloperMessage,
    Entry,
    FoldlineError,
    RequestRecord,
    ToolCallPart,
    ToolResultMessage,
    Usage,
    text_parts,
)
from foldline.protocol.events import Option

from .settings_schema import Limits

if TYPE_CHECKING:
    from .state import AgentState

_LONGEST_CYCLE = 3
"""Steps: a model that goes round in circles reads, edits, tests, and begins again."""


class LimitReached(FoldlineError):
    """A turn was ended by a bound that the user has set, or as it went round in circles."""


@dataclass(frozen=True, slots=True)
class Spent:
    """What requests came to, those for summaries included."""

    steps: int = 0
    tokens: int = 0
    cost: float = 0.0

    def plus(self, model: str | None, usage: Usage | None, estimated: int) -> "Spent":
        """With one more request to this model; `estimated` input tokens if its server reports none."""
        price = price_of(model or "")
        counted = usage or Usage()
        if not counted.input:
            counted = counted.model_copy(update={"input": estimated})
        cost = 0.0 if price is None else price.paid(counted)
        return Spent(self.steps + 1, self.tokens + counted.total, self.cost + cost)

    def after(self, entry: Entry) -> "Spent":
        """With what this entry records."""
        match entry:
            case RequestRecord():
                return self.plus(entry.model, entry.usage, 0 if entry.error is not None else entry.estimated)
            case Compaction(usage=usage) if usage is not None:
                return self.plus(entry.model, usage, 0)
            case _:
                return self


def _spent_in(session: Session) -> Spent:
    """What a session and its subagents have spent here so far. Reads their histories."""
    spent = Spent()
    for place, outline in enumerate(session.entries.outlines):
        if isinstance(outline, RequestOutline | CompactionOutline) and outline.index > session.foreign:
            spent = spent.after(session.entries[place])
    for events in [] if session.path is None else children_of(session.path):
        with suppress(FoldlineError):  # one that cannot be read has nothing to count
            child = _spent_in(Session.open(events))
            spent = Spent(spent.steps + child.steps, spent.tokens + child.tokens, spent.cost + child.cost)
    return spent


@dataclass
class Bounds:
    """Holds a session to its limits."""

    limits: Limits = field(default_factory=Limits)
    called: Mapping[str, str] = field(default_factory=dict)
    """What sets one of them, where that is not the setting of its name."""
    then: str = "/retry continues"
    """What to do after a turn that was ended, as the end of a sentence."""
    above: "Bounds | None" = None
    """Those of the agent that a subagent works for: what it spends counts there, too."""
    summaries: int = 0
    """Requests that were made for summaries so far."""
    reached: bool = False
    """Whether the newest turn was ended by one."""
    _session: Spent | None = None
    """None until somebody asks: the history is read for it."""
    _turn: Spent = field(default_factory=Spent)
    _said: str = ""
    """The model whose price is not known, once that was said."""

    def on_entry(self, entry: Entry) -> None:
        """Counts what was appended; compactions were counted when their drafts were written."""
        if not isinstance(entry, Compaction):
            self._count(lambda spent: spent.after(entry))

    def on_summary(self, model: str, usage: Usage | None, estimated: int) -> None:
        """Counts a request for a summary, whatever becomes of that."""
        self.summaries += 1
        self._count(lambda spent: spent.plus(model, usage, estimated))

    def _count(self, count: Callable[[Spent], Spent]) -> None:
        if self.above is not None:
            self.above._count(count)
        if self.limits.turn_tokens or self.limits.turn_cost:
            self._turn = count(self._turn)
        if self._session is not None:
            self._session = count(self._session)

    async def begin_turn(self, state: "AgentState") -> None:
        """Counts anew for a turn.

        Raises:
            LimitReached: the session has none left.
        """
        limits = self.limits
        self._turn, self.reached = Spent(), False
        if limits.turn_tokens or limits.turn_cost or limits.session_tokens or limits.session_cost:
            await asyncio.to_thread(price_table)  # read from disk the first time
        if not (limits.session_steps or limits.session_tokens or limits.session_cost):
            self._session = None
        elif self._session is None:
            self._session = await asyncio.to_thread(_spent_in, state.session)
        model = state.llm.info.id
        is_set = limits.session_cost or (limits.turn_cost and not limits.cost_is_usual)
        if is_set and model != self._said and not price_of(model):
            self._said = model
            state.warn(
                f"The price of {model or 'the model'} is not known: limits.turn_cost and limits.session_cost "
                "do not count it. limits.turn_tokens and limits.session_tokens do."
            )
        self.demand(0, 0)

    def demand(self, steps: int, summaries: int) -> None:
        """Raises LimitReached where nothing is left for a further request.

        Args:
            steps: the requests of this turn, those for summaries included.
            summaries: how many of them those are.
        """
        if self.above is not None:
            self.above.demand(0, 0)
        turn, session = self._turn, self._session or Spent()
        of_these = f" ({summaries} of them for summaries)" if summaries else ""
        spent = {
            "turn_steps": (steps, f"{many(steps, 'step')}{of_these}"),
            "turn_tokens": (turn.tokens, f"{turn.tokens:,} tokens"),
            "turn_cost": (turn.cost, f"${turn.cost:.2f}"),
            "session_steps": (session.steps, f"{many(session.steps, 'step')} of this session"),
            "session_tokens": (session.tokens, f"{session.tokens:,} tokens of this session"),
            "session_cost": (session.cost, f"${session.cost:.2f} of this session"),
        }
        for key, (amount, words) in spent.items():
            bound = getattr(self.limits, key)
            if bound and amount >= bound:
                self.reached = True
                anew = "raise it in the settings, or begin another session with /new"
                then = anew if key.startswith("session") else self.then
                shown = f"${bound:,.2f}" if key.endswith("cost") else f"{bound:,}"
                raise LimitReached(
                    f"Stopped after {words}, before the work was done: "
                    f"{self.called.get(key, f'limits.{key}')} is {shown}; {then}."
                )

    def stop_loop(self, sentence: str) -> None:
        """Raises LimitReached: the turn went round in circles."""
        self.reached = True
        raise LimitReached(sentence)


class LoopWatch:
    """Notices that the steps of a turn repeat: the same calls with the same results, in cycles of up to three
    steps."""

    def __init__(self) -> None:
        self._steps: list[bytes] = []

    async def after_step(self, state: "AgentState", answer: AssistantMessage) -> None:
        """Asks what to do where a step is one too many of its like; nobody there to ask, the turn ends.

        Raises:
            LimitReached: it ends.
        """
        times = state.bounds.limits.equal_steps
        if times < 2:
            return
        self._steps.append(_fingerprint(answer, _results(state, answer)))
        length = _cycle(self._steps, times)
        if not length:
            return
        names = ", ".join(dict.fromkeys(call.name for call in answer.calls))
        what = f"the same call ({names})" if length == 1 else f"the same {length} steps ({names} the last)"
        sentence = f"The model made {what} {times} times in a row, each time with the same result"
        if not state.choices.interactive:
            state.bounds.stop_loop(f"Stopped: {sentence[:1].lower()}{sentence[1:]}.")
        self._steps.clear()  # who lets it go on is asked again after as many
        word = await state.choices.ask(
            f"{sentence}.",
            [
                Option(key="g", label="go on"),
                Option(key="t", label="tell the model, and go on"),
                Option(key="s", label="stop here"),
            ],
            "\n".join(f"{call.name} {_title(state, call)}" for call in answer.calls),
        )
        if word.key == "t":
            again = f"You made {what} {times} times in a row, each time with the same result."
            note = f"{again} Try another way, or say what hinders you."
            await state.session.append(DeveloperMessage(parts=text_parts(note)))
        elif word.key != "g":
            state.bounds.stop_loop(f"Stopped by you: {sentence[:1].lower()}{sentence[1:]}. /retry continues.")


def _title(state: "AgentState", call: ToolCallPart) -> str:
    """What it is about, as the transcript shows it."""
    titles = (tool.title(call.parsed()) for tool in state.tools if tool.spec.name == call.name)
    return with_signs(next(titles, ""))


def _results(state: "AgentState", answer: AssistantMessage) -> list[ToolResultMessage]:
    """The results of its calls, which are the newest there are."""
    entries = reversed(state.session.entries)
    results = (entry for entry in entries if isinstance(entry, ToolResultMessage))
    return list(islice(results, len(answer.calls)))[::-1]


def _fingerprint(answer: AssistantMessage, results: Sequence[ToolResultMessage]) -> bytes:
    """What a step did and what came of it, without what is new each time: the ids of its calls."""
    calls = [(call.name, call.arguments) for call in answer.calls]
    said = [(result.is_error, [part.model_dump_json() for part in result.parts]) for result in results]
    return hashlib.sha256(repr((calls, said)).encode("utf-8", "replace")).digest()


def _cycle(steps: Sequence[bytes], times: int) -> int:
    """How many steps make the cycle that ends the list, repeated so often; 0 where none does."""
    for length in range(1, _LONGEST_CYCLE + 1):
        newest = steps[-length * times :]
        if len(newest) == length * times and all(
            step == newest[place % length] for place, step in enumerate(newest)
        ):
            return length
    return 0
