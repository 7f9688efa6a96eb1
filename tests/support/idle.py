"""Waiting until the event loop is idle.

A pilot waits until the process has used no CPU time for a moment. On a busy machine a process may simply not
have been scheduled, so keys would count as handled too early.
"""

import asyncio
from collections.abc import Awaitable, Callable

_ROUNDS = 20_000
"""Loop iterations after which a loop that never becomes idle is given up."""


async def wait_until_idle() -> None:
    """Wait until all posted messages and their consequences are handled.

    Does not wait for threads or pending timers.
    """
    ready = asyncio.get_running_loop()._ready  # type: ignore[attr-defined]
    still = 0
    for _ in range(_ROUNDS):
        await asyncio.sleep(0)
        still = 0 if ready else still + 1
        if still == 3:
            return


def _then_idle(
    wait_for_idle: Callable[..., Awaitable[None]],
) -> Callable[..., Awaitable[None]]:
    async def wait(*seconds: float) -> None:
        await wait_for_idle(*seconds)
        await wait_until_idle()

    return wait


def install() -> None:
    """Make every pilot wait for idleness, and for the end of a resize."""
    import textual.app
    import textual.pilot

    resize = textual.pilot.Pilot.resize_terminal

    async def resize_terminal(
        pilot: "textual.pilot.Pilot[object]", width: int, height: int
    ) -> None:
        await resize(pilot, width, height)
        while (
            pilot.app._resize_timer is not None
        ):  # Textual debounces resizes by one frame
            await asyncio.sleep(0.005)
        await wait_until_idle()

    then_idle = _then_idle(textual.pilot.wait_for_idle)  # type: ignore[attr-defined]
    textual.app.wait_for_idle = then_idle  # type: ignore[attr-defined]
    textual.pilot.wait_for_idle = then_idle  # type: ignore[attr-defined]
    textual.pilot.Pilot.resize_terminal = resize_terminal  # type: ignore[method-assign]
