"""Prints the events of a plain chat as lines, one after the other, and asks its questions."""

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Literal

from foldline.agent import Agent
from foldline.agent.shell import SHELL_CALL
from foldline.context import numbers
from foldline.context.harmless import clean, clean_line, nothing_hidden, nothing_hidden_lines
from foldline.context.numbers import many
from foldline.context.permissions import approval_words
from foldline.context.projection import Projection
from foldline.context.rewind_points import rewind_words
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
    operations,
)
from foldline.protocol.events import CompactionEnd, CompactionStart, Event, ProposalReady
from foldline.protocol.operations import Operation
from foldline.tui.machine import reduce
from foldline.tui.state import ChatState, Question, Room, reason_words, rung_words

from .terminal import Paper

_COMPACTION = "compaction"


class Narrator:
    """Follows one agent's events, keeps the state they make, and writes what a reader should know.

    `ask` gets each question that waits for the reader's word.
    """

    def __init__(self, agent: Agent, paper: Paper, ask: "Callable[[Asked], None]") -> None:
        self._agent = agent
        self._paper = paper
        self._ask = ask
        self._prose = SentenceBuffer()
        self._said_prose = False
        self._calls: dict[str, str] = {}
        self._news = ""
        """What was said last of what went wrong: an operation and its task may say the same."""
        self.state = ChatState(model=agent.state.llm.info.id, edits=agent.state.policy.mode)
        self.failed = False
        """Whether the last thing that was asked for failed."""

    def on_event(self, event: Event) -> None:
        before = self.state
        self.state = reduce(before, event, time.monotonic())
        self._narrate(event)
        if self.state.waiting.unsent and self.state.waiting.unsent != before.waiting.unsent:
            self._paper.line(self.state.waiting.unsent)
        for asked in asked_since(before, self.state):
            self._ask(asked)
        news = self.state.news
        if news is None:
            self._news = ""
        elif news is not before.news and news.text != self._news:
            self._news = news.text
            if not isinstance(event, CompactionEnd) or event.error:  # else its own line says so
                self._paper.line(news.text)

    def _narrate(self, event: Event) -> None:
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
            case events.ToolStarted() | events.ToolOutput() | events.ToolFinished():
                self._narrate_call(event)
            case events.EntryAppended():
                self._narrate_entry(event.entry)
            case events.CompactionStart():
                self._end_prose()
                self._paper.begin(_COMPACTION, compacting_words(event))
            case events.CompactionEnd():
                end = compacted_words(event)
                self._paper.finish(_COMPACTION, f" {end}", f"[compaction] {end}")
            case events.TaskFinished():
                self._end_prose()
                self._calls.clear()
                self.failed = event.outcome == "failed"
            case _:
                pass

    def _narrate_call(self, event: events.ToolStarted | events.ToolOutput | events.ToolFinished) -> None:
        """A call's result comes with its entry; that of a shell command of the user's comes here."""
        if isinstance(event, events.ToolStarted):
            self._end_prose()
            self._calls[event.call_id] = words = call_words(event.name, event.title)
            self._paper.begin(event.call_id, words)
        elif event.call_id != SHELL_CALL:
            return
        elif isinstance(event, events.ToolOutput):
            self._paper.prose(event.text)
        else:
            end = event.brief or "done"
            self._paper.finish(SHELL_CALL, f" {end}", f"[!] {end}")

    def _narrate_entry(self, entry: Entry) -> None:
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


_LONGEST_TITLE = 200
"""Characters of a call's title: a listener can stop a line, but not skip within it."""


def call_words(name: str, title: str) -> str:
    """`[bash] pytest -q …`: a call that runs."""
    title = clean_line(title)
    if len(title) > _LONGEST_TITLE:
        title = f"{title[:_LONGEST_TITLE]}…"
    return f"[{clean_line(name)}] {title} …".replace("  ", " ")


def result_words(result: ToolResultMessage, tokens: int) -> str:
    """`exit 1, 2.2k tokens`: what came of a call."""
    said = clean_line(result.details.brief).removesuffix("✗").strip() or "done"
    failed = "failed: " if result.is_error and not said.startswith("exit") else ""
    return f"{failed}{said}, {numbers.tokens(tokens)} tokens"


def compacting_words(start: CompactionStart) -> str:
    """`[compaction] threshold, 116.2k tokens …`: it has begun."""
    after = f", about {numbers.tokens(start.expected_after)} expected" if start.expected_after else ""
    before = numbers.tokens(start.tokens_before)
    return f"[compaction] {reason_words(start.reason)}, {before} tokens{after}, Ctrl+C cancels …"


def compacted_words(end: CompactionEnd) -> str:
    """`27.4k tokens, 123 entries compacted`: how a compaction ended."""
    if end.error is not None:
        return "failed, nothing has changed"
    if end.aborted:
        return "cancelled, nothing has changed"
    if end.nothing:
        return "nothing to compact"
    if end.proposed:
        return "drafted"
    how = rung_words(end.rung)
    sizes = f"{numbers.tokens(end.tokens_before)} → {numbers.tokens(end.tokens_after)} tokens"
    done = f"{sizes}, {many(end.compacted, 'entry', 'entries')} compacted"
    return f"{done}{f', {how}' if how else ''}; /undo takes it back"


def entry_words(entry: Undo | Clear | Revert | ModelChange | Approval | Title, projection: Projection) -> str:
    """What a marker says, as a sentence of its own."""
    match entry:
        case Undo():
            target = projection.entry(entry.target)
            named = {"revert": "rewind"}
            kind = named.get(target.type, target.type) if target is not None else "change"
            return f"The {kind} {entry.target} is undone: the model has again what it had before."
        case Clear():
            return "The context is cleared; the history keeps everything."
        case Revert():
            return f"Rewound: {clean_line(rewind_words(projection, entry))}."
        case ModelChange():
            return f"The model is {clean_line(entry.model)} from here on."
        case Approval():
            return f"Approvals: {clean_line(approval_words(entry))}."
        case Title():
            return f"The session is called “{clean_line(entry.title)}”."


def room_words(room: Room) -> list[str]:
    """The window and what fills it, a line for each share."""
    whole = (
        f"{numbers.tokens(room.size)} of {numbers.short_tokens(room.window, estimated=room.assumed)} tokens"
    )
    lines = [f"The next request takes {whole}, {numbers.percent(room.size, room.window)}."]
    shares = (
        ("System prompt, tools, instructions", room.weights.system),
        ("Summaries and pins", room.weights.summaries),
        ("Verbatim", room.weights.compacting + room.weights.verbatim),
    )
    lines += [
        f"{name}: {numbers.tokens(tokens)}, {numbers.percent(tokens, room.size)}." for name, tokens in shares
    ]
    if room.threshold is not None:
        lines.append(f"It is compacted from {numbers.tokens(room.threshold)} on.")
    return lines


_END: Final = re.compile(r"\n|[.!?:;][\"'”’)\]]*[ \t]+|[。！？；：]")
"""Where a piece may end: a line, a sentence, a clause that is long enough to be spoken alone."""
_LONG: Final = 400
"""Characters after which a piece ends between two words, for text that has no sentences."""


class SentenceBuffer:
    """Holds what is streamed until it can be said."""

    def __init__(self) -> None:
        self._held = ""

    def add(self, text: str) -> str:
        """What can be said now that this has come; often nothing."""
        searched = max(len(self._held) - 8, 0)  # an end may begin in what is held
        self._held += text
        ends = [found.end() for found in _END.finditer(self._held, searched)]
        if ends:
            return self._take(ends[-1])
        if len(self._held) > _LONG:
            return self._take(self._held.rfind(" ") + 1 or len(self._held))
        return ""

    def rest(self) -> str:
        """What is left when nothing more comes."""
        return self._take(len(self._held))

    def _take(self, end: int) -> str:
        said, self._held = self._held[:end], self._held[end:]
        return said


_ANSWERS: Final[dict[str, tuple[Literal["once", "always", "project", "deny"], str]]] = {
    "y": ("once", "yes, this once"),
    "a": ("always", "yes, and in this session always: {promise}"),
    "p": ("project", "yes, and in this project always: {promise}"),
    "n": ("deny", "no, and say why"),
}
"""What the letters of a call's question mean."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer: the letter that gives it, its words, and what it asks of the agent."""

    key: str
    words: str
    operation: Operation
    asks: str = ""
    """As of an `Option`: what is written with it."""
    usual: str | None = None
    """As of an `Option`: what an empty line stands for."""

    @property
    def sentence(self) -> str:
        return f"{self.words[:1].upper()}{self.words[1:]}"

    def with_line(self, line: str) -> Operation:
        """What it asks of the agent, with the line that was typed with it."""
        field = "why" if isinstance(self.operation, operations.Approve) else "text"
        return self.operation.model_copy(update={field: line.strip() or self.usual or ""})


@dataclass(frozen=True, slots=True)
class Asked:
    """A question with its answers, the last of which is the one given where nobody is there."""

    id: str
    lines: tuple[str, ...]
    answers: tuple[Answer, ...]
    text: str = ""
    """What an answer that asks for an edit is to change."""
    interrupts: bool = True
    """Whether it came without the user asking for it."""

    def all_lines(self) -> Iterator[str]:
        """The question, and `1  y  yes, this once` for each answer."""
        yield from self.lines
        for number, answer in enumerate(self.answers, start=1):
            yield f"{number}  {answer.key}  {answer.words}"

    @property
    def unanswered(self) -> Operation:
        """What is done if no person can be asked: the last answer, which allows nothing."""
        last = self.answers[-1].operation
        is_call = isinstance(last, operations.Approve)
        return last.model_copy(update={"no_one_to_ask": True}) if is_call else last

    def taken(self, typed: str) -> Answer | None:
        """The answer that was typed, as a letter or as its number; None where it is none."""
        word = typed.strip().lower()
        for number, answer in enumerate(self.answers, start=1):
            if word in (answer.key, str(number)):
                return answer
        return None


def asked_since(before: ChatState, now: ChatState) -> Iterator[Asked]:
    """The questions that are new, each once: a proposal is not asked about again, as the view grows."""
    known = before.proposal.proposal if before.proposal is not None else None
    if now.proposal is not None and now.proposal.proposal != known:
        yield asked_about_proposal(now.proposal)
    yield from (asked_about(question) for question in now.questions if question not in before.questions)


def asked_about(question: Question) -> Asked:
    """What a tool call, or a choice, asks."""
    return _choice(question) if question.kind == "choice" else _call(question)


def _call(question: Question) -> Asked:
    beyond = " It reaches beyond what this folder holds." if question.outside else ""
    diff = nothing_hidden_lines(question.diff, signs=1) if question.diff else ()
    promise = nothing_hidden(question.promises[0]) if question.promises else ""
    return Asked(
        question.id,
        (f"{clean_line(question.sentence)}{beyond}", *nothing_hidden_lines(question.title), *diff),
        tuple(
            Answer(
                option.key,
                _ANSWERS[option.key][1].format(promise=promise),
                operations.Approve(call_id=question.id, answer=_ANSWERS[option.key][0]),
                option.asks,
            )
            for option in question.options
        ),
    )


def _choice(question: Question) -> Asked:
    leaves = Answer("l", "leave it undecided", operations.Choose(choice=question.id, key=""))
    text = question.title
    lines = nothing_hidden_lines(text) if question.asks_agreement else clean(text).split("\n")
    return Asked(
        question.id,
        (clean(question.name), *(lines if text else ())),
        (
            *(
                Answer(
                    o.key,
                    clean_line(o.label),
                    operations.Choose(choice=question.id, key=o.key),
                    o.asks,
                    o.usual,
                )
                for o in question.options
            ),
            leaves,
        ),
        question.title,
        interrupts=not question.opened_by_user,
    )


def asked_about_proposal(ready: ProposalReady) -> Asked:
    """What is asked where a drafted compaction waits for its reader."""
    sizes = f"{numbers.tokens(ready.tokens_before)} → {numbers.tokens(ready.tokens_after)} tokens"
    lost = f"{ready.lost} of {ready.facts} facts lost"
    change = f"{sizes}, {many(ready.compacted, 'entry', 'entries')} compacted, {lost}"
    return Asked(
        ready.proposal,
        (
            f"A compaction is drafted, and nothing has changed yet: {change}.",
            *clean(ready.summary).rstrip("\n").split("\n"),
        ),
        (
            Answer("y", "apply it", operations.ApplyProposal(proposal=ready.proposal)),
            Answer("n", "throw it away", operations.DiscardProposal(proposal=ready.proposal)),
        ),
    )
