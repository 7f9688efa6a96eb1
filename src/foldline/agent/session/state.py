"""The state of one agent: its session, and five states that the agent's functions share."""

from collections.abc import Sized
from pathlib import Path
from typing import Protocol

from foldline.agent.permissions.approvals import Choices
from foldline.agent.project.working_folder import WorkingFolder
from foldline.history import Session
from foldline.llm import LLM
from foldline.programs import keep_out
from foldline.protocol.operations import Approve

from .compaction_state import CompactionState
from .context_budget import ContextBudget
from .event_stream import EventStream
from .hook_runs import HookRunner
from .models import Models
from .permissions import Permissions
from .toolset import Toolset


class SubagentControl(Protocol):
    """The part of `subagents.Subagents` that an agent's state uses.

    It is a protocol because the `subagents` module imports this one.
    """

    @property
    def running(self) -> Sized: ...
    def answer(self, approval: Approve) -> None: ...
    def send_to_background(self, call_id: str = "") -> None: ...
    def cancel(self) -> None: ...
    def uses(self, llm: LLM) -> bool: ...
    def list_agents(self) -> None: ...
    async def deliver(self) -> bool: ...
    async def aclose(self) -> None: ...


class AgentState:
    """The session of one agent, and the states for models, tools, budget, permissions and compaction.

    Only the task that the executor is running may change the state.
    """

    def __init__(
        self,
        session: Session,
        llm: LLM,
        *,
        is_interactive: bool = False,
        parent: "AgentState | None" = None,
        role: str = "",
    ) -> None:
        """Create the state, with default settings.

        Args:
            is_interactive: whether there is a user to answer questions.
            parent: the parent, if this is a subagent. Approvals and file records go into its session.
            role: a subagent's prompt, which replaces the system prompt.
        """
        self.session = session
        self.projection = session.projection
        self.parent = parent
        self.role = role
        self.subagents: SubagentControl | None = None
        """Subagents of this agent; None if the agent must not start any."""
        self.unsent = ""
        """Message explaining why the newest prompt was not sent; empty if it was sent."""
        self.cwd = Path(session.cwd)
        keep_out([self.cwd])
        folder = WorkingFolder(self.cwd) if parent is None else parent.tools.folder
        choices = Choices(interactive=is_interactive)
        self.events = EventStream()
        self.models = Models(session, self.events, llm)
        self.tools: Toolset = Toolset(
            session, self.events, self.models, folder, is_interactive
        )
        self.budget = ContextBudget(session, self.models, self.tools)
        self.permissions = Permissions(
            session,
            self.events,
            record_in=session if parent is None else parent.session,
            kept=self.tools.spill_dir,
            choices=choices,
        )
        self.hooks = HookRunner(session, self.events, self.permissions)
        self.compaction = CompactionState(
            session, self.events, self.models, self.budget, choices, self.hooks
        )
        session.mask = lambda text: self.models.mask(text)
