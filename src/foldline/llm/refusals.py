"""What a server's error says: its own words, taken out of any envelope, and what they are about."""

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass

from foldline.context.budget import RATE_CODES, announced_window, is_overflow

from .base import Subject
from .wire import decoded

LONGEST_BODY = 64 * 2**10
"""Characters of an error body that are read."""

_MAX_DEPTH = 12
"""Envelopes around an error: gateways stack two or three."""
_ENVELOPES = (
    "metadata",  # OpenRouter: `raw` in it is the provider's answer
    "raw",
    "upstream_error",
    "error",
    "errors",  # Cloudflare, watsonx
    "response",  # Responses: `response.failed`
    "details",
    "message",
    "detail",  # FastAPI
    "msg",
    "error_msg",  # Baidu
    "Message",  # AWS
)
"""Fields that hold a message, or another error. The error's own come before its summary."""
_ECHO = re.compile(
    r",? ?input_value=.*?(?=, input_type=|\]|$)|; last read: .*|,? ?\"input\": *[\[{\"].*", re.DOTALL
)
"""Pieces of the request that pydantic, llama.cpp's JSON parser and FastAPI repeat in an error."""


@dataclass(frozen=True, slots=True)
class ErrorWords:
    """The innermost message of an error, with the codes around it."""

    message: str = ""
    code: str | None = None
    """The innermost code or type that is a word, else the outermost number."""
    status: int | None = None
    """The HTTP status that the body names, for errors inside a stream."""

    def within(self, code: object, kind: object) -> "ErrorWords":
        """Return these words inside an envelope with its own code and type."""
        codes = [str(name) for name in (self.code, code, kind) if name]
        status = next((int(name) for name in codes[::-1] if re.fullmatch(r"[45]\d\d", name)), self.status)
        named = next((name for name in codes if not name.isdigit()), codes[0] if codes else None)
        return ErrorWords(self.message, named, status)


def error_words(body: str) -> ErrorWords:
    """Read an error body, in the shapes servers use. A page of HTML says nothing."""
    body = body[:LONGEST_BODY]
    try:
        value = decoded(body)
    except ValueError:
        return ErrorWords() if body.lstrip().startswith("<") else _words(body, _MAX_DEPTH)
    return _words(value, _MAX_DEPTH)


def _words(value: object, depth: int) -> ErrorWords:
    if depth == 0:
        return ErrorWords()
    match value:
        case str():
            inner = _words(_embedded(value), depth - 1) if "{" in value else ErrorWords()
            return inner if inner.message else ErrorWords(_ECHO.sub("", value).strip())
        case list():
            return _words_of_list(value, depth)
        case dict():
            return _words_of_object(value, depth)
        case _:
            return ErrorWords()


def _words_of_list(items: list[object], depth: int) -> ErrorWords:
    faults = [_validation_fault(item) for item in items if isinstance(item, dict) and "loc" in item]
    if faults:
        return ErrorWords("; ".join(faults))
    words = (_words(item, depth - 1) for item in items)
    return next((inner for inner in words if inner.message), ErrorWords())


def _validation_fault(fault: Mapping[str, object]) -> str:
    """Return `place: what is wrong` of one FastAPI error; its `input` repeats the request."""
    place = fault["loc"]
    path = ".".join(map(str, place)) if isinstance(place, list) else str(place)
    return f"{path}: {fault.get('msg', '')}"


def _words_of_object(error: Mapping[str, object], depth: int) -> ErrorWords:
    # A bare `error` text beside a message is often the name of the status alone.
    fields = [name for name in _ENVELOPES if not (name == "error" and isinstance(error.get(name), str))]
    inner = ErrorWords()
    for name in [*fields, "error"]:
        inner = _words(error.get(name), depth - 1)
        if inner.message:
            break
    return inner.within(error.get("code"), error.get("type"))


def _embedded(text: str) -> object:
    """Return the object inside a text, as JSON or as Python prints it; None if there is none."""
    inside = text[text.index("{") : text.rfind("}") + 1]
    try:
        return decoded(inside)
    except ValueError:
        pass
    try:
        return ast.literal_eval(inside) if inside.startswith("{'") else None
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None


# --- what it is about ---------------------------------------------------------------------------------

_NOT_THE_REQUEST = frozenset({401, 402, 407, 408, 429})
"""Statuses of keys, money, time and rates: whatever the words, the request itself is not refused."""
_MONEY = re.compile(
    r"insufficient_quota|billing|credit balance|insufficient balance|requires more credits", re.IGNORECASE
)
_LOADING = re.compile(r"\bloading\b", re.IGNORECASE)
"""llama.cpp ("Loading model"), Hugging Face ("is currently loading")."""
_FILTERED = re.compile(
    r"content[ _](filter|polic|management|moderation)|moderation|flagged|safety|guardrail|responsibleai",
    re.IGNORECASE,
)
_FINAL = re.compile(
    r"not (yet )?(been )?(support|implement)|n[o']t support|unsupported|only support|not permitted"
    r"|unknown (parameter|field|variant)|unrecognized|invalid_request_error|requires? --\w"
    r"|not a multi-?modal|missing data required",
    re.IGNORECASE,
)
"""In a 500 that no waiting cures: what llama.cpp cannot do, what was refused to a gateway."""
_PICTURE_WORD = re.compile(
    r"(?<![a-z0-9/-])(input_)?(images?|pictures?|vision|multi-?modal|mmproj|media(?! type)|image_urls?)"
    r"(?![a-z0-9/-]|\.\w)",
    re.IGNORECASE,
)
"""Not as a part of a path or of a model's name: `/v1/images`, `qwen-vision-7b`, `image.py`."""
_NOT_TEXT = re.compile(
    r"content type|item type in content|content must be a string|`?text`? is not set"
    r"|valid string.{0,200}content|content[^;]{0,200}valid string",
    re.IGNORECASE,
)
"""In a refusal of contents that are more than a text: DashScope, Groq, MiMo, FastAPI."""
_ONE_PICTURE = re.compile(
    r"too (large|big|small|many)|larger than|exceed|dimension|decode|corrupt|valid image|\bM[Bi]B?\b|resize"
    r"|(could not|unable to|cannot) process|unsupported image\b|(image|following) formats?\b|base64"
    r"|media_type|at most [1-9]|download",
    re.IGNORECASE,
)
"""In a refusal of one picture, or of their number, by a model that takes pictures."""
_TOOLS = re.compile(
    r"(support|use)\w{0,5}( \w+){0,2} (tools?|functions?)\b|tool (use|calling|choice)|function calling",
    re.IGNORECASE,
)
_OTHER_REASON = re.compile(
    r"param|not found|does not exist|unsupported|not support|filter|polic|\bkeys?\b"
    r"|schema|\btools?\b|\brole|\bjson\b|max_(new_)?tokens|temperature",
    re.IGNORECASE,
)
"""In a refusal that is about something else than the length."""


@dataclass(frozen=True, slots=True)
class RequestRefusal:
    """What an error means."""

    about: Subject = ""
    window: int | None = None
    """Tokens the server says the window has, if the request is too long for it."""
    of_request: bool = False
    """Whether something in the request was refused: sent again, it is refused again."""


def read_refusal(status: int | None, words: ErrorWords, body: str) -> RequestRefusal:
    """Return what an error with this status is about. `body` is the whole of it."""
    body = body[:LONGEST_BODY]
    message = words.message
    if is_overflow(status, words.code, _ECHO.sub("", body)):
        return RequestRefusal("length", announced_window(body))
    if status in (402, 403, 429) and _MONEY.search(body):
        return RequestRefusal("money")
    if status == 429 or words.code in RATE_CODES:
        return RequestRefusal("rate")
    if status == 503 and _LOADING.search(message):
        return RequestRefusal("loading")
    if status in _NOT_THE_REQUEST:
        return RequestRefusal()
    if _FILTERED.search(f"{words.code} {message}"):
        return RequestRefusal("content")
    if status is not None and status >= 500:
        is_final = status <= 501 and _FINAL.search(f"{words.code} {message}")
        if not is_final:
            return RequestRefusal()
    return RequestRefusal(_part_refused(message), of_request=True)


def _part_refused(message: str) -> Subject:
    """Return which part of a request the words are about."""
    if _PICTURE_WORD.search(message):
        return "picture" if _ONE_PICTURE.search(message) else "pictures"
    if _NOT_TEXT.search(message):
        return "pictures"
    if _TOOLS.search(message):
        return "tools"
    return "request" if _OTHER_REASON.search(message) else ""
