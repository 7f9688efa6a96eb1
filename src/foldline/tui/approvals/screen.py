"""The Approvals screen: what runs unasked here, to be taken back, and the mode."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, ClassVar

from textual import events
from textual.binding import BindingType
from textual.containers import Vertical

from foldline.protocol import operations
from foldline.tui.dialogs import open_help
from foldline.tui.keys.table import bindings, key_of, works
from foldline.tui.runner import Runner
from foldline.tui.widgets.box import BoxedScreen

if TYPE_CHECKING:
    from foldline.agent.state import AgentState
    from foldline.protocol.events import Event
    from foldline.tui.app import FoldlineApp
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from foldline.context.harmless import clean_line
from foldline.context.permissions import mode_words
from foldline.protocol import ApprovalMode, Rule
from foldline.protocol.entries import ApprovalScope
from foldline.protocol.operations import Revoke
from foldline.tui.blocks.cells import Piece, Span, piece, wrap_spans
from foldline.tui.keys.commands import key_of as command_key
from foldline.tui.keys.table import ScreenKey, name_of, names_of, table
from foldline.tui.prompting.completion import window_start
from foldline.tui.widgets.lines import HEAVY, edge, framed_row, sides


@dataclass(frozen=True, slots=True)
class RuleRow:
    """A rule in force, and where it came from."""

    rule: Rule
    scope: ApprovalScope
    words: str
    origin: str


@dataclass(frozen=True, slots=True)
class ApprovalsState:
    """The rules, those of the session first, the mark among them, and the mode."""

    rows: tuple[RuleRow, ...] = ()
    mode: ApprovalMode = "ask"
    fault: str = ""
    """Why the rules of the project count for nothing, as a sentence."""
    at: int = 0
    confirming: bool = False
    """Whether `all` was asked for, and is to be confirmed."""

    @property
    def marked(self) -> RuleRow | None:
        return self.rows[self.at] if self.rows else None

    def moved(self, step: int) -> "ApprovalsState":
        at = min(max(self.at + step, 0), max(len(self.rows) - 1, 0))
        return replace(self, at=at, confirming=False)

    def refreshed(self, now: "ApprovalsState") -> "ApprovalsState":
        """What holds now; the mark stays where it is."""
        return now.moved(self.at)

    def revocation(self) -> Revoke | None:
        """What takes the marked rule back."""
        row = self.marked
        return None if row is None else Revoke(rule=row.rule, scope=row.scope)


def _has_rules(state: ApprovalsState) -> bool:
    return state.marked is not None


KEYS: Final[tuple[ScreenKey[ApprovalsState], ...]] = table(
    "approvals",
    ScreenKey("ask", ("1",), "Reads run unasked; edits and commands ask.", "Mode", "ask"),
    ScreenKey("edits", ("2",), "Edits inside the folder run unasked, too.", "Mode", "edits"),
    ScreenKey(
        "all",
        ("3",),
        "Everything runs unasked, outside the folder, too, until you leave Foldline. Asks once more.",
        "Mode",
        "all",
    ),
    ScreenKey(
        "confirm",
        ("ctrl+s",),
        "Yes, everything: no sign that may be typed ahead says it.",
        "Mode",
        works=lambda state: state.confirming,
    ),
    ScreenKey(
        "revoke",
        ("x", "delete"),
        "Its like asks again from now on.",
        "Rules",
        "take back",
        works=_has_rules,
    ),
    ScreenKey("up", ("up", "k"), "To the rule above.", "Rules"),
    ScreenKey("down", ("down", "j"), "To the rule below.", "Rules"),
    ScreenKey("help", ("f1", "question_mark"), "This list.", "Program", "keys", "?"),
    ScreenKey("close", ("escape", "q"), "Closes.", "Program"),
    title="Permissions",
)


def hints(state: ApprovalsState) -> tuple[tuple[str, str], ...]:
    """(key, word) of what works now, the modes apart."""
    return tuple(
        (key.name, key.hint) for key in KEYS if key.hint and key.group != "Mode" and key.works(state)
    )


AROUND = 7
"""Lines beside the rules, as long as none of them is wrapped."""

_MODES: tuple[ApprovalMode, ...] = ("ask", "edits", "all")
_SURE = "Everything will run unasked, outside this folder too. {}: yes, else no"


def screen_lines(state: ApprovalsState, width: int, height: int) -> list[list[Span]]:
    """Exactly `height` lines of `width` cells."""
    head, foot = list(_mode_lines(state, width - 2)), list(_foot_lines(state, width - 2))
    room = max(height - len(head) - len(foot) - 2, 1)
    first = window_start(state.at, len(state.rows), room)
    shown = state.rows[first : first + room]
    rules = [_rule_row(row, first + at == state.at, width) for at, row in enumerate(shown)]
    if not rules:
        rules = [sides(HEAVY, line, width) for line in wrap_spans([(f"  {_none()}", "muted")], width - 2)][
            :room
        ]
    rules += [sides(HEAVY, [], width)] * (room - len(rules))
    count = ((f"{state.at + 1} of {len(state.rows)}", "muted"),) if state.rows else ()
    return [
        edge(HEAVY, True, (("What runs unasked", "text bold"),), count, width),
        *(sides(HEAVY, line, width) for line in head),
        *rules,
        *(sides(HEAVY, line, width) for line in foot),
        edge(HEAVY, False, ((_moves(), "muted"),), (), width),
    ]


def _moves() -> str:
    return f"{names_of(KEYS, 'up', 'down')} choose · {name_of(KEYS, 'close')} closes"


def _none() -> str:
    session, project = command_key("allow-always"), command_key("allow-project")
    return f"Nothing is always allowed: {session} or {project} at a question allows its like."


def _mode_lines(state: ApprovalsState, width: int) -> Iterator[list[Span]]:
    line: list[Span] = [(" mode   ", "muted")]
    for mode in _MODES:
        chosen = mode == state.mode
        style = ("alert" if mode == "all" else "accent") if chosen else "text"
        line += [
            (name_of(KEYS, mode), "accent"),
            (f" {'▶' if chosen else ''}{mode}   ", f"{style} bold" if chosen else style),
        ]
    yield line
    if state.confirming:
        yield from wrap_spans([(f" ! {_SURE.format(name_of(KEYS, 'confirm'))}", "alert")], width)
    else:
        yield [(f"        {mode_words(state.mode)}", "alert" if state.mode == "all" else "muted")]
    yield []


def _rule_row(row: RuleRow, marked: bool, width: int) -> list[Span]:
    left = [
        piece("▶" if marked else " ", "accent", gap=0),
        piece(f"{row.scope:<8}", "muted", gap=1),
        Piece(((clean_line(row.words), "text reverse" if marked else "text"),), gap=1, cut="right", least=20),
    ]
    return framed_row(HEAVY, left, [piece(clean_line(row.origin), "muted", rank=1)], width)


def _foot_lines(state: ApprovalsState, width: int) -> Iterator[list[Span]]:
    yield []
    if state.fault:
        yield from wrap_spans([(f" ! {clean_line(state.fault)}", "alert")], width)
    spans: list[Span] = [(" ", "")]
    for key, word in hints(state):
        spans += [(key, "accent"), (f" {word}   ", "text")]
    yield spans


Ask = Callable[[operations.Revoke | operations.SwitchApprovals], object]
"""Passes what the reader wants on to the agent."""


class ApprovalsScreen(BoxedScreen[None, ApprovalsState]):
    """What is taken back or switched counts at once; the screen shows what the agent says then."""

    BINDINGS: ClassVar[list[BindingType]] = bindings(KEYS, "approvals")

    def __init__(self, state: ApprovalsState, ask: Ask) -> None:
        super().__init__(state, screen_lines)
        self._ask = ask

    def on_mount(self) -> None:
        rows = max(len(self.state.rows), 3) + AROUND + (2 if self.state.fault else 0)
        self.query_one(Vertical).styles.height = min(rows, 30)
        self._box.focus()

    def refresh_from(self, now: ApprovalsState) -> None:
        """Show what holds now."""
        self._show(self.state.refreshed(now))

    def _show(self, state: ApprovalsState) -> None:
        self._box.show(state)

    def on_key(self, event: events.Key) -> None:
        """Every key but the one that confirms it leaves the question about the mode `all`."""
        if self.state.confirming and event.key not in key_of(KEYS, "confirm").pressed:
            self._show(replace(self.state, confirming=False))
            event.stop()
            event.prevent_default()

    def works_now(self, command: str) -> bool:
        """Whether a key does anything now."""
        return works(KEYS, command, self.state)

    def action_approvals(self, command: str) -> None:
        """What a key of the table does."""
        state = self.state
        if not works(KEYS, command, state):
            return
        match command:
            case "ask":
                self._ask(operations.SwitchApprovals(mode="ask"))
            case "edits":
                self._ask(operations.SwitchApprovals(mode="edits"))
            case "all" if state.mode != "all":
                self._show(replace(state, confirming=True))
            case "confirm":
                self._ask(operations.SwitchApprovals(mode="all"))
                self._show(replace(state, confirming=False))
            case "revoke":
                asked = state.revocation()
                if asked is not None:
                    self._ask(asked)
            case "up" | "down":
                self._show(state.moved(-1 if command == "up" else 1))
            case "help":
                open_help(self.app)
            case "close":
                self.dismiss(None)


def approval_commands(app: "FoldlineApp") -> dict[str, Callable[[Runner, str], None]]:
    return {"approvals": lambda runner, _: open_approvals(app, runner)}


def open_approvals(app: "FoldlineApp", runner: Runner) -> None:
    """Show what runs unasked. It is kept up to date while it is open."""
    from foldline.protocol import Approval, events

    agent_state = runner.agent.state
    screen = ApprovalsScreen(state_of(agent_state), runner.submit)

    def hear(event: "Event") -> None:
        if isinstance(event, events.EntryAppended) and isinstance(event.entry, Approval):
            screen.refresh_from(state_of(agent_state))

    stop = runner.agent.executor.subscribe(hear)
    app.push_screen(screen, lambda _: stop())


def state_of(agent_state: "AgentState") -> "ApprovalsState":
    """What holds now, and where it came from. Reads the rules of the project from disk."""
    from foldline.context.permissions import rule_words
    from foldline.history import short_id
    from foldline.protocol import Approval

    granted = {
        outline.rule: outline
        for outline in agent_state.session.entries.outlines
        if isinstance(outline, Approval) and outline.rule is not None and outline.scope == "session"
    }
    rows = [
        RuleRow(rule, "session", rule_words(rule), f"entry {granted[rule].index}{_time(granted[rule].at)}")
        for rule in granted
        if rule in agent_state.policy.always
    ]
    rows += [
        RuleRow(
            kept.rule, "project", rule_words(kept.rule), f"session {short_id(kept.session)}{_time(kept.at)}"
        )
        for kept in agent_state.project.kept()
    ]
    return ApprovalsState(tuple(rows), agent_state.policy.mode, agent_state.project.fault())


def _time(at: datetime | None) -> str:
    return f", {at.astimezone():%Y-%m-%d %H:%M}" if at is not None else ""
