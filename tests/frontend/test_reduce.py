"""The reducer: events to what the chat shows."""

from collections.abc import Sequence
from dataclasses import replace
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foldline.frontend.reduce import COMPACTION_CANCELLED, TOO_LATE, reduce
from foldline.frontend.state import (
    WAITING_FOR_ANSWER,
    ChatState,
    ContextUse,
    DraftedAhead,
    Idle,
    RetryWait,
    RunningTool,
    Stepping,
    Waiting,
    Working,
)
from foldline.protocol import ModelChange, Title, Usage, UserMessage, events
from foldline.protocol.events import Event
from support.children import DOCS, TESTS, progress_events

word = st.text(max_size=8)
call = st.sampled_from(["c1", "c2", "c3"])
task = st.sampled_from(["t1", "t2"])
proposal = st.sampled_from(["p1", "p2"])
count = st.integers(0, 200_000)
reason = st.sampled_from(["threshold", "overflow", "manual", "phase"])
operation = st.sampled_from(["run_agent", "compact_session"])
level = st.sampled_from(["info", "warning", "error"])

any_event: st.SearchStrategy[Event] = st.one_of(
    st.builds(events.TaskStarted, task=task, operation=operation),
    st.builds(
        events.TaskFinished,
        task=task,
        operation=operation,
        outcome=st.sampled_from(["done", "cancelled", "failed"]),
        error=st.none() | word,
    ),
    st.builds(events.ServersAwaited, servers=st.lists(word, max_size=2).map(tuple)),
    st.builds(events.SandboxKnown, holds=st.booleans()),
    st.builds(events.ToolsListed),
    st.builds(events.WindowLearned),
    st.builds(events.StepStarted, model=word, tokens=count),
    st.builds(
        events.Retrying,
        sentence=word,
        seconds=st.floats(0, 60),
        attempt=st.integers(1, 3),
        attempts=st.just(3),
    ),
    st.builds(events.TextDelta, text=word),
    st.builds(events.ThinkingDelta, text=word),
    st.builds(events.ToolStarted, call_id=call, name=word, title=word),
    st.builds(events.ToolOutput, call_id=call, text=word),
    st.builds(
        events.ToolFinished, call_id=call, name=word, is_error=st.booleans(), brief=word
    ),
    st.builds(
        events.ApprovalRequested,
        call_id=call,
        name=word,
        title=word,
        diff=st.none() | word,
    ),
    st.builds(events.ApprovalResolved, call_id=call, allowed=st.booleans()),
    st.builds(
        events.SubagentProgress,
        call_id=call,
        child=call,
        agent=word,
        title=word,
        state=st.sampled_from(get_args(events.SubagentState)),
        doing=word,
    ),
    st.builds(
        events.CompactionStart, reason=reason, tokens_before=count, entries=count
    ),
    st.builds(
        events.CompactionProgress,
        stage=st.sampled_from(["plan", "draft", "verify", "commit"]),
        rung=st.sampled_from(["strategy", "chunks", "hide", "digest"]),
        detail=word,
        drafted_tokens=count,
    ),
    st.builds(
        events.CompactionEnd,
        reason=reason,
        aborted=st.booleans(),
        will_retry=st.booleans(),
        nothing=st.booleans(),
        error=st.none() | word,
        tokens_after=count,
        index=st.none() | count,
    ),
    st.builds(
        events.DraftAhead,
        state=st.sampled_from(["drafting", "ready", "gone"]),
        drafted_tokens=count,
        tokens_before=count,
        tokens_after=count,
    ),
    st.builds(
        events.ProposalReady,
        proposal=proposal,
        reason=reason,
        state=st.sampled_from(["current", "edited", "stale"]),
        waits=st.booleans(),
        tokens_before=count,
        tokens_after=count,
    ),
    st.builds(events.PromptReading, read=count, total=count),
    st.builds(events.ProposalClosed, proposal=proposal, applied=st.booleans()),
    st.builds(
        events.ChoiceRequested,
        choice=call,
        title=word,
        detail=word,
        options=st.lists(
            st.builds(events.Option, key=word, label=word), max_size=3
        ).map(tuple),
    ),
    st.builds(events.ChoiceResolved, choice=call, key=word),
    st.builds(
        events.UsageReported,
        model=word,
        usage=st.builds(Usage, input=count, cached=count, output=count),
    ),
    st.builds(
        events.EntryAppended,
        entry=st.one_of(
            st.builds(Title, title=word),
            st.builds(ModelChange, model=word),
            st.builds(UserMessage),
        ),
    ),
    st.builds(
        events.QueueChanged,
        held=st.none() | word,
        queued=st.lists(word, max_size=3).map(tuple),
        paused=st.booleans(),
    ),
    st.builds(events.Notice, text=word, level=level),
)


def after(*happened: Event, state: ChatState | None = None) -> ChatState:
    state = state or ChatState()
    for now, event in enumerate(happened):
        state = reduce(state, event, float(now))
    return state


START = events.TaskStarted(task="t1", operation="run_agent")
STEP = events.StepStarted(model="m", tokens=900)
COMPACTING = events.CompactionStart(
    reason="threshold", tokens_before=900, expected_after=300, entries=7
)


def finished(outcome: str = "done", error: str | None = None) -> events.TaskFinished:
    return events.TaskFinished.model_validate(
        {"task": "t1", "operation": "run_agent", "outcome": outcome, "error": error}
    )


def test_every_event_is_generated() -> None:
    union = get_args(get_args(Event)[0])
    assert len(union) == 29, "a new event needs a place in `any_event` and in `reduce`"


@given(st.lists(any_event, max_size=30))
def test_any_sequence_of_events_reduces(happened: Sequence[Event]) -> None:
    state = after(*happened)
    assert (state.compacting is not None) <= state.busy
    assert len({(question.kind, question.id) for question in state.questions}) == len(
        state.questions
    )
    if isinstance(state.activity, RunningTool):
        assert state.activity == state.tools[-1]


@given(st.lists(any_event, max_size=20), st.booleans())
def test_a_compaction_gives_back_what_was_below_it(
    happened: Sequence[Event], aborted: bool
) -> None:
    below = after(*happened, events.CompactionEnd(reason="manual", aborted=True))
    during = reduce(below, COMPACTING, 50.0)
    assert during.compacting is not None
    assert during.activity == below.activity
    restored = reduce(
        during, events.CompactionEnd(reason="threshold", aborted=aborted), 60.0
    )
    assert restored.compacting is None
    assert (restored.activity, restored.tools, restored.questions) == (
        below.activity,
        below.tools,
        below.questions,
    )


def test_a_draft_ahead_is_shown_from_its_first_word_until_a_compaction_takes_it_over() -> (
    None
):
    begun = after(START, events.DraftAhead(state="drafting"))
    assert begun.drafting_ahead
    written = reduce(
        begun, events.DraftAhead(state="drafting", drafted_tokens=300), 9.0
    )
    assert written.ahead == DraftedAhead(since=1.0, drafted=300)
    made = events.DraftAhead(
        state="ready", drafted_tokens=400, tokens_before=900, tokens_after=300
    )
    ready = reduce(reduce(written, finished(), 10.0), made, 11.0)
    assert (ready.drafting_ahead, ready.busy) == (False, False)
    assert ready.ahead == DraftedAhead(
        1.0, ready=True, drafted=400, tokens_before=900, tokens_after=300
    )
    assert reduce(ready, events.DraftAhead(state="gone"), 12.0).ahead is None


@given(st.lists(any_event, max_size=20))
def test_when_the_task_is_over_nothing_runs_and_nothing_asks(
    happened: Sequence[Event],
) -> None:
    state = after(
        *happened,
        START,
        *[e for e in happened if not isinstance(e, events.TaskStarted)],
        finished(),
    )
    assert not state.busy
    assert state.question is None


def test_what_happens_below_a_compaction_is_seen_when_it_ends() -> None:
    done = events.ToolFinished(call_id="c1", name="bash", is_error=False, brief="")
    started = events.ToolStarted(call_id="c1", name="bash", title="ls")
    state = after(
        START, STEP, started, COMPACTING, done, events.CompactionEnd(reason="threshold")
    )
    assert isinstance(state.activity, Working)


def test_a_turn_walks_through_its_phases() -> None:
    state = after(START, STEP)
    assert state.activity == Stepping(1.0, "m")
    assert state.room.size == 900
    state = after(events.ThinkingDelta(text="…"), state=state)
    assert isinstance(state.activity, Stepping) and state.activity.phase == "thinking"
    state = after(events.TextDelta(text="…"), state=state)
    assert isinstance(state.activity, Stepping) and state.activity.phase == "writing"
    assert after(finished(), state=state).activity == Idle()


def test_of_several_tools_the_newest_that_runs_is_named() -> None:
    one = events.ToolStarted(call_id="c1", name="read", title="a")
    two = events.ToolStarted(call_id="c2", name="bash", title="b")
    state = after(START, STEP, one, two)
    assert isinstance(state.activity, RunningTool) and state.activity.call_id == "c2"
    state = after(
        events.ToolFinished(call_id="c2", name="bash", is_error=False, brief=""),
        state=state,
    )
    assert isinstance(state.activity, RunningTool) and state.activity.call_id == "c1"


def test_a_retried_step_says_so() -> None:
    end = events.CompactionEnd(reason="overflow", will_retry=True, tokens_after=300)
    state = after(START, STEP, COMPACTING, end, STEP)
    assert isinstance(state.activity, Stepping) and state.activity.retry


def test_how_far_the_prompt_is_read_is_shown_until_something_is_said() -> None:
    reading = after(START, STEP, events.PromptReading(read=300, total=900))
    assert isinstance(reading.activity, Stepping)
    assert (reading.activity.phase, reading.activity.read) == ("waiting", 33)
    saying = reduce(reading, events.TextDelta(text="hello"), 9.0)
    assert isinstance(saying.activity, Stepping)
    assert saying.activity.phase == "writing"


RETRYING = events.Retrying(
    sentence="The server is busy.", seconds=4.0, attempt=2, attempts=3
)


def test_a_retry_is_waited_for_until_its_time_and_then_the_step_runs_from_there() -> (
    None
):
    state = after(START, STEP, RETRYING)  # at 2.0
    again = RetryWait(6.0, "The server is busy.", 2, 3)
    assert [state.retry_at(now) for now in (2.0, 5.9, 6.0)] == [again, again, None]
    assert isinstance(state.activity, Stepping)
    assert (state.activity.since, state.activity.model, state.activity.phase) == (
        6.0,
        "m",
        "waiting",
    )


@pytest.mark.parametrize(
    "heard", [events.TextDelta(text="x"), events.ThinkingDelta(text="x"), STEP]
)
def test_a_retry_that_speaks_is_not_waited_for(heard: Event) -> None:
    assert after(START, STEP, RETRYING, heard).retry_at(3.0) is None


def test_a_draft_that_is_tried_again_waits_above_the_step() -> None:
    state = after(START, STEP, COMPACTING, RETRYING)
    assert (
        state.compacting is not None and state.retry_at(6.0) == state.compacting.again
    )
    assert state.activity == after(START, STEP).activity
    drafted = events.CompactionProgress(stage="draft", delta="x", drafted_tokens=1)
    assert after(drafted, state=state).retry_at(6.0) is None


@given(st.lists(any_event, max_size=20))
def test_no_retry_is_waited_for_where_nothing_runs(happened: Sequence[Event]) -> None:
    state = after(*happened, RETRYING)
    assert (state.retry_at(0.0) is not None) <= state.busy
    assert after(finished(), state=replace(state, task="t1")).retry_at(0.0) is None


def test_a_cancelled_compaction_leaves_size_and_cut() -> None:
    state = ChatState(room=ContextUse(900, 1000, cut=500))
    ended = after(
        COMPACTING,
        events.CompactionEnd(reason="manual", aborted=True, tokens_after=300),
        state=state,
    )
    assert ended.room == state.room
    assert ended.news is not None and ended.news.text == COMPACTION_CANCELLED


def test_esc_in_the_moment_a_compaction_is_written_says_that_it_was_made() -> None:
    state = replace(after(START, COMPACTING), cancelling=True)
    ended = after(
        events.CompactionEnd(reason="manual", tokens_after=300, index=9), state=state
    )
    cancelled = after(finished("cancelled"), state=ended)
    assert cancelled.news is not None and cancelled.news.text == TOO_LATE
    assert not cancelled.busy


def test_a_finished_compaction_changes_the_size_and_nothing_is_known_of_the_cache() -> (
    None
):
    state = after(
        COMPACTING,
        events.CompactionEnd(reason="manual", tokens_after=300, index=9),
        state=ChatState(room=ContextUse(900, 1000), cached=800),
    )
    assert (state.room.size, state.cached) == (300, None)


def test_the_draft_is_counted_and_never_shrinks() -> None:
    def draft(tokens: int) -> events.CompactionProgress:
        return events.CompactionProgress(stage="draft", drafted_tokens=tokens)

    state = after(COMPACTING, draft(50), draft(20))
    assert state.compacting is not None and state.compacting.drafted == 50


def test_a_draft_that_was_not_committed_leaves_size_and_cut() -> None:
    state = ChatState(room=ContextUse(900, 1000, cut=500))
    ended = after(
        COMPACTING, events.CompactionEnd(reason="manual", tokens_after=300), state=state
    )
    assert (ended.room, ended.compacting) == (state.room, None)


def test_a_rung_says_why_as_long_as_it_works() -> None:
    def progress(rung: str, detail: str = "") -> events.CompactionProgress:
        return events.CompactionProgress(stage="draft", rung=rung, detail=detail)

    state = after(
        COMPACTING, progress("digest", "The model is not there."), progress("digest")
    )
    assert state.compacting is not None
    assert (state.compacting.rung, state.compacting.detail) == (
        "digest",
        "The model is not there.",
    )
    state = after(progress("hide"), state=state)
    assert state.compacting is not None
    assert (state.compacting.rung, state.compacting.detail) == ("hide", "")


def test_a_proposal_waits_until_it_is_closed() -> None:
    ready = events.ProposalReady(
        proposal="p1", reason="manual", tokens_before=900, tokens_after=300, lost=6
    )
    revised = ready.model_copy(update={"proposal": "p2", "state": "edited"})
    closed = events.ProposalClosed(proposal="p1", applied=False)
    state = after(ready, revised)
    assert state.proposal is not None
    assert (state.proposal.proposal, state.proposal.state, state.proposal.lost) == (
        "p2",
        "edited",
        6,
    )
    assert after(closed, state=state).proposal == state.proposal, (
        "an older one was closed"
    )
    assert (
        after(events.ProposalClosed(proposal="p2", applied=True), state=state).proposal
        is None
    )


def test_nothing_waits_for_a_proposal_once_the_task_is_over() -> None:
    ready = events.ProposalReady(proposal="p1", reason="threshold", waits=True)
    state = after(START, COMPACTING, ready)
    assert state.proposal is not None and state.proposal.waits
    state = after(finished("cancelled"), state=state)
    assert state.proposal is not None and not state.proposal.waits


def test_a_choice_asks_like_a_call_with_answers_of_its_own() -> None:
    leave = events.Option(key="s", label="send as it is")
    choice = events.ChoiceRequested(
        choice="c1", title="window full", detail="361", options=(leave,)
    )
    call = events.ApprovalRequested(call_id="c1", name="bash", title="ls")
    state = after(choice, call)
    question = state.question
    assert question is not None
    assert (question.kind, question.name, question.title) == (
        "choice",
        "window full",
        "361",
    )
    assert [(option.key, option.label) for option in question.options] == [
        ("s", "send as it is")
    ]
    state = after(events.ChoiceResolved(choice="c1", key="s"), state=state)
    assert [question.kind for question in state.questions] == ["call"], (
        "a call may have the same id"
    )


def test_what_the_agent_does_is_waiting_while_it_asks() -> None:
    call = events.ApprovalRequested(call_id="c1", name="bash", title="ls")
    assert after(START, STEP).doing == "request in flight"
    assert after(START, STEP, call).doing == WAITING_FOR_ANSWER


def test_questions_wait_in_order_and_go_when_answered() -> None:
    def ask(call_id: str) -> events.ApprovalRequested:
        return events.ApprovalRequested(call_id=call_id, name="bash", title="ls")

    state = after(ask("c1"), ask("c2"))
    assert state.question is not None and state.question.id == "c1"
    state = after(events.ApprovalResolved(call_id="c1", allowed=True), state=state)
    assert state.question is not None and state.question.id == "c2"


def test_a_call_that_asked_runs_from_the_answer_on() -> None:
    """The time beside `Running` is the call's own: what the question waited for is none of it."""
    calls = [
        events.ToolStarted(call_id=each, name="bash", title=each)
        for each in ("c0", "c1")
    ]
    asked = after(
        START,
        STEP,
        *calls,
        events.ApprovalRequested(call_id="c1", name="bash", title="c1"),
    )
    answered = reduce(asked, events.ApprovalResolved(call_id="c1", allowed=True), 60.0)
    assert [(tool.call_id, tool.since) for tool in answered.tools] == [
        ("c0", 2.0),
        ("c1", 60.0),
    ]
    assert answered.activity == answered.tools[-1]


def test_a_failed_task_leaves_its_sentence() -> None:
    state = after(START, finished("failed", "The key was refused."))
    assert state.news is not None
    assert (state.news.text, state.news.level) == ("The key was refused.", "error")


def test_the_end_of_another_task_changes_nothing() -> None:
    other = events.TaskFinished(task="t9", operation="run_agent", outcome="done")
    assert after(START, STEP, other).busy


def test_queue_title_model_and_usage_are_taken_over() -> None:
    state = after(
        events.QueueChanged(held="a", queued=("b",), paused=True),
        events.EntryAppended(entry=Title(title="T")),
        events.EntryAppended(entry=ModelChange(model="m2")),
        events.UsageReported(
            model="m2", usage=Usage(input=1000, cached=900, output=50)
        ),
    )
    assert state.waiting == Waiting("a", ("b",), True)
    assert (state.title, state.model, state.cached, state.room.size) == (
        "T",
        "m2",
        900,
        1050,
    )


def test_subagents_that_run_keep_their_place_and_those_awaited_can_be_sent_to_the_background() -> (
    None
):
    callers, tests, docs = progress_events()
    state = after(START, callers, tests, docs)
    assert [each.child for each in state.subagents] == [
        TESTS,
        DOCS,
    ]  # the first is done
    away = tests.model_copy(update={"state": "background"})
    state = reduce(state, away, 9.0)
    assert [each.child for each in state.subagents] == [TESTS, DOCS]
    assert [each.child for each in state.awaited] == [DOCS]
    assert [each.child for each in reduce(state, finished(), 10.0).subagents] == [TESTS]


def test_a_question_says_which_subagent_asks() -> None:
    asked = events.ApprovalRequested(
        call_id="c/1", name="bash", title="ls", who="explore"
    )
    question = after(START, asked).question
    assert (
        question is not None
        and question.sentence == "Allow this bash call by subagent “explore”?"
    )
