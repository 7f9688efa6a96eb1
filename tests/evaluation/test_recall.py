"""Of what the recorded assistant used next, how much each request would have held."""

import random
from collections.abc import Sequence
from dataclasses import replace
from math import sqrt

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foldline.context.clip import clip_to_tokens
from foldline.context.view import with_text
from foldline.evaluation.recall import Atom, Recall, Tally, needs, recall
from foldline.evaluation.record import Run
from foldline.protocol import AssistantMessage, BaseMessage, ToolResultMessage
from support.evaluation import METER, answered, folded_before, hidden, length, messages_of, raw, summary
from support.history import History, call, history
from support.limits import examples
from support.pi_messages import pi_messages
from support.recorded import needs_recorded, recorded

FACT = "compute_total_of_orders"


def reading(padding: int = 0) -> History:
    """A file is read (entry 3), other work follows, then the name it told is used in the last answer."""
    built = history().system("You are careful.").user("Mend the retry.")
    built.step("read", f"def {FACT}(orders):\n" + "# more\n" * 200, path="src/orders.py")
    built.step("bash", "ok\n" * padding, command="true")
    return built.assistant(f"It is `{FACT}`.")


def measured(run: Run, built: History, **options: int) -> Recall:
    return recall(run, needs(messages_of(built), METER), **options)


def nothing(so_far: Sequence[BaseMessage]) -> Sequence[BaseMessage]:
    return ()


# -- needs -----------------------------------------------------------------------------------------


def test_a_need_is_what_an_answer_used_and_the_session_had_said() -> None:
    built = reading()
    built.assistant("Not `never_seen_before`.")
    used = {(need.step, need.atom) for need in needs(messages_of(built), METER).all}
    assert used == {(6, Atom("identifier", FACT))}


def test_the_source_is_the_newest_message_that_says_it() -> None:
    built = reading().user(f"Then rename {FACT}.").assistant(f"`{FACT}` is renamed.")
    newest = needs(messages_of(built), METER).by_step[8]
    assert [need.source.index for need in newest] == [7]


def test_a_mention_in_another_form_is_one_too() -> None:
    built = history().user("Read /home/ann/shop/src/api.py").assistant("Which?").user("src/api.py, I mean.")
    built.assistant("So /home/ann/shop/src/api.py it is.")
    [need] = needs(messages_of(built), METER).all
    assert need.source.index == 2


def test_the_distance_is_what_was_said_since_the_last_mention() -> None:
    built = reading(padding=1_000)
    [need] = needs(messages_of(built), METER).all
    assert need.distance == length(messages_of(built)[4:6])


def test_needs_are_those_of_the_session_not_of_a_run() -> None:
    built = reading()
    known = needs(messages_of(built), METER)
    before = [(need.step, need.atom) for need in known.all]
    recall(answered(built, nothing), known)
    assert [(need.step, need.atom) for need in known.all] == before


# -- recall ----------------------------------------------------------------------------------------


def test_the_whole_history_holds_all_that_is_needed() -> None:
    assert measured(raw(reading()), reading()).grounded == 1


def test_an_empty_view_holds_nothing() -> None:
    found = measured(answered(reading(), nothing), reading())
    assert (found.grounded, found.all) == (0, Tally(lost=1))


def test_where_nothing_is_needed_there_is_no_share() -> None:
    built = history().user("Hello.").assistant("Hello.")
    assert measured(raw(built), built).grounded is None


def test_a_summary_that_says_it_holds_it() -> None:
    run = answered(reading(), lambda so_far: [summary(f"The file has {FACT}."), *so_far[4:]])
    assert measured(run, reading()).grounded == 1


def test_only_needs_from_far_back_are_long_range() -> None:
    built = reading(padding=1_000)
    assert measured(raw(built), built, long_range=100).long_range.needs == 1
    assert measured(raw(built), built, long_range=100_000).long_range.needs == 0


def test_the_denominator_does_not_depend_on_the_view() -> None:
    built = reading(padding=1_000)
    full, empty = (measured(run, built, long_range=100) for run in (raw(built), answered(built, nothing)))
    assert (full.all.needs, full.long_range.needs) == (empty.all.needs, empty.long_range.needs)


@settings(max_examples=examples(20))
@given(st.floats(0.05, 0.95), st.integers(0, 10_000))
def test_a_view_that_keeps_each_thing_with_a_chance_measures_that_chance(chance: float, seed: int) -> None:
    dice = random.Random(seed)
    names = [f"compute_value_{number}" for number in range(400)]
    built = history().user("Go.").step("read", "\n".join(names), path="x").assistant(" ".join(names))
    kept = summary("\n".join(name for name in names if dice.random() < chance))
    found = measured(answered(built, lambda _: [kept]), built)
    assert found.grounded == pytest.approx(chance, abs=5 * sqrt(chance * (1 - chance) / len(names)))


@given(st.lists(st.sets(st.integers(0, 4)), min_size=5, max_size=5))
def test_views_that_jump_about_are_held_against_what_they_say_themselves(shown: list[set[int]]) -> None:
    names = [f"compute_value_{number}" for number in range(5)]
    built = history().user("Go.")
    for name in names:
        built.assistant(f"Here is {name}.")
    for _ in shown:
        built.assistant("Now " + " ".join(names))
    messages = messages_of(built)
    views = [[messages[number + 1] for number in sorted(view)] for view in shown]
    run = raw(built)
    steps = [
        replace(request, messages=tuple(view)) for request, view in zip(run.requests[-5:], views, strict=True)
    ]
    found = measured(replace(run, requests=tuple(steps)), built)
    assert found.all["retained"] == sum(map(len, shown))
    assert found.all.needs == 25


# -- three states ----------------------------------------------------------------------------------


def test_what_a_stub_leads_to_is_recoverable() -> None:
    run = answered(reading(), lambda so_far: hidden(so_far, 3))
    assert measured(run, reading()).all == Tally(recoverable=1)


def test_what_a_clip_left_out_is_recoverable() -> None:
    def clipped(so_far: Sequence[BaseMessage]) -> Sequence[BaseMessage]:
        return [
            with_text(message, clip_to_tokens("x" * 9_000, 100, message.index))
            if isinstance(message, ToolResultMessage) and message.index == 3
            else message
            for message in so_far
        ]

    assert measured(answered(reading(), clipped), reading()).all == Tally(recoverable=1)


def test_a_stub_of_another_entry_does_not_make_it_recoverable() -> None:
    run = answered(reading(padding=500), lambda so_far: hidden(so_far[4:], 5))
    assert measured(run, reading(padding=500)).all == Tally(lost=1)


def test_a_summary_that_names_a_handle_does_not_make_it_recoverable() -> None:
    run = answered(reading(), lambda _: [summary("history_read(3) has more.")])
    assert measured(run, reading()).all == Tally(lost=1)


def test_a_handle_in_the_recorded_text_itself_leads_nowhere() -> None:
    built = reading().step("bash", "use history_read(3)\n" * 300, command="cat notes").assistant(f"`{FACT}`")

    def clipped(so_far: Sequence[BaseMessage]) -> Sequence[BaseMessage]:
        return [
            with_text(message, clip_to_tokens(message.text, 100, message.index))
            if isinstance(message, ToolResultMessage)
            else message
            for message in so_far
            if message.index not in (3, 6)
        ]

    assert measured(answered(built, clipped), built).all == Tally(lost=2)


def test_the_three_states_sum_to_one() -> None:
    tally = Tally(retained=3, recoverable=2, lost=5)
    assert sum(tally.share(state) or 0 for state in ("retained", "recoverable", "lost")) == pytest.approx(1)


# -- refetch debt ----------------------------------------------------------------------------------


def two_uses() -> History:
    """Two names of the file in entry 2, used by the answers 3 and 4."""
    built = history().user("Go.").step("read", f"{FACT} other_name\n" + "# more\n" * 200, path="x")
    return built.assistant(f"`{FACT}`, then").assistant("`other_name`")


def without_the_file(so_far: Sequence[BaseMessage]) -> Sequence[BaseMessage]:
    return [message for message in so_far if message.index != 2]


def test_a_missing_thing_costs_its_source_to_read_again() -> None:
    found = measured(answered(reading(), lambda so_far: [m for m in so_far if m.index != 3]), reading())
    assert (found.refetch_calls, found.refetch_tokens) == (1, length([messages_of(reading())[3]]))


def test_what_only_a_stub_leads_to_must_be_read_again_too() -> None:
    assert measured(answered(reading(), lambda so_far: hidden(so_far, 3)), reading()).refetch_calls == 1


def test_two_things_of_one_message_are_read_again_once() -> None:
    found = measured(answered(two_uses(), without_the_file), two_uses())
    assert (found.all["lost"], found.refetch_calls) == (2, 1)


def test_after_another_fold_it_is_read_again() -> None:
    folded = folded_before(two_uses(), 4, without_the_file).compactions
    run = replace(answered(two_uses(), without_the_file), compactions=folded)
    assert measured(run, two_uses()).refetch_calls == 2


def test_what_is_there_costs_nothing() -> None:
    assert measured(raw(two_uses()), two_uses()).refetch_tokens == 0


# -- which request belongs to an answer ------------------------------------------------------------


def test_of_a_step_that_was_sent_again_the_last_request_counts() -> None:
    run = raw(reading())
    refused = replace(run.requests[-1], messages=())
    assert (
        measured(replace(run, requests=(*run.requests[:-1], refused, run.requests[-1])), reading()).grounded
        == 1
    )


def test_summary_requests_are_no_steps() -> None:
    run = raw(reading())
    aside = replace(run.requests[-1], kind="summary", messages=())
    assert measured(replace(run, requests=(*run.requests, aside)), reading()).all.needs == 1


def test_copies_with_other_usage_are_the_same_messages() -> None:
    built = (
        history().user("Go.").assistant(f"`{FACT}`", calls=[call("read", path="x")]).result().assistant(FACT)
    )

    def copied(so_far: Sequence[BaseMessage]) -> Sequence[BaseMessage]:
        return [m.model_copy(update={"model": "m"}) if isinstance(m, AssistantMessage) else m for m in so_far]

    assert measured(answered(built, copied), built).grounded == 1


@needs_recorded
def test_recorded_sessions_are_recalled_whole_by_themselves() -> None:
    for path in recorded("pi"):
        messages = tuple(pi_messages(path))[:160]
        built = History()
        built.entries = list(messages)
        found = measured(raw(built), built)
        assert found.grounded == 1, path
        assert found.all.needs > 40, path
