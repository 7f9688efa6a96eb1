"""Each rule is broken on purpose and reported alone; valid requests break none."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foldline.formats import read_foreign
from foldline.memory.clip import clip_to_tokens
from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    ToolCallPart,
    ToolResultMessage,
    text_parts,
)
from foldline.view.calls import ANSWERS_NO_CALL
from foldline.view.items import with_text
from foldline_eval.record import ReplayRun
from support.evaluation import (
    length,
    messages_of,
    raw_run,
    run_compacted_before,
    run_of,
    run_with_view,
    sent,
    summary,
    summary_request,
    with_hidden_results,
)
from support.history import History, call, history
from support.recordings import needs_recorded, recordings
from support.safety import (
    PIN_CHANGED,
    PREFIX_CHANGED,
    PROMPT_CHANGED,
    RESULT_CHANGED,
    RESULT_MISSING,
    violations,
)


def work() -> History:
    """0 is the prompt, 1 a request, 2 two calls with results 3 and 4, 5 one with result 6, 7 an answer; 8 is
    the next request and 9 its answer."""
    built = history().system("You are careful.").user("Mend the retry.")
    built.assistant(
        calls=[call("read", path="a.py"), call("read", path="b.py")]
    ).result("aaa\n" * 100).result("bbb")
    built.step("bash", "31 passed", command="pytest").assistant("Mended.")
    return built.user("Thanks. Release it.").assistant("Released.")


def rules(run: ReplayRun) -> list[str]:
    """Return the broken rules in order, without repeats."""
    return list(dict.fromkeys(found.split(",")[0] for found in violations(run)))


def request(*messages: BaseMessage) -> ReplayRun:
    """Build a run of one request that answers nothing recordings: only its own messages count."""
    return run_of(sent(messages))


MESSAGES = messages_of(work())
USER = MESSAGES[1]


def calling(*calls: ToolCallPart, text: str = "") -> AssistantMessage:
    return AssistantMessage(index=20, parts=(*text_parts(text), *calls))


def resulting(call_id: str, index: int = 21) -> ToolResultMessage:
    return ToolResultMessage(
        index=index, call_id=call_id, name="read", parts=text_parts("aaa")
    )


A = call("read", call_id="a", path="a.py")
B = call("read", call_id="b", path="b.py")


# -- valid runs ---------------------------------------------------------------------------------


def test_the_whole_history_breaks_no_rule() -> None:
    assert violations(raw_run(work())) == []


def test_a_compaction_into_a_summary_breaks_no_rule() -> None:
    run = run_compacted_before(
        work(), 9, lambda so_far: [so_far[0], summary("x"), so_far[-1]]
    )
    assert violations(run) == []


def test_hiding_seen_results_breaks_no_rule() -> None:
    assert (
        violations(
            run_compacted_before(
                work(), 9, lambda so_far: with_hidden_results(so_far, 3)
            ),
        )
        == []
    )


@pytest.mark.slow
@needs_recorded
def test_recorded_sessions_are_valid() -> None:
    for path in recordings("pi"):
        built = History()
        built.entries = [
            m for m in read_foreign(path).entries if isinstance(m, BaseMessage)
        ][:250]
        assert violations(raw_run(built)) == [], path


# -- W1 --------------------------------------------------------------------------------------------


def test_w1_a_request_must_fit_the_window() -> None:
    messages = [USER, AssistantMessage(parts=text_parts("Mended.")), USER]
    run = request(*messages)
    assert rules(replace(run, window=length(messages))) == []
    assert rules(replace(run, window=length(messages) - 1)) == ["W1"]


def test_w1_a_summary_request_must_fit_together_with_its_answer() -> None:
    run = run_of(summary_request([USER]))
    window = length([USER]) + 500
    assert rules(replace(run, window=window)) == []
    assert rules(replace(run, window=window - 1)) == ["W1"]


def test_w1_blames_no_strategy_for_a_recorded_answer_longer_than_the_window() -> None:
    built = (
        history()
        .system("s")
        .user("write it")
        .assistant("long " * 3_000, calls=[call("read", path="a")])
    )
    built.result("read").assistant("done")
    run = raw_run(built)
    too_long = length(run.requests[-1].messages) - 1
    assert rules(replace(run, window=too_long)) == []
    early = (
        history()
        .system("s")
        .turn("talk", "long " * 3_000)
        .user("write it")
        .assistant("done")
    )
    run = raw_run(early)
    assert rules(replace(run, window=length(run.requests[-1].messages) - 1)) == ["W1"]


def test_w1_without_a_window_everything_fits() -> None:
    assert rules(request(USER)) == []


# -- P --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "messages",
    [
        [USER, calling(A, B), resulting("a")],
        [USER, calling(A), USER.model_copy(update={"index": 22})],
        [USER, resulting("a")],
        [USER, calling(A), resulting("a"), resulting("a", 22)],
        [USER, calling(A), resulting("a"), calling(text="so"), resulting("a", 22)],
        [USER, calling(text="  ")],
        [MESSAGES[0], calling(text="so")],
        [],
    ],
)
def test_messages_that_a_server_rejects_are_named(
    messages: Sequence[BaseMessage],
) -> None:
    assert rules(request(*messages)) == ["P"]


def test_an_empty_message_is_not_sent() -> None:
    assert rules(request(USER, calling(), calling(A), resulting("a"))) == []


@given(st.sets(st.integers(2, 9), min_size=1))
def test_pairing_is_refused_exactly_if_a_group_is_split(gone: set[int]) -> None:
    groups = [{2, 3, 4}, {5, 6}]
    torn = any(group & gone and not group <= gone for group in groups)
    run = request(*(message for message in MESSAGES if message.index not in gone))
    assert bool(rules(run)) == torn


# -- C3, T1 ----------------------------------------------------------------------------------------


def test_c3_a_pin_must_be_in_every_request_after_it() -> None:
    run = run_with_view(work(), lambda so_far: with_hidden_results(so_far, 3))
    run.session = replace(run.session, pins=frozenset({3}))
    told = [found for found in violations(run) if found.startswith("C3")]
    assert told == [f"C3, request 2 and 2 later: {PIN_CHANGED.format(entry=3)}"]


def test_t1_the_newest_user_message_must_be_in_the_view() -> None:
    run = run_compacted_before(work(), 9, lambda _: [MESSAGES[1], summary("x")])
    assert rules(run) == ["T1"]


def test_t1_the_request_of_a_turn_stays_during_the_turn() -> None:
    def without_request(so_far: Sequence[BaseMessage]) -> Sequence[BaseMessage]:
        other = MESSAGES[8].model_copy(update={"index": 900})
        return [other if message.index == 1 else message for message in so_far]

    told = violations(run_with_view(work(), without_request))
    assert told == [f"T1, request 1 and 2 later: {PROMPT_CHANGED.format(entry=1)}"]


def test_t1_unseen_results_must_be_in_the_view() -> None:
    run = run_compacted_before(work(), 5, lambda so_far: with_hidden_results(so_far, 4))
    assert violations(run)[0] == f"T1, request 2: {RESULT_CHANGED.format(entry=4)}"


def clip_results(so_far: Sequence[BaseMessage]) -> Sequence[BaseMessage]:
    return [
        with_text(message, clip_to_tokens(message.text, 200, message.index))
        if isinstance(message, ToolResultMessage)
        else message
        for message in so_far
    ]


@pytest.mark.parametrize(("window", "broken"), [(100_000, ["T1"]), (4_000, [])])
def test_t1_only_results_that_fill_the_window_may_be_clipped(
    window: int, broken: list[str]
) -> None:
    built = (
        history()
        .user("Go.")
        .step("read", "aaa bbb\n" * 1_000, path="x")
        .assistant("Read.")
    )
    run = replace(run_with_view(built, clip_results), window=window)
    assert rules(run) == broken


# -- K1, T2, E2 ------------------------------------------------------------------------------------


def test_k1_requests_extend_each_other_between_compactions() -> None:
    run = run_with_view(
        work(),
        lambda so_far: with_hidden_results(so_far, *([3] if len(so_far) > 5 else [])),
    )
    assert violations(run) == [f"K1, request 3: {PREFIX_CHANGED.format(number=4)}"]


def test_k1_a_compaction_may_change_the_prefix() -> None:
    assert (
        rules(
            run_compacted_before(
                work(), 7, lambda so_far: with_hidden_results(so_far, 3)
            )
        )
        == []
    )


def test_k1_the_new_prefix_stays_after_a_compaction() -> None:
    run = run_compacted_before(work(), 5, lambda so_far: so_far)
    last = run.requests[-1]
    changed = replace(last, messages=(summary("x"), *last.messages))
    assert rules(replace(run, requests=[*run.requests[:-1], changed])) == ["K1"]


def test_k1_a_summary_request_in_between_is_not_a_step() -> None:
    run = raw_run(work())
    aside = summary_request([USER])
    assert (
        rules(replace(run, requests=[run.requests[0], aside, *run.requests[1:]])) == []
    )


def test_t2_a_compaction_waits_for_the_results_of_the_newest_calls() -> None:
    compacted = run_compacted_before(work(), 9, lambda so_far: so_far[:2])
    before = MESSAGES[:4]
    run = replace(
        raw_run(work()),
        compactions=[
            replace(compacted.compactions[0], before=before, after=before, requests=1)
        ],
    )
    assert violations(run) == [
        f"T2, compaction 1 (after request 1): {RESULT_MISSING.format(entry=4)}"
    ]


def test_t2_a_call_that_never_gets_a_result_does_not_block_a_compaction() -> None:
    built = (
        history().user("Go.").assistant(calls=[A]).user("Stop.").assistant("Stopped.")
    )
    messages = messages_of(built)
    compaction = run_compacted_before(built, 3, lambda _: [messages[2]]).compactions[0]
    run = replace(
        raw_run(built),
        compactions=[
            replace(compaction, before=messages[:2], after=messages[:2], requests=1)
        ],
    )
    assert "T2" not in rules(run)


def test_e2_a_compaction_must_not_make_the_view_longer() -> None:
    run = run_compacted_before(
        work(), 9, lambda so_far: [*so_far[:1], summary("word " * 500), *so_far[1:]]
    )
    assert rules(run) == ["E2"]


# -- reporting --------------------------------------------------------------------------------


def test_a_fault_repeated_by_later_requests_is_reported_once() -> None:
    run = run_with_view(
        work(), lambda so_far: [*so_far[:1], resulting("lost"), *so_far[1:]]
    )
    assert violations(run) == [
        f"P, request 1 and 3 later: {ANSWERS_NO_CALL.format(21)}"
    ]
