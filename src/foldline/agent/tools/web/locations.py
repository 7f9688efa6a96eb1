"""Locations: a URL as a model gives it, taken apart."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..failure import ToolFailure
from ..text import one_line

if TYPE_CHECKING:
    from httpx2 import URL

_PORTS = {"http": 80, "https": 443}
_LONGEST = 4_000
"""Characters of a URL; what is longer carries data away rather than asks for a page."""


@dataclass(frozen=True, slots=True)
class Location:
    """Where something is to be had."""

    url: "URL"
    """Without the fragment, which no server is told."""
    host: str
    """In lower case and ASCII: a letter of another script that looks like a Latin one is told apart."""
    port: int

    @property
    def is_safe(self) -> bool:
        """Whether nobody on the way reads or changes what comes."""
        return bool(self.url.scheme == "https")

    @property
    def site(self) -> str:
        """Whom a rule names: the host, with its port where that is not the usual one."""
        named = f"[{self.host}]" if ":" in self.host else self.host
        return named if self.port in _PORTS.values() else f"{named}:{self.port}"

    def joined(self, target: str) -> "Location":
        """Where a redirect leads.

        Raises:
            ToolFailure: nowhere that can be fetched.
        """
        from httpx2 import InvalidURL

        try:
            return location_of(str(self.url.join(target)))
        except InvalidURL:
            raise ToolFailure(f"{self.url} redirects to what is no URL: {one_line(target)[:200]}.") from None


def location_of(given: str) -> Location:
    """The location a URL names.

    Raises:
        ToolFailure: it is none, or none that is fetched.
    """
    from httpx2 import URL, InvalidURL

    shown = one_line(given)[:200]
    if len(given) > _LONGEST:
        raise ToolFailure(f"The URL has more than {_LONGEST:,} characters and was not fetched.")
    try:
        url = URL(given.strip()).copy_with(fragment=None)
        host = url.raw_host.decode("ascii").rstrip(".").lower()
        port = url.port or _PORTS.get(url.scheme, 0)
    except (InvalidURL, ValueError):
        raise ToolFailure(f"{shown} is not a valid URL.", brief="no URL ✗") from None
    if url.scheme not in _PORTS or not host:
        raise ToolFailure(f"{shown} is no URL that begins with https:// or http://.", brief="no URL ✗")
    if url.userinfo:
        raise ToolFailure(
            "A URL with a user name or password in it is not fetched: it would stand in the history.",
            brief="password ✗",
        )
    return Location(url, host, port)
