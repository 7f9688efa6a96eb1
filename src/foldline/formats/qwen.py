"""Reader for the sessions of Qwen Code: JSON lines that make a tree by `uuid` and `parentUuid`, as Claude
Code's do, with contents as Google's API spells them."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from foldline.protocol import (
    BaseMessage,
    Entry,
    FoldlineError,
    ModelChange,
    NoticeRecord,
    SessionHeader,
    Title,
    Unknown,
    UserMessage,
)

from .base import ForeignSession, JsonObject, as_count, as_list, as_object, as_text, as_time, json_lines
from .detection import left_out_note, unknown_records_note
from .gemini_parts import Contents, is_content, pieces_of, usage_of
from .transcript import Transcript

_KINDS = ("user", "assistant", "tool_result", "system")
_OWN_KEYS = ("systemPayload", "toolCallResult", "usageMetadata", "contextWindowSize")
"""Fields that records of Qwen Code have and those of Claude Code have not."""
_TYPED = (None, "mid_turn_user_message")
"""Kinds of user records that hold what somebody typed; the others are the program's."""
_BESIDE = ("realtime_message", "code_mode_tool_result")
"""Kinds of records with a message that the model is never sent."""
_SILENT = (
    "assistant.realtime_message",
    "tool_result.code_mode_tool_result",
    "user.realtime_message",
    *(
        f"system.{kind}"
        for kind in (
            "agent_",
            "at_command",
            "attribution_snapshot",
            "background_task",
            "branch_checkpoint",
            "custom_title",
            "file_history_snapshot",
            "goal_",
            "managed_session",
            "omni_recall",
            "parent_session",
            "rewind",
            "session_",
            "slash_command",
            "turn_",
            "ui_telemetry",
            "user_text_elements",
        )
    ),
)
"""How the kinds of records begin that say nothing to the model."""
_CONTEXT = re.compile(r"\s*<qwen:user-prompt-submit-context>")


def is_qwen(records: Sequence[JsonObject]) -> bool:
    """Whether the first records of a file are those of a Qwen Code session."""
    return any(_is_record(record) for record in records)


def _is_record(record: JsonObject) -> bool:
    if record.get("type") not in _KINDS or "uuid" not in record or "parentUuid" not in record:
        return False
    return is_content(record.get("message")) or any(key in record for key in _OWN_KEYS)


def read_qwen(data: bytes, path: Path) -> ForeignSession:
    """A session of Qwen Code, or of one of its sub-agents. An index counts entries.

    Raises:
        FoldlineError: no line of the file is a record of Qwen Code.
    """
    lines, damage = json_lines(data)
    records = [line.record for line in lines]
    if not is_qwen(records):
        raise FoldlineError(
            f"{path} has no record of Qwen Code: no line has a known type, a `uuid`, a `parentUuid` and a "
            "message with parts."
        )
    reader = _Reader(_nodes(records))
    reader.read_all()
    header = SessionHeader(
        id=next(filter(None, (as_text(record.get("sessionId")) for record in reversed(records))), path.stem),
        created_at=next(
            filter(None, (as_time(record.get("timestamp")) for record in records)),
            datetime.fromtimestamp(0, UTC),
        ),
        cwd=_folder(records),
    )
    notes = [*([f"{damage}."] if damage else []), *reader.notes()]
    return ForeignSession("qwen-code", header, reader.transcript.entries, damage, tuple(notes))


def _folder(records: Sequence[JsonObject]) -> str:
    """Where the newest message was said: what the program notes may be about other folders."""
    said = [record for record in records if record.get("type") != "system"]
    return next(filter(None, (as_text(record.get("cwd")) for record in reversed(said))), "")


# --- the tree ---------------------------------------------------------------------------------------


@dataclass
class _Node:
    """A message, put together from the records that it was written to as it came."""

    records: list[JsonObject]
    checkpoint: int | None = None
    """Our checkpoint right after it, where the session comes back to it."""
    is_target: bool = False

    @property
    def first(self) -> JsonObject:
        return self.records[0]

    @property
    def kind(self) -> tuple[str, str]:
        return as_text(self.first.get("type")), as_text(self.first.get("subtype"))

    @property
    def moves(self) -> bool:
        """Whether the conversation goes on from it. Most of what the program notes only hangs on it."""
        return self.kind[0] != "system" or self.kind[1] in ("rewind", "chat_compression")


def _nodes(records: Iterable[JsonObject]) -> list[_Node]:
    """Records with the same id and type are one message, at the place of the first."""
    nodes: dict[object, _Node] = {}
    for place, record in enumerate(records):
        key = (as_text(record.get("uuid")) or place, as_text(record.get("type")))
        if key in nodes:
            nodes[key].records.append(record)
        else:
            nodes[key] = _Node([record])
    return list(nodes.values())


@dataclass
class _Branches:
    """Says for each node where the conversation goes back to before it."""

    leaf: _Node | None = None
    _places: dict[str, _Node | None] = field(default_factory=dict)
    """By uuid: the message that a record is, or hangs on."""

    def before(self, node: _Node) -> tuple[bool, _Node | None]:
        """Whether the conversation goes back before this node, and to which; to None is to its beginning."""
        parent = node.first.get("parentUuid")
        uuid = as_text(node.first.get("uuid"))
        hangs_on = self._places.get(as_text(parent), self.leaf)
        if parent is None:
            hangs_on = None
        elif parent == uuid:
            hangs_on = self.leaf
        if not node.moves:
            self._places.setdefault(uuid, hangs_on)
            return False, None
        back = hangs_on is not self.leaf
        self.leaf = hangs_on if node.kind[1] == "rewind" else node
        self._places.setdefault(uuid, self.leaf)
        return back, hangs_on


# --- the messages as entries ------------------------------------------------------------------------


@dataclass
class _Reader:
    nodes: Sequence[_Node]
    transcript: Transcript = field(default_factory=Transcript)
    _contents: Contents = field(default_factory=Contents)
    _newest: int | None = None
    """The index of the newest message."""

    def read_all(self) -> None:
        branches = _Branches()
        goes_back = [branches.before(node) for node in self.nodes]
        for back, target in goes_back:
            if back and target is not None:
                target.is_target = True
        for node, (back, target) in zip(self.nodes, goes_back, strict=True):
            at = as_time(node.records[-1].get("timestamp"))
            if back and target is not None and target.checkpoint is not None:
                self.transcript.go_back_to(target.checkpoint, at)
            elif back:
                self.transcript.clear(at)
            self._read(node, at)
            if node.is_target:
                node.checkpoint = self.transcript.checkpoint(at)

    def notes(self) -> list[str]:
        notes = [
            *left_out_note(self._contents.left_out),
            *unknown_records_note(self.transcript.entries, _SILENT),
        ]
        if any(node.first.get("isSidechain") is True for node in self.nodes):
            notes.append("These are the steps of a sub-agent: the agent that started it wrote its prompts.")
        return notes

    def _read(self, node: _Node, at: datetime | None) -> None:
        if node.kind == ("system", "chat_compression") and self._compress(node.first, at):
            return
        entries = self._entries(node)
        for entry in entries or [Unknown(type=_unknown(node), record=node.first)]:
            index = self.transcript.add(entry, at)
            if isinstance(entry, BaseMessage):
                self._newest = index
        if node.kind == ("system", "slash_command"):
            self._take_back(as_object(node.first.get("systemPayload")), at)

    def _take_back(self, command: JsonObject, at: datetime | None) -> None:
        """A command that an editor passed on is recorded as a prompt; the model never got it."""
        if command.get("phase") != "result" or command.get("sentToModel") is True or self._newest is None:
            return
        newest = self.transcript.entries[self._newest]
        if isinstance(newest, UserMessage) and newest.text == command.get("rawCommand"):
            self.transcript.drop(self._newest, at)

    def _entries(self, node: _Node) -> Sequence[Entry]:
        """The entries of a message; none where it says nothing to us."""
        kind, subtype = node.kind
        pieces = [
            piece
            for record in node.records
            for piece in pieces_of(as_object(record.get("message")).get("parts"))
        ]
        if subtype in _BESIDE:
            return ()
        match kind:
            case "assistant":
                return [self._answer(node, pieces)]
            case "user" | "tool_result":
                noted = as_object(node.first.get("toolCallResult"))
                if kind == "tool_result" and not any("functionResponse" in piece for piece in pieces):
                    pieces = [_response(noted), *pieces]
                results = self._contents.results(pieces, noted)
                return results or self._said(node.first, pieces)
            case "system":
                return self._noted(subtype, as_object(node.first.get("systemPayload")), node.first)
            case _:
                return ()

    def _answer(self, node: _Node, pieces: Sequence[JsonObject]) -> Entry:
        usages = [as_object(record.get("usageMetadata")) for record in node.records]
        usage = usage_of(
            next(filter(None, reversed(usages)), {}),
            prompt="promptTokenCount",
            cached="cachedContentTokenCount",
            answer="candidatesTokenCount",
            thoughts="thoughtsTokenCount",
            tool="toolUsePromptTokenCount",
        )
        models = (as_text(record.get("model")) for record in node.records)
        answer = self._contents.answer(pieces)
        return answer.model_copy(update={"usage": usage, "model": next(filter(None, models), None)})

    def _said(self, record: JsonObject, pieces: Sequence[JsonObject]) -> Sequence[UserMessage]:
        by_program = record.get("subtype") not in _TYPED or record.get("isSidechain") is True
        return self._contents.said(pieces, typed=lambda text: not by_program and not _CONTEXT.match(text))

    def _noted(self, subtype: str, payload: JsonObject, record: JsonObject) -> Sequence[Entry]:
        match subtype:
            case "custom_title" if as_text(payload.get("customTitle")).strip():
                return [Title(title=as_text(payload.get("customTitle")))]
            case "session_model" if as_text(payload.get("modelId")):
                return [ModelChange(model=as_text(payload.get("modelId")))]
            case "slash_command" if payload.get("phase") == "invocation":
                return [NoticeRecord(text=as_text(payload.get("rawCommand")))]
            case "agent_bootstrap":
                history = [content for content in as_list(payload.get("history")) if is_content(content)]
                messages = [message for content in history for message in self._contents.messages(content)]
                return [_by_program(message) for message in messages]
            case _:
                return ()

    def _compress(self, record: JsonObject, at: datetime | None) -> bool:
        """The context after a compression, as the record lists it."""
        payload = as_object(record.get("systemPayload"))
        history = payload.get("compressedHistory")
        if not isinstance(history, list):
            return False
        contents = [content for content in history if is_content(content)]
        messages = [message for content in contents for message in self._contents.messages(content)]
        info = as_object(payload.get("info"))
        self.transcript.relist(
            [_by_program(message) for message in messages],
            at,
            strategy="qwen-code",
            tokens_before=as_count(info.get("originalTokenCount")),
        )
        return True


def _response(noted: JsonObject) -> JsonObject:
    """The response of a call of which only what the program showed is in the file."""
    shown = as_text(noted.get("resultDisplay")) or as_text(noted.get("result"))
    answered = {"output": shown} if shown else {}
    return {"functionResponse": {"id": noted.get("callId"), "name": noted.get("name"), "response": answered}}


def _by_program(message: BaseMessage) -> BaseMessage:
    return message.model_copy(update={"origin": "machine"}) if isinstance(message, UserMessage) else message


def _unknown(node: _Node) -> str:
    return ".".join(filter(None, ("qwen", *node.kind)))
