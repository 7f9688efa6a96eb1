"""Campaigns of `kill -9` at random moments of a writing process.

The session is checked against the writer's journal: a completed append is there, an interrupted one is there
up to some entry, and the view is the projection of these entries. Some rounds also simulate a power cut: part
of the unsynced bytes is missing or NUL. A session lives through many rounds, so damage adds up.
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

from foldline.history import EVENTS, Meta, Session, parse_log, session_dir
from foldline.past.proof import digest_of
from foldline.protocol import Compaction, NoticeRecord, SessionHeader, dump_entry
from foldline.protocol.messages import Entry
from foldline.view.calls import paired
from foldline.view.projection import Projection
from foldline.view.rules import broken
from support.history import history

JOURNAL = "journal"
"""The writer's journal, next to the session."""
LONGEST = 0.15
"""Longest life of a writer in seconds: enough to open the session and take a few dozen steps."""
AIMED = 0.5
"""Share of the kills that wait for an append to begin: at random, only one in twelve hits one."""
AN_APPEND = 0.0015
"""Approximate seconds of an append with its sync."""
POWER_CUTS = 0.5
"""Share of the kills with a power cut, if some bytes were not synced."""
FRESH_EVERY = 25
"""Rounds per session: long sessions open slowly and test nothing new."""


def states_of(session: Session, coming: Sequence[Entry] = ()) -> list[tuple[str, str]]:
    """Return digests of the view now and after each of these entries.

    Two digests per state: of the projection, and of the next request.
    """
    futures = (
        session.projection.with_entries(*coming[:count])
        for count in range(1, len(coming) + 1)
    )
    return [_state(projection) for projection in (session.projection, *futures)]


def _state(projection: Projection) -> tuple[str, str]:
    view_digest = hashlib.sha256()
    for item in projection.view:
        view_digest.update(
            f"{item.message.model_dump_json()}{item.fate}{item.pinned}{item.written}{item.covers}\n".encode()
        )
    return view_digest.hexdigest(), digest_of(
        paired(item.message for item in projection.view)
    )


def open_indexed(folder: Path) -> Session:
    """Open the session with an index, as large ones are."""
    return Session.open(folder, cache_from=0)


def fingerprint(entry: Entry) -> str:
    return hashlib.sha256(dump_entry(entry)).hexdigest()


@dataclass
class CampaignStats:
    """Statistics of a campaign."""

    rounds: int = 0
    compactions: int = 0
    """Entries of all sessions."""
    moments: Counter[str] = field(default_factory=Counter)
    """Kills by moment: `between appends`, or the entry being written and its state: `old`, `new` or `in
    part`.
    """
    torn: int = 0
    """Truncated records."""
    power_cuts: int = 0
    """Kills that lost some unsynced bytes."""
    most_damage: int = 0
    """Damaged records of the session with the most of them."""


class Campaign:
    """Rounds of work and kills on sessions below `home`."""

    def __init__(self, home: Path, victim: "subprocess.Popen[str]", seed: int) -> None:
        self._home = home
        self._victim = victim
        self._chance = random.Random(seed)
        self._seed = seed
        self.found = CampaignStats()

    async def run(self, rounds: int) -> CampaignStats:
        for number in range(rounds):
            if number % FRESH_EVERY == 0:
                folder = await self._begun(f"s{number}")
            before = open_indexed(folder)
            (folder / JOURNAL).unlink(missing_ok=True)
            self._kill(folder, number)
            journal = _read_journal(folder / JOURNAL)
            cut = self._chance.random() < POWER_CUTS and self._lose_power(
                folder / EVENTS, journal, before
            )
            await self._check(folder, before, journal, cut)
            self.found.rounds += 1
        return self.found

    async def _begun(self, name: str) -> Path:
        """Create a session with something to compact."""
        built = history().system("You are a coding agent.")
        for n in range(5):
            built = built.turn(
                f"Remember number {n}. " * 100, f"Number {n} it is. " * 50
            )
        header = SessionHeader(
            id=name, created_at=datetime(2026, 1, 2, tzinfo=UTC), cwd=str(self._home)
        )
        session = await Session.from_entries(header, built.entries).copy(
            home=self._home, session_id=name
        )
        session.close()
        return session_dir(self._home, self._home, name)

    def _kill(self, folder: Path, number: int) -> None:
        seconds = self._chance.uniform(0, LONGEST)
        aimed = (
            self._chance.uniform(0, AN_APPEND)
            if self._chance.random() < AIMED
            else None
        )
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
        assert status == signal.SIGKILL, (
            f"round {number}: the writer ended by itself (status {status})"
        )

    def _lose_power(self, events: Path, journal: "Journal", before: Session) -> bool:
        """Remove or zero some unsynced bytes; return whether there were any."""
        size = events.stat().st_size
        safe = journal.safe or before.meta().size
        if size <= safe:
            return False
        remaining = events.read_bytes()[: self._chance.randint(safe, size - 1)]
        events.write_bytes(
            remaining + bytes(self._chance.choice([0, 0, 7, size - len(remaining)]))
        )
        self.found.power_cuts += 1
        return True

    async def _check(
        self, folder: Path, before: Session, journal: "Journal", cut: bool
    ) -> None:
        session = open_indexed(folder)
        entries = list(session.entries)
        assert entries == parse_log((folder / EVENTS).read_bytes(), folder).entries, (
            "what opens quickly differs"
        )
        assert entries[: len(before.entries)] == list(before.entries)
        new = entries[len(before.entries) :]
        count = len(new)
        assert [fingerprint(entry) for entry in new] == journal.entries[:count], (
            "not what was written"
        )
        assert count >= (journal.synced if cut else journal.acknowledged), (
            "lost what was on disk"
        )
        assert broken(session.projection) == []
        torn = session.damage.count - before.damage.count
        assert torn in (0, 1), session.damage
        states = [*states_of(before), *journal.states]
        assert states_of(session) == states[count : count + 1], (
            f"not the state after {count} new entries"
        )
        if "compaction" in journal.types and not cut:
            sent = states_of(session)[0][1]
            old, new_one = states[journal.acknowledged_before][1], states[-1][1]
            assert sent in (old, new_one), "neither the old request nor the new one"
        _check_snapshot(session, folder)
        self.found.torn += torn
        self.found.most_damage = max(self.found.most_damage, session.damage.count)
        self.found.compactions += sum(isinstance(entry, Compaction) for entry in new)
        self.found.moments["a power cut" if cut else _moment(journal, count)] += 1
        # The session is still usable: no lock is left, nothing else is lost, and a new append survives.
        [notice] = await session.append(NoticeRecord(text="killed, and opened again"))
        session.close()
        assert list(open_indexed(folder).entries) == [*entries, notice]


def _check_snapshot(session: Session, folder: Path) -> None:
    """Check that the list snapshot is complete, and correct if it claims to be current."""
    snapshot = folder / "meta.json"
    if snapshot.exists():
        meta = Meta.model_validate_json(snapshot.read_bytes())
        now = session.meta()
        assert meta.size != now.size or session.damage or meta == now


@dataclass(frozen=True)
class Journal:
    """The writer's journal up to its end."""

    entries: list[str]
    """Fingerprints of all entries to be written."""
    states: list[tuple[str, str]]
    """The state after each entry."""
    types: list[str]
    """The kind of the newest append."""
    acknowledged: int
    """Entries to be written up to the end, including the newest append."""
    acknowledged_before: int
    """Entries before the newest append."""
    synced: int
    """Entries confirmed by a sync."""
    safe: int
    """File size at that sync; 0 without one."""


def _read_journal(path: Path) -> Journal:
    """Read a journal; fail the test if it contains an error."""
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
            states += [
                (view_digest, sent) for view_digest, sent in record["states"][1:]
            ]
            continue
        acknowledged = len(entries)
        if record["size"] is not None:
            synced, safe = acknowledged, record["size"]
    return Journal(entries, states, types, acknowledged, before, synced, safe)


def _moment(journal: Journal, count: int) -> str:
    if journal.acknowledged == len(journal.entries):
        return "between appends"
    what = next(
        (WHAT[kind] for kind in journal.types if kind in WHAT), "something else"
    )
    if count == journal.acknowledged:
        return f"{what}: old"
    if count == len(journal.entries):
        return f"{what}: new"
    return f"{what}: in part"


WHAT = {
    "compaction": "a compaction",
    "undo": "an undo",
    "tool_result": "a tool result",
    "user": "a prompt",
    "assistant": "an answer",
}


@contextmanager
def campaign(home: Path, seed: int) -> Iterator[Campaign]:
    """Start a campaign with a process that forks its writers."""
    script = Path(__file__).with_name("victim.py")
    command = [
        sys.executable,
        "-P",
        str(script),
    ]  # do not import its neighbours by accident
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as victim:
        try:
            yield Campaign(home, victim, seed)
        finally:
            assert victim.stdin is not None
            victim.stdin.close()
