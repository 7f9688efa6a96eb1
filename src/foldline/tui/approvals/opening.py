"""Connects the Approvals screen to the program and the agent: /approvals."""

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING

from foldline.tui.runner import Runner

if TYPE_CHECKING:
    from foldline.agent.desk import Desk
    from foldline.protocol.events import Event
    from foldline.tui.app import FoldlineApp
    from foldline.tui.approvals.state import ApprovalsState


def approval_commands(app: "FoldlineApp") -> dict[str, Callable[[Runner, str], None]]:
    return {"approvals": lambda runner, _: open_approvals(app, runner)}


def open_approvals(app: "FoldlineApp", runner: Runner) -> None:
    """Show what runs unasked. It is kept up to date while it is open."""
    from foldline.protocol import Approval, events
    from foldline.tui.approvals.screen import ApprovalsScreen

    desk = runner.agent.desk
    screen = ApprovalsScreen(state_of(desk), runner.submit)

    def hear(event: "Event") -> None:
        if isinstance(event, events.EntryAppended) and isinstance(event.entry, Approval):
            screen.refresh_from(state_of(desk))

    stop = runner.agent.executor.subscribe(hear)
    app.push_screen(screen, lambda _: stop())


def state_of(desk: "Desk") -> "ApprovalsState":
    """What holds now, and where it came from. Reads the rules of the project from disk."""
    from foldline.context.permissions import rule_words
    from foldline.history import short_id
    from foldline.protocol import Approval
    from foldline.tui.approvals.state import ApprovalsState, RuleRow

    granted = {
        outline.rule: outline
        for outline in desk.session.entries.outlines
        if isinstance(outline, Approval) and outline.rule is not None and outline.scope == "session"
    }
    rows = [
        RuleRow(rule, "session", rule_words(rule), f"entry {granted[rule].index}{_time(granted[rule].at)}")
        for rule in granted
        if rule in desk.policy.always
    ]
    rows += [
        RuleRow(
            kept.rule, "project", rule_words(kept.rule), f"session {short_id(kept.session)}{_time(kept.at)}"
        )
        for kept in desk.project.kept()
    ]
    return ApprovalsState(tuple(rows), desk.policy.mode, desk.project.fault())


def _time(at: datetime | None) -> str:
    return f", {at.astimezone():%Y-%m-%d %H:%M}" if at is not None else ""
