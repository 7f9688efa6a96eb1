"""The Responses API: requests, responses, and the real client against the scripted_server server."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from foldline.llm import (
    Answer,
    ContextOverflow,
    TextChunk,
    ThinkingChunk,
    ToolCallChunk,
)
from foldline.llm.responses import RESPONSES, ResponsesReader, to_input
from foldline.llm.wire import Expected
from foldline.protocol import (
    AssistantMessage,
    DeveloperMessage,
    ImagePart,
    Message,
    SystemMessage,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultMessage,
    UserMessage,
    text_parts,
)
from support.clients import (
    READ,
    Waits,
    answer_of,
    chunks_of,
    client_of,
    error_of,
    prompt,
    scripted_server,
)

REASONING = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [],
    "encrypted_content": "gAAAA",
}
SIGNED_THINKING = ThinkingPart(
    text="hm", signature=json.dumps(REASONING), signed_by="m@host:1"
)
CALL = ToolCallPart(call_id="c1", name="read", arguments='{"path": "a"}')
PIXEL = ImagePart(media_type="image/png", data="AAAA")


# --- requests ------------------------------------------------------------------------------------------


def item(role: str, content: Any) -> dict[str, Any]:
    return {"type": "message", "role": role, "content": content}


def text_parts_of(*texts: str) -> list[dict[str, str]]:
    return [{"type": "input_text", "text": text} for text in texts]


@pytest.mark.parametrize(
    ("message", "items"),
    [
        (SystemMessage(parts=text_parts("Be brief.")), [item("system", "Be brief.")]),
        (DeveloperMessage(parts=text_parts("Rules.")), [item("developer", "Rules.")]),
        (
            UserMessage(parts=text_parts("hello")),
            [item("user", text_parts_of("hello"))],
        ),
        (
            UserMessage(parts=text_parts("ls"), origin="shell"),
            [
                item(
                    "user",
                    text_parts_of(
                        "<system-note>\nThe user ran this in a shell:\nls\n</system-note>"
                    ),
                )
            ],
        ),
        (
            UserMessage(parts=(PIXEL,)),
            [
                item(
                    "user",
                    [
                        {
                            "type": "input_image",
                            "image_url": "data:image/png;base64,AAAA",
                            "detail": "auto",
                        }
                    ],
                )
            ],
        ),
        (
            AssistantMessage(parts=(SIGNED_THINKING, TextPart(text="I look."), CALL)),
            [
                REASONING,
                item("assistant", "I look."),
                {
                    "type": "function_call",
                    "call_id": "c1",
                    "name": "read",
                    "arguments": '{"path": "a"}',
                },
            ],
        ),
        (
            ToolResultMessage(call_id="c1", name="read", parts=text_parts("x = 1")),
            [{"type": "function_call_output", "call_id": "c1", "output": "x = 1"}],
        ),
        (UserMessage(), []),
        (SystemMessage(), []),
    ],
    ids=lambda value: (
        value.type
        if isinstance(value, SystemMessage | UserMessage | AssistantMessage)
        else ""
    ),
)
def test_each_kind_of_message_has_its_items(
    message: Message, items: list[dict[str, Any]]
) -> None:
    assert to_input([message], "m@host:1") == items


@pytest.mark.parametrize(
    ("part", "reader"),
    [
        (SIGNED_THINKING, "other@host:1"),
        (SIGNED_THINKING, "m@elsewhere"),
        (SIGNED_THINKING, ""),
        (SIGNED_THINKING.model_copy(update={"signed_by": None}), "m@host:1"),
        (
            SIGNED_THINKING.model_copy(update={"signature": "from another agent"}),
            "m@host:1",
        ),
        (
            SIGNED_THINKING.model_copy(update={"signature": '{"id": "rs_1"}'}),
            "m@host:1",
        ),
    ],
)
def test_reasoning_is_sent_back_only_to_its_own_model_and_server(
    part: ThinkingPart, reader: str
) -> None:
    answer = AssistantMessage(parts=(part, TextPart(text="yes")))
    assert to_input([answer], reader) == [item("assistant", "yes")]


def test_reasoning_is_only_sent_with_the_item_that_followed_it() -> None:
    """OpenAI refuses a reasoning item that no other item follows."""
    assert to_input([AssistantMessage(parts=(SIGNED_THINKING,))], "m@host:1") == []
    trailing = AssistantMessage(parts=(TextPart(text="yes"), SIGNED_THINKING))
    assert to_input([trailing], "m@host:1") == [item("assistant", "yes")]


def test_result_images_follow_their_group() -> None:
    other = ToolCallPart(call_id="c2", name="read")
    group: list[Message] = [
        AssistantMessage(parts=(CALL, other)),
        ToolResultMessage(call_id="c1", parts=(PIXEL,)),
        ToolResultMessage(call_id="c2", parts=text_parts("text")),
    ]
    items = to_input(group, "m")
    kinds = [found["type"] for found in items]
    assert kinds == [
        "function_call",
        "function_call",
        "function_call_output",
        "function_call_output",
        "message",
    ]
    assert [piece["type"] for piece in items[-1]["content"]] == [
        "input_text",
        "input_image",
    ]
    assert "<system-note>" in items[-1]["content"][0]["text"]


def test_arguments_that_are_not_json_are_sent_as_an_empty_object() -> None:
    broken = AssistantMessage(
        parts=(ToolCallPart(call_id="c", name="a b", arguments='{"path": "a'),)
    )
    [call] = to_input([broken], "m")
    assert (call["name"], call["arguments"]) == ("a_b", "{}")


# --- responses -----------------------------------------------------------------------------------------


def read_events(*events: Any, **options: Any) -> ResponsesReader:
    assembly = ResponsesReader(Expected("m", "m@host", **options))
    for event in events:
        assembly.feed(event)
    return assembly


def added(place: int, **fields: Any) -> dict[str, Any]:
    return {"type": "response.output_item.added", "output_index": place, "item": fields}


def done(place: int, **fields: Any) -> dict[str, Any]:
    return {"type": "response.output_item.done", "output_index": place, "item": fields}


def delta(kind: str, place: int, text: str, **fields: Any) -> dict[str, Any]:
    return {
        "type": f"response.{kind}.delta",
        "output_index": place,
        "delta": text,
        **fields,
    }


def end(status: str = "completed", **fields: Any) -> dict[str, Any]:
    return {"type": f"response.{status}", "response": {"status": status, **fields}}


def test_items_keep_their_order_in_the_stream() -> None:
    assembly = read_events(
        added(0, type="reasoning", id="rs_1"),
        delta("reasoning_summary_text", 0, "First", summary_index=0),
        delta("reasoning_summary_text", 0, "Second", summary_index=1),
        done(0, type="reasoning", id="rs_1", encrypted_content="gA", summary=[]),
        delta("output_text", 1, "I look."),
        done(2, type="reasoning", id="rs_2", encrypted_content="gB", summary=[]),
        added(3, type="function_call", call_id="c", name="read", arguments=""),
        delta("function_call_arguments", 3, '{"path"'),
        delta("function_call_arguments", 3, ': "a"}'),
        done(
            3, type="function_call", call_id="c", name="read", arguments='{"path": "a"}'
        ),
        end(),
    )
    message = assembly.message()
    assert [part.type for part in message.parts] == [
        "thinking",
        "text",
        "thinking",
        "tool_call",
    ]
    assert message.thinking == "First\n\nSecond"
    signed = [part for part in message.parts if isinstance(part, ThinkingPart)]
    assert [json.loads(part.signature or "")["id"] for part in signed] == [
        "rs_1",
        "rs_2",
    ]
    assert {part.signed_by for part in signed} == {"m@host"}
    assert message.calls[0].arguments == '{"path": "a"}'
    assert message.stop_reason == "tool_calls"


RESPONSE = {
    "object": "response",
    "status": "completed",
    "output": [
        {
            "type": "reasoning",
            "id": "rs",
            "summary": [{"type": "summary_text", "text": "hm"}],
        },
        {"type": "message", "content": [{"type": "output_text", "text": "hello"}]},
        {"type": "function_call", "call_id": "c", "name": "ls", "arguments": "{}"},
        {"type": "web_search_call", "id": "ws"},
    ],
    "usage": {
        "input_tokens": 10,
        "input_tokens_details": {"cached_tokens": 8},
        "output_tokens": 5,
        "output_tokens_details": {"reasoning_tokens": 3},
    },
}


@pytest.mark.parametrize(
    "events",
    [
        [RESPONSE],
        [{"type": "response.completed", "response": RESPONSE}],
        [
            *(done(place, **item) for place, item in enumerate(RESPONSE["output"])),  # type: ignore[arg-type,var-annotated]
            {"type": "response.completed", "response": RESPONSE},
        ],
        [
            delta("reasoning_text", 0, "hm"),
            delta("output_text", 1, "hello"),
            added(2, type="function_call", call_id="c", name="ls"),
            {
                "type": "response.function_call_arguments.done",
                "output_index": 2,
                "arguments": "{}",
            },
            {"type": "response.completed", "response": RESPONSE},
        ],
        [
            {
                "type": "response.output_item.added",
                "item": {"type": "reasoning", "id": "a"},
            },
            {"type": "response.reasoning_text.delta", "item_id": "a", "delta": "hm"},
            {"type": "response.output_text.delta", "item_id": "b", "delta": "hello"},
            {
                "type": "response.output_item.added",
                "item": {**RESPONSE["output"][2], "id": "d"},
            },  # type: ignore[index]
            {"type": "response.completed", "response": {**RESPONSE, "output": []}},
        ],
    ],
    ids=["one JSON text", "in the last event", "finished items", "deltas", "no places"],
)
def test_an_answer_is_the_same_for_every_form_of_events(events: Sequence[Any]) -> None:
    assembly = read_events(*events)
    message = assembly.message()
    assert (message.thinking, message.text) == ("hm", "hello")
    assert [(call.call_id, call.name, call.arguments) for call in message.calls] == [
        ("c", "ls", "{}")
    ]
    usage = message.usage
    assert usage is not None
    assert (usage.input, usage.cached, usage.output, usage.reasoning) == (10, 8, 5, 3)
    assert assembly.complete
    assert assembly.over


@pytest.mark.parametrize(
    ("events", "reason"),
    [
        ([delta("output_text", 0, "x"), end()], "stop"),
        (
            [
                done(0, type="function_call", call_id="c", name="ls", arguments="{}"),
                end(),
            ],
            "tool_calls",
        ),
        (
            [end("incomplete", incomplete_details={"reason": "max_output_tokens"})],
            "length",
        ),
        (
            [end("incomplete", incomplete_details={"reason": "content_filter"})],
            "filtered",
        ),
        ([end("incomplete", incomplete_details={"reason": "something new"})], "stop"),
        ([delta("refusal", 0, "I will not."), end()], "filtered"),
        (
            [
                done(
                    0, type="message", content=[{"type": "refusal", "refusal": "No."}]
                ),
                end(),
            ],
            "filtered",
        ),
    ],
)
def test_stop_reasons_follow_the_final_event(
    events: Sequence[Any], reason: str
) -> None:
    message = read_events(*events).message()
    assert message.stop_reason == reason
    assert message.error is None


def test_a_llama_cpp_answer_at_its_limit_counts_as_cut_off() -> None:
    text = [
        delta("output_text", 0, "half of"),
        end(usage={"input_tokens": 9, "output_tokens": 64}),
    ]
    assert read_events(*text, limit=64).message().stop_reason == "length"
    assert read_events(*text, limit=65).message().stop_reason == "stop"


def test_a_refusal_is_shown_in_the_models_own_words() -> None:
    assembly = ResponsesReader(Expected("m", "m@host"))
    assert assembly.feed(delta("refusal", 0, "I will not.")) == [
        TextChunk("I will not.")
    ]
    assert assembly.message().text == "I will not."


def test_already_used_ids_are_replaced() -> None:
    calls = [
        done(place, type="function_call", call_id="old", name="ls")
        for place in range(2)
    ]
    message = read_events(
        *calls, end(), used_ids=frozenset({"old"}), stem="call_9"
    ).message()
    assert [call.call_id for call in message.calls] == ["call_9_0", "call_9_1"]


def test_events_of_any_form_raise_no_error() -> None:
    odd: list[Any] = [
        None,
        7,
        [],
        {},
        {"type": "response.created"},
        {"type": 5},
        {"type": "response.output_text.delta", "delta": None},
        {"type": "response.output_item.added", "item": None},
        {
            "type": "response.output_item.done",
            "item": {"type": "reasoning", "summary": "x"},
        },
        {
            "type": "response.output_item.done",
            "item": {"type": "message", "content": [None, 4]},
        },
        {
            "type": "response.completed",
            "response": {"output": [None, {"type": "message"}], "usage": 3},
        },
    ]
    assert read_events(*odd).message().parts == ()


# --- against the server --------------------------------------------------------------------------------


def responding(server: Any, waits: Waits | None = None, **options: Any) -> Any:
    return client_of(server, waits, api="responses", **options)


async def test_the_request_body_has_the_responses_format() -> None:
    with scripted_server({"text": "ok"}) as server:
        client = responding(server)
        await chunks_of(client, prompt(), [READ], max_output=99)
        assert client.dialect == RESPONSES
        assert server.requests()[0].body == {
            "model": server.model,
            "input": [
                item("system", "Be brief."),
                item("user", text_parts_of("hello")),
            ],
            "stream": True,
            "store": False,
            "include": ["reasoning.encrypted_content"],
            "reasoning": {"summary": "auto"},
            "max_output_tokens": 99,
            "tools": [
                {
                    "type": "function",
                    "name": "read",
                    "description": "Reads a file.",
                    "parameters": READ.parameters,
                    "strict": False,
                }
            ],
        }
        await client.aclose()


async def test_a_step_sends_reasoning_calls_and_results_back() -> None:
    calls = [{"name": "read", "arguments": {"path": path}} for path in ("a.py", "b.py")]
    first = {
        "thinking": "Two files.",
        "text": "Let me look.",
        "tool_calls": calls,
        "chunk": 5,
    }
    with scripted_server(first, {"thinking": "Fine.", "text": "done"}) as server:
        client = responding(server)
        asked = prompt("word " * 500)
        chunks = await chunks_of(client, asked, [READ])
        assert isinstance(chunks[-1], Answer)
        message = chunks[-1].message
        assert (
            "".join(c.text for c in chunks if isinstance(c, ThinkingChunk))
            == "Two files."
        )
        assert (
            "".join(c.text for c in chunks if isinstance(c, TextChunk))
            == "Let me look."
        )
        assert {c.name for c in chunks if isinstance(c, ToolCallChunk)} == {"read"}
        assert [call.parsed() for call in message.calls] == [
            {"path": "a.py"},
            {"path": "b.py"},
        ]
        results = [
            ToolResultMessage(
                call_id=call.call_id, name="read", parts=text_parts("x = 1")
            )
            for call in message.calls
        ]
        answer = await answer_of(client, [*asked, message, *results], [READ])
        assert (answer.text, answer.stop_reason) == ("done", "stop")
        before, after = server.requests()
        assert after.violations == ()
        assert any(found["type"] == "reasoning" for found in after.messages)
        assert after.messages[: len(before.messages)] == before.messages
        assert after.cached_tokens >= before.prompt_tokens // 128 * 128 > 0
        assert answer.usage is not None
        assert (answer.usage.input, answer.usage.cached) == (
            after.prompt_tokens,
            after.cached_tokens,
        )
        assert 0 < answer.usage.reasoning < answer.usage.output
        await client.aclose()


async def test_an_answer_cut_off_by_its_limit_is_marked() -> None:
    with scripted_server({"text": "word " * 100}) as server:
        client = responding(server)
        assert (
            await answer_of(client, prompt(), max_output=20)
        ).stop_reason == "length"
        await client.aclose()


async def test_an_unstreamed_answer_is_accepted() -> None:
    with scripted_server(
        {"text": "hello", "thinking": "hm", "fault": {"unstreamed": True}}
    ) as server:
        client = responding(server)
        answer = await answer_of(client, prompt())
        assert (answer.thinking, answer.text) == ("hm", "hello")
        await client.aclose()


@pytest.mark.parametrize(
    ("message", "left_out"),
    [
        ("Encrypted content is not supported with this model.", "include"),
        (
            "Unsupported parameter: 'reasoning.summary' is not supported with this model.",
            "reasoning",
        ),
    ],
)
async def test_a_refused_field_is_omitted_from_then_on(
    message: str, left_out: str
) -> None:
    refusal = {"fault": {"status": 400, "body": {"error": {"message": message}}}}
    with scripted_server(refusal, {"text": "ok"}) as server:
        waits = Waits()
        client = responding(server, waits)
        for _ in range(2):
            assert (await answer_of(client, prompt())).text == "ok"
        first, *others = (seen.body for seen in server.requests())
        del first[left_out]
        assert others == [first, first]
        assert waits.seconds == []
        await client.aclose()


async def test_reasoning_the_server_can_no_longer_read_is_omitted() -> None:
    with scripted_server({"text": "ok"}) as server:
        client = responding(server)
        host = server.base_url.removeprefix("http://").removesuffix("/v1")
        signed = SIGNED_THINKING.model_copy(
            update={"signed_by": f"{server.model}@{host}"}
        )
        answer = AssistantMessage(parts=(signed, TextPart(text="yes")))
        assert (
            await answer_of(client, [*prompt(), answer, *prompt()[1:]])
        ).text == "ok"
        refused, sent = server.requests()
        assert [rule for rule, _ in refused.violations] == ["R7"]
        assert [found["type"] for found in sent.messages] == ["message"] * 4
        await client.aclose()


@pytest.mark.parametrize(
    "fault",
    [
        {
            "status": 400,
            "body": {
                "error": {"code": "context_length_exceeded", "message": "too long"}
            },
        },
        {
            "raw": [
                {
                    "type": "response.failed",
                    "response": {
                        "error": {
                            "code": "context_length_exceeded",
                            "message": "too long",
                        }
                    },
                }
            ]
        },
        {
            "raw": [
                {
                    "type": "error",
                    "code": "context_length_exceeded",
                    "message": "too long",
                }
            ]
        },
    ],
    ids=["status", "response.failed", "error"],
)
async def test_overflow_is_recognised_in_every_form(fault: dict[str, Any]) -> None:
    with scripted_server({"fault": fault}) as server:
        client = responding(server)
        assert isinstance(await error_of(client), ContextOverflow)
        assert len(server.requests()) == 1
        await client.aclose()


async def test_a_failed_response_keeps_the_received_text() -> None:
    pieces = [
        delta("output_text", 0, "half of"),
        {
            "type": "response.failed",
            "response": {"error": {"code": "server_error", "message": "sorry"}},
        },
    ]
    with scripted_server({"fault": {"raw": pieces}}) as server:
        client = responding(server)
        error = await error_of(client)
        assert error.partial is not None
        assert error.partial.text == "half of"
        assert "sorry" in str(error)
        await client.aclose()


@pytest.mark.parametrize("fault", ["cut_after", "reset_after"])
async def test_a_stream_that_breaks_before_its_end_is_not_an_answer(fault: str) -> None:
    with scripted_server(
        {"text": "one two three four", "chunk": 4, "fault": {fault: 5}}
    ) as server:
        client = responding(server)
        error = await error_of(client)
        assert error.partial is not None
        assert "one two three four".startswith(error.partial.text)
        await client.aclose()
