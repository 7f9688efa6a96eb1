"""The Jobs screen as a picture. Look at it before accepting it: `--snapshot-update`, then svg2png."""

from collections.abc import Callable

import pytest

from foldline.tui.base_app import BaseApp
from foldline.tui.screens.jobs import JobRow, JobsScreen

Compare = Callable[..., bool]
ROWS = (
    JobRow(4, "npm run dev -- --port 5173", since="14:02", seconds=187, path="~/shop/outputs/job-4.txt"),
    JobRow(3, "pytest -q --looponfail tests/订单", "exit 1", True, "13:58", 61.4, "~/shop/outputs/job-3.txt"),
    JobRow(2, "cargo build --release", "exit 0", False, "13:40", 4_012, "~/shop/outputs/job-2.txt"),
    JobRow(1, "tail -f staging.log", "stopped by the user", False, "13:12", 600, "~/shop/outputs/job-1.txt"),
)


class JobsApp(BaseApp[None]):
    async def on_mount(self) -> None:
        await self.push_screen(JobsScreen(lambda: ROWS, lambda _: "", self.ended))

    async def ended(self, number: int) -> None:
        raise AssertionError("nobody asked for that")


def test_jobs(snap_compare: Compare, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "COLORTERM", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    assert snap_compare(JobsApp(), terminal_size=(80, 24), press=["f20"])
