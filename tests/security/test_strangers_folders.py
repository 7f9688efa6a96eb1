"""Untrusted session folders: nothing is written outside and nothing blocks."""

import ast
import asyncio
import os
import re
import socket
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import foldline
from foldline.cli import INTERNAL_ERROR
from foldline.history import Contents, Session, Unsent, keep_unsent, take_unsent
from foldline.history.outline_cache import OutlineCache
from foldline.protocol import FoldlineError, Title
from support.command_line import CommandLine
from support.damage import write_session

pytestmark = [
    pytest.mark.quick_cases(2),
    pytest.mark.skipif(sys.platform == "win32", reason="links and pipes are POSIX"),
]

FOLDERS = ("contents", "outputs")
FILES = (
    "meta.json",
    "holder.json",
    "index.jsonl",
    "unsent.json",
    "lock",
    "events.jsonl",
)
COMMANDS: dict[str, tuple[str, ...]] = {
    "doctor": ("doctor", "SESSION"),
    "repair": ("doctor", "SESSION", "--repair"),
    "rename": ("rename", "SESSION", "another title"),
    "compact": ("compact", "SESSION", "--strategy", "digest"),
    "fork": ("fork", "SESSION"),
    "import": ("import", "SESSION"),
    "export": ("export", "SESSION", "--to", "foldline", "--out", "out.foldline"),
    "view": ("view", "SESSION"),
    "verify": ("verify", "SESSION"),
    "list": ("sessions", "--all"),
    "search": ("search", "thanks"),
}


@pytest.fixture
def precious(tmp_path: Path) -> Path:
    """A folder of the user with files that must not change."""
    folder = tmp_path / "precious"
    folder.mkdir()
    for name in ("a.txt", ".b.1", ".c.tmp"):
        (folder / name).write_text("mine")
    return folder


def everything(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir()}


@pytest.fixture
def strangers(cli: CommandLine, tmp_path: Path) -> Path:
    """A session outside the data folder, damaged so that a repair has work to do."""
    events = write_session(tmp_path / "stranger")
    events.write_bytes(events.read_bytes() + b'{"type": torn')
    return events.parent


def predictable() -> list[str]:
    """Return every known or guessable name of a session's files, including temporary ones."""
    return [
        f".{name}{end}" for name in FILES for end in (f".{os.getpid()}", "", ".tmp")
    ]


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("kind", ["symbolic", "hard"])
def test_links_in_an_untrusted_session_lead_to_no_write_outside(
    cli: CommandLine, strangers: Path, precious: Path, command: str, kind: str
) -> None:
    for name in [*predictable(), *FILES[:-1]]:
        target = strangers / name
        target.unlink(missing_ok=True)
        target.symlink_to(
            precious / "a.txt"
        ) if kind == "symbolic" else target.hardlink_to(precious / "a.txt")
    for name in FOLDERS:
        (strangers / name).symlink_to(precious)
    before = everything(precious)
    said = cli(*(word.replace("SESSION", str(strangers)) for word in COMMANDS[command]))
    assert everything(precious) == before
    assert INTERNAL_ERROR not in said.err
    kept = [
        path
        for path in cli.home.rglob("*")
        if path.is_file() and path.read_bytes() == b"mine"
    ]
    assert kept == [], "what a link leads to is nothing of the session's"


@pytest.mark.parametrize("command", ["repair", "rename", "compact"])
def test_a_link_in_place_of_the_history_leads_to_no_write_outside(
    cli: CommandLine, strangers: Path, tmp_path: Path, command: str
) -> None:
    mine = write_session(tmp_path / "mine")
    (strangers / "events.jsonl").unlink()
    (strangers / "events.jsonl").symlink_to(mine)
    before = mine.read_bytes()
    cli(*(word.replace("SESSION", str(strangers)) for word in COMMANDS[command]))
    assert mine.read_bytes() == before


ODD_FILES: dict[str, Callable[[Path], object]] = {
    "pipe": os.mkfifo,
    "folder": os.mkdir,
    "endless": lambda path: path.symlink_to("/dev/zero"),
    "loop": lambda path: path.symlink_to(path.name),
    "nowhere": lambda path: path.symlink_to("/nowhere/at/all"),
    "socket": lambda path: _socket(path),
}


def _socket(path: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)  # the name of a socket is short
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(path.name)
    os.chdir(here)


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("kind", ODD_FILES)
def test_odd_files_in_place_of_a_sessions_files_do_not_block(
    cli: CommandLine, strangers: Path, command: str, kind: str
) -> None:
    for name in (*FILES[:-1], *FOLDERS):
        ODD_FILES[kind](strangers / name)
    said = cli(*(word.replace("SESSION", str(strangers)) for word in COMMANDS[command]))
    assert INTERNAL_ERROR not in said.err


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("kind", ODD_FILES)
def test_an_odd_file_in_place_of_the_history_does_not_block(
    cli: CommandLine, tmp_path: Path, command: str, kind: str
) -> None:
    events = write_session(cli.home)
    events.unlink()
    ODD_FILES[kind](events)
    said = cli(
        *(word.replace("SESSION", str(events.parent)) for word in COMMANDS[command])
    )
    assert said.code == (0 if command in ("list", "search") else 1)
    assert INTERNAL_ERROR not in said.err


async def test_a_pipe_in_place_of_an_open_history_does_not_block_the_exit(
    tmp_path: Path,
) -> None:
    """On exit, a chat writes the last entry, the snapshot and the cache."""
    session = Session.create(tmp_path, home=tmp_path / "home")
    await session.append(Title(title="one"))
    assert session.path is not None
    session._cache = OutlineCache(session.path, smallest_log=0)
    session.path.unlink()
    os.mkfifo(session.path)
    with pytest.raises(FoldlineError):
        await session.append(Title(title="two"), durable=True)
    session.save_meta()
    session.close()


def test_the_unsent_prompt_is_not_written_through_a_link(
    tmp_path: Path, precious: Path
) -> None:
    (tmp_path / ".unsent.json").symlink_to(precious / "a.txt")
    (tmp_path / "unsent.json").symlink_to(precious / "a.txt")
    keep_unsent(tmp_path, Unsent(draft="written"))
    assert take_unsent(tmp_path).draft == "written"
    assert everything(precious)["a.txt"] == "mine"


def test_contents_are_not_kept_in_a_linked_folder(
    tmp_path: Path, precious: Path
) -> None:
    (tmp_path / "contents").symlink_to(precious)
    with pytest.raises(OSError, match="link"):
        Contents(tmp_path).keep(b"said")
    assert len(everything(precious)) == 3


def test_the_cache_is_not_written_to_a_hard_linked_file(
    tmp_path: Path, precious: Path
) -> None:
    session = Session.create(tmp_path, home=tmp_path / "home")
    asyncio.run(session.append(Title(title="one")))
    assert session.path is not None
    session._cache = OutlineCache(session.path, smallest_log=0)
    session.save_meta()
    index, twin = session.path.with_name("index.jsonl"), precious / "twin"
    before = index.read_bytes()
    twin.hardlink_to(index)
    asyncio.run(session.append(Title(title="two")))
    session.save_meta()
    session.close()
    assert (twin.read_bytes(), index.stat().st_nlink) == (before, 1)


# --- opening files -------------------------------------------------------------------------------------

_SOURCES = Path(foldline.__file__).parent
_EXCEPTIONS = {
    "history/lock.py": "locks of others, without following a link; /proc",
    "formats/readers/opencode/store.py": "SQLite, to be read, after a look at its first bytes",
    "history/repair.py": "a folder, to see its changes on disk",
    "history/contents.py": "another name for a regular file",
    "compaction/strategy.py": "prompts, which the user may replace",
    "llm/providers.py": "a table of the program",
    "cli/acp/stdio.py": "stdin, by its descriptor",
    "cli/streams.py": "/dev/null",
    "llm/offline/grammar.py": "a table of the program",
    "agent/tools/process.py": "/proc",
    "agent/project/working_folder.py": "the working folder, to know it again, and not to be read",
    "agent/permissions/sandbox.py": "/proc",
    "agent/permissions/sandbox_launcher.py": "what a sandbox lets through, as a place and not to be read",
    "termination.py": "/proc",
    "frontend/editor.py": "a temporary folder",
    "tui/terminal/clipboard.py": "a temporary folder",
    "tui/terminal/app.py": "the terminal, by its descriptor",
}
"""Modules that open files directly, and the files they open."""
_PLAIN = {
    "read_bytes",
    "read_text",
    "write_bytes",
    "write_text",
    "mkstemp",
    "hardlink_to",
    "copy2",
    "copyfile",
}
_DATA_FILES = ("themes.py", "models.py", "html.py", "known_commands.py")
"""Modules that read data files of the program or the user's configuration."""


_MAY_OPEN = re.compile(rf"\bopen\(|sqlite3|{'|'.join(sorted(_PLAIN))}")


def _opens(source: str) -> set[str]:
    """Yield a module's calls that open files without checking them."""
    found: set[str] = set()
    if not _MAY_OPEN.search(source):
        return found
    for call in (
        node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)
    ):
        match call.func:
            case ast.Attribute(value=ast.Name(id="os"), attr="open"):
                found.add("os.open")
            case ast.Attribute(value=ast.Name(id="sqlite3"), attr="connect"):
                found.add("sqlite3")
            case ast.Name(id="open"):
                found.add("open")
            case ast.Attribute(attr="open") if call.args and isinstance(
                call.args[0], ast.Constant
            ):
                found.add(".open")
            case ast.Attribute(attr=name) if name in _PLAIN:
                found.add(name)
            case _:
                pass
    return found


def test_files_are_opened_only_in_foldline_files() -> None:
    """Exceptions are listed here with what they open."""
    found = {}
    for path in _SOURCES.rglob("*.py"):
        name = path.relative_to(_SOURCES).as_posix()
        if (
            name != "files.py"
            and path.name not in _DATA_FILES
            and (opens := _opens(path.read_text()))
        ):
            found[name] = opens
    assert found.keys() == _EXCEPTIONS.keys(), found
