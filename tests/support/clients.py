"""The real client against a scripted server: setup, requests, errors."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import pytest

from foldline.agent.settings.model_choice import server_of_environment
from foldline.llm import Answer, Chunk, LLMError, Request, ToolSpec
from foldline.llm.client import ModelClient
from foldline.llm.providers import PROVIDERS
from foldline.llm.wire import DEFAULT, Options
from foldline.protocol import (
    AssistantMessage,
    Message,
    SystemMessage,
    UserMessage,
    text_parts,
)
from support.server import RunningServer, running_server

KEY = "sk-test-5f2c8a917b3d4e60"
READ = ToolSpec(
    "read",
    "Reads a file.",
    {"type": "object", "properties": {"path": {"type": "string"}}},
)


_SPOKEN = (
    *(
        "api",
        "dialect",
        "session_field",
        "states_output",
        "takes_tools_off",
        "asks_usage",
    ),
    *("cache_least", "cache_step", "cache_life"),
)
"""Fields of a provider, without address and key."""


class Waits:
    """Replacement for `asyncio.sleep`: records the delay and returns at once."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)


def chat_at(
    base_url: str,
    *,
    model: str = "",
    key: str = "",
    key_name: str = "",
    window: int | None = None,
    options: Options = DEFAULT,
    idle_seconds: float | None = None,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    **different: Any,
) -> ModelClient:
    """Return a client for the server at `base_url`, as OPENAI_BASE_URL would name it.

    `different` overrides fields of the provider.
    """
    provider = replace(server_of_environment(base_url), **different)
    return ModelClient(
        provider,
        model=model,
        key=key,
        key_name=key_name,
        window=window,
        options=options,
        idle_seconds=idle_seconds,
        sleep=sleep,
    )


def preset_at(server: RunningServer, preset: str, window: int) -> ModelClient:
    """Return a preset's client, pointed at a test server."""
    different = {name: getattr(PROVIDERS[preset], name) for name in _SPOKEN}
    return chat_at(server.base_url, model=server.model, window=window, **different)


def client_of(
    server: RunningServer, waits: Waits | None = None, **options: Any
) -> ModelClient:
    arguments = {"model": server.model, "window": server.window, "key": KEY, **options}
    return chat_at(server.base_url, sleep=waits or Waits(), **arguments)


def prompt(text: str = "hello") -> list[Message]:
    return [
        SystemMessage(parts=text_parts("Be brief.")),
        UserMessage(parts=text_parts(text)),
    ]


async def chunks_of(
    client: ModelClient,
    messages: Sequence[Message],
    tools: Sequence[ToolSpec] = (),
    **options: Any,
) -> list[Chunk]:
    async with aclosing(client.stream(Request(messages, tools, **options))) as stream:
        return [chunk async for chunk in stream]


async def answer_of(
    client: ModelClient,
    messages: Sequence[Message],
    tools: Sequence[ToolSpec] = (),
    **options: Any,
) -> AssistantMessage:
    last = (await chunks_of(client, messages, tools, **options))[-1]
    assert isinstance(last, Answer)
    return last.message


async def error_of(client: ModelClient, messages: Sequence[Message] = ()) -> LLMError:
    with pytest.raises(LLMError) as raised:
        await chunks_of(client, messages or prompt())
    assert KEY not in str(raised.value)
    assert KEY not in repr(raised.value)
    chained = raised.value.__context__, raised.value.__cause__
    assert chained == (None, None), (
        "a chained error holds the request, and the key in it"
    )
    return raised.value


def scripted_server(*answers: dict[str, Any], **options: Any) -> Any:
    """Start a server that gives these answers in order, then repeats the last one."""
    rules: list[dict[str, Any]] = [{"times": 1, "answer": answer} for answer in answers]
    rules[-1] = {"answer": answers[-1]}
    return running_server(script=rules, **options)
