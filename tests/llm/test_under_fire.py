"""The real client against a real server in its own process, with every known failure between the two.

Each case ends in an answer, after bounded and announced retries, or in one clear sentence; received text
is never lost. Unusual streams are given as bytes: `server_wild`.
"""

import asyncio
import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import pytest
from anthropic._models import FinalRequestOptions as AnthropicOptions
from openai import APIStatusError
from openai._models import FinalRequestOptions as OpenAIOptions

from foldline.llm import RetryChunk, failures
from foldline.llm.http_client import LONGEST_FAILURE, Sdk
from foldline.llm.providers import Api, Provider
from support.clients import (
    KEY,
    READ,
    Waits,
    answer_of,
    chat_at,
    chunks_of,
    client_of,
    error_of,
    prompt,
    scripted_server,
)
from support.sentences import says
from support.server import RunningServer, Seen, running_server

SCRIPT: list[dict[str, Any]] = []
"""One server plays all cases; the prompt is the name of the case."""


def case(name: str, *answers: dict[str, Any]) -> str:
    """Add a case to the script: these answers in order, then the last one repeatedly."""
    when = {"content": f"^{re.escape(name)}$"}
    SCRIPT.extend(
        {"when": when, "times": 1, "answer": answer} for answer in answers[:-1]
    )
    SCRIPT.append({"when": when, "answer": answers[-1]})
    return name


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    with running_server(script=SCRIPT, window=4_000) as running:
        yield running


def requests_of(server: RunningServer, name: str) -> list[Seen]:
    """Return the requests of a case."""
    return [seen for seen in server.requests() if seen.messages[-1]["content"] == name]


def data(value: Any) -> str:
    return f"data: {value if isinstance(value, str) else json.dumps(value)}\n\n"


def text_chunk(text: str | None, finish: str | None = None, **delta: Any) -> str:
    given = delta if text is None else {"content": text, **delta}
    return data({"choices": [{"index": 0, "delta": given, "finish_reason": finish}]})


END = text_chunk("", "stop") + data("[DONE]")


def wild(*pieces: str, **fault: Any) -> dict[str, Any]:
    """Return an answer of these bytes. Text is sent as UTF-8."""
    return {
        "fault": {
            "bytes": [piece.encode().decode("latin-1") for piece in pieces],
            **fault,
        }
    }


def status(code: int, message: str = "no", **headers: str) -> dict[str, Any]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return {
        "fault": {
            "status": code,
            "body": {"error": {"message": message}},
            "headers": named,
        }
    }


# --- statuses ------------------------------------------------------------------------------------------

EIGHT_WAITS = [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 29.0]
"""Seconds before each retry: two minutes in all."""
TEMPORARY_STATUSES = {
    case(f"status {code}", status(code)): code
    for code in (408, 409, 429, 500, 502, 503, 529)
}


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("name", TEMPORARY_STATUSES)
async def test_a_temporary_failure_is_retried_eight_times(
    server: RunningServer, name: str
) -> None:
    waits, before = Waits(), len(requests_of(server, name))
    client = client_of(server, waits)
    error = await error_of(client, prompt(name))
    assert (error.status, waits.seconds, error.partial) == (
        TEMPORARY_STATUSES[name],
        EIGHT_WAITS,
        None,
    )
    assert len(requests_of(server, name)) == before + 9
    assert f"({TEMPORARY_STATUSES[name]})" in str(error)
    assert server.base_url in str(error)
    await client.aclose()


PERMANENT_STATUSES = {
    case("status 400", status(400)): (failures.REJECTED, " (400)"),
    case("status 401", status(401)): (failures.WRONG_KEY, ""),
    case("status 403", status(403)): (failures.NOT_ALLOWED, ""),
    case("status 404", status(404)): (failures.NOT_FOUND, ""),
    case("status 301", status(301)): (failures.REDIRECTED, "301"),
    case("status 418", status(418)): (failures.REJECTED, " (418)"),
    case(
        "nested 400",
        {"fault": {"status": 400, "body": '{"error":' * 5_000 + "1" + "}" * 5_000}},
    ): ((failures.REJECTED, " (400)")),
    case("endless 400", {"fault": {"flood": {"piece": "x" * 1000}, "status": 400}}): (
        (failures.REJECTED, " (400)")
    ),
}


@pytest.mark.parametrize("name", PERMANENT_STATUSES)
async def test_a_permanent_failure_is_one_sentence_at_once(
    server: RunningServer, name: str
) -> None:
    waits, before = Waits(), len(requests_of(server, name))
    client = client_of(
        server, waits, key_name="SOME_KEY", url_name="providers.x.base_url"
    )
    error = await error_of(client, prompt(name))
    sentence, code = PERMANENT_STATUSES[name]
    assert says(error, sentence, status=code, model="scripted-1", key_name="SOME_KEY")
    assert len(str(error)) < 500
    assert waits.seconds == []
    assert len(requests_of(server, name)) == before + 1
    await client.aclose()


OK = {"text": "at last"}
WAITS = {
    case("retry-after 7", status(429, retry_after="7"), OK): 7.0,
    case("retry-after-ms 250", status(429, retry_after_ms="250"), OK): 0.25,
    case("in the past", status(429, retry_after="-5"), OK): 0.0,
    case("not said", status(429, retry_after="a while"), OK): 1.0,
}


@pytest.mark.parametrize("name", WAITS)
async def test_the_wait_is_the_one_the_server_requests(
    server: RunningServer, name: str
) -> None:
    waits = Waits()
    client = client_of(server, waits)
    chunks = await chunks_of(client, prompt(name))
    assert [chunk.seconds for chunk in chunks if isinstance(chunk, RetryChunk)] == [
        WAITS[name]
    ]
    assert waits.seconds == [WAITS[name]]
    await client.aclose()


async def test_a_redirect_is_not_followed_and_its_target_is_named() -> None:
    """A request is meant for one server, and a redirected POST becomes a GET."""
    with scripted_server(OK) as other:
        target = (
            other.base_url.replace("http://", "http://me:secret@")
            + "/chat/completions?token=abc"
        )
        with scripted_server(status(307, location=target)) as server:
            client = client_of(server)
            error = await error_of(client)
            where = f"to {other.base_url}/chat/completions"
            assert says(error, failures.REDIRECTED, where=where, status=307)
            assert "secret" not in str(error)
            assert "abc" not in str(error)
            assert other.requests() == []
            await client.aclose()


# --- streams -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Form:
    """An answer in an unusual form, and the expected result."""

    name: str
    answer: dict[str, Any]
    text: str = "hello wörld"
    stop: str = "stop"


HELLO = text_chunk("hello ") + text_chunk("wörld")
LONG = " ".join(map(str, range(200_000)))
"""1.3 million characters that do not repeat themselves."""
STREAMS = [
    Form(
        "comments, ids and unknown fields",
        wild(": ping\n\nid: 7\nretry: 1\nfoo\n" + HELLO + ":\n" + END),
    ),
    Form("CRLF", wild((HELLO + END).replace("\n", "\r\n"))),
    Form("CR", wild((HELLO + END).replace("\n", "\r"))),
    Form(
        "CRLF, cut in the middle",
        wild(*(HELLO + END).replace("\n", "\r\n").partition("\r")),
    ),
    Form("a byte order mark", wild("\ufeff" + HELLO + END)),
    Form("no space after the colon", wild((HELLO + END).replace("data: ", "data:"))),
    Form(
        "JSON on several lines",
        wild(HELLO.replace(', "finish', ',\ndata: "finish') + END),
    ),
    Form(
        "byte by byte",
        {"fault": {"bytes": list((HELLO + END).encode().decode("latin-1"))}},
    ),
    Form("no empty line at the end", wild((HELLO + END).rstrip("\n"))),
    Form("no end mark", wild(HELLO + text_chunk("", "stop"))),
    Form(
        "reset right after the end", wild(HELLO + text_chunk("", "stop"), then="reset")
    ),
    Form("cut right after the end", wild(HELLO + text_chunk("", "stop") + "data: [DO")),
    Form("gzip", wild(HELLO + END, gzip=True)),
    Form(
        "bytes that are no UTF-8",
        {
            "fault": {
                "bytes": [
                    text_chunk("a")
                    + 'data: {"choices": [{"delta": {"content": "\xff"}}]}\n\n'
                    + END
                ]
            }
        },
        text="a\ufffd",
    ),
    Form(
        "a wrong content type",
        wild(HELLO + END, headers={"content-type": "text/plain"}),
    ),
    Form(
        "one JSON text, not streamed",
        {"text": "hello wörld", "fault": {"unstreamed": True}},
    ),
    Form(
        "one JSON text, pretty, as a stream",
        wild(
            '\n{\n "choices": [{"message": {"content": "hello wörld"}, "finish_reason": "stop"}]\n}\n'
        ),
    ),
    Form(
        "an event of more than 1 MB",
        wild(text_chunk(LONG) + END),
        text=LONG[:1_000_000],
        stop="length",
    ),
    Form(
        "an event of more than 1 MB, of one letter",
        wild(text_chunk("x" * 1_200_000) + END),
        text="x" * 1_000_000,
        stop="repeated",
    ),
    Form("a finish reason nobody knows", wild(HELLO + text_chunk("", "because"))),
    Form(
        "a finish reason first", wild(text_chunk("", "stop") + HELLO + data("[DONE]"))
    ),
    Form(
        "a null delta at the end",
        wild(HELLO + data({"choices": [{"delta": None, "finish_reason": "stop"}]})),
    ),
    Form("a null error", wild(HELLO + data({"error": None, "choices": []}) + END)),
    Form("choices for nobody", wild(data({"choices": []}) + data({}) + HELLO + END)),
    Form(
        "a refusal",
        wild(text_chunk(None, refusal="hello wörld") + END),
        stop="filtered",
    ),
]
for told in STREAMS:
    case(told.name, told.answer)


@pytest.mark.parametrize("told", STREAMS, ids=lambda told: told.name)
async def test_an_answer_in_an_unusual_form_is_accepted(
    server: RunningServer, told: Form
) -> None:
    waits = Waits()
    client = client_of(server, waits)
    message = await answer_of(client, prompt(told.name))
    assert (message.text, message.stop_reason) == (told.text, told.stop)
    assert waits.seconds == []
    await client.aclose()


ENDLESS_USAGE = (
    '{"choices": [], "usage": {"prompt_tokens": 1e999, "completion_tokens": 1'
    + "0" * 400
    + "}}"
)
case(
    "usage beyond all numbers",
    wild(HELLO + END.removesuffix(data("[DONE]")) + data(ENDLESS_USAGE)),
)


async def test_absurdly_large_usage_is_ignored(server: RunningServer) -> None:
    client = client_of(server)
    message = await answer_of(client, prompt("usage beyond all numbers"))
    assert message.usage is not None
    assert (message.text, message.usage.input, message.usage.output) == (
        "hello wörld",
        0,
        0,
    )
    await client.aclose()


case(
    "packed 400", {"fault": {"status": 400, "bytes": ["x" * 50_000_000], "gzip": True}}
)


async def test_a_compressed_error_is_decompressed_only_up_to_its_bound(
    server: RunningServer,
) -> None:
    body = {
        "messages": [{"role": "user", "content": "packed 400"}],
        "model": "scripted-1",
        "stream": True,
    }
    provider = Provider("box", "Box", server.base_url)
    async with aclosing(
        Sdk(provider, KEY, idle_seconds=60, connect_seconds=60)
    ) as client:
        with pytest.raises(APIStatusError) as refused:
            await client.ask("/chat/completions", body)
    assert len(refused.value.response.content) == LONGEST_FAILURE


EMPTY = [
    case("only a finish reason", wild(text_chunk(None, "stop") + data("[DONE]"))),
    case(
        "only usage",
        wild(data({"choices": [], "usage": {"prompt_tokens": 3}}) + data("[DONE]")),
    ),
]


@pytest.mark.parametrize("name", EMPTY)
async def test_an_empty_answer_is_retried_and_finally_accepted(
    server: RunningServer, name: str
) -> None:
    waits = Waits()
    client = client_of(server, waits)
    message = await answer_of(client, prompt(name))
    assert (message.text, message.stop_reason, waits.seconds) == (
        "",
        "stop",
        EIGHT_WAITS,
    )
    await client.aclose()


@dataclass(frozen=True)
class Broken:
    """A broken answer and the sentence shown for it."""

    name: str
    answer: dict[str, Any]
    words: str = failures.BROKEN
    partial: str | None = None
    again: bool = True
    """Whether the request is retried."""


BROKEN_ANSWERS = [
    Broken("an empty body", wild("")),
    Broken("blank lines", wild("\n \n\n")),
    Broken("only the end mark", wild(data("[DONE]"))),
    Broken("lines without a name", wild("hello\nworld\n\n")),
    Broken("half a JSON", wild('data: {"choices": [{"delta": {"content": "tor\n\n')),
    Broken(
        "half a JSON after some text",
        wild(HELLO + 'data: {"choi\n\n' + END),
        partial="hello wörld",
    ),
    Broken("half a JSON, not streamed", wild('{"choices": [{"message": {"conte')),
    Broken(
        "no finish and no usage", wild(HELLO + data("[DONE]")), partial="hello wörld"
    ),
    Broken(
        "a close in the middle, usage in every piece",
        wild(
            data(
                {
                    "choices": [{"delta": {"content": "hello wörld"}}],
                    "usage": {"prompt_tokens": 3},
                }
            )
        ),
        partial="hello wörld",
    ),
    Broken("a close in the middle", wild(HELLO + 'data: {"cho'), partial="hello wörld"),
    Broken(
        "a finish reason that is an error",
        wild(HELLO + text_chunk("", "error")),
        partial="hello wörld",
    ),
    Broken("a reset", wild(then="reset")),
    Broken("a reset after some text", wild(HELLO, then="reset"), partial="hello wörld"),
    Broken(
        "half of a gzip",
        {
            "fault": {
                "bytes": ["\x1f\x8b\x08nonsense"],
                "headers": {"content-encoding": "gzip"},
            }
        },
    ),
    Broken("nested without end", wild("data: " + "[" * 200_000 + "\n\n")),
    Broken(
        "a login page",
        wild(
            "<!DOCTYPE html><title>Sign in</title>",
            headers={"content-type": "text/html"},
        ),
        failures.WEB_PAGE,
        again=False,
    ),
    Broken(
        "an error after some text",
        wild(HELLO + data({"error": {"message": "GPU on fire"}})),
        "GPU on fire",
        "hello wörld",
    ),
    Broken(
        "an error that is a text",
        wild(data({"error": "GPU on fire"})),
        "GPU on fire",
        again=False,
    ),
    Broken(
        "an error by the event's name",
        wild(HELLO + 'event: error\ndata: {"message": "GPU on fire"}\n\n'),
        "GPU on fire",
        "hello wörld",
    ),
    Broken(
        "an error of vLLM",
        wild(data({"object": "error", "message": "GPU on fire", "code": 400})),
        "GPU on fire",
        again=False,
    ),
    Broken(
        "an error with 200, not streamed",
        wild('{"error": {"message": "GPU on fire", "code": 400}}'),
        "GPU on fire",
        again=False,
    ),
    Broken(
        "an overload in the stream",
        wild(data({"error": {"message": "busy", "code": 529}})),
        "busy",
    ),
]


for broken in BROKEN_ANSWERS:
    case(broken.name, broken.answer)


@pytest.mark.parametrize("broken", BROKEN_ANSWERS, ids=lambda broken: broken.name)
async def test_a_broken_answer_is_retried_unless_it_is_a_refusal(
    server: RunningServer, broken: Broken
) -> None:
    waits = Waits()
    client = client_of(server, waits)
    error = await error_of(client, prompt(broken.name))
    assert says(error, broken.words)
    assert "\n" not in str(error)
    said = None if error.partial is None else error.partial.text
    assert said == broken.partial
    assert waits.seconds == (EIGHT_WAITS if broken.again else [])
    await client.aclose()


SILENT = {
    case("silent from the start", {"fault": {"hang": True}}): None,
    case("silent before the first event", wild(then="stall")): None,
    case("silent after some text", wild(HELLO, then="stall")): "hello wörld",
}


@pytest.mark.parametrize("name", SILENT)
async def test_a_silent_server_times_out_and_is_disconnected(
    server: RunningServer, name: str
) -> None:
    client = client_of(server, idle_seconds=0.3)
    error = await error_of(client, prompt(name))
    assert says(error, failures.STALLED, seconds=0.3)
    assert (error.partial.text if error.partial else None) == SILENT[name]
    await asyncio.to_thread(
        server.wait_for,
        lambda _: all(seen.outcome for seen in requests_of(server, name)),
    )
    assert {seen.outcome for seen in requests_of(server, name)} == {"closed by client"}
    await client.aclose()


async def test_a_refused_connection_is_retried_and_then_reported() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
        waits = Waits()
        client = chat_at(
            url, model="m", window=9, key=KEY, url_name="providers.x", sleep=waits
        )
        error = await error_of(client)
        assert says(error, failures.UNREACHABLE, shown=url)
        assert "providers.x" in str(error)
        assert waits.seconds == EIGHT_WAITS
        await client.aclose()


# --- tool calls ----------------------------------------------------------------------------------------


def call(
    index: int | None = None,
    id: str | None = None,
    name: str | None = None,
    args: Any = None,
) -> str:
    function = {
        key: value
        for key, value in (("name", name), ("arguments", args))
        if value is not None
    }
    fields = {"index": index, "id": id, "type": "function", "function": function}
    return text_chunk(
        None,
        tool_calls=[{key: value for key, value in fields.items() if value is not None}],
    )


TWO = [("read", {"path": "a"}), ("read", {"path": "b"})]
CALLS: list[tuple[str, str]] = [
    (
        "whole",
        call(0, "x", "read", '{"path":"a"}') + call(1, "y", "read", '{"path":"b"}'),
    ),
    (
        "interleaved",
        call(0, "x", "read", "")
        + call(1, "y", "read", "")
        + call(1, args='{"path"')
        + call(0, args='{"pa')
        + call(0, args='th":"a"}')
        + call(1, args=':"b"}'),
    ),
    (
        "the second first",
        call(1, "y", "read", '{"path":"a"}') + call(0, "x", "read", '{"path":"b"}'),
    ),
    (
        "no index",
        call(None, "x", "read", '{"path":"a"}')
        + call(None, "y", "read", '{"path":"b"}'),
    ),
    (
        "no index, no id",
        call(None, None, "read", '{"path":')
        + call(args='"a"}')
        + call(None, None, "read", '{"path":"b"}'),
    ),
    (
        "one index for all",
        call(0, "x", "read", '{"path":"a"}')
        + call(0, "y", "read", '{"path":')
        + call(0, "y", args='"b"}'),
    ),
    (
        "ids in a later piece",
        call(0, None, "read", '{"path":')
        + call(0, "x", args='"a"}')
        + call(1, None, "read")
        + call(1, "y", args='{"path":"b"}'),
    ),
    (
        "names repeated",
        call(0, "x", "read", '{"path":')
        + call(0, "x", "read", '"a"}')
        + call(1, "y", "read", '{"path":"b"}'),
    ),
    (
        "the whole call once more at the end",
        call(0, "x", "read", '{"path":')
        + call(0, args='"a"}')
        + call(0, "x", "read", '{"path":"a"}')
        + call(1, "y", "read", '{"path":"b"}')
        + call(1, "y", "read", '{"path":"b"}'),
    ),
    (
        "arguments that are objects",
        call(0, "x", "read", {"path": "a"}) + call(1, "y", "read", {"path": "b"}),
    ),
    (
        "the same id twice",
        call(0, "x", "read", '{"path":"a"}') + call(1, "x", "read", '{"path":"b"}'),
    ),
]


for name, pieces in CALLS:
    case(name, wild(pieces + text_chunk("", "tool_calls") + data("[DONE]")))


@pytest.mark.parametrize("name", [name for name, _ in CALLS])
async def test_two_calls_are_recognised_in_every_form(
    server: RunningServer, name: str
) -> None:
    client = client_of(server)
    message = await answer_of(client, prompt(name), [READ])
    assert [(found.name, found.parsed()) for found in message.calls] == TWO
    assert len({found.call_id for found in message.calls}) == 2
    assert message.stop_reason == "tool_calls"
    await client.aclose()


HUNDRED = [
    {"name": "read", "arguments": {"path": f"{number}.py"}} for number in range(100)
]
case("a hundred calls", {"tool_calls": HUNDRED, "chunk": 6})


async def test_a_hundred_parallel_calls_arrive_complete(server: RunningServer) -> None:
    client = client_of(server)
    message = await answer_of(client, prompt("a hundred calls"), [READ])
    assert [found.parsed()["path"] for found in message.calls] == [
        f"{n}.py" for n in range(100)
    ]
    await client.aclose()


ARGUMENTS = {
    case(
        f"arguments {number}",
        wild(call(0, "x", "read", text) + text_chunk("", "tool_calls")),
    ): text
    for number, text in enumerate(
        ["", "nonsense", '{"path": "a', "[1]", "NaN", "[" * 100_000]
    )
}


@pytest.mark.parametrize("name", ARGUMENTS)
async def test_arguments_that_are_not_an_object_are_kept_verbatim(
    server: RunningServer, name: str
) -> None:
    client = client_of(server)
    [found] = (await answer_of(client, prompt(name), [READ])).calls
    assert found.arguments == (ARGUMENTS[name] or "{}")
    assert found.parsed() == {}
    await client.aclose()


# --- cancelling ----------------------------------------------------------------------------------------

MOMENTS = [
    case("cancelled before the first byte", {"fault": {"hang": True}}),
    case("cancelled in a silent stream", wild(HELLO, then="stall")),
    case(
        "cancelled in a flood of nothing",
        {"fault": {"flood": {"piece": text_chunk("")}}},
    ),
    case(
        "cancelled in a flood of comments",
        {"fault": {"flood": {"piece": ": still here\n"}}},
    ),
]


@pytest.mark.parametrize("name", MOMENTS)
async def test_cancelling_closes_the_connection(
    server: RunningServer, name: str
) -> None:
    """That it takes less than 200 ms is measured by tests/bench/test_interrupt.py."""
    client = client_of(server)
    task = asyncio.create_task(chunks_of(client, prompt(name)))
    await asyncio.to_thread(server.wait_for, lambda _: requests_of(server, name))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.to_thread(
        server.wait_for,
        lambda _: requests_of(server, name)[0].outcome == "closed by client",
    )
    await client.aclose()


RETRYING = case("held up", status(500))


async def test_a_retry_wait_can_be_cancelled(server: RunningServer) -> None:
    waiting = asyncio.Event()

    async def for_ever(seconds: float) -> None:
        waiting.set()
        await asyncio.Event().wait()

    client = client_of(server, for_ever)  # type: ignore[arg-type]
    task = asyncio.create_task(chunks_of(client, prompt(RETRYING)))
    await waiting.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await client.aclose()


# --- keys ----------------------------------------------------------------------------------------------

TALKS = f"""
import asyncio, logging, sys, traceback
logging.basicConfig(level=0)
from foldline.llm import LLMError, Request
from foldline.llm.client import ModelClient
from foldline.llm.providers import Provider
from foldline.protocol import UserMessage, text_parts

async def talk():
    client = ModelClient(
        Provider("x", "X", sys.argv[1]),
        model="scripted-1",
        window=4000,
        key="{KEY}",
        sleep=lambda _: asyncio.sleep(0),
    )
    for name in ("status 401", "a reset after some text", "CRLF"):
        request = Request([UserMessage(parts=text_parts(name))])
        try:
            async for chunk in client.stream(request):
                print(chunk)
        except LLMError as error:
            traceback.print_exception(error)
            print(repr(error), repr(vars(error)))
    print(client, client._client, client._client._client, client._endpoint)

asyncio.run(talk())
"""


def test_no_shown_or_logged_text_contains_the_key(server: RunningServer) -> None:
    """Runs in a process of its own, because the SDK configures its log on import."""
    said = subprocess.run(
        [sys.executable, "-c", TALKS, server.base_url],
        env={**os.environ, "OPENAI_LOG": "debug"},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    shown = said.stdout + said.stderr
    assert "DEBUG" in shown, "the SDK logs"
    assert "hello wörld" in shown
    assert "Traceback" in shown
    assert KEY not in shown


@pytest.mark.parametrize(
    ("api", "home", "variable"),
    [
        ("chat", "https://api.openai.com/v1", "OPENAI_ORG_ID"),
        ("chat", "https://api.openai.com/v1", "OPENAI_PROJECT_ID"),
        ("chat", "https://api.openai.com/v1", "OPENAI_CUSTOM_HEADERS"),
        ("messages", "https://api.anthropic.com/v1", "ANTHROPIC_CUSTOM_HEADERS"),
    ],
)
def test_a_vendors_environment_variables_go_to_no_other_server(
    monkeypatch: pytest.MonkeyPatch, api: Api, home: str, variable: str
) -> None:
    monkeypatch.setenv(
        variable, "X-Account: planted" if "HEADERS" in variable else "planted"
    )

    def sent(url: str) -> str:
        provider = Provider("box", "Box", url, api=api, headers={"X-Title": "ours"})
        client = Sdk(provider, KEY, idle_seconds=1, connect_seconds=1)._client
        options = {"chat": OpenAIOptions, "messages": AnthropicOptions}[api]
        return str(client._build_request(options(method="get", url="/models")).headers)

    assert "planted" in sent(home)
    for url in ("https://api.deepseek.com/v1", "http://localhost:8000/v1"):
        assert "planted" not in sent(url)
        assert "ours" in sent(url)
