"""Every command of every screen runs, in an empty session and in one where something was said."""

import asyncio
from pathlib import Path

import pytest

from foldline.tui.keys.bindings import ActiveTable, active_tables
from foldline.tui.overlays.palette import run_in_chat
from support.live import Live, live

OPENED_BY = {
    "chat": "",
    "inspector": "inspector",
    "preview": "preview",
    "sessions": "sessions",
    "diff": "diff",
    "picker": "jobs",
    "page": "status",
}
"""A screen of the program by its table, and the command that opens it."""
TABLES = {"preview": "inspector"}
"""The table of a mode that shares it with another."""
OTHER_MODES = {"entries", "by-size"}
"""Commands that leave the draft."""
LEAVES = {"quit", "fork", "new", "resume", "interrupt", "on", "back"}
"""Ends the program, or goes where a test does not: held by tests of their own."""


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOLDLINE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("EDITOR", "true")


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(
    "script", [(), ("one " * 6_000, "two " * 3_000, "three")], ids=["empty", "filled"]
)
async def test_every_command_of_every_screen_runs(
    script: tuple[str, ...], tmp_path: Path
) -> None:
    ran: dict[str, set[str]] = {}
    async with live(
        tmp_path / "shop",
        *script,
        size=(120, 36),
        summaries=("## Goal\nAll of it.",) * 9,
    ) as running:
        for number, _ in enumerate(script):
            await running.ask(f"prompt {number}")
        for screen, opener in OPENED_BY.items():
            if screen == "preview" and not script:
                continue  # nothing was said: nothing to compact
            first = await opened(running, screen, opener)
            left_out = LEAVES | (OTHER_MODES if screen == "preview" else set())
            for command in sorted(
                {*first.actions} - left_out, key=lambda id: (id == "apply", id)
            ):
                # What was applied leaves nothing to preview.
                station = _station(running, screen) or await opened(
                    running, screen, opener
                )
                await running.app.run_action(first.actions[command], station.node)
                await asyncio.sleep(0)
                ran.setdefault(screen, set()).add(command)
            await running.pilot.pause()
            assert running.app._exception is None, screen
    assert sum(map(len, ran.values())) > 70, "most of them are bound"


async def opened(running: Live, screen: str, opener: str) -> ActiveTable:
    """The screen with this table in front."""
    app = running.app
    for asked in (False, True):
        while app.screen is not app.chat and not (asked and _station(running, screen)):
            await app.pop_screen()
        if not opener:
            break
        if not asked:
            run_in_chat(app, opener)
            await running.until(lambda: _station(running, screen))
    station = _station(running, screen)
    assert station is not None, screen
    return station


def _station(running: Live, screen: str) -> ActiveTable | None:
    return next(
        (
            station
            for station in active_tables(running.app.screen)
            if station.name == TABLES.get(screen, screen)
        ),
        None,
    )
