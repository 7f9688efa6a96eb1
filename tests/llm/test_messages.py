"""Anthropic's Messages API: requests, responses, and the real SDK against the scripted_server server."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from foldline.llm import (
    Answer,
    ContextOverflow,
    Request,
    TextChunk,
    ThinkingChunk,
    ToolCallChunk,
    ToolSpec,
)
from foldline.llm.messages import MESSAGES, MessagesReader, MessagesWire, to_messages
from foldline.llm.providers import PROVIDERS
from foldline.llm.wire import DEFAULT, Expected, Options
from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    DeveloperMessage,
    ImagePart,
    SystemMessage,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultMessage,
    Usage,
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
from support.messages import assistant, user

READER = "m@api.anthropic.com"
SIGNED_THINKING = ThinkingPart(text="hm", signature="Eq1", signed_by=READER)
CALL = ToolCallPart(call_id="c1", name="read", arguments='{"path": "a"}')
PIXEL = ImagePart(media_type="image/png", data="AAAA")
IMAGE_BLOCK = {
    "type": "image",
    "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"},
}


def result(text: str, call_id: str = "c1", **how: Any) -> ToolResultMessage:
    return ToolResultMessage(call_id=call_id, parts=text_parts(text), **how)


def text(value: str) -> dict[str, Any]:
    return {"type": "text", "text": value}


# --- requests ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("messages", "sent"),
    [
        (
            [SystemMessage(parts=text_parts("Be brief."))],
            [("system", [text("Be brief.")])],
        ),
        ([user("a"), user("b")], [("user", [text("a"), text("b")])]),
        (
            [user("a"), DeveloperMessage(parts=text_parts("note"))],
            [("user", [text("a"), text("<system-note>\nnote\n</system-note>")])],
        ),
        ([UserMessage(parts=(PIXEL,))], [("user", [IMAGE_BLOCK])]),
        ([user("  \n")], []),
        (
            [
                user("a"),
                AssistantMessage(
                    parts=(SIGNED_THINKING, TextPart(text="I look."), CALL)
                ),
                result("text"),
            ],
            [
                ("user", [text("a")]),
                (
                    "assistant",
                    [
                        {"type": "thinking", "thinking": "hm", "signature": "Eq1"},
                        text("I look."),
                        {
                            "type": "tool_use",
                            "id": "c1",
                            "name": "read",
                            "input": {"path": "a"},
                        },
                    ],
                ),
                (
                    "user",
                    [
                        {
                            "type": "tool_result",
                            "tool_use_id": "c1",
                            "content": [text("text")],
                        }
                    ],
                ),
            ],
        ),
        (
            [
                ToolResultMessage(
                    call_id="c1", parts=(TextPart(text="see"), PIXEL), is_error=True
                )
            ],
            [
                (
                    "user",
                    [
                        {
                            "type": "tool_result",
                            "tool_use_id": "c1",
                            "content": [text("see"), IMAGE_BLOCK],
                            "is_error": True,
                        }
                    ],
                )
            ],
        ),
        ([result("")], [("user", [{"type": "tool_result", "tool_use_id": "c1"}])]),
    ],
)
def test_messages_become_blocks(
    messages: Sequence[BaseMessage], sent: list[tuple[str, Any]]
) -> None:
    assert to_messages(messages, READER) == [
        {"role": role, "content": blocks} for role, blocks in sent
    ]


def test_results_of_one_step_come_first_in_one_message() -> None:
    calls = AssistantMessage(parts=(CALL, CALL.model_copy(update={"call_id": "c2"})))
    rendered = to_messages(
        [user("a"), calls, result("1"), result("2", "c2"), user("and now?")], READER
    )
    kinds = [block["type"] for block in rendered[-1]["content"]]
    assert kinds == ["tool_result", "tool_result", "text"]


@pytest.mark.parametrize("reader", ["other@api.anthropic.com", "m@elsewhere", ""])
def test_thinking_is_sent_back_only_to_its_own_model_and_server(reader: str) -> None:
    answer = AssistantMessage(parts=(SIGNED_THINKING, TextPart(text="yes")))
    assert to_messages([user("a"), answer], reader)[1]["content"] == [text("yes")]


def test_thinking_without_a_signature_is_not_sent_back() -> None:
    cut_off = AssistantMessage(parts=(ThinkingPart(text="hm"), TextPart(text="yes")))
    assert to_messages([user("a"), cut_off], READER)[1]["content"] == [text("yes")]


def test_ids_of_other_providers_are_made_valid_and_stay_distinct() -> None:
    calls = [
        ToolCallPart(call_id=f"call|{number}", name="a b", arguments="[1]")
        for number in (1, 2)
    ]
    first, second = to_messages([AssistantMessage(parts=tuple(calls))], READER)[1][
        "content"
    ]
    assert first["id"] != second["id"]
    assert first["id"].replace("_", "").isalnum()
    assert (first["name"], first["input"]) == ("a_b", {})


def test_a_request_ending_with_an_answer_gets_a_prompt_to_continue() -> None:
    body = body_of([user("a"), assistant("half an ans")])
    assert body["messages"][-1] == {
        "role": "user",
        "content": [text("<system-note>\nGo on.\n</system-note>")],
    }


# --- cache marks ---------------------------------------------------------------------------------------


def body_of(
    messages: Sequence[BaseMessage],
    tools: Sequence[ToolSpec] = (READ,),
    options: Options = DEFAULT,
) -> dict[str, Any]:
    return MessagesWire(PROVIDERS["anthropic"], options).body(
        Request(messages, tools), "m"
    )


def marks(body: dict[str, Any]) -> list[str]:
    """Return the texts of the marked blocks in order."""
    blocks = [*body.get("tools", ()), *body.get("system", ())]
    for message in body["messages"]:
        blocks += message["content"]
    return [
        str(block.get("text") or block.get("name") or block.get("tool_use_id"))
        for block in blocks
        if "cache_control" in block
    ]


RULES = SystemMessage(parts=text_parts("rules"))
SUMMARY = SystemMessage(origin="summary", parts=text_parts("summary"))


def test_marks_are_at_the_stable_part_and_the_ends_of_two_requests() -> None:
    talk = [
        RULES,
        user("one"),
        assistant("1"),
        user("two"),
        assistant("2"),
        user("three"),
    ]
    assert marks(body_of(talk)) == ["rules", "two", "three"]
    assert marks(body_of(talk[:2])) == ["rules", "one"]
    assert marks(body_of(talk[1:2])) == ["read", "one"]


def test_a_summary_has_a_mark_separate_from_the_part_before_it() -> None:
    talk = [RULES, SUMMARY, user("one"), assistant("1"), user("two")]
    assert marks(body_of(talk)) == ["rules", "summary", "one", "two"]


def test_a_summary_after_kept_messages_is_marked_in_its_position() -> None:
    talk = [RULES, user("kept"), SUMMARY, assistant("1"), user("two")]
    body = body_of(talk)
    assert body["messages"][0]["content"][1]["cache_control"] == {"type": "ephemeral"}
    assert len(marks(body)) == 3


def test_the_end_of_the_previous_request_stays_marked_after_a_large_step() -> None:
    calls = tuple(
        CALL.model_copy(update={"call_id": f"c{number}"}) for number in range(30)
    )
    results = [result("x", f"c{number}") for number in range(30)]
    talk = [RULES, user("one"), AssistantMessage(parts=calls), *results]
    assert marks(body_of(talk)) == ["rules", "one", "c29"]


def test_every_mark_states_a_lifetime_of_an_hour() -> None:
    body = body_of([RULES, user("one")], options=Options(cache_life="1h"))
    assert body["system"][0]["cache_control"] == {"type": "ephemeral", "ttl": "1h"}
    assert body["messages"][0]["content"][0]["cache_control"] == {
        "type": "ephemeral",
        "ttl": "1h",
    }


# --- responses -----------------------------------------------------------------------------------------


def read(*events: dict[str, Any]) -> tuple[AssistantMessage, MessagesReader]:
    reader = MessagesReader(Expected("m", READER))
    for event in events:
        reader.feed(event)
    return reader.message(), reader


def start(index: int, **block: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": block}


def delta(index: int, **piece: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": piece}


def stop(index: int) -> dict[str, Any]:
    return {"type": "content_block_stop", "index": index}


def message_delta(reason: str, **usage: Any) -> dict[str, Any]:
    return {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": usage}


def message_start(**usage: Any) -> dict[str, Any]:
    return {"type": "message_start", "message": {"usage": usage}}


@pytest.mark.parametrize(
    "events",
    [
        pytest.param(
            [
                message_start(input_tokens=900),
                message_delta("end_turn", output_tokens=12),
            ],
            id="Anthropic",
        ),
        pytest.param(
            [
                message_start(input_tokens=0, output_tokens=0),
                message_delta("end_turn", input_tokens=900, output_tokens=12),
            ],
            id="claude-code-router, ant2oai: the input at the end",
        ),
        pytest.param(
            [
                message_start(input_tokens=900),
                message_delta("end_turn", input_tokens=0, output_tokens=12),
            ],
            id="zeros at the end",
        ),
    ],
)
def test_input_tokens_are_read_from_any_event_that_reports_them(
    events: list[dict[str, Any]],
) -> None:
    message, _ = read(*events)
    assert message.usage == Usage(input=900, output=12)


def test_a_llama_cpp_stream_beginning_with_half_a_character_reports_no_input() -> None:
    """`message_start` is sent with the first token, and never if that is part of a character."""
    message, _ = read(
        start(0, type="text", text="é"), message_delta("end_turn", output_tokens=12)
    )
    assert message.usage == Usage(input=0, output=12)


def test_a_litellm_answer_at_its_limit_counts_as_cut_off() -> None:
    reader = MessagesReader(Expected("m", READER, limit=64))
    for event in (
        start(0, type="text", text="half of"),
        message_delta("end_turn", output_tokens=64),
    ):
        reader.feed(event)
    assert reader.message().stop_reason == "length"


def test_redacted_thinking_is_kept_and_sent_back_unchanged() -> None:
    message, _ = read(
        start(0, type="redacted_thinking", data="sealed"),
        stop(0),
        start(1, type="text", text="yes"),
        stop(1),
        message_delta("end_turn"),
    )
    assert to_messages([user("a"), message], READER)[1]["content"] == [
        {"type": "redacted_thinking", "data": "sealed"},
        text("yes"),
    ]


def test_thinking_without_text_is_kept_for_its_signature() -> None:
    message, _ = read(
        start(0, type="thinking", thinking="", signature=""),
        delta(0, type="signature_delta", signature="Eq"),
        delta(0, type="signature_delta", signature="9"),
        stop(0),
        start(1, type="text", text="yes"),
        message_delta("end_turn"),
    )
    assert message.parts[0] == ThinkingPart(text="", signature="Eq9", signed_by=READER)


def test_interrupted_thinking_has_no_signature() -> None:
    message, reader = read(start(0, type="thinking", thinking="hm"))
    assert message.parts == (ThinkingPart(text="hm"),)
    assert not reader.complete


@pytest.mark.parametrize(
    ("reason", "stopped"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("refusal", "filtered"),
        ("pause_turn", "stop"),
    ],
)
def test_stop_reasons_are_translated(reason: str, stopped: str) -> None:
    message, reader = read(start(0, type="text", text="a"), message_delta(reason))
    assert message.stop_reason == stopped
    assert reader.complete


def test_a_full_window_counts_as_overflow() -> None:
    assert read(
        start(0, type="text", text="a"), message_delta("model_context_window_exceeded")
    )[1].overflowed


def test_usage_includes_tokens_read_from_and_written_to_the_cache() -> None:
    counted = {
        "input_tokens": 7,
        "cache_read_input_tokens": 100,
        "cache_creation_input_tokens": 20,
        "cache_creation": {"ephemeral_1h_input_tokens": 15},
    }
    message, _ = read(
        {
            "type": "message_start",
            "message": {"usage": {**counted, "output_tokens": 1}},
        },
        start(0, type="text", text="a"),
        message_delta(
            "end_turn", output_tokens=9, output_tokens_details={"thinking_tokens": 4}
        ),
    )
    assert message.usage == Usage(
        input=127, cached=100, written=20, written_1h=15, output=9, reasoning=4
    )


def test_an_unstreamed_answer_is_read() -> None:
    message, reader = read(
        {
            "type": "message",
            "content": [
                {"type": "text", "text": "I look."},
                {
                    "type": "tool_use",
                    "id": "t1",
                    "name": "read",
                    "input": {"path": "a"},
                },
            ],
            "stop_reason": "tool_use",
            "usage": {"input_tokens": 3, "output_tokens": 2},
        }
    )
    assert (message.text, message.stop_reason, reader.over) == (
        "I look.",
        "tool_calls",
        True,
    )
    assert message.calls[0].parsed() == {"path": "a"}


# --- against the server --------------------------------------------------------------------------------


def native(server: Any, waits: Waits | None = None, **options: Any) -> Any:
    return client_of(server, waits, api="messages", **options)


async def test_text_thinking_and_calls_arrive_in_pieces_and_are_sent_back_complete() -> (
    None
):
    looks = {
        "thinking": "I should look at it first.",
        "text": "I look.",
        "tool_calls": [{"name": "read", "arguments": {"path": "a.py"}}],
        "chunk": 5,
    }
    with scripted_server(looks, {"text": "done"}) as server:
        client = native(server)
        asked = prompt("what is in a.py?")
        chunks = await chunks_of(client, asked, [READ])
        kinds = {type(chunk) for chunk in chunks}
        assert kinds == {ThinkingChunk, TextChunk, ToolCallChunk, Answer}
        assert isinstance(chunks[-1], Answer)
        answer = chunks[-1].message
        assert (answer.thinking, answer.text, answer.stop_reason) == (
            "I should look at it first.",
            "I look.",
            "tool_calls",
        )
        follow = [*asked, answer, result("x = 1", answer.calls[0].call_id)]
        assert (await answer_of(client, follow, [READ])).text == "done"
        first, second = server.requests()
        assert (first.violations, second.violations) == (
            (),
            (),
        )  # the signature among them
        assert second.messages[1]["content"][0]["type"] == "thinking"
        assert client.dialect == MESSAGES
        await client.aclose()


async def test_the_key_is_sent_in_both_headers_used_by_compatible_servers() -> None:
    with scripted_server({"text": "ok"}, key=KEY) as server:
        client = native(server)
        assert (await answer_of(client, prompt())).text == "ok"
        await client.aclose()


async def test_a_request_that_is_too_long_names_the_window() -> None:
    with scripted_server({"text": "ok"}, window=500) as server:
        error = await error_of(native(server), prompt("word " * 4_000))
        assert isinstance(error, ContextOverflow)
        assert error.window == 500


@pytest.mark.parametrize(
    ("status", "kind"),
    [(429, "rate_limit_error"), (529, "overloaded_error"), (500, "api_error")],
)
async def test_temporary_failures_are_waited_for(status: int, kind: str) -> None:
    body = {"type": "error", "error": {"type": kind, "message": "Overloaded"}}
    with scripted_server(
        {"fault": {"status": status, "body": body}}, {"text": "ok"}
    ) as server:
        waits = Waits()
        client = native(server, waits)
        assert (await answer_of(client, prompt())).text == "ok"
        assert len(waits.seconds) == 1
        await client.aclose()


async def test_an_overload_in_the_middle_of_an_answer_is_retried() -> None:
    body = {
        "type": "error",
        "error": {"type": "overloaded_error", "message": "Overloaded"},
    }
    with scripted_server(
        {"text": "It went on.", "fault": {"error_after": 4, "body": body}},
        {"text": "ok"},
    ) as server:
        client = native(server)
        assert (await answer_of(client, prompt())).text == "ok"
        await client.aclose()


async def test_a_request_with_too_many_bytes_is_reported_as_such() -> None:
    body = {
        "type": "error",
        "error": {"type": "request_too_large", "message": "Request exceeds 32 MB"},
    }
    with scripted_server({"fault": {"status": 413, "body": body}}) as server:
        error = await error_of(native(server))
        assert isinstance(error, ContextOverflow)
        assert error.status == 413


@pytest.mark.parametrize(
    ("message", "left_out"),
    [
        ("adaptive thinking is not supported on this model", "thinking"),
        ("This model does not support the effort parameter.", "output_config"),
    ],
)
async def test_fields_unknown_to_an_older_model_are_omitted_from_then_on(
    message: str, left_out: str
) -> None:
    body = {
        "type": "error",
        "error": {"type": "invalid_request_error", "message": message},
    }
    with scripted_server(
        {"fault": {"status": 400, "body": body}}, {"text": "ok"}
    ) as server:
        client = native(server, options=Options(effort="high"))
        for _ in range(2):
            assert (await answer_of(client, prompt())).text == "ok"
        first, *later = server.requests()
        assert left_out in first.body
        assert all(left_out not in seen.body for seen in later)
        assert len(later) == 2
        await client.aclose()


async def test_an_unsupported_effort_is_reported() -> None:
    said = "output_config.effort: Input should be 'low', 'medium' or 'high'; got 'max'"
    body = {
        "type": "error",
        "error": {"type": "invalid_request_error", "message": said},
    }
    with scripted_server({"fault": {"status": 400, "body": body}}) as server:
        error = await error_of(native(server, options=Options(effort="max")))
        assert "'low', 'medium' or 'high'" in str(error)
        assert len(server.requests()) == 1


async def test_a_refused_signature_is_not_sent_again() -> None:
    with scripted_server({"text": "ok"}) as server:
        client = native(server)
        host = server.base_url.removeprefix("http://").removesuffix("/v1")
        foreign = ThinkingPart(
            text="hm", signature="forged", signed_by=f"{server.model}@{host}"
        )
        talk = [
            *prompt(),
            AssistantMessage(parts=(foreign, TextPart(text="yes"))),
            user("and?"),
        ]
        assert (await answer_of(client, talk)).text == "ok"
        assert [seen.rejected for seen in server.requests()] == ["invalid", ""]
        await client.aclose()


async def test_max_tokens_is_always_sent() -> None:
    with scripted_server({"text": "ok"}, window=32_000) as server:
        client = native(server)
        await answer_of(client, prompt())
        assert server.requests()[0].max_tokens == 2_000
        await client.aclose()


async def test_an_expired_cache_entry_is_paid_again_and_a_used_one_is_extended() -> (
    None
):
    long = [SystemMessage(parts=text_parts("rule " * 2_000)), user("hello")]
    with scripted_server({"text": "ok"}) as server:
        client = native(server)
        for seconds in (0, 200, 200, 301):
            server.pass_time(seconds)
            await answer_of(client, long)
        assert [bool(seen.cached_tokens) for seen in server.requests()] == [
            False,
            True,
            True,
            False,
        ]
        await client.aclose()


async def test_a_cache_lifetime_of_an_hour_lasts_an_hour() -> None:
    long = [SystemMessage(parts=text_parts("rule " * 2_000)), user("hello")]
    with scripted_server({"text": "ok"}) as server:
        client = native(server, options=Options(cache_life="1h"))
        first = await answer_of(client, long)
        server.pass_time(3_000)
        second = await answer_of(client, long)
        assert first.usage is not None
        assert second.usage is not None
        assert first.usage.written == first.usage.written_1h > 1_024
        assert second.usage.cached == first.usage.written
        await client.aclose()


def test_the_sdk_knows_every_key_of_the_request_body() -> None:
    from anthropic.types.message_create_params import MessageCreateParamsStreaming

    known = MessageCreateParamsStreaming.__annotations__.keys()
    body = body_of([RULES, user("a")], options=Options(effort="high"))
    assert body.keys() <= known
    assert json.dumps(body)
