"""Reader for the sessions of Gemini CLI: one JSON document, or, since 0.40, a log of JSON lines that says
what was added, changed and taken back. Also what its `/chat save` writes."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from foldline.files import read_regular
from foldline.history import Damage
from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    Entry,
    FoldlineError,
    NoticeRecord,
    SessionHeader,
    ThinkingPart,
    Title,
    ToolResultMessage,
    Unknown,
    UserMessage,
)

from .base import (
    ForeignSession,
    JsonObject,
    as_list,
    as_object,
    as_text,
    as_time,
    json_lines,
    parse_object,
)
from .detection import left_out_note, unknown_records_note
from .gemini_parts import Contents, is_content, pieces_of, usage_of
from .transcript import Transcript

_NOT_SENT = ("/", "?")
"""How the user's commands to the program begin, which are no prompts."""
_LEVELS = ("info", "warning", "error")
_ROOT = ".project_root"
"""Beside the folder of the sessions: the path of the project they are of."""


def is_gemini(records: Sequence[JsonObject]) -> bool:
    """Whether these are records of Gemini CLI, or a document or list of its messages."""
    return any(
        {"sessionId", "projectHash"} <= record.keys()
        or (record.get("type") == "gemini" and "content" in record)
        or isinstance(record.get("$rewindTo"), str)
        or is_content(record)
        or any(map(is_content, as_list(record.get("history"))))
        for record in records
    )


def read_gemini(data: bytes, path: Path) -> ForeignSession:
    """A session of Gemini CLI, or of one of its sub-agents. An index counts entries.

    Raises:
        FoldlineError: nothing in the file is a message of Gemini CLI.
    """
    # A list is read as an object around it: the same mending of half characters then serves both.
    document = parse_object(data) or parse_object(b'{"history":' + data + b"}")
    lines, damage = ([], Damage()) if document else json_lines(data)
    log = _Log()
    log.read([document] if document else [line.record for line in lines])
    if not any(isinstance(change, _Message | _Snapshot) for change in log.changes):
        raise FoldlineError(f"{path} is no session of Gemini CLI: it holds no message of one.")
    reader = _Reader(by_agent=log.about.get("kind") == "subagent")
    if title := as_text(log.about.get("summary")).strip():
        reader.transcript.add(Title(title=title))
    for change in log.changes:
        reader.apply(change)
    entries = reader.transcript.entries
    times = (as_time(log.about.get("startTime")), *(entry.at for entry in entries))
    header = SessionHeader(
        id=as_text(log.about.get("sessionId")) or path.stem,
        created_at=next(filter(None, times), datetime.fromtimestamp(0, UTC)),
        cwd=project_of(path),
    )
    notes = [*([f"{damage}."] if damage else []), *reader.notes()]
    return ForeignSession("gemini-cli", header, entries, damage, tuple(notes))


def project_of(path: Path) -> str:
    """The folder that the sessions beside this one are of; empty where nothing says so."""
    try:
        return read_regular(path.parent.parent / _ROOT).decode().strip()
    except (OSError, ValueError):
        return ""


# --- what the file says happened --------------------------------------------------------------------


@dataclass
class _Message:
    """A message at the place where it was first written, as it was last."""

    record: JsonObject
    is_target: bool = False
    """Whether a rewind goes back to right before it."""


@dataclass(frozen=True, slots=True)
class _Rewind:
    """Back to right before this message; None where it is not known: nothing stays."""

    target: _Message | None


@dataclass(frozen=True, slots=True)
class _Snapshot:
    """The conversation is these messages from here on."""

    messages: list[JsonObject]
    at: datetime | None


_Change = _Message | _Rewind | _Snapshot | JsonObject
"""An object is a record of no known kind."""


@dataclass
class _Log:
    """The changes of a conversation in their order, and what the file says about it."""

    changes: list[_Change] = field(default_factory=list)
    about: JsonObject = field(default_factory=dict)
    _alive: dict[str, _Message] = field(default_factory=dict)

    def read(self, records: Iterable[JsonObject]) -> None:
        for record in records:
            self._read(record)

    def _read(self, record: JsonObject) -> None:
        updated = as_object(record.get("$set"))
        identity = as_text(record.get("id"))
        history = [content for content in as_list(record.get("history")) if is_content(content)]
        if "$rewindTo" in record:
            self._rewind(as_text(record.get("$rewindTo")))
        elif updated:
            self.about |= {key: value for key, value in updated.items() if key != "messages"}
            messages = [as_object(message) for message in as_list(updated.get("messages"))]
            if messages:
                self.changes.append(_Snapshot(messages, as_time(updated.get("lastUpdated"))))
        elif history or is_content(record):
            self.changes += [_Message(content) for content in history or [record]]
        elif identity and identity in self._alive:
            self._alive[identity].record = record
        elif "type" in record and ("content" in record or "toolCalls" in record):
            self.changes.append(message := _Message(record))
            if identity:
                self._alive[identity] = message
        elif "sessionId" in record:
            self.about |= {key: value for key, value in record.items() if key != "messages"}
            self.read(as_object(message) for message in as_list(record.get("messages")))
        else:
            self.changes.append(record)

    def _rewind(self, identity: str) -> None:
        target = self._alive.get(identity)
        if target is not None:
            target.is_target = True
        places = list(self._alive)
        for gone in places[places.index(identity) if target else 0 :]:
            del self._alive[gone]
        self.changes.append(_Rewind(target))


# --- the changes as entries -------------------------------------------------------------------------


@dataclass
class _Reader:
    by_agent: bool
    """Whether another agent, and no person, wrote the prompts."""
    transcript: Transcript = field(default_factory=Transcript)
    _contents: Contents = field(default_factory=Contents)
    _conversation: list[JsonObject] = field(default_factory=list)
    """The messages as Gemini CLI would list them now."""
    _checkpoints: dict[int, int] = field(default_factory=dict)
    """By the identity of a rewind's target: the checkpoint before it."""
    _entries: dict[str, list[int]] = field(default_factory=dict)
    """By id: the messages that it came to, results apart."""
    _agents: dict[str, str] = field(default_factory=dict)
    """The sub-agents that ran, by id: the tools that started them."""

    def notes(self) -> list[str]:
        notes = [
            *left_out_note(self._contents.left_out),
            *unknown_records_note(self.transcript.entries, ()),
        ]
        if self._agents:
            names = ", ".join(f"{tool} ({agent})" for agent, tool in self._agents.items())
            notes.append(f"Left out: the steps of its sub-agents, which have files of their own: {names}.")
        if self.by_agent:
            notes.append("These are the steps of a sub-agent: the agent that started it wrote its prompts.")
        return notes

    def apply(self, change: _Change) -> None:
        match change:
            case _Message():
                if change.is_target:
                    self._checkpoints[id(change)] = self.transcript.checkpoint()
                self._conversation.append(change.record)
                self._message(change.record)
            case _Rewind(target):
                self._rewind(target)
            case _Snapshot(messages, at):
                self._conversation = messages
                self._checkpoints.clear()
                self._list_anew(at)
            case _:
                self.transcript.add(Unknown(type="gemini.record", record=change))

    def _rewind(self, target: _Message | None) -> None:
        identity = as_text(target.record.get("id")) if target else ""
        ids = [as_text(message.get("id")) for message in self._conversation]
        del self._conversation[ids.index(identity) if identity in ids else 0 :]
        if not self._conversation:
            self.transcript.clear()
        elif id(target) in self._checkpoints:
            self.transcript.go_back_to(self._checkpoints[id(target)])
        else:  # the conversation was listed anew since
            self._list_anew(None)

    def _list_anew(self, at: datetime | None) -> None:
        context: list[int | BaseMessage] = []
        for record in self._conversation:
            known = self._entries.get(as_text(record.get("id")))
            if known is None:
                context += [entry for entry in self._said_in(record) if isinstance(entry, BaseMessage)]
            else:
                context += [*known, *self._answers_in(record)]
        self.transcript.relist(context, at, strategy="gemini-cli")

    def _message(self, record: JsonObject) -> None:
        at = as_time(record.get("timestamp"))
        identity = as_text(record.get("id"))
        known = self._entries.setdefault(identity, []) if identity else []
        for entry in self._said_in(record):
            if isinstance(entry, ToolResultMessage) and self.transcript.is_answered(entry.call_id):
                continue
            index = self.transcript.add(entry, at)
            if isinstance(entry, BaseMessage) and not isinstance(entry, ToolResultMessage):
                known.append(index)

    def _said_in(self, record: JsonObject) -> Sequence[Entry]:
        pieces = pieces_of(record.get("content"))
        match record.get("type"):
            case "user":
                return self._user(record, pieces)
            case "gemini":
                return self._answer(record, pieces)
            case kind if kind in _LEVELS:
                text = "\n".join(as_text(piece.get("text")) for piece in pieces)
                return [NoticeRecord(text=text, level=next(level for level in _LEVELS if level == kind))]
            case _ if is_content(record):
                return self._contents.messages(record)
            case _:
                return [Unknown(type=f"gemini.{as_text(record.get('type')) or 'record'}", record=record)]

    def _user(self, record: JsonObject, pieces: Sequence[JsonObject]) -> Sequence[Entry]:
        text = "\n".join(as_text(piece.get("text")) for piece in pieces)
        if text.lstrip().startswith(_NOT_SENT):
            return [NoticeRecord(text=text)]
        said = self._contents.said(pieces)
        if self.by_agent:
            said = [UserMessage(parts=message.parts, origin="machine") for message in said]
        return [*self._answers_in(record), *said]

    def _answer(self, record: JsonObject, pieces: Sequence[JsonObject]) -> Sequence[Entry]:
        """The answer, then the results, which are recorded with its calls."""
        runs = [as_object(run) for run in as_list(record.get("toolCalls"))]
        thoughts = [as_object(thought) for thought in as_list(record.get("thoughts"))]
        thinking = (
            ThinkingPart(text=f"**{subject}** {text}" if subject else text)
            for thought in thoughts
            if (text := as_text(thought.get("description"))) or thought.get("subject")
            for subject in [as_text(thought.get("subject"))]
        )
        calls = [{"functionCall": run} for run in runs]
        answer = AssistantMessage(
            parts=(*thinking, *self._contents.parts([*_not_repeated(pieces, runs), *calls])),
            model=as_text(record.get("model")) or None,
            usage=usage_of(
                as_object(record.get("tokens")),
                prompt="input", cached="cached", answer="output", thoughts="thoughts", tool="tool",
            ),
        )  # fmt: skip
        return [answer, *self._answers_in(record)]

    def _answers_in(self, record: JsonObject) -> Sequence[ToolResultMessage]:
        """The results a message holds: of a user as the API has them, of an answer with its calls."""
        runs = [as_object(run) for run in as_list(record.get("toolCalls"))]
        results = self._contents.results(pieces_of(record.get("content")), {})
        return [*results, *(result for run in runs for result in self._results(run))]

    def _results(self, run: JsonObject) -> Sequence[ToolResultMessage]:
        """The result of a recorded call; none where it never ended. Results of calls made beside it may
        stand with it."""
        call_id, name = as_text(run.get("id")), as_text(run.get("name"))
        if agent := as_text(run.get("agentId")):
            self._agents[agent] = name
        found = pieces_of(run.get("result"))
        responses = [response for piece in found if (response := as_object(piece.get("functionResponse")))]
        own = next((one for one in responses if one.get("id") == call_id), (responses or [{}])[0])
        beside = [piece for piece in found if "functionResponse" not in piece] if len(responses) < 2 else []
        if not responses and beside and all("text" in piece for piece in beside):
            own, beside = {"response": "".join(as_text(piece.get("text")) for piece in beside)}, []
        if not own and not beside:
            return ()
        response = {**own, "id": call_id, "name": name}
        return self._contents.results([{"functionResponse": response}, *beside], run)


def _not_repeated(pieces: Iterable[JsonObject], runs: Iterable[JsonObject]) -> list[JsonObject]:
    """The parts of an answer without the calls that are recorded with their runs, too."""
    ids = {as_text(run.get("id")) for run in runs}
    deeds = [(run.get("name"), run.get("args")) for run in runs]
    kept: list[JsonObject] = []
    for piece in pieces:
        called = as_object(piece.get("functionCall"))
        if called and as_text(called.get("id")) in ids:
            continue
        if called and not called.get("id") and (called.get("name"), called.get("args")) in deeds:
            deeds.remove((called.get("name"), called.get("args")))
            continue
        kept.append(piece)
    return kept
