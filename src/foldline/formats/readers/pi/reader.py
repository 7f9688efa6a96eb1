"""Reader for sessions of pi and Oh My Pi.

pi has three layouts. Oh My Pi uses layout 3, with additional types of records. A file in layout 1 is a linear
list of records. Layouts 2 and 3 are trees by `id` and `parentId`, in which the last record is the tip of the
current branch. All branches are read, in file order. If a record's parent is not the preceding record, the
history is first rewound to the parent.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from foldline.formats.base import ForeignSession, JsonLine, JsonObject, known_lines
from foldline.formats.parts import (
    BESIDE,
    UsageFields,
    arguments_of,
    branch_notes,
    lost_cuts_note,
    stop_reason,
    text_in,
    user_message,
)
from foldline.formats.tool_results import (
    FILE_TOOLS,
    Changes,
    details_in,
    line_count,
    tool_result,
)
from foldline.formats.transcript import Transcript
from foldline.past.files import file_lists
from foldline.protocol import (
    NEW,
    AssistantMessage,
    Clear,
    Compaction,
    DeveloperMessage,
    Entry,
    FileTouch,
    ModelChange,
    NoticeRecord,
    Part,
    SystemMessage,
    Title,
    ToolResultMessage,
    UserMessage,
    text_parts,
)

_ROLES = ("toolResult", "bashExecution")
_FIELDS = frozenset({"stopReason", "timestamp"})
"""Message fields that only pi's records have.

Other agents also have records of the type `message`.
"""
_SILENT = (
    "credential_pin", "custom", "label", "mcp_tool_selection", "mode_change", "model_change", "model_usage",
    "service_tier_change", "session", "thinking_level_change", "title", "ttsr_injection",
)  # fmt: skip
_EXIT_CODE = re.compile(r"Command exited with code (\d+)\s*$")
FRAME = (
    "The conversation history before this point was compacted into the following summary:\n\n<summary>\n",
    "\n</summary>",
)
"""The text that pi sends before and after a compaction's summary."""
_BRANCH_FRAME = (
    "The following is a summary of a branch that this conversation came back from:\n\n<summary>\n",
    "</summary>",
)
_USAGE = UsageFields(
    input=("input", "cacheRead", "cacheWrite"),
    output=("output",),
    cached="cacheRead",
    reasoning="reasoningTokens|reasoning",
)


def recognises(record: JsonObject) -> bool:
    message = record.object("message")
    is_own = message.role in _ROLES or not _FIELDS.isdisjoint(message)
    return _is_header(record) or (record.kind == "message" and is_own)


def _is_header(record: JsonObject) -> bool:
    """Return whether a record opens a session of pi, not of Foldline."""
    fields = map(record.get, ("id", "timestamp", "cwd"))
    return record.kind == "session" and all(isinstance(value, str) for value in fields)


def read(data: bytes, path: Path) -> ForeignSession:
    lacks = (
        "pi records: neither a session header with id, time and folder, nor a message"
    )
    lines, damage = known_lines(data, path, recognises, lacks)
    headers = [line.record for line in lines if line.record.kind == "session"]
    header = next(filter(_is_header, headers), None)
    if header is None:
        header = headers[0] if headers else JsonObject()
    notes = []
    if not _is_header(header):
        notes.append(
            "The session header is damaged or missing, so some details are unknown."
        )
    body = [line for line in lines if line.record.kind != "session"]
    parents = _parents(body, notes)
    reader = _PiReader(
        has_frames=not any(_is_of_oh_my_pi(line.record) for line in body)
    )
    reader.read(body, parents)
    origin = header.first("branchedFrom", "parentSession")
    if origin:
        notes.append(f"The session was branched from {origin}.")
    notes += reader.notes()
    name = header.text("id") or path.stem
    begun = header.time("timestamp")
    return reader.log.session(
        "pi",
        name,
        header.text("cwd"),
        damage,
        notes,
        begun=begun,
    )


def _is_of_oh_my_pi(record: JsonObject) -> bool:
    return record.kind == "session_init" or (
        record.kind == "model_change" and "model" in record
    )


def _parents(body: Sequence[JsonLine], notes: list[str]) -> dict[int, int | None]:
    """Return the positions of all records' parents, by the records' positions.

    Appends notes to `notes`.

    If a record's parent is missing because of a damaged line, the preceding record is used.
    """
    ids = ((line.record.get("id"), place) for place, line in enumerate(body))
    places = {identity: place for identity, place in ids if isinstance(identity, str)}
    parents = {}
    before: int | None = None
    gaps = 0
    for place in sorted(places.values()):
        identity = body[place].record.get("parentId")
        parent = places.get(identity) if isinstance(identity, str) else None
        if identity is not None and (parent is None or parent >= place):
            gaps += before is not None
            parent = before
        parents[place] = parent
        before = place
    others = set(parents)
    while before is not None:
        others.remove(before)
        before = parents[before]
    messages = sum(body[place].record.kind == "message" for place in others)
    notes += branch_notes(messages, gaps)
    return parents


class _SystemPrompt(NamedTuple):
    """pi 1.6's system prompt.

    Each message in the role "system" changes the prompt.
    """

    entry: int | None = None
    """The index of the entry that contains the system prompt."""
    content: tuple[str, ...] = ()
    sections: Mapping[str, str] = MappingProxyType({})

    def changed(self, message: JsonObject, index: int) -> "_SystemPrompt":
        """Return the system prompt after this message, without empty sections."""
        texts = (block.text("text") for block in message.pieces("content"))
        sections = {**self.sections, **message.object("sections")}
        return _SystemPrompt(
            index if self.entry is None else self.entry,
            (*self.content, *filter(None, texts)),
            {name: text for name, text in sections.items() if isinstance(text, str)},
        )

    @property
    def text(self) -> str:
        return "\n\n".join(filter(None, (*self.content, *self.sections.values())))


class _PiReader:
    def __init__(self, *, has_frames: bool) -> None:
        self.log = Transcript("pi")
        self._has_frames = has_frames
        """Whether the texts sent around summaries are known, which is the case for pi."""
        self._prompt = _SystemPrompt()
        self._tip: int | None = None
        """The position of the newest record in the tree."""
        self._states: dict[int | None, tuple[int, _SystemPrompt]] = {
            None: (NEW, self._prompt)
        }
        """The newest entry and the system prompt after each record, by the record's position."""
        self._indices: dict[str, int] = {}
        """The index of each record's entry, by record id."""
        self._lost_cuts = 0
        self._model: str | None = None

    def notes(self) -> list[str]:
        return [*self.log.notes(_SILENT), *lost_cuts_note(self._lost_cuts)]

    def read(
        self, lines: Sequence[JsonLine], parents: Mapping[int, int | None]
    ) -> None:
        for place, line in enumerate(lines):
            parent = parents.get(place, self._tip)
            if parent != self._tip:
                moment, self._prompt = self._states[parent]
                self.log.go_back_to(
                    moment, line.record.time("timestamp"), line.position
                )
            self._read(line)
            if place in parents:
                self._tip = place
                self._states[place] = self.log.newest_index, self._prompt

    def _read(self, line: JsonLine) -> None:
        record = line.record
        index = self.log.next_index(line.position)
        at = record.time("timestamp") or record.time("message", "timestamp")
        identity = record.text("id")
        if identity:
            self._indices.setdefault(identity, index)
        entry = self._entry(record, index)
        self.log.put_record(index, entry, record, record.kind, at)
        if isinstance(entry, AssistantMessage | ModelChange):
            self._model = entry.model or self._model
        notice = None
        if record.kind == "branch_summary":
            notice = self._request(record)
        elif isinstance(entry, SystemMessage):
            notice = _tools_notice(record.object("message"))
        if notice is not None:
            self.log.add(notice, at, position=line.position)

    def _request(self, record: JsonObject) -> NoticeRecord | None:
        """Return a notice with the usage of the request that summarised a branch, if known."""
        usage = _USAGE.read(record.get("usage"))
        if usage is None:
            return None
        return NoticeRecord(text=BESIDE, model=self._model, usage=usage)

    def _entry(self, record: JsonObject, position: int) -> Entry | None:
        match record.kind:
            case "message":
                return self._message(record.object("message"), position)
            case "compaction":
                return self._compaction(record, position)
            case "custom_message":
                return DeveloperMessage(parts=self.log.content(record))
            case "branch_summary":
                return DeveloperMessage(
                    parts=text_parts(self._framed(record, _BRANCH_FRAME))
                )
            case "context_edit" if (
                "replacement" in record and record["replacement"] is None
            ):
                return self.log.drop_of(self._indices.get(record.text("targetId")))
            case "model_change":
                return _model_change(record)
            case "session_init" if (
                record.text("systemPrompt").strip() and self._prompt.entry is None
            ):
                return self._system(
                    JsonObject(content=record.get("systemPrompt")), position
                )
            case "reset_boundary":
                return Clear()
            case "session_info" | "title":
                title = record.first("name", "title")
                return Title(title=title) if title.strip() else None
            case _:
                return None

    def _system(self, message: JsonObject, index: int) -> Entry:
        """Return the system prompt, or a note that it has changed."""
        self._prompt = self._prompt.changed(message, index)
        parts = text_parts(self._prompt.text)
        if self._prompt.entry in (None, index):
            return SystemMessage(parts=parts)
        self.log.change(self._prompt.entry, parts=parts)
        return _tools_notice(message) or NoticeRecord(text="The system prompt changed.")

    def _message(self, message: JsonObject, index: int) -> Entry | None:
        content = message.get("content")
        match message.role:
            case "system":
                return self._system(message, index)
            case "user":
                by_program = message.get("attribution") == "agent" or message.flag(
                    "synthetic"
                )
                return user_message(self.log.parts(content), typed=not by_program)
            case "assistant":
                return AssistantMessage(
                    parts=self.log.parts(content),
                    model=message.text("model") or None,
                    usage=_USAGE.read(message.get("usage")),
                    stop_reason=stop_reason(message.text("stopReason")),
                    error=message.text("errorMessage") or None,
                )
            case "toolResult":
                return self._tool_result(message, self.log.parts(content))
            case "bashExecution" if message.flag("excludeFromContext"):
                return NoticeRecord(text=shell_text(message))
            case "bashExecution":
                return UserMessage(
                    parts=text_parts(shell_text(message)), origin="shell"
                )
            case "hookMessage" | "custom" | "developer":
                return DeveloperMessage(parts=self.log.parts(content))
            case _:
                return None

    def _framed(self, record: JsonObject, frame: tuple[str, str]) -> str:
        """Return the summary in a record, in the form in which it was sent."""
        return record.text("summary").join(frame if self._has_frames else ("", ""))

    def _tool_result(
        self, message: JsonObject, parts: tuple[Part, ...]
    ) -> ToolResultMessage:
        call_id = message.text("toolCallId")
        name = message.text("toolName")
        details = message.object("details")
        failed = message.flag("isError")
        arguments = arguments_of(self.log.calls.get(call_id))
        diff = details.first("patch", "diff")
        touch = None if failed else _touch(name, details, arguments, diff)
        exit_code = _EXIT_CODE.search(text_in(parts))
        brief = ""
        if name == "write" and not (exit_code or failed or diff):
            brief = line_count(arguments.text("content"))
        return tool_result(
            call_id,
            name,
            parts,
            failed=failed,
            exit_code=exit_code[1] if exit_code else "",
            brief=brief,
            changes=Changes((touch,) if touch else (), diff or None),
            milliseconds=details.count("wallTimeMs"),
            full_output=details.text("fullOutputPath"),
        )

    def _compaction(self, record: JsonObject, index: int) -> Compaction:
        """Return a compaction to a summary and all messages after the cut.

        This includes messages that were compacted before.
        """
        cut = self._cut(record, index)
        details = file_lists(self.log.projection)
        if record.object("details"):
            details = details_in(record.object("details"), "readFiles", "modifiedFiles")
        return self.log.compaction(
            index,
            text_parts(self._framed(record, FRAME)),
            [message for message in self.log.not_undone() if message >= cut],
            strategy="pi",
            tokens_before=record.count("tokensBefore"),
            details=details,
            model=self._model,
            usage=_USAGE.read(record.get("usage")),
        )

    def _cut(self, record: JsonObject, index: int) -> int:
        """Return the index of the first kept entry.

        The record states its id or, in layout 1, its position.
        """
        named = record.get("firstKeptEntryIndex")
        cut = self._indices.get(record.text("firstKeptEntryId"))
        if cut is not None:
            return cut
        if isinstance(named, int) and 0 <= named <= index:
            return named
        self._lost_cuts += 1
        return index


def _touch(
    name: str, details: JsonObject, arguments: JsonObject, diff: str
) -> FileTouch | None:
    """Return the file that a call has successfully read or changed, if any."""
    action = FILE_TOOLS.get(name)
    source = details.object("meta", "source")
    path = details.first("path", "resolvedPath")
    if not path and source.kind == "path":
        path = source.text("value")
    path = path or arguments.first("path", "file_path")
    if action is None or not path or "://" in path:
        return None
    lines = diff.splitlines()
    added = sum(line.startswith("+") and not line.startswith("+++ ") for line in lines)
    removed = sum(
        line.startswith("-") and not line.startswith("--- ") for line in lines
    )
    if name == "write" and not diff:
        added = len(arguments.text("content").splitlines())
    return FileTouch(path=path, action=action, added=added, removed=removed)


def _tools_notice(message: JsonObject) -> NoticeRecord | None:
    """Return a notice about the tools that a system message adds and removes, if any."""
    sentences = []
    for field, subject in (
        ("toolsAdded", "Tools added"),
        ("toolsRemoved", "Tools removed"),
    ):
        names = [tool.text("name") for tool in message.objects(field)]
        if names:
            sentences.append(f"{subject}: {', '.join(names)}.")
    return NoticeRecord(text=" ".join(sentences)) if sentences else None


def shell_text(message: JsonObject) -> str:
    text = f"$ {message.text('command')}\n{message.text('output')}".rstrip("\n")
    exit_code = message.get("exitCode")
    if message.flag("cancelled"):
        return f"{text}\n(cancelled)"
    if isinstance(exit_code, int) and exit_code != 0:
        text = f"{text}\n(exit {exit_code})"
    if message.flag("truncated"):
        text += "\n(output shortened"
        path = message.text("fullOutputPath")
        if path:
            text += f"; all of it: {path}"
        text += ")"
    return text


def _model_change(record: JsonObject) -> ModelChange | None:
    """Convert a change of model.

    pi records `provider` and `modelId`, and Oh My Pi `provider/model`.
    """
    provider = record.text("provider")
    model = record.text("modelId")
    if not model:
        provider, _, model = record.text("model").rpartition("/")
    return ModelChange(model=model, provider=provider or None) if model else None
