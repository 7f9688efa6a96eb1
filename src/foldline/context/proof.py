"""The proof of past requests: the history, replayed up to the moment a request left, gives what was sent."""

import hashlib
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise

from foldline.protocol import (
    NEW,
    AssistantMessage,
    BaseMessage,
    Entry,
    RequestRecord,
    ToolResultMessage,
    dump_entry,
)

from .calls import paired
from .projection import Projection, project
from .view import extends


def digest_of(messages: Sequence[BaseMessage]) -> str:
    """SHA-256 of messages as they are sent, one canonical JSON line each."""
    return RunningDigest().of(messages)


# --- which requests there were ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    """A request that left, by its record."""

    number: int
    """Requests count from 1."""
    record: RequestRecord
    length: int
    """How many entries the history had when it left: their projection is what was sent."""


def recorded_requests(entries: Sequence[Entry]) -> list[RecordedRequest]:
    """Every request the history has a record of, in order."""
    indices = [entry.index for entry in entries]
    found: list[RecordedRequest] = []
    for position, entry in enumerate(entries):
        if isinstance(entry, RequestRecord):
            length = _left_at(entries, partial(bisect_right, indices), position, entry)
            # Requests leave one after the other; a record that says otherwise is not believed.
            length = max(length, found[-1].length) if found else length
            found.append(RecordedRequest(len(found) + 1, entry, length))
    return found


def recorded_request(projection: Projection, number: int) -> RecordedRequest:
    """The request of this number, as in `recorded_requests`; mostly looks at its own record only. Raises
    IndexError."""
    entries, asked = projection.entries, projection.requests
    length, found = 0, None
    for at in range(number - 1, -1, -1):
        position = asked[at].position
        if found is not None and length >= position:
            break  # no request before it can have left later than it was recorded
        record = entries[position]
        assert isinstance(record, RequestRecord), "what is asked of a history with records is their number"
        length = max(length, _left_at(entries, projection.count_up_to, position, record))
        found = found or record
    if found is None:
        raise IndexError(f"no request {number}")
    return RecordedRequest(number, found, length)


def _left_at(
    entries: Sequence[Entry], count_up_to: Callable[[int], int], position: int, record: RequestRecord
) -> int:
    """How many entries there were when this request left. Records of older versions do not say; there, only
    the answer came between, appended together with its record."""
    if record.after is not None:
        return min(position, count_up_to(record.after))
    before = entries[position - 1] if position else None
    answered = (
        isinstance(before, AssistantMessage) and before.index == record.index - 1 and before.at == record.at
    )
    return position - 1 if answered else position


# --- one request, proved or not ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Proof:
    """What the history gives for one request, to be held against what its record says was sent."""

    sent: RecordedRequest
    messages: Sequence[BaseMessage]
    digest: str

    @property
    def holds(self) -> bool:
        return self.digest == self.sent.record.digest and not self.surplus

    @property
    def surplus(self) -> int:
        """How many messages more than were sent the history gives; 0 where the record does not count them."""
        return len(self.messages) - self.sent.record.view_items if self.sent.record.view_items else 0

    def __str__(self) -> str:
        """Whether it holds, in words, as far as this one request shows it."""
        if self.holds:
            return "proved"
        if self.surplus:
            many = f"{len(self.messages)} message{'' if len(self.messages) == 1 else 's'}"
            were = "was" if self.sent.record.view_items == 1 else "were"
            return f"the history gives {many}, {self.sent.record.view_items} {were} sent"
        if not self.sent.record.digest:
            return "its record holds no digest of what was sent"
        return "what the history gives is not what was sent"


def prove(entries: Sequence[Entry]) -> Iterator[Proof]:
    """Each request held against the replay of the history up to it, in order, by one projection. What a
    request adds is hashed, or all of it where the view was rewritten."""
    projection, running, replayed = Projection(), RunningDigest(), 0
    for sent in recorded_requests(entries):
        for entry in entries[replayed : sent.length]:
            projection.append(entry)
        replayed = sent.length
        messages = paired(item.message for item in projection.view)
        yield Proof(sent, messages, running.of(messages))


def proof_of(sent: RecordedRequest, entries: Sequence[Entry]) -> tuple[Proof, Projection]:
    """The proof of this one request, and the projection it rests on."""
    projection = project(entries[: sent.length])
    return proof_by(sent, projection), projection


def proof_by(sent: RecordedRequest, projection: Projection) -> Proof:
    """The proof of this one request by the projection of the entries there were when it left."""
    messages = paired(item.message for item in projection.view)
    return Proof(sent, messages, digest_of(messages))


class RunningDigest:
    """Digests of requests of which most extend the one before: what was hashed is not hashed again."""

    def __init__(self) -> None:
        self._messages: Sequence[BaseMessage] = ()
        self._hash = hashlib.sha256()

    def of(self, messages: Sequence[BaseMessage]) -> str:
        """See `digest_of`."""
        known = len(self._messages)
        if not extends(self._messages, messages):
            known, self._hash = 0, hashlib.sha256()
        for message in messages[known:]:
            self._hash.update(dump_entry(message))
            self._hash.update(b"\n")
        self._messages = messages
        return self._hash.hexdigest()


# --- all of them, and what differs ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Unproved:
    """A request that the history does not prove, and what differs, in words."""

    number: int
    index: int
    """Of its record."""
    why: str

    def __str__(self) -> str:
        return f"request {self.number} (entry {self.index}): {self.why}"


@dataclass(slots=True)
class _Difference:
    """What one or more requests in a row stumble over."""

    first: Proof
    suspects: dict[int, BaseMessage]
    """By identity: messages of all these requests that no proved request held."""
    lost: str
    """The gap in the history since the last proved request, in words."""
    later: list[RecordedRequest] = field(default_factory=list)

    def explains(self, proof: Proof) -> bool:
        if self.first.surplus or proof.surplus:
            return self.first.surplus == proof.surplus
        return any(id(message) in self.suspects for message in proof.messages)

    def add(self, proof: Proof) -> None:
        self.later.append(proof.sent)
        held = {id(message) for message in proof.messages}
        self.suspects = {key: message for key, message in self.suspects.items() if key in held}


def unproved(entries: Sequence[Entry]) -> list[Unproved]:
    """The requests the history does not prove, each narrowed down to the entries that no proved request held;
    requests that only repeat the difference of an earlier one say so."""
    innocent: dict[int, BaseMessage] = {}
    found: list[_Difference] = []
    proved_up_to = 0
    for proof in prove(entries):
        if proof.holds:
            innocent |= {id(message): message for message in proof.messages}
            proved_up_to = proof.sent.length
        elif found and found[-1].explains(proof):
            found[-1].add(proof)
        else:
            suspects = {id(message): message for message in _said(proof.messages)}
            # The entry after it, too: what was lost may be the last thing before the request left.
            since = [entry.index for entry in entries[max(0, proved_up_to - 1) : proof.sent.length + 1]]
            lost = _lost(since if proved_up_to else [NEW, *since])
            found.append(_Difference(proof, suspects, lost))
    return [failure for difference in found for failure in _told(difference, innocent)]


def _told(difference: _Difference, innocent: dict[int, BaseMessage]) -> Iterator[Unproved]:
    first = difference.first
    why = str(first)
    suspects = {message.index for key, message in difference.suspects.items() if key not in innocent}
    if not first.surplus and first.sent.record.digest and suspects:
        why = f"{_one_of(sorted(suspects))} is not as it was sent"
    yield Unproved(first.sent.number, first.sent.record.index, why + difference.lost)
    for sent in difference.later:
        why = f"the same difference as in request {first.sent.number}"
        yield Unproved(sent.number, sent.record.index, why)


def _said(messages: Sequence[BaseMessage]) -> Iterator[BaseMessage]:
    callers = {message.index for message in messages if isinstance(message, AssistantMessage)}
    for message in messages:
        if not (isinstance(message, ToolResultMessage) and message.index in callers):
            yield message


def _one_of(indices: Sequence[int]) -> str:
    if len(indices) == 1:
        return f"entry {indices[0]}"
    if len(indices) <= 4:
        return f"one of the entries {', '.join(map(str, indices[:-1]))} and {indices[-1]}"
    return f"one of {len(indices)} entries from {indices[0]} to {indices[-1]}"


def _lost(indices: Sequence[int]) -> str:
    gaps = [(one + 1, other - 1) for one, other in pairwise(indices)]
    spans = [str(first) if first == last else f"{first}–{last}" for first, last in gaps if first <= last]
    if not spans:
        return ""
    shown = spans if len(spans) <= 3 else [*spans[:3], "…"]
    return f"; missing from the history before it: {', '.join(shown)}"
