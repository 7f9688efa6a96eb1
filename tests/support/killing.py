"""Campaigns of `kill -9`: a real process writes to a real session and is killed at a random moment, again
and again.

What is found is held against a journal the writer kept: an append that had ended is there, one that was under
way is there up to some entry, and the view is the one these entries give.
"""

import hashlib
import json
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from foldline.context.pairing import paired
from foldline.context.projection import Projection
from foldline.context.proof import digest_of
from foldline.history import Session, session_dir
from foldline.protocol import Compaction, NoticeRecord, SessionHeader
from foldline.protocol.messages import Entry
from support.history import history
from support.invariants import broken

JOURNAL = "journal"
"""The file beside the session in which a writer says what it does."""
LONGEST = 0.15
"""Seconds a writer lives at most: it opens the session and takes a few dozen steps in them."""
AIMED = 0.5
"""Share of the kills that wait for an append to begin: left to chance alone, one in twelve hits one."""
AN_APPEND = 0.003
"""Seconds an append takes, roughly, with its sync."""
FRESH_EVERY = 25
"""Rounds after which another session is begun: long ones take longer to open, and hold nothing new."""


def states_of(session: Session, coming: Sequence[Entry] = ()) -> list[tuple[str, str]]:
    """Digests of the view now and after each of these entries: of all it shows, and of what would be sent."""
    futures = (session.projection.foreseen(*coming[:count]) for count in range(1, len(coming) + 1))
    return [_state(projection) for projection in (session.projection, *futures)]


def _state(projection: Projection) -> tuple[str, str]:
    shown = hashlib.sha256()
    for item in projection.view:
        shown.update(
            f"{item.message.model_dump_json()}{item.fate}{item.pinned}{item.written}{item.covers}\n".encode()
        )
    return shown.hexdigest(), digest_of(paired(item.message for item in projection.view))


@dataclass
class Found:
    """What the rounds of a campaign came upon."""

    rounds: int = 0
    folds: int = 0
    """In the sessions, together."""
    moments: Counter[str] = field(default_factory=Counter)
    """`between appends`; else what was being written, and how far it came: `old`, `new` or `in part`."""
    torn: int = 0
    """Records cut off by the kill."""


class Campaign:
    """Rounds of work and sudden death on sessions below `home`."""

    def __init__(self, home: Path, victim: "subprocess.Popen[str]", seed: int) -> None:
        self._home = home
        self._victim = victim
        self._chance = random.Random(seed)
        self._seed = seed
        self.found = Found()

    async def run(self, rounds: int) -> Found:
        for number in range(rounds):
            if number % FRESH_EVERY == 0:
                folder = await self._begun(f"s{number}")
            before = Session.open(folder)
            (folder / JOURNAL).unlink(missing_ok=True)
            self._kill(folder, number)
            await self._check(folder, before)
            self.found.rounds += 1
        return self.found

    async def _begun(self, name: str) -> Path:
        """A session that has something to fold."""
        built = history().system("You are a coding agent.")
        for n in range(5):
            built = built.turn(f"Remember number {n}. " * 100, f"Number {n} it is. " * 50)
        header = SessionHeader(id=name, created_at=datetime(2026, 1, 2, tzinfo=UTC), cwd=str(self._home))
        session = await Session.from_entries(header, built.entries).copy(home=self._home, session_id=name)
        session.close()
        return session_dir(self._home, self._home, name)

    def _kill(self, folder: Path, number: int) -> None:
        seconds = self._chance.uniform(0, LONGEST)
        aimed = self._chance.uniform(0, AN_APPEND) if self._chance.random() < AIMED else None
        order = {
            "folder": str(folder),
            "seed": f"{self._seed} {number}",
            "seconds": seconds,
            "into_append": aimed,
        }
        assert self._victim.stdin is not None
        assert self._victim.stdout is not None
        self._victim.stdin.write(json.dumps(order) + "\n")
        self._victim.stdin.flush()
        status = int(self._victim.stdout.readline())
        assert status == signal.SIGKILL, f"round {number}: the writer ended by itself (status {status})"

    async def _check(self, folder: Path, before: Session) -> None:
        session = Session.open(folder)
        assert session.entries[: len(before.entries)] == before.entries
        assert broken(session.projection) == []
        torn = session.damage.count - before.damage.count
        assert torn in (0, 1), session.damage
        [(shown, sent)] = states_of(session)
        types, states, ended = _newest(folder / JOURNAL) or ([], states_of(before), True)
        allowed = states[-1:] if ended else states
        assert shown in [state for state, _ in allowed], f"neither old nor new, while writing {types}"
        if "compaction" in types:
            assert sent in (allowed[0][1], allowed[-1][1]), "neither the old request nor the new one"
        self.found.torn += torn
        new = session.entries[len(before.entries) :]
        self.found.folds += sum(isinstance(entry, Compaction) for entry in new)
        self.found.moments[_moment(types, [state for state, _ in states], shown, ended)] += 1
        # It goes on: no lock is left, nothing is lost by it, and what is appended is there for the next one.
        entries = list(session.entries)
        [notice] = await session.append(NoticeRecord(text="killed, and opened again"))
        session.close()
        assert Session.open(folder).entries == [*entries, notice]


def _newest(journal: Path) -> tuple[list[str], list[tuple[str, str]], bool] | None:
    """The newest append the writer spoke of: its entries' types, the states it leads through, and whether it
    had ended. None where it came to none. What it failed at fails the test."""
    lines = journal.read_bytes().split(b"\n")[:-1] if journal.exists() else []
    records: list[dict[str, Any]] = [json.loads(line) for line in lines]
    failures = [record["failed"] for record in records if "failed" in record]
    assert not failures, failures
    begun = [at for at, record in enumerate(records) if "states" in record]
    if not begun:
        return None
    newest = records[begun[-1]]
    return newest["types"], [(shown, sent) for shown, sent in newest["states"]], len(records) > begun[-1] + 1


def _moment(types: list[str], states: list[str], shown: str, ended: bool) -> str:
    if ended:
        return "between appends"
    what = "a fold" if "compaction" in types else "an undo" if "undo" in types else "something else"
    how = "old" if shown == states[0] else "new" if shown == states[-1] else "in part"
    return f"{what}: {how}"


@contextmanager
def campaign(home: Path, seed: int) -> Iterator[Campaign]:
    """A campaign with its own process that forks the writers."""
    script = Path(__file__).with_name("victim.py")
    command = [sys.executable, str(script)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as victim:
        try:
            yield Campaign(home, victim, seed)
        finally:
            assert victim.stdin is not None
            victim.stdin.close()
