"""A disk that gives up under a running agent: told at once, nothing complete is lost, it goes on after."""

import json
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from foldline.agent import Agent
from foldline.history import Session
from foldline.history.log import NOTHING_ON_DISK
from foldline.protocol import Compaction, FoldlineError
from foldline.view.rules import broken
from support.agents import PlayedLLM, agent_in, reload_session, tool_reply, write_lines
from support.disks import files_up_to


def seen(session: Session) -> list[str]:
    return [item.message.model_dump_json() for item in session.projection.view]


def same_on_disk(agent: Agent) -> bool:
    """Whether another process would read what this one holds."""
    there = reload_session(agent)
    return list(there.entries) == list(agent.session.entries) and seen(there) == seen(
        agent.session
    )


def working(folder: Path) -> tuple[Agent, PlayedLLM]:
    folder.mkdir(exist_ok=True)
    write_lines(folder / "a.txt", 40)
    llm = PlayedLLM(
        tool_reply(("read", {"path": "a.txt"})), "I read it. " * 40, always="done"
    )
    return agent_in(folder, llm)[0], llm


async def a_day(agent: Agent) -> None:
    """A turn with a call, another one, a compaction, and a turn after it."""
    await agent.prompt("Read a.txt, please. " * 20)
    await agent.prompt("And tell me more of it. " * 20)
    await agent.compact()
    await agent.prompt("Thanks.")


# --- no room ------------------------------------------------------------------------------------------


async def test_the_first_prompt_on_a_full_disk_is_told_and_no_model_is_asked(
    tmp_path: Path,
) -> None:
    agent, llm = working(tmp_path / "work")
    with (
        files_up_to(0),
        pytest.raises(FoldlineError, match=NOTHING_ON_DISK),
    ):
        await agent.prompt("first")
    assert llm.requests == []
    assert list(agent.session.entries) == []
    assert (await agent.prompt("first")).text
    assert same_on_disk(agent)
    await agent.aclose()


@pytest.mark.quick_cases(4)
@pytest.mark.parametrize("share", [n / 16 for n in range(16)])
async def test_wherever_in_a_day_the_disk_fills_up_nothing_is_torn_and_the_same_process_goes_on(
    tmp_path: Path, share: float
) -> None:
    model, _ = working(tmp_path / "model")
    await a_day(model)
    await model.aclose()
    assert model.session.path is not None
    limit = int(share * model.session.path.stat().st_size)

    agent, llm = working(tmp_path / "work")
    with (
        files_up_to(limit),
        pytest.raises(FoldlineError, match=r"on disk.*file too large") as told,
    ):
        await a_day(agent)
    assert "\n" not in str(told.value)
    asked = len(llm.requests)
    assert broken(agent.session.projection) == []
    if agent.session.entries:
        assert same_on_disk(agent)
    llm.script.clear()
    assert (await agent.prompt("Is there room again?")).text == "done"
    assert len(llm.requests) == asked + 1
    assert same_on_disk(agent)
    assert reload_session(agent).damage.count <= 1
    assert broken(agent.session.projection) == []
    await agent.aclose()


@pytest.mark.parametrize("more", [0, 1, 40, 400])
async def test_a_compaction_that_finds_no_room_leaves_the_old_view(
    tmp_path: Path, more: int
) -> None:
    agent, _ = working(tmp_path / "work")
    await agent.prompt("Read a.txt, please. " * 20)
    await agent.prompt("And tell me more of it. " * 20)
    before, entries = seen(agent.session), len(agent.session.entries)
    assert agent.session.path is not None
    with (
        files_up_to(agent.session.path.stat().st_size + more),
        pytest.raises(FoldlineError, match="file too large"),
    ):
        await agent.compact()
    assert seen(agent.session) == before == seen(reload_session(agent))
    assert len(agent.session.entries) == entries
    await agent.compact()
    assert isinstance(agent.session.entries[-1], Compaction)
    assert same_on_disk(agent)
    await agent.aclose()


# --- pulled away ---------------------------------------------------------------------------------------


def delete_file(events: Path) -> None:
    events.unlink()


def delete_folder(events: Path) -> None:
    shutil.rmtree(events.parent)


def put_a_file_in_its_place(events: Path) -> None:
    shutil.rmtree(events.parent)
    events.parent.write_text("in the way")


def put_another_session_in_its_place(events: Path) -> None:
    events.write_bytes(events.read_bytes().splitlines(keepends=True)[0])


def put_notes_in_its_place(events: Path) -> None:
    events.unlink()
    events.write_text("notes to myself\n" * 9)


def put_notes_of_the_same_size_in_its_place(events: Path) -> None:
    size = events.stat().st_size
    other = events.with_name(
        "other"
    )  # made before the old one goes, so that it is another file
    other.write_bytes(b"n" * size)
    other.replace(events)


def put_a_folder_in_its_place(events: Path) -> None:
    events.unlink()
    events.mkdir()


@pytest.mark.parametrize(
    "pull",
    [
        delete_file,
        delete_folder,
        put_a_file_in_its_place,
        put_another_session_in_its_place,
        put_notes_in_its_place,
        put_notes_of_the_same_size_in_its_place,
        put_a_folder_in_its_place,
    ],
)
async def test_a_session_whose_file_was_pulled_away_stops_with_a_sentence_and_overwrites_nothing(
    tmp_path: Path, pull: Callable[[Path], None]
) -> None:
    agent, llm = working(tmp_path / "work")
    await agent.prompt("Read a.txt.")
    events, asked, entries = (
        agent.session.path,
        len(llm.requests),
        list(agent.session.entries),
    )
    assert events is not None
    pull(events)
    left = events.read_bytes() if events.is_file() else None
    with pytest.raises(FoldlineError) as told:
        await agent.prompt("Go on.")
    assert str(events) in str(told.value) or events.parent.name in str(told.value)
    assert len(llm.requests) == asked
    assert list(agent.session.entries) == entries
    assert (events.read_bytes() if events.is_file() else None) == left
    # What was said is not lost: memory has it, and a copy is a session like any other.
    copy = await agent.session.copy(home=tmp_path / "elsewhere")
    assert copy.path is not None
    assert list(Session.open(copy.path).entries) == entries
    copy.close()
    await agent.aclose()


# --- a real medium ---------------------------------------------------------------------------------------

ON_A_SMALL_DISK = """
    import asyncio, json, os, subprocess, sys
    from pathlib import Path
    sys.path.insert(0, sys.argv[2])
    disk = Path(sys.argv[1])
    from foldline.agent import Agent
    from foldline.history import Session
    from foldline.protocol import FoldlineError
    from support.agents import PlayedLLM

    told, counts = {}, {}

    def mount(*options):
        subprocess.run(["mount", *options, str(disk)], check=True)

    async def main():
        mount("-t", "tmpfs", "-o", "size=64k", "none")
        llm = PlayedLLM(always="done")
        agent = Agent(Session.create("/", home=disk, session_id="s"), llm=llm, approvals="all")

        async def prompt(name, text="hello"):
            asked = len(llm.requests)
            try:
                await agent.prompt(text)
            except FoldlineError as error:
                told[name] = str(error)
            live, path = agent.session.entries, agent.session.path
            there = Session.open(path).entries if path.exists() else []
            counts[name] = [len(llm.requests) - asked, len(live), list(there) == list(live)]

        def fill():
            with (disk / "filler").open("ab", buffering=0) as filler:
                try:
                    while True:
                        filler.write(bytes(1024))
                except OSError:
                    pass

        fill()
        await prompt("full at the start")
        (disk / "filler").unlink()
        await prompt("room again")
        fill()
        await prompt("full in the middle", "x" * 9000)
        (disk / "filler").unlink()
        await prompt("room once more")
        agent.session.close()  # a medium with a file open for writing does not turn read-only
        mount("-o", "remount,ro")
        await prompt("read-only")
        counts["opened"] = len(Session.open(agent.session.path).entries)
        mount("-o", "remount,rw")
        await prompt("writable again")
        print(json.dumps({"told": told, "counts": counts}))

    asyncio.run(main())
"""


@pytest.fixture(scope="module")
def small_disk(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What an agent said on a disk of 64 kB of its own, which fills up and turns read-only."""
    if subprocess.run(
        ["unshare", "-rm", "true"], capture_output=True, check=False
    ).returncode:
        pytest.skip("no mount of one's own can be made here (unshare -rm)")
    disk = tmp_path_factory.mktemp("disk")
    script = textwrap.dedent(ON_A_SMALL_DISK)
    command = [
        "unshare",
        "-rm",
        sys.executable,
        "-c",
        script,
        str(disk),
        str(Path(__file__).parents[1]),
    ]
    child = subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=False
    )
    assert child.returncode == 0, child.stderr
    said: dict[str, Any] = json.loads(child.stdout)
    return said


FINE = ["room again", "room once more", "writable again"]
REFUSED = {
    "full at the start": "no space left on device",
    "full in the middle": "no space left on device",
    "read-only": "read-only file system",
}


@pytest.mark.slow
def test_a_disk_of_its_own_that_is_full_or_read_only_is_told_by_name(
    small_disk: dict[str, Any],
) -> None:
    assert small_disk["told"].keys() == REFUSED.keys()
    for name, why in REFUSED.items():
        assert why in small_disk["told"][name], name
        assert small_disk["counts"][name][0] == 0, f"{name}: the model was asked"


def test_memory_and_disk_are_the_same_at_every_moment_of_it(
    small_disk: dict[str, Any],
) -> None:
    assert all(same for _, (_, _, same) in _phases(small_disk))


def test_the_same_process_goes_on_as_soon_as_it_can(small_disk: dict[str, Any]) -> None:
    phases = dict(_phases(small_disk))
    assert [phases[name][0] for name in FINE] == [1, 1, 1]
    assert (
        small_disk["counts"]["opened"]
        == phases["room once more"][1]
        == phases["read-only"][1]
    )


def _phases(said: dict[str, Any]) -> list[tuple[str, list[Any]]]:
    return [
        (name, count)
        for name, count in said["counts"].items()
        if isinstance(count, list)
    ]
