"""The store of a session of mistral-vibe 3: documents, of which `CURRENT` names the newest, and a journal.

Each document is named with its digest. Each record of a journal has its own digest and that of the record
before it.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from foldline.formats.base import Json, JsonObject, bytes_in, parse_object
from foldline.formats.parts import arguments_text
from foldline.sequences import overlap

_DOCUMENTS = ("checkpoint", "runtime_state", "projection_state")


@dataclass
class Store:
    """The documents of the newest generation."""

    folder: Path
    current: JsonObject
    system: str = ""
    """The system prompt of the newest request in a journal."""
    faults: list[str] = field(default_factory=list)
    checked: int = 0
    """How many digests were compared."""
    journal: list[JsonObject] = field(default_factory=list)
    """The records after the checkpoint."""

    def __post_init__(self) -> None:
        generation = self.folder / "generations" / Path(self.current.text("generation")).name
        self.manifest = self._document(generation / "manifest.json", self.current.text("manifest_sha256"))
        self._documents: dict[str, JsonObject] = {}
        for name in _DOCUMENTS:
            about = self.manifest.object(name)
            if about:
                path = generation / Path(about.text("path")).name
                self._documents[name] = self._document(path, about.text("sha256"))
        segment = Path(self.manifest.text("recovery_journal_segment", "path")).name
        for path in sorted(self.folder.glob("journal/*.jsonl")):
            records = self._records(path)
            for request in _requests(records):
                for message in request.objects("messages"):
                    if message.get("role") == "system":
                        self.system = text_of(message) or self.system
            if path.name == segment:
                self.journal = records

    def document(self, name: str) -> JsonObject:
        return self._documents.get(name, JsonObject())

    def items(self, name: str, *path: str) -> list[JsonObject]:
        """Return a list of a document, including its chunk files."""
        items = self.document(name).objects(*path)
        for digest in self.manifest.texts(name, "chunks"):
            body = self._checked(self.folder / "chunks" / f"{Path(digest).name}.json", digest)
            chunk = parse_object(b'{"items":' + body + b"}") or JsonObject()
            items += chunk.objects("items")
        return items

    def _document(self, path: Path, digest: str) -> JsonObject:
        return parse_object(self._checked(path, digest)) or JsonObject()

    def _checked(self, path: Path, digest: str) -> bytes:
        """Return a file's content, after a comparison with its digest."""
        body = bytes_in(path).removesuffix(b"\n")
        if not body:
            self.faults.append(f"{self._name(path)} is missing or empty")
        elif sha256(body).hexdigest() != digest:
            self.faults.append(f"{self._name(path)} is not what its digest says")
        self.checked += 1
        return body

    def _records(self, path: Path) -> list[JsonObject]:
        """Return the records of a journal, and check their digests."""
        records: list[JsonObject] = []
        previous: str | None = None
        first = int(path.stem) if path.stem.isdigit() else 0
        lines = bytes_in(path).split(b"\n")
        for number, line in enumerate(lines[:-1], start=first):  # the last line may be incomplete
            record = parse_object(line) or JsonObject()
            digest = record.text("record_sha256")
            before, field, after = line.rpartition(f',"record_sha256":"{digest}"'.encode())
            if not field or sha256(before + after).hexdigest() != digest:
                self.faults.append(f"record {number} of {self._name(path)} is not what its digest says")
            elif record.get("previous_record_sha256") != previous or record.get("sequence") != number:
                self.faults.append(f"record {number} of {self._name(path)} does not follow the one before it")
            self.checked += 1
            previous = digest
            records.append(record)
        return records

    def _name(self, path: Path) -> str:
        return str(path.relative_to(self.folder))


def _requests(records: Iterable[JsonObject]) -> Iterator[JsonObject]:
    """Yield the messages of each request, or only the new ones."""
    for record in records:
        request = record.object("payload", "request")
        if record.kind == "action_intent" and request.text("purpose") == "agent":
            yield request.object("model_input", "messages")


def _content(message: JsonObject) -> tuple[Json, Json]:
    return message.get("role"), message.get("content")


def text_of(message: JsonObject) -> str:
    return "\n".join(filter(None, (piece.text("text") for piece in message.pieces("content"))))


def context_of(store: Store) -> list[JsonObject]:
    """Return the model's context, without the system prompt."""
    items = store.items("checkpoint", "context", "messages")
    context = [JsonObject({**item.object("message"), "source": item.get("source")}) for item in items]
    unsent: list[JsonObject] = []
    for record in store.journal:
        unsent += _outputs(record)
        for request in _requests([record]):
            messages = [one for one in request.objects("messages") if one.get("role") != "system"]
            if request.get("type") == "append":
                size = overlap([_content(one) for one in context], [_content(one) for one in messages])
                messages = context + messages[size:]
            context = messages
            unsent = []
    return context + unsent


def _outputs(record: JsonObject) -> Iterator[JsonObject]:
    """Yield the answer or tool result in a record."""
    result = record.object("payload", "result")
    if record.kind != "action_result":
        return
    call_id = result.text("call_id")
    parts = result.objects("result", "parts")
    if parts:
        yield JsonObject(role="assistant", content=parts)
    elif call_id and result.kind.startswith("tool_"):
        outcome = "success" if result.kind == "tool_succeeded" else "failure"
        text = JsonObject(type="text", text=outcome_of(result.object("result")))
        yield JsonObject(role="tool", tool_call_id=call_id, outcome=outcome, content=[text])


def outcome_of(result: JsonObject) -> str:
    """Return the result of a call as sent."""
    error = result.object("error")
    if error:
        fields = {"name": error.get("code"), "message": error.get("message"), "details": error.get("details")}
        return arguments_text({"result": {"type": "error", "error": fields}})
    structured = result.get("structured_content")
    return text_of(result) or ("" if structured is None else arguments_text(structured))
