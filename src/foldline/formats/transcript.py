"""Entries as a reader gathers them, with what the other agent's model has before it at each moment."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    Checkpoint,
    Clear,
    Compaction,
    Edit,
    Entry,
    Kept,
    Part,
    Revert,
    ThinkingPart,
    ToolResultMessage,
    UserMessage,
)

from .foreign_view import ForeignView, Moment

_SNAPSHOT = "<state_snapshot>"
"""What Gemini CLI and Qwen Code ask their models to put around a summary."""


@dataclass
class Transcript:
    """Entries in index order. An index counts entries: a record of another agent may be several of ours."""

    entries: list[Entry] = field(default_factory=list)
    view: ForeignView = field(default_factory=ForeignView)
    _moments: list[Moment] = field(default_factory=list)
    """The view at each checkpoint, by its id."""
    _results: dict[str, list[int]] = field(default_factory=dict)
    """By call: the results so far."""

    def add(self, entry: Entry, at: datetime | None = None) -> int:
        index = len(self.entries)
        entry = entry.model_copy(update={"index": index, "at": at})
        self.entries.append(entry)
        if isinstance(entry, BaseMessage):
            self.view.add(entry)
        if isinstance(entry, ToolResultMessage):
            self._results.setdefault(entry.call_id, []).append(index)
        return index

    def is_answered(self, call_id: str) -> bool:
        return call_id in self._results

    def drop(self, index: int, at: datetime | None = None) -> None:
        """Take a message out of the model's context; a call takes its results along."""
        self.add(Edit(target=index, action="drop"), at)
        entry = self.entries[index]
        calls = [call.call_id for call in entry.calls] if isinstance(entry, AssistantMessage) else []
        gone = {index, *(result for call in calls for result in self._results.get(call, ()))}
        self.view.messages = [place for place in self.view.messages if place not in gone]

    def checkpoint(self, at: datetime | None = None) -> int:
        """A place that the session comes back to; its id."""
        self._moments.append(self.view.moment())
        self.add(Checkpoint(id=len(self._moments) - 1), at)
        return len(self._moments) - 1

    def go_back_to(self, checkpoint: int, at: datetime | None = None) -> None:
        self.add(Revert(checkpoint=checkpoint), at)
        self.view.go_back_to(self._moments[checkpoint])

    def clear(self, at: datetime | None = None) -> None:
        self.add(Clear(), at)
        self.view.clear()

    # --- a context that the file lists anew ----------------------------------------------------------

    def relist(
        self,
        context: Sequence[int | BaseMessage],
        at: datetime | None,
        *,
        strategy: str,
        tokens_before: int = 0,
    ) -> None:
        """From here on the model's context is this list: of entries, or messages as they are to be.

        A message that the history holds is that entry; a result that says something else now replaces its
        text. Of what is new, the summary stands for what is gone, and the rest joins the history.
        """
        known = self._known()
        found = [known.take(piece) if isinstance(piece, BaseMessage) else piece for piece in context]
        new = [piece for piece, index in zip(context, found, strict=True) if index is None]
        summary = _summary(new, self.view.fold.summary if self.view.fold else "")
        ahead: list[int] = []
        kept: list[int] = []
        place = kept if summary is None else ahead
        results = self.view.results()
        renewed: set[str] = set()
        listed: set[int] = set()
        texts: dict[int, str] = {}
        for piece, index in zip(context, found, strict=True):
            match piece:
                case UserMessage() if piece is summary:
                    place = kept
                    continue
                case ToolResultMessage() if piece.call_id in self._results and piece.call_id not in renewed:
                    index = self._results[piece.call_id][-1]
                    if piece.text != self._text(index):
                        texts[index] = piece.text
                case AssistantMessage() if index is None:
                    renewed |= {call.call_id for call in piece.calls}
            if index is None:
                assert isinstance(piece, BaseMessage), "a place is known"
                index = self.add(piece, at)
            here = [one for one in (index, *results.get(index, ())) if one not in listed]
            place += here
            listed.update(here)
        stands = summary is not None and self.view.fold is not None and summary.text == self.view.fold.summary
        if [*ahead, *kept] != self.view.messages or stands == (summary is None):
            parts: tuple[Part, ...] = summary.parts if summary else ()
            self.add(
                self.view.folded(
                    len(self.entries),
                    parts,
                    kept,
                    ahead=ahead,
                    strategy=strategy,
                    tokens_before=tokens_before,
                ),
                at,
            )
        self._shorten(texts, strategy, at)

    def _text(self, index: int) -> str:
        entry = self.entries[index]
        return entry.text if isinstance(entry, BaseMessage) else ""

    def _shorten(self, texts: Mapping[int, str], strategy: str, at: datetime | None) -> None:
        """These results of the view say something else from here on."""
        seen = [index for index in self.view.messages if index in texts]
        if not seen:
            return
        shortened = Compaction(
            first_kept_index=self.view.messages[0],
            head=(Kept(ref=self.view.fold.index),) if self.view.fold else (),
            replaced=tuple(Kept(ref=index, content=texts[index], fate="clipped") for index in seen),
            strategy=f"{strategy}-clip",
            reason="threshold",
        )
        self.add(shortened, at)

    def _known(self) -> "_Known":
        seen = set(self.view.messages)
        order = sorted(range(len(self.entries)), key=lambda index: (index in seen, -index))
        return _Known([entry for index in order if isinstance(entry := self.entries[index], BaseMessage)])


class _Known:
    """The messages of the history, each to be found once by what it says, those in the view first."""

    def __init__(self, messages: Sequence[BaseMessage]) -> None:
        """`messages`: the one to be found first comes last."""
        self._places: dict[object, list[int]] = {}
        for message in messages:
            self._places.setdefault(_said(message), []).append(message.index)

    def take(self, message: BaseMessage) -> int | None:
        places = self._places.get(_said(message))
        return places.pop() if places else None


def _said(message: BaseMessage) -> object:
    """What makes two messages the same. Thinking is mostly stripped from what is sent again."""
    return message.type, tuple(part for part in message.parts if not isinstance(part, ThinkingPart))


def _summary(new: Sequence[int | BaseMessage], standing: str) -> UserMessage | None:
    """The summary among the new messages, which may be the one that stands now: agents put it into the role
    user."""
    users = [message for message in new if isinstance(message, UserMessage)]
    marked = (message for message in users if message.text == standing or _SNAPSHOT in message.text)
    return next(marked, next(iter(users), None))
