"""What goes wrong with a server, in words that follow its name."""

from foldline.protocol import FoldlineError


class Trouble(FoldlineError):
    """What went wrong with a server, as words that follow its name."""


class Gone(Trouble):
    """The connection has ended."""


class Unreached(Gone):
    """So much so that the call never came to the server: it can be made again."""


def refused(status: int) -> str:
    """What an HTTP status says."""
    from http import HTTPStatus

    words = HTTPStatus(status).phrase if status in set(HTTPStatus) else "an error"
    advice = ": check its headers in the settings" if status in (401, 403) else ""
    return f"answered {status} {words}{advice}"


def shortened(text: str) -> str:
    """A message of somebody else's on one line of bounded length, to be put into a sentence."""
    return " ".join(text.split())[:300].removesuffix(".")
