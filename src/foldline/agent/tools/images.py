"""Detects the type, size in pixels, and defects of images.

Only defects that every provider rejects are detected. With a broken image in the view, all later requests
would fail.
"""

import base64
import zlib
from collections.abc import Iterator
from contextlib import suppress

from foldline.protocol import FileTouch, ImagePart
from foldline.text.numbers import sized

from .base import ToolFailure, ToolOutcome

BROKEN = "{file} is a broken image ({type}, {size}) and was not shown."
TOO_LARGE = "{file} is an image of {size}, but at most {most} can be shown: make it smaller first."
LARGEST = 5_000_000
"""Maximum size in bytes of an image that the large providers accept."""
_WIDEST = 8_000
"""Maximum width and height, in pixels, that Anthropic accepts (platform.claude.com/docs, "Vision", image size
limits).
"""

_STARTS = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
}
Size = tuple[int, int]


class _Broken(Exception):
    """Raised if an image is truncated or inconsistent."""


def media_type(content: bytes) -> str | None:
    """Return the media type of an image, if models accept its format."""
    if content.startswith(b"RIFF") and content[8:12] == b"WEBP":
        return "image/webp"
    return next(
        (kind for start, kind in _STARTS.items() if content.startswith(start)), None
    )


def image_part(content: bytes, shown: str) -> ImagePart | None:
    """Return the image in a file, if the file is an image.

    Args:
        shown: name of the file in error messages.

    Raises:
        ToolFailure: the image is too large, or broken.
    """
    kind = media_type(content)
    if kind is None:
        return None
    if len(content) >= LARGEST:
        raise too_large(shown, len(content))
    width = height = 0
    with suppress(_Broken, IndexError):
        if kind == "image/png":
            content = _repaired(content)
        width, height = _SIZES[kind](content)
    if not width or not height:
        size = sized(len(content))
        raise ToolFailure(BROKEN, "broken ✗", file=shown, type=kind, size=size)
    if max(width, height) > _WIDEST:
        raise ToolFailure(
            "{file} is {width} × {height} pixels, but at most {most} pixels per "
            "side can be shown: make it smaller first.",
            "too large ✗",
            file=shown,
            width=width,
            height=height,
            most=_WIDEST,
        )
    data = base64.b64encode(content).decode()
    return ImagePart(media_type=kind, data=data, width=width, height=height)


def image_outcome(
    content: bytes, shown: str, files: tuple[FileTouch, ...] = ()
) -> ToolOutcome | None:
    """Return the result that shows an image, if the content is an image.

    Raises:
        ToolFailure: the image is too large, or broken.
    """
    image = image_part(content, shown)
    if image is None:
        return None
    size = sized(len(content))
    text = f"[{shown}: {image.media_type}, {image.width} × {image.height}, {size}]"
    return ToolOutcome(text, brief=f"image {size}", files=files, images=(image,))


def pixels_of(part: ImagePart) -> Size:
    """Return the width and height of an image.

    Returns (0, 0) if they cannot be determined.
    """
    if part.width and part.height:
        return part.width, part.height
    try:
        content = base64.b64decode(part.data)
        return _SIZES[media_type(content) or ""](content)
    except (_Broken, LookupError, ValueError):
        return 0, 0


def too_large(shown: str, size: int) -> ToolFailure:
    """Return the failure for an image that has `size` bytes."""
    return ToolFailure(
        TOO_LARGE, "too large ✗", file=shown, size=sized(size), most=sized(LARGEST)
    )


def _chunks(content: bytes) -> Iterator[tuple[bytes, bytes, bool]]:
    """Yield each chunk of a PNG up to IEND: its name, the chunk, and whether its checksum is valid.

    See w3.org/TR/png, section 5.3.
    """
    name = b""
    start = 8
    while name != b"IEND":
        name = content[start + 4 : start + 8]
        end = start + 12 + int.from_bytes(content[start : start + 4])
        if end > len(content):
            raise _Broken
        checksum = int.from_bytes(content[end - 4 : end])
        yield (
            name,
            content[start:end],
            zlib.crc32(content[start + 4 : end - 4]) == checksum,
        )
        start = end


def _repaired(content: bytes) -> bytes:
    """Remove optional chunks with a wrong checksum from a PNG (w3.org/TR/png, section 5.4).

    Most programs ignore such chunks. Pillow, and therefore vLLM, rejects the image.
    """
    chunks = (
        chunk
        for name, chunk, is_valid in _chunks(content)
        if is_valid or name[:1].isupper()
    )
    return content[:8] + b"".join(chunks)


def _png(content: bytes) -> Size:
    chunks: dict[bytes, bytes] = {}
    for name, chunk, is_valid in _chunks(content):
        if not is_valid:
            raise _Broken
        chunks.setdefault(name, chunk)
    if not {b"IHDR", b"IDAT"} <= chunks.keys():
        raise _Broken
    header = chunks[b"IHDR"]
    return int.from_bytes(header[8:12]), int.from_bytes(header[12:16])


def _jpeg(content: bytes) -> Size:
    """Return the size of a JPEG, read from the segments before the scan (ITU T.81, B.1 and B.2.2)."""
    start = 2
    size = (0, 0)
    while True:
        while content[start] == 0xFF and content[start + 1] == 0xFF:
            start += 1  # padding
        marker = content[start + 1]
        if content[start] != 0xFF or start + 4 > len(content):
            raise _Broken
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height = int.from_bytes(content[start + 5 : start + 7])
            size = int.from_bytes(content[start + 7 : start + 9]), height
        if marker == 0xDA:
            if content.find(b"\xff\xd9", start) < 0:
                raise _Broken
            return size
        start += 2 + int.from_bytes(content[start + 2 : start + 4])


def _gif(content: bytes) -> Size:
    """Return the logical screen size of a GIF (GIF89a, section 18).

    Files that lack the trailer (section 27) but end with the zero byte of the last block are accepted, as
    other programs do.
    """
    blocks = content[13:]
    if b"\x2c" not in blocks or not (b"\x3b" in blocks or content.endswith(b"\x00")):
        raise _Broken
    return _little(content[6:8]), _little(content[8:10])


def _webp(content: bytes) -> Size:
    """Return the size of a WebP image, which its first chunk contains in one of three formats.

    See developers.google.com/speed/webp/docs/riff_container.
    """
    if _little(content[4:8]) + 8 > len(content) or len(content) < 30:
        raise _Broken
    match content[12:16]:
        case b"VP8X":
            return _little(content[24:27]) + 1, _little(content[27:30]) + 1
        case b"VP8L":
            bits = _little(content[21:25])
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8 ":
            return _little(content[26:28]) & 0x3FFF, _little(content[28:30]) & 0x3FFF
    raise _Broken


def _little(content: bytes) -> int:
    return int.from_bytes(content, "little")


_SIZES = {
    "image/png": _png,
    "image/jpeg": _jpeg,
    "image/gif": _gif,
    "image/webp": _webp,
}
