"""Fields added by Foldline: finding the refused one, and the later requests."""

from typing import Any

import pytest

from foldline.llm.own_fields import LeftOut, limit_named, refused_field

CHAT: dict[str, Any] = {
    "model": "m",
    "messages": [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "hi", "cache_control": {"type": "ephemeral"}}
            ],
        },
        {"role": "assistant", "content": "yes", "reasoning_content": "…"},
    ],
    "stream_options": {"include_usage": True},
    "max_tokens": 114_916,
    "prompt_cache_key": "s",
    "tools": [
        {
            "type": "function",
            "function": {"name": "thinking", "parameters": {"signature": {}}},
        }
    ],
    "tool_choice": "none",
    "return_progress": True,
}
MESSAGES: dict[str, Any] = {
    "model": "m",
    "messages": [
        {
            "role": "assistant",
            "content": [{"type": "thinking", "thinking": "…", "signature": "s"}],
        },
        {
            "role": "user",
            "content": [{"type": "text", "text": '{"encrypted_content": 1}'}],
        },
    ],
    "max_tokens": 114_916,
    "thinking": {"type": "adaptive"},
}
RESPONSES: dict[str, Any] = {
    "model": "m",
    "input": [{"type": "reasoning", "encrypted_content": "e"}],
    "include": ["reasoning.encrypted_content"],
    "reasoning": {"summary": "auto", "effort": "high"},
    "max_output_tokens": 114_916,
    "store": False,
}
REFUSALS = [
    # OpenAI, Azure, one-api
    (
        CHAT,
        "Unknown parameter: 'stream_options'. (request id: 20240806214436917505976)",
        "usage",
    ),
    (
        CHAT,
        "Extra parameters ['stream_options'] are not allowed when extra-parameters is not set",
        "usage",
    ),
    (CHAT, "body.stream_options: Extra inputs are not permitted", "usage"),
    (
        CHAT,
        "Unsupported parameter: 'max_tokens' is not supported with this model.",
        "answer limit",
    ),
    (
        CHAT,
        "Invalid max_tokens value, the valid range of max_tokens is [1, 8192]",
        "answer limit",
    ),
    (CHAT, "Thinking mode does not support this tool_choice", "tools off"),
    (CHAT, "property 'prompt_cache_key' is unsupported", "session"),
    (
        CHAT,
        "messages.0.content.0.cache_control: Extra inputs are not permitted",
        "marks",
    ),
    (
        CHAT,
        "property 'reasoning_content' is unsupported, did you mean 'max_tokens'?",
        "old thinking",
    ),
    (CHAT, "unknown field `return_progress`", "progress"),
    # Anthropic, LiteLLM before OpenAI, Bedrock
    (MESSAGES, "adaptive thinking is not supported on this model", "thinking"),
    (
        MESSAGES,
        "Unsupported parameter: 'reasoning.effort' is not supported with this model.",
        "thinking",
    ),
    (
        MESSAGES,
        "thinking: unknown field `thinking`, expected one of `messages`, `max_tokens`",
        "thinking",
    ),
    (
        MESSAGES,
        "messages.1.content.0: Invalid `signature` in `thinking` block",
        "old thinking",
    ),
    (RESPONSES, "Unsupported parameter: max_output_tokens", "answer limit"),
    (
        RESPONSES,
        "Encrypted content is not supported with this model.",
        "encrypted reasoning",
    ),
    (RESPONSES, "The encrypted content gAAA could not be verified.", "old thinking"),
    (
        RESPONSES,
        "Unsupported parameter: 'reasoning.summary' is not supported",
        "shown reasoning",
    ),
    (
        RESPONSES,
        "Unsupported parameter: 'reasoning.effort' is not supported with this model.",
        "effort",
    ),
]


@pytest.mark.parametrize(("body", "message", "name"), REFUSALS)
def test_a_refusal_concerns_the_first_sent_field_it_names(
    body: dict[str, Any], message: str, name: str
) -> None:
    refused = refused_field(message, body)
    assert refused is not None
    assert refused.name == name


OTHER_REFUSALS = [
    (CHAT, "Unsupported parameter: 'temperature' is not supported with this model."),
    (
        CHAT,
        "Unknown field `foo`, expected one of `messages`, `max_tokens`, `stream_options`",
    ),
    (
        CHAT,
        "The `reasoning_content` in the thinking mode must be passed back to the API.",
    ),  # DeepSeek
    (CHAT, "Function call is missing a thought_signature"),
    (CHAT, "Unsupported parameter: 'reasoning.effort'"),  # not sent
    (CHAT, "thinking is not supported"),  # the name of a tool
    (CHAT, "max_tokens_exceeded"),
    (MESSAGES, "encrypted_content is unknown"),  # a word in the text
]


@pytest.mark.parametrize(("body", "message"), OTHER_REFUSALS)
def test_an_unsent_or_required_field_is_not_the_refused_one(
    body: dict[str, Any], message: str
) -> None:
    assert refused_field(message, body) is None


LIMITS = [
    (
        "max_tokens is too large: 114916. This model supports at most 16384 completion tokens, whereas you",
        16_384,
    ),
    (
        "max_tokens: 114916 > 64000, which is the maximum allowed number of output tokens for claude-3-5",
        64_000,
    ),
    (
        "Invalid max_tokens value, the valid range of max_tokens is [1, 8192]",
        8_192,
    ),  # DeepSeek
    (
        "`max_tokens` must be less than or equal to `16384`, the maximum value for `max_tokens`",
        16_384,
    ),  # Groq
    ("max_tokens for `llama-3.1-8b-instant` must be less than or equal to 8000", 8_000),
    (
        "<400> InternalError.Algo.InvalidParameter: Range of max_tokens should be [1, 65536]",
        65_536,
    ),  # Qwen
    (
        "Unable to submit request because it has a maxOutputTokens value of 114916 but the supported range "
        "is from 1 (inclusive) to 65537 (exclusive). Update the value and try again.",
        65_536,
    ),
    (
        "The maximum tokens you requested exceeds the model limit of 8,192. Try again with a lower value",
        8_192,
    ),
    ("max_tokens is too large", None),
    ("max_tokens: 400 Bad Request (gpt-4o-2024-08-06, status 40)", 400),
    ("max_tokens is too small: 200000", None),
]


@pytest.mark.parametrize(("message", "most"), LIMITS)
def test_the_limit_named_in_a_refusal_is_sent_from_then_on(
    message: str, most: int | None
) -> None:
    assert limit_named(message, 114_916) == most
    left_out = LeftOut()
    assert left_out.learn(message, {"max_tokens": 114_916})
    assert left_out.trimmed({"max_tokens": 114_916}).get("max_tokens") == most
    assert left_out.trimmed({"max_tokens": 300}).get("max_tokens") == (
        None if most is None else 300
    )


def test_an_endless_number_is_not_a_limit() -> None:
    assert limit_named("max_tokens is not " + "9" * 5_000, 9_000) is None


def test_a_limit_refused_twice_without_a_smaller_number_is_omitted() -> None:
    left_out = LeftOut()
    message = "max_tokens must be below 8192"
    assert left_out.learn(message, {"max_tokens": 10_000})
    assert left_out.learn(message, {"max_tokens": 8_192})
    assert left_out.trimmed({"max_tokens": 10_000}) == {}
    assert not left_out.learn(message, {"model": "m"})


def test_the_field_the_server_wants_instead_is_sent() -> None:
    left_out = LeftOut()
    message = "'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
    assert left_out.learn(message, {"max_tokens": 9_000})
    assert left_out.trimmed({"max_tokens": 9_000}) == {"max_completion_tokens": 9_000}
    assert left_out.learn(
        "max_completion_tokens is too large: 9000, at most 4096",
        {"max_completion_tokens": 9_000},
    )
    assert left_out.trimmed({"max_tokens": 9_000}) == {"max_completion_tokens": 4_096}


def test_a_field_refused_under_both_names_is_omitted() -> None:
    left_out = LeftOut()
    first, second = "max_tokens", "max_completion_tokens"
    assert left_out.learn(
        f"Unsupported: {first!r}. Use {second!r} instead.", {first: 9_000}
    )
    assert left_out.learn(
        f"Unsupported: {second!r}. Use {first!r} instead.", {second: 9_000}
    )
    assert left_out.trimmed({first: 9_000}) == {}


def test_an_unknown_effort_set_by_the_user_is_not_omitted() -> None:
    left_out = LeftOut()
    body = {"reasoning_effort": "max"}
    assert not left_out.learn(
        "Unsupported value: 'max' is not supported. reasoning_effort may be 'low'", body
    )
    assert left_out.learn(
        "Unrecognized request argument supplied: reasoning_effort", body
    )
    assert left_out.trimmed(body) == {}


def test_the_rest_of_a_nested_field_is_kept() -> None:
    left_out = LeftOut(["shown reasoning"])
    assert left_out.trimmed({"reasoning": {"summary": "auto", "effort": "low"}}) == {
        "reasoning": {"effort": "low"}
    }
    assert left_out.trimmed({"reasoning": {"summary": "auto"}}) == {}
