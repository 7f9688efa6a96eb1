"""The prompts that wait, as rows inside the prompt's frame. Pure."""

from foldline.context.harmless import clean_line
from foldline.tui.blocks.cells import Span, Spans
from foldline.tui.keys.commands import key_of
from foldline.tui.state import Waiting
from foldline.tui.widgets.frames import Frame, framed_row
from foldline.tui.widgets.rows import Piece, piece

QUEUE_ROWS = 5
"""Waiting prompts shown at once; one on a short screen, while the reader goes through them."""


def queue_rows(
    waiting: Waiting,
    marked: int | None,
    look: Frame,
    width: int,
    most: int = QUEUE_ROWS,
    *,
    asked: bool = False,
) -> list[list[Span]]:
    """The waiting prompts, one row each: the held one, then the queue; the marked one reversed. At most
    `most`, which leaves out the held one where there is room for one only. `asked`: a question about it
    waits for its answer.
    """
    rows: list[list[Span]] = []
    pause: Spans = ((" ‖", "altered"),) if waiting.paused else ()
    if waiting.held is not None and most > 1:
        note = "waits for your answer" if asked else "sent after the fold"
        note = "not sent" if waiting.paused else note
        rows.append(_queue_row("held", waiting.held, note, False, pause, look, width))
    room = most - len(rows)
    first = max(0, min(marked if marked is not None else 0, len(waiting.queued) - room))
    shown = waiting.queued[first : first + room]
    for number, text in enumerate(shown, start=first):
        last = number == first + len(shown) - 1
        hidden = len(waiting.queued) - len(shown)
        note = ""
        if number == marked:
            note = f"{key_of('send')}: changes places · {key_of('queue-delete')}: puts it aside"
        elif last and marked is None:
            edit, send = key_of("recall-older"), key_of("send")
            note = f"{send} sends them in order" if waiting.paused else f"{edit} from the first line: edit"
            note = f"{hidden} more · {note}" if hidden else note
        rows.append(_queue_row(str(number + 1), text, note, number == marked, pause, look, width))
    return rows


def _queue_row(
    label: str, text: str, note: str, marked: bool, pause: Spans, look: Frame, width: int
) -> list[Span]:
    style = "text reverse" if marked else "text"
    left = [
        Piece(((f"{label:<4}", "muted"), *pause)),
        piece(clean_line(text), style, gap=1, cut="right"),
    ]
    # The text gives way to the note, except where there is hardly room for either.
    right = [piece(note, "muted", rank=0 if width >= 70 else 1)] if note else []
    return framed_row(look, left, right, width)


def waiting_words(waiting: Waiting) -> str:
    """`1 held, 2 queued`; with `‖` while paused; empty where nothing waits."""
    parts = ["1 held"] if waiting.held is not None else []
    if waiting.queued:
        parts.append(f"{len(waiting.queued)} queued")
    return ("‖ " if parts and waiting.paused else "") + ", ".join(parts)


Queue = tuple[str, ...]


def moved(queue: Queue, number: int, step: int) -> tuple[Queue, int]:
    """The queue with one prompt moved by a place, and where it is then."""
    to = min(max(number + step, 0), len(queue) - 1)
    rest = without(queue, number)
    return (*rest[:to], queue[number], *rest[to:]), to


def without(queue: Queue, number: int) -> Queue:
    """The queue without one prompt."""
    return (*queue[:number], *queue[number + 1 :])
