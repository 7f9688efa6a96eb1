"""Signing in to a server at an address by OAuth: the page in the browser, the answer that comes back to this
machine, and the tokens, in a file that only its owner can read."""

import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import parse_qs, urlsplit

from foldline.files import make_private, put_private, read_regular
from foldline.programs import find_program, trusted_environment

from .listing import Trouble

if TYPE_CHECKING:
    from mcp.client.auth import OAuthClientProvider
    from mcp.client.auth.oauth2 import OAuthContext
    from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthToken
    from pydantic import BaseModel

SIGN_IN_SECONDS = 300.0
"""How long somebody may take to sign in."""
_LONGEST = 16_000
"""Bytes of the request that brings the answer."""
_MOST_BYTES = 1_000_000
_SUFFIX = ".sign-in.json"
Show = Callable[[str], Awaitable[None]]
"""Shows the user the address of a page to sign in at."""


class SignInNeeded(Trouble):
    """The server wants the user to sign in, who has not asked to."""

    def __init__(self) -> None:
        super().__init__("wants you to sign in: `foldline mcp login NAME`, or Enter on it in /mcp")


class Kept:
    """What a sign-in left: tokens, the client as it was registered, and where new tokens come from. It
    counts for nothing at another address: no other server gets the tokens."""

    def __init__(self, path: Path, url: str) -> None:
        self._path = path
        self._url = url
        self.context: OAuthContext
        """Of the flow that uses this; set before it begins."""
        try:
            found = json.loads(read_regular(path, _MOST_BYTES))
        except (OSError, ValueError):
            found = {}
        self._values: dict[str, Any] = found if isinstance(found, dict) and found.get("url") == url else {}

    @property
    def is_there(self) -> bool:
        return bool(self._values.get("tokens"))

    @property
    def port(self) -> int:
        """The one that the registered client is answered at; 0 where there is none."""
        with suppress(KeyError, IndexError, TypeError, ValueError):
            return urlsplit(self._values["client"]["redirect_uris"][0]).port or 0
        return 0

    def forget_client(self) -> None:
        """It is registered anew: it cannot be answered where it was."""
        self._values.pop("client", None)

    async def get_tokens(self) -> "OAuthToken | None":
        from mcp.shared.auth import OAuthMetadata, OAuthToken, ProtectedResourceMetadata

        with suppress(KeyError, ValueError):  # of another release, or changed by hand: signed in anew
            tokens = OAuthToken.model_validate(self._values["tokens"])
            # Not loaded by the package, which would take what has expired for valid, and ask for new tokens
            # at a place that it guesses.
            self.context.token_expiry_time = self._values.get("until")
            if metadata := self._values.get("metadata"):
                self.context.oauth_metadata = OAuthMetadata.model_validate(metadata)
            if resource := self._values.get("resource"):
                self.context.protected_resource_metadata = ProtectedResourceMetadata.model_validate(resource)
                self.context.auth_server_url = self._values.get("issuer")
            return tokens
        return None

    async def set_tokens(self, tokens: "OAuthToken") -> None:
        context = self.context
        self._values |= {
            "tokens": _plain(tokens),
            "until": None if tokens.expires_in is None else time.time() + tokens.expires_in,
            "metadata": _plain(context.oauth_metadata),
            "resource": _plain(context.protected_resource_metadata),
            "issuer": context.auth_server_url,
        }
        self._write()

    async def get_client_info(self) -> "OAuthClientInformationFull | None":
        from mcp.shared.auth import OAuthClientInformationFull

        with suppress(KeyError, ValueError):
            return OAuthClientInformationFull.model_validate(self._values["client"])
        return None

    async def set_client_info(self, client_info: "OAuthClientInformationFull") -> None:
        self._values["client"] = _plain(client_info)
        self._write()

    def _write(self) -> None:
        make_private(self._path.parent)
        put_private(self._path, json.dumps({**self._values, "url": self._url}).encode())


def _plain(model: "BaseModel | None") -> Any:
    """As JSON has it."""
    return None if model is None else model.model_dump(mode="json", exclude_none=True)


@asynccontextmanager
async def signed_in(url: str, log: Path, show: Show | None) -> AsyncGenerator["OAuthClientProvider | None"]:
    """What signs requests to this address; None where nobody has signed in, and nobody is to be asked to:
    `show` shows the page where somebody is. The tokens lie beside the server's log."""
    kept = Kept(log.with_suffix(_SUFFIX), url)
    if show is None:
        yield _provider(url, kept, kept.port, _refuse, _refuse) if kept.is_there else None
        return
    answer: asyncio.Future[AuthorizationCodeResult] = asyncio.get_running_loop().create_future()
    listening = await _listen(kept, answer)
    port = listening.sockets[0].getsockname()[1]

    async def answered() -> "AuthorizationCodeResult":
        try:
            async with asyncio.timeout(SIGN_IN_SECONDS):
                return await answer
        except TimeoutError:
            raise Trouble(f"was not signed in to within {SIGN_IN_SECONDS:g} s") from None

    try:
        yield _provider(url, kept, port, show, answered)
    finally:
        answer.cancel()
        listening.close()


def sign_out(log: Path) -> bool:
    """Forget what a sign-in left beside a server's log; whether there was anything.

    Raises:
        OSError: the disk refused.
    """
    try:
        log.with_suffix(_SUFFIX).unlink()
    except FileNotFoundError:
        return False
    return True


def opener(environ: Mapping[str, str], platform: str = sys.platform) -> str:
    """The program that opens pages; empty without it or without a desktop: a text browser would take the
    terminal."""
    if platform == "darwin":
        return "/usr/bin/open"
    has_desktop = environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY")
    return (find_program("xdg-open") or "") if has_desktop else ""


async def open_page(url: str) -> bool:
    """Whether the page was given to a browser. Only addresses of the web are."""
    browser = opener(os.environ)
    if not browser or not url.lower().startswith(("https://", "http://")):
        return False
    nothing = asyncio.subprocess.DEVNULL
    try:
        await asyncio.create_subprocess_exec(
            *(browser, url),
            env=trusted_environment(os.environ),
            stdin=nothing, stdout=nothing, stderr=nothing, start_new_session=True,
        )  # fmt: skip
    except OSError:
        return False
    return True


async def _refuse(*_: str) -> Any:
    raise SignInNeeded


def _provider(
    url: str, kept: Kept, port: int, show: Show, answered: Callable[[], Awaitable["AuthorizationCodeResult"]]
) -> "OAuthClientProvider":
    from mcp.client.auth import OAuthClientProvider
    from mcp.shared.auth import OAuthClientMetadata
    from pydantic import AnyUrl

    about = OAuthClientMetadata(
        client_name="Foldline", redirect_uris=[AnyUrl(f"http://127.0.0.1:{port}/callback")]
    )
    provider = OAuthClientProvider(url, about, kept, show, answered)
    kept.context = provider.context
    return provider


# --- the answer -------------------------------------------------------------------------------------------

_PAGE = "HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n{words}\n"


async def _listen(kept: Kept, answer: "asyncio.Future[AuthorizationCodeResult]") -> asyncio.Server:
    """Listens on this machine only, where the client was registered if that is free."""

    async def hear(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        status, words = "404 Not Found", "Nothing is here."
        with suppress(OSError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            line = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").partition("\r\n")[0]
            target = urlsplit(line.split()[1])
            if line.startswith("GET ") and target.path == "/callback" and not answer.done():
                status, words = "200 OK", _take(parse_qs(target.query), answer)
            writer.write(_PAGE.format(status=status, words=words).encode())
            await writer.drain()
        writer.close()

    try:
        return await asyncio.start_server(hear, "127.0.0.1", kept.port, limit=_LONGEST)
    except OSError:
        kept.forget_client()
        return await asyncio.start_server(hear, "127.0.0.1", 0, limit=_LONGEST)


def _take(given: dict[str, list[str]], answer: "asyncio.Future[AuthorizationCodeResult]") -> str:
    """What the page says. The package checks that the answer is to our own question."""
    from mcp.shared.auth import AuthorizationCodeResult

    values = {name: texts[0] for name, texts in given.items()}
    if "code" not in values:
        why = values.get("error_description") or values.get("error") or "it gave no code"
        answer.set_exception(Trouble(f"was not signed in to: {' '.join(why.split())[:200]}"))
        return "You are not signed in. You can close this page."
    answer.set_result(
        AuthorizationCodeResult(**cast("Any", {k: values.get(k) for k in ("code", "state", "iss")}))
    )
    return "You are signed in. You can close this page, and go back to Foldline."
