"""The list of permissions: approval modes, granted rules, and trusted files in the folder."""

import os
from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Final, get_args

from foldline.past.approval_words import mode_words, rule_words
from foldline.protocol import Approval, ApprovalMode, Rule, operations
from foldline.protocol.entries import ApprovalScope
from foldline.protocol.events import EntryAppended, Notice, SandboxKnown
from foldline.tui.lists.picker import Picker
from foldline.tui.lists.rows import PickerItem
from foldline.tui.overlays.dialogs import confirmed
from foldline.tui.session_window import AgentRunner, SessionWindow

if TYPE_CHECKING:
    from foldline.agent.session.state import AgentState
    from foldline.protocol.events import Event

TITLE: Final = "Permissions"
IN_USE: Final = "in use"
ALLOW_ALL: Final = "Run everything without asking, even outside this folder?"
ALLOW: Final = "Run everything"
AGREED: Final = "agreed to"
IGNORED: Final = "ignored"

PermissionChange = (
    operations.Revoke | operations.TakeBackTrust | operations.SwitchApprovals
)


def open_permissions(chat: SessionWindow, runner: AgentRunner) -> None:
    """List the permissions, and update the list when they change.

    Enter switches to the selected mode. Delete revokes a rule, or the answer about a file.
    """
    state = runner.agent.state
    rows = dict(permissions_now(state))

    async def switch(change: operations.SwitchApprovals) -> None:
        if change.mode != "all" or await confirmed(chat, ALLOW_ALL, ALLOW):
            runner.submit(change)

    def change_of(id: str) -> PermissionChange:
        return next(change for item, change in rows.items() if item.id == id)

    def take(id: str) -> None:
        change = change_of(id)
        if isinstance(change, operations.SwitchApprovals):
            chat.run_worker(switch(change), group="mode", exclusive=True)

    def revoke(id: str) -> None:
        change = change_of(id)
        if not isinstance(change, operations.SwitchApprovals):
            runner.submit(change)

    def update(event: "Event") -> None:
        nonlocal rows
        if _changes_permissions(event):
            rows = dict(permissions_now(state))
            picker.offer(rows)

    picker = Picker(
        TITLE,
        rows,
        marked=state.permissions.policy.mode,
        on_take=take,
        on_remove=revoke,
        take_word="use this mode",
        remove_word="revoke",
    )
    stop = runner.agent.executor.subscribe(update)
    chat.push_screen(picker, lambda _: stop())


def _changes_permissions(event: "Event") -> bool:
    if isinstance(event, EntryAppended):
        return isinstance(event.entry, Approval)
    return isinstance(event, Notice | SandboxKnown)


def permissions_now(
    state: "AgentState",
) -> Iterator[tuple[PickerItem, PermissionChange]]:
    """Yield an item for each mode, rule and file, with the change that belongs to it.

    Reads the project's rules from disk.
    """
    from foldline.agent.project.trust import folder_files
    from foldline.agent.session.trust_question import does

    yield from _modes(state)
    yield from _rules(state)
    for file in folder_files(state.cwd):
        if file.word in ("agreed", "declined"):
            path = str(file.path)
            item = PickerItem(
                path,
                f"file     {os.path.relpath(path, state.cwd)}: {does(file)}",
                AGREED if file.is_trusted else IGNORED,
            )
            yield item, operations.TakeBackTrust(path=path)


def _modes(
    state: "AgentState",
) -> Iterator[tuple[PickerItem, operations.SwitchApprovals]]:
    """Yield the modes. The current one has a note about the limits of rules and sandbox."""
    from foldline.agent.permissions.approvals import SANDBOXED

    for mode in get_args(ApprovalMode):
        is_current = mode == state.permissions.policy.mode
        engine = state.permissions.sandbox.engine if mode in SANDBOXED else None
        notes = [
            state.permissions.project.fault(),
            engine.why if engine is not None else "",
        ]
        item = PickerItem(
            mode,
            f"mode     {mode}",
            mode_words(mode),
            IN_USE if is_current else "",
            "\n".join(filter(None, notes)) if is_current else "",
        )
        yield item, operations.SwitchApprovals(mode=mode)


def _rules(state: "AgentState") -> Iterator[tuple[PickerItem, operations.Revoke]]:
    """Yield the session's rules, then the project's rules."""
    from foldline.history import short_id

    def row(
        rule: Rule, scope: ApprovalScope, origin: str, at: datetime | None
    ) -> tuple[PickerItem, operations.Revoke]:
        time = f", {at.astimezone():%Y-%m-%d %H:%M}" if at is not None else ""
        words = rule_words(rule)
        item = PickerItem(f"{scope} {words}", f"{scope:<8} {words}", f"{origin}{time}")
        return item, operations.Revoke(rule=rule, scope=scope)

    granted = {
        outline.rule: outline
        for outline in state.session.entries.outlines
        if isinstance(outline, Approval)
        and outline.rule is not None
        and outline.scope == "session"
    }
    for rule, outline in granted.items():
        if rule in state.permissions.policy.always:
            yield row(rule, "session", f"entry {outline.index}", outline.at)
    for grant in state.permissions.project.entries():
        session = f"session {short_id(grant.session)}"
        yield row(grant.rule, "project", session, grant.at)
