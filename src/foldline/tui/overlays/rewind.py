"""Going back to a prompt, a step or the end of a branch.

The user chooses a point, sees the effect, and chooses between context, files and both.
"""

import math
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Final, Protocol

from foldline.agent.session.rewind import FileDiff, RewindPreview, diffs_since, foresee
from foldline.past.branches import branches
from foldline.past.rewind_points import FileChange, RewindPoint, rewind_points
from foldline.protocol import BaseMessage, operations
from foldline.text import numbers
from foldline.text.harmless import clean_line
from foldline.text.numbers import many
from foldline.text.shorten import first_line
from foldline.tui.lists.picker import Picker, PickerItem
from foldline.tui.overlays.dialogs import result_of
from foldline.tui.overlays.diff import DiffScreen
from foldline.tui.session_window import AgentRunner, HasEditor, SessionWindow
from foldline.view.projection import Projection

TITLE: Final = "Go back to …"
NO_POINTS: Final = "There is nothing to go back to yet."
QUESTION: Final = "Go back to {point}?"
STAY: Final = "No"
BOTH: Final = "Restore the context and the files"
CONTEXT: Final = "Restore only the context"
FILES: Final = "Restore only the files"
CHANGES: Final = "Show the file changes"
STEPS: Final = "Choose a step within this turn"
STEPS_OF: Final = "Steps after {point}"
LOOKING: Final = "Checking the files …"
UNDO_RESTORES: Final = "You can undo this with /undo."
NO_TEXT: Final = "(no text)"
START: Final = "the start of the session"
BY_OTHERS: Final = "changed by another program"
COMPACTIONS_UNDONE: Final = "compactions after this point are undone"
CHANGED_SINCE: Final = "Changed since {point}"
_FILES: Final = 4
"""Maximum number of files that are named in an effect."""


@dataclass(frozen=True, slots=True)
class BranchEnd:
    """The end of another branch, or of a turn without a checkpoint."""

    index: int
    """Index of the last entry that affects the view.

    The session goes back to this entry.
    """
    label: str
    """The first words of the last prompt. `START` if there is no prompt yet."""
    at: datetime | None


Point = RewindPoint | BranchEnd


def branch_ends(projection: Projection, *, every_turn: bool) -> Iterator[BranchEnd]:
    """Yield the ends of all branches except the current one.

    With `every_turn`, the ends of all other turns are also included.
    """
    tree = branches(projection)
    current = tree.current_turns()
    for turn in tree.turns:
        is_end = turn not in current and not turn.children
        if (is_end or every_turn) and turn is not tree.now and turn.moment >= 0:
            prompt = projection.entry(turn.start) if turn.start >= 0 else None
            label = (
                first_line(prompt.text) if isinstance(prompt, BaseMessage) else START
            )
            yield BranchEnd(turn.moment, label, prompt.at if prompt else None)


Foresee = Callable[[operations.Rewind], Awaitable[RewindPreview]]
"""Previews the outcome of an operation."""
Diffs = Callable[[int], Awaitable[Sequence[FileDiff]]]
"""Takes an entry's index, and returns the file changes since that entry."""


@dataclass(frozen=True, slots=True)
class RewindDialog:
    """Lets the user choose how to go back. The result is the confirmed operation, or None."""

    chat: SessionWindow
    points: Sequence[Point]
    """Prompts, steps and ends of branches, newest first."""
    foresee: Foresee
    diffs: Diffs

    async def choose(self) -> operations.Rewind | None:
        points = [point for point in self.points if not is_step(point)]
        return await self._choose_among(TITLE, points)

    async def _choose_among(
        self, title: str, points: Sequence[Point]
    ) -> operations.Rewind | None:
        """Let the user choose one of these points, and confirm it. Esc goes back a step."""
        by_id = {str(at): point for at, point in enumerate(points)}
        items = [_item(id, point) for id, point in by_id.items()]
        marked = None
        while True:
            picker = Picker(title, items, marked=marked, empty=NO_POINTS)
            marked = await result_of(self.chat, picker)
            if marked is None:
                return None
            operation = await self._confirm(by_id[marked])
            if operation is not None:
                return operation

    async def _confirm(self, point: Point) -> operations.Rewind | None:
        """Show the effect of going back to a point, and ask how to go back."""
        operation = operation_to(point)
        self.chat.remark(LOOKING)
        outcome = await self.foresee(operation)
        self.chat.remark("")
        steps = self._steps_of(point)
        answers = [*_answers(point, outcome, has_steps=bool(steps))]
        question = QUESTION.format(point=describe(point))
        while True:
            match await result_of(self.chat, Picker(question, answers)):
                case "both":
                    return operation.model_copy(update={"files": True})
                case "context":
                    return operation
                case "files":
                    only_files = {"context": False, "files": True}
                    return operation.model_copy(update=only_files)
                case "changes":
                    title = CHANGED_SINCE.format(point=describe(point))
                    screen = DiffScreen(title, await self.diffs(point.index))
                    await result_of(self.chat, screen)
                case "steps":
                    title = STEPS_OF.format(point=describe(point))
                    return await self._choose_among(title, steps)
                case _:
                    return None

    def _steps_of(self, point: Point) -> Sequence[Point]:
        """Return the steps within a turn."""
        if isinstance(point, BranchEnd) or is_step(point):
            return ()
        later = [
            other.index
            for other in self.points
            if not is_step(other) and other.index > point.index
        ]
        end = min(later, default=math.inf)
        return [
            step
            for step in self.points
            if is_step(step) and point.index < step.index < end
        ]


def _answers(
    point: Point, outcome: RewindPreview, *, has_steps: bool
) -> Iterator[PickerItem]:
    """Yield the ways of going back that change something, and their effects."""
    context = f"context: {context_effect(outcome)}"
    files = list(file_effects(outcome))
    undo = (UNDO_RESTORES,)
    yield PickerItem("stay", STAY, detail="\n".join((context, *files)))
    if outcome.changing:
        yield PickerItem("both", BOTH, detail="\n".join((context, *files, *undo)))
    yield PickerItem("context", CONTEXT, detail="\n".join((context, *undo)))
    if outcome.changing:
        yield PickerItem("files", FILES, detail="\n".join((*files, *undo)))
    if outcome.files and not isinstance(point, BranchEnd):
        yield PickerItem("changes", CHANGES)
    if has_steps:
        yield PickerItem("steps", STEPS)


def is_step(point: Point) -> bool:
    return isinstance(point, RewindPoint) and point.kind == "step"


def operation_to(point: Point) -> operations.Rewind:
    """Return the operation that goes back to a point."""
    if isinstance(point, BranchEnd):
        return operations.Rewind(moment=point.index)
    return operations.Rewind(checkpoint=point.id)


def describe(point: Point) -> str:
    """Describe a point, for example `before “Make it faster”`."""
    label = clean_line(point.label) or NO_TEXT
    if point.label == START:
        return START
    if isinstance(point, BranchEnd):
        return f"the end of “{label}”"
    return f"after {label}" if is_step(point) else f"before “{label}”"


def _item(id: str, point: Point) -> PickerItem:
    """Return an item, for example `before ❯ Make it faster        2 files since  14:02`."""
    place = "before ❯ "
    if isinstance(point, BranchEnd):
        place = " " * 9 if point.label == START else "end of ⑂ "
    elif is_step(point):
        place = "  after  "
    changes = ""
    if isinstance(point, RewindPoint) and point.changes:
        changes = f"{many(point.changes, 'file')} since"
    time = "" if point.at is None else point.at.astimezone().strftime("%H:%M")
    return PickerItem(id, f"{place}{point.label or NO_TEXT}", changes, time)


def context_effect(outcome: RewindPreview) -> str:
    """Describe the effect on the context, with its sizes and the removed items."""
    if outcome.items < 0:
        items = COMPACTIONS_UNDONE
        if outcome.prompts:
            items += f"; {many(outcome.prompts, 'prompt')} removed"
    else:
        items = f"{many(outcome.items, 'item')} removed"
        if outcome.prompts:
            items += f", {outcome.prompts} of them {'a prompt' if outcome.prompts == 1 else 'prompts'}"
    if outcome.returning:
        items += f", {many(outcome.returning, 'item')} restored"
    before = numbers.tokens(outcome.before.tokens, estimated=outcome.before.estimated)
    after = numbers.tokens(outcome.after.tokens, estimated=outcome.after.estimated)
    return f"{before} → {after} tokens, {items}"


def file_effects(outcome: RewindPreview) -> Iterator[str]:
    """Yield a line for each file, files that are kept first."""
    important = ("conflict", "unreadable")
    shown = sorted(outcome.files, key=lambda change: change.kind not in important)
    for change in shown[:_FILES]:
        yield f"{clean_line(change.path)}  {_file_effect(change)}"
    if len(shown) > _FILES:
        yield f"and {len(shown) - _FILES} more"
    if not shown:
        yield "files: unchanged"


def _file_effect(change: FileChange) -> str:
    match change.kind:
        case "write":
            return "restored"
        case "remove":
            return "removed again"
        case _:
            return f"! kept: {change.why or BY_OTHERS}"


class RewindPrompt(HasEditor, Protocol):
    """The chat's prompt, into which a removed prompt is put back."""

    def give_back(self, text: str) -> bool: ...


class RewindWindow(SessionWindow, Protocol):
    """The chat window that opens the screen."""

    @property
    def prompt(self) -> RewindPrompt: ...


def open_rewind(chat: RewindWindow, runner: AgentRunner) -> None:
    """Let the user go back.

    After a rewind, the removed prompt is put back into the editor.
    """
    state = runner.agent.state
    points = rewind_points(state.projection)
    ends = branch_ends(state.projection, every_turn=not points)
    listed: list[Point] = [*points, *ends]
    listed.sort(key=lambda point: point.index, reverse=True)
    dialog = RewindDialog(
        chat, listed, partial(foresee, state), partial(diffs_since, state)
    )

    async def run() -> None:
        operation = await dialog.choose()
        if operation is None:
            return
        prompts = {point.id: point.prompt for point in points}
        prompt = prompts.get(operation.checkpoint, "")
        executor = runner.agent.executor
        finished = await executor.wait_for(executor.submit(operation))
        if finished.outcome == "done" and operation.context and prompt:
            chat.prompt.give_back(prompt)

    chat.run_worker(run(), group="rewind", exclusive=True)
