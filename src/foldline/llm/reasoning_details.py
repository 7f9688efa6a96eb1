"""`reasoning_details`: signed or encrypted reasoning in a chat completion.

OpenRouter defined these blocks (openrouter.ai/docs, "Preserving reasoning blocks"); MiniMax and gateways also
send them. Gemini 3 and Claude reject tool calls that are sent back without their blocks. A block becomes a
thinking part: its readable text becomes the part's text, and all other fields the signature. Therefore, a
block is sent back unchanged, and only to its signer.
"""

import json

from foldline.json_text import JsonFields
from foldline.protocol import ThinkingPart
from foldline.protocol.messages import DETAILS

from .growing import Growing, Room
from .lenient import mapping, sequence, string
from .rendering import READABLE


class _DetailBlock:
    """A reasoning block of the answer that is being received."""

    def __init__(self, room: Room) -> None:
        self.fields: dict[str, object] = {}
        self.text = Growing(room)

    def accepts(self, piece: JsonFields) -> bool:
        """Return whether a piece continues this block.

        The block must not be complete, and the piece must not have a different type, index or id.
        """
        has_ended = self.fields.get("data") or (
            self.fields.get("signature") and self._text_of(piece)
        )
        if has_ended:
            return False
        for name in ("type", "index", "id"):
            value = piece.get(name)
            if value is not None and self.fields.get(name) not in (None, value):
                return False
        return True

    def add(self, piece: JsonFields) -> str:
        """Add a piece, and return its text."""
        for name, value in piece.items():
            if name in READABLE:
                self.fields[name] = ""
            elif value is not None or name not in self.fields:
                self.fields[name] = value
        return self.text.add(self._text_of(piece))

    def _text_of(self, piece: JsonFields) -> str:
        return "".join(string(piece.get(name)) for name in READABLE)


class ReasoningDetails:
    """An answer's reasoning blocks, in order."""

    def __init__(self, room: Room) -> None:
        self._room = room
        self._blocks: list[_DetailBlock] = []

    def add(self, pieces: object) -> str:
        """Add the pieces of a delta, and return their text.

        Some servers send the text only here.
        """
        text = ""
        for piece in map(mapping, sequence(pieces)):
            if piece and not self._room.full:
                text += self._block_of(piece).add(piece)
        return text

    def _block_of(self, piece: JsonFields) -> _DetailBlock:
        for block in reversed(self._blocks):
            if block.accepts(piece):
                return block
        self._room.take_call()
        self._blocks.append(_DetailBlock(self._room))
        return self._blocks[-1]

    def parts(self, signer: str) -> list[ThinkingPart]:
        """Return the blocks as thinking parts for `signer` (`ThinkingPart.signed_by`)."""
        return [
            ThinkingPart(
                text=str(block.text),
                signature=json.dumps({DETAILS: block.fields}),
                signed_by=signer,
            )
            for block in self._blocks
        ]
