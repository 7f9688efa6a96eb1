"""An agent's token limits, and the sizes that are compared with them."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from foldline.history import Session
from foldline.llm import LLM
from foldline.llm.models import LongPrice, price_of
from foldline.protocol import BaseMessage, FoldlineError
from foldline.view.budget import Budget, BudgetSettings, budget_for
from foldline.view.items import ViewItem
from foldline.view.tokens import message_tokens, scripts_in
from foldline.view.weight import view_size

from .limits import Bounds
from .models import Models
from .toolset import Toolset

LOW_THRESHOLD = (
    "The threshold of {threshold:,} tokens is too low: system prompt, instruction files and tools take about "
    "{fixed:,}, and a summary up to {summary:,}. Set a higher compaction.threshold."
)
SMALL_WINDOW = (
    "The window of {window:,} tokens is too small: system prompt, instruction files and tools take about "
    "{fixed:,}, and {reserved:,} are reserved for the answer and a summary. {advice}"
)
LARGER_WINDOW = "Choose a model with a larger window, or set FOLDLINE_CONTEXT_WINDOW."
LARGER_ON_SERVER = (
    "Start the server with a larger window: OLLAMA_CONTEXT_LENGTH=16384 for Ollama, --ctx-size 16384 for "
    "llama.cpp (for each of its --parallel slots), or the context length in LM Studio. You can also choose "
    "another model."
)
NO_ROOM = (
    "The {name} takes about {tokens:,} tokens. Together with the other pinned messages, this is too many for "
    "a window of {window:,}."
)
_LEAST_ROOM = 512
"""Size that a tool result may always have, in estimated tokens.

It is enough for an error message.
"""


@dataclass
class ContextBudget:
    """The token limits of one agent, and the size of its next request."""

    session: Session
    models: Models
    tools: Toolset
    settings: Callable[[int], BudgetSettings] = lambda _: BudgetSettings()
    """Returns the settings for a window, in tokens.

    It is a function because the window can change.
    """
    bounds: Bounds = field(default_factory=Bounds)
    """Limits on turns and on the session."""
    refused: dict[str, int] = field(default_factory=dict)
    """Size, in tokens, of the smallest request that was rejected as too long, by model.

    The entry is removed once a request is accepted.
    """

    def __post_init__(self) -> None:
        self.projection = self.session.projection
        self.session.on_append.append(lambda entry: self.bounds.on_entry(entry))

    # --- limits ----------------------------------------------------------------------------------

    @property
    def limits(self) -> Budget:
        """The active token limits.

        Raises:
            FoldlineError: the window is too small, or the settings leave no room in it.
        """
        return self.limits_of(self.models.llm)

    def limits_of(self, llm: LLM) -> Budget:
        """Return the token limits for a model.

        If the server has rejected requests as too long, the smallest of them limits the window.

        Raises:
            FoldlineError: the window is too small, or the settings leave no room in it.
        """
        info = llm.info
        window = self.models.window_of(llm)
        proven_refusal = self.models.window_proof(llm).refused or window
        refused = min(self.refused.get(info.id, window), proven_refusal)
        if refused < window:
            with suppress(
                FoldlineError
            ):  # Such a small window cannot be right: the request was rejected for another reason.
                # The user chose the threshold for the stated window.
                settings = replace(self.settings(refused), threshold=None)
                return budget_for(refused, info.max_output, settings)
        return budget_for(window, info.max_output, self.settings(window))

    @property
    def tier(self) -> LongPrice | None:
        """The higher price of long requests, if it applies below the threshold.

        None if the user has set a threshold.
        """
        limits = self.limits
        price = price_of(self.models.id)
        if price is None or price.long is None or limits.set_threshold is not None:
            return None
        return price.long if price.long.above < limits.threshold else None

    def record_refusal(self, tokens: int) -> None:
        """Remember the size, in tokens, of a request that was rejected as too long."""
        model = self.models.id
        self.refused[model] = min(tokens, self.refused.get(model, tokens))

    def clear_refusal(self) -> None:
        """Forget the size of the rejected request recorded for the current model."""
        self.refused.pop(self.models.id, None)

    # --- sizes -----------------------------------------------------------------------------------

    @property
    def scale(self) -> float:
        """Ratio of reported to estimated tokens."""
        return self.projection.meter.scale

    @property
    def overhead(self) -> int:
        """Size of the tool schemas, in tokens before calibration.

        It is 0 if reported usage excludes the schemas.
        """
        meter = self.projection.meter
        return self.tools.tokens if meter.habits(meter.model).tools else 0

    def estimate(self, prompt: BaseMessage) -> int:
        """Return the estimated size of an unsent prompt, in tokens before calibration."""
        meter = self.projection.meter
        tokens = meter.weigh(message_tokens(prompt), scripts_in(prompt))
        return round(tokens / meter.scale)

    def size(self, pending: Sequence[BaseMessage] = ()) -> int:
        """Return the size of the next request with these messages, in tokens."""
        return view_size(
            self.projection, overhead=self.overhead, pending=pending
        ).tokens

    def size_with(self, pending: int) -> int:
        """Return the size of the next request in tokens, including a pending prompt.

        Args:
            pending: size of the prompt, in tokens before calibration.
        """
        return self.size() + round(pending * self.scale)

    def size_for(self, model: str) -> int:
        """Return the size of the next request, in another model's tokens."""
        meter = self.projection.meter
        return round((meter.sent + self.overhead) * meter.scale_for(model))

    def is_full(self, pending: Sequence[BaseMessage] = ()) -> bool:
        return self.size(pending) >= self.limits.threshold

    def fits(self, pending: Sequence[BaseMessage] = ()) -> bool:
        """Return whether the next request with these messages fits the window."""
        return self.size(pending) < self.limits.window

    @property
    def past_soft_mark(self) -> bool:
        """Whether the view is large enough to be compacted at the end of a task."""
        return self.size() >= self.limits.soft_mark

    # --- room ------------------------------------------------------------------------------------

    def room_for_results(self) -> int:
        """Return the room for the results of one step, in estimated tokens.

        After a compaction, the results must still fit, together with the items that the compaction keeps
        (docs/design/invariants.md).
        """
        limits = self.limits
        free = (
            limits.threshold
            - limits.max_summary_tokens
            - limits.keep_recent_tokens // 2
        )
        kept = self.projection.fixed + self.overhead
        for kind in ("user", "assistant"):
            newest = self._newest(kind)
            if newest is not None and newest.compactable:
                kept += newest.tokens
        return max(_LEAST_ROOM, int(free / self.scale) - kept)

    def _newest(self, kind: str) -> ViewItem | None:
        items = reversed(self.projection.view)
        return next((item for item in items if item.outline.type == kind), None)

    def demand_room(self, message: BaseMessage, name: str) -> None:
        """Check that a pinned message leaves enough room to work.

        Raises:
            FoldlineError: the window has no room for the message.
        """
        limits = self.limits
        tokens = message_tokens(message)
        fixed = self.projection.fixed + self.overhead
        pinned = round((fixed + tokens) * self.scale)
        if pinned >= limits.threshold - limits.max_summary_tokens:
            size = round(tokens * self.scale)
            raise FoldlineError(NO_ROOM, name=name, tokens=size, window=limits.window)

    def check_window(self, preamble: int) -> None:
        """Check that the preamble and tools leave room to work.

        Args:
            preamble: estimated size of the system prompt and instruction files, in tokens before calibration.

        Raises:
            FoldlineError: the preamble and the tools fill the window.
        """
        info = self.models.llm.info
        window = self.models.window
        scale = self.projection.meter.calibration.scale(info.id)
        fixed = round(scale * (preamble + self.overhead))
        limits = budget_for(window, info.max_output, self.settings(window))
        if fixed < limits.threshold - limits.max_summary_tokens:
            return
        if limits.set_threshold:
            raise FoldlineError(
                LOW_THRESHOLD,
                threshold=limits.threshold,
                fixed=fixed,
                summary=limits.max_summary_tokens,
            )
        is_from_server = info.window_from == "server"
        raise FoldlineError(
            SMALL_WINDOW,
            window=limits.window,
            fixed=fixed,
            reserved=limits.reserve_tokens + limits.max_summary_tokens,
            advice=LARGER_ON_SERVER if is_from_server else LARGER_WINDOW,
        )
