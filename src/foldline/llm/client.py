"""The client for OpenAI, Anthropic and all compatible servers.

One request loop serves all three APIs. Importing an SDK takes a third of a second. This happens at the first
request, or in advance through `preload`.
"""

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from foldline.json_text import JsonFields, JsonObject
from foldline.protocol import AssistantMessage

from . import failures, sse
from .base import (
    Answer,
    Chunk,
    ContextOverflow,
    LLMError,
    ModelInfo,
    Request,
    RetryChunk,
)
from .chat import ChatWire
from .embeddings import OpenAIEmbedder
from .failures import Endpoint, Failure, endpoint_of
from .listing import ListedModel, listed_models, stated_window
from .messages import MessagesWire
from .models import model_info
from .own_fields import PICTURES, PROGRESS
from .providers import Api, Provider, is_local
from .responses import ResponsesWire
from .wire import DEFAULT, AnswerReader, Options, Wire

if TYPE_CHECKING:
    from .http_client import Sdk

IDLE_SECONDS = 120.0
"""A request fails after this many seconds without data."""
LOCAL_IDLE_SECONDS = 900.0
"""The same limit for local servers.

They may process a long prompt for minutes before they send data.
"""
_CONNECT_SECONDS = 10.0
_GOODBYE_SECONDS = 0.1
"""Maximum wait for the end of the stream after a complete answer, in seconds.

A connection can be reused only if its stream was read to the end.
"""
_AT_ONCE = 32
"""Other tasks get a turn after this many events.

Otherwise, reading many buffered events would block them.
"""
_OF_THE_ROOM = 0.9
"""Maximum length of an answer, as a share of the window's estimated free space."""
_FILLED = 0.99
"""A request that fills at least this share of the window leaves no space for an answer."""
_COUNTS_ANSWER = re.compile(r"completion|output|max_(new_)?tokens", re.IGNORECASE)
"""Matches rejections in which the server added the answer's limit to the request's size."""
_UNNAMED = "default"
"""Name shown until the server has named its model."""


def preload(api: Api = "chat") -> None:
    """Import the SDK for an API.

    This blocks, so call it in a thread, after the first paint.
    """
    from .http_client import sdk_of

    sdk_of(api)


_WIRES: Mapping[Api, type[Wire]] = {
    "chat": ChatWire,
    "responses": ResponsesWire,
    "messages": MessagesWire,
}


def _always(window: int | None) -> Callable[[str], int | None]:
    return lambda _: window


class ModelClient:
    """A model served through `/chat/completions`, `/responses` or `/messages`.

    This class handles retries, timeouts and errors; the SDK's own handling is turned off.
    """

    def __init__(
        self,
        provider: Provider,
        *,
        model: str = "",
        key: str = "",
        key_name: str = "",
        window: int | Callable[[str], int | None] | None = None,
        options: Options = DEFAULT,
        idle_seconds: float | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Create a client. Nothing is sent before the first request.

        Args:
            model: name of the model. By default, the first that the server lists.
            window: replaces the known window; a number of tokens, or a function of the model's name.
            key_name: name of the key's source in error messages, if it is not the provider's variable.
            idle_seconds: replaces the default number of seconds without data after which a request fails.
        """
        self._provider = provider
        self._key = key
        self._key_name = key_name
        self._window_of = window if callable(window) else _always(window)
        self._wire = _WIRES[provider.api](provider, options)
        local = is_local(provider.base_url)
        self._idle = idle_seconds or (LOCAL_IDLE_SECONDS if local else IDLE_SECONDS)
        self._sleep = sleep
        name = model or _UNNAMED
        info = model_info(name, provider.base_url, self._window_of(name))
        self._info = replace(info, named=bool(model))
        self._settled = self._info.named and not self._info.guessed
        """Whether all facts are known.

        If not, the server is asked for them before the next request.
        """
        self._tells_reading = False
        self._adds_answer = False
        """Whether the server adds the answer's limit to the request's size.

        Learned from a rejection.
        """
        self._client: Sdk | None = None
        self._opening = asyncio.Lock()

    @property
    def info(self) -> ModelInfo:
        """The facts known so far. `prepare` may add more."""
        info = self._info
        left_out = self._wire.left_out
        most = min(filter(None, (info.max_output, left_out.most)), default=None)
        pictures = left_out.sends(PICTURES)
        self._info = replace(
            info, cache=self._wire.cache(info.id), max_output=most, pictures=pictures
        )
        return self._info

    def embedder(self) -> OpenAIEmbedder | None:
        """Return the provider's embedding model, if one is known."""
        model = self._provider.embedding_model
        if not model:
            return None
        return OpenAIEmbedder(self._provider, model=model, key=self._key)

    @property
    def dialect(self) -> str:
        return self._wire.name

    def use(self, options: Options) -> None:
        """Set the options for later requests."""
        self._wire.options = options

    @property
    def api(self) -> Api:
        return self._provider.api

    async def prepare(self) -> ModelInfo:
        """Ask the server for its model and window, if unknown.

        The server is asked only once. `stream` also does this.

        Raises:
            LLMError: no model was named, and the server does not list any.
        """
        failure = await self._learn()
        if failure is not None and not failure.loading:
            raise LLMError(failure.sentence, failure.status)
        return self.info

    async def _learn(self) -> Failure | None:
        """Ask the server for unknown facts.

        Returns a failure if the model cannot be used.
        """
        if self._settled:
            return None
        listed: list[ListedModel] | Failure = []
        is_final = True
        if (
            not self._info.named or self._provider.listing == "openai"
        ):  # other servers state windows in other places
            listed = await listed_models(self._ask, self._provider)
        if isinstance(listed, Failure):
            if not self._info.named or listed.loading:
                return listed
            # The request itself will report errors. After temporary failures, facts are requested again.
            is_final = not listed.retry
            listed = []
        if not self._info.named:
            if not listed:
                return Failure(failures.UNLISTED.format(at=self._endpoint))
            name = listed[0].id
            self._info = model_info(
                name, self._provider.base_url, self._window_of(name)
            )
        self._settled = True
        if self._window_of(self._info.id) is None:
            stated = await stated_window(
                self._ask, self._provider, self._info.id, listed
            )
            if stated.window is not None:
                self._info = replace(
                    self._info, window=stated.window, window_from="server"
                )
            if not stated.pictures:
                self._wire.left_out.names.add(PICTURES)
            most = stated.max_output or self._info.max_output
            self._info = replace(self._info, tools=stated.tools, max_output=most)
            self._tells_reading = stated.tells_reading
            self._settled = stated.is_final and is_final
        return None

    async def list_models(self) -> list[ListedModel]:
        """List the server's models.

        Raises:
            LLMError: the server cannot be reached, or rejects the key.
        """
        listed = await listed_models(self._ask, self._provider)
        if isinstance(listed, Failure):
            raise LLMError(listed.sentence, listed.status)
        return listed

    async def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        """Stream the answer; see `LLM.stream`.

        Requests are also retried after broken and empty answers.
        """
        retries = failures.Retries()
        async with aclosing(self._until_ready(retries)) as waits:
            async for wait in waits:
                yield wait
        sending = self._sending(request)
        while True:
            reading = self._wire.reading(sending.request, self._info)
            failure: Failure | None = None
            async with aclosing(self._attempt(sending, reading)) as chunks:
                async for chunk in chunks:
                    if isinstance(chunk, Failure):
                        failure = chunk
                    else:
                        yield chunk
            answer = None if failure else reading.message()
            if answer is not None and not _is_empty(answer, self._info):
                yield Answer(answer)
                return
            failure = failure or self._why_empty(reading)
            if not reading.started and self._adapt(sending, failure):
                continue
            seconds = retries.wait(failure)
            if seconds is None and answer is not None and not failure.overflow:
                yield Answer(answer)
                return
            if seconds is None:
                raise _error(failure, reading)
            partial = reading.message(error=failure.sentence)
            kept = partial if partial.parts or partial.usage else None
            yield replace(_again(failure, retries, seconds), partial=kept)
            await self._sleep(seconds)

    async def _until_ready(
        self, retries: failures.Retries
    ) -> AsyncGenerator[RetryChunk, None]:
        """Ask the server for unknown facts.

        If the server is still loading its model, wait until it has finished.

        Raises:
            LLMError: no model was named, and the server does not list any.
        """
        while (unready := await self._learn()) is not None:
            seconds = retries.wait(unready) if unready.loading else None
            if seconds is None:
                raise LLMError(unready.sentence, unready.status)
            yield _again(unready, retries, seconds)
            await self._sleep(seconds)

    def _sending(self, request: Request) -> "_Sending":
        is_ours = request.max_output is None
        most = request.max_output or self._answer_limit(request)
        if not most:
            return _Sending(request, capped=False)
        most = min(most, self.info.max_output or most)
        return _Sending(replace(request, max_output=most), capped=is_ours)

    def _adapt(self, sending: "_Sending", failure: Failure) -> bool:
        """Adapt the request to a rejection.

        Returns whether to send the request again at once.
        """
        if self._wire.leave_out(failure, sending.request, sending.body):
            return True
        if not sending.adapt(failure):
            return False
        self._adds_answer = self._adds_answer or failure.overflow
        return True

    def _why_empty(self, reading: AnswerReader) -> Failure:
        if reading.message().stop_reason == "length":
            return failures.window_failure(self._endpoint)
        return Failure(failures.EMPTY.format(at=self._endpoint), retry=True)

    def _answer_limit(self, request: Request) -> int:
        """Return the answer's limit in tokens; 0 leaves it to the server.

        Local servers have no limit of their own, so the free space in the window is used. For servers that
        have a low default, or that require a limit, it is the space that the budget reserves for answers.
        """
        least = min(self._info.window // 16, 32_768)
        is_known = (
            bool(request.tokens) and not self._info.guessed and not self._adds_answer
        )
        if is_known and is_local(self._provider.base_url):
            return max(least, int(_OF_THE_ROOM * (self._info.window - request.tokens)))
        return least if self._provider.states_output or self.api == "messages" else 0

    async def aclose(self) -> None:
        client = self._client
        self._client = None
        if client is not None:
            await client.aclose()

    async def _attempt(
        self, sending: "_Sending", reading: AnswerReader
    ) -> AsyncGenerator[Chunk | Failure, None]:
        """Send the request once, and feed the stream to `reading`.

        A failure is yielded as the last item instead of being raised. The SDK's exceptions contain the
        request with the key, and would become the context of every error raised while they are handled.
        """
        client = await self._open()
        body = self._wire.body(sending.request, self._info.id)
        headers = self._wire.headers(sending.request)
        if self._tells_reading and self._wire.left_out.sends(PROGRESS):
            body["return_progress"] = True
        if not sending.streamed:
            body.pop("stream_options", None)
            body["stream"] = False
        sending.body = body
        try:
            stream = await client.stream(self._wire.path, body, headers)
        except client.failed as error:
            yield client.failure(error, self._endpoint)
            return
        async with stream:
            # Read bytes instead of the SDK's events (see `sse`), and plain JSON instead of its models, which
            # drop or mistype fields of compatible servers.
            async for chunk in self._read(stream.response.aiter_bytes(), reading):
                yield chunk

    async def _read(
        self, body: AsyncIterator[bytes], reading: AnswerReader
    ) -> AsyncGenerator[Chunk | Failure, None]:
        """Feed a body to `reading`. If the body was faulty, yield a failure at the end."""
        try:
            async with aclosing(self._pieces(body, reading)) as pieces:
                async for name, piece in pieces:
                    if (error := failures.error_in(piece, name)) is not None:
                        yield failures.stream_failure(
                            self._endpoint, error, begun=reading.started
                        )
                        return
                    for chunk in reading.feed(piece):
                        yield chunk
                    if reading.full:
                        return  # Close the connection; otherwise the server would continue.
            await _read_to_the_end(body)
        except _breaks() as error:
            if (
                not reading.complete
            ):  # Errors after the end of the answer have no effect.
                yield self._broken(error)
                return
        if reading.overflowed:
            yield failures.window_failure(self._endpoint)
        elif not reading.complete:
            yield failures.broken_failure(self._endpoint, mute=not reading.started)

    async def _pieces(
        self, body: AsyncIterator[bytes], reading: AnswerReader
    ) -> AsyncGenerator[tuple[str, object], None]:
        """Yield a body's event names and decoded pieces, up to the answer's end.

        Raises:
            sse.TooLong: too much data arrived without any part of an answer.
        """
        event_count = 0
        useless_bytes = 0
        characters = 0
        async with aclosing(sse.events_of(body)) as events:
            async for event in events:
                event_count += 1
                if event_count % _AT_ONCE == 0:
                    await asyncio.sleep(0)
                if event.is_last:
                    return
                yield event.name, event.decoded()
                if reading.over:
                    return
                useless_bytes += len(event.data)
                if reading.characters != characters:
                    useless_bytes = 0
                    characters = reading.characters
                if useless_bytes > sse.LONGEST_EVENT:
                    raise sse.TooLong

    def _broken(self, error: Exception) -> Failure:
        """Return the failure for an exception raised while reading a body."""
        import httpx2

        at = self._endpoint
        match error:
            case sse.WebPage():
                return Failure(failures.WEB_PAGE.format(at=at))
            case sse.TooLong():
                size = sse.LONGEST_EVENT / 2**20
                return Failure(failures.ENDLESS.format(at=at, size=size))
            case httpx2.TimeoutException():
                return failures.stalled_failure(at, self._idle)
            case _:
                return failures.broken_failure(at)

    async def _ask(self, path: str, body: JsonFields | None) -> object:
        """Send a small request, and return the response's JSON or a `Failure` (`listing.Ask`)."""
        client = await self._open()
        try:
            return await client.ask(path, body, _CONNECT_SECONDS)
        except client.failed as error:
            return client.failure(error, self._endpoint)
        except (ValueError, RecursionError):
            return None

    @property
    def _endpoint(self) -> Endpoint:
        return endpoint_of(self._provider, self._info.id, self._key, self._key_name)

    async def _open(self) -> "Sdk":
        """Create the SDK's client.

        This runs in a thread, because the import and the construction are slow.
        """
        async with self._opening:
            if self._client is None:
                self._client = await asyncio.to_thread(self._build)
            return self._client

    def _build(self) -> "Sdk":
        from .http_client import Sdk

        return Sdk(
            self._provider,
            self._key,
            idle_seconds=self._idle,
            connect_seconds=_CONNECT_SECONDS,
        )


def _breaks() -> tuple[type[Exception], ...]:
    """Return the exceptions that reading a body can raise.

    The HTTP library does not wrap the last two, which are raised by lower layers.
    """
    import anyio
    import httpx2

    return (
        ValueError,
        sse.TooLong,
        sse.WebPage,
        httpx2.HTTPError,
        OSError,
        anyio.EndOfStream,
    )


async def _read_to_the_end(body: AsyncIterator[bytes]) -> None:
    """Read the rest of a body after the answer.

    Reads only data that arrives almost at once. Errors are ignored.
    """
    with suppress(*_breaks(), TimeoutError):
        async with asyncio.timeout(_GOODBYE_SECONDS):
            async for _ in body:
                pass


def _is_empty(answer: AssistantMessage, info: ModelInfo) -> bool:
    """Return whether a complete answer has no content.

    If the request filled the window, an empty answer may instead report that it reached its limit, as
    Xiaomi's MiMo does.
    """
    if answer.stop_reason == "length":
        return (
            not answer.parts
            and answer.usage is not None
            and answer.usage.input >= _FILLED * info.window
        )
    return answer.stop_reason == "stop" and not answer.calls and not answer.text.strip()


@dataclass(slots=True)
class _Sending:
    """A request, with its adaptations to the server."""

    request: Request
    capped: bool
    """Whether the client set a limit for the answer."""
    streamed: bool = True
    body: JsonObject = field(default_factory=dict, repr=False)
    """Body sent in the last attempt."""

    def adapt(self, failure: Failure) -> bool:
        """Adapt the request to a rejection.

        Returns whether to send the request again at once.
        """
        if (
            failure.mute and self.streamed
        ):  # llama-cpp-python does this where it should reject the request
            self.streamed = False
        elif (
            self.capped and failure.overflow and _COUNTS_ANSWER.search(failure.message)
        ):
            self.request = replace(self.request, max_output=None)
            self.capped = False
        else:
            return False
        return True


def _again(failure: Failure, retries: failures.Retries, seconds: float) -> RetryChunk:
    if failure.loading:
        so_far = failure.sentence.replace(
            " (503)", f", {retries.loading - seconds:.0f} s so far (503)"
        )
        return RetryChunk(so_far, seconds, 1, 0)
    return RetryChunk(failure.sentence, seconds, retries.attempt, failures.MAX_RETRIES)


def _error(failure: Failure, reading: AnswerReader) -> LLMError:
    partial = reading.message(error=failure.sentence) if reading.started else None
    if failure.overflow:
        return ContextOverflow(
            failure.sentence, failure.status, partial, window=failure.window
        )
    return LLMError(failure.sentence, failure.status, partial, failure.about)
