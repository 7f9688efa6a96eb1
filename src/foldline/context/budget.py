"""A model's window: the room it gives, when it is full, what a history and refusals say of it. In tokens."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    DeveloperMessage,
    FoldlineError,
    ToolCallPart,
    ToolResultMessage,
    UserMessage,
)

from .tokens import message_tokens
from .view import is_preamble, is_summary

SMALLEST_WINDOW = 2_048
LEAST_ANSWER = 128
"""Tokens always free between threshold and window: for a short answer or one tool call. No summary is shorter
by default."""
_LEFT_SHARE = 0.3
"""Of the threshold, for the verbatim tail and for the summary each, where nobody set them: what a compaction
leaves is then below the default soft mark."""


_LEAST_EARLY = 32_000
"""Tokens of a view below which a step costs too little to forget anything for."""


class RequestSize(NamedTuple):
    """One request to a model. Weights in tokens."""

    entry: int
    """Index of its record; in a history without records, of its answer."""
    position: int
    """Of that entry among all entries."""
    estimated: int
    """Calibrated by what was known before it left."""
    reported: int = 0
    """What its provider counted; 0 where that is not known."""

    @property
    def tokens(self) -> int:
        """The report where there is one, else the estimate."""
        return self.reported or self.estimated

    @property
    def is_estimated(self) -> bool:
        return not self.reported

    @property
    def error(self) -> float | None:
        """By how much of the report the estimate is off: -0.01 is one per cent too low. None without one."""
        return (self.estimated - self.reported) / self.reported if self.reported else None


@dataclass(frozen=True, slots=True)
class Budget:
    """The limits compaction works with, for one model."""

    window: int
    reserve_tokens: int
    """Kept free for the answer; also bounds the summary."""
    keep_recent_tokens: int
    """At least this much of the newest work stays verbatim."""
    max_summary_tokens: int
    soft_ratio: float
    """Share of the threshold from which on a natural boundary is a good moment to compact."""
    set_threshold: int | None = None
    """The threshold, where somebody set one."""

    @property
    def threshold(self) -> int:
        """A request of this size or more is compacted first."""
        return self.window - self.reserve_tokens if self.set_threshold is None else self.set_threshold

    @property
    def soft_mark(self) -> int:
        """The soft ratio in tokens: below the threshold, and above what a compaction leaves, where there is
        room for both. So no compaction at a natural boundary is due again at the next one."""
        left = self.keep_recent_tokens + self.max_summary_tokens
        return min(max(int(self.threshold * self.soft_ratio), left + 1), self.threshold - 1)

    @property
    def early_mark(self) -> int:
        """From here on large results may be hidden at the end of a task, in tokens. Hidden below it, what had
        just been read for the next task was missed (decision 39)."""
        return max(self.threshold // 3, _LEAST_EARLY)

    @property
    def draft_mark(self) -> int:
        """From here on the next compaction is drafted ahead, in tokens. So near the threshold that no more
        comes until then than is kept verbatim anyway: its cut stands (decision 35)."""
        return max(self.soft_mark, self.threshold - self.keep_recent_tokens)


@dataclass(frozen=True, slots=True)
class BudgetSettings:
    """What a user may set; None takes the default for the window."""

    threshold: int | None = None
    reserve_tokens: int | None = None
    keep_recent_tokens: int | None = None
    max_summary_tokens: int | None = None
    soft_ratio: float = 0.75


def budget_for(window: int, max_output: int | None = None, settings: BudgetSettings | None = None) -> Budget:
    """The budget of a window.

    An eighth of the window is reserved, and another eighth kept verbatim; small windows get a larger share (a
    quarter at 8k), large ones no more than 32k and 40k, so that at 1M no compaction begins at 17 %. A known
    output limit below it frees the difference. A threshold that was set goes before the reserve; where
    it is low, the sizes nobody set shrink with it (docs/design/budget.md).

    Raises:
        FoldlineError: the window is too small to hold anything, or the settings leave no room.
    """
    chosen = settings or BudgetSettings()
    if window < SMALLEST_WINDOW:
        raise FoldlineError(
            f"A context window of {window:,} tokens is too small to work in: "
            f"set at least {SMALLEST_WINDOW:,} (FOLDLINE_CONTEXT_WINDOW or --window)."
        )
    wanted = chosen.reserve_tokens or _default_reserve(window, max_output)
    reserve = wanted if chosen.threshold is None else max(1, min(wanted, window - chosen.threshold))
    threshold = window - reserve if chosen.threshold is None else chosen.threshold
    most = max(1, int(threshold * _LEFT_SHARE))
    keep = min(most, 40_960, max(window // 8, min(window // 5, 4_096)))
    summary = min(most, max(LEAST_ANSWER, int(0.8 * wanted)))
    budget = Budget(
        window=window,
        reserve_tokens=reserve,
        keep_recent_tokens=chosen.keep_recent_tokens or keep,
        max_summary_tokens=chosen.max_summary_tokens or summary,
        soft_ratio=chosen.soft_ratio,
        set_threshold=chosen.threshold,
    )
    _check_room(budget)
    return budget


def _default_reserve(window: int, max_output: int | None) -> int:
    reserve = min(32_768, max(window // 8, min(window // 4, 4_096)))
    return min(reserve, max(max_output, window // 16)) if max_output else reserve


def _check_room(budget: Budget) -> None:
    """Raises FoldlineError where the threshold leaves too little room for an answer, or for what a compaction
    leaves: then the next one would be due at once."""
    window, threshold, is_set = budget.window, budget.threshold, budget.set_threshold is not None
    most = window - LEAST_ANSWER
    if threshold > most:
        key, value, limit = (
            ("threshold", threshold, f"at most {most:,}")
            if is_set
            else ("reserve_tokens", budget.reserve_tokens, f"at least {LEAST_ANSWER}")
        )
        raise FoldlineError(
            f"{key} {value:,} leaves no room for an answer in the window of {window:,} tokens: set {limit}."
        )
    keep, summary = budget.keep_recent_tokens, budget.max_summary_tokens
    if keep + summary >= threshold:
        full = f"threshold {threshold:,}" if is_set else f"reserve_tokens {budget.reserve_tokens:,}"
        raise FoldlineError(
            f"The window of {window:,} tokens has no room for keep_recent_tokens {keep:,} and "
            f"max_summary_tokens {summary:,} beside {full}: "
            f"{'lower one of the first two or raise the last' if is_set else 'lower one of them'}."
        )


@dataclass(frozen=True, slots=True)
class Size:
    """The size of the next request, as decisions use it."""

    tokens: int
    estimated: bool
    """Whether no reported usage stands behind it."""


@dataclass(frozen=True, slots=True)
class Unit:
    """A tool group, or one message of the user or the assistant; notices stay with what they came after."""

    messages: tuple[BaseMessage, ...]

    @property
    def first(self) -> BaseMessage:
        return self.messages[0]

    @property
    def tokens(self) -> int:
        """Estimate before calibration."""
        return sum(map(message_tokens, self.messages))

    @property
    def asked(self) -> str:
        """What the user typed; empty where this is nothing a user typed."""
        return self.first.typed if isinstance(self.first, UserMessage) else ""

    @property
    def said(self) -> str:
        """What the assistant said, its calls and their results left out."""
        return self.first.text if isinstance(self.first, AssistantMessage) else ""

    @property
    def calls(self) -> tuple[ToolCallPart, ...]:
        return self.first.calls if isinstance(self.first, AssistantMessage) else ()

    @property
    def results(self) -> list[ToolResultMessage]:
        return [message for message in self.messages if isinstance(message, ToolResultMessage)]


def units_of(messages: Iterable[BaseMessage], pins: frozenset[int] = frozenset()) -> list[Unit]:
    """The units of a view, in order. Preamble and summaries are none."""
    found: list[list[BaseMessage]] = []
    for message in messages:
        if is_preamble(message) or is_summary(message):
            continue
        if found and _goes_with(message, found[-1], pins):
            found[-1].append(message)
        else:
            found.append([message])
    return [Unit(tuple(unit)) for unit in found]


def _goes_with(message: BaseMessage, unit: list[BaseMessage], pins: frozenset[int]) -> bool:
    """A notice goes with what it came after. What is pinned is kept whatever becomes of the rest, and takes
    nothing along."""
    if isinstance(message, ToolResultMessage):
        return True
    alike = message.index not in pins and unit[0].index not in pins
    return alike and isinstance(message, DeveloperMessage)


@dataclass(frozen=True, slots=True)
class WindowProof:
    """What was seen of one model's window, in tokens; 0 where nothing was. Immutable."""

    stated: int = 0
    """What was last said of it where its answers came from: by its server, or by another agent."""
    largest: int = 0
    """The largest request that went through, with its answer, as reported."""
    refused: int = 0
    """The smallest request that was refused as too long where a smaller one went through in its place (else
    it may not have been the length), and what a refusal named as the limit."""

    def answered(self, request: int, answer: int, stated: int, refused: int = 0) -> "WindowProof":
        """After a request of this size that went through, in place of one of `refused` tokens."""
        if request < refused:
            smallest = min(self.refused or refused, refused)
        else:
            smallest = self.refused if request < self.refused else 0  # the server takes more than it did
        return WindowProof(stated or self.stated, max(self.largest, request + answer), smallest)

    def announced(self, window: int) -> "WindowProof":
        """After its server has said how large it is."""
        return replace(self, stated=window)

    def bounded(self, named: int) -> "WindowProof":
        """After a refusal that named the window; 0 where it did not."""
        return replace(self, refused=min(self.refused or named, named or self.refused))

    def window(self, believed: int) -> int:
        """The window, where nobody has said for certain that it is `believed` tokens."""
        return max(self.stated or believed, self.largest)


NOTHING_SEEN = WindowProof()


# --- refusals ---------------------------------------------------------------------------------------

# Whether a refusal means "too long for the window" follows this order: structured code; the reject list;
# status and text. Throttling never means it: waiting cures that, not compacting. The shapes were collected
# from providers and public agents.
_CODES = frozenset(
    {
        "context_length_exceeded",  # OpenAI, Azure, vLLM, Codex streams
        "model_context_exceeded",  # Mistral
        "prompt_too_long",  # Mistral
        "model_context_window_exceeded",  # Anthropic, z.ai: also a finish reason
        "exceed_context_size_error",  # llama.cpp
        "request_too_large",  # Anthropic 413: bytes rather than tokens, cured by sending less all the same
        "contextwindowexceedederror",  # litellm
        "model_max_prompt_tokens_exceeded",  # GitHub Copilot
        "1261",  # z.ai
    }
)

RATE_CODES = frozenset({"rate_limit_exceeded", "rate_limit_error", "throttlingexception"})
"""Codes of a server that is asked too much at a time. Groq sends one with a 413."""

_NOT_CODES = RATE_CODES | {
    "insufficient_quota",
    "max_tokens_exceeded",  # a limit of the answer, not of the request
}

_REJECT = re.compile(
    r"per[ _]min(ute)?\b|\b[TR]PM\b|per[ _]day|throttl|please wait|rate.?limit|too many requests|quota"
    r"|\b(hour|dai|week|month)ly\b|max_tokens_exceeded|retry.?after|try again in \d",
    re.IGNORECASE,
)

_TEXT = re.compile(
    r"maximum context length"  # OpenAI, OpenRouter, DeepSeek, vLLM, Together, Mistral
    # OpenAI Responses, llama.cpp and its Python server, LM Studio, Ollama, Cloudflare, Anthropic (max_tokens)
    r"|exceed(s|ed)? ((the|this|max(imum)?|available|model('?s)?) ){0,4}context (window|length|size|limit)"
    r"|context[ _](length|window)[ _]exceeded|token limit exceeded"  # gateways
    r"|too many tokens"  # Cohere, gateways; those who throttle with these words were sorted out above
    r"|range of input length should be"  # Alibaba's DashScope
    # SGLang, DeepInfra, Amazon's Nova, Volcengine
    r"|longer than the model'?s context length|exceeds the maximum allowed (input )?length"
    r"|input (tokens|length)( [\d,]+)? exceeds? (the )?max(imum)?( input)? length"
    r"|prompt exceeds max length"  # z.ai
    r"|context window exceeds limit"  # MiniMax
    r"|(prompt|input)( tokens)?( is|:)? too long"  # Anthropic, Bedrock, z.ai, Ollama, Baidu
    r"|input token count.{0,40}exceeds the maximum number of tokens"  # Gemini, Vertex
    r"|input token count is [\d,]+ but (the )?model only supports up to"  # Vertex
    r"|maximum prompt length is"  # xAI
    r"|reduce the length of the messages"  # Groq, OpenAI
    r"|input tokens exceed the configured limit"  # OpenAI
    r"|context too long|input too large|couldn'?t fit with truncation"  # Mistral
    r"|exceeded model token limit"  # Kimi, Moonshot
    # The words before "exceeds the limit of" matter: file-size errors share the rest (Copilot).
    r"|prompt token count of [\d,]+ exceeds the limit of"
    r"|initial prompt is greater than the context length|with context length of only \d+"  # LM Studio
    r"|longer than the maximum model length|exceeds? the max_model_len"  # vLLM
    r"|the configured context size is"  # ds4
    # Text Generation Inference; `max_new_tokens` alone is about the answer.
    r"|tokens`? \+ `?max_new_tokens`? must be <=|`?inputs`? must have less than [\d,]+ tokens"
    r"|exceed max message tokens"  # Volcengine
    r"|must be less than max_seq_len"  # SiliconFlow
    r"|cannot exceed the total tokens limit"  # watsonx
    r"|exceeds maximum allowed token size"  # NVIDIA's NIM
    r"|tokens in request more than max tokens allowed"  # AWS
    r"|model_context_exceeded|prompt_too_long|exceed_context_size_error|request_too_large"
    r"|ContextWindowExceededError",
    re.IGNORECASE | re.DOTALL,
)

_SIZE = re.compile(
    r"(?:maximum context length (?:is|of)|maximum prompt length is|context window of|exceeds the limit of"
    r"|available context size \("  # llama.cpp
    r"|model token limit:|context length(?: of(?: only)?| \()?|maximum model length of|allowed length \("
    r"|tokens allowed \(|input length should be \[\d+,|\bn_ctx\\?\":|tokens >|\d \+ \d+ >"
    r"|configured (?:limit of|context size is)|window limit \(|max_new_tokens`? must be <=|max_seq_len \("
    r"|total tokens limit|allowed token size|(?:allowed|maximum) input length(?: of)?|supports up to"
    r"|exceeds (?:the )?maximum length|must have less than)\s*([\d,]{3,12})\b"
    r"|too large for model with ([\d,]{3,12}) maximum",
    re.IGNORECASE,
)
"""The size of the window, where a refusal names it. Beside it mostly stands what was asked for."""

_STATUSES = frozenset({400, 413, 422})
_BODYLESS = frozenset({400, 413})
"""Cerebras answers a request that is too long with one of these and no body at all."""


def is_overflow(status: int | None, code: str | None, text: str) -> bool:
    """Whether an error means that the request is longer than the model's window, by its HTTP status (None
    inside a stream), its code or type, and the whole body, which may be empty."""
    named = (code or "").strip().lower()
    if named in _CODES:
        return True
    if named in _NOT_CODES or status == 429 or _REJECT.search(text):
        return False
    if status is not None and status not in _STATUSES:
        return False
    if not text.strip():
        return status in _BODYLESS
    return _TEXT.search(text) is not None


def announced_window(text: str) -> int | None:
    """The window in tokens that a refusal names, where it names one."""
    found = _SIZE.search(text)
    size = (found[1] or found[2]).replace(",", "") if found else ""
    return int(size) if size else None


def silent_overflow(reported_input: int, window: int) -> bool:
    """Whether a *successful* answer reports more input tokens than the window has: it was cut silently."""
    return reported_input > window > 0
