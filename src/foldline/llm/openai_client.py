"""The client for OpenAI and everything compatible with it: chat completions, streamed.

`openai` takes a third of a second to import: the first request does it, or `preload` before it.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from types import ModuleType
from typing import TYPE_CHECKING, Any

from foldline.protocol import AssistantMessage

from . import failures
from .assembly import CONTEXT_WINDOW_EXCEEDED, Assembly
from .base import Answer, Chunk, ContextOverflow, LLMError, ModelInfo, Request, RetryChunk
from .dialect import Dialect, dialect_for, to_openai, tools_to_openai
from .failures import Endpoint, Failure
from .models import is_known, listed_window, model_info
from .sdk import is_local, sdk_client

if TYPE_CHECKING:
    from openai import AsyncOpenAI

OPENAI_URL = "https://api.openai.com/v1"
IDLE_SECONDS = 120.0
"""Longest silence of a server, in seconds, before a request counts as stalled."""
LOCAL_IDLE_SECONDS = 900.0
"""The same for local servers: without a graphics card, a long prompt takes minutes before the first byte."""
_CONNECT_SECONDS = 10.0
_UNNAMED = "default"
"""Shown for a model until the server has been asked for its first one."""


def preload() -> None:
    """Imports `openai`. To be run in a thread, after the first paint."""
    _load()


def _always(window: int | None) -> Callable[[str], int | None]:
    return lambda _: window


class OpenAIChat:
    """A model behind `/chat/completions`. Retries, time-outs and errors are handled here, not by the SDK."""

    def __init__(
        self,
        *,
        model: str | None = None,
        base_url: str = OPENAI_URL,
        api_key: str = "",
        window: int | Callable[[str], int | None] | None = None,
        dialect: Dialect | None = None,
        idle_seconds: float | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Without `model`, the first one the server lists is used. `window`, in tokens or by the name of the
        model, overrides all."""
        self._base_url = base_url
        self._key = api_key
        self._window_of = window if callable(window) else _always(window)
        self._dialect = dialect or dialect_for(base_url)
        self._idle = idle_seconds or (LOCAL_IDLE_SECONDS if is_local(base_url) else IDLE_SECONDS)
        self._sleep = sleep
        known = self._window_of(model or _UNNAMED)
        self._info = model_info(model or _UNNAMED, base_url, known)
        self._settled = model is not None and (known is not None or is_known(model))
        """Whether nothing has to be asked of the server before the first request."""
        self._named = model is not None
        self._asks_usage = True
        self._client: AsyncOpenAI | None = None
        self._opening = asyncio.Lock()

    @property
    def info(self) -> ModelInfo:
        """What is known now; `prepare` may learn more."""
        return self._info

    @property
    def dialect(self) -> str:
        return self._dialect.name

    async def prepare(self) -> ModelInfo:
        """Asks the server, once, for what is not known yet: which model, its window. `stream` does it too.

        Raises:
            LLMError: no model was named, and the server does not list any.
        """
        if self._settled:
            return self._info
        try:
            listed = await self._list_models()
        except _Failed as failed:
            if not self._named:
                raise LLMError(failed.failure.sentence, failed.failure.status) from None
            listed = []  # The request itself will say what is wrong, if anything is.
        if not self._named:
            if not listed:
                raise LLMError(failures.unlisted_failure(self._endpoint).sentence)
            name = str(listed[0]["id"])
            self._info = model_info(name, self._base_url, self._window_of(name))
            self._named = True
        if self._window_of(self._info.id) is None:
            stated = next((listed_window(model) for model in listed if model["id"] == self._info.id), None)
            self._info = model_info(self._info.id, self._base_url, stated)
        self._settled = True
        return self._info

    async def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        """See `LLM.stream`. Nothing is retried once a piece of the answer has arrived."""
        await self.prepare()
        attempt = 0
        while True:
            assembly = self._assembly(request)
            try:
                async with aclosing(self._attempt(request, assembly)) as chunks:
                    async for chunk in chunks:
                        yield chunk
            except _Failed as failed:
                failure = failed.failure
                if self._asks_usage and failure.status in (400, 422) and "stream_options" in failure.body:
                    self._asks_usage = False
                    continue
                if assembly.started or not failure.retry or attempt == failures.MAX_RETRIES:
                    raise _error(failure, assembly) from None
            else:
                yield Answer(assembly.message())
                return
            attempt += 1
            seconds = failure.seconds_before(attempt)
            yield RetryChunk(failure.sentence, seconds, attempt)
            await self._sleep(seconds)

    async def aclose(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def _attempt(self, request: Request, assembly: Assembly) -> AsyncGenerator[Chunk, None]:
        """Sends the request once and feeds what comes to `assembly`.

        Raises:
            _Failed: it did not end in a complete answer.
        """
        client = await self._open()
        openai = _load()
        try:
            # Read as plain JSON: the SDK's own models drop or mistype fields of compatible servers.
            stream = await client.post(
                "/chat/completions",
                cast_to=object,
                body=self._body(request),
                stream=True,
                stream_cls=openai.AsyncStream[object],
            )
            async with stream:
                async for piece in stream:
                    if (error := failures.error_in(piece)) is not None:
                        raise _Failed(failures.stream_failure(self._endpoint, error))
                    for chunk in assembly.feed(piece):
                        yield chunk
        except openai.APIError as error:
            raise _Failed(self._failure(error)) from None
        except ValueError:  # Bytes that are no UTF-8, or an event that is no JSON.
            raise _Failed(failures.broken_failure(self._endpoint)) from None
        if assembly.finish_reason == CONTEXT_WINDOW_EXCEEDED:
            raise _Failed(failures.window_failure(self._endpoint))
        if assembly.finish_reason is None and assembly.usage is None:
            raise _Failed(failures.broken_failure(self._endpoint))

    def _body(self, request: Request) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self._info.id,
            "messages": to_openai(request.messages, self._dialect),
            "stream": True,
        }
        if self._asks_usage:
            body["stream_options"] = {"include_usage": True}
        if request.tools:  # An empty list is refused by OpenAI.
            body["tools"] = tools_to_openai(request.tools)
        if request.max_output is not None:
            body[self._dialect.max_tokens_field] = request.max_output
        return body

    def _assembly(self, request: Request) -> Assembly:
        taken = {
            call.call_id
            for message in request.messages
            if isinstance(message, AssistantMessage)
            for call in message.calls
        }
        # Entry indices are never re-used, so ids made from the newest one are unique in the session.
        newest = max((message.index for message in request.messages), default=0)
        return Assembly(self._info.id, taken=taken, stem=f"call_{newest}")

    def _failure(self, error: Exception) -> Failure:
        openai = _load()
        at = self._endpoint
        if isinstance(error, openai.APIStatusError):
            headers: Mapping[str, str] = {
                name.lower(): value for name, value in error.response.headers.items()
            }
            return failures.status_failure(at, error.status_code, error.response.text, headers)
        cause = error.__cause__
        if "Connect" in type(cause).__name__:  # ConnectError or ConnectTimeout of the SDK's own HTTP library.
            return failures.unreachable_failure(at, str(cause))
        if isinstance(error, openai.APITimeoutError):
            return failures.stalled_failure(at, self._idle)
        if isinstance(error, openai.APIConnectionError):
            return failures.broken_failure(at)
        return failures.stream_failure(at, getattr(error, "body", None) or str(error))

    async def _list_models(self) -> list[dict[str, object]]:
        """The records of `/v1/models` that have an id.

        Raises:
            _Failed: they could not be had.
        """
        client = await self._open()
        openai = _load()
        try:
            answer = await client.get("/models", cast_to=object, options={"timeout": _CONNECT_SECONDS})
        except openai.APIError as error:
            raise _Failed(self._failure(error)) from None
        except ValueError:
            return []
        records = answer.get("data") if isinstance(answer, dict) else answer
        if not isinstance(records, list):
            return []
        return [
            record for record in records if isinstance(record, dict) and isinstance(record.get("id"), str)
        ]

    @property
    def _endpoint(self) -> Endpoint:
        return Endpoint(self._base_url, self._info.id, self._key)

    async def _open(self) -> "AsyncOpenAI":
        """The SDK's client; import and construction block for long, hence the thread."""
        async with self._opening:
            if self._client is None:
                self._client = await asyncio.to_thread(self._build)
            return self._client

    def _build(self) -> "AsyncOpenAI":
        return sdk_client(
            self._base_url, self._key, idle_seconds=self._idle, connect_seconds=_CONNECT_SECONDS
        )


class _Failed(Exception):
    """Carries a failure from an attempt to the retry loop."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.sentence)
        self.failure = failure


def _error(failure: Failure, assembly: Assembly) -> LLMError:
    partial = assembly.message(error=failure.sentence) if assembly.started else None
    kind = ContextOverflow if failure.overflow else LLMError
    return kind(failure.sentence, failure.status, partial)


def _load() -> ModuleType:
    import openai

    return openai
