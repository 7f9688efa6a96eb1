"""What requests cost under a model of the prompt cache, and when a fold has paid for itself."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foldline.evaluation.cost import (
    OPENAI_CACHE,
    RHO_SWEEP,
    Cost,
    PromptCache,
    Rates,
    churn,
    cost,
    elongation_tolerance,
)
from foldline.evaluation.record import Sent
from foldline.llm.models import Price
from foldline.protocol import AssistantMessage, BaseMessage, SystemMessage, UserMessage, text_parts
from support.evaluation import METER, length, messages_of, raw, run_of, sent, summary_request
from support.history import history

EXACT = PromptCache(granularity=1, minimum=0)
FINE = PromptCache(granularity=64, minimum=64)
"""As DeepSeek has it."""
PROMPT = SystemMessage(index=0, parts=text_parts("You are careful. " * 200))
ASKED = UserMessage(index=1, parts=text_parts("Mend the retry. " * 200))
SAID = AssistantMessage(index=2, parts=text_parts("It is mended. " * 200))


def spent(*requests: Sent, cache: PromptCache = EXACT, tools: int = 0) -> Cost:
    return cost(run_of(*requests), METER, cache, tools=tools)


# -- the prompt cache ------------------------------------------------------------------------------


@given(st.integers(1, 3), st.sampled_from([OPENAI_CACHE, FINE]))
def test_the_same_request_again_has_less_than_one_block_of_fresh_tokens(
    count: int, cache: PromptCache
) -> None:
    messages = (PROMPT, ASKED, SAID)[:count]
    long = (*messages, UserMessage(index=9, parts=text_parts("word " * 6_000)))
    fresh = spent(sent(long), sent(long), cache=cache).uncached - length(long)
    assert 0 <= fresh < cache.granularity


def test_another_first_message_finds_nothing_in_the_cache() -> None:
    other = PROMPT.model_copy(update={"parts": text_parts("You are bold. " * 200)})
    assert spent(sent([PROMPT, ASKED]), sent([other, ASKED])).cached == 0


def test_what_goes_on_from_an_earlier_request_pays_only_for_what_is_new() -> None:
    found = spent(sent([PROMPT, ASKED]), sent([PROMPT, ASKED, SAID]))
    assert found.uncached == length([PROMPT, ASKED, SAID])


def test_any_earlier_request_counts_not_only_the_one_before() -> None:
    aside = sent([ASKED])
    found = spent(sent([PROMPT, ASKED]), aside, sent([PROMPT, ASKED]))
    assert found.cached == length([PROMPT, ASKED])


def test_equal_messages_are_one_whatever_object_they_are() -> None:
    again = [message.model_copy(update={"at": None}) for message in (PROMPT, ASKED)]
    copies = [type(message).model_validate_json(message.model_dump_json()) for message in again]
    assert spent(sent([PROMPT, ASKED]), sent(copies)).cached == length([PROMPT, ASKED])


def test_a_prefix_is_forgotten_when_it_was_not_used_for_the_life_of_the_cache() -> None:
    assert spent(sent([PROMPT], at=0), sent([PROMPT], at=300)).cached == length([PROMPT])
    assert spent(sent([PROMPT], at=0), sent([PROMPT], at=301)).cached == 0


def test_a_cache_that_never_forgets_has_nothing_that_was_never_sent() -> None:
    cache = replace(EXACT, life=float("inf"))
    assert spent(sent([PROMPT]), sent([PROMPT, ASKED]), cache=cache, tools=9).uncached == 9 + length(
        [PROMPT, ASKED]
    )


def test_use_keeps_a_prefix_and_only_that_much_of_it() -> None:
    whole, part = [PROMPT, ASKED, SAID], [PROMPT, ASKED]
    found = spent(sent(whole, at=0), sent(part, at=200), sent(whole, at=400))
    assert found.cached == 2 * length(part)


def test_short_prefixes_are_not_cached_and_longer_ones_in_blocks() -> None:
    cache = PromptCache(granularity=100, minimum=length([PROMPT]) + 1)
    assert spent(sent([PROMPT]), sent([PROMPT, ASKED]), cache=cache).cached == 0
    both = spent(sent([PROMPT, ASKED]), sent([PROMPT, ASKED, SAID]), cache=cache).cached
    assert both == length([PROMPT, ASKED]) // 100 * 100


def test_tools_stand_before_all_messages_of_the_requests_that_offer_them() -> None:
    found = spent(sent([PROMPT]), sent([ASKED]), summary_request([PROMPT]), tools=1_000)
    assert found.input == length([PROMPT, ASKED, PROMPT]) + 2_000
    assert found.cached == 1_000


def test_the_cold_arm_finds_nothing_right_after_a_user_message() -> None:
    cold = replace(EXACT, cold_user_turns=True)
    steps = [sent([PROMPT, ASKED]), sent([PROMPT, ASKED, SAID]), sent([PROMPT, ASKED, SAID, ASKED])]
    assert spent(*steps, cache=cold).cached == length([PROMPT, ASKED])
    assert spent(*steps).cached > length([PROMPT, ASKED])


def _by_hand(requests: Sequence[Sent]) -> int:
    """Tokens found in a cache that never forgets, each request held against all before it."""
    found = 0
    for place, later in enumerate(requests):
        shared = [_shared(earlier.messages, later.messages) for earlier in requests[:place]]
        found += length(later.messages[: max(shared, default=0)])
    return found


def _shared(earlier: Sequence[BaseMessage], later: Sequence[BaseMessage]) -> int:
    pairs = zip(earlier, later, strict=False)
    return next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(earlier), len(later)))


@given(st.lists(st.lists(st.sampled_from([PROMPT, ASKED, SAID]), max_size=5), max_size=8))
def test_the_tree_of_prefixes_finds_what_comparing_all_pairs_finds(views: list[list[BaseMessage]]) -> None:
    requests = [sent(view) for view in views]
    assert spent(*requests).cached == _by_hand(requests)


# -- figures ---------------------------------------------------------------------------------------


def test_counts_of_a_run() -> None:
    found = spent(sent([PROMPT]), summary_request([PROMPT, ASKED]), sent([ASKED]))
    assert (found.calls, found.aux, found.steps, found.output) == (3, 1, 2, 700)
    assert found.peak == length([PROMPT, ASKED])
    assert found.cached + found.uncached == found.input


def test_a_run_without_requests_has_no_rates() -> None:
    nothing = spent()
    assert (nothing.input, nothing.peak, nothing.hit_rate) == (0, 0, None)


COST = Cost(input=1_000_000, uncached=200_000, output=10_000, calls=110, aux=10, peak=20_000)


def test_cost_in_fresh_input_is_the_sum_of_its_three_prices() -> None:
    assert COST.equivalent(Rates(rho=0.1, w=1.25, omega=4)) == pytest.approx(250_000 + 80_000 + 40_000)


def test_dollars_are_the_prices_times_the_tokens() -> None:
    price = Price(input=3, cached=0.3, write=1.25, output=15)
    assert COST.dollars(price) == pytest.approx(0.2 * 3 * 1.25 + 0.8 * 0.3 + 0.01 * 15)


def test_what_caches_cost_nothing_less_makes_fresh_and_cached_alike() -> None:
    assert COST.equivalent(Rates(1, 1, 0)) == COST.input
    swept = [COST.equivalent(Rates(rho)) for rho in RHO_SWEEP]
    assert swept == sorted(swept, reverse=True)


def test_churn_is_the_multiple_of_uncached_tokens() -> None:
    assert churn(COST, replace(COST, uncached=50_000)) == 4
    assert churn(COST, replace(COST, uncached=0)) is None


def test_the_tolerance_is_the_saving_in_steps_of_mean_cost() -> None:
    rates = Rates(rho=1, w=1, omega=0)
    assert elongation_tolerance(COST, replace(COST, input=1_200_000), rates) == pytest.approx(20)
    assert elongation_tolerance(COST, replace(COST, input=900_000), rates) == pytest.approx(-10)


def test_hiding_one_result_more_on_every_call_costs_more_fresh_tokens_than_going_on() -> None:
    built = history().system("You are careful.").user("Read all.")
    for number in range(30):
        built.step("read", f"line {number}\n" * 300, path=f"src/{number}.py")
    going_on = raw(built)
    sliding = [replace(request, messages=_last(request.messages)) for request in going_on.requests]
    sliding = [replace(request, tokens=length(request.messages)) for request in sliding]
    more = churn(cost(run_of(*sliding), METER), cost(going_on, METER))
    assert more is not None
    assert more > 2
    assert len(messages_of(built)) == 62


def _last(messages: Sequence[BaseMessage]) -> tuple[BaseMessage, ...]:
    return tuple(messages[:2]) + tuple(messages[2:][-6:])
