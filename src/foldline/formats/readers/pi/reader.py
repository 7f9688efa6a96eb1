"""Reader for the sessions of pi, layouts 1 to 3, and of Oh My Pi: layout 3 with more record types.

A layout 1 file is a line of records. Layouts 2 and 3 are trees by `id` and `parentId`, whose last record is
the tip of the branch in use. All branches are read, in file order. If the file continues from another record
than the one before, so does the history, by a rewind to that moment.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from foldline.context.files import file_lists
from foldline.formats.base import ForeignSession, JsonLine, JsonObject, known_lines
from foldline.formats.parts import BESIDE, UsageFields, arguments_of, stop_reason, text_in, user_message
from foldline.formats.tool_results import FILE_TOOLS, Changes, details_in, line_count, tool_result
from foldline.formats.transcript import Transcript
from foldline.protocol import (
    NEW,
    AssistantMessage,
    Clear,
    Compaction,
    DeveloperMessage,
    Edit,
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
"""What is pi's own in a message: other agents have records of the type `message`, too."""
_SILENT = (
    "credential_pin", "custom", "label", "mcp_tool_selection", "mode_change", "model_change", "model_usage",
    "service_tier_change", "session", "thinking_level_change", "title", "ttsr_injection",
)  # fmt: skip
_EXIT_CODE = re.compile(r"Command exited with code (\d+)\s*$")
FRAME = (
    "The conversation history before this point was compacted into the following summary:\n\n<summary>\n",
    "\n</summary>",
)
"""What pi puts around the summary of a compaction when it sends it."""
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
    """Return whether a record opens a session of pi, not ours."""
    fields = map(record.get, ("id", "timestamp", "cwd"))
    return record.kind == "session" and all(isinstance(value, str) for value in fields)


def read(data: bytes, path: Path) -> ForeignSession:
    """Read a pi session."""
    lacks = "record of pi: neither a session header with id, time and folder, nor a message"
    lines, damage = known_lines(data, path, recognises, lacks)
    headers = [line.record for line in lines if line.record.kind == "session"]
    header = next(filter(_is_header, headers), headers[0] if headers else JsonObject())
    notes: list[str] = []
    if not _is_header(header):
        notes.append("The session header is damaged or missing: what it does not say is not known.")
    body = [line for line in lines if line.record.kind != "session"]
    parents = _parents(body, notes)
    reader = _Reader(has_frames=not any(_is_of_oh_my_pi(line.record) for line in body))
    reader.read(body, parents)
    if origin := header.first("branchedFrom", "parentSession"):
        notes.append(f"The session was branched from {origin}.")
    notes += reader.notes()
    name, begun = header.text("id") or path.stem, header.time("timestamp")
    return reader.log.session("pi", name, header.text("cwd"), damage, notes, begun=begun)


def _is_of_oh_my_pi(record: JsonObject) -> bool:
    return record.kind == "session_init" or (record.kind == "model_change" and "model" in record)


def _parents(body: Sequence[JsonLine], notes: list[str]) -> dict[int, int | None]:
    """Return each record's parent, both as places.

    Where a record's parent is lost (a damaged line), it is the record before it in the file.
    """
    ids = ((line.record.get("id"), place) for place, line in enumerate(body))
    places = {identity: place for identity, place in ids if isinstance(identity, str)}
    parents: dict[int, int | None] = {}
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
    if messages:
        notes.append(f"{messages} messages are on other branches than the one last used: /tree shows them.")
    if gaps:
        notes.append(
            f"The chain of records is broken in {gaps} places; it was continued with the line before."
        )
    return parents


class _Prompt(NamedTuple):
    """The system prompt of pi 1.6: each message of the role system changes it."""

    entry: int | None = None
    """Its index."""
    content: tuple[str, ...] = ()
    sections: Mapping[str, str] = MappingProxyType({})

    def changed(self, message: JsonObject, index: int) -> "_Prompt":
        """Return the prompt after a message, without empty sections."""
        texts = (block.text("text") for block in message.pieces("content"))
        sections = {**self.sections, **message.object("sections")}
        return _Prompt(
            index if self.entry is None else self.entry,
            (*self.content, *filter(None, texts)),
            {name: text for name, text in sections.items() if isinstance(text, str)},
        )

    @property
    def text(self) -> str:
        return "\n\n".join(filter(None, (*self.content, *self.sections.values())))


class _Reader:
    """Turns records into entries."""

    def __init__(self, *, has_frames: bool) -> None:
        self.log = Transcript("pi")
        self._has_frames = has_frames
        """Whether the frames are known that summaries are sent in."""
        self._prompt = _Prompt()
        self._tip: int | None = None
        """The place of the newest record of the tree."""
        self._states: dict[int | None, tuple[int, _Prompt]] = {None: (NEW, self._prompt)}
        """By the place of a record: the newest entry after it, and the system prompt."""
        self._indices: dict[str, int] = {}
        """By the id of a record: its entry."""
        self._lost_cuts = 0
        self._model: str | None = None

    def notes(self) -> list[str]:
        notes = [*self.log.notes(_SILENT)]
        if self._lost_cuts:
            notes.append(
                f"{self._lost_cuts} compactions name a first kept record that is not in the file: "
                "nothing before them is kept."
            )
        return notes

    def read(self, lines: Sequence[JsonLine], parents: Mapping[int, int | None]) -> None:
        for place, line in enumerate(lines):
            parent = parents.get(place, self._tip)
            if parent != self._tip:
                moment, self._prompt = self._states[parent]
                self.log.go_to_branch(moment, line.record.time("timestamp"), line.position)
            self._read(line)
            if place in parents:
                self._tip = place
                self._states[place] = next(reversed(self.log.entries)), self._prompt

    def _read(self, line: JsonLine) -> None:
        record = line.record
        index = self.log.next_index(line.position)
        at = record.time("timestamp") or record.time("message", "timestamp")
        if identity := record.text("id"):
            self._indices.setdefault(identity, index)
        entry = self._entry(record, index)
        self.log.put_record(index, entry, record, record.kind, at)
        if isinstance(entry, AssistantMessage | ModelChange):
            self._model = entry.model or self._model
        if record.kind == "branch_summary" and (usage := _USAGE.read(record.get("usage"))):
            request = NoticeRecord(text=BESIDE, model=self._model, usage=usage)
            self.log.add(request, at, position=line.position)
        if isinstance(entry, SystemMessage) and (tools := _tools_text(record.object("message"))):
            self.log.add(NoticeRecord(text=tools), at, position=line.position)

    def _entry(self, record: JsonObject, position: int) -> Entry | None:
        match record.kind:
            case "message":
                return self._message(record.object("message"), position)
            case "compaction":
                return self._compaction(record, position)
            case "custom_message":
                return DeveloperMessage(parts=self.log.parts(record.get("content")))
            case "branch_summary":
                return DeveloperMessage(parts=text_parts(self._framed(record, _BRANCH_FRAME)))
            case "context_edit" if "replacement" in record and record["replacement"] is None:
                return self._omission(self._indices.get(record.text("targetId")))
            case "model_change":
                return _model_change(record)
            case "session_init" if record.text("systemPrompt").strip() and self._prompt.entry is None:
                return self._system(JsonObject(content=record.get("systemPrompt")), position)
            case "reset_boundary":
                return Clear()
            case "session_info" | "title":
                title = record.first("name", "title")
                return Title(title=title) if title.strip() else None
            case _:
                return None

    def _system(self, message: JsonObject, index: int) -> Entry:
        """Return the system prompt, or a note that it changed."""
        self._prompt = self._prompt.changed(message, index)
        parts = text_parts(self._prompt.text)
        if self._prompt.entry in (None, index):
            return SystemMessage(parts=parts)
        self.log.change(self._prompt.entry, parts=parts)
        return NoticeRecord(text=_tools_text(message) or "The system prompt changed.")

    def _message(self, message: JsonObject, index: int) -> Entry | None:
        content = message.get("content")
        match message.role:
            case "system":
                return self._system(message, index)
            case "user":
                by_program = message.get("attribution") == "agent" or message.flag("synthetic")
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
                return UserMessage(parts=text_parts(shell_text(message)), origin="shell")
            case "hookMessage" | "custom" | "developer":
                return DeveloperMessage(parts=self.log.parts(content))
            case _:
                return None

    def _omission(self, target: int | None) -> Entry | None:
        """Drop a message that pi no longer sends."""
        return Edit(target=target, action="drop") if target in self.log.context() else None

    def _framed(self, record: JsonObject, frame: tuple[str, str]) -> str:
        """Return the summary in a record as it is sent."""
        return record.text("summary").join(frame if self._has_frames else ("", ""))

    def _tool_result(self, message: JsonObject, parts: tuple[Part, ...]) -> ToolResultMessage:
        call_id, name = message.text("toolCallId"), message.text("toolName")
        details, failed = message.object("details"), message.flag("isError")
        arguments = arguments_of(self.log.calls.get(call_id))
        diff = details.first("patch", "diff")
        touch = None if failed else _touch(name, details, arguments, diff)
        exit_code = _EXIT_CODE.search(text_in(parts))
        brief = ""
        if exit_code:
            brief = f"exit {exit_code[1]}"
        elif name == "write" and not failed and not diff:
            brief = line_count(arguments.text("content"))
        return tool_result(
            call_id,
            name,
            parts,
            failed=failed,
            brief=brief,
            changes=Changes((touch,) if touch else (), diff or None),
            milliseconds=details.count("wallTimeMs"),
            full_output=details.text("fullOutputPath"),
        )

    def _compaction(self, record: JsonObject, index: int) -> Compaction:
        """Compact to a summary and all messages from the cut on, compacted ones too."""
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
        """Return the first kept entry, by id or (layout 1) by place."""
        named = record.get("firstKeptEntryIndex")
        cut = self._indices.get(record.text("firstKeptEntryId"))
        if cut is not None:
            return cut
        if isinstance(named, int) and 0 <= named <= index:
            return named
        self._lost_cuts += 1
        return index


def _touch(name: str, details: JsonObject, arguments: JsonObject, diff: str) -> FileTouch | None:
    """Return the file that a successful call read or changed."""
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
    removed = sum(line.startswith("-") and not line.startswith("--- ") for line in lines)
    if name == "write" and not diff:
        added = len(arguments.text("content").splitlines())
    return FileTouch(path=path, action=action, added=added, removed=removed)


def _tools_text(message: JsonObject) -> str:
    """Name the tools that a system message adds and removes."""
    added = [tool.text("name") for tool in message.objects("toolsAdded")]
    removed = [tool.text("name") for tool in message.objects("toolsRemoved")]
    sentences = []
    if added:
        sentences.append(f"Tools from here on: {', '.join(added)}.")
    if removed:
        sentences.append(f"Tools taken away: {', '.join(removed)}.")
    return " ".join(sentences)


def shell_text(message: JsonObject) -> str:
    text = f"$ {message.text('command')}\n{message.text('output')}".rstrip("\n")
    exit_code = message.get("exitCode")
    if message.flag("cancelled"):
        return f"{text}\n(cancelled)"
    if isinstance(exit_code, int) and exit_code != 0:
        text = f"{text}\n(exit {exit_code})"
    if message.flag("truncated"):
        where = message.text("fullOutputPath")
        text = f"{text}\n(output shortened{f'; all of it: {where}' if where else ''})"
    return text


def _model_change(record: JsonObject) -> ModelChange | None:
    """Read `provider` and `modelId`, or Oh My Pi's `provider/model`."""
    provider, model = record.text("provider"), record.text("modelId")
    if not model:
        provider, _, model = record.text("model").rpartition("/")
    return ModelChange(model=model, provider=provider or None) if model else None
