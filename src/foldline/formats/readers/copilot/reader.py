"""Reader for the sessions of Copilot CLI: `events.jsonl`, one event a line.

One index a record, behind the system prompt; a prompt around which the program wrote takes more. A rewind
takes events out of the file.
"""

from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Literal

from foldline.context.numbers import many
from foldline.formats.base import ForeignChild, ForeignSession, JsonLine, JsonObject, child_of, known_lines
from foldline.formats.parts import UsageFields, call_part, image, user_messages
from foldline.formats.tool_results import changes_of, tool_result
from foldline.formats.transcript import Transcript
from foldline.history import Damage
from foldline.protocol import (
    AssistantMessage,
    Clear,
    Entry,
    ModelChange,
    NoticeRecord,
    Part,
    SystemMessage,
    ThinkingPart,
    Title,
    ToolResultMessage,
    UserMessage,
    is_typed,
    text_parts,
)

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


def recognises(record: JsonObject) -> bool:
    return "parentId" in record and "data" in record and record.kind.startswith(_KINDS)


def read(data: bytes, path: Path) -> ForeignSession:
    """A session, with its subagents, whose events stand in the same file."""
    lacks = "event of Copilot CLI: no line has the type and data of one"
    lines, damage = known_lines(data, path, recognises, lacks)
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
    """The events, the results of an answer in the order of its calls: they are recorded as they arrive."""
    order: dict[str, tuple[int, int]] = {}
    ran: dict[int, list[JsonLine]] = {}
    for place, line in enumerate(lines):
        data = line.record.object("data")
        for nth, call in enumerate(data.objects("toolRequests")):
            order[call.text("toolCallId")] = place, nth
        if _is_result(line, order):
            ran.setdefault(order[data.text("toolCallId")][0], []).append(line)
    in_order: dict[int, JsonObject] = {}
    for results in ran.values():
        sent = sorted(results, key=lambda one: order[one.record.text("data", "toolCallId")])
        in_order |= {line.position: one.record for line, one in zip(results, sent, strict=True)}
    return [JsonLine(line.position, in_order.get(line.position, line.record)) for line in lines]


def _is_result(line: JsonLine, calls: Container[str]) -> bool:
    return line.record.kind == "tool.execution_complete" and line.record.text("data", "toolCallId") in calls


@dataclass
class _Reader:
    by_agent: bool = False
    log: Transcript = field(default_factory=lambda: Transcript("copilot"))
    _usages: dict[str, JsonObject] = field(default_factory=dict)
    """What the provider counted, by the id of the request, until its answer comes."""
    _started: dict[str, datetime | None] = field(default_factory=dict)
    """When each call began, by its id."""
    _older_systems: int = 0
    _compacted_up_to: int | None = None
    """While a summary is being written, the index of the last entry that it covers."""
    _shortened: int = 0
    """How many failed results are in the file in a shorter form than the model saw."""

    def read_all(self, lines: Sequence[JsonLine]) -> None:
        prompts = (line.record for line in lines if line.record.kind == "system.message")
        systems = [prompt.text("data", "content") for prompt in prompts]
        self._older_systems = len(set(systems)) - bool(systems)
        if systems:
            first = lines[0]
            newest = SystemMessage(parts=text_parts(systems[-1]))
            self.log.add(newest, first.record.time("timestamp"), position=first.position)
        for line in _as_sent(lines):
            record, at = line.record, line.record.time("timestamp")
            data = record.object("data")
            if record.kind == "session.compaction_complete" and data.text("summaryContent"):
                self._compact(data, at, line.position)
                continue
            read = self._entries(record.kind, data, at)
            for entry in read or [self.log.unknown(record, record.kind)]:
                self.log.add(entry, at, position=line.position)
            if record.kind == "session.compaction_start":
                self._compacted_up_to = max(self.log.entries)
            if record.kind == "session.context_cleared":
                self.log.add(Clear())

    def notes(self) -> Sequence[str]:
        older = many(self._older_systems, "earlier system prompt")
        short = many(self._shortened, "failed call")
        said = {
            f"Left out: {older}; the newest stands before all.": self._older_systems,
            f"{short}: the file has a shorter text than the model got.": self._shortened,
        }
        return (*(note for note, count in said.items() if count), *self.log.notes(_SILENT))

    def _entries(self, kind: str, data: JsonObject, at: datetime | None) -> Sequence[Entry]:
        match kind:
            case "user.message":
                return self._prompt(data)
            case "system.notification":
                return [UserMessage(origin="machine", parts=text_parts(data.text("content")))]
            case "assistant.message":
                return [self._answer(data)]
            case "tool.execution_complete" if data.text("toolCallId") in self.log.calls:
                return [self._result(data, at)]
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
            case "session.info" if data.text("message"):
                return [NoticeRecord(text=data.text("message"))]
            case "session.warning" | "session.error" if data.text("message"):
                level: Literal["warning", "error"] = "error" if kind == "session.error" else "warning"
                return [NoticeRecord(text=data.text("message"), level=level)]
            case "abort":
                return [NoticeRecord(text="The turn was interrupted.")]
        return ()

    def _prompt(self, data: JsonObject) -> Sequence[UserMessage]:
        """What was typed, apart from what the program wrote before and behind it in the same message."""
        typed, sent = data.text("content"), data.text("transformedContent")
        before, _, behind = sent.partition(typed) if typed else (sent, "", "")
        if typed not in sent:
            typed, before, behind = sent or typed, "", ""
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
            (*text_parts(text or error), *self.log.parts(data.at("result", "binaryResultsForLlm"))),
            failed=failed,
            brief=f"exit {code}" if code else "",
            changes=None if failed else changes_of(call, data.text("result", "detailedContent")),
            seconds=(at - begun).total_seconds() if at and begun else None,
        )

    def _compact(self, data: JsonObject, at: datetime | None, position: int) -> None:
        """Every prompt so far in its own words, the summary, and what came while it was written."""
        last, self._compacted_up_to = self._compacted_up_to, None
        in_view = self.log.messages()
        covered = [place for place in in_view if last is None or place <= last]
        kept = [place for place in in_view if last is not None and place > last]
        prompts = [place for place in covered if is_typed(self.log.entries[place])]
        self.log.compact(
            text_parts(data.text("summaryContent")),
            kept,
            at,
            position,
            ahead=prompts,
            strategy="copilot",
            tokens_before=data.count("preCompactionTokens"),
            tokens_after=data.count("postCompactionTokens"),
        )
