"""Recognises the errors that servers return for requests exceeding the window."""

import re

from foldline.text.patterns import lazy_pattern

# `is_overflow` checks in this order: the error's code, phrases that exclude an overflow, status, and text.
# Throttling is never an overflow, because waiting helps and compacting does not. The phrases were collected
# from providers and public agents.
_CODES = frozenset(
    {
        "context_length_exceeded",  # OpenAI, Azure, vLLM, Codex streams
        "model_context_exceeded",  # Mistral
        "prompt_too_long",  # Mistral
        "model_context_window_exceeded",  # Anthropic, z.ai: also a finish reason
        "exceed_context_size_error",  # llama.cpp
        "request_too_large",  # Anthropic 413: bytes rather than tokens, but sending less also helps
        "contextwindowexceedederror",  # litellm
        "model_max_prompt_tokens_exceeded",  # GitHub Copilot
        "1261",  # z.ai
    }
)

RATE_CODES = frozenset(
    {"rate_limit_exceeded", "rate_limit_error", "throttlingexception"}
)
"""Error codes that indicate throttling.

Groq sends one of them with status 413.
"""

_NOT_CODES = RATE_CODES | {
    "insufficient_quota",
    "max_tokens_exceeded",  # a limit for the answer, not for the request
}

_REJECT = lazy_pattern(
    r"per[ _]min(ute)?\b|\b[TR]PM\b|per[ _]day|throttl|please wait|rate.?limit|too many requests|quota"
    r"|\b(hour|dai|week|month)ly\b|max_tokens_exceeded|retry.?after|try again in \d",
    re.IGNORECASE,
)

_TEXT = lazy_pattern(
    r"maximum context length"  # OpenAI, OpenRouter, DeepSeek, vLLM, Together, Mistral
    # OpenAI Responses, llama.cpp and its Python server, LM Studio, Ollama, Cloudflare, Anthropic (max_tokens)
    r"|exceed(s|ed)? ((the|this|max(imum)?|available|model('?s)?) ){0,4}context (window|length|size|limit)"
    r"|context[ _](length|window)[ _]exceeded|token limit exceeded"  # gateways
    r"|too many tokens"  # Cohere, gateways; throttling errors with these words were excluded above
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
    # Copilot; without the first words, errors about file sizes would match, too
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

_SIZE = lazy_pattern(
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
"""Matches the window's size in an error message.

Most of these messages also state the size of the request.
"""

_STATUSES = frozenset({400, 413, 422})
_BODYLESS = frozenset({400, 413})
"""Statuses with which Cerebras rejects overlong requests, without a body."""


def is_overflow(status: int | None, code: str | None, text: str) -> bool:
    """Return whether an error means that the request exceeds the model's window.

    Args:
        status: HTTP status; None inside a stream.
        code: the error's code or type.
        text: the complete body of the response, which may be empty.
    """
    code = (code or "").strip().lower()
    if code in _CODES:
        return True
    if code in _NOT_CODES or status == 429 or _REJECT.search(text):
        return False
    if status is not None and status not in _STATUSES:
        return False
    if not text.strip():
        return status in _BODYLESS
    return _TEXT.search(text) is not None


def announced_window(text: str) -> int | None:
    """Return the window in tokens, if an error message states it."""
    match = _SIZE.search(text)
    if match is None:
        return None
    size = (match[1] or match[2]).replace(",", "")
    return int(size) if size else None


def silent_overflow(reported_input: int, window: int) -> bool:
    """Return whether a server has silently truncated the request.

    This is the case if the reported input is larger than the window.
    """
    return reported_input > window > 0
