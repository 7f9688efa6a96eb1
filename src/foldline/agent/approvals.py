"""Approvals: which tool calls run at once and which wait for the user. State, never prose (DESIGN §5, 10)."""

import asyncio
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Literal

from foldline.context.permissions import Granted, granted_in
from foldline.history import Session
from foldline.protocol import Approval, ApprovalMode, Rule, events
from foldline.protocol.events import Event, Option

Level = Literal["read", "edit", "run"]
"""What a tool can do: only look, change files it names, or run anything."""

Mode = ApprovalMode


@dataclass(frozen=True, slots=True)
class Policy:
    """What is allowed now, in one session."""

    mode: Mode = "ask"
    always: frozenset[Rule] = field(default_factory=frozenset)
    """The rules of the session."""

    def after(self, entry: Approval) -> "Policy":
        """The policy once the user has said this, too."""
        granted = Granted(self.always, self.mode).after(entry)
        return replace(self, mode=granted.mode or self.mode, always=granted.rules)


def decide(
    policy: Policy,
    level: Level,
    rules: Sequence[Rule],
    *,
    inside: bool,
    of_project: Collection[Rule] = (),
) -> Literal["allow", "ask"]:
    """Whether a call may run now.

    `rules` are those that cover it. `inside` is false where it reaches outside the working directory; that
    always asks, whatever was allowed before, except in mode `all`.
    """
    if policy.mode == "all":
        return "allow"
    if not inside:
        return "ask"
    if level == "read" or (level == "edit" and policy.mode == "edits"):
        return "allow"
    return "allow" if any(rule in policy.always or rule in of_project for rule in rules) else "ask"


def policy_of(session: Session, mode: Mode) -> Policy:
    """What a session allows that is opened: the rules the user granted in it, and this mode."""
    return Policy(mode, granted_in(session.entries.outlines, after=session.foreign).rules)


def mode_of(session: Session, usual: Mode) -> Mode:
    """The mode a session is resumed with: the one chosen in it last, else the usual one."""
    return granted_in(session.entries.outlines, after=session.foreign).mode or usual


class Choices:
    """Asks, and waits for the answer. Where nobody can answer (`interactive` is False), nothing is asked."""

    def __init__(self, *, interactive: bool = False) -> None:
        self.interactive = interactive
        self.emit: Callable[[Event], None] = lambda _: None
        self._ids = count(1)
        self._waiting: dict[str, asyncio.Future[str]] = {}

    async def ask(self, title: str, options: Sequence[Option], detail: str = "") -> str:
        """The key of the option taken; empty where the user left the question."""
        choice = f"c{next(self._ids)}"
        waiting: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._waiting[choice] = waiting
        self.emit(events.ChoiceRequested(choice=choice, title=title, detail=detail, options=tuple(options)))
        key = ""
        try:
            key = await waiting
        finally:
            del self._waiting[choice]
            self.emit(events.ChoiceResolved(choice=choice, key=key))
        return key

    def answer(self, choice: str, key: str) -> None:
        """The user's word; ignored where nothing waits for it."""
        waiting = self._waiting.get(choice)
        if waiting is not None and not waiting.done():
            waiting.set_result(key)
