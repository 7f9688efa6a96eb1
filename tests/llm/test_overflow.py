"""Refusals meaning "too long for the window", and the window they name."""

import pytest

from foldline.llm.overflow import announced_window, is_overflow, silent_overflow

TOO_LONG = [
    ("openai code", 400, "context_length_exceeded", "whatever the sentence is"),
    ("openai text", 400, None, "This model's maximum context length is 8192 tokens."),
    (
        "responses text",
        400,
        None,
        "Your input exceeds the context window of this model.",
    ),
    ("responses in the stream", None, "context_length_exceeded", ""),
    (
        "anthropic",
        400,
        "invalid_request_error",
        "prompt is too long: 213462 tokens > 200000 maximum",
    ),
    (
        "anthropic with max_tokens",
        400,
        "invalid_request_error",
        "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000",
    ),
    (
        "anthropic bytes",
        413,
        "request_too_large",
        "Request exceeds the maximum allowed number of bytes",
    ),
    ("finish reason of anthropic and z.ai", None, "model_context_window_exceeded", ""),
    ("bedrock", 400, "ValidationException", "Input is too long for requested model."),
    (
        "gemini",
        400,
        "INVALID_ARGUMENT",
        "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
    ),
    (
        "xai",
        400,
        None,
        "This model's maximum prompt length is 131072 but the request contains 140000 tokens.",
    ),
    ("groq", 400, None, "Please reduce the length of the messages or completion."),
    (
        "vllm",
        400,
        "BadRequestError",
        "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens",
    ),
    (
        "mistral text",
        400,
        None,
        "Prompt contains 40000 tokens, too large for model with 32768 maximum context length",
    ),
    ("mistral code", 422, "model_context_exceeded", "x"),
    ("mistral code two", 422, "prompt_too_long", "x"),
    ("mistral words", 422, None, "context too long"),
    ("mistral words two", 400, None, "input too large"),
    ("mistral words three", 400, None, "couldn't fit with truncation"),
    (
        "kimi",
        400,
        "invalid_request_error",
        "Invalid request: Your request exceeded model token limit: 262144 (requested: 270000)",
    ),
    ("minimax", 400, None, "invalid params, context window exceeds limit"),
    ("z.ai code", 400, "1261", "Prompt too long"),
    ("z.ai text", 400, None, "Prompt too long"),
    ("copilot", 400, None, "prompt token count of 140000 exceeds the limit of 128000"),
    (
        "copilot with commas",
        400,
        None,
        "prompt token count of 140,000 exceeds the limit of 128,000",
    ),
    ("copilot code", 400, "model_max_prompt_tokens_exceeded", "x"),
    ("cerebras 400 without a body", 400, None, ""),
    ("cerebras 413 without a body", 413, None, " \n"),
    (
        "llama.cpp text",
        400,
        "400",
        "the request exceeds the available context size. try increasing it",
    ),
    (
        "llama.cpp type in the body",
        400,
        "400",
        '{"type":"exceed_context_size_error","n_ctx":4096}',
    ),
    (
        "lm studio",
        400,
        None,
        "The number of tokens to keep from the initial prompt is greater than the context length.",
    ),
    ("in words", 400, None, "Context length exceeded"),
    (
        "in words, of the window",
        400,
        None,
        "Context window exceeded: requested 12000 tokens",
    ),
    ("too many tokens", 400, None, "Too many tokens"),
    ("token limit", 400, None, "token limit exceeded"),
    (
        "llama-cpp-python",
        400,
        None,
        "Requested tokens (13689) exceed context window of 12000",
    ),
    (
        "dashscope",
        400,
        "invalid_parameter_error",
        "Range of input length should be [1, 30720]",
    ),
    (
        "sglang",
        400,
        None,
        "The input (49146 tokens) is longer than the model's context length (40960 tokens).",
    ),
    (
        "sglang of old",
        400,
        None,
        "Input length (160062 tokens) exceeds the maximum allowed length (59862 tokens).",
    ),
    ("lm studio of old", 400, None, "Input length 6491 exceeds context length 1500"),
    ("litellm", 400, None, "litellm.ContextWindowExceededError: AzureException"),
    ("litellm code", 400, "ContextWindowExceededError", "x"),
]

SOMETHING_ELSE = [
    (
        "bedrock throttling",
        429,
        "ThrottlingException",
        "Too many tokens, please wait before trying again.",
    ),
    (
        "bedrock throttling in the stream",
        None,
        None,
        "Too many tokens, please wait before trying again.",
    ),
    ("too many tokens for the moment", 429, None, "Too many tokens"),
    ("a daily limit", 400, None, "Daily token limit exceeded"),
    (
        "bedrock throttling as a 400",
        400,
        None,
        "ThrottlingException: Too many tokens, please wait",
    ),
    (
        "groq tokens per minute",
        413,
        "rate_limit_exceeded",
        "Request too large for model on tokens per minute (TPM): Limit 6000, Requested 12000, "
        "please reduce the length of the messages",
    ),
    (
        "groq tokens per minute, no code",
        413,
        None,
        "Request too large: tokens per minute. input too large",
    ),
    (
        "groq in short",
        413,
        None,
        "Request too large (TPM): Limit 6000, please reduce the length of the messages",
    ),
    (
        "tokens per min in the stream",
        None,
        None,
        "Limit on tokens per min: reduce the length of the messages",
    ),
    ("429 without a body", 429, None, ""),
    ("429 that names the window", 429, None, "maximum context length is 8192 tokens"),
    ("quota", 429, "insufficient_quota", "You exceeded your current quota"),
    ("answer limit", 422, "max_tokens_exceeded", "max_tokens_exceeded"),
    ("answer limit in words", 422, None, "max_tokens_exceeded: the model stopped"),
    (
        "a file that is too big",
        400,
        None,
        "file size of 9000000 exceeds the limit of 5000000",
    ),
    (
        "server error that talks of context",
        500,
        None,
        "maximum context length is 8192 tokens",
    ),
    ("server error without a body", 500, None, ""),
    ("another bad request", 400, "invalid_request_error", "Unknown parameter: 'foo'."),
    ("refused key", 401, "invalid_api_key", "Incorrect API key provided"),
    ("an error in the stream without words", None, None, ""),
]


@pytest.mark.parametrize(
    ("status", "code", "text"),
    [row[1:] for row in TOO_LONG],
    ids=[row[0] for row in TOO_LONG],
)
def test_a_request_that_is_too_long_is_recognised(
    status: int | None, code: str | None, text: str
) -> None:
    assert is_overflow(status, code, text)


@pytest.mark.parametrize(
    ("status", "code", "text"),
    [row[1:] for row in SOMETHING_ELSE],
    ids=[row[0] for row in SOMETHING_ELSE],
)
def test_throttling_and_other_errors_are_not_overflow(
    status: int | None, code: str | None, text: str
) -> None:
    assert not is_overflow(status, code, text)


def test_a_success_above_the_window_is_silent_overflow() -> None:
    assert silent_overflow(32_769, 32_768)
    assert not silent_overflow(32_768, 32_768)
    assert not silent_overflow(5, 0), "an unknown window proves nothing"


ANNOUNCED = [
    (
        "This model's maximum context length is 128000 tokens. However, your messages resulted in 141072",
        128_000,
    ),
    (
        "This endpoint's maximum context length is 200,000 tokens. However, you requested about 230,034",
        200_000,
    ),
    ("maximum context length is 8193 tokens", 8_193),
    ("prompt is too long: 213462 tokens > 200000 maximum", 200_000),
    (
        "input length and `max_tokens` exceed context limit: 190211 + 20000 > 200000, decrease",
        200_000,
    ),
    (
        "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
        1_048_576,
    ),
    (
        "This model's maximum prompt length is 131072 but the request contains 140012 tokens.",
        131_072,
    ),
    (
        "The decoder prompt (length 5000) is longer than the maximum model length of 4096. Make sure",
        4_096,
    ),
    (
        "Prompt contains 40123 tokens, too large for model with 32768 maximum context length",
        32_768,
    ),
    ("Your request exceeded model token limit: 262144 (requested: 270031)", 262_144),
    ("prompt token count of 140,211 exceeds the limit of 128,000", 128_000),
    (
        "the model is loaded with context length of only 4096 tokens, which is not enough.",
        4_096,
    ),
    (
        '{"error":{"type":"exceed_context_size_error","n_prompt_tokens":5210,"n_ctx":4096}}',
        4_096,
    ),
    ("Requested tokens (13689) exceed context window of 12000", 12_000),
    (
        "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 30720]",
        30_720,
    ),
    (
        "The input (49146 tokens) is longer than the model's context length (40960 tokens).",
        40_960,
    ),
    (
        "Input length (160062 tokens) exceeds the maximum allowed length (59862 tokens).",
        59_862,
    ),
    ("Input length 6491 exceeds context length 1500", 1_500),
    ("Context length exceeded", None),
    ("prompt too long; exceeded max context length by 1114 tokens", None),
    (f"context window of {'9' * 5_000}", None),
]


@pytest.mark.parametrize(("text", "window"), ANNOUNCED)
def test_the_window_is_the_size_a_refusal_names(text: str, window: int | None) -> None:
    assert announced_window(text) == window
