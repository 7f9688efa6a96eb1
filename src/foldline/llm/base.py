"""The interface of a language model: it streams one answer to one request."""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

from foldline.context.tokens import estimate_tokens
from foldline.protocol import AssistantMessage, BaseMessage, CacheTerms, FoldlineError, events

OFFLINE = "offline"
"""The embedded model (`llm.offline`): its id, its provider and its dialect."""


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """What is known about a model before it is asked anything."""

    id: str
    window: int
    """Context window in tokens, input and output together."""
    max_output: int | None = None
    """Most tokens one answer may have; unknown is None."""
    provider: str = ""
    window_from: Literal["set", "table", "server", "guess"] = "set"
    """Who says the window. A guess is what models of such a name have, or a default."""

    tools: bool = True
    """False where its server says that the model's chat template has no place for tools."""
    pictures: bool = True
    """False if its server says that the model takes none: they are left out of requests."""

    cache: CacheTerms | None = None
    """What its provider's cache keeps; None where nothing is known of one."""
    named: bool = True
    """False until a server that names its model has been asked for it."""

    @property
    def guessed(self) -> bool:
        return self.window_from == "guess"


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as it is described to the model."""

    name: str
    description: str
    parameters: dict[str, Any]
    """JSON Schema of the arguments."""


def brief(spec: ToolSpec) -> ToolSpec:
    """The tool in fewest words: the first sentence of it, and of its arguments names and types."""
    first, _, _ = spec.description.partition(". ")
    return replace(spec, description=first.rstrip("."), parameters=_undescribed(spec.parameters))


def _undescribed(schema: Any) -> Any:
    """A JSON schema without descriptions; an argument of that name stays."""
    if isinstance(schema, list):
        return [_undescribed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: {name: _undescribed(each) for name, each in value.items()}
        if key == "properties"
        else _undescribed(value)
        for key, value in schema.items()
        if key not in ("description", "title")
    }


def spec_tokens(spec: ToolSpec) -> int:
    """Estimate of one tool schema as it is sent, before calibration, in tokens."""
    return estimate_tokens(f"{spec.name} {spec.description} {spec.parameters}")


@dataclass(frozen=True, slots=True)
class Request:
    """One request: canonical messages, valid for the API (calls and results paired)."""

    messages: Sequence[BaseMessage]
    tools: Sequence[ToolSpec] = ()
    max_output: int | None = None
    """Tokens the answer may have; None leaves it to the server."""
    tokens: int = 0
    """Its size as decisions use it; 0 where nobody has weighed it."""
    tools_off: bool = False
    """Whether no tool may be called: they are sent only because the cached prefix holds them."""
    session: str = ""
    """Names the session, the same in all its requests: some providers keep a cache for each name."""


@dataclass(frozen=True, slots=True)
class TextChunk:
    text: str


@dataclass(frozen=True, slots=True)
class ThinkingChunk:
    text: str


@dataclass(frozen=True, slots=True)
class ToolCallChunk:
    """A tool call takes shape; the finished one is in `Answer`."""

    name: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class ReadingChunk:
    """How far a server is that reads the prompt, in tokens. Few say it."""

    read: int
    total: int


@dataclass(frozen=True, slots=True)
class RetryChunk:
    """The request failed in a way that may pass and will be sent again. Nothing streamed so far counts."""

    sentence: str
    seconds: float
    attempt: int
    """Which retry comes after the wait, counted from 1."""
    attempts: int
    """How many there are at most; 0: as many as it takes."""
    partial: AssistantMessage | None = None
    """What had come of the answer that is given up."""

    @property
    def event(self) -> events.Retrying:
        """The retry as an event of the session."""
        return events.Retrying(
            sentence=self.sentence, seconds=self.seconds, attempt=self.attempt, attempts=self.attempts
        )


@dataclass(frozen=True, slots=True)
class Answer:
    """The last item of every stream that does not raise: the whole answer, usage and stop reason included."""

    message: AssistantMessage


Chunk = TextChunk | ThinkingChunk | ToolCallChunk | ReadingChunk | RetryChunk | Answer


class LLM(Protocol):
    """A model client. Cancelling the task that iterates closes the connection."""

    @property
    def info(self) -> ModelInfo: ...

    @property
    def dialect(self) -> str:
        """Name of the way canonical messages are rendered for this server; recorded with each request."""
        ...

    def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        """The answer as it comes, ending in exactly one `Answer`.

        Raises:
            ContextOverflow: the server refused the request as too long.
            LLMError: any other failure, after bounded retries.
        """
        ...

    async def prepare(self) -> ModelInfo:
        """Asks the server, once, for what only it knows of the model; returns all that is known then.

        Raises:
            LLMError: no model was named, and the server lists none.
        """
        ...

    async def aclose(self) -> None: ...


Subject = Literal[
    "", "length", "money", "rate", "loading", "content", "pictures", "picture", "tools", "request"
]
"""What a refusal is about.

`length`: the request is too long for the window. `content`: a filter withheld it. `pictures`: the model
takes none. `picture`: one is too large or broken. `request`: something else in the request, such as a field.
"""


@dataclass(eq=False)
class LLMError(FoldlineError):
    """A request that failed for good. The sentence says what to do."""

    sentence: str
    status: int | None = None
    partial: AssistantMessage | None = field(default=None, repr=False)
    """What had been streamed before the failure, so that no text is lost."""
    about: Subject = ""
    """What of the request was refused."""

    def __str__(self) -> str:
        return self.sentence


@dataclass(eq=False)
class ContextOverflow(LLMError):
    """The request is longer than the model's window."""

    about: Subject = "length"
    window: int | None = None
    """Its size in tokens, where the server named it."""


class WithStandIn:
    """A model, and another that is asked in its place once it has failed for good."""

    def __init__(self, first: LLM, other: LLM) -> None:
        self._asked = first
        self._other = other

    @property
    def info(self) -> ModelInfo:
        return self._asked.info

    @property
    def dialect(self) -> str:
        return self._asked.dialect

    async def prepare(self) -> ModelInfo:
        return await self._asked.prepare()

    async def aclose(self) -> None:
        await self._asked.aclose()

    async def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        """See `LLM.stream`."""
        try:
            async with aclosing(self._asked.stream(request)) as chunks:
                async for chunk in chunks:
                    yield chunk
            return
        except LLMError as failure:
            if isinstance(failure, ContextOverflow) or self._asked is self._other:
                raise
            self._asked = self._other
            yield RetryChunk(f"{failure} {self.info.id} writes the summary.", 0.0, 1, 1)
        async with aclosing(self._asked.stream(request)) as chunks:
            async for chunk in chunks:
                yield chunk


Vector = tuple[float, ...]


class Embedder(Protocol):
    """Turns texts into vectors of one length; near vectors mean about the same."""

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        """A vector for each text, in their order.

        Raises:
            LLMError: they cannot be had.
        """
        ...


class EmbedderWhile:
    """Passes texts to an embedder as long as `holds` is true, and fails from then on."""

    def __init__(self, embedder: Embedder, holds: Callable[[], bool]) -> None:
        self._embedder = embedder
        self._holds = holds

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        if not self._holds():
            raise LLMError("Another provider is asked now: texts are no longer sent to the one of before.")
        return await self._embedder.embed(texts)


class NoEmbedder:
    """An embedder for when none is set up: each request fails."""

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        raise LLMError("No model for embeddings is known here: name one with compaction.embedding_model.")
