"""Approvals: the policy for tool calls, questions to the user, and a project's rules.

Only the user's recorded decisions grant permissions. Text never grants any.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from foldline.data import data_home, real_path
from foldline.files import is_ours, make_private, put_private, read_regular
from foldline.history import Session
from foldline.history.origin import FolderMark, mark_of
from foldline.history.paths import with_tilde, workdir_key
from foldline.protocol import Approval, ApprovalMode, Rule, events
from foldline.protocol.events import Event, Option
from foldline.protocol.messages import Record, Timestamp
from foldline.protocol.operations import Choose

Level = Literal["read", "edit", "run"]
"""What a tool can do: only read, change the files named in its call, or run arbitrary programs."""

RULES_IGNORED = (
    "The permissions that you granted in this project are ignored: {path} {reason}"
)
UNREADABLE = "cannot be read ({reason})."
DAMAGED = "is damaged. The next rule that you grant will replace it."
WRITABLE = "is writable by other users. Run `chmod 600` on it."
OTHER_FOLDER = (
    "was written for a different folder at the same path. Foldline asks you again."
)

ANSWER_FREELY = "Answer in your own words"

SANDBOXED: frozenset[ApprovalMode] = frozenset({"sandboxed", "read-only"})
"""Modes in which commands run in the sandbox."""


# --- policy -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Policy:
    """The permissions of one session."""

    mode: ApprovalMode = "ask"
    always: frozenset[Rule] = field(default_factory=frozenset)
    """Rules granted for the session."""
    before: ApprovalMode = "ask"
    """The mode to return to after `plan`."""

    @property
    def usual(self) -> ApprovalMode:
        """The current mode or, in `plan` mode, the mode before it."""
        return self.before if self.mode == "plan" else self.mode

    def after(self, entry: Approval) -> "Policy":
        """Return the policy that results from this approval.

        Rules granted for a project are ignored, because they are stored elsewhere.
        """
        rules = self.always
        if entry.rule is not None and entry.scope == "session":
            rules = rules | {entry.rule} if entry.granted else rules - {entry.rule}
        return Policy(entry.mode or self.mode, rules, entry.before or self.before)


WRITES = Rule(tool="write")
"""Rule for writing files. It also covers files that a command writes by redirection."""


def missing(
    policy: Policy,
    rules: Sequence[Rule],
    of_project: Collection[Rule] = (),
) -> tuple[Rule, ...]:
    """Return the rules that have not been granted."""
    granted = policy.always.union(of_project)
    if policy.mode == "edits":
        granted |= {WRITES}
    return tuple(rule for rule in rules if rule not in granted)


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
    """Decide whether a call may run.

    Args:
        rules: sets of rules. The call is covered if every rule in one of the sets is granted.
        inside: whether the call stays in the working folder. If not, the user is always asked, except in
            `all` mode.
        of_project: rules granted for the project.
        box: whether the sandbox on this system confines commands fully, partly or not at all.
        in_box: whether the call would run in the sandbox.
    """
    mode = policy.mode
    if mode == "all":
        return "allow"
    if mode == "plan" and level != "read":
        return "refuse"
    if mode == "read-only" and (level == "edit" or in_box):
        return "allow" if in_box and box else "refuse"
    is_confined = mode == "sandboxed" and box == "whole"
    if in_box and is_confined:
        return "allow"
    if not inside or (mode == "read-only" and level == "run"):
        return "ask"
    if level == "read" or (level == "edit" and (mode == "edits" or is_confined)):
        return "allow"
    for rule_set in rules:
        if rule_set and not missing(policy, rule_set, of_project):
            return "allow"
    return "ask"


def resumed_policy(session: Session, default: ApprovalMode) -> Policy:
    """Return a resumed session's policy.

    Only approvals that were written on this machine count. Compactions, clears, rewinds and undos do not
    affect approvals. The `all` mode is not restored, because the user confirmed it for one run of the program
    only.

    Args:
        default: mode of a session in which the user never chose a mode.
    """
    policy = Policy(default)
    for outline in session.entries.outlines:
        if isinstance(outline, Approval) and outline.index > session.foreign:
            policy = policy.after(outline)
    mode = default if policy.mode == "all" else policy.mode
    before = "ask" if policy.before == "all" else policy.before
    return Policy(mode, policy.always, before)


# --- questions --------------------------------------------------------------------------------------------


class Choices:
    """Asks the user questions and waits for answers."""

    def __init__(self, *, interactive: bool = False) -> None:
        self.interactive = interactive
        """Whether a user can answer."""
        self.is_read = True
        """Whether a person reads each question. Some editors answer yes to every question."""
        self.emit: Callable[[Event], None] = lambda _: None
        self._ids = count(1)
        self._waiting: dict[str, asyncio.Future[Choose]] = {}
        self.scripted_answers: deque[str] = deque()
        """Prepared answers to the model's questions, in order."""

    async def ask(
        self,
        title: str,
        options: Sequence[Option],
        detail: str = "",
        *,
        is_markdown: bool = False,
        opened_by_user: bool = False,
    ) -> Choose:
        """Ask the user a question and wait for the answer.

        For the arguments, see `ChoiceRequested`.

        Returns:
            The answer. Its key is empty if the user dismissed the question.
        """
        choice = f"c{next(self._ids)}"
        future: asyncio.Future[Choose] = asyncio.get_running_loop().create_future()
        self._waiting[choice] = future
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
        key = ""
        try:
            answer = await future
            key = answer.key
        finally:
            del self._waiting[choice]
            self.emit(events.ChoiceResolved(choice=choice, key=key))
        return answer

    async def ask_in_words(
        self, title: str, choices: Sequence[str], detail: str = ""
    ) -> str:
        """Ask a question that the user answers with one of the choices, or in their own words.

        Returns an empty string if the user does not answer.
        """
        options = [
            Option(key=key, label=choice)
            for key, choice in zip("abcdefghi", choices, strict=False)
        ]
        own_words = Option(key="o", label=ANSWER_FREELY, asks="line")
        answer = await self.ask(title, (*options, own_words), detail)
        for option in options:
            if option.key == answer.key:
                return option.label
        return answer.text.strip()

    def answer(self, answer: Choose) -> None:
        """Deliver the user's answer to the waiting question. Late answers are ignored."""
        future = self._waiting.get(answer.choice)
        if future is not None and not future.done():
            future.set_result(answer)


# --- rules of a project -----------------------------------------------------------------------------------

FOLDER = "approvals"
_MOST_BYTES = 1024 * 1024
"""Maximum size of a rules file, in bytes.

A larger file is treated as damaged.
"""


class ProjectRule(Record):
    """A rule, with the time and session in which it was granted."""

    rule: Rule
    at: Timestamp | None = None
    session: str = ""


class _RulesFile(Record):
    type: Literal["approvals"] = "approvals"
    version: Literal[1] = 1
    cwd: str
    folder: FolderMark
    rules: tuple[ProjectRule, ...] = ()


class ProjectRules:
    """The rules granted for one working folder.

    They are read from disk each time, because other processes may revoke them.
    """

    def __init__(self, cwd: Path | str, *, home: Path | None = None) -> None:
        self._cwd = real_path(cwd)
        self.path = (home or data_home()) / FOLDER / f"{workdir_key(cwd)}.json"

    def entries(self) -> tuple[ProjectRule, ...]:
        """Return the active rules, oldest first.

        Returns no rules if the file cannot be trusted.
        """
        return self._read()[0]

    def rules_and_fault(self) -> tuple[frozenset[Rule], str]:
        """Return the active rules, and the message that `fault` returns."""
        entries, fault = self._read()
        return frozenset(entry.rule for entry in entries), fault

    def fault(self) -> str:
        """Return a message explaining why the file cannot be trusted.

        Returns an empty string if it can be trusted.
        """
        return self._read()[1]

    def grant(self, granted: ProjectRule) -> None:
        """Add a rule.

        A file that cannot be trusted is replaced.

        Raises:
            OSError: the write to disk failed; nothing has changed.
        """
        self._write([*self._entries_without(granted.rule), granted])

    def revoke(self, rule: Rule) -> None:
        """Remove a rule.

        Raises:
            OSError: the write to disk failed; nothing has changed.
        """
        self._write(self._entries_without(rule))

    def _entries_without(self, rule: Rule) -> list[ProjectRule]:
        return [entry for entry in self.entries() if entry.rule != rule]

    def _write(self, entries: Sequence[ProjectRule]) -> None:
        content = _RulesFile(
            cwd=self._cwd,
            folder=mark_of(self._cwd),
            rules=tuple(entries),
        )
        make_private(self.path.parent)
        data = content.model_dump_json(exclude_none=True, indent=1).encode()
        put_private(self.path, data, durable=True)

    def _read(self) -> tuple[tuple[ProjectRule, ...], str]:
        try:
            return self._checked_rules(), ""
        except FileNotFoundError:
            return (), ""
        except OSError as error:
            reason = UNREADABLE.format(reason=error.strerror or error)
        except ValidationError:
            reason = DAMAGED
        except ValueError as problem:
            reason = str(problem)
        path = with_tilde(str(self.path))
        return (), RULES_IGNORED.format(path=path, reason=reason)

    def _checked_rules(self) -> tuple[ProjectRule, ...]:
        """Read the rules from the file.

        Raises:
            OSError: the file cannot be read.
            ValueError: the file cannot be trusted. The message is a clause that states the reason.
        """
        data = read_regular(self.path, _MOST_BYTES + 1)
        if not is_ours(self.path.stat()):
            raise ValueError(WRITABLE)
        content = _RulesFile.model_validate_json(data[:_MOST_BYTES])
        if content.cwd != self._cwd or not _is_same_folder(
            content.folder, mark_of(self._cwd)
        ):
            raise ValueError(OTHER_FOLDER)
        return content.rules


def _is_same_folder(then: FolderMark, now: FolderMark) -> bool:
    """Return whether two marks belong to the same folder.

    If the system provides no ids, the git remotes are compared.
    """
    return then.id == now.id and (bool(then.id) or then.remote == now.remote)
