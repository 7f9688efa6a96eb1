"""Keys: where each provider's is found, and which variables must never reach anybody else.

A key goes to the provider it belongs to and to nobody else. It comes from the environment, else from
`keys.toml` in the config folder, which nobody but its owner may read.
"""

import os
import stat
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from foldline.data import config_dir, real_path
from foldline.files import make_private, opened, put_private, read_regular
from foldline.llm.providers import OPENAI, PROVIDERS, Provider, is_same_server
from foldline.process import wipe_environment
from foldline.protocol import FoldlineError, system_words

KEYS_FILE = "keys.toml"


@dataclass(frozen=True, slots=True)
class Key:
    """A key, and where it came from."""

    value: str = field(default="", repr=False)
    origin: str = ""
    """The variable or the file, for people; empty where there is no key."""
    name: str = ""
    """What to set for another one, for sentences."""


def keys_file(environ: Mapping[str, str]) -> Path:
    return config_dir(environ) / KEYS_FILE


def key_of(provider: Provider, environ: Mapping[str, str]) -> Key:
    """The provider's key; an empty one where it has none.

    Raises:
        FoldlineError: others can read the file of keys, it is no such file, or what it holds is no key.
    """
    variables = _variables(provider, environ)
    for name in variables:
        if value := environ.get(name, "").strip():
            return Key(usable(value, name), name, name)
    path, entry = keys_file(environ), _entry_of(provider)
    if value := stored_keys(path).get(entry, ""):
        return Key(usable(value, str(path)), str(path), f"{entry} in {path}")
    if OPENAI.key_env in {*provider.key_envs} - {*variables}:
        return Key(name=f"{entry} in {path} ({OPENAI.key_env} is for the server of OPENAI_BASE_URL)")
    return Key()


def usable(key: str, origin: str) -> str:
    """The key, if a header of HTTP can hold it.

    Raises:
        FoldlineError: it cannot. The sentence does not repeat it.
    """
    if not key.isascii() or not key.isprintable() or " " in key:
        raise FoldlineError(
            f"{origin} holds blanks or other characters no key has: copy it again, without quotes."
        )
    return key


def save_key(environ: Mapping[str, str], provider: Provider, key: str) -> Path:
    """Keeps a key in the user's file of keys, where it takes the place of the one before; the file.

    Raises:
        FoldlineError: it is no key, or the file cannot be read or written.
    """
    import tomlkit

    path = keys_file(environ)
    key = usable(key.strip(), "What was entered")
    stored = stored_keys(path)  # Refused where others could have read it: their keys should be made anew.
    document = tomlkit.parse(read_regular(path).decode()) if stored else tomlkit.document()
    table = document.setdefault("keys", tomlkit.table())
    table[_entry_of(provider)] = key
    write_private(path, tomlkit.dumps(document))
    return path


def write_private(path: Path, text: str) -> None:
    """Puts a text in place of a file, whole or not at all; only its owner may read it.

    Raises:
        FoldlineError: it cannot be written.
    """
    try:
        path = Path(
            real_path(path)
        )  # A link stays one: many keep their settings in a repository of their own.
        make_private(path.parent)
        put_private(path, text.encode(), durable=True)
    except OSError as error:
        raise FoldlineError(f"{path} cannot be written: {system_words(error)}.") from None


_secret = {name for provider in PROVIDERS.values() for name in provider.key_envs}


def keep_secret(own: Iterable[Provider]) -> None:
    """The keys of the user's own providers are secret, too: from now on, as long as the program runs."""
    added = {name for provider in own for name in provider.key_envs} - _secret
    if added:
        _secret.update(added)
        wipe_environment(added.__contains__)


def secret_variables() -> frozenset[str]:
    """Every variable a key may be in: what is run for the model runs without them."""
    return frozenset(_secret)


def _entry_of(provider: Provider) -> str:
    """Its name in the file of keys. Both APIs of OpenAI take the same key."""
    same = provider.host == OPENAI.host and provider.key_env == OPENAI.key_env
    return OPENAI.name if same else provider.name


def _variables(provider: Provider, environ: Mapping[str, str]) -> Sequence[str]:
    """The variables its key may be in. OPENAI_API_KEY belongs to the server of OPENAI_BASE_URL, where that is
    set, whatever else is known of that server, and to no other."""
    url = environ.get("OPENAI_BASE_URL", "").strip()
    if not url:
        return provider.key_envs
    own = [name for name in provider.key_envs if name != OPENAI.key_env]
    return [*own, OPENAI.key_env] if is_same_server(url, provider.base_url) else own


def stored_keys(path: Path) -> Mapping[str, str]:
    """The keys in this file of the user's, by provider; none where there is no such file.

    Raises:
        FoldlineError: others can read it, or it is no such file.
    """
    try:
        with opened(path) as file:
            mode = os.fstat(file.fileno()).st_mode
            if os.name == "posix" and mode & (stat.S_IRWXG | stat.S_IRWXO):
                raise FoldlineError(
                    f"{path} holds keys, and others on this machine can read it: "
                    f"chmod 600 {path}, and have new keys made if anybody may have."
                )
            table = tomllib.load(file).get("keys", {})
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise FoldlineError(f"{path} cannot be read: {system_words(error)}.") from None
    except ValueError:
        # What it says is not repeated: it could be a key.
        raise FoldlineError(
            f'{path} is not valid TOML: it needs [keys] with lines like openai = "…".'
        ) from None
    if not isinstance(table, dict) or not all(isinstance(value, str) for value in table.values()):
        raise FoldlineError(f'{path}: [keys] has lines like openai = "…", and nothing else.')
    return {name.lower(): value.strip() for name, value in table.items()}
