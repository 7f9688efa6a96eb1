"""The figures of one run: what it cost, what was there when needed, what survives, what broke."""

from collections import Counter
from dataclasses import asdict, replace
from statistics import fmean

from foldline.context.tokens import MESSAGE_OVERHEAD, message_tokens
from foldline.llm.models import Price
from foldline.protocol import AssistantMessage, BaseMessage, FoldlineError

from .cost import OPENAI_CACHE, RHO_SWEEP, Rates, churn, cost, elongation_tolerance
from .recall import STATES, needs, recall
from .record import Messages, Meter, Run
from .safety import violations
from .survival import Known, survival

USUAL = 0.1
"""The price of cached input that tables show, as a share of fresh input: OpenAI's, Anthropic's, Kimi K3's."""


_COLD = replace(OPENAI_CACHE, cold_user_turns=True)  # pessimistic: nothing is found after a new user message


class Instrument:
    """How a session is measured, the same for all its runs. Made once a session."""

    def __init__(self, history: Messages, raw: Run, meter: Meter, price: Price | None = None) -> None:
        self.meter = meter
        self.price = price
        self.needs = needs(history, meter)
        self.known = Known(history, meter)
        self.raw = cost(raw, meter)
        """Of the run that never compacts: what costs are relative to."""
        self.raw_cold = cost(raw, meter, _COLD)


class Figures:
    """All figures of a run: a row of a report, one session, one strategy, one window."""

    def __init__(self, run: Run, instrument: Instrument) -> None:
        meter, raw, usual = instrument.meter, instrument.raw, Rates(USUAL)
        views = [sent.tokens for sent in run.requests if sent.kind == "step"]
        self.session, self.strategy, self.window = run.session, run.strategy, run.window
        self.summariser = run.summariser
        self.messages = len(run.history)
        self.compactions = len(run.compactions)
        self.rungs = Counter(compaction.entry.rung for compaction in run.compactions)
        """By which rung of the failure ladder the compactions were made."""
        self.cost = cost(run, meter)
        self.peak = max(views, default=0)
        """Tokens of the largest view that was sent."""
        self.mean = fmean(views) if views else 0.0
        self.summary_input = sum(sent.tokens for sent in run.requests if sent.kind == "summary")
        self.dollars = self.cost.dollars(instrument.price) if instrument.price else None
        self.relative = {
            rho: self.cost.equivalent(Rates(rho)) / raw.equivalent(Rates(rho)) for rho in RHO_SWEEP
        }
        """Cost as a multiple of the raw session's, by the price ratio of cached input."""
        cold = cost(run, meter, _COLD)
        self.relative_cold = cold.equivalent(usual) / instrument.raw_cold.equivalent(usual)
        """The same at `USUAL`, with a cache that is cold after each user message."""
        self.churn = churn(self.cost, raw)
        self.tolerance = elongation_tolerance(self.cost, raw, usual)
        """e*: so many more steps would cancel the saving; negative where there is none."""
        self.recall = recall(run, instrument.needs)
        self.survival = survival(run, instrument.known)
        after = [at.tokens for at in self.survival.compactions]
        self.left = fmean(after) if after else None
        """Mean tokens of the view right after a compaction."""
        self.over = sum(0 < run.window < sent.tokens for sent in run.requests)
        """Requests longer than the window: a server would have refused them."""
        self.violations = tuple(violations(run, meter))
        self.failures = run.failures

    @property
    def feasible(self) -> bool:
        return self.over == 0

    @property
    def is_floor(self) -> bool:
        """Whether an extract stood in for a model's summaries: what they would have kept is not known."""
        return self.cost.aux > 0 and self.summariser == "digest"

    def as_json(self) -> dict[str, object]:
        cost, recall, survival = self.cost, self.recall, self.survival
        return {
            "session": self.session,
            "strategy": self.strategy,
            "window": self.window,
            "summariser": self.summariser,
            "floor": self.is_floor,
            "feasible": self.feasible,
            "requests_over_window": self.over,
            "messages": self.messages,
            "compactions": self.compactions,
            "rungs": dict(self.rungs),
            "model_calls": cost.calls,
            "summary_calls": cost.aux,
            "input_tokens": cost.input,
            "uncached_tokens": cost.uncached,
            "output_tokens": cost.output,
            "cache_hit_rate": cost.hit_rate,
            "peak_view": self.peak,
            "mean_view": self.mean,
            "mean_view_after_compaction": self.left,
            "dollars": self.dollars,
            "cost_relative_to_raw": {str(rho): value for rho, value in self.relative.items()},
            "cost_relative_to_raw_cold_user_turns": self.relative_cold,
            "cache_churn": self.churn,
            "elongation_tolerance": self.tolerance,
            "grounded_recall": recall.grounded,
            "long_range_recall": recall.long_range_grounded,
            "needs": recall.all.needs,
            "long_range_needs": recall.long_range.needs,
            "states": {state: recall.all[state] for state in STATES},
            "recall_by_kind": {kind: tally.share("retained") for kind, tally in recall.by_kind.items()},
            "writable_arguments": asdict(recall.writable),
            "writable_arguments_by_kind": {kind: asdict(share) for kind, share in recall.arguments.items()},
            "refetch_tokens": recall.refetch_tokens,
            "refetch_calls": recall.refetch_calls,
            "refetch_adjusted_input": cost.input + recall.refetch_tokens,
            "survival": survival.end.facts.value,
            "survival_by_kind": {kind: share.value for kind, share in survival.end.by_kind.items()},
            "survival_per_1000_tokens": survival.end.density,
            "survival_after_each_compaction": [at.facts.value for at in survival.compactions],
            "constraints_at_end": asdict(survival.constraints),
            "constraints_throughout": asdict(survival.constraints_throughout),
            "pins_throughout": asdict(survival.pins_throughout),
            "todos_at_end": asdict(survival.todos),
            "edited_files_at_end": asdict(survival.edited_files),
            "violations": list(self.violations),
            "failures": list(self.failures),
        }


METERS = ("weights", "o200k")


def meter_named(name: str) -> Meter:
    """The meter of this name.

    Raises:
        FoldlineError: there is none, or its vocabulary is not installed.
    """
    match name:
        case "weights":
            return Meter("script weights", message_tokens)
        case "o200k":
            return _o200k()
        case _:
            raise FoldlineError(f"There is no tokenizer {name}: there are {', '.join(METERS)}.")


def _o200k() -> Meter:
    try:
        import bpe_openai
    except ImportError as missing:
        raise FoldlineError(
            "The tokenizer o200k needs the package bpe-openai: install foldline[bench], or use weights."
        ) from missing
    vocabulary = bpe_openai.get_encoding("o200k_base")

    def tokens(message: BaseMessage) -> int:
        calls = message.calls if isinstance(message, AssistantMessage) else ()
        texts = [message.text, *(f"{call.name} {call.arguments}" for call in calls)]
        return MESSAGE_OVERHEAD + sum(len(vocabulary.encode_ordinary(text)) for text in texts)

    return Meter("o200k_base", tokens)
