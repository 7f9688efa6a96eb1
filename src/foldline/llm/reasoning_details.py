"""Reasoning that a chat completion comes with in blocks, signed or encrypted: `reasoning_details`.

OpenRouter defined them (openrouter.ai/docs, "Preserving reasoning blocks"); MiniMax and gateways send them
too. Gemini 3 and Claude refuse tool calls that come back without theirs. A block is kept as a thinking part:
its text as the text, all else as the signature, so that it goes back unchanged, to its signer alone.
"""

import json
from collections.abc import Mapping

from foldline.protocol import ThinkingPart
from foldline.protocol.messages import DETAILS

from .dialect import READABLE
from .wire import Growing, Room, mapping, sequence, string


class _DetailBlock:
    """One block, while it arrives."""

    def __init__(self, room: Room) -> None:
        self.fields: dict[str, object] = {}
        self.text = Growing(room)

    def accepts(self, piece: Mapping[str, object]) -> bool:
        """Whether a piece continues this block: same type, place and id, and not beyond its end."""
        if self.fields.get("data") or (self.fields.get("signature") and self._text_of(piece)):
            return False
        return all(
            piece.get(name) is None or self.fields.get(name) in (None, piece[name])
            for name in ("type", "index", "id")
        )

    def add(self, piece: Mapping[str, object]) -> str:
        """Take a piece; return its text."""
        for name, value in piece.items():
            if name in READABLE:
                self.fields[name] = ""
            elif value is not None or name not in self.fields:
                self.fields[name] = value
        return self.text.add(self._text_of(piece))

    def _text_of(self, piece: Mapping[str, object]) -> str:
        return "".join(string(piece.get(name)) for name in READABLE)


class ReasoningDetails:
    """The blocks of one answer, in the order in which they came."""

    def __init__(self, room: Room) -> None:
        self._room = room
        self._blocks: list[_DetailBlock] = []

    def add(self, pieces: object) -> str:
        """Take the pieces of one delta; return their text, for servers that send it nowhere else."""
        blocks = [piece for value in sequence(pieces) if (piece := mapping(value)) and not self._room.full]
        return "".join(self._block_of(piece).add(piece) for piece in blocks)

    def _block_of(self, piece: Mapping[str, object]) -> _DetailBlock:
        for block in reversed(self._blocks):
            if block.accepts(piece):
                return block
        self._room.take_call()
        self._blocks.append(_DetailBlock(self._room))
        return self._blocks[-1]

    def parts(self, signer: str) -> list[ThinkingPart]:
        """The blocks as parts that go back to `signer`: see `ThinkingPart.signed_by`."""
        return [
            ThinkingPart(
                text=str(block.text), signature=json.dumps({DETAILS: block.fields}), signed_by=signer
            )
            for block in self._blocks
        ]
