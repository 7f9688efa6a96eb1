"""Reader for opencode's sessions.

It reads documents written by `opencode export`, and sessions in opencode's own store (`store.py`). Indices
count entries, because one opencode message may become several entries.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from foldline.formats.base import (
    ForeignChild,
    ForeignSession,
    JsonObject,
    child_of,
    parse_object,
)
from foldline.formats.parts import (
    UsageFields,
    by_voice,
    kind_of,
    of_kind,
    stop_reason,
    text_in,
)
from foldline.formats.transcript import Transcript
from foldline.history import Damage
from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    FoldlineError,
    ModelChange,
    NoticeRecord,
    Part,
    TextPart,
    ThinkingPart,
    Title,
    ToolResultMessage,
    UserMessage,
    text_parts,
)
from foldline.text.numbers import many

from .messages import (
    ASKED_TO_COMPACT,
    completed_compactions,
    is_summary,
    steps_of,
    user_parts,
)
from .store import (
    StoredSession,
    exported,
    exported_files,
    exported_rows,
    is_session_info,
    stored_in_database,
    stored_in_files,
)
from .tools import call_in, result_in, with_patched_files

HIDDEN = "[Old tool result content cleared]"
"""The text that the model sees in place of a hidden output."""
_NO_SUMMARY = "(opencode wrote no summary)"
_DEFAULT_TITLE = re.compile(r"(?:New|Child) session - \d{4}-")
_SUBAGENT_TITLE = re.compile(r" \(@[\w-]+ subagent\)$")
_USAGE = UsageFields(
    input=("input", "cache.read", "cache.write"),
    output=("output", "reasoning"),
    cached="cache.read",
)
"""Field names for opencode's usage.

Its `input` and `output` exclude cached input and reasoning.
"""
BYTES_REPLACED = "Some bytes in the file are not valid UTF-8 and were replaced."
NOT_COMPLETE = "{path} is not complete JSON. Export the session from opencode again."
NOT_OPENCODE = "{path} is not an opencode session: it has no `info`, or no messages with info and parts."
NEWEST_READ = (
    "The database has {count} sessions, and the newest, {id}, was read. "
    "Run `foldline sessions --from opencode --all` to list them."
)
NO_SESSIONS = "{path} has no opencode sessions."
OF_SUBAGENT = "This is a subagent of the session {parent}."


def recognises(document: JsonObject) -> bool:
    """Return whether this is an exported or stored session."""
    if is_session_info(document):
        return True
    messages = document.get("messages")
    if not isinstance(document.get("info"), dict) or not isinstance(messages, list):
        return False
    if not messages:
        return {"id", "directory"} <= document.object("info").keys()
    return any(map(_is_message, document.objects("messages")))


def _is_message(value: JsonObject) -> bool:
    return isinstance(value.get("info"), dict) and isinstance(value.get("parts"), list)


def read(data: bytes, path: Path) -> ForeignSession:
    """Read an opencode session.

    Raises:
        FoldlineError: the file is not a complete JSON document, or is not an opencode session.
    """
    notes = []
    document = parse_object(data)
    if document is None:
        document = parse_object(data.decode(errors="replace").encode())
        notes.append(BYTES_REPLACED)
    if document is None:
        raise FoldlineError(NOT_COMPLETE, path=path)
    if is_session_info(document):
        stored = list(stored_in_files(path.parent.parent.parent))
        return _from_store(exported_files(document, path), path, stored)
    if not recognises(document):
        raise FoldlineError(NOT_OPENCODE, path=path)
    return _session(document, path, notes)


def read_opencode_database(path: Path, session: str) -> ForeignSession:
    """Read a session from the database. By default, this is the newest one.

    Raises:
        FoldlineError: the session does not exist, or the database cannot be read.
    """
    stored = stored_in_database(path)
    if session:
        return _from_store(exported_rows(path, session), path, stored)
    newest = newest_of(stored, path)
    foreign = _from_store(exported(newest), path, stored)
    count = sum(not one.parent for one in stored)
    if count == 1:
        return foreign
    note = NEWEST_READ.format(count=count, id=newest.id)
    return replace(foreign, notes=(note, *foreign.notes))


def newest_of(stored: Iterable[StoredSession], path: Path) -> StoredSession:
    """Return the newest session that does not belong to a subagent.

    Raises:
        FoldlineError: there is no such session.
    """
    sessions = [session for session in stored if not session.parent]
    if not sessions:
        raise FoldlineError(NO_SESSIONS, path=path)
    return max(sessions, key=lambda session: session.updated)


def _from_store(
    document: JsonObject,
    path: Path,
    stored: Sequence[StoredSession],
    ancestors: tuple[str, ...] = (),
) -> ForeignSession:
    """Read a stored session, with its subagents at all depths."""
    session_id = document.text("info", "id")
    lineage = (*ancestors, session_id)
    tasks = _tasks(document)
    children = []
    for session in stored:
        if session_id and session.parent == session_id and session.id not in lineage:
            task = tasks.get(session.id, JsonObject())
            child = child_of(
                _from_store(exported(session), path, stored, lineage),
                session.id,
                agent=task.text("state", "input", "subagent_type"),
                title=_SUBAGENT_TITLE.sub("", session.title),
                call_id=task.first("callID", "id"),
            )
            children.append(child)
    return _session(document, path, [], children)


def _tasks(document: JsonObject) -> dict[str, JsonObject]:
    """Return the calls that started subagents, by the subagents' session ids."""
    tasks = {}
    for message in document.objects("messages"):
        for part in message.objects("parts"):
            session_id = part.object("state", "metadata").first(
                "sessionId", "sessionID"
            )
            if session_id:
                tasks[session_id] = part
    return tasks


def _session(
    document: JsonObject,
    path: Path,
    notes: list[str],
    children: Iterable[ForeignChild] = (),
) -> ForeignSession:
    info = document.object("info")
    items = document.objects("messages")
    messages = [item for item in items if _is_message(item)]
    log = Transcript("opencode")
    log.add_children(children)
    reader = _OpencodeReader(log, completed_compactions(items), info.object("revert"))
    title = info.text("title")
    if title.strip() and not _DEFAULT_TITLE.match(title):
        log.add(Title(title=title))
    for message in messages:
        reader.read(message.object("info"), message.objects("parts"))
    reader.finish()
    if len(messages) < len(items):
        left_out = many(len(items) - len(messages), "message")
        notes.append(f"Left out: {left_out} without info and parts.")
    if info.text("parentID"):
        notes.append(OF_SUBAGENT.format(parent=info.text("parentID")))
    notes += log.notes()
    if reader.failed:
        notes.append(
            f"Not in the view: failed answers that opencode left out of later requests ({reader.failed})."
        )
    session_id = info.text("id") or path.stem
    begun = info.time("time", "created")
    return log.session(
        "opencode",
        session_id,
        info.text("directory"),
        Damage(),
        notes,
        begun=begun,
    )


# --- messages ---------------------------------------------------------------------------------------


class _OpencodeReader:
    def __init__(
        self, log: Transcript, completed: set[str], revert: JsonObject
    ) -> None:
        self.failed = 0
        self._log = log
        self._completed = completed
        """The ids of the compaction requests that were answered by a summary."""
        self._revert = revert
        """The message or message part at which the reverted part of the session begins."""
        self._before_revert: int | None = None
        """The newest entry before the message in `_revert`."""
        self._model: ModelChange | None = None
        self._starts: dict[str, int] = {}
        """The index of each message's first entry."""
        self._requests: dict[str, JsonObject] = {}
        """The compaction requests, by message id."""
        self._hiding: dict[int, int] = {}
        """The times at which results in the context will be hidden, by the results' indices.

        Each is removed when the reader reaches that time.
        """
        self._unsent: set[int] = set()
        """The indices of failed answers, which later requests do not contain."""
        self._size = 0

    def read(self, info: JsonObject, parts: Sequence[JsonObject]) -> None:
        message_id = info.text("id")
        at = info.time("time", "created")
        now = info.count("time", "created")
        self._hide([index for index, time in self._hiding.items() if time <= now], at)
        in_part = self._revert.get("partID") and info.get("role") == "assistant"
        if message_id and message_id == self._revert.get("messageID") and not in_part:
            self._begin_reverted()
        if message_id:
            self._starts.setdefault(message_id, len(self._log.entries))
        match info.get("role"):
            case "user":
                self._user(info, parts, at)
            case "assistant" if self._is_compaction(info):
                self._compaction(info, parts, at)
            case "assistant":
                self._assistant(info, parts, at)
            case _:
                self._log.left_out += map(kind_of, parts)

    def _is_compaction(self, info: JsonObject) -> bool:
        """Return whether an answer summarises this session.

        In older versions, a summary has no compaction request.
        """
        parent = info.text("parentID")
        return is_summary(info) and (
            parent in self._completed or parent not in self._starts
        )

    def finish(self) -> None:
        entries = self._log.in_order()
        at = entries[-1].at if entries else None
        self._hide([*self._hiding], at)
        if self._before_revert is not None:
            self._log.go_back_to(self._before_revert, at)

    def _user(
        self, info: JsonObject, parts: Sequence[JsonObject], at: datetime | None
    ) -> None:
        """Add a user message, and the program's text that it contains."""
        name = info.text("model", "modelID")
        model = ModelChange(
            model=name, provider=info.text("model", "providerID") or None
        )
        if name and model != self._model:
            self._model = model
            self._log.add(model, at)
        requests = of_kind(parts, "compaction")
        if requests and info.text("id") in self._completed:
            self._requests[info.text("id")] = requests[0]
            return
        for author, its_parts in by_voice(user_parts(parts, self._log.left_out)):
            if author == "ignored":
                self._log.add(NoticeRecord(text=text_in(its_parts)), at)
            else:
                origin = "typed" if author == "typed" else "machine"
                self._log.add(UserMessage(origin=origin, parts=its_parts), at)

    def _assistant(
        self, info: JsonObject, parts: Sequence[JsonObject], at: datetime | None
    ) -> None:
        """Add an answer for each step.

        A failed answer is dropped from the context.
        """
        first = len(self._log.entries)
        steps = steps_of(parts)
        error = info.object("error")
        is_aborted = error.get("name") == "MessageAbortedError"
        for step in steps:
            if self._revert.get("partID") in [
                part.get("id") for part in step if part.get("id")
            ]:
                self._begin_reverted()
            finish = [*of_kind(step, "step-finish"), JsonObject()][0]
            final = info if len(steps) == 1 else JsonObject()
            answer = AssistantMessage(
                model=info.text("modelID") or None,
                usage=_USAGE.read(finish.get("tokens") or final.get("tokens")),
                stop_reason=stop_reason(finish.text("reason") or final.text("finish")),
            )
            if error and step is steps[-1]:
                answer = answer.model_copy(
                    update={
                        "stop_reason": "cancelled" if is_aborted else "error",
                        "error": error.text("data", "message")
                        or error.text("name")
                        or "failed",
                    }
                )
            self._step(answer, step, at)
        # An aborted answer that has content is sent in later requests.
        has_content = any(
            part.kind not in ("step-start", "reasoning") for part in parts
        )
        if info.get("error") and not (is_aborted and has_content):
            self._drop(first, at)

    def _step(
        self, answer: AssistantMessage, step: Sequence[JsonObject], at: datetime | None
    ) -> None:
        parts: list[Part] = []
        results: list[ToolResultMessage] = []
        hidden_at: list[int] = []
        for part in step:
            match part.kind:
                case "text" if part.text("text"):
                    parts.append(TextPart(text=part.text("text")))
                case "reasoning" if part.text("text"):
                    parts.append(ThinkingPart(text=part.text("text")))
                case "tool":
                    call = call_in(part)
                    parts.append(call)
                    result = result_in(part, call)
                    if result:
                        results.append(result)
                        hidden_at.append(part.count("state", "time", "compacted"))
        self._size = answer.usage.total if answer.usage else self._size
        self._log.add(answer.model_copy(update={"parts": tuple(parts)}), at)
        for result, time in zip(
            with_patched_files(results, step), hidden_at, strict=True
        ):
            index = self._log.add(result, at)
            if time:
                self._hiding[index] = time

    def _drop(self, first: int, at: datetime | None) -> None:
        messages = {
            index: message
            for index, message in self._log.visible().items()
            if index >= first
        }
        self._unsent.update(messages)
        answers = [
            index for index in messages if isinstance(messages[index], AssistantMessage)
        ]
        for index in answers:
            self._log.drop(index, at)
        self.failed += bool(answers)

    # --- compactions, hidden outputs, reverted turns -------------------------------------------------

    def _compaction(
        self, info: JsonObject, parts: Sequence[JsonObject], at: datetime | None
    ) -> None:
        """Add a compaction.

        The compaction request names the first message to keep.
        """
        request = self._requests.get(info.text("parentID"), JsonObject())
        texts = [part.text("text").strip() for part in of_kind(parts, "text")]
        summary = "\n\n".join(filter(None, texts)) or _NO_SUMMARY
        if request:
            summary = ASKED_TO_COMPACT + summary
        reason = "manual"
        if request.flag("auto"):
            reason = "overflow" if request.flag("overflow") else "threshold"
        self._log.compact(
            text_parts(summary),
            self._messages_from(request.text("tail_start_id")),
            at,
            strategy="opencode",
            tokens_before=self._size,
            reason=reason,
            model=info.text("modelID") or None,
            usage=_USAGE.read(info.get("tokens")),
        )

    def _messages_from(self, message_id: str) -> list[int]:
        """Return the indices of this message and all later ones, without failed answers."""
        if message_id not in self._starts:
            return []
        first = self._starts[message_id]
        entries = self._log.entries.items()
        messages = [
            index
            for index, entry in entries
            if isinstance(entry, BaseMessage) and index >= first
        ]
        return [index for index in messages if index not in self._unsent]

    def _hide(self, results: Sequence[int], at: datetime | None) -> None:
        """Replace the outputs of these results with a placeholder."""
        for index in results:
            del self._hiding[index]
        if results:
            contents = dict.fromkeys(results, HIDDEN)
            self._log.clip(contents, at, fate="hidden", strategy="opencode-prune")

    def _begin_reverted(self) -> None:
        """Note that everything that follows was reverted."""
        if self._before_revert is None:
            self._before_revert = self._log.newest_index
