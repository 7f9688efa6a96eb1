"""The store of a session of mistral-vibe 3: documents, of which `CURRENT` names the newest, and a journal.

Each document is proved by its digest in the one that names it, and each record of a journal by its own and by
that of the record before it.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from foldline.formats.base import JsonObject, bytes_in, parse_object
from foldline.formats.parts import arguments_text

_DOCUMENTS = ("checkpoint", "runtime_state", "projection_state")
_DIGEST = b',"record_sha256":"'


@dataclass
class Store:
    """The documents that the newest generation names."""

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
    systems = [text_of(message) for message in messages if message.get("role") == "system"]
    return systems[-1] if systems else ""


def text_of(message: JsonObject) -> str:
    return "\n".join(filter(None, (piece.text("text") for piece in message.pieces("content"))))


def context_of(store: Store) -> list[JsonObject]:
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
    known = [(message.get("role"), message.get("content")) for message in context[-len(added) :]]
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
        said = JsonObject(type="text", text=outcome_of(result.object("result")))
        outcome = "success" if result.kind == "tool_succeeded" else "failure"
        call_id = result.text("call_id")
        yield JsonObject(role="tool", tool_call_id=call_id, outcome=outcome, content=[said])


def outcome_of(result: JsonObject) -> str:
    """The result of a call, as mistral-vibe sends it to the model."""
    if error := result.object("error"):
        fields = {"name": error.get("code"), "message": error.get("message"), "details": error.get("details")}
        return arguments_text({"result": {"type": "error", "error": fields}})
    structured = result.get("structured_content")
    return text_of(result) or ("" if structured is None else arguments_text(structured))
