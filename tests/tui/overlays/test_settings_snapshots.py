"""The Settings screen as pictures. Look at them before accepting them: `--snapshot-update`, then svg2png."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from textual.pilot import Pilot

from support.settings_screen import SettingsApp, SettingsDriver, SettingsFile

Compare = Callable[..., bool]


async def overruled(seen: SettingsDriver) -> None:
    await seen.mark("context.window")


async def typing(seen: SettingsDriver) -> None:
    await seen.mark("compaction.soft_ratio")
    await seen.press("enter", "end", "x")


async def foreign(seen: SettingsDriver) -> None:
    await seen.press(*"模型")


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(
    ("size", "play"),
    [((80, 24), overruled), ((120, 36), typing), ((80, 24), foreign)],
    ids=["overruled-small", "typing-large", "wide-names-small"],
)
def test_settings(
    snap_compare: Compare,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    size: tuple[int, int],
    play: Callable[[SettingsDriver], Awaitable[object]],
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    kept = SettingsFile(
        tmp_path / ".config" / "foldline", environ={"FOLDLINE_CONTEXT_WINDOW": "32k"}
    )
    if play is foreign:
        kept.path.write_text('model = "深度求索/模型-8b [/nope]"\n', "utf-8")
    app = SettingsApp(kept)

    async def run(pilot: Pilot[None]) -> None:
        await play(SettingsDriver(app, pilot, kept))

    assert snap_compare(app, terminal_size=size, run_before=run)
