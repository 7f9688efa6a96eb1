"""What is publicly known about models: windows and output limits, by name. Guesses err low."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple
from urllib.parse import urlsplit

from .base import ModelInfo

DEFAULT_WINDOW = 32_768
"""Tokens, for a model nobody here has heard of: small enough not to overflow most servers of today."""


class _Known(NamedTuple):
    prefix: str
    window: int
    max_output: int | None = None


# From the vendors' public model pages as of 2025; longer prefixes first where one begins another.
_KNOWN: Sequence[_Known] = (
    _Known("gpt-5-chat", 128_000, 16_384),
    _Known("gpt-5", 400_000, 128_000),
    _Known("gpt-4.1", 1_047_576, 32_768),
    _Known("gpt-4o", 128_000, 16_384),
    _Known("gpt-4-turbo", 128_000, 4_096),
    _Known("gpt-4", 8_192, 8_192),
    _Known("gpt-3.5-turbo", 16_385, 4_096),
    _Known("gpt-oss", 131_072),
    _Known("o1", 200_000, 100_000),
    _Known("o3", 200_000, 100_000),
    _Known("o4", 200_000, 100_000),
    _Known("kimi-k2-0711", 131_072),
    _Known("kimi-k2", 262_144),
    _Known("kimi-latest", 131_072),
    _Known("kimi", 131_072),
    _Known("moonshot-v1-8k", 8_192),
    _Known("moonshot-v1-32k", 32_768),
    _Known("moonshot-v1-128k", 131_072),
    _Known("deepseek", 131_072),
    _Known("glm-4.6", 200_000, 128_000),
    _Known("glm", 128_000),
    _Known("qwen3-coder", 262_144),
    _Known("qwen", 32_768),
    _Known("qwq", 32_768),
    _Known("claude", 200_000),
    _Known("gemini-1.5-pro", 2_097_152, 8_192),
    _Known("gemini", 1_048_576),
    _Known("llama-4", 131_072),
    _Known("llama-3.1", 131_072),
    _Known("llama-3.2", 131_072),
    _Known("llama-3.3", 131_072),
    _Known("llama", 8_192),
    _Known("mistral", 32_768),
    _Known("codestral", 32_768),
    _Known("devstral", 131_072),
    _Known("minimax-m", 196_608),
    _Known("grok-4", 256_000),
    _Known("grok", 131_072),
)

_WINDOW_FIELDS = (
    "max_model_len",  # vLLM, SGLang
    "context_length",  # OpenRouter, Moonshot, Together
    "context_window",  # Groq
    "max_context_length",  # Mistral, LM Studio
    "n_ctx",  # llama.cpp
)
_INNER = ("meta", "metadata", "top_provider", "limits")
"""Places in a listed model where servers put such fields, apart from the top."""


def model_info(model_id: str, base_url: str | None = None, window: int | None = None) -> ModelInfo:
    """What is known of a model. `window`, in tokens, overrides; an unknown model gets `DEFAULT_WINDOW`."""
    known = _known(model_id)
    return ModelInfo(
        id=model_id,
        window=window or (known.window if known else DEFAULT_WINDOW),
        max_output=known.max_output if known else None,
        provider=_provider(base_url),
    )


def is_known(model_id: str) -> bool:
    return _known(model_id) is not None


def listed_window(record: Mapping[str, object]) -> int | None:
    """The window, in tokens, that a record of `/v1/models` states; None where it states none."""
    places = [record, *(inner for name in _INNER if isinstance(inner := record.get(name), Mapping))]
    for place in places:
        for name in _WINDOW_FIELDS:
            value = place.get(name)
            if isinstance(value, int) and not isinstance(value, bool) and value > 0:
                return value
    return None


def _known(model_id: str) -> _Known | None:
    # "moonshotai/Kimi-K2-Instruct", "models/gemini-2.5-pro", "llama3.1:8b": the last part, hyphens apart.
    name = model_id.lower().rsplit("/", 1)[-1].replace("-", "")
    return next((known for known in _KNOWN if name.startswith(known.prefix.replace("-", ""))), None)


def _provider(base_url: str | None) -> str:
    if base_url is None:
        return "api.openai.com"
    return urlsplit(base_url).netloc.rsplit("@", 1)[-1]
