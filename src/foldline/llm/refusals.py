"""Extracts the message from a server's error, and classifies the error."""

import ast
import re
from dataclasses import dataclass

from foldline.json_text import JsonFields, parse_json
from foldline.llm.overflow import RATE_CODES, announced_window, is_overflow
from foldline.text.patterns import lazy_pattern

from .base import Subject

LONGEST_BODY = 64 * 2**10
"""Number of characters that are read from an error body. The rest is ignored."""

_MAX_DEPTH = 12
"""Maximum depth to which an error may be nested in other structures.

Gateways add two or three levels.
"""
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
"""Fields that may contain a message or another error, in order of preference."""
_ECHO = lazy_pattern(
    r",? ?input_value=.*?(?=, input_type=|\]|$)|; last read: .*|,? ?\"input\": *[\[{\"].*",
    re.DOTALL,
)
"""Matches the parts of the request that some servers quote in errors.

These servers use pydantic, llama.cpp's JSON parser or FastAPI.
"""


@dataclass(frozen=True, slots=True)
class ErrorWords:
    """The innermost message of an error, and the error's code and status."""

    message: str = ""
    code: str | None = None
    """The innermost code or type that is not a number.

    If there is none, this is the innermost number.
    """
    status: int | None = None
    """The HTTP status stated in the body, for errors inside a stream."""

    def within(self, code: object, kind: object) -> "ErrorWords":
        """Add the code and the type that a surrounding structure states."""
        codes = [str(name) for name in (self.code, code, kind) if name]
        status = next(
            (int(name) for name in codes[::-1] if re.fullmatch(r"[45]\d\d", name)),
            self.status,
        )
        named = next(
            (name for name in codes if not name.isdigit()), codes[0] if codes else None
        )
        return ErrorWords(self.message, named, status)


def error_words(body: str) -> ErrorWords:
    """Parse an error body in any server's format.

    For an HTML page, the message is empty.
    """
    body = body[:LONGEST_BODY]
    if body.lstrip().startswith("<"):
        return ErrorWords()
    try:
        value = parse_json(body)
    except ValueError:
        value = body
    return _words(value, _MAX_DEPTH)


def _words(value: object, depth: int) -> ErrorWords:
    if depth == 0:
        return ErrorWords()
    match value:
        case str():
            inner = (
                _words(_embedded(value), depth - 1) if "{" in value else ErrorWords()
            )
            return inner if inner.message else ErrorWords(_ECHO.sub("", value).strip())
        case list():
            return _words_of_list(value, depth)
        case dict():
            return _words_of_object(value, depth)
        case _:
            return ErrorWords()


def _words_of_list(items: list[object], depth: int) -> ErrorWords:
    faults = [
        _validation_fault(item)
        for item in items
        if isinstance(item, dict) and "loc" in item
    ]
    if faults:
        return ErrorWords("; ".join(faults))
    words = (_words(item, depth - 1) for item in items)
    return next((inner for inner in words if inner.message), ErrorWords())


def _validation_fault(fault: JsonFields) -> str:
    """Format a FastAPI error as `place: message`.

    Its `input` is omitted, because this repeats the request.
    """
    place = fault["loc"]
    path = ".".join(map(str, place)) if isinstance(place, list) else str(place)
    return f"{path}: {fault.get('msg', '')}"


def _words_of_object(error: JsonFields, depth: int) -> ErrorWords:
    # An `error` that is a string comes last, because it often contains only the name of the status.
    fields = [
        name
        for name in _ENVELOPES
        if not (name == "error" and isinstance(error.get(name), str))
    ]
    inner = ErrorWords()
    for name in [*fields, "error"]:
        inner = _words(error.get(name), depth - 1)
        if inner.message:
            break
    return inner.within(error.get("code"), error.get("type"))


def _embedded(text: str) -> object:
    """Return the JSON or Python object inside a string, if any."""
    inside = text[text.index("{") : text.rfind("}") + 1]
    try:
        return parse_json(inside)
    except ValueError:
        pass
    try:
        return ast.literal_eval(inside) if inside.startswith("{'") else None
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None


# --- the subject of an error ----------------------------------------------------------------------------

_NOT_THE_REQUEST = frozenset({401, 402, 407, 408, 429})
"""Statuses that do not reject the request itself.

They concern keys, payment, timeouts and rate limits.
"""
_MONEY = lazy_pattern(
    r"insufficient_quota|billing|credit balance|insufficient balance|requires more credits",
    re.IGNORECASE,
)
_LOADING = lazy_pattern(r"\bloading\b", re.IGNORECASE)
"""Matches errors that report a model being loaded.

llama.cpp sends "Loading model", and Hugging Face "is currently loading".
"""
_FILTERED = lazy_pattern(
    r"content[ _](filter|polic|management|moderation)|moderation|flagged|safety|guardrail|responsibleai",
    re.IGNORECASE,
)
_FINAL = lazy_pattern(
    r"not (yet )?(been )?(support|implement)|n[o']t support|unsupported|only support|not permitted"
    r"|unknown (parameter|field|variant)|unrecognized|invalid_request_error|requires? --\w"
    r"|not a multi-?modal|missing data required",
    re.IGNORECASE,
)
"""Matches errors with status 500 that are permanent.

Such an error means that llama.cpp lacks a feature, or that a gateway rejected the request.
"""
_PICTURE_WORD = lazy_pattern(
    r"(?<![a-z0-9/-])(input_)?(images?|pictures?|vision|multi-?modal|mmproj|media(?! type)|image_urls?)"
    r"(?![a-z0-9/-]|\.\w)",
    re.IGNORECASE,
)
"""Matches words for images.

Words in paths and model names do not count: `/v1/images`, `qwen-vision-7b`, `image.py`.
"""
_NOT_TEXT = lazy_pattern(
    r"content type|item type in content|content must be a string|`?text`? is not set"
    r"|valid string.{0,200}content|content[^;]{0,200}valid string",
    re.IGNORECASE,
)
"""Matches rejections of any content other than text.

The wordings are those of DashScope, Groq, MiMo and FastAPI.
"""
_ONE_PICTURE = lazy_pattern(
    r"too (large|big|small|many)|larger than|exceed|dimension|decode|corrupt|valid image|\bM[Bi]B?\b|resize"
    r"|(could not|unable to|cannot) process|unsupported image\b|(image|following) formats?\b|base64"
    r"|media_type|at most [1-9]|download",
    re.IGNORECASE,
)
"""Matches rejections by a model that does accept images.

It rejects a particular image, or the number of images.
"""
_TOOLS = lazy_pattern(
    r"(support|use)\w{0,5}( \w+){0,2} (tools?|functions?)\b|tool (use|calling|choice)|function calling",
    re.IGNORECASE,
)
_OTHER_REASON = lazy_pattern(
    r"param|not found|does not exist|unsupported|not support|filter|polic|\bkeys?\b"
    r"|schema|\btools?\b|\brole|\bjson\b|max_(new_)?tokens|temperature",
    re.IGNORECASE,
)
"""Matches rejections that concern another part of the request."""


@dataclass(frozen=True, slots=True)
class RequestRefusal:
    """The classification of an error."""

    about: Subject = ""
    window: int | None = None
    """The window in tokens.

    Set only if the server stated it when it rejected a request as too long.
    """
    of_request: bool = False
    """Whether a part of the request was rejected.

    If so, a retry cannot help.
    """


def read_refusal(status: int | None, words: ErrorWords, body: str) -> RequestRefusal:
    """Classify an error by its status, its words and its complete body."""
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
    """Return the part of the request that an error message is about."""
    if _PICTURE_WORD.search(message):
        return "picture" if _ONE_PICTURE.search(message) else "pictures"
    if _NOT_TEXT.search(message):
        return "pictures"
    if _TOOLS.search(message):
        return "tools"
    return "request" if _OTHER_REASON.search(message) else ""
