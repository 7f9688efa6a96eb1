"""Reader for the sessions of mistral-vibe 3: a store of documents, of which `CURRENT` names the newest.

It holds the model's context as it is now, and apart from that what was shown of the session since it began.
An index counts entries.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from hashlib import sha256
from pathlib import Path

from foldline.context.numbers import many
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

from .base import (
    Digests,
    ForeignSession,
    JsonObject,
    bytes_in,
    child_in,
    child_of,
    object_in,
    parse_object,
)
from .parts import UsageFields, arguments_text, call_part, sub_agent_note, user_messages
from .tool_results import changes_of, tool_result
from .transcript import Transcript

_STORE = "mistral.vibe.unified-session-store/"
_DOCUMENTS = ("checkpoint", "runtime_state", "projection_state")
_SUMMARY, _COMPACTED = "<compaction_summary>", "previous_user_messages>"
"""Tags of mistral-vibe's own, in the messages that it puts around what a compaction kept."""
_USAGE = UsageFields(("inputTokens",), ("outputTokens",), "cachedInputTokens")
_DEEPEST = 8
"""Levels of subagents below each other that are read."""
_RESOURCE = "Resource: "
_DIGEST = b',"record_sha256":"'


def is_vibe(document: JsonObject) -> bool:
    return document.text("store_format").startswith(_STORE)


def read_vibe(data: bytes, path: Path, level: int = 0) -> ForeignSession:
    """A session, with its subagents. `data` is what `CURRENT` holds; all else lies beside it."""
    current = parse_object(data) or JsonObject()
    if not is_vibe(current):
        raise FoldlineError(f"{path} is not the CURRENT of a session of mistral-vibe 3.")
    store = _Store(path.parent, current)
    runtime, meta = store.document("runtime_state"), object_in(path.with_name("meta.json"))
    reader = _Reader(store, meta, runtime.text("identity", "kind") == "subagent")
    children = runtime.object("subagents", "children") if level < _DEEPEST else JsonObject()
    for agent, about in children.items():
        identity = Path(JsonObject.of(about).text("child_session_id")).name
        file = path.parent.parent / identity / path.name
        if session := child_in(partial(read_vibe, level=level + 1), file):
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


# --- the store --------------------------------------------------------------------------------------


@dataclass
class _Store:
    """The documents that the newest generation names. Each is proved by the digest in the one that names it,
    and each record of a journal by its own and by that of the record before it."""

    folder: Path
    current: JsonObject
    system: str = ""
    """The system prompt; empty where no request is left that has it."""
    faults: list[str] = field(default_factory=list)
    checked: int = 0

    def __post_init__(self) -> None:
        generation = self.folder / "generations" / Path(self.current.text("generation")).name
        self.manifest = self._document(generation / "manifest.json", self.current.text("manifest_sha256"))
        self.documents = {
            name: self._document(generation / Path(about.text("path")).name, about.text("sha256"))
            for name in _DOCUMENTS
            if (about := self.manifest.object(name))
        }
        self.journal: list[JsonObject] = []
        segment = Path(self.manifest.text("recovery_journal_segment", "path")).name
        for path in sorted(self.folder.glob("journal/*.jsonl")):
            records = list(self._records(path))
            self.system = _system_in(records) or self.system
            self.journal = records if path.name == segment else self.journal

    def document(self, name: str) -> JsonObject:
        return self.documents.get(name, JsonObject())

    def items(self, name: str, *within: str) -> list[JsonObject]:
        """The list of a document that is kept in pieces apart from it, unless it is an old one."""
        items = self.document(name).objects(*within)
        for digest in self.manifest.texts(name, "chunks"):
            body = self._proved(self.folder / "chunks" / f"{Path(digest).name}.json", digest)
            items += (parse_object(b'{"items":' + body + b"}") or JsonObject()).objects("items")
        return items

    def _document(self, path: Path, digest: str) -> JsonObject:
        return parse_object(self._proved(path, digest)) or JsonObject()

    def _proved(self, path: Path, digest: str) -> bytes:
        body = bytes_in(path).removesuffix(b"\n")
        if not body:
            self.faults.append(f"{self._name(path)} is missing or empty")
        elif sha256(body).hexdigest() != digest:
            self.faults.append(f"{self._name(path)} is not what its digest says")
        self.checked += 1
        return body

    def _records(self, path: Path) -> Iterator[JsonObject]:
        before: str | None = None
        first = int(path.stem) if path.stem.isdigit() else 0
        *whole, _ = bytes_in(path).split(b"\n")  # the last line may be being written
        for number, line in enumerate(whole, start=first):
            record = parse_object(line) or JsonObject()
            digest = record.text("record_sha256")
            start, said = line.rfind(_DIGEST), _DIGEST + digest.encode() + b'"'
            body = line[:start] + line[start + len(said) :]
            if not line.startswith(said, max(start, 0)) or sha256(body).hexdigest() != digest:
                self.faults.append(f"record {number} of {self._name(path)} is not what its digest says")
            elif record.get("previous_record_sha256") != before or record.get("sequence") != number:
                self.faults.append(f"record {number} of {self._name(path)} does not follow the one before it")
            before = digest
            self.checked += 1
            yield record

    def _name(self, path: Path) -> str:
        return str(path.relative_to(self.folder))


def _requests(records: Iterable[JsonObject]) -> Iterator[JsonObject]:
    """The messages of each request to the model in a journal: all of them, or those that it adds."""
    for record in records:
        request = record.object("payload", "request")
        if record.kind == "action_intent" and request.text("purpose") == "agent":
            yield request.object("model_input", "messages")


def _system_in(records: Iterable[JsonObject]) -> str:
    messages = (message for request in _requests(records) for message in request.objects("messages"))
    systems = [_text(message) for message in messages if message.get("role") == "system"]
    return systems[-1] if systems else ""


def _text(message: JsonObject) -> str:
    return "\n".join(filter(None, (piece.text("text") for piece in message.pieces("content"))))


def _context_of(store: _Store) -> list[JsonObject]:
    """The messages of the model's context, the system prompt aside: those of the checkpoint, and what the
    journal has since."""
    context = [
        JsonObject({**item.object("message"), "source": item.get("source")})
        for item in store.items("checkpoint", "context", "messages")
    ]
    unsent: list[JsonObject] = []
    for record in store.journal:
        unsent += _answered(record)
        for request in _requests([record]):
            messages = [one for one in request.objects("messages") if one.get("role") != "system"]
            if request.get("type") == "append":
                messages = context + messages[_overlap(context, messages) :]
            context, unsent = messages, []
    return context + unsent


def _overlap(context: Sequence[JsonObject], added: Sequence[JsonObject]) -> int:
    """How many of the last messages of a context are the first of those that are added to it."""
    known = [(message.get("role"), message.get("content")) for message in context]
    new = [(message.get("role"), message.get("content")) for message in added]
    sizes = range(min(len(known), len(new)), 0, -1)
    return next((size for size in sizes if known[-size:] == new[:size]), 0)


def _answered(record: JsonObject) -> Iterator[JsonObject]:
    """An answer of the model, or a result of a call, that no request in the journal has yet."""
    result = record.object("payload", "result")
    if record.kind != "action_result":
        return
    if parts := result.objects("result", "parts"):
        yield JsonObject(role="assistant", content=parts)
    elif result.text("call_id") and result.kind.startswith("tool_"):
        said = JsonObject(type="text", text=_outcome(result.object("result")))
        outcome = "success" if result.kind == "tool_succeeded" else "failure"
        call_id = result.text("call_id")
        yield JsonObject(role="tool", tool_call_id=call_id, outcome=outcome, content=[said])


def _outcome(result: JsonObject) -> str:
    """The result of a call, as mistral-vibe tells it to the model."""
    if error := result.object("error"):
        told = {"name": error.get("code"), "message": error.get("message"), "details": error.get("details")}
        return arguments_text({"result": {"type": "error", "error": told}})
    structured = result.get("structured_content")
    return _text(result) or ("" if structured is None else arguments_text(structured))


# --- the messages as entries ------------------------------------------------------------------------


@dataclass
class _Reader:
    store: _Store
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
        shown, context = self._shown(), _context_of(store)
        for entry in shown:
            if entry.kind == "message" and (at := entry.time("createdAt")):
                self._times.setdefault((entry.text("role"), _text(entry)), []).append(at)
        if title := meta.text("title"):
            self.log.add(Title(title=title))
        if model := meta.text("config", "model_name"):
            self.log.add(ModelChange(model=model))
            self._model = model
        if store.system:
            self.log.add(SystemMessage(parts=text_parts(store.system)))
        marks = [place for place, entry in enumerate(shown) if entry.get("kind") == "compaction"]
        ends = [place for place, message in enumerate(context) if _SUMMARY in _text(message)]
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
                seen, entries = self.log.view.messages, self.log.entries
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
            self.log.add(self._result(call.call_id, text_parts(_outcome(output)), failed), self._at)

    def _compact(self, mark: JsonObject, kept: Sequence[JsonObject]) -> None:
        """The last compaction: prompts between two texts of the program's; the later one has the summary."""
        self._at = mark.time("createdAt") or self._at
        known = self.log.known_messages(lambda message: (message.type, message.parts))
        ahead: list[int] = []
        for message in kept[:-1]:
            for said in self._messages(message):
                place = known.take(said)
                ahead.append(self.log.add(said, self._at) if place is None else place)
        summary = text_parts(_text(kept[-1]))
        self.log.compact(summary, [], self._at, ahead=ahead, strategy="mistral-vibe")

    # --- the context ---------------------------------------------------------------------------------

    def _add(self, message: JsonObject) -> None:
        times = self._times.get((message.text("role"), _text(message)))
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
                injected = message.get("source") == "injection" or _COMPACTED in _text(message)
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
