"""Subagents: agents that work on a task in their own session, started by a call to the `task` tool.

A subagent has its own history, view, budget and compactions. It shares the parent's approvals, session limits
and records of changed files.
"""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from itertools import chain
from typing import Final, NamedTuple

from pydantic import Field

from foldline.agent.extensions.agent_files import USUAL, built_in
from foldline.agent.extensions.skills import listing
from foldline.agent.permissions.approvals import Choices
from foldline.agent.project.discovery import Extension
from foldline.agent.session.hook_runs import tool_subjects
from foldline.agent.session.limits import Bounds, Spent
from foldline.agent.session.plan import AskUserTool, PlanTool
from foldline.agent.session.proposals import BackgroundDraft
from foldline.agent.session.skill_loading import SkillTool
from foldline.agent.session.state import SEARCH_TOOL, SKILL_TOOL, TASK_TOOL, AgentState
from foldline.agent.settings.schema import Limits
from foldline.agent.tools.base import fitted
from foldline.agent.tools.bash import BashTool
from foldline.agent.tools.history import RECALL_TOOLS, DmailTool, recall_tools
from foldline.compaction import (
    AdaptiveCompaction,
    CompactionStrategy,
    load_strategy,
    strategy_name,
)
from foldline.history import Session, new_session_id, short_id
from foldline.history.children import child_events
from foldline.llm import LLM
from foldline.past.subagents import IN_BACKGROUND, SubagentAnswers
from foldline.protocol import (
    Approval,
    AssistantMessage,
    DeveloperMessage,
    Entry,
    FoldlineError,
    NoticeRecord,
    RequestRecord,
    Rule,
    Subagent,
    events,
    operations,
    text_parts,
)
from foldline.protocol.events import Event, SubagentState, TaskFinished
from foldline.text.harmless import escaped_line
from foldline.text.numbers import many, short_tokens
from foldline.text.shorten import clip
from foldline.view.calls import early_end, unanswered

from .executor import Executor
from .tools import (
    Arguments,
    BaseTool,
    FileMemory,
    Tool,
    ToolContext,
    ToolFailure,
    ToolOutcome,
)

MOST_AT_ONCE: Final = 4
"""Maximum number of subagents of one session that run in parallel. Others wait."""
_REPORT_SECONDS: Final = 0.25
"""Minimum time between two progress reports of a running subagent, in seconds."""
_TITLE: Final = 200
"""Maximum length of a task's title in the parent's history, in characters. The rest is cut off."""
_SESSION_TOOLS: Final = frozenset(
    {
        TASK_TOOL,
        SKILL_TOOL,
        SEARCH_TOOL,
        PlanTool.name,
        AskUserTool.name,
        DmailTool.name,
        *RECALL_TOOLS,
    }
)
"""Tools that work on one session.

A subagent gets its own instances of some of them, but cannot start subagents or ask the user.
"""
CONTINUES = "The agent {name} continues in the background. You will get its answer as a message."
UNFINISHED = "[{agent} did not finish: {problem}]"
IMPORTED = (
    "Use `history_read` with `child` to read this agent's answer, if there is one:"
)
ANSWERED = "The agent {agent} has answered ({title}):"
DID_NOT_FINISH = "The agent {agent} ({title}) did not finish: {problem}."
LAST_TEXT = " Its last message was:"
SESSION_GONE = "its session no longer exists"
NOT_BEGUN = "it had not started"
WAS_STOPPED = (
    "it was stopped before it had an answer, by the user or because the program exited"
)
ENDED_EARLY = "its answer was {ending}"
NO_ANSWER = "it gave no answer"
CANCELLED = "was cancelled"
FAILED = "failed ({error})"
FINISHED = "has finished"
UNDONE = "its task is not finished"
NO_AGENT = "There is no agent {name!r}. Available agents: {names}."
EMPTY_TASK = "The task is empty."
NOT_STARTED = "{agent} could not start: {failure}"


# --- a running subagent -----------------------------------------------------------------------------------


@dataclass
class RunningSubagent:
    """A subagent that is running."""

    record: Subagent
    """The subagent's entry in the parent's history."""
    state: AgentState
    report: Callable[[Event], None]
    """Emits an event through the parent."""
    connect: Callable[[str], LLM]
    """Connects fallback models by name."""
    status: SubagentState = "running"
    activity: str = ""
    """The running tool call, for display."""
    in_background: asyncio.Event = field(default_factory=asyncio.Event)
    work: asyncio.Task[ToolOutcome] | None = None
    spent: Spent = field(default_factory=Spent)
    _questions: dict[str, events.ApprovalRequested] = field(default_factory=dict)
    """Questions that the user has not answered yet, by call id."""
    _report_timer: asyncio.TimerHandle | None = None

    def __post_init__(self) -> None:
        self.executor = Executor(self.state, self.connect)
        self.executor.subscribe(self._on_event)

    def report_progress(self, status: SubagentState | None = None) -> None:
        """Emit the subagent's progress.

        Args:
            status: the final status; the current status by default.
        """
        if self._report_timer is not None:
            self._report_timer.cancel()
            self._report_timer = None
        self.status = status or self._running_status()
        self.report(
            events.SubagentProgress(
                call_id=self.record.call_id,
                child=self.record.child,
                agent=self.record.agent,
                title=self.record.title,
                state=self.status,
                steps=self.spent.steps,
                tokens=self.spent.tokens,
                doing=self.activity,
            )
        )

    def _running_status(self) -> SubagentState:
        if self._questions:
            return "waiting"
        return "background" if self.in_background.is_set() else "running"

    def allow(self, granted: frozenset[Rule]) -> None:
        """Approve the waiting calls that are covered by these rules."""
        for call_id, question in self._questions.items():
            if question.rules and granted.issuperset(
                (question.rules[0], *question.also)
            ):
                self.executor.submit(operations.Approve(call_id=call_id, answer="once"))

    def _on_event(self, event: Event) -> None:
        match event:
            case events.ApprovalRequested():
                self._questions[event.call_id] = event
                self.report_progress()
                fields = {
                    "call_id": self._parent_call_id(event.call_id),
                    "who": self.record.agent,
                }
                self.report(event.model_copy(update=fields))
            case events.ApprovalResolved():
                self._questions.pop(event.call_id, None)
                fields = {"call_id": self._parent_call_id(event.call_id)}
                self.report(event.model_copy(update=fields))
                self.report_progress()
            case events.ToolStarted():
                self.activity = escaped_line(f"{event.name} {event.title}")
                self._report_soon()
            case events.ToolFinished() | events.StepStarted():
                self.activity = ""
                self._report_soon()
            case events.EntryAppended(entry=RequestRecord() as record):
                self.spent = self.spent.after(record)
                self._report_soon()
            case events.Notice(level="warning" | "error"):
                text = f"{self.record.agent}: {event.text}"
                self.report(event.model_copy(update={"text": text}))
            case _:
                pass

    def _parent_call_id(self, call_id: str) -> str:
        """Return the id that a call has in the parent's events.

        The id is unique among all subagents.
        """
        return f"{self.record.child}/{call_id}"

    def _report_soon(self) -> None:
        if self._report_timer is None and self.status in (
            "running",
            "waiting",
            "background",
        ):
            loop = asyncio.get_running_loop()
            self._report_timer = loop.call_later(_REPORT_SECONDS, self.report_progress)


# --- all subagents of a session ---------------------------------------------------------------------------


class Subagents:
    """The running subagents of one session.

    Delivers the answers of background subagents.
    """

    def __init__(self, state: AgentState, connect: Callable[[str], LLM]) -> None:
        self._state = state
        self._connect = connect
        self.running: dict[str, RunningSubagent] = {}
        """Running subagents by session id."""
        self._slots = asyncio.Semaphore(MOST_AT_ONCE)
        self._answers = SubagentAnswers()
        self._delivered_at: object = None
        """The newest change to the view when all answers had been delivered.

        None if some answers may be missing.
        """
        self.tool = TaskTool(self)
        self.list_agents()

    @property
    def agents(self) -> dict[str, Extension]:
        """The available agents by name. Built-in ones come last."""
        custom = self._state.catalogue.agents
        trusted = {name: agent for name, agent in custom.items() if agent.is_trusted}
        return trusted | {
            name: agent for name, agent in built_in().items() if name not in trusted
        }

    def list_agents(self) -> None:
        """Update the description of the `task` tool.

        Call this only between two turns, because it changes every later request.
        """
        description = listing(
            self.agents.values(),
            self._state.window,
            head=_DESCRIPTION,
        )
        self.tool.spec = replace(self.tool.spec, description=description)

    # --- control ---------------------------------------------------------------------------------

    def answer(self, approval: operations.Approve) -> None:
        """Forward the user's answer about a subagent's call.

        Late answers are ignored.
        """
        child_id, _, call_id = approval.call_id.partition("/")
        child = self.running.get(child_id)
        if child is not None:
            child.executor.submit(approval.model_copy(update={"call_id": call_id}))

    def send_to_background(self, call_id: str = "") -> None:
        """Continue a call's subagent, or all subagents, in the background.

        A background subagent does not occupy a slot.
        """
        for child in self.running.values():
            if (
                call_id in ("", child.record.call_id)
                and not child.in_background.is_set()
            ):
                child.in_background.set()
                self._slots.release()
                child.report_progress()

    def cancel(self) -> None:
        """Cancel the background subagents.

        Foreground subagents are cancelled together with their calls.
        """
        for child in self.running.values():
            if child.work is None or not child.in_background.is_set():
                continue
            if (
                not child.work.cancelling()
            ):  # a second cancellation would interrupt the clean-up
                child.work.cancel()

    async def aclose(self) -> None:
        self.cancel()
        works = [
            child.work for child in self.running.values() if child.work is not None
        ]
        await asyncio.gather(*works, return_exceptions=True)

    def uses(self, llm: LLM) -> bool:
        """Return whether a running subagent is using this client."""
        return any(child.state.llm is llm for child in self.running.values())

    # --- running a task --------------------------------------------------------------------------

    async def work(
        self,
        agent: Extension,
        model: str,
        prompt: str,
        context: ToolContext,
    ) -> ToolOutcome:
        """Run a task until it is finished or sent to the background.

        Raises:
            FoldlineError: the model cannot be reached, or the write to disk failed.
        """
        child = await self._start(context.call_id, agent, model, prompt)
        work = asyncio.create_task(self._run(child, prompt, context))
        child.work = work
        sent_away = asyncio.create_task(child.in_background.wait())
        try:
            await asyncio.wait([work, sent_away], return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            if not child.in_background.is_set():
                work.cancel()
                await asyncio.wait([work])
            raise
        finally:
            sent_away.cancel()
            if child.in_background.is_set():
                work.add_done_callback(
                    lambda task: self._on_background_end(child.record, task)
                )
        if not child.in_background.is_set():
            return work.result()
        return ToolOutcome(
            f"{CONTINUES.format(name=agent.name)}\n{_reference(child.record)}",
            brief=IN_BACKGROUND,
            child=child.record.child,
        )

    async def _start(
        self,
        call_id: str,
        agent: Extension,
        model: str,
        prompt: str,
    ) -> RunningSubagent:
        """Create a subagent once a slot is free.

        The subagent is first recorded in the parent's session.
        """
        state = self._state
        own_llm = None
        await self._slots.acquire()
        try:
            if model:
                own_llm = await asyncio.to_thread(self._connect, model)
            child_id = new_session_id(state.session.now())
            session = state.session.child(child_id, call_id, agent.name)
            subagent_state = child_state(state, session, agent, own_llm)
            await subagent_state.prepare()
            record = Subagent(
                child=child_id,
                call_id=call_id,
                agent=agent.name,
                title=clip(escaped_line(_first_line(prompt)), _TITLE),
            )
            [stored] = await state.session.append(record, durable=True)
        except BaseException:
            self._slots.release()
            if own_llm is not None:
                await own_llm.aclose()
            raise
        child = RunningSubagent(
            record.model_copy(update={"index": stored.index}),
            subagent_state,
            lambda event: self._state.emit(event),
            self._connect,
        )
        self.running[child_id] = child
        return child

    async def _run(
        self,
        child: RunningSubagent,
        prompt: str,
        context: ToolContext,
    ) -> ToolOutcome:
        def follow_approvals(entry: Entry) -> None:
            if isinstance(entry, Approval):
                child.state.policy = self._state.policy
                if entry.rule is not None:
                    child.allow(self._state.policy.always | {entry.rule})

        self._state.session.on_append.append(follow_approvals)
        child.report_progress()
        status: SubagentState = "failed"
        try:
            task = child.executor.submit(operations.RunAgent(parts=text_parts(prompt)))
            finished = await child.executor.wait_for(task)
            outcome = await self._outcome(child, finished, context)
            status = "failed" if outcome.is_error else "done"
            return outcome
        except asyncio.CancelledError:
            status = "cancelled"
            raise
        finally:
            await child.executor.aclose(lent=True)
            self._state.session.on_append.remove(follow_approvals)
            child.activity = ""
            child.report_progress(status)
            del self.running[child.record.child]
            self._delivered_at = None
            if not child.in_background.is_set():
                self._slots.release()
            llm = child.state.llm
            if llm is not self._state.llm and not self.uses(llm):
                await llm.aclose()

    async def _outcome(
        self,
        child: RunningSubagent,
        finished: TaskFinished,
        context: ToolContext,
    ) -> ToolOutcome:
        final = last_words(child.state.session)
        problem = finished.error or child.state.unsent or final.problem
        notes = [_reference(child.record)]
        if problem:
            note = UNFINISHED.format(
                agent=child.record.agent, problem=escaped_line(problem)
            )
            notes.insert(0, note)
        text, full_output = await fitted(final.text, context, TASK_TOOL, *notes)
        brief = f"{many(child.spent.steps, 'step')}, {short_tokens(child.spent.tokens)} tokens"
        if problem:
            brief += " ✗"
        return ToolOutcome(
            text,
            is_error=bool(problem),
            brief=brief,
            full_output=full_output,
            child=child.record.child,
        )

    # --- background ------------------------------------------------------------------------------

    def _on_background_end(
        self, record: Subagent, work: "asyncio.Task[ToolOutcome]"
    ) -> None:
        if work.cancelled():
            status = CANCELLED
        elif failure := work.exception():
            status = FAILED.format(error=failure)
        else:
            status = FINISHED
        self._state.notify(f"{record.agent} {status}: {record.title}")

    async def deliver(self) -> bool:
        """Append the missing answers of finished subagents.

        The answers are read from the subagents' histories, because the program may have been restarted.

        Returns:
            Whether there were any.
        """
        state = self._state
        change = (state.projection.newest_change,)
        if self._delivered_at == change:
            return False
        owed = [
            record
            for record in self._answers.owed(state.projection)
            if record.child not in self.running
        ]
        self._delivered_at = change  # before the first append, because another subagent may end during it
        try:
            for record in owed:
                text = await self._answer_of(
                    record, state.room_for_results() // len(owed)
                )
                await state.session.append(
                    DeveloperMessage(parts=text_parts(text)), durable=True
                )
        except BaseException:
            self._delivered_at = None
            raise
        return bool(owed)

    async def _answer_of(self, record: Subagent, room: int) -> str:
        """Return the message that contains a subagent's answer.

        Args:
            room: maximum size of the answer, in estimated tokens.
        """
        if (
            record.index <= self._state.session.foreign
        ):  # imported text must not look like Foldline's own
            return f"{IMPORTED}\n{_reference(record)}"
        assert self._state.session.path is not None, (
            "a session that can be appended to has a file"
        )
        path = child_events(self._state.session.path, record.child)
        try:
            session = await asyncio.to_thread(Session.open, path)
            final = await asyncio.to_thread(last_words, session)
        except FoldlineError:
            final = FinalAnswer("", SESSION_GONE)
        context = self._state.tool_context(record.call_id, room)
        text, _ = await fitted(final.text, context, TASK_TOOL, _reference(record))
        head = ANSWERED.format(agent=record.agent, title=record.title)
        if final.problem:
            head = DID_NOT_FINISH.format(
                agent=record.agent,
                title=record.title,
                problem=escaped_line(final.problem).rstrip("."),
            )
            if final.text:
                head += LAST_TEXT
        return f"{head}\n\n{text}"


class FinalAnswer(NamedTuple):
    """The last text in a session."""

    text: str
    problem: str
    """Why the text is not an answer, as a clause; empty if it is one."""


def last_words(session: Session) -> FinalAnswer:
    """Return the last text in a subagent's session, and the reason if it is not an answer."""
    answers = (
        entry
        for entry in reversed(session.entries)
        if isinstance(entry, AssistantMessage)
    )
    final = next(answers, AssistantMessage())
    texts = (answer.text.strip() for answer in chain([final], answers))
    text = next(filter(None, texts), "")
    newest = session.entries[-1] if session.entries else None
    match newest:
        case None:
            return FinalAnswer(text, NOT_BEGUN)
        case (
            RequestRecord(error=str() as error)
            | NoticeRecord(level="error", text=error)
        ):
            return FinalAnswer(text, error)
    open_message = unanswered(session.projection)
    was_stopped = (
        not isinstance(newest, RequestRecord) or newest.stop_reason == "cancelled"
    )
    if was_stopped or isinstance(open_message, AssistantMessage):
        return FinalAnswer(text, WAS_STOPPED)
    if ending := early_end(final):
        return FinalAnswer(text, ENDED_EARLY.format(ending=ending))
    if open_message is not None or not final.text.strip():
        return FinalAnswer(text, NO_ANSWER)
    return FinalAnswer(text, "")


def _reference(record: Subagent) -> str:
    """Return the reference with which the model can read a subagent's history."""
    return f"[child {short_id(record.child)}]"


def _first_line(prompt: str) -> str:
    return prompt.strip().partition("\n")[0]


# --- the state of a subagent ------------------------------------------------------------------------------


def child_state(
    parent: AgentState,
    session: Session,
    agent: Extension,
    own_llm: LLM | None,
) -> AgentState:
    """Create a subagent's state from the parent's state."""
    known_files = FileMemory()
    known_files.lock = (
        parent.known_files.lock
    )  # subagents must not overwrite one another's edits
    state = AgentState(
        session=session,
        llm=own_llm or parent.llm,
        tools=(),
        emit=lambda _: None,
        summary_llm=parent.summary_llm,
        draft=BackgroundDraft(on=False),
        choices=Choices(),
        fallback=parent.fallback,
        budget_settings=parent.budget_settings,
        policy=parent.policy,
        bounds=_bounds(parent, agent),
        known_files=known_files,
        catalogue=parent.catalogue,
        reserved=parent.reserved,
        runs_hooks=parent.runs_hooks,
        hooks=parent.hooks,
        start_messages=[],
        reported_faults=parent.reported_faults,
        left_aside=parent.left_aside,
        parent=parent,
        role=agent.body,
    )
    state.refused = dict(parent.refused)
    state.sandbox.options = parent.sandbox.options
    state.sandbox.engine = parent.sandbox.engine
    state.sandbox.acting = parent.sandbox.acting
    shared_tools = [
        tool for tool in parent.tools if tool.spec.name not in _SESSION_TOOLS
    ]
    tools = (*shared_tools, *recall_tools(session), SkillTool(state))
    state.tools = tuple(tools_of(agent, tools))
    state.strategy = _new_strategy(parent, state)
    return state


def _bounds(parent: AgentState, agent: Extension) -> Bounds:
    limits = parent.bounds.limits
    steps = limits.subagent_steps
    setting_name = "limits.subagent_steps"
    if agent.steps and not 0 < steps <= agent.steps:
        steps = agent.steps
        setting_name = f"maxTurns of {agent.name}"
    child_limits = Limits(turn_steps=steps, equal_steps=limits.equal_steps)
    return Bounds(child_limits, {"turn_steps": setting_name}, UNDONE, parent.bounds)


def tools_of(agent: Extension, tools: Iterable[Tool]) -> list[Tool]:
    """Return the tools that an agent may use, restricted where necessary."""
    restricted = [_restricted(agent, tool) for tool in tools]
    return [tool for tool in restricted if tool is not None]


def _restricted(agent: Extension, tool: Tool) -> Tool | None:
    """Return a tool as an agent may use it.

    Returns None if the agent must not use it, or if a restriction cannot be enforced.
    """
    if agent.only_reads and tool.level != "read":
        return None
    if agent.tools is not None and "" not in _parts_among(tool, agent.tools):
        return None
    forbidden = _parts_among(tool, agent.without_tools)
    if not forbidden:
        return tool
    if "" in forbidden or not isinstance(tool, BashTool):
        return None
    bash = BashTool()
    bash.never = forbidden
    return bash


def _parts_among(tool: Tool, patterns: Iterable[str]) -> list[str]:
    """Return the parts of a tool that the patterns name.

    `Bash(git *)` names the part `git *`. `bash` and `mcp__github__*` name a whole tool; for such a name, an
    empty string is returned.
    """
    names = [name.casefold() for name in tool_subjects(tool.spec.name)]
    parts = []
    for pattern in patterns:
        tool_pattern, _, part = pattern.removesuffix(")").partition("(")
        tool_pattern = tool_pattern.strip().casefold()
        if any(fnmatchcase(name, tool_pattern) for name in names):
            part = part.strip()
            parts.append("" if part in ("*", ":*") else part)
    return parts


def _new_strategy(parent: AgentState, state: AgentState) -> CompactionStrategy:
    """Create another instance of the parent's strategy.

    A strategy cannot be shared, because it may keep data about its session.
    """
    with suppress(FoldlineError):
        return load_strategy(strategy_name(parent.strategy), state.dependencies)
    return AdaptiveCompaction()


# --- the tool ---------------------------------------------------------------------------------------------

_DESCRIPTION: Final = (
    "Give a task to an agent with its own context window. You only get its answer. Use it for work on many "
    "files or in many steps. It does not know this conversation: include all it needs. Calls in one step run "
    "in parallel. Agents:"
)


class TaskArguments(Arguments):
    prompt: str = Field(
        min_length=1, description="The task; its first line is its title."
    )
    agent: str | None = Field(None, description=f"Default: `{USUAL}`.")
    model: str | None = Field(None, description="Only a model that the user names.")


class TaskTool(BaseTool[TaskArguments]):
    name = TASK_TOOL
    description = _DESCRIPTION
    arguments = TaskArguments
    at_once = True

    def __init__(self, subagents: Subagents) -> None:
        super().__init__()
        self._subagents = subagents

    def headline(self, arguments: TaskArguments) -> str:
        return f"{arguments.agent or USUAL}: {_first_line(arguments.prompt)}"

    async def act(self, arguments: TaskArguments, context: ToolContext) -> ToolOutcome:
        agents = self._subagents.agents
        agent = agents.get(arguments.agent or USUAL)
        if agent is None:
            name = escaped_line(arguments.agent or "")
            raise ToolFailure(NO_AGENT, name=name, names=", ".join(agents))
        if not arguments.prompt.strip():
            raise ToolFailure(EMPTY_TASK)
        model = arguments.model or agent.model
        try:
            return await self._subagents.work(agent, model, arguments.prompt, context)
        except FoldlineError as failure:
            raise ToolFailure(NOT_STARTED, agent=agent.name, failure=failure) from None
