"""Changing the user's own settings file: one setting, or a server; everything around it is kept."""

import re
from collections.abc import Mapping, MutableMapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from foldline.files import read_regular
from foldline.llm.providers import PROVIDERS, Provider
from foldline.protocol import FoldlineError

from .api_keys import write_private
from .layers import BY_NAME, Given, config_file, from_file
from .model_choice import changed_config
from .settings import Settings
from .settings_schema import KEYS, TABLES, checked, kind_of

TYPED = "What you typed"
"""Who gave a value, for the sentence that refuses it."""


def shown(value: object) -> str:
    """As a settings file says it; empty where none is set."""
    if value is None:
        return ""
    if isinstance(value, list):
        return ", ".join(map(str, value))
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def unset_words(key: str) -> str:
    """What stands for the value of a setting that has none: `by window`, `as for all`, `only in run`."""
    names = key.split(".")
    if names[0] in BY_NAME:  # by its last name alone: the key may have been split at dots of its table's
        return "none" if TABLES[names[0]][names[-1]].default is not None else "as for all"
    if KEYS[key].default is not None:
        return "none"
    return "only in run" if names[0] == "limits" else "by window"


def in_toml(key: str, text: str) -> bool | int | float | str:
    """What was typed, as a settings file says it.

    Raises:
        FoldlineError: it is not allowed; the sentence says what is.
    """
    text = text.strip()
    checked(Given(tuple(key.split(".")), text, TYPED))
    kind = kind_of(KEYS[key])
    if kind is bool:
        return text.lower() in ("true", "1", "yes", "on", "t", "y")
    if kind is float:
        return float(text)
    return text if kind is str or not text.isdecimal() else int(text)


def own_values(environ: Mapping[str, str]) -> dict[tuple[str, ...], object]:
    """What the user's own file sets, by key, name by name.

    Raises:
        FoldlineError: it cannot be read.
    """
    return {given.names: given.value for given in from_file(config_file(environ))}


def change(
    settings: Settings,
    cwd: Path | str,
    environ: Mapping[str, str],
    key: str,
    value: bool | int | float | str | None,
) -> Settings:
    """Sets one of the user's own settings; None takes it out again. The settings in force then.

    Raises:
        FoldlineError: the file cannot be read or written, or would not be valid; it is as it was.
    """
    path = config_file(environ)
    from_file(path)  # Says what is wrong with it, if anything is.
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


def _write(environ: Mapping[str, str], key: str, value: bool | int | float | str | None) -> None:
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
