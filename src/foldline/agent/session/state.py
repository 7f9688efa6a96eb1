"""The state of one agent: session, model, tools, limits, and sizes derived from them."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence, Sized
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, Protocol

from foldline.agent.extensions.catalogue import Catalogue
from foldline.agent.extensions.hooks import Hook
from foldline.agent.extensions.mcp import ServerConfig, ToolServers
from foldline.agent.extensions.mcp.servers import ServerTool
from foldline.agent.permissions.approvals import (
    SANDBOXED,
    Choices,
    Policy,
    ProjectRules,
)
from foldline.agent.permissions.sandbox import Engine, Sandbox
from foldline.agent.project.working_folder import WorkingFolder
from foldline.agent.settings.api_keys import mask_of
from foldline.agent.tools import FileMemory, Jobs, Tool, ToolContext
from foldline.agent.tools.history import Mailbox
from foldline.compaction import (
    AdaptiveCompaction,
    CompactionStrategy,
    Dependencies,
    Plan,
    SessionLedger,
    dependencies,
    plan,
    plan_early,
)
from foldline.history import Session
from foldline.llm import LLM, LLMError, ToolSpec, brief, spec_tokens
from foldline.llm.models import LongPrice, cached_price, price_of
from foldline.past.proof import RunningDigest
from foldline.programs import keep_out
from foldline.protocol import (
    Approval,
    BaseMessage,
    DeveloperMessage,
    Entry,
    FoldlineError,
    NoticeRecord,
    Reason,
    RequestRecord,
    Rule,
)
from foldline.protocol.events import (
    Event,
    Notice,
    SandboxKnown,
    ToolOutput,
    WindowLearned,
)
from foldline.protocol.operations import Approve
from foldline.sequences import grouped
from foldline.view.budget import Budget, BudgetSettings, budget_for
from foldline.view.calls import RunningPairs
from foldline.view.items import ViewItem
from foldline.view.projection import Projection
from foldline.view.tokens import message_tokens, scripts_in
from foldline.view.weight import Schemas, view_size
from foldline.view.window import WindowProof

from .limits import Bounds
from .proposals import BackgroundDraft, Basis, PendingProposal

MORE_IGNORED = " {count} more were ignored: `foldline doctor` lists them."
LOW_THRESHOLD = (
    "The threshold of {threshold:,} tokens is too low: system prompt, instruction files and tools take about "
    "{fixed:,}, and a summary up to {summary:,}. Set a higher compaction.threshold."
)
SMALL_WINDOW = (
    "The window of {window:,} tokens is too small: system prompt, instruction files and tools take about "
    "{fixed:,}, and {reserved:,} are reserved for the answer and a summary. {advice}"
)
LARGER_WINDOW = "Choose a model with a larger window, or set FOLDLINE_CONTEXT_WINDOW."
LARGER_ON_SERVER = (
    "Start the server with a larger window: OLLAMA_CONTEXT_LENGTH=16384 for Ollama, --ctx-size 16384 for "
    "llama.cpp (for each of its --parallel slots), or the context length in LM Studio. You can also choose "
    "another model."
)

Mode = Literal["auto", "ask", "off"]
FileStamps = dict[str, tuple[int, ...]]
"""Inode, size and times of files when they were last compared with our records, by path."""
SKILL_TOOL = "skill"
TASK_TOOL = "task"
SEARCH_TOOL = "tool_search"
_SMALL_WINDOW = 8_192
"""Windows with fewer tokens count as small.

In these windows, the schemas of all our tools would take up more than a seventh of the space.
"""
_DISPENSABLE = frozenset(
    {
        "jobs",
        "glob",
        "fetch",
        "todo",
        "history_search",
        "history_read",
        "ask_user",
        TASK_TOOL,
    }
)
"""Tools that are not offered in small windows. `bash` replaces most of them."""
_SERVER_SHARE = 0.1
"""Maximum fraction of the window for the schemas of server tools.

Above this fraction, the model has to search for tools. Every request includes the schemas, although most
tools are never called.
"""
_NAMED = 2
"""Maximum number of ignored files named in one warning. The others are only counted."""
_LEAST_ROOM = 512
"""Size that a tool result may always have, in estimated tokens.

It is enough for an error message.
"""


async def _nothing() -> None:
    pass


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


@dataclass
class AgentState:
    """Session, model, tools and limits of one agent.

    Only the task that the executor is running may change the state.
    """

    session: Session
    llm: LLM
    tools: Sequence[Tool]
    emit: Callable[[Event], None]
    strategy: CompactionStrategy = field(default_factory=AdaptiveCompaction)
    summary_llm: LLM | None = None
    """Model for summaries; None for the session's model."""
    mode: Mode = "auto"
    """Whether to compact when the window is full: automatically, after asking the user, or never."""
    review: PendingProposal = field(default_factory=PendingProposal)
    draft: BackgroundDraft = field(default_factory=BackgroundDraft)
    ledger: SessionLedger = field(default_factory=SessionLedger)
    choices: Choices = field(default_factory=Choices)
    budget_settings: Callable[[int], BudgetSettings] = lambda _: BudgetSettings()
    """Returns the settings for a window, in tokens.

    It is a function because the window can change.
    """
    policy: Policy = field(default_factory=Policy)
    bounds: Bounds = field(default_factory=Bounds)
    mailbox: Mailbox | None = None
    """The model's messages to its earlier self (D-Mail); None if the feature is off."""
    known_files: FileMemory = field(default_factory=FileMemory)
    file_stamps: FileStamps = field(default_factory=dict)
    jobs: Jobs = field(default_factory=Jobs)
    temporary_hosts: tuple[str, ...] = ()
    """Hosts that the running command may reach in addition to those that rules allow."""
    servers: ToolServers | None = None
    """MCP servers; None if there are none."""
    offered: str | None = None
    """Digest of the tools offered last; None before the first turn."""
    searches_tools: bool = False
    """Whether the model has to search for server tools.

    If so, there are too many to offer all of them.
    """
    discovered_tools: set[str] = field(default_factory=set)
    """Names of server tools that a search found or that were called earlier."""
    pairs: RunningPairs = field(default_factory=RunningPairs)
    digests: RunningDigest = field(default_factory=RunningDigest)
    """Digests of the requests, computed incrementally like `pairs`."""
    refused: dict[str, int] = field(default_factory=dict)
    """Size, in tokens, of the smallest request that was rejected as too long, by model.

    The entry is removed once a request is accepted.
    """
    fallback: Sequence[str] = ()
    """Models to switch to when a model fails permanently, as `MODEL@PROVIDER`, in order."""
    picture_warnings: dict[str, int] = field(default_factory=dict)
    """Index of the newest entry whose images the user was warned about, by model."""
    warned_models: set[str] = field(default_factory=set)
    """Models that the user was warned about, because of missing tool calls or truncated requests."""
    dismissed_at: object = None
    """The newest change to the view when the user last dismissed the question about a full window."""
    unsent: str = ""
    """Message explaining why the newest prompt was not sent; empty if it was sent."""
    send_uncompacted: bool = False
    """Whether to send the next prompt uncompacted if it fits, because the last compaction failed."""
    catalogue: Catalogue = field(default_factory=Catalogue)
    """Skills and commands found by the last search on disk."""
    skills_announced: object = None
    """The skills, and the newest change to the view, at the last check for unannounced skills."""
    reserved: Collection[str] = ()
    """Names of built-in slash commands."""
    runs_hooks: bool = False
    """Whether hooks are on."""
    hooks: Sequence[Hook] | None = None
    """Hooks as last read from disk; None before they are read."""
    reported_faults: set[str] = field(default_factory=set)
    """Messages about ignored files that the user has already seen."""
    start_messages: list[DeveloperMessage] | None = None
    """Unsent messages of the `SessionStart` hooks; None before the hooks have run."""
    parent: "AgentState | None" = None
    """The parent, if this is a subagent.

    Approvals and file records go into the parent's session.
    """
    role: str = ""
    """A subagent's prompt, which replaces the system prompt."""
    subagents: SubagentControl | None = None
    """Subagents of this agent; None if the agent must not start any."""
    after_results: list[Entry] = field(default_factory=list)
    """Entries to append after this step's tool results.

    They have to wait because results must directly follow their calls.
    """
    ends_with_plan: bool = False
    """Whether the turn ends with a plan.

    It does if there is no user to accept the plan.
    """
    reminders_checked: object = None
    """The mode, and the newest change to the view, at the last check for reminders."""
    left_aside: set[str] = field(default_factory=set)
    """Digests of project files that the user has been asked or informed about in this session."""
    use_project: Callable[[], Awaitable[None]] = _nothing
    """Applies project settings that the user has just agreed to."""
    _preparing: asyncio.Lock = field(default_factory=asyncio.Lock)
    _schema_sizes: tuple[tuple[ToolSpec, ...], tuple[Schemas, ...]] = ((), ())
    """The tool specs whose sizes were measured last, and these sizes."""
    _plans: dict[object, Plan | None] = field(default_factory=dict)
    """Cache of compaction plans for the current history. Each new entry clears it."""

    def __post_init__(self) -> None:
        self.folder: WorkingFolder = (
            WorkingFolder(self.cwd) if self.parent is None else self.parent.folder
        )
        self.project = ProjectRules(self.session.cwd)
        keep_out([self.cwd])
        self.sandbox = Sandbox(
            self.cwd,
            kept=self.spill_dir,
            may_change=lambda: self.policy.mode != "read-only",
            allowed=self._allows_host,
        )
        self.session.mask = lambda text: mask_of(os.environ)(text)
        self.session.on_append.append(self._on_entry)

    # --- sandbox ---------------------------------------------------------------------------------

    async def sandbox_engine(self) -> Engine:
        """Return the sandbox engine.

        The first call detects it, and warns if the approval mode needs a sandbox and there is none.
        """
        is_first_probe = self.sandbox.engine is None
        engine = await self.sandbox.ready()
        if is_first_probe:
            self.emit(SandboxKnown(holds=engine.holds))
            if self.policy.mode in SANDBOXED and not engine.holds:
                self.warn(engine.why)
        return engine

    async def check_sandbox_after_cancel(self) -> None:
        """Warn about self-executing files that cancelled commands have created."""
        if self.policy.mode not in SANDBOXED:
            return
        engine = await self.sandbox_engine()
        if engine.name:
            findings = await asyncio.to_thread(self.sandbox.report, "", failed=False)
            if findings.words:
                self.warn(findings.words)

    async def sandbox_of_server(
        self, config: ServerConfig
    ) -> tuple[str, Sandbox | None]:
        """Return a tool server's approval mode and sandbox."""
        mode = self.policy.usual
        if mode not in SANDBOXED or not config.command or not config.sandbox:
            return "", None
        engine = await self.sandbox_engine()
        if not engine.name:
            return "", None
        return mode, self.sandbox.for_server(config.writable, config.hosts)

    def _allows_host(self, host: str) -> bool:
        rule = Rule(tool="network", pattern=host)
        if host in self.temporary_hosts or rule in self.policy.always:
            return True
        project_rules, _ = self.project.rules_and_fault()
        return rule in project_rules

    # --- session ---------------------------------------------------------------------------------

    def _on_entry(self, entry: Entry) -> None:
        """Update derived state after an entry was appended.

        Approvals count only once they are on disk.
        """
        if isinstance(entry, Approval):
            self.policy = self.policy.after(entry)
        self.bounds.on_entry(entry)
        self._plans.clear()
        self.draft.on_entry(self.projection.newest_change)

    async def record_failure(self, failure: FoldlineError) -> None:
        """Append an error notice, unless a request's record already contains the error."""
        if not self.session.entries:
            return
        newest = self.session.entries[-1]
        if isinstance(newest, RequestRecord) and newest.error == str(failure):
            return
        with suppress(
            FoldlineError
        ):  # If writing to disk is what failed, the user sees the failure anyway.
            await self.session.append(
                NoticeRecord(level="error", text=str(failure)), durable=True
            )

    def notify(
        self, text: str, level: Literal["info", "warning", "error"] = "info"
    ) -> None:
        self.emit(Notice(text=text, level=level))

    def warn(self, text: str) -> None:
        self.notify(text, "warning")

    def warn_once(self, faults: Iterable[str]) -> None:
        """Warn about ignored files that have not been reported yet.

        If there are many, only the first ones are named.

        Args:
            faults: one message for each file.
        """
        new = [fault for fault in faults if fault not in self.reported_faults]
        self.reported_faults.update(new)
        if not new:
            return
        text = " ".join(new[:_NAMED])
        if len(new) > _NAMED:
            text += MORE_IGNORED.format(count=len(new) - _NAMED)
        self.warn(text)

    @property
    def projection(self) -> Projection:
        return self.session.projection

    @property
    def is_interactive(self) -> bool:
        """Whether there is a user to answer questions."""
        return self.choices.interactive

    @property
    def model_id(self) -> str:
        return self.llm.info.id

    @property
    def cwd(self) -> Path:
        return Path(self.session.cwd)

    @property
    def spill_dir(self) -> Path:
        """Folder for the full outputs of tools whose results were shortened."""
        path = self.session.path
        base = path.parent if path else self.cwd / ".foldline"
        return base / "outputs"

    # --- tools -----------------------------------------------------------------------------------

    @property
    def specs(self) -> list[ToolSpec]:
        """The tools as they are offered to the model."""
        return self._offered(self.tools)

    @property
    def can_recall(self) -> bool:
        """Whether the model can read the history."""
        return any(spec.name == "history_read" for spec in self.specs)

    def _offered(self, tools: Sequence[Tool]) -> list[ToolSpec]:
        """Return the specs to offer.

        A small window gets fewer tools. A model that cannot call tools gets an empty list.
        """
        if not self.llm.info.tools:
            return []
        hidden: set[str] = set()
        if not self.catalogue.skills:
            hidden.add(SKILL_TOOL)
        if not self._is_searching:
            hidden.add(SEARCH_TOOL)
        is_small = self.window < _SMALL_WINDOW
        if is_small:
            hidden |= _DISPENSABLE
        specs = [tool.spec for tool in tools if tool.spec.name not in hidden]
        return [brief(spec) for spec in specs] if is_small else specs

    @property
    def has_too_many_tools(self) -> bool:
        """Whether the tools of all servers would take up too much of the window."""
        if self.servers is None:
            return False
        return self.servers.weight * self.scale > _SERVER_SHARE * self.window

    @property
    def _is_searching(self) -> bool:
        if self.searches_tools:
            return True
        return self.offered is None and self.has_too_many_tools

    @property
    def server_tools(self) -> Sequence[Tool]:
        """The offered server tools: all of them, or only those found by a search."""
        if self.servers is None:
            return []
        tools = self.servers.tools
        if not self._is_searching:
            return tools
        return [tool for tool in tools if tool.spec.name in self.discovered_tools]

    def tool_context(self, call_id: str, max_tokens: int) -> ToolContext:
        """Return the context for running a call.

        Args:
            max_tokens: room for the call's result, in estimated tokens.
        """
        mask = mask_of(os.environ)
        return ToolContext(
            cwd=self.cwd,
            call_id=call_id,
            output=lambda text: self.emit(ToolOutput(call_id=call_id, text=mask(text))),
            max_tokens=max_tokens,
            spill_dir=self.spill_dir,
            known_files=self.known_files,
            jobs=self.jobs,
            mask=mask,
            readable=tuple(
                skill.path.parent for skill in self.catalogue.skills.values()
            ),
        )

    # --- models ----------------------------------------------------------------------------------

    @property
    def dependencies(self) -> Dependencies:
        """Objects that a strategy's constructor may ask for."""
        return dependencies(self._writer, self.cwd, session=self.session)

    @property
    def basis(self) -> Basis:
        """The inputs for drafting the next compaction."""
        return Basis(self.projection.newest_change, self.strategy, self._writer)

    @property
    def _writer(self) -> LLM:
        return self.summary_llm or self.llm

    async def learn_window(self) -> None:
        """Ask the server for the model's window if it is not known."""
        async with self._preparing:
            info = self.llm.info
            with suppress(LLMError):
                if await self.llm.prepare() != info:
                    self.emit(WindowLearned())

    async def prepare(self) -> None:
        """Prepare the model for the first prompt.

        Raises:
            LLMError: the model cannot be reached, and there is no fallback.
        """
        try:
            await self.llm.prepare()
        except LLMError:
            if not self.fallback:
                raise

    def record_refusal(self, tokens: int) -> None:
        """Remember the size, in tokens, of a request that was rejected as too long."""
        model = self.model_id
        self.refused[model] = min(tokens, self.refused.get(model, tokens))

    def clear_refusal(self) -> None:
        """Forget the size of the rejected request recorded for the current model."""
        self.refused.pop(self.model_id, None)

    # --- limits ----------------------------------------------------------------------------------

    @property
    def budget(self) -> Budget:
        """The active token limits.

        Raises:
            FoldlineError: the window is too small, or the settings leave no room in it.
        """
        return self.budget_of(self.llm)

    def budget_of(self, llm: LLM) -> Budget:
        """Return the token limits for a model.

        If the server has rejected requests as too long, the smallest of them limits the window.

        Raises:
            FoldlineError: the window is too small, or the settings leave no room in it.
        """
        window = self.window_of(llm)
        proven_refusal = self._proof(llm).refused or window
        refused = min(self.refused.get(llm.info.id, window), proven_refusal)
        if refused < window:
            with suppress(
                FoldlineError
            ):  # Such a small window cannot be right: the request was rejected for another reason.
                # The user chose the threshold for the stated window.
                settings = replace(self.budget_settings(refused), threshold=None)
                return budget_for(refused, llm.info.max_output, settings)
        return self._budget_within(window, llm)

    @property
    def tier(self) -> LongPrice | None:
        """The higher price of long requests, if it applies below the threshold.

        None if the user has set a threshold.
        """
        budget = self.budget
        price = price_of(self.model_id)
        if price is None or price.long is None or budget.set_threshold is not None:
            return None
        return price.long if price.long.above < budget.threshold else None

    @property
    def window(self) -> int:
        """Context window of the model, in tokens."""
        return self.window_of(self.llm)

    def window_of(self, llm: LLM) -> int:
        """Return a model's window in tokens. It may be stated, proven or guessed."""
        if llm.info.guessed:
            return self._proof(llm).window(llm.info.window)
        return llm.info.window

    @property
    def window_is_assumed(self) -> bool:
        """Whether the window is a guess that has not been confirmed."""
        return self.llm.info.guessed and not self._proof(self.llm).stated

    def _proof(self, llm: LLM) -> WindowProof:
        model = llm.info.id if llm.info.named else self.projection.meter.model
        return self.projection.meter.window_proof(model)

    def _budget_within(self, window: int, llm: LLM) -> Budget:
        settings = self.budget_settings(window)
        return budget_for(window, llm.info.max_output, settings)

    # --- sizes -----------------------------------------------------------------------------------

    @property
    def schemas(self) -> Sequence[Schemas]:
        """Sizes of the tool schemas in every request, by server.

        Before the first turn, this includes the tools that the servers will offer. Cached until the tools
        change.
        """
        tools = [*self.tools]
        if self.offered is None:
            tools += self.server_tools
        specs = tuple(self._offered(tools))
        if specs != self._schema_sizes[0]:
            self._schema_sizes = (specs, _schema_sizes(tools, specs))
        return self._schema_sizes[1]

    @property
    def overhead(self) -> int:
        """Size of the tool schemas, in tokens before calibration.

        It is 0 if reported usage excludes the schemas.
        """
        habits = self.projection.meter.habits(self.projection.meter.model)
        return self.tool_tokens if habits.tools else 0

    @property
    def tool_tokens(self) -> int:
        """Size of the tool schemas that are sent, in tokens before calibration."""
        return sum(size.tokens for size in self.schemas)

    def plan(
        self,
        reason: Reason,
        budget: Budget | None = None,
        pending: int = 0,
    ) -> Plan | None:
        """Return the plan of a compaction, or None if there is nothing to compact.

        Plans are cached until the history changes.

        Args:
            budget: limits of another model; the active ones by default.
            pending: as in `CompactionRequest`. If the usual plan leaves too little room for the prompt, the
                plan keeps less of the view.
        """
        budget = budget or self.budget
        if pending:
            usual = self.plan(reason, budget)
            if usual is not None:
                expected = usual.tokens_expected + round(pending * self.scale)
                if expected < budget.threshold:
                    return usual
        key = (reason, budget, self.overhead, pending)
        if key not in self._plans:
            self._plans[key] = self._planned(reason, budget, pending)
        return self._plans[key]

    def _planned(self, reason: Reason, budget: Budget, pending: int) -> Plan | None:
        if reason == "phase" and not self.past_soft_mark:
            early = self.plan_early()
            if early is not None:
                return early
        return plan(
            self.projection,
            budget,
            reason,
            overhead=self.overhead,
            pending=pending,
        )

    def plan_early(self) -> Plan | None:
        """Return a plan that saves money even before the window is full, if there is one."""
        budget = self.budget
        if not isinstance(self.strategy, AdaptiveCompaction) or budget.soft_ratio >= 1:
            return None
        price = cached_price(self.model_id)
        return plan_early(self.projection, budget, price, overhead=self.overhead)

    @property
    def scale(self) -> float:
        """Ratio of reported to estimated tokens."""
        return self.projection.meter.scale

    def estimate(self, prompt: BaseMessage) -> int:
        """Return the estimated size of an unsent prompt, in tokens before calibration."""
        tokens = self.projection.meter.weigh(message_tokens(prompt), scripts_in(prompt))
        return round(tokens / self.scale)

    def size(self, pending: Sequence[BaseMessage] = ()) -> int:
        """Return the size of the next request with these messages, in tokens."""
        return view_size(
            self.projection, overhead=self.overhead, pending=pending
        ).tokens

    def is_full(self, pending: Sequence[BaseMessage] = ()) -> bool:
        return self.size(pending) >= self.budget.threshold

    def fits(self, pending: Sequence[BaseMessage] = ()) -> bool:
        """Return whether the next request with these messages fits the window."""
        return self.size(pending) < self.budget.window

    @property
    def past_soft_mark(self) -> bool:
        """Whether the view is large enough to be compacted at the end of a task."""
        return self.size() >= self.budget.soft_mark

    def room_for_results(self) -> int:
        """Return the room for the results of one step, in estimated tokens.

        After a compaction, the results must still fit, together with the items that the compaction keeps
        (docs/design/invariants.md).
        """
        budget = self.budget
        free = (
            budget.threshold
            - budget.max_summary_tokens
            - budget.keep_recent_tokens // 2
        )
        kept = self.projection.fixed + self.overhead
        for kind in ("user", "assistant"):
            newest = self._newest(kind)
            if newest is not None and newest.compactable:
                kept += newest.tokens
        return max(_LEAST_ROOM, int(free / self.scale) - kept)

    def _newest(self, kind: str) -> ViewItem | None:
        items = reversed(self.projection.view)
        return next((item for item in items if item.outline.type == kind), None)

    def check_window(self, preamble: int) -> None:
        """Check that the preamble and tools leave room to work.

        Args:
            preamble: estimated size of the system prompt and instruction files, in tokens before calibration.

        Raises:
            FoldlineError: the preamble and the tools fill the window.
        """
        scale = self.projection.meter.calibration.scale(self.model_id)
        fixed = round(scale * (preamble + self.overhead))
        budget = self._budget_within(self.window, self.llm)
        if fixed < budget.threshold - budget.max_summary_tokens:
            return
        if budget.set_threshold:
            raise FoldlineError(
                LOW_THRESHOLD,
                threshold=budget.threshold,
                fixed=fixed,
                summary=budget.max_summary_tokens,
            )
        is_from_server = self.llm.info.window_from == "server"
        raise FoldlineError(
            SMALL_WINDOW,
            window=budget.window,
            fixed=fixed,
            reserved=budget.reserve_tokens + budget.max_summary_tokens,
            advice=LARGER_ON_SERVER if is_from_server else LARGER_WINDOW,
        )


def _schema_sizes(
    tools: Iterable[Tool], specs: Iterable[ToolSpec]
) -> tuple[Schemas, ...]:
    """Return the sizes of these specs, by server.

    The server name of our own tools is "".
    """
    servers: dict[str, str] = {}
    for tool in tools:
        if isinstance(tool, ServerTool):
            servers[tool.spec.name] = tool.server.name
    by_name = {spec.name: spec for spec in specs}
    tokens = grouped(
        (servers.get(name, ""), spec_tokens(spec)) for name, spec in by_name.items()
    )
    return tuple(
        Schemas(server, len(sizes), sum(sizes)) for server, sizes in tokens.items()
    )
