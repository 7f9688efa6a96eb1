"""Where other agents keep their sessions: their usual folders, and which files there are sessions."""

import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from ..kimi import session_id_of
from ..kimi_context import rotations
from ..known import Format
from .excerpt import Marks

if TYPE_CHECKING:
    from ..opencode_store import StoredSession

_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$")


def _stem(path: Path) -> str:
    return path.stem


def _uuid_at_the_end(path: Path) -> str:
    found = _UUID.search(path.stem)
    return found[0] if found else path.stem


def _behind_the_time(path: Path) -> str:
    return path.stem.rpartition("_")[2]


def _behind_the_dashes(path: Path) -> str:
    return path.stem.rpartition("-")[2]


def _folder(path: Path) -> str:
    return path.parent.name


@dataclass(frozen=True, slots=True)
class Place:
    """The usual folders of one agent."""

    agent: Format
    folders: Callable[[], list[Path]]
    """Where to look, by the environment of this moment. They need not exist."""
    patterns: tuple[str, ...] = ()
    """What sessions are called below such a folder."""
    packed: tuple[str, ...] = ()
    """What sessions are called that the agent has compressed."""
    id_of: Callable[[Path], str] = _stem
    """A session's id, by its path alone: so it can be found without reading any."""
    is_session: Callable[[Path], bool] = lambda _: True
    """Tells sessions from what is named alike: those of sub-agents, and pieces of others."""
    marks: Marks = field(default_factory=Marks)
    by_agent: bytes = b""
    """The first record of a sub-agent's session holds this, where its path does not tell."""
    stored: Callable[[], Sequence["StoredSession"]] = lambda: ()
    """Its sessions that are no files of their own, where its store says itself what they are.

    Raises:
        FoldlineError: the store cannot be read.
    """

    def files(self) -> Iterator[Path]:
        """The sessions, in no order. Folders that are absent or closed to us hold none."""
        seen: set[Path] = set()
        for folder in self.folders():
            for pattern in self.patterns:
                for path in folder.glob(pattern):
                    if path not in seen and self.is_session(path):
                        seen.add(path)
                        yield path

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


def _home(variable: str, *usual: str) -> list[Path]:
    """The folder a variable of the environment names, else the usual ones of the home folder."""
    named = os.environ.get(variable, "").strip()
    if named:
        return [Path(os.path.expanduser(named))]  # noqa: PTH111 - pathlib's fails on unknown users
    return [Path.home() / name for name in usual]


def _claude_code() -> list[Path]:
    config = _home("XDG_CONFIG_HOME", ".config")[0] / "claude"
    homes = _home("CLAUDE_CONFIG_DIR") or [Path.home() / ".claude", config]
    return [home / "projects" for home in homes]


def _codex() -> list[Path]:
    home = _home("CODEX_HOME", ".codex")[0]
    return [home / "sessions", home / "archived_sessions"]


def _pi() -> list[Path]:
    """Also those of Oh My Pi, which keeps pi's names and variables."""
    agents = _home("PI_CODING_AGENT_DIR", ".pi/agent", ".omp/agent")
    return _home("PI_CODING_AGENT_SESSION_DIR") or [agent / "sessions" for agent in agents]


def _kimi() -> list[Path]:
    """Also those of Kimi Code, its successor."""
    share, code = _home("KIMI_SHARE_DIR", ".kimi")[0], _home("KIMI_CODE_HOME", ".kimi-code")[0]
    return [share / "sessions", share / "imported_sessions", code / "sessions"]


def _klaude() -> list[Path]:
    return [Path.home() / ".klaude" / "projects"]


def _opencode() -> list[Path]:
    return [_home("XDG_DATA_HOME", ".local/share")[0] / "opencode"]


def _stored_by_opencode() -> "list[StoredSession]":
    """The database comes first: the folder holds what was there before it was made of it."""
    from ..opencode_store import stored_in_database, stored_in_files  # brings SQLite along

    found: dict[str, StoredSession] = {}
    for folder in _opencode():
        stores = (*map(stored_in_database, folder.glob("opencode*.db")), stored_in_files(folder / "storage"))
        for one in chain.from_iterable(stores):
            found.setdefault(one.id, one)
    return list(found.values())


def _gemini() -> list[Path]:
    return [_home("GEMINI_CLI_HOME", "")[0] / ".gemini" / "tmp"]


def _qwen() -> list[Path]:
    home = _home("QWEN_RUNTIME_DIR") if os.environ.get("QWEN_RUNTIME_DIR") else _home("QWEN_HOME", ".qwen")
    return [home[0] / "projects", home[0] / "tmp"]


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
    Place(
        "claude-code",
        _claude_code,
        ("*/*.jsonl",),
        is_session=lambda path: not path.name.startswith("agent-"),
        marks=Marks(
            prompts=(b'"user"', b'"queued_command"'),
            no_prompts=(b'"tool_result"', b'"isMeta":true'),
            beside=(b'"customTitle"', b'"aiTitle"'),
            answers=(b'"assistant"',),
        ),
    ),
    Place(
        "codex",
        _codex,
        ("*/*/*/*.jsonl", "*.jsonl"),
        packed=("*/*/*/*.jsonl.zst", "*.jsonl.zst"),
        id_of=_uuid_at_the_end,
        by_agent=b'"source":{"subagent"',
        marks=Marks(
            prompts=(b'"user_message"', b'"UserMessage"', b'"user"'),
            settles=b'"user_message"',
            beside=(b'"thread_name_updated"',),
            answers=(b'"turn_context"',),
        ),
    ),
    Place(
        "pi",
        _pi,
        ("*/*.jsonl", "*.jsonl"),
        id_of=_behind_the_time,
        marks=Marks(
            prompts=(b'"user"',),
            no_prompts=(b'"toolResult"',),
            beside=(b'"session"', b'"session_info"', b'"title"', b'"model_change"'),
            answers=(b'"assistant"',),
        ),
    ),
    Place(
        "kimi-cli",
        _kimi,
        ("*/*/context.jsonl", "*/context.jsonl", "*/*/wire.jsonl", "*/*/agents/main/wire.jsonl", "*/*.jsonl"),
        id_of=session_id_of,
        is_session=_is_kimi_session,
        marks=Marks(
            prompts=(b'"user"', b'"TurnBegin"'),
            no_prompts=(b'"tool"',),
            beside=(b'"cwd"', b'"config.update"', b'"profile.bind"'),
        ),
    ),
    Place(
        "klaude-code",
        _klaude,
        ("*/sessions/*/events.jsonl",),
        id_of=_folder,
        marks=Marks(prompts=(b'"UserMessage"',), answers=(b'"AssistantMessage"',)),
    ),
    Place(
        "opencode",
        _opencode,
        stored=_stored_by_opencode,
    ),
    Place(
        "gemini-cli",
        _gemini,
        ("*/chats/session-*.jsonl", "*/chats/session-*.json"),
        id_of=_behind_the_dashes,
        by_agent=b'"kind":"subagent"',
        is_session=lambda path: path.suffix == ".jsonl" or not path.with_suffix(".jsonl").is_file(),
        marks=Marks(
            prompts=(b'"user"',),
            no_prompts=(b'"functionResponse"',),
            beside=(b'"projectHash"', b'"summary"'),
            answers=(b'"gemini"',),
        ),
    ),
    Place(
        "qwen-code",
        _qwen,
        ("*/chats/*.jsonl",),
        marks=Marks(
            prompts=(b'"user"',),
            no_prompts=(b'"functionResponse"',),
            beside=(b'"custom_title"',),
            answers=(b'"assistant"',),
        ),
    ),
)

AGENTS: tuple[str, ...] = tuple(place.agent for place in PLACES)
"""The agents that have usual folders, by the names of their formats."""


def place_of(agent: str) -> Place | None:
    return next((place for place in PLACES if place.agent == agent), None)


def begins_in(path: Path) -> Path | None:
    """The file that holds the beginning of a session, where that is another one: kimi-cli's oldest state."""
    return next(iter(rotations(path)), None) if path.name == "context.jsonl" else None
