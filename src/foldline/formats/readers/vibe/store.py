"""A mistral-vibe 3 session's store, which consists of documents and a journal.

The file `CURRENT` names the newest generation of documents, whose digests are recorded. Each journal record
contains its own digest and that of the previous record.
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
    """The newest generation of documents, and its journal."""

    folder: Path
    current: JsonObject
    system: str = ""
    """The system prompt of the newest request in the journal."""
    faults: list[str] = field(default_factory=list)
    checked: int = 0
    """The number of digests that have been compared."""
    journal: list[JsonObject] = field(default_factory=list)
    """The journal records that follow the checkpoint."""

    def __post_init__(self) -> None:
        generation = (
            self.folder / "generations" / _file_name(self.current, "generation")
        )
        digest = self.current.text("manifest_sha256")
        self.manifest = self._document(generation / "manifest.json", digest)
        self._documents: dict[str, JsonObject] = {}
        for name in _DOCUMENTS:
            about = self.manifest.object(name)
            if about:
                path = generation / _file_name(about, "path")
                self._documents[name] = self._document(path, about.text("sha256"))
        segment = _file_name(self.manifest, "recovery_journal_segment", "path")
        for path in sorted(self.folder.glob("journal/*.jsonl")):
            records = self._records(path)
            self._find_system_prompt(records)
            if path.name == segment:
                self.journal = records

    def _find_system_prompt(self, records: Iterable[JsonObject]) -> None:
        for request in _requests(records):
            for message in request.objects("messages"):
                if message.role == "system":
                    self.system = text_of(message) or self.system

    def document(self, name: str) -> JsonObject:
        return self._documents.get(name, JsonObject())

    def items(self, name: str, *path: str) -> list[JsonObject]:
        """Return a list in a document, including the parts in its chunk files."""
        items = self.document(name).objects(*path)
        for digest in self.manifest.texts(name, "chunks"):
            body = self._checked(
                self.folder / "chunks" / f"{Path(digest).name}.json", digest
            )
            chunk = parse_object(b'{"items":' + body + b"}") or JsonObject()
            items += chunk.objects("items")
        return items

    def _document(self, path: Path, digest: str) -> JsonObject:
        return parse_object(self._checked(path, digest)) or JsonObject()

    def _checked(self, path: Path, digest: str) -> bytes:
        """Return a file's content, after checking it against its digest."""
        body = bytes_in(path).removesuffix(b"\n")
        name = path.relative_to(self.folder)
        if not body:
            self.faults.append(f"{name} is missing or empty")
        elif sha256(body).hexdigest() != digest:
            self.faults.append(f"{name} does not match its digest")
        self.checked += 1
        return body

    def _records(self, path: Path) -> list[JsonObject]:
        """Return a journal's records, after checking their digests."""
        records: list[JsonObject] = []
        previous: str | None = None
        first = int(path.stem) if path.stem.isdigit() else 0
        lines = bytes_in(path).split(b"\n")
        for number, line in enumerate(
            lines[:-1], start=first
        ):  # the last line may be incomplete
            name = f"record {number} of {path.relative_to(self.folder)}"
            record = parse_object(line) or JsonObject()
            digest = record.text("record_sha256")
            digest_field = f',"record_sha256":"{digest}"'.encode()
            before, separator, after = line.rpartition(digest_field)
            follows = record.get("previous_record_sha256") == previous
            if not separator or sha256(before + after).hexdigest() != digest:
                self.faults.append(f"{name} does not match its digest")
            elif not follows or record.get("sequence") != number:
                self.faults.append(f"{name} does not follow the previous record")
            self.checked += 1
            previous = digest
            records.append(record)
        return records


def _file_name(record: JsonObject, *path: str) -> str:
    """Return the file name at the end of a path in a record."""
    return Path(record.text(*path)).name


def _requests(records: Iterable[JsonObject]) -> Iterator[JsonObject]:
    """Yield the requests in these records.

    A request may list all messages, or only the new ones.
    """
    for record in records:
        request = record.object("payload", "request")
        if record.kind == "action_intent" and request.text("purpose") == "agent":
            yield request.object("model_input", "messages")


def _content(message: JsonObject) -> tuple[Json, Json]:
    return message.get("role"), message.get("content")


def text_of(message: JsonObject) -> str:
    texts = [piece.text("text") for piece in message.pieces("content")]
    return "\n".join(filter(None, texts))


def context_of(store: Store) -> list[JsonObject]:
    """Return the model's context without the system prompt."""
    context: list[JsonObject] = []
    for item in store.items("checkpoint", "context", "messages"):
        message = item.object("message")
        message["source"] = item.get("source")
        context.append(message)
    unsent: list[JsonObject] = []
    for record in store.journal:
        unsent += _outputs(record)
        for request in _requests([record]):
            messages = [
                message
                for message in request.objects("messages")
                if message.role != "system"
            ]
            if request.kind == "append":
                size = overlap(
                    list(map(_content, context)), list(map(_content, messages))
                )
                messages = context + messages[size:]
            context = messages
            unsent = []
    return context + unsent


def _outputs(record: JsonObject) -> Iterator[JsonObject]:
    """Yield the answer or tool result in a record, if any."""
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
        yield JsonObject(
            role="tool",
            tool_call_id=call_id,
            outcome=outcome,
            content=[text],
        )


def outcome_of(result: JsonObject) -> str:
    """Return a call's result, as it was sent to the model."""
    error = result.object("error")
    if error:
        fields = {
            "name": error.get("code"),
            "message": error.get("message"),
            "details": error.get("details"),
        }
        return arguments_text({"result": {"type": "error", "error": fields}})
    text = text_of(result)
    structured = result.get("structured_content")
    if text or structured is None:
        return text
    return arguments_text(structured)
