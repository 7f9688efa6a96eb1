"""The subagents of a Claude Code session, in its own file or in files beside it.

Until version 2.0 their records are among the session's, marked `isSidechain`. Later ones have files,
`agent-ID.jsonl` beside the session or in its folder `subagents`; some repeat their records as `progress`.
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
from foldline.formats.parts import first_text
from foldline.history import Damage

from .messages import blocks_of, uuid_of

Read = Callable[[Sequence[JsonLine], Damage], ForeignSession]
_NO_SUBAGENTS = ("acompact-", "aprompt_", "aside_question-")
"""How the ids of compactions and of questions in passing begin: they have such files, too."""


def is_sidechain(record: JsonObject) -> bool:
    """Return whether a record belongs to a subagent."""
    return record.flag("isSidechain") or record.at("data", "type") == "agent_progress"


def children_of(
    main: Sequence[JsonLine], aside: Sequence[JsonLine], path: Path, read: Read
) -> Iterator[ForeignChild]:
    """Yield the subagents of the session in this file.

    Args:
        main: the session's own records.
        aside: the records of subagents.
    """
    calls = _calls(main, aside)
    with_files: set[str] = set()
    for name, file in _files(path, calls):
        lines, damage = json_lines(bytes_in(file))
        if lines and all(is_sidechain(line.record) for line in lines if line.kind == "user"):
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
    """Return the calls that started subagents, by the subagents' ids."""
    calls: dict[str, str] = {}
    for line in aside:
        if name := line.record.text("data", "agentId"):
            calls[name] = line.record.text("parentToolUseID")
    for line in main:
        if name := line.record.text("toolUseResult", "agentId"):
            calls[name] = first_text(block.text("tool_use_id") for block in blocks_of(line.record)[:1])
    return calls


def _files(path: Path, names: Iterable[str]) -> Iterator[tuple[str, Path]]:
    """Yield the ids and files of subagents."""
    in_folder = sorted((path.with_suffix("") / "subagents").glob("agent-*.jsonl"))
    next_to_it = [path.parent / f"agent-{name}.jsonl" for name in names if name.isalnum()]
    for file in (*in_folder, *next_to_it):
        name = file.stem.removeprefix("agent-")
        if is_file(file) and not name.startswith(_NO_SUBAGENTS):
            yield name, file


def _groups(aside: Sequence[JsonLine]) -> dict[str, list[JsonLine]]:
    """Group the records by subagent, or by first record."""
    groups: dict[str, list[JsonLine]] = {}
    first_records: dict[str, str] = {}
    """The first record of the chain of each record."""
    for line in aside:
        record = line.record
        message = record.object("data", "message")
        if message:
            name = record.text("data", "agentId") or record.text("parentToolUseID")
            group = groups.setdefault(name, [])
            group.append(_repeated(line, message, group))
            continue
        uuid = uuid_of(line)
        name = record.text("agentId") or first_records.get(record.text("parentUuid"), uuid)
        first_records[uuid] = name
        groups.setdefault(name, []).append(line)
    return {name: lines for name, lines in groups.items() if name}


def _repeated(line: JsonLine, message: JsonObject, group: Sequence[JsonLine]) -> JsonLine:
    """Return the record that a `progress` record repeats."""
    fields: JsonObject = JsonObject(
        {key: line.record[key] for key in ("cwd", "sessionId") if key in line.record}
    )
    parent = group[-1].record.get("uuid") if group else None
    return JsonLine(
        line.position, JsonObject({**fields, **message, "parentUuid": parent, "isSidechain": True})
    )
