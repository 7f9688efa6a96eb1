"""What a start imports, counted: each module of ours costs half a millisecond before the first paint.

Counted in whole processes, in a real terminal, at the moment the first frame with the prompt is written.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from foldline import __version__
from foldline.cli.commands import COMMANDS, SEPARATE
from support.command_line import CommandLine
from support.history import history
from support.terminal import terminal

FLOOR = "import sys, textual.app, textual.drivers.linux_driver; from textual.widgets import Input, TextArea"
"""What any app of Textual with a text field imports."""
PAINTED = """
import sys
from textual.drivers.linux_driver import LinuxDriver

write = LinuxDriver.write

def look(driver, data):
    write(driver, data)
    if "❯" in data:
        LinuxDriver.write = write
        with open(sys.argv[1], "w") as file:
            print(*sys.modules, file=file)

LinuxDriver.write = look
from foldline.cli import main
sys.exit(main(sys.argv[2:]))
"""
OURS_AT_MOST = 97
OTHERS_AT_MOST = 16
"""Modules before the first paint: our own; and those of others that the floor does not import."""

LATER = (
    "pydantic", "openai", "httpx2", "httpx", "anyio", "aiofiles", "tomlkit", "detect_secrets",
    "markdown_it", "markdownify", "pathspec", "filelock", "mcp", "sqlite3", "multiprocessing", "xml",
    "foldline.protocol", "foldline.history", "foldline.llm", "foldline.compaction", "foldline.formats",
    "foldline_eval", "foldline.agent.agent", "foldline.agent.settings.settings", "foldline.agent.tools",
    "foldline.tui.transcript.feed", "foldline.tui.transcript.rows", "foldline.tui.transcript.details",
    "foldline.frontend.runner", "foldline.frontend.reduce", "foldline.tui.browser.inspector",
    "foldline.tui.browser.draft", "foldline.tui.lists.screen", "foldline.tui.overlays.help",
    "foldline.tui.overlays.palette", "foldline.tui.overlays.settings", "foldline.tui.app.session_commands",
    "foldline.tui.blocks.markdown",
    "foldline.tui.blocks.plain", "foldline.tui.blocks.code",
)  # fmt: skip
"""What nobody sees in the first frame: what is slow, and screens that are not open."""
AT_ONCE = {
    "foldline.tui.lists",
    "foldline.tui.lists.fuzzy",
    "foldline.tui.overlays",
    "foldline.tui.overlays.dialogs",
}
"""Modules of those packages that the first frame needs."""


NOT_FOR_A_PROMPT = (
    "openai", "mcp", "markdownify", "detect_secrets", "tomlkit", "sqlite3", "foldline.llm.offline",
    "foldline_eval", "foldline.formats", "foldline.tui.browser.inspector",
    "foldline.tui.browser.draft.mode", "foldline.tui.lists.screen", "foldline.tui.overlays.palette",
)  # fmt: skip
"""What opens a session and its chat has no use for."""
OURS_FOR_SCREENS = {
    "foldline.agent",
    "foldline.agent.project.discovery",
    "foldline.agent.settings.layers",
    "foldline.agent.project.trust",
    "foldline.data",
    "foldline.files",
}
"""What `cli.screens` imports at once, as the chat needs it before its first paint: nothing that is slow."""


def python(script: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def of(modules: Iterable[str], *roots: str) -> list[str]:
    """Those that are one of `roots`, or below it."""
    return [
        name
        for name in modules
        if name.startswith(tuple(f"{root}." for root in roots)) or name in roots
    ]


def modules_painted(folder: Path, *arguments: str) -> set[str]:
    """Those that are there when the prompt is painted, of a chat that is started in `shop` of this folder."""
    found = folder / "modules"
    program = (sys.executable, "-c", PAINTED, str(found), *arguments)
    with terminal(folder / "shop", program=program) as started:
        started.until(lambda _: found.exists() and found.read_text().endswith("\n"))
    return set(found.read_text().split())


@pytest.fixture(scope="module")
def at_first_paint(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    return modules_painted(tmp_path_factory.mktemp("first-paint"))


def test_nothing_slow_is_imported_before_the_first_paint(
    at_first_paint: set[str],
) -> None:
    assert "foldline.tui.chat.screen" in at_first_paint
    assert of(sorted(at_first_paint - AT_ONCE), *LATER) == [], (
        "import these where they are used, or in a thread"
    )


def test_the_first_paint_keeps_to_its_budget_of_modules(
    at_first_paint: set[str],
) -> None:
    ours = of(sorted(at_first_paint), "foldline")
    floor = set(python(f"{FLOOR}; print(*sys.modules)").split())
    others = sorted(at_first_paint - floor - {*ours})
    assert len(ours) <= OURS_AT_MOST, (
        f"{len(ours)} modules of ours, {OURS_AT_MOST} allowed: {ours}"
    )
    assert len(others) <= OTHERS_AT_MOST, (
        f"{len(others)} others, {OTHERS_AT_MOST} allowed: {others}"
    )


WITHOUT_A_SCREEN = """
import sys
from foldline.cli import main
sys.argv = ["foldline", *sys.argv[1:]]
try:
    main()
except SystemExit:
    pass
print(*sys.modules, file=sys.stderr)
"""


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [("--plain",), ("acp",), ("run", "hello")])
def test_front_ends_without_a_screen_load_neither_textual_nor_rich(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_A_SCREEN, *arguments],
        input="/status\n" if arguments == ("--plain",) else "",
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "FOLDLINE_HOME": str(tmp_path / "home")},
        check=True,
    )
    modules = done.stderr.split()
    assert "foldline.frontend.state" in modules
    assert of(modules, "textual", "rich", "foldline.tui", "acp") == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "held", ["in this folder, its file", "in another folder, its id"]
)
def test_resuming_a_session_imports_nothing_more(
    at_first_paint: set[str], tmp_path: Path, held: str
) -> None:
    header = {"type": "session", "version": 1, "id": "20260101-000000-abcdef"}
    folder = tmp_path / ("shop" if "its file" in held else "other")
    folder.mkdir()
    events = tmp_path / "shop-home" / "sessions" / "any" / header["id"] / "events.jsonl"
    events.parent.mkdir(parents=True)
    events.write_text(
        json.dumps({**header, "created_at": "2026-01-01T00:00:00Z", "cwd": str(folder)})
        + "\n"
    )
    more = (
        modules_painted(tmp_path, "-r", str(events) if "its file" in held else "abcdef")
        - at_first_paint
    )
    assert of(sorted(more), *LATER) == []


@pytest.mark.slow
def test_a_first_prompt_waits_for_no_screen_that_is_not_open_and_for_no_model_that_is_not_asked() -> (
    None
):
    script = """
import sys
import foldline.cli.agents, foldline.tui.app.app, foldline.frontend.figures
import foldline.tui.app.preview_host, foldline.frontend.runner
import foldline.tui.app.model_setup, foldline.tui.transcript.feed
print(*sys.modules)
"""
    loaded = set(python(script).split()) - AT_ONCE
    assert of(sorted(loaded), *NOT_FOR_A_PROMPT) == []


NOT_FOR_A_FILE = (
    "asyncio", "openai", "httpx2", "mcp", "textual", "rich", "sqlite3", "detect_secrets", "markdown_it",
    "foldline.agent.agent", "foldline.agent.extensions.hooks", "foldline.agent.tools",
    "foldline.agent.session.state",
    "foldline.compaction.engine", "foldline.llm.client", "foldline.llm.offline", "foldline.llm.responses",
    "foldline_eval", "foldline.tui", "foldline.formats.readers.kimi_cli",
    "foldline.formats.session_list",
)  # fmt: skip
"""Modules of no use to a command that reads one session."""


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(
    "command", ["view", "history", "stats", "verify", "export --to openai"]
)
def test_a_command_that_reads_a_session_imports_no_agent(
    cli: CommandLine, command: str
) -> None:
    script = """
import sys
from foldline.cli import main
main(sys.argv[1:])
print(*sys.modules)
"""
    session = cli.keep(history().turn("Mend the parser", "Mended.").entries)
    imported = python(script, *command.split(), str(session)).splitlines()[-1].split()
    assert "foldline.cli.sources" in imported
    assert of(imported, *NOT_FOR_A_FILE) == []


def test_the_version_is_said_by_four_modules_of_ours_and_none_of_others() -> None:
    script = """
import sys
bare = {*sys.modules}
from foldline.cli import main
main(["--version"])
print(*sorted({*sys.modules} - bare))
"""
    said, imported = python(script).splitlines()
    assert said == f"foldline {__version__}"
    assert imported.split() == [
        "foldline", "foldline.cli", "foldline.cli.streams", "foldline.version"
    ]  # fmt: skip


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(
    "command", ["", *(command.name for command in COMMANDS), *SEPARATE]
)
def test_a_help_text_needs_nothing_that_is_not_pythons_own(command: str) -> None:
    script = """
import sys
from foldline.cli import main
try:
    main([*sys.argv[1:], "--help"])
except SystemExit:
    print(*sorted(sys.modules))
"""
    imported = python(script, *command.split()).splitlines()[-1].split()
    foreign = {name.partition(".")[0] for name in imported} - sys.stdlib_module_names
    ours = {name for name in of(imported, "foldline") if not of([name], "foldline.cli")}
    assert (
        foreign
        - {
            "foldline",
            "foldline_eval",
            "__main__",
            "sitecustomize",
            "usercustomize",
            "_distutils_hack",
        }
        == set()
    )
    assert ours - OURS_FOR_SCREENS == {"foldline", "foldline.version"}
    assert command in ("open", "demo") or ours.isdisjoint(OURS_FOR_SCREENS)
    assert "asyncio" not in imported
