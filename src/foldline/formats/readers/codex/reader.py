"""Reader for the sessions ("rollouts") of Codex.

A file has most things twice: as an item of the model's context, and as an event for the interface. The items
are read; events add usage, the changes of patches, the user's prompts, and turns taken back.
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
from .rows import Row, is_bare_header, newer_file_note, row_of, subagent_calls, subagent_files, with_beginning

_ROWS = (
    "session_meta", "response_item", "event_msg", "turn_context", "compacted", "world_state",
    "inter_agent_communication", "inter_agent_communication_metadata",
)  # fmt: skip
_REPEATED = (
    "agent_message", "agent_reasoning", "agent_reasoning_raw_content", "context_compacted",
    "image_generation_end", "user_message", "web_search_end",
)  # fmt: skip
"""Events that repeat an item."""
_SILENT = (
    "event_msg", "inter_agent_communication_metadata", "session_meta", "token_usage_record", "turn_context",
    "world_state",
)  # fmt: skip
"""Rows without text for the model. Text in events is also in items."""
_SEALED_SUMMARIES = "Encrypted summaries of compactions, each replaced by a line that says so"
_ABSENT_SUMMARIES = "Compactions whose summary is not in the file, each replaced by a line that says so"
_SEALED_THOUGHTS = "Pieces of reasoning that are encrypted, left out"
_ABSENT_THOUGHTS = "Pieces of reasoning whose text is not in the file"
_COUNTED = (_SEALED_SUMMARIES, _ABSENT_SUMMARIES, _SEALED_THOUGHTS, _ABSENT_THOUGHTS)
_PLAN_TOOL = "`update_plan`"
"""Codex since 0.145 has the sections on this tool in its files, and sends them only with the tool."""


def recognises(record: JsonObject) -> bool:
    in_row = record.kind in _ROWS and isinstance(record.get("payload"), dict)
    return in_row or is_bare_header(record)


def read(data: bytes, path: Path, ancestors: tuple[str, ...] = ()) -> ForeignSession:
    """Return a Codex session. A fork includes its origin.

    Args:
        ancestors: the sessions whose subagent it is, the outermost first.
    """
    lacks = "rows of Codex: no line has a type such as `response_item` and a payload"
    lines, damage = known_lines(data, path, recognises, lacks)
    lines, notes = with_beginning(lines, path)
    rows = [row_of(line) for line in lines]
    headers = [row.payload for row in rows if row.kind == "session_meta"]
    header = headers[0] if headers else JsonObject()
    reader = _Reader(rows, header, damaged=bool(damage))
    reader.log.add_children(_children(rows, path, (*ancestors, header.text("id"))))
    for row in rows:
        reader.read(row)
    reader.close_answer()
    notes += beginning_note(is_lost=not headers)
    origin = header.text("forked_from_id")
    if origin:
        notes.insert(0, f"The session was forked from {origin}.")
    notes += newer_file_note(header, path)
    if header.get("history_mode") == "paginated" and _PLAN_TOOL in header.text("base_instructions", "text"):
        notes.append(
            "The system prompt is approximate: what it says of tools that are not offered is not sent."
        )
    notes += reader.notes()
    folders = [row.payload.text("cwd") for row in rows if row.kind == "turn_context"]
    cwd = first_text([header.text("cwd"), *folders])
    begun = header.time("timestamp")
    return reader.log.session("codex", header.text("id") or path.stem, cwd, damage, notes, begun=begun)


def _children(rows: Sequence[Row], path: Path, ancestors: tuple[str, ...]) -> Iterator[ForeignChild]:
    """Yield the subagents with files, children of the last ancestor."""
    for thread_id, call_id in subagent_calls(rows).items():
        if thread_id not in ancestors:
            for file, header in subagent_files(thread_id, ancestors[-1], path):
                session = child_in(partial(read, ancestors=ancestors), file)
                if session is not None:
                    agent = header.first("agent_role", "agent_nickname")
                    yield child_of(session, thread_id, agent=agent, call_id=call_id)


class _Reader:
    def __init__(self, rows: Sequence[Row], header: JsonObject, *, damaged: bool) -> None:
        self.log = Transcript("codex")
        self._answers = AnswerBuffer(self.log)
        self._turns = Turns(self.log, enabled=any(row.is_event("thread_rolled_back") for row in rows))
        self._prompts = frozenset(text for row in rows for text in row.prompts if text)
        self._trusts_prompts = bool(self._prompts) and not damaged
        self._header = header
        self._model: ModelChange | None = None
        self._has_worked = False
        """Whether there was a prompt or an answer in this turn."""
        self._size = 0
        """The size of the context, in tokens."""
        self._total: Json = None
        """The total usage of the session."""
        self._compaction: int | None = None
        """The newest one, until the size after it is known."""
        self._unknown: list[str] = []
        """The kinds of unknown records that may be for the model."""
        self._counts = dict.fromkeys(_COUNTED, 0)

    def notes(self) -> Iterator[str]:
        yield from (f"{subject}: {count}." for subject, count in self._counts.items() if count)
        yield from left_out_note(self.log.left_out)
        yield from unknown_note(self._unknown)

    def read(self, row: Row) -> None:
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

    def _keep(self, row: Row) -> None:
        """Add the record itself."""
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

    def _session_meta(self, row: Row) -> None:
        """Add the system prompt of the first header.

        Files may repeat it. A fork also has the header of its origin.
        """
        prompt = row.payload.text("base_instructions", "text")
        if row.payload.text("id") != self._header.text("id"):
            self._keep(row)
        elif row.payload is self._header and prompt:
            self._answers.add(row, SystemMessage(parts=text_parts(prompt)))

    def _turn_context(self, row: Row) -> None:
        self.close_answer()
        name = row.payload.text("model")
        model = ModelChange(model=name, provider=self._header.text("model_provider") or None)
        if not name or model == self._model:
            self._keep(row)
            return
        self._model = model
        self._answers.model = name
        self._answers.add(row, model)

    # --- items ---------------------------------------------------------------------------------------

    def _item(self, row: Row) -> None:
        item = row.payload
        call = call_of(item, row.position)
        if call is not None:
            self._answers.call(row, call)
        elif item.kind == "reasoning":
            self._reasoning(row)
        elif item.kind == "message" and item.get("role") == "assistant":
            self._answers.extend(row, self.log.parts(item.get("content")))
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

    def _reasoning(self, row: Row) -> None:
        part = thinking(row.payload)
        if part:
            self._answers.extend(row, (part,))
        elif row.payload.get("encrypted_content"):
            self._counts[_SEALED_THOUGHTS] += 1
        else:
            self._counts[_ABSENT_THOUGHTS] += 1

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
                return user_messages(content, self._prompts, self.log.left_out, trusted=self._trusts_prompts)
            case "assistant":
                return (AssistantMessage(parts=self.log.parts(content)),)
            case _:
                return (DeveloperMessage(parts=self.log.parts(content)),)

    def _input(self, row: Row) -> None:
        self.close_answer()
        for message in self._messages_of(row.payload):
            if is_typed(message):
                self._turns.begin(row)
                self._has_worked = True
            else:
                self._turns.machine_text(row)
            self._add(row, message)

    def _add(self, row: Row, message: BaseMessage) -> int:
        return self.log.add(message, row.at, position=row.position)

    def _from_agent(self, row: Row) -> None:
        """Add a message of another agent. It begins a turn."""
        self.close_answer()
        self._turns.begin(row)
        self._add(row, DeveloperMessage(parts=self.log.parts(row.payload.get("content"))))

    # --- compactions ---------------------------------------------------------------------------------

    def _compacted(self, row: Row) -> None:
        """Add a compaction, after the new messages of its context."""
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
        self._counts[_SEALED_SUMMARIES] += context.summary == SEALED
        self._counts[_ABSENT_SUMMARIES] += context.summary == ABSENT

    def _indices(self, row: Row, context: Sequence[int | BaseMessage]) -> list[int]:
        """Return the indices of these messages. Adds new ones."""
        return [self._add(row, item) if isinstance(item, BaseMessage) else item for item in context]

    def _demote_instructions(self, kept: set[int]) -> None:
        """Make instructions that are not kept plain notices.

        Otherwise they would open every later view.
        """
        for index, message in self.log.visible().items():
            is_instruction = isinstance(message, DeveloperMessage) and message.origin == "instructions"
            if is_instruction and index not in kept:
                self.log.change(index, origin="notice")

    # --- events --------------------------------------------------------------------------------------

    def _event(self, row: Row) -> None:
        event = row.payload
        match event.get("type"):
            case "token_count":
                self._usage(event.object("info"))
            case "patch_apply_end":
                self._patch(row, event, "call_id", done=event.get("success") is not False)
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
                notice = NoticeRecord(text=f"The turn was ended early: {reason}.", level="warning")
                self._answers.add(row, notice)
            case "error" | "warning" | "stream_error" as kind if event.text("message"):
                level = "error" if kind == "error" else "warning"
                self._answers.add(row, NoticeRecord(text=event.text("message"), level=level))
            case kind if kind not in _REPEATED:
                self._keep(row)

    def _rolled_back(self, row: Row) -> None:
        self.close_answer()
        if self._turns.take_back(row, row.payload.count("num_turns")):
            self._answers.forget()
        else:
            self._keep(row)

    def _patch(self, row: Row, patch: JsonObject, id_field: str, *, done: bool) -> None:
        if not self._answers.patch(patch.text(id_field), patch.get("changes"), done=done):
            self._keep(row)

    def _completed(self, row: Row, item: JsonObject) -> None:
        """Read an item of paginated sessions that replaces an event."""
        if item.kind == "FileChange":
            self._patch(row, item, "id", done=item.get("status") in (None, "completed"))
        elif item.kind not in ("UserMessage", "AgentMessage"):
            self._keep(row)

    def _usage(self, info: JsonObject) -> None:
        """Add the usage of the newest answer.

        Rows may repeat it. After a compaction a row has only the new size.
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
