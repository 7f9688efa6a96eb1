"""From the messages of an opencode session to entries, one message after the other."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby

from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    Checkpoint,
    Compaction,
    Edit,
    Entry,
    Kept,
    ModelChange,
    NoticeRecord,
    Part,
    Revert,
    TextPart,
    ThinkingPart,
    Title,
    ToolResultMessage,
    UserMessage,
    text_parts,
)

from .base import JsonObject, as_count, as_object, as_text, as_time
from .detection import kind_of, left_out_note
from .foreign_view import ForeignView
from .opencode_parts import (
    ABORTED,
    DEFAULT_TITLE,
    STOP_REASONS,
    failure,
    finish_of,
    is_summary,
    said_in,
    steps_of,
    unclaimed,
    usage_of,
)
from .opencode_tools import hidden_at, tool_call, tool_result

HIDDEN = "[Old tool result content cleared]"
"""What opencode's model sees in place of an output that was hidden."""
_NO_SUMMARY = "(opencode wrote no summary)"


@dataclass
class Reading:
    """Messages go in by `read`, entries come out of `done`."""

    completed: frozenset[str]
    """The ids of the requests to compact that a summary answers."""
    revert: JsonObject
    """The message, and the part of it, from which on everything was taken back."""
    entries: list[Entry] = field(default_factory=list)
    _view: ForeignView = field(default_factory=ForeignView)
    _model: tuple[str, str] = ("", "")
    _starts: dict[str, int] = field(default_factory=dict)
    """By the id of a message: the index of its first entry."""
    _asked: dict[str, JsonObject] = field(default_factory=dict)
    """By the id of a message: the compaction it asks for."""
    _hiding: dict[int, int] = field(default_factory=dict)
    """By index of a result in sight: when it will be hidden."""
    _unsent: set[int] = field(default_factory=set)
    """Failed answers and their results."""
    _failed: int = 0
    _goes_back: bool = False
    _size: int = 0
    _left_out: list[str] = field(default_factory=list)

    def title(self, title: str) -> None:
        if title.strip() and not DEFAULT_TITLE.match(title):
            self._add(Title(title=title), None)

    def read(self, info: JsonObject, parts: Sequence[JsonObject]) -> None:
        created = as_object(info.get("time")).get("created")
        identity, at = as_text(info.get("id")), as_time(created)
        self._hide(as_count(created), at)
        in_part = bool(self.revert.get("partID")) and info.get("role") == "assistant"
        if identity and identity == self.revert.get("messageID") and not in_part:
            self._checkpoint(at)
        if identity:
            self._starts.setdefault(identity, len(self.entries))
        match info.get("role"):
            case "user":
                self._user(info, parts, at)
            case "assistant" if is_summary(info) and self._answers_a_request_to_compact(info):
                self._fold(info, parts, at)
            case "assistant":
                self._assistant(info, parts, at)
            case _:
                self._left_out += map(kind_of, parts)

    def _answers_a_request_to_compact(self, info: JsonObject) -> bool:
        """Whether a summary is one of the session. In older versions nobody asked for it."""
        parent = as_text(info.get("parentID"))
        return parent in self.completed or parent not in self._starts

    def done(self) -> list[Entry]:
        at = self.entries[-1].at if self.entries else None
        self._hide(None, at)
        if self._goes_back:
            self._add(Revert(checkpoint=0), at)
        return self.entries

    def notes(self) -> list[str]:
        dropped = f"Failed answers that opencode never sent again, dropped from the view: {self._failed}."
        return [*left_out_note(self._left_out), *([dropped] if self._failed else [])]

    def _add(self, entry: Entry, at: datetime | None) -> int:
        index = len(self.entries)
        entry = entry.model_copy(update={"index": index, "at": at})
        self.entries.append(entry)
        if isinstance(entry, BaseMessage):
            self._view.add(entry)
        return index

    # --- what the user says, and the program in the same breath --------------------------------------

    def _user(self, info: JsonObject, parts: Sequence[JsonObject], at: datetime | None) -> None:
        self._choose(as_object(info.get("model")), at)
        identity = as_text(info.get("id"))
        asked = next((part for part in parts if part.get("type") == "compaction"), None)
        if asked is not None and identity in self.completed:
            self._asked[identity] = asked
            return
        heard = [(*said_in(piece), piece) for piece in parts]
        said = [(voice, part) for voice, part, _ in heard if voice != "nobody"]
        self._left_out += [
            kind_of(piece) for voice, part, piece in heard if voice != "nobody" and part is None
        ]
        for voice, group in groupby(said, key=lambda pair: pair[0]):
            spoken = tuple(part for _, part in group if part is not None)
            if voice == "ignored":
                self._add(NoticeRecord(text=UserMessage(parts=spoken).text), at)
            elif spoken:
                self._add(UserMessage(origin="typed" if voice == "typed" else "machine", parts=spoken), at)

    def _choose(self, model: JsonObject, at: datetime | None) -> None:
        chosen = (as_text(model.get("modelID")), as_text(model.get("providerID")))
        if chosen[0] and chosen != self._model:
            self._model = chosen
            self._add(ModelChange(model=chosen[0], provider=chosen[1] or None), at)

    # --- what the model says -------------------------------------------------------------------------

    def _assistant(self, info: JsonObject, parts: Sequence[JsonObject], at: datetime | None) -> None:
        """An answer for each step. What failed is in the history, but was never sent again."""
        first, steps = len(self.entries), steps_of(parts)
        for step in steps:
            if self.revert.get("partID") in [part.get("id") for part in step if part.get("id")]:
                self._checkpoint(at)
            finish = finish_of(step)
            last = {"reason": info.get("finish"), "tokens": info.get("tokens")} if len(steps) == 1 else {}
            answer = AssistantMessage(
                model=as_text(info.get("modelID")) or None,
                usage=usage_of(as_object(finish.get("tokens") or last.get("tokens"))),
                stop_reason=STOP_REASONS.get(as_text(finish.get("reason") or last.get("reason"))),
            )
            error = as_object(info.get("error"))
            if error and step is steps[-1]:
                why = "cancelled" if error.get("name") == ABORTED else "error"
                answer = answer.model_copy(update={"stop_reason": why, "error": failure(error)})
            self._step(answer, step, at)
        if info.get("error") and not _was_sent(info, parts):
            self._drop(first, at)

    def _step(self, answer: AssistantMessage, step: Sequence[JsonObject], at: datetime | None) -> None:
        """One answer, then the results of its calls."""
        said: list[Part] = []
        results: list[ToolResultMessage] = []
        hidden: list[int] = []
        for part in step:
            match part.get("type"):
                case "text" if as_text(part.get("text")):
                    said.append(TextPart(text=as_text(part.get("text"))))
                case "reasoning" if as_text(part.get("text")):
                    said.append(ThinkingPart(text=as_text(part.get("text"))))
                case "tool":
                    call = tool_call(part)
                    said.append(call)
                    if (result := tool_result(part, call)) is not None:
                        results.append(result)
                        hidden.append(hidden_at(part))
        self._size = answer.usage.total if answer.usage else self._size
        self._add(answer.model_copy(update={"parts": tuple(said)}), at)
        for result, touches, when in zip(results, unclaimed(step, results), hidden, strict=True):
            details = result.details.model_copy(update={"files": (*result.details.files, *touches)})
            index = self._add(result.model_copy(update={"details": details}), at)
            if when:
                self._hiding[index] = when

    def _drop(self, first: int, at: datetime | None) -> None:
        """The answers from this index on leave the view with their results."""
        gone = {index for index in self._view.messages if index >= first}
        answers = [index for index in sorted(gone) if isinstance(self.entries[index], AssistantMessage)]
        for index in answers:
            self._add(Edit(target=index, action="drop"), at)
        self._failed += bool(answers)
        self._unsent |= gone
        self._view.messages = [index for index in self._view.messages if index not in gone]

    # --- compactions, outputs hidden, turns taken back -----------------------------------------------

    def _fold(self, info: JsonObject, parts: Sequence[JsonObject], at: datetime | None) -> None:
        """The summary, then all from the message on that the request names: also what was folded before."""
        asked = self._asked.get(as_text(info.get("parentID")), {})
        cut = self._starts.get(as_text(asked.get("tail_start_id")), len(self.entries))
        kept = [index for index in range(cut, len(self.entries)) if index not in self._unsent]
        texts = [as_text(part.get("text")).strip() for part in parts if part.get("type") == "text"]
        fold = self._view.folded(
            len(self.entries),
            text_parts("\n\n".join(filter(None, texts)) or _NO_SUMMARY),
            kept,
            strategy="opencode",
            tokens_before=self._size,
        )
        reason = "overflow" if asked.get("overflow") is True else "threshold"
        update = {
            "reason": reason if asked.get("auto") is True else "manual",
            "model": as_text(info.get("modelID")) or None,
            "usage": usage_of(as_object(info.get("tokens"))),
        }
        self._add(fold.model_copy(update=update), at)

    def _hide(self, now: int | None, at: datetime | None) -> None:
        """Before a message of this moment, the outputs hidden by then; at the end, all of them."""
        due = {index for index, when in self._hiding.items() if now is None or when <= now}
        self._hiding = {index: when for index, when in self._hiding.items() if index not in due}
        seen = [index for index in self._view.messages if index in due]
        if not seen:
            return
        pruned = Compaction(
            first_kept_index=self._view.messages[0],
            head=(Kept(ref=self._view.fold.index),) if self._view.fold else (),
            replaced=tuple(Kept(ref=index, content=HIDDEN, fate="hidden") for index in seen),
            strategy="opencode-prune",
            reason="threshold",
        )
        self._add(pruned, at)

    def _checkpoint(self, at: datetime | None) -> None:
        """What comes now was taken back."""
        if not self._goes_back:
            self._goes_back = True
            self._add(Checkpoint(id=0), at)


def _was_sent(info: JsonObject, parts: Sequence[JsonObject]) -> bool:
    """Whether an answer that failed went into later requests: an aborted one does, if it said anything."""
    spoke = any(part.get("type") not in ("step-start", "reasoning") for part in parts)
    return as_object(info.get("error")).get("name") == ABORTED and spoke
