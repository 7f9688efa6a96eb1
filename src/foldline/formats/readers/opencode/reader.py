"""Reader for the sessions of opencode, as `opencode export` writes them, one JSON document, and as they are
stored (`opencode_store.py`)."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

from foldline.formats.base import ForeignChild, ForeignSession, JsonObject, child_of, parse_object
from foldline.formats.parts import (
    UsageFields,
    arguments_of,
    by_voice,
    call_part,
    image_at,
    kind_of,
    stop_reason,
    text_in,
)
from foldline.formats.tool_results import Changes, edit_of, moved, patched, together, tool_result, whole_file
from foldline.formats.transcript import Transcript
from foldline.history import Damage
from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    Checkpoint,
    FileTouch,
    FoldlineError,
    ModelChange,
    NoticeRecord,
    Part,
    Revert,
    TextPart,
    ThinkingPart,
    Title,
    ToolCallPart,
    ToolResultMessage,
    UserMessage,
    text_parts,
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

HIDDEN = "[Old tool result content cleared]"
"""What opencode's model sees in place of an output that was hidden."""
_NO_SUMMARY = "(opencode wrote no summary)"
_ABORTED = "MessageAbortedError"
_DEFAULT_TITLE = re.compile(r"(?:New|Child) session - \d{4}-")
ASKED_TO_COMPACT = "What did we do so far?\n\n"
"""What its model reads before a summary."""
_RAN_A_SUBTASK = "The following tool was executed by the user"
"""What its model reads where a message asks for a sub-task."""
_ALSO_AS_TEXT = ("text/plain", "application/x-directory")
"""Attached files of these kinds are in the message as text, too."""
_PATCHING = ("patch", "apply_patch")
_IMAGE = "image/"
_USAGE = UsageFields(
    input=("input", "cache.read", "cache.write"), output=("output", "reasoning"), cached="cache.read"
)
"""opencode counts cached input and reasoning apart."""


def recognises(document: JsonObject) -> bool:
    """Whether this is an exported session, info on it and messages that each have info and parts; or a stored
    one, of which the messages lie beside it."""
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
    """An opencode session. An index counts entries: a message of opencode may be several of ours.

    Raises:
        FoldlineError: the file is not a whole JSON document, or not such a session.
    """
    document, notes = parse_object(data), []
    if document is None:
        document = parse_object(data.decode(errors="replace").encode())
        notes = ["Some bytes of the file are no UTF-8 text: each became a replacement character."]
    if document is None:
        raise FoldlineError(f"{path} is not JSON from end to end: export the session from opencode again.")
    if not recognises(document):
        raise FoldlineError(
            f"{path} is no session of opencode: it has no `info` beside messages with info and parts."
        )
    if is_session_info(document):
        stored = list(stored_in_files(path.parent.parent.parent))
        return _from_store(exported_files(document, path), path, stored)
    return _session(document, path, notes)


def read_opencode_database(path: Path, session: str) -> ForeignSession:
    """A session of opencode's database; the newest that no sub-agent held, where none is named.

    Raises:
        FoldlineError: there is no such session, or the database cannot be read.
    """
    stored = stored_in_database(path)
    if session:
        return _from_store(exported_rows(path, session), path, stored)
    newest = newest_of(stored, path)
    read = _from_store(exported(newest), path, stored)
    several = sum(not one.parent for one in stored)
    note = (
        f"Of its {several} sessions, {newest.id} was read, the newest: "
        "`foldline sessions --from opencode --all` lists them."
    )
    return replace(read, notes=(note, *read.notes)) if several > 1 else read


def newest_of(stored: Iterable[StoredSession], path: Path) -> StoredSession:
    """The session last worked on, sub-agents' apart.

    Raises:
        FoldlineError: there is none.
    """
    newest = max((one for one in stored if not one.parent), key=lambda one: one.updated, default=None)
    if newest is None:
        raise FoldlineError(f"{path} holds no session of opencode.")
    return newest


def _from_store(
    document: JsonObject, path: Path, stored: Sequence[StoredSession], above: tuple[str, ...] = ()
) -> ForeignSession:
    """A stored session with those of its subagents, and theirs. `above` are the sessions that it is below."""
    session = document.text("info", "id")
    tasks = _tasks(document)
    children = [
        child_of(
            _from_store(exported(one), path, stored, (*above, session)),
            one.id,
            agent=tasks.get(one.id, _NO_CALL).text("state", "input", "subagent_type"),
            title=_BY_AGENT.sub("", one.title),
            call_id=tasks.get(one.id, _NO_CALL).first("callID", "id"),
        )
        for one in stored
        if session and one.parent == session and one.id not in (*above, session)
    ]
    return _session(document, path, [], children)


_NO_CALL = JsonObject()
_BY_AGENT = re.compile(r" \(@[\w-]+ subagent\)$")


def _tasks(document: JsonObject) -> dict[str, JsonObject]:
    """The calls that started subagents, by the ids of their sessions."""
    parts = [part for message in document.objects("messages") for part in message.objects("parts")]
    started = [(part.object("state", "metadata").first("sessionId", "sessionID"), part) for part in parts]
    return {session: part for session, part in started if session}


def _session(
    document: JsonObject, path: Path, notes: list[str], children: Iterable[ForeignChild] = ()
) -> ForeignSession:
    info, messages = document.object("info"), document.objects("messages")
    reader = _Reader(_completed_compactions(messages), info.object("revert"))
    reader.log.children = {child.id: child for child in children}
    title = info.text("title")
    if title.strip() and not _DEFAULT_TITLE.match(title):
        reader.log.add(Title(title=title))
    for message in messages:
        if _is_message(message):
            reader.read(message.object("info"), message.objects("parts"))
    reader.finish()
    odd = sum(not _is_message(message) for message in messages)
    notes += [f"Messages without info and parts, left out: {odd}."] if odd else []
    origin = info.text("parentID")
    notes += [f"It is a sub-session of {origin}."] if origin else []
    notes += reader.log.notes()
    if reader.failed:
        notes.append(
            f"Failed answers that opencode never sent again, dropped from the view: {reader.failed}."
        )
    name, cwd, begun = info.text("id") or path.stem, info.text("directory"), info.time("time", "created")
    return reader.log.session("opencode", name, cwd, Damage(), notes, begun=begun)


def _completed_compactions(messages: Sequence[JsonObject]) -> frozenset[str]:
    """The ids of the requests to compact that a summary answers. A summary that answers anything else is an
    answer like any other."""
    asked, answered = set(), set()
    for message in messages:
        info = message.object("info")
        if _is_summary(info):
            answered.add(info.text("parentID"))
        elif any(part.get("type") == "compaction" for part in message.objects("parts")):
            asked.add(info.text("id"))
    return frozenset((asked & answered) - {""})


def _is_summary(info: JsonObject) -> bool:
    """Whether an answer is the summary of a compaction that came to its end."""
    return (
        info.get("role") == "assistant"
        and info.flag("summary")
        and bool(info.get("finish"))
        and not info.get("error")
    )


# --- messages ---------------------------------------------------------------------------------------


@dataclass
class _Reader:
    completed: frozenset[str]
    """The ids of the requests to compact that a summary answers."""
    revert: JsonObject
    """The message, and the part of it, from which on everything was taken back."""
    log: Transcript = field(default_factory=lambda: Transcript("opencode"))
    failed: int = 0
    _model: tuple[str, str] = ("", "")
    _starts: dict[str, int] = field(default_factory=dict)
    _asked: dict[str, JsonObject] = field(default_factory=dict)
    _hiding: dict[int, int] = field(default_factory=dict)
    """By index of a result in sight: when it will be hidden."""
    _unsent: set[int] = field(default_factory=set)
    _goes_back: bool = False
    _size: int = 0

    def read(self, info: JsonObject, parts: Sequence[JsonObject]) -> None:
        identity, at = info.text("id"), info.time("time", "created")
        self._hide(info.count("time", "created"), at)
        in_part = bool(self.revert.get("partID")) and info.get("role") == "assistant"
        if identity and identity == self.revert.get("messageID") and not in_part:
            self._checkpoint(at)
        if identity:
            self._starts.setdefault(identity, len(self.log.entries))
        match info.get("role"):
            case "user":
                self._user(info, parts, at)
            case "assistant" if _is_summary(info) and self._answers_a_request_to_compact(info):
                self._compaction(info, parts, at)
            case "assistant":
                self._assistant(info, parts, at)
            case _:
                self.log.left_out += map(kind_of, parts)

    def _answers_a_request_to_compact(self, info: JsonObject) -> bool:
        """Whether a summary is one of the session. In older versions nobody asked for it."""
        parent = info.text("parentID")
        return parent in self.completed or parent not in self._starts

    def finish(self) -> None:
        entries = self.log.entries
        at = entries[len(entries) - 1].at if entries else None
        self._hide(None, at)
        if self._goes_back:
            self.log.add(Revert(checkpoint=0), at)

    def _user(self, info: JsonObject, parts: Sequence[JsonObject], at: datetime | None) -> None:
        """What the user says, and the program in the same breath."""
        chosen = (info.text("model", "modelID"), info.text("model", "providerID"))
        if chosen[0] and chosen != self._model:
            self._model = chosen
            self.log.add(ModelChange(model=chosen[0], provider=chosen[1] or None), at)
        identity = info.text("id")
        asked = next((part for part in parts if part.get("type") == "compaction"), None)
        if asked is not None and identity in self.completed:
            self._asked[identity] = asked
            return
        spoken: list[tuple[str, Part]] = []
        for piece in parts:
            voice, part = _said_in(piece)
            if part is not None:
                spoken.append((voice, part))
            elif voice != "nobody":
                self.log.left_out.append(kind_of(piece))
        for voice, said in by_voice(spoken):
            if voice == "ignored":
                self.log.add(NoticeRecord(text=text_in(said)), at)
            else:
                self.log.add(UserMessage(origin="typed" if voice == "typed" else "machine", parts=said), at)

    def _assistant(self, info: JsonObject, parts: Sequence[JsonObject], at: datetime | None) -> None:
        """An answer for each step. What failed is in the history, but was never sent again."""
        first, steps = len(self.log.entries), _steps_of(parts)
        error = info.object("error")
        for step in steps:
            if self.revert.get("partID") in [part.get("id") for part in step if part.get("id")]:
                self._checkpoint(at)
            finish = next((part for part in step if part.kind == "step-finish"), JsonObject())
            last = info if len(steps) == 1 else JsonObject()
            answer = AssistantMessage(
                model=info.text("modelID") or None,
                usage=_USAGE.read(finish.get("tokens") or last.get("tokens")),
                stop_reason=stop_reason(finish.text("reason") or last.text("finish")),
            )
            if error and step is steps[-1]:
                update = {
                    "stop_reason": "cancelled" if error.get("name") == _ABORTED else "error",
                    "error": error.text("data", "message") or error.text("name") or "failed",
                }
                answer = answer.model_copy(update=update)
            self._step(answer, step, at)
        # An aborted answer goes into later requests, if it said anything.
        spoke = any(part.get("type") not in ("step-start", "reasoning") for part in parts)
        if info.get("error") and not (error.get("name") == _ABORTED and spoke):
            self._drop(first, at)

    def _step(self, answer: AssistantMessage, step: Sequence[JsonObject], at: datetime | None) -> None:
        said: list[Part] = []
        results: list[tuple[ToolResultMessage, int]] = []
        for part in step:
            match part.get("type"):
                case "text" if part.text("text"):
                    said.append(TextPart(text=part.text("text")))
                case "reasoning" if part.text("text"):
                    said.append(ThinkingPart(text=part.text("text")))
                case "tool":
                    call = _tool_call(part)
                    said.append(call)
                    if (result := _tool_result(part, call)) is not None:
                        results.append((result, part.count("state", "time", "compacted")))
        self._size = answer.usage.total if answer.usage else self._size
        self.log.add(answer.model_copy(update={"parts": tuple(said)}), at)
        unclaimed = _unclaimed(step, [result for result, _ in results])
        for (result, hidden_at), touches in zip(results, unclaimed, strict=True):
            details = result.details.model_copy(update={"files": (*result.details.files, *touches)})
            index = self.log.add(result.model_copy(update={"details": details}), at)
            if hidden_at:
                self._hiding[index] = hidden_at

    def _drop(self, first: int, at: datetime | None) -> None:
        gone = [index for index in self.log.messages() if index >= first]
        answers = [index for index in gone if isinstance(self.log.entries[index], AssistantMessage)]
        for index in answers:
            self.log.drop(index, at)
        self.failed += bool(answers)
        self._unsent.update(gone)

    # --- compactions, outputs hidden, turns taken back -----------------------------------------------

    def _compaction(self, info: JsonObject, parts: Sequence[JsonObject], at: datetime | None) -> None:
        """The summary, then all from the message on that the request names, compacted before or not."""
        asked = self._asked.get(info.text("parentID"), JsonObject())
        question = ASKED_TO_COMPACT if asked else ""
        index = self.log.next_index()
        cut = self._starts.get(asked.text("tail_start_id"), index)
        texts = [part.text("text").strip() for part in parts if part.get("type") == "text"]
        reason = "overflow" if asked.flag("overflow") else "threshold"
        compaction = self.log.compaction(
            index,
            text_parts(question + ("\n\n".join(filter(None, texts)) or _NO_SUMMARY)),
            self._messages_from(cut),
            strategy="opencode",
            tokens_before=self._size,
            reason=reason if asked.flag("auto") else "manual",
            model=info.text("modelID") or None,
            usage=_USAGE.read(info.get("tokens")),
        )
        self.log.put(index, compaction, at)

    def _messages_from(self, cut: int) -> list[int]:
        """The messages from this entry on, in the context or not, without failed answers."""
        messages = (index for index, entry in self.log.entries.items() if isinstance(entry, BaseMessage))
        return [index for index in messages if index >= cut and index not in self._unsent]

    def _hide(self, now: int | None, at: datetime | None) -> None:
        """Before a message of this moment, the outputs hidden by then; at the end, all of them."""
        due = {index for index, when in self._hiding.items() if now is None or when <= now}
        self._hiding = {index: when for index, when in self._hiding.items() if index not in due}
        if due:
            self.log.clip(dict.fromkeys(due, HIDDEN), at, fate="hidden", strategy="opencode-prune")

    def _checkpoint(self, at: datetime | None) -> None:
        if not self._goes_back:
            self._goes_back = True
            self.log.add(Checkpoint(id=0), at)


def _said_in(piece: JsonObject) -> tuple[str, Part | None]:
    """Who speaks in a piece of a user message, and what: `typed`, `machine`, `ignored`, or `nobody`.

    Without a part, it is something that cannot be shown here.
    """
    match piece.get("type"):
        case "text" if piece.text("text"):
            part = TextPart(text=piece.text("text"))
            if piece.flag("ignored"):
                return "ignored", part
            return ("machine" if piece.flag("synthetic") else "typed"), part
        case "file" if piece.text("mime") not in _ALSO_AS_TEXT:
            image = image_at(piece.text("url")) if piece.text("mime").startswith(_IMAGE) else None
            return ("machine" if isinstance(image, TextPart) else "typed"), image
        case "compaction":
            return "machine", TextPart(text=ASKED_TO_COMPACT.strip())
        case "subtask":
            return "machine", TextPart(text=_RAN_A_SUBTASK)
        case _:
            return "nobody", None


def _steps_of(parts: Sequence[JsonObject]) -> list[list[JsonObject]]:
    steps: list[list[JsonObject]] = [[]]
    for part in parts:
        if part.get("type") == "step-start" and steps[-1]:
            steps.append([])
        steps[-1].append(part)
    return steps


# --- tools ------------------------------------------------------------------------------------------


def _unclaimed(
    step: Sequence[JsonObject], results: Sequence[ToolResultMessage]
) -> list[tuple[FileTouch, ...]]:
    """For each result, the files that changed during the step and that no call names.

    They go to the last call that names no file: mostly a shell command.
    """
    patches = [part for part in step if part.get("type") == "patch"]
    changed = dict.fromkeys(path for part in patches for path in part.texts("files"))
    claimed = {file.path for result in results for file in result.details.files}
    free = [path for path in changed if path and path not in claimed]
    touches = tuple(FileTouch(path=path, action="modified") for path in free)
    able = [place for place, result in enumerate(results) if not result.details.files]
    return [touches if able and place == able[-1] else () for place in range(len(results))]


def _tool_call(part: JsonObject) -> ToolCallPart:
    arguments = part.at("state", "input") or part.text("state", "raw") or {}
    return call_part(part.first("callID", "id") or "call", part.text("tool"), arguments)


def _tool_result(part: JsonObject, call: ToolCallPart) -> ToolResultMessage | None:
    state = part.object("state")
    about = state.object("metadata")
    code = about.get("exit")
    exit_code = code if type(code) is int else 0
    match state.get("status"):
        case "completed":
            text, failed = state.text("output"), bool(exit_code)
        case "error" if about.flag("interrupted") and about.text("output"):
            text, failed = about.text("output"), True
        case "error":
            text, failed = state.text("error"), True
        case _:
            return None
    images = [
        image_at(file.text("url"))
        for file in state.objects("attachments")
        if file.text("mime").startswith(_IMAGE)
    ]
    return tool_result(
        call.call_id,
        call.name,
        (*text_parts(text), *(image for image in images if image is not None)),
        failed=failed,
        brief=f"exit {exit_code}" if exit_code else "",
        changes=Changes() if failed else _changes(call, about, text),
        milliseconds=state.count("time", "end") - state.count("time", "start"),
        full_output=about.text("outputPath"),
    )


def _changes(call: ToolCallPart, about: JsonObject, text: str) -> Changes:
    arguments = arguments_of(call)
    path = arguments.text("filePath") or about.text("filepath")
    if call.name in _PATCHING:
        reports = [*about.objects("files"), about.object("filediff")]
        changes = together(map(_reported, filter(None, reports)))
        return changes if changes.files else patched(arguments.text("patchText"))
    if not path:
        return Changes()
    match call.name:
        case "read":
            is_folder = about.at("display", "type") == "directory"
            is_folder = is_folder or "<type>directory</type>" in text[:1000]
            return Changes() if is_folder else Changes((FileTouch(path=path, action="read"),))
        case "write":
            written = whole_file(path, arguments.text("content"))
            return written if about.get("exists") is False else Changes(written.files)
        case "edit" | "multiedit":
            return edit_of(path, about.text("diff") or about.text("filediff", "patch"))
        case _:
            return Changes()


def _reported(file: JsonObject) -> Changes:
    path = file.first("filePath", "file")
    edit = moved(edit_of(path, file.first("diff", "patch")), file.text("movePath"))
    return edit if path else Changes()
