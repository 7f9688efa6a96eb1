"""The client for OpenAI, Anthropic and everything compatible with them: one loop, over three APIs.

Their SDKs take a third of a second to import: the first request does it, or `preload` before it.
"""

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from foldline.protocol import AssistantMessage

from . import failures, sse
from .base import Answer, Chunk, ContextOverflow, LLMError, ModelInfo, Request, RetryChunk
from .chat import ChatWire
from .failures import Endpoint, Failure, unreachable_failure
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
"""Longest silence of a server, in seconds, before a request counts as stalled."""
LOCAL_IDLE_SECONDS = 900.0
"""The same for local servers: without a graphics card, a long prompt takes minutes before the first byte."""
_CONNECT_SECONDS = 10.0
_GOODBYE_SECONDS = 0.1
"""How long the end of a finished answer is waited for: a connection read to its end is used again."""
_AT_ONCE = 32
"""Events after which others get a turn: what has arrived is read without waiting, and can be a thousand."""
_OF_THE_ROOM = 0.9
"""Of what the window has left by estimate, an answer may have so much."""
_FILLED = 0.99
_COUNTS_ANSWER = re.compile(r"completion|output|max_(new_)?tokens", re.IGNORECASE)
"""In a refusal that adds what the answer may have to the request."""
_UNNAMED = "default"
"""Shown for a model until the server has been asked for its first one."""


def preload(api: Api = "chat") -> None:
    """Imports the SDK for an API. To be run in a thread, after the first paint."""
    from .http_client import sdk_of

    sdk_of(api)


_WIRES: Mapping[Api, type[Wire]] = {"chat": ChatWire, "responses": ResponsesWire, "messages": MessagesWire}


def _always(window: int | None) -> Callable[[str], int | None]:
    return lambda _: window


class ModelClient:
    """A model behind `/chat/completions`, `/responses` or `/messages`. Retries, time-outs and errors are
    handled here, not by the SDK."""

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
        """Without `model`, the first one the server lists is used. `window`, in tokens or by the name of the
        model, overrides all. `key_name`, for sentences, says where the key was set, where that is not the
        provider's variable."""
        self._provider = provider
        self._key = key
        self._key_name = key_name or provider.key_name
        self._window_of = window if callable(window) else _always(window)
        self._wire = _WIRES[provider.api](provider, options)
        local = is_local(provider.base_url)
        self._idle = idle_seconds or (LOCAL_IDLE_SECONDS if local else IDLE_SECONDS)
        self._sleep = sleep
        known = self._window_of(model or _UNNAMED)
        self._info = replace(model_info(model or _UNNAMED, provider.base_url, known), named=bool(model))
        self._settled = self._info.named and not self._info.guessed
        """Whether nothing has to be asked of the server before the first request."""
        self._tells_reading = False
        self._adds_answer = False
        """Whether its server adds what the answer may have to the request, and refused that once."""
        self._client: Sdk | None = None
        self._opening = asyncio.Lock()

    @property
    def info(self) -> ModelInfo:
        """What is known now; `prepare` may learn more."""
        known, left_out = self._info, self._wire.left_out
        most = min(filter(None, (known.max_output, left_out.most)), default=None)
        pictures = left_out.sends(PICTURES)
        self._info = replace(known, cache=self._wire.cache(known.id), max_output=most, pictures=pictures)
        return self._info

    @property
    def dialect(self) -> str:
        return self._wire.name

    def use(self, options: Options) -> None:
        """What the settings say of requests from now on."""
        self._wire.options = options

    @property
    def api(self) -> Api:
        return self._provider.api

    async def prepare(self) -> ModelInfo:
        """Asks the server, once, for what is not known yet: which model, its window. `stream` does it too.

        Raises:
            LLMError: no model was named, and the server does not list any.
        """
        failure = await self._learn()
        if failure is not None and not failure.loading:
            raise LLMError(failure.sentence, failure.status)
        return self.info

    async def _learn(self) -> Failure | None:
        """Ask for what is not known yet; why the model cannot be asked, where that is clear now."""
        if self._settled:
            return None
        listed: list[ListedModel] | Failure = []
        is_final = True
        if not self._info.named or self._provider.listing == "openai":  # The others list windows elsewhere.
            listed = await listed_models(self._ask, self._provider)
        if isinstance(listed, Failure):
            if not self._info.named or listed.loading:
                return listed
            # The request itself will say what is wrong, if anything is. What may pass is asked again.
            is_final = not listed.retry
            listed = []
        if not self._info.named:
            if not listed:
                return failures.unlisted_failure(self._endpoint)
            name = listed[0].id
            self._info = model_info(name, self._provider.base_url, self._window_of(name))
        self._settled = True
        if self._window_of(self._info.id) is None:
            stated = await stated_window(self._ask, self._provider, self._info.id, listed)
            if stated.window is not None:
                self._info = replace(self._info, window=stated.window, window_from="server")
            if not stated.pictures:
                self._wire.left_out.names.add(PICTURES)
            most = stated.max_output or self._info.max_output
            self._info = replace(self._info, tools=stated.tools, max_output=most)
            self._tells_reading = stated.tells_reading
            self._settled = stated.is_final and is_final
        return None

    async def list_models(self) -> list[ListedModel]:
        """The models its server lists.

        Raises:
            LLMError: it cannot be reached, or refuses the key.
        """
        listed = await listed_models(self._ask, self._provider)
        if isinstance(listed, Failure):
            raise LLMError(listed.sentence, listed.status)
        return listed

    async def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        """See `LLM.stream`. An answer that breaks off or says nothing is asked for again as well."""
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

    async def _until_ready(self, retries: failures.Retries) -> AsyncGenerator[RetryChunk, None]:
        """Learns what is not known yet, and waits for a server that is still loading its model.

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
        """Whether the request may be sent at once in another way."""
        if self._wire.leave_out(failure, sending.request, sending.body):
            return True
        if not sending.adapt(failure):
            return False
        self._adds_answer = self._adds_answer or failure.overflow
        return True

    def _why_empty(self, reading: AnswerReader) -> Failure:
        if reading.message().stop_reason == "length":
            return failures.window_failure(self._endpoint)
        return failures.empty_failure(self._endpoint)

    def _answer_limit(self, request: Request) -> int:
        """How long an answer may be, in tokens; 0 leaves it to the server.

        Of a local server, which has no limit of its own: what the window has left. Where the server's own is
        a short one, or has to be stated: what a budget leaves free.
        """
        least = min(self._info.window // 16, 32_768)
        is_known = bool(request.tokens) and not self._info.guessed and not self._adds_answer
        if is_known and is_local(self._provider.base_url):
            return max(least, int(_OF_THE_ROOM * (self._info.window - request.tokens)))
        return least if self._provider.states_output or self.api == "messages" else 0

    async def aclose(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def _attempt(
        self, sending: "_Sending", reading: AnswerReader
    ) -> AsyncGenerator[Chunk | Failure, None]:
        """Sends the request once and feeds what comes to `reading`.

        A failure is its last item, and no exception: what the SDK raises holds the request, with the key in
        it, and would hang on every error that is raised while it is handled.
        """
        client = await self._open()
        body, headers = self._wire.body(sending.request, self._info.id), self._wire.headers(sending.request)
        if self._tells_reading and self._wire.left_out.sends(PROGRESS):
            body["return_progress"] = True
        if not sending.streamed:
            body.pop("stream_options", None)
            body["stream"] = False
        sending.body = body
        try:
            stream = await client.stream(self._wire.path, body, headers)
        except client.failed as error:
            yield self._failure(client, error)
            return
        async with stream:
            # The bytes, not the SDK's events: see `sse`. And plain JSON: the SDK's own models drop or mistype
            # fields of compatible servers.
            async for chunk in self._read(stream.response.aiter_bytes(), reading):
                yield chunk

    async def _read(
        self, body: AsyncIterator[bytes], reading: AnswerReader
    ) -> AsyncGenerator[Chunk | Failure, None]:
        """Feeds a body to `reading`; in the end, what was wrong with it, if anything was."""
        try:
            async with aclosing(self._pieces(body, reading)) as pieces:
                async for name, piece in pieces:
                    if (error := failures.error_in(piece, name)) is not None:
                        yield failures.stream_failure(self._endpoint, error, begun=reading.started)
                        return
                    for chunk in reading.feed(piece):
                        yield chunk
                    if reading.full:
                        return  # Closes the connection: the server would go on.
            await _read_to_the_end(body)
        except _breaks() as error:
            if not reading.complete:  # What breaks after the end harms nobody.
                yield self._broken(error)
                return
        if reading.overflowed:
            yield failures.window_failure(self._endpoint)
        elif not reading.complete:
            yield failures.broken_failure(self._endpoint, mute=not reading.started)

    async def _pieces(
        self, body: AsyncIterator[bytes], reading: AnswerReader
    ) -> AsyncGenerator[tuple[str, object], None]:
        """The decoded pieces of a body, each with the name of its event, up to the end of the answer.

        Raises:
            sse.TooLong: nothing of them makes up an answer.
        """
        seen, silent, said = 0, 0, 0
        async with aclosing(sse.events_of(body)) as events:
            async for event in events:
                seen += 1
                if seen % _AT_ONCE == 0:
                    await asyncio.sleep(0)
                if event.is_last:
                    return
                yield event.name, event.decoded()
                if reading.over:
                    return
                silent = silent + len(event.data) if reading.characters == said else 0
                said = reading.characters
                if silent > sse.LONGEST_EVENT:
                    raise sse.TooLong

    def _broken(self, error: Exception) -> Failure:
        """What an exception in the middle of a body means."""
        import httpx2

        at = self._endpoint
        match error:
            case sse.WebPage():
                return failures.web_page_failure(at)
            case sse.TooLong():
                return failures.endless_failure(at, sse.LONGEST_EVENT)
            case httpx2.TimeoutException():
                return failures.stalled_failure(at, self._idle)
            case _:
                return failures.broken_failure(at)

    def _failure(self, client: "Sdk", error: Exception) -> Failure:
        """What an exception of the SDK means, raised before the body began."""
        at = self._endpoint
        if isinstance(error, client.failed_with_status):
            headers = {name.lower(): value for name, value in error.response.headers.items()}
            return failures.status_failure(at, error.status_code, error.response.text, headers)
        cause = error.__cause__
        if "Connect" in type(cause).__name__:  # ConnectError or ConnectTimeout of the SDK's own HTTP library.
            return unreachable_failure(at, error)
        if isinstance(error, client.timed_out):
            return failures.stalled_failure(at, self._idle)
        return failures.broken_failure(at)

    async def _ask(self, path: str, body: Mapping[str, object] | None) -> object:
        """The JSON of one small answer, or a `Failure`: see `listing.Ask`. A POST may take long."""
        client = await self._open()
        try:
            return await client.ask(path, body, _CONNECT_SECONDS)
        except client.failed as error:
            return self._failure(client, error)
        except (ValueError, RecursionError):
            return None

    @property
    def _endpoint(self) -> Endpoint:
        asked = self._provider
        return Endpoint(asked.base_url, self._info.id, self._key, self._key_name, asked.url_setting)

    async def _open(self) -> "Sdk":
        """The SDK's client; import and construction block for long, hence the thread."""
        async with self._opening:
            if self._client is None:
                self._client = await asyncio.to_thread(self._build)
            return self._client

    def _build(self) -> "Sdk":
        from .http_client import Sdk

        return Sdk(self._provider, self._key, idle_seconds=self._idle, connect_seconds=_CONNECT_SECONDS)


def _breaks() -> tuple[type[Exception], ...]:
    """What reading a body can raise. The HTTP library lets the last two through as they are."""
    import anyio
    import httpx2

    return (ValueError, sse.TooLong, sse.WebPage, httpx2.HTTPError, OSError, anyio.EndOfStream)


async def _read_to_the_end(body: AsyncIterator[bytes]) -> None:
    """Reads what follows the end of an answer, if it comes at once. Errors there do no harm."""
    with suppress(*_breaks(), TimeoutError):
        async with asyncio.timeout(_GOODBYE_SECONDS):
            async for _ in body:
                pass


def _is_empty(answer: AssistantMessage, info: ModelInfo) -> bool:
    """Whether a model that came to its end has neither said nor called anything; or one that had no room to
    say anything, because the request filled the window (as of Xiaomi's MiMo)."""
    if answer.stop_reason == "length":
        return not answer.parts and answer.usage is not None and answer.usage.input >= _FILLED * info.window
    return answer.stop_reason == "stop" and not answer.calls and not answer.text.strip()


@dataclass(slots=True)
class _Sending:
    """A request, and how it is sent: what its server cannot do is left out the next time."""

    request: Request
    capped: bool
    """Whether the limit of its answer is one of ours."""
    streamed: bool = True
    body: dict[str, Any] = field(default_factory=dict, repr=False)
    """What was sent last."""

    def adapt(self, failure: Failure) -> bool:
        """Whether it may be sent at once in another way."""
        if failure.mute and self.streamed:  # llama-cpp-python streams nothing where it should refuse.
            self.streamed = False
        elif self.capped and failure.overflow and _COUNTS_ANSWER.search(failure.message):
            self.request, self.capped = replace(self.request, max_output=None), False
        else:
            return False
        return True


def _again(failure: Failure, retries: failures.Retries, seconds: float) -> RetryChunk:
    if failure.loading:
        so_far = failure.sentence.replace(" (503)", f", {retries.loading - seconds:.0f} s so far (503)")
        return RetryChunk(so_far, seconds, 1, 0)
    return RetryChunk(failure.sentence, seconds, retries.attempt, failures.MAX_RETRIES)


def _error(failure: Failure, reading: AnswerReader) -> LLMError:
    partial = reading.message(error=failure.sentence) if reading.started else None
    if failure.overflow:
        return ContextOverflow(failure.sentence, failure.status, partial, window=failure.window)
    return LLMError(failure.sentence, failure.status, partial, failure.about)
