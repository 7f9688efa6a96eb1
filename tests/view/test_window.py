"""The window size as inferred from answers and refusals."""

from foldline.protocol import OVERFLOW, Compaction, NoticeRecord, RequestRecord, Usage
from foldline.view.window import NOTHING_SEEN, WindowProof
from support.history import History, history

TEXT = "a sentence of a conversation about orders " * 50


def with_answer(built: History, size: int, window: int = 0) -> History:
    usage = Usage(input=size, output=10)
    return built.assistant("ok", usage=usage, model="m").asked(
        estimated=size, window=window
    )


def with_refusal(built: History, size: int, named: int = 0) -> History:
    record = {
        "error": "The request is longer than the window of m.",
        "stop_reason": OVERFLOW,
    }
    sizes = {"estimated": size, "window": named}
    return built.add(
        RequestRecord.model_validate({"digest": "0", "model": "m", **sizes, **record})
    )


def proof(built: History) -> WindowProof:
    return built.projection().meter.window_proof("m")


def test_a_window_is_its_last_reported_size_but_at_least_the_largest_success() -> None:
    built = with_answer(history().user(TEXT), 9_000)
    assert proof(built).window(4_096) == 9_010
    assert proof(with_answer(built, 9_000, window=200_000)).window(4_096) == 200_000
    assert (
        proof(with_answer(with_answer(built, 9_000, window=200_000), 250_000)).window(
            4_096
        )
        == 250_010
    )
    assert built.projection().meter.window_proof("another") is NOTHING_SEEN


def test_another_agents_answers_prove_the_window_as_well() -> None:
    usage = Usage(input=137_000, output=500, window=258_400)
    told = history().user(TEXT).assistant("ok", usage=usage, model="m")
    assert (proof(told).stated, proof(told).largest) == (258_400, 137_500)


def test_a_refused_size_counts_once_a_smaller_retry_succeeded() -> None:
    full = with_refusal(history().user(TEXT), 9_000)
    size = full.projection().meter.calibration.scale("m") * 9_000
    assert proof(full).refused == 0
    assert proof(
        with_answer(full.add(Compaction(first_kept_index=0)), 3_000)
    ).refused == round(size)


def test_a_refusal_without_a_successful_retry_does_not_limit_the_size() -> None:
    """The server may have refused everything for another reason; later successes prove nothing."""
    given_up = with_refusal(history().user(TEXT), 9_000).add(
        NoticeRecord(text="Nothing more can be compacted.")
    )
    assert proof(with_answer(given_up, 3_000)).refused == 0
    asked_again = with_refusal(history().user(TEXT), 9_000).user("again?")
    assert proof(with_answer(asked_again, 3_000)).refused == 0


def test_a_window_named_in_a_refusal_counts_at_once() -> None:
    named = with_refusal(history().user(TEXT), 9_000, named=8_192)
    assert proof(named).refused == proof(named.user("shorter")).refused == 8_192


def test_a_later_larger_success_raises_the_limit() -> None:
    built = with_answer(with_refusal(history().user(TEXT), 9_000), 3_000)
    assert proof(built).refused > 0
    assert proof(with_answer(built, 60_000)).refused == 0
