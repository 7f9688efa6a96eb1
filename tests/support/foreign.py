"""Sessions of other agents: invariants of imported ones, and ways to damage their files."""

import asyncio
import random
from collections.abc import Callable
from pathlib import Path

from foldline.formats import ForeignSession
from foldline.history import Session
from foldline.protocol import BaseMessage
from foldline.view.calls import paired, pairing_faults
from foldline.view.projection import project
from foldline.view.rules import broken, dangling


def faults(session: ForeignSession) -> list[str]:
    """Return every violated invariant of an imported session."""
    projection = project(session.entries)
    return [
        *broken(projection),
        *dangling(projection),
        *pairing_faults(paired(item.message for item in projection.view)),
    ]


def view(session: ForeignSession) -> list[BaseMessage]:
    """Return the last view."""
    return [item.message for item in project(session.entries).view]


def view_texts(session: ForeignSession) -> list[str]:
    """Return the texts of the last view."""
    return [message.text for message in view(session)]


def view_after_a_round_trip(session: ForeignSession, home: Path) -> list[BaseMessage]:
    """Return the view of a copy in our format, read back from its file."""

    async def copied() -> Session:
        return await Session.from_entries(session.header, session.entries).copy(
            home=home
        )

    copy = asyncio.run(copied())
    copy.close()
    assert copy.path is not None
    reopened = Session.open(copy.path)
    return [item.message for item in reopened.projection.view]


Damager = Callable[[bytes, random.Random], bytes]


def flip_bytes(data: bytes, chance: random.Random) -> bytes:
    """Replace a few bytes."""
    damaged = bytearray(data)
    for _ in range(chance.randint(1, 20)):
        damaged[chance.randrange(len(damaged))] = chance.randrange(256)
    return bytes(damaged)


def cut_lines(data: bytes, chance: random.Random) -> bytes:
    """Truncate or drop some lines."""
    return b"\n".join(
        line[: chance.randrange(len(line) + 1)] if chance.random() < 0.1 else line
        for line in data.split(b"\n")
        if chance.random() > 0.05
    )


def join_lines(data: bytes, chance: random.Random) -> bytes:
    """Remove some line ends."""
    return b"".join(
        line + (b"" if chance.random() < 0.1 else b"\n") for line in data.split(b"\n")
    )


def reorder_lines(data: bytes, chance: random.Random) -> bytes:
    """Move and repeat some lines."""
    lines = data.split(b"\n")
    for _ in range(chance.randint(1, 10)):
        line = lines[chance.randrange(len(lines))]
        lines.insert(chance.randrange(len(lines) + 1), line)
        if chance.random() < 0.5:
            lines.pop(chance.randrange(len(lines)))
    return b"\n".join(lines)


DAMAGERS: tuple[Damager, ...] = (flip_bytes, cut_lines, join_lines, reorder_lines)
