"""Changes permissions: grants and revokes rules, and switches the approval mode."""

import asyncio

from foldline.agent.permissions.approvals import SANDBOXED, ProjectRule
from foldline.history import utc_now
from foldline.past.approval_words import rule_words
from foldline.protocol import Approval, FoldlineError, Rule, operations, system_words

from .state import AgentState

NOT_ALLOWED = "{rule} was not allowed in this session."
NOT_SAVED = (
    "{path} could not be written: {reason}. The project's permissions are unchanged."
)


async def grant(state: AgentState, rule: Rule) -> None:
    """Grant a rule for this session, to the agent and its subagents.

    Raises:
        FoldlineError: the rule could not be recorded, and is not granted.
    """
    await (state.parent or state).session.append(Approval(rule=rule), durable=True)


async def grant_in_project(state: AgentState, rule: Rule) -> None:
    """Grant a rule for all sessions in this folder.

    Warns if the rule cannot be saved.

    Raises:
        FoldlineError: the rule could not be recorded in the session. It is granted anyway.
    """
    granted = ProjectRule(rule=rule, at=utc_now(), session=state.session.id)
    try:
        await asyncio.to_thread(state.project.grant, granted)
    except OSError as error:
        _warn_not_saved(state, error)
    else:
        await (state.parent or state).session.append(
            Approval(rule=rule, scope="project"), durable=True
        )


async def permit(
    state: AgentState, operation: operations.Revoke | operations.SwitchApprovals
) -> None:
    """Revoke a rule or switch the approval mode, even while a task is running.

    Failures are reported as events.
    """
    try:
        if isinstance(operation, operations.SwitchApprovals):
            await _switch_mode(state, operation)
        else:
            await _revoke(state, operation)
    except OSError as error:
        _warn_not_saved(state, error)
    except FoldlineError as refusal:
        state.notify(str(refusal), "error")


async def _switch_mode(
    state: AgentState, operation: operations.SwitchApprovals
) -> None:
    mode = operation.mode
    engine = state.sandbox.engine
    before = state.policy.usual if mode == "plan" else None
    await state.session.append(Approval(mode=mode, before=before), durable=True)
    if mode in SANDBOXED:
        await state.sandbox_engine()  # the first call also warns
        if engine is not None and not engine.holds:
            state.warn(engine.why)
    if state.servers is not None:
        await state.servers.follow_mode()


async def _revoke(state: AgentState, operation: operations.Revoke) -> None:
    rule = operation.rule
    if operation.scope == "project":
        await asyncio.to_thread(state.project.revoke, rule)
        await state.session.append(Approval(rule=rule, scope="project", granted=False))
    elif rule in state.policy.always:
        await state.session.append(Approval(rule=rule, granted=False), durable=True)
    else:
        state.notify(NOT_ALLOWED.format(rule=rule_words(rule)))


def _warn_not_saved(state: AgentState, error: OSError) -> None:
    reason = system_words(error)
    state.warn(NOT_SAVED.format(path=state.project.path, reason=reason))
