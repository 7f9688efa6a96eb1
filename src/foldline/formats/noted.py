"""What a reader gathers while it goes through records: entries, and sentences on what was left out."""

from collections.abc import Sequence
from dataclasses import dataclass

from foldline.protocol import Entry


@dataclass(frozen=True, slots=True)
class Noted:
    """Entries in index order, what a reader should know about them, and the folder where known."""

    entries: Sequence[Entry]
    notes: tuple[str, ...] = ()
    cwd: str = ""


def left_out_note(pieces: int) -> tuple[str, ...]:
    if not pieces:
        return ()
    are = (
        "piece of a message of a kind unknown here was"
        if pieces == 1
        else ("pieces of messages of a kind unknown here were")
    )
    return (f"{pieces} {are} left out.",)
