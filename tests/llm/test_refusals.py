"""Errors of real servers: their message and their subject."""

import json
from typing import Any

import pytest

from foldline.llm.base import Subject
from foldline.llm.failures import (
    LONG_WAIT,
    NOT_FOUND,
    UNAVAILABLE,
    Endpoint,
    Failure,
    status_failure,
    stream_failure,
)
from foldline.llm.refusals import error_words, read_refusal
from support.sentences import says

ENDPOINT = Endpoint(
    "https://api.example.com/image-models/v1", "vision-7b", "sk-very-secret-0123456789"
)


def error(message: str, **fields: Any) -> dict[str, Any]:
    return {"error": {"message": message, **fields}}


def failure(status: int, body: Any, **headers: str) -> Failure:
    text = body if isinstance(body, str) else json.dumps(body)
    return status_failure(
        ENDPOINT,
        status,
        text,
        {name.replace("_", "-"): value for name, value in headers.items()},
    )


# --- envelopes -----------------------------------------------------------------------------------------

INNER = "max_tokens: 114916 > 64000, which is the maximum allowed number of output tokens for claude"
ANTHROPIC = {
    "type": "error",
    "error": {"type": "invalid_request_error", "message": INNER},
}
ENVELOPES = {
    "Anthropic": ANTHROPIC,
    "LiteLLM": error(
        f"litellm.BadRequestError: AnthropicException - {json.dumps(ANTHROPIC)}. Received Model Group=m",
        type=None,
        code="400",
    ),
    "OpenRouter": error(
        "Provider returned error", code=400, metadata={"raw": json.dumps(ANTHROPIC)}
    ),
    "claude-code-router before OpenRouter": error(
        "Error from provider(openrouter,x: 400): "
        + json.dumps(
            error(
                "Provider returned error",
                code=400,
                metadata={"raw": json.dumps(ANTHROPIC)},
            )
        ),
        type="api_error",
        code="provider_response_error",
    ),
    "claude-code-hub": {"error": {"type": "request_fail", "upstream_error": ANTHROPIC}},
    "as Python prints it": f"Error code: 400 - {ANTHROPIC}",
    "a list of Gemini's": [
        {"error": {"code": 400, "message": INNER, "status": "INVALID_ARGUMENT"}}
    ],
    "FastAPI": {"detail": INNER},
    "the name of the status beside it": {
        "statusCode": 400,
        "error": "Bad Request",
        "message": INNER,
    },
    "pollinations": {
        "error": "Anthropic API error: 400 Bad Request",
        "status": 500,
        "details": ANTHROPIC,
    },
    "Ollama": {"error": INNER},
    "Cloudflare": {"errors": [{"code": 5021, "message": INNER}]},
    "a bare text": INNER,
}


@pytest.mark.parametrize("body", ENVELOPES.values(), ids=ENVELOPES)
def test_the_innermost_message_is_read_and_shown(body: Any) -> None:
    text = body if isinstance(body, str) else json.dumps(body)
    assert error_words(text).message == INNER
    assert f'"{INNER}"' in failure(400, body).sentence


def test_the_upstream_error_of_gemini_behind_openrouter_is_shown() -> None:
    upstream = json.dumps(
        error("Function call is missing a thought_signature.", code=400), indent=2
    )
    raw = f"Gemini models require OpenRouter reasoning details. Upstream error: {upstream}\n"
    body = error(
        "Provider returned error",
        code=400,
        metadata={"raw": raw, "provider_name": "Google"},
    )
    assert (
        'it says "Function call is missing a thought_signature"'
        in failure(400, body).sentence
    )


ECHOES = {
    "FastAPI": {
        "detail": [
            {
                "type": "extra_forbidden",
                "loc": ["body", "stream_options"],
                "msg": "Extra inputs are not permitted",
                "input": {"image": "This model's maximum context length is 5 tokens"},
            }
        ]
    },
    "pydantic": error(
        "1 validation error: stream_options Extra inputs are not permitted [type=extra_forbidden, "
        "input_value={'content': 'the image, prompt is too long'}, input_type=dict]"
    ),
}


@pytest.mark.parametrize("body", ECHOES.values(), ids=ECHOES)
def test_an_echoed_part_of_the_request_does_not_classify_the_refusal(body: Any) -> None:
    refused = failure(422, body)
    assert refused.about in ("", "request")
    assert "image" not in refused.message
    assert "stream_options" in refused.message


@pytest.mark.parametrize(
    "body", ["{" * 70_000, '{"error":' * 5_000, "{'a': " * 3_000, "[" * 100_000, "\0{}"]
)
def test_an_endlessly_nested_error_is_read_to_a_limit(body: str) -> None:
    assert len(failure(400, body).sentence) < 500


# --- subjects ------------------------------------------------------------------------------------------

NO_PICTURES = [
    (
        404,
        error("No endpoints found that support image input", code=404),
    ),  # OpenRouter, MiMo
    (
        400,
        error("Invalid content type. image_url is only supported by certain models."),
    ),  # OpenAI
    (
        400,  # DeepSeek
        error(
            "Failed to deserialize the JSON body into the target type: messages[3]: unknown variant "
            "`image_url`, expected `text` at line 1 column 4795"
        ),
    ),
    (
        400,
        error(
            "At most 0 image(s) may be provided in one request.", type="BadRequestError"
        ),
    ),  # vLLM
    (400, error("Qwen/Qwen3-8B is not a multimodal model")),  # vLLM, Crusoe
    (500, error("Qwen/Qwen3-8B is not a multimodal model", code=500)),
    (
        500,  # llama.cpp
        error(
            "image input is not supported - hint: if this is unexpected, you may need to provide the mmproj",
            code=500,
            type="server_error",
        ),
    ),
    (
        500,
        error(
            "image input is not supported by this server", code=500, type="server_error"
        ),
    ),
    (
        500,
        error(
            'Failed to parse messages: Unsupported content part type: "image_url"',
            code=500,
        ),
    ),
    (
        500,
        {
            "error": "failed to process inputs: this model is missing data required for image input"
        },
    ),  # Ollama
    (400, error('model "claude-opus-4.6" not supported for vision')),  # Copilot
    (
        400,
        error(
            "missing required Copilot-Vision-Request header for vision requests",
            code="",
        ),
    ),
    (400, error("message[0].content must be a string")),  # Groq
    (
        400,
        error(
            "Image input is not enabled for this model", type="invalid_request_error"
        ),
    ),
    (400, error("[Unexpected item type in content]")),  # DashScope
    (400, error("Only 'text' content type is supported.")),  # mlx-lm
    (
        400,  # LiteLLM before a model of Anthropic's dialect
        error(
            "litellm.BadRequestError: OpenAIException - messages.1.content.0: Input tag 'image' found using "
            "'type' does not match any of the expected tags: 'text', 'tool_result'"
        ),
    ),
    (
        400,
        error(
            "The server was not compiled for multimodal or the model projector can't be loaded."
        ),
    ),
    (
        400,
        error("This model does not support images. Please use a model that does."),
    ),  # LM Studio
    (403, error("Image inputs are not available for this model")),
]


@pytest.mark.parametrize(("status", "body"), NO_PICTURES)
def test_a_model_without_vision_is_recognised_by_its_message_at_any_status(
    status: int, body: dict[str, Any]
) -> None:
    refused = failure(status, body)
    assert (refused.about, refused.of_request, refused.retry) == (
        "pictures",
        True,
        False,
    )
    assert not says(refused.sentence, NOT_FOUND)


ONE_PICTURE = [
    "messages.0.content.1.image.source.base64: image exceeds 5 MB maximum: 5316852 bytes > 5242880 bytes",
    "At least one of the image dimensions exceed max allowed size: 8000 pixels",
    "Could not process image",
    "At most 4 image(s) may be provided in one request.",
    "Invalid request: failed to decode image: invalid or unsupported image format",  # Kimi
    "You uploaded an unsupported image. Please make sure your image has of one of the following formats",
    "The image data you provided does not represent a valid image.",
    "Unable to process input image. Please retry.",  # Gemini
]


@pytest.mark.parametrize("message", ONE_PICTURE)
def test_a_too_large_or_broken_picture_does_not_mark_the_model_as_blind(
    message: str,
) -> None:
    assert failure(400, error(message)).about == "picture"


OTHER_REFUSALS: list[tuple[int, Any, Subject]] = [
    # Errors of credit, keys and rates only mention other subjects.
    (401, error("Invalid key for image input"), ""),
    (402, error("This request requires more credits, or fewer max_tokens."), "money"),
    (429, error("Too many image requests per minute"), "rate"),
    (
        429,
        error(
            "Image input is not supported on the free tier: rate limit",
            code="insufficient_quota",
        ),
        "money",
    ),
    # A content filter applies to any model.
    (
        400,
        error(
            "Your request was rejected by our safety system: an image of …",
            code="content_filter",
        ),
        "content",
    ),
    (
        403,
        error(
            "Your input was flagged: draw me an image",
            metadata={"flagged_input": "image"},
        ),
        "content",
    ),
    # Too long, also with pictures.
    (400, error("Total tokens of image and text exceed max message tokens."), "length"),
    (
        400,
        error("This model's maximum context length is 5 tokens; the image takes 900."),
        "length",
    ),
    # Parts of paths, of names, of other words.
    (404, error("The model `gpt-image-1` does not exist"), "request"),
    (404, error("no route to /v1/images/edits"), ""),
    (400, error("cannot read image.py"), ""),
    (400, error("imagery is the mediator of visions"), ""),
    (415, error("Unsupported Media Type"), "request"),
    # Temporary failures.
    (503, error("The image encoder does not support this many requests now"), ""),
    (500, error("image worker crashed"), ""),
    (502, error("upstream vision service: bad gateway"), ""),
    # Tools and other parts of a request.
    (404, error("No endpoints found that support tool use."), "tools"),
    (
        400,
        {"error": "registry.ollama.ai/library/gemma3:4b does not support tools"},
        "tools",
    ),
    (
        400,
        error(
            '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser'
        ),
        "tools",
    ),
    (
        500,
        error("tools param requires --jinja flag", code=500, type="server_error"),
        "request",
    ),
    (400, error("Unknown parameter: 'foo'."), "request"),
    (400, error("Bad Request"), ""),
]


@pytest.mark.parametrize(("status", "body", "about"), OTHER_REFUSALS)
def test_other_refusals_have_another_subject(
    status: int, body: Any, about: Subject
) -> None:
    assert failure(status, body).about == about


def test_an_error_in_a_stream_is_read_like_one_with_a_status() -> None:
    refused = stream_failure(
        ENDPOINT,
        {"code": 404, "message": "No endpoints found that support image input"},
    )
    assert (refused.about, refused.retry) == ("pictures", False)
    assert (
        stream_failure(ENDPOINT, {"message": "image input is not supported"}).about
        == "pictures"
    )
    busy = stream_failure(
        ENDPOINT, {"code": 529, "type": "overloaded_error", "message": "Overloaded"}
    )
    assert (busy.status, busy.retry) == (529, True)


# --- sentences and retries -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "message", "again"),
    [
        (500, "image input is not supported", False),
        (500, "Unsupported param: logprobs", False),
        (501, "This server does not support tools. Start it with `--jinja`", False),
        (500, "tools param requires --jinja flag", False),
        (500, "output_config: Extra inputs are not permitted", False),
        (500, "Internal server error", True),
        (503, "This model is not supported at the moment, try again later", True),
        (502, "Bad gateway", True),
    ],
)
def test_a_permanent_server_error_is_final(
    status: int, message: str, again: bool
) -> None:
    refused = failure(status, error(message))
    assert refused.retry is again
    assert says(refused.sentence, UNAVAILABLE) is again


def test_a_model_unknown_to_openrouter_is_reported_as_missing() -> None:
    missing = failure(404, error("No endpoints found for foo/bar."))
    assert says(missing.sentence, NOT_FOUND)
    policy = failure(404, error("No endpoints found matching your data policy"))
    assert not says(policy.sentence, NOT_FOUND)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [("600", "10 min"), ("3600", "1 h"), ("12000", "3 h 20 min"), ("259200", "3 days")],
)
def test_a_wait_longer_than_all_retries_is_reported_and_not_waited_for(
    seconds: str, said: str
) -> None:
    limited = failure(429, error("slow down"), retry_after=seconds)
    assert not limited.retry
    assert LONG_WAIT.format(duration=said) in limited.sentence
    assert failure(429, error("slow down"), retry_after="120").retry


def test_the_available_context_size_is_the_window() -> None:
    message = "request (5210 tokens) exceeds the available context size (4096 tokens), try increasing it"
    assert failure(400, error(message)).window == 4_096


def test_an_html_page_gives_no_message() -> None:
    assert error_words("<html>no image input</html>").message == ""
    assert read_refusal(500, error_words("<html>"), "<html>").about == ""
