"""Small, well-formed images of each supported kind, of any size in pixels."""

import zlib

KINDS = ("png", "jpeg", "gif", "webp-lossy", "webp-lossless", "webp-extended")


def image(kind: str, width: int = 640, height: int = 480) -> bytes:
    """Return the bytes of an image of one of `KINDS`."""
    match kind:
        case "png":
            head = width.to_bytes(4) + height.to_bytes(4) + bytes((8, 0, 0, 0, 0))
            rows = zlib.compress(b"\x00" * (width + 1) * height)
            chunks = (
                _chunk(b"IHDR", head) + _chunk(b"IDAT", rows) + _chunk(b"IEND", b"")
            )
            return b"\x89PNG\r\n\x1a\n" + chunks
        case "jpeg":
            frame = (
                b"\x08" + height.to_bytes(2) + width.to_bytes(2) + b"\x01\x01\x11\x00"
            )
            return (
                b"\xff\xd8"
                + _segment(0xE1, b"Exif\x00\x00")
                + b"\xff"  # padding before a marker is allowed
                + _segment(0xC2, frame)
                + _segment(0xDA, b"\x01\x01\x00\x00\x3f\x00")
                + b"\x00\xff\x00\xff\xd9"
            )
        case "gif":
            screen = (
                width.to_bytes(2, "little")
                + height.to_bytes(2, "little")
                + b"\x00\x00\x00"
            )
            return (
                b"GIF89a"
                + screen
                + b"\x2c\x00\x00\x00\x00"
                + screen[:5]
                + b"\x02\x01\x00\x00\x3b"
            )
        case "webp-lossy":
            body = (
                b"\x00\x00\x00\x9d\x01\x2a"
                + width.to_bytes(2, "little")
                + height.to_bytes(2, "little")
            )
            return _riff(b"VP8 ", body)
        case "webp-lossless":
            sizes = (width - 1) | (height - 1) << 14
            return _riff(b"VP8L", b"\x2f" + sizes.to_bytes(4, "little") + b"\x00" * 5)
        case _:
            sizes = (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(
                3, "little"
            )
            return _riff(b"VP8X", b"\x00\x00\x00\x00" + sizes)


def with_damaged_note(png: bytes) -> bytes:
    """Add an ancillary PNG chunk with a wrong checksum."""
    return png.replace(
        png[33:], _chunk(b"tEXt", b"Title\x00A ship")[:-1] + b"!" + png[33:]
    )


def _chunk(name: bytes, content: bytes) -> bytes:
    return (
        len(content).to_bytes(4)
        + name
        + content
        + zlib.crc32(name + content).to_bytes(4)
    )


def _segment(marker: int, content: bytes) -> bytes:
    return bytes((0xFF, marker)) + (len(content) + 2).to_bytes(2) + content


def _riff(name: bytes, body: bytes) -> bytes:
    chunk = name + len(body).to_bytes(4, "little") + body
    return b"RIFF" + (len(chunk) + 4).to_bytes(4, "little") + b"WEBP" + chunk
