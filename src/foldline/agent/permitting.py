"""What the user says about approvals beyond single calls: granting, revoking, another mode. On disk first."""

import asyncio

from foldline.context.permissions import rule_words
from foldline.history import utc_now
from foldline.protocol import Approval, FoldlineError, Rule, events, operations, system_words

from .desk import Desk
from .project_rules import KeptRule


async def grant(desk: Desk, rule: Rule) -> None:
    """Allow its calls unasked in this session.

    Raises:
        FoldlineError: it could not be recorded, and does not count.
    """
    await desk.session.append(Approval(rule=rule), durable=True)


async def grant_in_project(desk: Desk, rule: Rule) -> None:
    """Allow its calls unasked in every session of this folder. Where that cannot be kept, it is said.

    Raises:
        FoldlineError: the session could not record that it was said; it counts all the same.
    """
    kept = KeptRule(rule=rule, at=utc_now(), session=desk.session.id)
    try:
        await asyncio.to_thread(desk.project.grant, kept)
    except OSError as error:
        _say_not_kept(desk, error)
    else:
        await desk.session.append(Approval(rule=rule, scope="project"), durable=True)


async def permit(desk: Desk, asked: operations.Revoke | operations.SwitchApprovals) -> None:
    """Take back a rule or change the mode, beside whatever runs. A refusal is told."""
    try:
        match asked:
            case operations.SwitchApprovals():
                await desk.session.append(Approval(mode=asked.mode), durable=True)
            case operations.Revoke(scope="project"):
                await asyncio.to_thread(desk.project.revoke, asked.rule)
                await desk.session.append(Approval(rule=asked.rule, scope="project", granted=False))
            case operations.Revoke() if asked.rule in desk.policy.always:
                await desk.session.append(Approval(rule=asked.rule, granted=False), durable=True)
            case _:
                desk.emit(events.Notice(text=f"{rule_words(asked.rule)} was not allowed in this session."))
    except OSError as error:
        _say_not_kept(desk, error)
    except FoldlineError as refusal:
        desk.emit(events.Notice(level="error", text=str(refusal)))


def _say_not_kept(desk: Desk, error: OSError) -> None:
    where = f"{desk.project.path} could not be written: {system_words(error)}"
    desk.emit(events.Notice(level="warning", text=f"{where}. What is allowed in this project is unchanged."))
