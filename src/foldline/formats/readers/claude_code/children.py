"""The subagents of a Claude Code session: in its own file, or in files of their own beside it.

Until version 2.0 their records stand among the session's, marked `isSidechain`. Later ones have files,
`agent-ID.jsonl` beside the session or in its folder `subagents`; some repeat what is in them as `progress`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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

from .messages import blocks_of

Read = Callable[[Sequence[JsonLine], Damage], ForeignSession]


def is_sidechain(record: JsonObject) -> bool:
    """Whether a record belongs to a subagent."""
    return record.get("isSidechain") is True or record.at("data", "type") == "agent_progress"


def children_of(
    main: Sequence[JsonLine], aside: Sequence[JsonLine], path: Path, read: Read
) -> Iterator[ForeignChild]:
    """The subagents of the session in this file. `main` are its own records, `aside` those of subagents."""
    calls = _calls(main, aside)
    seen: set[str] = set()
    for name, file in _files(path, calls):
        lines, damage = json_lines(bytes_in(file))
        if lines and all(is_sidechain(line.record) for line in lines if line.record.get("type") == "user"):
            seen.add(name)
            about = object_in(file.with_suffix(".meta.json"))
            yield child_of(
                read(lines, damage),
                name,
                agent=about.text("agentType"),
                title=about.text("description"),
                call_id=about.text("toolUseId") or calls.get(name, ""),
            )
    for name, lines in _groups(aside).items():
        if name not in seen:
            yield child_of(read(lines, Damage()), name, call_id=calls.get(name, ""))


def _calls(main: Iterable[JsonLine], aside: Iterable[JsonLine]) -> dict[str, str]:
    """The calls that started subagents, by their ids: results say so, and what repeats their records does."""
    calls = {
        line.record.text("data", "agentId"): line.record.text("parentToolUseID")
        for line in aside
        if line.record.text("data", "agentId")
    }
    for line in main:
        if name := line.record.text("toolUseResult", "agentId"):
            calls[name] = next((block.text("tool_use_id") for block in blocks_of(line.record)), "")
    return calls


def _files(path: Path, named: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    """Ids and files of subagents. What is compacted or asked in passing has such files, too."""
    beside = [path.parent / f"agent-{name}.jsonl" for name in named if name.isalnum()]
    for file in (*sorted((path.with_suffix("") / "subagents").glob("agent-*.jsonl")), *beside):
        name = file.stem.removeprefix("agent-")
        if is_file(file) and not name.startswith(("acompact-", "aprompt_", "aside_question-")):
            yield name, file


def _groups(aside: Sequence[JsonLine]) -> dict[str, list[JsonLine]]:
    """The records of each subagent, by its id; else by the record that their chain begins with."""
    groups: dict[str, list[JsonLine]] = {}
    begun: dict[str, str] = {}
    for line in aside:
        record = line.record
        if message := record.object("data", "message"):
            name = record.text("data", "agentId") or record.text("parentToolUseID")
            before = groups.get(name, [])
            parent = before[-1].record.get("uuid") if before else None
            outer = {key: record[key] for key in ("cwd", "sessionId") if key in record}
            said = JsonObject({**outer, **message, "parentUuid": parent, "isSidechain": True})
            groups.setdefault(name, []).append(JsonLine(line.position, said))
            continue
        uuid = record.text("uuid")
        name = record.text("agentId") or begun.get(record.text("parentUuid"), uuid)
        begun[uuid] = name
        groups.setdefault(name, []).append(line)
    return {name: lines for name, lines in groups.items() if name}
