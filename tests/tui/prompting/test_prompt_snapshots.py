"""The prompt in use, as pictures. Look at them before accepting: `--snapshot-update`, then svg2png."""

from collections.abc import Callable
from pathlib import Path

import pytest
from textual import events
from textual.pilot import Pilot

from support import scenes
from support.images import image
from support.live import StreamedAnswer
from support.scenes import Scene, scene

pytestmark = pytest.mark.usefixtures("data_folder")

Compare = Callable[..., bool]


async def in_use(made: Scene, pilot: Pilot[None]) -> None:
    """Two commands ran, one of them for the reader alone; a prompt runs, three wait, one is being written."""
    folder = Path(made.agent.session.cwd)
    for path in ("docs/orders.md", "src/shop/orders.py", "src/shop/cancel.py"):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text("")
    (folder / "shot.png").write_bytes(image("png", 640, 480))
    editor = made.app.chat.prompt.editor
    await made.ask(pilot, "!seq 40; exit 3")
    await made.ask(pilot, "!!echo for me alone")
    await made.enter(pilot, "Why is the button red? @shot.png")
    await made.until(pilot, made.llm.silent.is_set)
    for text in (
        "Then update docs/api/orders.md and the changelog.",
        "!pytest -q",
        "Commit. Do not push.",
    ):
        await made.enter(pilot, text)
    editor.post_message(events.Paste("a line of the log, with what it says\n" * 120))
    await made.until(pilot, lambda: "pasted" in editor.text)
    editor.insert(" see @or")
    await made.until(pilot, lambda: made.app.chat.completion.open)
    await made.until(pilot, lambda: made.app.state.waiting.count == 3)


async def searching(made: Scene, pilot: Pilot[None]) -> None:
    """Earlier prompts are searched, over a draft."""
    made.app.chat.prompt.editor.insert("还没写完")
    await pilot.press("ctrl+r")
    await pilot.pause()


def test_the_prompt_in_use(snap_compare: Compare, tmp_path: Path) -> None:
    made = scene(
        tmp_path / "shop-api", None, StreamedAnswer(), play=in_use, branch="main ±3"
    )
    assert snap_compare(made.app, terminal_size=(120, 36), run_before=made)


@pytest.mark.slow
def test_earlier_prompts_in_chinese(snap_compare: Compare, tmp_path: Path) -> None:
    made = scene(tmp_path / "shop-api", scenes.chinese_shop(), play=searching)
    assert snap_compare(made.app, terminal_size=(80, 24), run_before=made)
