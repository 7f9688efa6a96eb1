"""Changes a setting or adds a server in the user's settings file.

The rest of the file stays unchanged.
"""

import re
from collections.abc import Mapping, MutableMapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from foldline.files import read_regular
from foldline.llm.providers import PROVIDERS, Provider
from foldline.protocol import FoldlineError

from .api_keys import write_private
from .layers import BY_NAME, RawSetting, config_file, from_file
from .model_choice import changed_config
from .schema import KEYS, TABLES, checked, kind_of
from .settings import Settings

TYPED = "Your input"
"""Origin of a value that the user typed, for error messages."""
BAD_HOST = "{host!r} is not a valid server name. Enter something like localhost:8000."
ONLY_ADDRESS = "Enter the address without a user name, password or query. You can enter a key next."


def shown(value: object) -> str:
    """Format a value for display.

    Returns an empty string if the value is not set.
    """
    if value is None:
        return ""
    if isinstance(value, list):
        return ", ".join(map(str, value))
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def unset_words(key: str) -> str:
    """Return the words shown for an unset setting, for example `by window` or `only in run`."""
    names = key.split(".")
    if names[0] in BY_NAME:  # the part in between, a table's name, may contain dots
        return (
            "none" if TABLES[names[0]][names[-1]].default is not None else "as for all"
        )
    if KEYS[key].default is not None:
        return "none"
    return "only in run" if names[0] == "limits" else "by window"


def in_toml(key: str, text: str) -> bool | int | float | str:
    """Parse a value that the user typed.

    Raises:
        FoldlineError: the value is not allowed. The message lists the allowed values.
    """
    text = text.strip()
    checked(RawSetting(tuple(key.split(".")), text, TYPED))
    kind = kind_of(KEYS[key])
    if kind is bool:
        return text.lower() in ("true", "1", "yes", "on", "t", "y")
    if kind is float:
        return float(text)
    return text if kind is str or not text.isdecimal() else int(text)


def own_values(environ: Mapping[str, str]) -> dict[tuple[str, ...], object]:
    """Return the values in the user's own file.

    Each key is a tuple with the parts of a dotted key.

    Raises:
        FoldlineError: the file cannot be read.
    """
    return {given.names: given.value for given in from_file(config_file(environ))}


def change(
    settings: Settings,
    cwd: Path | str,
    environ: Mapping[str, str],
    key: str,
    value: bool | int | float | str | None,
) -> Settings:
    """Change a setting in the user's file, and return the new settings.

    Args:
        value: None removes the setting.

    Raises:
        FoldlineError: the file cannot be read or written, or would become invalid. The file is unchanged.
    """
    path = config_file(environ)
    from_file(path)  # raises if the file is invalid
    before = read_regular(path).decode() if path.exists() else None
    _write(environ, key, value)
    try:
        return settings.again(cwd, environ)
    except FoldlineError:
        if before is None:
            path.unlink(missing_ok=True)
        else:
            write_private(path, before)
        raise


def _write(
    environ: Mapping[str, str], key: str, value: bool | int | float | str | None
) -> None:
    import tomlkit

    section, _, name = key.rpartition(".")
    with changed_config(environ) as document:
        table: MutableMapping[str, Any] = document
        if section:
            table = (
                document.setdefault(section, tomlkit.table())
                if value is not None
                else document.get(section, {})
            )
        if value is None:
            table.pop(name, None)
        else:
            table[name] = value


_NAME = re.compile(r"[^a-z0-9]+")
_HOST = re.compile(r"[\w.:%-]+")
"""Matches a host name or address. Letters of any script are allowed (IDNA)."""


def server_at(address: str, known: Mapping[str, Provider]) -> Provider:
    """Return the provider at an address.

    The address may lack a scheme and a path, which is usually `/v1`.

    Args:
        known: existing providers by name. If one has this address, it is returned.

    Raises:
        FoldlineError: the address is not valid.
    """
    from foldline.llm.dialect import dialect_for
    from foldline.llm.providers import checked_url

    url = _complete_url(address.strip())
    checked_url(url, TYPED)
    parts = urlsplit(url)
    if not _HOST.fullmatch(parts.hostname or ""):
        raise FoldlineError(BAD_HOST, host=parts.netloc)
    if parts.username or parts.password or parts.query:
        raise FoldlineError(ONLY_ADDRESS)
    same = (
        provider for provider in known.values() if provider.base_url.rstrip("/") == url
    )
    existing = next(same, None)
    if existing is not None:
        return existing
    name = _free_name(_NAME.sub("-", parts.netloc.lower()).strip("-"), known)
    return Provider(
        name=name, title=parts.netloc, base_url=url, dialect=dialect_for(url).name
    )


def save_server(environ: Mapping[str, str], provider: Provider) -> Path:
    """Add a server to the user's settings file, and return the path of the file.

    Raises:
        FoldlineError: the file cannot be read or written.
    """
    import tomlkit

    with changed_config(environ) as document:
        providers = document.setdefault("providers", tomlkit.table(is_super_table=True))
        table = providers.setdefault(provider.name, tomlkit.table())
        table["base_url"] = provider.base_url
    return config_file(environ)


def _complete_url(address: str) -> str:
    """Add a scheme or the path `/v1` to an address that lacks it.

    The scheme is `http` for local hosts.
    """
    if "://" not in address:
        netloc = address.partition("/")[0]
        host = netloc.rpartition(":")[0] or netloc
        is_local = host in ("localhost", "127.0.0.1", "[::1]") or (
            "." not in host and ":" in address
        )
        scheme = "http" if is_local else "https"
        address = f"{scheme}://{address}"
    address = address.rstrip("/")
    location = address.partition("://")[2]
    return f"{address}/v1" if location and "/" not in location else address


def _free_name(name: str, known: Mapping[str, Provider]) -> str:
    numbered = name
    number = 1
    while numbered in known or numbered in PROVIDERS:
        number += 1
        numbered = f"{name}-{number}"
    return numbered
