"""Finds a request's messages in the history.

A request may split one message into several, or merge several messages into one. Messages are therefore
compared by atoms.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Generic, TypeAlias, TypeVar

from foldline.formats.base import JsonLine
from foldline.formats.parts import text_in
from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    DeveloperMessage,
    ImagePart,
    Part,
    SystemMessage,
    TextPart,
    ToolCallPart,
    ToolResultMessage,
)
from foldline.view.items import ViewItem, extends

_NOTE_OPEN = "<system-reminder>\n"
_NOTE_CLOSE = "\n</system-reminder>"

Item = TypeVar("Item")
Atom: TypeAlias = tuple[str, ...]
"""A role and one part of a message with that role.

A tool result is always a single atom.
"""


@dataclass(eq=False)
class Draft:
    """A message that has not been added to the history yet, with the record it comes from."""

    line: JsonLine
    message: BaseMessage


def atoms(message: BaseMessage) -> tuple[Atom, ...]:
    """Return the atoms of a message, without reasoning."""
    pieces = list(filter(None, map(_piece, message.parts)))
    match message:
        case ToolResultMessage():
            return (("tool", message.call_id, *chain(*pieces)),)
        case SystemMessage(origin="prompt"):
            return (("system", text_in(message.parts)),)
        case DeveloperMessage():
            role: str = message.role
        case AssistantMessage():
            role = "assistant"
        case _:
            role = "user"
    return tuple((role, *piece) for piece in pieces)


def _piece(part: Part) -> Atom:
    match part:
        case TextPart() if part.text:
            return (part.text,)
        case ImagePart():
            return ("image", part.data)
        case ToolCallPart():
            return (part.call_id, part.name, part.arguments)
        case _:
            return ()


def sent_atoms(messages: Iterable[BaseMessage]) -> list[Atom]:
    return [atom for message in messages for atom in atoms(message)]


@dataclass
class EqualStart(Generic[Item]):
    """A request and a view that begin with the same messages.

    If a later request and view extend these, only the messages that follow need to be compared.
    """

    sent: Sequence[BaseMessage] = ()
    view: Sequence[Item] = ()

    def after(
        self, sent: Sequence[BaseMessage], view: Sequence[Item]
    ) -> tuple[Sequence[BaseMessage], Sequence[Item]]:
        """Return the messages of a request and a view that still have to be compared."""
        if not (extends(self.sent, sent) and extends(self.view, view)):
            self.sent = self.view = ()
        return sent[len(self.sent) :], view[len(self.view) :]


class Arrangement:
    """A request's messages, in order.

    Each message is in the view, is a draft, or occurs only in the request.
    """

    def __init__(self, view: Sequence[ViewItem], drafts: Sequence[Draft]) -> None:
        self.order: list[ViewItem | Draft] = []
        self.contents: dict[int, str] = {}
        """The new texts of messages that are in the view, by index."""
        self._choices: dict[Atom, list[tuple[tuple[Atom, ...], ViewItem | Draft]]] = (
            defaultdict(list)
        )
        """Candidates for each request message: view items and drafts, by the words of their first atom."""
        self._replaceable: dict[str, ViewItem | Draft] = {}
        """Messages whose text a request may change, by key.

        These are tool results, with the call id as key, and the system prompt, with an empty key.
        """
        candidates: list[ViewItem | Draft] = [*view, *drafts]
        for candidate in candidates:
            message_atoms = atoms(candidate.message)
            if message_atoms:
                self._choices[_words(message_atoms[0])].append(
                    (message_atoms, candidate)
                )
            key = _key(candidate.message)
            if key is not None:
                self._replaceable[key] = candidate

    def arrange(self, sent: Sequence[BaseMessage], line: JsonLine) -> None:
        """Add the messages of the request in `line` to the order."""
        messages = [message for message in sent for _ in atoms(message)]
        request_atoms = sent_atoms(sent)
        place = 0
        while place < len(request_atoms):
            length = self._take(request_atoms, place)
            if length == 0:
                message = messages[place]
                length = len(atoms(message))
                self.order.append(self._changed(message) or Draft(line, message))
            place += length

    def _take(self, request_atoms: Sequence[Atom], place: int) -> int:
        """Add the first message that matches the request at this position.

        Returns the message's number of atoms, or 0 if none matches.
        """
        choices = self._choices[_words(request_atoms[place])]
        for choice in choices:
            message_atoms, candidate = choice
            here = tuple(request_atoms[place : place + len(message_atoms)])
            if isinstance(candidate, ViewItem) or isinstance(
                candidate.message, ToolResultMessage
            ):
                if message_atoms != here:
                    continue
            elif list(map(_words, message_atoms)) != list(map(_words, here)):
                continue
            else:
                candidate.message = _as_sent(candidate.message, here)
            choices.remove(choice)
            self.order.append(candidate)
            return len(here)
        return 0

    def _changed(self, message: BaseMessage) -> ViewItem | Draft | None:
        """Return the known message that has the text of `message` in this request.

        The text is stored. Returns None if there is no such message.
        """
        key = _key(message)
        original = None if key is None else self._replaceable.get(key)
        if isinstance(original, ViewItem):
            self.contents[original.index] = message.text
        elif original:
            original.message = original.message.model_copy(
                update={"parts": message.parts}
            )
        return original


def _key(message: BaseMessage) -> str | None:
    """Return the key of a message with a text that may differ between requests.

    Returns None for other messages.
    """
    match message:
        case ToolResultMessage():
            return message.call_id
        case SystemMessage(origin="prompt"):
            return ""
        case _:
            return None


def _words(atom: Atom) -> Atom:
    """Return an atom's words, without markup that depends on the role.

    Notes have tags only in the role "user", and newlines may be added between adjacent parts.
    """
    words = map(str.strip, atom[1:])
    return tuple(
        word.removeprefix(_NOTE_OPEN).removesuffix(_NOTE_CLOSE) for word in words
    )


def _as_sent(message: BaseMessage, request_atoms: Sequence[Atom]) -> BaseMessage:
    """Return a draft's message, with the text and role that it has in the request."""
    sent_parts: list[Part] = []
    for part, atom in zip(message.parts, request_atoms, strict=True):
        sent_parts.append(
            TextPart(text=atom[1]) if isinstance(part, TextPart) else part
        )
    parts = tuple(sent_parts)
    source = message.source if isinstance(message, DeveloperMessage) else None
    if request_atoms[0][0] == "system":
        return DeveloperMessage(parts=parts, source=source)
    update: dict[str, object] = {"parts": parts}
    if isinstance(message, DeveloperMessage):
        update["role"] = "user"
    return message.model_copy(update=update)
