"""`foldline run`: one prompt without a screen."""

import os
import sys

from foldline.agent import Agent
from foldline.agent.settings import Settings, connect_llm, known_window
from foldline.history import Session, short_id
from foldline.protocol import AssistantMessage, events, operations
from foldline.protocol.events import Event
from foldline.tui.numbers import tokens

from .agents import agent_for, chosen_session
from .arguments import UsageError
from .held import Refused, claimed, instead
from .loop import run_async
from .output import note, say, say_json
from .windows import settings_here


def run(
    prompt: str,
    continues: bool,
    yes: bool,
    model: str | None,
    window: int | None,
    strategy: str | None,
    as_json: bool,
) -> int:
    text = sys.stdin.buffer.read().decode("utf-8", "replace") if prompt == "-" else prompt
    if not text.strip():
        raise UsageError("The prompt is empty: nothing was sent.")
    # Nobody watches the embedded model write, so it need not be slow.
    settings = settings_here(
        model=model, context__window=window, compaction__strategy=strategy, offline__pace=0
    )
    try:
        session = chosen_session(continues, None)
    except Refused as refused:
        if as_json or prompt == "-":
            raise  # for a program: it is not asked
        end = instead(refused)
        if isinstance(end, int):
            return end
        session = claimed(end, refused.folder)
    if session.moved_from:
        note(f"the session {session.id} was held in {session.moved_from}; it goes on in {session.cwd}.")
    if session.damage:
        note(f"{session.damage} of the session {session.id}.")
    answer = run_async(_answer(session, settings, text, yes=yes, as_json=as_json))
    if not as_json:
        if answer.text.strip():
            say(answer.text.rstrip())
        note(f"session {short_id(session.id)}; `foldline run -c PROMPT` goes on with it.")
    return 0


async def _answer(
    session: Session, settings: Settings, text: str, *, yes: bool, as_json: bool
) -> AssistantMessage:
    llm = connect_llm(settings, os.environ)
    agent = agent_for(session, settings, llm, yes=yes)
    try:
        await known_window(llm)
        agent.executor.subscribe(_Reporter(agent, as_json))
        return await agent.prompt(text)
    finally:
        await agent.aclose()


class _Reporter:
    """Says what happens, and answers the questions nobody is there to answer."""

    def __init__(self, agent: Agent, as_json: bool) -> None:
        self._agent = agent
        self._as_json = as_json
        self._titles: dict[str, str] = {}

    def __call__(self, event: Event) -> None:
        if self._as_json:
            say_json(event.model_dump(mode="json"), pretty=False)
            sys.stdout.flush()
        else:
            self._tell(event)
        if isinstance(event, events.ApprovalRequested):
            self._agent.executor.submit(operations.Approve(call_id=event.call_id, answer="deny"))
            note(f"declined, nobody is here to approve it: {event.name} {event.title} (--yes allows all).")

    def _tell(self, event: Event) -> None:
        match event:
            case events.ToolStarted():
                self._titles[event.call_id] = event.title
            case events.ToolFinished():
                note(f"{event.name} {self._titles.get(event.call_id, '')} · {event.brief}")
            case events.Notice():
                note(event.text)
            case events.CompactionEnd(aborted=False, nothing=False):
                sizes = f"{tokens(event.tokens_before)} → {tokens(event.tokens_after)} tokens"
                note(f"folded: {sizes} · {event.folded} entries.")
            case _:
                pass
