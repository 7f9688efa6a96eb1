"""Writer for pi, layout 3: a tree of records whose last one is the tip of the branch in use.

What the model sees of it follows from pi's own rule: the newest compaction on the way from the root to the
tip says its summary, then every message from its first kept record on. Where a fold kept others, they are
said again behind it. Any other view (after an undo, with a hidden result) is a branch: back to where the view
was still the same, and on from there.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from foldline.context.view import is_preamble, is_summary
from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    Compaction,
    Entry,
    ModelChange,
    SessionHeader,
    Title,
)

from ..base import Json
from ..writing import Exported, Original
from .following import Beside, Grown, Turned, common_start, follow, left_out, record_line, same
from .pi_records import PROVIDER, Speaker, compaction_record, iso


def write_pi(original: Original) -> Exported:
    """A session file of pi. The system prompt and instruction files, of which pi has its own, are kept in
    records that its model never sees.
    """
    writer = _Writer(original.header)
    for change in follow(original.entries):
        match change:
            case Grown(message):
                writer.add(message)
            case Turned(view, fold):
                writer.turn(view, fold)
            case Beside(entry):
                writer.beside(entry)
    writer.finish()
    name = f"{original.header.id}.jsonl"
    notes = (*left_out(writer.left_out, "pi"), *writer.notes())
    return Exported({name: b"".join(writer.lines)}, name, notes)


@dataclass(frozen=True, slots=True)
class _Node:
    """A record on the branch in use."""

    id: str
    message: BaseMessage | None = None
    """What it says to the model; of a compaction, the summary."""
    first_kept: int | None = None
    """Of a compaction: the place on the branch of the first record that it keeps."""


@dataclass
class _Writer:
    """The records written so far, and the branch in use."""

    header: SessionHeader
    left_out: list[Entry] = field(default_factory=list)
    lines: list[bytes] = field(default_factory=list)
    _branch: list[_Node] = field(default_factory=list)
    _speaker: Speaker = field(default_factory=Speaker)
    _newest: str | None = None
    """The id of the last record in the file."""
    _at: datetime | None = None
    _preamble: int = 0
    _changes: int = 0

    def __post_init__(self) -> None:
        self._at = self.header.created_at
        self.lines.append(
            record_line(
                {
                    "type": "session",
                    "version": 3,
                    "id": self.header.id,
                    "timestamp": iso(self.header.created_at),
                    "cwd": self.header.cwd,
                }
            )
        )

    def notes(self) -> list[str]:
        notes = self._speaker.notes()
        if self._preamble:
            many = "1 message" if self._preamble == 1 else f"{self._preamble} messages"
            notes.append(
                f"pi brings its own system prompt: {many} of prompt and instructions will not be in its view."
            )
        if self._changes:
            times = "once" if self._changes == 1 else f"{self._changes} times"
            notes.append(
                f"The view changed {times} in a way that pi has no record for: what it kept is said again."
            )
        return notes

    def finish(self) -> None:
        """Make the last record of the file the tip, where the view ended on an earlier one."""
        tip = self._branch[-1].id if self._branch else None
        if self._newest != tip:
            self._write("custom", {"customType": "foldline.branch"})

    # --- what happens ------------------------------------------------------------------------------

    def beside(self, entry: Entry) -> None:
        match entry:
            case ModelChange():
                self._speaker.provider = entry.provider or PROVIDER
                record = {"provider": self._speaker.provider, "modelId": entry.model}
                self._write("model_change", record, at=entry.at)
            case Title():
                self._write("session_info", {"name": entry.title}, at=entry.at)
            case BaseMessage() if is_preamble(entry):
                self._preamble += 1
                data = {"role": entry.type, "text": entry.text}
                self._write("custom", {"customType": "foldline.preamble", "data": data}, at=entry.at)
            case AssistantMessage(stop_reason="cancelled" | "error"):
                self._write(*self._speaker.broken_off(entry, entry.at or self._at), at=entry.at)
            case _:
                self.left_out.append(entry)

    def add(self, message: BaseMessage, *, again: bool = False) -> None:
        """One more message at the end. Said `again`, it reports no usage: that was of another view."""
        kind, record = self._speaker.record(message, again=again, at=message.at or self._at)
        self._write(kind, record, message=message, at=message.at)

    def turn(self, view: Sequence[BaseMessage], fold: Compaction | None) -> None:
        """Make the view of the tip this one: by going on, by a compaction, or on a new branch."""
        place, known = self._shared(view)
        if not known and view and is_summary(view[0]):
            known = self._fold(view, fold)
        elif place < len(self._branch):
            self._branch = self._branch[:place]
            self._changes += 1
        self._say_again(view[known:])

    def _say_again(self, messages: Sequence[BaseMessage]) -> None:
        for message in messages:
            self.add(message, again=True)

    # --- the branch --------------------------------------------------------------------------------

    def _shared(self, view: Sequence[BaseMessage]) -> tuple[int, int]:
        """Up to how many of its records the branch gives a view that begins this one, and how many of its
        messages that is.
        """
        folds = [place for place, node in enumerate(self._branch) if node.first_kept is not None]
        best = (0, 0)
        for fold, end in zip([None, *folds], [*folds, len(self._branch)], strict=True):
            start = [] if fold is None else self._view_at(fold)
            if common_start(start, view) < len(start):
                continue
            place, known = 0 if fold is None else fold + 1, len(start)
            for node in self._branch[place:end]:
                if node.message is not None:
                    if known == len(view) or not same(node.message, view[known]):
                        break
                    known += 1
                place += 1
            if known >= best[1]:
                best = (place, known)
        return best

    def _view_at(self, fold: int) -> list[BaseMessage]:
        """The view that the compaction at this place gives."""
        node = self._branch[fold]
        kept = self._branch[node.first_kept : fold]
        said = [each.message for each in kept if each.first_kept is None and each.message is not None]
        return [*([node.message] if node.message is not None else []), *said]

    def _kept_by_a_fold(self, view: Sequence[BaseMessage]) -> int | None:
        """The place on the branch from which a compaction gives this view; None where none does."""
        place = len(self._branch)
        for message in reversed(view[1:]):
            place -= 1
            while place >= 0 and not self._says_something(place):
                place -= 1
            said = self._branch[place].message if place >= 0 else None
            if said is None or not same(said, message):
                return None
        return place

    def _says_something(self, place: int) -> bool:
        node = self._branch[place]
        return node.message is not None and node.first_kept is None

    def _fold(self, view: Sequence[BaseMessage], fold: Compaction | None) -> int:
        """A compaction; how many messages of the view it gives. Where that is not all of them, it keeps none:
        then it names a record that says nothing.
        """
        summary, kept = view[0], self._kept_by_a_fold(view)
        given = 1 if kept is None else len(view)
        self._changes += given < len(view)
        if kept is None or kept == len(self._branch):
            kept = len(self._branch)
            self._write("custom", {"customType": "foldline.cut"}, at=summary.at)
        record = compaction_record(summary, fold, self._branch[kept].id)
        self._write("compaction", record, message=summary, at=summary.at or (fold.at if fold else None))
        self._branch[-1] = _Node(self._branch[-1].id, summary, kept)
        return given

    def _write(
        self,
        kind: str,
        record: dict[str, Json],
        *,
        message: BaseMessage | None = None,
        at: datetime | None = None,
    ) -> None:
        """The next record of the branch. A record without a time has that of the one before."""
        self._at = at or self._at
        parent = self._branch[-1].id if self._branch else None
        node = _Node(f"{len(self.lines):08x}", message)
        head = {"type": kind, "id": node.id, "parentId": parent, "timestamp": iso(self._at)}
        self.lines.append(record_line({**head, **record}))
        self._branch.append(node)
        self._newest = node.id
