"""Session folders to damage in realistic ways, and helpers to compare them."""

import random
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from foldline.history import EVENTS, Session, session_dir
from foldline.history.log import dump_header
from foldline.protocol import SessionHeader, dump_entry
from support.history import History, call, history

NOW = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
SESSION_ID = "20260102-030405-abc123"


def story() -> History:
    """A history of ten entries: turns, calls, an edit, Chinese text."""
    built = history().system("You are a coding agent.").turn("读 a.py 好吗", "好的。")
    built = (
        built.user("fix it")
        .assistant("I look.", calls=[call("read", path="a.py")])
        .result("x = 1\n" * 5)
    )
    return (
        built.assistant("Done.")
        .edit("pin", 1)
        .user("thanks")
        .assistant("You are welcome.")
    )


def write_session(
    home: Path, built: History | None = None, session_id: str = SESSION_ID
) -> Path:
    """Write a session with these entries below `home`; return its event file."""
    folder = session_dir(home, "/work/shop", session_id)
    folder.mkdir(mode=0o700, parents=True)
    header = SessionHeader(
        id=session_id,
        created_at=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        cwd="/work/shop",
    )
    lines = [dump_header(header), *map(dump_entry, (built or story()).entries)]
    events = folder / EVENTS
    events.touch(mode=0o600)
    events.write_bytes(b"".join(line + b"\n" for line in lines))
    return events


def view_of(session: Session) -> list[tuple[tuple[int, int], str, str]]:
    """The view as sent to the model, with each item's origin."""
    return [
        (item.key, item.fate, item.message.model_dump_json())
        for item in session.projection.view
    ]


def everything_in(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


Damager = Callable[[list[bytes], random.Random], list[bytes]]
"""Damages the lines after the header."""


def cut(lines: list[bytes], chance: random.Random) -> list[bytes]:
    data = b"\n".join(lines)
    return data[: chance.randrange(1, len(data))].split(b"\n")


def fill_with_nuls(lines: list[bytes], chance: random.Random) -> list[bytes]:
    data = bytearray(b"\n".join(lines))
    start = chance.randrange(len(data))
    length = min(chance.randrange(1, 400), len(data) - start)
    data[start : start + length] = bytes(length)
    return bytes(data).split(b"\n")


def flip(lines: list[bytes], chance: random.Random) -> list[bytes]:
    data = bytearray(b"\n".join(lines))
    for _ in range(chance.randint(1, 8)):
        data[chance.randrange(len(data))] = chance.randrange(256)
    return bytes(data).split(b"\n")


def repeat(lines: list[bytes], chance: random.Random) -> list[bytes]:
    again = chance.choice(lines)
    place = chance.randrange(len(lines))
    return [*lines[:place], again, *lines[place:]]


def swap(lines: list[bytes], chance: random.Random) -> list[bytes]:
    one, other = chance.randrange(len(lines)), chance.randrange(len(lines))
    lines = list(lines)
    lines[one], lines[other] = lines[other], lines[one]
    return lines


def join(lines: list[bytes], chance: random.Random) -> list[bytes]:
    place = chance.randrange(len(lines) - 1) if len(lines) > 1 else 0
    return [*lines[:place], b"".join(lines[place : place + 2]), *lines[place + 2 :]]


def junk(lines: list[bytes], chance: random.Random) -> list[bytes]:
    what = chance.choice(
        [
            b"null",
            b"{}",
            b"[" * 5000,
            b"\xff\xfe",
            b'{"type":"hologram","index":3}',
            b" \0 ",
        ]
    )
    place = chance.randrange(len(lines) + 1)
    return [*lines[:place], what, *lines[place:]]


DAMAGERS: tuple[Damager, ...] = (cut, fill_with_nuls, flip, repeat, swap, join, junk)


def damage(events: Path, chance: random.Random, times: int) -> bytes:
    """Damage everything after the header; return the file's new content."""
    first, *lines = events.read_bytes().split(b"\n")
    for _ in range(times):
        lines = chance.choice(DAMAGERS)(lines, chance) or [b""]
    events.write_bytes(b"\n".join([first, *lines]))
    return events.read_bytes()
