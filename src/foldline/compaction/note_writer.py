"""Asks a model for notes on turns and milestones of topics, each once."""

import asyncio
import re
import sys
from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING, TypeVar

from foldline.context.conversation import defused
from foldline.context.language import Language
from foldline.llm import ContextOverflow
from foldline.protocol import BaseMessage

from .notes import EARLIER, Note, Topic, flat, shrunk, size_of, topics
from .strategy import load_prompt
from .turns import Piece, pieces_of

if TYPE_CHECKING:
    from .summary import Writer

_ASKED_SHARE = 0.7
"""Of the longest answer, what is asked for at once: models do not count well."""
_REFUSALS = 2
"""How often the requests of a run are made smaller where the model refuses one as too long."""
_MERGES = 3
"""Levels of merging at most; what is then still too long is cut."""
_MERGED_SHARE = 0.8
"""Of the room for merged notes, what is asked for."""
_TAG_TOKENS = 24
"""Around one turn or topic in a request."""
_LEAST_ROOM = 64
REMEMBERED = 1_024
"""Notes, the newest."""


class Memory:
    """Notes by what they were made from. Can be thrown away at any time."""

    def __init__(self) -> None:
        self._notes: OrderedDict[str, str] = OrderedDict()

    def get(self, key: str) -> str | None:
        if key in self._notes:
            self._notes.move_to_end(key)
        return self._notes.get(key)

    def put(self, key: str, text: str) -> None:
        self._notes[key] = text
        self._notes.move_to_end(key)
        if len(self._notes) > REMEMBERED:
            self._notes.popitem(last=False)


_Item = TypeVar("_Item", Piece, Topic)
"""What a note is made of."""


class Levels:
    """The notes of one run. What the model refuses as too long is asked in smaller requests from then on."""

    def __init__(
        self,
        writer: "Writer",
        memory: Memory,
        language: Language,
        *,
        model: str,
        note_tokens: int,
        focus: str | None = None,
    ) -> None:
        """`note_tokens` is the longest note on a turn, or on a part of one."""
        self._writer = writer
        self._memory = memory
        self._language = language
        self._model = model
        self._note_tokens = note_tokens
        self._asides = [f"Additional focus: {focus}"] if focus else []
        self.most = sys.maxsize
        """Tokens to be read in one request at most, the model having refused more."""
        self._refusals = 0

    async def notes(self, messages: Sequence[BaseMessage], after: int = EARLIER) -> list[Note]:
        """A note on each turn of these messages; `after` is the newest entry that has one already.

        Raises:
            ContextOverflow: the model refuses even a quarter of what should fit.
        """
        room, answer = self._room(Piece.level), self._writer.answer_tokens
        pieces = await asyncio.to_thread(pieces_of, messages, room, self._note_tokens, answer)
        made = await self._made(pieces)
        return [replace(note, first=max(note.first, min(after + 1, note.last))) for note in made]

    async def milestones(self, wanted: Sequence[Topic]) -> list[Note]:
        """The milestones of these topics, oldest first; one note that is short enough stays as it is."""
        stay = [topic.notes[0] for topic in wanted if topic.stays]
        made = await self._made([topic for topic in wanted if not topic.stays])
        return sorted([*stay, *made], key=lambda note: note.first)

    async def within(self, notes: Sequence[Note], room: int) -> list[Note]:
        """The notes merged until they take at most so many tokens."""
        for _ in range(_MERGES):
            size = size_of(notes)
            if size <= room:
                break
            groups = topics(notes, min(len(notes) // 2, max(1, room // self._note_tokens)))
            share = _MERGED_SHARE * room / size
            notes = await self.milestones(
                [Topic(group, max(1, int(share * size_of(group)))) for group in groups]
            )
        return list(shrunk(notes, room))

    def refused(self, size: int) -> bool:
        """Read half of this at once from now on, the model having refused it; whether that is worth a try."""
        self.most = max(_LEAST_ROOM, size // 2)
        self._refusals += 1
        return self._refusals <= _REFUSALS and size > _LEAST_ROOM

    async def _made(self, items: Sequence[_Item]) -> list[Note]:
        """A note on each item, in order; as many in one request as fit, none that is remembered."""
        made: list[Note] = []
        waiting = deque(items)
        while waiting:
            batch = self._batch(waiting)
            try:
                made += await self._answered(batch)
            except ContextOverflow:
                if not self.refused(sum(item.size for item in batch)):
                    raise
                waiting.extendleft(reversed(batch))
        return made

    def _batch(self, waiting: deque[_Item]) -> list[_Item]:
        """The next request: consecutive items that are not remembered, or what is."""
        room = self._room(waiting[0].level)
        while waiting[0].size > room and len(parts := waiting[0].parts(room)) > 1:
            waiting.popleft()
            waiting.extendleft(reversed(parts))
        batch = [waiting.popleft()]
        room -= batch[0].size
        answer = int(self._writer.answer_tokens * _ASKED_SHARE) - batch[0].asked
        while waiting and self._known(batch) is None and self._known([waiting[0]]) is None:
            room -= waiting[0].size + _TAG_TOKENS
            answer -= waiting[0].asked
            if room < 0 or answer < 0:
                break
            batch.append(waiting.popleft())
        return batch

    async def _answered(self, batch: Sequence[Piece | Topic]) -> list[Note]:
        """The notes on a batch; one on all of it where the answer does not separate them."""
        if (known := self._known(batch)) is not None:
            return [_note(known, batch)]
        level = batch[0].level
        texts_read = (defused(item.text, level, "conversation") for item in batch)
        tagged = "\n".join(
            f'<{level} number="{number}" tokens="{item.asked}">\n{text}\n</{level}>'
            for number, (item, text) in enumerate(zip(batch, texts_read, strict=True), 1)
        )
        conversation = f"<conversation>\n{tagged}\n</conversation>"
        answer = await self._writer.ask([conversation, self._prompt(level), *self._asides])
        texts = _told_apart(answer, level, len(batch))
        if texts is None:
            self._memory.put(self._key(batch), flat(answer))
            return [_note(flat(answer), batch)]
        for item, text in zip(batch, texts, strict=True):
            self._memory.put(self._key([item]), text)
        return [_note(text, [item]) for item, text in zip(batch, texts, strict=True)]

    def _known(self, batch: Sequence[Piece | Topic]) -> str | None:
        return self._memory.get(self._key(batch))

    def _key(self, batch: Sequence[Piece | Topic]) -> str:
        read = [self._model, self._prompt(batch[0].level), *(item.text for item in batch)]
        return sha256("\0".join(read).encode(errors="surrogatepass")).hexdigest()

    def _prompt(self, level: str) -> str:
        return load_prompt(level, self._language)

    def _room(self, level: str) -> int:
        room = self._writer.room(self._prompt(level), *self._asides) - _TAG_TOKENS
        return max(_LEAST_ROOM, min(room, self.most))


def _note(text: str, batch: Sequence[Piece | Topic]) -> Note:
    return Note(text, min(item.first for item in batch), max(item.last for item in batch))


def _told_apart(answer: str, level: str, count: int) -> list[str] | None:
    """The notes of an answer by their numbered headings; None where these are not what was asked for."""
    heading = re.compile(rf"^#{{1,6}}[ \t]*{level}[ \t]*#?(\d+)\b[^\n]*$", re.MULTILINE | re.IGNORECASE)
    found = list(heading.finditer(answer))
    if [int(each[1]) for each in found] != list(range(1, count + 1)):
        return None
    ends = [*(each.start() for each in found[1:]), len(answer)]
    texts = [flat(answer[each.end() : end]) for each, end in zip(found, ends, strict=True)]
    return texts if all(texts) else None
