"""Assembling answers from streamed chunks."""

from typing import Any

import pytest

from foldline.llm import TextChunk, ThinkingChunk
from foldline.llm.call_assembly import LONGEST_NAME
from foldline.llm.chat import ChatReader
from foldline.llm.growing import MOST_CALLS, valid_unicode
from foldline.llm.wire import Expected
from foldline.protocol import Usage


def piece(finish: str | None = None, **delta: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def calls(*deltas: dict[str, Any]) -> dict[str, Any]:
    return piece(tool_calls=list(deltas))


def tool(
    index: int | None = None,
    id: str | None = None,
    name: str | None = None,
    arguments: Any = None,
) -> dict[str, Any]:
    return {
        "index": index,
        "id": id,
        "function": {"name": name, "arguments": arguments},
    }


def read_chunks(*pieces: Any, **options: Any) -> ChatReader:
    assembly = ChatReader(Expected("m", **options))
    for item in pieces:
        assembly.feed(item)
    return assembly


def shape(assembly: ChatReader) -> list[tuple[str, str, str]]:
    return [
        (call.call_id, call.name, call.arguments) for call in assembly.message().calls
    ]


def test_thinking_under_either_field_name_is_separate_from_text() -> None:
    assembly = ChatReader(Expected("m"))
    assert assembly.feed(piece(reasoning_content="a")) == [ThinkingChunk("a")]
    assert assembly.feed(piece(reasoning="b", reasoning_content=None)) == [
        ThinkingChunk("b")
    ]
    assert assembly.feed(piece(content="c")) == [TextChunk("c")]
    message = assembly.message()
    assert (message.thinking, message.text) == ("ab", "c")


def test_mistral_thinking_is_read_from_content_parts() -> None:
    thought = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}
    message = read_chunks(
        piece(content=[thought]), piece(content=[{"type": "text", "text": "yes"}])
    ).message()
    assert (message.thinking, message.text) == ("hm", "yes")


def test_reasoning_sent_in_both_fields_is_read_once() -> None:
    assert (
        read_chunks(piece(reasoning_content="a", reasoning="a")).message().thinking
        == "a"
    )


def test_a_calls_signature_is_kept_from_any_position_in_the_stream() -> None:
    extra = {"extra_content": {"google": {"thought_signature": "c2ln"}}}
    first, later = tool(0, "1", "read", "{}") | extra, tool(1, "2", "read", "{}")
    message = read_chunks(calls(first), calls(later), calls(tool(1) | extra)).message()
    assert [call.signature for call in message.calls] == ["c2ln", "c2ln"]
    assert (
        read_chunks(calls(tool(0, "1", "read", "{}"))).message().calls[0].signature
        is None
    )


def test_parallel_calls_are_distinguished_by_index() -> None:
    assembly = read_chunks(
        calls(tool(0, "x", "read", "")),
        calls(tool(1, "y", "ls", "")),
        calls(tool(1, arguments='{"b"'), tool(0, arguments='{"a"')),
        calls(tool(0, arguments=":1}"), tool(1, arguments=":2}")),
    )
    assert shape(assembly) == [("x", "read", '{"a":1}'), ("y", "ls", '{"b":2}')]


def test_calls_that_all_have_index_zero_are_distinguished_by_id() -> None:
    assembly = read_chunks(
        calls(tool(0, "x", "read", '{"a":1}')), calls(tool(0, "y", "read", '{"a":2}'))
    )
    assert shape(assembly) == [("x", "read", '{"a":1}'), ("y", "read", '{"a":2}')]


def test_each_name_starts_a_call_without_index_and_id() -> None:
    assembly = read_chunks(
        calls(tool(name="read", arguments='{"a":')),
        calls(tool(arguments="1}")),
        calls(tool(name="ls", arguments="{}")),
        stem="call_7",
    )
    assert shape(assembly) == [
        ("call_7_0", "read", '{"a":1}'),
        ("call_7_1", "ls", "{}"),
    ]


def test_ids_and_names_repeated_in_every_chunk_are_ignored() -> None:
    assembly = read_chunks(
        calls(tool(0, "x", "read", "")),
        calls(tool(0, "x", "read", '{"a":')),
        calls(tool(0, "x", "read", "1}")),
    )
    assert shape(assembly) == [("x", "read", '{"a":1}')]


def test_a_complete_call_repeated_at_the_end_counts_once() -> None:
    assembly = read_chunks(
        calls(tool(0, "x", "read", '{"a":')),
        calls(tool(0, arguments="1}")),
        calls(tool(0, "x", "read", '{"a":1}')),
    )
    assert shape(assembly) == [("x", "read", '{"a":1}')]


def test_already_used_ids_are_replaced() -> None:
    assembly = read_chunks(
        calls(tool(0, "old", "read", "{}")),
        calls(tool(1, "twice", "read", "{}")),
        calls(tool(2, "twice", "read", "{}")),
        used_ids=frozenset({"old"}),
        stem="call_9",
    )
    assert [call_id for call_id, _, _ in shape(assembly)] == [
        "call_9_0",
        "twice",
        "call_9_2",
    ]


def test_object_or_missing_arguments_become_json_text() -> None:
    assembly = read_chunks(
        calls(tool(0, "x", "read", {"a": 1})), calls(tool(1, "y", "ls"))
    )
    assert [arguments for _, _, arguments in shape(assembly)] == ['{"a": 1}', "{}"]


def test_a_split_character_is_joined_and_half_a_character_is_replaced() -> None:
    assembly = ChatReader(Expected("m"))
    chunks = [
        *assembly.feed(piece(content="a\ud83d")),
        *assembly.feed(piece(content="\ude00b\ud83d")),
    ]
    assert chunks == [TextChunk("a"), TextChunk("😀b")]
    assert assembly.message().text == "a😀b\ufffd"
    assert valid_unicode("x\udc00y") == "x\ufffdy"


def test_usage_is_read_in_the_formats_of_openai_deepseek_and_moonshot() -> None:
    openai = read_chunks(
        {
            "choices": [],
            "usage": {
                "prompt_tokens": 10,
                "completion_tokens": 5,
                "prompt_tokens_details": {"cached_tokens": 8},
                "completion_tokens_details": {"reasoning_tokens": 3},
            },
        }
    ).usage
    assert openai is not None
    assert (openai.input, openai.cached, openai.output, openai.reasoning) == (
        10,
        8,
        5,
        3,
    )
    deepseek = read_chunks(
        {"usage": {"prompt_tokens": 10, "prompt_cache_hit_tokens": 4}}
    ).usage
    moonshot = read_chunks(
        {"choices": [{"usage": {"prompt_tokens": 10, "cached_tokens": 6}}]}
    ).usage
    assert deepseek is not None
    assert moonshot is not None
    assert (deepseek.cached, moonshot.cached) == (4, 6)


def test_stop_reasons_follow_the_content_of_the_answer() -> None:
    def reason(*pieces: Any) -> str | None:
        return read_chunks(*pieces).message().stop_reason

    assert reason(piece("stop", content="x")) == "stop"
    assert reason(piece("tool_calls", content="x")) == "stop"
    assert reason(calls(tool(0, "x", "ls", "{}")), piece("stop")) == "tool_calls"
    assert reason(calls(tool(0, "x", "ls", '{"a')), piece("length")) == "length"
    assert reason(piece("content_filter")) == "filtered"
    assert reason(piece("something new", content="x")) == "stop"


def test_chunks_of_any_form_raise_no_error() -> None:
    odd: list[Any] = [
        None,
        7,
        "x",
        [],
        {},
        {"choices": None},
        {"choices": [None]},
        {"choices": [{"delta": None}]},
        {"choices": [{"delta": {"content": 5, "tool_calls": "no", "reasoning": {}}}]},
        {"choices": [{"delta": {"tool_calls": [None]}}], "usage": 3},
        {
            "usage": {
                "prompt_tokens": None,
                "prompt_tokens_details": None,
                "completion_tokens": "9",
            }
        },
    ]
    message = read_chunks(*odd).message()
    assert message.parts == ()
    assert message.stop_reason == "stop"


def test_text_in_content_parts_is_joined() -> None:
    assert (
        read_chunks(piece(content=[{"type": "text", "text": "a"}, {"type": "other"}]))
        .message()
        .text
        == "a"
    )


def test_endless_calls_in_one_chunk_are_cut_off() -> None:
    assembly = read_chunks(
        calls(*(tool(n, f"c{n}", "ls") for n in range(200_000))), most=1_000_000
    )
    assert assembly.full
    assert len(assembly.message().calls) <= MOST_CALLS


@pytest.mark.slow
def test_an_endless_name_is_cut_off() -> None:
    assembly = read_chunks(*(calls(tool(0, name=str(n % 10))) for n in range(100_000)))
    assert [len(call.name) for call in assembly.message().calls] == [LONGEST_NAME]


@pytest.mark.parametrize("zeros", ["before", "after"])
def test_zeros_do_not_replace_reported_usage(zeros: str) -> None:
    counted = {"prompt_tokens": 900, "completion_tokens": 12}
    nothing = {"prompt_tokens": 0, "completion_tokens": 0}
    first, last = (nothing, counted) if zeros == "before" else (counted, nothing)
    usage = (
        read_chunks(
            piece(content="a") | {"usage": first}, {"choices": [], "usage": last}
        )
        .message()
        .usage
    )
    assert usage == Usage(input=900, output=12)


@pytest.mark.parametrize("finish", ["stop", "tool_calls", None])
@pytest.mark.parametrize(
    ("output", "limit", "cut"),
    [(4_096, 4_096, True), (4_095, 4_096, False), (9, None, False)],
)
def test_an_answer_at_its_limit_counts_as_cut_off_despite_another_stop_reason(
    finish: str | None, output: int, limit: int | None, cut: bool
) -> None:
    usage = {"prompt_tokens": 9, "completion_tokens": output}
    assembly = read_chunks(
        piece(finish, content="half of"), {"choices": [], "usage": usage}, limit=limit
    )
    assert (assembly.message().stop_reason == "length") is cut
