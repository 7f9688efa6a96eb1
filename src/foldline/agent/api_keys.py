"""Keys of model providers: where each is found, which variables hold one, and how they are masked."""

import json
import os
import shlex
import stat
import subprocess
import threading
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from foldline.data import config_dir, real_path
from foldline.files import make_private, opened, put_private, read_regular
from foldline.llm.providers import OPENAI, PROVIDERS, SHORTEST_KEY, Provider, is_same_server
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
    if provider.key_command:
        origin = _command_of(provider)
        return Key(usable(printed_key(provider.key_command, origin), origin), origin, origin)
    path, entry = keys_file(environ), _entry_of(provider)
    if value := stored_keys(path).get(entry, ""):
        return Key(usable(value, str(path)), str(path), f"{entry} in {path}")
    if OPENAI.key_env in {*provider.key_envs} - {*variables}:
        return Key(name=f"{entry} in {path} ({OPENAI.key_env} is for the server of OPENAI_BASE_URL)")
    return Key()


def key_origin(provider: Provider, environ: Mapping[str, str]) -> str:
    """Where its key comes from, for people; no program is run to say so. Raises as `key_of`."""
    is_set = any(environ.get(name, "").strip() for name in _variables(provider, environ))
    return _command_of(provider) if provider.key_command and not is_set else key_of(provider, environ).origin


def _command_of(provider: Provider) -> str:
    return f"providers.{provider.name}.key_command"


_COMMAND_SECONDS = 60
"""Seconds a program may take to print a key: somebody may have to type a passphrase for it."""
_printed: dict[str, str] = {}
"""Keys by the command that printed them in this process."""
_printing = threading.Lock()


def printed_key(command: str, origin: str) -> str:
    """The first line that a program prints. It is run once a process, without a shell or a terminal: one that
    asks for a passphrase there would write into the screen.

    Raises:
        FoldlineError: it failed, took too long, or printed nothing. The sentence repeats nothing of it.
    """
    with _printing:
        if command in _printed:
            return _printed[command]
        try:
            ended = subprocess.run(
                shlex.split(command), stdin=subprocess.DEVNULL, capture_output=True, timeout=_COMMAND_SECONDS,
                start_new_session=True,
            )  # fmt: skip
            what = f"it ended with exit code {ended.returncode}" if ended.returncode else ""
            key = ended.stdout.decode("utf-8", "replace").partition("\n")[0].strip()
            what = what or ("" if key else "it printed nothing")
        except (OSError, ValueError) as error:
            what = f"it cannot be run ({system_words(error) if isinstance(error, OSError) else error})"
        except subprocess.TimeoutExpired:
            what = f"it took longer than {_COMMAND_SECONDS} seconds"
        if what:
            raise FoldlineError(f"{origin} gives no key: {what}. Run it yourself to see why.")
        _printed[command] = key
        return key


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
    """Keeps a key in the user's file of keys, where it takes the place of the one before; an empty
    one removes it. The file.

    Raises:
        FoldlineError: it is no key, or the file cannot be read or written.
    """
    import tomlkit

    path = keys_file(environ)
    key = usable(key.strip(), "What was entered")
    stored = stored_keys(path)  # Refused where others could have read it: their keys should be made anew.
    document = tomlkit.parse(read_regular(path).decode()) if stored else tomlkit.document()
    table = document.setdefault("keys", tomlkit.table())
    if key:
        table[_entry_of(provider)] = key
    else:
        table.pop(_entry_of(provider), None)
    write_private(path, tomlkit.dumps(document))
    return path


def write_private(path: Path, text: str) -> None:
    """Puts a text in place of a file, whole or not at all; only its owner may read it.

    Raises:
        FoldlineError: it cannot be written.
    """
    try:
        # A link stays one: many keep their settings in a repository of their own.
        path = Path(real_path(path))
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
    """The variables its key may be in. OPENAI_API_KEY is for the server of OPENAI_BASE_URL, if set."""
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


HIDDEN = "[key]"
_WORD = 20
"""Characters up to which a key without a digit is a word (`lm-studio`, `not-needed`), and not hidden."""


class Mask:
    """Takes every key it knows out of a text, also as JSON writes it."""

    def __init__(self, keys: Iterable[str] = ()) -> None:
        known = {spelling for key in keys if _is_secret(key) for spelling in (key, json.dumps(key)[1:-1])}
        self._keys = sorted(known, key=len, reverse=True)

    def __call__(self, text: str) -> str:
        for key in self._keys:
            text = text.replace(key, HIDDEN)
        return text

    def stream(self) -> "MaskedStream":
        """The same for what comes in pieces, between which a key may be cut."""
        return MaskedStream([key.encode() for key in self._keys])


class MaskedStream:
    """Gives back what it is fed, without keys; what may be the start of one waits for the rest."""

    def __init__(self, keys: list[bytes]) -> None:
        self._keys = keys
        self._longest = max(map(len, keys), default=1) - 1
        self._held = b""

    def feed(self, chunk: bytes) -> bytes:
        """As much as is certain by now."""
        data = self._held + chunk
        for key in self._keys:
            data = data.replace(key, HIDDEN.encode())
        ends = (data[-size:] for size in range(min(self._longest, len(data)), 0, -1))
        self._held = next((end for end in ends if any(key.startswith(end) for key in self._keys)), b"")
        return data[: len(data) - len(self._held)]

    def rest(self) -> bytes:
        """What waited, once nothing follows."""
        held, self._held = self._held, b""
        return held


def mask_of(environ: Mapping[str, str]) -> Mask:
    """The mask for the keys of this environment and of the user's file, read again where it has changed."""
    variables = (
        *sorted(environ.get(name, "").strip() for name in secret_variables()),
        *_printed.values(),
    )
    path = keys_file(environ)
    try:
        status = path.stat()
    except (OSError, ValueError):
        return _mask(variables, path, ())
    version = (status.st_ino, status.st_mtime_ns, status.st_size, status.st_mode)
    return _mask(variables, path, version)


@lru_cache(maxsize=4)
def _mask(variables: tuple[str, ...], path: Path, version: tuple[int, ...]) -> Mask:
    keys = set(variables)
    if version:
        with suppress(FoldlineError):  # A file of keys that is refused holds none that we use.
            keys |= set(stored_keys(path).values())
    return Mask(keys)


def _is_secret(key: str) -> bool:
    return len(key) >= SHORTEST_KEY and (len(key) > _WORD or any(map(str.isdigit, key)))
