"""The state machine of the chat: reduces the executor's events to a `ChatState`."""

from dataclasses import replace
from typing import Literal, assert_never

from foldline.frontend.state import (
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
    RetryWait,
    RunningTool,
    Stepping,
    Waiting,
    Working,
)
from foldline.past.approval_words import rules_grant
from foldline.protocol import Approval, ModelChange, Title, events
from foldline.protocol.events import Event

TOO_LATE = (
    "Too late to cancel: the compaction has been applied. Use /undo to revert it."
)
CANCELLED = "Cancelled"
COMPACTION_CANCELLED = "Compaction cancelled: nothing was compacted"
NOTHING_TO_COMPACT = "Nothing to compact"
FAILED = "{operation} failed"


def reduce(state: ChatState, event: Event, now: float) -> ChatState:  # noqa: C901, PLR0912 - one table
    """Return the state after an event. Never raises.

    Args:
        now: monotonic clock time in seconds.
    """
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
            waiting = Waiting(
                event.held, event.queued, event.paused, event.unsent, event.awaits
            )
            return replace(state, waiting=waiting)
        case events.ToolsListed() | events.WindowLearned() | events.ToolOutput():
            return state  # shown by the meter and the transcript
        case events.SandboxKnown():
            return replace(state, sandbox_holds=event.holds)
        case events.Notice():
            return _with_news(state, event.text, event.level, now)
        # A step
        case events.StepStarted():
            retry = isinstance(state.activity, Stepping) and state.activity.retry
            step = Stepping(now, model=event.model, retry=retry)
            room = replace(state.room, size=event.tokens)
            return replace(
                state,
                activity=step,
                tools=(),
                model=event.model or state.model,
                room=room,
            )
        case events.Retrying():
            return _retrying(state, event, now)
        case events.PromptReading() if isinstance(state.activity, Stepping):
            step = replace(
                state.activity, read=100 * event.read // max(1, event.total), again=None
            )
            return replace(state, activity=step)
        case events.PromptReading():
            return state
        case events.TextDelta():
            return _in_phase(state, "writing")
        case events.ThinkingDelta():
            return _in_phase(state, "thinking")
        case events.UsageReported():
            # 0 cached tokens matter too: the provider's cache missed.
            usage, room = event.usage, state.room
            if usage.total:
                room = replace(room, size=usage.total, estimated=not usage.is_reported)
            return replace(state, cached=usage.cached, room=room)
        # Tool calls, and questions to the user
        case events.ToolStarted():
            tool = RunningTool(now, event.call_id, event.name, event.title)
            return _running(state, (*_without(state, event.call_id), tool), now)
        case events.ToolFinished():
            return _running(
                _answered(state, "call", event.call_id),
                _without(state, event.call_id),
                now,
            )
        case events.ApprovalRequested():
            return _asked(state, _question_of(event, now))
        case events.ApprovalResolved():
            tools = tuple(
                replace(tool, since=now) if tool.call_id == event.call_id else tool
                for tool in state.tools
            )
            return _running(_answered(state, "call", event.call_id), tools, now)
        case events.SubagentProgress():
            return replace(state, subagents=_subagents(state.subagents, event))
        case events.ChoiceRequested():
            return _asked(state, _choice_of(event, now))
        case events.ChoiceResolved():
            return _answered(state, "choice", event.choice)
        # Compaction
        case events.CompactionStart():
            started = Compacting(
                now,
                event.reason,
                event.tokens_before,
                event.expected_after,
                event.entries,
            )
            return replace(state, compacting=started)
        case events.CompactionProgress():
            return _compacting(state, event)
        case events.CompactionEnd():
            return _compaction_ended(state, event, now)
        case events.DraftAhead():
            return replace(state, ahead=_ahead(state.ahead, event, now))
        case events.ProposalReady():
            return replace(state, proposal=event)
        case events.ProposalClosed():
            is_shown = (
                state.proposal is not None and state.proposal.proposal == event.proposal
            )
            return replace(state, proposal=None) if is_shown else state
        case _:
            assert_never(event)


def _finished(state: ChatState, event: events.TaskFinished, now: float) -> ChatState:
    if state.task is not None and event.task != state.task:
        return state
    cancelled = event.outcome == "cancelled" and state.news is None
    finished = replace(
        state,
        task=None,
        activity=Idle(),
        tools=(),
        compacting=None,
        cancelling=False,
        questions=(),
        subagents=tuple(
            child for child in state.subagents if child.state == "background"
        ),
        proposal=None
        if state.proposal is None
        else state.proposal.model_copy(update={"waits": False}),
    )
    if event.outcome == "failed":
        return _with_news(
            finished,
            event.error or FAILED.format(operation=event.operation),
            "error",
            now,
        )
    if cancelled:
        return _with_news(finished, CANCELLED, "info", now)
    return finished


def _compaction_ended(
    state: ChatState, event: events.CompactionEnd, now: float
) -> ChatState:
    """Return to the activity before the compaction, with a notice if nothing was compacted."""
    below: Activity = state.activity
    if event.will_retry and isinstance(below, Stepping):
        below = replace(below, since=now, phase="waiting", retry=True)
    ended = replace(state, compacting=None, activity=below)
    if event.error is not None:
        return _with_news(ended, event.error, "error", now)
    if event.aborted:
        return _with_news(ended, COMPACTION_CANCELLED, "info", now)
    if event.nothing:
        return _with_news(ended, NOTHING_TO_COMPACT, "info", now)
    if event.index is None:
        return ended  # not committed yet: the proposal is shown instead
    # The cached tokens belong to the old view. The next request reports those of the new view.
    room = replace(ended.room, cut=None)
    if event.tokens_after:
        room = replace(room, size=event.tokens_after, estimated=True)
    ended = replace(ended, room=room, cached=None)
    if state.cancelling and event.reason == "manual":
        return _with_news(ended, TOO_LATE, "info", now)
    return ended


def _compacting(state: ChatState, event: events.CompactionProgress) -> ChatState:
    """Update a compaction with its progress.

    The error of the previous rung of the failure ladder stays until the rung changes. A background draft that
    the compaction takes over keeps its own start time.
    """
    layer = state.compacting
    if layer is None:
        return state
    since = layer.since
    drafted = event.drafted_tokens
    if event.stage == "draft":
        since = since if state.ahead is None else state.ahead.since
        drafted = max(drafted, layer.drafted)
    detail = event.detail
    if not detail and event.rung == layer.rung:
        detail = layer.detail
    layer = replace(
        layer,
        since=since,
        stage=event.stage,
        rung=event.rung,
        detail=detail,
        drafted=drafted,
        again=None,
    )
    return replace(state, compacting=layer)


def _ahead(
    draft: DraftedAhead | None, event: events.DraftAhead, now: float
) -> DraftedAhead | None:
    if event.state == "gone":
        return None
    return DraftedAhead(
        since=draft.since if draft else now,
        ready=event.state == "ready",
        drafted=event.drafted_tokens,
        tokens_before=event.tokens_before,
        tokens_after=event.tokens_after,
    )


def _retrying(state: ChatState, event: events.Retrying, now: float) -> ChatState:
    """Show the wait before a retry.

    The retry belongs to the running compaction or, if there is none, to the current step.
    """
    again = RetryWait(
        now + event.seconds, event.sentence, event.attempt, event.attempts
    )
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
    """Set the running tool calls.

    The newest call becomes the activity.
    """
    if tools:
        return replace(state, tools=tools, activity=tools[-1])
    if isinstance(state.activity, RunningTool):
        return replace(state, tools=(), activity=Working(now))
    return replace(state, tools=())


def _without(state: ChatState, call_id: str) -> tuple[RunningTool, ...]:
    return tuple(tool for tool in state.tools if tool.call_id != call_id)


def _subagents(
    children: tuple[events.SubagentProgress, ...], event: events.SubagentProgress
) -> tuple[events.SubagentProgress, ...]:
    """Update the running subagents, in the order of their start."""
    if event.state in ("done", "failed", "cancelled"):
        return tuple(child for child in children if child.child != event.child)
    if all(child.child != event.child for child in children):
        return (*children, event)
    return tuple(event if child.child == event.child else child for child in children)


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
            rules_grant((rule, *event.also) if number == 0 else (rule,))
            for number, rule in enumerate(event.rules)
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
        tuple(
            Answerable(option.key, option.label, option.asks, agrees=option.agrees)
            for option in event.options
        ),
        "choice",
        is_markdown=event.is_markdown,
        opened_by_user=event.opened_by_user,
    )


def _asked(state: ChatState, question: Question) -> ChatState:
    """Add a question at the end.

    An earlier version of the same question is replaced.
    """
    others = _answered(state, question.kind, question.id).questions
    return replace(state, questions=(*others, question))


def _answered(state: ChatState, kind: str, id: str) -> ChatState:
    questions = tuple(
        question
        for question in state.questions
        if (question.kind, question.id) != (kind, id)
    )
    return (
        state
        if len(questions) == len(state.questions)
        else replace(state, questions=questions)
    )


def _with_news(state: ChatState, text: str, level: Level, now: float) -> ChatState:
    return replace(state, news=News(text, level, now))
