"""What changed in this session, file by file: in the chat, and from the place Rewind stands on."""

from pathlib import Path

import pytest

from foldline.agent.session.rewind import NOT_TEXT
from foldline.tui.app.session_commands import CHANGES_TITLE
from foldline.tui.lists.picker import Picker
from foldline.tui.overlays.diff import NO_CHANGES, DiffScreen
from foldline.tui.overlays.rewind import STAY
from support.agents import tool_reply
from support.live import Live, live

EDIT = ("edit", {"path": "a.py", "old": "value_3 = 3", "new": "value_3 = 33"})
WRITE = (
    "write",
    {"path": "long.py", "content": "".join(f"line_{n} = {n}\n" for n in range(40))},
)
LOGO = ("write", {"path": "logo.bin", "content": "\0\1\2"})


def prepared(folder: Path) -> Path:
    folder.mkdir()
    (folder / "a.py").write_text("".join(f"value_{n} = {n}\n" for n in range(9)))
    return folder


async def shown(running: Live) -> DiffScreen:
    await running.enter("/diff")
    await running.until(lambda: isinstance(running.app.screen, DiffScreen))
    await running.pilot.pause()
    screen = running.app.screen
    assert isinstance(screen, DiffScreen)
    return screen


async def test_every_file_is_shown_against_the_start_of_the_session(
    tmp_path: Path,
) -> None:
    folder = prepared(tmp_path / "w")
    async with live(
        folder, tool_reply(EDIT, WRITE, LOGO), "done", approvals="edits"
    ) as running:
        await running.ask("go")
        (folder / "a.py").write_text(
            (folder / "a.py").read_text().replace("value_5 = 5", "value_5 = 55")
        )
        await shown(running)
        assert CHANGES_TITLE in running.text and "3 files" in running.text
        assert "4 − value_3 = 3" in running.text and "4 + value_3 = 33" in running.text
        assert "6 + value_5 = 55" in running.text, (
            "what somebody else changed since is seen, too"
        )
        assert "▸ long.py" in running.text and "line_1" not in running.text
        assert NOT_TEXT.format(before=0, now=3) in running.text
        await running.press("down", "enter")
        assert "1 + line_0 = 0" in running.text
        await running.press("enter")
        assert "line_0" not in running.text
        await running.press("y")
        assert running.app.clipboard.startswith(
            "--- /dev/null\n+++ long.py\n@@ -0,0 +1,40 @@\n+line_0 = 0\n"
        )
        await running.press("escape")
        assert running.app.screen is running.app.chat


async def test_where_nothing_was_changed_it_says_so(tmp_path: Path) -> None:
    async with live(prepared(tmp_path / "w")) as running:
        screen = await shown(running)
        assert NO_CHANGES in running.text
        assert not screen.works_now("copy")
        await running.press("enter", "y", "q")
        assert running.app.screen is running.app.chat


@pytest.mark.slow
async def test_rewind_shows_what_going_back_would_take_back(tmp_path: Path) -> None:
    script = (tool_reply(WRITE), "one", tool_reply(EDIT), "two")
    async with live(prepared(tmp_path / "w"), *script, approvals="edits") as running:
        await running.ask("first")
        await running.ask("second")
        await running.enter("/rewind")
        await running.until(lambda: isinstance(running.app.screen, Picker))
        await running.press("enter")
        await running.until(lambda: f"▶{STAY}" in running.text)
        question = running.app.screen
        assert isinstance(question, Picker)
        question.select("changes")
        await running.press("enter")
        await running.until(lambda: isinstance(running.app.screen, DiffScreen))
        await running.pilot.pause()
        assert "Changed since before “second”" in running.text
        assert "4 + value_3 = 33" in running.text and "long.py" not in running.text
        await running.press("escape")
        await running.until(lambda: f"▶{STAY}" in running.text)
