"""Pictures: what kind a file is, how large it is in pixels, and whether it is whole. By its bytes; names lie.

Only what every provider would stumble over is looked for: a broken picture in the view has each later request
refused.
"""

import base64
import zlib
from collections.abc import Iterator

from foldline.protocol import ImagePart

from .base import ToolFailure
from .text import sized

LARGEST = 5_000_000
"""Bytes; what the large providers take."""
_WIDEST = 8_000
"""Pixels on a side; Anthropic takes no more: platform.claude.com/docs, "Vision", image size limits."""

_STARTS = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
}
Size = tuple[int, int]


class _Broken(Exception):
    """The file ends too early, or contradicts itself."""


def media_type(content: bytes) -> str | None:
    """The type of a picture that models take; None for anything else."""
    if content.startswith(b"RIFF") and content[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for start, kind in _STARTS.items() if content.startswith(start)), None)


def image_part(content: bytes, shown: str) -> ImagePart | None:
    """The picture a file holds; None where it is none. `shown` names the file in sentences.

    Raises:
        ToolFailure: it is too large, or broken.
    """
    kind = media_type(content)
    if kind is None:
        return None
    if len(content) >= LARGEST:
        raise too_large(shown, len(content))
    try:
        content = _mended(content) if kind == "image/png" else content
        width, height = _SIZES[kind](content)
    except (_Broken, IndexError):
        width = height = 0
    if not width or not height:
        raise ToolFailure(
            f"{shown} is a broken image ({kind}, {sized(len(content))}) and was not shown.", brief="broken ✗"
        )
    if max(width, height) > _WIDEST:
        raise ToolFailure(
            f"{shown} is {width} × {height} pixels, and images of up to {_WIDEST} on a side can be shown: "
            "make it smaller first.",
            brief="too large ✗",
        )
    return ImagePart(media_type=kind, data=base64.b64encode(content).decode(), width=width, height=height)


def pixels_of(part: ImagePart) -> Size:
    """Width and height of a picture, (0, 0) where nobody knows: imported sessions do not say it."""
    if part.width and part.height:
        return part.width, part.height
    try:
        content = base64.b64decode(part.data)
        return _SIZES[media_type(content) or ""](content)
    except (_Broken, LookupError, ValueError):
        return 0, 0


def too_large(shown: str, size: int) -> ToolFailure:
    """The failure for a picture of so many bytes."""
    return ToolFailure(
        f"{shown} is an image of {sized(size)}, and images of up to {sized(LARGEST)} "
        "can be shown: make it smaller first.",
        brief="too large ✗",
    )


def _chunks(content: bytes) -> Iterator[tuple[bytes, bytes, bool]]:
    """Names and chunks of a PNG, up to IEND, and whether their checksum is right: w3.org/TR/png, 5.3."""
    name, at = b"", 8
    while name != b"IEND":
        name, end = content[at + 4 : at + 8], at + 12 + int.from_bytes(content[at : at + 4])
        if end > len(content):
            raise _Broken
        checksum = int.from_bytes(content[end - 4 : end])
        yield name, content[at:end], zlib.crc32(content[at + 4 : end - 4]) == checksum
        at = end


def _mended(content: bytes) -> bytes:
    """A PNG without chunks that nothing depends on (5.4) and whose checksum is wrong: most programs show it,
    Pillow, and so vLLM, does not."""
    whole = (chunk for name, chunk, holds in _chunks(content) if holds or name[:1].isupper())
    return content[:8] + b"".join(whole)


def _png(content: bytes) -> Size:
    chunks = [*_chunks(content)]
    first = {name: chunk for name, chunk, _ in reversed(chunks)}
    if not all(holds for _, _, holds in chunks) or not {b"IHDR", b"IDAT"} <= first.keys():
        raise _Broken
    return int.from_bytes(first[b"IHDR"][8:12]), int.from_bytes(first[b"IHDR"][12:16])


def _jpeg(content: bytes) -> Size:
    """Segments of a marker and a length until the scan begins: ITU T.81, B.1 and B.2.2."""
    at, size = 2, (0, 0)
    while True:
        while content[at] == 0xFF and content[at + 1] == 0xFF:
            at += 1  # padding
        marker = content[at + 1]
        if content[at] != 0xFF or at + 4 > len(content):
            raise _Broken
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = content[at + 5 : at + 7], content[at + 7 : at + 9]
            size = int.from_bytes(width), int.from_bytes(height)
        if marker == 0xDA:
            if content.find(b"\xff\xd9", at) < 0:
                raise _Broken
            return size
        at += 2 + int.from_bytes(content[at + 2 : at + 4])


def _gif(content: bytes) -> Size:
    """The logical screen: GIF89a, 18. The byte that ends the file (27) is missing from some that all programs
    show: they end in the zero that ends a block."""
    if b"\x2c" not in content[13:] or not (b"\x3b" in content[13:] or content.endswith(b"\x00")):
        raise _Broken
    return int.from_bytes(content[6:8], "little"), int.from_bytes(content[8:10], "little")


def _webp(content: bytes) -> Size:
    """The first chunk of three kinds: developers.google.com/speed/webp/docs/riff_container."""
    if int.from_bytes(content[4:8], "little") + 8 > len(content) or len(content) < 30:
        raise _Broken
    match content[12:16]:
        case b"VP8X":
            width, height = content[24:27], content[27:30]
            return int.from_bytes(width, "little") + 1, int.from_bytes(height, "little") + 1
        case b"VP8L":
            bits = int.from_bytes(content[21:25], "little")
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8 ":
            width, height = content[26:28], content[28:30]
            return int.from_bytes(width, "little") & 0x3FFF, int.from_bytes(height, "little") & 0x3FFF
    raise _Broken


_SIZES = {"image/png": _png, "image/jpeg": _jpeg, "image/gif": _gif, "image/webp": _webp}
