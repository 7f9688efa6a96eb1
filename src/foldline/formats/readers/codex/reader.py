"""Reader for Codex's sessions, which it calls "rollouts".

A file contains most information twice: as an item of the model's context, and as an event for the user
interface. Messages are read from the items. Usage, file changes, the user's prompts, and reverted turns are
read from the events.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from foldline.formats.base import (
    ForeignChild,
    ForeignSession,
    Json,
    JsonObject,
    child_in,
    child_of,
    known_lines,
)
from foldline.formats.parts import (
    LONGEST_KIND,
    beginning_note,
    first_text,
    kind_of,
    left_out_note,
    unknown_note,
)
from foldline.formats.transcript import Transcript
from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    DeveloperMessage,
    ModelChange,
    NoticeRecord,
    SystemMessage,
    Title,
    is_typed,
    text_parts,
)

from .answers import AnswerBuffer, Turns
from .items import (
    ABSENT,
    RESULTS,
    SEALED,
    USAGE,
    call_of,
    carried_over,
    listed_context,
    thinking,
    user_messages,
)
from .rows import (
    RolloutRow,
    is_bare_header,
    newer_file_note,
    row_of,
    subagent_calls,
    subagent_files,
    with_beginning,
)

_ROWS = (
    "session_meta", "response_item", "event_msg", "turn_context", "compacted", "world_state",
    "inter_agent_communication", "inter_agent_communication_metadata",
)  # fmt: skip
_REPEATED = (
    "agent_message", "agent_reasoning", "agent_reasoning_raw_content", "context_compacted",
    "image_generation_end", "user_message", "web_search_end",
)  # fmt: skip
"""Types of events that repeat an item."""
_SILENT = (
    "event_msg", "inter_agent_communication_metadata", "session_meta", "token_usage_record", "turn_context",
    "world_state",
)  # fmt: skip
"""Types of rows that contain no text for the model.

Any text in events is repeated in items.
"""
SEALED_SUMMARIES = "Encrypted compaction summaries, replaced by a placeholder"
ABSENT_SUMMARIES = (
    "Compaction summaries missing from the file, replaced by a placeholder"
)
SEALED_THOUGHTS = "Encrypted pieces of reasoning, left out"
ABSENT_THOUGHTS = "Pieces of reasoning whose text is missing from the file"
FORKED = "The session was forked from {origin}."
APPROXIMATE_PROMPT = "The system prompt is approximate: sections on tools that are not offered are not sent."
ENDED_EARLY = "The turn was stopped early: {reason}."
_COUNTED = (SEALED_SUMMARIES, ABSENT_SUMMARIES, SEALED_THOUGHTS, ABSENT_THOUGHTS)
_PLAN_TOOL = "`update_plan`"
"""A tool that has its own sections in the system prompt.

Since version 0.145, Codex always stores these sections, but sends them only together with the tool.
"""


def recognises(record: JsonObject) -> bool:
    in_row = record.kind in _ROWS and isinstance(record.get("payload"), dict)
    return in_row or is_bare_header(record)


def read(data: bytes, path: Path, ancestors: tuple[str, ...] = ()) -> ForeignSession:
    """Read a Codex session.

    A fork includes the session that it was forked from.

    Args:
        ancestors: the ids of the sessions above this subagent, outermost first; empty for a main session.
    """
    lacks = "Codex rows: no line has a type such as `response_item` and a payload"
    lines, damage = known_lines(data, path, recognises, lacks)
    lines, notes = with_beginning(lines, path)
    rows = [row_of(line) for line in lines]
    headers = [row.payload for row in rows if row.kind == "session_meta"]
    header = headers[0] if headers else JsonObject()
    reader = _CodexReader(rows, header, damaged=bool(damage))
    reader.log.add_children(_children(rows, path, (*ancestors, header.text("id"))))
    for row in rows:
        reader.read(row)
    reader.close_answer()
    notes += beginning_note(is_lost=not headers)
    origin = header.text("forked_from_id")
    if origin:
        notes.insert(0, FORKED.format(origin=origin))
    notes += newer_file_note(header, path)
    if header.get("history_mode") == "paginated" and _PLAN_TOOL in header.text(
        "base_instructions", "text"
    ):
        notes.append(APPROXIMATE_PROMPT)
    notes += reader.notes()
    folders = [row.payload.text("cwd") for row in rows if row.kind == "turn_context"]
    cwd = first_text([header.text("cwd"), *folders])
    begun = header.time("timestamp")
    return reader.log.session(
        "codex",
        header.text("id") or path.stem,
        cwd,
        damage,
        notes,
        begun=begun,
    )


def _children(
    rows: Sequence[RolloutRow], path: Path, ancestors: tuple[str, ...]
) -> Iterator[ForeignChild]:
    """Yield the subagents that have files.

    Their parent is the last session in `ancestors`.
    """
    for thread_id, call_id in subagent_calls(rows).items():
        if thread_id not in ancestors:
            for file, header in subagent_files(thread_id, ancestors[-1], path):
                session = child_in(partial(read, ancestors=ancestors), file)
                if session is not None:
                    agent = header.first("agent_role", "agent_nickname")
                    yield child_of(session, thread_id, agent=agent, call_id=call_id)


class _CodexReader:
    def __init__(
        self, rows: Sequence[RolloutRow], header: JsonObject, *, damaged: bool
    ) -> None:
        self.log = Transcript("codex")
        self._answers = AnswerBuffer(self.log)
        self._turns = Turns(self.log)
        self._prompts = frozenset(text for row in rows for text in row.prompts if text)
        self._trusts_prompts = bool(self._prompts) and not damaged
        self._header = header
        self._model: ModelChange | None = None
        self._has_worked = False
        """Whether the current turn already has a prompt or an answer."""
        self._size = 0
        """The size of the context, in tokens."""
        self._total: Json = None
        """The session's total usage so far."""
        self._compaction: int | None = None
        """The index of the newest compaction, until the size of the view after it is known."""
        self._unknown: list[str] = []
        """Types of unknown records that may have been sent to the model."""
        self._counts = dict.fromkeys(_COUNTED, 0)

    def notes(self) -> Iterator[str]:
        yield from (
            f"{subject}: {count}." for subject, count in self._counts.items() if count
        )
        yield from left_out_note(self.log.left_out)
        yield from unknown_note(self._unknown)

    def read(self, row: RolloutRow) -> None:
        match row.kind:
            case "session_meta":
                self._session_meta(row)
            case "turn_context":
                self._turn_context(row)
            case "response_item":
                self._item(row)
            case "inter_agent_communication":
                self._from_agent(row)
            case "compacted":
                self._compacted(row)
            case "event_msg":
                self._event(row)
            case _:
                self._keep(row)

    def _keep(self, row: RolloutRow) -> None:
        """Add the record unchanged."""
        name = row.kind
        if row.kind == "event_msg":
            name = row.payload.kind
        elif row.kind == "response_item":
            name = row.payload.kind
            self._unknown.append(kind_of(row.payload))
        elif not row.kind and row.record.kind:
            self._unknown.append(kind_of(row.record))
        elif row.kind not in _SILENT:
            self._unknown.append(row.kind[:LONGEST_KIND])
        self._answers.add(row, self.log.unknown(row.record, name or "row"))

    # --- about the session ---------------------------------------------------------------------------

    def _session_meta(self, row: RolloutRow) -> None:
        """Add the system prompt, if this is the session's first header.

        A file may repeat its header. A fork also contains the header of the session that it was forked from.
        """
        prompt = row.payload.text("base_instructions", "text")
        if row.payload.text("id") != self._header.text("id"):
            self._keep(row)
        elif row.payload is self._header and prompt:
            self._answers.add(row, SystemMessage(parts=text_parts(prompt)))

    def _turn_context(self, row: RolloutRow) -> None:
        self.close_answer()
        name = row.payload.text("model")
        model = ModelChange(
            model=name, provider=self._header.text("model_provider") or None
        )
        if not name or model == self._model:
            self._keep(row)
            return
        self._model = model
        self._answers.model = name
        self._answers.add(row, model)

    # --- items ---------------------------------------------------------------------------------------

    def _item(self, row: RolloutRow) -> None:
        item = row.payload
        call = call_of(item, row.position)
        if call is not None:
            self._answers.call(row, call)
        elif item.kind == "reasoning":
            self._reasoning(row)
        elif item.kind == "message" and item.get("role") == "assistant":
            self._answers.extend(row, self.log.content(item))
        elif item.kind == "message":
            self._input(row)
        elif item.kind in RESULTS:
            self.close_answer()
            self._turns.answered()
            self._answers.result(row)
        elif item.kind == "agent_message":
            self._from_agent(row)
        else:
            self._keep(row)

    def _reasoning(self, row: RolloutRow) -> None:
        part = thinking(row.payload)
        if part:
            self._answers.extend(row, (part,))
        elif row.payload.get("encrypted_content"):
            self._counts[SEALED_THOUGHTS] += 1
        else:
            self._counts[ABSENT_THOUGHTS] += 1

    def close_answer(self) -> None:
        if self._answers.close():
            self._has_worked = True
            self._turns.answered()

    def _messages_of(self, item: JsonObject) -> Sequence[BaseMessage]:
        if item.kind != "message":
            self.log.left_out.append(kind_of(item))
            return ()
        content = item.get("content")
        match item.get("role"):
            case "user":
                return user_messages(
                    content,
                    self._prompts,
                    self.log.left_out,
                    trusted=self._trusts_prompts,
                )
            case "assistant":
                return (AssistantMessage(parts=self.log.parts(content)),)
            case _:
                return (DeveloperMessage(parts=self.log.parts(content)),)

    def _input(self, row: RolloutRow) -> None:
        self.close_answer()
        for message in self._messages_of(row.payload):
            if is_typed(message):
                self._turns.begin()
                self._has_worked = True
            else:
                self._turns.machine_text()
            self._add(row, message)

    def _add(self, row: RolloutRow, message: BaseMessage) -> int:
        return self.log.add(message, row.at, position=row.position)

    def _from_agent(self, row: RolloutRow) -> None:
        """Add a message from another agent, which begins a new turn."""
        self.close_answer()
        self._turns.begin()
        self._add(row, DeveloperMessage(parts=self.log.content(row.payload)))

    # --- compactions ---------------------------------------------------------------------------------

    def _compacted(self, row: RolloutRow) -> None:
        """Add a compaction, preceded by the new messages in its context."""
        self.close_answer()
        summary = row.payload.text("message")
        history = row.payload.get("replacement_history")
        if isinstance(history, list):
            items = [JsonObject(item) for item in history if isinstance(item, dict)]
            context = listed_context(self.log, items, summary, self._messages_of)
        else:
            context = carried_over(self.log, summary)
        ahead = self._indices(row, context.ahead)
        kept = self._indices(row, context.kept)
        self._demote_instructions({*ahead, *kept})
        index = self.log.next_index(row.position)
        compaction = self.log.compaction(
            index,
            text_parts(context.summary),
            kept,
            ahead=ahead,
            strategy="codex",
            reason="threshold" if self._has_worked else "manual",
            model=self._answers.model or None,
            tokens_before=self._size,
        )
        self._compaction = self.log.put(index, compaction, row.at)
        self._counts[SEALED_SUMMARIES] += context.summary == SEALED
        self._counts[ABSENT_SUMMARIES] += context.summary == ABSENT

    def _indices(
        self, row: RolloutRow, context: Sequence[int | BaseMessage]
    ) -> list[int]:
        """Return the indices of these messages, adding those that are new."""
        return [
            self._add(row, item) if isinstance(item, BaseMessage) else item
            for item in context
        ]

    def _demote_instructions(self, kept: set[int]) -> None:
        """Turn instructions that were not kept into notices.

        Otherwise they would stay at the start of every later view.
        """
        for index, message in self.log.visible().items():
            is_instruction = (
                isinstance(message, DeveloperMessage)
                and message.origin == "instructions"
            )
            if is_instruction and index not in kept:
                self.log.change(index, origin="notice")

    # --- events --------------------------------------------------------------------------------------

    def _event(self, row: RolloutRow) -> None:
        event = row.payload
        match event.get("type"):
            case "token_count":
                self._usage(event.object("info"))
            case "patch_apply_end":
                self._patch(
                    row, event, "call_id", done=event.get("success") is not False
                )
            case "item_completed":
                self._completed(row, event.object("item"))
            case "thread_rolled_back":
                self._rolled_back(row)
            case "thread_name_updated" if event.text("thread_name").strip():
                self._answers.add(row, Title(title=event.text("thread_name")))
            case "task_started" | "turn_started":
                self.close_answer()
                self._has_worked = False
                self._keep(row)
            case "turn_aborted":
                self.close_answer()
                reason = event.text("reason") or "no reason given"
                notice = NoticeRecord(
                    text=ENDED_EARLY.format(reason=reason), level="warning"
                )
                self._answers.add(row, notice)
            case "error" | "warning" | "stream_error" as kind if event.text("message"):
                level = "error" if kind == "error" else "warning"
                self._answers.add(
                    row, NoticeRecord(text=event.text("message"), level=level)
                )
            case kind if kind not in _REPEATED:
                self._keep(row)

    def _rolled_back(self, row: RolloutRow) -> None:
        self.close_answer()
        if self._turns.take_back(row, row.payload.count("num_turns")):
            self._answers.forget()
        else:
            self._keep(row)

    def _patch(
        self,
        row: RolloutRow,
        patch: JsonObject,
        id_field: str,
        *,
        done: bool,
    ) -> None:
        if not self._answers.patch(
            patch.text(id_field), patch.get("changes"), done=done
        ):
            self._keep(row)

    def _completed(self, row: RolloutRow, item: JsonObject) -> None:
        """Handle an item that takes the place of an event.

        This occurs only in paginated sessions.
        """
        if item.kind == "FileChange":
            self._patch(row, item, "id", done=item.get("status") in (None, "completed"))
        elif item.kind not in ("UserMessage", "AgentMessage"):
            self._keep(row)

    def _usage(self, info: JsonObject) -> None:
        """Add usage to the newest answer.

        Repeated rows with the same usage are ignored.

        The row after a compaction contains only the new size, which is added to the compaction.
        """
        self.close_answer()
        request = info.object("last_token_usage")
        total = info.at("total_token_usage")
        size = request.count("total_tokens")
        usage = USAGE.read(request)
        if self._compaction is not None and usage is None:
            self.log.change(self._compaction, tokens_after=size)
        self._compaction = None
        self._size = size or self._size
        if usage is not None and total != self._total:
            window = info.count("model_context_window")
            self._answers.count(usage.model_copy(update={"window": window}))
        self._total = total
