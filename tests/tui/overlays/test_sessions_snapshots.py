"""The Sessions screen as pictures. Look at them before accepting them: `--snapshot-update`, then svg2png."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from textual.pilot import Pilot

from foldline.history.paths import with_tilde
from support.sessions_screen import BLOG, SessionsApp, SessionsDriver, Shelf

Compare = Callable[..., bool]


@pytest.fixture(autouse=True)
def at_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Paths as they were when the pictures were taken."""
    monkeypatch.setenv("HOME", str(tmp_path))
    assert with_tilde(str(tmp_path / "data")) == "~/data"


async def _filled(home: Path) -> None:
    shelf = Shelf(home)
    await shelf.keep(
        "The retry from the mobile app still makes two orders. Find out why.",
        "Now the same for POST /orders/{id}/cancel",
        answer="The key is looked up in one transaction, the order inserted in another: both retries pass.",
        title="Idempotent orders",
        minutes=12,
    )
    await shelf.keep(
        "移动端重试仍然会产生两个订单。先找出原因,不要修改任何东西,也不要碰支付表。",
        answer="键在一个事务中查询,订单在另一个事务中插入,所以两次重试都会通过 👩‍💻。",
        minutes=90,
        model="moonshotai/kimi-k2-thinking",
        tokens=116_200,
    )
    await shelf.keep(
        "Why does the proxy drop the retry header? [/nope]",
        minutes=60 * 26,
        tokens=9_100,
    )
    for day in range(2, 40):
        await shelf.keep(
            f"Measure endpoint {day} under load",
            minutes=60 * 24 * day,
            tokens=1_000 * day,
        )
    await shelf.keep("Retry the retry post", cwd=BLOG, minutes=60 * 50)


def taken(
    compare: Compare,
    home: Path,
    size: tuple[int, int],
    *keys: str,
    query: str = "",
) -> bool:
    asyncio.run(_filled(home))
    app = SessionsApp(home, query=query)

    async def play(pilot: Pilot[None]) -> None:
        seen = SessionsDriver(app, pilot)
        await seen.until(lambda: app.sessions.state.listing is not None)
        if query:
            await seen.searched()
        for key in keys:
            await seen.press(key)
            await seen.until(lambda: app.sessions.state.listing is not None)
            if query:
                await seen.searched()

    return compare(app, terminal_size=size, run_before=play)


@pytest.mark.slow
def test_no_sessions(snap_compare: Compare, tmp_path: Path) -> None:
    app = SessionsApp(tmp_path / "data")

    async def play(pilot: Pilot[None]) -> None:
        await SessionsDriver(app, pilot).until(
            lambda: app.sessions.state.listing is not None
        )

    assert snap_compare(app, terminal_size=(80, 24), run_before=play)


def test_sessions_in_a_small_terminal(snap_compare: Compare, tmp_path: Path) -> None:
    assert taken(snap_compare, tmp_path / "data", (80, 24), "down")


def test_a_search_in_a_large_terminal(snap_compare: Compare, tmp_path: Path) -> None:
    assert taken(
        snap_compare, tmp_path / "data", (200, 60), "tab", "down", query="retr"
    )


@pytest.mark.slow
def test_a_question_in_a_small_terminal(snap_compare: Compare, tmp_path: Path) -> None:
    assert taken(snap_compare, tmp_path / "data", (80, 24), "delete", query="重试")
