"""Checked paths are the opened ones: real programs swap a folder or file for a link in between."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from foldline.agent.session import rewind
from foldline.agent.tools import ToolContext
from foldline.files import folder_at, listed_at, opened, put_whole
from foldline.protocol import FileImage
from support.agents import PlayedLLM, agent_in, tool_reply
from support.tools import TOOLS

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="two names are swapped by renameat2(2)"
)

SWAPS = """
import ctypes, os, sys
libc = ctypes.CDLL(None)
one, other = (os.fsencode(each) for each in sys.argv[1:])
os.write(1, b"begun\\n")
while True:
    libc.renameat2(-100, one, -100, other, 2)  # RENAME_EXCHANGE: there is always one of the two
"""


@contextmanager
def swapping(one: Path, other: Path) -> Iterator[None]:
    """Run a program that swaps two names as often as it can."""
    words = [sys.executable, "-c", SWAPS, str(one), str(other)]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == b"begun\n"
        try:
            yield
        finally:
            program.kill()


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """Files next to the working folder that must not be read or changed."""
    (tmp_path / "outside").mkdir()
    for name in ("file", "other"):
        (tmp_path / "outside" / name).write_text("secret")
    return tmp_path / "outside"


@pytest.fixture
def cwd(tmp_path: Path, outside: Path) -> Path:
    """A working folder with a folder and an outward link that trade places."""
    cwd = tmp_path / "work"
    (cwd / "part").mkdir(parents=True)
    for name in ("file", "here"):
        (cwd / "part" / name).write_text("plain")
    (cwd / "link").symlink_to(outside)
    (cwd / "to-file").symlink_to(outside / "file")
    return cwd


def context_in(cwd: Path) -> ToolContext:
    return ToolContext(cwd, lambda _: None, 8_000, cwd / ".spill")


def is_unchanged(outside: Path) -> bool:
    names = sorted(path.name for path in outside.iterdir())
    return names == ["file", "other"] and all(
        (outside / each).read_text() == "secret" for each in names
    )


TIMES = 300
CALLS: dict[str, dict[str, Any]] = {
    "read": {"path": "part/file"},
    "edit": {"path": "part/file", "old": "secret", "new": "changed"},
    "write": {"path": "part/file", "content": "changed"},
    "ls": {"path": "part"},
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("swapped", ["part", "part/file"])
async def test_a_link_swapped_in_leads_no_call_outside(
    cwd: Path, outside: Path, name: str, swapped: str
) -> None:
    tool, seen, inside = TOOLS[name], set[str](), 0
    with swapping(cwd / swapped, cwd / ("link" if swapped == "part" else "to-file")):
        for _ in range(TIMES):
            context = context_in(cwd)
            if tool.inside(CALLS[name], context):  # calls that run without a question
                inside += 1
                seen.add((await tool.run(CALLS[name], context)).text)
    assert inside > 0
    assert not any(
        "secret" in text or "other" in text or "Edited" in text for text in seen
    ), seen
    assert is_unchanged(outside)


async def test_the_same_programs_succeed_against_unsafe_opening(
    cwd: Path, outside: Path
) -> None:
    """Otherwise the attempts prove nothing. Unsafe: checked first, then opened by path."""
    path, won = cwd / "part" / "file", False
    with swapping(cwd / "part", cwd / "link"):
        for _ in range(100 * TIMES):
            with suppress(OSError):
                won = won or (
                    os.path.realpath(path) == str(path) and path.read_text() == "secret"
                )
    assert won


def test_no_folder_is_entered_or_created_through_a_link(
    cwd: Path, outside: Path
) -> None:
    for way in (folder_at, partial(folder_at, make=True), listed_at):
        for path in (cwd / "link", cwd / "link" / "deeper"):
            with pytest.raises(OSError), way(path):
                pass
    assert is_unchanged(outside)


def test_operations_stay_in_their_folder_after_its_name_is_reused(
    cwd: Path, outside: Path
) -> None:
    with folder_at(cwd / "part") as folder:
        (cwd / "part").rename(cwd / "moved")
        (cwd / "link").rename(cwd / "part")
        put_whole(Path("file"), b"changed", 0o640, folder=folder)
        with opened("file", folder) as file:
            assert file.read() == b"changed"
    assert (cwd / "moved" / "file").stat().st_mode & 0o777 == 0o640
    assert sorted(path.name for path in (cwd / "moved").iterdir()) == ["file", "here"]
    assert is_unchanged(outside)


async def test_a_rewind_writes_and_removes_nothing_through_a_link(
    cwd: Path, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder is swapped between the last check of a file and its change."""
    # The same content as outside, so the digests agree.
    edit = ("edit", {"path": "part/file", "old": "plain", "new": "secret"})
    new = ("write", {"path": "part/other", "content": "secret"})
    agent, _ = agent_in(cwd, PlayedLLM(tool_reply(edit, new)))
    start = len(agent.session.entries)
    await agent.prompt("go")
    looks = []

    def look_in(folder: Path) -> "rewind.ReadContent":
        looks.append(folder)

        def look(image: FileImage) -> object:
            seen = rewind_look(folder)(image)
            if (
                len(looks) == 2 and not (cwd / "moved").exists()
            ):  # the first checks belong to the plan
                (cwd / "part").rename(cwd / "moved")
                (cwd / "link").rename(cwd / "part")
            return seen

        return look

    rewind_look = rewind.look_in
    monkeypatch.setattr(rewind, "look_in", look_in)
    changes = await rewind.file_changes(agent.state.tools, start)
    restored = await rewind.restore(agent.state.tools, changes)
    await agent.aclose()
    assert (restored.done, len(restored.skipped)) == ((), 2)
    assert is_unchanged(outside)


# --- hard links ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["edit", "write"])
async def test_a_change_does_not_affect_other_hard_links_of_the_file(
    cwd: Path, outside: Path, name: str
) -> None:
    (cwd / "part" / "file").unlink()
    os.link(outside / "file", cwd / "part" / "file")
    context = context_in(cwd)
    assert not (await TOOLS[name].run(CALLS[name], context)).is_error
    assert (cwd / "part" / "file").read_text() == "changed"
    assert is_unchanged(outside)
