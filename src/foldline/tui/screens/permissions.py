"""Permissions: what is always allowed and which files of the folder count, to be taken back; the mode."""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final, Literal, get_args

from textual.binding import BindingType

from foldline.context.harmless import clean_line
from foldline.context.permissions import mode_words, rule_words
from foldline.protocol import Approval, ApprovalMode, Rule, operations
from foldline.protocol.entries import ApprovalScope
from foldline.protocol.events import EntryAppended, Notice, SandboxKnown
from foldline.tui.blocks.cells import Piece, piece, row, wrap_spans
from foldline.tui.keys.commands import key_of as command_key
from foldline.tui.keys.table import HELP, ScreenKey, bindings, moves, name_of, table
from foldline.tui.lists.screen import ListScreen
from foldline.tui.runner import Runner
from foldline.tui.widgets.lines import Line, boxed, hint

if TYPE_CHECKING:
    from foldline.agent.state import AgentState
    from foldline.protocol.events import Event
    from foldline.tui.chat import ChatScreen


@dataclass(frozen=True, slots=True)
class PermissionRow:
    """A rule in force, or a file that the folder brings."""

    kind: ApprovalScope | Literal["file"]
    words: str
    origin: str
    """Where a rule came from; whether a file counts."""
    revoke: operations.Revoke | operations.TakeBackTrust


@dataclass(frozen=True, slots=True)
class Permissions:
    """What is allowed here without asking."""

    rows: Sequence[PermissionRow] = ()
    """Rules of the session first, files last."""
    mode: ApprovalMode = "ask"
    fault: str = ""
    """Why the rules of the project count for nothing, as a sentence."""
    limits: str = ""
    """What the sandbox does not hold on this machine, as a sentence; empty in modes without one."""


KEYS: Final = table(
    "approvals",
    "Mode",
    ScreenKey[None]("ask", ("1",), "Reads run; edits and commands ask first."),
    ScreenKey("edits", ("2",), "Edits inside the folder run without asking, too."),
    ScreenKey("sandboxed", ("3",), "What stays inside the sandbox runs; what needs more asks for it."),
    ScreenKey("read-only", ("4",), "Nothing is changed; commands only read, in the sandbox."),
    ScreenKey("all", ("5",), "Everything runs without asking, outside the folder, too. Asks."),
    ScreenKey("plan", ("6",), "Nothing is changed and no command runs, until you accept a plan."),
    ScreenKey("confirm", ("ctrl+s",), "Confirms the mode all; nothing that may be typed ahead does."),
    "Rules and files",
    ScreenKey(
        "revoke",
        ("x", "delete"),
        "Revokes the rule, or your word on the file: you are asked again.",
        hint="revoke",
    ),
    *moves("row", far=""),
    HELP,
    "Program",
    ScreenKey("close", ("escape", "q"), "Closes.", hint="close"),
    title="Permissions",
)

_AROUND: Final = 6
"""Lines beside the rules, as long as none of them is wrapped."""
_SURE: Final = (
    "Everything will run without asking, outside this folder too. {} or Enter: yes, any other key: no"
)

Submit = Callable[[operations.Revoke | operations.TakeBackTrust | operations.SwitchApprovals], object]
"""Passes what the user wants on to the agent."""


class PermissionsScreen(ListScreen[None, PermissionRow]):
    """What is revoked or switched counts at once; the screen shows what the agent says then."""

    KEYS = KEYS
    BINDINGS: ClassVar[list[BindingType]] = bindings(KEYS, "list")

    def __init__(self, now: Permissions, submit: Submit) -> None:
        super().__init__(now.rows)
        self.now = now
        self._submit = submit

    def height_wanted(self) -> int:
        notes = [note for note in (self.now.fault, self.now.limits) if note]
        return min(max(len(self.rows), 3) + _AROUND + 3 * len(notes), 30)

    def refresh_from(self, now: Permissions) -> None:
        """Show what holds now."""
        self.now = now
        self.show_rows(now.rows)

    def works_now(self, command: str) -> bool:
        return {"confirm": self.question, "revoke": self.row}.get(command, True) is not None

    def act(self, command: str) -> None:
        match command:
            case "ask" | "edits" | "sandboxed" | "read-only" | "plan":
                self._submit(operations.SwitchApprovals(mode=command))
            case "all" if self.now.mode != "all":
                sentence = _SURE.format(name_of(KEYS, "confirm"))
                self.confirm(
                    sentence, "confirm", partial(self._submit, operations.SwitchApprovals(mode="all"))
                )
            case "revoke" if self.row is not None:
                self._submit(self.row.revoke)

    def draw(self, width: int, height: int) -> list[Line]:
        head, foot = list(self._mode(width - 2)), list[Line]()
        for note, style in ((self.now.fault, "alert"), (self.now.limits, "muted")):
            if note:
                foot += [[], *wrap_spans([(f" ! {clean_line(note)}", style)], width - 2)]
        session, project = command_key("allow-always"), command_key("allow-project")
        none = f"Nothing is always allowed: {session} or {project} at a question allows its like."
        rules = self.row_lines(
            max(height - len(head) - len(foot) - 2, 1),
            1 + len(head),
            lambda row, marked: _line(row, marked, width - 2),
            empty=[[("  ", ""), *line] for line in wrap_spans([(none, "muted")], width - 4)],
        )
        count = f"{self.at + 1} of {len(self.rows)}" if self.rows else ""
        title = (("Permissions", "text bold"),)
        return boxed(width, title, count, [*head, *rules, *foot], *self.foot(width))

    def _mode(self, width: int) -> Iterator[Line]:
        line, start = Line(), [(" mode   ", "muted")]
        for mode in get_args(ApprovalMode):
            chosen = mode == self.now.mode
            style = ("alert" if mode == "all" else "accent") if chosen else "text"
            words = hint(name_of(KEYS, mode), f"{'▶' if chosen else ''}{mode}   ", style + " bold" * chosen)
            line += [(text.replace(" ", "\xa0", 1), look) for text, look in words]
        for each in wrap_spans(line, width - 9):
            yield [*start, *((text.replace("\xa0", " "), style) for text, style in each)]
            start = [("        ", "")]
        if self.question is not None:
            yield from wrap_spans([(f" ! {self.question.sentence}", "alert")], width)
        else:
            yield [(f"        {mode_words(self.now.mode)}", "alert" if self.now.mode == "all" else "muted")]
        yield []


def _line(shown: PermissionRow, marked: bool, width: int) -> Line:
    left = [
        piece("▶" if marked else " ", "accent", gap=0),
        piece(f"{shown.kind:<8}", "muted", gap=1),
        Piece(((clean_line(shown.words), "text"),), gap=1, cut="right", least=20),
    ]
    return row(left, [piece(clean_line(shown.origin), "muted", rank=1)], width)


def open_permissions(chat: "ChatScreen", runner: Runner) -> None:
    """Show what is allowed without asking. It is kept up to date while it is open."""
    state = runner.agent.state
    screen = PermissionsScreen(permissions_now(state), runner.submit)

    def hear(event: "Event") -> None:
        is_approval = isinstance(event, EntryAppended) and isinstance(event.entry, Approval)
        if is_approval or isinstance(event, Notice | SandboxKnown):
            screen.refresh_from(permissions_now(state))

    stop = runner.agent.executor.subscribe(hear)
    chat.push_screen(screen, lambda _: stop())


def permissions_now(state: "AgentState") -> Permissions:
    """What holds now, and where it came from. Reads the rules of the project from disk."""
    from foldline.agent.approvals import SANDBOXED
    from foldline.agent.trust import brought
    from foldline.agent.trust_question import does
    from foldline.history import short_id

    def rule_row(rule: Rule, scope: ApprovalScope, origin: str) -> PermissionRow:
        return PermissionRow(scope, rule_words(rule), origin, operations.Revoke(rule=rule, scope=scope))

    granted = {
        outline.rule: outline
        for outline in state.session.entries.outlines
        if isinstance(outline, Approval) and outline.rule is not None and outline.scope == "session"
    }
    rules = [
        rule_row(rule, "session", f"entry {granted[rule].index}{_time(granted[rule].at)}")
        for rule in granted
        if rule in state.policy.always
    ]
    rules += [
        rule_row(kept.rule, "project", f"session {short_id(kept.session)}{_time(kept.at)}")
        for kept in state.project.kept()
    ]
    files = [
        PermissionRow(
            "file",
            f"{os.path.relpath(each.path, state.cwd)}: {does(each)}",
            "agreed to" if each.counts else "left aside",
            operations.TakeBackTrust(path=str(each.path)),
        )
        for each in brought(state.cwd)
        if each.word in ("agreed", "declined")
    ]
    engine = state.sandbox.engine if state.policy.mode in SANDBOXED else None
    limits = engine.why if engine is not None else ""
    return Permissions((*rules, *files), state.policy.mode, state.project.fault(), limits)


def _time(at: datetime | None) -> str:
    return f", {at.astimezone():%Y-%m-%d %H:%M}" if at is not None else ""
