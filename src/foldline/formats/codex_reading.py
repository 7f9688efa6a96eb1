"""From the rows of a Codex session to entries, one row after the other."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    DeveloperMessage,
    Entry,
    ModelChange,
    NoticeRecord,
    Part,
    SystemMessage,
    Title,
    Unknown,
    UserMessage,
    text_parts,
)

from .base import Json, JsonObject, as_count, as_object, as_text
from .chat_parts import content_parts
from .codex_answers import Answers
from .codex_folds import ABSENT, SEALED, fold
from .codex_items import (
    RESULTS,
    Book,
    Row,
    Turns,
    call_part,
    thinking,
    told_in,
    usage_of,
    user_messages,
)
from .detection import kind_of, left_out_note, unknown_note

_TOLD_TWICE = (
    "agent_message",
    "agent_reasoning",
    "agent_reasoning_raw_content",
    "context_compacted",
    "image_generation_end",
    "user_message",
    "web_search_end",
)
"""Events that repeat an item."""
_SILENT = (
    "event_msg",
    "inter_agent_communication_metadata",
    "session_meta",
    "token_usage_record",
    "turn_context",
    "world_state",
)
"""Rows that say nothing to the model: what an event says to it, an item says, too."""


@dataclass
class Reading:
    """Rows go in by `read`, entries come out of `done`."""

    prompts: frozenset[str]
    """What was typed, as events say."""
    said: frozenset[str]
    """The texts of all messages that are items: what only an event says was lost to damage."""
    damaged: bool
    goes_back: bool
    """Whether turns are taken back somewhere: then each turn begins with a checkpoint."""
    _book: Book = field(init=False, default_factory=Book)
    _answers: Answers = field(init=False)
    _turns: Turns = field(init=False)
    _session: str | None = None
    _model: tuple[str, str] = ("", "")
    _provider: str = ""
    _first_prompt: int | None = None
    _worked: bool = False
    """Whether something was said in this task."""
    _size: int = 0
    _total: Json = None
    _fold: int | None = None
    """The newest compaction, until the size after it is known."""
    _left_out: list[str] = field(default_factory=list)
    _unknown: list[str] = field(default_factory=list)
    """The kinds of the records that say nothing to us, though they might to the model."""
    _sealed: int = 0
    _sealed_folds: int = 0
    _absent: int = 0
    _absent_folds: int = 0
    _restored: int = 0

    def __post_init__(self) -> None:
        self._answers = Answers(self._book)
        self._turns = Turns(self._book, self.goes_back)

    def done(self) -> list[Entry]:
        self._close_step()
        return self._book.in_order()

    def notes(self) -> list[str]:
        told = (
            ("Encrypted summaries of compactions, each replaced by a line that says so", self._sealed_folds),
            (
                "Compactions whose summary is not in the file, each replaced by a line that says so",
                self._absent_folds,
            ),
            ("Pieces of reasoning that are encrypted, left out", self._sealed),
            ("Pieces of reasoning whose text is not in the file", self._absent),
            ("Messages on damaged lines, taken from what Codex showed of them", self._restored),
        )
        return [
            *(f"{what}: {count}." for what, count in told if count),
            *left_out_note(self._left_out),
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

    def _keep(self, row: Row) -> None:
        """A record that says nothing to us stays as it is."""
        name = as_text(row.payload.get("type")) if row.kind in ("event_msg", "response_item") else row.kind
        if row.kind not in _SILENT:
            self._unknown.append(kind_of(row.payload) if row.kind == "response_item" else row.kind[:40])
        self._book.add(row, Unknown.model_validate({"type": f"codex.{name or 'row'}", "record": row.record}))

    # --- about the session ---------------------------------------------------------------------------

    def _session_meta(self, row: Row) -> None:
        """The first is ours. It is repeated now and then; in a fork, that of the origin follows."""
        identity = as_text(row.payload.get("id"))
        if self._session is not None:
            if identity != self._session:
                self._keep(row)
            return
        self._session, self._provider = identity, as_text(row.payload.get("model_provider"))
        prompt = as_text(as_object(row.payload.get("base_instructions")).get("text"))
        if prompt:
            self._book.add(row, SystemMessage(parts=text_parts(prompt)))

    def _turn_context(self, row: Row) -> None:
        self._close_step()
        model = (as_text(row.payload.get("model")), self._provider)
        if not model[0] or model == self._model:
            self._keep(row)
            return
        self._model, self._answers.model = model, model[0]
        self._book.add(row, ModelChange(model=model[0], provider=self._provider or None))

    # --- what the model says -------------------------------------------------------------------------

    def _item(self, row: Row) -> None:
        item = row.payload
        kind = as_text(item.get("type"))
        call = call_part(item, row.position)
        if call is not None:
            self._answers.call(row, call)
        elif kind == "reasoning" and (part := thinking(item)):
            self._answers.say(row, (part,))
        elif kind == "reasoning":
            self._sealed += bool(item.get("encrypted_content"))
            self._absent += not item.get("encrypted_content")
        elif kind == "message" and item.get("role") == "assistant":
            self._answers.say(row, self._parts(item.get("content")))
        elif kind == "message":
            self._close_step()
            self._input(row, self._messages_of(item))
        elif kind in RESULTS:
            self._close_step()
            self._turns.answered()
            self._left_out += self._answers.result(row)
        elif kind == "agent_message":
            self._from_agent(row)
        else:
            self._keep(row)

    def _parts(self, content: Json) -> tuple[Part, ...]:
        parts, left_out = content_parts(content)
        self._left_out += left_out
        return parts

    def _close_step(self) -> None:
        if self._answers.close():
            self._worked = True
            self._turns.answered()

    # --- what the model is told ----------------------------------------------------------------------

    def _messages_of(self, item: JsonObject) -> Sequence[BaseMessage]:
        """The messages of an item, whatever its role."""
        if item.get("type") != "message":
            self._left_out.append(kind_of(item))
            return ()
        content = item.get("content")
        match item.get("role"):
            case "user":
                trusted = bool(self.prompts) and not self.damaged
                messages, left_out = user_messages(content, self.prompts, trusted=trusted)
                self._left_out += left_out
                return messages
            case "assistant":
                return (AssistantMessage(parts=self._parts(content)),)
            case _:
                return (DeveloperMessage(parts=self._parts(content)),)

    def _input(self, row: Row, messages: Sequence[BaseMessage]) -> None:
        for message in messages:
            if not isinstance(message, UserMessage) or message.origin != "typed":
                self._turns.machine_text(row)
                self._book.add(row, message)
                continue
            self._turns.begin(row)
            index = self._book.add(row, message)
            self._worked = True
            self._first_prompt = index if self._first_prompt is None else self._first_prompt

    def _from_agent(self, row: Row) -> None:
        """What another agent of the same session says. To Codex it begins a turn, as a prompt does."""
        self._close_step()
        self._turns.begin(row)
        self._book.add(row, DeveloperMessage(parts=self._parts(row.payload.get("content"))))

    # --- compactions, and turns taken back -----------------------------------------------------------

    def _compacted(self, row: Row) -> None:
        self._close_step()
        folded, summary = fold(row, self._book, self._messages_of, self._first_prompt)
        update = {
            "reason": "threshold" if self._worked else "manual",
            "model": self._model[0] or None,
            "tokens_before": self._size,
        }
        self._book.put(folded.index, row.at, folded.model_copy(update=update))
        self._fold = folded.index
        self._sealed_folds += summary == SEALED
        self._absent_folds += summary == ABSENT

    def _rolled_back(self, row: Row) -> None:
        self._close_step()
        if self._turns.take_back(row, as_count(row.payload.get("num_turns"))):
            self._answers.forget()
        else:
            self._keep(row)

    # --- events --------------------------------------------------------------------------------------

    def _event(self, row: Row) -> None:
        event = row.payload
        match event.get("type"):
            case "token_count":
                self._usage(as_object(event.get("info")))
            case "patch_apply_end":
                done = event.get("success") is not False
                if not self._answers.patched(as_text(event.get("call_id")), event.get("changes"), done=done):
                    self._keep(row)
            case "item_completed":
                self._completed(row, as_object(event.get("item")))
            case "thread_rolled_back":
                self._rolled_back(row)
            case "thread_name_updated" if as_text(event.get("thread_name")).strip():
                self._book.add(row, Title(title=as_text(event.get("thread_name"))))
            case "task_started" | "turn_started":
                self._close_step()
                self._worked = False
                self._keep(row)
            case "turn_aborted":
                self._close_step()
                why = as_text(event.get("reason")) or "no reason given"
                self._book.add(row, NoticeRecord(text=f"The turn was ended early: {why}.", level="warning"))
            case "error" | "warning" | "stream_error" as kind if as_text(event.get("message")):
                level = "error" if kind == "error" else "warning"
                self._book.add(row, NoticeRecord(text=as_text(event.get("message")), level=level))
            case kind if kind in _TOLD_TWICE:
                self._restore(row)
            case _:
                self._keep(row)

    def _completed(self, row: Row, told: JsonObject) -> None:
        """What paginated sessions have in place of events of their own."""
        match told.get("type"):
            case "FileChange":
                done = told.get("status") in (None, "completed")
                if not self._answers.patched(as_text(told.get("id")), told.get("changes"), done=done):
                    self._keep(row)
            case "UserMessage" | "AgentMessage":
                self._restore(row)
            case _:
                self._keep(row)

    def _restore(self, row: Row) -> None:
        """A message that only an event tells, where the line of its item may be lost."""
        prompt = told_in(row, "user_message", "UserMessage")
        text = next(iter(prompt or told_in(row, "agent_message", "AgentMessage")), "")
        text = text or as_text(row.payload.get("message"))
        if not self.damaged or not text or text in self.said:
            return
        self._restored += 1
        if prompt:
            self._close_step()
            self._input(row, [UserMessage(parts=text_parts(text))])
        else:
            self._answers.say(row, text_parts(text))

    def _usage(self, info: JsonObject) -> None:
        """The tokens of the answer before. They may be told again; after a compaction, only a new size is."""
        self._close_step()
        last, total = as_object(info.get("last_token_usage")), info.get("total_token_usage")
        window = as_count(info.get("model_context_window"))
        size, usage = as_count(last.get("total_tokens")), usage_of(last, window)
        if self._fold is not None and not usage.total:
            self._book.change(self._fold, tokens_after=size)
        self._fold = None
        self._size = size or self._size
        if usage.total and total != self._total:
            self._answers.count(usage)
        self._total = total
