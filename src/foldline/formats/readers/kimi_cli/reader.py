"""Reader for sessions of kimi-cli and its successor Kimi Code.

A context file contains the messages that the model sees. Before kimi-cli compacts, rewinds or clears, it
renames the file to `context_1.jsonl` and so on. A wire file contains events for the screen. Kimi Code writes
only a wire file, which contains the whole session.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from foldline.files import is_file, is_folder, read_regular
from foldline.formats.base import (
    ForeignChild,
    ForeignSession,
    Json,
    JsonLine,
    JsonObject,
    child_in,
    child_of,
    json_lines,
    object_in,
)
from foldline.formats.parts import (
    PROMPT_CHANGED,
    first_text,
    has_image,
    parts_of,
    sub_agent_note,
    thinking_parts,
    tool_call_parts,
    user_message,
)
from foldline.formats.readers.kimi_code.reader import KimiCodeReader
from foldline.formats.readers.kimi_code.results import result_of
from foldline.formats.transcript import Transcript
from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    Checkpoint,
    Clear,
    DeveloperMessage,
    Entry,
    FoldlineError,
    Part,
    Revert,
    SystemMessage,
    TextPart,
    ToolResultMessage,
    Usage,
    system_words,
)
from foldline.sequences import overlap, same_start

from .beside import beside_kimi, is_of_main_agent
from .wire import KimiWireReader

_CONTEXT_ROLES = ("_system_prompt", "_checkpoint", "_usage")
_CODE_TYPES = (
    "context.",
    "turn.",
    "config.",
    "profile.",
    "llm.",
    "tools.",
    "permission.",
)
"""Prefixes of the types of Kimi Code's records.

Most of these records have a time.
"""
_CODE_RECORDS = (
    "config.update", "context.append_loop_event", "context.append_message", "context.apply_compaction",
    "llm.request", "llm.tools_snapshot", "profile.bind", "turn.prompt",
)  # fmt: skip
"""Types of records that only occur in Kimi Code."""
_NAMES = ("context.jsonl", "wire.jsonl")
"""Names of a session's files, the more complete file first."""
SUMMARY = "<system>Previous context has been compacted"
"""Prefix of the message that contains the summary of a compaction."""
_DMAIL = "<system>You just got a D-Mail"
MACHINE = ("<system>", "<system-reminder>", "<notification", "<task-notification")
"""Prefixes of messages in the role "user" that the program itself wrote."""
_FAILED = "<system>ERROR"
NO_RECORDS = "{path} has no kimi-cli records: neither messages nor wire events."
EARLIER_UNREADABLE = (
    "{file}, an earlier state of the session, cannot be read ({reason})."
)
EARLIER_FILES = "The session begins in earlier files: {files}."
_MEDIA_FOLLOWS = "Non-text parts are sent as a user message below."
"""The end of a tool result whose image follows as a user message, in older files."""


def recognises(record: JsonObject) -> bool:
    return record.role in _CONTEXT_ROLES or _is_wire(record) or _is_code_wire(record)


def _is_wire(record: JsonObject) -> bool:
    is_head = record.kind == "metadata" and "protocol_version" in record
    has_event = {"type", "payload"} <= record.object("message").keys()
    return is_head or ("timestamp" in record and has_event)


def _is_code_wire(record: JsonObject) -> bool:
    return record.kind in _CODE_RECORDS or (
        "time" in record and record.kind.startswith(_CODE_TYPES)
    )


def read(data: bytes, path: Path) -> ForeignSession:
    """Read a session, including earlier states of its context.

    An index is the position of a record in its file. The records of earlier states come first, with one extra
    index at the end of each state.
    """
    lines, damage = json_lines(data)
    records = [line.record for line in lines]
    if any(map(_is_code_wire, records)):
        reader: KimiCodeReader | KimiWireReader | _ContextReader = KimiCodeReader(lines)
    elif any(map(_is_wire, records)):
        reader = KimiWireReader(lines)
    elif any("role" in record for record in records):
        reader = _ContextReader(lines, path)
    else:
        raise FoldlineError(NO_RECORDS, path=path)
    log = reader.log
    name = session_id_of(path)
    starts = {
        record.text("subagentId"): record
        for record in records
        if "parentToolCallId" in record
    }
    log.add_children(_children(path, log, starts))
    folders = (
        record.text("environmentDisclosure", "cwd") or record.text("cwd")
        for record in records
    )
    cwd = first_text(folders)
    if not cwd:
        cwd = beside_kimi(path, name).cwd
    return log.session("kimi-cli", name, cwd, damage, reader.notes())


def session_id_of(path: Path) -> str:
    """Return the session's id: the name of its folder or, for older sessions, of its file."""
    if is_of_main_agent(path):
        return path.parents[2].name
    has_folder = path.stem in ("context", "wire")
    return (has_folder and path.parent.name) or path.stem


def _children(
    path: Path, log: Transcript, starts: Mapping[str, JsonObject]
) -> Iterator[ForeignChild]:
    """Yield the subagents.

    `starts` contains the records that Kimi Code 2 writes when subagents start, by subagent id.
    """
    results = [
        entry for entry in log.in_order() if isinstance(entry, ToolResultMessage)
    ]
    for name, file in _child_files(path).items():
        session = child_in(read, file)
        if session:
            about = starts.get(name) or object_in(file.with_name("meta.json"))
            mark = f"agent_id: {name}\n"
            calls = (result.call_id for result in results if mark in result.text)
            call_id = about.text("parentToolCallId") or next(calls, "")
            agent = about.first("subagent_type", "subagentName")
            title = about.text("description")
            yield child_of(session, name, agent=agent, title=title, call_id=call_id)


def _child_files(path: Path) -> dict[str, Path]:
    """Return the files of the subagents, by id.

    They are in folders below the session's folder or, in Kimi Code, next to the main agent's folder. For
    older sessions, they are next to the session's file.
    """
    files = {}
    folder = path.parents[1] if is_of_main_agent(path) else path.parent / "subagents"
    if path.name in _NAMES:
        for file in (*folder.glob("*/wire.jsonl"), *folder.glob("*/context.jsonl")):
            agent_folder = file.parent
            if (
                is_file(file)
                and agent_folder.name != "main"
                and not agent_folder.is_symlink()
            ):
                files[agent_folder.name] = file
        files = dict(sorted(files.items()))
    if path.name == _NAMES[0]:
        for file in sorted(path.parent.glob("context_sub_*.jsonl")):
            files[file.stem] = file
    return files


# --- context files ----------------------------------------------------------------------------------


def rotations(path: Path) -> list[Path]:
    """Return the earlier states of a context file, oldest first.

    The files of subagents have similar numbers, after `_sub` or `_read`, but they are separate sessions.
    """
    if path.stem.endswith(("_sub", "_read")) or not is_folder(path.parent):
        return []
    pattern = re.compile(
        re.escape(path.stem) + r"_([0-9]{1,9})" + re.escape(path.suffix)
    )
    numbered = []
    for file in path.parent.iterdir():
        match = pattern.fullmatch(file.name)
        if match and is_file(file):
            numbered.append((int(match[1]), file))
    return [file for _, file in sorted(numbered)]


class _ContextReader:
    """Combines the successive states of a context into one history.

    A later state may be a compaction of the previous one, if it begins with a summary; a rewind of it, if
    both are equal up to a checkpoint; or a fresh start.
    """

    def __init__(self, lines: list[JsonLine], path: Path) -> None:
        self.log = Transcript("kimi")
        self._notes: list[str] = []
        self._rows: list[JsonLine] = []
        """The records of the current state.

        The position of a record is its index.
        """
        self._start = 0
        """The index of the file's first record."""
        self._tokens = 0
        self._is_estimate = False
        """Whether the next token count is kimi-cli's own estimate.

        This is the case after a compaction.
        """
        # A subagent's file is recognised by its path. Its prompts were written by another agent.
        name = path.stem.rpartition("_")[0]
        self._by_agent = "subagents" in path.parts or name.endswith(("_sub", "_read"))
        earlier = {}
        for file in rotations(path):
            state = self._earlier(file)
            if state is not None:
                earlier[file.name] = state
        states = [*earlier.values(), lines]
        self._prompts: list[Json] = []
        """The system prompts of all states.

        A view has only one, which is the last of these.
        """
        for state in states:
            for line in state:
                if line.record.role == "_system_prompt":
                    self._prompts.append(line.record.get("content"))
        for state in states:
            self._read(state)
        self._notes += self.log.notes(("_system_prompt", "_usage"))
        if any(prompt != self._prompts[-1] for prompt in self._prompts):
            self._notes.append(PROMPT_CHANGED)
        if earlier:
            self._notes.append(EARLIER_FILES.format(files=", ".join(earlier)))

    def notes(self) -> list[str]:
        return [*self._notes, *sub_agent_note(self._by_agent)]

    def _earlier(self, file: Path) -> list[JsonLine] | None:
        """Read an earlier state, adding notes on problems.

        Returns None if the file cannot be read.
        """
        try:
            state, damage = json_lines(read_regular(file))
        except OSError as error:
            reason = system_words(error)
            self._notes.append(EARLIER_UNREADABLE.format(file=file.name, reason=reason))
            return None
        if damage:
            self._notes.append(f"{file.name}: {damage}.")
        return state

    def _read(self, state: list[JsonLine]) -> None:
        start = self._start
        rows = [JsonLine(start + line.position, line.record) for line in state]
        shared = 0
        if self.log.entries:
            shared = self._continue(rows)
        if not shared:
            self._tokens = 0
        for row in rows[shared:]:
            self._add(row)
        last = rows[-1].position + 1 if rows else start
        self._start = last + 1

    def _continue(self, rows: list[JsonLine]) -> int:
        """Connect a state with the previous one.

        Returns the number of the state's leading records that this has handled.
        """
        before = self._rows
        self._rows = []
        records = [row.record for row in before]
        first = next(filter(_is_message, rows), None)
        if first and first.record not in records and _opens_with(first.record, SUMMARY):
            return self._compact(rows, rows.index(first), before)
        shared = same_start([row.record for row in rows], records)
        if shared == len(before):
            self._rows = before
            return shared
        return self._go_back(rows, before, shared)

    def _compact(self, rows: list[JsonLine], place: int, before: list[JsonLine]) -> int:
        """Add a compaction that keeps the newest earlier messages after the summary.

        Returns the number of the state's leading records that this has handled.
        """
        for row in rows[:place]:
            self._add(row)
        summary = rows[place]
        later = list(filter(_is_message, rows[place + 1 :]))
        earlier = list(filter(_is_message, before))
        size = overlap([row.record for row in earlier], [row.record for row in later])
        kept = earlier[len(earlier) - size :]
        context = set(self.log.messages())

        def indices(messages: Iterable[JsonLine]) -> list[int]:
            return [row.position for row in messages if row.position in context]

        compaction = self.log.compaction(
            summary.position,
            self.log.content(summary.record),
            indices(kept),
            ahead=indices(self._rows),
            strategy="kimi-cli",
            tokens_before=self._tokens,
        )
        self.log.put(summary.position, compaction)
        self._is_estimate = True
        self._rows += [summary, *kept]
        last_covered = later[size - 1] if size else summary
        return rows.index(last_covered) + 1

    def _go_back(
        self, rows: list[JsonLine], before: list[JsonLine], shared: int
    ) -> int:
        """Add a rewind to the last shared checkpoint.

        If the states share no checkpoint, add a clear instead.

        Returns the number of the state's leading records that this has handled.
        """
        summary = self.log.newest_summary()
        first = summary.index if summary else 0
        index = self._start - 1
        shared_rows = before[: shared + 1] if self._is_rewind(rows, shared) else []
        for place, row in reversed([*enumerate(shared_rows)]):
            entry = self.log.entries[row.position]
            if isinstance(entry, Checkpoint) and entry.index >= first:
                self._rows = before[:place]
                self.log.put(index, Revert(checkpoint=entry.id))
                return place
        self.log.put(index, Clear())
        return 0

    def _is_rewind(self, rows: list[JsonLine], shared: int) -> bool:
        """Return whether a state is a rewind of the previous one.

        A rewind repeats messages, or contains a D-Mail.
        """
        if any(map(_is_message, rows[:shared])):
            return True
        opening = next(filter(_is_message, rows[shared:]), None)
        return opening is not None and _opens_with(opening.record, _DMAIL)

    def _add(self, row: JsonLine) -> None:
        role = row.record.role
        if role == "_checkpoint":
            self.log.checkpoint(row.position)
        else:
            self.log.put_record(
                row.position, self._entry(row.record, row.position), row.record, role
            )
        self._rows.append(row)

    def _entry(self, record: JsonObject, index: int) -> Entry | None:
        match record.role:
            case "_system_prompt":
                if any(
                    isinstance(entry, SystemMessage)
                    for entry in self.log.entries.values()
                ):
                    return None
                return SystemMessage(parts=self.log.parts(self._prompts[-1]))
            case "_usage":
                self._count(record.count("token_count"))
                return None
            case "assistant" | "user" if _opens_with(record, SUMMARY):
                self._is_estimate = True
                ahead = self.log.messages()
                parts = self.log.content(record)
                return self.log.compaction(
                    index, parts, (), ahead=ahead, strategy="kimi-cli"
                )
            case "user":
                return self._user(record)
            case "assistant":
                thinking = thinking_parts(record.text("reasoning_content"))
                calls = tool_call_parts(record.get("tool_calls"), index)
                return AssistantMessage(
                    parts=(*thinking, *self.log.content(record), *calls)
                )
            case "tool":
                failed = record.flag("isError") or _opens_with(record, _FAILED)
                parts = self.log.content(record)
                return result_of(
                    record.text("tool_call_id"), parts, self.log, failed=failed
                )
            case "system":
                return DeveloperMessage(parts=self.log.content(record))
            case _:
                return None

    def _user(self, record: JsonObject) -> BaseMessage:
        parts = self.log.content(record)
        by_program = _opens_with(record, MACHINE)
        if has_image(parts) and (by_program or self._media_follows()):
            return user_message(parts, typed=False)
        if not by_program:
            return user_message(parts, typed=not self._by_agent)
        if _opens_with(record, _DMAIL):
            return DeveloperMessage(parts=parts, origin="dmail")
        return DeveloperMessage(parts=parts)

    def _media_follows(self) -> bool:
        """Return whether the newest message announces an image in the next message."""
        for entry in reversed(self.log.entries.values()):
            if isinstance(entry, BaseMessage):
                return (
                    isinstance(entry, ToolResultMessage)
                    and _MEDIA_FOLLOWS in entry.text
                )
        return False

    def _count(self, tokens: int) -> None:
        """Set the usage of the answer that precedes a token count.

        Older files also contain a count before the answer, so the difference is the answer's output. Newer
        files contain only the total, which is stored as input.
        """
        before = self._tokens
        self._tokens = tokens
        is_estimate = self._is_estimate
        self._is_estimate = False
        newest = next(reversed(self.log.entries), -1)
        answer = self.log.entries.get(newest)
        if (
            is_estimate
            or not isinstance(answer, AssistantMessage)
            or answer.usage
            or not tokens
        ):
            return
        output = 0
        counted_before = len(self._rows) > 1 and self._rows[-2].record.role == "_usage"
        if counted_before and 0 < before <= tokens:
            output = tokens - before
        self.log.change(newest, usage=Usage(input=tokens - output, output=output))


def _is_message(row: JsonLine) -> bool:
    return not row.record.role.startswith("_")


def _opens_with(record: JsonObject, start: str | tuple[str, ...]) -> bool:
    return parts_open_with(parts_of(record.get("content"), []), start)


def parts_open_with(parts: Sequence[Part], start: str | tuple[str, ...]) -> bool:
    """Return whether the first part is text that begins with one of these prefixes."""
    first = next(iter(parts), None)
    return isinstance(first, TextPart) and first.text.lstrip().startswith(start)
