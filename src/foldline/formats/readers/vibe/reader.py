"""Reader for mistral-vibe 3's sessions, each of which is a store of documents.

The file `CURRENT` names the newest generation of documents.

The store contains the model's current context and, separately, everything that was shown to the user. Indices
count entries.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path

from foldline.formats.base import (
    Digests,
    ForeignSession,
    JsonObject,
    child_in,
    child_of,
    object_in,
    parse_object,
)
from foldline.formats.parts import (
    UsageFields,
    call_part,
    counted_notes,
    sub_agent_note,
    user_messages,
)
from foldline.formats.tool_results import changes_of
from foldline.formats.transcript import Transcript
from foldline.history import Damage
from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    FoldlineError,
    ModelChange,
    NoticeRecord,
    Part,
    SystemMessage,
    TextPart,
    ThinkingPart,
    Title,
    ToolResultMessage,
    UserMessage,
    text_parts,
)
from foldline.text.numbers import many

from .store import Store, context_of, outcome_of, text_of

_SUMMARY = "<compaction_summary>"
_COMPACTED = "previous_user_messages>"
"""The tag around the prompts that a compaction kept."""
_USAGE = UsageFields(("inputTokens",), ("outputTokens",), "cachedInputTokens")
_RESOURCE = "Resource: "
_STRATEGY = "mistral-vibe"
NO_SYSTEM_PROMPT = "The store has no system prompt."


def recognises(document: JsonObject) -> bool:
    return document.text("store_format").startswith(
        "mistral.vibe.unified-session-store/"
    )


def read(data: bytes, path: Path) -> ForeignSession:
    """Read the session that a `CURRENT` file refers to, with its subagents."""
    return _read(data, path, {path.parent.name})


def _read(data: bytes, path: Path, read_before: set[str]) -> ForeignSession:
    """Read a session and its subagents, except those in `read_before`."""
    current = parse_object(data) or JsonObject()
    if not recognises(current):
        raise FoldlineError(
            "{path} is not the CURRENT file of a mistral-vibe 3 session.", path=path
        )
    store = Store(path.parent, current)
    runtime = store.document("runtime_state")
    meta = object_in(path.with_name("meta.json"))
    reader = _VibeReader(
        store, meta, by_agent=runtime.text("identity", "kind") == "subagent"
    )
    for agent, about in runtime.object("subagents", "children").items():
        session_id = Path(JsonObject.of(about).text("child_session_id")).name
        if session_id not in read_before:
            read_before.add(session_id)
            file = path.parent.parent / session_id / path.name
            session = child_in(partial(_read, read_before=read_before), file)
            if session:
                reader.log.add_children([child_of(session, session_id, agent=agent)])
    reader.read_all()
    return reader.log.session(
        "mistral-vibe",
        current.text("session_id") or path.parent.name,
        runtime.text("session_metadata", "cwd"),
        Damage(),
        reader.notes(),
        begun=meta.time("start_time"),
        digests=Digests(store.checked, tuple(store.faults)),
    )


class _VibeReader:
    def __init__(self, store: Store, meta: JsonObject, *, by_agent: bool) -> None:
        self.log = Transcript("vibe")
        self._store = store
        self._title = meta.text("title")
        self._model = meta.text("config", "model_name")
        self._by_agent = by_agent
        """Whether another agent wrote the prompts."""
        self._times: dict[tuple[str, str], list[datetime]] = defaultdict(list)
        """The times of the displayed messages, by role and text."""
        self._at: datetime | None = None
        self._rebuilt_calls = 0
        self._earlier_compactions = 0

    def read_all(self) -> None:
        shown = self._shown()
        context = context_of(self._store)
        for item in shown:
            at = item.time("createdAt")
            if item.kind == "message" and at:
                self._times[item.text("role"), text_of(item)].append(at)
        if self._title:
            self.log.add(Title(title=self._title))
        if self._model:
            self.log.add(ModelChange(model=self._model))
        if self._store.system:
            self.log.add(SystemMessage(parts=text_parts(self._store.system)))
        compactions = [
            place
            for place, item in enumerate(shown)
            if item.get("kind") == "compaction"
        ]
        summaries = [
            place
            for place, message in enumerate(context)
            if _SUMMARY in text_of(message)
        ]
        if compactions and summaries:
            newest = compactions[-1]
            summary = summaries[-1]
            self._earlier_compactions = len(compactions) - 1
            self._read_shown(shown[:newest])
            self._at = shown[newest].time("createdAt") or self._at
            self._compact(context[:summary], context[summary])
            context = context[summary + 1 :]
        for message in context:
            self._add(message)
        self._add_usage()

    def notes(self) -> Iterator[str]:
        faults = self._store.faults
        if faults:
            more = f", and {many(len(faults) - 1, 'more fault')}" if faults[1:] else ""
            yield f"{faults[0]}{more}."
        earlier = many(self._earlier_compactions, "earlier compaction")
        calls = many(self._rebuilt_calls, "call")
        counts = {
            NO_SYSTEM_PROMPT: not self._store.system,
            f"Missing from the store: the summaries of {earlier}.": self._earlier_compactions,
            (
                f"{calls} before the last compaction: reconstructed from what was displayed, "
                "without the original ids."
            ): self._rebuilt_calls,
        }
        yield from counted_notes(counts)
        yield from self.log.notes()
        yield from sub_agent_note(self._by_agent)

    def _shown(self) -> list[JsonObject]:
        """Return the displayed items, including the changes in the journal."""
        items = self._store.items("projection_state", "snapshot", "history", "entries")
        shown = {item.text("id"): item for item in items}
        for record in self._store.journal:
            for change in record.objects("payload", "delta"):
                match change.get("op"):
                    case "append_entry" | "replace_entry":
                        item = change.object("entry")
                        shown[item.text("id")] = item
                    case "set_history_entries":
                        shown = {
                            item.text("id"): item for item in change.objects("entries")
                        }
        return list(shown.values())

    # --- before the last compaction ------------------------------------------------------------------

    def _read_shown(self, shown: Iterable[JsonObject]) -> None:
        """Add the displayed items.

        In this list, an answer's calls follow the answer.
        """
        parts: Sequence[Part] = ()
        calls = []
        for item in shown:
            if item.kind == "effect":
                calls.append(item)
                continue
            self._add_answer(parts, calls)
            parts = ()
            calls = []
            self._at = item.time("createdAt") or self._at
            if item.kind == "message" and item.get("role") == "assistant":
                parts = self._parts(item)
            elif item.kind == "message":
                self._add(item)
            elif item.get("kind") == "compaction":
                visible = self.log.visible().items()
                prompts = [
                    index
                    for index, message in visible
                    if isinstance(message, UserMessage)
                ]
                self.log.compact((), [], self._at, ahead=prompts, strategy=_STRATEGY)
            elif item.text("message"):
                self.log.add(NoticeRecord(text=item.text("message")), self._at)
            elif item:
                self.log.add(self.log.unknown(item, item.kind), self._at)
        self._add_answer(parts, calls)

    def _add_answer(self, parts: Sequence[Part], effects: Sequence[JsonObject]) -> None:
        """Add an answer, and convert its effects to calls and results."""
        if not parts and not effects:
            return
        calls = []
        for effect in effects:
            name = effect.text("detail", "toolName").rpartition(".")[2]
            calls.append(
                call_part(effect.text("id"), name, effect.at("detail", "input"))
            )
        answer = AssistantMessage(parts=(*parts, *calls), model=self._model or None)
        self.log.add(answer, self._at)
        self._rebuilt_calls += len(calls)
        for effect in effects:
            state = effect.object("state")
            output = text_parts(outcome_of(state.object("output")))
            failed = state.text("status") == "failed"
            result = self._result(effect.text("id"), output, failed)
            self.log.add(result, self._at)

    def _compact(self, prompts: Iterable[JsonObject], summary: JsonObject) -> None:
        """Add the last compaction. The prompts it kept precede the summary."""
        history = self.log.known_messages()
        ahead = []
        for prompt in prompts:
            for message in self._messages(prompt):
                index = history.take(message)
                if index is None:
                    index = self.log.add(message, self._at)
                ahead.append(index)
        self.log.compact(
            text_parts(text_of(summary)),
            [],
            self._at,
            ahead=ahead,
            strategy=_STRATEGY,
        )

    # --- the context ---------------------------------------------------------------------------------

    def _add(self, message: JsonObject) -> None:
        times = self._times[message.text("role"), text_of(message)]
        if times:
            self._at = times.pop(0)
        for entry in self._messages(message):
            self.log.add(entry, self._at)

    def _messages(self, message: JsonObject) -> Sequence[BaseMessage]:
        parts = self._parts(message)
        match message.get("role"):
            case "assistant":
                return [AssistantMessage(parts=parts, model=self._model or None)]
            case "tool":
                failed = message.get("outcome") == "failure"
                return [self._result(message.text("tool_call_id"), parts, failed)]
            case "user":
                is_injected = message.get(
                    "source"
                ) == "injection" or _COMPACTED in text_of(message)
                by_program = self._by_agent or is_injected
                return user_messages(
                    parts, lambda text: by_program or text.startswith(_RESOURCE)
                )
            case _:
                return ()

    def _parts(self, message: JsonObject) -> tuple[Part, ...]:
        return tuple(
            part for piece in message.pieces("content") for part in self._piece(piece)
        )

    def _piece(self, piece: JsonObject) -> Iterable[Part]:
        match piece.kind:
            case "tool_call":
                arguments = piece.text("arguments", "raw") or piece.text(
                    "arguments_json"
                )
                return [call_part(piece.text("id"), piece.text("name"), arguments)]
            case "reasoning":
                thoughts = [
                    thought.text("text") for thought in piece.objects("content")
                ]
                return [ThinkingPart(text=text) for text in thoughts if text]
            case "resource" if text := piece.text("resource", "text"):
                fenced = (
                    f"{_RESOURCE}{piece.text('resource', 'uri')}\n````\n{text}\n````"
                )
                return [TextPart(text=fenced)]
            case _:
                return self.log.parts([piece])

    def _result(
        self, call_id: str, parts: Sequence[Part], failed: bool
    ) -> ToolResultMessage:
        return self.log.result(call_id, parts, failed=failed, changes=changes_of)

    def _add_usage(self) -> None:
        """Add the usage of the last request to the last answer."""
        answers = [
            index
            for index, entry in self.log.entries.items()
            if isinstance(entry, AssistantMessage)
        ]
        if answers and not self._store.journal:
            usage = self._store.document("projection_state").object(
                "snapshot", "session", "contextUsage"
            )
            self.log.change(answers[-1], usage=_USAGE.read(usage))
