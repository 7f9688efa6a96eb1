"""Reader for the sessions ("rollouts") of Codex.

A file tells most things twice: as an item of the model's context, and as an event for the interface. The
items are read; events give what items lack: usage, what patches changed, what was typed, turns taken back.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from pathlib import Path

from foldline.files import read_regular
from foldline.formats.base import (
    ForeignChild,
    ForeignSession,
    Json,
    JsonLine,
    JsonObject,
    bytes_in,
    child_in,
    child_of,
    json_lines,
    known_lines,
    parse_object,
)
from foldline.formats.parts import LONGEST_KIND, kind_of, left_out_note, unknown_note
from foldline.formats.tool_results import Changes, applied, together
from foldline.formats.transcript import Transcript
from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    DeveloperMessage,
    ModelChange,
    NoticeRecord,
    Part,
    SystemMessage,
    Title,
    ToolCallPart,
    ToolResultMessage,
    Usage,
    UserMessage,
    system_words,
    text_parts,
)

from .items import (
    ABSENT,
    ON_THE_SERVER,
    RESULTS,
    SEALED,
    USAGE,
    call_of,
    carried_over,
    listed_context,
    server_result,
    thinking,
    tool_result,
    user_messages,
)

_ROWS = (
    "session_meta", "response_item", "event_msg", "turn_context", "compacted", "world_state",
    "inter_agent_communication", "inter_agent_communication_metadata",
)  # fmt: skip
_BARE_ITEMS = ("message", "reasoning", "function_call", "function_call_output", "local_shell_call")
"""What stands in the files of early 2025 without a row around it."""
_TWICE = (
    "agent_message", "agent_reasoning", "agent_reasoning_raw_content", "context_compacted",
    "image_generation_end", "user_message", "web_search_end",
)  # fmt: skip
"""Events that repeat an item."""
_SILENT = (
    "event_msg", "inter_agent_communication_metadata", "session_meta", "token_usage_record", "turn_context",
    "world_state",
)  # fmt: skip
"""Rows that say nothing to the model: what an event says to it, an item says, too."""


def recognises(record: JsonObject) -> bool:
    in_row = record.get("type") in _ROWS and isinstance(record.get("payload"), dict)
    return in_row or _is_bare_header(record)


def _is_bare_header(record: JsonObject) -> bool:
    return "type" not in record and (
        record.get("record_type") == "state" or {"id", "timestamp", "instructions"} <= record.keys()
    )


def read(data: bytes, path: Path, above: tuple[str, ...] = ()) -> ForeignSession:
    """A Codex session. What came before a fork, in other files, counts before its own rows. `above` are the
    sessions whose subagent it is."""
    lacks = "rows of Codex: no line has a type such as `response_item` and a payload"
    lines, damage = known_lines(data, path, recognises, lacks)
    lines, notes = _with_beginning(lines, path)
    rows = list(map(_row, lines))
    about = next((row for row in rows if row.kind == "session_meta"), None)
    reader = _Reader(
        prompts=frozenset(text for row in rows for text in _typed_in(row) if text),
        damaged=bool(damage),
        goes_back=any(row.is_event("thread_rolled_back") for row in rows),
    )
    reader.log.children = {child.id: child for child in _children(rows, about, path, above)}
    for row in rows:
        reader.read(row)
    reader.close_answer()
    payload = about.payload if about else JsonObject()
    origin = payload.text("forked_from_id")
    notes = [f"The session was forked from {origin}."] * bool(origin) + notes + _moved_on(payload, path)
    prompt = payload.text("base_instructions", "text")
    if payload.get("history_mode") == "paginated" and _PLAN_TOOL in prompt:
        notes.append(
            "The system prompt is approximate: what it says of tools that are not offered is not sent."
        )
    folders = (payload.text("cwd"), *(row.payload.text("cwd") for row in rows if row.kind == "turn_context"))
    name, cwd = payload.text("id") or path.stem, next(filter(None, folders), "")
    begun, notes = payload.time("timestamp"), [*notes, *reader.notes()]
    return reader.log.session("codex", name, cwd, damage, notes, begun=begun)


@dataclass(frozen=True, slots=True)
class Row:
    position: int
    kind: str
    payload: JsonObject
    record: JsonObject
    at: datetime | None

    def is_event(self, name: str) -> bool:
        return self.kind == "event_msg" and self.payload.get("type") == name


def _row(line: JsonLine) -> Row:
    record, kind = line.record, line.record.text("type")
    payload = record.object("payload")
    if not isinstance(record.get("payload"), dict):
        payload, kind = record, "response_item" if record.get("type") in _BARE_ITEMS else ""
        kind = "session_meta" if _is_bare_header(record) else kind
    return Row(line.position, kind, payload, record, record.time("timestamp"))


def _typed_in(row: Row) -> tuple[str, ...]:
    """The texts of a prompt as an event has it: whole, then piece by piece.

    Since 0.145, paginated sessions have it in an `item_completed` in place of an event of its own.
    """
    if row.is_event("user_message"):
        return (row.payload.text("message"),)
    item = row.payload.object("item") if row.is_event("item_completed") else JsonObject()
    if item.get("type") != "UserMessage":
        return ()
    pieces = [piece.text("text") for piece in item.objects("content")]
    return ("".join(pieces), *pieces)


# --- a beginning that lies in other files -------------------------------------------------------------

_ID = re.compile(r"[0-9A-Za-z][0-9A-Za-z_-]{3,127}")
_PLAN_TOOL = "`update_plan`"
"""Codex since 0.145 has the sections on this tool in its files, and sends them only with the tool."""
_HOMES = ("sessions", "archived_sessions")
_LONGEST = 1_000
"""Files of one history."""


def _with_beginning(lines: list[JsonLine], path: Path) -> tuple[list[JsonLine], list[str]]:
    """The lines with those before them, where the session is a fork or a thread that was reverted; and notes.

    Since 0.145 such a file holds only what came after. Its `history_base` names the file before it, by the id
    that ends its name, and how far that one counts: in bytes, and by the ordinals of its records. Files only
    grow, so that a chain of them is the whole history.
    """
    head = next((line for line in lines if _is_header(line)), None)
    if head is None:
        return lines, []
    notes: list[str] = []
    pieces: list[list[JsonLine]] = []
    about, seen, here = head.record.object("payload"), {path}, path
    while base := about.object("history_base"):
        name = base.text("thread_id")
        file = next(_files(name, here), None)
        if file is None or file in seen or len(seen) > _LONGEST:
            notes.append(
                "The beginning of the session is missing: it lies in the file whose name ends in "
                f"{name}.jsonl, which is neither beside {here.name} nor among Codex's sessions (one that "
                "ends in .zst: unpack it)."
            )
            break
        seen.add(file)
        try:
            data = read_regular(file)
        except OSError as error:
            notes.append(f"Its beginning, {file}, cannot be read: {system_words(error)}.")
            break
        end = base.get("end_byte_offset")
        if not (isinstance(end, int) and 0 < end <= len(data) and data[end - 1 : end] == b"\n"):
            notes.append(f"{file.name} is not what it was: it is read by the ordinals of its records.")
            end = len(data)
        before, damage = json_lines(data[:end])
        before = [line for line in before if _counts(line, base.get("end_ordinal_exclusive"))]
        notes += [f"{file.name}: {damage}."] * bool(damage)
        about = next((line.record for line in before if _is_header(line)), JsonObject()).object("payload")
        pieces.append([line for line in before if not _is_header(line)])
        here = file
        notes.append(f"The session begins in {file.name}.")
    earlier = [line for piece in reversed(pieces) for line in piece]
    if not earlier:
        return lines, notes
    own = [replace(line, position=line.position + len(earlier)) for line in lines if line is not head]
    counted = [JsonLine(place, line.record) for place, line in enumerate(earlier, 1)]
    return [replace(head, position=0), *counted, *own], notes


def _moved_on(about: JsonObject, path: Path) -> list[str]:
    """A note where a revert of the thread began a newer file, beside this one."""
    name = about.text("id")
    files = path.parent.glob(f"*{name}_*.jsonl") if _ID.fullmatch(name) and name in path.name else ()
    newest = max((file.name for file in files), default="")
    return [f"The thread was reverted, and goes on in {newest}."] if newest > path.name else []


def _is_header(line: JsonLine) -> bool:
    return line.record.get("type") == "session_meta"


def _counts(line: JsonLine, end: Json) -> bool:
    ordinal = line.record.get("ordinal")
    return not isinstance(end, int) or not isinstance(ordinal, int) or ordinal < end


def _files(name: str, path: Path) -> Iterator[Path]:
    """The files with this id in their names: beside the one that names it, then wherever Codex keeps any."""
    if not _ID.fullmatch(name):
        return
    pattern = f"*{name}.jsonl"
    yield from filter(Path.is_file, sorted(path.parent.glob(pattern)))
    home = next((folder.parent for folder in path.parents if folder.name in _HOMES), None)
    if home is not None:
        for kept in _HOMES:
            yield from filter(Path.is_file, sorted((home / kept).rglob(pattern)))


# --- subagents, which have files of their own --------------------------------------------------------


def _children(
    rows: Sequence[Row], about: Row | None, path: Path, above: tuple[str, ...]
) -> Iterator[ForeignChild]:
    """The subagents that this session started, as far as their files are there."""
    above = (*above, about.payload.text("id") if about else "")
    for name, call in _started(rows).items():
        for file in _files(name, path) if name not in above else ():
            head = parse_object(bytes_in(file).partition(b"\n")[0]) or JsonObject()
            spawn = head.object("payload", "source", "subagent", "thread_spawn")
            begun = JsonObject({**head.object("payload"), **spawn})
            if begun.text("parent_thread_id") == above[-1] != "":
                session = child_in(partial(read, above=above), file)
                agent = begun.first("agent_role", "agent_nickname")
                if session is not None:
                    yield child_of(session, name, agent=agent, call_id=call)
                break


def _started(rows: Iterable[Row]) -> dict[str, str]:
    """The calls that started subagents, by the ids of these: each version says it in another place."""
    started: dict[str, str] = {}
    calls: set[str] = set()
    for row in rows:
        payload = row.payload.object("item") if row.is_event("item_completed") else row.payload
        if payload.kind in ("sub_agent_activity", "SubAgentActivity") and payload.get("kind") == "started":
            started[payload.text("agent_thread_id")] = payload.first("event_id", "id")
        elif row.is_event("collab_agent_spawn_end"):
            started[payload.text("new_thread_id")] = payload.text("call_id")
        elif payload.get("type") == "function_call" and payload.get("name") == "spawn_agent":
            calls.add(payload.text("call_id"))
        elif payload.get("type") == "function_call_output" and payload.text("call_id") in calls:
            said = parse_object(payload.text("output").encode()) or JsonObject()
            started.setdefault(said.text("agent_id"), payload.text("call_id"))
    return {name: call for name, call in started.items() if name}


# --- turns and answers --------------------------------------------------------------------------------


@dataclass
class _Turns:
    """Going back takes the machine text before a prompt along, but not what opens the session."""

    log: Transcript
    wanted: bool
    _in_force: list[int] = field(default_factory=list)
    """The checkpoints before the turns that were not taken back."""
    _opened: int | None = None
    """Where machine text that may belong to the next prompt began."""

    def machine_text(self, row: Row) -> None:
        if self.wanted and self._in_force and self._opened is None:
            self._opened = self.log.next_index(row.position)

    def answered(self) -> None:
        """The model or a tool has spoken: machine text before that belongs to no later prompt."""
        self._opened = None

    def begin(self, row: Row) -> None:
        if self.wanted:
            index = self.log.next_index(row.position) if self._opened is None else self._opened
            self._opened = None
            self._in_force.append(self.log.checkpoint(row.at, index=index))

    def take_back(self, row: Row, turns: int) -> bool:
        """Back to before the last so many turns, as far as there are any; whether there are."""
        turns = min(turns, len(self._in_force))
        if turns == 0:
            return False
        self.log.go_back_to(self._in_force[-turns], row.at, index=self.log.next_index(row.position))
        del self._in_force[-turns:]
        self._opened = None
        return True


@dataclass
class _Answers:
    """The answers of the model, put together from their items, and the results of the calls they make."""

    log: Transcript
    model: str = ""
    _row: Row | None = None
    """That with which the answer began that comes in."""
    _index: int = 0
    _parts: list[Part] = field(default_factory=list)
    _server_results: list[tuple[int, ToolResultMessage]] = field(default_factory=list)
    _uncounted: int | None = None
    """The newest answer, until its usage is known."""
    _calls: dict[str, ToolCallPart] = field(default_factory=dict)
    _changes: dict[str, list[Changes]] = field(default_factory=dict)
    """By the id of a call: what it was reported to do to files."""
    _patched: set[str] = field(default_factory=set)

    def say(self, row: Row, parts: Iterable[Part]) -> None:
        """More of an answer: what comes between two inputs of the model is one."""
        if self._row is None:
            self._row, self._index = row, self.log.next_index(row.position)
        self._parts += parts

    def call(self, row: Row, call: ToolCallPart) -> None:
        self.say(row, (call,))
        if row.payload.get("type") in ON_THE_SERVER:
            result = server_result(row.payload, call)
            self._server_results.append((self.log.next_index(row.position), result))
        else:
            self._calls[call.call_id] = call

    def close(self) -> bool:
        """The answer is complete; whether there was one."""
        row, parts, results = self._row, self._parts, self._server_results
        self._row, self._parts, self._server_results = None, [], []
        if row is None or not parts:
            return False
        self.log.put(self._index, AssistantMessage(parts=tuple(parts), model=self.model or None), row.at)
        for index, result in results:
            self.log.put(index, result, row.at)
        self._uncounted = self._index
        return True

    def patched(self, call_id: str, changes: Json, *, done: bool) -> bool:
        """What a patch did, recorded before the result; whether there is a call for it.

        A script that a call runs applies patches under ids of their own. A patch may be recorded twice.
        """
        if call_id in self._patched:
            return True
        caller = call_id if call_id in self._calls else next(reversed(self._calls), None)
        if caller is None:
            return False
        if done:
            self._patched.add(call_id)
            self._changes.setdefault(caller, []).append(applied(JsonObject.of(changes)))
        return True

    def result(self, row: Row) -> None:
        call_id = row.payload.text("call_id")
        changes, call = self._changes.pop(call_id, None), self._calls.pop(call_id, None)
        done = together(changes) if changes else None
        result = tool_result(row.payload, call, done, self.log.left_out)
        self.log.add(result, row.at, position=row.position)

    def count(self, usage: Usage) -> None:
        if self._uncounted is not None:
            self.log.change(self._uncounted, usage=usage)
        self._uncounted = None

    def forget(self) -> None:
        self._uncounted = None


# --- rows -------------------------------------------------------------------------------------------


@dataclass
class _Reader:
    prompts: frozenset[str]
    damaged: bool
    goes_back: bool
    """Whether turns are taken back somewhere: then each turn begins with a checkpoint."""
    log: Transcript = field(default_factory=lambda: Transcript("codex"))
    _session: str | None = None
    _model: tuple[str, str] = ("", "")
    _provider: str = ""
    _first_prompt: int | None = None
    _worked: bool = False
    _size: int = 0
    _total: Json = None
    _compaction: int | None = None
    """The newest one, until the size after it is known."""
    _unknown: list[str] = field(default_factory=list)
    """The kinds of the records that say nothing to us, though they might to the model."""
    _sealed: int = 0
    _sealed_summaries: int = 0
    _absent: int = 0
    _absent_summaries: int = 0

    def __post_init__(self) -> None:
        self._answers = _Answers(self.log)
        self._turns = _Turns(self.log, self.goes_back)

    def notes(self) -> list[str]:
        replaced = "each replaced by a line that says so"
        counts = (
            (f"Encrypted summaries of compactions, {replaced}", self._sealed_summaries),
            (f"Compactions whose summary is not in the file, {replaced}", self._absent_summaries),
            ("Pieces of reasoning that are encrypted, left out", self._sealed),
            ("Pieces of reasoning whose text is not in the file", self._absent),
        )
        return [
            *(f"{what}: {count}." for what, count in counts if count),
            *left_out_note(self.log.left_out),
            *unknown_note(self._unknown),
        ]

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

    def _add(self, row: Row, entry: BaseMessage | ModelChange | NoticeRecord | Title) -> int:
        return self.log.add(entry, row.at, position=row.position)

    def _keep(self, row: Row) -> None:
        name = row.payload.text("type") if row.kind in ("event_msg", "response_item") else row.kind
        if row.kind not in _SILENT:
            kind = kind_of(row.payload) if row.kind == "response_item" else row.kind[:LONGEST_KIND]
            self._unknown.append(kind)
        self.log.add(self.log.unknown(row.record, name or "row"), row.at, position=row.position)

    # --- about the session ---------------------------------------------------------------------------

    def _session_meta(self, row: Row) -> None:
        """The first is ours. It is repeated now and then; in a fork, that of the origin follows."""
        identity = row.payload.text("id")
        if self._session is not None:
            if identity != self._session:
                self._keep(row)
            return
        self._session, self._provider = identity, row.payload.text("model_provider")
        if prompt := row.payload.text("base_instructions", "text"):
            self._add(row, SystemMessage(parts=text_parts(prompt)))

    def _turn_context(self, row: Row) -> None:
        self.close_answer()
        model = (row.payload.text("model"), self._provider)
        if not model[0] or model == self._model:
            self._keep(row)
            return
        self._model, self._answers.model = model, model[0]
        self._add(row, ModelChange(model=model[0], provider=self._provider or None))

    # --- what the model says -------------------------------------------------------------------------

    def _item(self, row: Row) -> None:
        item = row.payload
        kind = item.text("type")
        call = call_of(item, row.position)
        if call is not None:
            self._answers.call(row, call)
        elif kind == "reasoning" and (part := thinking(item)):
            self._answers.say(row, (part,))
        elif kind == "reasoning":
            self._sealed += bool(item.get("encrypted_content"))
            self._absent += not item.get("encrypted_content")
        elif kind == "message" and item.get("role") == "assistant":
            self._answers.say(row, self.log.parts(item.get("content")))
        elif kind == "message":
            self.close_answer()
            self._input(row, self._messages_of(item))
        elif kind in RESULTS:
            self.close_answer()
            self._turns.answered()
            self._answers.result(row)
        elif kind == "agent_message":
            self._from_agent(row)
        else:
            self._keep(row)

    def close_answer(self) -> None:
        if self._answers.close():
            self._worked = True
            self._turns.answered()

    # --- instructions to the model -------------------------------------------------------------------

    def _messages_of(self, item: JsonObject) -> Sequence[BaseMessage]:
        if item.get("type") != "message":
            self.log.left_out.append(kind_of(item))
            return ()
        content = item.get("content")
        match item.get("role"):
            case "user":
                trusted = bool(self.prompts) and not self.damaged
                return user_messages(content, self.prompts, self.log.left_out, trusted=trusted)
            case "assistant":
                return (AssistantMessage(parts=self.log.parts(content)),)
            case _:
                return (DeveloperMessage(parts=self.log.parts(content)),)

    def _input(self, row: Row, messages: Sequence[BaseMessage]) -> None:
        for message in messages:
            if not isinstance(message, UserMessage) or message.origin != "typed":
                self._turns.machine_text(row)
                self._add(row, message)
                continue
            self._turns.begin(row)
            index = self._add(row, message)
            self._worked = True
            self._first_prompt = index if self._first_prompt is None else self._first_prompt

    def _from_agent(self, row: Row) -> None:
        """What another agent of the same session says. To Codex it begins a turn, as a prompt does."""
        self.close_answer()
        self._turns.begin(row)
        self._add(row, DeveloperMessage(parts=self.log.parts(row.payload.get("content"))))

    # --- compactions, and turns taken back -----------------------------------------------------------

    def _compacted(self, row: Row) -> None:
        """What the new context says and the history has not said yet, such as a fresh description of the
        environment, is added to the history before the compaction."""
        self.close_answer()
        summary, history = row.payload.text("message"), row.payload.get("replacement_history")
        if isinstance(history, list):
            items = [JsonObject(item) for item in history if isinstance(item, dict)]
            context = listed_context(
                self.log, items, summary, self._messages_of, lambda message: self._add(row, message)
            )
        else:
            context = carried_over(
                self.log, summary, self._first_prompt, lambda message: self._add(row, message)
            )
        index = self.log.next_index(row.position)
        update = {
            "reason": "threshold" if self._worked else "manual",
            "model": self._model[0] or None,
            "tokens_before": self._size,
        }
        compaction = context.compaction(self.log, index).model_copy(update=update)
        self._compaction = self.log.put(index, compaction, row.at)
        self._sealed_summaries += context.summary == SEALED
        self._absent_summaries += context.summary == ABSENT

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
                self._add(row, Title(title=event.text("thread_name")))
            case "task_started" | "turn_started":
                self.close_answer()
                self._worked = False
                self._keep(row)
            case "turn_aborted":
                self.close_answer()
                why = event.text("reason") or "no reason given"
                self._add(row, NoticeRecord(text=f"The turn was ended early: {why}.", level="warning"))
            case "error" | "warning" | "stream_error" as kind if event.text("message"):
                level = "error" if kind == "error" else "warning"
                self._add(row, NoticeRecord(text=event.text("message"), level=level))
            case kind if kind not in _TWICE:
                self._keep(row)

    def _rolled_back(self, row: Row) -> None:
        self.close_answer()
        if self._turns.take_back(row, row.payload.count("num_turns")):
            self._answers.forget()
        else:
            self._keep(row)

    def _patch(self, row: Row, patch: JsonObject, name: str, *, done: bool) -> None:
        if not self._answers.patched(patch.text(name), patch.get("changes"), done=done):
            self._keep(row)

    def _completed(self, row: Row, item: JsonObject) -> None:
        """What paginated sessions have in place of events of their own."""
        if item.get("type") == "FileChange":
            self._patch(row, item, "id", done=item.get("status") in (None, "completed"))
        elif item.get("type") not in ("UserMessage", "AgentMessage"):
            self._keep(row)

    def _usage(self, info: JsonObject) -> None:
        """The tokens of the answer before. They may be repeated; after a compaction only a new size is."""
        self.close_answer()
        last, total = info.object("last_token_usage"), info.at("total_token_usage")
        size, usage = last.count("total_tokens"), USAGE.read(last)
        if self._compaction is not None and usage is None:
            self.log.change(self._compaction, tokens_after=size)
        self._compaction = None
        self._size = size or self._size
        if usage is not None and total != self._total:
            window = info.count("model_context_window")
            self._answers.count(usage.model_copy(update={"window": window}))
        self._total = total
