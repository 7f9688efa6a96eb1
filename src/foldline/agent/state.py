"""What all that works on one session shares: session, model, tools, limits, and what was learnt."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Literal

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
from foldline.context.budget import Budget, BudgetSettings, WindowProof, budget_for
from foldline.context.calls import RunningPairs
from foldline.context.projection import Projection
from foldline.context.proof import RunningDigest
from foldline.context.tokens import message_tokens, scripts_in
from foldline.context.view import ViewItem
from foldline.context.weight import Schemas, view_size
from foldline.history import Session
from foldline.llm import LLM, Embedder, LLMError, ToolSpec, brief, spec_tokens
from foldline.llm.models import LongPrice, cached_price, price_of
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
from foldline.protocol.events import Event, Notice, SandboxKnown, ToolOutput, WindowLearned
from foldline.sequences import grouped

from .api_keys import mask_of
from .approvals import SANDBOXED, Choices, Policy, ProjectRules
from .catalogue import Catalogue
from .hooks import Hook
from .limits import Bounds
from .mcp import ServerConfig, ToolServers
from .mcp.servers import ServerTool
from .proposals import BackgroundDraft, Basis, PendingProposal
from .sandbox import Engine, Sandbox
from .tools import FileMemory, Jobs, Tool, ToolContext
from .tools.history import Mailbox
from .working_folder import WorkingFolder

if TYPE_CHECKING:
    from .subagents import Subagents

Mode = Literal["auto", "ask", "off"]
FileStamps = dict[str, tuple[int, ...]]
"""By path, the inode, size and times of a file when it was last compared with our record of it."""
_SMALL_WINDOW = 8_192
"""Tokens, below which our tools would take more than a seventh of the window."""
SKILL_TOOL, TASK_TOOL, SEARCH_TOOL = "skill", "task", "tool_search"
_DISPENSABLE = frozenset(
    {"jobs", "glob", "fetch", "todo", "history_search", "history_read", "ask_user", TASK_TOOL}
)
"""Tools of ours that a model can do without: most of it `bash` does as well."""
_SERVER_SHARE = 0.1
"""Of the window. Schemas of servers that take more are not offered, but searched: they go with every request,
and most are never called."""
_NAMED = 2
"""Files that are named when several are left aside."""
_LEAST_ROOM = 512
"""Estimated tokens that a tool result gets in any case: enough for an error message."""


async def _nothing() -> None:
    pass


@dataclass
class AgentState:
    """Session, model, tools and limits of one agent. Only the task that the executor runs changes it."""

    session: Session
    llm: LLM
    tools: Sequence[Tool]
    emit: Callable[[Event], None]
    strategy: CompactionStrategy = field(default_factory=AdaptiveCompaction)
    summary_llm: LLM | None = None
    """Another model that writes the summaries."""
    embedder: Embedder | None = None
    mode: Mode = "auto"
    """Whether a full window is compacted automatically, after the user has seen the proposal, or never."""
    review: PendingProposal = field(default_factory=PendingProposal)
    draft: BackgroundDraft = field(default_factory=BackgroundDraft)
    ledger: SessionLedger = field(default_factory=SessionLedger)
    choices: Choices = field(default_factory=Choices)
    budget_settings: Callable[[int, str], BudgetSettings] = lambda *_: BudgetSettings()
    """What was set for a window in tokens and a model: the one may be learnt, the other switched."""
    policy: Policy = field(default_factory=Policy)
    bounds: Bounds = field(default_factory=Bounds)
    mailbox: Mailbox | None = None
    """Where the model's messages to itself wait; None where it may not send any."""
    branch_note: bool = False
    """Whether a branch that the user leaves leaves the model a note."""
    known_files: FileMemory = field(default_factory=FileMemory)
    file_stamps: FileStamps = field(default_factory=dict)
    jobs: Jobs = field(default_factory=Jobs)
    hosts_once: tuple[str, ...] = ()
    """Those that the command of the sandbox may reach which runs now."""
    servers: ToolServers | None = None
    """What lends tools beside our own."""
    offered: str | None = None
    """Digest of the tools the model was offered in the newest turn; None before the first one."""
    searches_tools: bool = False
    """Whether the tools of servers are found by a search, as in an earlier turn there were too many."""
    found_tools: set[str] = field(default_factory=set)
    """The names of those that were found so, or called before."""
    pairs: RunningPairs = field(default_factory=RunningPairs)
    digests: RunningDigest = field(default_factory=RunningDigest)
    """Of the requests that were sent, as `pairs` are their messages."""
    refused: dict[str, int] = field(default_factory=dict)
    """By model: the smallest request refused as too long, in tokens, until a smaller one passed."""
    fallback: Sequence[str] = ()
    """The models that may take over where one fails for good, as `MODEL@PROVIDER`, the next first."""
    unseen: dict[str, int] = field(default_factory=dict)
    """By model that takes no pictures: the newest entry whose pictures the user knows to be left out."""
    suspected: set[str] = field(default_factory=set)
    """Models whose server seemed to cut a request silently: said once."""
    dismissed_at: object = None
    """The newest change of the view when the user last dismissed the question about a full window."""
    unsent: str = ""
    """Why the newest prompt was not sent, as a sentence; empty where it was."""
    send_uncompacted: bool = False
    """Whether the next prompt goes without a compaction if it fits: the one before it was not to be had."""
    catalogue: Catalogue = field(default_factory=Catalogue)
    """Skills and commands, as they were looked up last."""
    skills_said: object = None
    """The skills of which the view was last seen to say something, and its newest change then."""
    reserved: Collection[str] = ()
    """Names of slash commands that are the program's own."""
    runs_hooks: bool = False
    hooks: Sequence[Hook] | None = None
    """As their files were read last; None before that."""
    warned: set[str] = field(default_factory=set)
    """What was said once of files that were left aside."""
    start_words: list[DeveloperMessage] | None = None
    """What the hooks of the session's start say to the model, until it was sent; None before they ran."""
    parent: "AgentState | None" = None
    """The agent that a subagent works for: what the user allows, and what is recorded of files, is in that
    one's session."""
    role: str = ""
    """The prompt of a subagent, in place of the system prompt."""
    subagents: "Subagents | None" = None
    """Those that work for this one; None where it may not have any."""
    behind_results: list[Entry] = field(default_factory=list)
    """What comes into the view once the calls of this step have their results: nothing may stand between."""
    plan_waits: bool = False
    """Whether the turn ends with a plan that nobody is there to accept."""
    reminded_at: object = None
    """The mode, and the newest change of the view, when it was last seen that the model knows what holds."""
    left_aside: set[str] = field(default_factory=set)
    """Digests of the project's files that were asked about, or named, in this session."""
    use_project: Callable[[], Awaitable[None]] = _nothing
    """Uses the settings of the project that the user has agreed to by now, and no others."""
    _asking: asyncio.Lock = field(default_factory=asyncio.Lock)
    _weighed: tuple[tuple[ToolSpec, ...], tuple[Schemas, ...]] = ((), ())
    """The tools that were weighed last, and what their schemas take."""
    _plans: dict[object, Plan | None] = field(default_factory=dict)
    """The plans made of the history as it is now; thrown away with the next entry."""

    def __post_init__(self) -> None:
        self.folder: WorkingFolder = WorkingFolder(self.cwd) if self.parent is None else self.parent.folder
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

    async def sandbox_engine(self) -> Engine:
        """What the sandbox is here, tried out and said once, with why it is none where the mode wants one."""
        is_new = self.sandbox.engine is None
        engine = await self.sandbox.ready()
        if is_new:
            self.emit(SandboxKnown(holds=engine.holds))
            if self.policy.mode in SANDBOXED and not engine.holds:
                self.warn(engine.why)
        return engine

    async def look_after_cancel(self) -> None:
        """Warn of what acts by itself and cancelled commands made in the sandbox."""
        if self.policy.mode in SANDBOXED and (await self.sandbox_engine()).name:
            seen = await asyncio.to_thread(self.sandbox.seen, "", failed=False)
            if seen.words:
                self.warn(seen.words)

    async def sandbox_of_server(self, config: ServerConfig) -> tuple[str, Sandbox | None]:
        """The sandbox a tool server has to run in now, and the mode that wants it."""
        mode = self.policy.usual
        is_ours = mode in SANDBOXED and config.command and config.sandbox
        if not is_ours or not (await self.sandbox_engine()).name:
            return "", None
        return mode, self.sandbox.for_server(config.writable, config.hosts)

    def _on_entry(self, entry: Entry) -> None:
        """What the user allows counts once it is on disk, as it will when the session is resumed."""
        if isinstance(entry, Approval):
            self.policy = self.policy.after(entry)
        self.bounds.on_entry(entry)
        self._plans.clear()
        self.draft.on_entry(self.projection.newest_change)

    async def record_failure(self, failure: FoldlineError) -> None:
        """Append the failure's sentence, unless the newest request says it or the session is empty."""
        newest = self.session.entries[-1] if self.session.entries else None
        if newest is None or (isinstance(newest, RequestRecord) and newest.error == str(failure)):
            return
        with suppress(FoldlineError):  # A disk that takes nothing: that is the failure, and it is shown.
            await self.session.append(NoticeRecord(level="error", text=str(failure)), durable=True)

    def warn(self, text: str) -> None:
        self.emit(Notice(level="warning", text=text))

    def warn_once(self, left_aside: Iterable[str]) -> None:
        """Name files that were left aside, as sentences; of many, the first."""
        new = [each for each in left_aside if each not in self.warned]
        self.warned.update(new)
        if new:
            more = f" And {len(new) - _NAMED} more: `foldline doctor` names them."
            self.warn(" ".join(new[:_NAMED]) + (more if len(new) > _NAMED else ""))

    @property
    def projection(self) -> Projection:
        return self.session.projection

    @property
    def cwd(self) -> Path:
        return Path(self.session.cwd)

    @property
    def spill_dir(self) -> Path:
        """Where whole outputs are kept when the model gets a piece."""
        path = self.session.path
        return (path.parent if path else self.cwd / ".foldline") / "outputs"

    @property
    def specs(self) -> list[ToolSpec]:
        """The tools as the model is offered them."""
        return self._offered(self.tools)

    @property
    def recalls(self) -> bool:
        """Whether the model can read the history."""
        return "history_read" in {spec.name for spec in self.specs}

    def _offered(self, tools: Sequence[Tool]) -> list[ToolSpec]:
        """In a small window fewer tools, and without what a model can guess from their names; none to a model
        that cannot call any. That for skills only where there are some."""
        if not self.llm.info.tools:
            return []
        if not self.catalogue.skills:
            tools = [tool for tool in tools if tool.spec.name != SKILL_TOOL]
        if not self._searches:
            tools = [tool for tool in tools if tool.spec.name != SEARCH_TOOL]
        if self.window >= _SMALL_WINDOW:
            return [tool.spec for tool in tools]
        return [brief(tool.spec) for tool in tools if tool.spec.name not in _DISPENSABLE]

    @property
    def has_too_many_tools(self) -> bool:
        """Whether the schemas of all the servers would take too much of the window."""
        weight = 0 if self.servers is None else self.servers.weight
        return weight * self.scale > _SERVER_SHARE * self.window

    @property
    def _searches(self) -> bool:
        return self.searches_tools or (self.offered is None and self.has_too_many_tools)

    @property
    def lent(self) -> Sequence[Tool]:
        """The tools of servers that are offered: all, or those that were found."""
        tools = [] if self.servers is None else self.servers.tools
        return [tool for tool in tools if tool.spec.name in self.found_tools] if self._searches else tools

    def _allows_host(self, host: str) -> bool:
        rule = Rule(tool="network", pattern=host)
        return host in self.hosts_once or rule in self.policy.always or rule in self.project.known()[0]

    def tool_context(self, call_id: str, max_tokens: int) -> ToolContext:
        """Where and within what limits a call runs; `max_tokens`: room for its result, by estimate."""
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
            readable=tuple(skill.path.parent for skill in self.catalogue.skills.values()),
        )

    # --- models ----------------------------------------------------------------------------------

    @property
    def dependencies(self) -> Dependencies:
        """What the constructor of a strategy may ask for."""
        writer = self.summary_llm or self.llm
        return dependencies(writer, self.cwd, session=self.session, embedder=self.embedder)

    @property
    def basis(self) -> Basis:
        """What the next compaction would be drafted from."""
        return Basis(self.projection.newest_change, self.strategy, self.summary_llm or self.llm)

    async def learn_window(self) -> None:
        """Ask for a window that only the server knows."""
        async with self._asking:
            before = self.llm.info
            with suppress(LLMError):
                if await self.llm.prepare() != before:
                    self.emit(WindowLearned())

    async def prepare(self) -> None:
        """Ask what has to be known before the first prompt.

        Raises:
            LLMError: the model cannot be asked, and no other may take over.
        """
        try:
            await self.llm.prepare()
        except LLMError:
            if not self.fallback:
                raise

    def learn_refusal(self, tokens: int) -> None:
        """The server refused a request of this size as too long, whatever window was believed."""
        model = self.llm.info.id
        self.refused[model] = min(tokens, self.refused.get(model, tokens))

    def forget_refusal(self) -> None:
        """No smaller request went through either: it was not the size."""
        self.refused.pop(self.llm.info.id, None)

    # --- limits ----------------------------------------------------------------------------------

    @property
    def budget(self) -> Budget:
        """The limits in force.

        Raises:
            FoldlineError: the window is too small, or the settings leave no room in it.
        """
        return self.budget_of(self.llm)

    def budget_of(self, llm: LLM) -> Budget:
        """The limits with this model. A window larger than what its server refused is not believed.

        Raises:
            FoldlineError: its window is too small, or the settings leave no room in it.
        """
        window = self.window_of(llm)
        refused = min(self.refused.get(llm.info.id, window), self._proof(llm).refused or window)
        if refused < window:
            with suppress(FoldlineError):  # Too small to work in: then it was something else it refused.
                # A threshold that was set was meant for the window that was believed.
                settings = replace(self.budget_settings(refused, llm.info.id), threshold=None)
                return budget_for(refused, llm.info.max_output, settings)
        return self._budget_within(window, llm)

    @property
    def tier(self) -> LongPrice | None:
        """What longer requests pay below the threshold; None where nothing more, or the user has set one."""
        budget, price = self.budget, price_of(self.llm.info.id)
        tier = None if price is None or budget.set_threshold is not None else price.long
        return tier if tier is not None and tier.above < budget.threshold else None

    @property
    def window(self) -> int:
        """The context window of the model, in tokens, as far as it is known."""
        return self.window_of(self.llm)

    def window_of(self, llm: LLM) -> int:
        """The window of this model, in tokens: as stated, as the history proves it, or a guess."""
        info = llm.info
        return self._proof(llm).window(info.window) if info.guessed else info.window

    @property
    def window_is_assumed(self) -> bool:
        """Whether nobody has said how large the window is, now or in this history."""
        return self.llm.info.guessed and not self._proof(self.llm).stated

    def _proof(self, llm: LLM) -> WindowProof:
        return self.projection.window_proof(llm.info.id if llm.info.named else self.projection.model)

    def _budget_within(self, window: int, llm: LLM) -> Budget:
        return budget_for(window, llm.info.max_output, self.budget_settings(window, llm.info.id))

    # --- sizes -----------------------------------------------------------------------------------

    @property
    def schemas(self) -> Sequence[Schemas]:
        """The tool schemas that go with every request, by who lends them; with those that the servers offer
        before the first turn. Weighed once for each change of the tools."""
        lent = self.lent if self.offered is None else ()
        tools = [*self.tools, *lent]
        specs = tuple(self._offered(tools))
        if specs != self._weighed[0]:
            lenders = {tool.spec.name: tool.server.name for tool in tools if isinstance(tool, ServerTool)}
            by_name = {spec.name: spec for spec in specs}
            sizes = grouped((lenders.get(name, ""), spec_tokens(spec)) for name, spec in by_name.items())
            weighed = tuple(Schemas(server, len(each), sum(each)) for server, each in sizes.items())
            self._weighed = (specs, weighed)
        return self._weighed[1]

    @property
    def overhead(self) -> int:
        """Estimate of the tool schemas, before calibration, in tokens; 0 if the template leaves them out."""
        counted = self.projection.habits(self.projection.model).tools
        return self.tool_tokens if counted else 0

    @property
    def tool_tokens(self) -> int:
        """Estimate of the tool schemas as they are sent, before calibration, in tokens."""
        return sum(each.tokens for each in self.schemas)

    def plan(self, reason: Reason, budget: Budget | None = None, pending: int = 0) -> Plan | None:
        """What a compaction would do now, computed once per history; None: nothing to compact. `pending`: as
        in `CompactionRequest`; less is kept where what is usually kept leaves it no room."""
        usual = self.plan(reason, budget) if pending else None
        limit = (budget or self.budget).threshold
        if usual is not None and usual.tokens_expected + round(pending * self.scale) < limit:
            return usual
        facts = (reason, budget or self.budget, self.overhead, pending)
        if facts not in self._plans:
            early = self.plan_early() if reason == "phase" and not self.past_soft_mark else None
            self._plans[facts] = early or plan(
                self.projection, facts[1], reason, overhead=facts[2], pending=pending
            )
        return self._plans[facts]

    def plan_early(self) -> Plan | None:
        """What pays although the window is not nearly full; None: nothing does, or it is switched off."""
        budget = self.budget
        if not isinstance(self.strategy, AdaptiveCompaction) or budget.soft_ratio >= 1:
            return None
        price = cached_price(self.llm.info.id)
        return plan_early(self.projection, budget, price, overhead=self.overhead)

    @property
    def scale(self) -> float:
        """Tokens as usage reports them, for each estimated one."""
        return self.projection.scale

    def estimate(self, prompt: BaseMessage) -> int:
        """Estimate of a prompt that waits, which `scale` times makes its weight, in tokens."""
        return round(self.projection.weighed(message_tokens(prompt), scripts_in(prompt)) / self.scale)

    def size(self, pending: Sequence[BaseMessage] = ()) -> int:
        """Tokens of the next request, these messages included, as decisions use it."""
        return view_size(self.projection, overhead=self.overhead, pending=pending).tokens

    def is_full(self, pending: Sequence[BaseMessage] = ()) -> bool:
        return self.size(pending) >= self.budget.threshold

    def fits(self, pending: Sequence[BaseMessage] = ()) -> bool:
        """Whether the next request fits the window as it is, if only just."""
        return self.size(pending) < self.budget.window

    @property
    def past_soft_mark(self) -> bool:
        """Whether the window is full enough to compact at the end of a task."""
        return self.size() >= self.budget.soft_mark

    def room_for_results(self) -> int:
        """What the results of the newest tool group may take together, in estimated tokens: so much that
        after a compaction they still fit beside what stays (docs/design/invariants.md)."""
        budget = self.budget
        free = budget.threshold - budget.max_summary_tokens - budget.keep_recent_tokens // 2
        stays = self.projection.fixed + sum(item.tokens for item in self._newest() if item.compactable)
        return max(_LEAST_ROOM, int(free / self.scale) - stays - self.overhead)

    def _newest(self) -> Iterator[ViewItem]:
        """The request and the newest answer: what stays in a compaction, beside preamble and pins."""
        for kind in ("user", "assistant"):
            newest = (item for item in reversed(self.projection.view) if item.outline.type == kind)
            yield from islice(newest, 1)

    def check_window(self, preamble: int) -> None:
        """Raises FoldlineError where system prompt, instruction files and tools alone fill the window.
        `preamble` is the estimate of the first two, before calibration, in tokens."""
        fixed = round(self.projection.calibration.scale(self.llm.info.id) * (preamble + self.overhead))
        budget = self._budget_within(self.window, self.llm)
        room = budget.threshold - budget.max_summary_tokens
        if fixed < room:
            return
        if budget.set_threshold:
            raise FoldlineError(
                f"The threshold of {budget.threshold:,} tokens is too low: system prompt, instruction files "
                f"and tools take about {fixed:,}, and a summary up to {budget.max_summary_tokens:,}. Set a "
                "higher compaction.threshold, or one for this model."
            )
        raise FoldlineError(
            f"The window of {budget.window:,} tokens is too small: system prompt, instruction files and "
            f"tools take about {fixed:,}, and {budget.reserve_tokens + budget.max_summary_tokens:,} are "
            f"kept for answer and summary. {self._remedy()}"
        )

    def _remedy(self) -> str:
        """What to do about a window too small to work in, as sentences."""
        if self.llm.info.window_from != "server":
            return "Choose a model with a larger window, or set FOLDLINE_CONTEXT_WINDOW."
        return (
            "Start its server with a larger one: OLLAMA_CONTEXT_LENGTH=16384 for Ollama, --ctx-size 16384 "
            "for llama.cpp (for each of its --parallel slots), the context length in LM Studio. Or choose "
            "another model."
        )
