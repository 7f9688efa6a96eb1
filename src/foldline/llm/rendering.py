"""Renders messages for requests: what the three APIs have in common.

Rendering is pure and deterministic. If complete tool groups or turns are appended to a list of messages, its
rendering is only extended: the messages rendered earlier stay unchanged, except that the last one may grow if
the API merges neighbours.
"""

import hashlib
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Self

from foldline.json_text import JsonObject
from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    DeveloperMessage,
    ImagePart,
    SystemMessage,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultMessage,
    UserMessage,
    text_parts,
)
from foldline.protocol.messages import DETAILS, json_object
from foldline.view.items import extends

from .marks import MarkPosition, blocks_of, request_ends

Piece = JsonObject
"""A text or image part of a message, ready to be encoded as JSON."""
NOTE_OPEN, NOTE_CLOSE = "<system-note>", "</system-note>"
_CLOSES_NOTE = re.compile(r"<(?=\s*+/\s*+system-note)", re.IGNORECASE)


def machine_text(text: str) -> str:
    """Enclose the program's own text in a system note.

    The note shows that the user did not write the text, which is sent in the role "user". A closing tag
    inside the text is neutralised, so that text from a tool or model cannot end the note.
    """
    defused = _CLOSES_NOTE.sub(r"<\\", text)
    return f"{NOTE_OPEN}\n{defused}\n{NOTE_CLOSE}"


def signer(model: str, host: str) -> str:
    """Return the name under which a server's model signs its reasoning."""
    return f"{model}@{host}"


def can_read(part: ThinkingPart, reader: str) -> bool:
    """Return whether reasoning may be sent back to a model.

    Args:
        reader: the model's name, as returned by `signer`. A bare model name means that model on any server.
    """
    return part.signed_by is not None and reader in (
        part.signed_by,
        part.signed_by.rpartition("@")[0],
    )


READABLE = ("text", "summary")
"""Fields of a reasoning block that may contain readable text.

The readable text becomes the text of a thinking part. All other fields become its signature.
"""


def details_for(message: AssistantMessage, reader: str) -> list[JsonObject]:
    """Return an answer's original reasoning blocks, if the reader signed them."""
    details = []
    for part in message.parts:
        if isinstance(part, ThinkingPart) and part.signature and can_read(part, reader):
            block = (json_object(part.signature) or {}).get(DETAILS)
            if isinstance(block, dict):
                details.append(
                    {
                        name: part.text if name in READABLE else value
                        for name, value in block.items()
                    }
                )
    return details


OPENING = machine_text("The conversation goes on from here.")
"""User message inserted before a conversation that begins with an answer.

Some servers require the first message to be from the user.
"""


def not_typed(text: str, message: UserMessage) -> str:
    """Enclose text in a system note, if it is part of a user message but the user did not type it."""
    if message.origin == "shell":
        text = f"The user ran this in a shell:\n{text}"
    return machine_text(text)


def user_pieces(
    message: UserMessage,
    text: Callable[[str], Piece],
    image: Callable[[ImagePart], Piece],
    says: Callable[[str], object] = bool,
) -> list[Piece]:
    """Convert a user message to an API's content pieces.

    Text that the user did not type is enclosed in a system note. Shell output, and a prompt with attached
    text, are each converted to a single piece.

    Args:
        text: converts a string.
        image: converts an image.
        says: returns whether a string is sent. Other strings are left out.
    """
    parts = message.parts
    if message.origin == "shell" or message.attached:
        images = (part for part in parts if isinstance(part, ImagePart))
        parts = (*text_parts(message.text), *images)
    pieces: list[Piece] = []
    for part in parts:
        if isinstance(part, TextPart) and says(part.text):
            pieces.append(
                text(
                    part.text
                    if message.origin == "typed"
                    else not_typed(part.text, message)
                )
            )
        elif isinstance(part, ImagePart):
            pieces.append(image(part))
    return pieces + [text(machine_text(line)) for line in checkpoint_line(message)]


_UNSEEN = "A picture stands here. You cannot see pictures: say so if the answer depends on it."


def without_pictures(message: BaseMessage) -> BaseMessage:
    """Replace each image of a message with a note.

    Used for models that accept no images.
    """
    note = TextPart(text=machine_text(_UNSEEN))
    parts = tuple(
        note if isinstance(part, ImagePart) else part for part in message.parts
    )
    return message.model_copy(update={"parts": parts})


def checkpoint_line(message: BaseMessage) -> list[str]:
    """Return the line that names a message's checkpoint.

    Returns an empty list if the message has none.
    """
    return [] if message.checkpoint is None else [f"CHECKPOINT {message.checkpoint}"]


def reported(message: ToolResultMessage) -> tuple[str, list[ImagePart]]:
    """Return a result's text, and its images.

    The images are sent after the result, because results can only contain text.
    """
    images = [part for part in message.parts if isinstance(part, ImagePart)]
    text = message.text
    if images and not text:
        text = "The result is an image; it follows."
    lines = [text, *map(machine_text, checkpoint_line(message))]
    return "\n\n".join(filter(None, lines)), images


def image_note(call_id: str) -> str:
    """Return the line that is sent before a result's images."""
    return machine_text(f"What the tool call {call_id} returned as an image:")


class MessageRendering(ABC):
    """Renders messages one by one.

    Images of tool results are added at the end of their tool group.

    A request may still be using a rendered message, so messages are replaced and never modified.
    """

    def __init__(self, reader: str = "") -> None:
        self.reader = reader
        """The model to which its own signed reasoning is sent back (`can_read`)."""
        self.done: list[JsonObject] = []
        self.call_ids: set[str] = set()
        self.newest = 0
        """The highest entry index rendered so far."""
        self.summary: MarkPosition | None = None
        """Position of the newest summary."""
        self.shows_pictures = True
        self._images: list[JsonObject] = []

    @property
    def marks(self) -> list[MarkPosition]:
        """Positions of cache marks (`marks`).

        In a system prompt, the mark is placed at the end of the part that no compaction changes.
        """
        positions = request_ends(self.done)
        if self.summary is not None:
            positions.insert(0, self.summary)
        if not self.done or self.done[0]["role"] != "system":
            return positions
        if self.summary is None or self.summary.message > 0:
            return [MarkPosition(0), *positions]
        if self.summary.block == 0:  # nothing precedes the summary
            return positions
        return [MarkPosition(0, self.summary.block - 1), *positions]

    @abstractmethod
    def instruct(self, message: SystemMessage | DeveloperMessage) -> None: ...

    @abstractmethod
    def ask(self, message: UserMessage) -> None: ...

    @abstractmethod
    def answer(self, message: AssistantMessage) -> None: ...

    @abstractmethod
    def report(self, message: ToolResultMessage) -> None: ...

    @abstractmethod
    def _add_user(self, pieces: list[JsonObject]) -> None: ...

    def add(self, message: BaseMessage) -> None:
        self.newest = max(self.newest, message.index)
        if not self.shows_pictures:
            message = without_pictures(message)
        match message:
            case SystemMessage() | DeveloperMessage():
                self.instruct(message)
            case UserMessage():
                self.ask(message)
            case AssistantMessage():
                self.call_ids.update(call.call_id for call in message.calls)
                self.answer(message)
            case ToolResultMessage():
                self.report(message)
            case _:
                raise TypeError(message.type)

    def add_all(self, messages: Iterable[BaseMessage]) -> Self:
        for message in messages:
            self.add(message)
        self.flush_images()
        return self

    def _note_summary(self, message: BaseMessage) -> None:
        if isinstance(message, SystemMessage) and message.origin == "summary":
            self.summary = MarkPosition(
                len(self.done) - 1, len(blocks_of(self.done[-1]["content"])) - 1
            )

    def flush_images(self) -> None:
        """Append the images of tool results after their group.

        The results themselves must be adjacent.
        """
        if self._images:
            pieces = self._images
            self._images = []
            self._add_user(pieces)


class Renderings:
    """Renders requests incrementally.

    This is possible because most requests extend the previous one.
    """

    def __init__(self, begin: Callable[[str], MessageRendering]) -> None:
        """
        Args:
            begin: returns an empty rendering for a model.
        """
        self._begin = begin
        self._messages: Sequence[BaseMessage] = ()
        self._rendering = begin("")

    def of(
        self,
        messages: Sequence[BaseMessage],
        reader: str = "",
        *,
        pictures: bool = True,
    ) -> MessageRendering:
        """Render all messages.

        The next call may extend the returned object. Copy its messages to keep them.
        """
        rendered = len(self._messages)
        before = self._rendering
        is_same_reader = reader == before.reader and pictures == before.shows_pictures
        if not extends(self._messages, messages) or not is_same_reader:
            rendered = 0
            self._rendering = self._begin(reader)
            self._rendering.shows_pictures = pictures
        self._messages = (*messages,)
        return self._rendering.add_all(messages[rendered:])


def sent_arguments(part: ToolCallPart) -> str:
    """Return a call's arguments as received.

    Arguments that are not a JSON object are replaced by an empty object.
    """
    return part.arguments if json_object(part.arguments) is not None else "{}"


def function_name(name: str) -> str:
    """Convert a tool's name to OpenAI's form: up to 64 letters, digits, `_` and `-`."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)[:64] or "tool"


def sent_call_id(call_id: str) -> str:
    """Shorten a call id to OpenAI's limit of 40 characters, keeping ids distinct."""
    if len(call_id) <= 40:
        return call_id
    return f"{call_id[:23]}_{hashlib.sha256(call_id.encode()).hexdigest()[:16]}"
