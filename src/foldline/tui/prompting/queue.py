"""The queued prompts above the editor, and the hints in the prompt's frame."""

from typing import Final, Literal

from foldline.frontend.commands import key_of
from foldline.frontend.state import ChatState, Waiting
from foldline.text.harmless import clean_line
from foldline.text.numbers import many
from foldline.tui.look.cells import RowPiece, Span, Spans, in_reverse, piece, row
from foldline.tui.look.lines import Frame, hints_in, sides

QUEUE_ROWS = 5
"""Maximum number of rows for queued prompts."""
NOT_SENT: Final = "not sent"
HELD: Final = "sent after compacting"
HELD_FOR_ANSWER: Final = "waits for your answer"
EDIT_QUEUED: Final = "{send} edits it · {delete} removes it"
SEND_QUEUE: Final = "{send} sends them in order"
MARK_QUEUED: Final = "{older} on the first line to edit"


def queue_rows(
    waiting: Waiting,
    marked: int | None,
    look: Frame,
    width: int,
    most: int = QUEUE_ROWS,
    *,
    asks_user: bool = False,
) -> list[list[Span]]:
    """Draw the held prompt and the queued prompts, one row each.

    Args:
        marked: Index of the selected prompt, which is drawn in reverse video.
        most: Maximum number of rows. If it is 1, the held prompt is left out.
        asks_user: Whether the held prompt waits for the user's answer.
    """
    pause = ((" ‖", "altered"),) if waiting.paused else ()

    def draw(label: str, text: str, remark: Spans, is_marked: bool) -> list[Span]:
        pieces = [
            RowPiece(((f"{label:<4}", "muted"), *pause)),
            piece(clean_line(text), gap=1, cut="right"),
        ]
        # On a narrow screen the remark is dropped first; otherwise the text is shortened.
        right = [RowPiece(remark, rank=0 if width >= 70 else 1)] if remark else []
        line = row(pieces, right, max(width - 2, 0))
        return sides(look, in_reverse(line) if is_marked else line, width)

    rows: list[list[Span]] = []
    if waiting.held is not None and most > 1:
        note = HELD_FOR_ANSWER if asks_user else HELD
        remark: Spans = ((NOT_SENT if waiting.paused else note, "muted"),)
        rows.append(draw("held", waiting.held, remark, False))
    room = most - len(rows)
    first = max(0, min(marked or 0, len(waiting.queued) - room))
    shown = waiting.queued[first : first + room]
    hidden = len(waiting.queued) - len(shown)
    for number, text in enumerate(shown, start=first):
        remark = ()
        if number == marked:
            hint = EDIT_QUEUED.format(
                send=key_of("send"), delete=key_of("queue-delete")
            )
            remark = hints_in(hint, "muted")
        elif number == first + len(shown) - 1 and marked is None:
            hint = SEND_QUEUE if waiting.paused else MARK_QUEUED
            remark = hints_in(
                hint.format(send=key_of("send"), older=key_of("recall-older")), "muted"
            )
            if hidden:
                remark = ((f"{hidden} more · ", "muted"), *remark)
        rows.append(draw(str(number + 1), text, remark, number == marked))
    return rows


def waiting_words(waiting: Waiting) -> str:
    """Return the number of waiting prompts, such as `1 held, 2 queued`.

    The string starts with `‖` if the queue is paused, and is empty if no prompt is waiting.
    """
    parts = ["1 held"] if waiting.held is not None else []
    if waiting.queued:
        parts.append(f"{len(waiting.queued)} queued")
    return ("‖ " if parts and waiting.paused else "") + ", ".join(parts)


Queue = tuple[str, ...]


def move_prompt(queue: Queue, number: int, step: int) -> tuple[Queue, int]:
    """Return the queue with a prompt moved by `step`, and the prompt's new index."""
    target = min(max(number + step, 0), len(queue) - 1)
    others = without_prompt(queue, number)
    return (*others[:target], queue[number], *others[target:]), target


def without_prompt(queue: Queue, number: int) -> Queue:
    """Return the queue without the prompt at index `number`."""
    return (*queue[:number], *queue[number + 1 :])


Shell = Literal["seen", "hidden"]
"""Whether the model sees the output of a shell command."""
REWINDS: Final = "rewinds and sends"
RUNS_SHELL: Final = "runs it in your shell"
QUEUES_SHELL: Final = "queues it for your shell"
SEES_OUTPUT: Final = "the model sees the output"
HIDES_OUTPUT: Final = "the model does not see the output"
_ROOMY = 100
"""Minimum width, in columns, at which all hints are shown."""


def shell_of(line: str) -> Shell | None:
    """Return whether the model sees a shell command's output.

    `line` contains the command. For other text, returns None.
    """
    if not line.startswith("!"):
        return None
    return "hidden" if line.startswith("!!") else "seen"


def frame_hints(
    state: ChatState, *, marks: bool, edits: bool, shell: Shell | None, width: int
) -> tuple[Spans, Spans]:
    """Return the hints for the left and right of the frame.

    Args:
        marks: Whether a queued prompt is selected.
        edits: Whether an earlier prompt is being edited in place.
    """
    waiting = state.waiting
    act = "queues" if state.busy else "sends"
    if marks:
        act = "edits it"
    elif edits:
        act = REWINDS
    elif waiting.paused and waiting.count:
        act = f"sends {many(waiting.count, 'queued prompt')}"
    elif shell is not None:
        act = QUEUES_SHELL if state.busy else RUNS_SHELL
        sees = SEES_OUTPUT if shell == "seen" else HIDES_OUTPUT
        completes = hints_in(f"{key_of('complete')} completes files", "muted")
        words = f"{key_of('send')} {act} · {sees}"
        return hints_in(words, "muted"), completes if width >= _ROOMY else ()
    enter = f"{key_of('send')} {act}"
    newline = f"{key_of('newline')} new line"
    if width < _ROOMY:
        return hints_in(f"{enter} · / @ !", "muted"), hints_in(newline, "muted")
    words = f"{enter} · {newline} · / commands · @ files · ! shell"
    return hints_in(words, "muted"), hints_in(f"{key_of('editor')} editor", "muted")
