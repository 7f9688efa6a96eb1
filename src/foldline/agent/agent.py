"""The agent for library users: takes prompts and returns answers."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

from foldline.agent.extensions.mcp import ToolServers
from foldline.agent.extensions.mcp.elicitation import elicited
from foldline.agent.permissions.approvals import Policy, resumed_policy
from foldline.agent.permissions.sandbox_policy import SandboxOptions
from foldline.agent.session.auto_compact import (
    end_of_task_is_due,
    next_step,
)
from foldline.agent.session.compaction_state import Mode
from foldline.agent.session.models import Connect, no_other_model
from foldline.agent.session.plan import AskUserTool, PlanTool
from foldline.agent.session.skill_loading import SkillTool
from foldline.agent.session.state import AgentState
from foldline.agent.session.tool_search import ToolSearch
from foldline.agent.settings.schema import Limits
from foldline.agent.settings.settings import Settings, connect_summariser
from foldline.agent.tools.history import DmailTool, Mailbox, recall_tools
from foldline.agent.turn.request import EMPTY_ANSWER
from foldline.compaction import CompactionStrategy
from foldline.history import Session
from foldline.llm import LLM
from foldline.llm.base import OFFLINE
from foldline.protocol import (
    ApprovalMode,
    AssistantMessage,
    FoldlineError,
    Part,
    UserMessage,
    text_parts,
)
from foldline.protocol.events import (
    ApprovalRequested,
    ChoiceRequested,
    Event,
    TaskFinished,
    ToolsListed,
)
from foldline.protocol.operations import CompactSession, Interrupt, Operation, RunAgent
from foldline.view.budget import BudgetSettings

from .executor import Executor
from .subagents import Subagents
from .tools import Tool, default_tools


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
        approvals: ApprovalMode | Policy = "ask",
        tools: Sequence[Tool] | None = None,
        servers: ToolServers | None = None,
        connect: Connect | None = None,
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
            approvals: the mode, or a whole policy. With a mode, the rules of a resumed session apply.
            tools: tools to offer; all by default.
            servers: MCP servers; closed with the agent.
            connect: function that returns a client for another model, given its name.
            fallback: names of the models to switch to, in order, when a model fails.
            limits: limits on turns and on the session; none by default.
            sandbox: what sandboxed commands may access besides the working folder.
            hooks: whether to run the user's hooks, and those project hooks that the user has agreed to.
        """
        self.session = session
        state = AgentState(session, llm, is_interactive=interactive)
        self.state = state
        state.models.connect = connect or no_other_model
        state.models.summary_llm = summariser
        state.models.fallback = fallback
        state.budget.bounds.limits = limits or Limits()
        if callable(budget):
            state.budget.settings = budget
        elif budget is not None:
            state.budget.settings = lambda _: budget
        if not isinstance(approvals, Policy):
            approvals = replace(resumed_policy(session, approvals), mode=approvals)
        state.permissions.policy = approvals
        state.permissions.sandbox.options = sandbox or SandboxOptions()
        state.hooks.is_on = hooks
        self._add_tools(tools, dmail=dmail)
        if servers is not None:
            self._add_servers(servers)
        state.compaction.use_mode(mode, draft_ahead=draft_ahead)
        if isinstance(compaction, str):
            compaction = state.compaction.load(compaction)
        if compaction is not None:
            state.compaction.strategy = compaction
        self.executor = Executor(state)
        self._notifications: set[asyncio.Task[object]] = set()
        """Running tasks of `Notification` hooks."""
        self.executor.subscribe(self._on_event)
        self._sandbox_probe: asyncio.Task[object] | None = None
        self.settings: Settings | None = None
        """The current settings. None if the agent was created without settings."""

    def _add_tools(self, tools: Sequence[Tool] | None, *, dmail: bool) -> None:
        """Offer these tools; by default, all of them."""
        state = self.state
        own: list[Tool] = [*default_tools(), *recall_tools(self.session)]
        if tools is not None:
            own = [*tools]
        if dmail:
            state.tools.mailbox = Mailbox()
            own.append(DmailTool(self.session, state.tools.mailbox))
        if tools is None:
            subagents = Subagents(state)
            state.subagents = subagents
            own += [
                SkillTool(state.budget),
                PlanTool(state),
                AskUserTool(state.permissions.choices),
                subagents.tool,
            ]
        state.tools.all = own

    def _add_servers(self, servers: ToolServers) -> None:
        tools = self.state.tools
        permissions = self.state.permissions
        tools.servers = servers
        tools.all = (*tools.all, ToolSearch(tools, servers))
        servers.listed = lambda: tools.events.emit(ToolsListed())
        if permissions.choices.interactive:
            servers.ask = partial(elicited, permissions.choices)
        servers.sandbox_of = permissions.sandbox_of_server
        servers.tell = tools.events.warn
        permissions.on_mode = servers.follow_mode

    def start(self) -> None:
        """Start tool servers and probe the sandbox in the background.

        Without this call, the first turn does both.
        """
        if self.state.tools.servers is not None:
            self.state.tools.servers.start()
        if self.state.permissions.is_sandboxed:
            self._sandbox_probe = asyncio.create_task(self.state.permissions.engine())

    # --- compaction around a prompt --------------------------------------------------------------

    def must_make_room(self, parts: Sequence[Part]) -> bool:
        """Return whether space must and can be freed for this prompt.

        Space must be freed if the prompt would exceed the threshold.
        """
        with suppress(
            FoldlineError
        ):  # A window that is too small is reported by the turn.
            pending = self.state.budget.estimate(UserMessage(parts=tuple(parts)))
            return next_step(self.state.compaction, pending) != "send"
        return False

    def at_good_moment(self) -> bool:
        """Return whether now is a good time to compact, before the next prompt.

        The window must be nearly full.
        """
        state = self.state
        with suppress(FoldlineError):
            compaction = state.compaction
            if compaction.blocker is None and end_of_task_is_due(compaction):
                return compaction.review.usable(state.projection) is None
        return False

    def fits(self, parts: Sequence[Part]) -> bool:
        """Return whether this prompt fits into the window without a compaction."""
        return self.state.budget.fits([UserMessage(parts=tuple(parts))])

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
        await self.state.models.prepare()
        if not self.must_make_room(parts) and self.at_good_moment():
            await self._run(CompactSession(reason="phase"))
        first_index = self.session.next_index
        finished = await self._run(RunAgent(parts=parts, max_steps=max_steps))
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
            or (answer.calls and not self.state.tools.ends_with_plan)
        ):
            raise FoldlineError(EMPTY_ANSWER)
        return answer

    async def compact(self, focus: str | None = None) -> None:
        """Compact now, as `/compact` does.

        Raises:
            FoldlineError: the compaction failed; nothing has changed.
        """
        operation = CompactSession(reason="manual", focus=focus)
        _raise_failure(await self._run(operation))

    async def _run(self, operation: Operation) -> TaskFinished:
        task = self.executor.submit(operation)
        try:
            return await self.executor.wait_for(task)
        except asyncio.CancelledError:
            self.executor.submit(Interrupt())
            await asyncio.shield(self.executor.settle())
            raise

    def _on_event(self, event: Event) -> None:
        """Run `Notification` hooks when an event asks the user a question."""
        if not isinstance(event, ApprovalRequested | ChoiceRequested):
            return
        payload = {"message": event.title, "notification_type": "permission_prompt"}
        task = asyncio.create_task(
            self.state.hooks.fire("Notification", payload, ["permission_prompt"])
        )
        self._notifications.add(task)
        task.add_done_callback(self._notifications.discard)

    async def aclose(self) -> None:
        for task in self._notifications:
            task.cancel()
        await asyncio.gather(*self._notifications, return_exceptions=True)
        try:
            if self.state.hooks.start_messages is not None:
                await self.state.hooks.fire("SessionEnd", {"reason": "exit"})
        finally:
            if self._sandbox_probe is not None:
                self._sandbox_probe.cancel()
            await self.executor.aclose()


def _raise_failure(finished: TaskFinished) -> None:
    if finished.outcome == "failed":
        raise FoldlineError(finished.error or "The operation failed.")
    if finished.outcome == "cancelled":
        raise FoldlineError("Cancelled.")


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
    if state.models.llm.dialect == OFFLINE:
        return
    from foldline.llm.client import (
        ModelClient,  # slow, and not used by the offline model
    )

    if isinstance(state.models.llm, ModelClient):
        state.models.llm.use(settings.request_options)


def retune(
    state: AgentState, settings: Settings, environ: Mapping[str, str]
) -> Callable[[], LLM | None]:
    """Prepare to apply changed compaction settings.

    Returns:
        A function that applies the settings. Call it when no operation is running. The function returns the
        client of the old summary model, which the caller must close.

    Raises:
        FoldlineError: the strategy cannot be loaded, or the summary model cannot be reached.
    """
    summariser = connect_summariser(settings, environ)
    writer = summariser or state.models.llm
    strategy = state.compaction.load(settings.compaction.strategy, writer)

    def apply() -> LLM | None:
        compaction = state.compaction
        compaction.strategy = strategy
        compaction.use_mode(
            settings.compaction.mode,
            draft_ahead=settings.compaction.draft_ahead == "on",
        )
        state.budget.settings = settings.budget_settings
        state.budget.bounds.limits = settings.bounds(
            watched=state.permissions.choices.interactive
        )
        state.permissions.sandbox.options = settings.sandbox_options
        state.models.fallback = settings.fallback
        use_request_options(state, settings)
        compaction.draft.drop()  # it used the old strategy, and its model may be closed now
        unused = state.models.summary_llm
        state.models.summary_llm = summariser
        return unused

    return apply
