"""The interface of a language model, which streams one answer per request."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol, runtime_checkable

from foldline.json_text import JsonObject
from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    CacheTerms,
    FoldlineError,
    events,
)
from foldline.view.tokens import estimate_tokens

MESSAGES = "messages"
"""Dialect name of Claude's own API, recorded with each request."""
RESPONSES = "responses"
"""Dialect name of the Responses API, recorded with each request."""
OFFLINE = "offline"
"""Id, provider name and dialect name of the embedded model (`llm.offline`)."""
STAND_IN = "{failure} {model} writes the summary instead."


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """Facts about a model that are known before the first request."""

    id: str
    window: int
    """Context window in tokens, shared by input and output."""
    max_output: int | None = None
    """Maximum size of one answer, in tokens, if known."""
    provider: str = ""
    window_from: Literal["set", "table", "server", "guess"] = "set"
    """Source of the window size.

    A guess is derived from the model's name, or is a default.
    """

    tools: bool = True
    """False if the server says that the model's chat template does not support tools."""
    pictures: bool = True
    """False if the server says that the model accepts no images. Requests then contain none."""

    cache: CacheTerms | None = None
    """Terms of the provider's prompt cache, if known."""
    named: bool = True
    """Whether the server has named its model."""

    @property
    def guessed(self) -> bool:
        return self.window_from == "guess"


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool's description, as sent to the model."""

    name: str
    description: str
    parameters: JsonObject
    """JSON Schema of the tool's arguments."""


def brief(spec: ToolSpec) -> ToolSpec:
    """Shorten a tool's description.

    Keeps the first sentence of the description, and the names and types of the arguments.
    """
    first, _, _ = spec.description.partition(". ")
    return replace(
        spec, description=first.rstrip("."), parameters=_undescribed(spec.parameters)
    )


def _undescribed(schema: Any) -> Any:
    """Return a JSON schema without descriptions, keeping arguments named "description"."""
    if isinstance(schema, list):
        return [_undescribed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    short: JsonObject = {}
    for key, value in schema.items():
        if key == "properties":
            short[key] = {
                name: _undescribed(argument) for name, argument in value.items()
            }
        elif key not in ("description", "title"):
            short[key] = _undescribed(value)
    return short


def spec_tokens(spec: ToolSpec) -> int:
    """Estimate the size of a tool schema, in uncalibrated tokens."""
    return estimate_tokens(f"{spec.name} {spec.description} {spec.parameters}")


@dataclass(frozen=True, slots=True)
class SummarySource:
    """The messages to summarise.

    The offline model reads them directly instead of the prompt.
    """

    messages: Sequence[BaseMessage]
    """Messages to summarise.

    An earlier summary is included as a summary message.
    """
    focus: str | None = None
    """What the summary should preserve above all, as requested by the user."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request to a model.

    Its messages are valid for the API: each call has its result.
    """

    messages: Sequence[BaseMessage]
    tools: Sequence[ToolSpec] = ()
    max_output: int | None = None
    """Maximum size of the answer, in tokens.

    None leaves the limit to the server.
    """
    tokens: int = 0
    """Size of the request, in calibrated tokens; 0 if unknown."""
    tools_off: bool = False
    """Whether tool calls are forbidden.

    The tools are then sent only because the cached prefix contains them.
    """
    session: str = ""
    """Name of the session, the same in all of its requests.

    Some providers keep a separate cache for each session.
    """
    summarises: SummarySource | None = None
    """The messages to summarise; set only in requests for a summary.

    Only the offline model reads them from here. Servers receive only the request's own messages.
    """


@dataclass(frozen=True, slots=True)
class TextChunk:
    text: str


@dataclass(frozen=True, slots=True)
class ThinkingChunk:
    text: str


@dataclass(frozen=True, slots=True)
class ToolCallChunk:
    """A piece of a tool call.

    The complete call is in `Answer`.
    """

    name: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class ReadingChunk:
    """A server's progress in reading the prompt, in tokens.

    Few servers report it.
    """

    read: int
    total: int


@dataclass(frozen=True, slots=True)
class RetryChunk:
    """The request failed and will be sent again.

    The chunks received so far must be discarded.
    """

    sentence: str
    seconds: float
    attempt: int
    """Number of the retry that follows the wait, counted from 1."""
    attempts: int
    """Maximum number of retries; 0 means no limit."""
    partial: AssistantMessage | None = None
    """The part of the abandoned answer that was received."""

    @property
    def event(self) -> events.Retrying:
        """The retry as a session event."""
        return events.Retrying(
            sentence=self.sentence,
            seconds=self.seconds,
            attempt=self.attempt,
            attempts=self.attempts,
        )


@dataclass(frozen=True, slots=True)
class Answer:
    """The complete answer, with its usage and stop reason.

    It is the last item of every stream that does not raise an exception.
    """

    message: AssistantMessage


Chunk = TextChunk | ThinkingChunk | ToolCallChunk | ReadingChunk | RetryChunk | Answer


class LLM(Protocol):
    """A model client.

    The connection is closed if the task iterating over the stream is cancelled.
    """

    @property
    def info(self) -> ModelInfo: ...

    @property
    def dialect(self) -> str:
        """Name of the dialect used for this server.

        The name is recorded with each request.
        """
        ...

    def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        """Stream the answer, ending with an `Answer`.

        Raises:
            ContextOverflow: the server rejected the request as too long.
            LLMError: the request failed for another reason, and all retries failed.
        """
        ...

    async def prepare(self) -> ModelInfo:
        """Ask the server for unknown facts about the model.

        The server is asked only once. Returns all known facts.

        Raises:
            LLMError: no model was named, and the server lists none.
        """
        ...

    async def aclose(self) -> None: ...


Subject = Literal[
    "",
    "length",
    "money",
    "rate",
    "loading",
    "content",
    "pictures",
    "picture",
    "tools",
    "request",
]
"""The part of a request that a rejection is about.

`length`: the request is too long for the window. `content`: a filter blocked the request. `pictures`: the
model accepts no images. `picture`: an image is too large or broken. `request`: another part of the request,
such as a field.
"""


@dataclass(eq=False)
class LLMError(FoldlineError):
    """Raised if a request failed permanently.

    The message includes advice for the user.
    """

    sentence: str
    status: int | None = None
    partial: AssistantMessage | None = field(default=None, repr=False)
    """Part of the answer received before the failure.

    It is kept so that no text is lost.
    """
    about: Subject = ""
    """The rejected part of the request."""

    def __str__(self) -> str:
        return self.sentence


@dataclass(eq=False)
class ContextOverflow(LLMError):
    """Raised if the request is longer than the model's window."""

    about: Subject = "length"
    window: int | None = None
    """Size of the window in tokens, if the server stated it."""


@dataclass
class WrappedLLM:
    """A model that another class wraps, to see its requests and responses."""

    llm: LLM

    @property
    def info(self) -> ModelInfo:
        return self.llm.info

    @property
    def dialect(self) -> str:
        return self.llm.dialect

    async def prepare(self) -> ModelInfo:
        return await self.llm.prepare()

    async def aclose(self) -> None:
        await self.llm.aclose()


class WithStandIn(WrappedLLM):
    """A model with a substitute that takes over after a permanent failure."""

    def __init__(self, first: LLM, other: LLM) -> None:
        super().__init__(first)
        self._other = other

    async def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        """Stream the answer; see `LLM.stream`."""
        try:
            async with aclosing(self.llm.stream(request)) as chunks:
                async for chunk in chunks:
                    yield chunk
            return
        except LLMError as failure:
            if isinstance(failure, ContextOverflow) or self.llm is self._other:
                raise
            self.llm = self._other
            sentence = STAND_IN.format(failure=failure, model=self.info.id)
            yield RetryChunk(sentence, 0.0, 1, 1)
        async with aclosing(self.llm.stream(request)) as chunks:
            async for chunk in chunks:
                yield chunk


Vector = tuple[float, ...]


class Embedder(Protocol):
    """Turns strings into vectors of equal length.

    Strings with similar meanings have similar vectors.
    """

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        """Return one vector for each string, in the same order.

        Raises:
            LLMError: the request failed.
        """
        ...


@runtime_checkable
class HasEmbedder(Protocol):
    """A model client whose provider may also offer an embedding model."""

    def embedder(self) -> Embedder | None:
        """Return the provider's embedding model, if it has one."""
