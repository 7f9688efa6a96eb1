"""Sessions that grow in any window: the trigger comes, a fold helps, and the next one waits (invariant 8)."""

from dataclasses import dataclass, field
from itertools import cycle, islice

from hypothesis import given, settings
from hypothesis import strategies as st

from foldline.compaction import plan
from foldline.compaction.summary_text import framed
from foldline.context.budget import LEAST_ANSWER, Budget, BudgetSettings, budget_for
from foldline.context.cut import Cut
from foldline.context.derive import derive
from foldline.context.projection import Projection
from foldline.context.tokens import Calibration, message_tokens
from foldline.context.view import ViewItem, is_preamble
from foldline.context.weight import view_size
from foldline.protocol import BaseMessage, Entry
from support.history import History, history
from support.limits import examples

SCALE = Calibration().scale(None)
PER_DIGIT = 0.768 * SCALE
"""Tokens, as decisions count them: digits give the most for their length."""


def filler(tokens: float, beside: int = 0) -> str:
    """Text that makes about so many tokens, as decisions count them, `beside` what else is estimated."""
    return "0" * max(1, int((tokens - beside * SCALE) / PER_DIGIT))


@st.composite
def budgets(draw: st.DrawFn) -> Budget:
    """Windows from 8k to 2M, each order of magnitude as likely, with defaults or sizes a person might set."""
    window = int(2 ** draw(st.floats(13, 20.93)))

    def share(least: float, most: float) -> int | None:
        return draw(st.none() | st.floats(least, most).map(lambda part: int(window * part)))

    return budget_for(
        window,
        draw(st.none() | st.integers(1, 128_000)),
        BudgetSettings(
            threshold=share(0.5, 0.9),
            keep_recent_tokens=share(0.01, 0.2),
            max_summary_tokens=share(0.1, 0.2),
        ),
    )


@dataclass
class Growing:
    """A session that takes one step after the other, each at most so large that a fold can bear it."""

    budget: Budget
    built: History = field(default_factory=history)
    live: Projection = field(default_factory=Projection)
    folds: int = 0

    @property
    def size(self) -> int:
        return view_size(self.live).tokens

    @property
    def bearable(self) -> int:
        """The largest group for which there is room beside what a fold leaves and a request half as large."""
        budget = self.budget
        left = budget.keep_recent_tokens + budget.max_summary_tokens + budget.threshold // 20
        return (budget.threshold - left) * 3 // 5

    def catch_up(self) -> None:
        for entry in self.built.entries[len(self.live.entries) :]:
            self.live.append(entry)

    def step(self, share: float, *, asks: bool) -> None:
        """The next tool group, or the answer that ends the turn and the next request: this share of what
        is bearable."""
        tokens = share * self.bearable
        if asks:
            self.built.assistant("Done.").user(filler(tokens / 2))
        else:
            self.built.step("read", filler(tokens, beside=45), path="a")
        self.catch_up()

    def fold(self) -> Cut[ViewItem] | None:
        """Fold into a summary of the greatest length, as the plan has it; None where there is no cut."""
        planned = plan(self.live, self.budget, "threshold")
        if planned is None or planned.cut is None:
            return None
        before = [item.message for item in self.live.view]
        entry: Entry = derive(before, self._after(before, planned.cut))
        self.built.add(entry)
        self.catch_up()
        self.folds += 1
        return planned.cut

    def _after(self, before: list[BaseMessage], cut: Cut[ViewItem]) -> list[BaseMessage]:
        frame = message_tokens(framed("0"))
        summary = framed(filler(self.budget.max_summary_tokens, beside=frame))
        kept = [cut.request, *cut.tail] if cut.request else cut.tail
        return [*filter(is_preamble, before), summary, *(item.message for item in kept)]


@settings(max_examples=examples(60))
@given(budgets(), st.lists(st.floats(0.001, 1), min_size=1, max_size=12), st.integers(2, 7))
def test_a_growing_session_is_folded_before_it_overflows_and_one_fold_never_triggers_the_next(
    budget: Budget, shares: list[float], turn_length: int
) -> None:
    session = Growing(budget)
    session.built.system(filler(budget.threshold // 20)).user("Hello.")
    for number, share in enumerate(islice(cycle(shares), 120)):
        session.step(share, asks=number % turn_length == 0)
        assert session.size + LEAST_ANSWER <= budget.window + session.bearable
        if session.size >= budget.threshold:
            before = session.size
            cut = session.fold()
            assert cut is not None, "full, and nothing to fold"
            assert cut.tail, "nothing was kept"
            assert session.size < budget.threshold, f"still full after a fold of {before}"


@settings(max_examples=examples(60))
@given(budgets())
def test_below_the_threshold_no_fold_is_due(budget: Budget) -> None:
    """Seen elsewhere: at 32k one triggers at 0 tokens, one at 576; at 1M one triggers at 17 %."""
    session = Growing(budget)
    session.built.system("You are careful.").user("Hello.")
    session.catch_up()
    assert session.size < budget.soft_mark
    while session.size < budget.threshold * 0.45:
        session.step(0.2, asks=False)
    assert session.size < budget.threshold
