"""Limits on the tokens, cost and steps of turns and sessions."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace

from foldline.agent.settings.schema import Limits
from foldline.history import Session, children_of
from foldline.llm.models import price_of, price_table
from foldline.protocol import Compaction, Entry, FoldlineError, RequestRecord, Usage
from foldline.text.numbers import many
from foldline.view.outline import CompactionOutline, RequestOutline

NO_PRICE = (
    "The price of {model} is unknown, so limits.turn_cost and limits.session_cost do not count it. "
    "limits.turn_tokens and limits.session_tokens do."
)
STOPPED = (
    "Stopped after {spent}, before the work was done: {setting} is {limit}; {advice}."
)
RETRY = "/retry continues"
RAISE_LIMIT = "raise this limit in the settings, or start a new session with /new"
IN_SESSION = "{amount} in this session"
OF_SUMMARIES = " (including {count} for summaries)"


class LimitReached(FoldlineError):
    """Raised if the turn reached a configured limit, or was stopped for repeating itself."""


@dataclass(frozen=True, slots=True)
class Spent:
    """Total tokens and cost of requests, including those for summaries."""

    steps: int = 0
    tokens: int = 0
    cost: float = 0.0
    """Cost in dollars."""

    def plus(self, model: str | None, usage: Usage | None, estimated: int) -> "Spent":
        """Return the total after another request.

        Args:
            estimated: input tokens to count if the server reports none.
        """
        usage = usage or Usage()
        if not usage.input:
            usage = usage.model_copy(update={"input": estimated})
        price = price_of(model or "")
        cost = 0.0 if price is None else price.paid(usage)
        return Spent(self.steps + 1, self.tokens + usage.total, self.cost + cost)

    def after(self, entry: Entry) -> "Spent":
        """Return the total after the request that an entry records, if any."""
        match entry:
            case RequestRecord():
                estimated = entry.estimated if entry.error is None else 0
                return self.plus(entry.model, entry.usage, estimated)
            case Compaction(usage=usage) if usage is not None:
                return self.plus(entry.model, usage, 0)
            case _:
                return self


def _spent_in(session: Session) -> Spent:
    """Return the total spending of a session and its subagents.

    Reads their histories.
    """
    spent = Spent()
    for position, outline in enumerate(session.entries.outlines):
        if (
            isinstance(outline, RequestOutline | CompactionOutline)
            and outline.index > session.foreign
        ):
            spent = spent.after(session.entries[position])
    if session.path is None:
        return spent
    for path in children_of(session.path):
        with suppress(FoldlineError):  # skip unreadable sessions
            child = _spent_in(Session.open(path))
            spent = Spent(
                spent.steps + child.steps,
                spent.tokens + child.tokens,
                spent.cost + child.cost,
            )
    return spent


@dataclass
class Bounds:
    """Enforces a session's limits."""

    limits: Limits = field(default_factory=Limits)
    setting_names: Mapping[str, str] = field(default_factory=dict)
    """Names of the settings that set the limits, by limit.

    By default, the name of a limit's setting is `limits.` followed by the name of the limit.
    """
    advice: str = RETRY
    """What the user can do after a limit has stopped a turn, as a clause."""
    parent: "Bounds | None" = None
    """Limits of a subagent's parent. The subagent's requests also count towards these."""
    summaries: int = 0
    """Number of requests for summaries so far."""
    reached: bool = False
    """Whether a limit has stopped the newest turn."""
    _session: Spent | None = None
    """Total of the session.

    None until a limit needs it, because the history must be read to compute it.
    """
    _turn: Spent = field(default_factory=Spent)
    _unpriced_model: str = ""
    """Model that was named in the last warning about an unknown price."""

    def on_entry(self, entry: Entry) -> None:
        """Count the request that an appended entry records.

        Compactions are skipped, because they were counted when they were drafted.
        """
        if not isinstance(entry, Compaction):
            self._add(lambda spent: spent.after(entry))

    def on_summary(self, model: str, usage: Usage | None, estimated: int) -> None:
        """Count a summary request towards the limits."""
        self.summaries += 1
        self._add(lambda spent: spent.plus(model, usage, estimated))

    def _add(self, add: Callable[[Spent], Spent]) -> None:
        if self.parent is not None:
            self.parent._add(add)
        if self.limits.turn_tokens or self.limits.turn_cost:
            self._turn = add(self._turn)
        if self._session is not None:
            self._session = add(self._session)

    async def begin_turn(
        self,
        session: Session,
        model: str,
        warn: Callable[[str], None],
    ) -> None:
        """Reset the counts of the turn.

        Raises:
            LimitReached: the session has reached a limit.
        """
        limits = self.limits
        self._turn = Spent()
        self.reached = False
        if (
            limits.turn_tokens
            or limits.turn_cost
            or limits.session_tokens
            or limits.session_cost
        ):
            await asyncio.to_thread(price_table)  # reads from disk on the first call
        if not (limits.session_steps or limits.session_tokens or limits.session_cost):
            self._session = None
        elif self._session is None:
            self._session = await asyncio.to_thread(_spent_in, session)
        has_cost_limit = limits.session_cost or (
            limits.turn_cost and not limits.cost_is_usual
        )
        if has_cost_limit and model != self._unpriced_model and not price_of(model):
            self._unpriced_model = model
            warn(NO_PRICE.format(model=model or "the model"))
        self.check(0, 0)

    def check(self, steps: int, summaries: int) -> None:
        """Check the limits before a request.

        Args:
            steps: number of requests in this turn, including those for summaries.
            summaries: number of these requests that were for summaries.

        Raises:
            LimitReached: a limit is reached.
        """
        if self.parent is not None:
            self.parent.check(0, 0)
        turn = replace(self._turn, steps=steps)
        for scope, spent in (("turn", turn), ("session", self._session or Spent())):
            for unit in ("steps", "tokens", "cost"):
                limit = getattr(self.limits, f"{scope}_{unit}")
                amount = getattr(spent, unit)
                if limit and amount >= limit:
                    self.reached = True
                    raise LimitReached(
                        self._sentence(scope, unit, limit, amount, summaries)
                    )

    def _sentence(
        self, scope: str, unit: str, limit: float, amount: float, summaries: int
    ) -> str:
        key = f"{scope}_{unit}"
        setting = self.setting_names.get(key, f"limits.{key}")
        shown = f"{limit:,}"
        spent = f"{amount:,} {unit}"
        if unit == "steps":
            spent = many(int(amount), "step")
        elif unit == "cost":
            shown = f"${limit:,.2f}"
            spent = f"${amount:.2f}"
        advice = self.advice
        if scope == "session":
            advice = RAISE_LIMIT
            spent = IN_SESSION.format(amount=spent)
        elif unit == "steps" and summaries:
            spent += OF_SUMMARIES.format(count=summaries)
        return STOPPED.format(spent=spent, setting=setting, limit=shown, advice=advice)

    def stop_loop(self, sentence: str) -> None:
        """Raise `LimitReached` with this message, because the turn repeats itself."""
        self.reached = True
        raise LimitReached(sentence)
