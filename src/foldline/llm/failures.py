"""Describes failed requests for the user, without keys, and decides on retries."""

import math
import os
import re
import socket
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from email.utils import parsedate_to_datetime
from urllib.parse import urlsplit

from foldline.text.harmless import clean_line
from foldline.text.shorten import cut, one_line

from .base import Subject
from .lenient import encoded, mapping
from .providers import SHORTEST_KEY, Provider
from .refusals import ErrorWords, RequestRefusal, error_words, read_refusal

NO_CREDIT = "The account for this key has no credit left at {at.shown}{because}"
RATE_LIMITED = "{at.shown} limits how often {at.model} can be used{status}{because} Wait, then try again."
LOADING = "{at.shown} is still loading {at.model} (503)."
REJECTED = "{at.shown} rejected the request{status}{because}"
NO_TOOLS = "{at.model} does not support tools{status}{because} Choose another with -m or FOLDLINE_MODEL."
TOO_LONG = "The request is longer than the context window of {at.model}{because}"
TOO_MANY_BYTES = (
    "The request has too many bytes for {at.shown} (413){because} Remove images."
)
REPORTED = "{at.shown} reported an error{because}"
WRONG_KEY = "{at.shown} rejected the key (401). Set {at.key_name} to a valid key."
NO_KEY = "{at.shown} requires a key (401). Set {at.key_name}."
NOT_ALLOWED = "{at.shown} does not allow this key to use {at.model} (403){because}"
UNKNOWN_MODEL = (
    "{at.shown} has no model {at.model}{status}{because} "
    "Choose another with -m or FOLDLINE_MODEL."
)
NOT_FOUND = (
    "{at.shown} has no model {at.model} (404){because} Choose another with -m or FOLDLINE_MODEL, or "
    "check that {at.url_name} ends where the API starts, often in /v1."
)
UNAVAILABLE = "{at.shown} cannot answer now{status}{because} Try again later."
REDIRECTED = "{at.shown} redirected the request {where} ({status}). Set {at.url_name} to the right address."
BROKEN = "{at.shown} stopped before the answer was complete. Try again."
EMPTY = "{at.model} gave an empty answer."
STALLED = "{at.shown} sent no data for {seconds:g} s. Try again."
ENDLESS = (
    "{at.shown} sent {size:.0f} MB without any part of an answer, so the request was stopped. Check that "
    "{at.url_name} is the address of a model server, and try again."
)
WEB_PAGE = (
    "{at.shown} answered with a web page. Check that {at.url_name} ends where the API starts, often in /v1, "
    "and that there is no login page or proxy in between."
)
UNLISTED = (
    "{at.shown} does not list its models. Choose one with -m or FOLDLINE_MODEL, and check that {at.url_name} "
    "ends where the API starts, often in /v1."
)
UNREACHABLE = "Cannot connect to {at.shown}{why}: {advice}."
NOT_RESOLVED = "its name cannot be resolved now"
NO_SUCH_HOST = "no server has this name"
NOT_LISTENING = "no server is listening there"
UNTRUSTED = "its certificate is not trusted: {reason}"
NO_HTTPS = "it does not use HTTPS"
NO_HANDSHAKE = "the TLS handshake failed"
NO_ANSWER = "no answer"
CHECK_NETWORK = "check {at.url_name} and the network"
START_SERVER = "start the server, or check {at.url_name}"
CHECK_ISSUER = "check {at.url_name}, or install the certificate of its issuer"
USE_HTTP = "check {at.url_name}, which may need to start with http://"
CHECK_SERVER = "check that the server is running and that {at.url_name} is correct"
LONG_WAIT = "The server asks for a wait of {duration}."

RETRY_STATUSES = frozenset({408, 409, 429, 500, 502, 503, 504, 529})
MAX_RETRIES = 8
LONGEST_RETRYING = 120.0
"""Maximum total wait between retries, in seconds.

If a server asks for a longer wait, the request is not retried.
"""
LONGEST_LOADING = 1800.0
"""Maximum wait for a model to load, in seconds. Slow disks are taken into account."""
_LOADING_STEP = 5.0
"""Maximum wait between two checks of whether a model has been loaded, in seconds."""
_LONGEST_STEP = 30.0
"""Maximum wait before one retry, in seconds, unless the server asks for more."""

_LONGEST_SENTENCE = 64 * 2**10
"""Number of characters that are read from a server's message. The rest is ignored."""
_PASSING = re.compile(
    r"overloaded|rate.?limit|throttl|please wait|try again|server.?error|internal.?error|api_error"
    r"|unavailable|time.?out|timed out|temporar|network|connection",
    re.IGNORECASE,
)
"""Matches temporary server problems reported inside a stream.

These errors have no HTTP status.
"""

_NO_ENDPOINT = re.compile(r"no endpoints found (?!for\b)", re.IGNORECASE)
"""Matches OpenRouter's 404 for a model without endpoints for this type of request.

The model itself exists.
"""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The target of a request, as described to the user."""

    url: str = field(repr=False)
    model: str
    key: str = field(default="", repr=False)
    key_name: str = "OPENAI_API_KEY"
    """Name of the variable that contains the key."""
    url_name: str = "OPENAI_BASE_URL"
    """Name of the variable or setting that contains the URL."""

    @property
    def shown(self) -> str:
        """The URL without user, password and query, because these may be secret."""
        try:
            parts = urlsplit(self.url)
        except ValueError:
            return "the server"
        return f"{parts.scheme}://{parts.netloc.rsplit('@', 1)[-1]}{parts.path}".rstrip(
            "/"
        )

    def clean(self, text: str) -> str:
        """Return a server's text as one short line, without the key, and safe to display."""
        if len(self.key) >= SHORTEST_KEY:
            text = text.replace(self.key, "[key]")
        return cut(clean_line(one_line(text[:_LONGEST_SENTENCE])), 300)


def endpoint_of(
    provider: Provider, model: str, key: str, key_name: str = ""
) -> Endpoint:
    """Return the endpoint of a provider's model.

    Args:
        key_name: name of the key's source, if it is not the provider's variable.
    """
    return Endpoint(
        provider.base_url,
        model,
        key,
        key_name or provider.key_name,
        provider.url_setting,
    )


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed attempt to get an answer."""

    sentence: str
    status: int | None = None
    retry: bool = False
    about: Subject = ""
    """The part of the request that was rejected, if any."""
    of_request: bool = False
    """Whether a part of the request was rejected.

    If so, a retry cannot help.
    """
    window: int | None = None
    """The window in tokens.

    Set only if the server stated it when it rejected a request as too long.
    """
    wait: float | None = None
    """How long the server asked the client to wait, in seconds."""
    silent: float = 0.0
    """Seconds without any data immediately before the failure."""
    mute: bool = False
    """Whether the stream was valid, but ended without an error or a stop reason."""
    message: str = field(default="", repr=False)
    """The server's own message, without the surrounding JSON."""

    @property
    def overflow(self) -> bool:
        """Whether the request is too long for the window."""
        return self.about == "length"

    @property
    def loading(self) -> bool:
        """Whether the server is still loading its model."""
        return self.about == "loading"

    def seconds_before(self, attempt: int) -> float:
        """Return the wait in seconds before retry number `attempt`.

        The wait is as long as the server asked for. By default, it is 1, 2, 4, … seconds.
        """
        if self.wait is not None:
            return self.wait
        return min(_LONGEST_STEP, 2.0 ** (attempt - 1))


class Retries:
    """The retries of a request, limited in number and in total time."""

    def __init__(self) -> None:
        self.attempt = 0
        self._spent = 0.0
        self.loading = 0.0
        """Seconds spent waiting for a model to load so far."""

    def wait(self, failure: Failure) -> float | None:
        """Return the seconds until the next retry.

        Returns None if the request must not be retried.
        """
        if failure.loading and self.loading < LONGEST_LOADING:
            seconds = min(_LOADING_STEP, 1.0 + self.loading)
            self.loading += seconds
            return seconds
        if self.attempt:
            self._spent += failure.silent
        if (
            not failure.retry
            or self.attempt == MAX_RETRIES
            or self._spent >= LONGEST_RETRYING
        ):
            return None
        self.attempt += 1
        seconds = min(
            failure.seconds_before(self.attempt), LONGEST_RETRYING - self._spent
        )
        self._spent += seconds
        return seconds


def status_failure(
    at: Endpoint, status: int, body: str, headers: Mapping[str, str]
) -> Failure:
    """Return the failure for an HTTP status of 300 or more.

    The names in `headers` must be in lower case.
    """
    if 300 <= status < 400:
        return _redirect_failure(at, status, headers.get("location", ""))
    return _classify(at, status, error_words(body), body, _retry_after(headers))


def _redirect_failure(at: Endpoint, status: int, location: str) -> Failure:
    """Return the failure for a redirect.

    Redirects are never followed, because the conversation and the key are meant only for the configured
    server.
    """
    target = at.clean(
        Endpoint(location, at.model).shown if "://" in location else location
    )
    where = f"to {target}" if target else "elsewhere"
    return Failure(REDIRECTED.format(at=at, where=where, status=status), status)


def stream_failure(at: Endpoint, error: object, *, begun: bool = False) -> Failure:
    """Return the failure for an error inside a stream.

    A numeric `code` is treated as an HTTP status.

    Args:
        begun: whether part of the answer was received. If so, the error is not a rejection of the request.
    """
    body = error if isinstance(error, str) else encoded(error)
    words = error_words(body)
    failure = _classify(at, words.status, words, body, None)
    passes = begun and words.status is None and failure.about not in ("length", "money")
    return replace(failure, retry=failure.retry or passes)


def error_in(piece: object, name: str = "") -> object | None:
    """Return the error that a piece of a stream contains, if any.

    Args:
        name: the name of the event.
    """
    data = mapping(piece)
    if error := data.get("error"):
        return error
    # vLLM; OpenAI's Responses; events with that name from proxies.
    if "error" in (data.get("object"), data.get("type"), name):
        return dict(data) or name
    if error := mapping(data.get("response")).get("error"):
        return error
    return (
        "it failed without a reason" if data.get("type") == "response.failed" else None
    )


def window_failure(at: Endpoint) -> Failure:
    """Return the failure for a stop reason that reports a full window."""
    return Failure(TOO_LONG.format(at=at, because="."), about="length")


def broken_failure(at: Endpoint, *, mute: bool = False) -> Failure:
    return Failure(BROKEN.format(at=at), retry=True, mute=mute)


def stalled_failure(at: Endpoint, seconds: float) -> Failure:
    sentence = STALLED.format(at=at, seconds=seconds)
    return Failure(sentence, retry=True, silent=seconds)


def _classify(
    at: Endpoint, status: int | None, words: ErrorWords, body: str, wait: float | None
) -> Failure:
    refusal = read_refusal(status, words, body)
    passes = status in RETRY_STATUSES or (
        status is None and _PASSING.search(body) is not None
    )
    is_server_error = status is not None and status >= 500
    lasts = (is_server_error and refusal.of_request) or refusal.about in (
        "length",
        "money",
        "content",
    )
    sentence = _template(at, status, words, refusal).format(
        at=at,
        status="" if status is None else f" ({status})",
        because=_because(at, words.message),
    )
    if passes and wait is not None and wait > LONGEST_RETRYING:
        sentence = f"{sentence} {LONG_WAIT.format(duration=_duration(wait))}"
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
    """Format a duration in minutes, hours or days: `3 h 20 min`."""
    minutes = math.ceil(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    hours, rest_of_hour = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {rest_of_hour} min" if rest_of_hour else f"{hours} h"
    return f"{math.ceil(hours / 24)} days"


def _template(
    at: Endpoint, status: int | None, words: ErrorWords, refusal: RequestRefusal
) -> str:
    """Return the template of the message for an error, before values are inserted."""
    match refusal.about:
        case "length":
            return TOO_LONG
        case "money":
            return NO_CREDIT
        case "rate":
            return RATE_LIMITED
        case "loading":
            return LOADING
        case "pictures" | "picture" if status != 413:
            return REJECTED
        case "tools":
            return NO_TOOLS
        case _:
            return _status_template(at, status, words, refusal.of_request)


def _status_template(
    at: Endpoint, status: int | None, words: ErrorWords, of_request: bool
) -> str:
    match status:
        case None:
            return REPORTED
        case 401:
            return WRONG_KEY if at.key else NO_KEY
        case 403:
            return NOT_ALLOWED
        case 404 if not _NO_ENDPOINT.search(words.message):
            return NOT_FOUND
        case 413:
            return TOO_MANY_BYTES
        case 500 if of_request:
            return REJECTED
        case 408 | 409 | 500 | 502 | 503 | 504 | 529:
            return UNAVAILABLE
        case _:
            return UNKNOWN_MODEL if words.code == "model_not_found" else REJECTED


def _because(at: Endpoint, detail: str) -> str:
    """Return the server's own message, quoted as the end of another message."""
    cleaned = at.clean(detail)
    if not cleaned:
        return "."
    return f': it says "{cleaned.rstrip(".")}".'


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the number of seconds to wait, if `retry-after-ms` or `retry-after` states it.

    Dates are relative to the server's `date`.
    """
    for name, scale in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            seconds = float(headers[name]) * scale
        except (KeyError, ValueError):
            continue
        return max(0.0, seconds) if math.isfinite(seconds) else None
    try:
        wait = parsedate_to_datetime(headers["retry-after"]) - parsedate_to_datetime(
            headers["date"]
        )
    except (KeyError, ValueError, TypeError):
        return None
    return max(0.0, wait.total_seconds())


def unreachable_failure(at: Endpoint, error: BaseException) -> Failure:
    """Return the failure for a connection error raised by the SDK, or for one of its causes."""
    for cause in _causes(error):
        explanation = _explained(at, cause)
        if explanation is not None:
            why, advice = explanation
            is_temporary = not isinstance(cause, ssl.SSLCertVerificationError)
            sentence = UNREACHABLE.format(
                at=at, why=f" ({why})", advice=advice.format(at=at)
            )
            return Failure(sentence, retry=is_temporary)
    advice = CHECK_SERVER.format(at=at)
    return Failure(UNREACHABLE.format(at=at, why="", advice=advice), retry=True)


def _explained(at: Endpoint, cause: BaseException) -> tuple[str, str] | None:
    """Return a failure's reason, and advice with placeholders, if the cause is known."""
    match cause:
        case socket.gaierror(errno=socket.EAI_AGAIN):  # the name server did not respond
            return NOT_RESOLVED, CHECK_NETWORK
        case socket.gaierror():
            return NO_SUCH_HOST, CHECK_NETWORK
        case ConnectionRefusedError():
            return NOT_LISTENING, START_SERVER
        case ssl.SSLCertVerificationError():
            reason = at.clean(cause.verify_message).lower().rstrip(".")
            return UNTRUSTED.format(reason=reason), CHECK_ISSUER
        case ssl.SSLError(reason="WRONG_VERSION_NUMBER" | "HTTP_REQUEST"):
            return NO_HTTPS, USE_HTTP
        case ssl.SSLError():
            return NO_HANDSHAKE, CHECK_SERVER
        case TimeoutError():
            return NO_ANSWER, CHECK_SERVER
        case OSError(errno=int(number)):
            return os.strerror(number).lower(), CHECK_SERVER
        case _:
            return None


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield the chain of causes, innermost first.

    Libraries wrap the operating system's error in their own.
    """
    cause = error.__cause__ or error.__context__
    if cause is not None:
        yield from _causes(cause)
    if isinstance(error, BaseExceptionGroup):
        for member in error.exceptions:
            yield from _causes(member)
    yield error
