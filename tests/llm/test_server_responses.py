"""The test server's `/v1/responses` itself: its validation and its events."""

import copy
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from support.server_responses import as_chat, check, encrypt, events, response

CALL = {"type": "function_call", "call_id": "c1", "name": "read", "arguments": "{}"}
VALID: dict[str, Any] = {
    "model": "m",
    "store": False,
    "tools": [{"type": "function", "name": "read", "parameters": {}, "strict": False}],
    "input": [
        {"type": "message", "role": "system", "content": "Be brief."},
        {
            "type": "message",
            "role": "user",
            "content": [{"type": "input_text", "text": "Look."}],
        },
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [],
            "encrypted_content": encrypt("m", "rs_1"),
        },
        {"type": "message", "role": "assistant", "content": "I look."},
        CALL,
        {**CALL, "call_id": "c2"},
        {"type": "function_call_output", "call_id": "c2", "output": ""},
        {"type": "function_call_output", "call_id": "c1", "output": "one"},
        {"type": "message", "role": "user", "content": "Thanks."},
    ],
}
Spoil = Callable[[dict[str, Any], list[dict[str, Any]]], object]
INVALID_REQUESTS: dict[str, tuple[str, Spoil]] = {
    "no list": ("shape", lambda body, items: body.update(input="hello")),
    "chat messages": ("shape", lambda body, items: body.update(messages=[])),
    "stored": ("store", lambda body, items: body.update(store=True)),
    "not said to be forgotten": ("store", lambda body, items: body.pop("store")),
    "no tools": ("tools", lambda body, items: body.update(tools=[])),
    "tools of chat": (
        "tools",
        lambda body, items: body["tools"][0].update(function={}),
    ),
    "strict schemas": ("tools", lambda body, items: body["tools"][0].pop("strict")),
    "an unknown item": ("R1", lambda body, items: items[0].update(type="memo")),
    "no result": ("R2", lambda body, items: items.pop(6)),
    "a result twice": ("R2", lambda body, items: items.append(items[7])),
    "a result before its call": (
        "R2",
        lambda body, items: items.insert(4, items.pop(7)),
    ),
    "a result that is no text": (
        "R3",
        lambda body, items: items[7].update(output=None),
    ),
    "an unknown role": ("R4", lambda body, items: items[0].update(role="boss")),
    "an empty message": ("R4", lambda body, items: items[0].update(content="")),
    "a part of chat": (
        "R4",
        lambda body, items: items[1]["content"][0].update(type="text"),
    ),
    "what the model says as input": (
        "R4",
        lambda body, items: items[3].update(
            content=[{"type": "input_text", "text": "x"}]
        ),
    ),
    "an id nobody stored": ("R5", lambda body, items: items[3].update(id="msg_1")),
    "two calls of one id": ("R6", lambda body, items: items[5].update(call_id="c1")),
    "arguments that are no JSON": (
        "R6",
        lambda body, items: items[4].update(arguments="{"),
    ),
    "a name with blanks": ("R6", lambda body, items: items[4].update(name="read it")),
    "reasoning of another model": ("R7", lambda body, items: body.update(model="n")),
    "reasoning without a summary": ("R7", lambda body, items: items[2].pop("summary")),
    "reasoning with nothing behind it": (
        "R7",
        lambda body, items: items.append(items.pop(2)),
    ),
}


def test_a_valid_request_is_accepted_and_converted_to_chat() -> None:
    assert check(VALID) == []
    messages = as_chat(VALID)["messages"]
    assert [message["role"] for message in messages] == [
        "system",
        "user",
        "assistant",
        "tool",
        "tool",
        "user",
    ]
    assert messages[2]["content"] == "I look."
    assert messages[2]["reasoning_content"] == encrypt("m", "rs_1")
    assert [call["id"] for call in messages[2]["tool_calls"]] == ["c1", "c2"]


@pytest.mark.parametrize(
    ("rule", "spoil"), INVALID_REQUESTS.values(), ids=INVALID_REQUESTS.keys()
)
def test_each_rule_is_enforced(rule: str, spoil: Spoil) -> None:
    body = copy.deepcopy(VALID)
    spoil(body, body["input"])
    assert rule in {violation.rule for violation in check(body)}


def test_the_events_add_up_to_the_answer() -> None:
    usage = {
        "prompt_tokens": 9,
        "completion_tokens": 4,
        "total_tokens": 13,
        "prompt_tokens_details": {"cached_tokens": 8},
        "completion_tokens_details": {"reasoning_tokens": 2},
    }
    calls = [
        {
            "id": "c1",
            "type": "function",
            "function": {"name": "ls", "arguments": '{"a": 1}'},
        }
    ]
    done: Any = SimpleNamespace(
        nth=1,
        model="m",
        thinking="I think.",
        text="I say.",
        calls=calls,
        finish="length",
        usage=usage,
        cut=lambda text: [text[:3], text[3:]],
    )
    told = events(done)
    assert [event["sequence_number"] for event in told] == list(range(len(told)))
    for kind, whole in (
        ("reasoning_summary_text", "I think."),
        ("output_text", "I say."),
        ("function_call_arguments", '{"a": 1}'),
    ):
        assert (
            "".join(e["delta"] for e in told if e["type"] == f"response.{kind}.delta")
            == whole
        )
    finished = [
        event["item"] for event in told if event["type"] == "response.output_item.done"
    ]
    assert told[-1]["type"] == "response.incomplete"
    assert told[-1]["response"] == response(done)
    assert told[-1]["response"]["output"] == finished
    assert [item["type"] for item in finished] == [
        "reasoning",
        "message",
        "function_call",
    ]
    assert told[-1]["response"]["usage"]["input_tokens_details"] == {"cached_tokens": 8}
