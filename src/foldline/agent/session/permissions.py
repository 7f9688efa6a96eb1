"""The permissions of an agent: policy, granted rules, sandbox, and questions to the user."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

from foldline.agent.extensions.mcp import ServerConfig
from foldline.agent.permissions.approvals import (
    SANDBOXED,
    Choices,
    Policy,
    ProjectRule,
    ProjectRules,
)
from foldline.agent.permissions.sandbox import Sandbox
from foldline.agent.permissions.sandbox_engine import Engine
from foldline.history import Session, utc_now
from foldline.past.approval_words import rule_words
from foldline.protocol import (
    Approval,
    Entry,
    FoldlineError,
    Rule,
    system_words,
)
from foldline.protocol.events import SandboxKnown
from foldline.protocol.operations import Revoke, SwitchApprovals

from .event_stream import EventStream

NOT_ALLOWED = "{rule} was not allowed in this session."
NOT_SAVED = (
    "{path} could not be written: {reason}. The project's permissions are unchanged."
)


async def _nothing() -> None:
    pass


@dataclass
class Permissions:
    """The permissions of one agent.

    Rules and modes count only once they are on disk.
    """

    session: Session
    events: EventStream
    record_in: Session
    """Session that records granted rules: the parent's, if this agent is a subagent."""
    kept: Path
    """Folder for the full outputs of tools, which sandboxed commands may read."""
    policy: Policy = field(default_factory=Policy)
    choices: Choices = field(default_factory=Choices)
    temporary_hosts: tuple[str, ...] = ()
    """Hosts that the running command may reach in addition to those that rules allow."""
    left_aside: set[str] = field(default_factory=set)
    """Digests of project files that the user has been asked or informed about in this session."""
    use_project: Callable[[], Awaitable[None]] = _nothing
    """Applies project settings that the user has just agreed to."""
    on_mode: Callable[[], Awaitable[None]] = _nothing
    """Called after the approval mode was switched."""

    def __post_init__(self) -> None:
        self.cwd = Path(self.session.cwd)
        self.project = ProjectRules(self.session.cwd)
        self.choices.emit = self.events.emit
        self.sandbox = Sandbox(
            self.cwd,
            kept=self.kept,
            may_change=lambda: self.policy.mode != "read-only",
            allowed=self._allows_host,
        )
        self.session.on_append.append(self._on_entry)

    def _on_entry(self, entry: Entry) -> None:
        if isinstance(entry, Approval):
            self.policy = self.policy.after(entry)

    @property
    def is_sandboxed(self) -> bool:
        """Whether commands run in the sandbox in the current mode."""
        return self.policy.mode in SANDBOXED

    # --- sandbox ---------------------------------------------------------------------------------

    async def engine(self) -> Engine:
        """Return the sandbox engine.

        The first call detects it, and warns if the approval mode needs a sandbox and there is none.
        """
        is_first_probe = self.sandbox.engine is None
        engine = await self.sandbox.ready()
        if is_first_probe:
            self.events.emit(SandboxKnown(holds=engine.holds))
            if self.is_sandboxed and not engine.holds:
                self.events.warn(engine.why)
        return engine

    async def command_sandbox(self) -> Sandbox | None:
        """Return the sandbox for a command, if the mode requires one and the system has one."""
        if self.is_sandboxed and (await self.engine()).name:
            return self.sandbox
        return None

    async def check_after_cancel(self) -> None:
        """Warn about self-executing files that cancelled commands have created."""
        sandbox = await self.command_sandbox()
        if sandbox is not None:
            findings = await asyncio.to_thread(sandbox.report, "", failed=False)
            if findings.words:
                self.events.warn(findings.words)

    async def sandbox_of_server(
        self, config: ServerConfig
    ) -> tuple[str, Sandbox | None]:
        """Return a tool server's approval mode and sandbox."""
        mode = self.policy.usual
        if mode not in SANDBOXED or not config.command or not config.sandbox:
            return "", None
        engine = await self.engine()
        if not engine.name:
            return "", None
        return mode, self.sandbox.for_server(config.writable, config.hosts)

    def _allows_host(self, host: str) -> bool:
        rule = Rule(tool="network", pattern=host)
        if host in self.temporary_hosts or rule in self.policy.always:
            return True
        project_rules, _ = self.project.rules_and_fault()
        return rule in project_rules

    # --- changes ---------------------------------------------------------------------------------

    async def grant(self, rule: Rule) -> None:
        """Grant a rule for this session, to the agent and its subagents.

        Raises:
            FoldlineError: the rule could not be recorded, and is not granted.
        """
        await self.record_in.append(Approval(rule=rule), durable=True)

    async def grant_in_project(self, rule: Rule) -> None:
        """Grant a rule for all sessions in this folder.

        Warns if the rule cannot be saved.

        Raises:
            FoldlineError: the rule could not be recorded in the session. It is granted anyway.
        """
        granted = ProjectRule(rule=rule, at=utc_now(), session=self.session.id)
        try:
            await asyncio.to_thread(self.project.grant, granted)
        except OSError as error:
            self._warn_not_saved(error)
        else:
            await self.record_in.append(
                Approval(rule=rule, scope="project"), durable=True
            )

    async def permit(self, operation: Revoke | SwitchApprovals) -> None:
        """Revoke a rule or switch the approval mode, even while a task is running.

        Failures are reported as events.
        """
        try:
            if isinstance(operation, SwitchApprovals):
                await self._switch_mode(operation)
            else:
                await self._revoke(operation)
        except OSError as error:
            self._warn_not_saved(error)
        except FoldlineError as refusal:
            self.events.notify(str(refusal), "error")

    async def _switch_mode(self, operation: SwitchApprovals) -> None:
        mode = operation.mode
        engine = self.sandbox.engine
        before = self.policy.usual if mode == "plan" else None
        await self.session.append(Approval(mode=mode, before=before), durable=True)
        if mode in SANDBOXED:
            await self.engine()  # the first call also warns
            if engine is not None and not engine.holds:
                self.events.warn(engine.why)
        await self.on_mode()

    async def _revoke(self, operation: Revoke) -> None:
        rule = operation.rule
        if operation.scope == "project":
            await asyncio.to_thread(self.project.revoke, rule)
            await self.session.append(
                Approval(rule=rule, scope="project", granted=False)
            )
        elif rule in self.policy.always:
            await self.session.append(Approval(rule=rule, granted=False), durable=True)
        else:
            self.events.notify(NOT_ALLOWED, rule=rule_words(rule))

    def _warn_not_saved(self, error: OSError) -> None:
        reason = system_words(error)
        self.events.warn(NOT_SAVED, path=self.project.path, reason=reason)
