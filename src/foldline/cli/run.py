"""`foldline run`: runs one prompt without a screen, and reports in sentences or JSON lines."""

import asyncio
import os
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from foldline.agent import Agent
from foldline.agent.permissions.approvals import Policy
from foldline.agent.project.trust import decide, folder_files
from foldline.agent.session.plan import read_plan
from foldline.agent.settings.settings import Settings, connect_llm
from foldline.files import read_regular
from foldline.history import Session, short_id, typed_path
from foldline.past.describe import describe
from foldline.protocol import (
    AssistantMessage,
    FoldlineError,
    TextPart,
    ToolResultMessage,
    events,
    operations,
    system_words,
    text_parts,
)
from foldline.protocol.events import Event
from foldline.termination import run_async
from foldline.text.numbers import tokens
from foldline.text.tags import piped_part
from foldline.view.calls import early_end

from .agents import agent_for, chosen_session
from .arguments import EMPTY_PROMPT, QUOTE_PROMPT, UNKNOWN_ARGUMENT, UsageError
from .output import Json, entries_of, note, note_session, say, say_json
from .resume_folder import SESSION_MOVED
from .settings import settings_here
from .streams import UNREAD, discard_stream, flush_out

LIMIT = 3
"""Exit code of a run that has reached a limit."""
_SUMMED: Final = ("input", "cached", "output", "reasoning")
"""Usage fields that are summed in the last line of `--json` output."""
STDIN = "-"
"""The argument that stands for stdin, either as the prompt or as data after it."""
TOO_LONG = "stdin has more than 32 MB, more than any model can read. Nothing was sent."
STDIN_TWICE = (
    "stdin can be the prompt or be appended to one, not both: write `-` only once."
)
EMPTY_ANSWER = "The model returned an empty answer. Try again."
ONLY_THOUGHT = (
    "The model only thought and did not answer. "
    "Give it a smaller task, or choose another model."
)
THOUGHT_TOO_LONG = (
    "The model was stopped while it was still thinking. "
    "Give it a smaller task, or choose another model."
)
NOT_RUN = (
    "not run, because no one is here to approve it: {call} (--yes allows all calls)."
)
MOST_PIPED = 32 * 1024 * 1024
"""Maximum size of stdin, in bytes.

The largest windows have two million tokens of about ten bytes each.
"""


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
    prompt_parts = _prompt_parts(prompt, piped)
    answer_lines = [] if answers is None else _nonempty_lines(answers)
    if trust:
        decide(folder_files(Path.cwd()), "agreed")
    limits: dict[str, Any] = {"limits__turn_steps": max_steps}
    limits |= {f"limits__{name}": value for name, value in limit}
    settings = settings_here(
        model=model,
        context__window=window,
        compaction__strategy=strategy,
        **limits,
        offline__pace=0,  # no user watches the offline model write
    )
    session = chosen_session(continues, None)
    if session.moved_from:
        note(SESSION_MOVED.format(old=session.moved_from, new=session.cwd))
    if session.damage:
        note(f"{session.damage} of the session {session.id}.")
    reporter = JsonLines() if as_json else Sentences()
    return run_async(
        answer_prompt(
            session,
            settings,
            prompt_parts,
            yes=yes,
            reporter=reporter,
            plan=plan,
            answers=answer_lines,
        )
    )


def _prompt_parts(prompt: str, piped: str | None) -> tuple[TextPart, ...]:
    """Return the parts of the prompt.

    With `PROMPT -`, stdin follows the prompt and is tagged as data.
    """
    if piped not in (None, STDIN):
        raise UsageError(UNKNOWN_ARGUMENT.format(argument=piped, hint=QUOTE_PROMPT))
    if prompt == STDIN and piped is not None:
        raise UsageError(STDIN_TWICE)
    stdin = _stdin() if STDIN in (prompt, piped) else ""
    text = stdin if prompt == STDIN else prompt
    if not text.strip():
        raise UsageError(EMPTY_PROMPT)
    parts = text_parts(text)
    return parts if piped is None else (*parts, piped_part(stdin))


def _nonempty_lines(file: str) -> list[str]:
    try:
        text = read_regular(typed_path(file)).decode()
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {system_words(error)}.") from None
    except UnicodeDecodeError:
        raise UsageError(f"{file} is not UTF-8 text.") from None
    return [line.strip() for line in text.splitlines() if line.strip()]


def _stdin() -> str:
    data = sys.stdin.buffer.read(MOST_PIPED + 1)
    if len(data) > MOST_PIPED:
        raise UsageError(TOO_LONG)
    return data.decode("utf-8", "replace")


async def answer_prompt(
    session: Session,
    settings: Settings,
    prompt: tuple[TextPart, ...],
    *,
    yes: bool,
    reporter: "Sentences | JsonLines",
    plan: bool = False,
    answers: Sequence[str] = (),
) -> int:
    """Run one turn, and return the exit code: 0, `LIMIT` or `UNREAD`.

    Raises:
        OSError: writing to stdout failed, for example because the disk is full.
        FoldlineError: the turn failed.
    """
    llm = connect_llm(settings, os.environ)
    agent = agent_for(session, settings, llm, yes=yes)
    if plan:
        agent.state.permissions.policy = Policy(
            "plan",
            agent.state.permissions.policy.always,
            agent.state.permissions.policy.usual,
        )
    agent.state.permissions.choices.scripted_answers.extend(answers)
    agent.state.budget.bounds.advice = (
        "`foldline run -c PROMPT` continues, and --limit raises it"
    )
    output = _CancelOnClosedPipe()
    answer = None
    failure = None
    try:
        await agent.state.models.prepare()
        output.report(partial(reporter.begin, agent))
        agent.executor.subscribe(
            lambda event: output.report(partial(reporter.on_event, event))
        )
        agent.executor.subscribe(_denying(agent))
        message = await agent.prompt(prompt)
        if agent.state.tools.ends_with_plan:
            plan_text = await asyncio.to_thread(read_plan, agent.state.tools)
            message = message.model_copy(update={"parts": text_parts(plan_text)})
        if not message.text.strip():
            raise FoldlineError(_empty_answer_error(message))
        answer = message
        return 0
    except asyncio.CancelledError:
        if output.error is None:
            raise
        if not isinstance(output.error, BrokenPipeError):
            raise output.error from None
        discard_stream(sys.stdout)
        return UNREAD
    except Exception as error:
        failure = error
        if not agent.state.budget.bounds.reached:
            raise
        note(str(error))
        return LIMIT
    finally:
        output.stop_cancelling()
        await agent.aclose()
        output.end(partial(reporter.end, agent, answer, failure))


def _empty_answer_error(answer: AssistantMessage) -> str:
    if not answer.thinking.strip():
        return EMPTY_ANSWER
    return THOUGHT_TOO_LONG if early_end(answer) else ONLY_THOUGHT


def _denying(agent: Agent) -> Callable[[Event], None]:
    """Return a listener that denies all calls that need approval."""

    def on_event(event: Event) -> None:
        if isinstance(event, events.ApprovalRequested):
            agent.executor.submit(
                operations.Approve(
                    call_id=event.call_id, answer="deny", no_one_to_ask=True
                )
            )
            call = " ".join(filter(None, (event.who, event.name, event.title)))
            note(NOT_RUN.format(call=call))

    return on_event


# --- reporters ---------------------------------------------------------------------------------------


class Sentences:
    """Reports progress on stderr, and the final text on stdout."""

    def begin(self, agent: Agent) -> None:
        self._agent = agent

    def on_event(self, event: Event) -> None:
        match event:
            case events.EntryAppended(entry=ToolResultMessage() as result):
                session = self._agent.session
                description = describe(session.projection, result, session.cwd)
                note(f"{description.kind} {description.line}")
            case events.Retrying():
                note(str(event))
            case events.Notice():
                note(event.text)
            case events.CompactionEnd(aborted=False, nothing=False):
                sizes = f"{tokens(event.tokens_before)} → {tokens(event.tokens_after)} tokens"
                note(f"compacted: {sizes} · {entries_of(event.compacted)}.")
            case _:
                pass

    def end(
        self,
        agent: Agent,
        answer: AssistantMessage | None,
        failure: BaseException | None,
    ) -> None:
        if answer is None:
            return
        if answer.text.strip():
            say(answer.text.rstrip())
        note_session(short_id(agent.session.id), "foldline run -c PROMPT")


class JsonLines:
    """Reports every event as a line on stdout.

    The first line is `run_started`, and the last is `run_finished`.
    """

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def begin(self, agent: Agent) -> None:
        session, info = agent.session, agent.state.models.llm.info
        self._write(
            {
                "type": "run_started",
                "session": session.id,
                "cwd": session.cwd,
                "model": info.id,
                "window": agent.state.models.window,
            }
        )

    def on_event(self, event: Event) -> None:
        if isinstance(event, events.StepStarted):
            self._counts["steps"] += 1
        elif isinstance(event, events.UsageReported):
            self._counts.update(event.usage.model_dump(include={*_SUMMED}))
        self._write(event.model_dump(mode="json"))

    def end(
        self,
        agent: Agent,
        answer: AssistantMessage | None,
        failure: BaseException | None,
    ) -> None:
        outcome = "failed" if failure else "cancelled"
        self._write(
            {
                "type": "run_finished",
                "outcome": "done" if answer else outcome,
                "session": agent.session.id,
                "text": answer.text if answer else None,
                "error": str(failure) if failure else None,
                "steps": self._counts["steps"],
                "usage": {name: self._counts[name] for name in _SUMMED},
            }
        )

    def _write(self, line: Json) -> None:
        say_json(line, pretty=False)
        flush_out()


class _CancelOnClosedPipe:
    """Cancels the current task when a report cannot be written to stdout.

    If no program reads the output, continuing would only cost money.
    """

    def __init__(self) -> None:
        self._run = asyncio.current_task()
        self.error: OSError | None = None
        """The error of the failed write, if any."""

    def end(self, report: Callable[[], None]) -> None:
        """Write the last report, unless an earlier one failed.

        Raises:
            OSError: writing failed.
        """
        if self.error is None:
            try:
                report()
            except BrokenPipeError:
                discard_stream(sys.stdout)  # the reader closed the pipe

    def stop_cancelling(self) -> None:
        """Stop cancelling the task on errors, because only clean-up remains."""
        self._run = None

    def report(self, report: Callable[[], None]) -> None:
        """Write a report, unless an earlier one failed."""
        if self.error is not None:
            return
        try:
            report()
        except OSError as error:
            self.error = (
                error  # not raised, because the caller must handle the next event
            )
            if self._run is not None:
                self._run.cancel()
