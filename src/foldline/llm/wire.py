"""Base classes and helpers shared by the clients of all APIs.

This covers omitted fields, limits on answers, and call ids.

Fields that a server rejected are left out of later requests.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from foldline.json_text import JsonFields, JsonObject
from foldline.protocol import (
    AssistantMessage,
    CacheTerms,
    ImagePart,
    Part,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    Usage,
)
from foldline.protocol.messages import StopReason, json_object

from .base import (
    ModelInfo,
    ReadingChunk,
    Request,
    TextChunk,
    ThinkingChunk,
    ToolCallChunk,
)
from .growing import Growing, Room, valid_unicode
from .lenient import count, mapping
from .marks import CacheLife, marked
from .own_fields import EFFORT, MARKS, OLD_THINKING, PICTURES, TOOLS_OFF, USAGE, LeftOut
from .providers import Provider, address_of
from .rendering import MessageRendering, Renderings, signer

if TYPE_CHECKING:
    from .failures import Failure

ContentChunk = TextChunk | ThinkingChunk | ToolCallChunk | ReadingChunk


@dataclass(frozen=True, slots=True)
class Options:
    """Settings for requests."""

    effort: str = "default"
    """Reasoning effort, in the provider's terms. `default` is not sent."""
    cache_life: CacheLife = "5m"


DEFAULT = Options()
"""Options with only default values."""


class Wire(ABC):
    """An API, which defines how requests are built and answers are read.

    Fields that a server rejected are left out.
    """

    name: str
    """Name of the API's dialect, recorded with each request."""
    path: ClassVar[str]
    answer_reader: ClassVar[type["AnswerReader"]]

    def __init__(self, provider: Provider, options: Options) -> None:
        self._provider = provider
        self.options = options
        self._host = address_of(provider.base_url)
        supported = {TOOLS_OFF: provider.takes_tools_off, USAGE: provider.asks_usage}
        self.left_out = LeftOut(
            name for name, is_supported in supported.items() if not is_supported
        )
        self._renderings = Renderings(self._begin)

    def body(self, request: Request, model: str) -> JsonObject:
        """Return the body of a request, without the fields that the server has rejected."""
        return self.left_out.trimmed(self._body(request, model))

    @abstractmethod
    def _body(self, request: Request, model: str) -> JsonObject: ...

    def reading(self, request: Request, info: ModelInfo) -> "AnswerReader":
        """Return a reader for the answer to a request."""
        return self.answer_reader(self._expected(request, info))

    def cache(self, model: str) -> CacheTerms | None:
        """Return the terms of the model's prompt cache.

        Returns None if they are unknown.
        """
        provider = self._provider
        if not provider.cache_least:
            return None
        return CacheTerms(
            life=provider.cache_life,
            least=provider.cache_least,
            step=provider.cache_step,
        )

    @abstractmethod
    def _begin(self, reader: str) -> MessageRendering:
        """Return an empty rendering.

        Args:
            reader: the model to which its own reasoning is sent back (`can_read`).
        """

    def _rendered(self, request: Request, model: str) -> MessageRendering:
        reader = signer(model, self._host) if self.left_out.sends(OLD_THINKING) else ""
        return self._renderings.of(
            request.messages, reader, pictures=self.left_out.sends(PICTURES)
        )

    def _messages(
        self, request: Request, model: str, *, marks: bool = False
    ) -> list[JsonObject]:
        """Return the rendered messages, with cache marks if `marks` is set."""
        rendering = self._rendered(request, model)
        positions = rendering.marks if marks and self.left_out.sends(MARKS) else ()
        return marked(rendering.done, positions, self.options.cache_life)

    def _expected(self, request: Request, info: ModelInfo) -> "Expected":
        # Entry indices are never reused, so ids made from the newest index are unique in the session.
        rendering = self._rendered(request, info.id)
        return Expected(
            model=info.id,
            signer=signer(info.id, self._host),
            used_ids=rendering.call_ids,
            stem=f"call_{rendering.newest}",
            most=most_characters(info.window),
            limit=self._output_limit(request),
        )

    def _output_limit(self, request: Request) -> int | None:
        """Return the answer's token limit, as sent in the request."""
        return request.max_output

    def leave_out(self, failure: "Failure", request: Request, body: JsonObject) -> bool:
        """Leave out a rejected field from now on.

        Returns False if the rejected field is not optional.
        """
        if not failure.of_request:
            return False
        parts = (part for message in request.messages for part in message.parts)
        sends_images = self.left_out.sends(PICTURES) and any(
            isinstance(part, ImagePart) for part in parts
        )
        if failure.about == "pictures" and sends_images:
            self.left_out.names.add(PICTURES)
            return True
        return self.left_out.learn(failure.message, body)

    @property
    def _effort(self) -> str:
        effort = self.options.effort
        is_sent = effort != DEFAULT.effort and self.left_out.sends(EFFORT)
        return effort if is_sent else ""

    def _session(self, request: Request) -> dict[str, str]:
        """Return the field for the session's name.

        It routes the session's requests to the server that has cached their prefix.
        """
        field = self._provider.session_field
        is_sent = field and "-" not in field and request.session
        return {field: request.session} if is_sent else {}

    def headers(self, request: Request) -> dict[str, str]:
        """Return the extra headers of a request: the session id, if the provider takes it as a header."""
        field = self._provider.session_field
        is_sent = "-" in field and request.session
        return {field: request.session} if is_sent else {}


TOO_MUCH = "The answer was too long for the window of {model} and was cut off. The received part is kept."
"""The `error` of an answer that was cut off with the stop reason `length`."""
LOOPED = (
    'The model repeated "{unit}" endlessly and was stopped. The received part is kept.'
)
"""The `error` of an answer that repeats itself, with the stop reason `repeated`."""
LEAST_BOUND = 1_000_000
"""Minimum value of the limit on an answer's length, in characters.

It ensures that real answers are not cut off if the window is underestimated.
"""
CHARACTERS_A_TOKEN = 8
"""Upper bound for the average number of characters per token in any text.

Prose has 4, source code 3.
"""


def most_characters(window: int) -> int:
    """Return the maximum length of an answer in characters, given a window in tokens.

    A server that sends more than this is unlikely to stop on its own.
    """
    return max(LEAST_BOUND, CHARACTERS_A_TOKEN * window)


@dataclass(frozen=True, slots=True)
class Expected:
    """Facts about an answer, known before it is received."""

    model: str
    signer: str = ""
    """Name under which the model signs its reasoning (`ThinkingPart.signed_by`)."""
    used_ids: Collection[str] = frozenset()
    """Call ids that the request contains, which must not be used again."""
    stem: str = "call"
    """Prefix of generated call ids."""
    most: int | None = None
    """Maximum length of the answer, in characters."""
    limit: int | None = None
    """Maximum size of the answer, in tokens, as sent in the request.

    None leaves the limit to the server.
    """


class AnswerReader(ABC):
    """Reads an answer as it arrives.

    The reader is pure, and tolerates unusual servers.
    """

    _input_name: ClassVar[str]
    """Prefix of the fields that count the request's tokens."""
    _output_name: ClassVar[str]
    """Prefix of the fields that count the answer's tokens."""

    def __init__(self, expected: Expected) -> None:
        self.usage: Usage | None = None
        self._model = expected.model
        self._expected = expected
        self._room = Room(expected.most)
        self._reported: dict[str, object] = {}

    @property
    def started(self) -> bool:
        """Whether any part of the answer has arrived."""
        return any(block.text or block.name for block in self._blocks)

    @property
    @abstractmethod
    def complete(self) -> bool:
        """Whether the server has sent the stop reason."""

    @property
    def over(self) -> bool:
        """Whether the rest of the stream can be skipped."""
        return False

    @property
    def overflowed(self) -> bool:
        """Whether the answer ended because the window was full."""
        return False

    @property
    def characters(self) -> int:
        """Number of characters received, including those dropped."""
        return self._room.taken

    @property
    def full(self) -> bool:
        """Whether the limit was exceeded, so that text was dropped."""
        return self._room.full

    @abstractmethod
    def feed(self, piece: object) -> Sequence[ContentChunk]:
        """Process a decoded piece of the stream, and return the resulting chunks."""

    @property
    @abstractmethod
    def _blocks(self) -> Iterable["AnswerBlock"]:
        """The blocks received so far, in order."""

    def _parts(self) -> list[Part]:
        ids = CallIds(self._expected.used_ids, self._expected.stem)
        signer = self._expected.signer
        parts: list[Part] = []
        for block in self._blocks:
            text = block.complete_text
            if block.kind == "call":
                call = ToolCallPart(
                    call_id=ids.unique(block.call_id),
                    name=block.name,
                    arguments=text.strip() or "{}",
                    signature=block.signature or None,
                )
                if self._is_usable(call):
                    parts.append(call)
            elif block.signature is not None and (text or block.signature):
                parts.append(
                    ThinkingPart(text=text, signature=block.signature, signed_by=signer)
                )
            elif text and block.kind == "text":
                parts.append(TextPart(text=text))
            elif text:
                parts.append(ThinkingPart(text=text))
        return parts

    @abstractmethod
    def _stop_reason(self, parts: Sequence[Part]) -> StopReason: ...

    def message(self, error: str | None = None) -> AssistantMessage:
        """Return the answer received so far.

        With `error`, the answer is marked as failed and cut off.
        """
        parts = self._parts()
        return AssistantMessage(
            parts=tuple(parts),
            model=self._model,
            usage=self.usage,
            stop_reason="error" if error else self._ending(parts),
            error=error or self._stop_error(),
        )

    def _ending(self, parts: Sequence[Part]) -> StopReason:
        if self._room.repeated:
            return "repeated"
        reason = self._stop_reason(parts)
        # Some servers report a cut-off answer as complete: llama.cpp (Responses), LiteLLM (Messages).
        limit = self._expected.limit
        output = self.usage.output if self.usage else 0
        is_cut = (
            limit is not None and output >= limit and reason in ("stop", "tool_calls")
        )
        return "length" if self.full or is_cut else reason

    def _stop_error(self) -> str | None:
        if unit := self._room.repeated:
            return LOOPED.format(unit=unit)
        return TOO_MUCH.format(model=self._model) if self.full else None

    def _take_usage(self, value: object) -> None:
        if not mapping(value):
            return
        usage = self._reported_so_far(value)
        input_details = mapping(usage.get(f"{self._input_name}_tokens_details"))
        output_details = mapping(usage.get(f"{self._output_name}_tokens_details"))
        self.usage = Usage(
            input=count(usage.get(f"{self._input_name}_tokens")),
            written=count(input_details.get("cache_write_tokens")),  # OpenRouter
            cached=count(input_details.get("cached_tokens"))
            or count(usage.get("prompt_cache_hit_tokens"))  # DeepSeek
            or count(usage.get("cached_tokens")),  # Moonshot
            output=count(usage.get(f"{self._output_name}_tokens")),
            reasoning=count(output_details.get("reasoning_tokens")),
        )

    def _reported_so_far(self, value: object) -> JsonFields:
        """Return the newest value of each count.

        Zeros, which some servers send between other values, are ignored.
        """
        self._reported |= {
            name: number for name, number in mapping(value).items() if number
        }
        return self._reported

    def _is_usable(self, call: ToolCallPart) -> bool:
        """Return whether a call is usable.

        It must have a name and, if the answer was cut off, complete arguments.
        """
        if not call.name:
            return False
        return not self.full or json_object(call.arguments) is not None


def stop_or_calls(parts: Sequence[Part]) -> StopReason:
    """Return the stop reason of an answer that ended normally."""
    if any(isinstance(part, ToolCallPart) for part in parts):
        return "tool_calls"
    return "stop"


BlockKind = Literal["text", "thinking", "call"]


class AnswerBlock:
    """A part of the answer that is being received: text, reasoning or a call."""

    def __init__(self, kind: BlockKind, room: Room) -> None:
        self.kind = kind
        self.text = Growing(room, watched=kind != "call")
        """Text of the block. For a call, these are its arguments."""
        self.name = ""
        self.call_id = ""
        self.signature: str | None = None
        """Signature of the block's reasoning, once it is complete."""
        self.unstreamed = ""
        """Complete text that the server sent at once. It is used if no text is streamed."""

    @property
    def complete_text(self) -> str:
        return str(self.text) or self.unstreamed

    def grow(self, text: str) -> "list[ContentChunk]":
        """Add a piece of text, and return the chunk to display, if any."""
        shown = self.text.add(text)
        if self.kind == "call":
            return [ToolCallChunk(self.name, shown)]
        if not shown:
            return []
        return [TextChunk(shown) if self.kind == "text" else ThinkingChunk(shown)]


class CallIds:
    """Generates unique tool call ids for a session.

    Missing and repeated ids are replaced.
    """

    def __init__(self, taken: Collection[str], stem: str) -> None:
        """
        Args:
            taken: ids that must not be used again.
            stem: prefix of generated ids.
        """
        self._taken = taken
        self._used: set[str] = set()
        self._stem = stem

    def unique(self, call_id: str) -> str:
        """Return the id of the next call.

        If it is missing or taken, returns an id made of the stem and the call's number.
        """
        call_id = valid_unicode(call_id)
        if not call_id or call_id in self._taken or call_id in self._used:
            call_id = f"{self._stem}_{len(self._used)}"
        self._used.add(call_id)
        return call_id
