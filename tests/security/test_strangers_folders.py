"""A session's folder that came from a stranger: nothing outside of it is written, and nobody waits."""

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
from foldline.history import Contents, Session, Unsent, keep_unsent, take_unsent
from foldline.history.index import Index
from foldline.protocol import FoldlineError, Title
from support.damaged import kept_session
from support.front_door import FrontDoor

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="links and pipes are POSIX")

FOLDERS = ("contents", "outputs")
FILES = ("meta.json", "holder.json", "index.jsonl", "unsent.json", "lock", "events.jsonl")
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
    """A folder of the user's, with files that must stay as they are."""
    folder = tmp_path / "precious"
    folder.mkdir()
    for name in ("a.txt", ".b.1", ".c.tmp"):
        (folder / name).write_text("mine")
    return folder


def everything(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir()}


@pytest.fixture
def strangers(door: FrontDoor, tmp_path: Path) -> Path:
    """A session that lies outside of the data folder, damaged, so that there is something to repair."""
    events = kept_session(tmp_path / "stranger")
    events.write_bytes(events.read_bytes() + b'{"type": torn')
    return events.parent


def predictable() -> list[str]:
    """Every name a file beside a session ever had, or could be guessed to have, until it is whole."""
    return [f".{name}{end}" for name in FILES for end in (f".{os.getpid()}", "", ".tmp")]


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("kind", ["symbolic", "hard"])
def test_links_in_a_strangers_session_lead_no_write_outside(
    door: FrontDoor, strangers: Path, precious: Path, command: str, kind: str
) -> None:
    for name in [*predictable(), *FILES[:-1]]:
        target = strangers / name
        target.unlink(missing_ok=True)
        target.symlink_to(precious / "a.txt") if kind == "symbolic" else target.hardlink_to(
            precious / "a.txt"
        )
    for name in FOLDERS:
        (strangers / name).symlink_to(precious)
    before = everything(precious)
    said = door(*(word.replace("SESSION", str(strangers)) for word in COMMANDS[command]))
    assert everything(precious) == before
    assert "an error in Foldline itself" not in said.err
    kept = [path for path in door.home.rglob("*") if path.is_file() and path.read_bytes() == b"mine"]
    assert kept == [], "what a link leads to is nothing of the session's"


@pytest.mark.parametrize("command", ["repair", "rename", "compact"])
def test_a_link_in_place_of_the_history_leads_no_write_outside(
    door: FrontDoor, strangers: Path, tmp_path: Path, command: str
) -> None:
    mine = kept_session(tmp_path / "mine")
    (strangers / "events.jsonl").unlink()
    (strangers / "events.jsonl").symlink_to(mine)
    before = mine.read_bytes()
    door(*(word.replace("SESSION", str(strangers)) for word in COMMANDS[command]))
    assert mine.read_bytes() == before


ODD: dict[str, Callable[[Path], object]] = {
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
@pytest.mark.parametrize("kind", ODD)
def test_anything_in_place_of_a_file_beside_a_session_holds_nobody_up(
    door: FrontDoor, strangers: Path, command: str, kind: str
) -> None:
    for name in (*FILES[:-1], *FOLDERS):
        ODD[kind](strangers / name)
    said = door(*(word.replace("SESSION", str(strangers)) for word in COMMANDS[command]))
    assert "an error in Foldline itself" not in said.err


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("kind", ODD)
def test_anything_in_place_of_the_history_holds_nobody_up(
    door: FrontDoor, tmp_path: Path, command: str, kind: str
) -> None:
    events = kept_session(door.home)
    events.unlink()
    ODD[kind](events)
    said = door(*(word.replace("SESSION", str(events.parent)) for word in COMMANDS[command]))
    assert said.code == (0 if command in ("list", "search") else 1)
    assert "an error in Foldline itself" not in said.err


async def test_a_pipe_that_takes_the_place_of_a_history_that_is_open_holds_no_end_up(tmp_path: Path) -> None:
    """What a chat does when it is told to end: it writes the last entry, the snapshot and the index."""
    session = Session.create(tmp_path, home=tmp_path / "home")
    await session.append(Title(title="one"))
    assert session.path is not None
    session._index = Index(session.path, least=0)
    session.path.unlink()
    os.mkfifo(session.path)
    with pytest.raises(FoldlineError):
        await session.append(Title(title="two"), durable=True)
    session.save_meta()
    session.close()


def test_the_draft_of_a_prompt_goes_through_no_link(tmp_path: Path, precious: Path) -> None:
    (tmp_path / ".unsent.json").symlink_to(precious / "a.txt")
    (tmp_path / "unsent.json").symlink_to(precious / "a.txt")
    keep_unsent(tmp_path, Unsent(draft="written"))
    assert take_unsent(tmp_path).draft == "written"
    assert everything(precious)["a.txt"] == "mine"


def test_contents_are_kept_in_no_folder_of_anybody_else(tmp_path: Path, precious: Path) -> None:
    (tmp_path / "contents").symlink_to(precious)
    with pytest.raises(OSError, match="link"):
        Contents(tmp_path).keep(b"said")
    assert len(everything(precious)) == 3


def test_the_index_goes_on_in_no_file_that_has_another_name(tmp_path: Path, precious: Path) -> None:
    session = Session.create(tmp_path, home=tmp_path / "home")
    asyncio.run(session.append(Title(title="one")))
    assert session.path is not None
    session._index = Index(session.path, least=0)
    session.save_meta()
    index, twin = session.path.with_name("index.jsonl"), precious / "twin"
    before = index.read_bytes()
    twin.hardlink_to(index)
    asyncio.run(session.append(Title(title="two")))
    session.save_meta()
    session.close()
    assert (twin.read_bytes(), index.stat().st_nlink) == (before, 1)


# --- one place ------------------------------------------------------------------------------------------

_HERE = Path(foldline.__file__).parent
_ELSEWHERE = {
    "history/lock.py": "locks of others, without following a link; /proc",
    "formats/readers/opencode/store.py": "SQLite, to be read, after a look at its first bytes",
    "history/repair.py": "a folder, to see its changes on disk",
    "history/contents.py": "another name for a regular file",
    "compaction/strategy.py": "prompts, which the user may replace",
    "llm/providers.py": "a table of the program",
    "cli/acp/stdio.py": "stdin, by its descriptor",
    "cli/streams.py": "/dev/null",
    "cli/eval_corpus.py": "results that the user names, and sessions to measure",
    "agent/tools/process.py": "/proc",
    "agent/working_folder.py": "the working folder, to know it again, and not to be read",
    "agent/sandbox.py": "/proc",
    "agent/sandbox_launcher.py": "what a sandbox lets through, as a place and not to be read",
    "termination.py": "/proc",
    "tui/terminal/clipboard.py": "a temporary folder",
    "tui/terminal/app.py": "the terminal, by its descriptor",
}
"""Modules that open files by themselves, and what these are."""
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
_OURS = ("themes.py", "models.py", "html.py", "known_commands.py")
"""Modules that read data files of the program, or of the user's own configuration."""


_MAY_OPEN = re.compile(rf"\bopen\(|sqlite3|{'|'.join(sorted(_PLAIN))}")


def _opens(source: str) -> set[str]:
    """What a module calls that opens files without a look at them."""
    found: set[str] = set()
    if not _MAY_OPEN.search(source):
        return found
    for call in (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)):
        match call.func:
            case ast.Attribute(value=ast.Name(id="os"), attr="open"):
                found.add("os.open")
            case ast.Attribute(value=ast.Name(id="sqlite3"), attr="connect"):
                found.add("sqlite3")
            case ast.Name(id="open"):
                found.add("open")
            case ast.Attribute(attr="open") if call.args and isinstance(call.args[0], ast.Constant):
                found.add(".open")
            case ast.Attribute(attr=name) if name in _PLAIN:
                found.add(name)
            case _:
                pass
    return found


def test_files_are_opened_in_one_place() -> None:
    """`foldline.files`; whoever needs another way is named here, with what it opens."""
    found = {}
    for path in _HERE.rglob("*.py"):
        name = path.relative_to(_HERE).as_posix()
        if name != "files.py" and path.name not in _OURS and (opens := _opens(path.read_text())):
            found[name] = opens
    assert found.keys() == _ELSEWHERE.keys(), found
