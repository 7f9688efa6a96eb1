"""Whether a refusal means "too long for the window". Throttling never does: waiting cures it, not compacting.

Classified in this order: structured code; the reject list; status and text; and last, a successful answer
whose reported input is above the window. The shapes were collected from providers and public agents.
"""

import re

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
    r"|\b(hour|dai|week|month)ly\b|max_tokens_exceeded",
    re.IGNORECASE,
)

_TEXT = re.compile(
    r"maximum context length"  # OpenAI, OpenRouter, DeepSeek, vLLM, Together, Mistral
    r"|exceeds? (the )?context (window|length)"  # OpenAI Responses, llama-cpp-python, LM Studio
    r"|context[ _](length|window)[ _]exceeded|token limit exceeded"  # gateways
    r"|too many tokens"  # gateways; those who throttle with these words were sorted out above
    r"|range of input length should be"  # Alibaba's DashScope
    r"|longer than the model's context length|exceeds the maximum allowed length"  # SGLang
    r"|prompt exceeds max length"  # z.ai
    r"|context window exceeds limit"  # MiniMax
    r"|prompt is too long"  # Anthropic
    r"|prompt too long"  # z.ai, Ollama where it is told not to truncate
    r"|exceed context limit"  # Anthropic: input and max_tokens together
    r"|input is too long for"  # Bedrock
    r"|input token count.{0,40}exceeds the maximum number of tokens"  # Gemini, Vertex
    r"|maximum prompt length is"  # xAI
    r"|reduce the length of the messages"  # Groq, OpenAI
    r"|context too long|input too large|couldn'?t fit with truncation"  # Mistral
    r"|exceeded model token limit"  # Kimi, Moonshot
    # The words before "exceeds the limit of" matter: file-size errors share the rest (Copilot).
    r"|prompt token count of [\d,]+ exceeds the limit of"
    r"|exceeds the available context size"  # llama.cpp
    r"|initial prompt is greater than the context length|with context length of only \d+"  # LM Studio
    r"|longer than the maximum model length"  # vLLM
    r"|model_context_exceeded|prompt_too_long|exceed_context_size_error|request_too_large"
    r"|ContextWindowExceededError",
    re.IGNORECASE | re.DOTALL,
)

_SIZE = re.compile(
    r"(?:maximum context length (?:is|of)|maximum prompt length is|context window of|exceeds the limit of"
    r"|model token limit:|context length(?: of(?: only)?| \()?|maximum model length of|allowed length \("
    r"|tokens allowed \(|input length should be \[\d+,|\bn_ctx\\?\":|tokens >|\d \+ \d+ >)\s*([\d,]{3,12})\b"
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
