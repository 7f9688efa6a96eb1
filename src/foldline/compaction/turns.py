"""A conversation as pieces to read: each a turn, or a part of one, its messages shortened. Pure."""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from foldline.context.conversation import labelled_blocks
from foldline.context.digest import clip, one_line
from foldline.context.facts import constraints, errors, strings
from foldline.context.tokens import estimate_tokens
from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    CheckpointPart,
    ImagePart,
    Part,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultMessage,
    is_typed,
)


@dataclass(frozen=True, slots=True)
class Brevity:
    """How short, in characters."""

    words: int
    """Of what a person or the model said."""
    result: int
    """Of one tool result."""
    argument: int
    """Of one argument of a call, paths apart."""


BREVITIES = (Brevity(2_400, 1_200, 400), Brevity(1_000, 400, 200), Brevity(400, 160, 100))
"""From the usual one to the shortest, for what is very long even so."""

_PATH = re.compile(r"(?:^|_)(?:path|file|filename|directory)$|Path$|^files?$|^paths\d*$")
"""Arguments that name a file, by their own name."""
_PATCHED = re.compile(
    r"^(?:\*\*\* (?:Add|Update|Delete) File: |\*\*\* Move to: |\+\+\+ b/)(.+)$", re.MULTILINE
)
"""Lines of a patch that name the file it changes."""
_LONGEST_PATH = 800
_LONGEST_LINE = 240
"""Of a line that is kept from the middle."""
_LOOKED_AT = 1_000_000
"""Characters at the end of a result in which errors are looked for: the newest count."""


def shortened(message: BaseMessage, brevity: Brevity) -> BaseMessage:
    """The message without the middle of long texts and without thinking; images stay. Idempotent."""
    parts = tuple(part for whole in message.parts for part in _shortened(message, whole, brevity))
    unnamed = _files_not_named(message, parts)
    if unnamed:
        parts = (*parts, TextPart(text=f" (changed: {', '.join(unnamed)})"))
    return message.model_copy(update={"parts": parts})


def _shortened(message: BaseMessage, part: Part, brevity: Brevity) -> Iterator[Part]:
    match part:
        case ThinkingPart() | CheckpointPart():
            pass
        case ToolCallPart():
            yield _short_call(part, brevity.argument)
        case ImagePart():
            yield part
        case TextPart(text=text) if isinstance(message, ToolResultMessage):
            found = errors(text[-_LOOKED_AT:]) if len(text) > brevity.result else ()
            yield TextPart(text=gist(text, brevity.result, reversed(found)))
        case TextPart(text=text):
            found = constraints(text) if len(text) > brevity.words else ()
            said = () if isinstance(message, AssistantMessage) else found
            yield TextPart(text=gist(text, brevity.words, said))


def gist(text: str, limit: int, matters: Iterable[str] = ()) -> str:
    """Head and tail of a text and, up to a third of `limit` characters, what matters in between."""
    if len(text) <= limit:
        return text
    head, tail = text[: limit * 2 // 3], text[-(limit // 3) :]
    kept: list[str] = []
    room = limit // 3
    for line in map(one_line, matters):
        line = clip(line, _LONGEST_LINE)
        if line not in head and line not in tail and len(line) < room and line not in kept:
            kept.append(line)
            room -= len(line) + 1
    taken = sum(len(line) + 1 for line in kept)
    head, tail = head[: len(head) - taken * 2 // 3], tail[taken // 3 :]
    return "\n".join([head, "[…]", *kept, *(["[…]"] if kept else []), tail])


def _short_call(call: ToolCallPart, limit: int) -> ToolCallPart:
    """The call with short arguments, and behind them the files that these do not name any more."""
    if len(call.arguments) <= limit:
        return call
    arguments = call.parsed() or {"arguments": call.arguments}
    made = {name: _short_argument(name, value, limit) for name, value in arguments.items()}
    text = "\n".join(map(str, made.values()))
    missing = [path for path in dict.fromkeys(_files_in(arguments)) if path not in text]
    for number, few in enumerate(_few_to_a_line(missing), 1):
        made[f"paths{number}"] = few
    return call.model_copy(update={"arguments": json.dumps(made, ensure_ascii=False)})


def _short_argument(name: str, value: object, limit: int) -> object:
    if isinstance(value, str):
        return gist(value, max(limit, _LONGEST_PATH) if _PATH.search(name) else limit)
    return gist(repr(value), limit) if isinstance(value, list | dict) else value


def _few_to_a_line(paths: Iterable[str]) -> Iterator[str]:
    line = ""
    for path in paths:
        if line and len(line) + len(path) > _LONGEST_PATH - 2:
            yield line
            line = ""
        line = f"{line}, {path}" if line else path
    if line:
        yield line


def _files_in(value: object) -> Iterator[str]:
    """The files that an argument names, however deep."""
    match value:
        case str():
            yield from (found.strip() for found in _PATCHED.findall(value))
        case list():
            for item in value:
                yield from _files_in(item)
        case dict():
            for name, item in value.items():
                if _PATH.search(str(name)):
                    yield from (text for text in strings(item) if len(text) <= _LONGEST_PATH)
                else:
                    yield from _files_in(item)
        case _:
            pass


def _files_not_named(message: BaseMessage, parts: Iterable[Part]) -> list[str]:
    """Files a call has changed, by its result, that neither says."""
    if not isinstance(message, ToolResultMessage):
        return []
    text = "\n".join(part.text for part in parts if isinstance(part, TextPart))
    changed = dict.fromkeys(touch.path for touch in message.details.files if touch.action == "modified")
    return [path for path in changed if path not in text]


_LEAST_NOTE = 24
"""Tokens of a note at least: one line."""
_NOTE_SHARE = 3
"""A note takes at most this part of what it is about."""
_MANY_REQUESTS = 12
"""Where a conversation takes more requests than this, its messages are shortened further."""
_TOGETHER = 2
"""All notes on a conversation take so many times the longest answer at most: more only costs requests."""
_LEAST_PART = 40
"""Characters: no text is divided further."""

Block = tuple[int, str]
"""A text with its label, and the entry it comes from."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A turn or a part of one, as it is read."""

    level: ClassVar = "turn"
    """Its tag and its prompt."""
    blocks: tuple[Block, ...]
    size: int
    """In estimated tokens."""
    longest: int
    """Tokens of the longest note on any piece."""

    @property
    def text(self) -> str:
        return "\n\n".join(text for _, text in self.blocks)

    @property
    def first(self) -> int:
        return self.blocks[0][0]

    @property
    def last(self) -> int:
        return self.blocks[-1][0]

    @property
    def asked(self) -> int:
        """Tokens the note on it may take."""
        return max(_LEAST_NOTE, min(self.size // _NOTE_SHARE, self.longest))

    def parts(self, room: int) -> list["Piece"]:
        """The same in pieces of at most so many tokens; itself where it cannot be divided."""
        blocks = [(index, part) for index, text in self.blocks for part in parts_of(text, room)]
        return list(_packed(blocks, room, self.longest))


def pieces_of(messages: Sequence[BaseMessage], room: int, longest: int, answer: int) -> list[Piece]:
    """The turns in pieces of at most `room` tokens, shortened until the number of requests is bearable; notes
    on them of at most `longest` tokens, all held by few `answer`s."""
    pieces: list[Piece] = []
    for brevity in BREVITIES:
        messages = [shortened(message, brevity) for message in messages]
        turns = [_blocks(turn, room) for turn in turns_of(messages)]
        pieces = [piece for blocks in turns for piece in _packed(blocks, room, longest)]
        if sum(piece.size for piece in pieces) <= _MANY_REQUESTS * room:
            break
    most = max(_LEAST_NOTE, min(longest, _TOGETHER * answer // max(1, len(pieces))))
    return [replace(piece, longest=most) for piece in pieces]


def turns_of(messages: Sequence[BaseMessage]) -> list[list[BaseMessage]]:
    """A user's message and all that follows up to the next one; what stands before the first is one, too."""
    turns: list[list[BaseMessage]] = []
    for message in messages:
        if not turns or (is_typed(message)):
            turns.append([])
        turns[-1].append(message)
    return turns


def parts_of(text: str, max_tokens: int) -> Iterator[str]:
    """The text, halved as often as it takes; each part under its label, where it has one."""
    if estimate_tokens(text) <= max_tokens or len(text) < _LEAST_PART:
        yield text
        return
    label = text.partition(":")[0] if text.startswith("[") else ""
    again = f"{label}: […] " if 0 < len(label) < _LEAST_PART // 2 else ""
    if len(text) < 4 * len(again):
        again = ""
    middle = len(text) // 2
    yield from parts_of(text[:middle], max_tokens)
    yield from parts_of(again + text[middle:], max_tokens)


def _blocks(turn: Iterable[BaseMessage], room: int) -> list[Block]:
    return [
        (message.index, part)
        for message in turn
        for block in labelled_blocks([message])
        for part in parts_of(block, room)
    ]


def _packed(blocks: Iterable[Block], room: int, longest: int) -> Iterator[Piece]:
    """The blocks in as few pieces of at most so many tokens as their order allows."""
    held: list[Block] = []
    size = 0
    for block in blocks:
        cost = estimate_tokens(block[1]) + 1
        if held and size + cost > room:
            yield Piece(tuple(held), size, longest)
            held, size = [], 0
        held.append(block)
        size += cost
    if held:
        yield Piece(tuple(held), size, longest)
