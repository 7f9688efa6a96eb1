"""Each rule is broken on purpose, and only that rule is named; what is valid breaks none."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foldline.context.clip import clip_to_tokens
from foldline.context.view import with_text
from foldline.evaluation.record import Run
from foldline.evaluation.safety import violations
from foldline.formats import read_foreign
from foldline.protocol import AssistantMessage, BaseMessage, ToolCallPart, ToolResultMessage, text_parts
from support.evaluation import (
    METER,
    answered,
    folded_before,
    hidden,
    length,
    messages_of,
    raw,
    run_of,
    sent,
    summary,
    summary_request,
)
from support.history import History, call, history
from support.recorded import needs_recorded, recorded


def work() -> History:
    """0 is the prompt, 1 a request, 2 two calls with results 3 and 4, 5 one with result 6, 7 an answer; 8 is
    the next request and 9 its answer."""
    built = history().system("You are careful.").user("Mend the retry.")
    built.assistant(calls=[call("read", path="a.py"), call("read", path="b.py")]).result(
        "aaa\n" * 100
    ).result("bbb")
    built.step("bash", "31 passed", command="pytest").assistant("Mended.")
    return built.user("Thanks. Release it.").assistant("Released.")


def rules(run: Run) -> list[str]:
    """The rules that are broken, in order, none twice."""
    return list(dict.fromkeys(found.split(",")[0] for found in violations(run, METER)))


def request(*messages: BaseMessage) -> Run:
    """A run of one request that answers nothing recorded: only its own messages are looked at."""
    return run_of(sent(messages))


MESSAGES = messages_of(work())
USER = MESSAGES[1]


def calling(*calls: ToolCallPart, text: str = "") -> AssistantMessage:
    return AssistantMessage(index=20, parts=(*text_parts(text), *calls))


def resulting(call_id: str, index: int = 21) -> ToolResultMessage:
    return ToolResultMessage(index=index, call_id=call_id, name="read", parts=text_parts("aaa"))


A = call("read", call_id="a", path="a.py")
B = call("read", call_id="b", path="b.py")


# -- what is valid ---------------------------------------------------------------------------------


def test_the_whole_history_breaks_no_rule() -> None:
    assert violations(raw(work()), METER) == []


def test_a_fold_into_a_summary_breaks_no_rule() -> None:
    run = folded_before(work(), 9, lambda so_far: [so_far[0], summary("x"), so_far[-1]])
    assert violations(run, METER) == []


def test_hiding_results_that_were_seen_breaks_no_rule() -> None:
    assert violations(folded_before(work(), 9, lambda so_far: hidden(so_far, 3)), METER) == []


@needs_recorded
def test_recorded_sessions_are_valid_as_they_are() -> None:
    for path in recorded("pi"):
        built = History()
        built.entries = [m for m in read_foreign(path).entries if isinstance(m, BaseMessage)][:250]
        assert violations(raw(built), METER) == [], path


# -- W1 --------------------------------------------------------------------------------------------


def test_w1_a_request_must_fit_the_window() -> None:
    run = request(USER)
    assert rules(replace(run, window=length([USER]))) == []
    assert rules(replace(run, window=length([USER]) - 1)) == ["W1"]


def test_w1_a_summary_request_must_fit_with_what_it_wrote() -> None:
    run = run_of(summary_request([USER]))
    window = length([USER]) + 500
    assert rules(replace(run, window=window)) == []
    assert rules(replace(run, window=window - 1)) == ["W1"]


def test_w1_blames_no_strategy_for_a_recorded_answer_longer_than_the_window() -> None:
    built = history().system("s").user("write it").assistant("long " * 3_000, calls=[call("read", path="a")])
    built.result("read").assistant("done")
    run = raw(built)
    too_long = length(run.requests[-1].messages) - 1
    assert rules(replace(run, window=too_long)) == []
    early = history().system("s").turn("talk", "long " * 3_000).user("write it").assistant("done")
    run = raw(early)
    assert rules(replace(run, window=length(run.requests[-1].messages) - 1)) == ["W1"]


def test_w1_without_a_window_everything_fits() -> None:
    assert rules(request(USER)) == []


# -- P1 to P7 --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "messages"),
    [
        ("P1", [USER, calling(A, B), resulting("a")]),
        ("P1", [USER, calling(A), USER.model_copy(update={"index": 22})]),
        ("P2", [USER, resulting("a")]),
        ("P2", [USER, calling(A), resulting("a"), resulting("a", 22)]),
        ("P2", [USER, calling(A), resulting("a"), calling(text="so"), resulting("a", 22)]),
        ("P3", [USER, calling(A, A), resulting("a"), resulting("a", 22)]),
        ("P6", [USER, calling(text="  ")]),
        ("P7", [MESSAGES[0], calling(text="so")]),
        ("P7", []),
    ],
)
def test_pairing_rules_are_named(rule: str, messages: Sequence[BaseMessage]) -> None:
    assert rules(request(*messages)) == [rule]


def test_a_result_after_a_message_between_breaks_both_sides() -> None:
    run = request(USER, calling(A), USER.model_copy(update={"index": 22}), resulting("a"))
    assert rules(run) == ["P1", "P2"]


def test_a_message_with_nothing_to_say_is_not_sent() -> None:
    assert rules(request(USER, calling(), calling(A), resulting("a"))) == []


@given(st.sets(st.integers(2, 9), min_size=1))
def test_pairing_is_refused_exactly_where_a_group_is_torn(gone: set[int]) -> None:
    groups = [{2, 3, 4}, {5, 6}]
    torn = any(group & gone and not group <= gone for group in groups)
    run = request(*(message for message in MESSAGES if message.index not in gone))
    assert bool(rules(run)) == torn


# -- C3, T1 ----------------------------------------------------------------------------------------


def test_c3_a_pin_must_be_in_every_request_after_it() -> None:
    run = replace(answered(work(), lambda so_far: hidden(so_far, 3)), pins=frozenset({3}))
    told = [found for found in violations(run, METER) if found.startswith("C3")]
    assert told == ["C3, request 2 and 2 later ones: pinned entry 3 is not there word for word"]


def test_t1_the_newest_user_message_must_be_there() -> None:
    run = folded_before(work(), 9, lambda _: [MESSAGES[1], summary("x")])
    assert rules(run) == ["T1"]


def test_t1_the_request_of_a_turn_stays_while_the_turn_goes_on() -> None:
    def without_request(so_far: Sequence[BaseMessage]) -> Sequence[BaseMessage]:
        other = MESSAGES[8].model_copy(update={"index": 900})
        return [other if message.index == 1 else message for message in so_far]

    told = violations(answered(work(), without_request), METER)
    assert told == ["T1, request 1 and 2 later ones: the user message in entry 1 is not there word for word"]


def test_t1_fresh_results_must_be_there() -> None:
    run = folded_before(work(), 5, lambda so_far: hidden(so_far, 4))
    assert violations(run, METER)[0] == "T1, request 2: fresh entry 4 is not there word for word"


def clipped(so_far: Sequence[BaseMessage]) -> Sequence[BaseMessage]:
    return [
        with_text(message, clip_to_tokens(message.text, 200, message.index))
        if isinstance(message, ToolResultMessage)
        else message
        for message in so_far
    ]


@pytest.mark.parametrize(("window", "broken"), [(100_000, ["T1"]), (4_000, [])])
def test_t1_only_results_that_fill_the_window_may_be_clipped(window: int, broken: list[str]) -> None:
    built = history().user("Go.").step("read", "aaa bbb\n" * 1_000, path="x").assistant("Read.")
    run = replace(answered(built, clipped), window=window)
    assert rules(run) == broken


# -- K1, T2, E2 ------------------------------------------------------------------------------------


def test_k1_between_folds_requests_go_on_from_each_other() -> None:
    run = answered(work(), lambda so_far: hidden(so_far, *([3] if len(so_far) > 5 else [])))
    assert violations(run, METER) == [
        "K1, request 3: it does not go on from the step before: message 4 is another"
    ]


def test_k1_a_fold_may_change_the_prefix() -> None:
    assert rules(folded_before(work(), 7, lambda so_far: hidden(so_far, 3))) == []


def test_k1_after_a_fold_the_new_prefix_stays() -> None:
    run = folded_before(work(), 5, lambda so_far: so_far)
    last = run.requests[-1]
    changed = replace(last, messages=(summary("x"), *last.messages))
    assert rules(replace(run, requests=(*run.requests[:-1], changed))) == ["K1"]


def test_k1_a_summary_request_between_is_no_step() -> None:
    run = raw(work())
    aside = summary_request([USER])
    assert rules(replace(run, requests=(run.requests[0], aside, *run.requests[1:]))) == []


def test_t2_a_fold_waits_for_the_results_of_the_newest_calls() -> None:
    folded = folded_before(work(), 9, lambda so_far: so_far[:2])
    before = MESSAGES[:4]
    run = replace(
        raw(work()), compactions=(replace(folded.compactions[0], before=before, after=before, requests=1),)
    )
    assert violations(run, METER) == [
        "T2, compaction 1 (after request 1): entry 4 was still to come for the calls before it"
    ]


def test_t2_a_call_that_never_got_a_result_keeps_no_fold_waiting() -> None:
    built = history().user("Go.").assistant(calls=[A]).user("Stop.").assistant("Stopped.")
    messages = messages_of(built)
    fold = folded_before(built, 3, lambda _: [messages[2]]).compactions[0]
    run = replace(
        raw(built), compactions=(replace(fold, before=messages[:2], after=messages[:2], requests=1),)
    )
    assert "T2" not in rules(run)


def test_e2_a_fold_must_not_make_the_view_longer() -> None:
    run = folded_before(work(), 9, lambda so_far: [*so_far[:1], summary("word " * 500), *so_far[1:]])
    assert rules(run) == ["E2"]


# -- how it is told --------------------------------------------------------------------------------


def test_what_later_requests_repeat_is_told_once() -> None:
    run = answered(work(), lambda so_far: [*so_far[:1], resulting("lost"), *so_far[1:]])
    assert violations(run, METER) == [
        "P2, request 1 and 3 later ones: the result in entry 21 answers no open call"
    ]
