"""`foldline run`: one prompt without a screen."""

import os
import sys

from foldline.agent.settings import Settings, connect_llm, known_window
from foldline.history import Session
from foldline.protocol import AssistantMessage

from .agents import agent_for, chosen_session
from .arguments import UsageError
from .held import Refused, claimed, instead
from .loop import run_async
from .output import note
from .reporting import JsonLines, Reporter, Sentences, declining
from .windows import settings_here

STDIN = "-"
"""Stands for what is piped in: as the prompt, or behind it as what it is about."""


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
    run_async(_answer(session, settings, text, yes=yes, max_steps=max_steps, reporter=reporter))
    return 0


def _prompt(prompt: str, piped: str | None) -> str:
    """What is sent. `PROMPT -` puts what is piped in below the prompt, marked as such."""
    if prompt == STDIN and piped is not None:
        raise UsageError("What is piped in can be the prompt or stand behind one: `-` counts once.")
    given = _stdin() if STDIN in (prompt, piped) else ""
    text = given if prompt == STDIN else prompt
    if not text.strip():
        raise UsageError("The prompt is empty: nothing was sent.")
    return text if piped is None else f"{text}\n\n<stdin>\n{given.rstrip()}\n</stdin>"


def _stdin() -> str:
    return sys.stdin.buffer.read().decode("utf-8", "replace")


async def _answer(
    session: Session,
    settings: Settings,
    text: str,
    *,
    yes: bool,
    max_steps: int | None,
    reporter: Reporter,
) -> AssistantMessage:
    llm = connect_llm(settings, os.environ)
    agent = agent_for(session, settings, llm, yes=yes)
    answer, failure = None, None
    try:
        await known_window(llm)
        reporter.begin(agent)
        agent.executor.subscribe(reporter.hear)
        agent.executor.subscribe(declining(agent))
        answer = await agent.prompt(text, max_steps=max_steps)
        return answer
    except Exception as error:  # not where it was cancelled
        failure = error
        raise
    finally:
        await agent.aclose()
        reporter.end(agent, answer, failure)
