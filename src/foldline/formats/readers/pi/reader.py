"""Reader for the sessions of pi, layouts 1 to 3, and of Oh My Pi: layout 3 with more record types.

A layout 1 file is a line of records. Layouts 2 and 3 are trees by `id` and `parentId`, whose last record is
the tip of the branch in use. All branches are read, in file order; where the file goes on from another record
than the one before, so does the history, by a rewind to that moment.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from foldline.context.files import file_lists
from foldline.formats.base import ForeignSession, Json, JsonLine, JsonObject, known_lines
from foldline.formats.parts import BESIDE, UsageFields, arguments_of, stop_reason, text_in
from foldline.formats.tool_results import FILE_TOOLS, Changes, line_count, tool_result
from foldline.formats.transcript import Transcript
from foldline.protocol import (
    NEW,
    AssistantMessage,
    BaseMessage,
    Clear,
    Compaction,
    CompactionDetails,
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


def read(data: bytes, path: Path) -> ForeignSession:
    """A pi session."""
    lacks = "record of pi: neither a session header with id, time and folder, nor a message"
    lines, damage = known_lines(data, path, recognises, lacks)
    heads = [line.record for line in lines if line.record.kind == "session"]
    head = next(filter(_is_header, heads), heads[0] if heads else JsonObject())
    notes: list[str] = []
    if not _is_header(head):
        notes.append("The session header is damaged or missing: what it does not say is not known.")
    body = [line for line in lines if line.record.get("type") != "session"]
    parents = _parents(body, notes)
    steps = zip((None, *parents), parents.values(), strict=False)
    of_oh_my_pi = any(
        line.record.kind == "session_init" or (line.record.kind == "model_change" and "model" in line.record)
        for line in body
    )
    left = {parent for before, parent in steps if parent != before}
    reader = _Reader(left, has_frames=not of_oh_my_pi)
    reader.read_all_of(None)
    for place, line in enumerate(body):
        if place in parents:
            reader.go_to(parents[place], line)
        reader.read(line)
        if place in parents:
            reader.read_all_of(place)
    origin = head.first("branchedFrom", "parentSession")
    notes += [f"The session was branched from {origin}."] if origin else []
    name, begun, notes = head.text("id") or path.stem, head.time("timestamp"), [*notes, *reader.notes()]
    return reader.log.session("pi", name, head.text("cwd"), damage, notes, begun=begun)


def recognises(record: JsonObject) -> bool:
    message = record.object("message")
    return _is_header(record) or (
        record.get("type") == "message"
        and (message.get("role") in _ROLES or not _FIELDS.isdisjoint(message.keys()))
    )


def _is_header(record: JsonObject) -> bool:
    """Whether a record opens a pi session. Ours has `created_at` in place of `timestamp`."""
    return record.get("type") == "session" and all(
        isinstance(record.get(key), str) for key in ("id", "timestamp", "cwd")
    )


def _parents(body: Sequence[JsonLine], notes: list[str]) -> dict[int, int | None]:
    """By the place of each record of the tree: that of its parent, None for a root.

    Where a record's parent is lost (a damaged line), it is the record before it in the file.
    """
    places = {
        line.record["id"]: place for place, line in enumerate(body) if isinstance(line.record.get("id"), str)
    }
    parents: dict[int, int | None] = {}
    before: int | None = None
    gaps = 0
    for place in sorted(places.values()):
        parent = body[place].record.get("parentId")
        step = places.get(parent) if isinstance(parent, str) else None
        if parent is not None and (step is None or step >= place):
            gaps += before is not None
            step = before
        parents[place] = step
        before = place
    on_branch: set[int] = set()
    while before is not None:
        on_branch.add(before)
        before = parents[before]
    others = sum(body[place].record.get("type") == "message" for place in parents.keys() - on_branch)
    if others:
        notes.append(f"{others} messages are on other branches than the one last used: /tree shows them.")
    if gaps:
        notes.append(
            f"The chain of records is broken in {gaps} places; it was continued with the line before."
        )
    return parents


class _Left(NamedTuple):
    """What a way starts with."""

    moment: int
    """Index of its newest entry."""
    way: tuple[int, ...]
    prompt: "_Prompt"


class _Prompt(NamedTuple):
    """The system prompt of pi 1.6: each message of the role system changes it."""

    entry: int | None = None
    """Its index."""
    content: tuple[str, ...] = ()
    sections: Mapping[str, str] = MappingProxyType({})

    def changed(self, message: JsonObject, index: int) -> "_Prompt":
        """The prompt after a message. A section without a text is removed."""
        said = tuple(block.text("text") for block in message.pieces("content"))
        sections = {**self.sections, **message.object("sections")}
        texts = {name: text for name, text in sections.items() if isinstance(text, str)}
        entry = index if self.entry is None else self.entry
        return _Prompt(entry, (*self.content, *filter(None, said)), texts)

    @property
    def text(self) -> str:
        return "\n\n".join(filter(None, (*self.content, *self.sections.values())))


@dataclass
class _Reader:
    left: set[int | None]
    """The places of records, None for the beginning, that the file comes back to later."""
    has_frames: bool
    """Whether the frames are known that summaries are sent in."""
    log: Transcript = field(default_factory=lambda: Transcript("pi"))
    _tip: int | None = None
    """The place of the newest record of the tree."""
    _way: list[int] = field(default_factory=list)
    """The messages from the beginning to there."""
    _left: dict[int | None, "_Left"] = field(default_factory=dict)
    """How it was at those places."""
    _positions: dict[str, int] = field(default_factory=dict)
    _lost_cuts: int = 0
    _prompt: _Prompt = field(default_factory=_Prompt)
    _model: str | None = None

    def notes(self) -> list[str]:
        notes = [*self.log.notes(_SILENT)]
        if self._lost_cuts:
            notes.append(
                f"{self._lost_cuts} compactions name a first kept record that is not in the file: "
                "nothing before them is kept."
            )
        return notes

    def go_to(self, parent: int | None, line: JsonLine) -> None:
        """Go on from this record, where that is not the newest one."""
        if parent == self._tip:
            return
        left = self._left[parent]
        self.log.go_to_branch(left.moment, line.record.time("timestamp"), line.position)
        self._way, self._prompt = list(left.way), left.prompt

    def read_all_of(self, place: int | None) -> None:
        """The record at this place, None for the beginning, is the newest."""
        self._tip = place
        if place in self.left:
            newest = max(self.log.entries, default=NEW)
            self._left[place] = _Left(newest, tuple(self._way), self._prompt)

    def read(self, line: JsonLine) -> None:
        record = line.record
        index = self.log.next_index(line.position)
        if isinstance(identity := record.get("id"), str):
            self._positions.setdefault(identity, index)
        entry = self._entry(record, index) or self.log.unknown(record, record.text("type"))
        at = record.time("timestamp") or record.time("message", "timestamp")
        self.log.put(index, entry, at)
        if isinstance(entry, AssistantMessage | ModelChange):
            self._model = entry.model or self._model
        if isinstance(entry, BaseMessage):
            self._way.append(index)
        if record.kind == "branch_summary" and (usage := _USAGE.read(record.get("usage"))):
            asked = NoticeRecord(text=BESIDE, model=self._model, usage=usage)
            self.log.add(asked, at, position=line.position)

    def _entry(self, record: JsonObject, position: int) -> Entry | None:
        match record.get("type"):
            case "message":
                return self._message(record.object("message"), position)
            case "compaction":
                return self._compaction(record, position)
            case "custom_message":
                return self._machine_text(record.get("content"))
            case "branch_summary":
                return self._machine_text(self._framed(record, _BRANCH_FRAME))
            case "context_edit" if "replacement" in record and record["replacement"] is None:
                return self._omission(self._positions.get(record.text("targetId")))
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

    # --- messages ------------------------------------------------------------------------------------

    def _system(self, message: JsonObject, position: int) -> Entry:
        """The system prompt, or a change of it: a view has only one, the last."""
        self._prompt = self._prompt.changed(message, position)
        parts = text_parts(self._prompt.text)
        if self._prompt.entry is None or self._prompt.entry == position:
            return SystemMessage(parts=parts)
        self.log.change(self._prompt.entry, parts=parts)
        return NoticeRecord(text="The system prompt or the tools changed.")

    def _message(self, message: JsonObject, position: int) -> Entry | None:
        content = message.get("content")
        match message.get("role"):
            case "system":
                return self._system(message, position)
            case "user":
                machine = message.get("attribution") == "agent" or message.flag("synthetic")
                return UserMessage(parts=self.log.parts(content), origin="machine" if machine else "typed")
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
            case "bashExecution":
                text = shell_text(message)
                if message.flag("excludeFromContext"):
                    return NoticeRecord(text=text)
                return UserMessage(parts=text_parts(text), origin="shell")
            case "hookMessage" | "custom" | "developer":
                return self._machine_text(content)
            case _:
                return None

    def _omission(self, target: int | None) -> Entry | None:
        """What takes a message out of the context, such as an answer that was too long for the window."""
        if target is None or target not in self.log.context():
            return None
        gone = self.log.projection.group(target)
        self._way = [index for index in self._way if index not in gone]
        return Edit(target=target, action="drop")

    def _framed(self, record: JsonObject, frame: tuple[str, str]) -> str:
        """The summary in a record as it is sent."""
        return record.text("summary").join(frame if self.has_frames else ("", ""))

    def _machine_text(self, content: Json) -> DeveloperMessage:
        return DeveloperMessage(origin="notice", parts=self.log.parts(content))

    def _tool_result(self, message: JsonObject, parts: tuple[Part, ...]) -> ToolResultMessage:
        call_id, name = message.text("toolCallId"), message.text("toolName")
        details = message.object("details")
        failed = message.flag("isError")
        call = self.log.calls.get(call_id)
        arguments = arguments_of(call)
        text = text_in(parts)
        touch = None if failed else _touch(name, details, arguments)
        diff = details.first("patch", "diff")
        exit_code = _EXIT_CODE.search(text)
        if exit_code:
            brief = f"exit {exit_code[1]}"
        elif failed:
            brief = "failed"
        elif touch is not None and diff:
            brief = f"+{touch.added} −{touch.removed}"
        else:
            brief = line_count(arguments.text("content") if name == "write" else text)
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

    # --- compactions ---------------------------------------------------------------------------------

    def _compaction(self, record: JsonObject, position: int) -> Compaction:
        """A compaction of pi's: a summary, then every message from the first kept record on, also one that an
        earlier compaction had removed."""
        cut = self._cut(record, position)
        written = record.object("details")
        details = file_lists(self.log.projection)
        if written:
            details = CompactionDetails(
                read_files=tuple(filter(None, written.texts("readFiles"))),
                modified_files=tuple(filter(None, written.texts("modifiedFiles"))),
            )
        return self.log.compaction(
            position,
            text_parts(self._framed(record, FRAME)),
            [index for index in self._way if index >= cut],
            strategy="pi",
            tokens_before=record.count("tokensBefore"),
            details=details,
            model=self._model,
            usage=_USAGE.read(record.get("usage")),
        )

    def _cut(self, record: JsonObject, position: int) -> int:
        """The first kept record: named by its id, or in layout 1 by its position in the file."""
        named = record.get("firstKeptEntryIndex")
        cut = self._positions.get(record.text("firstKeptEntryId"))
        if cut is None and isinstance(named, int) and 0 <= named <= position:
            cut = named
        if cut is None:
            self._lost_cuts += 1
            return position
        for index in self._way:  # a result does not stay without its call
            if index >= cut and isinstance(self.log.entries[index], ToolResultMessage):
                cut = index + 1
            elif index >= cut:
                break
        return cut


def _touch(name: str, details: JsonObject, arguments: JsonObject) -> FileTouch | None:
    """The file a successful call read or changed; None for other tools, and for what is no file."""
    action = FILE_TOOLS.get(name)
    source = details.object("meta", "source")
    path = (
        details.first("path", "resolvedPath")
        or (source.text("value") if source.get("type") == "path" else "")
        or arguments.first("path", "file_path")
    )
    if action is None or not path or "://" in path:
        return None
    diff = details.first("patch", "diff")
    lines = diff.splitlines()
    added = sum(line.startswith("+") and not line.startswith("+++ ") for line in lines)
    removed = sum(line.startswith("-") and not line.startswith("--- ") for line in lines)
    if name == "write" and not diff:
        added = len(arguments.text("content").splitlines())
    return FileTouch(path=path, action=action, added=added, removed=removed)


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
    """pi names provider and model apart, Oh My Pi as `provider/model`."""
    provider, model = record.text("provider"), record.text("modelId")
    if not model:
        provider, _, model = record.text("model").rpartition("/")
    return ModelChange(model=model, provider=provider or None) if model else None
