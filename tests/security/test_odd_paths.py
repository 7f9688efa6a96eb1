"""Paths that cannot be followed, entered or named: one call fails with a sentence, the others run.

Folders are inaccessible for root as well: `support.locked`.
"""

import subprocess
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from foldline.agent.session.instructions import read_preamble
from foldline.agent.session.rewind import (
    align_memory,
    append_checkpoint,
    file_changes,
    restore,
)
from foldline.agent.tools.paths import command_inside, is_inside, may_be_changed
from foldline.cli import INTERNAL_ERROR
from foldline.data import real_path
from foldline.history import Session
from foldline.protocol import NEW, FileImage, events, operations
from foldline.tui.prompting.attachments import named_paths, pasted_paths
from support.agents import PlayedLLM, agent_in, tool_reply
from support.command_line import CommandLine
from support.limits import few
from support.locked import modes_hold
from support.messages import tool_results

pytestmark = [
    pytest.mark.quick_cases(2),
    pytest.mark.skipif(
        sys.platform != "linux", reason="folders are closed to root by capset(2)"
    ),
]

ODD_PATHS = {
    "process": "/proc/1/root",
    "within": "/proc/1/root/etc/x",
    "closed": "closed/x.py",
    "deep": "closed/sub/x.py",
    "through": "into/x.py",
    "long": "x/" * 2_500 + "y",
    "name": "n" * 300,
    "loop": "loop",
    "beyond": "loop/x",
    "nul": "a\0b",
    "nobody": "~nobody-of-this-name/x",
    "file": "a.txt/x",
}


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A working folder containing a container's data folder, which only another user may enter."""
    cwd = tmp_path / "work"
    (cwd / "closed" / "sub").mkdir(parents=True)
    (cwd / "closed" / "HEAD").write_text("ref: refs/heads/main\n")
    (cwd / "into").symlink_to("closed/sub")
    (cwd / "loop").symlink_to("loop")
    (cwd / "a.txt").write_text("needle\n")
    (cwd / "closed").chmod(0)
    yield cwd
    subprocess.run(["rm", "-rf", cwd / "x"], check=True)  # pytest would recurse into it


def calls_with(path: str) -> list[tuple[str, dict[str, Any]]]:
    calls: list[tuple[str, dict[str, Any]]] = [
        ("read", {"path": path}),
        ("write", {"path": path, "content": "x"}),
        ("edit", {"path": path, "old": "a", "new": "b"}),
        ("ls", {"path": path}),
        ("glob", {"path": path, "pattern": "*"}),
        ("grep", {"path": path, "pattern": "needle"}),
        ("bash", {"command": f"cat {path}"}),
    ]
    return [
        *calls,
        ("grep", {"pattern": "needle"}),
        ("glob", {"pattern": "**/*"}),
        ("read", {"path": "a.txt"}),
    ]


@pytest.mark.parametrize(
    ("path", "approvals"),
    few(
        [*product(ODD_PATHS.values(), ("all", "edits"))],
        *(at for at in range(2 * len(ODD_PATHS)) if at % 4 in (0, 3)),
    ),
)
async def test_a_call_with_an_odd_path_fails_and_the_others_run(
    folder: Path, path: str, approvals: str
) -> None:
    llm = PlayedLLM(tool_reply(*calls_with(path)), "done", window=200_000)
    agent, watch = agent_in(folder, llm, approvals=approvals)

    def allow(event: events.Event) -> None:
        if isinstance(event, events.ApprovalRequested):
            agent.executor.submit(
                operations.Approve(call_id=event.call_id, answer="once")
            )

    agent.executor.subscribe(allow)
    with modes_hold():
        await agent.prompt("go")
    results = tool_results(agent.session.entries)
    *odd, searched, listed, whole = results
    assert len(odd) == 7 and all(result.text.strip() for result in odd)
    made = {"name": ["write"], "nobody": []}
    assert [result.name for result in odd if not result.is_error] in (
        [],
        *made.values(),
    )
    assert (
        "a.txt:1" in searched.text
        and "a.txt" in listed.text
        and whole.text == "needle\n"
    )
    assert watch.ends[-1] == ("run_agent", "done")
    await agent.aclose()


def test_a_path_that_cannot_be_resolved_counts_as_outside_and_asks() -> None:
    with modes_hold():
        assert not is_inside(Path("/proc/1/root/x"), Path("/"))
        assert not may_be_changed(Path("/proc/1/root/x"), Path("/"))
        assert not command_inside("cat proc/1/root", Path("/"))


@pytest.mark.parametrize("path", ["/proc/1/root", "a\0b", "\ud800"])
def test_an_odd_path_raises_only_one_kind_of_error(path: str) -> None:
    with modes_hold(), pytest.raises(OSError, match=r"name|denied"):
        real_path(path)


@pytest.mark.parametrize("path", ODD_PATHS.values(), ids=ODD_PATHS)
def test_a_prompt_may_mention_an_odd_path(folder: Path, path: str) -> None:
    with modes_hold():
        assert named_paths(f"look at @{path}.png please", folder) == []
        assert pasted_paths(f"{path}.png", folder) == ()


@pytest.mark.parametrize("path", ODD_PATHS.values(), ids=ODD_PATHS)
async def test_a_rewind_skips_an_odd_path_and_restores_the_others(
    folder: Path, path: str
) -> None:
    agent, _ = agent_in(folder, PlayedLLM())
    with modes_hold():
        await append_checkpoint(
            agent.state.session, [FileImage(path=path, before="0" * 64, after=None)]
        )
        changes = await file_changes(agent.state.tools, NEW)
        restored = await restore(agent.state.tools, changes)
        align_memory(agent.state.tools, NEW)
    assert restored.done == ()
    assert [left for left, _ in restored.skipped] == [path]
    await agent.aclose()


def test_instructions_and_settings_are_searched_up_to_an_inaccessible_folder(
    folder: Path,
) -> None:
    inner = folder / "closed" / "sub"
    with modes_hold():
        assert len(read_preamble(inner).messages) == 1


@pytest.mark.parametrize("path", ODD_PATHS.values(), ids=ODD_PATHS)
def test_a_session_may_name_an_odd_path_as_its_folder(
    cli: CommandLine, folder: Path, path: str
) -> None:
    """The author of the file chose that path."""
    kept = Session.create(folder, home=folder.parent / "elsewhere")
    header = kept.header.model_copy(
        update={"cwd": path if path.startswith("/") else str(folder / path)}
    )
    events_file = folder.parent / "s.jsonl"
    events_file.write_bytes(header.model_dump_json().encode() + b"\n")
    with modes_hold():
        said = [
            cli(*command, events_file)
            for command in (("import",), ("view",), ("doctor",))
        ]
        said.append(cli("sessions"))
    assert not [each.err for each in said if INTERNAL_ERROR in each.err]
