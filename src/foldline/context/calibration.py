"""How far the estimate is off for a model, learnt from what its provider reports."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

START = 1.3
"""For a model nothing is known of. Real Claude usage needed 1.21 to 1.32 (evaluation.md §7.2)."""
LOWEST, HIGHEST = 0.7, 2.0
MARGIN = 1.05
"""Decisions err high by this much: the learnt estimate was 5 % off at worst."""
_WEIGHT = 0.3
"""Of the newest observation in the running ratio."""
_SILENTLY_CUT = 0.7
"""A usage below this share of a calibrated estimate means that the server truncated the request."""
LEAST_GROWTH = 2_000
"""Estimated tokens by which a view must have grown between two usages: less tells little."""
_LIGHTEST, _HEAVIEST = 0.7, 3.0
"""Reported tokens for each estimated one, of an answer. Recorded were 0.71 (gpt-5.6) to 2.8 (short calls)."""
_TRIFLE = 8
"""Tokens: the frame of a message, which the estimate of a short answer consists of."""


def fits_text(reported: int, estimated: int) -> bool:
    """Whether a count of output tokens can be that of an answer of so many estimated ones.

    Too low where it was taken before the answer had ended, as the first usage of a stream is; too high where
    it holds reasoning that nobody set apart.
    """
    return 0 < reported <= _HEAVIEST * (estimated + _TRIFLE) and reported + _TRIFLE >= _LIGHTEST * estimated


@dataclass(frozen=True, slots=True)
class Calibration:
    """Ratio of reported to estimated input tokens, by model. Immutable: `learn` gives another one."""

    ratios: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))

    def ratio(self, model: str | None) -> float:
        return self.ratios.get(model or "", START)

    def scale(self, model: str | None) -> float:
        """What to multiply an estimate by for a decision: the ratio, and a margin that errs high."""
        return self.ratio(model) * MARGIN

    def plausible(self, model: str, reported: int, estimated: int) -> bool:
        """Whether a reported input can be that of the whole request: a server may truncate silently."""
        known = self.ratios.get(model, LOWEST)
        return reported >= _SILENTLY_CUT * known * estimated

    def learn(self, model: str, estimated: int, reported: int) -> "Calibration":
        """With one more request: its estimate before calibration and its reported input, in tokens."""
        if not self.plausible(model, reported, estimated):
            return self
        observed = min(HIGHEST, max(LOWEST, reported / estimated))
        known = self.ratios.get(model)
        ratio = observed if known is None else known + _WEIGHT * (observed - known)
        return Calibration(MappingProxyType({**self.ratios, model: ratio}))
