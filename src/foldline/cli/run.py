"""`foldline run`: one prompt without a screen. Progress is sentences, or events as lines of JSON."""

import asyncio
import os
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from foldline.agent import Agent
from foldline.agent.approvals import Policy
from foldline.agent.plan import read_plan
from foldline.agent.settings import Settings, connect_llm
from foldline.agent.trust import brought, decide
from foldline.context.calls import early_end
from foldline.context.conversation import with_piped
from foldline.context.numbers import tokens
from foldline.files import read_regular
from foldline.history import Session, short_id, typed_path
from foldline.protocol import AssistantMessage, FoldlineError, events, operations, system_words, text_parts
from foldline.protocol.events import Event
from foldline.termination import run_async

from .agents import Refused, agent_for, chosen_session, claimed
from .arguments import UsageError
from .output import Json, entries_of, note, say, say_json
from .resume import instead
from .settings import settings_here
from .streams import UNREAD, flush_out, forget

LIMIT: Final = 3
"""The exit code of a run that reached one of its bounds."""
_SUMMED: Final = ("input", "cached", "output", "reasoning")
"""What the last line of `--json` sums up of the usage."""
STDIN: Final = "-"
"""Stands for what is piped in: as the prompt, or behind it as what it is about."""
MOST_PIPED = 32 * 1024 * 1024
"""Bytes: more than the largest windows hold (two million tokens, of some ten bytes each)."""


def run(
    prompt: str,
    piped: str | None,
    continues: bool,
    yes: bool,
    trust: bool,
    plan: bool,
    answers: str | None,
    max_steps: int | None,
    limit: Sequence[tuple[str, str]],
    model: str | None,
    window: int | None,
    strategy: str | None,
    as_json: bool,
) -> int:
    text = _prompt(prompt, piped)
    given = _answers_in(answers) if answers is not None else []
    if trust:
        decide(brought(Path.cwd()), "agreed")
    limits: dict[str, Any] = {"limits__turn_steps": max_steps}
    limits |= {f"limits__{name}": value for name, value in limit}
    # Nobody watches the embedded model write, so it need not be slow.
    settings = settings_here(
        model=model,
        context__window=window,
        compaction__strategy=strategy,
        **limits,
        offline__pace=0,
    )
    try:
        session = chosen_session(continues, None)
    except Refused as refused:
        if as_json or STDIN in (prompt, piped):
            raise  # a program is not asked
        end = instead(refused)
        if isinstance(end, int):
            return end
        session = claimed(end, refused.folder)
    if session.moved_from:
        note(f"the session {session.id} was held in {session.moved_from}; it continues in {session.cwd}.")
    if session.damage:
        note(f"{session.damage} of the session {session.id}.")
    reporter = JsonLines() if as_json else Sentences()
    return run_async(
        answer_prompt(session, settings, text, yes=yes, reporter=reporter, plan=plan, answers=given)
    )


def _prompt(prompt: str, piped: str | None) -> str:
    """The text to send. `PROMPT -` puts what is piped in below the prompt, marked as such."""
    if piped not in (None, STDIN):
        raise UsageError(f"{piped!r} is not understood: a prompt of several words goes in quotes.")
    if prompt == STDIN and piped is not None:
        raise UsageError("What is piped in can be the prompt or stand behind one: `-` counts once.")
    given = _stdin() if STDIN in (prompt, piped) else ""
    text = given if prompt == STDIN else prompt
    if not text.strip():
        raise UsageError("The prompt is empty: nothing was sent.")
    return text if piped is None else with_piped(text, given)


def _answers_in(file: str) -> list[str]:
    """The lines of a file that say something."""
    try:
        text = read_regular(typed_path(file)).decode()
    except OSError as error:
        raise UsageError(f"The answers in {file} cannot be read: {system_words(error)}.") from None
    except UnicodeDecodeError:
        raise UsageError(f"The answers in {file} are not UTF-8 text.") from None
    return [line.strip() for line in text.splitlines() if line.strip()]


def _stdin() -> str:
    data = sys.stdin.buffer.read(MOST_PIPED + 1)
    if len(data) > MOST_PIPED:
        raise UsageError("More than 32 MB were piped in: no model holds that. Nothing was sent.")
    return data.decode("utf-8", "replace")


async def answer_prompt(
    session: Session,
    settings: Settings,
    text: str,
    *,
    yes: bool,
    reporter: "Sentences | JsonLines",
    plan: bool = False,
    answers: Sequence[str] = (),
) -> int:
    """The exit code: 0, 3 where a bound was reached, or 141 where nobody reads stdout any more.

    Raises:
        OSError: stdout takes no more, such as on a full disk.
        FoldlineError: it failed.
    """
    llm = connect_llm(settings, os.environ)
    agent = agent_for(session, settings, llm, yes=yes)
    if plan:
        agent.state.policy = Policy("plan", agent.state.policy.always, agent.state.policy.usual)
    agent.state.choices.given.extend(answers)
    agent.state.bounds.then = "`foldline run -c PROMPT` continues, and --limit raises it"
    output = _WhileRead(reporter)
    answer, failure = None, None
    try:
        await agent.state.prepare()
        output.begin(agent)
        agent.executor.subscribe(output.on_event)
        agent.executor.subscribe(_declining(agent))
        answered = await agent.prompt(text)
        if agent.state.plan_waits:
            plan_text = await asyncio.to_thread(read_plan, agent.state)
            answered = answered.model_copy(update={"parts": text_parts(plan_text)})
        if not answered.text.strip():
            raise FoldlineError(_without_words(answered))
        answer = answered
        return 0
    except asyncio.CancelledError:
        if output.lost is None:
            raise
        if not isinstance(output.lost, BrokenPipeError):
            raise output.lost from None
        forget(sys.stdout)
        return UNREAD
    except Exception as error:
        failure = error
        if not agent.state.bounds.reached:
            raise
        note(str(error))
        return LIMIT
    finally:
        output.work_is_over()
        await agent.aclose()
        output.end(agent, answer, failure)


def _without_words(answer: AssistantMessage) -> str:
    """Why a run has nothing to print."""
    if not answer.thinking.strip():
        return "The model gave an empty answer: try again."
    cut = ", and was stopped before it answered" if early_end(answer) else ""
    return f"The model only thought{cut}: ask again, with less to do at a time, or choose another model."


def _declining(agent: Agent) -> Callable[[Event], None]:
    """Answer the questions of calls: nobody is here, so what must be approved does not run."""

    def on_event(event: Event) -> None:
        if isinstance(event, events.ApprovalRequested):
            agent.executor.submit(
                operations.Approve(call_id=event.call_id, answer="deny", no_one_to_ask=True)
            )
            asked = " ".join(filter(None, (event.who, event.name, event.title)))
            note(f"not run, as no person is here to approve it: {asked} (--yes allows all).")

    return on_event


# --- what is reported --------------------------------------------------------------------------------


class Sentences:
    """Progress on stderr, the final text on stdout."""

    def __init__(self) -> None:
        self._titles: dict[str, str] = {}

    def begin(self, agent: Agent) -> None:
        pass

    def on_event(self, event: Event) -> None:
        match event:
            case events.ToolStarted():
                self._titles[event.call_id] = event.title
            case events.ToolFinished():
                note(f"{event.name} {self._titles.pop(event.call_id, '')} · {event.brief}")
            case events.Retrying():
                note(str(event))
            case events.Notice():
                note(event.text)
            case events.CompactionEnd(aborted=False, nothing=False):
                sizes = f"{tokens(event.tokens_before)} → {tokens(event.tokens_after)} tokens"
                note(f"compacted: {sizes} · {entries_of(event.compacted)}.")
            case _:
                pass

    def end(self, agent: Agent, answer: AssistantMessage | None, failure: BaseException | None) -> None:
        if answer is None:
            return
        if answer.text.strip():
            say(answer.text.rstrip())
        note(f"session {short_id(agent.session.id)}; `foldline run -c PROMPT` continues it.")


class JsonLines:
    """Every event on stdout; the first line says which session it is, the last how it ended."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def begin(self, agent: Agent) -> None:
        session, info = agent.session, agent.state.llm.info
        self._write(
            {
                "type": "run_started",
                "session": session.id,
                "cwd": session.cwd,
                "model": info.id,
                "window": agent.state.window,
            }
        )

    def on_event(self, event: Event) -> None:
        if isinstance(event, events.StepStarted):
            self._counts["steps"] += 1
        elif isinstance(event, events.UsageReported):
            self._counts.update(event.usage.model_dump(include={*_SUMMED}))
        self._write(event.model_dump(mode="json"))

    def end(self, agent: Agent, answer: AssistantMessage | None, failure: BaseException | None) -> None:
        outcome = "done" if answer is not None else "cancelled" if failure is None else "failed"
        self._write(
            {
                "type": "run_finished",
                "outcome": outcome,
                "session": agent.session.id,
                "text": answer.text if answer is not None else None,
                "error": None if failure is None else str(failure),
                "steps": self._counts["steps"],
                "usage": {name: self._counts[name] for name in _SUMMED},
            }
        )

    def _write(self, line: Json) -> None:
        say_json(line, pretty=False)
        flush_out()


class _WhileRead:
    """A reporter as long as its output is read. Where stdout takes no more, the run is cancelled: it would
    work on for nobody, and at somebody's cost. Made in the task of that run."""

    def __init__(self, reporter: Sentences | JsonLines) -> None:
        self._reporter = reporter
        self._run = asyncio.current_task()
        self.lost: OSError | None = None
        """Why nothing more could be written."""

    def begin(self, agent: Agent) -> None:
        self._report(partial(self._reporter.begin, agent))

    def on_event(self, event: Event) -> None:
        self._report(partial(self._reporter.on_event, event))

    def end(self, agent: Agent, answer: AssistantMessage | None, failure: BaseException | None) -> None:
        """Raises:
        OSError: the answer came, and could not be written.
        """
        if self.lost is not None:
            return
        try:
            self._reporter.end(agent, answer, failure)
        except BrokenPipeError:
            forget(sys.stdout)  # its reader has seen enough

    def work_is_over(self) -> None:
        """Only tidying up comes from here on, and is not broken into."""
        self._run = None

    def _report(self, report: Callable[[], None]) -> None:
        if self.lost is not None:
            return
        try:
            report()
        except OSError as error:  # not raised here: whoever emits an event has work to finish
            self.lost = error
            if self._run is not None:
                self._run.cancel()
