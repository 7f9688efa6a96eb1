"""Foldline as a library."""

import inspect
from pathlib import Path

import pytest

import foldline
from foldline import FoldlineError
from foldline.compaction import DigestCompaction
from foldline.history import Session
from foldline.history.session import IN_MEMORY
from foldline.llm.offline import OfflineLLM
from support.history import history
from support.llm import ScriptedLLM, refusal
from support.recordings import needs_recorded, recordings
from support.sentences import pattern


@pytest.fixture(autouse=True)
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOLDLINE_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.delenv("FOLDLINE_MODEL", raising=False)


async def kept(turns: int) -> Session:
    builder = history()
    for nth in range(turns):
        builder.turn(f"request {nth}", f"answer {nth} " * 300)
    built = Session.from_entries(Session.create(Path.cwd()).header, builder.entries)
    return await built.copy()


def test_everything_that_is_promised_is_there() -> None:
    assert all(getattr(foldline, name) for name in foldline.__all__)
    assert inspect.iscoroutinefunction(foldline.compact)
    with pytest.raises(AttributeError):
        foldline.nonsense  # noqa: B018
    assert (Path(foldline.__file__).parent / "py.typed").is_file()


async def test_a_session_is_opened_projected_and_compacted() -> None:
    session = await kept(12)
    session.close()
    assert session.path is not None
    opened = foldline.open_session(session.path.parent)
    before = foldline.project(opened)
    proposal = await foldline.compact(
        opened, strategy=DigestCompaction(), focus="the answers"
    )
    assert proposal is not None
    after = foldline.project(opened.entries)
    assert after.tokens < before.tokens
    assert foldline.project(foldline.open_session(session.path)).view == after.view
    opened.close()


async def test_nothing_to_compact_commits_nothing() -> None:
    session = await kept(1)
    assert await foldline.compact(session, llm=OfflineLLM(pace=0)) is None
    assert len(session.entries) == 2


async def test_a_compaction_that_fails_is_raised_and_changes_nothing() -> None:
    session = await kept(12)
    entries = list(session.entries)
    with pytest.raises(FoldlineError, match="key was refused"):
        await foldline.compact(session, llm=ScriptedLLM(refusal()))
    assert list(session.entries) == entries


@needs_recorded
async def test_another_agents_session_is_open_for_reading_only() -> None:
    session = foldline.open_session(recordings("pi")[0])
    assert foldline.project(session).view
    with pytest.raises(FoldlineError, match=pattern(IN_MEMORY)):
        await foldline.compact(session)
