"""Converts content blocks of an editor's prompt to message parts.

All functions are pure.
"""

import base64
import binascii
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from foldline.agent.tools.images import image_part
from foldline.cli.arguments import EMPTY_PROMPT
from foldline.protocol import FoldlineError, ImagePart, Part, text_parts
from foldline.text.tags import piped_part

from . import schema

Block = schema.ContentBlock
NOT_BASE64 = "{name} cannot be read: its data is not valid base64."
UNSUPPORTED_IMAGE = "{name} has an unsupported format. Supported: PNG, JPEG, GIF, WebP."
UNNAMED_IMAGE = "The image"
NO_AUDIO = "Audio is not supported. Send text instead."


class EditorPrompt(NamedTuple):
    text: str
    """The text that the user typed."""
    parts: tuple[Part, ...]
    """Everything that is sent to the model, including embedded files."""


def prompt_of(blocks: Sequence[Block], cwd: Path) -> EditorPrompt:
    """Convert content blocks to a prompt.

    Links to files become `@path`.

    Embedded text is appended to the prompt and tagged as data, like piped input.

    Raises:
        FoldlineError: a block is not supported, or the prompt is empty.
    """
    words: list[str] = []
    embedded: list[str] = []
    images: list[ImagePart] = []
    for block in blocks:
        match block:
            case schema.TextContentBlock():
                words.append(block.text)
            case schema.ResourceContentBlock():
                words.append(_mention(block.uri, cwd))
            case schema.ImageContentBlock():
                images.append(_image(block.data, block.uri or UNNAMED_IMAGE))
            case schema.EmbeddedResourceContentBlock(
                resource=schema.TextResourceContents() as resource
            ):
                words.append(_mention(resource.uri, cwd))
                embedded.append(f"{_named(resource.uri, cwd)}:\n{resource.text}")
            case schema.EmbeddedResourceContentBlock(
                resource=schema.BlobResourceContents() as resource
            ):
                words.append(_mention(resource.uri, cwd))
                images.append(_image(resource.blob, resource.uri))
            case _:
                raise FoldlineError(NO_AUDIO)
    text = _joined(words)
    if not text and not images:
        raise FoldlineError(EMPTY_PROMPT)
    parts: list[Part] = [*text_parts(text)]
    if embedded:
        parts.append(piped_part("\n\n".join(embedded)))
    return EditorPrompt(text, (*parts, *images))


def _joined(words: Sequence[str]) -> str:
    """Join strings, with a space between words that would otherwise touch."""
    text = ""
    for word in words:
        if text and not text[-1].isspace() and (word[:1].isalnum() or word[:1] == "@"):
            text += " "
        text += word
    return text.strip()


def _mention(uri: str, cwd: Path) -> str:
    return f"@{_named(uri, cwd)}"


def _named(uri: str, cwd: Path) -> str:
    """Return the path and lines in a `file` URI.

    Returns any other URI unchanged.
    """
    try:
        parts = urlsplit(uri)
    except ValueError:
        return uri
    if parts.scheme != "file":
        return uri
    path = Path(unquote(parts.path))
    shown = str(path.relative_to(cwd)) if path.is_relative_to(cwd) else str(path)
    lines = parts.fragment.removeprefix("L").replace(":", "-").replace("-L", "-")
    return f"{shown}:{lines}" if lines else shown


def _image(data: str, name: str) -> ImagePart:
    try:
        part = image_part(base64.b64decode(data, validate=True), name)
    except binascii.Error:
        raise FoldlineError(NOT_BASE64, name=name) from None
    if part is None:
        raise FoldlineError(UNSUPPORTED_IMAGE, name=name)
    return part
