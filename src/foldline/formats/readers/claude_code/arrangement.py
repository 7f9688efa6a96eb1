"""Finds the messages of a request among the entries of the history.

Messages are compared by atoms: a request may send the parts of one message as several messages, and the parts
of several messages as one.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

from foldline.context.view import ViewItem, extends
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

_NOTE_OPEN, _NOTE_CLOSE = "<system-reminder>\n", "\n</system-reminder>"

Item = TypeVar("Item")
Atom: TypeAlias = tuple[str, ...]
"""A role, and one part in it. A tool result is one atom."""


@dataclass(eq=False)
class Draft:
    """A message that is not in the history yet, and its record."""

    line: JsonLine
    message: BaseMessage


def atoms(message: BaseMessage) -> tuple[Atom, ...]:
    """Return the atoms of a message, without its reasoning."""
    pieces = [piece for part in message.parts if (piece := _piece(part))]
    match message:
        case ToolResultMessage():
            return (("tool", message.call_id, *(word for piece in pieces for word in piece)),)
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
    """The messages of a request and a view that are equal. Longer ones are compared after them."""

    sent: Sequence[BaseMessage] = ()
    view: Sequence[Item] = ()

    def after(
        self, sent: Sequence[BaseMessage], view: Sequence[Item]
    ) -> tuple[Sequence[BaseMessage], Sequence[Item]]:
        """Return the messages after the equal start."""
        if not (extends(self.sent, sent) and extends(self.view, view)):
            self.sent = self.view = ()
        return sent[len(self.sent) :], view[len(self.view) :]


class Arrangement:
    """The messages of a request: those of the view, drafts, and messages that only the request has."""

    def __init__(self, view: Sequence[ViewItem], drafts: Sequence[Draft]) -> None:
        self.order: list[ViewItem | Draft] = []
        self.contents: dict[int, str] = {}
        """The new texts of messages of the view, by index."""
        self._choices: dict[Atom, list[tuple[tuple[Atom, ...], ViewItem | Draft]]] = defaultdict(list)
        """The messages by the words of their first atoms."""
        self._replaceable: dict[str, ViewItem | Draft] = {}
        """The results by call id, and the system prompt by no id: a request may change their texts."""
        candidates: list[ViewItem | Draft] = [*view, *drafts]
        for candidate in candidates:
            message_atoms = atoms(candidate.message)
            if message_atoms:
                self._choices[_words(message_atoms[0])].append((message_atoms, candidate))
            key = _key(candidate.message)
            if key is not None:
                self._replaceable[key] = candidate

    def arrange(self, sent: Sequence[BaseMessage], line: JsonLine) -> None:
        """Add the messages of the request in `line` to the order."""
        messages = [message for message in sent for _ in atoms(message)]
        wanted = sent_atoms(sent)
        place = 0
        while place < len(wanted):
            length = self._take(wanted, place)
            if length == 0:
                message = messages[place]
                length = len(atoms(message))
                self.order.append(self._changed(message) or Draft(line, message))
            place += length

    def _take(self, wanted: Sequence[Atom], place: int) -> int:
        """Add the first match. Return its number of atoms, or 0."""
        choices = self._choices[_words(wanted[place])]
        for choice in choices:
            message_atoms, candidate = choice
            here = wanted[place : place + len(message_atoms)]
            if isinstance(candidate, ViewItem) or isinstance(candidate.message, ToolResultMessage):
                matches = [*message_atoms] == [*here]
            else:
                matches = [*map(_words, message_atoms)] == [*map(_words, here)]
                if matches:
                    candidate.message = _as_sent(candidate.message, here)
            if matches:
                choices.remove(choice)
                self.order.append(candidate)
                return len(here)
        return 0

    def _changed(self, message: BaseMessage) -> ViewItem | Draft | None:
        """Return the known message that has this new text."""
        key = _key(message)
        original = None if key is None else self._replaceable.get(key)
        if isinstance(original, ViewItem):
            self.contents[original.index] = message.text
        elif original:
            original.message = original.message.model_copy(update={"parts": message.parts})
        return original


def _key(message: BaseMessage) -> str | None:
    """Return the key of a message with a changeable text."""
    if isinstance(message, ToolResultMessage):
        return message.call_id
    return "" if isinstance(message, SystemMessage) and message.origin == "prompt" else None


def _words(atom: Atom) -> Atom:
    """Return the words of an atom, without marks of its role.

    Notes are in tags only in the role user, and a line end may be added between neighbours.
    """
    return tuple(word.strip().removeprefix(_NOTE_OPEN).removesuffix(_NOTE_CLOSE) for word in atom[1:])


def _as_sent(message: BaseMessage, wanted: Sequence[Atom]) -> BaseMessage:
    """Return a draft in the words of the request."""
    pairs = zip(message.parts, wanted, strict=True)
    parts = tuple(TextPart(text=atom[1]) if isinstance(part, TextPart) else part for part, atom in pairs)
    source = message.source if isinstance(message, DeveloperMessage) else None
    if wanted[0][0] == "system":
        return DeveloperMessage(parts=parts, source=source)
    update: dict[str, object] = {"parts": parts}
    if isinstance(message, DeveloperMessage):
        update["role"] = "user"
    return message.model_copy(update=update)
