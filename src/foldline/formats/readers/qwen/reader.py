"""Reader for Qwen Code's sessions.

A session consists of JSON lines that form a tree by `uuid` and `parentUuid`, as in Claude Code. Messages are
in the format of Google's API.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from foldline.formats.base import (
    ForeignSession,
    JsonObject,
    first_value,
    known_lines,
    lacks_parent,
)
from foldline.formats.contents import (
    ContentReader,
    by_program,
    contents_of,
    is_content,
    is_program_text,
)
from foldline.formats.parts import BESIDE, UsageFields, beginning_note, sub_agent_note
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
"""Fields that only occur in Qwen Code's records, not in Claude Code's."""
_TYPED = (None, "mid_turn_user_message")
"""Subtypes of records whose text was typed by the user.

The text of other records was written by the program.
"""
_NOT_SENT = ("realtime_message", "code_mode_tool_result")
"""Subtypes of records whose message is never sent to the model."""
_MOVES = ("rewind", "chat_compression")
"""Subtypes of system records that are part of the conversation."""
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
    return in_tree and (
        is_content(record.object("message")) or not record.keys().isdisjoint(_OWN_KEYS)
    )


def read(data: bytes, path: Path) -> ForeignSession:
    """Read a session, which may be a subagent's.

    Its indices count entries.
    """
    lacks = "Qwen Code records: no line has a known type, a `uuid`, a `parentUuid` and a message with parts"
    lines, damage = known_lines(data, path, recognises, lacks)
    records = [line.record for line in lines]
    log = _QwenReader(_nodes(records)).log
    # System records may name folders other than that of the newest message.
    messages = (record for record in reversed(records) if record.kind != "system")
    cwd = first_value(messages, "cwd")
    name = first_value(reversed(records), "sessionId") or path.stem
    begun = next(filter(None, (record.time("timestamp") for record in records)), None)
    by_agent = any(record.flag("isSidechain") for record in records)
    first = next((record for record in records if record.text("uuid")), JsonObject())
    lost_note = beginning_note(is_lost=lacks_parent(first, records))
    notes = (*log.notes(_SILENT), *lost_note, *sub_agent_note(by_agent))
    return log.session("qwen-code", name, cwd, damage, notes, begun=begun)


# --- the tree ---------------------------------------------------------------------------------------


@dataclass
class _Node:
    """A message of the conversation.

    It is assembled from the records that were written while the message arrived.
    """

    records: list[JsonObject]
    goes_back: bool = False
    """Whether the conversation was rewound to `parent` before this message."""
    parent: "_Node | None" = None
    """The node to which the conversation was rewound.

    None for the beginning.
    """
    end: int = NEW
    """The index of the node's last entry, once it has been read."""

    @property
    def first(self) -> JsonObject:
        return self.records[0]

    @property
    def subtype(self) -> str:
        return self.first.text("subtype")

    @property
    def pieces(self) -> list[JsonObject]:
        return [
            piece
            for record in self.records
            for piece in record.pieces("message", "parts")
        ]


def _nodes(records: Iterable[JsonObject]) -> list[_Node]:
    """Assemble records into nodes.

    Records with the same id and type form one node.
    """
    nodes: dict[object, _Node] = {}
    for place, record in enumerate(records):
        key = (record.text("uuid") or place, record.kind)
        nodes.setdefault(key, _Node([])).records.append(record)
    _connect(nodes.values())
    return list(nodes.values())


def _connect(nodes: Iterable[_Node]) -> None:
    """Mark the nodes before which the conversation was rewound.

    Most system records are not part of the conversation, but they can be the parents of nodes.
    """
    leaf: _Node | None = None
    nodes_by_id: dict[str, _Node | None] = {}
    for node in nodes:
        uuid = node.first.text("uuid")
        parent_id = node.first.get("parentUuid")
        parent = leaf
        if parent_id is None:
            parent = None
        elif isinstance(parent_id, str) and parent_id != uuid:
            parent = nodes_by_id.get(parent_id, leaf)
        if node.first.kind == "system" and node.subtype not in _MOVES:
            nodes_by_id.setdefault(uuid, parent)
            continue
        if parent is not leaf:
            node.goes_back = True
            node.parent = parent
        leaf = parent if node.subtype == "rewind" else node
        nodes_by_id.setdefault(uuid, leaf)


# --- the messages as entries ------------------------------------------------------------------------


class _QwenReader:
    def __init__(self, nodes: Iterable[_Node]) -> None:
        self.log = Transcript("qwen")
        self._contents = ContentReader(self.log)
        self._newest: int | None = None
        """The index of the newest message."""
        for node in nodes:
            at = node.records[-1].time("timestamp")
            if node.goes_back:
                self.log.go_back_to(node.parent.end if node.parent else NEW, at)
            self._read(node, at)
            node.end = self.log.newest_index

    def _read(self, node: _Node, at: datetime | None) -> None:
        payload = node.first.object("systemPayload")
        kind = f"{node.first.kind}.{node.subtype}"
        if kind == "system.chat_compression" and isinstance(
            payload.get("compressedHistory"), list
        ):
            messages = self._listed(payload, "compressedHistory")
            tokens = payload.count("info", "originalTokenCount")
            relist(self.log, messages, at, strategy="qwen-code", tokens_before=tokens)
            return
        for entry in self._entries(node, payload) or [
            self.log.unknown(node.first, kind.strip("."))
        ]:
            index = self.log.add(entry, at)
            if isinstance(entry, BaseMessage):
                self._newest = index
        if kind == "system.slash_command":
            self._take_back(payload, at)

    def _take_back(self, command: JsonObject, at: datetime | None) -> None:
        """Drop the newest prompt if it is an editor command.

        Such a command was not sent.
        """
        if (
            command.get("phase") != "result"
            or command.flag("sentToModel")
            or self._newest is None
        ):
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
                run = node.first.object("toolCallResult")
                pieces = node.pieces
                if kind == "tool_result" and not any(
                    "functionResponse" in piece for piece in pieces
                ):
                    pieces = [_response(run), *pieces]
                return self._contents.results(pieces, run) or self._user_messages(
                    node.first, pieces
                )
            case "system":
                return self._note(node.subtype, payload)
            case _:
                return ()

    def _answer(self, node: _Node) -> AssistantMessage:
        usages = (record.object("usageMetadata") for record in reversed(node.records))
        return AssistantMessage(
            parts=self._contents.parts(node.pieces),
            usage=_USAGE.read(next(filter(None, usages), {})),
            model=first_value(node.records, "model") or None,
        )

    def _user_messages(
        self, record: JsonObject, pieces: Sequence[JsonObject]
    ) -> Sequence[UserMessage]:
        by_program = record.get("subtype") not in _TYPED or record.flag("isSidechain")

        def is_program(text: str) -> bool:
            return is_program_text(text) or bool(
                text and (by_program or _CONTEXT.match(text))
            )

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
                return [
                    NoticeRecord(
                        text=BESIDE, model=event.text("model") or None, usage=usage
                    )
                ]
            case "agent_bootstrap":
                return self._listed(payload, "history")
            case _:
                return ()

    def _listed(self, payload: JsonObject, name: str) -> list[BaseMessage]:
        """Return the messages in a list that the program wrote."""
        contents = contents_of(payload, name)
        messages = (
            message
            for content in contents
            for message in self._contents.messages(content)
        )
        return [
            by_program(message) if isinstance(message, UserMessage) else message
            for message in messages
        ]


def _is_beside(event: JsonObject) -> bool:
    """Return whether a request was made outside the conversation."""
    of_prompt = "#" in event.text("prompt_id")
    return event.text("event.name").endswith("api_response") and not of_prompt


def _response(run: JsonObject) -> JsonObject:
    """Return the response to a call, derived from the displayed text."""
    text = run.first("resultDisplay", "result")
    response = {"output": text} if text else {}
    return JsonObject(
        functionResponse={
            "id": run.get("callId"),
            "name": run.get("name"),
            "response": response,
        }
    )
