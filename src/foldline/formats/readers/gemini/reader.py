"""Reader for Gemini CLI's sessions.

A session is a JSON document or, since version 0.40, a log of JSON lines, which records each addition, change
and removal. Files written by `/chat save` can also be read.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from foldline.formats.base import (
    ForeignSession,
    JsonObject,
    bytes_in,
    json_lines,
    parse_document,
)
from foldline.formats.contents import (
    ContentReader,
    by_program,
    contents_of,
    is_content,
    responses_in,
)
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
"""Prefixes of commands to the program, which are not prompts."""
_ROOT = ".project_root"
"""The name of the file with the project's path.

The file is next to the folder of sessions.
"""
_USAGE = UsageFields(("input", "tool"), ("output", "thoughts"), "cached", "thoughts")
NO_MESSAGES = "{path} is not a Gemini CLI session: it has no messages of one."
CHILDREN_LEFT_OUT = (
    "Left out: the steps of its subagents, which are in files of their own: {agents}."
)


def recognises(records: Sequence[JsonObject]) -> bool:
    return any(map(_is_own, records))


def _is_own(record: JsonObject) -> bool:
    is_header = {"sessionId", "projectHash"} <= record.keys()
    is_rewind = isinstance(record.get("$rewindTo"), str)
    is_answer = record.kind == "gemini" and "content" in record
    has_history = bool(contents_of(record, "history"))
    return is_header or is_rewind or is_answer or is_content(record) or has_history


def read(data: bytes, path: Path) -> ForeignSession:
    """Read a session, which may be a subagent's.

    Its indices count entries.
    """
    document = parse_document(data, "history")
    if document:
        records = [document]
        damage = Damage()
    else:
        lines, damage = json_lines(data)
        records = [line.record for line in lines]
    changes = _ChangeLog(records)
    if not any(isinstance(change, _Message | _Snapshot) for change in changes.all):
        raise FoldlineError(NO_MESSAGES, path=path)
    about = changes.about
    reader = _GeminiReader(by_agent=about.get("kind") == "subagent")
    title = about.text("summary").strip()
    if title:
        reader.log.add(Title(title=title))
    for change in changes.all:
        reader.apply(change)
    name = about.text("sessionId") or path.stem
    begun = about.time("startTime")
    return reader.log.session(
        "gemini-cli",
        name,
        project_of(path),
        damage,
        reader.notes(),
        begun=begun,
    )


def project_of(path: Path) -> str:
    """Return the project folder of a session, or an empty string if no file contains it."""
    try:
        return bytes_in(path.parent.parent / _ROOT).decode().strip()
    except ValueError:
        return ""


# --- changes of the conversation ----------------------------------------------------------------------


@dataclass
class _Message:
    record: JsonObject
    """The newest version of the message's record."""


class _RewindTo(NamedTuple):
    identity: str
    """The id of the first message that the rewind removes.

    If it is empty, all messages are removed.
    """


class _Snapshot(NamedTuple):
    """The complete conversation, which replaces the current one."""

    messages: list[JsonObject]
    at: datetime | None


_Change = _Message | _RewindTo | _Snapshot | JsonObject
"""A change to the conversation.

A plain object is a record of unknown type.
"""


class _ChangeLog:
    """Collects the changes to the conversation, and the session's metadata."""

    def __init__(self, records: Iterable[JsonObject]) -> None:
        self.all: list[_Change] = []
        self.about = JsonObject()
        self._messages: dict[str, _Message] = {}
        """The messages that are currently in the conversation, by id."""
        for record in records:
            self._read(record)

    def _read(self, record: JsonObject) -> None:
        update = record.object("$set")
        identity = record.text("id")
        history = contents_of(record, "history")
        if "$rewindTo" in record:
            self._rewind(record.text("$rewindTo"))
        elif update:
            self._add_facts(update)
            messages = update.objects("messages")
            if messages:
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
            self._add_facts(record)
            for message in record.objects("messages"):
                self._read(message)
        else:
            self.all.append(record)

    def _add_facts(self, facts: JsonObject) -> None:
        self.about |= facts
        self.about.pop("messages", None)

    def _rewind(self, identity: str) -> None:
        undone = list(self._messages)
        if identity in undone:
            undone = undone[undone.index(identity) :]
        else:
            identity = ""
        self.all.append(_RewindTo(identity))
        for message in undone:
            del self._messages[message]


# --- entries ------------------------------------------------------------------------------------------


class _GeminiReader:
    def __init__(self, *, by_agent: bool) -> None:
        self.log = Transcript("gemini")
        self._by_agent = by_agent
        self._contents = ContentReader(self.log)
        self._conversation: list[JsonObject] = []
        """The messages that Gemini CLI currently considers part of the conversation."""
        self._before: dict[str, int] = {}
        """The newest entry before each message since the last snapshot, by message id."""
        self._entries: dict[str, list[int]] = {}
        """The indices of each message's entries, by message id.

        Entries for tool results are not included.
        """
        self._agents: dict[str, str] = {}
        """The tools that started subagents, by subagent id."""

    def notes(self) -> list[str]:
        notes = [*self.log.notes()]
        if self._agents:
            agents = ", ".join(
                f"{tool} ({agent})" for agent, tool in self._agents.items()
            )
            notes.append(CHILDREN_LEFT_OUT.format(agents=agents))
        return [*notes, *sub_agent_note(self._by_agent)]

    def apply(self, change: _Change) -> None:
        match change:
            case _Message(record):
                self._before[record.text("id")] = self.log.newest_index
                self._conversation.append(record)
                self._add(record)
            case _RewindTo(identity):
                self._rewind(identity)
            case _Snapshot(messages, at):
                self._conversation = messages
                self._before.clear()
                self._list_anew(at)
            case _:
                self.log.add(self.log.unknown(change, ""))

    def _rewind(self, identity: str) -> None:
        ids = [message.text("id") for message in self._conversation]
        place = ids.index(identity) if identity in ids else 0
        del self._conversation[place:]
        if not self._conversation:
            self.log.add(Clear())
        elif identity in self._before:
            self.log.go_back_to(self._before[identity], None)
        else:  # the conversation has been listed again in the meantime
            self._list_anew(None)

    def _list_anew(self, at: datetime | None) -> None:
        context: list[int | BaseMessage] = []
        for record in self._conversation:
            messages = [
                entry
                for entry in self._entries_of(record)
                if isinstance(entry, BaseMessage)
            ]
            results = [
                message
                for message in messages
                if isinstance(message, ToolResultMessage)
            ]
            texts = [message.text for message in messages if message not in results]
            indices = self._entries.get(record.text("id"), [])
            if texts == [self.log.message(index).text for index in indices]:
                context += [*indices, *results]
            else:
                context += messages
        relist(self.log, context, at, strategy="gemini-cli")

    def _add(self, record: JsonObject) -> None:
        at = record.time("timestamp")
        identity = record.text("id")
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

    def _user(
        self, record: JsonObject, pieces: Sequence[JsonObject]
    ) -> Sequence[Entry]:
        text = _text_in(pieces)
        if text.lstrip().startswith(_COMMANDS):
            return [NoticeRecord(text=text)]
        results = self._results_in(record)
        messages = self._contents.user_messages(pieces)
        if self._by_agent:
            messages = list(map(by_program, messages))
        return [*results, *messages]

    def _answer(
        self, record: JsonObject, pieces: Sequence[JsonObject]
    ) -> Sequence[Entry]:
        runs = record.objects("toolCalls")
        calls = [JsonObject(functionCall=run) for run in runs]
        content = self._contents.parts([*_without(pieces, runs), *calls])
        answer = AssistantMessage(
            parts=(*_thinking(record), *content),
            model=record.text("model") or None,
            usage=_USAGE.read(record.get("tokens")),
        )
        return [answer, *self._results_in(record)]

    def _results_in(self, record: JsonObject) -> Sequence[ToolResultMessage]:
        """Return the results in a message's content and in its recorded calls."""
        results = self._contents.results(record.pieces("content"))
        for run in record.objects("toolCalls"):
            results += self._results_of(run)
        return results

    def _results_of(self, run: JsonObject) -> Sequence[ToolResultMessage]:
        """Return a recorded call's result.

        Returns an empty sequence if the call has not finished.

        The record may also contain the results of parallel calls, which are ignored.
        """
        call_id = run.text("id")
        name = run.text("name")
        pieces = run.pieces("result")
        agent = run.text("agentId")
        if agent:
            self._agents[agent] = name
        responses = responses_in(pieces)
        own = next(
            (response for response in responses if response.get("id") == call_id), None
        )
        own = own or next(iter(responses), JsonObject())
        others = [piece for piece in pieces if "functionResponse" not in piece]
        if len(responses) > 1:
            others = []
        elif others and not responses and all("text" in piece for piece in others):
            own = JsonObject(response=_text_in(others, ""))
            others = []
        if not own and not others:
            return ()
        response = JsonObject({**own, "id": call_id, "name": name})
        return self._contents.results(
            [JsonObject(functionResponse=response), *others], run
        )


def _text_in(pieces: Iterable[JsonObject], between: str = "\n") -> str:
    return between.join(piece.text("text") for piece in pieces)


def _thinking(record: JsonObject) -> list[Part]:
    parts: list[Part] = []
    for thought in record.objects("thoughts"):
        subject = thought.text("subject")
        text = thought.text("description")
        if subject:
            text = f"**{subject}** {text}"
        if text:
            parts.append(ThinkingPart(text=text))
    return parts


def _without(
    pieces: Iterable[JsonObject], runs: Iterable[JsonObject]
) -> list[JsonObject]:
    """Return the pieces except the calls that are also recorded separately."""
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
