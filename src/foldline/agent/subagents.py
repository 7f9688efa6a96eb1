"""Subagents: agents that work on a task in a session of their own, for a call of the tool `task`.

A child has its own history, view, budget and compactions. What the user allows, what the session may
spend, and what is recorded of changed files is one for parent and children.
"""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Final

from pydantic import Field

from foldline.compaction import AdaptiveCompaction, CompactionStrategy, load_strategy, strategy_name
from foldline.context.calls import early_end, unanswered
from foldline.context.digest import clip
from foldline.context.numbers import many, short_tokens
from foldline.context.subagents import IN_BACKGROUND, Answers
from foldline.history import Session, new_session_id, short_id
from foldline.history.children import child_events
from foldline.llm import LLM
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

from .agent_files import USUAL, built_in
from .approvals import Choices
from .discovery import Custom
from .executor import Executor
from .hooks import tool_subjects
from .limits import Bounds, Spent
from .plan import AskUserTool, PlanTool
from .proposals import BackgroundDraft
from .settings_schema import Limits
from .skill_loading import SkillTool
from .skills import listing
from .state import SEARCH_TOOL, SKILL_TOOL, TASK_TOOL, AgentState
from .tools import Arguments, BaseTool, FileMemory, Tool, ToolContext, ToolFailure, ToolOutcome
from .tools.base import fitted
from .tools.bash import BashTool
from .tools.history import RECALL_TOOLS, DmailTool, recall_tools
from .tools.text import one_line

MOST_AT_ONCE: Final = 4
"""Children that work at the same time for one session; others wait for their turn."""
_EVERY: Final = 0.25
"""Seconds between two reports of a child that works on."""
_TITLE: Final = 200
"""Characters of a task's first line that stand in the parent's history."""
_OWN: Final = frozenset(
    {TASK_TOOL, SKILL_TOOL, SEARCH_TOOL, PlanTool.name, AskUserTool.name, DmailTool.name, *RECALL_TOOLS}
)
"""Tools that belong to one session: a child has its own, begins no children and asks the user nothing."""


@dataclass
class Child:
    """A subagent that works."""

    begun: Subagent
    """Its record in the history of its parent."""
    state: AgentState
    report: Callable[[Event], None]
    """Takes what the parent's interface is to hear."""
    connect: Callable[[str], LLM]
    """The way to models that may take over."""
    now: SubagentState = "running"
    doing: str = ""
    in_background: asyncio.Event = field(default_factory=asyncio.Event)
    work: asyncio.Task[ToolOutcome] | None = None
    spent: Spent = field(default_factory=Spent)
    _asking: dict[str, events.ApprovalRequested] = field(default_factory=dict)
    """The questions that wait for the user, by their calls."""
    _later: asyncio.TimerHandle | None = None

    def __post_init__(self) -> None:
        self.executor = Executor(self.state, self.connect)
        self.executor.subscribe(self._on_event)

    def tell(self, now: SubagentState | None = None) -> None:
        """Report how far it is."""
        if self._later is not None:
            self._later.cancel()
            self._later = None
        self.now = now or (
            "waiting" if self._asking else "background" if self.in_background.is_set() else "running"
        )
        self.report(
            events.SubagentProgress(
                call_id=self.begun.call_id,
                child=self.begun.child,
                agent=self.begun.agent,
                title=self.begun.title,
                state=self.now,
                steps=self.spent.steps,
                tokens=self.spent.tokens,
                doing=self.doing,
            )
        )

    def allow(self, granted: frozenset[Rule]) -> None:
        """Answer the questions that wait, and that these rules have answered by now."""
        for call_id, question in self._asking.items():
            if question.rules and granted.issuperset((question.rules[0], *question.also)):
                self.executor.submit(operations.Approve(call_id=call_id, answer="once"))

    def _on_event(self, event: Event) -> None:
        match event:
            case events.ApprovalRequested():
                self._asking[event.call_id] = event
                self.tell()
                named = {"call_id": f"{self.begun.child}/{event.call_id}", "who": self.begun.agent}
                self.report(event.model_copy(update=named))
            case events.ApprovalResolved():
                self._asking.pop(event.call_id, None)
                self.report(event.model_copy(update={"call_id": f"{self.begun.child}/{event.call_id}"}))
                self.tell()
            case events.ToolStarted():
                self.doing = one_line(f"{event.name} {event.title}")
                self._tell_later()
            case events.ToolFinished() | events.StepStarted():
                self.doing = ""
                self._tell_later()
            case events.EntryAppended(entry=RequestRecord() as record):
                self.spent = self.spent.after(record)
                self._tell_later()
            case events.Notice(level="warning" | "error"):
                self.report(event.model_copy(update={"text": f"{self.begun.agent}: {event.text}"}))
            case _:
                pass

    def _tell_later(self) -> None:
        if self._later is None and self.now in ("running", "waiting", "background"):
            self._later = asyncio.get_running_loop().call_later(_EVERY, self.tell)


class Subagents:
    """The children of one session that work now, and the answers of those that it has not waited for."""

    def __init__(self, state: AgentState, connect: Callable[[str], LLM]) -> None:
        self._state = state
        self._connect = connect
        self.running: dict[str, Child] = {}
        """By the id of their sessions."""
        self._free = asyncio.Semaphore(MOST_AT_ONCE)
        self._answers = Answers()
        self._delivered_at: object = None
        """The newest change of the view when no answer was missing in it; None where one may be."""
        self.tool = TaskTool(self)
        self.list_agents()

    # --- what the user says ------------------------------------------------------------------------

    def answer(self, word: operations.Approve) -> None:
        """The user's word on the call of a child; ignored where none waits."""
        child, _, call_id = word.call_id.partition("/")
        if child in self.running:
            self.running[child].executor.submit(word.model_copy(update={"call_id": call_id}))

    def send_to_background(self, call_id: str = "") -> None:
        """Let the child of this call go on by itself; empty: all there are. Another may begin in its place:
        nobody is to wait for what they sent away."""
        for child in self.running.values():
            if call_id in ("", child.begun.call_id) and not child.in_background.is_set():
                child.in_background.set()
                self._free.release()
                child.tell()

    def cancel(self) -> None:
        """End those in the background: the others end with the call that waits for them."""
        for child in self.running.values():
            # Cancelled once more, it would not clean up behind itself.
            if child.in_background.is_set() and child.work is not None and not child.work.cancelling():
                child.work.cancel()

    async def aclose(self) -> None:
        self.cancel()
        works = [child.work for child in self.running.values() if child.work is not None]
        await asyncio.gather(*works, return_exceptions=True)

    # --- agents --------------------------------------------------------------------------------------

    @property
    def agents(self) -> dict[str, Custom]:
        """Those that may be named, the user's and the project's first."""
        own = {name: each for name, each in self._state.catalogue.agents.items() if each.counts}
        return own | {name: each for name, each in built_in().items() if name not in own}

    def list_agents(self) -> None:
        """Tell the model of the agents there are: between two turns, as it changes every request."""
        described = listing(self.agents.values(), self._state.window, head=_DESCRIPTION)
        self.tool.spec = replace(self.tool.spec, description=described)

    # --- a child ---------------------------------------------------------------------------------------

    async def work(self, agent: Custom, model: str, prompt: str, context: ToolContext) -> ToolOutcome:
        """What comes of a task, or, once it was sent to the background, that it goes on.

        Raises:
            FoldlineError: the model cannot be asked, or the disk refused.
        """
        child = await self._begin(context.call_id, agent, model, prompt)
        child.work = asyncio.create_task(self._carried_out(child, prompt, context))
        sent_away = asyncio.create_task(child.in_background.wait())
        try:
            await asyncio.wait([child.work, sent_away], return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            if not child.in_background.is_set():
                child.work.cancel()
                await asyncio.wait([child.work])
            raise
        finally:
            sent_away.cancel()
            if child.in_background.is_set():
                child.work.add_done_callback(lambda work: self._came_back(child.begun, work))
        if not child.in_background.is_set():
            return child.work.result()
        said = f"The agent {agent.name} works on in the background; its answer comes as a message."
        return ToolOutcome(f"{said}\n{_named(child.begun)}", brief=IN_BACKGROUND, child=child.begun.child)

    async def _begin(self, call_id: str, agent: Custom, model: str, prompt: str) -> Child:
        """The child, on record in this session before there is anything of its own."""
        state, own = self._state, None
        await self._free.acquire()
        try:
            own = await asyncio.to_thread(self._connect, model) if model else None
            child_id = new_session_id(state.session.now())
            title = clip(one_line(prompt.strip().partition("\n")[0]), _TITLE)
            made = child_state(state, state.session.child(child_id, call_id, agent.name), agent, own)
            await made.prepare()
            entry = Subagent(child=child_id, call_id=call_id, agent=agent.name, title=title)
            [stored] = await state.session.append(entry, durable=True)
        except BaseException:
            self._free.release()
            if own is not None:
                await own.aclose()
            raise
        begun = entry.model_copy(update={"index": stored.index})
        child = Child(begun, made, lambda event: self._state.emit(event), self._connect)
        self.running[child_id] = child
        return child

    def uses(self, llm: LLM) -> bool:
        """Whether a child works with this client: it is closed when the last one has ended."""
        return any(child.state.llm is llm for child in self.running.values())

    async def _carried_out(self, child: Child, prompt: str, context: ToolContext) -> ToolOutcome:
        def follow(entry: Entry) -> None:
            if isinstance(entry, Approval):
                child.state.policy = self._state.policy
                if entry.rule is not None:
                    child.allow(self._state.policy.always | {entry.rule})

        self._state.session.on_append.append(follow)
        child.tell()
        ended: SubagentState = "failed"
        try:
            task = child.executor.submit(operations.RunAgent(parts=text_parts(prompt)))
            finished = await child.executor.wait_for(task)
            outcome = await self._outcome(child, finished, context)
            ended = "failed" if outcome.is_error else "done"
            return outcome
        except asyncio.CancelledError:
            ended = "cancelled"
            raise
        finally:
            await child.executor.aclose(lent=True)
            self._state.session.on_append.remove(follow)
            child.doing = ""
            child.tell(ended)
            del self.running[child.begun.child]
            self._delivered_at = None
            if not child.in_background.is_set():
                self._free.release()
            llm = child.state.llm
            if llm is not self._state.llm and not self.uses(llm):
                await llm.aclose()

    async def _outcome(self, child: Child, finished: TaskFinished, context: ToolContext) -> ToolOutcome:
        said, why = last_words(child.state.session)
        why = finished.error or child.state.unsent or why
        notes = [f"[{child.begun.agent} did not finish: {one_line(why)}]"] if why else []
        text, whole = await fitted(said, context, TASK_TOOL, *notes, _named(child.begun))
        brief = f"{many(child.spent.steps, 'step')}, {short_tokens(child.spent.tokens)} tokens"
        if why:
            brief += " ✗"
        return ToolOutcome(text, bool(why), brief, full_output=whole, child=child.begun.child)

    # --- the background ----------------------------------------------------------------------------------

    def _came_back(self, started: Subagent, work: "asyncio.Task[ToolOutcome]") -> None:
        failure = None if work.cancelled() else work.exception()
        how = "was cancelled" if work.cancelled() else f"failed ({failure})" if failure else "is back"
        self._state.emit(events.Notice(text=f"{started.agent} {how}: {started.title}"))

    async def deliver(self) -> bool:
        """Put the answers that the model still waits for into the history; whether there were any. They are
        read off the histories of the children: the program may have ended since they began."""
        state = self._state
        projection = state.projection
        if self._delivered_at == (projection.newest_change,):
            return False
        owed = [each for each in self._answers.owed(projection) if each.child not in self.running]
        self._delivered_at = (projection.newest_change,)  # before another one ends, while this is written
        try:
            for started in owed:
                body = await self._answer_of(started, state.room_for_results() // len(owed))
                await state.session.append(DeveloperMessage(parts=text_parts(body)), durable=True)
        except BaseException:
            self._delivered_at = None
            raise
        return bool(owed)

    async def _answer_of(self, started: Subagent, room: int) -> str:
        """What the model is told of a child that nobody has waited for."""
        if started.index <= self._state.session.foreign:  # anybody's word is never passed on in this place
            return f"`history_read` with `child` shows what this agent said, if anything:\n{_named(started)}"
        assert self._state.session.path is not None, "a session that can be appended to has a file"
        events_file = child_events(self._state.session.path, started.child)
        try:
            session = await asyncio.to_thread(Session.open, events_file)
            said, why = await asyncio.to_thread(last_words, session)
        except FoldlineError:
            said, why = "", "nothing is left of its session"
        context = self._state.tool_context(started.call_id, room)
        text, _ = await fitted(said, context, TASK_TOOL, _named(started))
        how = f"has answered ({started.title}):"
        if why:
            last = " It said last:" if said else ""
            how = f"did not finish ({started.title}): {one_line(why).rstrip('.')}.{last}"
        return f"The agent {started.agent} {how}\n\n{text}"


def last_words(session: Session) -> tuple[str, str]:
    """What an agent said last in its session, and why that is no answer; empty where it is one."""
    newest = session.entries[-1] if session.entries else None
    answers = (entry for entry in reversed(session.entries) if isinstance(entry, AssistantMessage))
    final = next(answers, AssistantMessage())
    said = final.text.strip() or next(filter(None, (answer.text.strip() for answer in answers)), "")
    waits = unanswered(session.projection)
    match newest:
        case None:
            return said, "it had not begun"
        case RequestRecord(error=str() as why) | NoticeRecord(level="error", text=why):
            return said, why
        case RequestRecord(stop_reason=how) if how != "cancelled" and not isinstance(waits, AssistantMessage):
            if ending := early_end(final):
                return said, f"its answer was {ending}"
            return said, "" if waits is None and final.text.strip() else "it gave no answer"
        case _:
            return said, "it was stopped, by the user or with the program, before it had an answer"


def _named(started: Subagent) -> str:
    """How the model gets at the child's history."""
    return f"[child {short_id(started.child)}]"


def child_state(parent: AgentState, session: Session, agent: Custom, own: LLM | None) -> AgentState:
    """All that a child works with, made of what its parent has."""
    limits = parent.bounds.limits
    steps = limits.subagent_steps
    called = {"turn_steps": "limits.subagent_steps", "turn_tokens": "limits.subagent_tokens"}
    if agent.steps and not 0 < steps <= agent.steps:
        steps, called["turn_steps"] = agent.steps, f"maxTurns of {agent.name}"
    known = FileMemory()
    known.lock = parent.known_files.lock  # two children must not lose one another's edits
    bounds = Limits(turn_steps=steps, turn_tokens=limits.subagent_tokens, equal_steps=limits.equal_steps)
    state = AgentState(
        session=session,
        llm=own or parent.llm,
        tools=(),
        emit=lambda _: None,
        summary_llm=parent.summary_llm,
        embedder=parent.embedder,
        draft=BackgroundDraft(on=False),
        choices=Choices(),
        fallback=parent.fallback,
        budget_settings=parent.budget_settings,
        policy=parent.policy,
        bounds=Bounds(bounds, called, "its part is left undone", parent.bounds),
        known_files=known,
        catalogue=parent.catalogue,
        reserved=parent.reserved,
        runs_hooks=parent.runs_hooks,
        hooks=parent.hooks,
        start_words=[],
        warned=parent.warned,
        left_aside=parent.left_aside,
        parent=parent,
        role=agent.body,
    )
    state.refused = dict(parent.refused)
    state.sandbox.options, state.sandbox.engine = parent.sandbox.options, parent.sandbox.engine
    state.sandbox.acting = parent.sandbox.acting
    shared = [tool for tool in parent.tools if tool.spec.name not in _OWN]
    state.tools = tuple(tools_of(agent, (*shared, *recall_tools(session), SkillTool(state))))
    state.strategy = _same_strategy(parent, state)
    return state


def tools_of(agent: Custom, tools: Iterable[Tool]) -> list[Tool]:
    """Those of these tools that the agent may use, as far as it may."""
    return [own for tool in tools if (own := _of_agent(agent, tool)) is not None]


def _of_agent(agent: Custom, tool: Tool) -> Tool | None:
    """The tool as the agent has it; what cannot be kept of what its file says gives it less."""
    named = agent.tools is None or "" in _parts_among(tool, agent.tools)
    never = _parts_among(tool, agent.without_tools)
    if not named or "" in never or (agent.only_reads and tool.level != "read"):
        return None
    if never and isinstance(tool, BashTool):
        tool = BashTool()
        tool.never = never
        return tool
    return None if never else tool


def _parts_among(tool: Tool, patterns: Iterable[str]) -> list[str]:
    """What these mean of a tool, by our name or Claude Code's: `git *` for `Bash(git *)`, and an empty text
    for all of it: `bash`, `mcp__github__*`."""
    names = [name.casefold() for name in tool_subjects(tool.spec.name)]
    parts = (pattern.removesuffix(")").partition("(") for pattern in patterns)
    return [
        "" if what.strip() in ("*", ":*") else what.strip()
        for called, _, what in parts
        if any(fnmatchcase(name, called.strip().casefold()) for name in names)
    ]


def _same_strategy(parent: AgentState, state: AgentState) -> CompactionStrategy:
    """Another of its kind: a strategy may hold what belongs to one session."""
    with suppress(FoldlineError):
        return load_strategy(strategy_name(parent.strategy), state.dependencies)
    return AdaptiveCompaction()


# --- the tool ---------------------------------------------------------------------------------------------

_DESCRIPTION: Final = (
    "Give a task to an agent with a window of its own; yours gets its answer alone. For what takes many "
    "files or steps. It knows nothing of this conversation: say all it needs. Calls of one step run at once. "
    "Agents:"
)


class TaskArguments(Arguments):
    prompt: str = Field(min_length=1, description="The task; its first line is its title.")
    agent: str | None = Field(None, description=f"By default `{USUAL}`.")
    model: str | None = Field(None, description="Only one the user names.")


class TaskTool(BaseTool[TaskArguments]):
    name = TASK_TOOL
    description = _DESCRIPTION
    arguments = TaskArguments
    at_once = True

    def __init__(self, subagents: Subagents) -> None:
        super().__init__()
        self._subagents = subagents

    def headline(self, arguments: TaskArguments) -> str:
        return f"{arguments.agent or USUAL}: {arguments.prompt.strip().partition(chr(10))[0]}"

    async def act(self, arguments: TaskArguments, context: ToolContext) -> ToolOutcome:
        agents = self._subagents.agents
        agent = agents.get(arguments.agent or USUAL)
        if agent is None:
            there = ", ".join(agents)
            raise ToolFailure(f"There is no agent {one_line(arguments.agent or '')!r}. There are: {there}.")
        if not arguments.prompt.strip():
            raise ToolFailure("The task is empty.")
        model = arguments.model or agent.model
        try:
            return await self._subagents.work(agent, model, arguments.prompt, context)
        except FoldlineError as failure:
            raise ToolFailure(f"{agent.name} could not begin: {failure}") from None
