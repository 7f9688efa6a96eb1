"""Failures in the history: on the screen, a sentence has one line, and the next one takes its place."""

from contextlib import suppress

from foldline.protocol import FoldlineError, NoticeRecord, RequestRecord

from .state import AgentState


async def record_failure(state: AgentState, failure: FoldlineError) -> None:
    """Append the failure's whole sentence, where it is not that of the newest request anyway. A session in
    which nothing was said yet does not begin with it."""
    newest = state.session.entries[-1] if state.session.entries else None
    if newest is None or (isinstance(newest, RequestRecord) and newest.error == str(failure)):
        return
    with suppress(FoldlineError):  # A disk that takes nothing: that is the failure, and it is on the screen.
        await state.session.append(NoticeRecord(level="error", text=str(failure)), durable=True)
