"""The agent for library users: takes prompts and returns answers."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

from foldline.agent.extensions.mcp import ToolServers
from foldline.agent.extensions.mcp.elicitation import elicited
from foldline.agent.permissions.approvals import SANDBOXED, Choices, resumed_policy
from foldline.agent.permissions.sandbox_policy import SandboxOptions
from foldline.agent.session.auto_compact import (
    auto_compact_blocker,
    end_of_task_is_due,
    next_step,
)
from foldline.agent.session.hook_runs import fire
from foldline.agent.session.limits import Bounds
from foldline.agent.session.plan import AskUserTool, PlanTool
from foldline.agent.session.proposals import BackgroundDraft
from foldline.agent.session.skill_loading import SkillTool
from foldline.agent.session.state import AgentState, Mode
from foldline.agent.session.tool_search import ToolSearch
from foldline.agent.settings.schema import Limits
from foldline.agent.settings.settings import Settings, connect_summariser
from foldline.agent.tools.history import DmailTool, Mailbox, recall_tools
from foldline.agent.turn.request import EMPTY_ANSWER
from foldline.compaction import AdaptiveCompaction, CompactionStrategy, load_strategy
from foldline.history import Session
from foldline.llm import LLM
from foldline.protocol import (
    ApprovalMode,
    AssistantMessage,
    FoldlineError,
    Part,
    UserMessage,
    events,
    operations,
    text_parts,
)
from foldline.protocol.events import Event, TaskFinished
from foldline.view.budget import BudgetSettings

from .executor import Executor
from .subagents import Subagents
from .tools import Tool, default_tools

NO_CONNECT = (
    "This agent cannot connect to the model {model}: it was created without `connect`."
)


class Agent:
    """An agent that works on one session.

    Most callers need only `prompt`; `executor` runs everything.
    """

    def __init__(
        self,
        session: Session,
        *,
        llm: LLM,
        compaction: CompactionStrategy | str | None = None,
        mode: Mode = "auto",
        draft_ahead: bool = True,
        summariser: LLM | None = None,
        interactive: bool = False,
        dmail: bool = False,
        budget: BudgetSettings | Callable[[int], BudgetSettings] | None = None,
        approvals: ApprovalMode = "ask",
        tools: Sequence[Tool] | None = None,
        servers: ToolServers | None = None,
        connect: Callable[[str], LLM] | None = None,
        fallback: Sequence[str] = (),
        limits: Limits | None = None,
        sandbox: SandboxOptions | None = None,
        hooks: bool = False,
    ) -> None:
        """Create an agent.

        Args:
            compaction: a strategy, or the name of one.
            mode: whether to compact automatically. Without a user, `ask` behaves like `auto`.
            draft_ahead: draft the next compaction in the background, if there is a user.
            summariser: model that writes summaries instead of `llm`.
            interactive: whether a user answers proposals and questions.
            dmail: whether the model may rewind itself to an earlier checkpoint.
            budget: token limits, or a function that returns them for a window.
            tools: tools to offer; all by default.
            servers: MCP servers; closed with the agent.
            connect: function that returns a client for another model, given its name.
            fallback: names of the models to switch to, in order, when a model fails.
            limits: limits on turns and on the session; none by default.
            sandbox: what sandboxed commands may access besides the working folder.
            hooks: whether to run the user's hooks, and those project hooks that the user has agreed to.
        """
        self.session = session
        connect = connect or _no_other_model
        mailbox = Mailbox() if dmail else None
        own_tools = (
            (*default_tools(), *recall_tools(session))
            if tools is None
            else tuple(tools)
        )
        if mailbox is not None:
            own_tools = (*own_tools, DmailTool(session, mailbox))
        self.state = AgentState(
            session=session,
            llm=llm,
            tools=own_tools,
            emit=lambda _: None,
            summary_llm=summariser,
            mode="auto" if mode == "ask" and not interactive else mode,
            draft=BackgroundDraft(on=draft_ahead and interactive),
            choices=Choices(interactive=interactive),
            budget_settings=budget
            if callable(budget)
            else lambda _: budget or BudgetSettings(),
            policy=replace(resumed_policy(session, approvals), mode=approvals),
            mailbox=mailbox,
            servers=servers,
            fallback=fallback,
            bounds=Bounds(limits or Limits()),
            runs_hooks=hooks,
        )
        if tools is None:
            self._add_state_tools(connect)
        self.state.sandbox.options = sandbox or SandboxOptions()
        if servers is not None:
            self._add_servers(servers)
        if isinstance(compaction, str):
            compaction = load_strategy(compaction, self.state.dependencies)
        self.state.strategy = compaction or AdaptiveCompaction()
        self.executor = Executor(self.state, connect)
        self._notifications: set[asyncio.Task[object]] = set()
        """Running tasks of `Notification` hooks."""
        self.executor.subscribe(self._on_event)
        self._sandbox_probe: asyncio.Task[object] | None = None
        self.settings: Settings | None = None
        """The current settings. None if the agent was created without settings."""

    def _add_state_tools(self, connect: Callable[[str], LLM]) -> None:
        """Add the tools that work on the agent's state."""
        state = self.state
        subagents = Subagents(state, connect)
        state.subagents = subagents
        state.tools = (
            *state.tools,
            SkillTool(state),
            PlanTool(state),
            AskUserTool(state),
            subagents.tool,
        )

    def _add_servers(self, servers: ToolServers) -> None:
        state = self.state
        state.tools = (*state.tools, ToolSearch(state, servers))
        servers.listed = lambda: state.emit(events.ToolsListed())
        if state.is_interactive:
            servers.ask = partial(elicited, state.choices)
        servers.sandbox_of = state.sandbox_of_server
        servers.tell = state.warn

    def start(self) -> None:
        """Start tool servers and probe the sandbox in the background.

        Without this call, the first turn does both.
        """
        if self.state.servers is not None:
            self.state.servers.start()
        if self.state.policy.mode in SANDBOXED:
            self._sandbox_probe = asyncio.create_task(self.state.sandbox_engine())

    # --- compaction around a prompt --------------------------------------------------------------

    def must_make_room(self, parts: Sequence[Part]) -> bool:
        """Return whether space must and can be freed for this prompt.

        Space must be freed if the prompt would exceed the threshold.
        """
        with suppress(
            FoldlineError
        ):  # A window that is too small is reported by the turn.
            pending = self.state.estimate(UserMessage(parts=tuple(parts)))
            return next_step(self.state, pending) != "send"
        return False

    def at_good_moment(self) -> bool:
        """Return whether now is a good time to compact, before the next prompt.

        The window must be nearly full.
        """
        state = self.state
        with suppress(FoldlineError):
            if auto_compact_blocker(state) is None and end_of_task_is_due(state):
                return state.review.usable(state.projection) is None
        return False

    def fits(self, parts: Sequence[Part]) -> bool:
        """Return whether this prompt fits into the window without a compaction."""
        return self.state.fits([UserMessage(parts=tuple(parts))])

    # --- running ---------------------------------------------------------------------------------

    async def prompt(
        self, prompt: str | Sequence[Part], *, max_steps: int | None = None
    ) -> AssistantMessage:
        """Send a prompt and return the turn's final answer.

        Compacts first if the window is full.

        Args:
            max_steps: maximum number of requests in the turn.

        Raises:
            FoldlineError: the turn failed, was cancelled, or reached `max_steps`. The turn stays in the
                history.
        """
        parts = text_parts(prompt) if isinstance(prompt, str) else tuple(prompt)
        await self.state.prepare()
        if not self.must_make_room(parts) and self.at_good_moment():
            await self._run(operations.CompactSession(reason="phase"))
        first_index = self.session.next_index
        finished = await self._run(
            operations.RunAgent(parts=parts, max_steps=max_steps)
        )
        _raise_failure(finished)
        if reason := self.state.unsent:
            raise FoldlineError(reason[:1].upper() + reason[1:])
        entries = reversed(self.session.entries)
        answer = next(
            (entry for entry in entries if isinstance(entry, AssistantMessage)), None
        )
        if (
            answer is None
            or answer.index < first_index
            or (answer.calls and not self.state.ends_with_plan)
        ):
            raise FoldlineError(EMPTY_ANSWER)
        return answer

    async def compact(self, focus: str | None = None) -> None:
        """Compact now, as `/compact` does.

        Raises:
            FoldlineError: the compaction failed; nothing has changed.
        """
        operation = operations.CompactSession(reason="manual", focus=focus)
        _raise_failure(await self._run(operation))

    async def _run(self, operation: operations.Operation) -> TaskFinished:
        task = self.executor.submit(operation)
        try:
            return await self.executor.wait_for(task)
        except asyncio.CancelledError:
            self.executor.submit(operations.Interrupt())
            await asyncio.shield(self.executor.settle())
            raise

    def _on_event(self, event: events.Event) -> None:
        """Run `Notification` hooks when an event asks the user a question."""
        if not isinstance(event, events.ApprovalRequested | events.ChoiceRequested):
            return
        payload = {"message": event.title, "notification_type": "permission_prompt"}
        task = asyncio.create_task(
            fire(self.state, "Notification", payload, ["permission_prompt"])
        )
        self._notifications.add(task)
        task.add_done_callback(self._notifications.discard)

    async def aclose(self) -> None:
        for task in self._notifications:
            task.cancel()
        await asyncio.gather(*self._notifications, return_exceptions=True)
        try:
            if self.state.start_messages is not None:
                await fire(self.state, "SessionEnd", {"reason": "exit"})
        finally:
            if self._sandbox_probe is not None:
                self._sandbox_probe.cancel()
            await self.executor.aclose()


def _raise_failure(finished: TaskFinished) -> None:
    if finished.outcome == "failed":
        raise FoldlineError(finished.error or "The operation failed.")
    if finished.outcome == "cancelled":
        raise FoldlineError("Cancelled.")


def _no_other_model(model: str) -> LLM:
    raise FoldlineError(NO_CONNECT, model=model)


# --- settings ---------------------------------------------------------------------------------------------


def at_rest(agent: Agent, action: Callable[[], None]) -> bool:
    """Run an action now, or once the running operation has finished.

    Returns:
        Whether it was run now.
    """
    if not agent.executor.busy:
        action()
        return True

    def on_event(event: Event) -> None:
        if isinstance(event, TaskFinished):
            stop()
            action()

    stop = agent.executor.subscribe(on_event)
    return False


def use_request_options(state: AgentState, settings: Settings) -> None:
    """Apply changed request settings, starting with the next request."""
    from foldline.llm.client import ModelClient

    if isinstance(state.llm, ModelClient):
        state.llm.use(settings.request_options)


def retune(
    state: AgentState,
    settings: Settings,
    environ: Mapping[str, str],
) -> Callable[[], LLM | None]:
    """Prepare to apply changed compaction settings.

    Returns:
        A function that applies the settings. Call it when no operation is running. The function returns the
        client of the old summary model, which the caller must close.

    Raises:
        FoldlineError: the strategy cannot be loaded, or the summary model cannot be reached.
    """
    strategy = load_strategy(settings.compaction.strategy, state.dependencies)
    summariser = connect_summariser(settings, environ)

    def apply() -> LLM | None:
        interactive = state.is_interactive
        state.mode = settings.compaction.mode
        if state.mode == "ask" and not interactive:
            state.mode = "auto"
        state.budget_settings = settings.budget_settings
        state.fallback = settings.fallback
        state.bounds.limits = settings.bounds(watched=interactive)
        state.sandbox.options = settings.sandbox_options
        state.strategy = strategy
        state.draft.on = settings.compaction.draft_ahead == "on" and interactive
        use_request_options(state, settings)
        state.draft.drop()  # it used the old strategy, and its model may be closed now
        unused = state.summary_llm
        state.summary_llm = summariser
        return unused

    return apply
