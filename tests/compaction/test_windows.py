"""Sessions growing in windows of any size: compaction triggers, helps, and does not trigger again (invariant
8)."""

from dataclasses import dataclass, field
from itertools import cycle, islice

from hypothesis import given, settings
from hypothesis import strategies as st

from foldline.compaction import plan
from foldline.compaction.summary_text import framed
from foldline.protocol import BaseMessage, Entry
from foldline.view.budget import LEAST_ANSWER, Budget, BudgetSettings, budget_for
from foldline.view.cut import Cut
from foldline.view.derive import derive
from foldline.view.items import ViewItem, is_preamble
from foldline.view.projection import Projection
from foldline.view.tokens import Calibration, message_tokens
from foldline.view.weight import view_size
from support.history import History, history
from support.limits import examples

SCALE = Calibration().scale(None)
PER_DIGIT = 0.768 * SCALE
"""Tokens by the decisions' estimate; digits count most per character."""


def filler(tokens: float, beside: int = 0) -> str:
    """Return text of about this many tokens by the decisions' estimate, besides `beside` others."""
    return "0" * max(1, int((tokens - beside * SCALE) / PER_DIGIT))


@st.composite
def budgets(draw: st.DrawFn) -> Budget:
    """Draw windows from 8k to 2M tokens, uniform in magnitude, with default or plausible sizes."""
    window = int(2 ** draw(st.floats(13, 20.93)))

    def share(least: float, most: float) -> int | None:
        return draw(
            st.none() | st.floats(least, most).map(lambda part: int(window * part))
        )

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
    """Session that grows step by step, each step small enough for a compaction to handle."""

    budget: Budget
    built: History = field(default_factory=history)
    live: Projection = field(default_factory=Projection)
    compactions: int = 0

    @property
    def size(self) -> int:
        return view_size(self.live).tokens

    @property
    def bearable(self) -> int:
        """Return the largest group that fits beside the compacted view and a request half as
        large."""
        budget = self.budget
        left = (
            budget.keep_recent_tokens
            + budget.max_summary_tokens
            + budget.threshold // 20
        )
        return (budget.threshold - left) * 3 // 5

    def catch_up(self) -> None:
        for entry in self.built.entries[len(self.live.entries) :]:
            self.live.append(entry)

    def step(self, share: float, *, asks: bool) -> None:
        """Append the next tool group, or an answer and the next request, of this share of what
        is bearable."""
        tokens = share * self.bearable
        if asks:
            self.built.assistant("Done.").user(filler(tokens / 2))
        else:
            self.built.step("read", filler(tokens, beside=45), path="a")
        self.catch_up()

    def compaction(self) -> Cut[ViewItem] | None:
        """Compact into a summary of maximum length by the plan; return None if there is no
        cut."""
        planned = plan(self.live, self.budget, "threshold")
        if planned is None or planned.cut is None:
            return None
        before = [item.message for item in self.live.view]
        entry: Entry = derive(before, self._after(before, planned.cut))
        self.built.add(entry)
        self.catch_up()
        self.compactions += 1
        return planned.cut

    def _after(
        self, before: list[BaseMessage], cut: Cut[ViewItem]
    ) -> list[BaseMessage]:
        frame = message_tokens(framed("0"))
        summary = framed(filler(self.budget.max_summary_tokens, beside=frame))
        kept = [cut.request, *cut.tail] if cut.request else cut.tail
        return [*filter(is_preamble, before), summary, *(item.message for item in kept)]


@settings(max_examples=examples(60))
@given(
    budgets(), st.lists(st.floats(0.001, 1), min_size=1, max_size=12), st.integers(2, 7)
)
def test_a_growing_session_is_compacted_before_overflow_and_never_twice_in_a_row(
    budget: Budget, shares: list[float], turn_length: int
) -> None:
    session = Growing(budget)
    session.built.system(filler(budget.threshold // 20)).user("Hello.")
    for number, share in enumerate(islice(cycle(shares), 120)):
        session.step(share, asks=number % turn_length == 0)
        assert session.size + LEAST_ANSWER <= budget.window + session.bearable
        if session.size >= budget.threshold:
            before = session.size
            cut = session.compaction()
            assert cut is not None, "full, and nothing to compact"
            assert cut.tail, "nothing was kept"
            assert session.size < budget.threshold, (
                f"still full after a compaction of {before}"
            )


@settings(max_examples=examples(60))
@given(budgets())
def test_below_the_threshold_no_compaction_is_due(budget: Budget) -> None:
    """Seen elsewhere: one agent triggers at 0 tokens of 32k, one at 576; one at 17 % of 1M."""
    session = Growing(budget)
    session.built.system("You are careful.").user("Hello.")
    session.catch_up()
    assert session.size < budget.soft_mark
    while session.size < budget.threshold * 0.45:
        session.step(0.2, asks=False)
    assert session.size < budget.threshold
