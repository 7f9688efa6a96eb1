"""The state machine of the chat: a pure reduction of the executor's events into `ChatState`."""

from dataclasses import replace
from typing import Literal, assert_never

from foldline.context.permissions import rules_grant
from foldline.protocol import Approval, ModelChange, Title, events
from foldline.protocol.events import Event
from foldline.tui.state import (
    APPROVAL,
    ONCE,
    Activity,
    Answerable,
    ChatState,
    Compacting,
    DraftedAhead,
    Idle,
    Level,
    News,
    Question,
    Retry,
    RunningTool,
    Stepping,
    Waiting,
    Working,
)

TOO_LATE = "Too late to cancel: it is compacted. /undo takes it back."
"""The answer to Esc pressed while a compaction was being written."""


def reduce(state: ChatState, event: Event, now: float) -> ChatState:  # noqa: C901, PLR0912 - one table
    """The state after an event. `now` is the user's monotonic clock in seconds; never raises."""
    match event:
        case events.TaskStarted():
            return replace(
                state,
                task=event.task,
                activity=Working(now),
                tools=(),
                compacting=None,
                cancelling=False,
                news=None,
            )
        case events.TaskFinished():
            return _finished(state, event, now)
        case events.ServersAwaited():
            return replace(state, activity=Working(now, event.servers))
        case events.EntryAppended():
            return _appended(state, event)
        case events.QueueChanged():
            waiting = Waiting(event.held, event.queued, event.paused, event.unsent, event.awaits)
            return replace(state, waiting=waiting)
        case events.ToolsListed() | events.WindowLearned() | events.ToolOutput():
            return state  # the meter and the transcript show them
        case events.SandboxKnown():
            return replace(state, sandbox_holds=event.holds)
        case events.Notice():
            return _with_news(state, event.text, event.level, now)
        # A step
        case events.StepStarted():
            retry = isinstance(state.activity, Stepping) and state.activity.retry
            step = Stepping(now, model=event.model, retry=retry)
            room = replace(state.room, size=event.tokens)
            return replace(state, activity=step, tools=(), model=event.model or state.model, room=room)
        case events.Retrying():
            return _retrying(state, event, now)
        case events.PromptReading() if isinstance(state.activity, Stepping):
            step = replace(state.activity, read=100 * event.read // max(1, event.total), again=None)
            return replace(state, activity=step)
        case events.PromptReading():
            return state
        case events.TextDelta():
            return _in_phase(state, "writing")
        case events.ThinkingDelta():
            return _in_phase(state, "thinking")
        case events.UsageReported():
            # 0 cached is news too: it says that the provider's cache missed.
            usage, room = event.usage, state.room
            if usage.total:
                room = replace(room, size=usage.total, estimated=not usage.is_reported)
            return replace(state, cached=usage.cached, room=room)
        # Tool calls, and the questions about them or about a full window
        case events.ToolStarted():
            tool = RunningTool(now, event.call_id, event.name, event.title)
            return _running(state, (*_without(state, event.call_id), tool), now)
        case events.ToolFinished():
            return _running(_answered(state, "call", event.call_id), _without(state, event.call_id), now)
        case events.ApprovalRequested():
            return _asked(state, _question_of(event, now))
        case events.ApprovalResolved():
            tools = tuple(replace(t, since=now) if t.call_id == event.call_id else t for t in state.tools)
            return _running(_answered(state, "call", event.call_id), tools, now)
        case events.SubagentProgress():
            return replace(state, subagents=_subagents(state.subagents, event))
        case events.ChoiceRequested():
            return _asked(state, _choice_of(event, now))
        case events.ChoiceResolved():
            return _answered(state, "choice", event.choice)
        # Compaction
        case events.CompactionStart():
            begun = Compacting(now, event.reason, event.tokens_before, event.expected_after, event.entries)
            return replace(state, compacting=begun)
        case events.CompactionProgress():
            layer = state.compacting
            return state if layer is None else replace(state, compacting=_further(layer, event, state.ahead))
        case events.CompactionEnd():
            return _compaction_ended(state, event, now)
        case events.DraftAhead():
            return replace(state, ahead=_ahead(state.ahead, event, now))
        case events.ProposalReady():
            return replace(state, proposal=event)
        case events.ProposalClosed():
            is_shown = state.proposal is not None and state.proposal.proposal == event.proposal
            return replace(state, proposal=None) if is_shown else state
        case _:
            assert_never(event)


def _finished(state: ChatState, event: events.TaskFinished, now: float) -> ChatState:
    if state.task is not None and event.task != state.task:
        return state
    cancelled = event.outcome == "cancelled" and state.news is None
    rest = replace(
        state,
        task=None,
        activity=Idle(),
        tools=(),
        compacting=None,
        cancelling=False,
        questions=(),
        subagents=tuple(each for each in state.subagents if each.state == "background"),
        proposal=None if state.proposal is None else state.proposal.model_copy(update={"waits": False}),
    )
    if event.outcome == "failed":
        return _with_news(rest, event.error or f"{event.operation} failed", "error", now)
    return _with_news(rest, "Cancelled", "info", now) if cancelled else rest


def _compaction_ended(state: ChatState, event: events.CompactionEnd, now: float) -> ChatState:
    """The layer comes off: what was below it shows again, with one sentence where nothing was compacted."""
    below: Activity = state.activity
    if event.will_retry and isinstance(below, Stepping):
        below = replace(below, since=now, phase="waiting", retry=True)
    rest = replace(state, compacting=None, activity=below)
    if event.error is not None:
        return _with_news(rest, event.error, "error", now)
    if event.aborted:
        return _with_news(rest, "Compaction cancelled: nothing was compacted", "info", now)
    if event.nothing:
        return _with_news(rest, "Nothing to compact", "info", now)
    if event.index is None:
        return rest  # drafted, and not committed: the proposal says the rest
    # What was in the cache belongs to the view before; the next request says what is there of this one.
    room = replace(rest.room, cut=None)
    if event.tokens_after:
        room = replace(room, size=event.tokens_after, estimated=True)
    rest = replace(rest, room=room, cached=None)
    if state.cancelling and event.reason == "manual":
        return _with_news(rest, TOO_LATE, "info", now)
    return rest


def _further(layer: Compacting, event: events.CompactionProgress, ahead: DraftedAhead | None) -> Compacting:
    """The sentence about a rung stays while it works: its drafting says nothing of it. A draft that was begun
    ahead and is taken over (else it is gone by now) counts from its own beginning."""
    if ahead is not None and event.stage == "draft":
        layer = replace(layer, since=ahead.since)
    drafted = max(event.drafted_tokens, layer.drafted if event.stage == "draft" else 0)
    detail = event.detail or (layer.detail if event.rung == layer.rung else "")
    return replace(layer, stage=event.stage, rung=event.rung, detail=detail, drafted=drafted, again=None)


def _ahead(known: DraftedAhead | None, event: events.DraftAhead, now: float) -> DraftedAhead | None:
    if event.state == "gone":
        return None
    return DraftedAhead(
        since=known.since if known else now,
        ready=event.state == "ready",
        drafted=event.drafted_tokens,
        tokens_before=event.tokens_before,
        tokens_after=event.tokens_after,
    )


def _retrying(state: ChatState, event: events.Retrying, now: float) -> ChatState:
    """What waits is the draft of the compaction, where one is made, else the step, counted from then on."""
    again = Retry(now + event.seconds, event.sentence, event.attempt, event.attempts)
    if state.compacting is not None:
        return replace(state, compacting=replace(state.compacting, again=again))
    if isinstance(state.activity, Stepping):
        step = replace(state.activity, since=again.until, phase="waiting", again=again)
        return replace(state, activity=step)
    return state


def _appended(state: ChatState, event: events.EntryAppended) -> ChatState:
    match event.entry:
        case Title(title=title):
            return replace(state, title=title)
        case ModelChange(model=model):
            return replace(state, model=model)
        case Approval(mode=mode) if mode is not None:
            return replace(state, edits=mode)
        case _:
            return state


def _in_phase(state: ChatState, phase: Literal["writing", "thinking"]) -> ChatState:
    step = state.activity
    if not isinstance(step, Stepping) or step.phase == phase:
        return state
    return replace(state, activity=replace(step, phase=phase, again=None))


def _running(state: ChatState, tools: tuple[RunningTool, ...], now: float) -> ChatState:
    """The newest call that still runs is what the status row names."""
    if tools:
        return replace(state, tools=tools, activity=tools[-1])
    if isinstance(state.activity, RunningTool):
        return replace(state, tools=(), activity=Working(now))
    return replace(state, tools=())


def _without(state: ChatState, call_id: str) -> tuple[RunningTool, ...]:
    return tuple(tool for tool in state.tools if tool.call_id != call_id)


def _subagents(
    known: tuple[events.SubagentProgress, ...], event: events.SubagentProgress
) -> tuple[events.SubagentProgress, ...]:
    """Those that run, each in its place."""
    if event.state in ("done", "failed", "cancelled"):
        return tuple(each for each in known if each.child != event.child)
    if all(each.child != event.child for each in known):
        return (*known, event)
    return tuple(event if each.child == event.child else each for each in known)


def _question_of(event: events.ApprovalRequested, now: float) -> Question:
    return Question(
        event.call_id,
        event.name,
        event.title,
        event.diff,
        now,
        options=APPROVAL if event.rules else ONCE,
        who=event.who,
        promises=tuple(
            rules_grant((rule, *(event.also if nth == 0 else ()))) for nth, rule in enumerate(event.rules)
        ),
        outside=not event.inside,
    )


def _choice_of(event: events.ChoiceRequested, now: float) -> Question:
    return Question(
        event.choice,
        event.title,
        event.detail,
        None,
        now,
        tuple(Answerable(o.key, o.label, o.asks, o.usual, o.agrees) for o in event.options),
        "choice",
        is_markdown=event.is_markdown,
        opened_by_user=event.opened_by_user,
    )


def _asked(state: ChatState, question: Question) -> ChatState:
    """Asked again, it goes to the end: what it would do may have changed."""
    others = _answered(state, question.kind, question.id).questions
    return replace(state, questions=(*others, question))


def _answered(state: ChatState, kind: Literal["call", "choice"], id: str) -> ChatState:
    left = tuple(question for question in state.questions if (question.kind, question.id) != (kind, id))
    return state if len(left) == len(state.questions) else replace(state, questions=left)


def _with_news(state: ChatState, text: str, level: Level, now: float) -> ChatState:
    return replace(state, news=News(text, level, now))
