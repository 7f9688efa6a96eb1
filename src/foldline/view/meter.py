"""The meter learns sizes from requests and their reported usage.

It learns how many tokens the view takes, and how large windows are. The meter processes the same outlines as
the projection, one by one, and reads the totals of the view. When a marker has changed the view, the
projection notifies the meter, because the usage reported earlier no longer describes the view.
"""

from collections.abc import Sequence
from dataclasses import replace

from foldline.protocol import NEW, ModelChange

from .budget import RequestSize
from .counted_view import CountedView, Totals
from .items import ViewItem, forked
from .outline import MessageOutline, OtherOutline, Outline, Reported, RequestOutline
from .tokens import LEAST_GROWTH, Calibration, Scripts, fits_text
from .usage_reading import (
    PLAIN,
    Anchor,
    CountingHabits,
    ExpectedInput,
    UsageReading,
    read_usage,
)
from .window import NOTHING_SEEN, WindowProof

_ANCHORED = 0.05
"""Relative error of an expected input that is based on recorded usage."""
_UNCERTAIN = 0.15
"""Relative error of an expected input that is based on a learnt ratio."""
_UNKNOWN = 0.45
"""Relative error if nothing has been learnt. The starting ratio 1.3 then covers ratios from 0.7 to 1.9."""


class Meter:
    """Tracks request sizes, the calibration of estimates, and evidence for window sizes.

    `append` takes O(1) time.
    """

    def __init__(self, view: CountedView) -> None:
        self._view = view
        self._last_index = NEW
        self.model: str | None = None
        """Model of the newest request, or the model selected since then."""
        self.calibration = Calibration()
        self.anchor: Anchor | None = None
        """Usage of the newest recorded request; None once the view has changed."""
        self._growth_start: Anchor | None = None
        """The first usage that another agent reported after the view last changed.

        It includes unknown tools and prompts, which are the same in later usages.
        """
        self.newest_request = NEW
        """Index of the newest recorded request; -1 if there is none."""
        self._recorded: list[RequestSize] = []
        self._unrecorded: list[RequestSize] = []
        """One request size per answer, used as long as no request has been recorded."""
        self.is_foreign = False
        """Whether another agent sent the newest recorded request."""
        self.replays_reasoning = False
        """Whether the API format of the newest request sends reasoning back."""
        self._windows: dict[str, WindowProof] = {}
        self._refused = 0
        """Size of the smallest of the newest requests, in tokens.

        The value is 0 unless these requests were rejected as too long.
        """
        self._caching_models: set[str] = set()
        self._habits: dict[str, CountingHabits] = {}

    def fork(self, view: CountedView) -> "Meter":
        """Return an independent copy that reads a different view."""
        other = forked(self)
        other._view = view
        return other

    # --- sizes of the view ----------------------------------------------------------------------

    @property
    def sent(self) -> int:
        """Estimated size of the view as sent, in tokens without calibration.

        Reasoning is included if it is sent back.
        """
        return self._sent_of(self._view.totals)

    @property
    def counted(self) -> int:
        """The part of `sent` that the server counts, in estimated tokens.

        The server's template may drop reasoning.
        """
        return self._counted_of(self._view.totals)

    def _sent_of(self, totals: Totals) -> int:
        return (
            totals.tokens + totals.thinking if self.replays_reasoning else totals.tokens
        )

    def _counted_of(self, totals: Totals) -> int:
        if not self._counts_reasoning:
            return totals.tokens
        counted = totals.tokens + totals.thinking
        if self.habits(self.model).reasoning == "turn":
            counted -= self._view.earlier_thinking
        return counted

    @property
    def _counts_reasoning(self) -> bool:
        """Whether the server counts the reasoning of the newest answer."""
        return self.replays_reasoning and self.habits(self.model).reasoning != "none"

    def scale_for(self, model: str | None) -> float:
        """Return the factor that converts estimated tokens of the view to this model's tokens."""
        counted = max(1, self.counted)
        return (
            self.calibration.weigh(model, counted, self._view.totals.scripts) / counted
        )

    @property
    def scale(self) -> float:
        """Factor that converts estimated tokens of the view to the current model's tokens."""
        return self.scale_for(self.model)

    def weigh(self, tokens: float, scripts: Scripts) -> float:
        """Convert an estimate to calibrated tokens.

        Args:
            scripts: the scripts of the estimated text.
        """
        return self.calibration.weigh(self.model, tokens, scripts)

    @property
    def view_tokens(self) -> int:
        """Estimated size of the view, in calibrated tokens."""
        return round(self.weigh(self.counted, self._view.totals.scripts))

    def grown_to(self, tokens: float, scripts: Scripts) -> float:
        """Return the calibrated size of a view that is estimated at `tokens`.

        This is the anchor, plus the estimated growth since the anchor.
        """
        assert self.anchor is not None
        growth = tokens - self.anchor.estimated
        if growth < 0:
            # Reasoning was dropped. To err high, subtract less than estimated.
            ratio = self.calibration.ratio(self.model)
            return self.anchor.reported + growth * ratio * (1 - _UNCERTAIN)
        new_scripts = scripts.minus(self.anchor.scripts) if growth else Scripts()
        return self.anchor.reported + self.weigh(growth, new_scripts)

    # --- knowledge about models and requests --------------------------------------------------------

    def habits(self, model: str | None) -> CountingHabits:
        """Return the counting habits of the server of this model."""
        return self._habits.get(model or "", PLAIN)

    def window_proof(self, model: str | None) -> WindowProof:
        """Return the evidence for the size of a model's window."""
        return self._windows.get(model or "", NOTHING_SEEN)

    def has_cache(self, model: str) -> bool:
        """Return whether a model is known to have read input from a cache."""
        return model in self._caching_models

    @property
    def prefix_cached(self) -> bool:
        """Whether a provider probably has the view in its cache.

        True if the newest request sent the view, and the model has read from a cache before.
        """
        return self.anchor is not None and self.has_cache(self.model or "")

    @property
    def requests(self) -> Sequence[RequestSize]:
        """All requests, oldest first.

        Each is a recorded request or, in sessions of other agents, an answer.
        """
        return self._recorded or self._unrecorded

    @property
    def records_requests(self) -> bool:
        """Whether `requests` contains recorded requests."""
        return bool(self._recorded)

    @property
    def reports_view(self) -> bool:
        """Whether reported sizes are sizes of the view.

        They are not if they come from other agents, whose reports include their tools.
        """
        return self.records_requests and not self.is_foreign

    def read_usage(
        self,
        model: str,
        estimated: int,
        reported: int,
        cached: int,
        *,
        apart: bool = False,
    ) -> UsageReading:
        """Interpret the newest request's usage, before the answer is appended.

        Args:
            estimated: size of the messages and tools that were sent, in tokens without calibration.
            reported: number of input tokens reported, including cached ones.
            cached: number of these tokens that were read from or written to a cache.
            apart: see `ExpectedInput.cached_apart`.
        """
        expected = replace(
            self._expected_input(model, estimated, self._view.totals),
            cached_apart=apart,
        )
        return read_usage(reported, cached, expected, self.habits(model))

    # --- learning -------------------------------------------------------------------------------

    def append(self, outline: Outline, position: int) -> None:
        """Process the next entry, before it changes the view.

        Args:
            position: the entry's position in the list of all entries.
        """
        match outline:
            case MessageOutline():
                self._add_message(outline, position)
            case RequestOutline() if outline.is_foreign:
                self._start_record(outline)
                size = self._foreign_size(
                    outline.index, position, outline.model, outline.usage
                )
                self._recorded.append(size)
            case RequestOutline():
                self._start_record(outline)
                self._add_request(outline, position)
            case ModelChange():
                self.model = outline.model
                self.forget_usage()
            case OtherOutline():
                self._refused = 0
        self._last_index = outline.index

    def forget_usage(self) -> None:
        """Drop the anchor, because the view has changed since usage was reported."""
        self.anchor = None
        self._growth_start = None

    def _add_message(self, message: MessageOutline, position: int) -> None:
        if message.type == "user":
            self._refused = 0
        elif message.type == "assistant" and self.records_requests:
            self.model = message.model or self.model
        elif message.type == "assistant":
            size = self._foreign_size(
                message.index, position, message.model, message.usage
            )
            self._unrecorded.append(size)

    def _foreign_size(
        self, index: int, position: int, model: str | None, usage: Reported | None
    ) -> RequestSize:
        """Return the size of another agent's request.

        The reported usage does not measure the view: it includes tools and prompts that the history does not
        contain. However, the growth of the usage measures the text added to the view, including the
        reasoning, which these agents send back. (Without the reasoning, a ratio of 1.69 was learnt, while
        1.05 was right.)
        """
        if model not in (None, self.model):
            self._growth_start = None
            self.model = model
        reported = 0 if usage is None else usage.input
        size = RequestSize(index, position, self.view_tokens, reported)
        if usage is None or not reported:
            return size
        model = self.model or ""
        self._note_answer(model, reported, usage)
        totals = self._view.totals
        estimated = totals.tokens + totals.thinking
        if self._growth_start is None:
            self._growth_start = Anchor(reported, estimated)
        estimated_growth = estimated - self._growth_start.estimated
        if estimated_growth >= LEAST_GROWTH:
            reported_growth = reported - self._growth_start.reported
            self.calibration = self.calibration.learn(
                model, estimated_growth, reported_growth
            )
        return size

    def _start_record(self, request: RequestOutline) -> None:
        self.newest_request = request.index
        self._unrecorded.clear()
        self.is_foreign = request.is_foreign

    def _add_request(self, request: RequestOutline, position: int) -> None:
        model = request.model
        usage = request.usage
        before = self._view.totals
        answer = self._newest_answer()
        if answer is not None:
            before = before.minus(answer)
        estimated = request.estimated or self._sent_of(before)
        expected = self._expected_input(model, estimated, before)
        ratio = self.calibration.ratio(model)
        habits = self.habits(model)
        counted = round(estimated - expected.left_out(habits) / ratio)
        counted_before = self._counted_of(before)
        calibrated = round(self.calibration.weigh(model, counted, before.scripts))
        reported = 0 if usage is None else usage.input
        self._recorded.append(
            RequestSize(request.index, position, calibrated, reported)
        )
        self.replays_reasoning = request.replays_reasoning
        self.model = self.model or model
        if request.refused:
            if self.anchor is None:
                size = round(self.weigh(counted, before.scripts))
            else:
                size = round(self.grown_to(counted_before, before.scripts))
            self._refused = min(self._refused or size, size)
            self._windows[model] = self.window_proof(model).bounded(request.window)
        elif request.window:
            self._windows[model] = self.window_proof(model).announced(request.window)
        if usage is None:
            return
        self._note_answer(model, reported or calibrated, usage, request.window)
        # The record contains the corrected input, so cached tokens need not be passed.
        reading = read_usage(reported, 0, expected, habits)
        if reading.outcome == "cut":
            self.calibration = self.calibration.doubt(model, doubted=True)
            self.anchor = None  # earlier reports may have been truncated a little, too
        elif reading.outcome == "trusted":
            calibration = self.calibration.doubt(model, doubted=False)
            if request.estimated:
                counted = round(estimated - expected.left_out(reading.habits) / ratio)
                calibration = calibration.learn(model, counted, reported)
            self.calibration = calibration
            self._habits[model] = reading.habits
            self._set_anchor(usage, before)

    def _note_answer(
        self, model: str, request: int, usage: Reported, window: int | None = None
    ) -> None:
        """Record an answered request as evidence for a window size and a cache."""
        stated = usage.window if window is None else window
        proof = self.window_proof(model)
        self._windows[model] = proof.answered(
            request, usage.output, stated, self._refused
        )
        self._refused = 0
        if usage.cached:
            self._caching_models.add(model)

    def _newest_answer(self) -> ViewItem | None:
        """Return the newest item if it is an answer that has not been recorded yet."""
        newest = self._view.items[-1] if self._view.items else None
        if (
            newest is None
            or newest.index != self._last_index
            or newest.outline.type != "assistant"
        ):
            return None
        return newest

    def _expected_input(
        self, model: str, estimated: int, view: Totals
    ) -> ExpectedInput:
        """Return the expected input of a request that sends this view."""
        ratio = self.calibration.ratio(model)
        earlier_thinking = 0
        turn_thinking = 0
        if self.replays_reasoning:
            earlier_thinking = self._view.earlier_thinking
            turn_thinking = view.thinking - earlier_thinking
        expected = ExpectedInput(
            total=estimated * ratio,
            estimated=max(1.0, estimated * ratio),
            least=self.calibration.least(model, estimated),
            tools=max(0, estimated - self._sent_of(view)) * ratio,
            earlier_reasoning=earlier_thinking * ratio,
            turn_reasoning=turn_thinking * ratio,
            uncertainty=_UNCERTAIN if model in self.calibration.ratios else _UNKNOWN,
            doubted=model in self.calibration.doubted,
        )
        if self.anchor is None:
            return expected
        growth = (self._counted_of(view) - self.anchor.estimated) * ratio
        counted = self.anchor.reported + growth
        uncertainty = _ANCHORED + _UNCERTAIN * abs(growth) / max(1.0, counted)
        total = counted + expected.left_out(self.habits(model))
        return replace(expected, total=total, uncertainty=uncertainty, anchored=True)

    def _set_anchor(self, usage: Reported, before: Totals) -> None:
        """Use trusted usage as the anchor for the size of the view.

        The answer is included if its reported output is plausible.

        Args:
            before: totals of the view without the answer.
        """
        output = usage.output
        if not self._counts_reasoning:
            output -= usage.reasoning
        counted_before = self._counted_of(before)
        answer_tokens = self.counted - counted_before
        if answer_tokens and fits_text(output, answer_tokens):
            self.anchor = Anchor(
                usage.input + output, self.counted, self._view.totals.scripts
            )
        else:
            self.anchor = Anchor(usage.input, counted_before, before.scripts)
