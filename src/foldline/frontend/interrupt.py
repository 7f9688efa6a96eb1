"""The effect of Ctrl+C in every front end."""

from typing import Literal

QUIT_WITHIN = 2.0
"""Seconds within which a second Ctrl+C quits."""

InterruptAction = Literal["copy", "cancel", "warn", "quit"]


def interrupt_step(
    *,
    running: bool,
    cancelling: bool,
    since_last: float | None,
    selection: bool = False,
) -> InterruptAction:
    """Return the effect of Ctrl+C.

    The effect is one of: copy a selection, cancel running work, warn, or quit on the second press.

    `since_last` is the time since the first press in seconds, or None if this is the first press.
    """
    if selection:
        return "copy"
    if running and not cancelling:
        return "cancel"
    if since_last is not None and since_last <= QUIT_WITHIN:
        return "quit"
    return "warn"
