"""What `foldline run` tells while it works: sentences for people, or every event as a line of JSON."""

import asyncio
import sys
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Protocol

from foldline.agent import Agent
from foldline.context.numbers import tokens
from foldline.history import short_id
from foldline.protocol import AssistantMessage, events, operations
from foldline.protocol.events import Event

from .output import note, say, say_json
from .streams import flush_out, forget


class Reporter(Protocol):
    """Hears a run from its beginning to its end."""

    def begin(self, agent: Agent) -> None: ...

    def hear(self, event: Event) -> None: ...

    def end(self, agent: Agent, answer: AssistantMessage | None, failure: BaseException | None) -> None:
        """The run is over: with the final answer, with a failure, or (neither) cancelled."""


def declining(agent: Agent) -> Callable[[Event], None]:
    """Answers for the user who is not there: what must be approved is declined."""

    def hear(event: Event) -> None:
        if isinstance(event, events.ApprovalRequested):
            agent.executor.submit(operations.Approve(call_id=event.call_id, answer="deny"))
            note(f"declined, nobody is here to approve it: {event.name} {event.title} (--yes allows all).")

    return hear


class Sentences:
    """Progress on stderr, the final text on stdout."""

    def __init__(self) -> None:
        self._titles: dict[str, str] = {}

    def begin(self, agent: Agent) -> None:
        pass

    def hear(self, event: Event) -> None:
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
                note(f"folded: {sizes} · {event.folded} entries.")
            case _:
                pass

    def end(self, agent: Agent, answer: AssistantMessage | None, failure: BaseException | None) -> None:
        if answer is None:
            return
        if answer.text.strip():
            say(answer.text.rstrip())
        note(f"session {short_id(agent.session.id)}; `foldline run -c PROMPT` goes on with it.")


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

    def hear(self, event: Event) -> None:
        if isinstance(event, events.StepStarted):
            self._counts["steps"] += 1
        elif isinstance(event, events.UsageReported):
            self._counts.update(event.usage.model_dump())
        self._write(event.model_dump(mode="json"))

    def end(self, agent: Agent, answer: AssistantMessage | None, failure: BaseException | None) -> None:
        outcome = "done" if answer is not None else "cancelled" if failure is None else "failed"
        usage = {name: self._counts[name] for name in ("input", "cached", "output", "reasoning")}
        self._write(
            {
                "type": "run_finished",
                "outcome": outcome,
                "session": agent.session.id,
                "text": answer.text if answer is not None else None,
                "error": None if failure is None else str(failure),
                "steps": self._counts["steps"],
                "usage": usage,
            }
        )

    def _write(self, line: dict[str, object]) -> None:
        say_json(line, pretty=False)
        flush_out()


class WhileHeard:
    """A reporter as long as it is heard. Where stdout takes no more, the run is ended: it would work on for
    nobody, and at somebody's cost. Made in the task of that run."""

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter
        self._run = asyncio.current_task()
        self.lost: OSError | None = None
        """Why nothing more could be told."""

    def begin(self, agent: Agent) -> None:
        self._tell(partial(self._reporter.begin, agent))

    def hear(self, event: Event) -> None:
        self._tell(partial(self._reporter.hear, event))

    def end(self, agent: Agent, answer: AssistantMessage | None, failure: BaseException | None) -> None:
        """Raises:
        OSError: the answer came, and could not be written.
        """
        if self.lost is not None:
            return
        try:
            self._reporter.end(agent, answer, failure)
        except BrokenPipeError:
            forget(sys.stdout)  # whoever read us has seen enough

    def work_is_over(self) -> None:
        """Only tidying up comes from here on, and is not broken into."""
        self._run = None

    def _tell(self, telling: Callable[[], None]) -> None:
        if self.lost is not None:
            return
        try:
            telling()
        except OSError as error:  # not raised here: whoever emits an event has work to finish
            self.lost = error
            if self._run is not None:
                self._run.cancel()
