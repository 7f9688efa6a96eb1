"""Why a server could not be reached, in words: what systems and libraries say of it is for programmers."""

import os
import socket
import ssl
from collections.abc import Iterator

from .failures import Endpoint, Failure


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
    """Why, and what to do; None where this one does not tell."""
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
    """What was raised first comes first: the library's own words for it hide what the system said."""
    behind = error.__cause__ or error.__context__
    if behind is not None:
        yield from _behind(behind)
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from _behind(each)
    yield error
