"""Campaigns of `kill -9`: a real process writes to a real session and is killed at a random moment, again
and again.

What is found is held against a journal the writer kept: an append that had ended is there, one that was
under way is there up to some entry, and the view is the one these entries give. Now and then the power goes,
too: of what no sync had confirmed, a piece is missing, or is NULs. Sessions go on, so damage adds up.
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

from foldline.context.calls import paired
from foldline.context.invariants import broken
from foldline.context.projection import Projection
from foldline.context.proof import digest_of
from foldline.history import EVENTS, Meta, Session, parse_log, session_dir
from foldline.protocol import Compaction, NoticeRecord, SessionHeader, dump_entry
from foldline.protocol.messages import Entry
from support.history import history

JOURNAL = "journal"
"""The file beside the session in which a writer says what it does."""
LONGEST = 0.15
"""Seconds a writer lives at most: it opens the session and takes a few dozen steps in them."""
AIMED = 0.5
"""Share of the kills that wait for an append to begin: left to chance alone, one in twelve hits one."""
AN_APPEND = 0.0015
"""Seconds an append takes, roughly, with its sync."""
POWER_CUTS = 0.5
"""Share of the kills that are a power cut, where something was not synced."""
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


def opened(folder: Path) -> Session:
    """The session as large ones are opened: with an index beside it, small as it is."""
    return Session.open(folder, index_from=0)


def fingerprint(entry: Entry) -> str:
    return hashlib.sha256(dump_entry(entry)).hexdigest()


@dataclass
class Found:
    """What the rounds of a campaign came upon."""

    rounds: int = 0
    folds: int = 0
    """In the sessions, together."""
    moments: Counter[str] = field(default_factory=Counter)
    """`between appends`; else what was being written, and how far it came: `old`, `new` or `in part`."""
    torn: int = 0
    """Records cut off."""
    power_cuts: int = 0
    """Kills that took with them a piece of what was not synced."""
    most_damage: int = 0
    """Damaged records of the one session that had most."""


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
            before = opened(folder)
            (folder / JOURNAL).unlink(missing_ok=True)
            self._kill(folder, number)
            journal = _read_journal(folder / JOURNAL)
            cut = self._chance.random() < POWER_CUTS and self._lose_power(folder / EVENTS, journal, before)
            await self._check(folder, before, journal, cut)
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

    def _lose_power(self, events: Path, journal: "Journal", before: Session) -> bool:
        """Take away some of what no sync has confirmed; whether there was any."""
        size = events.stat().st_size
        safe = journal.safe or before.meta().size
        if size <= safe:
            return False
        kept = events.read_bytes()[: self._chance.randint(safe, size - 1)]
        events.write_bytes(kept + bytes(self._chance.choice([0, 0, 7, size - len(kept)])))
        self.found.power_cuts += 1
        return True

    async def _check(self, folder: Path, before: Session, journal: "Journal", cut: bool) -> None:
        session = opened(folder)
        entries = list(session.entries)
        assert entries == parse_log((folder / EVENTS).read_bytes(), folder).entries, (
            "what opens quickly differs"
        )
        assert entries[: len(before.entries)] == list(before.entries)
        new = entries[len(before.entries) :]
        count = len(new)
        assert [fingerprint(entry) for entry in new] == journal.entries[:count], "not what was written"
        assert count >= (journal.synced if cut else journal.acknowledged), "lost what was on disk"
        assert broken(session.projection) == []
        torn = session.damage.count - before.damage.count
        assert torn in (0, 1), session.damage
        states = [*states_of(before), *journal.states]
        assert states_of(session) == states[count : count + 1], f"not the state after {count} new entries"
        if "compaction" in journal.types and not cut:
            sent = states_of(session)[0][1]
            old, new_one = states[journal.acknowledged_before][1], states[-1][1]
            assert sent in (old, new_one), "neither the old request nor the new one"
        _check_snapshot(session, folder)
        self.found.torn += torn
        self.found.most_damage = max(self.found.most_damage, session.damage.count)
        self.found.folds += sum(isinstance(entry, Compaction) for entry in new)
        self.found.moments["a power cut" if cut else _moment(journal, count)] += 1
        # It goes on: no lock is left, nothing is lost by it, and what is appended is there for the next one.
        [notice] = await session.append(NoticeRecord(text="killed, and opened again"))
        session.close()
        assert list(opened(folder).entries) == [*entries, notice]


def _check_snapshot(session: Session, folder: Path) -> None:
    """The snapshot for lists is whole; where it claims to be current, it says what the history says."""
    snapshot = folder / "meta.json"
    if snapshot.exists():
        meta = Meta.model_validate_json(snapshot.read_bytes())
        now = session.meta()
        assert meta.size != now.size or session.damage or meta == now


@dataclass(frozen=True)
class Journal:
    """What the writer said it did, up to its end."""

    entries: list[str]
    """Fingerprints of all it set out to write."""
    states: list[tuple[str, str]]
    """The state after each of them."""
    types: list[str]
    """What the newest append was of."""
    acknowledged: int
    """How many entries were written before the end, whatever became of the newest append."""
    acknowledged_before: int
    """How many before the newest append."""
    synced: int
    """How many the disk had confirmed."""
    safe: int
    """Bytes of the file then; 0 where no append was confirmed."""


def _read_journal(path: Path) -> Journal:
    """What it says; a failure it speaks of fails the test."""
    lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
    records: list[dict[str, Any]] = [json.loads(line) for line in lines]
    failures = [record["failed"] for record in records if "failed" in record]
    assert not failures, failures
    entries: list[str] = []
    states: list[tuple[str, str]] = []
    types: list[str] = []
    acknowledged = before = synced = safe = 0
    for record in records:
        if "types" in record:
            before, types = len(entries), record["types"]
            entries += record["entries"]
            states += [(shown, sent) for shown, sent in record["states"][1:]]
            continue
        acknowledged = len(entries)
        if record["size"] is not None:
            synced, safe = acknowledged, record["size"]
    return Journal(entries, states, types, acknowledged, before, synced, safe)


def _moment(journal: Journal, count: int) -> str:
    if journal.acknowledged == len(journal.entries):
        return "between appends"
    what = next((WHAT[kind] for kind in journal.types if kind in WHAT), "something else")
    old, new = count == journal.acknowledged, count == len(journal.entries)
    return f"{what}: {'old' if old else 'new' if new else 'in part'}"


WHAT = {
    "compaction": "a fold",
    "undo": "an undo",
    "tool_result": "a tool result",
    "user": "a prompt",
    "assistant": "an answer",
}


@contextmanager
def campaign(home: Path, seed: int) -> Iterator[Campaign]:
    """A campaign with its own process that forks the writers."""
    script = Path(__file__).with_name("victim.py")
    command = [sys.executable, "-P", str(script)]  # its neighbours are no modules of its own
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as victim:
        try:
            yield Campaign(home, victim, seed)
        finally:
            assert victim.stdin is not None
            victim.stdin.close()
