"""Keys of model providers stay with us: they are taken out of what tools bring and of what is stored, before
anything is cut to its room. Commands run without them (`tools.environment`), and the system does not show
them (`foldline.process`).
"""

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from foldline.llm.providers import SHORTEST_KEY
from foldline.protocol import FoldlineError

from .keys import keys_file, secret_variables, stored_keys

HIDDEN = "[key]"
_WORD = 20
"""Characters up to which a key without a digit is a word that servers without keys are given (`lm-studio`,
`not-needed`), and not hidden: it stands in ordinary texts."""


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
    """The mask for the keys of this environment and of the user's file. Looks at the file, and reads it where
    it has changed."""
    variables = tuple(sorted(environ.get(name, "").strip() for name in secret_variables()))
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
