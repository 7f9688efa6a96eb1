"""A fake key, and a search for leaks of it."""

import base64
import binascii
import json
import urllib.parse
from collections.abc import Iterable, Iterator
from pathlib import Path

KEY = "sk-pl4nted" + "-9f8E7d6C5b4A3921-Zq7Xw2"


def spellings(key: str = KEY) -> Iterator[bytes]:
    """Yield the key as programs may write it: plain, escaped, encoded, or without its ends."""
    raw = key.encode()
    yield raw
    yield raw[6:-4]  # a mask that shows the middle still leaks the key
    yield raw[::-1]
    yield binascii.hexlify(raw)
    yield urllib.parse.quote(key, safe="").encode()
    yield json.dumps(key)[1:-1].encode()
    for shift in range(
        3
    ):  # base64 at any offset, without the ends that depend on neighbouring bytes
        yield base64.b64encode(b"x" * shift + raw)[4:-4]


def files_below(*folders: Path) -> Iterator[Path]:
    """Yield every file below these folders, hidden ones included."""
    for folder in folders:
        yield from (
            path
            for path in sorted(folder.rglob("*"))
            if path.is_file() and not path.is_symlink()
        )


def found_in(outputs: Iterable[tuple[str, bytes]], key: str = KEY) -> list[str]:
    """Return the names of the outputs that contain the key."""
    signs = list(spellings(key))
    return [name for name, content in outputs if any(sign in content for sign in signs)]


def found_below(*folders: Path, key: str = KEY) -> list[str]:
    """Return the files below these folders with the key in their name or content."""
    return found_in(
        (
            (str(path), path.read_bytes() + str(path).encode())
            for path in files_below(*folders)
        ),
        key,
    )
