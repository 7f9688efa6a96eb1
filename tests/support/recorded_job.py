"""A recorded session played again: real agent and client, local server.

The server replays the recorded answers and the tools the recorded results; summaries have realistic lengths.
Strategies thus meet real sizes and orders, and the server counts all traffic. A lossy view does not change
the later steps.
"""

import asyncio
import json
import time
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from foldline.agent import Agent
from foldline.agent.tools import Tool, ToolContext, ToolOutcome
from foldline.compaction import CompactionStrategy, TruncateTurns
from foldline.compaction.strategy import load_prompt
from foldline.formats import read_foreign
from foldline.history import Session
from foldline.llm import ToolSpec
from foldline.llm.models import Price
from foldline.llm.rendering import function_name
from foldline.memory.clip import clip_to_tokens
from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    FoldlineError,
    SystemMessage,
    ToolCallPart,
    ToolResultMessage,
    UserMessage,
    events,
    operations,
    text_parts,
)
from foldline.protocol.events import Event
from foldline.protocol.messages import json_object
from foldline.view.items import INTERRUPTED, is_preamble
from foldline_eval.replay import STRIDE, recorded_messages, session_name
from support.clients import chat_at
from support.job import broken_prefixes, uncached
from support.server_checks import text_of
from support.server_process import Seen, running_server

UNLIMITED = 10_000_000
"""A window that holds every session."""
_PIECE = 400
"""Characters of a streamed chunk."""


@dataclass(frozen=True)
class Step:
    """An answer, and the results of its calls by id."""

    answer: AssistantMessage
    results: dict[str, str]

    @property
    def as_scripted(self) -> dict[str, Any]:
        """The answer in the format of the server's script."""
        calls = [
            {"id": call.call_id, "name": call.name, "arguments": call.arguments}
            for call in self.answer.calls
        ]
        return {"text": self.answer.text, "tool_calls": calls, "chunk": _PIECE}


@dataclass(frozen=True)
class Turn:
    prompt: str
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class RecordedJob:
    """A recorded session in a form common to all agents.

    Only texts and calls are used; prompts and answers without a successor are joined to the next ones.
    """

    name: str
    preamble: tuple[BaseMessage, ...]
    turns: tuple[Turn, ...]

    def first(self, steps: int) -> "RecordedJob":
        """Return the turns that begin within the first `steps` steps."""
        turns = (
            turn
            for turn, before in zip(
                self.turns,
                accumulate((len(turn.steps) for turn in self.turns), initial=0),
                strict=False,
            )
            if before < steps
        )
        return replace(self, turns=tuple(turns))

    @property
    def steps(self) -> list[Step]:
        return [step for turn in self.turns for step in turn.steps]

    @property
    def messages(self) -> tuple[BaseMessage, ...]:
        """The messages as `foldline eval` replays them."""
        result: list[BaseMessage] = [*self.preamble]
        for turn in self.turns:
            result.append(UserMessage(parts=text_parts(turn.prompt)))
            for step in turn.steps:
                result.append(step.answer)
                result += [
                    ToolResultMessage(
                        call_id=call.call_id,
                        name=call.name,
                        parts=text_parts(step.results[call.call_id]),
                    )
                    for call in step.answer.calls
                ]
        return tuple(
            message.model_copy(update={"index": STRIDE * at})
            for at, message in enumerate(result, start=1)
        )


def recorded_job(path: Path) -> RecordedJob:
    return job_of(session_name(path), recorded_messages(read_foreign(path).entries))


def job_of(name: str, messages: Sequence[BaseMessage]) -> RecordedJob:
    preamble = [message for message in messages if is_preamble(message)]
    opening = preamble or [SystemMessage(parts=text_parts(load_prompt("system")))]
    return RecordedJob(name, tuple(opening), tuple(_turns(messages)))


def _turns(messages: Iterable[BaseMessage]) -> Iterator[Turn]:
    prompt: list[str] = []
    steps: list[Step] = []
    before = ""
    for message in messages:
        match message:
            case UserMessage():
                if steps:
                    yield _ended(prompt, steps)
                    prompt, steps = [], []
                prompt.append(message.text or "(an image)")
            case AssistantMessage():
                if steps and not steps[-1].answer.calls:
                    before = steps.pop().answer.text + "\n\n"
                answer = _as_said(message, before)
                before = ""
                if answer.parts:
                    steps.append(
                        Step(
                            answer,
                            dict.fromkeys(
                                (c.call_id for c in answer.calls), INTERRUPTED
                            ),
                        )
                    )
            case ToolResultMessage() if steps and message.call_id in steps[-1].results:
                steps[-1].results[message.call_id] = message.text or "(nothing)"
    if steps:
        yield _ended(prompt, steps)


def _ended(prompt: Sequence[str], steps: Sequence[Step]) -> Turn:
    """Return a turn that ends with an answer without calls.

    Some recorded turns were broken off; the agent ends a turn at such an answer.
    """
    last = (
        [Step(AssistantMessage(parts=text_parts("(broken off)")), {})]
        if steps[-1].answer.calls
        else []
    )
    return Turn("\n\n".join(prompt), (*steps, *last))


def _as_said(message: AssistantMessage, before: str) -> AssistantMessage:
    calls = [
        ToolCallPart(
            call_id=call.call_id[-40:],
            name=function_name(call.name),
            arguments=call.arguments
            if json_object(call.arguments) is not None
            else json.dumps({"input": call.arguments}),
        )
        for call in message.calls
    ]
    text = (before + message.text).strip()
    return AssistantMessage(parts=(*(text_parts(text) if text else ()), *calls))


# -- tools -------------------------------------------------------------------------------------------


class PlayedTool(Tool):
    """Returns the recorded results of the tool of this name."""

    def __init__(
        self, name: str, arguments: Iterable[str], results: dict[str, deque[str]]
    ) -> None:
        properties = {
            key: {"type": "string", "description": f"The {key} to work with."}
            for key in arguments
        }
        description = (
            f"What the recorded agent did with `{name}`. "
            "Gives back what it was given then, whole or clipped."
        )
        self.spec = ToolSpec(
            name, description, {"type": "object", "properties": properties}
        )
        self._results = results

    def title(self, arguments: dict[str, Any]) -> str:
        return ""

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutcome:
        results = self._results[_key(arguments)]
        text = results.popleft() if len(results) > 1 else results[0]
        return ToolOutcome(clip_to_tokens(text, context.max_tokens, 0))


def _key(arguments: dict[str, Any]) -> str:
    return json.dumps(arguments, sort_keys=True)


def played_tools(job: RecordedJob) -> list[PlayedTool]:
    arguments: dict[str, dict[str, None]] = defaultdict(dict)
    results: dict[str, dict[str, deque[str]]] = defaultdict(lambda: defaultdict(deque))
    for step in job.steps:
        for call in step.answer.calls:
            call_arguments = call.parsed()
            arguments[call.name] |= dict.fromkeys(call_arguments)
            results[call.name][_key(call_arguments)].append(step.results[call.call_id])
    return [
        PlayedTool(name, sorted(keys), results[name])
        for name, keys in sorted(arguments.items())
    ]


# -- a run -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pace:
    """The server's speed, in seconds."""

    step: float = 0.0
    summary: float = 0.0

    def script(self, job: RecordedJob) -> list[dict[str, Any]]:
        notes = {"builtin": "notes", "seconds": self.summary, "chunk": _PIECE}
        recorded = [{**step.as_scripted, "seconds": self.step} for step in job.steps]
        return [
            {"when": {"tools": False}, "answer": notes},
            {"when": {"content": "<summary-request>"}, "answer": notes},
            {"answer": {"recorded": recorded}},
        ]


AT_ONCE = Pace()


@dataclass(frozen=True, repr=False)
class JobRun:
    """The figures of a run."""

    job: RecordedJob
    window: int
    requests: list[Seen]
    """All requests, from the server's log."""
    session: Session
    seconds: float
    """CPU time of agent, client and replayed tools."""
    waits: list[float]
    """Seconds of each compaction."""
    failures: list[str] = field(default_factory=list)
    """Turns that ended early, and why."""

    @property
    def bill(self) -> "Bill":
        requests = self.requests
        summaries = [seen for seen in requests if is_summary(seen.body)]
        ordinary = [
            seen for seen in requests if not (seen.rejected or is_summary(seen.body))
        ]
        return Bill(
            requests=len(requests),
            summaries=len(summaries),
            as_text=sum("tools" not in seen.body for seen in summaries),
            compactions=len(self.session.projection.all_compactions),
            input=sum(seen.prompt_tokens for seen in requests if not seen.rejected),
            uncached=sum(uncached(seen) for seen in requests if not seen.rejected),
            output=sum(seen.completion_tokens for seen in requests),
            of_summaries=sum(map(uncached, summaries)),
            refused=sum(bool(seen.rejected) for seen in requests),
            violations=tuple(
                {rule for seen in requests for rule, _ in seen.violations}
            ),
            broken=tuple(broken_prefixes(ordinary, self.session)),
            failures=tuple(self.failures),
            seconds=self.seconds,
            waits=tuple(self.waits),
        )


@dataclass(frozen=True)
class Bill:
    """The cost of a run, in tokens by the server's count."""

    requests: int
    summaries: int
    """Requests for a summary or a part of one."""
    as_text: int
    """Those of them that did not extend the session's requests, so that nothing was cached."""
    compactions: int
    input: int
    uncached: int
    """Uncached input."""
    output: int
    of_summaries: int
    """Uncached input of the requests for summaries."""
    refused: int
    """Requests longer than the window."""
    violations: tuple[str, ...]
    """Violations of the API's rules."""
    broken: tuple[str, ...]
    """Requests that lost their prefix without a change of the view."""
    failures: tuple[str, ...]
    seconds: float
    """CPU time of the agent's process."""
    waits: tuple[float, ...]
    """Seconds of each compaction."""

    def dollars(self, price: Price) -> float:
        return price.cost(self.uncached, self.input - self.uncached, self.output)


def is_summary(body: dict[str, Any]) -> bool:
    """Return whether a request asks for a summary: all others offer tools."""
    return "tools" not in body or "<summary-request>" in text_of(
        body["messages"][-1].get("content")
    )


async def run_job(
    job: RecordedJob,
    folder: Path,
    *,
    window: int | None = None,
    compaction: CompactionStrategy | str | None = None,
    pace: Pace = AT_ONCE,
    **options: Any,
) -> JobRun:
    """Play the job in an empty folder; without a window, nothing is compacted."""
    folder.mkdir(parents=True)
    settings = {} if window else {"mode": "off"}
    size = window or UNLIMITED
    with running_server(window=size, script=pace.script(job)) as server:
        llm = chat_at(server.base_url, model=server.model, window=size)
        session = Session.create(folder, home=folder.parent / f"{folder.name}-home")
        await session.append(*job.preamble)
        agent = Agent(
            session,
            llm=llm,
            compaction=compaction,
            approvals="all",
            interactive=True,
            tools=played_tools(job),
            **{**settings, **options},
        )
        user = _User(agent)
        failures = []
        began = time.process_time()
        try:
            for number, turn in enumerate(job.turns, start=1):
                try:
                    await agent.prompt(turn.prompt)
                except FoldlineError as failure:
                    failures.append(f"turn {number}: {failure}")
                    break
        finally:
            await agent.aclose()
        seconds = time.process_time() - began
        return JobRun(
            job, size, server.requests(), session, seconds, user.waits, failures
        )


class _User:
    """Compacts by hand when automatic compaction has paused, and times compactions."""

    def __init__(self, agent: Agent) -> None:
        self._executor = agent.executor
        self._since = 0.0
        self.waits: list[float] = []
        """Seconds."""
        self._executor.subscribe(self)

    def __call__(self, event: Event) -> None:
        match event:
            case events.ChoiceRequested():
                keys = [option.key for option in event.options]
                key = "c" if "c" in keys else keys[0]
                self._executor.submit(operations.Choose(choice=event.choice, key=key))
            case events.CompactionStart():
                self._since = time.monotonic()
            case events.CompactionEnd():
                self.waits.append(time.monotonic() - self._since)


@dataclass(frozen=True)
class Cell:
    """One session with one strategy and window."""

    path: Path
    window: int | None
    """In tokens; None: no limit."""
    arm: str
    """A strategy's short name, or `truncate`: drop the oldest turns, down to half the window."""
    ahead: bool = False
    """Whether the next compaction is drafted in the background."""
    steps: int = 10_000
    """Steps of the session to play, rounded up to whole turns."""
    pace: Pace = AT_ONCE

    def bill(self) -> Bill:
        """Play the job. Can be called in another process."""
        strategy = (
            TruncateTurns((self.window or UNLIMITED) // 2)
            if self.arm == "truncate"
            else self.arm
        )
        with TemporaryDirectory(prefix="foldline-job-") as folder:
            run = run_job(
                recorded_job(self.path).first(self.steps),
                Path(folder) / "project",
                window=self.window,
                compaction=strategy if self.window else None,
                pace=self.pace,
                draft_ahead=self.ahead,
            )
            return asyncio.run(run).bill
