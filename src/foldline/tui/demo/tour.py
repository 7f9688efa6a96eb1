"""The tour: what a newcomer is asked to try, step by step; and the recorded session it goes through."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from foldline.agent import Agent
from foldline.agent.tools import default_tools
from foldline.agent.tools.base import ReplayTool
from foldline.agent.tools.history import recall_tools
from foldline.history import Session, read_log
from foldline.llm.offline.model import ReplayLLM
from foldline.protocol import AssistantMessage, ToolResultMessage, UserMessage
from foldline.tui.inspector.keys import KEYS as INSPECTOR
from foldline.tui.keys.commands import key_of
from foldline.tui.keys.table import name_of, names_of
from foldline.tui.preview.keys import KEYS as PREVIEW
from foldline.tui.transcript.panel import KEYS as READING


@dataclass(frozen=True, slots=True)
class Facts:
    """Whether a step was done."""

    screens: frozenset[str] = frozenset()
    """The tables of keys in force where the focus is, by their names in `tui/keys/registry.py`."""
    previewed: bool = False
    """Whether the Compact preview was open at any time."""
    played: bool = False
    """Whether the recording has been played to its end, or stopped."""
    compactions: int = 0
    """Those in force."""
    summary_open: bool = False
    """Whether a summary stands open in the transcript."""
    place: int = -1
    """Index of the entry the Inspector's cursor is on."""
    on_compaction: bool = False
    """Whether that is a compaction."""
    past: bool = False
    """Whether the Inspector shows an earlier moment."""
    pins: int = 0
    answered: bool = False
    """Whether a question was asked, and is no longer."""


@dataclass(frozen=True, slots=True)
class Step:
    """One thing to try."""

    title: str
    say: str
    done: Callable[[Facts, Facts], bool]
    """Given what was so when the step began, and what is so now."""
    possible: Callable[[Facts], bool] = lambda _: True
    """Whether it can be done at all; else it is left out."""


def steps() -> tuple[Step, ...]:
    """The whole tour, with the keys that are in force."""
    jumps = names_of(READING, "older-compaction", "newer-compaction")
    return (
        Step(
            "Watch",
            "A recorded session, played by the real program. Below, the bar fills: ▓ system, █ word for "
            "word. At ┃ it is full, and the older part is compacted into a summary.",
            lambda begun, now: now.played,
        ),
        Step(
            "Nothing is gone",
            "Left of each line the gutter says what the model still has: ┃ word for word, ┊ only through the "
            f"summary. {key_of('complete')} goes to the transcript, {jumps} "
            f"from compaction to compaction, {name_of(READING, 'open')} opens one.",
            lambda begun, now: now.summary_open,
            lambda now: now.compactions > 0,
        ),
        Step(
            "Two sides",
            f"{key_of('inspector')} opens the Inspector: every entry since the first, and beside it what the "
            "model is sent.",
            lambda begun, now: "inspector" in now.screens,
        ),
        Step(
            "Two panels, one place",
            f"Go up to an entry with S┊: {name_of(INSPECTOR, 'move')}, or "
            f"{name_of(INSPECTOR, 'older-prompt')} from prompt to prompt. There, "
            f"{name_of(INSPECTOR, 'compaction')} jumps to the summary that stands for it, "
            f"{names_of(INSPECTOR, 'next-panel')} to the same place in the other panel.",
            lambda begun, now: now.on_compaction and now.place != begun.place,
            lambda now: now.compactions > 0,
        ),
        Step(
            "Back in time",
            f"Press {name_of(INSPECTOR, 'older-request')} to see what the model was sent one request "
            "earlier, and again for one more.",
            lambda begun, now: now.past,
        ),
        Step(
            "And back",
            f"Press {name_of(INSPECTOR, 'now')} to come back to now.",
            lambda begun, now: not now.past,
        ),
        Step(
            "Your word counts",
            "Go to an entry with S┊. The row below the panels says what each key would cost. "
            f"Press {name_of(INSPECTOR, 'pin')} to pin it: the model has it again, and keeps it in every "
            "later compaction.",
            lambda begun, now: now.pins > begun.pins,
        ),
        Step(
            "Take it back",
            f"Press {name_of(INSPECTOR, 'undo')} to take back the newest change: a pin, a compaction, "
            "a rewind.",
            lambda begun, now: now.pins < begun.pins,
        ),
        Step(
            "Before it happens",
            f"{key_of('preview')} in the chat shows the next compaction before it is made; "
            f"{key_of('inspector')} leads back there from the Inspector.",
            lambda begun, now: now.previewed,
        ),
        Step(
            "Move the cut",
            f"{names_of(PREVIEW, 'keep-more', 'keep-less')} move the cut, and every figure follows at once. "
            "Esc closes: nothing has changed.",
            lambda begun, now: "preview" not in now.screens,
            lambda now: "preview" in now.screens,
        ),
        Step(
            "Undo a compaction",
            "Esc goes back to the prompt. Type /undo and press Enter: the model has the old part again. "
            "Where that passes the threshold it asks first, and Enter confirms.",
            lambda begun, now: now.compactions < begun.compactions or now.answered > begun.answered,
            lambda now: now.compactions > 0,
        ),
        Step(
            "Everything",
            f"{key_of('palette')} finds everything by name, {key_of('help')} lists the keys where you are.",
            lambda begun, now: bool(now.screens & {"palette", "picker", "help"}),
        ),
    )


LAST: Final = "That is all there is to know. The session stays open: ask it something. Ctrl+C twice quits."


@dataclass(frozen=True, slots=True)
class Tour:
    """Where in the tour one is."""

    steps: tuple[Step, ...]
    at: int = 0
    begun: Facts = Facts()
    """What was so when this step began."""
    left_out: int = 0
    """Steps before this one that could not be done, or were done before they began: they have no number."""

    @property
    def over(self) -> bool:
        return self.at >= len(self.steps)

    @property
    def number(self) -> int:
        """The step's, from 1: none is ever jumped over."""
        return self.at + 1 - self.left_out

    @property
    def count(self) -> int:
        """How many steps there are, as far as is known."""
        return len(self.steps) - self.left_out

    @property
    def step(self) -> Step | None:
        """What to try now; None once the tour is over."""
        return None if self.over else self.steps[self.at]


def look(tour: Tour, now: Facts) -> Tour:
    """The tour, one step further where this one is done; what cannot be done is left out."""
    if tour.step is None:
        return tour
    is_over = not tour.step.possible(now) or tour.step.done(tour.begun, now)
    return further(tour, now) if is_over else tour


def further(tour: Tour, now: Facts) -> Tour:
    """The tour at its next step that is still to be done, whether this one was done or not."""
    at = tour.at + 1
    while at < len(tour.steps) and (not tour.steps[at].possible(now) or tour.steps[at].done(now, now)):
        at += 1
    left_out = tour.left_out + at - tour.at - 1
    return replace(tour, at=min(at, len(tour.steps)), begun=now, left_out=left_out)


RECORDING = Path(__file__).parent / "recording.jsonl"
WINDOW = 10_240
"""Tokens: the window the session was recorded in. It fills more than once."""


def recorded_prompts() -> list[str]:
    """What the user typed, in order."""
    entries = read_log(RECORDING).entries
    return [entry.text for entry in entries if isinstance(entry, UserMessage)]


def replaying_agent(root: Path, home: Path, pace: float) -> Agent:
    """An agent that will live the recording through once more, in a session kept below `home`."""
    entries = read_log(RECORDING).entries
    answers = [entry for entry in entries if isinstance(entry, AssistantMessage)]
    results = [entry for entry in entries if isinstance(entry, ToolResultMessage)]
    session = Session.create(root, home=home)
    return Agent(
        session,
        llm=ReplayLLM(answers, WINDOW, pace=pace),
        tools=(*(ReplayTool(tool, results) for tool in default_tools()), *recall_tools(session)),
        compaction="summary",  # as it was recorded: the tour shows one
        approvals="all",
        interactive=True,
        draft_ahead=False,  # the compactions fall where they were recorded, however fast it is played
    )
