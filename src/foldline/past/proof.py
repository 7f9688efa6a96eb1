"""Proves what past requests contained.

Replaying the history up to a request must reproduce the messages that were sent.
"""

import hashlib
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
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
from foldline.view.calls import paired
from foldline.view.items import Messages, extends
from foldline.view.projection import Projection, project

NOT_AS_SENT = "the history does not give what was sent"
NO_DIGEST = "the record has no digest of the messages that were sent"
CHANGED_SINCE_SENT = "{} has changed since it was sent"
SAME_DIFFERENCE = "the same difference as in request {}"
MISSING_BEFORE = "; missing from the history before it: {}"


def digest_of(messages: Messages) -> str:
    """Return the SHA-256 of the messages, each serialised as one line of canonical JSON."""
    return RunningDigest().of(messages)


# --- recorded requests --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    """A sent request, as described by its record."""

    number: int
    """Number of the request, counted from 1."""
    record: RequestRecord
    length: int
    """Number of entries when the request was sent. Their projection is the view that was sent."""


def recorded_requests(entries: Sequence[Entry]) -> list[RecordedRequest]:
    """Return all recorded requests, in order."""
    indices = [entry.index for entry in entries]
    requests: list[RecordedRequest] = []
    for position, entry in enumerate(entries):
        if isinstance(entry, RequestRecord):
            length = _length_when_sent(
                entries, partial(bisect_right, indices), position, entry
            )
            # Requests are sent one after the other, whatever their records say.
            if requests:
                length = max(length, requests[-1].length)
            requests.append(RecordedRequest(len(requests) + 1, entry, length))
    return requests


def recorded_request(projection: Projection, number: int) -> RecordedRequest:
    """Return the recorded request with this number.

    Usually, only the record of this request is read.

    Raises:
        IndexError: there is no such request.
    """
    entries = projection.entries
    requests = projection.meter.requests
    length = 0
    own_record: RequestRecord | None = None
    for at in range(number - 1, -1, -1):
        position = requests[at].position
        if own_record is not None and length >= position:
            break  # no earlier request can have been sent after this one was recorded
        record = entries[position]
        assert isinstance(record, RequestRecord), (
            "only histories with records have recorded requests"
        )
        length = max(
            length, _length_when_sent(entries, projection.count_up_to, position, record)
        )
        own_record = own_record or record
    if own_record is None:
        raise IndexError(f"no request {number}")
    return RecordedRequest(number, own_record, length)


def _length_when_sent(
    entries: Sequence[Entry],
    count_up_to: Callable[[int], int],
    position: int,
    record: RequestRecord,
) -> int:
    """Return the length of the history when this request was sent.

    Records written by older versions do not contain the length. In those versions, only the answer was
    appended in between, together with the record.
    """
    if record.after is not None:
        return min(position, count_up_to(record.after))
    before = entries[position - 1] if position else None
    if isinstance(before, AssistantMessage) and (before.index, before.at) == (
        record.index - 1,
        record.at,
    ):
        return position - 1
    return position


# --- proof of one request -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Proof:
    """The messages of a request according to the history, for comparison with the request's record."""

    request: RecordedRequest
    messages: Messages
    digest: str

    @property
    def holds(self) -> bool:
        return self.digest == self.request.record.digest and not self.surplus

    @property
    def surplus(self) -> int:
        """Number of messages beyond those that were sent.

        0 if the record does not state the number of messages.
        """
        items_sent = self.request.record.view_items
        return len(self.messages) - items_sent if items_sent else 0

    def __str__(self) -> str:
        """Return the result for this request in words."""
        if self.holds:
            return "proved"
        items_sent = self.request.record.view_items
        if self.surplus:
            many = (
                f"{len(self.messages)} message{'' if len(self.messages) == 1 else 's'}"
            )
            were = "was" if items_sent == 1 else "were"
            return f"the history gives {many}, but {items_sent} {were} sent"
        return NOT_AS_SENT if self.request.record.digest else NO_DIGEST


def prove(entries: Sequence[Entry]) -> Iterator[Proof]:
    """Compare each request with a replay of the history up to that request.

    All requests share one projection. Only the new messages of a request are hashed, or all of its messages
    if the view was rewritten.
    """
    projection = Projection()
    digest = RunningDigest()
    replayed = 0
    for request in recorded_requests(entries):
        for entry in entries[replayed : request.length]:
            projection.append(entry)
        replayed = request.length
        messages = paired(item.message for item in projection.view)
        yield Proof(request, messages, digest.of(messages))


def proof_of(
    request: RecordedRequest, entries: Sequence[Entry]
) -> tuple[Proof, Projection]:
    """Return the proof of one request, and the projection used for it."""
    projection = project(entries[: request.length])
    return proof_by(request, projection), projection


def proof_by(request: RecordedRequest, projection: Projection) -> Proof:
    """Return the proof of one request, based on a projection.

    Args:
        projection: the projection of the entries before the request was sent.
    """
    messages = paired(item.message for item in projection.view)
    return Proof(request, messages, digest_of(messages))


class RunningDigest:
    """Computes the digests of requests.

    If a request extends the previous one, only the new messages are hashed.
    """

    def __init__(self) -> None:
        self._messages: Messages = ()
        self._hash = hashlib.sha256()

    def of(self, messages: Messages) -> str:
        """Return the digest of the messages; see `digest_of`."""
        start = len(self._messages)
        if not extends(self._messages, messages):
            start = 0
            self._hash = hashlib.sha256()
        for message in messages[start:]:
            self._hash.update(dump_entry(message))
            self._hash.update(b"\n")
        self._messages = messages
        return self._hash.hexdigest()


# --- failures of all requests ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Unproved:
    """A request that the history does not prove, with a description of the difference."""

    number: int
    index: int
    """Index of the request's record."""
    why: str

    def __str__(self) -> str:
        return f"request {self.number} (entry {self.index}): {self.why}"


_Suspects = Mapping[int, BaseMessage]
"""Messages that may have changed since they were sent, by object identity."""


def unproved(entries: Sequence[Entry]) -> list[Unproved]:
    """Return the requests that the history does not prove.

    Each is returned with the entries that may be the cause. If a request fails for the same reason as an
    earlier one, it only refers to the earlier one.
    """
    innocent: dict[int, BaseMessage] = {}
    """Messages of proved requests, by object identity."""
    failures: list[tuple[Proof, str]] = []
    proved_up_to = 0
    for proof in prove(entries):
        if proof.holds:
            innocent |= {id(message): message for message in proof.messages}
            proved_up_to = proof.request.length
        else:
            failures.append((proof, _gap_words(entries, proved_up_to, proof)))
    reports: list[Unproved] = []
    first: Proof | None = None
    suspects: _Suspects = {}
    for proof, gap_words in failures:
        own_suspects = {
            id(message): message
            for message in _recorded_messages(proof.messages)
            if id(message) not in innocent
        }
        if first is not None and _fails_like(proof, own_suspects, first, suspects):
            reason = SAME_DIFFERENCE.format(first.request.number)
        else:
            first = proof
            suspects = own_suspects
            reason = _reason(proof, suspects.values()) + gap_words
        request = proof.request
        reports.append(Unproved(request.number, request.record.index, reason))
    return reports


def _fails_like(
    proof: Proof, own_suspects: _Suspects, first: Proof, suspects: _Suspects
) -> bool:
    """Return whether a request may fail for the same reason as the first of its failures."""
    if first.surplus or proof.surplus:
        return first.surplus == proof.surplus
    return not own_suspects.keys().isdisjoint(suspects)


def _reason(proof: Proof, suspects: Collection[BaseMessage]) -> str:
    if suspects and proof.request.record.digest and not proof.surplus:
        indices = sorted({message.index for message in suspects})
        return CHANGED_SINCE_SENT.format(_one_of(indices))
    return str(proof)


def _recorded_messages(messages: Messages) -> Iterator[BaseMessage]:
    """Yield the messages, leaving out the results added by `paired`.

    An added result has the same index as its call.
    """
    callers = {
        message.index for message in messages if isinstance(message, AssistantMessage)
    }
    for message in messages:
        if not (isinstance(message, ToolResultMessage) and message.index in callers):
            yield message


def _one_of(indices: Sequence[int]) -> str:
    if len(indices) == 1:
        return f"entry {indices[0]}"
    if len(indices) <= 4:
        return (
            f"one of the entries {', '.join(map(str, indices[:-1]))} and {indices[-1]}"
        )
    return f"one of {len(indices)} entries from {indices[0]} to {indices[-1]}"


def _gap_words(entries: Sequence[Entry], proved_up_to: int, proof: Proof) -> str:
    """Describe the entries that are missing since the last proved request."""
    # Includes the next entry: the last entry before the request was sent may be missing.
    since = entries[max(0, proved_up_to - 1) : proof.request.length + 1]
    indices = [entry.index for entry in since]
    if not proved_up_to:
        indices.insert(0, NEW)
    spans: list[str] = []
    for before, after in pairwise(indices):
        if after - before == 2:
            spans.append(str(before + 1))
        elif after - before > 2:
            spans.append(f"{before + 1}–{after - 1}")
    if not spans:
        return ""
    shown = spans if len(spans) <= 3 else [*spans[:3], "…"]
    return MISSING_BEFORE.format(", ".join(shown))
