"""Reader for the sessions of Copilot CLI: `events.jsonl`, one event a line.

One index a record; a prompt around which the program wrote takes more. A rewind takes events out of the file.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from foldline.context.numbers import many
from foldline.history import Damage
from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    Compaction,
    Entry,
    ModelChange,
    NoticeRecord,
    Part,
    SystemMessage,
    ThinkingPart,
    Title,
    ToolResultMessage,
    UserMessage,
    text_parts,
)

from .base import ForeignChild, ForeignSession, JsonLine, JsonObject, child_of, known_lines
from .parts import UsageFields, call_part, image, user_messages
from .tool_results import changes_of, tool_result
from .transcript import Transcript

_KINDS = ("session.", "user.message", "assistant.", "tool.execution", "hook.", "system.message")
_SILENT = (
    "assistant.", "auto_mode_", "capabilities.", "command.", "commands.", "elicitation.", "exit_plan_mode.",
    "external_tool.", "hook.", "mcp.", "model.", "pending_messages.", "permission.", "session.auto_mode",
    "session.background_tasks", "session.binary_asset", "session.compaction_", "session.context_changed",
    "session.custom_agents", "session.extensions", "session.handoff", "session.idle", "session.mcp_",
    "session.mode_changed", "session.permissions_changed", "session.plan_changed", "session.remote_",
    "session.resume", "session.schedule_", "session.shutdown", "session.skills_loaded",
    "session.snapshot_rewind", "session.start", "session.task_complete", "session.todos_changed",
    "session.tools_updated", "session.usage_", "session.workspace_file_changed", "skill.invoked", "subagent.",
    "system.message", "tool.execution_", "tool.user_requested", "user_input.",
)  # fmt: skip
"""`skill.invoked` repeats what a prompt or a result says."""
_USAGE = UsageFields(("inputTokens",), ("outputTokens",), "cacheReadTokens", "reasoningTokens")


def is_copilot(record: JsonObject) -> bool:
    return "parentId" in record and "data" in record and record.kind.startswith(_KINDS)


def read_copilot(data: bytes, path: Path) -> ForeignSession:
    """A session, with its subagents, whose events stand in the same file."""
    lacks = "event of Copilot CLI: no line has the type and data of one"
    lines, damage = known_lines(data, path, is_copilot, lacks)
    by_agent: dict[str, list[JsonLine]] = {"": []}
    for line in lines:
        by_agent.setdefault(_agent_of(line.record), []).append(line)
    main = _Reader()
    for agent, its_lines in by_agent.items():
        if agent:
            child = _child(agent, its_lines)
            main.log.children[child.id] = child
    main.read_all(by_agent[""])
    starts = [line.record for line in lines if line.record.kind in ("session.start", "session.resume")]
    cwd = next(filter(None, (start.text("data", "context", "cwd") for start in reversed(starts))), "")
    names = (start.text("data", "sessionId") for start in starts)
    name = next(filter(None, names), path.parent.name if path.stem == "events" else path.stem)
    begun = next((start.time("data", "startTime") for start in starts), None)
    return main.log.session("copilot", name, cwd, damage, main.notes(), begun=begun)


def _agent_of(record: JsonObject) -> str:
    """The subagent that an event is of; empty for the session's own."""
    return record.text("agentId") or record.text("data", "parentToolCallId")


def _child(agent: str, lines: Sequence[JsonLine]) -> ForeignChild:
    reader = _Reader(by_agent=True)
    reader.read_all(lines)
    session = reader.log.session("copilot", agent, "", Damage(), reader.notes())
    begun = (line.record.object("data") for line in lines if line.record.kind == "subagent.started")
    about = next(begun, JsonObject())
    return child_of(
        session,
        agent,
        agent=about.text("agentName"),
        title=about.text("agentDescription"),
        call_id=about.text("toolCallId"),
    )


def _as_sent(lines: Sequence[JsonLine]) -> list[JsonLine]:
    """The events in the order of the request: a system prompt is recorded behind the prompt that it came
    with, and results as they arrive, whatever the order of their calls."""
    records = [line.record for line in lines]
    ran: dict[int, list[int]] = {}
    answers: dict[str, tuple[int, int]] = {}
    for place, record in enumerate(records):
        data = record.object("data")
        if record.kind == "system.message" and place and records[place - 1].kind == "user.message":
            records[place - 1 : place + 1] = record, records[place - 1]
        for nth, call in enumerate(data.objects("toolRequests")):
            answers[call.text("toolCallId")] = place, nth
        if record.kind == "tool.execution_complete" and data.text("toolCallId") in answers:
            ran.setdefault(answers[data.text("toolCallId")][0], []).append(place)
    for places in ran.values():
        ordered = sorted(
            (records[place] for place in places), key=lambda one: answers[one.text("data", "toolCallId")]
        )
        for place, record in zip(places, ordered, strict=True):
            records[place] = record
    return [JsonLine(line.position, record) for line, record in zip(lines, records, strict=True)]


@dataclass
class _Reader:
    by_agent: bool = False
    log: Transcript = field(default_factory=lambda: Transcript("copilot"))
    _usages: dict[str, JsonObject] = field(default_factory=dict)
    """What the provider counted, by the id of the request, until its answer comes."""
    _started: dict[str, datetime | None] = field(default_factory=dict)
    """When each call began, by its id."""
    _systems: list[str] = field(default_factory=list)
    """The system prompts, of which the view has the newest, in the place of the first."""
    _older_systems: int = 0
    _compacted_up_to: int = 0
    """What comes after this index is no part of the summary that is being written."""
    _shortened: int = 0
    """How many failed results are in the file in a shorter form than the model saw."""

    def read_all(self, lines: Sequence[JsonLine]) -> None:
        prompts = (line.record for line in lines if line.record.kind == "system.message")
        self._systems = [prompt.text("data", "content") for prompt in prompts]
        self._older_systems = len(set(self._systems) - set(self._systems[-1:]))
        for line in _as_sent(lines):
            record, at = line.record, line.record.time("timestamp")
            read = self._entries(record.kind, record.object("data"), at)
            for entry in read or [self.log.unknown(record, record.kind)]:
                index = self.log.next_index(line.position)
                if isinstance(entry, Compaction):
                    entry = self._compaction(index, entry)
                self.log.put(index, entry, at)
            if record.kind == "session.compaction_start":
                self._compacted_up_to = max(self.log.entries)
            if record.kind == "session.context_cleared":
                self.log.clear()

    def notes(self) -> Sequence[str]:
        older, short = (
            many(self._older_systems, "earlier system prompt"),
            many(self._shortened, "failed call"),
        )
        said = {
            f"Left out: {older}; the newest stands in the place of the first.": self._older_systems,
            f"{short}: the file has a shorter text than the model got.": self._shortened,
        }
        return (*(note for note, count in said.items() if count), *self.log.notes(_SILENT))

    def _entries(self, kind: str, data: JsonObject, at: datetime | None) -> Sequence[Entry]:
        match kind:
            case "system.message" if self._systems:
                newest, self._systems = self._systems[-1], []
                return [SystemMessage(parts=text_parts(newest))]
            case "user.message":
                return self._prompt(data)
            case "system.notification":
                return [UserMessage(origin="machine", parts=text_parts(data.text("content")))]
            case "assistant.message":
                return [self._answer(data)]
            case "tool.execution_complete" if data.text("toolCallId") in self.log.calls:
                return [self._result(data, at)]
            case "session.compaction_complete" if data.flag("success") and data.text("summaryContent"):
                summary, before = data.text("summaryContent"), data.count("preCompactionTokens")
                after = data.count("postCompactionTokens")
                return [
                    Compaction(summary=summary, first_kept_index=0, tokens_before=before, tokens_after=after)
                ]
            case _:
                return self._noted(kind, data, at)

    def _noted(self, kind: str, data: JsonObject, at: datetime | None) -> Sequence[Entry]:
        """What the model is not sent."""
        match kind:
            case "session.usage_record" | "assistant.usage":
                usage = data.object("usage") or data
                self._usages[usage.text("apiCallId")] = usage
            case "tool.execution_start":
                self._started[data.text("toolCallId")] = at
            case "session.title_changed" if data.text("title"):
                return [Title(title=data.text("title"))]
            case "session.model_change" if data.text("newModel"):
                return [ModelChange(model=data.text("newModel"))]
            case "session.info" | "session.warning" | "session.error" if data.text("message"):
                level = (
                    "info" if kind == "session.info" else "warning" if kind == "session.warning" else "error"
                )
                return [NoticeRecord(text=data.text("message"), level=level)]
            case "abort":
                return [NoticeRecord(text="The turn was interrupted.")]
        return ()

    def _prompt(self, data: JsonObject) -> Sequence[UserMessage]:
        """What was typed, apart from what the program wrote before and behind it in the same message."""
        typed, sent = data.text("content"), data.text("transformedContent")
        before, _, behind = sent.partition(typed) if typed in sent else ("", "", "")
        pieces = [part for text in (before, typed, behind) for part in text_parts(text.strip())]
        images: list[Part] = []
        for attached in data.objects("attachments"):
            if shown := image(attached.text("data"), attached.text("mimeType")):
                images.append(shown)
            elif attached.kind == "blob":
                self.log.left_out.append(attached.text("mimeType") or "blob")
        by_program = self.by_agent or bool(data.text("source"))
        return user_messages([*pieces, *images], lambda text: by_program or text not in ("", typed.strip()))

    def _answer(self, data: JsonObject) -> AssistantMessage:
        thought, signature = data.text("reasoningText"), data.text("reasoningOpaque")
        calls = [
            call_part(call.text("toolCallId"), call.text("name"), call.get("arguments"))
            for call in data.objects("toolRequests")
        ]
        return AssistantMessage(
            parts=(
                *((ThinkingPart(text=thought, signature=signature or None),) if thought or signature else ()),
                *text_parts(data.text("content")),
                *calls,
            ),
            model=data.text("model") or None,
            usage=_USAGE.read(self._usages.pop(data.text("apiCallId"), None)),
        )

    def _result(self, data: JsonObject, at: datetime | None) -> ToolResultMessage:
        call_id = data.text("toolCallId")
        call, begun = self.log.calls[call_id], self._started.get(call_id)
        text, error = data.text("result", "content"), data.text("error", "message")
        failed = data.get("success") is False
        self._shortened += failed and not text and bool(error)
        code = data.count("shellExecution", "exitCode")
        return tool_result(
            call_id,
            call.name,
            text_parts(text or error),
            failed=failed,
            brief=f"exit {code}" if code else "",
            changes=None if failed else changes_of(call, data.text("result", "detailedContent")),
            seconds=(at - begun).total_seconds() if at and begun else None,
        )

    def _compaction(self, index: int, read: Compaction) -> Compaction:
        """Every prompt so far in its own words, the summary, and what came while it was written."""
        messages = {
            entry.index: entry for entry in self.log.entries.values() if isinstance(entry, BaseMessage)
        }
        in_view = self.log.view.messages
        prompts = [
            place
            for place in in_view
            if isinstance(message := messages[place], UserMessage) and message.origin == "typed"
        ]
        start = self._compacted_up_to
        return self.log.view.compacted(
            index,
            text_parts(read.summary),
            [place for place in in_view if place > start],
            ahead=[place for place in prompts if place <= start],
            strategy="copilot",
            tokens_before=read.tokens_before,
            tokens_after=read.tokens_after,
        )
