"""The lines for subagents in the transcript, showing their progress or their result."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from foldline.past.subagents import (
    SubagentAnswers,
    SubagentWork,
    tokens_in_view,
    work_of,
)
from foldline.protocol import Subagent
from foldline.text import numbers
from foldline.text.harmless import clean_line
from foldline.text.numbers import many
from foldline.tui.blocks.block import Key
from foldline.tui.blocks.plain import RowBlock
from foldline.tui.look.cells import Span, Spans
from foldline.view.projection import Projection

if TYPE_CHECKING:
    from foldline.protocol.events import SubagentProgress

_ENDED: Final = ("done", "failed", "cancelled")
_INDENT: Final = 4
USED: Final = " used"
ANSWER: Final = USED + ", answer {tokens}"
_STATES: Final = {"waiting": "waits for you", "background": "in the background"}


class Children:
    """The subagents of a session.

    Keeps their progress while they run, and their totals once they have ended.
    """

    def __init__(self, projection: Projection) -> None:
        self._projection = projection
        self._running: dict[str, SubagentProgress] = {}
        self._answers = SubagentAnswers()
        self._works: dict[str, SubagentWork] = {}

    def update(self, event: "SubagentProgress") -> None:
        """Store the progress of a subagent.

        The subagent's totals are read again when it ends.
        """
        self._running[event.child] = event
        self._works.pop(event.child, None)

    @property
    def unread(self) -> list[str]:
        """Return the ids of ended subagents with totals that have not been read yet."""
        return [
            subagent.child
            for subagent in self._projection.subagents
            if subagent.child not in self._works and self._has_ended(subagent)
        ]

    def add_works(self, works: Iterable[tuple[str, SubagentWork]]) -> None:
        """Store totals read from the subagents' histories."""
        self._works.update(works)

    def _has_ended(self, subagent: Subagent) -> bool:
        running = self._running.get(subagent.child)
        return running is None or running.state in _ENDED

    def work(self, subagent: Subagent) -> SubagentWork | None:
        """Return the steps and tokens of a subagent so far.

        Returns None if they are unknown.
        """
        work = self._works.get(subagent.child)
        running = self._running.get(subagent.child)
        if work is None and running is not None:
            return SubagentWork(running.steps, running.tokens)
        return work

    def saved(self) -> tuple[int, int, int]:
        """Return the number of subagents, the tokens they used, and their answers' tokens in the view."""
        count = 0
        used_tokens = 0
        view_tokens = 0
        for subagent in self._projection.subagents:
            work = self.work(subagent)
            if work is not None:
                count += 1
                used_tokens += work.tokens
                view_tokens += self._tokens_in_view(subagent) or 0
        return count, used_tokens, view_tokens

    def _tokens_in_view(self, subagent: Subagent) -> int | None:
        """Return the tokens that a subagent's answers take in the model's view.

        Returns None if there are no answers.
        """
        answers = self._answers.of(self._projection, subagent)
        return tokens_in_view(self._projection, answers) if answers else None

    def words(self, subagent: Subagent) -> Spans:
        """Describe a subagent in one line.

        The most important part comes first, because rows are narrow. For a running subagent: `explore · 14
        steps · 43k · read a.py`. For one that has ended: `explore · 14 steps · 43k used, answer 1.2k`.
        """
        running = self._running.get(subagent.child)
        work = self.work(subagent)
        has_ended = self._has_ended(subagent)
        parts: list[Span] = [
            (self._state(subagent), "muted" if has_ended else "accent")
        ]
        if work is not None and work.steps:
            tokens = numbers.short_tokens(work.tokens)
            if has_ended:
                tokens += self._answer_words(subagent)
            parts.append((f"{many(work.steps, 'step')} · {tokens}", "muted"))
        if running is not None and not has_ended:
            parts.append((clean_line(running.doing), "accent"))
        agent = (clean_line(subagent.agent) or "subagent", "muted")
        return (agent, *((f" · {words}", style) for words, style in parts if words))

    def _state(self, subagent: Subagent) -> str:
        """Return a word for a subagent's state.

        The word is empty if the subagent is running or has ended normally.
        """
        running = self._running.get(subagent.child)
        state = "done" if running is None else running.state
        if not self._has_ended(subagent):
            return _STATES.get(state, "")
        if state != "done":
            return state
        work = self.work(subagent)
        if work is not None and not work.finished:
            return "unfinished"
        is_awaited = running is not None and not self._answers.of(
            self._projection, subagent
        )
        if is_awaited or not self._answers.is_owed(self._projection, subagent):
            return ""
        return "unread"

    def _answer_words(self, subagent: Subagent) -> str:
        """Describe how many tokens a subagent's answers take in the model's view."""
        tokens = self._tokens_in_view(subagent)
        return USED if tokens is None else ANSWER.format(tokens=numbers.tokens(tokens))

    def line(self, key: Key, subagent: Subagent) -> RowBlock:
        """Return the line for a subagent, shown below its call at `key`."""
        return RowBlock(key, (), self.words(subagent))

    def block(self, subagent: Subagent) -> RowBlock:
        """Return the block for a subagent that was not started by a call."""
        key = (subagent.index, 0)
        name = clean_line(subagent.agent) or "subagent"
        title = ((clean_line(subagent.title), "text"),)
        return RowBlock(
            key,
            (("▸ ", "muted"), (f"{name} ", "text")),
            title,
            gap=1,
            body=self.line(key, subagent),
            indent=_INDENT,
        )


def works_of(events: Path, children: Iterable[str]) -> list[tuple[str, SubagentWork]]:
    """Read the totals of subagents from their histories, which are stored next to the file `events`.

    Blocks, so call this in a thread.
    """
    from foldline.history import Session
    from foldline.history.children import child_events
    from foldline.protocol import FoldlineError

    works: list[tuple[str, SubagentWork]] = []
    for child in children:
        try:
            work = work_of(Session.open(child_events(events, child)).projection)
        except FoldlineError:
            work = SubagentWork(0, 0, finished=False)  # was deleted, or never started
        works.append((child, work))
    return works
