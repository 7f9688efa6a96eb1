"""From the environment to a model client: OPENAI_API_KEY and OPENAI_BASE_URL are enough for any server."""

from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

from foldline.protocol import FoldlineError

from .embeddings import OpenAIEmbedder, known_embedding_model
from .models import DEFAULT_WINDOW, model_info
from .openai_client import OPENAI_URL, OpenAIChat
from .sdk import is_local

__all__ = [
    "DEFAULT_WINDOW",
    "OPENAI_MODEL",
    "ask_window",
    "connect",
    "connect_embeddings",
    "is_configured",
    "model_info",
]

OPENAI_MODEL = "gpt-5-mini"
"""Asked at api.openai.com where no model is named: its list begins with models that do not chat."""


def is_configured(environ: Mapping[str, str]) -> bool:
    """Whether the environment names a server or a key for one."""
    return bool(_value(environ, "OPENAI_BASE_URL") or _value(environ, "OPENAI_API_KEY"))


def connect(
    model: str | None, environ: Mapping[str, str], window: int | Callable[[str], int | None] | None = None
) -> OpenAIChat:
    """The client the environment describes. Nothing is sent before the first request.

    The model is `model`, else FOLDLINE_MODEL, else OPENAI_MODEL, else the first the server lists. `window`,
    in tokens or by the name of the model, overrides what is known of it.

    Raises:
        FoldlineError: no server is named, its URL cannot be used, or it needs a key and there is none.
    """
    key = _value(environ, "OPENAI_API_KEY")
    url = _value(environ, "OPENAI_BASE_URL")
    if not key and not url:
        raise FoldlineError(
            "No model server is set up: set OPENAI_API_KEY, or OPENAI_BASE_URL for a server of your own, "
            "or use -m offline."
        )
    url = url or OPENAI_URL
    host = _host(url)
    if not key and not is_local(url):
        raise FoldlineError(f"{host} needs a key: set OPENAI_API_KEY.")
    if not key.isascii() or not key.isprintable() or " " in key:
        raise FoldlineError(
            "OPENAI_API_KEY holds blanks or other characters no key has: copy it again, without quotes."
        )
    named = model or _value(environ, "FOLDLINE_MODEL") or _value(environ, "OPENAI_MODEL")
    if not named and host == "api.openai.com":
        named = OPENAI_MODEL
    return OpenAIChat(model=named or None, base_url=url, api_key=key, window=window)


def connect_embeddings(model: str, environ: Mapping[str, str]) -> OpenAIEmbedder | None:
    """Embeddings of the server the environment names, by `model` or the one known for that server; None where
    neither is."""
    if not is_configured(environ):
        return None
    url = _value(environ, "OPENAI_BASE_URL") or OPENAI_URL
    named = model.strip() or known_embedding_model(url)
    if not named:
        return None
    return OpenAIEmbedder(model=named, base_url=url, api_key=_value(environ, "OPENAI_API_KEY"))


async def ask_window(client: OpenAIChat) -> int:
    """The model's window in tokens, asked of the server where nothing nearer says it.

    Raises:
        LLMError: no model was named, and the server does not list any.
    """
    return (await client.prepare()).window


def _value(environ: Mapping[str, str], name: str) -> str:
    return environ.get(name, "").strip()


def _host(url: str) -> str:
    try:
        parts = urlsplit(url)
        # `port` raises where it is no number.
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        usable = False
    if not usable:
        raise FoldlineError(
            "OPENAI_BASE_URL is not an http or https address: it should look like http://localhost:8000/v1."
        )
    return parts.hostname or ""
