"""Reading opencode's sessions where it keeps them: its folder of files, and its database."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from foldline.formats import ForeignSession, read_foreign
from foldline.formats.homes import find_in_homes
from foldline.formats.reader import UNKNOWN_DATABASE
from foldline.formats.readers.opencode.reader import NEWEST_READ
from foldline.formats.session_list import found_sessions
from foldline.protocol import (
    AssistantMessage,
    FileTouch,
    FoldlineError,
    Subagent,
    ToolResultMessage,
    Usage,
)
from support.agent_homes import AgentHomes
from support.foreign import faults, view, view_texts
from support.opencode_store import (
    export_document,
    store_in_database,
    store_in_files,
    write_json,
)
from support.recordings import SHARED, needs_recorded
from support.sentences import pattern


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def export(tmp_path: Path) -> ForeignSession:
    return read_foreign(write_json(tmp_path / "export.json", export_document()))


@pytest.mark.parametrize("what", ["file", "store", "data folder"])
def test_the_folder_says_what_the_export_says(
    tmp_path: Path, export: ForeignSession, what: str
) -> None:
    home = tmp_path / "opencode"
    file = store_in_files(home / "storage", export_document())
    before = contents(home)
    session = read_foreign(
        {"file": file, "store": home / "storage", "data folder": home}[what]
    )
    assert (session.format, session.header, session.entries) == (
        "opencode",
        export.header,
        export.entries,
    )
    assert contents(home) == before


@pytest.mark.parametrize("name", ["", "ses_1"])
def test_the_database_says_what_the_export_says(
    tmp_path: Path, export: ForeignSession, name: str
) -> None:
    path = tmp_path / "data" / "opencode.db"
    store_in_database(path, export_document()).close()
    before = contents(path.parent)
    session = read_foreign(path / name if name else path)
    assert (session.format, session.header, session.entries) == (
        "opencode",
        export.header,
        export.entries,
    )
    _, called, result, done = view(session)
    assert isinstance(called, AssistantMessage)
    assert called.usage == Usage(input=15, cached=5, output=2)
    assert isinstance(result, ToolResultMessage)
    assert result.details.files == (FileTouch(path="/x/a", action="read"),)
    assert (done.text, faults(session)) == ("Done.", [])
    assert contents(path.parent) == before


@needs_recorded
def test_a_recorded_session_is_the_same_from_its_export_and_from_both_stores(
    tmp_path: Path,
) -> None:
    file = SHARED / "opencode/prsui-111tools.json"
    document = json.loads(file.read_text())
    info = document["info"]
    info["time"] = {key: info["time"][key] for key in ("created", "updated")}
    kept = read_foreign(store_in_files(tmp_path / "storage", document))
    store_in_database(tmp_path / "opencode.db", document).close()
    assert (
        view(read_foreign(file))
        == view(kept)
        == view(read_foreign(tmp_path / "opencode.db"))
    )


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Path]:
    """A database that opencode has open, with rows that are in its journal only."""
    path = tmp_path / "data" / "opencode.db"
    with closing(store_in_database(path, export_document(), wal=True)) as database:
        database.execute("PRAGMA wal_autocheckpoint=0")
        database.execute(
            "UPDATE part SET data = replace(data, 'Done.', 'Written just now.')"
        )
        database.commit()
        yield path


def test_a_database_in_use_is_read_with_its_journal_and_not_held(running: Path) -> None:
    names = set(contents(running.parent))
    assert view_texts(read_foreign(running))[-1] == "Written just now."
    assert set(contents(running.parent)) == names
    with closing(sqlite3.connect(running, timeout=0)) as other:
        other.execute("DELETE FROM part")
        other.commit()


def test_a_journal_that_a_crash_left_is_read_and_stays(
    running: Path, tmp_path: Path
) -> None:
    crashed = tmp_path / "crashed"
    crashed.mkdir()
    for end in ("", "-wal"):
        (crashed / f"opencode.db{end}").write_bytes(
            running.with_name(f"opencode.db{end}").read_bytes()
        )
    before = contents(crashed)
    assert view_texts(read_foreign(crashed))[-1] == "Written just now."
    assert contents(crashed) == before


def test_a_database_of_several_sessions_gives_the_newest_and_says_so(
    tmp_path: Path,
) -> None:
    path = tmp_path / "opencode.db"
    child = export_document("ses_3", "A search", updated=9000, parentID="ses_2")
    store_in_database(
        path,
        export_document(),
        export_document("ses_2", "The bell", updated=5000),
        child,
    ).close()
    session = read_foreign(path)
    assert session.header.id == "ses_2"
    assert NEWEST_READ.format(count=2, id="ses_2") in session.notes
    assert any("1 subagent: ses_3" in note for note in session.notes)
    assert read_foreign(path / "ses_1").header.id == "ses_1"
    with pytest.raises(FoldlineError, match="has no session 'ses_9'"):
        read_foreign(path / "ses_9")


@pytest.mark.parametrize("place", ["database", "files"])
def test_a_subagents_session_stands_behind_the_call_that_started_it(
    tmp_path: Path, place: str
) -> None:
    whole = export_document("ses_2")
    task = {"tool": "task", "callID": "t1", "state": {
        "status": "completed", "output": "found", "input": {"subagent_type": "explore", "prompt": "look"},
        "metadata": {"sessionId": "ses_3"}, "time": {"start": 1, "end": 2},
    }}  # fmt: skip
    whole["messages"][1]["parts"][1].update(task)
    child = export_document("ses_3", "A search (@explore subagent)", parentID="ses_2")
    below = export_document("ses_4", "Deeper", parentID="ses_3")
    if place == "database":
        store_in_database(tmp_path / "opencode.db", whole, child, below).close()
        path = tmp_path / "opencode.db" / "ses_2"
    else:
        for document in (child, below):
            store_in_files(tmp_path / "storage", document)
        path = store_in_files(tmp_path / "storage", whole)
    session = read_foreign(path)
    [found] = session.children
    marker = next(entry for entry in session.entries if isinstance(entry, Subagent))
    assert (marker.child, marker.call_id, marker.agent, marker.title) == (
        "ses_3",
        "t1",
        "explore",
        "A search",
    )
    assert session.entries[marker.index - 1].type == "assistant"
    assert view_texts(found.session)[-1] == "Done."
    assert [each.id for each in found.session.children] == ["ses_4"]
    assert faults(session) == []


def test_a_damaged_database_is_refused_in_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "opencode.db"
    store_in_database(path, export_document()).close()
    whole = path.read_bytes()
    for cut in (16, 100, len(whole) // 2):
        path.write_bytes(whole[:cut])
        with pytest.raises(FoldlineError, match="cannot be read as a database"):
            read_foreign(path)


@pytest.mark.parametrize(
    ("tables", "named"),
    [
        (
            ("sessions", "messages", "files"),
            "a Crush session, .*`crush session show ID --json`",
        ),
        (
            ("sessions", "messages", "schema_version"),
            "Goose's database, .*`goose session export --format json`",
        ),
        (("meta", "blobs"), "a Cursor session"),
        (("steps", "trajectory_meta"), "an Antigravity session"),
        (("birds",), pattern(UNKNOWN_DATABASE)),
    ],
)
def test_the_database_of_another_agent_is_named(
    tmp_path: Path, tables: tuple[str, ...], named: str
) -> None:
    path = tmp_path / "store.db"
    with closing(sqlite3.connect(path)) as database:
        database.executescript(
            "".join(f"CREATE TABLE {table} (a);" for table in tables)
        )
    with pytest.raises(FoldlineError, match=named):
        read_foreign(path)


# --- listed -----------------------------------------------------------------------------------------


@pytest.fixture
def homes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AgentHomes:
    return AgentHomes(tmp_path / "home", monkeypatch)


def test_sessions_of_both_stores_are_listed_once_without_those_of_sub_agents(
    homes: AgentHomes,
) -> None:
    home = homes.home / ".local/share/opencode"
    store_in_files(home / "storage", export_document())
    store_in_files(home / "storage", export_document("ses_0", "Older", updated=500))
    child = export_document("ses_3", parentID="ses_2")
    store_in_database(
        home / "opencode.db",
        export_document(),
        export_document("ses_2", updated=5000),
        child,
    ).close()
    found = found_sessions(["opencode"])
    assert [one.id for one in found] == ["ses_2", "ses_1", "ses_0"]
    assert (found[0].title, found[0].cwd, found[0].path) == (
        "The clock",
        "/x",
        home / "opencode.db" / "ses_2",
    )
    assert [one.id for one in found_sessions(["opencode"], Path("/x"), limit=1)] == [
        "ses_2"
    ]
    assert found_sessions(["opencode"], Path("/y")) == []
    assert find_in_homes("opencode:ses_0") == home / "storage/session/p/ses_0.json"


def test_a_database_that_cannot_be_read_is_listed_with_why(homes: AgentHomes) -> None:
    homes.write(".local/share/opencode/opencode.db", b"SQLite format 3\0")
    (found,) = found_sessions(["opencode"])
    assert "cannot be read as a database" in found.note
