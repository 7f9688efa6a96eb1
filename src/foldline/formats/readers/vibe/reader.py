"""Reader for the sessions of mistral-vibe 3: a store of documents, of which `CURRENT` names the newest.

It holds the model's context as it is now, and apart from that what was shown of the session since it began.
An index counts entries.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path

from foldline.context.numbers import many
from foldline.formats.base import (
    Digests,
    ForeignSession,
    JsonObject,
    child_in,
    child_of,
    object_in,
    parse_object,
)
from foldline.formats.parts import UsageFields, call_part, sub_agent_note, user_messages
from foldline.formats.tool_results import changes_of, tool_result
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

from .store import Store, context_of, outcome_of, text_of

_STORE = "mistral.vibe.unified-session-store/"
_SUMMARY, _COMPACTED = "<compaction_summary>", "previous_user_messages>"
"""Tags of mistral-vibe's own, in the messages that it puts around what a compaction kept."""
_USAGE = UsageFields(("inputTokens",), ("outputTokens",), "cachedInputTokens")
_RESOURCE = "Resource: "


def recognises(document: JsonObject) -> bool:
    return document.text("store_format").startswith(_STORE)


def read(data: bytes, path: Path) -> ForeignSession:
    """A session, with its subagents. `data` is what `CURRENT` holds; all else lies beside it."""
    return _read(data, path, {path.parent.name})


def _read(data: bytes, path: Path, seen: set[str]) -> ForeignSession:
    """`seen` are the stores that were read already: none is read twice, whatever they name."""
    current = parse_object(data) or JsonObject()
    if not recognises(current):
        raise FoldlineError(f"{path} is not the CURRENT of a session of mistral-vibe 3.")
    store = Store(path.parent, current)
    runtime, meta = store.document("runtime_state"), object_in(path.with_name("meta.json"))
    reader = _Reader(store, meta, runtime.text("identity", "kind") == "subagent")
    for agent, about in runtime.object("subagents", "children").items():
        identity = Path(JsonObject.of(about).text("child_session_id")).name
        if identity in seen:
            continue
        seen.add(identity)
        if session := child_in(partial(_read, seen=seen), path.parent.parent / identity / path.name):
            child = child_of(session, identity, agent=agent)
            reader.log.children[child.id] = child
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


@dataclass
class _Reader:
    store: Store
    meta: JsonObject
    by_agent: bool
    log: Transcript = field(default_factory=lambda: Transcript("vibe"))
    _times: dict[tuple[str, str], list[datetime]] = field(default_factory=dict)
    """When something was said, by who said it and what."""
    _at: datetime | None = None
    _model: str | None = None
    _rebuilt: int = 0
    _forgotten: int = 0
    """How many compactions there were before the last one."""

    def read_all(self) -> None:
        store, meta = self.store, self.meta
        shown, context = self._shown(), context_of(store)
        for entry in shown:
            if entry.kind == "message" and (at := entry.time("createdAt")):
                self._times.setdefault((entry.text("role"), text_of(entry)), []).append(at)
        if title := meta.text("title"):
            self.log.add(Title(title=title))
        if model := meta.text("config", "model_name"):
            self.log.add(ModelChange(model=model))
            self._model = model
        if store.system:
            self.log.add(SystemMessage(parts=text_parts(store.system)))
        marks = [place for place, entry in enumerate(shown) if entry.get("kind") == "compaction"]
        ends = [place for place, message in enumerate(context) if _SUMMARY in text_of(message)]
        if marks and ends:
            self._forgotten = len(marks) - 1
            self._before(shown[: marks[-1]])
            self._compact(shown[marks[-1]], context[: ends[-1] + 1])
            context = context[ends[-1] + 1 :]
        for message in context:
            self._add(message)
        self._count()

    def notes(self) -> Iterator[str]:
        earlier, calls = many(self._forgotten, "earlier compaction"), many(self._rebuilt, "call")
        said = {
            "The store has no system prompt.": not self.store.system,
            f"{earlier}: the store has no summary of it.": self._forgotten,
            f"{calls} before the last compaction: made of what was shown of it, "
            "without the id that the model gave it.": self._rebuilt,
        }
        if faults := self.store.faults:
            more = f", and {many(len(faults) - 1, 'more fault')}" if faults[1:] else ""
            yield f"{faults[0]}{more}."
        yield from (note for note, count in said.items() if count)
        yield from (*self.log.notes(), *sub_agent_note(self.by_agent))

    def _shown(self) -> list[JsonObject]:
        """What was shown of the session, with what the journal has since."""
        shown = {
            entry.text("id"): entry
            for entry in self.store.items("projection_state", "snapshot", "history", "entries")
        }
        for record in self.store.journal:
            for change in record.objects("payload", "delta"):
                match change.get("op"):
                    case "append_entry" | "replace_entry":
                        entry = change.object("entry")
                        shown[entry.text("id")] = entry
                    case "set_history_entries":
                        shown = {entry.text("id"): entry for entry in change.objects("entries")}
                    case _:
                        pass
        return list(shown.values())

    # --- before the last compaction ------------------------------------------------------------------

    def _before(self, shown: Iterable[JsonObject]) -> None:
        """The session as it was shown. Calls stand behind the answer that made them."""
        said: list[Part] = []
        ran: list[JsonObject] = []
        for entry in (*shown, JsonObject()):
            if entry.kind == "effect":
                ran.append(entry)
                continue
            if said or ran:
                self._answer(said, ran)
                said, ran = [], []
            self._at = entry.time("createdAt") or self._at
            if entry.kind == "message" and entry.get("role") == "assistant":
                said = list(self._parts(entry))
            elif entry.kind == "message":
                self._add(entry)
            elif entry.get("kind") == "compaction":
                seen, entries = self.log.messages(), self.log.entries
                prompts = [place for place in seen if isinstance(entries[place], UserMessage)]
                self.log.compact((), [], self._at, ahead=prompts, strategy="mistral-vibe")
            elif entry.text("message"):
                self.log.add(NoticeRecord(text=entry.text("message")), self._at)
            elif entry:
                self.log.add(self.log.unknown(entry, entry.kind), self._at)

    def _answer(self, said: Sequence[Part], ran: Sequence[JsonObject]) -> None:
        calls = [
            call_part(
                effect.text("id"),
                effect.text("detail", "toolName").rpartition(".")[2],
                effect.at("detail", "input"),
            )
            for effect in ran
        ]
        self.log.add(AssistantMessage(parts=(*said, *calls), model=self._model), self._at)
        self._rebuilt += len(calls)
        for call, effect in zip(calls, ran, strict=True):
            output, failed = effect.object("state", "output"), effect.text("state", "status") == "failed"
            self.log.add(self._result(call.call_id, text_parts(outcome_of(output)), failed), self._at)

    def _compact(self, mark: JsonObject, kept: Sequence[JsonObject]) -> None:
        """The last compaction: prompts between two texts of the program's; the later one has the summary."""
        self._at = mark.time("createdAt") or self._at
        known = self.log.known_messages(lambda message: (message.type, message.parts))
        ahead: list[int] = []
        for message in kept[:-1]:
            for said in self._messages(message):
                place = known.take(said)
                ahead.append(self.log.add(said, self._at) if place is None else place)
        summary = text_parts(text_of(kept[-1]))
        self.log.compact(summary, [], self._at, ahead=ahead, strategy="mistral-vibe")

    # --- the context ---------------------------------------------------------------------------------

    def _add(self, message: JsonObject) -> None:
        times = self._times.get((message.text("role"), text_of(message)))
        self._at = times.pop(0) if times else self._at
        for entry in self._messages(message):
            self.log.add(entry, self._at)

    def _messages(self, message: JsonObject) -> Sequence[BaseMessage]:
        parts = self._parts(message)
        match message.get("role"):
            case "assistant":
                return [AssistantMessage(parts=parts, model=self._model)]
            case "tool":
                failed = message.get("outcome") == "failure"
                return [self._result(message.text("tool_call_id"), parts, failed)]
            case "user":
                injected = message.get("source") == "injection" or _COMPACTED in text_of(message)
                program = self.by_agent or injected
                return user_messages(parts, lambda text: program or text.startswith(_RESOURCE))
            case _:
                return ()

    def _parts(self, message: JsonObject) -> tuple[Part, ...]:
        return tuple(part for piece in message.pieces("content") for part in self._part(piece))

    def _part(self, piece: JsonObject) -> Iterable[Part]:
        match piece.kind:
            case "tool_call":
                arguments = piece.text("arguments", "raw") or piece.text("arguments_json")
                return [call_part(piece.text("id"), piece.text("name"), arguments)]
            case "reasoning":
                thoughts = (thought.text("text") for thought in piece.objects("content"))
                return [ThinkingPart(text=text) for text in thoughts if text]
            case "resource" if text := piece.text("resource", "text"):
                fenced = f"{_RESOURCE}{piece.text('resource', 'uri')}\n````\n{text}\n````"
                return [TextPart(text=fenced)]
            case _:
                return self.log.parts([piece])

    def _result(self, call_id: str, parts: Sequence[Part], failed: bool) -> ToolResultMessage:
        call = self.log.calls.get(call_id)
        changes = changes_of(call) if call and not failed else None
        return tool_result(call_id, call.name if call else "", parts, failed=failed, changes=changes)

    def _count(self) -> None:
        """Add what the provider counted of the last request: all else is a sum for the session."""
        answers = [index for index, entry in self.log.entries.items() if isinstance(entry, AssistantMessage)]
        state = self.store.document("projection_state")
        usage = state.object("snapshot", "session", "contextUsage")
        if answers and not self.store.journal:
            self.log.change(answers[-1], usage=_USAGE.read(usage))
