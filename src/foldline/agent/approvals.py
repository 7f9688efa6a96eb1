"""Approvals: which tool calls run at once, which wait for the user, and what was granted. Never by prose."""

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import ValidationError

from foldline.context.permissions import Granted, granted_in, rule_words
from foldline.data import data_home, real_path
from foldline.files import is_ours, make_private, put_private, read_regular
from foldline.history import Session, utc_now
from foldline.history.origin import FolderMark, mark_of
from foldline.history.paths import with_tilde, workdir_key
from foldline.protocol import Approval, ApprovalMode, FoldlineError, Rule, events, operations, system_words
from foldline.protocol.events import Event, Option
from foldline.protocol.messages import Moment, Record
from foldline.protocol.operations import Choose

if TYPE_CHECKING:
    from .state import AgentState


Level = Literal["read", "edit", "run"]
"""What a tool can do: only look, change files it names, or run anything."""

Mode = ApprovalMode
SANDBOXED: frozenset[Mode] = frozenset({"sandboxed", "read-only"})
"""The modes in which commands run in the sandbox."""


@dataclass(frozen=True, slots=True)
class Policy:
    """What is allowed now, in one session."""

    mode: Mode = "ask"
    always: frozenset[Rule] = field(default_factory=frozenset)
    """The rules of the session."""
    before: Mode = "ask"
    """The mode that comes back after `plan`."""

    @property
    def usual(self) -> Mode:
        """The mode, that of planning apart."""
        return self.before if self.mode == "plan" else self.mode

    def after(self, entry: Approval) -> "Policy":
        """The policy once the user has said this, too."""
        granted = Granted(self.always, self.mode, self.before).after(entry)
        return Policy(granted.mode or self.mode, granted.rules, granted.before or self.before)


WRITES = Rule(tool="write")
"""Stands for files that a command writes by redirection, too."""


def missing(policy: Policy, rules: Sequence[Rule], of_project: Collection[Rule] = ()) -> tuple[Rule, ...]:
    """Those of these rules that were not granted."""
    return tuple(
        rule
        for rule in rules
        if not (rule in policy.always or rule in of_project or (rule == WRITES and policy.mode == "edits"))
    )


def decide(
    policy: Policy,
    level: Level,
    rules: Sequence[Sequence[Rule]],
    *,
    inside: bool,
    of_project: Collection[Rule] = (),
    box: Literal["", "part", "whole"] = "",
    in_box: bool = False,
) -> Literal["allow", "ask", "refuse"]:
    """Whether a call may run now.

    `box` is how much of what the sandbox promises it holds here, `in_box` whether this call would run in it.

    `rules` are those that cover it, one set or another as a whole. `inside` is false where it reaches outside
    the working directory; that always asks, whatever was allowed before, except in mode `all`.
    """
    if policy.mode == "all":
        return "allow"
    if policy.mode == "plan" and level != "read":
        return "refuse"
    if policy.mode == "read-only" and (level == "edit" or in_box):
        return "allow" if in_box and box else "refuse"
    is_held = policy.mode == "sandboxed" and box == "whole"
    if in_box and is_held:
        return "allow"
    if not inside or (policy.mode == "read-only" and level == "run"):
        return "ask"
    if level == "read" or (level == "edit" and (policy.mode == "edits" or is_held)):
        return "allow"
    return "allow" if any(each and not missing(policy, each, of_project) for each in rules) else "ask"


def policy_of(session: Session, mode: Mode) -> Policy:
    """What a session allows that is opened: the rules the user granted in it, and this mode."""
    granted = granted_in(session.entries.outlines, after=session.foreign)
    return Policy(mode, granted.rules, granted.before or "ask")


def mode_of(session: Session, usual: Mode) -> Mode:
    """The mode a session is resumed with: the one chosen in it last, else the usual one."""
    return granted_in(session.entries.outlines, after=session.foreign).mode or usual


class Choices:
    """Asks, and waits for the answer. Where nobody can answer (`interactive` is False), nothing is asked."""

    def __init__(self, *, interactive: bool = False) -> None:
        self.interactive = interactive
        self.read = True
        """Whether a person reads each question: some editors answer all of them with a yes."""
        self.emit: Callable[[Event], None] = lambda _: None
        self._ids = count(1)
        self._waiting: dict[str, asyncio.Future[Choose]] = {}
        self.given: deque[str] = deque()
        """Answers to questions of the model that were written down before, the next one first."""

    async def ask(
        self,
        title: str,
        options: Sequence[Option],
        detail: str = "",
        *,
        is_markdown: bool = False,
        opened_by_user: bool = False,
    ) -> Choose:
        """Ask; return the option taken, with what was written with it. Its key is empty if the user left the
        question. For the arguments, see `ChoiceRequested`."""
        choice = f"c{next(self._ids)}"
        waiting: asyncio.Future[Choose] = asyncio.get_running_loop().create_future()
        self._waiting[choice] = waiting
        self.emit(
            events.ChoiceRequested(
                choice=choice,
                title=title,
                detail=detail,
                options=tuple(options),
                is_markdown=is_markdown,
                opened_by_user=opened_by_user,
            )
        )
        word = Choose(choice=choice, key="")
        try:
            word = await waiting
        finally:
            del self._waiting[choice]
            self.emit(events.ChoiceResolved(choice=choice, key=word.key))
        return word

    def answer(self, word: Choose) -> None:
        """The user's word; ignored where nothing waits for it."""
        waiting = self._waiting.get(word.choice)
        if waiting is not None and not waiting.done():
            waiting.set_result(word)


FOLDER = "approvals"
_MOST_BYTES = 1024 * 1024


class KeptRule(Record):
    """A rule, when it was granted, and the session it was granted in."""

    rule: Rule
    at: Moment | None = None
    session: str = ""


class _File(Record):
    type: Literal["approvals"] = "approvals"
    version: Literal[1] = 1
    cwd: str
    folder: FolderMark
    rules: tuple[KeptRule, ...] = ()


class ProjectRules:
    """The rules of one working folder. Read anew each time: what was revoked elsewhere no longer counts."""

    def __init__(self, cwd: Path | str, *, home: Path | None = None) -> None:
        self._cwd = real_path(cwd)
        self.path = (home or data_home()) / FOLDER / f"{workdir_key(cwd)}.json"

    def kept(self) -> tuple[KeptRule, ...]:
        """The rules in force, oldest first; none where the file cannot be trusted."""
        return self._read()[0]

    def known(self) -> tuple[frozenset[Rule], str]:
        """The rules in force, and why the file counts for nothing, where it does."""
        kept, fault = self._read()
        return frozenset(each.rule for each in kept), fault

    def fault(self) -> str:
        """Why the file counts for nothing, as a sentence; empty where it does, or there is none."""
        return self._read()[1]

    def grant(self, kept: KeptRule) -> None:
        """Keep one more rule. A file that counts for nothing is replaced.

        Raises:
            OSError: the disk refused; nothing has changed.
        """
        self._write(lambda rules: (*(each for each in rules if each.rule != kept.rule), kept))

    def revoke(self, rule: Rule) -> None:
        """Keep the rule no longer.

        Raises:
            OSError: the disk refused; nothing has changed.
        """
        self._write(lambda rules: tuple(each for each in rules if each.rule != rule))

    def _write(self, change: Callable[[tuple[KeptRule, ...]], tuple[KeptRule, ...]]) -> None:
        made = _File(cwd=self._cwd, folder=mark_of(self._cwd), rules=change(self.kept()))
        make_private(self.path.parent)
        data = made.model_dump_json(exclude_none=True, indent=1).encode()
        put_private(self.path, data, durable=True)

    def _read(self) -> tuple[tuple[KeptRule, ...], str]:
        where = f"What was always allowed in this project does not count: {with_tilde(str(self.path))}"
        try:
            data = read_regular(self.path, _MOST_BYTES + 1)
            status = self.path.stat()
        except FileNotFoundError:
            return (), ""
        except OSError as error:
            return (), f"{where} cannot be read ({error.strerror or error})."
        if not is_ours(status):
            return (), f"{where} can be written by others than you; chmod 600 closes it."
        try:
            found = _File.model_validate_json(data[:_MOST_BYTES])
        except ValidationError:
            return (), f"{where} is damaged; the next rule you grant replaces it."
        if found.cwd != self._cwd or not _same_folder(found.folder, mark_of(self._cwd)):
            return (), f"{where} is about another folder that was here before; you are asked again."
        return found.rules, ""


def _same_folder(then: FolderMark, now: FolderMark) -> bool:
    """Whether it is the folder it was; where the system does not say, the git remote must be the same."""
    return then.id == now.id and (bool(then.id) or then.remote == now.remote)


async def grant(state: "AgentState", rule: Rule) -> None:
    """Allow its calls without a question in this session, for the agent and its subagents.

    Raises:
        FoldlineError: it could not be recorded, and does not count.
    """
    await (state.parent or state).session.append(Approval(rule=rule), durable=True)


async def grant_in_project(state: "AgentState", rule: Rule) -> None:
    """Allow its calls without a question in every session of this folder. Says where that cannot be kept.

    Raises:
        FoldlineError: the session could not record that it was said; it counts all the same.
    """
    kept = KeptRule(rule=rule, at=utc_now(), session=state.session.id)
    try:
        await asyncio.to_thread(state.project.grant, kept)
    except OSError as error:
        _say_not_kept(state, error)
    else:
        await (state.parent or state).session.append(Approval(rule=rule, scope="project"), durable=True)


async def permit(state: "AgentState", asked: operations.Revoke | operations.SwitchApprovals) -> None:
    """Take back a rule or change the mode, while other things run. A refusal is reported."""
    try:
        match asked:
            case operations.SwitchApprovals():
                known = state.sandbox.engine
                before = state.policy.usual if asked.mode == "plan" else None
                await state.session.append(Approval(mode=asked.mode, before=before), durable=True)
                if asked.mode in SANDBOXED:
                    await state.sandbox_engine()  # says why, the first time
                    if known is not None and not known.holds:
                        state.warn(known.why)
                if state.servers is not None:
                    await state.servers.follow_mode()
            case operations.Revoke(scope="project"):
                await asyncio.to_thread(state.project.revoke, asked.rule)
                await state.session.append(Approval(rule=asked.rule, scope="project", granted=False))
            case operations.Revoke() if asked.rule in state.policy.always:
                await state.session.append(Approval(rule=asked.rule, granted=False), durable=True)
            case _:
                state.emit(events.Notice(text=f"{rule_words(asked.rule)} was not allowed in this session."))
    except OSError as error:
        _say_not_kept(state, error)
    except FoldlineError as refusal:
        state.emit(events.Notice(level="error", text=str(refusal)))


def _say_not_kept(state: "AgentState", error: OSError) -> None:
    where = f"{state.project.path} could not be written: {system_words(error)}"
    state.emit(events.Notice(level="warning", text=f"{where}. What is allowed in this project is unchanged."))
