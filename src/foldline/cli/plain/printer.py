"""Prints the events of a plain chat as lines."""

import re
import time
from collections.abc import Callable
from typing import Final

from foldline.agent import Agent
from foldline.agent.turn.shell import SHELL_CALL
from foldline.frontend.questions import new_questions
from foldline.frontend.reduce import reduce
from foldline.frontend.state import ChatState, Question, rung_words
from foldline.past.describe import describe, reason_words
from foldline.protocol import (
    Approval,
    Clear,
    Entry,
    ModelChange,
    Revert,
    Title,
    ToolResultMessage,
    Undo,
    events,
)
from foldline.protocol.events import CompactionEnd, Event
from foldline.text.harmless import clean_line
from foldline.text.numbers import many, tokens
from foldline.text.shorten import cut
from foldline.view.projection import Projection
from foldline.view.weight import entry_weight

from .terminal import PlainTerminal

SERVERS_AWAITED: Final = "Waiting for tool servers: {servers}."
DISCARDED: Final = " The text of this answer so far is discarded."
TAKE_BACK: Final = "use /undo to take it back"
_LONGEST_TITLE: Final = 200
"""Maximum length of a call's title, in characters.

Titles are short because screen readers cannot skip within a line.
"""


class PlainPrinter:
    """Prints an agent's events, and keeps track of the chat's state.

    Args:
        ask: called with each new question to the user.
    """

    def __init__(
        self,
        agent: Agent,
        terminal: PlainTerminal,
        ask: Callable[[Question], None],
    ) -> None:
        self._agent = agent
        self._terminal = terminal
        self._ask = ask
        self._prose = SentenceBuffer()
        self._has_prose = False
        """Whether any text of the current answer has been printed."""
        self._notice = ""
        """The notice that was printed last.

        A notice is printed only once, even if an operation and its task both send it.
        """
        self.state = ChatState(
            model=agent.state.models.llm.info.id,
            edits=agent.state.permissions.policy.mode,
        )
        self.failed = False
        """Whether the last operation failed."""

    def on_event(self, event: Event) -> None:
        before = self.state
        self.state = reduce(before, event, time.monotonic())
        self._print(event)
        unsent = self.state.waiting.unsent
        if unsent and unsent != before.waiting.unsent:
            self._terminal.line(unsent)
        for question in new_questions(before, self.state):
            self._ask(question)
        notice = self.state.news
        if notice is None:
            self._notice = ""
        elif notice is not before.news and notice.text != self._notice:
            self._notice = notice.text
            if (
                not isinstance(event, CompactionEnd) or event.error
            ):  # printed in the compaction's line
                self._terminal.line(notice.text)

    def _print(self, event: Event) -> None:
        say = self._terminal.line
        match event:
            case events.TextDelta():
                self._print_prose(self._prose.add(event.text))
            case events.StepStarted():
                self._end_prose()
            case events.Retrying():
                say(f"{event}{DISCARDED if self._end_prose() else ''}")
            case events.ServersAwaited():
                say(SERVERS_AWAITED.format(servers=", ".join(event.servers)))
            case events.ToolStarted() | events.ToolOutput() | events.ToolFinished():
                self._print_call(event)
            case events.EntryAppended():
                self._print_entry(event.entry)
            case events.CompactionStart():
                self._end_prose()
                before = tokens(event.tokens_before)
                reason = reason_words(event.reason)
                say(f"[compaction] {reason}, {before} tokens, Ctrl+C cancels …")
            case CompactionEnd():
                say(f"[compaction] {compaction_result(event)}")
            case events.TaskFinished():
                self._end_prose()
                self.failed = event.outcome == "failed"
            case _:
                pass

    def _print_call(
        self, event: events.ToolStarted | events.ToolOutput | events.ToolFinished
    ) -> None:
        """Print the start of a call.

        For the user's shell commands, the output and the end are printed as well. Results of the model's
        calls are printed with their entries.
        """
        if isinstance(event, events.ToolStarted):
            self._end_prose()
            title = cut(clean_line(event.title), _LONGEST_TITLE)
            self._terminal.line(
                f"[{clean_line(event.name)}] {title} …".replace("  ", " ")
            )
        elif event.call_id != SHELL_CALL:
            return
        elif isinstance(event, events.ToolOutput):
            self._terminal.prose(event.text)
        else:
            self._terminal.line(f"[!] {event.brief or 'done'}")

    def _print_entry(self, entry: Entry) -> None:
        projection = self._agent.session.projection
        if isinstance(entry, ToolResultMessage):
            self._terminal.line(result_line(projection, entry))
        elif isinstance(entry, MARKERS):
            self._terminal.line(marker_sentence(projection, entry))

    def _print_prose(self, text: str) -> None:
        if text:
            self._has_prose = True
            self._terminal.prose(text)

    def _end_prose(self) -> bool:
        """Print the buffered text, and return whether the answer had any text."""
        self._print_prose(self._prose.remainder())
        has_prose = self._has_prose
        self._has_prose = False
        return has_prose


MARKERS: Final = (Undo, Clear, Revert, ModelChange, Approval, Title)
"""Entries that are printed as a sentence."""


def marker_sentence(projection: Projection, entry: Entry) -> str:
    """Describe a marker in a sentence."""
    words = describe(projection, entry).labelled
    return f"{words[:1].upper()}{words[1:]}."


def result_line(projection: Projection, result: ToolResultMessage) -> str:
    """Describe a call's result, for example `[bash] exit 1 ✗, 2.2k tokens`."""
    description = describe(projection, result)
    size = tokens(entry_weight(projection, result).tokens)
    return f"[{description.kind}] {description.outcome or 'done'}, {size} tokens"


def compaction_result(end: CompactionEnd) -> str:
    """Describe a compaction's result.

    For example, `116.2k → 27.4k tokens, 123 entries compacted`.
    """
    if end.error is not None:
        return "failed, nothing has changed"
    if end.aborted:
        return "cancelled, nothing has changed"
    if end.nothing:
        return "nothing to compact"
    if end.proposed:
        return "drafted"
    parts = [
        f"{tokens(end.tokens_before)} → {tokens(end.tokens_after)} tokens",
        f"{many(end.compacted, 'entry', 'entries')} compacted",
        rung_words(end.rung),
    ]
    return f"{', '.join(filter(None, parts))}; {TAKE_BACK}"


_END: Final = re.compile(r"\n|[.!?:;][\"'”’)\]]*[ \t]+|[。！？；：]")
"""Matches the end of a line, sentence or clause.

Text is printed up to such a position, so that it can be spoken.
"""


class SentenceBuffer:
    """Buffers streamed text until a screen reader can speak it."""

    def __init__(self) -> None:
        self._text = ""

    def add(self, text: str) -> str:
        """Add text, and return the text up to the last complete sentence or clause."""
        start = max(len(self._text) - 8, 0)  # the old text may contain a part of an end
        self._text += text
        ends = [match.end() for match in _END.finditer(self._text, start)]
        return self._take(ends[-1]) if ends else ""

    def remainder(self) -> str:
        """Return and clear the buffered text."""
        return self._take(len(self._text))

    def _take(self, end: int) -> str:
        text = self._text[:end]
        self._text = self._text[end:]
        return text
