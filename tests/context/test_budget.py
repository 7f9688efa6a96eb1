"""Windows from 2k to 2M: their budget, the units of a view, what a history and refusals say of a window."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from foldline.context.budget import (
    LEAST_ANSWER,
    NOTHING_SEEN,
    SMALLEST_WINDOW,
    Budget,
    BudgetSettings,
    Unit,
    WindowProof,
    announced_window,
    budget_for,
    is_overflow,
    silent_overflow,
    units_of,
)
from foldline.protocol import OVERFLOW, Compaction, FoldlineError, NoticeRecord, RequestRecord, Usage
from support.history import History, call, history

windows = st.integers(SMALLEST_WINDOW, 2_000_000)
output_limits = st.none() | st.integers(1, 2_000_000)


@st.composite
def shares(draw: st.DrawFn, window: int) -> int | None:
    """A size nobody set, or one of up to the whole window, small ones as likely as large ones."""
    if draw(st.booleans()):
        return None
    return max(1, int(window * draw(st.floats(0, 1.1)) ** draw(st.sampled_from((1, 3)))))


@st.composite
def chosen_budgets(draw: st.DrawFn) -> Budget:
    """The budget of a window for which some sizes were set; only what is accepted."""
    window = draw(windows)
    settings = BudgetSettings(
        threshold=draw(shares(window)),
        reserve_tokens=draw(shares(window)),
        keep_recent_tokens=draw(shares(window)),
        max_summary_tokens=draw(shares(window)),
        soft_ratio=draw(st.floats(0, 1, exclude_min=True)),
    )
    try:
        return budget_for(window, draw(output_limits), settings)
    except FoldlineError as refused:
        assert any(key in str(refused) for key in ("threshold", "reserve_tokens"))
        assume(False)
        raise


@given(windows, output_limits)
def test_every_window_has_room_for_what_a_compaction_leaves(window: int, max_output: int | None) -> None:
    budget = budget_for(window, max_output)
    assert 0 < budget.reserve_tokens < window
    assert 0 < budget.max_summary_tokens <= budget.reserve_tokens
    left_by_a_fold = budget.keep_recent_tokens + budget.max_summary_tokens
    assert left_by_a_fold < budget.soft_mark < budget.threshold < window


@given(chosen_budgets())
def test_whatever_is_set_the_trigger_comes_before_overflow_and_one_compaction_never_triggers_the_next(
    budget: Budget,
) -> None:
    assert budget.threshold + LEAST_ANSWER <= budget.window
    assert budget.reserve_tokens >= 1
    assert budget.keep_recent_tokens >= 1
    assert budget.max_summary_tokens >= 1
    left_by_a_fold = budget.keep_recent_tokens + budget.max_summary_tokens
    assert left_by_a_fold < budget.threshold
    assert left_by_a_fold <= budget.soft_mark < budget.threshold


@given(windows, output_limits)
def test_the_trigger_fits_the_window(window: int, max_output: int | None) -> None:
    """Other agents: at 32k one triggers at 0 tokens, one at 576, one never; at 1M one triggers at 17 %."""
    budget = budget_for(window, max_output)
    assert 0.7 * window <= budget.threshold <= 0.99 * window
    assert budget.soft_mark >= 0.5 * window


@given(windows, st.floats(0.02, 0.98))
def test_a_threshold_that_was_set_is_the_trigger_and_the_other_sizes_follow(
    window: int, share: float
) -> None:
    threshold = min(max(10, int(window * share)), window - LEAST_ANSWER)
    budget = budget_for(window, settings=BudgetSettings(threshold=threshold))
    assert budget.threshold == threshold
    assert budget.keep_recent_tokens + budget.max_summary_tokens < budget.soft_mark < threshold
    assert threshold + budget.reserve_tokens <= window


def test_a_threshold_goes_before_the_reserve() -> None:
    both = BudgetSettings(threshold=90_000, reserve_tokens=50_000)
    assert budget_for(100_000, settings=both).threshold == 90_000
    assert budget_for(100_000, settings=both).reserve_tokens == 10_000


def test_a_small_output_limit_frees_what_the_reserve_does_not_need() -> None:
    assert budget_for(32_768, 2_048).threshold > budget_for(32_768).threshold
    assert budget_for(32_768, 1).reserve_tokens == 32_768 // 16


def test_settings_win_over_defaults() -> None:
    budget = budget_for(100_000, 4_096, BudgetSettings(reserve_tokens=10_000, keep_recent_tokens=5_000))
    assert (budget.reserve_tokens, budget.keep_recent_tokens, budget.max_summary_tokens) == (
        10_000,
        5_000,
        8_000,
    )


def test_a_window_too_small_is_refused_with_what_to_do() -> None:
    with pytest.raises(FoldlineError, match="FOLDLINE_CONTEXT_WINDOW"):
        budget_for(SMALLEST_WINDOW - 1)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (BudgetSettings(keep_recent_tokens=7_000), "keep_recent_tokens 7,000 .* lower one of them"),
        (BudgetSettings(reserve_tokens=8_192), "beside reserve_tokens 8,192: lower one of them"),
        (BudgetSettings(reserve_tokens=100), "reserve_tokens 100 leaves no room .* set at least 128"),
        (
            BudgetSettings(threshold=8_192),
            "threshold 8,192 leaves no room .* 8,192 tokens: set at most 8,064",
        ),
        (
            BudgetSettings(threshold=4_000, keep_recent_tokens=3_500),
            "keep_recent_tokens 3,500 and max_summary_tokens 1,200 beside threshold 4,000: .* raise the last",
        ),
    ],
    ids=lambda value: "" if isinstance(value, str) else None,
)
def test_settings_without_room_are_refused_by_name_with_what_to_do(
    settings: BudgetSettings, sentence: str
) -> None:
    with pytest.raises(FoldlineError, match=sentence):
        budget_for(8_192, settings=settings)


def test_the_soft_mark_stays_between_what_a_compaction_leaves_and_the_threshold() -> None:
    never, early = BudgetSettings(soft_ratio=1), BudgetSettings(soft_ratio=0.01)
    assert budget_for(32_768, settings=never).soft_mark == budget_for(32_768).threshold - 1
    budget = budget_for(32_768, settings=early)
    assert budget.soft_mark == budget.keep_recent_tokens + budget.max_summary_tokens + 1


TEXT = "a sentence of a conversation about orders " * 50


def sent(built: History, size: int, window: int = 0) -> History:
    usage = Usage(input=size, output=10)
    return built.assistant("ok", usage=usage, model="m").asked(estimated=size, window=window)


def refused(built: History, size: int, named: int = 0) -> History:
    record = {"error": "The request is longer than the window of m.", "stop_reason": OVERFLOW}
    sizes = {"estimated": size, "window": named}
    return built.add(RequestRecord.model_validate({"digest": "0", "model": "m", **sizes, **record}))


def proof(built: History) -> WindowProof:
    return built.projection().window_proof("m")


def test_a_window_is_what_was_last_said_of_it_and_never_below_what_went_through() -> None:
    built = sent(history().user(TEXT), 9_000)
    assert proof(built).window(4_096) == 9_010
    assert proof(sent(built, 9_000, window=200_000)).window(4_096) == 200_000
    assert proof(sent(sent(built, 9_000, window=200_000), 250_000)).window(4_096) == 250_010
    assert built.projection().window_proof("another") is NOTHING_SEEN


def test_answers_of_another_agent_prove_as_much() -> None:
    usage = Usage(input=137_000, output=500, window=258_400)
    told = history().user(TEXT).assistant("ok", usage=usage, model="m")
    assert (proof(told).stated, proof(told).largest) == (258_400, 137_500)


def test_a_refused_size_counts_once_a_smaller_request_went_through_in_its_place() -> None:
    full = refused(history().user(TEXT), 9_000)
    size = full.projection().calibration.scale("m") * 9_000
    assert proof(full).refused == 0
    assert proof(sent(full.add(Compaction(first_kept_index=0)), 3_000)).refused == round(size)


def test_a_refusal_that_nothing_cured_says_nothing_of_the_size() -> None:
    """The server may have refused everything, for whatever reason: what it takes later is no proof."""
    given_up = refused(history().user(TEXT), 9_000).add(NoticeRecord(text="Nothing more can be folded."))
    assert proof(sent(given_up, 3_000)).refused == 0
    asked_again = refused(history().user(TEXT), 9_000).user("again?")
    assert proof(sent(asked_again, 3_000)).refused == 0


def test_a_window_that_a_refusal_names_is_believed_at_once() -> None:
    named = refused(history().user(TEXT), 9_000, named=8_192)
    assert proof(named).refused == proof(named.user("shorter")).refused == 8_192


def test_a_larger_request_that_goes_through_later_lifts_the_limit() -> None:
    built = sent(refused(history().user(TEXT), 9_000), 3_000)
    assert proof(built).refused > 0
    assert proof(sent(built, 60_000)).refused == 0


def units(built: History, *, pins: frozenset[int] = frozenset()) -> list[Unit]:
    return units_of((item.message for item in built.projection().view), pins)


def indices(found: list[Unit]) -> list[list[int]]:
    return [[message.index for message in unit.messages] for unit in found]


def test_a_group_of_parallel_calls_is_one_unit_and_messages_are_units_alone() -> None:
    built = history().system("s").instructions("i").user("go").assistant(calls=[call("a"), call("b")])
    built.result("1").result("2").assistant("done")
    assert indices(units(built)) == [[2], [3, 4, 5], [6]]


def test_a_notice_goes_with_what_it_came_after() -> None:
    built = history().user("go").notice("a reminder").assistant("done").notice("another")
    assert indices(units(built)) == [[0, 1], [2, 3]]


def test_a_notice_does_not_go_with_what_is_pinned() -> None:
    built = history().user("go").notice("a reminder").assistant("done")
    assert indices(units(built, pins=frozenset({0}))) == [[0], [1], [2]]


def test_a_unit_tells_who_said_what() -> None:
    built = history().user("go").assistant("I look", calls=[call("read", path="a")]).result("text")
    asked, group = units(built)
    assert (asked.asked, asked.said, group.asked, group.said) == ("go", "", "", "I look")
    assert [result.text for result in group.results] == ["text"]


TOO_LONG = [
    ("openai code", 400, "context_length_exceeded", "whatever the sentence is"),
    ("openai text", 400, None, "This model's maximum context length is 8192 tokens."),
    ("responses text", 400, None, "Your input exceeds the context window of this model."),
    ("responses in the stream", None, "context_length_exceeded", ""),
    ("anthropic", 400, "invalid_request_error", "prompt is too long: 213462 tokens > 200000 maximum"),
    (
        "anthropic with max_tokens",
        400,
        "invalid_request_error",
        "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000",
    ),
    ("anthropic bytes", 413, "request_too_large", "Request exceeds the maximum allowed number of bytes"),
    ("finish reason of anthropic and z.ai", None, "model_context_window_exceeded", ""),
    ("bedrock", 400, "ValidationException", "Input is too long for requested model."),
    (
        "gemini",
        400,
        "INVALID_ARGUMENT",
        "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
    ),
    (
        "xai",
        400,
        None,
        "This model's maximum prompt length is 131072 but the request contains 140000 tokens.",
    ),
    ("groq", 400, None, "Please reduce the length of the messages or completion."),
    (
        "vllm",
        400,
        "BadRequestError",
        "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens",
    ),
    (
        "mistral text",
        400,
        None,
        "Prompt contains 40000 tokens, too large for model with 32768 maximum context length",
    ),
    ("mistral code", 422, "model_context_exceeded", "x"),
    ("mistral code two", 422, "prompt_too_long", "x"),
    ("mistral words", 422, None, "context too long"),
    ("mistral words two", 400, None, "input too large"),
    ("mistral words three", 400, None, "couldn't fit with truncation"),
    (
        "kimi",
        400,
        "invalid_request_error",
        "Invalid request: Your request exceeded model token limit: 262144 (requested: 270000)",
    ),
    ("minimax", 400, None, "invalid params, context window exceeds limit"),
    ("z.ai code", 400, "1261", "Prompt too long"),
    ("z.ai text", 400, None, "Prompt too long"),
    ("copilot", 400, None, "prompt token count of 140000 exceeds the limit of 128000"),
    ("copilot with commas", 400, None, "prompt token count of 140,000 exceeds the limit of 128,000"),
    ("copilot code", 400, "model_max_prompt_tokens_exceeded", "x"),
    ("cerebras 400 without a body", 400, None, ""),
    ("cerebras 413 without a body", 413, None, " \n"),
    ("llama.cpp text", 400, "400", "the request exceeds the available context size. try increasing it"),
    ("llama.cpp type in the body", 400, "400", '{"type":"exceed_context_size_error","n_ctx":4096}'),
    (
        "lm studio",
        400,
        None,
        "The number of tokens to keep from the initial prompt is greater than the context length.",
    ),
    ("in words", 400, None, "Context length exceeded"),
    ("in words, of the window", 400, None, "Context window exceeded: requested 12000 tokens"),
    ("too many tokens", 400, None, "Too many tokens"),
    ("token limit", 400, None, "token limit exceeded"),
    ("llama-cpp-python", 400, None, "Requested tokens (13689) exceed context window of 12000"),
    ("dashscope", 400, "invalid_parameter_error", "Range of input length should be [1, 30720]"),
    (
        "sglang",
        400,
        None,
        "The input (49146 tokens) is longer than the model's context length (40960 tokens).",
    ),
    (
        "sglang of old",
        400,
        None,
        "Input length (160062 tokens) exceeds the maximum allowed length (59862 tokens).",
    ),
    ("lm studio of old", 400, None, "Input length 6491 exceeds context length 1500"),
    ("litellm", 400, None, "litellm.ContextWindowExceededError: AzureException"),
    ("litellm code", 400, "ContextWindowExceededError", "x"),
]

SOMETHING_ELSE = [
    ("bedrock throttling", 429, "ThrottlingException", "Too many tokens, please wait before trying again."),
    ("bedrock throttling in the stream", None, None, "Too many tokens, please wait before trying again."),
    ("too many tokens for the moment", 429, None, "Too many tokens"),
    ("a daily limit", 400, None, "Daily token limit exceeded"),
    ("bedrock throttling as a 400", 400, None, "ThrottlingException: Too many tokens, please wait"),
    (
        "groq tokens per minute",
        413,
        "rate_limit_exceeded",
        "Request too large for model on tokens per minute (TPM): Limit 6000, Requested 12000, "
        "please reduce the length of the messages",
    ),
    ("groq tokens per minute, no code", 413, None, "Request too large: tokens per minute. input too large"),
    (
        "groq in short",
        413,
        None,
        "Request too large (TPM): Limit 6000, please reduce the length of the messages",
    ),
    (
        "tokens per min in the stream",
        None,
        None,
        "Limit on tokens per min: reduce the length of the messages",
    ),
    ("429 without a body", 429, None, ""),
    ("429 that names the window", 429, None, "maximum context length is 8192 tokens"),
    ("quota", 429, "insufficient_quota", "You exceeded your current quota"),
    ("answer limit", 422, "max_tokens_exceeded", "max_tokens_exceeded"),
    ("answer limit in words", 422, None, "max_tokens_exceeded: the model stopped"),
    ("a file that is too big", 400, None, "file size of 9000000 exceeds the limit of 5000000"),
    ("server error that talks of context", 500, None, "maximum context length is 8192 tokens"),
    ("server error without a body", 500, None, ""),
    ("another bad request", 400, "invalid_request_error", "Unknown parameter: 'foo'."),
    ("refused key", 401, "invalid_api_key", "Incorrect API key provided"),
    ("an error in the stream without words", None, None, ""),
]


@pytest.mark.parametrize(
    ("status", "code", "text"), [row[1:] for row in TOO_LONG], ids=[row[0] for row in TOO_LONG]
)
def test_too_long_is_recognised(status: int | None, code: str | None, text: str) -> None:
    assert is_overflow(status, code, text)


@pytest.mark.parametrize(
    ("status", "code", "text"), [row[1:] for row in SOMETHING_ELSE], ids=[row[0] for row in SOMETHING_ELSE]
)
def test_throttling_and_other_errors_are_not_overflow(
    status: int | None, code: str | None, text: str
) -> None:
    assert not is_overflow(status, code, text)


def test_a_success_above_the_window_is_silent_overflow() -> None:
    assert silent_overflow(32_769, 32_768)
    assert not silent_overflow(32_768, 32_768)
    assert not silent_overflow(5, 0), "an unknown window proves nothing"


ANNOUNCED = [
    (
        "This model's maximum context length is 128000 tokens. However, your messages resulted in 141072",
        128_000,
    ),
    (
        "This endpoint's maximum context length is 200,000 tokens. However, you requested about 230,034",
        200_000,
    ),
    ("maximum context length is 8193 tokens", 8_193),
    ("prompt is too long: 213462 tokens > 200000 maximum", 200_000),
    ("input length and `max_tokens` exceed context limit: 190211 + 20000 > 200000, decrease", 200_000),
    ("The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).", 1_048_576),
    ("This model's maximum prompt length is 131072 but the request contains 140012 tokens.", 131_072),
    ("The decoder prompt (length 5000) is longer than the maximum model length of 4096. Make sure", 4_096),
    ("Prompt contains 40123 tokens, too large for model with 32768 maximum context length", 32_768),
    ("Your request exceeded model token limit: 262144 (requested: 270031)", 262_144),
    ("prompt token count of 140,211 exceeds the limit of 128,000", 128_000),
    ("the model is loaded with context length of only 4096 tokens, which is not enough.", 4_096),
    ('{"error":{"type":"exceed_context_size_error","n_prompt_tokens":5210,"n_ctx":4096}}', 4_096),
    ("Requested tokens (13689) exceed context window of 12000", 12_000),
    ("<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 30720]", 30_720),
    ("The input (49146 tokens) is longer than the model's context length (40960 tokens).", 40_960),
    ("Input length (160062 tokens) exceeds the maximum allowed length (59862 tokens).", 59_862),
    ("Input length 6491 exceeds context length 1500", 1_500),
    ("Context length exceeded", None),
    ("prompt too long; exceeded max context length by 1114 tokens", None),
    (f"context window of {'9' * 5_000}", None),
]


@pytest.mark.parametrize(("text", "window"), ANNOUNCED)
def test_the_window_is_the_size_a_refusal_names(text: str, window: int | None) -> None:
    assert announced_window(text) == window
