"""Reader for the sessions of Gemini CLI: one JSON document, or, since 0.40, a log of JSON lines.

The log says what was added, changed and taken back. The files of `/chat save` are read, too.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from foldline.formats.base import ForeignSession, JsonObject, bytes_in, json_lines, parse_document
from foldline.formats.contents import Contents, by_program, contents_of, is_content, responses_in
from foldline.formats.parts import UsageFields, sub_agent_note
from foldline.formats.relist import relist
from foldline.formats.transcript import Transcript
from foldline.history import Damage
from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    Clear,
    Entry,
    FoldlineError,
    NoticeRecord,
    Part,
    ThinkingPart,
    Title,
    ToolResultMessage,
)

_COMMANDS = ("/", "?")
"""How the user's commands to the program begin, which are no prompts."""
_ROOT = ".project_root"
"""The file beside the sessions' folder that holds the path of their project."""
_USAGE = UsageFields(("input", "tool"), ("output", "thoughts"), "cached", "thoughts")


def recognises(records: Sequence[JsonObject]) -> bool:
    return any(map(_is_own, records))


def _is_own(record: JsonObject) -> bool:
    is_header = {"sessionId", "projectHash"} <= record.keys()
    is_change = isinstance(record.get("$rewindTo"), str) or (record.kind == "gemini" and "content" in record)
    return is_header or is_change or is_content(record) or bool(contents_of(record, "history"))


def read(data: bytes, path: Path) -> ForeignSession:
    """Read a session or a sub-agent. An index counts entries."""
    document = parse_document(data, "history")
    lines, damage = ([], Damage()) if document else json_lines(data)
    changes = _Changes([document] if document else [line.record for line in lines])
    if not any(isinstance(change, _Message | _Snapshot) for change in changes.all):
        raise FoldlineError(f"{path} is no session of Gemini CLI: it holds no message of one.")
    about = changes.about
    reader = _Reader(by_agent=about.get("kind") == "subagent")
    if title := about.text("summary").strip():
        reader.log.add(Title(title=title))
    for change in changes.all:
        reader.apply(change)
    name, begun = about.text("sessionId") or path.stem, about.time("startTime")
    return reader.log.session("gemini-cli", name, project_of(path), damage, reader.notes(), begun=begun)


def project_of(path: Path) -> str:
    """Return the project folder of a session, if a file names it."""
    try:
        return bytes_in(path.parent.parent / _ROOT).decode().strip()
    except ValueError:
        return ""


# --- changes of the conversation ----------------------------------------------------------------------


@dataclass
class _Message:
    record: JsonObject
    """As it was last written."""
    is_target: bool = False
    """Whether a rewind goes back to right before it."""


class _Rewind(NamedTuple):
    identity: str
    """Names the message to go back before; empty for the beginning."""


class _Snapshot(NamedTuple):
    """The whole conversation, listed again."""

    messages: list[JsonObject]
    at: datetime | None


_Change = _Message | _Rewind | _Snapshot | JsonObject
"""An object is a record of an unknown kind."""


class _Changes:
    """Gathers the changes of the conversation, and the facts about the session."""

    def __init__(self, records: Iterable[JsonObject]) -> None:
        self.all: list[_Change] = []
        self.about = JsonObject()
        self._messages: dict[str, _Message] = {}
        """Those of the conversation at this point, by id."""
        for record in records:
            self._read(record)

    def _read(self, record: JsonObject) -> None:
        update, identity = record.object("$set"), record.text("id")
        history = contents_of(record, "history")
        if "$rewindTo" in record:
            self._rewind(record.text("$rewindTo"))
        elif update:
            self._tell(update)
            if messages := update.objects("messages"):
                self.all.append(_Snapshot(messages, update.time("lastUpdated")))
        elif history or is_content(record):
            self.all += map(_Message, history or [record])
        elif identity in self._messages:
            self._messages[identity].record = record
        elif "type" in record and ("content" in record or "toolCalls" in record):
            change = _Message(record)
            self.all.append(change)
            if identity:
                self._messages[identity] = change
        elif "sessionId" in record:
            self._tell(record)
            for message in record.objects("messages"):
                self._read(message)
        else:
            self.all.append(record)

    def _tell(self, facts: JsonObject) -> None:
        self.about |= {key: value for key, value in facts.items() if key != "messages"}

    def _rewind(self, identity: str) -> None:
        undone = list(self._messages)
        if identity in undone:
            self._messages[identity].is_target = True
            undone = undone[undone.index(identity) :]
        else:
            identity = ""
        self.all.append(_Rewind(identity))
        for message in undone:
            del self._messages[message]


# --- entries ------------------------------------------------------------------------------------------


class _Reader:
    """Turns changes into entries."""

    def __init__(self, *, by_agent: bool) -> None:
        self.log = Transcript("gemini")
        self._by_agent = by_agent
        self._contents = Contents(self.log)
        self._conversation: list[JsonObject] = []
        """The messages as Gemini CLI would list them now."""
        self._checkpoints: dict[str, int] = {}
        """By the id of a rewind's target: the checkpoint before it."""
        self._entries: dict[str, list[int]] = {}
        """By the id of a message: its entries, without results."""
        self._agents: dict[str, str] = {}
        """By the id of a sub-agent that ran: the tool that started it."""

    def notes(self) -> list[str]:
        notes = [*self.log.notes()]
        if self._agents:
            names = ", ".join(f"{tool} ({agent})" for agent, tool in self._agents.items())
            notes.append(f"Left out: the steps of its sub-agents, which have files of their own: {names}.")
        return [*notes, *sub_agent_note(self._by_agent)]

    def apply(self, change: _Change) -> None:
        match change:
            case _Message(record):
                if change.is_target:
                    self._checkpoints[record.text("id")] = self.log.checkpoint()
                self._conversation.append(record)
                self._add(record)
            case _Rewind(identity):
                self._rewind(identity)
            case _Snapshot(messages, at):
                self._conversation = messages
                self._checkpoints.clear()
                self._list_anew(at)
            case _:
                self.log.add(self.log.unknown(change, ""))

    def _rewind(self, identity: str) -> None:
        ids = [message.text("id") for message in self._conversation]
        del self._conversation[ids.index(identity) if identity in ids else 0 :]
        if not self._conversation:
            self.log.add(Clear())
        elif identity in self._checkpoints:
            self.log.go_back_to(self._checkpoints[identity])
        else:  # the conversation was listed again since
            self._list_anew(None)

    def _list_anew(self, at: datetime | None) -> None:
        context: list[int | BaseMessage] = []
        for record in self._conversation:
            messages = [entry for entry in self._entries_of(record) if isinstance(entry, BaseMessage)]
            results = [message for message in messages if isinstance(message, ToolResultMessage)]
            texts = [message.text for message in messages if not isinstance(message, ToolResultMessage)]
            indices = self._entries.get(record.text("id"))
            if indices is not None and texts == [self.log.message(index).text for index in indices]:
                context += [*indices, *results]
            else:
                context += messages
        relist(self.log, context, at, strategy="gemini-cli")

    def _add(self, record: JsonObject) -> None:
        at, identity = record.time("timestamp"), record.text("id")
        indices = self._entries.setdefault(identity, []) if identity else []
        for entry in self._entries_of(record):
            if isinstance(entry, ToolResultMessage):
                if not entry.call_id or self.log.newest_result(entry.call_id) is None:
                    self.log.add(entry, at)
                continue
            index = self.log.add(entry, at)
            if isinstance(entry, BaseMessage):
                indices.append(index)

    def _entries_of(self, record: JsonObject) -> Sequence[Entry]:
        pieces = record.pieces("content")
        match record.kind:
            case "user":
                return self._user(record, pieces)
            case "gemini":
                return self._answer(record, pieces)
            case "info" | "warning" | "error" as level:
                return [NoticeRecord(text=_text_in(pieces), level=level)]
            case _ if is_content(record):
                return self._contents.messages(record)
            case _:
                return [self.log.unknown(record, record.kind)]

    def _user(self, record: JsonObject, pieces: Sequence[JsonObject]) -> Sequence[Entry]:
        text = _text_in(pieces)
        if text.lstrip().startswith(_COMMANDS):
            return [NoticeRecord(text=text)]
        results, messages = self._results_in(record), self._contents.user_messages(pieces)
        return [*results, *(map(by_program, messages) if self._by_agent else messages)]

    def _answer(self, record: JsonObject, pieces: Sequence[JsonObject]) -> Sequence[Entry]:
        runs = record.objects("toolCalls")
        calls = [JsonObject(functionCall=run) for run in runs]
        answer = AssistantMessage(
            parts=(*_thinking(record), *self._contents.parts([*_without(pieces, runs), *calls])),
            model=record.text("model") or None,
            usage=_USAGE.read(record.get("tokens")),
        )
        return [answer, *self._results_in(record)]

    def _results_in(self, record: JsonObject) -> Sequence[ToolResultMessage]:
        """Return the results in the content and of recorded calls."""
        results = self._contents.results(record.pieces("content"))
        for run in record.objects("toolCalls"):
            results += self._results_of(run)
        return results

    def _results_of(self, run: JsonObject) -> Sequence[ToolResultMessage]:
        """Return the result of a recorded call, if it ended.

        Results of parallel calls may stand with it.
        """
        call_id, name = run.text("id"), run.text("name")
        pieces = run.pieces("result")
        if agent := run.text("agentId"):
            self._agents[agent] = name
        responses = responses_in(pieces)
        own = next((response for response in responses if response.get("id") == call_id), None)
        own = own or next(iter(responses), JsonObject())
        others = [piece for piece in pieces if "functionResponse" not in piece]
        if len(responses) > 1:
            others = []
        elif others and not responses and all("text" in piece for piece in others):
            own, others = JsonObject(response=_text_in(others, "")), []
        if not own and not others:
            return ()
        response = JsonObject({**own, "id": call_id, "name": name})
        return self._contents.results([JsonObject(functionResponse=response), *others], run)


def _text_in(pieces: Iterable[JsonObject], between: str = "\n") -> str:
    return between.join(piece.text("text") for piece in pieces)


def _thinking(record: JsonObject) -> list[Part]:
    parts: list[Part] = []
    for thought in record.objects("thoughts"):
        subject, text = thought.text("subject"), thought.text("description")
        if text or thought.get("subject"):
            parts.append(ThinkingPart(text=f"**{subject}** {text}" if subject else text))
    return parts


def _without(pieces: Iterable[JsonObject], runs: Iterable[JsonObject]) -> list[JsonObject]:
    """Leave out the calls that are recorded as runs."""
    ids = {run.text("id") for run in runs}
    nameless = [(run.get("name"), run.get("args")) for run in runs]
    others: list[JsonObject] = []
    for piece in pieces:
        called = piece.object("functionCall")
        call = (called.get("name"), called.get("args"))
        if called and not called.get("id") and call in nameless:
            nameless.remove(call)
        elif not called or called.text("id") not in ids:
            others.append(piece)
    return others
