"""Tells what the executor reports, as lines that come one after the other."""

import time
from collections.abc import Callable

from foldline.agent import Agent
from foldline.agent.shell import SHELL_CALL
from foldline.context.weight import entry_weight
from foldline.protocol import (
    Approval,
    AssistantMessage,
    Clear,
    Entry,
    ModelChange,
    Revert,
    Title,
    ToolResultMessage,
    Undo,
    events,
)
from foldline.protocol.events import Event
from foldline.tui.machine import EDITS, reduce
from foldline.tui.state import ChatState

from .paper import Paper
from .questions import Asked, asked_about, asked_about_fold
from .words import SentenceBuffer, call_words, entry_words, fold_words, folded_words, result_words

_FOLD = "fold"


class Teller:
    """Hears one agent's events, keeps the state they make, and writes what a reader should know.

    `ask` gets each question that waits for the reader's word.
    """

    def __init__(self, agent: Agent, paper: Paper, ask: Callable[[Asked], None]) -> None:
        self._agent = agent
        self._paper = paper
        self._ask = ask
        self._prose = SentenceBuffer()
        self._said_prose = False
        self._calls: dict[str, str] = {}
        self._news = ""
        """What was said last of what went wrong: an operation and its task may say the same."""
        self.state = ChatState(model=agent.state.llm.info.id, edits=EDITS[agent.state.policy.mode])
        self.failed = False
        """Whether the last thing that was asked for failed."""

    def hear(self, event: Event) -> None:
        before = self.state
        self.state = reduce(before, event, time.monotonic())
        if not isinstance(event, events.ProposalReady):
            self._tell(event)
        elif before.proposal is None or before.proposal.id != event.proposal:  # not again, as the view grows
            self._ask(asked_about_fold(event))
        if self.state.waiting.unsent and self.state.waiting.unsent != before.waiting.unsent:
            self._paper.line(self.state.waiting.unsent)
        for question in self.state.questions:
            if question not in before.questions:
                self._ask(asked_about(question))
        news = self.state.news
        if news is None:
            self._news = ""
        elif news is not before.news and news.text != self._news:
            self._news = news.text
            self._paper.line(news.text)

    def _tell(self, event: Event) -> None:
        match event:
            case events.TextDelta():
                self._say(self._prose.add(event.text))
            case events.StepStarted():
                self._end_prose()
            case events.Retrying():
                void = " What was said of this answer does not count." if self._end_prose() else ""
                self._paper.line(f"{event}{void}")
            case events.ServersAwaited():
                self._paper.line(f"Waiting for tool servers: {', '.join(event.servers)}.")
            case events.ToolStarted():
                self._end_prose()
                self._calls[event.call_id] = words = call_words(event.name, event.title)
                self._paper.begin(event.call_id, words)
            case events.ToolOutput(call_id=call) if call == SHELL_CALL:
                self._paper.prose(event.text)
            case events.ToolFinished(call_id=call) if call == SHELL_CALL:
                end = event.brief or "done"
                self._paper.finish(call, f" {end}", f"[!] {end}")
            case events.EntryAppended():
                self._tell_entry(event.entry)
            case events.CompactionStart():
                self._end_prose()
                self._paper.begin(_FOLD, fold_words(event))
            case events.CompactionEnd():
                end = folded_words(event)
                self._paper.finish(_FOLD, f" {end}", f"[fold] {end}")
            case events.TaskFinished():
                self._end_prose()
                self._calls.clear()
                self.failed = event.outcome == "failed"
            case _:
                pass

    def _tell_entry(self, entry: Entry) -> None:
        match entry:
            case AssistantMessage():
                self._end_prose()
            case ToolResultMessage():
                weight = entry_weight(self._agent.session.projection, entry).tokens
                end = result_words(entry, weight)
                whole = f"{self._calls.pop(entry.call_id, f'[{entry.name}] …')} {end}"
                self._paper.finish(entry.call_id, f" {end}", whole)
            case Undo() | Clear() | Revert() | ModelChange() | Approval() | Title():
                self._paper.line(entry_words(entry, self._agent.session.projection))
            case _:
                pass  # what failed comes as news

    def _say(self, text: str) -> None:
        if text:
            self._said_prose = True
            self._paper.prose(text)

    def _end_prose(self) -> bool:
        """The answer, or this part of it, is over; whether anything of it was said."""
        self._say(self._prose.rest())
        said, self._said_prose = self._said_prose, False
        return said
