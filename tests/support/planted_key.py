"""A key that was planted, and every place where it may have come to rest."""

import base64
import binascii
import json
import urllib.parse
from collections.abc import Iterable, Iterator
from pathlib import Path

KEY = "sk-pl4nted" + "-9f8E7d6C5b4A3921-Zq7Xw2"


def spellings(key: str = KEY) -> Iterator[bytes]:
    """The key as programs write such a thing: plain, escaped, encoded, or all but its ends."""
    raw = key.encode()
    yield raw
    yield raw[6:-4]  # a mask that leaves the middle is none
    yield raw[::-1]
    yield binascii.hexlify(raw)
    yield urllib.parse.quote(key, safe="").encode()
    yield json.dumps(key)[1:-1].encode()
    for shift in range(3):  # base64 of it at any place in a text, without the ends that its neighbours change
        yield base64.b64encode(b"x" * shift + raw)[4:-4]


def files_below(*folders: Path) -> Iterator[Path]:
    """Every file below these, also what is hidden."""
    for folder in folders:
        yield from (path for path in sorted(folder.rglob("*")) if path.is_file() and not path.is_symlink())


def found_in(written: Iterable[tuple[str, bytes]], key: str = KEY) -> list[str]:
    """Where the key is, of what was written by name."""
    signs = list(spellings(key))
    return [name for name, content in written if any(sign in content for sign in signs)]


def found_below(*folders: Path, key: str = KEY) -> list[str]:
    """The files below these folders that hold the key, in their names or their bytes."""
    return found_in(
        ((str(path), path.read_bytes() + str(path).encode()) for path in files_below(*folders)), key
    )
