"""Content blocks of a prompt, as what Foldline sends a model. Pure."""

import base64
import binascii
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from acp import helpers, schema

from foldline.agent.tools.images import image_part
from foldline.context.conversation import with_piped
from foldline.protocol import FoldlineError, ImagePart, Part, text_parts

Block = helpers.ContentBlock


class Prompt(NamedTuple):
    """The user's own words, and all that the model is sent."""

    text: str
    parts: tuple[Part, ...]


def prompt_of(blocks: Sequence[Block], cwd: Path) -> Prompt:
    """Files are named as `@path`, where the user put them. What is embedded stands below, like what is
    piped in: it is data, and none of the user's words.

    Raises:
        FoldlineError: one of them cannot be taken.
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
                images.append(_image(block.data, block.uri or "The picture"))
            case schema.EmbeddedResourceContentBlock(resource=schema.TextResourceContents() as resource):
                words.append(_mention(resource.uri, cwd))
                embedded.append(f"{_named(resource.uri, cwd)}:\n{resource.text}")
            case schema.EmbeddedResourceContentBlock(resource=schema.BlobResourceContents() as resource):
                words.append(_mention(resource.uri, cwd))
                images.append(_image(resource.blob, resource.uri))
            case _:
                raise FoldlineError("Sound is not taken: send it as text.")
    text = _joined(words)
    if not text and not images:
        raise FoldlineError("The prompt is empty: nothing was sent.")
    whole = with_piped(text, "\n\n".join(embedded)) if embedded else text
    return Prompt(text, (*text_parts(whole), *images))


def _joined(words: Sequence[str]) -> str:
    """The words, with a blank between two that would run together."""
    text = ""
    for word in words:
        runs_on = text and not text[-1].isspace() and (word[:1].isalnum() or word[:1] == "@")
        text += f" {word}" if runs_on else word
    return text.strip()


def _mention(uri: str, cwd: Path) -> str:
    return f"@{_named(uri, cwd)}"


def _named(uri: str, cwd: Path) -> str:
    """A file by its path, as the tools take it; anything else by its address."""
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


def _image(data: str, named: str) -> ImagePart:
    try:
        found = image_part(base64.b64decode(data, validate=True), named)
    except binascii.Error:
        raise FoldlineError(f"{named} is no picture: its data is no base64.") from None
    if found is None:
        raise FoldlineError(f"{named} is no picture that models take (PNG, JPEG, GIF, WebP).")
    return found
