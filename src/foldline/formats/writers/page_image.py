"""Images of a session in a page: what they are in words, and which of them may be shown."""

import base64
import binascii
from typing import Final

from foldline.protocol import ImagePart

_SHOWN: Final = ("image/png", "image/jpeg", "image/gif", "image/webp")
"""Pictures made of pixels. SVG is a document of its own."""


def image_words(image: ImagePart) -> str:
    """`image: image/png, 1024 × 768, 45 kB`."""
    size = f", {image.width} × {image.height}" if image.width and image.height else ""
    kind = image.media_type if image.media_type in _SHOWN else "of another kind"
    return f"image: {kind}{size}, {max(1, len(image.data) * 3 // 4000)} kB"


def image_source(image: ImagePart) -> str | None:
    """A `data:` address that a page can show; None where it holds no picture that it may."""
    if image.media_type not in _SHOWN:
        return None
    try:
        data = base64.b64decode(image.data, validate=True)
    except (binascii.Error, ValueError):
        return None
    return f"data:{image.media_type};base64,{base64.b64encode(data).decode()}" if data else None
