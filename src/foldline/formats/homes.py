"""The folders in which other agents keep their sessions.

Sessions are found by their names and paths, without reading their content.
"""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final

from foldline.data import matches_id
from foldline.protocol import FoldlineError
from foldline.text.numbers import some

from .detection import Format

if TYPE_CHECKING:
    from foldline.formats.readers.opencode.store import StoredSession


@dataclass(frozen=True, slots=True)
class AgentFolders:
    """The usual session folders of one agent."""

    agent: Format
    patterns: tuple[str, ...] = ()
    """Globs for session files below the agent's folders."""
    packed: tuple[str, ...] = ()
    """Globs for session files that the agent has compressed."""
    subagent_mark: bytes = b""
    """Bytes that occur only in the first record of a subagent's session.

    Empty if its path already identifies such a session.
    """

    def folders(self) -> list[Path]:
        """Return the folders to search. They need not exist."""
        return _folders(self.agent)

    def files(self) -> Iterator[Path]:
        """Yield the session files, in no particular order."""
        seen: set[Path] = set()
        for folder in self.folders():
            for pattern in self.patterns:
                for path in folder.glob(pattern):
                    if path not in seen and _is_session(self.agent, path):
                        seen.add(path)
                        yield path

    def id_of(self, path: Path) -> str:
        """Return a session's id, derived from the path alone."""
        match self.agent:
            case "codex":
                uuid = _UUID.search(path.stem)
                return uuid[0] if uuid else path.stem
            case "pi":
                return path.stem.rpartition("_")[2]
            case "gemini-cli":
                return path.stem.rpartition("-")[2]
            case "kimi-cli":
                from foldline.formats.readers.kimi_cli.reader import (
                    session_id_of,  # a reader is imported only if the agent has sessions
                )

                return session_id_of(path)
            case "klaude-code" | "copilot" | "mistral-vibe":
                return path.parent.name
            case _:
                return path.stem

    def stored(self) -> "list[StoredSession]":
        """Return the sessions that opencode keeps in its store instead of in files.

        Raises:
            FoldlineError: the store cannot be read.
        """
        if self.agent != "opencode":
            return []
        from foldline.formats.readers.opencode.store import (
            stored_in_database,
            stored_in_files,
        )  # imports SQLite

        sessions: dict[str, StoredSession] = {}
        for folder in self.folders():
            databases = map(stored_in_database, folder.glob("opencode*.db"))
            # opencode created its database from the folder `storage`, which may still exist
            for session in chain(*databases, stored_in_files(folder / "storage")):
                sessions.setdefault(session.id, session)
        return list(sessions.values())

    def ids(self) -> dict[Path, str]:
        """Return the ids of all sessions by path, excluding subagents.

        Raises:
            FoldlineError: a store cannot be read.
        """
        ids = {path: self.id_of(path) for path in self.files()}
        ids |= {
            session.path: session.id for session in self.stored() if not session.parent
        }
        return ids

    def packed_files(self) -> list[Path]:
        """Return the compressed sessions that have no uncompressed copy."""
        packed = (
            path
            for folder in self.folders()
            for glob in self.packed
            for path in folder.glob(glob)
        )
        return sorted(path for path in packed if not path.with_suffix("").is_file())


_UUID: Final = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$")


def _home(variable: str, *usual: str) -> list[Path]:
    """Return the folder named by an environment variable.

    If the variable is not set, returns the usual folders.
    """
    value = os.environ.get(variable, "").strip()
    if value:
        return [Path(os.path.expanduser(value))]  # noqa: PTH111 - pathlib fails for unknown users
    return [Path.home() / name for name in usual]


def _folders(agent: Format) -> list[Path]:
    match agent:
        case "claude-code":
            config = _home("XDG_CONFIG_HOME", ".config")[0] / "claude"
            homes = _home("CLAUDE_CONFIG_DIR") or [Path.home() / ".claude", config]
            return [home / "projects" for home in homes]
        case "codex":
            [home] = _home("CODEX_HOME", ".codex")
            return [home / "sessions", home / "archived_sessions"]
        case "pi":  # and Oh My Pi, which keeps pi's names and variables
            homes = _home("PI_CODING_AGENT_DIR", ".pi/agent", ".omp/agent")
            return _home("PI_CODING_AGENT_SESSION_DIR") or [
                home / "sessions" for home in homes
            ]
        case "kimi-cli":  # and Kimi Code, its successor
            [share] = _home("KIMI_SHARE_DIR", ".kimi")
            [code] = _home("KIMI_CODE_HOME", ".kimi-code")
            return [share / "sessions", share / "imported_sessions", code / "sessions"]
        case "klaude-code":
            return [Path.home() / ".klaude" / "projects"]
        case "qwen-code":
            [home] = _home("QWEN_RUNTIME_DIR") or _home("QWEN_HOME", ".qwen")
            return [home / "projects", home / "tmp"]
        case _:
            variable, usual, below = _ONE_FOLDER[agent]
            return [home / below for home in _home(variable, usual)]


_ONE_FOLDER: Final[dict[Format, tuple[str, str, str]]] = {
    "copilot": ("COPILOT_HOME", ".copilot", "session-state"),
    "gemini-cli": ("GEMINI_CLI_HOME", "", ".gemini/tmp"),
    "mistral-vibe": ("VIBE_HOME", ".vibe", "logs/session/unified"),
    "opencode": ("XDG_DATA_HOME", ".local/share", "opencode"),
}
"""Session folders of agents that use a single folder.

For each agent: the variable that contains the home folder, the default home, and the session folder inside
it.
"""


def _is_session(agent: Format, path: Path) -> bool:
    """Return whether a matching file is a session in its own right, not part of another."""
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
    """Return whether this file represents a kimi-cli session.

    A session is a folder, represented by its `context.jsonl` or, if there is none, by its `wire.jsonl`. Older
    sessions are single files, with numbered parts next to them.
    """
    if path.name == "context.jsonl":
        return True
    if path.name == "wire.jsonl":
        return not path.with_name("context.jsonl").is_file()
    if path.with_name(path.stem).joinpath("context.jsonl").is_file():
        return False  # the session has since been moved into a folder
    part = re.fullmatch(r"(.+?)(?:_(?:sub|read))?_[0-9]+", path.stem)
    return part is None or not path.with_name(part[1] + path.suffix).is_file()


AGENT_FOLDERS: Final = (
    AgentFolders("claude-code", ("*/*.jsonl",)),
    AgentFolders(
        "codex",
        ("*/*/*/*.jsonl", "*.jsonl"),
        packed=("*/*/*/*.jsonl.zst", "*.jsonl.zst"),
        subagent_mark=b'"source":{"subagent"',
    ),
    AgentFolders("pi", ("*/*.jsonl", "*.jsonl")),
    AgentFolders(
        "kimi-cli",
        (
            "*/*/context.jsonl",
            "*/context.jsonl",
            "*/*/wire.jsonl",
            "*/*/agents/main/wire.jsonl",
            "*/*.jsonl",
        ),
    ),
    AgentFolders("klaude-code", ("*/sessions/*/events.jsonl",)),
    AgentFolders("opencode"),
    AgentFolders(
        "gemini-cli",
        ("*/chats/session-*.jsonl", "*/chats/session-*.json"),
        subagent_mark=b'"kind":"subagent"',
    ),
    AgentFolders("qwen-code", ("*/chats/*.jsonl",)),
    AgentFolders("copilot", ("*/events.jsonl",)),
    AgentFolders("mistral-vibe", ("*/CURRENT",)),
)

AGENTS: Final[tuple[str, ...]] = tuple(folders.agent for folders in AGENT_FOLDERS)


def folders_of(agent: str) -> AgentFolders | None:
    return next((folders for folders in AGENT_FOLDERS if folders.agent == agent), None)


NO_SUCH_AGENT = "Unknown agent {agent!r}. Available: {agents}."
NO_SUCH_SESSION = "There is no session {ref!r}. Run `foldline sessions --from {agent} --all` to list the ids."
AMBIGUOUS = "{ref!r} matches {count} sessions: {ids}. Give more of the id."


def find_in_homes(ref: str) -> Path:
    """Find a session by `AGENT:ID`.

    ID may also be the beginning or the end of an id.

    Raises:
        FoldlineError: no session or more than one session matches.
    """
    agent, _, wanted_id = ref.partition(":")
    folders = folders_of(agent)
    if folders is None:
        available = ", ".join(AGENTS)
        raise FoldlineError(NO_SUCH_AGENT, agent=agent, agents=available)
    ids = folders.ids()
    matches = [path for path, name in ids.items() if name == wanted_id]
    if not matches:
        matches = [path for path, name in ids.items() if matches_id(name, wanted_id)]
    match matches:
        case [path]:
            return path
        case []:
            raise FoldlineError(NO_SUCH_SESSION, ref=ref, agent=agent)
        case _:
            names = some(sorted(ids[path] for path in matches))
            count = len(matches)
            raise FoldlineError(AMBIGUOUS, ref=ref, count=count, ids=names)
