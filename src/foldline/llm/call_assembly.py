"""Tool calls of chat completions, put together from the pieces in which servers stream them."""

from collections.abc import Sequence
from dataclasses import dataclass

from foldline.protocol.messages import json_object

from .wire import Growing, Room

LONGEST_NAME = 1_000
"""Characters of a tool's name, beyond which no more of it is taken."""

REPETITION = 10
"""Characters of the answer's bound that a repeated piece uses: endless repetitions reach it, too."""


@dataclass(frozen=True, slots=True)
class CallPiece:
    """One piece of a streamed call, as its server sent it."""

    index: int | None = None
    """Position of the call. Some servers leave it out, some repeat it for every call."""
    call_id: str = ""
    name: str = ""
    arguments: str = ""
    signature: str = ""


class CallArguments:
    """The arguments of one call, while they arrive.

    A piece that begins with all that is there replaces it: some servers repeat, or send the text so far.
    `{}` is a placeholder if more follows, and says nothing after whole arguments.
    """

    def __init__(self, room: Room) -> None:
        self._room = room
        self._text = Growing(room)
        self._nested: Growing | None = None
        """The other reading of a repetition: `{"a":` and `{"a":1}` may also be an object in an object."""

    def __len__(self) -> int:
        return len(self._text)

    def __str__(self) -> str:
        text = str(self._text)
        if self._nested is not None and json_object(text) is None:
            nested = str(self._nested)
            return text if json_object(nested) is None else nested
        return text

    @property
    def whole(self) -> bool:
        """Whether they are one JSON object by now."""
        return json_object(str(self)) is not None

    def add(self, piece: str) -> str:
        """Add a piece; return what can be shown of it."""
        if self._is_placeholder() and piece.lstrip().startswith("{"):
            self._replace(piece)
            return piece
        if piece.strip() == "{}" and self.whole:
            self._room.take(piece)
            return ""
        if self._is_repeated_by(piece):
            before = str(self._text)
            self._replace(piece)
            self._nested = None
            if before.rstrip().endswith((":", "[", ",")):
                self._nested = Growing(Room())
                self._nested.add(before + piece)
            return piece[len(before) :]
        if self._nested is not None:
            self._nested.add(piece)
        return self._text.add(piece)

    def _is_placeholder(self) -> bool:
        return 0 < len(self._text) < len("{    }") and str(self._text).strip() == "{}"

    def _is_repeated_by(self, piece: str) -> bool:
        # Lengths first: the pieces so far are only joined if they can be the same.
        if not 0 < len(self._text) <= len(piece):
            return False
        text = str(self._text)
        return text.startswith("{") and piece.startswith(text)

    def _replace(self, piece: str) -> None:
        self._room.give_back(max(0, len(self._text) - REPETITION))
        self._text = Growing(self._room)
        self._text.add(piece)


class StreamedCall:
    """A tool call, while it arrives."""

    def __init__(self, index: int | None, room: Room) -> None:
        self.index = index
        self.call_id = ""
        self.signature = ""
        self.arguments = CallArguments(room)
        self._name = Growing(room)
        self._closed = False
        """Whether the newest piece of the arguments ended in a brace: only then can they be whole."""

    @property
    def name(self) -> str:
        return str(self._name)

    def add(self, piece: CallPiece) -> str:
        """Add a piece; return what can be shown of its arguments."""
        self.call_id = self.call_id or piece.call_id
        self.signature = piece.signature or self.signature
        if len(self._name) < LONGEST_NAME and piece.name != self.name and not self.arguments:
            self._name.add(piece.name)
        if piece.arguments.strip():
            self._closed = piece.arguments.rstrip().endswith("}")
        return self.arguments.add(piece.arguments)

    def is_followed_by(self, piece: CallPiece) -> bool:
        """Whether a piece with a name begins the next call, at the position of this one."""
        if piece.call_id and self.call_id and piece.call_id != self.call_id:
            return True
        if not self.arguments:
            return False  # A name may come in pieces, or again with the first arguments.
        if piece.name != self.name:
            return True
        return self.is_whole

    @property
    def is_whole(self) -> bool:
        """Whether no more of its arguments can follow."""
        return self._closed and self.arguments.whole


class CallAssembler:
    """Assigns the pieces of streamed calls to their calls.

    | piece                               | belongs to                                          |
    |-------------------------------------|-----------------------------------------------------|
    | known id, no name                   | the call of this id, at this index if there are two |
    | other or no id, no name, known index| the newest call at this index                       |
    | other or no id, no name, no index,  | the newest call; without one, or if its arguments   |
    | or one that no call has             | are whole and the index is another, to none         |
    | known id, name, same or no index    | the call of this id                                 |
    | other or no id, name, known index   | the newest call there, unless it `is_followed_by`   |
    | name, and no call at this index     | a new call                                          |

    A piece without a name never begins a call.
    """

    def __init__(self, room: Room) -> None:
        self.calls: list[StreamedCall] = []
        self._room = room

    def add(self, piece: CallPiece) -> tuple[StreamedCall, str] | None:
        """Add a piece: its call, and what can be shown of the arguments. None if it belongs to no call."""
        call = self._named_owner(piece) if piece.name else self._nameless_owner(piece)
        if call is None and not piece.name:
            return None
        if call is None:
            self._room.take_call()
            call = StreamedCall(piece.index, self._room)
            self.calls.append(call)
        return call, call.add(piece)

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
        return [call for call in self.calls if piece.call_id and call.call_id == piece.call_id]

    def _at_index(self, piece: CallPiece) -> Sequence[StreamedCall]:
        """The calls at its index; all of them if it has none."""
        return [call for call in self.calls if piece.index in (None, call.index)]
