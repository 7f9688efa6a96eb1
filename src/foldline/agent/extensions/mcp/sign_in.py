"""Signs in to a server with OAuth.

Opens the sign-in page in the browser, receives the redirect on this machine, and stores the tokens in a file
that only its owner can read.
"""

import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import parse_qs, urlsplit

from foldline.data import Environ
from foldline.files import make_private, put_private, read_regular
from foldline.json_text import JsonObject
from foldline.programs import find_program, trusted_environment

from .listing import Trouble

if TYPE_CHECKING:
    from mcp.client.auth import OAuthClientProvider
    from mcp.client.auth.oauth2 import OAuthContext
    from mcp.shared.auth import (
        AuthorizationCodeResult,
        OAuthClientInformationFull,
        OAuthToken,
    )
    from pydantic import BaseModel

NEEDS_SIGN_IN = "requires you to sign in: run `foldline mcp login NAME`, or press Enter on the server in /mcp"
TOO_LATE = "did not get a sign-in within {seconds:g} s"
NOT_SIGNED_IN = "did not accept the sign-in: {reason}"
SIGNED_IN_PAGE = "You are signed in. You can close this page and return to Foldline."
NOT_SIGNED_IN_PAGE = "You are not signed in. You can close this page."
NO_PAGE = "Page not found."
SIGN_IN_SECONDS = 300.0
"""Time limit for the user to sign in, in seconds. After that, the sign-in fails."""
_LONGEST = 16_000
"""Maximum size of the browser's redirected request, in bytes. A larger request is ignored."""
_MOST_BYTES = 1_000_000
"""Maximum size of the stored sign-in, in bytes."""
_SUFFIX = ".sign-in.json"
Show = Callable[[str], Awaitable[None]]
"""Shows the user the URL of the sign-in page."""


class SignInNeeded(Trouble):
    """Raised if the server requires a sign-in that the user has not started."""

    def __init__(self) -> None:
        super().__init__(NEEDS_SIGN_IN)


class StoredSignIn:
    """The stored tokens, client registration and token endpoint of a sign-in.

    They are ignored if the server's URL has changed, so that no other server gets the tokens.
    """

    def __init__(self, path: Path, url: str) -> None:
        self._path = path
        self._url = url
        self.context: OAuthContext
        """Context of the OAuth flow. Set before the flow begins."""
        self._values: JsonObject = {}
        with suppress(OSError, ValueError):
            values = json.loads(read_regular(path, _MOST_BYTES))
            if isinstance(values, dict) and values.get("url") == url:
                self._values = values

    @property
    def has_tokens(self) -> bool:
        return bool(self._values.get("tokens"))

    def forget_client(self) -> None:
        """Discard the client registration, which contains the port of an earlier sign-in."""
        self._values.pop("client", None)

    async def get_tokens(self) -> "OAuthToken | None":
        from mcp.shared.auth import OAuthMetadata, OAuthToken, ProtectedResourceMetadata

        # If the stored values do not fit, for example after an update, the user has to sign in again.
        with suppress(KeyError, ValueError):
            tokens = OAuthToken.model_validate(self._values["tokens"])
            # Without these values, the package would use expired tokens and guess the endpoint.
            self.context.token_expiry_time = self._values.get("until")
            if metadata := self._values.get("metadata"):
                self.context.oauth_metadata = OAuthMetadata.model_validate(metadata)
            if resource := self._values.get("resource"):
                self.context.protected_resource_metadata = (
                    ProtectedResourceMetadata.model_validate(resource)
                )
                self.context.auth_server_url = self._values.get("issuer")
            return tokens
        return None

    async def set_tokens(self, tokens: "OAuthToken") -> None:
        context = self.context
        self._values |= {
            "tokens": _plain(tokens),
            "until": None
            if tokens.expires_in is None
            else time.time() + tokens.expires_in,
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
    """Convert a model to JSON values."""
    return None if model is None else model.model_dump(mode="json", exclude_none=True)


@asynccontextmanager
async def signed_in(
    url: str, log: Path, show: Show | None
) -> AsyncGenerator["OAuthClientProvider | None"]:
    """Provide the authentication for requests to a server.

    The tokens are stored next to the server's log.

    Args:
        show: function that shows the sign-in page. If None, the stored sign-in is used; if there is none,
            None is yielded.
    """
    stored = StoredSignIn(log.with_suffix(_SUFFIX), url)
    if show is None:
        yield (
            _provider(url, stored, 0, _refuse, _refuse) if stored.has_tokens else None
        )
        return
    answer: asyncio.Future[AuthorizationCodeResult] = (
        asyncio.get_running_loop().create_future()
    )
    stored.forget_client()
    listening = await _listen(answer)
    port = listening.sockets[0].getsockname()[1]

    async def wait_for_answer() -> "AuthorizationCodeResult":
        try:
            async with asyncio.timeout(SIGN_IN_SECONDS):
                return await answer
        except TimeoutError:
            raise Trouble(TOO_LATE, seconds=SIGN_IN_SECONDS) from None

    try:
        yield _provider(url, stored, port, show, wait_for_answer)
    finally:
        answer.cancel()
        listening.close()


def sign_out(log: Path) -> bool:
    """Delete a server's stored sign-in, and return whether there was one.

    Raises:
        OSError: the file could not be deleted.
    """
    try:
        log.with_suffix(_SUFFIX).unlink()
    except FileNotFoundError:
        return False
    return True


def opener(environ: Environ, platform: str = sys.platform) -> str:
    """Return the program that opens pages and files on the desktop.

    Returns an empty string if there is no desktop. Text browsers are not used, because they would take over
    the terminal.
    """
    if platform == "darwin":
        return "/usr/bin/open"
    if environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY"):
        return find_program("xdg-open") or ""
    return ""


async def open_page(url: str) -> bool:
    """Open an HTTP URL in the browser, and return whether a browser was started."""
    if not url.lower().startswith(("https://", "http://")):
        return False
    return await open_on_desktop(url)


async def open_on_desktop(target: str) -> bool:
    """Open a page or file with the desktop's program for it, and return whether that was started."""
    program = opener(os.environ)
    if not program:
        return False
    nothing = asyncio.subprocess.DEVNULL
    try:
        await asyncio.create_subprocess_exec(
            *(program, target),
            env=trusted_environment(os.environ),
            stdin=nothing, stdout=nothing, stderr=nothing, start_new_session=True,
        )  # fmt: skip
    except OSError:
        return False
    return True


async def _refuse(*_: str) -> Any:
    raise SignInNeeded


def _provider(
    url: str,
    stored: StoredSignIn,
    port: int,
    show: Show,
    wait_for_answer: Callable[[], Awaitable["AuthorizationCodeResult"]],
) -> "OAuthClientProvider":
    from mcp.client.auth import OAuthClientProvider
    from mcp.shared.auth import OAuthClientMetadata
    from pydantic import AnyUrl

    redirect = AnyUrl(f"http://127.0.0.1:{port}/callback")
    metadata = OAuthClientMetadata(client_name="Foldline", redirect_uris=[redirect])
    provider = OAuthClientProvider(url, metadata, stored, show, wait_for_answer)
    stored.context = provider.context
    return provider


# --- the redirect ---------------------------------------------------------------------------------------

_PAGE = "HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n{words}\n"


async def _listen(
    answer: "asyncio.Future[AuthorizationCodeResult]",
) -> asyncio.Server:
    """Listen on localhost for the redirect, at any free port."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        status = "404 Not Found"
        words = NO_PAGE
        with suppress(
            OSError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError
        ):
            request = await reader.readuntil(b"\r\n\r\n")
            line = request.decode("latin-1").partition("\r\n")[0]
            target = urlsplit(line.split()[1])
            if (
                line.startswith("GET ")
                and target.path == "/callback"
                and not answer.done()
            ):
                status = "200 OK"
                words = _take(parse_qs(target.query), answer)
            writer.write(_PAGE.format(status=status, words=words).encode())
            await writer.drain()
        writer.close()

    return await asyncio.start_server(serve, "127.0.0.1", 0, limit=_LONGEST)


def _take(
    query: dict[str, list[str]], answer: "asyncio.Future[AuthorizationCodeResult]"
) -> str:
    """Set `answer` from the redirect's query, and return the text to show in the browser.

    The `mcp` package checks whether it belongs to the current sign-in.
    """
    from mcp.shared.auth import AuthorizationCodeResult

    values = {name: texts[0] for name, texts in query.items()}
    if "code" not in values:
        reason = values.get("error_description") or values.get("error") or "no code"
        reason = " ".join(reason.split())[:200]
        answer.set_exception(Trouble(NOT_SIGNED_IN, reason=reason))
        return NOT_SIGNED_IN_PAGE
    fields = {name: values.get(name) for name in ("code", "state", "iss")}
    answer.set_result(AuthorizationCodeResult(**cast("Any", fields)))
    return SIGNED_IN_PAGE
