"""Reader for the sessions of Qwen Code: JSON lines that make a tree by `uuid` and `parentUuid`, as Claude
Code's do, with contents as Google's API spells them."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from foldline.formats.base import ForeignSession, JsonObject, known_lines, lacks_parent
from foldline.formats.contents import (
    Contents,
    by_program,
    contents_of,
    is_content,
    is_program_text,
)
from foldline.formats.parts import BESIDE, UsageFields, beginning_note, first_text, sub_agent_note
from foldline.formats.relist import relist
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
"""Subtypes of the records that hold typed text; the others are the program's."""
_NOT_SENT = ("realtime_message", "code_mode_tool_result")
"""Subtypes of the records with a message that the model is never sent."""
_MOVES = ("rewind", "chat_compression")
"""Subtypes of the program's notes that are part of the conversation."""
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
    in_tree = record.kind in _KINDS and {"uuid", "parentUuid"} <= record.keys()
    return in_tree and (is_content(record.object("message")) or not record.keys().isdisjoint(_OWN_KEYS))


def read(data: bytes, path: Path) -> ForeignSession:
    """Read a session or a sub-agent. An index counts entries."""
    lacks = "record of Qwen Code: no line has a known type, a `uuid`, a `parentUuid` and a message with parts"
    lines, damage = known_lines(data, path, recognises, lacks)
    records = [line.record for line in lines]
    log = _Reader(_nodes(records)).log
    # The program's notes may be about other folders than the one where the newest message was said.
    messages = (record for record in reversed(records) if record.kind != "system")
    cwd = first_text(record.text("cwd") for record in messages)
    name = first_text(record.text("sessionId") for record in reversed(records)) or path.stem
    begun = next(filter(None, (record.time("timestamp") for record in records)), None)
    by_agent = any(record.flag("isSidechain") for record in records)
    first = next((record for record in records if record.text("uuid")), JsonObject())
    lost_note = beginning_note(is_lost=lacks_parent(first, records))
    notes = (*log.notes(_SILENT), *lost_note, *sub_agent_note(by_agent))
    return log.session("qwen-code", name, cwd, damage, notes, begun=begun)


# --- the tree ---------------------------------------------------------------------------------------


@dataclass
class _Node:
    """A message, put together from the records that it was written to as it came."""

    records: list[JsonObject]
    goes_back: bool = False
    """Whether the conversation goes back before it."""
    parent: "_Node | None" = None
    """The node it goes back to; None is the beginning."""
    is_target: bool = False
    """Whether the conversation goes back to it."""
    checkpoint: int | None = None

    @property
    def first(self) -> JsonObject:
        return self.records[0]

    @property
    def subtype(self) -> str:
        return self.first.text("subtype")

    @property
    def pieces(self) -> list[JsonObject]:
        return [piece for record in self.records for piece in record.pieces("message", "parts")]


def _nodes(records: Iterable[JsonObject]) -> list[_Node]:
    """Return the nodes: records of the same id and type are one."""
    nodes: dict[object, _Node] = {}
    for place, record in enumerate(records):
        key = (record.text("uuid") or place, record.kind)
        nodes.setdefault(key, _Node([])).records.append(record)
    _connect(nodes.values())
    return list(nodes.values())


def _connect(nodes: Iterable[_Node]) -> None:
    """Set where the conversation goes back.

    Most notes of the program only hang on a node."""
    leaf: _Node | None = None
    nodes_by_id: dict[str, _Node | None] = {}
    for node in nodes:
        uuid, parent_id = node.first.text("uuid"), node.first.get("parentUuid")
        parent = leaf
        if parent_id is None:
            parent = None
        elif isinstance(parent_id, str) and parent_id != uuid:
            parent = nodes_by_id.get(parent_id, leaf)
        if node.first.kind == "system" and node.subtype not in _MOVES:
            nodes_by_id.setdefault(uuid, parent)
            continue
        if parent is not leaf:
            node.goes_back, node.parent = True, parent
            if parent is not None:
                parent.is_target = True
        leaf = parent if node.subtype == "rewind" else node
        nodes_by_id.setdefault(uuid, leaf)


# --- the messages as entries ------------------------------------------------------------------------


class _Reader:
    """Turns nodes into entries."""

    def __init__(self, nodes: Iterable[_Node]) -> None:
        self.log = Transcript("qwen")
        self._contents = Contents(self.log)
        self._newest: int | None = None
        """The newest message."""
        for node in nodes:
            at = node.records[-1].time("timestamp")
            if node.parent is not None and node.parent.checkpoint is not None:
                self.log.go_back_to(node.parent.checkpoint, at)
            elif node.goes_back:
                self.log.go_to_branch(NEW, at)
            self._read(node, at)
            if node.is_target:
                node.checkpoint = self.log.checkpoint(at)

    def _read(self, node: _Node, at: datetime | None) -> None:
        payload, kind = node.first.object("systemPayload"), f"{node.first.kind}.{node.subtype}"
        if kind == "system.chat_compression" and isinstance(payload.get("compressedHistory"), list):
            messages = self._listed(payload, "compressedHistory")
            tokens = payload.count("info", "originalTokenCount")
            relist(self.log, messages, at, strategy="qwen-code", tokens_before=tokens)
            return
        for entry in self._entries(node, payload) or [self.log.unknown(node.first, kind.strip("."))]:
            index = self.log.add(entry, at)
            if isinstance(entry, BaseMessage):
                self._newest = index
        if kind == "system.slash_command":
            self._take_back(payload, at)

    def _take_back(self, command: JsonObject, at: datetime | None) -> None:
        """Drop the prompt of an editor's command that was not sent."""
        if command.get("phase") != "result" or command.flag("sentToModel") or self._newest is None:
            return
        newest = self.log.entries[self._newest]
        if isinstance(newest, UserMessage) and newest.text == command.get("rawCommand"):
            self.log.drop(self._newest, at)

    def _entries(self, node: _Node, payload: JsonObject) -> Sequence[Entry]:
        if node.subtype in _NOT_SENT:
            return ()
        match node.first.kind:
            case "assistant":
                return [self._answer(node)]
            case "user" | "tool_result" as kind:
                run, pieces = node.first.object("toolCallResult"), node.pieces
                if kind == "tool_result" and not any("functionResponse" in piece for piece in pieces):
                    pieces = [_response(run), *pieces]
                return self._contents.results(pieces, run) or self._user_messages(node.first, pieces)
            case "system":
                return self._note(node.subtype, payload)
            case _:
                return ()

    def _answer(self, node: _Node) -> AssistantMessage:
        usages = (record.object("usageMetadata") for record in reversed(node.records))
        return AssistantMessage(
            parts=self._contents.parts(node.pieces),
            usage=_USAGE.read(next(filter(None, usages), {})),
            model=first_text(record.text("model") for record in node.records) or None,
        )

    def _user_messages(self, record: JsonObject, pieces: Sequence[JsonObject]) -> Sequence[UserMessage]:
        by_program = record.get("subtype") not in _TYPED or record.flag("isSidechain")

        def is_program(text: str) -> bool:
            return is_program_text(text) or bool(text and (by_program or _CONTEXT.match(text)))

        return self._contents.user_messages(pieces, is_program)

    def _note(self, subtype: str, payload: JsonObject) -> Sequence[Entry]:
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
        """Return the messages that the program listed."""
        contents = contents_of(payload, name)
        messages = (message for content in contents for message in self._contents.messages(content))
        return [by_program(message) if isinstance(message, UserMessage) else message for message in messages]


def _is_beside(event: JsonObject) -> bool:
    """Return whether a request was beside the conversation."""
    of_prompt = "#" in event.text("prompt_id")
    return event.text("event.name").endswith("api_response") and not of_prompt


def _response(run: JsonObject) -> JsonObject:
    """Build the response of a call from the text shown."""
    text = run.first("resultDisplay", "result")
    response = {"output": text} if text else {}
    return JsonObject(
        functionResponse={"id": run.get("callId"), "name": run.get("name"), "response": response}
    )
