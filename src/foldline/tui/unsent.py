"""What waits when the chat ends waits when it opens again: the queue, paused, and the text in the editor."""

from contextlib import suppress

from foldline.context.numbers import many
from foldline.history import Session, Unsent, keep_unsent, take_unsent
from foldline.tui.chat import ChatScreen
from foldline.tui.runner import Runner


def keep_what_waits(runner: Runner, chat: ChatScreen) -> None:
    """Keep it beside the session. What a full disk refuses is lost, as it would have been."""
    path = runner.agent.session.path
    if path is not None:
        with suppress(OSError):
            mask = runner.agent.session.mask
            keep_unsent(path.parent, Unsent(tuple(map(mask, runner.unsent)), mask(chat.prompt.editor.text)))


def give_back_unsent(session: Session, runner: Runner, chat: ChatScreen) -> None:
    """Nothing of it is sent by itself: the queue is paused until the next Enter."""
    kept = take_unsent(session.path.parent) if session.path is not None else Unsent()
    if kept.draft.strip():
        chat.prompt.give_back(kept.draft)
    if kept.queued:
        runner.edit_queue((), kept.queued, paused=True)
        chat.remark(f"{many(len(kept.queued), 'prompt waits', 'prompts wait')} from last time")
