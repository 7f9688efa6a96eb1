"""What the APIs share: what is left out because a server refused it; an answer while it arrives, within a
bound, and ids for its calls; and lenient JSON, for compatible servers send other fields, or other types."""

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from foldline.protocol import AssistantMessage, CacheTerms, ImagePart, Part, Usage
from foldline.protocol.messages import StopReason, json_object

from .base import ModelInfo, ReadingChunk, Request, TextChunk, ThinkingChunk, ToolCallChunk
from .dialect import MessageRendering, Renderings, signer
from .marks import CacheLife, marked
from .own_fields import EFFORT, MARKS, OLD_THINKING, PICTURES, TOOLS_OFF, USAGE, LeftOut
from .providers import Provider, address_of

if TYPE_CHECKING:
    from .failures import Failure

Said = TextChunk | ThinkingChunk | ToolCallChunk | ReadingChunk


@dataclass(frozen=True, slots=True)
class Options:
    """What the settings say of requests."""

    effort: str = "default"
    """How much a model thinks, in the words of its server; by default nothing is said."""
    cache_life: CacheLife = "5m"


DEFAULT = Options()
"""As nothing was set."""


class Wire(ABC):
    """One API: what is sent, how its answer is read, and what is left out because a server refused it."""

    name: str
    """The dialect recorded with each request."""
    path: ClassVar[str]

    def __init__(self, provider: Provider, options: Options) -> None:
        self._provider = provider
        self.options = options
        self._host = address_of(provider.base_url)
        taken = {TOOLS_OFF: provider.takes_tools_off, USAGE: provider.asks_usage}
        self.left_out = LeftOut(name for name, is_taken in taken.items() if not is_taken)
        self._renderings = Renderings(self._begin)

    def body(self, request: Request, model: str) -> dict[str, Any]:
        """The request as it is sent, without what the server refused."""
        return self.left_out.trimmed(self._body(request, model))

    @abstractmethod
    def _body(self, request: Request, model: str) -> dict[str, Any]: ...

    @abstractmethod
    def reading(self, request: Request, info: ModelInfo) -> "AnswerReader": ...

    def cache(self, model: str) -> CacheTerms | None:
        """What is known of how long requests to this model are kept in a cache."""
        known = self._provider
        if not known.cache_least:
            return None
        return CacheTerms(life=known.cache_life, least=known.cache_least, step=known.cache_step)

    @abstractmethod
    def _begin(self, reader: str) -> MessageRendering:
        """A rendering of nothing yet; `reader` is who gets its reasoning back: see `can_read`."""

    def _rendered(self, request: Request, model: str) -> MessageRendering:
        reader = signer(model, self._host) if self.left_out.sends(OLD_THINKING) else ""
        return self._renderings.of(request.messages, reader, pictures=self.left_out.sends(PICTURES))

    def _messages(self, request: Request, model: str, *, marks: bool = False) -> list[dict[str, Any]]:
        """The messages as they are sent; `marks`: whether a cache there keeps what is marked."""
        rendering = self._rendered(request, model)
        places = rendering.marks if marks and self.left_out.sends(MARKS) else ()
        return marked(rendering.done, places, self.options.cache_life)

    def _expected(self, request: Request, info: ModelInfo) -> "Expected":
        # Entry indices are never re-used, so ids made from the newest one are unique in the session.
        rendering = self._rendered(request, info.id)
        return Expected(
            model=info.id,
            taken=rendering.call_ids,
            stem=f"call_{rendering.newest}",
            most=most_characters(info.window),
            limit=self._output_limit(request),
        )

    def _output_limit(self, request: Request) -> int | None:
        """Tokens the answer may have, as the request is sent."""
        return request.max_output

    def leave_out(self, failure: "Failure", request: Request, body: dict[str, Any]) -> bool:
        """Whether the server refused something that can be done without. From then on it is not sent."""
        if not failure.of_request:
            return False
        parts = (part for message in request.messages for part in message.parts)
        shown = self.left_out.sends(PICTURES) and any(isinstance(part, ImagePart) for part in parts)
        if failure.about == "pictures" and shown:
            self.left_out.names.add(PICTURES)
            return True
        return self.left_out.learn(failure.message, body)

    @property
    def _effort(self) -> str:
        effort = self.options.effort
        return effort if effort != DEFAULT.effort and self.left_out.sends(EFFORT) else ""

    def _session(self, request: Request) -> dict[str, str]:
        """What brings the requests of one session to the server that has their prefix in its cache."""
        field = self._provider.session_field
        return {field: request.session} if field and "-" not in field and request.session else {}

    def headers(self, request: Request) -> dict[str, str]:
        """What of a request goes into its headers."""
        field = self._provider.session_field
        return {field: request.session} if "-" in field and request.session else {}


TOO_MUCH = "The answer went on beyond what the window of {model} can hold: it was cut off, what came is kept."
"""The `error` of an answer that was cut off; its stop reason is `length`."""
LOOPED = 'The model repeated "{unit}" without end: it was stopped, what came is kept.'
"""The `error` of an answer that repeats itself; its stop reason is `repeated`."""
LEAST_BOUND = 1_000_000
"""Characters; a window that was guessed too low must not cut off an honest answer."""
CHARACTERS_A_TOKEN = 8
"""More than any text has on average: prose comes to 4, source code to 3."""
MOST_CALLS = 1_000
"""Each call counts for a thousandth of the bound, whatever it says: empty calls without end are no answer."""


def most_characters(window: int) -> int:
    """How long an answer can be, in characters, from a model with this window, in tokens.

    No model can say more than its window. A server that sends more does not stop.
    """
    return max(LEAST_BOUND, CHARACTERS_A_TOKEN * window)


@dataclass(frozen=True, slots=True)
class Expected:
    """What is known of an answer before it comes."""

    model: str
    taken: Collection[str] = frozenset()
    """Call ids of the request, not to be given again."""
    stem: str = "call"
    """Begins the call ids made up here."""
    most: int | None = None
    """Characters the answer may have."""
    limit: int | None = None
    """Tokens the answer may have, as the request says; None if it leaves that to the server."""


class AnswerReader(ABC):
    """One answer, while it arrives. Pure, and forgiving."""

    _asked: ClassVar[str]
    """How the names of the fields begin that count the tokens of the request."""
    _said: ClassVar[str]
    """The same of the answer's."""

    def __init__(self, expected: Expected) -> None:
        self.usage: Usage | None = None
        self._model = expected.model
        self._expected = expected
        self._room = Room(expected.most)
        self._reported: dict[str, object] = {}

    @property
    @abstractmethod
    def started(self) -> bool:
        """Whether anything of the answer has arrived."""

    @property
    @abstractmethod
    def complete(self) -> bool:
        """Whether the server has said how it ended."""

    @property
    def over(self) -> bool:
        """Whether nothing can follow: the stream need not be read to its end."""
        return False

    @property
    def overflowed(self) -> bool:
        """Whether it ended because the window was full."""
        return False

    @property
    def characters(self) -> int:
        """How many characters have arrived, those that were left out included."""
        return self._room.taken

    @property
    def full(self) -> bool:
        """Whether more came than a model can say, and was left out."""
        return self._room.full

    @abstractmethod
    def feed(self, piece: object) -> Sequence[Said]:
        """Takes one decoded piece of the stream; returns what it adds to the answer."""

    @abstractmethod
    def _parts(self) -> Sequence[Part]: ...

    @abstractmethod
    def _stop_reason(self, parts: Sequence[Part]) -> StopReason: ...

    def message(self, error: str | None = None) -> AssistantMessage:
        """The answer so far; with `error`, as what was left by a failure."""
        parts = self._parts()
        return AssistantMessage(
            parts=tuple(parts),
            model=self._model,
            usage=self.usage,
            stop_reason="error" if error else self._ending(parts),
            error=error or self._why_stopped(),
        )

    def _ending(self, parts: Sequence[Part]) -> StopReason:
        if self._room.repeated:
            return "repeated"
        reason = self._stop_reason(parts)
        # Some call a cut answer complete: llama.cpp's Responses; Messages behind LiteLLM, with `end_turn`.
        limit, output = self._expected.limit, 0 if self.usage is None else self.usage.output
        reached = limit is not None and output >= limit and reason in ("stop", "tool_calls")
        return "length" if self.full or reached else reason

    def _why_stopped(self) -> str | None:
        if unit := self._room.repeated:
            return LOOPED.format(unit=unit)
        return TOO_MUCH.format(model=self._model) if self.full else None

    def _take_usage(self, value: object) -> None:
        if not mapping(value):
            return
        usage = self._reported_so_far(value)
        asked = mapping(usage.get(f"{self._asked}_tokens_details"))
        said = mapping(usage.get(f"{self._said}_tokens_details"))
        self.usage = Usage(
            input=count(usage.get(f"{self._asked}_tokens")),
            written=count(asked.get("cache_write_tokens")),  # OpenRouter
            cached=count(asked.get("cached_tokens"))
            or count(usage.get("prompt_cache_hit_tokens"))  # DeepSeek
            or count(usage.get("cached_tokens")),  # Moonshot
            output=count(usage.get(f"{self._said}_tokens")),
            reasoning=count(said.get("reasoning_tokens")),
        )

    def _reported_so_far(self, value: object) -> Mapping[str, object]:
        """The newest number of each kind. Zeros replace none: some servers report them before or after."""
        self._reported |= {name: number for name, number in mapping(value).items() if number}
        return self._reported

    def _call_ids(self) -> "CallIds":
        return CallIds(self._expected.taken, self._expected.stem)

    def _is_call(self, name: str, said: str) -> bool:
        """Whether a call is part of the answer: it has a name, and whole arguments if it was cut off here."""
        return bool(name) and (not self.full or json_object(arguments_of(said)) is not None)


def arguments_of(said: str) -> str:
    """The arguments of a call as they are kept."""
    return said.strip() or "{}"


class Room:
    """Characters an answer may still have."""

    def __init__(self, characters: int | None = None) -> None:
        """None is without bound."""
        self._left = characters
        self._a_call = 0 if characters is None else characters // MOST_CALLS
        self.taken = 0
        self.repeated = ""
        """What the answer says over and over; empty where it does not."""

    @property
    def full(self) -> bool:
        """Whether something had to be left out, or should be."""
        return bool(self.repeated) or (self._left is not None and self._left < 0)

    def take(self, text: str) -> str:
        """As much of a text as there is room for."""
        self.taken += len(text)
        if self._left is None:
            return text
        fits = text[: max(0, self._left)]
        self._left -= len(text)
        return fits

    def give_back(self, characters: int) -> None:
        """Free the room of a text that another one replaces."""
        if self._left is not None:
            self._left += characters

    def take_call(self) -> None:
        """Counts one more tool call, or another item of an answer, apart from its text."""
        if self._left is not None:
            self._left -= self._a_call


class Growing:
    """A text that comes in pieces. Halves of a character are joined; one without its other becomes U+FFFD."""

    def __init__(self, room: Room, *, watched: bool = False) -> None:
        """`watched`: whether it may not say one thing over and over."""
        self._room = room
        self._watched = watched
        self._pieces: list[str] = []
        self._half = ""
        self._length = 0
        self._newest = ""
        self._unseen = 0
        """Characters since it was last looked for what it repeats."""

    def __len__(self) -> int:
        return self._length

    def add(self, text: str) -> str:
        """Adds a piece; returns what can be shown now."""
        text = self._half + self._room.take(text)
        self._half = ""
        if text and "\ud800" <= text[-1] <= "\udbff":
            text, self._half = text[:-1], text[-1]
        if text:
            text = whole(text)
            self._pieces.append(text)
            self._length += len(text)
            if self._watched:
                self._watch(text)
        return text

    def _watch(self, text: str) -> None:
        self._newest = (self._newest + text)[-_LONG_LOOP:]
        self._unseen += len(text)
        if self._unseen > _LOOK_EVERY and not self._room.repeated:
            self._unseen = 0
            self._room.repeated = repeated_at_the_end(self._newest)

    def __str__(self) -> str:
        """All of it so far."""
        self._pieces = ["".join(self._pieces)]
        return self._pieces[0] + whole(self._half)


_LOOP = 1_500
"""Characters of one sentence, word for word again and again, that no honest answer has."""
_LONG_LOOP = 12_000
"""The same of anything shorter or of no words, as tables of numbers and lines of dashes have."""
_LONGEST_UNIT = 300
_LEAST_TIMES = 8
_LOOK_EVERY = 400
"""Characters between two looks."""
_SENTENCE = re.compile(r"[^\W\d_]+\W+[^\W\d_]+\W+[^\W\d_]+|[\u4e00-\u9fff]{5}")


def repeated_at_the_end(text: str) -> str:
    """What a text repeats at its end, letter for letter, and nothing else; empty where it goes on."""
    tail = text[-_LOOP:]
    if len(tail) < _LOOP:
        return ""
    probe = tail[-40:]
    period = len(tail) - 40 - tail.rfind(probe, 0, -1)
    if not 0 < period <= _LONGEST_UNIT or tail[period:] != tail[:-period] or period * _LEAST_TIMES > _LOOP:
        return ""
    unit = tail[-period:]
    if end := re.search(r"[.!?。\n]\s*", unit):  # said from the beginning of its sentence
        unit = unit[end.end() :] + unit[: end.end()]
    unit = unit.strip()
    if _SENTENCE.search(unit):
        return unit
    tail = text[-_LONG_LOOP:]
    return unit if len(tail) == _LONG_LOOP and tail[period:] == tail[:-period] else ""


class CallIds:
    """Ids of tool calls, unique within the session: a missing or repeated one is replaced."""

    def __init__(self, taken: Collection[str], stem: str) -> None:
        """`taken` are ids not to be given again; `stem` begins the ids made up here."""
        self._taken = taken
        self._used: set[str] = set()
        self._stem = stem

    def unique(self, call_id: str, number: int) -> str:
        """The id itself, or one made of the stem and the number of the call."""
        call_id = whole(call_id)
        if not call_id or call_id in self._taken or call_id in self._used:
            call_id = f"{self._stem}_{number}"
        self._used.add(call_id)
        return call_id


def whole(text: str) -> str:
    """The text with surrogate pairs joined and lone surrogates, which no UTF-8 can hold, as U+FFFD."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


# --- lenient JSON -----------------------------------------------------------------------------------

LARGEST = 10**12
"""No window and no usage comes near, in tokens. What goes beyond, as 1e999 does, is a mistake or malice."""


def decoded(text: str) -> object:
    """A JSON text.

    Raises:
        ValueError: it is none, or nested too deep to be read.
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested without end") from None


def encoded(value: object) -> str:
    """The value as a JSON text; empty where it is nested too deep to be written."""
    try:
        return json.dumps(value, default=str)
    except RecursionError:
        return ""


def mapping(value: object) -> Mapping[str, object]:
    """The value where it is an object, else an empty one."""
    return value if isinstance(value, Mapping) else {}


def sequence(value: object) -> Sequence[object]:
    """The value where it is a list, else an empty one."""
    return value if isinstance(value, Sequence) and not isinstance(value, str) else ()


def string(value: object) -> str:
    """The value where it is a text, else none."""
    return value if isinstance(value, str) else ""


def count(value: object) -> int:
    """The value where it is a number above zero, and not beyond `LARGEST`, else zero."""
    return int(value) if isinstance(value, int | float) and 0 < value <= LARGEST else 0
