"""Signals for a thread that waits in a blocking call while other threads work."""

import asyncio
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

from foldline.termination import end_soon

HEARD: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_NUDGE: Final = signal.SIGURG
"""Ends a blocking call of the main thread, and means nothing else: ignored by whoever has no handler."""
_SOON: Final = 0.05
"""Seconds the main thread has to notice a signal by itself."""


@contextmanager
def heard_at_once(loop: asyncio.AbstractEventLoop, heard: Callable[[signal.Signals], None]) -> Iterator[None]:
    """Have `heard` called in the main thread, whose block this is, for each signal that wants the program to
    stop.

    Python calls handlers in the main thread only, once it runs again. The system may give a signal to any
    other thread, or to this one right before it blocks; then it would not run. `loop`, which runs in another
    thread, sees every signal, and ends the blocking call.
    """
    main = threading.get_ident()
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    theirs.setblocking(False)

    def handle(number: int, _: FrameType | None) -> None:
        if number not in (_NUDGE, signal.SIGINT):
            end_soon(number)
        if number != _NUDGE:
            heard(signal.Signals(number))

    def noticed() -> None:
        if set(ours.recv(4096)) - {_NUDGE}:
            loop.call_later(_SOON, signal.pthread_kill, main, _NUDGE)

    # What is ignored was meant to be: `nohup`.
    wanted = [number for number in HEARD if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, handle) for number in (*wanted, _NUDGE)}
    fd_before = signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
    loop.call_soon_threadsafe(loop.add_reader, ours, noticed)
    try:
        yield
    finally:
        signal.set_wakeup_fd(fd_before)
        loop.call_soon_threadsafe(loop.remove_reader, ours)
        loop.call_soon_threadsafe(ours.close)
        for number, handler in before.items():
            signal.signal(number, handler)
        theirs.close()
