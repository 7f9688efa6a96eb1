"""A server of the user's own: from the address somebody typed to `[providers.NAME]` in the settings."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from foldline.llm.providers import PROVIDERS, Provider
from foldline.protocol import FoldlineError

from .choosing_model import changed_config
from .layers import config_file

_NAME: Final = re.compile(r"[^a-z0-9]+")
_HOST: Final = re.compile(r"[\w.:%-]+")
"""What the name or the address of a host is made of; letters of any script (IDNA)."""


def server_at(address: str, known: Mapping[str, Provider]) -> Provider:
    """The provider at an address; one of those `known`, by name, where it is theirs.

    A scheme may be left out, and the path, which is then `/v1`: most servers have their API there.

    Raises:
        FoldlineError: it is no address.
    """
    from foldline.llm.catalog import checked_url
    from foldline.llm.dialect import dialect_for

    url = _whole(address.strip())
    checked_url(url, "What was entered")
    parts = urlsplit(url)
    if not _HOST.fullmatch(parts.hostname or ""):
        raise FoldlineError(f"{parts.netloc!r} is no name of a server: type something like localhost:8000.")
    if parts.username or parts.password or parts.query:
        raise FoldlineError("Leave out user, password and what follows a ?: a key is asked for next.")
    same = (provider for provider in known.values() if provider.base_url.rstrip("/") == url)
    found = next(same, None)
    if found is not None:
        return found
    name = _free_name(_NAME.sub("-", parts.netloc.lower()).strip("-"), known)
    return Provider(name=name, title=parts.netloc, base_url=url, dialect=dialect_for(url).name)


def save_server(environ: Mapping[str, str], provider: Provider) -> Path:
    """Keeps the address of a server in the user's own settings, whose comments and order stay; the file.

    Raises:
        FoldlineError: the file cannot be read or written.
    """
    import tomlkit

    with changed_config(environ) as document:
        providers = document.setdefault("providers", tomlkit.table(is_super_table=True))
        table = providers.setdefault(provider.name, tomlkit.table())
        table["base_url"] = provider.base_url
    return config_file(environ)


def _whole(address: str) -> str:
    if "://" not in address:
        host = address.partition("/")[0].rpartition(":")[0] or address.partition("/")[0]
        near = host in ("localhost", "127.0.0.1", "[::1]") or ("." not in host and ":" in address)
        address = f"{'http' if near else 'https'}://{address}"
    address = address.rstrip("/")
    scheme, _, rest = address.partition("://")
    return address if "/" in rest or not rest else f"{scheme}://{rest}/v1"


def _free_name(name: str, known: Mapping[str, Provider]) -> str:
    taken = {*known, *PROVIDERS}
    names = (name, *(f"{name}-{number}" for number in range(2, len(taken) + 3)))
    return next(each for each in names if each not in taken)
