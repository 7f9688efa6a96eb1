"""Reader for sessions of Copilot CLI: `events.jsonl`, with one event per line.

The system prompt has the first index. After it, each record has one index, except that a prompt surrounded by
program text has several. Rewinds delete events from the file.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path

from foldline.formats.base import (
    ForeignChild,
    ForeignSession,
    JsonLine,
    JsonObject,
    child_of,
    first_value,
    known_lines,
)
from foldline.formats.parts import (
    UsageFields,
    beginning_note,
    call_part,
    counted_notes,
    image,
    of_kind,
    user_messages,
)
from foldline.formats.tool_results import changes_of, in_call_order, tool_result
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
from foldline.text.numbers import many

_KINDS = (
    "session.",
    "user.message",
    "assistant.",
    "tool.execution",
    "hook.",
    "system.message",
)
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
"""Prefixes of types of events that are not sent to the model.

A `skill.invoked` event repeats text that a prompt or a result already contains.
"""
_USAGE = UsageFields(
    ("inputTokens",), ("outputTokens",), "cacheReadTokens", "reasoningTokens"
)


def recognises(record: JsonObject) -> bool:
    return "parentId" in record and "data" in record and record.kind.startswith(_KINDS)


def read(data: bytes, path: Path) -> ForeignSession:
    """Read a session and its subagents, which are stored in the same file."""
    lacks = "Copilot CLI events: no line has the type and data of one"
    lines, damage = known_lines(data, path, recognises, lacks)
    by_agent: dict[str, list[JsonLine]] = defaultdict(list)
    for line in lines:
        agent = line.record.text("agentId") or line.record.text(
            "data", "parentToolCallId"
        )
        by_agent[agent].append(line)
    main = _CopilotReader()
    own_lines = by_agent.pop("", [])
    main.log.add_children(
        _child(agent, its_lines) for agent, its_lines in by_agent.items()
    )
    main.read_all(own_lines)
    starts = [
        line.record.object("data")
        for line in lines
        if line.kind in ("session.start", "session.resume")
    ]
    session_id = first_value(starts, "sessionId")
    file_name = path.parent.name if path.stem == "events" else path.stem
    cwd = first_value(reversed(starts), "context", "cwd")
    begun = starts[0].time("startTime") if starts else None
    notes = (*main.notes(), *beginning_note(is_lost=not starts))
    return main.log.session(
        "copilot",
        session_id or file_name,
        cwd,
        damage,
        notes,
        begun=begun,
    )


def _child(agent: str, lines: Sequence[JsonLine]) -> ForeignChild:
    reader = _CopilotReader(by_agent=True)
    reader.read_all(lines)
    session = reader.log.session("copilot", agent, "", Damage(), reader.notes())
    starts = of_kind((line.record for line in lines), "subagent.started")
    start = starts[0].object("data") if starts else JsonObject()
    return child_of(
        session,
        agent,
        agent=start.text("agentName"),
        title=start.text("agentDescription"),
        call_id=start.text("toolCallId"),
    )


def _as_sent(lines: Sequence[JsonLine]) -> list[JsonLine]:
    """Sort each answer's results in the order of its calls.

    In the file, they are in the order in which they arrived.
    """

    def result_of(line: JsonLine) -> str:
        is_result = line.kind == "tool.execution_complete"
        return line.record.text("data", "toolCallId") if is_result else ""

    return in_call_order(
        lines, lambda line: bool(_calls_in(line)), _calls_in, result_of
    )


def _calls_in(line: JsonLine) -> list[str]:
    return [
        request.text("toolCallId")
        for request in line.record.object("data").objects("toolRequests")
    ]


class _CopilotReader:
    def __init__(self, *, by_agent: bool = False) -> None:
        self.log = Transcript("copilot")
        self._by_agent = by_agent
        """Whether another agent wrote the prompts."""
        self._usages: dict[str, JsonObject] = {}
        """The usage of requests whose answers have not been read yet, by request id."""
        self._started: dict[str, datetime | None] = {}
        """The start time of each call."""
        self._older_systems = 0
        self._last_covered: int | None = None
        """The last entry that the compaction in progress covers.

        None if no compaction is in progress.
        """
        self._shortened = 0
        """The number of failed results whose text was longer in the request than in the file."""

    def read_all(self, lines: Sequence[JsonLine]) -> None:
        records = of_kind((line.record for line in lines), "system.message")
        systems = [record.text("data", "content") for record in records]
        if systems:
            self._older_systems = len(set(systems)) - 1
            newest = SystemMessage(parts=text_parts(systems[-1]))
            self.log.add(newest, lines[0].at, position=lines[0].position)
        for line in _as_sent(lines):
            self._read(line)

    def _read(self, line: JsonLine) -> None:
        data = line.record.object("data")
        if line.kind == "session.compaction_complete" and data.text("summaryContent"):
            self._compact(line, data)
            return
        entries = self._entries(line, data) or [
            self.log.unknown(line.record, line.kind)
        ]
        for entry in entries:
            self.log.add(entry, line.at, position=line.position)
        if line.kind == "session.compaction_start":
            self._last_covered = self.log.newest_index
        elif line.kind == "session.context_cleared":
            self.log.add(Clear())

    def notes(self) -> Iterator[str]:
        older = many(self._older_systems, "earlier system prompt")
        short = many(self._shortened, "failed call")
        counts = {
            f"Left out: {older}. Only the newest is shown, at the beginning.": self._older_systems,
            f"{short}: the file has a shorter text than the model received.": self._shortened,
        }
        yield from counted_notes(counts)
        yield from self.log.notes(_SILENT)

    def _entries(self, line: JsonLine, data: JsonObject) -> Sequence[Entry]:
        match line.kind:
            case "user.message":
                return self._prompt(data)
            case "system.notification":
                return [
                    UserMessage(
                        origin="machine", parts=text_parts(data.text("content"))
                    )
                ]
            case "assistant.message":
                return [self._answer(data)]
            case "tool.execution_complete" if data.text("toolCallId") in self.log.calls:
                return [self._result(data, line.at)]
            case "session.usage_record" | "assistant.usage":
                usage = data.object("usage") or data
                self._usages[usage.text("apiCallId")] = usage
            case "tool.execution_start":
                self._started[data.text("toolCallId")] = line.at
        entry = _entry_for_people(line.kind, data)
        return [entry] if entry else []

    def _prompt(self, data: JsonObject) -> Sequence[UserMessage]:
        """Return separate messages for a prompt's typed and program text.

        The program's text may precede and follow the typed text.
        """
        typed = data.text("content")
        sent = data.text("transformedContent")
        if not typed:
            texts = [sent]
        elif typed in sent:
            before, _, after = sent.partition(typed)
            texts = [before, typed, after]
        else:
            typed = sent or typed
            texts = [typed]
        parts: list[Part] = [
            part for text in texts for part in text_parts(text.strip())
        ]
        for attachment in data.objects("attachments"):
            media_type = attachment.text("mimeType")
            picture = image(attachment.text("data"), media_type)
            if picture:
                parts.append(picture)
            elif attachment.kind == "blob":
                self.log.left_out.append(media_type or "blob")
        by_program = self._by_agent or bool(data.text("source"))
        return user_messages(
            parts, lambda text: by_program or text not in ("", typed.strip())
        )

    def _answer(self, data: JsonObject) -> AssistantMessage:
        parts: list[Part] = []
        thought = data.text("reasoningText")
        signature = data.text("reasoningOpaque")
        if thought or signature:
            parts.append(ThinkingPart(text=thought, signature=signature or None))
        parts += text_parts(data.text("content"))
        for call in data.objects("toolRequests"):
            parts.append(
                call_part(
                    call.text("toolCallId"), call.text("name"), call.get("arguments")
                )
            )
        usage = _USAGE.read(self._usages.pop(data.text("apiCallId"), None))
        return AssistantMessage(
            parts=tuple(parts),
            model=data.text("model") or None,
            usage=usage,
        )

    def _result(self, data: JsonObject, at: datetime | None) -> ToolResultMessage:
        call_id = data.text("toolCallId")
        call = self.log.calls[call_id]
        started = self._started.get(call_id)
        text = data.text("result", "content")
        error = data.text("error", "message")
        failed = data.get("success") is False
        self._shortened += failed and not text and bool(error)
        return tool_result(
            call_id,
            call.name,
            (
                *text_parts(text or error),
                *self.log.parts(data.at("result", "binaryResultsForLlm")),
            ),
            failed=failed,
            exit_code=data.count("shellExecution", "exitCode"),
            changes=None
            if failed
            else changes_of(call, data.text("result", "detailedContent")),
            seconds=(at - started).total_seconds() if at and started else None,
        )

    def _compact(self, line: JsonLine, data: JsonObject) -> None:
        """Add a compaction.

        It keeps all prompts, and all messages since the compaction was started.
        """
        messages = self.log.visible()
        last = (
            max(messages, default=0)
            if self._last_covered is None
            else self._last_covered
        )
        self._last_covered = None
        prompts = [
            index for index in messages if index <= last and is_typed(messages[index])
        ]
        self.log.compact(
            text_parts(data.text("summaryContent")),
            [index for index in messages if index > last],
            line.at,
            line.position,
            ahead=prompts,
            strategy="copilot",
            tokens_before=data.count("preCompactionTokens"),
            tokens_after=data.count("postCompactionTokens"),
        )


def _entry_for_people(kind: str, data: JsonObject) -> Entry | None:
    """Build an entry from an event that is not sent to the model.

    Returns None for other events.
    """
    message = data.text("message")
    match kind:
        case "session.title_changed" if data.text("title"):
            return Title(title=data.text("title"))
        case "session.model_change" if data.text("newModel"):
            return ModelChange(model=data.text("newModel"))
        case "session.info" if message:
            return NoticeRecord(text=message)
        case "session.warning" if message:
            return NoticeRecord(text=message, level="warning")
        case "session.error" if message:
            return NoticeRecord(text=message, level="error")
        case "abort":
            return NoticeRecord(text="The turn was interrupted.")
        case _:
            return None
