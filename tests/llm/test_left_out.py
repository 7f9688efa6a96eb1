"""Fields a server refuses are omitted at once and from then on (real client, real server)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from foldline.llm import LLMError, Request
from foldline.llm.failures import NOT_FOUND
from foldline.protocol import (
    AssistantMessage,
    ImagePart,
    Message,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultMessage,
    UserMessage,
)
from support.clients import (
    READ,
    Waits,
    answer_of,
    chat_at,
    client_of,
    error_of,
    prompt,
    scripted_server,
)
from support.sentences import says

PICTURE = ImagePart(media_type="image/png", data="aGk=")
PICTURE_HISTORY: list[Message] = [
    *prompt(),
    AssistantMessage(parts=(ToolCallPart(call_id="c1", name="read", arguments="{}"),)),
    ToolResultMessage(call_id="c1", name="read", parts=(PICTURE,)),
    UserMessage(parts=(TextPart(text="and this?"), PICTURE)),
]


def refusal(message: str, status: int = 400, **fields: Any) -> dict[str, Any]:
    return {
        "fault": {"status": status, "body": {"error": {"message": message, **fields}}}
    }


# --- pictures ------------------------------------------------------------------------------------------


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("api", ["chat", "responses", "messages"])
@pytest.mark.parametrize("status", [400, 404, 422, 500])
async def test_pictures_are_omitted_from_the_second_attempt_for_a_model_without_vision(
    api: str, status: int
) -> None:
    with scripted_server(
        refusal("image input is not supported", status), {"text": "ok"}
    ) as server:
        client = client_of(server, waits := Waits(), api=api)
        assert client.info.pictures
        for _ in range(2):
            assert (await answer_of(client, PICTURE_HISTORY, [READ])).text == "ok"
        shows = ["aGk=" in str(seen.body) for seen in server.requests()]
        assert (shows, waits.seconds, client.info.pictures) == (
            [True, False, False],
            [],
            False,
        )
        assert "and this?" in str(server.requests()[-1].body)
        await client.aclose()


async def test_a_refusal_of_pictures_without_any_sent_is_reported_without_a_retry() -> (
    None
):
    with scripted_server(
        refusal("No endpoints found that support image input", 404)
    ) as server:
        client = client_of(server, waits := Waits())
        error = await error_of(client)
        assert (error.about, len(server.requests()), waits.seconds) == (
            "pictures",
            1,
            [],
        )
        assert not says(error, NOT_FOUND)
        await client.aclose()


async def test_refused_content_without_pictures_does_not_mark_a_model_as_blind() -> (
    None
):
    with scripted_server(
        refusal("messages.0.content: Unsupported content type"), {"text": "ok"}
    ) as server:
        client = client_of(server)
        assert (await error_of(client)).status == 400
        assert client.info.pictures
        assert (await answer_of(client, PICTURE_HISTORY, [READ])).text == "ok"
        assert "aGk=" in str(server.requests()[-1].body)
        await client.aclose()


async def test_the_client_does_not_omit_a_picture_that_is_too_large() -> None:
    with scripted_server(refusal("image exceeds 5 MB maximum")) as server:
        client = client_of(server)
        error = await error_of(client, PICTURE_HISTORY)
        assert (error.about, len(server.requests()), client.info.pictures) == (
            "picture",
            1,
            True,
        )
        await client.aclose()


# --- optional fields -----------------------------------------------------------------------------------

LARGE = 131_072


@pytest.mark.parametrize(
    ("message", "limits"),
    [
        (
            "max_tokens is too large: 117784. It supports at most 16384 completion tokens",
            [16_384] * 2,
        ),
        (
            "max_tokens: 117784 > 64000, which is the maximum allowed number of output tokens",
            [64_000] * 2,
        ),
        (
            "Unsupported parameter: 'max_tokens' is not supported with this model.",
            [None] * 2,
        ),
    ],
)
async def test_a_refused_limit_is_lowered_or_omitted(
    message: str, limits: list[int | None]
) -> None:
    with scripted_server(refusal(message), {"text": "ok"}, window=LARGE) as server:
        client = client_of(server, waits := Waits())
        for _ in range(2):
            assert (await answer_of(client, prompt(), tokens=200)).text == "ok"
        first, *others = [seen.max_tokens for seen in server.requests()]
        assert (first, others, waits.seconds) == (117_784, limits, [])
        assert client.info.max_output == limits[0]
        await client.aclose()


async def test_the_field_the_server_wants_instead_is_sent() -> None:
    message = (
        "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."
    )
    with scripted_server(refusal(message), {"text": "ok"}, window=LARGE) as server:
        client = client_of(server)
        await answer_of(client, prompt(), tokens=200)
        bodies = [seen.body for seen in server.requests()]
        assert [body.get("max_completion_tokens") for body in bodies] == [
            None,
            bodies[0]["max_tokens"],
        ]
        assert "max_tokens" not in bodies[1]
        await client.aclose()


@pytest.mark.parametrize("api", ["chat", "messages"])
async def test_a_local_servers_limit_is_the_rest_of_the_window_over_each_api(
    api: str,
) -> None:
    with scripted_server({"text": "ok"}, window=LARGE) as server:
        client = client_of(server, api=api)
        await answer_of(client, prompt(), tokens=200)
        assert [seen.max_tokens for seen in server.requests()] == [117_784]
        await client.aclose()


async def test_the_limit_required_by_messages_is_lowered() -> None:
    message = "max_tokens: 117784 > 8192, which is the maximum allowed number of output tokens"
    with scripted_server(refusal(message), {"text": "ok"}, window=LARGE) as server:
        client = client_of(server, api="messages")
        await answer_of(client, prompt(), tokens=200)
        assert [seen.max_tokens for seen in server.requests()] == [117_784, 8_192]
        await client.aclose()


async def test_a_configured_limit_never_exceeds_the_models_maximum() -> None:
    message = "Invalid max_tokens value, the valid range of max_tokens is [1, 8192]"
    with scripted_server(refusal(message), {"text": "ok"}, window=LARGE) as server:
        client = client_of(server)
        for _ in range(2):
            await answer_of(client, prompt(), max_output=20_000)
        assert [seen.max_tokens for seen in server.requests()] == [20_000, 8_192, 8_192]
        await client.aclose()


async def test_thinking_is_omitted_if_litellm_refuses_the_effort_derived_from_it() -> (
    None
):
    message = "litellm.BadRequestError: OpenAIException - Unsupported parameter: 'reasoning.effort'"
    with scripted_server(refusal(message), {"text": "ok"}) as server:
        client = client_of(server, api="messages")
        assert (await answer_of(client, prompt())).text == "ok"
        assert ["thinking" in seen.body for seen in server.requests()] == [True, False]
        await client.aclose()


async def test_several_fields_can_be_refused_one_after_another() -> None:
    refusals = [
        refusal("Unknown parameter: 'stream_options'."),
        refusal("max_tokens is not supported"),
        refusal("Unrecognized request argument supplied: prompt_cache_key", 422),
    ]
    with scripted_server(*refusals, {"text": "ok"}, window=LARGE) as server:
        client = client_of(server, waits := Waits(), session_field="prompt_cache_key")
        await answer_of(client, prompt(), tokens=200, session="s")
        assert {*server.requests()[-1].body} == {"model", "messages", "stream"}
        assert (len(server.requests()), waits.seconds) == (4, [])
        await client.aclose()


@pytest.mark.parametrize("status", [401, 402, 429])
async def test_key_credit_and_rate_errors_omit_no_field(status: int) -> None:
    with scripted_server(
        refusal("stream_options, max_tokens, image", status), window=LARGE
    ) as server:
        client = client_of(server)
        await error_of(client, PICTURE_HISTORY)
        bodies = [seen.body for seen in server.requests()]
        assert all(body == bodies[0] for body in bodies)
        assert client.info.pictures
        await client.aclose()


# --- reasoning blocks ----------------------------------------------------------------------------------

TEXT = {"type": "reasoning.text", "format": "anthropic-claude-v1", "index": 0}
SEALED = {
    "type": "reasoning.encrypted",
    "data": "EvYB",
    "format": "google-gemini-v1",
    "id": "c1",
    "index": 0,
}
PIECES = [
    [TEXT | {"text": "Let"}],
    [TEXT | {"text": " me see."}],
    [TEXT | {"signature": "Et8B"}],
    [SEALED],
    [SEALED | {"data": "EvYC", "id": "c2"}],
]
BLOCKS = [
    TEXT | {"text": "Let me see.", "signature": "Et8B"},
    SEALED,
    SEALED | {"data": "EvYC", "id": "c2"},
]


def in_blocks(pieces: list[Any], **last: Any) -> dict[str, Any]:
    deltas: list[dict[str, Any]] = [{"reasoning_details": piece} for piece in pieces]
    deltas.append({"content": "yes"})
    chunks = [
        {"choices": [{"delta": delta, "finish_reason": None}]} for delta in deltas
    ]
    end = {"choices": [{"delta": {}, "finish_reason": "stop"}]}
    return {"fault": {"raw": [*chunks, last or end]}}


@pytest.mark.parametrize("dialect", ["openrouter", "strict", "openai"])
async def test_reasoning_blocks_are_sent_back_unchanged_to_the_same_model(
    dialect: str,
) -> None:
    with scripted_server(in_blocks(PIECES), {"text": "ok"}) as server:
        client = client_of(server, dialect=dialect)
        answer = await answer_of(client, prompt())
        assert answer.thinking == "Let me see."
        read_again = AssistantMessage.model_validate_json(answer.model_dump_json())
        await answer_of(client, [*prompt(), read_again, *prompt()[1:]])
        sent = server.requests()[-1].messages[2]
        assert sent["reasoning_details"] == BLOCKS
        assert "reasoning" not in sent
        await client.aclose()


async def test_reasoning_blocks_are_not_sent_to_another_model_or_server() -> None:
    with scripted_server({"text": "ok"}) as server:
        client = client_of(server, dialect="openrouter")
        for signer in (
            f"{server.model}@elsewhere:1",
            "another@" + server.base_url[7:-3],
        ):
            signature = '{"reasoning_details": {"type": "reasoning.text", "text": ""}}'
            thought = ThinkingPart(
                text="So it is.", signature=signature, signed_by=signer
            )
            answer = AssistantMessage(parts=(thought, TextPart(text="yes")))
            await answer_of(client, [*prompt(), answer, *prompt()[1:]])
            sent = server.requests()[-1].messages[2]
            assert (sent.get("reasoning_details"), sent["reasoning"]) == (
                None,
                "So it is.",
            )
        await client.aclose()


async def test_reasoning_blocks_of_an_interrupted_answer_are_kept_only_as_text() -> (
    None
):
    with scripted_server(
        in_blocks(PIECES, error={"message": "no", "code": 400})
    ) as server:
        client = client_of(server)
        partial = (await error_of(client)).partial
        assert partial is not None
        assert [part for part in partial.parts if isinstance(part, ThinkingPart)] == [
            ThinkingPart(text="Let me see.")
        ]
        await client.aclose()


@pytest.mark.parametrize(
    "pieces",
    [
        [None],
        ["x"],
        [[None, 1, "x"]],
        [{"type": "reasoning.text"}],
        [[{"type": 7, "index": "a", "text": 3}]],
    ],
    ids=str,
)
async def test_reasoning_blocks_of_unknown_form_do_not_break_an_answer(
    pieces: list[Any],
) -> None:
    with scripted_server(in_blocks(pieces), {"text": "ok"}) as server:
        client = client_of(server)
        answer = await answer_of(client, prompt())
        assert answer.text == "yes"
        assert (
            await answer_of(client, [*prompt(), answer, *prompt()[1:]])
        ).text == "ok"
        await client.aclose()


async def test_refused_reasoning_blocks_are_omitted() -> None:
    unknown = refusal("property 'reasoning_details' is unsupported")
    with scripted_server(in_blocks(PIECES), unknown, {"text": "ok"}) as server:
        client = client_of(server)
        answer = await answer_of(client, prompt())
        await answer_of(client, [*prompt(), answer, *prompt()[1:]])
        sent = ["reasoning_details" in str(seen.body) for seen in server.requests()]
        assert sent == [False, True, False]
        await client.aclose()


async def test_calls_not_made_by_gemini_get_openrouters_placeholder_block() -> None:
    with scripted_server({"text": "ok"}, model="google/gemini-3.5-pro") as server:
        client = client_of(server, dialect="openrouter")
        await answer_of(client, PICTURE_HISTORY[:-1], [READ])
        [block] = server.requests()[-1].messages[2]["reasoning_details"]
        assert (block["type"], block["id"]) == ("reasoning.encrypted", "c1")
        await client.aclose()


# --- kept connections ----------------------------------------------------------------------------------

ANSWER = b'data: {"choices": [{"delta": {"content": "ok"}, "finish_reason": "stop"}]}\n\ndata: [DONE]\n\n'
HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: %d\r\n\r\n"
    % len(ANSWER)
)


@asynccontextmanager
async def closing_server(answers: int) -> AsyncIterator[tuple[str, list[int]]]:
    """Run a server that closes each connection on the request after `answers` answers.

    Yield its address and the connection number of each request.
    """
    requests: list[int] = []
    connections = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        number, left = connections, answers
        while (head := await reader.readline()) and head.strip():
            length = 0
            while (line := await reader.readline()).strip():
                if line.lower().startswith(b"content-length:"):
                    length = int(line.split(b":")[1])
            await reader.readexactly(length)
            requests.append(number)
            if not left:
                break
            left -= 1
            writer.write(HEAD + ANSWER)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", requests


async def test_a_kept_connection_that_breaks_before_its_first_byte_is_replaced_at_once() -> (
    None
):
    async with closing_server(answers=1) as (url, requests):
        client = chat_at(url, model="m", window=9_000, sleep=(waits := Waits()))
        for _ in range(3):
            assert (await answer_of(client, prompt())).text == "ok"
        assert requests == [1, 1, 2, 2, 3]
        assert waits.seconds == []
        await client.aclose()


async def test_a_new_connection_that_breaks_before_its_first_byte_is_retried_after_a_wait() -> (
    None
):
    async with closing_server(answers=0) as (url, requests):
        client = chat_at(url, model="m", window=9_000, sleep=(waits := Waits()))
        with pytest.raises(LLMError):
            async for _ in client.stream(Request(prompt())):
                pass
        assert len(requests) == len(waits.seconds) + 1 == 9
        await client.aclose()
