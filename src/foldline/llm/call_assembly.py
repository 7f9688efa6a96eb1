"""Assembles the tool calls of chat completions from streamed pieces."""

from collections.abc import Sequence
from dataclasses import dataclass

from foldline.protocol.messages import json_object

from .growing import Growing, Room
from .wire import AnswerBlock, ContentChunk

LONGEST_NAME = 1_000
"""Maximum length of a tool's name, in characters. The rest is dropped."""

REPETITION = 10
"""Number of characters by which each resent piece counts towards the answer's limit.

If resent pieces counted nothing, a server could resend a piece endlessly.
"""


@dataclass(frozen=True, slots=True)
class CallPiece:
    """A piece of a streamed call, as the server sent it."""

    index: int | None = None
    """Position of the call.

    Some servers omit this number; others send the same number for every call.
    """
    call_id: str = ""
    name: str = ""
    arguments: str = ""
    signature: str = ""


class CallArguments(Growing):
    """The arguments of a call that is being received.

    Some servers resend all the text with each piece, so a piece that begins with the text received so far
    replaces that text. An initial `{}` is replaced by later arguments; a `{}` after complete arguments is
    ignored.
    """

    def __init__(self, room: Room) -> None:
        super().__init__(room)
        self._nested: Growing | None = None
        """Alternative text for the case that a repetition is the start of a nested object.

        For example, `{"a":` followed by `{"a":1}` may mean `{"a":{"a":1}`.
        """

    def __str__(self) -> str:
        text = super().__str__()
        if self._nested is not None and json_object(text) is None:
            nested = str(self._nested)
            return text if json_object(nested) is None else nested
        return text

    @property
    def whole(self) -> bool:
        """Whether the arguments are a complete JSON object."""
        return json_object(str(self)) is not None

    def add(self, text: str) -> str:
        """Add a piece, and return the text to display."""
        if self._is_placeholder() and text.lstrip().startswith("{"):
            self._replace(text)
            return text
        if text.strip() == "{}" and self.whole:
            self._room.take(text)
            return ""
        if self._is_repeated_by(text):
            before = super().__str__()
            self._replace(text)
            self._nested = None
            if before.rstrip().endswith((":", "[", ",")):
                self._nested = Growing(Room())
                self._nested.add(before + text)
            return text[len(before) :]
        if self._nested is not None:
            self._nested.add(text)
        return super().add(text)

    def _is_placeholder(self) -> bool:
        return 0 < len(self) < len("{    }") and super().__str__().strip() == "{}"

    def _is_repeated_by(self, piece: str) -> bool:
        # Compare lengths first, so that the received pieces are joined only if necessary.
        if not 0 < len(self) <= len(piece):
            return False
        text = super().__str__()
        return text.startswith("{") and piece.startswith(text)

    def _replace(self, text: str) -> None:
        self._clear(kept=REPETITION)
        super().add(text)


class StreamedCall(AnswerBlock):
    """A tool call that is being received."""

    def __init__(self, index: int | None, room: Room) -> None:
        super().__init__("call", room)
        self.index = index
        self.text: CallArguments = CallArguments(room)
        self._name = Growing(room)
        self._closed = False
        """Whether the newest piece of the arguments ended with a brace.

        Complete arguments always end with one.
        """

    def add(self, piece: CallPiece) -> list[ContentChunk]:
        """Add a piece, and return the chunk to display."""
        self.call_id = self.call_id or piece.call_id
        self.signature = piece.signature or self.signature
        is_named = len(self._name) >= LONGEST_NAME or piece.name == self.name
        if not is_named and not self.text:
            self._name.add(piece.name)
            self.name = str(self._name)
        if piece.arguments.strip():
            self._closed = piece.arguments.rstrip().endswith("}")
        return self.grow(piece.arguments)

    def is_followed_by(self, piece: CallPiece) -> bool:
        """Return whether a named piece starts another call at this call's position."""
        if piece.call_id and self.call_id and piece.call_id != self.call_id:
            return True
        if not self.text:
            return False  # A name may arrive in pieces, or be repeated with the first arguments.
        if piece.name != self.name:
            return True
        return self.is_whole

    @property
    def is_whole(self) -> bool:
        """Whether the call's arguments are complete."""
        return self._closed and self.text.whole


class CallAssembler:
    """Assigns streamed pieces to the calls they belong to.

    | piece without a name            | belongs to                                           |
    |---------------------------------|------------------------------------------------------|
    | known id                        | the newest call with this id, preferably at the index |
    | otherwise, known or no index    | the newest call at the index; without one, of all    |
    | otherwise, unknown index        | the newest call if it is incomplete, else no call    |

    | piece with a name               | belongs to                                           |
    |---------------------------------|------------------------------------------------------|
    | known id, same or no index      | the newest call with this id                         |
    | otherwise, known or no index    | the newest call there, unless it `is_followed_by`    |
    | otherwise                       | a new call                                           |
    """

    def __init__(self, room: Room) -> None:
        self.calls: list[StreamedCall] = []
        self._room = room

    def add(self, piece: CallPiece) -> list[ContentChunk]:
        """Add a piece to its call, and return the chunk to display.

        A piece that belongs to no call is ignored.
        """
        call = self._named_owner(piece) if piece.name else self._nameless_owner(piece)
        if call is None and not piece.name:
            return []
        if call is None:
            self._room.take_call()
            call = StreamedCall(piece.index, self._room)
            self.calls.append(call)
        return call.add(piece)

    def _nameless_owner(self, piece: CallPiece) -> StreamedCall | None:
        of_id = self._of_id(piece)
        at_index = self._at_index(piece)
        both = [call for call in of_id if call in at_index]
        for calls in (both, of_id, at_index):
            if calls:
                return calls[-1]
        newest = self.calls[-1] if self.calls else None
        return None if newest is None or newest.is_whole else newest

    def _named_owner(self, piece: CallPiece) -> StreamedCall | None:
        at_index = self._at_index(piece)
        for call in reversed(self._of_id(piece)):
            if call in at_index or call.index is None:
                return call
        newest = at_index[-1] if at_index else None
        return None if newest is None or newest.is_followed_by(piece) else newest

    def _of_id(self, piece: CallPiece) -> Sequence[StreamedCall]:
        return [
            call
            for call in self.calls
            if piece.call_id and call.call_id == piece.call_id
        ]

    def _at_index(self, piece: CallPiece) -> Sequence[StreamedCall]:
        """Return the calls at a piece's index.

        For a piece without an index, returns all calls.
        """
        return [call for call in self.calls if piece.index in (None, call.index)]
