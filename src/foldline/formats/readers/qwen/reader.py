"""Reader for the sessions of Qwen Code: JSON lines that make a tree by `uuid` and `parentUuid`, as Claude
Code's do, with contents as Google's API spells them."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from foldline.formats.base import ForeignSession, JsonObject, known_lines
from foldline.formats.parts import BESIDE, UsageFields, sub_agent_note
from foldline.formats.readers.gemini.contents import (
    Contents,
    by_program,
    contents_of,
    is_content,
    is_program_text,
)
from foldline.formats.transcript import Transcript
from foldline.protocol import (
    NEW,
    AssistantMessage,
    BaseMessage,
    Entry,
    ModelChange,
    NoticeRecord,
    Title,
    UserMessage,
)

_KINDS = ("user", "assistant", "tool_result", "system")
_OWN_KEYS = ("systemPayload", "toolCallResult", "usageMetadata", "contextWindowSize")
"""Fields that records of Qwen Code have and those of Claude Code have not."""
_TYPED = (None, "mid_turn_user_message")
"""Kinds of user records that hold what somebody typed; the others are the program's."""
_BESIDE = ("realtime_message", "code_mode_tool_result")
"""Kinds of records with a message that the model is never sent."""
_SILENT = (
    "assistant.realtime_message", "record", "tool_result.code_mode_tool_result", "user.realtime_message",
    "system.agent_", "system.at_command", "system.attribution_snapshot", "system.background_task",
    "system.branch_checkpoint", "system.custom_title", "system.file_history_snapshot", "system.goal_",
    "system.managed_session", "system.omni_recall", "system.parent_session", "system.rewind",
    "system.session_", "system.slash_command", "system.turn_", "system.ui_telemetry",
    "system.user_text_elements",
)  # fmt: skip
_CONTEXT = re.compile(r"\s*<qwen:user-prompt-submit-context>")
_USAGE = UsageFields(
    input=("promptTokenCount", "toolUsePromptTokenCount"),
    output=("candidatesTokenCount", "thoughtsTokenCount"),
    cached="cachedContentTokenCount",
    reasoning="thoughtsTokenCount",
)

_TELEMETRY_USAGE = UsageFields(
    input=("input_token_count",),
    output=("output_token_count", "thoughts_token_count"),
    cached="cached_content_token_count",
    reasoning="thoughts_token_count",
)


def recognises(record: JsonObject) -> bool:
    in_tree = record.get("type") in _KINDS and {"uuid", "parentUuid"} <= record.keys()
    return in_tree and (is_content(record.object("message")) or not record.keys().isdisjoint(_OWN_KEYS))


def read(data: bytes, path: Path) -> ForeignSession:
    """A session of Qwen Code, or of one of its sub-agents. An index counts entries."""
    lacks = "record of Qwen Code: no line has a known type, a `uuid`, a `parentUuid` and a message with parts"
    lines, damage = known_lines(data, path, recognises, lacks)
    records = [line.record for line in lines]
    reader = _Reader(_nodes(records))
    reader.read_all()
    newest_first = records[::-1]
    # What the program notes may be about other folders than the one where the newest message was said.
    folders = (record.text("cwd") for record in newest_first if record.get("type") != "system")
    name = next(filter(None, (record.text("sessionId") for record in newest_first)), path.stem)
    begun = next(filter(None, (record.time("timestamp") for record in records)), None)
    by_agent = any(node.first.flag("isSidechain") for node in reader.nodes)
    notes = (*reader.log.notes(_SILENT), *sub_agent_note(by_agent))
    cwd = next(filter(None, folders), "")
    return reader.log.session("qwen-code", name, cwd, damage, notes, begun=begun)


# --- the tree ---------------------------------------------------------------------------------------


@dataclass
class _Node:
    """A message, put together from the records that it was written to as it came."""

    records: list[JsonObject]
    checkpoint: int | None = None
    is_target: bool = False

    @property
    def first(self) -> JsonObject:
        return self.records[0]

    @property
    def kind(self) -> tuple[str, str]:
        return self.first.text("type"), self.first.text("subtype")

    @property
    def moves(self) -> bool:
        """Whether the conversation goes on from it. Most of what the program notes only hangs on it."""
        return self.kind[0] != "system" or self.kind[1] in ("rewind", "chat_compression")


def _nodes(records: Iterable[JsonObject]) -> list[_Node]:
    """Records with the same id and type are one message, at the place of the first."""
    nodes: dict[object, _Node] = {}
    for place, record in enumerate(records):
        key = (record.text("uuid") or place, record.text("type"))
        nodes.setdefault(key, _Node([])).records.append(record)
    return list(nodes.values())


@dataclass
class _Branches:
    """Says for each node where the conversation goes back to before it."""

    leaf: _Node | None = None
    _places: dict[str, _Node | None] = field(default_factory=dict)
    """By uuid: the message that a record is, or hangs on."""

    def before(self, node: _Node) -> tuple[bool, _Node | None]:
        """Whether the conversation goes back before this node, and to which; to None is to its beginning."""
        parent, uuid = node.first.get("parentUuid"), node.first.text("uuid")
        hangs_on = self._places.get(node.first.text("parentUuid"), self.leaf)
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
    log: Transcript = field(default_factory=lambda: Transcript("qwen"))
    _newest: int | None = None

    def __post_init__(self) -> None:
        self._contents = Contents(self.log)

    def read_all(self) -> None:
        branches = _Branches()
        goes_back = [branches.before(node) for node in self.nodes]
        for back, target in goes_back:
            if back and target is not None:
                target.is_target = True
        for node, (back, target) in zip(self.nodes, goes_back, strict=True):
            at = node.records[-1].time("timestamp")
            if back and target is not None and target.checkpoint is not None:
                self.log.go_back_to(target.checkpoint, at)
            elif back:
                self.log.go_to_branch(NEW, at)
            self._read(node, at)
            if node.is_target:
                node.checkpoint = self.log.checkpoint(at)

    def _read(self, node: _Node, at: datetime | None) -> None:
        payload = node.first.object("systemPayload")
        if node.kind == ("system", "chat_compression") and self._compress(payload, at):
            return
        kind = ".".join(filter(None, node.kind))
        for entry in self._entries(node, payload) or [self.log.unknown(node.first, kind)]:
            index = self.log.add(entry, at)
            if isinstance(entry, BaseMessage):
                self._newest = index
        if node.kind == ("system", "slash_command"):
            self._take_back(payload, at)

    def _take_back(self, command: JsonObject, at: datetime | None) -> None:
        """A command that an editor passed on is recorded as a prompt; the model never got it."""
        if command.get("phase") != "result" or command.flag("sentToModel") or self._newest is None:
            return
        newest = self.log.entries[self._newest]
        if isinstance(newest, UserMessage) and newest.text == command.get("rawCommand"):
            self.log.drop(self._newest, at)

    def _entries(self, node: _Node, payload: JsonObject) -> Sequence[Entry]:
        kind, subtype = node.kind
        pieces = [piece for record in node.records for piece in record.pieces("message", "parts")]
        if subtype in _BESIDE:
            return ()
        match kind:
            case "assistant":
                usages = (record.object("usageMetadata") for record in reversed(node.records))
                models = (record.text("model") for record in node.records)
                return [
                    AssistantMessage(
                        parts=self._contents.parts(pieces),
                        usage=_USAGE.read(next(filter(None, usages), {})),
                        model=next(filter(None, models), None),
                    )
                ]
            case "user" | "tool_result":
                noted = node.first.object("toolCallResult")
                if kind == "tool_result" and not any("functionResponse" in piece for piece in pieces):
                    pieces = [_response(noted), *pieces]
                return self._contents.results(pieces, noted) or self._said(node.first, pieces)
            case "system":
                return self._noted(subtype, payload)
            case _:
                return ()

    def _said(self, record: JsonObject, pieces: Sequence[JsonObject]) -> Sequence[UserMessage]:
        is_program = record.get("subtype") not in _TYPED or record.flag("isSidechain")
        return self._contents.user_messages(
            pieces,
            lambda text: (
                is_program_text(text) or (bool(text) and (is_program or _CONTEXT.match(text) is not None))
            ),
        )

    def _noted(self, subtype: str, payload: JsonObject) -> Sequence[Entry]:
        match subtype:
            case "custom_title" if payload.text("customTitle").strip():
                return [Title(title=payload.text("customTitle"))]
            case "session_model" if payload.text("modelId"):
                return [ModelChange(model=payload.text("modelId"))]
            case "slash_command" if payload.get("phase") == "invocation":
                return [NoticeRecord(text=payload.text("rawCommand"))]
            case "ui_telemetry" if _is_beside(event := payload.object("uiEvent")):
                usage = _TELEMETRY_USAGE.read(event)
                return [NoticeRecord(text=BESIDE, model=event.text("model") or None, usage=usage)]
            case "agent_bootstrap":
                return self._listed(payload, "history")
            case _:
                return ()

    def _listed(self, payload: JsonObject, name: str) -> list[BaseMessage]:
        """The messages of a list of contents: the program put it together."""
        return [
            by_program(message) if isinstance(message, UserMessage) else message
            for content in contents_of(payload, name)
            for message in self._contents.messages(content)
        ]

    def _compress(self, payload: JsonObject, at: datetime | None) -> bool:
        if not isinstance(payload.get("compressedHistory"), list):
            return False
        self.log.relist(
            self._listed(payload, "compressedHistory"),
            at,
            strategy="qwen-code",
            tokens_before=payload.count("info", "originalTokenCount"),
        )
        return True


def _is_beside(event: JsonObject) -> bool:
    """Whether it is an answer to no prompt, such as the summary of a compression."""
    of_prompt = "#" in event.text("prompt_id")
    return event.text("event.name").endswith("api_response") and not of_prompt


def _response(noted: JsonObject) -> JsonObject:
    """The response of a call of which only what the program showed is in the file."""
    shown = noted.first("resultDisplay", "result")
    answered = {"output": shown} if shown else {}
    response = {"id": noted.get("callId"), "name": noted.get("name"), "response": answered}
    return JsonObject(functionResponse=response)
