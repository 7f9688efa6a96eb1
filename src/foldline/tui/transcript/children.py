"""What the transcript says of subagents: a live line while one works, what it came to once it has ended."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from foldline.context import numbers
from foldline.context.harmless import clean_line
from foldline.context.numbers import many
from foldline.context.projection import Projection
from foldline.context.subagents import Answers, Work, tokens_in_view, work_of
from foldline.protocol import Subagent
from foldline.tui.blocks.block import Key
from foldline.tui.blocks.cells import Span, Spans
from foldline.tui.blocks.plain import RowBlock

if TYPE_CHECKING:
    from foldline.protocol.events import SubagentProgress

_ENDED: Final = ("done", "failed", "cancelled")
_INDENT: Final = 4


class Children:
    """The subagents of a session: what they say while they run, else what their histories do."""

    def __init__(self, projection: Projection) -> None:
        self._projection = projection
        self._running: dict[str, SubagentProgress] = {}
        self._answers = Answers()
        self._works: dict[str, Work] = {}

    def hear(self, event: "SubagentProgress") -> None:
        """Take what one of them does now. Of one that has ended, its history says more: it is to be read."""
        self._running[event.child] = event
        self._works.pop(event.child, None)

    @property
    def unread(self) -> list[str]:
        """Those that have ended, and whose histories were not read."""
        known = self._works.keys()
        return [
            each.child
            for each in self._projection.subagents
            if each.child not in known and self._has_ended(each)
        ]

    def learn(self, works: Iterable[tuple[str, Work]]) -> None:
        """Take what was read."""
        self._works.update(works)

    def _has_ended(self, started: Subagent) -> bool:
        running = self._running.get(started.child)
        return running is None or running.state in _ENDED

    def work(self, started: Subagent) -> Work | None:
        """What it has done so far; None where that is not known yet."""
        running, known = self._running.get(started.child), self._works.get(started.child)
        return known or (None if running is None else Work(running.steps, running.tokens))

    def saved(self) -> tuple[int, int, int]:
        """How many have worked, the tokens they worked, and what of that is in the view."""
        each = [(self.work(started), started) for started in self._projection.subagents]
        worked = [(work.tokens, started) for work, started in each if work is not None]
        kept = sum(self._kept(started) or 0 for _, started in worked)
        return len(worked), sum(tokens for tokens, _ in worked), kept

    def _kept(self, started: Subagent) -> int | None:
        """Tokens of its answers in the view; None where it has not answered."""
        answers = self._answers.of(self._projection, started)
        return tokens_in_view(self._projection, answers) if answers else None

    def words(self, started: Subagent) -> Spans:
        """`explore · 14 steps · 43k worked, 1.2k in your view`; while it runs, `14 steps · 43k · read a.py`.
        What the reader has to know stands first: rows are narrow."""
        running, work, ended = self._running.get(started.child), self.work(started), self._has_ended(started)
        parts: list[Span] = [(self._state(started), "muted" if ended else "accent")]
        if work is not None and work.steps:
            worked = self._worked(started) if ended else ""
            tokens = f"{numbers.short_tokens(work.tokens)}{worked}"
            parts.append((f"{many(work.steps, 'step')} · {tokens}", "muted"))
        if running is not None and not ended:
            parts.append((clean_line(running.doing), "accent"))
        agent = (clean_line(started.agent) or "subagent", "muted")
        return (agent, *((f" · {words}", style) for words, style in parts if words))

    def _state(self, started: Subagent) -> str:
        """What has to be said of it beside what it does; empty where that is nothing."""
        running, work = self._running.get(started.child), self.work(started)
        state = "done" if running is None else running.state
        if not self._has_ended(started):
            return {"waiting": "waits for you", "background": "in the background"}.get(state, "")
        if state != "done":
            return state
        if work is not None and not work.finished:
            return "unfinished"
        is_awaited = running is not None and not self._answers.of(self._projection, started)
        return "unread" if not is_awaited and self._answers.is_owed(self._projection, started) else ""

    def _worked(self, started: Subagent) -> str:
        """What stands behind the tokens of one that has ended."""
        kept = self._kept(started)
        return " worked" if kept is None else f" worked, {numbers.tokens(kept)} in your view"

    def line(self, key: Key, started: Subagent) -> RowBlock:
        """The same as the line below a call, which stands at `key`."""
        return RowBlock(key, (), self.words(started))

    def block(self, started: Subagent) -> RowBlock:
        """One whose call nobody knows, as an entry of its own."""
        key = (started.index, 0)
        name = clean_line(started.agent) or "subagent"
        title = ((clean_line(started.title), "text"),)
        return RowBlock(
            key,
            (("▸ ", "muted"), (f"{name} ", "text")),
            title,
            gap=1,
            body=self.line(key, started),
            indent=_INDENT,
        )


def works_of(events: Path, children: Iterable[str]) -> list[tuple[str, Work]]:
    """What their histories, below the one in `events`, say of these; for a thread."""
    from foldline.history import Session
    from foldline.history.children import child_events
    from foldline.protocol import FoldlineError

    found: list[tuple[str, Work]] = []
    for child in children:
        try:
            found.append((child, work_of(Session.open(child_events(events, child)).projection)))
        except FoldlineError:
            found.append((child, Work(0, 0, finished=False)))  # it is not there any more, or was never begun
    return found
