"""API keys of model providers: finding, storing and masking them."""

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
from foldline.llm.providers import (
    OPENAI,
    PROVIDERS,
    SHORTEST_KEY,
    Provider,
    is_same_server,
)
from foldline.process import wipe_environment
from foldline.protocol import FoldlineError, system_words

KEYS_FILE = "keys.toml"

BAD_KEY = "{origin} contains spaces or other characters that no key has. Copy the key again, without quotes."
TYPED_KEY = "The key you entered"
"""Origin of a key that the user typed, for error messages."""
OF_BASE_URL = f"{OPENAI.key_env} is for the server at OPENAI_BASE_URL"
NO_KEY_PRINTED = (
    "{origin} printed no key: {problem}. Run the command yourself to see why."
)
NOT_RUN = "it could not be run ({reason})"
TIMED_OUT = "it timed out after {seconds} seconds"
EXITED = "it exited with code {code}"
NO_OUTPUT = "its output is empty"
READABLE = (
    "{path} contains keys, and other users of this machine can read it. Run `chmod 600 {path}`, and replace "
    "the keys if someone may have read them."
)
NOT_TOML = (
    '{path} is not valid TOML. It must contain [keys], with lines such as openai = "…".'
)
NOT_KEYS = '{path}: [keys] may only contain lines such as openai = "…".'


@dataclass(frozen=True, slots=True)
class Key:
    """An API key and its origin."""

    value: str = field(default="", repr=False)
    origin: str = ""
    """Variable, command or file that the key comes from, for display.

    Empty if there is no key.
    """
    name: str = ""
    """Name of the variable, setting or entry to change in order to use another key. Used in messages."""


# --- finding keys -----------------------------------------------------------------------------------------


def key_of(provider: Provider, environ: Mapping[str, str]) -> Key:
    """Return the provider's key, or an empty key if there is none.

    Raises:
        FoldlineError: the key file is invalid or readable by other users, or a key is invalid.
    """
    variables = _variables(provider, environ)
    for name in variables:
        if value := environ.get(name, "").strip():
            return Key(checked_key(value, name), name, name)
    if provider.key_command:
        origin = _command_setting(provider)
        value = printed_key(provider.key_command, origin)
        return Key(checked_key(value, origin), origin, origin)
    path = keys_file(environ)
    entry = _entry_name(provider)
    if value := stored_keys(path).get(entry, ""):
        return Key(checked_key(value, str(path)), str(path), f"{entry} in {path}")
    if OPENAI.key_env in provider.key_envs and OPENAI.key_env not in variables:
        return Key(name=f"{entry} in {path} ({OF_BASE_URL})")
    return Key()


def key_origin(provider: Provider, environ: Mapping[str, str]) -> str:
    """Return where the provider's key comes from, without running a key command.

    Raises:
        FoldlineError: in the same cases as `key_of`.
    """
    is_set = any(
        environ.get(name, "").strip() for name in _variables(provider, environ)
    )
    if provider.key_command and not is_set:
        return _command_setting(provider)
    return key_of(provider, environ).origin


def _command_setting(provider: Provider) -> str:
    return f"providers.{provider.name}.key_command"


def _variables(provider: Provider, environ: Mapping[str, str]) -> Sequence[str]:
    """Return the variables that may hold the provider's key.

    If OPENAI_BASE_URL is set, OPENAI_API_KEY belongs to that server.
    """
    url = environ.get("OPENAI_BASE_URL", "").strip()
    if not url:
        return provider.key_envs
    names = [name for name in provider.key_envs if name != OPENAI.key_env]
    if is_same_server(url, provider.base_url):
        names.append(OPENAI.key_env)
    return names


def checked_key(key: str, origin: str) -> str:
    """Return the key if it is valid in an HTTP header.

    Raises:
        FoldlineError: the key is invalid. The message does not contain the key.
    """
    if not key.isascii() or not key.isprintable() or " " in key:
        raise FoldlineError(BAD_KEY, origin=origin)
    return key


# --- commands ---------------------------------------------------------------------------------------------

_COMMAND_SECONDS = 60
"""Timeout for a key command, in seconds.

The user may have to type a passphrase.
"""
_printed: dict[str, str] = {}
"""Keys printed by key commands, by command.

Each command is run only once per process."""
_printing = threading.Lock()


def printed_key(command: str, origin: str) -> str:
    """Return the key that a command prints on its first line.

    The command runs once per process, without a shell. It has no terminal, because a passphrase prompt would
    overwrite the screen.

    Raises:
        FoldlineError: the command failed, timed out, or printed nothing. The message contains no output.
    """
    with _printing:
        if command not in _printed:
            try:
                _printed[command] = _run_key_command(command)
            except ValueError as problem:
                raise FoldlineError(
                    NO_KEY_PRINTED, origin=origin, problem=problem
                ) from None
        return _printed[command]


def _run_key_command(command: str) -> str:
    """Run a key command and return the first line of its output.

    Raises:
        ValueError: the command failed. The message is a clause that describes the problem.
    """
    try:
        completed = subprocess.run(
            shlex.split(command),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_COMMAND_SECONDS,
            start_new_session=True,
            check=False,
        )
    except OSError as error:
        raise ValueError(NOT_RUN.format(reason=system_words(error))) from None
    except ValueError as error:
        raise ValueError(NOT_RUN.format(reason=error)) from None
    except subprocess.TimeoutExpired:
        raise ValueError(TIMED_OUT.format(seconds=_COMMAND_SECONDS)) from None
    if completed.returncode:
        raise ValueError(EXITED.format(code=completed.returncode))
    key = completed.stdout.decode("utf-8", "replace").partition("\n")[0].strip()
    if not key:
        raise ValueError(NO_OUTPUT)
    return key


# --- the key file -----------------------------------------------------------------------------------------


def keys_file(environ: Mapping[str, str]) -> Path:
    return config_dir(environ) / KEYS_FILE


def save_key(environ: Mapping[str, str], provider: Provider, key: str) -> Path:
    """Store a key in the user's key file.

    An empty key removes the stored one.

    Returns:
        The path of the file.

    Raises:
        FoldlineError: the key is invalid, or the file cannot be read or written.
    """
    import tomlkit

    path = keys_file(environ)
    entry = _entry_name(provider)
    key = checked_key(key.strip(), TYPED_KEY)
    document = tomlkit.document()
    if stored_keys(
        path
    ):  # raises if others can read the file: its keys should be replaced
        document = tomlkit.parse(read_regular(path).decode())
    table = document.setdefault("keys", tomlkit.table())
    if key:
        table[entry] = key
    else:
        table.pop(entry, None)
    write_private(path, tomlkit.dumps(document))
    return path


def write_private(path: Path, text: str) -> None:
    """Replace the content of a file atomically, readable only by its owner.

    Raises:
        FoldlineError: the file cannot be written.
    """
    try:
        # Follow links: many users keep their settings in a repository.
        path = Path(real_path(path))
        make_private(path.parent)
        put_private(path, text.encode(), durable=True)
    except OSError as error:
        raise FoldlineError(
            f"{path} cannot be written: {system_words(error)}."
        ) from None


def _entry_name(provider: Provider) -> str:
    """Return the provider's name in the key file.

    Both OpenAI APIs share one key.
    """
    if provider.host == OPENAI.host and provider.key_env == OPENAI.key_env:
        return OPENAI.name
    return provider.name


def stored_keys(path: Path) -> Mapping[str, str]:
    """Read the keys in a key file, by provider.

    A missing file contains no keys.

    Raises:
        FoldlineError: the file is invalid, or other users can read it.
    """
    try:
        with opened(path) as file:
            mode = os.fstat(file.fileno()).st_mode
            if os.name == "posix" and mode & (stat.S_IRWXG | stat.S_IRWXO):
                raise FoldlineError(READABLE, path=path)
            table = tomllib.load(file).get("keys", {})
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise FoldlineError(f"{path} cannot be read: {system_words(error)}.") from None
    except ValueError:
        # Do not repeat the error: it could contain a key.
        raise FoldlineError(NOT_TOML, path=path) from None
    if not isinstance(table, dict) or not all(
        isinstance(value, str) for value in table.values()
    ):
        raise FoldlineError(NOT_KEYS, path=path)
    return {name.lower(): value.strip() for name, value in table.items()}


# --- secrecy ----------------------------------------------------------------------------------------------

_secret = {name for provider in PROVIDERS.values() for name in provider.key_envs}


def keep_secret(providers: Iterable[Provider]) -> None:
    """Treat the key variables of these providers as secret from now on."""
    added = {name for provider in providers for name in provider.key_envs} - _secret
    if added:
        _secret.update(added)
        wipe_environment(added.__contains__)


def secret_variables() -> frozenset[str]:
    """Return the names of all variables that may hold a key.

    Programs started for the model do not receive these variables.
    """
    return frozenset(_secret)


HIDDEN = "[key]"
_LONGEST_WORD = 20
"""Maximum length of a key that is not masked if it has no digits, in characters.

Such a key counts as a plain word, such as `lm-studio`."""


class Mask:
    """Replaces known keys in a string, both plain and escaped as in JSON."""

    def __init__(self, keys: Iterable[str] = ()) -> None:
        spellings: set[str] = set()
        for key in filter(_is_secret, keys):
            spellings |= {key, json.dumps(key)[1:-1]}
        self._keys = sorted(spellings, key=len, reverse=True)

    def __call__(self, text: str) -> str:
        for key in self._keys:
            text = text.replace(key, HIDDEN)
        return text

    def stream(self) -> "MaskedStream":
        """Return a mask for a byte stream, where a key may be split between chunks."""
        return MaskedStream([key.encode() for key in self._keys])


class MaskedStream:
    """Masks keys in a stream of byte chunks.

    Bytes that could be the start of a key are held back until the next chunk.
    """

    def __init__(self, keys: list[bytes]) -> None:
        self._keys = keys
        self._longest_start = max(map(len, keys), default=1) - 1
        self._held = b""

    def feed(self, chunk: bytes) -> bytes:
        """Add a chunk, and return the bytes that can no longer be part of a key."""
        data = self._held + chunk
        for key in self._keys:
            data = data.replace(key, HIDDEN.encode())
        held_size = self._held_size(data)
        certain_size = len(data) - held_size
        self._held = data[certain_size:]
        return data[:certain_size]

    def _held_size(self, data: bytes) -> int:
        """Return how many bytes at the end could be the start of a key."""
        for size in range(min(self._longest_start, len(data)), 0, -1):
            if any(key.startswith(data[-size:]) for key in self._keys):
                return size
        return 0

    def rest(self) -> bytes:
        """Return the bytes that are still held back.

        Call it at the end of the stream.
        """
        data = self._held
        self._held = b""
        return data


def mask_of(environ: Mapping[str, str]) -> Mask:
    """Return the mask for all keys from the environment, key commands and the key file.

    The mask is cached until one of these changes.
    """
    values = sorted(environ.get(name, "").strip() for name in secret_variables())
    keys = (*values, *_printed.values())
    path = keys_file(environ)
    try:
        status = path.stat()
    except (OSError, ValueError):
        return _mask(keys, path, ())
    version = (
        status.st_ino,
        status.st_mtime_ns,
        status.st_size,
        status.st_mode,
    )
    return _mask(keys, path, version)


@lru_cache(maxsize=4)
def _mask(keys: tuple[str, ...], path: Path, version: tuple[int, ...]) -> Mask:
    """Return the mask for these keys and for those in this version of the key file."""
    all_keys = set(keys)
    if version:
        with suppress(FoldlineError):  # keys of a rejected file are not used
            all_keys |= set(stored_keys(path).values())
    return Mask(all_keys)


def _is_secret(key: str) -> bool:
    if len(key) < SHORTEST_KEY:
        return False
    return len(key) > _LONGEST_WORD or any(map(str.isdigit, key))
