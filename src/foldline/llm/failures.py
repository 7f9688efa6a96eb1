"""What a failed request means: one sentence for people, without any key, and whether waiting can help."""

import math
import os
import re
import socket
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from email.utils import parsedate_to_datetime
from urllib.parse import urlsplit

from .base import Subject
from .providers import SHORTEST_KEY
from .refusals import ErrorWords, RequestRefusal, error_words, read_refusal
from .wire import encoded, mapping

RETRY_STATUSES = frozenset({408, 409, 429, 500, 502, 503, 504, 529})
MAX_RETRIES = 8
LONGEST_RETRYING = 120.0
"""Seconds that are waited for one answer, all in all. A server that asks for more is not asked again."""
LONGEST_LOADING = 1800.0
"""Seconds that a model may take to be loaded, from a slow disk."""
_LOADING_STEP = 5.0
"""Seconds between two looks at a model that is loaded."""
_LONGEST_STEP = 30.0
"""Seconds between two retries of a server that does not say how long to wait."""

_LONGEST_SENTENCE = 64 * 2**10
"""Characters of a server's words that are looked at."""
_PASSING = re.compile(
    r"overloaded|rate.?limit|throttl|please wait|try again|server.?error|internal.?error|api_error"
    r"|unavailable|time.?out|timed out|temporar|network|connection",
    re.IGNORECASE,
)
"""In errors inside a stream, which have no status of their own: troubles of the server's that pass."""

_NO_ENDPOINT = re.compile(r"no endpoints found (?!for\b)", re.IGNORECASE)
"""OpenRouter's 404 for a model that exists, but nowhere with what the request needs."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a request went, for sentences."""

    url: str = field(repr=False)
    model: str
    key: str = field(default="", repr=False)
    key_name: str = "OPENAI_API_KEY"
    """The variable the key is read from."""
    url_name: str = "OPENAI_BASE_URL"
    """The variable or setting the URL comes from."""

    @property
    def shown(self) -> str:
        """The URL without user, password and query, any of which may hold a secret."""
        try:
            parts = urlsplit(self.url)
        except ValueError:
            return "the server"
        return f"{parts.scheme}://{parts.netloc.rsplit('@', 1)[-1]}{parts.path}".rstrip("/")

    def clean(self, text: str) -> str:
        """Foreign text fit for a sentence: one line, bounded, without control characters or the key."""
        if len(self.key) >= SHORTEST_KEY:
            text = text.replace(self.key, "[key]")
        text = re.sub(r"\s+", " ", text[:_LONGEST_SENTENCE]).strip()
        text = re.sub(r"[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]", "�", text)
        return text if len(text) <= 300 else text[:299] + "…"


@dataclass(frozen=True, slots=True)
class Failure:
    """One failed attempt."""

    sentence: str
    status: int | None = None
    retry: bool = False
    about: Subject = ""
    """What of the request was refused."""
    of_request: bool = False
    """Whether something in the request was refused: sent again, it is refused again."""
    window: int | None = None
    """Tokens the server says the window has, where the request was too long for it."""
    wait: float | None = None
    """Seconds the server asked to wait."""
    silent: float = 0.0
    """Seconds in which nothing came."""
    mute: bool = False
    """Whether a stream that began well ended without a word."""
    message: str = field(default="", repr=False)
    """The server's own words, without the envelopes around them."""

    @property
    def overflow(self) -> bool:
        """Whether the request is too long for the window."""
        return self.about == "length"

    @property
    def loading(self) -> bool:
        """Whether the server is there, but its model is not yet."""
        return self.about == "loading"

    def seconds_before(self, attempt: int) -> float:
        """Seconds before retry `attempt`, counted from 1: what the server asked for, else 1, 2, 4, …"""
        return min(_LONGEST_STEP, 2.0 ** (attempt - 1)) if self.wait is None else self.wait


class Retries:
    """The retries of one request: so many, and no longer than `LONGEST_RETRYING`."""

    def __init__(self) -> None:
        self.attempt = 0
        self._spent = 0.0
        self.loading = 0.0
        """Seconds that were waited for a model to be loaded."""

    def wait(self, failure: Failure) -> float | None:
        """Seconds before the next one; None where there is none."""
        if failure.loading and self.loading < LONGEST_LOADING:
            seconds = min(_LOADING_STEP, 1.0 + self.loading)
            self.loading += seconds
            return seconds
        if self.attempt:
            self._spent += failure.silent
        if not failure.retry or self.attempt == MAX_RETRIES or self._spent >= LONGEST_RETRYING:
            return None
        self.attempt += 1
        seconds = min(failure.seconds_before(self.attempt), LONGEST_RETRYING - self._spent)
        self._spent += seconds
        return seconds


def status_failure(at: Endpoint, status: int, body: str, headers: Mapping[str, str]) -> Failure:
    """An answer with an HTTP status of 400 or more. Header names are in lower case."""
    if 300 <= status < 400:
        return _redirect_failure(at, status, headers.get("location", ""))
    return _classify(at, status, error_words(body), body, _retry_after(headers))


def _redirect_failure(at: Endpoint, status: int, location: str) -> Failure:
    """Redirects are never followed: conversation and key are meant for the server that was named."""
    target = at.clean(Endpoint(location, at.model).shown if "://" in location else location)
    where = f" on to {target}" if target else " elsewhere"
    return Failure(
        f"{at.shown} sends requests{where} ({status}): set {at.url_name} to the address it should be.", status
    )


def stream_failure(at: Endpoint, error: object, *, begun: bool = False) -> Failure:
    """An error object inside a stream that began well; a numeric `code` is the status it stands for.

    `begun`: part of the answer had come. A server that has started to answer has not refused the request.
    """
    body = error if isinstance(error, str) else encoded(error)
    words = error_words(body)
    failure = _classify(at, words.status, words, body, None)
    passes = begun and words.status is None and failure.about not in ("length", "money")
    return replace(failure, retry=failure.retry or passes)


def error_in(piece: object, name: str = "") -> object | None:
    """The error that a piece of a stream stands for; None where it is no error. `name` is the event's own."""
    data = mapping(piece)
    if error := data.get("error"):
        return error
    # vLLM; OpenAI's Responses; events of that name from proxies.
    if "error" in (data.get("object"), data.get("type"), name):
        return dict(data) or name
    if error := mapping(data.get("response")).get("error"):
        return error
    return "it failed without a reason" if data.get("type") == "response.failed" else None


def window_failure(at: Endpoint) -> Failure:
    """A finish reason that says the window was full."""
    return Failure(_overflow_sentence(at, ""), about="length")


def broken_failure(at: Endpoint, *, mute: bool = False) -> Failure:
    return Failure(f"{at.shown} ended the answer before it was complete: try again.", retry=True, mute=mute)


def empty_failure(at: Endpoint) -> Failure:
    return Failure(f"{at.model} gave an empty answer.", retry=True)


def stalled_failure(at: Endpoint, seconds: float) -> Failure:
    return Failure(f"{at.shown} sent nothing for {seconds:g} s: try again.", retry=True, silent=seconds)


def endless_failure(at: Endpoint, length: int) -> Failure:
    """Bytes that come and come, and never make up a piece of an answer."""
    return Failure(
        f"{at.shown} sent {length / 2**20:.0f} MB without one piece of an answer: gave up. "
        f"Check that {at.url_name} leads to a model, and try again."
    )


def web_page_failure(at: Endpoint) -> Failure:
    return Failure(
        f"{at.shown} answered with a web page: check that {at.url_name} ends where the API starts, often in "
        "/v1, and that no login page or proxy stands before it."
    )


def unlisted_failure(at: Endpoint) -> Failure:
    return Failure(
        f"{at.shown} does not say which models it has: name one with -m or FOLDLINE_MODEL, "
        f"and check that {at.url_name} ends where its API starts, often in /v1."
    )


def _classify(at: Endpoint, status: int | None, words: ErrorWords, body: str, wait: float | None) -> Failure:
    refusal = read_refusal(status, words, body)
    passes = status in RETRY_STATUSES or (status is None and _PASSING.search(body) is not None)
    is_server_error = status is not None and status >= 500
    lasts = (is_server_error and refusal.of_request) or refusal.about in ("length", "money", "content")
    sentence = _sentence(at, status, words, refusal)
    if passes and wait is not None and wait > LONGEST_RETRYING:
        sentence = f"{sentence} It asks to wait {_duration(wait)}."
        passes = False
    return Failure(
        sentence,
        status,
        retry=passes and not lasts,
        about=refusal.about,
        of_request=refusal.of_request,
        window=refusal.window,
        wait=wait,
        message=words.message,
    )


def _duration(seconds: float) -> str:
    """Return a time to wait, in the largest units that matter: `3 h 20 min`."""
    minutes = math.ceil(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    hours, rest_of_hour = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {rest_of_hour} min" if rest_of_hour else f"{hours} h"
    return f"{math.ceil(hours / 24)} days"


def _sentence(at: Endpoint, status: int | None, words: ErrorWords, refusal: RequestRefusal) -> str:
    because = _because(at, words.message)
    shown = "" if status is None else f" ({status})"
    match refusal.about:
        case "length":
            return _overflow_sentence(at, words.message)
        case "money":
            return f"{at.shown} says that the account of this key has no credit left{because}"
        case "rate":
            return f"{at.shown} limits how often {at.model} may be asked{shown}{because} Wait and try again."
        case "loading":
            return f"{at.shown} is still loading {at.model} (503)."
        case "pictures" | "picture" if status != 413:
            return f"{at.shown} refused the request{shown}{because}"
        case "tools":
            return (
                f"{at.model} cannot be sent tools{shown}{because} Choose another with -m or FOLDLINE_MODEL."
            )
        case _:
            return _status_sentence(at, status, words, refusal.of_request)


def _status_sentence(at: Endpoint, status: int | None, words: ErrorWords, of_request: bool) -> str:
    """Return what a status means, for errors whose words do not say more."""
    because = _because(at, words.message)
    match status:
        case None:
            return f"{at.shown} broke off with an error{because}"
        case 401 if at.key:
            return f"{at.shown} refused the key (401): set {at.key_name} to one that is valid there."
        case 401:
            return f"{at.shown} wants a key (401): set {at.key_name}."
        case 403:
            return f"{at.shown} does not allow this key to use {at.model} (403){because}"
        case 404 if not _NO_ENDPOINT.search(words.message):
            return (
                f"{at.shown} has no model {at.model} (404){because} Choose another with -m or "
                f"FOLDLINE_MODEL, or check that {at.url_name} ends where the API starts, often in /v1."
            )
        case 413:
            return f"{at.shown} finds the request too large in bytes (413){because} Leave out images."
        case 408 | 409 | 500 | 502 | 503 | 504 | 529 if not (of_request and status == 500):
            return f"{at.shown} cannot answer now ({status}){because} Try again later."
        case _ if words.code == "model_not_found":
            return f"{at.shown} has no model {at.model}{because} Choose another with -m or FOLDLINE_MODEL."
        case _:
            return f"{at.shown} refused the request ({status}){because}"


def _overflow_sentence(at: Endpoint, detail: str) -> str:
    return f"The request is longer than the window of {at.model}{_because(at, detail)}"


def _because(at: Endpoint, detail: str) -> str:
    """The server's own words as the end of a sentence."""
    cleaned = at.clean(detail)
    if not cleaned:
        return "."
    return f': it says "{cleaned.rstrip(".")}".'


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds from `retry-after-ms` or `retry-after`; a date is measured against the server's own `date`."""
    for name, scale in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            seconds = float(headers[name]) * scale
        except (KeyError, ValueError):
            continue
        return max(0.0, seconds) if math.isfinite(seconds) else None
    try:
        wait = parsedate_to_datetime(headers["retry-after"]) - parsedate_to_datetime(headers["date"])
    except (KeyError, ValueError, TypeError):
        return None
    return max(0.0, wait.total_seconds())


def unreachable_failure(at: Endpoint, error: BaseException) -> Failure:
    """`error` is what the SDK raised, or what lies behind it."""
    for cause in _behind(error):
        if (said := _said(at, cause)) is not None:
            why, what = said
            distrusted = isinstance(cause, ssl.SSLCertVerificationError)  # as it will be in two minutes
            return Failure(f"Cannot connect to {at.shown} ({why}): {what}.", retry=not distrusted)
    return Failure(f"Cannot connect to {at.shown}: {_right(at)}.", retry=True)


def _right(at: Endpoint) -> str:
    return f"check that the server runs and that {at.url_name} is right"


def _said(at: Endpoint, cause: BaseException) -> tuple[str, str] | None:
    """Why it failed and what to do about it; None where this cause says neither."""
    setting, right = f"check that {at.url_name} is right", _right(at)
    match cause:
        case socket.gaierror(errno=socket.EAI_AGAIN):  # nobody could be asked
            return "its name cannot be looked up now", f"check the network, and that {at.url_name} is right"
        case socket.gaierror():
            return "there is no server of that name", f"{setting}, and that there is a network"
        case ConnectionRefusedError():
            return "nothing listens there", f"start the server, or {setting}"
        case ssl.SSLCertVerificationError():
            why = at.clean(cause.verify_message).lower().rstrip(".")
            return (
                f"its certificate is not trusted: {why}",
                f"{setting}, and that this system knows who issued it",
            )
        case ssl.SSLError(reason="WRONG_VERSION_NUMBER" | "HTTP_REQUEST"):
            return "it does not speak https", f"{setting}: perhaps it begins with http://"
        case ssl.SSLError():
            return "it broke off before anything was encrypted", right
        case TimeoutError():
            return "no answer", right
        case OSError(errno=int(number)):
            return os.strerror(number).lower(), right
        case _:
            return None


def _behind(error: BaseException) -> Iterator[BaseException]:
    """The chain of causes, innermost first: the library's own words hide what the system said."""
    behind = error.__cause__ or error.__context__
    if behind is not None:
        yield from _behind(behind)
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from _behind(each)
    yield error
