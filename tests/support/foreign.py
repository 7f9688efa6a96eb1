"""Sessions of other agents: what must hold of any that was read, and ways to damage their files."""

import asyncio
import random
from collections.abc import Callable
from pathlib import Path

from foldline.context.calls import paired, pairing_faults
from foldline.context.invariants import broken, dangling
from foldline.context.projection import project
from foldline.formats import ForeignSession
from foldline.history import Session
from foldline.protocol import BaseMessage


def faults(session: ForeignSession) -> list[str]:
    """Everything that is wrong with a session that was read."""
    projection = project(session.entries)
    return [
        *broken(projection),
        *dangling(projection),
        *pairing_faults(paired(item.message for item in projection.view)),
    ]


def view(session: ForeignSession) -> list[BaseMessage]:
    """What the model sees last."""
    return [item.message for item in project(session.entries).view]


def said(session: ForeignSession) -> list[str]:
    """The texts of the view."""
    return [message.text for message in view(session)]


def view_after_a_round_trip(session: ForeignSession, home: Path) -> list[BaseMessage]:
    """The view of a copy in our own format, read again from its file."""

    async def copied() -> Session:
        return await Session.from_entries(session.header, session.entries).copy(home=home)

    copy = asyncio.run(copied())
    copy.close()
    assert copy.path is not None
    again = Session.open(copy.path)
    return [item.message for item in again.projection.view]


Damager = Callable[[bytes, random.Random], bytes]


def flip_bytes(data: bytes, chance: random.Random) -> bytes:
    """A few bytes are others."""
    damaged = bytearray(data)
    for _ in range(chance.randint(1, 20)):
        damaged[chance.randrange(len(damaged))] = chance.randrange(256)
    return bytes(damaged)


def cut_lines(data: bytes, chance: random.Random) -> bytes:
    """Some lines end too early, or are gone."""
    return b"\n".join(
        line[: chance.randrange(len(line) + 1)] if chance.random() < 0.1 else line
        for line in data.split(b"\n")
        if chance.random() > 0.05
    )


def join_lines(data: bytes, chance: random.Random) -> bytes:
    """Some lines lost their ends."""
    return b"".join(line + (b"" if chance.random() < 0.1 else b"\n") for line in data.split(b"\n"))


def reorder_lines(data: bytes, chance: random.Random) -> bytes:
    """Some lines stand elsewhere, some twice."""
    lines = data.split(b"\n")
    for _ in range(chance.randint(1, 10)):
        line = lines[chance.randrange(len(lines))]
        lines.insert(chance.randrange(len(lines) + 1), line)
        if chance.random() < 0.5:
            lines.pop(chance.randrange(len(lines)))
    return b"\n".join(lines)


DAMAGERS: tuple[Damager, ...] = (flip_bytes, cut_lines, join_lines, reorder_lines)
