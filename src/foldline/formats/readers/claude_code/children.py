"""Reads a Claude Code session's subagents, from its own file or files next to it.

Before version 2.0, the session's file also contains the subagents' records, which are marked `isSidechain`.
Later versions write `agent-ID.jsonl` files, next to the session's file or in its `subagents` folder. Some of
these versions repeat the records in the session's file, as records of the type `progress`.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from foldline.files import is_file
from foldline.formats.base import (
    ForeignChild,
    ForeignSession,
    JsonLine,
    JsonObject,
    bytes_in,
    child_of,
    json_lines,
    object_in,
)
from foldline.history import Damage

from .messages import blocks_of, uuid_of

Read = Callable[[Sequence[JsonLine], Damage], ForeignSession]
_NO_SUBAGENTS = ("acompact-", "aprompt_", "aside_question-")
"""Prefixes of ids that do not belong to subagents.

Compactions and side questions also have `agent-ID.jsonl` files.
"""


def is_sidechain(record: JsonObject) -> bool:
    """Return whether a record belongs to a subagent."""
    return record.flag("isSidechain") or record.at("data", "type") == "agent_progress"


def children_of(
    main: Sequence[JsonLine],
    aside: Sequence[JsonLine],
    path: Path,
    read: Read,
) -> Iterator[ForeignChild]:
    """Yield the subagents of the session in this file.

    Args:
        main: the records of the session itself.
        aside: the records of its subagents.
    """
    calls = _calls(main, aside)
    with_files = set()
    for name, file in _files(path, calls):
        lines, damage = json_lines(bytes_in(file))
        prompts = (line.record for line in lines if line.kind == "user")
        if lines and all(map(is_sidechain, prompts)):
            with_files.add(name)
            meta = object_in(file.with_suffix(".meta.json"))
            yield child_of(
                read(lines, damage),
                name,
                agent=meta.text("agentType"),
                title=meta.text("description"),
                call_id=meta.text("toolUseId") or calls.get(name, ""),
            )
    for name, lines in _groups(aside).items():
        if name not in with_files:
            yield child_of(read(lines, Damage()), name, call_id=calls.get(name, ""))


def _calls(main: Iterable[JsonLine], aside: Iterable[JsonLine]) -> dict[str, str]:
    """Return the ids of the calls that started subagents, by the subagents' ids."""
    calls = {}
    for line in aside:
        name = line.record.text("data", "agentId")
        calls[name] = line.record.text("parentToolUseID")
    for line in main:
        name = line.record.text("toolUseResult", "agentId")
        blocks = blocks_of(line.record)
        if name:
            calls[name] = blocks[0].text("tool_use_id") if blocks else ""
    calls.pop("", None)
    return calls


def _files(path: Path, names: Iterable[str]) -> Iterator[tuple[str, Path]]:
    """Yield the id and the file of each subagent."""
    folder = path.with_suffix("") / "subagents"
    files = sorted(folder.glob("agent-*.jsonl"))
    files += [path.parent / f"agent-{name}.jsonl" for name in names if name.isalnum()]
    for file in files:
        name = file.stem.removeprefix("agent-")
        if is_file(file) and not name.startswith(_NO_SUBAGENTS):
            yield name, file


def _groups(aside: Sequence[JsonLine]) -> dict[str, list[JsonLine]]:
    """Group records by subagent.

    A subagent is identified by its id or, without one, by the first record in its chain.
    """
    groups: dict[str, list[JsonLine]] = {}
    first_records: dict[str, str] = {}
    """The first record in each record's chain."""
    for line in aside:
        record = line.record
        message = record.object("data", "message")
        if message:
            name = record.text("data", "agentId") or record.text("parentToolUseID")
            group = groups.setdefault(name, [])
            group.append(_repeated(line, message, group))
            continue
        uuid = uuid_of(line)
        name = record.text("agentId") or first_records.get(
            record.text("parentUuid"), uuid
        )
        first_records[uuid] = name
        groups.setdefault(name, []).append(line)
    return {name: lines for name, lines in groups.items() if name}


def _repeated(
    line: JsonLine, message: JsonObject, group: Sequence[JsonLine]
) -> JsonLine:
    """Return the original record that a `progress` record repeats."""
    record = JsonObject()
    for key in ("cwd", "sessionId"):
        if key in line.record:
            record[key] = line.record[key]
    record |= message
    record["parentUuid"] = group[-1].record.get("uuid") if group else None
    record["isSidechain"] = True
    return JsonLine(line.position, record)
