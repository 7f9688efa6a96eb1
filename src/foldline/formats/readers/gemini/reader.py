"""Reader for the sessions of Gemini CLI: one JSON document, or, since 0.40, a log of JSON lines that says
what was added, changed and taken back. Also what its `/chat save` writes."""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from foldline.formats.base import ForeignSession, Json, JsonObject, bytes_in, json_lines, parse_document
from foldline.formats.parts import UsageFields, call_part, sub_agent_note, user_messages
from foldline.formats.tool_results import Changes, changes_of, tool_result
from foldline.formats.transcript import Transcript
from foldline.history import Damage
from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    Clear,
    Entry,
    FoldlineError,
    ImagePart,
    NoticeRecord,
    Part,
    TextPart,
    ThinkingPart,
    Title,
    ToolCallPart,
    ToolResultMessage,
    UserMessage,
    text_parts,
)

_NOT_SENT = ("/", "?")
"""How the user's commands to the program begin, which are no prompts."""
_LEVELS = ("info", "warning", "error")
_ROOT = ".project_root"
"""Beside the folder of the sessions: the path of the project they are of."""
_ATTACHED = "\n--- Content from referenced files"
"""Behind it stand the files that a prompt names with `@`."""
_MODELS = ("model", "gemini")
_PROGRAM = (
    "<session_context>", "<hook_context>", "<system-reminder>", "<task-notification>", "<qwen:",
    "<state_snapshot>", "This is the Gemini CLI.", "This is the Qwen Code.",
)  # fmt: skip
"""How texts begin that the program writes in the user's name."""
_USAGE = UsageFields(("input", "tool"), ("output", "thoughts"), "cached", "thoughts")


# --- contents as Google's API spells them, which Qwen Code records, too -------------------------------


def is_content(value: JsonObject) -> bool:
    return value.text("role") in ("user", *_MODELS) and isinstance(value.at("parts"), list)


def contents_of(record: JsonObject, name: str) -> list[JsonObject]:
    return [content for content in record.objects(name) if is_content(content)]


def _joined(pieces: Iterable[JsonObject], between: str = "\n") -> str:
    return between.join(piece.text("text") for piece in pieces)


@dataclass
class Contents:
    """Turns contents into messages, and tells the transcript what cannot be shown."""

    log: Transcript
    _calls: dict[str, ToolCallPart] = field(default_factory=dict)
    _nameless: int = 0
    _waiting: list[ToolCallPart] = field(default_factory=list)
    """The newest calls without an id that no result has come for."""

    def parts(self, pieces: Iterable[JsonObject]) -> tuple[Part, ...]:
        """What is said, thought and called in these pieces; results are none of it."""
        found: list[Part] = []
        pieces = list(pieces)
        if any("functionCall" in piece for piece in pieces):
            self._waiting = []
        for piece in pieces:
            part = self._part(piece)
            if part is not None:
                found.append(part)
            elif "functionResponse" not in piece and piece.get("text") != "":
                kind = next((key for key in piece if key != "thoughtSignature"), "empty")
                self.log.left_out.append(kind)
        return tuple(found)

    def _part(self, piece: JsonObject) -> Part | None:
        signature = piece.text("thoughtSignature") or None
        text, called = piece.text("text"), piece.object("functionCall")
        if called:
            return self._call(called, signature)
        if text:
            thought = piece.flag("thought")
            return ThinkingPart(text=text, signature=signature) if thought else TextPart(text=text)
        media_type, data = piece.text("inlineData", "mimeType"), piece.text("inlineData", "data")
        if media_type.startswith("image/") and data:
            return ImagePart(media_type=media_type, data=data)
        pointed = piece.text("fileData", "fileUri")
        return TextPart(text=f"(file: {pointed})") if pointed else None

    def _call(self, called: JsonObject, signature: str | None) -> ToolCallPart:
        self._nameless += not called.text("id")
        call_id = called.text("id") or f"call_{self._nameless}"
        call = call_part(call_id, called.text("name"), called.get("args"))
        self._calls[call_id] = call.model_copy(update={"signature": signature})
        self._waiting += [] if called.text("id") else [self._calls[call_id]]
        return self._calls[call_id]

    def said(
        self, pieces: Sequence[JsonObject], typed: Callable[[str], bool] = lambda text: True
    ) -> list[UserMessage]:
        """What stands in the role user besides results: the user's own words apart from the program's.

        `typed` tells of a text whether it may be the user's.
        """
        attached = False

        def is_program(text: str) -> bool:
            nonlocal attached
            attached = attached or text.startswith(_ATTACHED)
            return attached or text.lstrip().startswith(_PROGRAM) or (bool(text) and not typed(text))

        return user_messages(
            self.parts(piece for piece in pieces if "functionResponse" not in piece), is_program
        )

    def results(self, pieces: Sequence[JsonObject], noted: JsonObject) -> list[ToolResultMessage]:
        """The results in these pieces. `noted` is what the program recorded of the run of the only one."""
        responses = [response for piece in pieces if (response := piece.object("functionResponse"))]
        beside = self.parts(piece for piece in pieces if "functionResponse" not in piece) if responses else ()
        return [
            self._result(response, noted if len(responses) == 1 else JsonObject(), beside if nth == 0 else ())
            for nth, response in enumerate(responses)
        ]

    def _result(self, response: JsonObject, noted: JsonObject, beside: Sequence[Part]) -> ToolResultMessage:
        call_id, name = response.text("id"), response.text("name")
        if not call_id:  # answered in order: the first call of that name
            waits = next((place for place, call in enumerate(self._waiting) if call.name == name), None)
            call_id = "" if waits is None else self._waiting.pop(waits).call_id
        call = self._calls.get(call_id)
        answered, cancelled = response.get("response"), noted.get("status") == "cancelled"
        failed = cancelled or noted.get("status") == "error" or "error" in JsonObject.of(answered)
        diff = noted.text("resultDisplay", "fileDiff")
        nested = self.parts(response.objects("parts"))
        return tool_result(
            call_id,
            call.name if call else name,
            (*text_parts(_text_of(answered)), *nested, *beside),
            failed=failed,
            brief="cancelled" if cancelled else "",
            changes=Changes() if failed or call is None else changes_of(call, diff),
        )

    def messages(self, content: JsonObject) -> list[BaseMessage]:
        pieces = content.pieces("parts")
        if content.get("role") in _MODELS:
            return [AssistantMessage(parts=self.parts(pieces))]
        return [*(self.results(pieces, JsonObject()) or self.said(pieces))]


def _text_of(answered: Json) -> str:
    if isinstance(answered, str):
        return answered
    fields = JsonObject.of(answered)
    said = [fields[key] for key in ("output", "error", "content") if isinstance(fields.get(key), str)]
    return str(said[0]) if said else json.dumps(fields, ensure_ascii=False) if fields else ""


# --- a session --------------------------------------------------------------------------------------


def recognises(records: Sequence[JsonObject]) -> bool:
    return any(
        {"sessionId", "projectHash"} <= record.keys()
        or (record.get("type") == "gemini" and "content" in record)
        or isinstance(record.get("$rewindTo"), str)
        or is_content(record)
        or contents_of(record, "history")
        for record in records
    )


def read(data: bytes, path: Path) -> ForeignSession:
    """A session of Gemini CLI, or of one of its sub-agents. An index counts entries."""
    document = parse_document(data, "history")
    lines, damage = ([], Damage()) if document else json_lines(data)
    log = _Log()
    log.read([document] if document else [line.record for line in lines])
    if not any(isinstance(change, _Message | _Snapshot) for change in log.changes):
        raise FoldlineError(f"{path} is no session of Gemini CLI: it holds no message of one.")
    reader = _Reader(by_agent=log.about.get("kind") == "subagent")
    if title := log.about.text("summary").strip():
        reader.log.add(Title(title=title))
    for change in log.changes:
        reader.apply(change)
    name, begun = log.about.text("sessionId") or path.stem, log.about.time("startTime")
    return reader.log.session("gemini-cli", name, project_of(path), damage, reader.notes(), begun=begun)


def project_of(path: Path) -> str:
    """The folder that the sessions beside this one are of; empty where nothing says so."""
    try:
        return bytes_in(path.parent.parent / _ROOT).decode().strip()
    except ValueError:
        return ""


@dataclass
class _Message:
    record: JsonObject
    is_target: bool = False
    """Whether a rewind goes back to right before it."""


@dataclass(frozen=True, slots=True)
class _Rewind:
    """Back to right before this message; None where it is not known: nothing stays."""

    target: _Message | None


@dataclass(frozen=True, slots=True)
class _Snapshot:
    messages: list[JsonObject]
    at: datetime | None


_Change = _Message | _Rewind | _Snapshot | JsonObject
"""An object is a record of no known kind."""


@dataclass
class _Log:
    changes: list[_Change] = field(default_factory=list)
    about: JsonObject = field(default_factory=JsonObject)
    _alive: dict[str, _Message] = field(default_factory=dict)

    def read(self, records: Iterable[JsonObject]) -> None:
        for record in records:
            self._read(record)

    def _read(self, record: JsonObject) -> None:
        updated, identity = record.object("$set"), record.text("id")
        history = contents_of(record, "history")
        if "$rewindTo" in record:
            self._rewind(record.text("$rewindTo"))
        elif updated:
            self.about |= {key: value for key, value in updated.items() if key != "messages"}
            if messages := updated.objects("messages"):
                self.changes.append(_Snapshot(messages, updated.time("lastUpdated")))
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
            self.read(record.objects("messages"))
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


@dataclass
class _Reader:
    by_agent: bool
    log: Transcript = field(default_factory=lambda: Transcript("gemini"))
    _conversation: list[JsonObject] = field(default_factory=list)
    """The messages as Gemini CLI would list them now."""
    _checkpoints: dict[int, int] = field(default_factory=dict)
    """By the identity of a rewind's target: the checkpoint before it."""
    _entries: dict[str, list[int]] = field(default_factory=dict)
    """By id: the messages that it came to, results apart."""
    _agents: dict[str, str] = field(default_factory=dict)
    """The sub-agents that ran, by id: the tools that started them."""

    def __post_init__(self) -> None:
        self._contents = Contents(self.log)

    def notes(self) -> list[str]:
        notes = [*self.log.notes()]
        if self._agents:
            names = ", ".join(f"{tool} ({agent})" for agent, tool in self._agents.items())
            notes.append(f"Left out: the steps of its sub-agents, which have files of their own: {names}.")
        return [*notes, *sub_agent_note(self.by_agent)]

    def apply(self, change: _Change) -> None:
        match change:
            case _Message():
                if change.is_target:
                    self._checkpoints[id(change)] = self.log.checkpoint()
                self._conversation.append(change.record)
                self._message(change.record)
            case _Rewind(target):
                self._rewind(target)
            case _Snapshot(messages, at):
                self._conversation = messages
                self._checkpoints.clear()
                self._list_anew(at)
            case _:
                self.log.add(self.log.unknown(change, ""))

    def _rewind(self, target: _Message | None) -> None:
        identity = target.record.text("id") if target else ""
        ids = [message.text("id") for message in self._conversation]
        del self._conversation[ids.index(identity) if identity in ids else 0 :]
        if not self._conversation:
            self.log.add(Clear())
        elif id(target) in self._checkpoints:
            self.log.go_back_to(self._checkpoints[id(target)])
        else:  # the conversation was listed anew since
            self._list_anew(None)

    def _list_anew(self, at: datetime | None) -> None:
        context: list[int | BaseMessage] = []
        for record in self._conversation:
            known = self._entries.get(record.text("id"))
            if known is None:
                context += [entry for entry in self._said_in(record) if isinstance(entry, BaseMessage)]
            else:
                context += [*known, *self._answers_in(record)]
        self.log.relist(context, at, strategy="gemini-cli")

    def _message(self, record: JsonObject) -> None:
        at, identity = record.time("timestamp"), record.text("id")
        known = self._entries.setdefault(identity, []) if identity else []
        for entry in self._said_in(record):
            if isinstance(entry, ToolResultMessage) and self.log.is_answered(entry.call_id):
                continue
            index = self.log.add(entry, at)
            if isinstance(entry, BaseMessage) and not isinstance(entry, ToolResultMessage):
                known.append(index)

    def _said_in(self, record: JsonObject) -> Sequence[Entry]:
        pieces = record.pieces("content")
        match record.get("type"):
            case "user":
                return self._user(record, pieces)
            case "gemini":
                return self._answer(record, pieces)
            case kind if kind in _LEVELS:
                level = next(level for level in _LEVELS if level == kind)
                return [NoticeRecord(text=_joined(pieces), level=level)]
            case _ if is_content(record):
                return self._contents.messages(record)
            case _:
                return [self.log.unknown(record, record.text("type"))]

    def _user(self, record: JsonObject, pieces: Sequence[JsonObject]) -> Sequence[Entry]:
        text = _joined(pieces)
        if text.lstrip().startswith(_NOT_SENT):
            return [NoticeRecord(text=text)]
        said = self._contents.said(pieces)
        if self.by_agent:
            said = list(map(by_program, said))
        return [*self._answers_in(record), *said]

    def _answer(self, record: JsonObject, pieces: Sequence[JsonObject]) -> Sequence[Entry]:
        runs = record.objects("toolCalls")
        thinking: list[Part] = []
        for thought in record.objects("thoughts"):
            subject, text = thought.text("subject"), thought.text("description")
            if text or thought.get("subject"):
                thinking.append(ThinkingPart(text=f"**{subject}** {text}" if subject else text))
        calls = [JsonObject(functionCall=run) for run in runs]
        answer = AssistantMessage(
            parts=(*thinking, *self._contents.parts([*_not_repeated(pieces, runs), *calls])),
            model=record.text("model") or None,
            usage=_USAGE.read(record.get("tokens")),
        )
        return [answer, *self._answers_in(record)]

    def _answers_in(self, record: JsonObject) -> Sequence[ToolResultMessage]:
        """The results a message holds: of a user as the API has them, of an answer with its calls."""
        results = self._contents.results(record.pieces("content"), JsonObject())
        runs = record.objects("toolCalls")
        return [*results, *(result for run in runs for result in self._results(run))]

    def _results(self, run: JsonObject) -> Sequence[ToolResultMessage]:
        """The result of a recorded call; none where it never ended. Results of calls made beside it may
        stand with it."""
        call_id, name = run.text("id"), run.text("name")
        if agent := run.text("agentId"):
            self._agents[agent] = name
        found = run.pieces("result")
        responses = [response for piece in found if (response := piece.object("functionResponse"))]
        own = next((one for one in responses if one.get("id") == call_id), (responses or [JsonObject()])[0])
        beside = [piece for piece in found if "functionResponse" not in piece] if len(responses) < 2 else []
        if not responses and beside and all("text" in piece for piece in beside):
            own, beside = JsonObject(response=_joined(beside, "")), []
        if not own and not beside:
            return ()
        response = JsonObject({**own, "id": call_id, "name": name})
        return self._contents.results([JsonObject(functionResponse=response), *beside], run)


def by_program(message: UserMessage) -> UserMessage:
    return message.model_copy(update={"origin": "machine"})


def _not_repeated(pieces: Iterable[JsonObject], runs: Iterable[JsonObject]) -> list[JsonObject]:
    ids = {run.text("id") for run in runs}
    made = [(run.get("name"), run.get("args")) for run in runs]
    kept: list[JsonObject] = []
    for piece in pieces:
        called = piece.object("functionCall")
        call = (called.get("name"), called.get("args"))
        if called and called.text("id") in ids:
            continue
        if called and not called.get("id") and call in made:
            made.remove(call)
            continue
        kept.append(piece)
    return kept
