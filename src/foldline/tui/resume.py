"""Resuming a session: what is said of it, and the prompts that were not sent when the chat ended."""

from collections.abc import Iterator
from contextlib import suppress

from foldline.context.numbers import many
from foldline.history import Session, Unsent, keep_unsent, parent_of, short_id, take_unsent
from foldline.tui.chat import ChatScreen
from foldline.tui.runner import Runner


def resume_notes(session: Session) -> Iterator[str]:
    """What is said of a session that was opened; the last sentence stays in the status row."""
    if session.moved_from:
        yield f"This session was held in {session.moved_from}; it goes on here"
    elif origin := _origin(session):
        yield origin
    if session.damage:
        yield f"This session's file is damaged: {session.damage}. All else is here."


def _origin(session: Session) -> str:
    """What a session is a copy of, as long as nothing was said in it."""
    parent = parent_of(session.header)
    if parent is None or session.projection.last_index != parent.index:
        return ""
    return f"A copy of {short_id(parent.id)} up to entry {parent.index}; the original stays as it is"


def keep_unsent_prompts(runner: Runner, chat: ChatScreen) -> None:
    """Keep the queue and the editor's text beside the session. What a full disk refuses is lost."""
    path = runner.agent.session.path
    if path is not None:
        with suppress(OSError):
            mask = runner.agent.session.mask
            keep_unsent(path.parent, Unsent(tuple(map(mask, runner.unsent)), mask(chat.prompt.editor.text)))


def restore_unsent_prompts(session: Session, runner: Runner, chat: ChatScreen) -> None:
    """Give back what was kept. Nothing is sent by itself: the queue is paused until the next Enter."""
    kept = take_unsent(session.path.parent) if session.path is not None else Unsent()
    if kept.draft.strip():
        chat.prompt.give_back(kept.draft)
    if kept.queued:
        runner.edit_queue((), kept.queued, paused=True)
        chat.remark(f"{many(len(kept.queued), 'prompt waits', 'prompts wait')} from last time")
