"""Where other agents keep their sessions, and a light list of them: little of each file is read."""

import json
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from stat import S_ISREG
from typing import TYPE_CHECKING, BinaryIO

from foldline.context.numbers import some
from foldline.data import real_path
from foldline.files import opened, read_regular
from foldline.history.catalog import file_time
from foldline.history.meta import TITLE_CELLS, Meta, clip_cells, describe
from foldline.protocol import FoldlineError, system_words

from .base import EPOCH, ForeignSession
from .detection import FOREIGN, Format
from .neighbours import Neighbours
from .readers.kimi_cli.reader import rotations, session_id_of

if TYPE_CHECKING:
    from .readers.opencode.store import StoredSession

# --- excerpts -----------------------------------------------------------------------------------------
#
# A reader is run on an excerpt as on the whole: what a list says of the first prompt, the folder, the title
# and the model is then the reader's own word. A file may be of any size; an excerpt costs the same.

_STEPS = (32 * 1024, 192 * 1024, 1024 * 1024)
"""Bytes of the beginning, in which the first prompt is looked for. The first step does for most sessions;
others open with long instructions or a pasted image."""
_TAIL = 24 * 1024
"""Bytes of the end, where the newest title and the newest answer are."""


def excerpts(path: Path, begins_in: Path | None = None) -> Iterator[bytes]:
    """The whole lines at the beginning and at the end of a file, more of them each time: take the first
    excerpt that says enough.

    `begins_in` is another file, that holds the beginning of the session.

    Raises:
        OSError: a file cannot be read.
    """
    with opened(begins_in or path) as first, opened(path) as file:
        size = os.fstat(first.fileno()).st_size
        for reach in _STEPS:
            first.seek(0)
            head = first.read(reach)
            whole = len(head) >= size
            head = head if whole else head[: head.rfind(b"\n") + 1]
            if head or whole or reach == _STEPS[-1]:
                yield head.removesuffix(b"\n") + b"\n" + _last_lines(file, 0 if begins_in else len(head))
            if whole:
                break


def _last_lines(file: BinaryIO, after: int) -> bytes:
    """The whole lines at the end of a file, none of which begins before `after`."""
    size = os.fstat(file.fileno()).st_size
    start = max(after, size - _TAIL)
    file.seek(start)
    tail = file.read()
    return tail if start in (0, after) else tail.partition(b"\n")[2]


# --- the usual folders --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Place:
    """The usual folders of one agent."""

    agent: Format
    patterns: tuple[str, ...] = ()
    """What sessions are called below such a folder."""
    packed: tuple[str, ...] = ()
    """What sessions are called that the agent has compressed."""
    by_agent: bytes = b""
    """The first record of a sub-agent's session holds this, where its path does not tell."""

    def folders(self) -> list[Path]:
        """Where to look, by the environment of this moment. They need not exist."""
        return _folders(self.agent)

    def files(self) -> Iterator[Path]:
        """The sessions, in no order. Folders that are absent or closed to us hold none."""
        seen: set[Path] = set()
        for folder in self.folders():
            for pattern in self.patterns:
                for path in folder.glob(pattern):
                    if path not in seen and _is_session(self.agent, path):
                        seen.add(path)
                        yield path

    def id_of(self, path: Path) -> str:
        """A session's id, by its path alone: so it can be found without reading any."""
        match self.agent:
            case "codex":
                found = _UUID.search(path.stem)
                return found[0] if found else path.stem
            case "pi":
                return path.stem.rpartition("_")[2]
            case "gemini-cli":
                return path.stem.rpartition("-")[2]
            case "kimi-cli":
                return session_id_of(path)
            case "klaude-code" | "copilot" | "mistral-vibe":
                return path.parent.name
            case _:
                return path.stem

    def stored(self) -> "list[StoredSession]":
        """Its sessions that are no files of their own, where its store says itself what they are: opencode's.
        The database comes first: the folder holds what was there before it was made of it.

        Raises:
            FoldlineError: the store cannot be read.
        """
        if self.agent != "opencode":
            return []
        from .readers.opencode.store import stored_in_database, stored_in_files  # brings SQLite along

        found: dict[str, StoredSession] = {}
        for folder in self.folders():
            databases = map(stored_in_database, folder.glob("opencode*.db"))
            for one in chain(*databases, stored_in_files(folder / "storage")):
                found.setdefault(one.id, one)
        return list(found.values())

    def ids(self) -> dict[Path, str]:
        """The ids of the sessions, by what they are read by.

        Raises:
            FoldlineError: a store cannot be read.
        """
        files = {path: self.id_of(path) for path in self.files()}
        return files | {one.path: one.id for one in self.stored() if not one.parent}

    def packed_files(self) -> list[Path]:
        """Compressed sessions, which are not listed, apart from those that are there unpacked as well."""
        found = [path for folder in self.folders() for name in self.packed for path in folder.glob(name)]
        return sorted(path for path in found if not path.with_suffix("").is_file())


_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$")


def _home(variable: str, *usual: str) -> list[Path]:
    """The folder a variable of the environment names, else the usual ones of the home folder."""
    named = os.environ.get(variable, "").strip()
    if named:
        return [Path(os.path.expanduser(named))]  # noqa: PTH111 - pathlib's fails on unknown users
    return [Path.home() / name for name in usual]


def _folders(agent: Format) -> list[Path]:
    match agent:
        case "claude-code":
            config = _home("XDG_CONFIG_HOME", ".config")[0] / "claude"
            homes = _home("CLAUDE_CONFIG_DIR") or [Path.home() / ".claude", config]
            return [home / "projects" for home in homes]
        case "codex":
            home = _home("CODEX_HOME", ".codex")[0]
            return [home / "sessions", home / "archived_sessions"]
        case "pi":  # also those of Oh My Pi, which keeps pi's names and variables
            homes = _home("PI_CODING_AGENT_DIR", ".pi/agent", ".omp/agent")
            return _home("PI_CODING_AGENT_SESSION_DIR") or [home / "sessions" for home in homes]
        case "kimi-cli":  # also those of Kimi Code, its successor
            share, code = _home("KIMI_SHARE_DIR", ".kimi")[0], _home("KIMI_CODE_HOME", ".kimi-code")[0]
            return [share / "sessions", share / "imported_sessions", code / "sessions"]
        case "klaude-code":
            return [Path.home() / ".klaude" / "projects"]
        case "qwen-code":
            [home] = _home("QWEN_RUNTIME_DIR") or _home("QWEN_HOME", ".qwen")
            return [home / "projects", home / "tmp"]
        case _:
            known = _ONE_FOLDER.get(agent)
            return [_home(known[0], known[1])[0] / known[2]] if known else []


_ONE_FOLDER: dict[Format, tuple[str, str, str]] = {
    "copilot": ("COPILOT_HOME", ".copilot", "session-state"),
    "gemini-cli": ("GEMINI_CLI_HOME", "", ".gemini/tmp"),
    "mistral-vibe": ("VIBE_HOME", ".vibe", "logs/session/unified"),
    "opencode": ("XDG_DATA_HOME", ".local/share", "opencode"),
}
"""The variable that names the home of an agent, its usual name, and the one folder of sessions below it."""


def _is_session(agent: Format, path: Path) -> bool:
    """Tells sessions from what is named alike: those of sub-agents, and pieces of others."""
    match agent:
        case "claude-code":
            return not path.name.startswith("agent-")
        case "gemini-cli":
            return path.suffix == ".jsonl" or not path.with_suffix(".jsonl").is_file()
        case "mistral-vibe":
            return not path.parent.name.startswith("child-")
        case "kimi-cli":
            return _is_kimi_session(path)
        case _:
            return True


def _is_kimi_session(path: Path) -> bool:
    """A folder is one session: of its context, else of its wire. Older sessions are a file beside it."""
    if path.name == "context.jsonl":
        return True
    if path.name == "wire.jsonl":
        return not path.with_name("context.jsonl").is_file()
    piece = re.fullmatch(r"(.+?)(?:_(?:sub|read))?_[0-9]+", path.stem)
    whole = piece[1] if piece else path.stem
    moved = path.with_name(path.stem).joinpath("context.jsonl").is_file()
    return not moved and (piece is None or not path.with_name(whole + path.suffix).is_file())


PLACES = (
    Place("claude-code", ("*/*.jsonl",)),
    Place(
        "codex",
        ("*/*/*/*.jsonl", "*.jsonl"),
        packed=("*/*/*/*.jsonl.zst", "*.jsonl.zst"),
        by_agent=b'"source":{"subagent"',
    ),
    Place("pi", ("*/*.jsonl", "*.jsonl")),
    Place(
        "kimi-cli",
        ("*/*/context.jsonl", "*/context.jsonl", "*/*/wire.jsonl", "*/*/agents/main/wire.jsonl", "*/*.jsonl"),
    ),
    Place("klaude-code", ("*/sessions/*/events.jsonl",)),
    Place("opencode"),
    Place("gemini-cli", ("*/chats/session-*.jsonl", "*/chats/session-*.json"), by_agent=b'"kind":"subagent"'),
    Place("qwen-code", ("*/chats/*.jsonl",)),
    Place("copilot", ("*/events.jsonl",)),
    Place("mistral-vibe", ("*/CURRENT",)),
)

AGENTS: tuple[str, ...] = tuple(place.agent for place in PLACES)


def place_of(agent: str) -> Place | None:
    return next((place for place in PLACES if place.agent == agent), None)


# --- a list -------------------------------------------------------------------------------------------

_CWD = re.compile(rb'"cwd"\s*:\s*("(?:[^"\\]|\\.)*")')
_LATEST = 4_102_444_800_000
"""The year 2100, in milliseconds since 1970: later moments are no moments."""
_WHOLE = 4_000_000
"""Bytes up to which a session that is one document is read whole: no piece of one can be."""
_DAMAGED = "Damaged records are left out."
"""Which ones is not known here: an excerpt has other lines than its file."""


@dataclass(frozen=True, slots=True)
class FoundSession:
    """One line of a list of another agent's sessions, from the beginning and the end of its file. Its fields
    are what `--json` says, in this order."""

    id: str
    agent: Format
    title: str
    """The agent's own, else the first prompt; empty where nothing was typed near the beginning."""
    cwd: str
    path: Path
    size: int
    """Of the file, in bytes; 0 where it has none of its own."""
    updated_at: datetime
    first_prompt: str = ""
    model: str = ""
    note: str = ""
    """What is wrong with the file; empty where nothing is."""


def found_sessions(
    agents: Sequence[str], cwd: Path | None = None, limit: int | None = None
) -> list[FoundSession]:
    """The sessions of these agents, of one working folder or of all, the one last written to first.

    Only reads, and little of each file. What is torn or foreign is listed with a note, and fails nothing;
    the sessions of sub-agents are left out.
    """
    files = sorted(_files(agents), key=lambda file: (file.mtime, str(file.path)), reverse=True)
    neighbours, here = Neighbours(), _Here(cwd) if cwd else None
    found: list[FoundSession] = []
    for file in files:
        if limit is not None and len(found) >= limit:
            break
        session = _described(file, neighbours, here)
        if session is not None and (here is None or here.is_it(session.cwd)):
            found.append(session)
    found += [row for row in _stored(agents) if here is None or here.is_it(row.cwd) or row.note]
    return sorted(found, key=lambda session: session.updated_at, reverse=True)[:limit]


def find_found(ref: str) -> Path:
    """The file of the session that `AGENT:ID` names; the beginning or the end of an id will do.

    Raises:
        FoldlineError: no session, or more than one, answers to that.
    """
    agent, _, wanted = ref.partition(":")
    place = place_of(agent)
    if place is None:
        known = ", ".join(AGENTS)
        raise FoldlineError(f"There is no agent {agent!r}: Foldline knows the folders of {known}.")
    ids = place.ids()
    answering = [
        path for path, name in ids.items() if wanted and wanted in (name[: len(wanted)], name[-len(wanted) :])
    ]
    exact = [path for path in answering if ids[path] == wanted]
    match exact or answering:
        case [path]:
            return path
        case []:
            raise FoldlineError(
                f"There is no session {ref!r}: `foldline sessions --from {agent} --all` lists the ids."
            )
        case several:
            names = some(sorted(ids[path] for path in several))
            raise FoldlineError(f"{len(several)} sessions answer to {ref!r}: {names}; say more of the id.")


@dataclass(frozen=True, slots=True)
class _File:
    place: Place
    path: Path
    size: int
    mtime: float


def _files(agents: Sequence[str]) -> Iterator[_File]:
    for place in PLACES:
        for path in place.files() if place.agent in agents else ():
            try:
                status = path.stat()
            except OSError:
                continue  # gone since, or a link to nowhere
            if S_ISREG(status.st_mode):
                yield _File(place, path, status.st_size, status.st_mtime)


def _stored(agents: Sequence[str]) -> Iterator[FoundSession]:
    for place in PLACES:
        if place.agent not in agents:
            continue
        try:
            for one in place.stored():
                if not one.parent:
                    updated = datetime.fromtimestamp(min(one.updated, _LATEST) / 1000, UTC)
                    yield FoundSession(one.id, place.agent, one.title, one.cwd, one.path, 0, updated)
        except FoldlineError as error:
            folder = place.folders()[0]
            yield FoundSession(folder.name, place.agent, "", "", folder, 0, EPOCH, note=str(error))


class _Here:
    """Tells whether a recorded folder is this one, links followed."""

    def __init__(self, folder: Path) -> None:
        self._real = real_path(folder)
        self._known = {self._real: True, str(folder): True, "": False}

    def is_it(self, recorded: str) -> bool:
        if recorded not in self._known:
            try:
                self._known[recorded] = real_path(recorded) == self._real
            except OSError:  # no file system has such a path, or it may not be followed
                self._known[recorded] = False
        return self._known[recorded]

    def may_be_in(self, excerpt: bytes) -> bool:
        """Whether any record names it: what spares a reader the sessions of all other folders."""
        return any(map(self._is_quoted, _CWD.findall(excerpt)))

    def _is_quoted(self, text: bytes) -> bool:
        try:
            return self.is_it(str(json.loads(text)))
        except ValueError:
            return False


def _described(file: _File, neighbours: Neighbours, here: _Here | None) -> FoundSession | None:
    """What a list shows of a file; None where it is a sub-agent's, or cannot be of the folder asked for."""
    place, path = file.place, file.path
    session_id = place.id_of(path)
    beside = neighbours.of(place.agent, path, session_id)
    meta, note = Meta(id=session_id, cwd="", created_at=EPOCH, updated_at=EPOCH), ""
    # The beginning of a session of kimi-cli lies in its oldest state, which is another file.
    first = next(iter(rotations(path)), None) if path.name == "context.jsonl" else None
    try:
        whole = path.suffix == ".json" and file.size <= _WHOLE
        for excerpt in [read_regular(path)] if whole else excerpts(path, first):
            if beside.by_agent or (place.by_agent and place.by_agent in excerpt.partition(b"\n")[0]):
                return None
            if here is not None and not here.is_it(beside.cwd) and not here.may_be_in(excerpt):
                return None
            read = _read(place, excerpt, path)
            meta, note = describe(read.header, read.entries), _DAMAGED if read.damage else ""
            if meta.first_prompt:
                break
    except FoldlineError as error:
        note = str(error).replace(str(_alone(path)), str(path)) if file.size else f"{path} is empty."
    except OSError as error:
        note = f"{path} cannot be read: {system_words(error)}."
    return FoundSession(
        agent=place.agent,
        id=session_id,
        path=path,
        size=file.size,
        updated_at=file_time(file.mtime),
        cwd=meta.cwd or beside.cwd,
        title=clip_cells(beside.title, TITLE_CELLS) or meta.title,
        first_prompt=meta.first_prompt,
        model=meta.model,
        note=note,
    )


def _read(place: Place, excerpt: bytes, path: Path) -> ForeignSession:
    """What the reader says of these lines. It is not to read what lies in other files."""
    goes_on = place.agent in ("claude-code", "codex", "kimi-cli")
    alone = _alone(path) if goes_on else path
    reader = next(known for known in FOREIGN if known.name == place.agent)
    return reader.read(excerpt, alone)


def _alone(path: Path) -> Path:
    """A path of the same name with nothing beside it."""
    return Path(os.devnull, path.parent.name, path.name)
