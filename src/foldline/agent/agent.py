"""The agent for library users: a session, a model, prompts in, answers out."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial

from foldline.compaction import AdaptiveCompaction, CompactionStrategy, load_strategy
from foldline.context.budget import BudgetSettings
from foldline.history import Session
from foldline.llm import LLM, Embedder
from foldline.protocol import (
    AssistantMessage,
    FoldlineError,
    Part,
    UserMessage,
    events,
    operations,
    text_parts,
)
from foldline.protocol.events import Event, TaskFinished

from .approvals import SANDBOXED, Choices, policy_of
from .approvals import Mode as ApprovalMode
from .auto_compact import auto_compact_blocker, end_of_task_is_due, next_step
from .executor import Executor
from .hooks import fire
from .limits import Bounds
from .mcp import ToolServers
from .mcp.elicitation import elicited
from .plan import AskUserTool, PlanTool
from .proposals import BackgroundDraft
from .sandbox_policy import SandboxOptions
from .settings import Settings, connect_summariser
from .settings_schema import Limits
from .skill_loading import SkillTool
from .state import AgentState, Mode
from .subagents import Subagents
from .tool_search import ToolSearch
from .tools import Tool, default_tools
from .tools.history import DmailTool, Mailbox, recall_tools


class Agent:
    """Works on one session with one model. `executor` runs it; `prompt` is all that most callers need."""

    def __init__(
        self,
        session: Session,
        *,
        llm: LLM,
        compaction: CompactionStrategy | str | None = None,
        mode: Mode = "auto",
        draft_ahead: bool = True,
        summariser: LLM | None = None,
        embedder: Embedder | None = None,
        interactive: bool = False,
        dmail: bool = False,
        branch_note: bool = False,
        budget: BudgetSettings | Callable[[int, str], BudgetSettings] | None = None,
        approvals: ApprovalMode = "ask",
        tools: Sequence[Tool] | None = None,
        servers: ToolServers | None = None,
        connect: Callable[[str], LLM] | None = None,
        fallback: Sequence[str] = (),
        limits: Limits | None = None,
        sandbox: SandboxOptions | None = None,
        hooks: bool = False,
    ) -> None:
        """`compaction` is a strategy, or the name of one. `budget` in tokens, or as a function of window and
        model; `connect` is the way to other models, of which those of `fallback` take over where one fails.

        `draft_ahead` has the next compaction drafted in the background, once the window is nearly full and
        where somebody waits for it: `interactive`.
        `summariser` writes the summaries in place of `llm`; `embedder` is there for strategies that ask for
        one. `interactive` says that somebody answers proposals and choices; without anybody, the mode `ask`
        compacts like `auto`. `dmail` lets the model go back to checkpoints of its own. `branch_note`
        tells it in short of a branch that the user leaves. `servers` lend more tools, and are ended with the
        agent. `limits` bound turns and the session: none by default.
        `sandbox` says what commands may do beside the folder, in the modes that have one. `hooks` runs those
        of the user, and those of the folder that were agreed to.
        """
        self.session = session
        mailbox = Mailbox() if dmail else None
        hands = (*default_tools(), *recall_tools(session)) if tools is None else tuple(tools)
        self.state = AgentState(
            session=session,
            llm=llm,
            tools=hands if mailbox is None else (*hands, DmailTool(session, mailbox)),
            emit=lambda _: None,
            summary_llm=summariser,
            embedder=embedder,
            mode="auto" if mode == "ask" and not interactive else mode,
            draft=BackgroundDraft(on=draft_ahead and interactive),
            choices=Choices(interactive=interactive),
            budget_settings=budget if callable(budget) else lambda *_: budget or BudgetSettings(),
            policy=policy_of(session, approvals),
            mailbox=mailbox,
            branch_note=branch_note,
            servers=servers,
            fallback=fallback,
            bounds=Bounds(limits or Limits()),
            runs_hooks=hooks,
        )
        if tools is None:
            children = self.state.subagents = Subagents(self.state, connect or _no_other_model)
            more = (SkillTool(self.state), PlanTool(self.state), AskUserTool(self.state), children.tool)
            self.state.tools = (*self.state.tools, *more)
        self.state.sandbox.options = sandbox or SandboxOptions()
        if servers is not None:
            self.state.tools = (*self.state.tools, ToolSearch(self.state, servers))
            servers.listed = lambda: self.state.emit(events.ToolsListed())
            if interactive:
                servers.ask_with(partial(elicited, self.state.choices))
            servers.sandbox_of = self.state.sandbox_of_server
            servers.tell = lambda text: self.state.emit(events.Notice(level="warning", text=text))
        if isinstance(compaction, str):
            compaction = load_strategy(compaction, self.state.dependencies)
        self.state.strategy = compaction or AdaptiveCompaction()
        self.executor = Executor(self.state, connect or _no_other_model)
        self._notifications: set[asyncio.Task[object]] = set()
        """Hooks that run because a question waits."""
        self.executor.subscribe(self._on_event)
        self._trying: asyncio.Task[object] | None = None
        self.settings: Settings | None = None
        """What it was made from, where that were settings; as they hold now."""

    def start(self) -> None:
        """Start the tool servers in the background, and try the sandbox where the mode wants one. Without it,
        the first turn does."""
        if self.state.servers is not None:
            self.state.servers.start()
        if self.state.policy.mode in SANDBOXED:
            self._trying = asyncio.create_task(self.state.sandbox_engine())

    def must_make_room(self, parts: Sequence[Part]) -> bool:
        """Whether this prompt, sent now, would cross the threshold, and something can be done before."""
        with suppress(FoldlineError):  # A window too small to work in: the turn will say so.
            return next_step(self.state, self.state.estimate(UserMessage(parts=tuple(parts)))) != "send"
        return False

    def at_good_moment(self) -> bool:
        """Whether a compaction between two turns comes in time: the window is nearly full (`phase`)."""
        state = self.state
        with suppress(FoldlineError):
            due = auto_compact_blocker(state) is None and end_of_task_is_due(state)
            return due and state.review.usable(state.projection) is None
        return False

    def fits(self, parts: Sequence[Part]) -> bool:
        """Whether this prompt fits the window as it is, if only just."""
        return self.state.fits([UserMessage(parts=tuple(parts))])

    async def prompt(self, text: str, *, max_steps: int | None = None) -> AssistantMessage:
        """Send a prompt, compacting first where the window is full; the final answer of the turn.

        Raises:
            FoldlineError: the turn failed, was cancelled, or was not done after `max_steps` requests. The
                history keeps what there was of it.
        """
        parts = text_parts(text)
        await self.state.prepare()
        if not self.must_make_room(parts) and self.at_good_moment():
            await self._run(operations.CompactSession(reason="phase"))
        first = self.session.next_index
        _demand_done(await self._run(operations.RunAgent(parts=parts, max_steps=max_steps)))
        if why := self.state.unsent:
            raise FoldlineError(f"{why[:1].upper()}{why[1:]}")
        said = (entry for entry in reversed(self.session.entries) if isinstance(entry, AssistantMessage))
        answer = next(said, None)
        if answer is None or answer.index < first or (answer.calls and not self.state.plan_waits):
            raise FoldlineError("The model gave an empty answer: try again.")
        return answer

    async def compact(self, focus: str | None = None) -> None:
        """Compact now, as `/compact` does.

        Raises:
            FoldlineError: it failed; nothing has changed.
        """
        _demand_done(await self._run(operations.CompactSession(reason="manual", focus=focus)))

    async def _run(self, operation: operations.Operation) -> TaskFinished:
        task = self.executor.submit(operation)
        try:
            return await self.executor.wait_for(task)
        except asyncio.CancelledError:
            self.executor.submit(operations.Interrupt())
            await asyncio.shield(self.executor.settle())
            raise

    def _on_event(self, event: events.Event) -> None:
        """Hooks hear that a question waits."""
        if not isinstance(event, events.ApprovalRequested | events.ChoiceRequested):
            return
        payload = {"message": event.title, "notification_type": "permission_prompt"}
        task = asyncio.create_task(fire(self.state, "Notification", payload, ["permission_prompt"]))
        self._notifications.add(task)
        task.add_done_callback(self._notifications.discard)

    async def aclose(self) -> None:
        for task in self._notifications:
            task.cancel()
        await asyncio.gather(*self._notifications, return_exceptions=True)  # what they ran has ended, too
        try:
            if self.state.start_words is not None:
                await fire(self.state, "SessionEnd", {"reason": "exit"})
        finally:
            if self._trying is not None:
                self._trying.cancel()
            await self.executor.aclose()


def _demand_done(finished: TaskFinished) -> None:
    if finished.outcome == "failed":
        raise FoldlineError(finished.error or "The operation failed.")
    if finished.outcome == "cancelled":
        raise FoldlineError("Cancelled.")


def _no_other_model(model: str) -> LLM:
    raise FoldlineError(f"No way to reach the model {model} was given to this agent.")


def at_rest(agent: Agent, do: Callable[[], None]) -> bool:
    """Do it now, or, where something runs, between that and what comes next; whether it was now."""
    if not agent.executor.busy:
        do()
        return True

    def hear(event: Event) -> None:
        if isinstance(event, TaskFinished):
            stop()
            do()

    stop = agent.executor.subscribe(hear)
    return False


def use_request_options(state: AgentState, now: Settings) -> None:
    """Let what is set of requests hold from the next one on."""
    from foldline.llm.client import ModelClient

    if isinstance(state.llm, ModelClient):
        state.llm.use(now.request_options)


def retune(state: AgentState, now: Settings, environ: Mapping[str, str]) -> Callable[[], LLM | None]:
    """Prepare these settings for the compactions to come. Call the result when nothing runs; it gives back
    the summariser that is no longer used.

    Raises:
        FoldlineError: the strategy cannot be loaded, or the model for summaries cannot be asked; nothing has
            changed.
    """
    strategy = load_strategy(now.compaction.strategy, state.dependencies)
    summariser = connect_summariser(now, environ)

    def do() -> LLM | None:
        mode = now.compaction.mode
        state.mode = "auto" if mode == "ask" and not state.choices.interactive else mode
        state.budget_settings, state.fallback = now.budget_settings, now.fallback
        state.bounds.limits = now.bounds(watched=state.choices.interactive)
        state.sandbox.options = now.sandbox_options
        state.strategy = strategy
        state.draft.on = now.compaction.draft_ahead == "on" and state.choices.interactive
        use_request_options(state, now)
        state.draft.drop()  # the strategy is another, and the model that writes may be closed now
        unused, state.summary_llm = state.summary_llm, summariser
        return unused

    return do
