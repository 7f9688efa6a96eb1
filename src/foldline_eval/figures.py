"""Computes the figures of a run: cost, recall, survival of facts, and broken rules."""

from collections import Counter
from dataclasses import asdict, replace
from statistics import fmean

from .broken_rules import broken_rules
from .cost import OPENAI_CACHE, RHO_SWEEP, churn, cost, elongation_tolerance
from .recall import STATES, Needs, recall
from .record import Messages, ReplayRun
from .survival import KnownFacts, survival

USUAL = 0.1
"""Price of cached input in tables, as a fraction of the price of fresh input.

This is the fraction charged by OpenAI, Anthropic and Kimi K3.
"""
_COLD = replace(OPENAI_CACHE, cold_user_turns=True)
"""A pessimistic cache, in which the request after a new user message finds nothing."""


class Instrument:
    """The measurements shared by all runs of a session."""

    def __init__(self, history: Messages, raw: ReplayRun) -> None:
        self.needs = Needs(history)
        self.known = KnownFacts(history)
        self.raw = cost(raw)
        """Cost of the run without compaction. Other costs are relative to it."""
        self.raw_cold = cost(raw, _COLD)


class RunFigures:
    """All figures of a run, which form one row of the report."""

    def __init__(self, run: ReplayRun, instrument: Instrument) -> None:
        raw = instrument.raw
        views = [sent.tokens for sent in run.requests if sent.kind == "step"]
        self.session = run.session.name
        self.strategy = run.strategy
        self.window = run.window
        self.messages = len(run.session.history)
        self.compactions = len(run.compactions)
        self.rungs = Counter(compaction.entry.rung for compaction in run.compactions)
        """Number of compactions made by each rung of the failure ladder."""
        self.cost = cost(run)
        self.peak = max(views, default=0)
        """Size of the largest view that was sent, in tokens."""
        self.mean = fmean(views) if views else 0.0
        self.relative = {
            rho: self.cost.equivalent(rho) / raw.equivalent(rho) for rho in RHO_SWEEP
        }
        """Cost as a multiple of the raw run's cost, for each relative price of cached input."""
        cold = cost(run, _COLD)
        self.relative_cold = cold.equivalent(USUAL) / instrument.raw_cold.equivalent(
            USUAL
        )
        """Relative cost at the price `USUAL`, if the cache is cold after each user message."""
        self.churn = churn(self.cost, raw)
        self.tolerance = elongation_tolerance(self.cost, raw, USUAL)
        """e*, the number of additional steps that would cancel out the saving.

        The number is negative if there is no saving.
        """
        self.recall = recall(run, instrument.needs)
        self.survival = survival(run, instrument.known)
        sizes_after = [survived.tokens for survived in self.survival.compactions]
        self.left = fmean(sizes_after) if sizes_after else None
        """Mean size of the view, in tokens, right after a compaction."""
        self.over = sum(0 < run.window < sent.tokens for sent in run.requests)
        """Number of requests that exceed the window, so that a server would reject them."""
        self.violations = broken_rules(run)
        self.failures = run.failures

    @property
    def feasible(self) -> bool:
        return self.over == 0

    @property
    def is_floor(self) -> bool:
        """Whether recall is a lower bound, because digests were used in place of a model's summaries."""
        return self.cost.aux > 0

    def as_json(self) -> dict[str, object]:
        cost = self.cost
        recall = self.recall
        survival = self.survival
        return {
            "session": self.session,
            "strategy": self.strategy,
            "window": self.window,
            "floor": self.is_floor,
            "feasible": self.feasible,
            "requests_over_window": self.over,
            "messages": self.messages,
            "compactions": self.compactions,
            "rungs": self.rungs,
            "model_calls": cost.calls,
            "summary_calls": cost.aux,
            "input_tokens": cost.input,
            "uncached_tokens": cost.uncached,
            "output_tokens": cost.output,
            "cache_hit_rate": cost.hit_rate,
            "peak_view": self.peak,
            "mean_view": self.mean,
            "mean_view_after_compaction": self.left,
            "cost_relative_to_raw": self.relative,
            "cost_relative_to_raw_cold_user_turns": self.relative_cold,
            "cache_churn": self.churn,
            "elongation_tolerance": self.tolerance,
            "grounded_recall": recall.grounded,
            "long_range_recall": recall.long_range.ratio("retained").value,
            "needs": recall.all.needs,
            "long_range_needs": recall.long_range.needs,
            "states": {state: recall.all[state] for state in STATES},
            "recall_by_kind": {
                kind: tally.ratio("retained").value
                for kind, tally in recall.by_kind.items()
            },
            "writable_arguments": asdict(recall.writable),
            "writable_arguments_by_kind": {
                kind: asdict(share) for kind, share in recall.arguments.items()
            },
            "refetch_tokens": recall.refetch_tokens,
            "refetch_calls": recall.refetch_calls,
            "survival": survival.end.facts.value,
            "survival_by_kind": {
                kind: share.value for kind, share in survival.end.by_kind.items()
            },
            "survival_per_1000_tokens": survival.end.density,
            "survival_after_each_compaction": [
                survived.facts.value for survived in survival.compactions
            ],
            "constraints_at_end": asdict(survival.constraints),
            "constraints_throughout": asdict(survival.constraints_throughout),
            "todos_at_end": asdict(survival.todos),
            "edited_files_at_end": asdict(survival.edited_files),
            "violations": self.violations,
            "failures": self.failures,
        }
