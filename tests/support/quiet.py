"""Waiting until the event loop has nothing left to do.

A pilot waits until the process has used no time for a moment. One that got no processor has used none either:
where a machine is busy, keys would count as handled before they are.
"""

import asyncio
from collections.abc import Awaitable, Callable

_ROUNDS = 20_000
"""Of the loop, after which one that always has something to do is left alone."""


async def quiet() -> None:
    """Until nothing is due: what was posted has been handled, and what that has set off. Does not wait for
    threads, nor for timers that are to come."""
    ready = asyncio.get_running_loop()._ready  # type: ignore[attr-defined]
    still = 0
    for _ in range(_ROUNDS):
        await asyncio.sleep(0)
        still = 0 if ready else still + 1
        if still == 3:
            return


def _then_quiet(wait_for_idle: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
    async def wait(*seconds: float) -> None:
        await wait_for_idle(*seconds)
        await quiet()

    return wait


def install() -> None:
    """Every pilot waits for this, after what it waits for anyway; another size has come to the screen."""
    import textual.app
    import textual.pilot

    resize = textual.pilot.Pilot.resize_terminal

    async def resize_terminal(pilot: "textual.pilot.Pilot[object]", width: int, height: int) -> None:
        await resize(pilot, width, height)
        while pilot.app._resize_timer is not None:  # Textual waits a frame for the last of many sizes
            await asyncio.sleep(0.005)
        await quiet()

    textual.app.wait_for_idle = textual.pilot.wait_for_idle = _then_quiet(textual.pilot.wait_for_idle)  # type: ignore[attr-defined]
    textual.pilot.Pilot.resize_terminal = resize_terminal  # type: ignore[method-assign]
