"""Recall: the share of what the recordings assistant used next that each request would contain."""

import random
from collections.abc import Sequence
from dataclasses import replace
from math import sqrt

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foldline.memory.clip import clip_to_tokens
from foldline.protocol import AssistantMessage, BaseMessage, ToolResultMessage
from foldline.view.items import with_text
from foldline_eval.recall import (
    LONG_RANGE,
    Atom,
    NeedCounts,
    Needs,
    RecallFigures,
    recall,
)
from foldline_eval.record import ReplayRun
from support.evaluation import (
    length,
    messages_of,
    raw_run,
    run_compacted_before,
    run_with_view,
    summary,
    with_hidden_results,
)
from support.history import History, call, history
from support.limits import examples
from support.pi_messages import pi_messages
from support.recordings import needs_recorded, recordings

FACT = "compute_total_of_orders"


def reading(padding: int = 0) -> History:
    """Read a file (entry 3), do other work, then use the name from the file in the last answer."""
    built = history().system("You are careful.").user("Mend the retry.")
    built.step(
        "read", f"def {FACT}(orders):\n" + "# more\n" * 200, path="src/orders.py"
    )
    built.step("bash", "ok\n" * padding, command="true")
    return built.assistant(f"It is `{FACT}`.")


def recall_of(run: ReplayRun, built: History) -> RecallFigures:
    return recall(run, Needs(messages_of(built)))


def empty_view(so_far: Sequence[BaseMessage]) -> Sequence[BaseMessage]:
    return ()


# -- needs -----------------------------------------------------------------------------------------


def test_a_need_is_an_atom_an_answer_used_from_earlier_in_the_session() -> None:
    built = reading()
    built.assistant("Not `never_seen_before`.")
    used = {(need.step, need.atom) for need in Needs(messages_of(built)).all}
    assert used == {(6, Atom("identifier", FACT))}


def test_the_source_is_the_newest_message_with_the_atom() -> None:
    built = reading().user(f"Then rename {FACT}.").assistant(f"`{FACT}` is renamed.")
    newest = Needs(messages_of(built)).by_step[8]
    assert [need.source.index for need in newest] == [7]


def test_a_mention_in_another_form_counts() -> None:
    built = (
        history()
        .user("Read /home/ann/shop/src/api.py")
        .assistant("Which?")
        .user("src/api.py, I mean.")
    )
    built.assistant("So /home/ann/shop/src/api.py it is.")
    [need] = Needs(messages_of(built)).all
    assert need.source.index == 2


def test_the_distance_is_the_text_since_the_last_mention() -> None:
    built = reading(padding=1_000)
    [need] = Needs(messages_of(built)).all
    assert need.distance == length(messages_of(built)[4:6])


def test_needs_belong_to_the_session_not_to_a_run() -> None:
    built = reading()
    known = Needs(messages_of(built))
    before = [(need.step, need.atom) for need in known.all]
    recall(run_with_view(built, empty_view), known)
    assert [(need.step, need.atom) for need in known.all] == before


# -- recall ----------------------------------------------------------------------------------------


def test_the_whole_history_meets_every_need() -> None:
    assert recall_of(raw_run(reading()), reading()).grounded == 1


def test_an_empty_view_meets_no_need() -> None:
    found = recall_of(run_with_view(reading(), empty_view), reading())
    assert (found.grounded, found.all) == (0, NeedCounts(lost=1))


def test_recall_is_undefined_without_needs() -> None:
    built = history().user("Hello.").assistant("Hello.")
    assert recall_of(raw_run(built), built).grounded is None


def test_a_summary_with_the_atom_meets_the_need() -> None:
    run = run_with_view(
        reading(), lambda so_far: [summary(f"The file has {FACT}."), *so_far[4:]]
    )
    assert recall_of(run, reading()).grounded == 1


def test_only_distant_needs_are_long_range() -> None:
    near = reading(padding=1_000)
    far = reading(padding=2 * LONG_RANGE)
    assert recall_of(raw_run(near), near).long_range.needs == 0
    assert recall_of(raw_run(far), far).long_range.needs == 1


def test_the_denominator_does_not_depend_on_the_view() -> None:
    built = reading(padding=2 * LONG_RANGE)
    full, empty = (
        recall_of(run, built)
        for run in (raw_run(built), run_with_view(built, empty_view))
    )
    assert (full.all.needs, full.long_range.needs) == (
        empty.all.needs,
        empty.long_range.needs,
    )


@settings(max_examples=examples(20))
@given(st.floats(0.05, 0.95), st.integers(0, 10_000))
def test_a_view_that_keeps_each_atom_with_a_probability_has_that_recall(
    chance: float, seed: int
) -> None:
    dice = random.Random(seed)
    names = [f"compute_value_{number}" for number in range(400)]
    built = (
        history()
        .user("Go.")
        .step("read", "\n".join(names), path="x")
        .assistant(" ".join(names))
    )
    kept = summary("\n".join(name for name in names if dice.random() < chance))
    found = recall_of(run_with_view(built, lambda _: [kept]), built)
    assert found.grounded == pytest.approx(
        chance, abs=5 * sqrt(chance * (1 - chance) / len(names))
    )


@given(st.lists(st.sets(st.integers(0, 4)), min_size=5, max_size=5))
def test_unrelated_successive_views_are_measured_by_their_own_content(
    shown: list[set[int]],
) -> None:
    names = [f"compute_value_{number}" for number in range(5)]
    built = history().user("Go.")
    for name in names:
        built.assistant(f"Here is {name}.")
    for _ in shown:
        built.assistant("Now " + " ".join(names))
    messages = messages_of(built)
    views = [[messages[number + 1] for number in sorted(view)] for view in shown]
    run = raw_run(built)
    steps = [
        replace(request, messages=tuple(view))
        for request, view in zip(run.requests[-5:], views, strict=True)
    ]
    found = recall_of(replace(run, requests=steps), built)
    assert found.all["retained"] == sum(map(len, shown))
    assert found.all.needs == 25


# -- three states ----------------------------------------------------------------------------------


def test_content_behind_a_placeholder_is_recoverable() -> None:
    run = run_with_view(reading(), lambda so_far: with_hidden_results(so_far, 3))
    assert recall_of(run, reading()).all == NeedCounts(recoverable=1)


def test_content_omitted_by_a_clip_is_recoverable() -> None:
    def clipped(so_far: Sequence[BaseMessage]) -> Sequence[BaseMessage]:
        return [
            with_text(message, clip_to_tokens("x" * 9_000, 100, message.index))
            if isinstance(message, ToolResultMessage) and message.index == 3
            else message
            for message in so_far
        ]

    assert recall_of(run_with_view(reading(), clipped), reading()).all == NeedCounts(
        recoverable=1
    )


def test_a_placeholder_of_another_entry_does_not_make_it_recoverable() -> None:
    run = run_with_view(
        reading(padding=500), lambda so_far: with_hidden_results(so_far[4:], 5)
    )
    assert recall_of(run, reading(padding=500)).all == NeedCounts(lost=1)


def test_a_summary_that_names_a_handle_does_not_make_it_recoverable() -> None:
    run = run_with_view(reading(), lambda _: [summary("history_read(3) has more.")])
    assert recall_of(run, reading()).all == NeedCounts(lost=1)


def test_a_handle_in_the_recorded_text_does_not_make_it_recoverable() -> None:
    built = (
        reading()
        .step("bash", "use history_read(3)\n" * 300, command="cat notes")
        .assistant(f"`{FACT}`")
    )

    def clipped(so_far: Sequence[BaseMessage]) -> Sequence[BaseMessage]:
        return [
            with_text(message, clip_to_tokens(message.text, 100, message.index))
            if isinstance(message, ToolResultMessage)
            else message
            for message in so_far
            if message.index not in (3, 6)
        ]

    assert recall_of(run_with_view(built, clipped), built).all == NeedCounts(lost=2)


def test_the_three_states_sum_to_one() -> None:
    tally = NeedCounts(retained=3, recoverable=2, lost=5)
    assert sum(
        tally.ratio(state).value or 0 for state in ("retained", "recoverable", "lost")
    ) == pytest.approx(1)


# -- refetch debt ----------------------------------------------------------------------------------


def two_uses() -> History:
    """Build answers 3 and 4 that use two names of the file in entry 2."""
    built = (
        history()
        .user("Go.")
        .step("read", f"{FACT} other_name\n" + "# more\n" * 200, path="x")
    )
    return built.assistant(f"`{FACT}`, then").assistant("`other_name`")


def without_the_file(so_far: Sequence[BaseMessage]) -> Sequence[BaseMessage]:
    return [message for message in so_far if message.index != 2]


def test_a_missing_atom_costs_rereading_its_source() -> None:
    found = recall_of(
        run_with_view(reading(), lambda so_far: [m for m in so_far if m.index != 3]),
        reading(),
    )
    assert (found.refetch_calls, found.refetch_tokens) == (
        1,
        length([messages_of(reading())[3]]),
    )


def test_content_behind_a_placeholder_must_also_be_reread() -> None:
    assert (
        recall_of(
            run_with_view(reading(), lambda so_far: with_hidden_results(so_far, 3)),
            reading(),
        ).refetch_calls
        == 1
    )


def test_two_atoms_of_one_message_are_reread_once() -> None:
    found = recall_of(run_with_view(two_uses(), without_the_file), two_uses())
    assert (found.all["lost"], found.refetch_calls) == (2, 1)


def test_a_source_is_reread_after_another_compaction() -> None:
    compacted = run_compacted_before(two_uses(), 4, without_the_file).compactions
    run = replace(run_with_view(two_uses(), without_the_file), compactions=compacted)
    assert recall_of(run, two_uses()).refetch_calls == 2


def test_present_content_costs_nothing() -> None:
    assert recall_of(raw_run(two_uses()), two_uses()).refetch_tokens == 0


# -- matching requests with answers ------------------------------------------------------------


def test_the_last_request_of_a_retried_step_counts() -> None:
    run = raw_run(reading())
    refused = replace(run.requests[-1], messages=())
    assert (
        recall_of(
            replace(run, requests=[*run.requests[:-1], refused, run.requests[-1]]),
            reading(),
        ).grounded
        == 1
    )


def test_summary_requests_are_not_steps() -> None:
    run = raw_run(reading())
    aside = replace(run.requests[-1], kind="summary", messages=())
    assert (
        recall_of(replace(run, requests=[*run.requests, aside]), reading()).all.needs
        == 1
    )


def test_copies_with_other_usage_count_as_the_same_messages() -> None:
    built = (
        history()
        .user("Go.")
        .assistant(f"`{FACT}`", calls=[call("read", path="x")])
        .result()
        .assistant(FACT)
    )

    def copied(so_far: Sequence[BaseMessage]) -> Sequence[BaseMessage]:
        return [
            m.model_copy(update={"model": "m"})
            if isinstance(m, AssistantMessage)
            else m
            for m in so_far
        ]

    assert recall_of(run_with_view(built, copied), built).grounded == 1


@pytest.mark.slow
@needs_recorded
def test_recorded_sessions_have_full_recall_of_themselves() -> None:
    for path in recordings("pi"):
        messages = tuple(pi_messages(path))[:160]
        built = History()
        built.entries = list(messages)
        found = recall_of(raw_run(built), built)
        assert found.grounded == 1, path
        assert found.all.needs > 40, path
