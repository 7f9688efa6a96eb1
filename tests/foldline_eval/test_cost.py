"""The cost of requests under a model of the prompt cache, and the break-even of a compaction."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foldline.protocol import (
    AssistantMessage,
    BaseMessage,
    SystemMessage,
    UserMessage,
    text_parts,
)
from foldline_eval.cost import (
    OPENAI_CACHE,
    RHO_SWEEP,
    Cost,
    PromptCache,
    churn,
    cost,
    elongation_tolerance,
)
from foldline_eval.record import SentRequest
from support.evaluation import (
    length,
    messages_of,
    raw_run,
    run_of,
    sent,
    summary_request,
)
from support.history import history

EXACT = PromptCache(granularity=1, minimum=0)
FINE = PromptCache(granularity=64, minimum=64)
"""As DeepSeek's cache."""
PROMPT = SystemMessage(index=0, parts=text_parts("You are careful. " * 200))
REQUEST = UserMessage(index=1, parts=text_parts("Mend the retry. " * 200))
ANSWER = AssistantMessage(index=2, parts=text_parts("It is mended. " * 200))


def cost_of(*requests: SentRequest, cache: PromptCache = EXACT, tools: int = 0) -> Cost:
    return cost(run_of(*requests), cache, tools=tools)


# -- the prompt cache ------------------------------------------------------------------------------


@given(st.integers(1, 3), st.sampled_from([OPENAI_CACHE, FINE]))
def test_the_same_request_again_has_less_than_one_block_of_fresh_tokens(
    count: int, cache: PromptCache
) -> None:
    messages = (PROMPT, REQUEST, ANSWER)[:count]
    long = (*messages, UserMessage(index=9, parts=text_parts("word " * 6_000)))
    fresh = cost_of(sent(long), sent(long), cache=cache).uncached - length(long)
    assert 0 <= fresh < cache.granularity


def test_a_different_first_message_finds_nothing_in_the_cache() -> None:
    other = PROMPT.model_copy(update={"parts": text_parts("You are bold. " * 200)})
    assert cost_of(sent([PROMPT, REQUEST]), sent([other, REQUEST])).cached == 0


def test_an_extended_request_pays_only_for_its_new_part() -> None:
    found = cost_of(sent([PROMPT, REQUEST]), sent([PROMPT, REQUEST, ANSWER]))
    assert found.uncached == length([PROMPT, REQUEST, ANSWER])


def test_any_earlier_request_can_be_a_cached_prefix() -> None:
    aside = sent([REQUEST])
    found = cost_of(sent([PROMPT, REQUEST]), aside, sent([PROMPT, REQUEST]))
    assert found.cached == length([PROMPT, REQUEST])


def test_equal_messages_of_different_objects_count_as_the_same() -> None:
    again = [message.model_copy(update={"at": None}) for message in (PROMPT, REQUEST)]
    copies = [
        type(message).model_validate_json(message.model_dump_json())
        for message in again
    ]
    assert cost_of(sent([PROMPT, REQUEST]), sent(copies)).cached == length(
        [PROMPT, REQUEST]
    )


def test_a_prefix_unused_for_the_cache_lifetime_is_forgotten() -> None:
    assert cost_of(sent([PROMPT], at=0), sent([PROMPT], at=300)).cached == length(
        [PROMPT]
    )
    assert cost_of(sent([PROMPT], at=0), sent([PROMPT], at=301)).cached == 0


def test_a_cache_without_expiry_contains_only_sent_messages() -> None:
    cache = replace(EXACT, life=float("inf"))
    assert cost_of(
        sent([PROMPT]), sent([PROMPT, REQUEST]), cache=cache, tools=9
    ).uncached == 9 + length([PROMPT, REQUEST])


def test_use_renews_only_the_used_part_of_a_prefix() -> None:
    whole, part = [PROMPT, REQUEST, ANSWER], [PROMPT, REQUEST]
    found = cost_of(sent(whole, at=0), sent(part, at=200), sent(whole, at=400))
    assert found.cached == 2 * length(part)


def test_short_prefixes_are_not_cached_and_longer_ones_in_blocks() -> None:
    cache = PromptCache(granularity=100, minimum=length([PROMPT]) + 1)
    assert cost_of(sent([PROMPT]), sent([PROMPT, REQUEST]), cache=cache).cached == 0
    both = cost_of(
        sent([PROMPT, REQUEST]), sent([PROMPT, REQUEST, ANSWER]), cache=cache
    ).cached
    assert both == length([PROMPT, REQUEST]) // 100 * 100


def test_tools_come_before_all_messages_of_their_requests() -> None:
    found = cost_of(
        sent([PROMPT]), sent([REQUEST]), summary_request([PROMPT]), tools=1_000
    )
    assert found.input == length([PROMPT, REQUEST, PROMPT]) + 2_000
    assert found.cached == 1_000


def test_the_cold_arm_finds_nothing_right_after_a_user_message() -> None:
    cold = replace(EXACT, cold_user_turns=True)
    steps = [
        sent([PROMPT, REQUEST]),
        sent([PROMPT, REQUEST, ANSWER]),
        sent([PROMPT, REQUEST, ANSWER, REQUEST]),
    ]
    assert cost_of(*steps, cache=cold).cached == length([PROMPT, REQUEST])
    assert cost_of(*steps).cached > length([PROMPT, REQUEST])


def _cached_by_comparison(requests: Sequence[SentRequest]) -> int:
    """Return tokens found in a cache without expiry, comparing each request with all earlier ones."""
    found = 0
    for place, later in enumerate(requests):
        shared = [
            _shared(earlier.messages, later.messages) for earlier in requests[:place]
        ]
        found += length(later.messages[: max(shared, default=0)])
    return found


def _shared(earlier: Sequence[BaseMessage], later: Sequence[BaseMessage]) -> int:
    pairs = zip(earlier, later, strict=False)
    return next(
        (at for at, (a, b) in enumerate(pairs) if a != b), min(len(earlier), len(later))
    )


@given(
    st.lists(
        st.lists(st.sampled_from([PROMPT, REQUEST, ANSWER]), max_size=5), max_size=8
    )
)
def test_the_prefix_tree_equals_comparing_all_pairs(
    views: list[list[BaseMessage]],
) -> None:
    requests = [sent(view) for view in views]
    assert cost_of(*requests).cached == _cached_by_comparison(requests)


# -- figures ---------------------------------------------------------------------------------------


def test_a_run_counts_its_requests_and_tokens() -> None:
    found = cost_of(sent([PROMPT]), summary_request([PROMPT, REQUEST]), sent([REQUEST]))
    assert (found.calls, found.aux, found.steps, found.output) == (3, 1, 2, 700)
    assert found.peak == length([PROMPT, REQUEST])
    assert found.cached + found.uncached == found.input


def test_a_run_without_requests_has_no_rates() -> None:
    nothing = cost_of()
    assert (nothing.input, nothing.peak, nothing.hit_rate) == (0, 0, None)


COST = Cost(
    input=1_000_000, uncached=200_000, output=10_000, calls=110, aux=10, peak=20_000
)


def test_cost_in_fresh_input_is_the_sum_of_its_three_prices() -> None:
    assert COST.equivalent(0.1) == pytest.approx(200_000 + 80_000 + 50_000)


def test_fresh_and_cached_tokens_are_equal_without_a_cache_discount() -> None:
    assert replace(COST, output=0).equivalent(1) == COST.input
    swept = [COST.equivalent(rho) for rho in RHO_SWEEP]
    assert swept == sorted(swept, reverse=True)


def test_churn_is_the_multiple_of_uncached_tokens() -> None:
    assert churn(COST, replace(COST, uncached=50_000)) == 4
    assert churn(COST, replace(COST, uncached=0)) is None


def test_the_tolerance_is_the_saving_in_steps_of_mean_cost() -> None:
    silent = replace(COST, output=0)
    assert elongation_tolerance(
        silent, replace(silent, input=1_200_000), 1
    ) == pytest.approx(20)
    assert elongation_tolerance(
        silent, replace(silent, input=900_000), 1
    ) == pytest.approx(-10)


def test_hiding_one_more_result_per_call_costs_more_fresh_tokens_than_waiting() -> None:
    built = history().system("You are careful.").user("Read all.")
    for number in range(30):
        built.step("read", f"line {number}\n" * 300, path=f"src/{number}.py")
    going_on = raw_run(built)
    sliding = [
        replace(request, messages=_last(request.messages))
        for request in going_on.requests
    ]
    sliding = [replace(request, tokens=length(request.messages)) for request in sliding]
    more = churn(cost(run_of(*sliding)), cost(going_on))
    assert more is not None
    assert more > 2
    assert len(messages_of(built)) == 62


def _last(messages: Sequence[BaseMessage]) -> tuple[BaseMessage, ...]:
    return tuple(messages[:2]) + tuple(messages[2:][-6:])
