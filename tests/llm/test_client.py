"""The real client against the scripted_server server in its own process."""

import asyncio
from typing import Any

import pytest

from foldline.llm import (
    Answer,
    ContextOverflow,
    RetryChunk,
    TextChunk,
    ThinkingChunk,
    ToolCallChunk,
)
from foldline.llm.providers import PROVIDERS, is_local
from foldline.protocol import (
    AssistantMessage,
    Message,
    ToolCallPart,
    ToolResultMessage,
    UserMessage,
    text_parts,
)
from support.clients import (
    KEY,
    READ,
    Waits,
    answer_of,
    chunks_of,
    client_of,
    error_of,
    prompt,
    scripted_server,
)

CODE_ERROR = {
    "error": {
        "message": "too long",
        "type": "invalid_request_error",
        "code": "context_length_exceeded",
    }
}


async def test_text_arrives_in_pieces_and_complete() -> None:
    with scripted_server(
        {"text": "It is a long answer, cut in several pieces.", "chunk": 8}
    ) as server:
        client = client_of(server)
        chunks = await chunks_of(client, prompt())
        texts = [chunk.text for chunk in chunks if isinstance(chunk, TextChunk)]
        assert len(texts) > 3
        assert isinstance(chunks[-1], Answer)
        message = chunks[-1].message
        assert (
            message.text
            == "".join(texts)
            == "It is a long answer, cut in several pieces."
        )
        assert message.stop_reason == "stop"
        assert message.model == server.model
        await client.aclose()


async def test_max_tokens_is_sent_if_the_servers_default_is_too_small() -> None:
    with scripted_server({"text": "ok"}, {"text": "ok"}, window=32_000) as server:
        for states_output in (True, False):
            client = client_of(server, states_output=states_output)
            await chunks_of(client, prompt())
            await client.aclose()
        assert [seen.max_tokens for seen in server.requests()] == [2_000, None]


async def test_the_request_body_is_the_dialects_rendering() -> None:
    with scripted_server({"text": "ok"}) as server:
        client = client_of(server)
        await chunks_of(client, prompt("Wie heißt du? 你好"), max_output=99)
        (seen,) = server.requests()
        assert seen.body == {
            "model": server.model,
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "Wie heißt du? 你好"},
            ],
            "stream": True,
            "stream_options": {"include_usage": True},
            "max_tokens": 99,
        }
        assert client.dialect == "strict"
        openai = client_of(server, dialect="openai")
        await chunks_of(openai, prompt(), max_output=99)
        assert server.requests()[-1].body["max_completion_tokens"] == 99
        await client.aclose()
        await openai.aclose()


async def test_parallel_tool_calls_arrive_complete_and_return_with_their_results() -> (
    None
):
    calls = [{"name": "read", "arguments": {"path": path}} for path in ("a.py", "b.py")]
    with scripted_server(
        {"text": "Let me look.", "tool_calls": calls, "chunk": 5}, {"text": "done"}
    ) as server:
        client = client_of(server)
        chunks = await chunks_of(client, prompt(), [READ])
        assert isinstance(chunks[-1], Answer)
        message = chunks[-1].message
        assert {chunk.name for chunk in chunks if isinstance(chunk, ToolCallChunk)} == {
            "read"
        }
        assert [call.parsed() for call in message.calls] == [
            {"path": "a.py"},
            {"path": "b.py"},
        ]
        assert message.stop_reason == "tool_calls"
        results = [
            ToolResultMessage(
                call_id=call.call_id, name="read", parts=text_parts("x = 1")
            )
            for call in message.calls
        ]
        assert (
            await answer_of(client, [*prompt(), message, *results], [READ])
        ).text == "done"
        assert [seen.violations for seen in server.requests()] == [(), ()]
        await client.aclose()


async def test_missing_call_ids_are_generated_uniquely_in_the_session() -> None:
    delta = {
        "tool_calls": [{"index": 0, "function": {"name": "read", "arguments": "{}"}}]
    }
    pieces = [
        {"choices": [{"delta": delta, "finish_reason": None}]},
        {"choices": [{"delta": {}, "finish_reason": "tool_calls"}]},
    ]
    with scripted_server({"fault": {"raw": pieces}}) as server:
        client = client_of(server)
        seen: list[Message] = [UserMessage(index=4, parts=text_parts("go"))]
        first = await answer_of(client, seen, [READ])
        again = await answer_of(client, seen, [READ])
        later = await answer_of(
            client, [*seen, UserMessage(index=9, parts=text_parts("on"))], [READ]
        )
        assert first.calls == again.calls
        assert first.calls[0].call_id
        assert later.calls[0].call_id != first.calls[0].call_id
        await client.aclose()


async def test_thinking_is_streamed_separately_from_text() -> None:
    with scripted_server({"thinking": "Two and two.", "text": "Four."}) as server:
        client = client_of(server)
        chunks = await chunks_of(client, prompt())
        assert (
            "".join(c.text for c in chunks if isinstance(c, ThinkingChunk))
            == "Two and two."
        )
        assert isinstance(chunks[-1], Answer)
        assert (chunks[-1].message.thinking, chunks[-1].message.text) == (
            "Two and two.",
            "Four.",
        )
        usage = chunks[-1].message.usage
        assert usage is not None
        assert 0 < usage.reasoning < usage.output
        await client.aclose()


async def test_reported_usage_equals_the_servers_measurement() -> None:
    with scripted_server({"text": "ok"}) as server:
        client = client_of(server)
        messages = prompt("word " * 2000)
        first = await answer_of(client, messages)
        second = await answer_of(
            client, [*messages, first, UserMessage(parts=text_parts("and then?"))]
        )
        seen = server.requests()
        for message, request in zip((first, second), seen, strict=True):
            assert message.usage is not None
            assert (message.usage.input, message.usage.cached) == (
                request.prompt_tokens,
                request.cached_tokens,
            )
        assert seen[0].cached_tokens == 0
        assert seen[1].cached_tokens == seen[0].prompt_tokens // 128 * 128
        await client.aclose()


async def test_refused_stream_options_are_omitted_from_then_on() -> None:
    with scripted_server({"text": "ok"}, flags=["--refuse-stream-options"]) as server:
        client = client_of(server)
        assert (await answer_of(client, prompt())).text == "ok"
        assert (await answer_of(client, prompt())).usage is None
        assert ["stream_options" in seen.body for seen in server.requests()] == [
            True,
            False,
            False,
        ]
        await client.aclose()


@pytest.mark.parametrize("api", ["chat", "responses"])
@pytest.mark.parametrize("takes", [True, False])
async def test_disabled_tools_are_sent_with_tool_choice_none_if_supported(
    api: str, takes: bool
) -> None:
    """The rest equals an ordinary request, because the provider's cache matches prefixes."""
    with scripted_server({"text": "ok"}, {"text": "ok"}) as server:
        client = client_of(server, api=api, takes_tools_off=takes)
        for off in (False, True):
            await chunks_of(client, prompt(), [READ], tools_off=off)
        usual, off_body = (dict(seen.body) for seen in server.requests())
        assert "tool_choice" not in usual
        assert off_body.pop("tool_choice", None) == ("none" if takes else None)
        assert off_body == usual
        await client.aclose()


@pytest.mark.parametrize("api", ["chat", "responses"])
async def test_a_refused_tool_choice_is_omitted_on_retry(api: str) -> None:
    message = "Thinking mode does not support this tool_choice"
    refusal = {"fault": {"status": 400, "body": {"error": {"message": message}}}}
    with scripted_server(refusal, {"text": "ok"}, {"text": "ok"}) as server:
        client = client_of(server, waits := Waits(), api=api, takes_tools_off=True)
        for _ in range(2):
            await chunks_of(client, prompt(), [READ], tools_off=True)
        assert ["tool_choice" in seen.body for seen in server.requests()] == [
            True,
            False,
            False,
        ]
        assert waits.seconds == []
        await client.aclose()


def test_only_openai_is_known_to_keep_its_cache_when_tools_are_off() -> None:
    assert [each.name for each in PROVIDERS.values() if each.takes_tools_off] == [
        "openai",
        "openai-responses",
    ]


async def test_a_request_larger_than_the_window_is_overflow_and_not_retried() -> None:
    waits = Waits()
    with scripted_server({"text": "ok"}, window=1000) as server:
        client = client_of(server, waits)
        error = await error_of(client, prompt("word " * 3000))
        assert isinstance(error, ContextOverflow)
        assert error.status == 400
        assert "maximum context length is 1000 tokens" in str(error)
        assert len(server.requests()) == 1
        assert waits.seconds == []
        await client.aclose()


@pytest.mark.parametrize(
    "answer",
    [
        {"text": "half of", "finish_reason": "model_context_window_exceeded"},
        {"text": "half of", "fault": {"error_after": 2, "body": CODE_ERROR}},
    ],
    ids=["finish reason", "error in the stream"],
)
async def test_overflow_within_a_stream_is_recognised_and_keeps_the_received_text(
    answer: dict[str, Any],
) -> None:
    with scripted_server(answer) as server:
        client = client_of(server)
        error = await error_of(client)
        assert isinstance(error, ContextOverflow)
        assert error.partial is not None
        assert error.partial.text == "half of"
        await client.aclose()


async def test_throttling_leads_to_an_announced_wait_of_the_servers_length() -> None:
    waits = Waits()
    limit = {
        "error": {
            "message": "Rate limit reached",
            "type": "tokens",
            "code": "rate_limit_exceeded",
        }
    }
    with scripted_server(
        {"fault": {"status": 429, "body": limit, "headers": {"retry-after": "7"}}},
        {"fault": {"status": 503, "body": "<html>busy</html>"}},
        {"fault": {"status": 429, "body": limit, "headers": {"retry-after": "90"}}},
        {"text": "at last"},
    ) as server:
        client = client_of(server, waits)
        chunks = await chunks_of(client, prompt())
        retries = [chunk for chunk in chunks if isinstance(chunk, RetryChunk)]
        assert [(retry.attempt, retry.seconds) for retry in retries] == [
            (1, 7.0),
            (2, 2.0),
            (3, 90.0),
        ]
        assert all("127.0.0.1" in retry.sentence for retry in retries)
        assert waits.seconds == [7.0, 2.0, 90.0]
        assert isinstance(chunks[-1], Answer)
        assert chunks[-1].message.text == "at last"
        await client.aclose()


async def test_persistent_throttling_is_an_error_after_two_minutes_and_never_overflow() -> (
    None
):
    waits = Waits()
    with scripted_server(
        {"fault": {"status": 429, "body": "Too many tokens, please wait"}}
    ) as server:
        client = client_of(server, waits)
        error = await error_of(client)
        assert not isinstance(error, ContextOverflow)
        assert error.status == 429
        assert (len(waits.seconds), sum(waits.seconds)) == (8, 120)
        assert len(server.requests()) == 9
        await client.aclose()


BREAKS = {"text": "one two three four", "chunk": 4}


@pytest.mark.parametrize("fault", ["cut_after", "malformed_after"])
async def test_a_stream_broken_after_some_text_is_retried_with_the_text_handed_over(
    fault: str,
) -> None:
    with scripted_server({**BREAKS, "fault": {fault: 3}}, {"text": "whole"}) as server:
        client = client_of(server)
        chunks = await chunks_of(client, prompt())
        [again] = [chunk for chunk in chunks if isinstance(chunk, RetryChunk)]
        assert again.partial is not None
        assert (again.partial.text, again.partial.stop_reason) == ("one two ", "error")
        assert isinstance(chunks[-1], Answer)
        assert chunks[-1].message.text == "whole"
        await client.aclose()


async def test_a_stream_that_always_breaks_fails_with_the_last_partial_answer() -> None:
    waits = Waits()
    with scripted_server({**BREAKS, "fault": {"cut_after": 3}}) as server:
        client = client_of(server, waits)
        error = await error_of(client)
        assert error.partial is not None
        assert (error.partial.text, len(server.requests()), sum(waits.seconds)) == (
            "one two ",
            9,
            120,
        )
        await client.aclose()


async def test_an_empty_answer_is_retried_and_finally_accepted() -> None:
    waits = Waits()
    with scripted_server(
        {"text": ""}, {"text": " "}, {"text": "at last"}, {"text": ""}
    ) as server:
        client = client_of(server, waits)
        assert (await answer_of(client, prompt())).text == "at last"
        assert waits.seconds == [1.0, 2.0]
        assert (await answer_of(client, prompt())).text == ""
        assert len(waits.seconds) == 2 + 8
        await client.aclose()


async def test_a_stream_broken_before_any_text_is_retried() -> None:
    waits = Waits()
    with scripted_server(
        {"text": "x", "fault": {"cut_after": 0}}, {"text": "whole"}
    ) as server:
        client = client_of(server, waits)
        assert (await answer_of(client, prompt())).text == "whole"
        assert waits.seconds == [1.0]
        await client.aclose()


async def test_cancelling_before_the_first_byte_closes_the_connection() -> None:
    with scripted_server({"fault": {"hang": True}}) as server:
        client = client_of(server)
        task = asyncio.create_task(chunks_of(client, prompt()))
        await asyncio.to_thread(server.wait_for, lambda seen: len(seen) == 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.to_thread(
            server.wait_for, lambda seen: seen[0].outcome == "closed by client"
        )
        await client.aclose()


async def test_a_refused_key_is_reported_by_its_variable_and_never_shown() -> None:
    waits = Waits()
    with scripted_server({"text": "ok"}, key="sk-the-right-one") as server:
        client = client_of(server, waits)
        error = await error_of(client)
        assert error.status == 401
        assert "OPENAI_API_KEY" in str(error)
        assert server.base_url in str(error)
        assert KEY not in repr(client)
        assert waits.seconds == []
        await client.aclose()


async def test_the_right_key_is_accepted() -> None:
    with scripted_server({"text": "ok"}, key=KEY) as server:
        client = client_of(server)
        assert (await answer_of(client, prompt())).text == "ok"
        await client.aclose()


async def test_an_unknown_model_is_reported_with_its_server() -> None:
    with scripted_server({"text": "ok"}) as server:
        client = client_of(server, model="gpt-9000")
        error = await error_of(client)
        assert error.status == 404
        assert "gpt-9000" in str(error)
        assert server.base_url in str(error)
        await client.aclose()


async def test_half_characters_from_a_server_do_not_corrupt_the_answer() -> None:
    pieces = [
        {"choices": [{"delta": {"content": "a\ud83d"}, "finish_reason": None}]},
        {"choices": [{"delta": {"content": "\ude00\udc00"}, "finish_reason": None}]},
        {"choices": [{"delta": {}, "finish_reason": "stop"}]},
    ]
    with scripted_server({"fault": {"raw": pieces}}) as server:
        client = client_of(server)
        assert (await answer_of(client, prompt())).text == "a😀\ufffd"
        await client.aclose()


async def test_the_environments_proxy_is_not_used_for_a_local_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    with scripted_server({"text": "ok"}) as server:
        client = client_of(server)
        assert (await answer_of(client, prompt())).text == "ok"
        await client.aclose()


async def test_one_client_handles_concurrent_requests() -> None:
    with scripted_server({"text": "${content}"}) as server:
        client = client_of(server)
        answers = await asyncio.gather(
            *(answer_of(client, prompt(f"number {n}")) for n in range(4))
        )
        assert [answer.text for answer in answers] == [f"number {n}" for n in range(4)]
        await client.aclose()


async def test_a_history_with_broken_arguments_and_bare_thinking_is_still_valid() -> (
    None
):
    messages: list[Message] = [
        *prompt(),
        AssistantMessage(
            parts=(ToolCallPart(call_id="c1", name="read", arguments='{"path": "a'),)
        ),
        ToolResultMessage(call_id="c1", name="read"),
        UserMessage(parts=text_parts("and?")),
    ]
    with scripted_server({"text": "ok"}, strict=True) as server:
        client = client_of(server)
        assert (await answer_of(client, messages, [READ])).text == "ok"
        await client.aclose()


@pytest.mark.parametrize(
    ("url", "local"),
    [
        ("http://localhost:1234/v1", True),
        ("http://[::1]:1234/v1", True),
        ("http://10.0.0.7/v1", True),
        ("http://ollama:11434/v1", True),
        ("https://api.openai.com/v1", False),
        ("https://8.8.8.8/v1", False),
    ],
)
def test_local_and_remote_servers_are_distinguished(url: str, local: bool) -> None:
    assert is_local(url) is local
