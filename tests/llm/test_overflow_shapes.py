"""Refusals of each server over HTTP: overflow or another failure.

The bodies are complete as far as known; `test_overflow.py` has the bare sentences and codes.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from foldline.llm import Answer, ContextOverflow, LLMError, Request
from foldline.llm.failures import RATE_LIMITED
from foldline.protocol import AssistantMessage, UserMessage, text_parts
from support.clients import chat_at
from support.sentences import pattern
from support.server import RunningServer, running_server


@dataclass(frozen=True)
class Shape:
    """An answer of a server, named by its row."""

    name: str
    status: int = 400
    body: Any = ""
    headers: dict[str, str] = field(default_factory=dict)
    answer: dict[str, Any] | None = None
    """A scripted answer in place of an HTTP error."""

    @property
    def script(self) -> dict[str, Any]:
        fault = {"status": self.status, "body": self.body, "headers": self.headers}
        return {
            "when": {"content": f"^{self.name}$"},
            "answer": self.answer or {"fault": fault},
        }


def error(message: str, **fields: Any) -> dict[str, Any]:
    return {"error": {"message": message, **fields}}


def streamed(*events: Any) -> dict[str, Any]:
    """Return a stream with status 200 and these events."""
    return {"fault": {"raw": list(events)}}


OPENAI = (
    "This model's maximum context length is 128000 tokens. However, your messages resulted in 141072 tokens. "
    "Please reduce the length of the messages."
)
CODEX = "Your input exceeds the context window of this model. Please adjust your input and try again."
ANTHROPIC = "prompt is too long: 213462 tokens > 200000 maximum"
GROQ_TPM = (
    "Request too large for model `llama-3.3-70b-versatile` in organization `org_1` service tier "
    "`on_demand` on tokens per minute (TPM): Limit 12000, Requested 15034, please reduce your message "
    "size and try again."
)
LM_STUDIO = (
    "The number of tokens to keep from the initial prompt is greater than the context length. Try to "
    "load the model with a larger context length, or provide a shorter "
    "input"
)
LLAMA_CPP = {
    "code": 400,
    "message": "the request exceeds the available context size, try increasing it",
    "type": "exceed_context_size_error",
    "n_prompt_tokens": 5210,
    "n_ctx": 4096,
}
FAILED = {
    "type": "response.failed",
    "response": {
        "status": "failed",
        "error": {"code": "context_length_exceeded", "message": CODEX},
    },
}

OVERFLOWS: list[tuple[str, int, Any, int | None]] = [
    (
        "OpenAI's configured limit",
        400,
        error(
            "Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 509178."
        ),
        272_000,
    ),
    (
        "Cloudflare",
        413,
        {
            "errors": [
                {
                    "code": 5021,
                    "message": "AiError: The estimated number of input and maximum output tokens (155740) "
                    "exceeded this model context window limit (128000).",
                }
            ]
        },
        128_000,
    ),
    (
        "Poolside",
        400,
        error("Input exceeds the maximum allowed input length of 131072 tokens."),
        131_072,
    ),
    (
        "DeepInfra",
        400,
        error("Requested input length 40000 exceeds maximum input length 32768"),
        32_768,
    ),
    (
        "Nova",
        400,
        {"message": "The number of input tokens exceeds maximum length 300000."},
        300_000,
    ),
    (
        "Novita",
        400,
        error("The input is longer than the model's context length."),
        None,
    ),
    (
        "ds4",
        400,
        error(
            "Prompt has 32769 tokens, but the configured context size is 32768 tokens"
        ),
        32_768,
    ),
    (
        "Text Generation Inference",
        422,
        {
            "error": "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: "
            "4031 `inputs` tokens and 200 `max_new_tokens`",
            "error_type": "validation",
        },
        4_096,
    ),
    (
        "Text Generation Inference, inputs alone",
        422,
        {
            "error": "Input validation error: `inputs` must have less than 1024 tokens. Given: 3000"
        },
        1_024,
    ),
    (
        "Volcengine",
        400,
        error(
            "Total tokens of image and text exceed max message tokens. Request id: 0217",
            type="BadRequest",
        ),
        None,
    ),
    (
        "SiliconFlow",
        400,
        {
            "code": 20015,
            "message": "length of prompt_tokens (40960) must be less than max_seq_len (32768).",
        },
        32_768,
    ),
    (
        "watsonx",
        400,
        {
            "errors": [
                {
                    "code": "invalid_input_argument",
                    "message": "Invalid input argument for Model 'x': the number of input tokens 9000 cannot "
                    "exceed the total tokens limit 8192 for this model",
                }
            ]
        },
        8_192,
    ),
    (
        "NIM",
        400,
        {"error": "Input length 9001 exceeds maximum allowed token size 8192"},
        8_192,
    ),
    ("AWS", 400, {"message": "tokens in request more than max tokens allowed"}, None),
    (
        "Vertex of old",
        400,
        error("The input token count is 135538 but model only supports up to 131072"),
        131_072,
    ),
    (
        "Cohere",
        400,
        {"message": "too many tokens: total number of tokens cannot exceed 4081"},
        None,
    ),
    ("Baidu", 400, {"error_code": 336103, "error_msg": "prompt tokens too long"}, None),
    (
        "vLLM's own name",
        400,
        error("The prompt of 9000 tokens exceeds the max_model_len"),
        None,
    ),
    (
        "LiteLLM of an OpenAI-compatible server",
        400,
        error(
            "litellm.BadRequestError: OpenAIException - Input length (265330) exceeds model's maximum "
            "context length (262144).",
            code="400",
        ),
        262_144,
    ),
    (
        "llama-cpp-python",
        400,
        error(
            "This model's maximum context length is 4096 tokens. However, you requested 5210 tokens (5210 in "
            "the messages, 0 in the completion). Please reduce the length of the messages or completion.",
            type="invalid_request_error",
            param="messages",
            code="context_length_exceeded",
        ),
        4_096,
    ),
]
"""Answers of other servers: status, body and the window named in it."""

TOO_LONG = [
    Shape(
        "OpenAI",
        body=error(
            OPENAI,
            type="invalid_request_error",
            param="messages",
            code="context_length_exceeded",
        ),
    ),
    Shape(
        "Azure without a code",
        body=error(OPENAI, type="invalid_request_error", param="messages", code=None),
    ),
    Shape(
        "OpenAI Responses",
        body=error(CODEX, type="invalid_request_error", param="input", code=None),
    ),
    Shape("Codex in the stream", answer=streamed(FAILED)),
    Shape(
        "OpenAI in the stream",
        answer=streamed(
            error(
                "too long", type="invalid_request_error", code="context_length_exceeded"
            )
        ),
    ),
    Shape(
        "Anthropic",
        body={"type": "error", **error(ANTHROPIC, type="invalid_request_error")},
    ),
    Shape(
        "Anthropic with max_tokens",
        body={
            "type": "error",
            **error(
                "input length and `max_tokens` exceed context limit: 190211 + 20000 > 200000, decrease input "
                "length or `max_tokens` and try again",
                type="invalid_request_error",
            ),
        },
    ),
    Shape(
        "Anthropic in bytes",
        413,
        {
            "type": "error",
            **error("Request exceeds the maximum size", type="request_too_large"),
        },
    ),
    Shape(
        "Anthropic behind OpenRouter",
        body=error(
            "Provider returned error",
            code=400,
            metadata={
                "raw": json.dumps(
                    {"type": "error", **error(ANTHROPIC, type="invalid_request_error")}
                ),
                "provider_name": "Anthropic",
            },
        ),
    ),
    Shape(
        "finish reason with nothing said",
        answer={"text": "", "finish_reason": "model_context_window_exceeded"},
    ),
    Shape(
        "finish reason after some words",
        answer={"text": "half of it", "finish_reason": "model_context_window_exceeded"},
    ),
    Shape(
        "Bedrock",
        body={"message": "Input is too long for requested model."},
        headers={"x-amzn-errortype": "ValidationException"},
    ),
    Shape(
        "Gemini",
        body=[
            error(
                "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
                code=400,
                status="INVALID_ARGUMENT",
            )
        ],
    ),
    Shape(
        "Vertex",
        body=error(
            "Unable to submit request because the input token count is 1200000 but the model only "
            "supports up to 1048576. The input token count (1200000) exceeds the maximum number of "
            "tokens allowed "
            "(1048576).",
            code=400,
            status="INVALID_ARGUMENT",
        ),
    ),
    Shape(
        "xAI",
        body={
            "code": "Client specified an invalid argument",
            "error": "This model's maximum prompt length is 131072 but the request contains 140012 tokens.",
        },
    ),
    Shape(
        "Groq",
        body=error(
            "Please reduce the length of the messages or completion.",
            type="invalid_request_error",
            param="messages",
            code="context_length_exceeded",
        ),
    ),
    Shape(
        "Groq without a code",
        body=error(
            "Please reduce the length of the messages or completion.",
            type="invalid_request_error",
        ),
    ),
    Shape(
        "OpenRouter",
        body=error(
            "This endpoint's maximum context length is 200000 tokens. However, you requested about "
            "230034 tokens (220034 of text input, 10000 in the output). Please reduce the length of "
            "either one.",
            code=400,
            metadata={"provider_name": None},
        ),
    ),
    Shape(
        "OpenRouter in the stream",
        answer=streamed(
            {
                **error(
                    "This endpoint's maximum context length is 32768 tokens.", code=400
                ),
                "choices": [
                    {"index": 0, "delta": {"content": ""}, "finish_reason": "error"}
                ],
            }
        ),
    ),
    Shape(
        "DeepSeek",
        body=error(
            "This model's maximum context length is 131072 tokens. However, you requested 140000 tokens "
            "(135904 in the messages, 4096 in the completion). Please reduce the length of the messages or "
            "completion.",
            type="invalid_request_error",
            param=None,
            code="invalid_request_error",
        ),
    ),
    Shape(
        "vLLM",
        body={
            "object": "error",
            "message": "This model's maximum context length is 4096 tokens. However, you requested 5000 "
            "tokens in the messages, Please reduce the length of the "
            "messages.",
            "type": "BadRequestError",
            "param": None,
            "code": 400,
        },
    ),
    Shape(
        "vLLM of today",
        body=error(
            "The decoder prompt (length 5000) is longer than the maximum model length of 4096. Make "
            "sure that `max_model_len` is no smaller than the number of text "
            "tokens.",
            type="BadRequestError",
            param=None,
            code=400,
        ),
    ),
    Shape(
        "Together",
        422,
        error(
            "maximum context length is 8193 tokens",
            type="invalid_request_error",
            param=None,
            code=None,
        ),
    ),
    Shape(
        "Mistral",
        body={
            "object": "error",
            "message": "Prompt contains 40123 tokens and 0 draft tokens, too large for model with 32768 "
            "maximum context "
            "length",
            "type": "invalid_request_prompt",
            "param": None,
            "code": "3051",
        },
    ),
    *(
        Shape(
            f"Mistral {code}",
            422,
            {
                "object": "error",
                "message": "The request was refused.",
                "type": code,
                "code": code,
            },
        )
        for code in ("model_context_exceeded", "prompt_too_long")
    ),
    *(
        Shape(
            f"Mistral, {words}",
            422,
            {"object": "error", "message": {"detail": [{"msg": words}]}},
        )
        for words in (
            "context too long",
            "input too large",
            "couldn't fit with truncation",
        )
    ),
    Shape(
        "Kimi",
        body=error(
            "Invalid request: Your request exceeded model token limit: 262144 (requested: 270031)",
            type="invalid_request_error",
        ),
    ),
    Shape(
        "MiniMax",
        body={
            "type": "error",
            **error(
                "invalid params, context window exceeds limit (2013)",
                type="bad_request_error",
                http_code="400",
            ),
        },
    ),
    Shape("z.ai 1261", body=error("Prompt exceeds max length", code="1261")),
    Shape(
        "Copilot",
        body=error(
            "prompt token count of 140211 exceeds the limit of 128000",
            code="model_max_prompt_tokens_exceeded",
        ),
    ),
    Shape(
        "Copilot without a code",
        body=error("prompt token count of 140211 exceeds the limit of 128000"),
    ),
    Shape("Cerebras 400 without a body", 400, ""),
    Shape("Cerebras 413 without a body", 413, ""),
    Shape("llama.cpp", body={"error": LLAMA_CPP}),
    Shape("llama.cpp in the stream", answer=streamed({"error": LLAMA_CPP})),
    Shape("LM Studio", body={"error": LM_STUDIO}),
    Shape("LM Studio in the stream", answer=streamed(error(LM_STUDIO))),
    Shape(
        "LM Studio of today",
        body={
            "error": "Trying to keep the first 5210 tokens when context the overflows. However, the "
            "model is loaded with context length of only 4096 tokens, which is not "
            "enough."
        },
    ),
    Shape(
        "Ollama that does not truncate",
        body=error(
            "prompt too long; exceeded max context length by 1114 tokens",
            type="invalid_request_error",
        ),
    ),
    *(
        Shape(f"in words {number}", body=error(words))
        for number, words in enumerate(
            (
                "Context length exceeded",
                "Too many tokens",
                "token limit exceeded",
                "Requested tokens (13689) exceed context window of 12000",
                "Range of input length should be [1, 30720]",
            )
        )
    ),
    *(Shape(name, status, body) for name, status, body, _ in OVERFLOWS),
    Shape(
        "litellm",
        body=error(
            "litellm.ContextWindowExceededError: litellm.BadRequestError: AzureException - too many tokens",
            type=None,
            param=None,
            code="400",
        ),
    ),
]

SOMETHING_ELSE = [
    Shape(
        "Bedrock throttling",
        429,
        {"message": "Too many tokens, please wait before trying again."},
        {"x-amzn-errortype": "ThrottlingException"},
    ),
    Shape(
        "Bedrock throttling behind a proxy",
        body=error(
            "ThrottlingException: Too many tokens, please wait before trying again.",
            code="400",
        ),
    ),
    Shape("Groq TPM", 413, error(GROQ_TPM, type="tokens", code="rate_limit_exceeded")),
    Shape("Groq TPM without a code", 413, error(GROQ_TPM)),
    Shape(
        "OpenAI TPM",
        429,
        error(
            "Request too large for gpt-4o in organization org-1 on tokens per min (TPM): Limit 30000, "
            "Requested 45031. The input or output tokens must be reduced in order to run "
            "successfully.",
            type="tokens",
            code="rate_limit_exceeded",
        ),
    ),
    Shape(
        "OpenAI TPM in the stream",
        answer=streamed(
            error(
                "Rate limit reached on tokens per min (TPM)", code="rate_limit_exceeded"
            )
        ),
    ),
    Shape(
        "Anthropic's rate limit",
        429,
        {
            "type": "error",
            **error(
                "This request would exceed your organization's rate limit of 40,000 input tokens per minute. "
                "Please reduce the prompt length or the maximum tokens requested, or try again later.",
                type="rate_limit_error",
            ),
        },
    ),
    Shape("Cerebras 429 without a body", 429, ""),
    Shape(
        "Copilot's file size",
        body=error(
            "failed to parse request: file size of 20971520 exceeds the limit of 10485760"
        ),
    ),
    Shape(
        "a proxy's limit in bytes",
        413,
        "<html><head><title>413 Request Entity Too Large</title></head><body>nginx</body></html>",
    ),
    Shape(
        "the answer's limit",
        422,
        error(
            "max_tokens_exceeded: the completion was stopped",
            code="max_tokens_exceeded",
        ),
    ),
    Shape(
        "another bad request",
        body=error("Unknown parameter: 'foo'.", type="invalid_request_error"),
    ),
    Shape(
        "a failure of the server", 500, error("maximum context length is 8192 tokens")
    ),
    Shape(
        "overloaded in the stream",
        answer=streamed(error("Overloaded", type="overloaded_error")),
    ),
    Shape("the answer's range", body=error("Range of max_tokens should be [1, 8192]")),
    Shape(
        "the answer's limit of Text Generation Inference",
        422,
        {
            "error": "Input validation error: `max_new_tokens` must be <= 4096. Given: 8000"
        },
    ),
    Shape(
        "too many tokens at a time", body=error("Rate limit exceeded: too many tokens")
    ),
    Shape(
        "too many tokens for now", body=error("Too many tokens, retry after 12 seconds")
    ),
    Shape(
        "Bedrock's daily limit",
        body=error("Too many tokens per day, please wait", code="400"),
    ),
    Shape(
        "too many tools",
        body=error("Invalid 'tools': array too long. Expected at most 128."),
    ),
    Shape(
        "a quota",
        429,
        error(
            "You exceeded your current quota, please check your plan.",
            code="insufficient_quota",
        ),
    ),
]

WINDOWS = {"in words 3": 12_000, "in words 4": 30_720} | {
    name: size for name, _, _, size in OVERFLOWS
}
"""The window each refusal names."""

CUT_OFF = [
    Shape("cut off by length", answer={"text": "half of it", "finish_reason": "length"})
]


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    with running_server(
        script=[shape.script for shape in (*TOO_LONG, *SOMETHING_ELSE, *CUT_OFF)]
    ) as running:
        yield running


async def ask(server: RunningServer, name: str) -> AssistantMessage:
    async def at_once(_: float) -> None:
        pass

    client = chat_at(server.base_url, model=server.model, window=32_768, sleep=at_once)
    request = Request(messages=[UserMessage(index=0, parts=text_parts(name))])
    try:
        async for chunk in client.stream(request):
            if isinstance(chunk, Answer):
                return chunk.message
    finally:
        await client.aclose()
    raise AssertionError("the stream ended without an answer")


@pytest.mark.parametrize("shape", TOO_LONG, ids=lambda shape: shape.name)
async def test_a_request_that_is_too_long_is_overflow_and_not_retried(
    server: RunningServer, shape: Shape
) -> None:
    before = len(server.requests())
    with pytest.raises(ContextOverflow) as overflow:
        await ask(server, shape.name)
    assert len(server.requests()) == before + 1
    if shape.name in WINDOWS:
        assert overflow.value.window == WINDOWS[shape.name]


@pytest.mark.parametrize("shape", SOMETHING_ELSE, ids=lambda shape: shape.name)
async def test_throttling_and_other_failures_are_never_overflow(
    server: RunningServer, shape: Shape
) -> None:
    with pytest.raises(LLMError) as failure:
        await ask(server, shape.name)
    assert not isinstance(failure.value, ContextOverflow)


async def test_a_rate_limit_with_status_413_is_reported_as_a_rate_limit(
    server: RunningServer,
) -> None:
    with pytest.raises(
        LLMError, match=pattern(RATE_LIMITED, status=" (413)")
    ) as failure:
        await ask(server, "Groq TPM")
    assert "images" not in str(failure.value)


@pytest.mark.parametrize("shape", CUT_OFF, ids=lambda shape: shape.name)
async def test_an_answer_cut_off_at_its_output_limit_is_accepted(
    server: RunningServer, shape: Shape
) -> None:
    answer = await ask(server, shape.name)
    assert (answer.text, answer.stop_reason) == ("half of it", "length")
