"""What a history proves of a model's window: what was said, what went through, what was refused."""

from foldline.context.budget import NOTHING_SEEN, WindowProof
from foldline.protocol import OVERFLOW, Compaction, NoticeRecord, RequestRecord, Usage
from support.history import History, history

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
