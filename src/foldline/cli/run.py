"""`foldline run`: one prompt without a screen."""

import asyncio
import os
import sys

from foldline.agent.settings import Settings, connect_llm, known_window
from foldline.context.conversation import with_piped
from foldline.history import Session

from .agents import agent_for, chosen_session
from .arguments import UsageError
from .held import Refused, claimed, instead
from .loop import run_async
from .output import note
from .reporting import JsonLines, Reporter, Sentences, WhileHeard, declining
from .streams import forget
from .windows import settings_here

STDIN = "-"
"""Stands for what is piped in: as the prompt, or behind it as what it is about."""
MOST_PIPED = 32 * 1024 * 1024
"""Bytes: more than the largest windows hold (two million tokens, of some ten bytes each)."""
UNREAD = 141
"""The exit code where stdout was closed while the model still worked: as of a shell's SIGPIPE, 128 + 13."""


def run(
    prompt: str,
    piped: str | None,
    continues: bool,
    yes: bool,
    max_steps: int | None,
    model: str | None,
    window: int | None,
    strategy: str | None,
    as_json: bool,
) -> int:
    text = _prompt(prompt, piped)
    # Nobody watches the embedded model write, so it need not be slow.
    settings = settings_here(
        model=model, context__window=window, compaction__strategy=strategy, offline__pace=0
    )
    try:
        session = chosen_session(continues, None)
    except Refused as refused:
        if as_json or STDIN in (prompt, piped):
            raise  # for a program: it is not asked
        end = instead(refused)
        if isinstance(end, int):
            return end
        session = claimed(end, refused.folder)
    if session.moved_from:
        note(f"the session {session.id} was held in {session.moved_from}; it goes on in {session.cwd}.")
    if session.damage:
        note(f"{session.damage} of the session {session.id}.")
    reporter = JsonLines() if as_json else Sentences()
    return run_async(_answer(session, settings, text, yes=yes, max_steps=max_steps, reporter=reporter))


def _prompt(prompt: str, piped: str | None) -> str:
    """What is sent. `PROMPT -` puts what is piped in below the prompt, marked as such."""
    if piped not in (None, STDIN):
        raise UsageError(f"{piped!r} is not understood: a prompt of several words goes in quotes.")
    if prompt == STDIN and piped is not None:
        raise UsageError("What is piped in can be the prompt or stand behind one: `-` counts once.")
    given = _stdin() if STDIN in (prompt, piped) else ""
    text = given if prompt == STDIN else prompt
    if not text.strip():
        raise UsageError("The prompt is empty: nothing was sent.")
    return text if piped is None else with_piped(text, given)


def _stdin() -> str:
    data = sys.stdin.buffer.read(MOST_PIPED + 1)
    if len(data) > MOST_PIPED:
        raise UsageError("More than 32 MB were piped in: no model holds that. Nothing was sent.")
    return data.decode("utf-8", "replace")


async def _answer(
    session: Session,
    settings: Settings,
    text: str,
    *,
    yes: bool,
    max_steps: int | None,
    reporter: Reporter,
) -> int:
    """The exit code: 0, or 141 where nobody reads stdout any more.

    Raises:
        OSError: stdout takes no more, such as on a full disk.
        FoldlineError: it failed.
    """
    llm = connect_llm(settings, os.environ)
    agent = agent_for(session, settings, llm, yes=yes)
    told = WhileHeard(reporter)
    answer, failure = None, None
    try:
        await known_window(llm)
        told.begin(agent)
        agent.executor.subscribe(told.hear)
        agent.executor.subscribe(declining(agent))
        answer = await agent.prompt(text, max_steps=max_steps)
        return 0
    except asyncio.CancelledError:
        if told.lost is None:
            raise
        if not isinstance(told.lost, BrokenPipeError):
            raise told.lost from None
        forget(sys.stdout)
        return UNREAD
    except Exception as error:
        failure = error
        raise
    finally:
        told.work_is_over()
        await agent.aclose()
        told.end(agent, answer, failure)
