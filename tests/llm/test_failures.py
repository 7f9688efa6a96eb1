"""What failed requests mean, in sentences."""

import json
import socket
import ssl
from dataclasses import replace

import pytest

from foldline.llm.failures import (
    Endpoint,
    Failure,
    Retries,
    broken_failure,
    stalled_failure,
    status_failure,
    stream_failure,
    unreachable_failure,
)

KEY = "sk-very-secret-0123456789"
AT = Endpoint("https://me:pass@api.example.com/v1?token=abc", "some-model", KEY)


def body(message: str, code: str | None = None, type: str | None = None) -> str:
    return json.dumps({"error": {"message": message, "code": code, "type": type}})


def untrusted(why: str) -> ssl.SSLCertVerificationError:
    error = ssl.SSLCertVerificationError(1, "certificate verify failed")
    error.verify_message = why
    return error


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 504, 529])
def test_failures_that_may_pass_are_retried(status: int) -> None:
    failure = status_failure(AT, status, body("try later"), {})
    assert failure.retry
    assert not failure.overflow


@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 422, 501])
def test_failures_that_cannot_pass_are_not_retried(status: int) -> None:
    assert not status_failure(AT, status, body("no"), {}).retry


def test_an_account_without_credit_is_not_asked_again() -> None:
    failure = status_failure(AT, 429, body("You exceeded your current quota", "insufficient_quota"), {})
    assert not failure.retry
    assert "no credit" in failure.sentence


def test_overflow_is_told_apart_from_throttling() -> None:
    assert status_failure(AT, 400, body("x", "context_length_exceeded"), {}).overflow
    assert status_failure(
        AT, 400, body("the request exceeds the available context size", type="x"), {}
    ).overflow
    assert not status_failure(AT, 429, body("Too many tokens, please wait"), {}).overflow
    assert stream_failure(AT, {"code": "context_length_exceeded", "message": "x"}).overflow


def test_an_error_inside_a_stream_may_carry_the_status_it_stands_for() -> None:
    failure = stream_failure(AT, {"code": 429, "message": "slow down"})
    assert failure.status == 429
    assert failure.retry
    assert not stream_failure(AT, {"message": "model crashed"}).retry
    assert stream_failure(AT, {"type": "overloaded_error", "message": "Overloaded"}).retry


@pytest.mark.parametrize(
    "failure",
    [
        *(
            status_failure(AT, status, body(f"key {KEY} is bad"), {})
            for status in (400, 401, 403, 404, 429, 500)
        ),
        status_failure(AT, 400, f"plain {KEY}", {}),
        stream_failure(AT, {"message": KEY}),
        unreachable_failure(AT, untrusted(f"{KEY}\n")),
        broken_failure(AT),
        stalled_failure(AT, 120),
    ],
    ids=lambda failure: failure.sentence[:40],
)
def test_no_sentence_holds_a_secret_or_more_than_one_line(failure: Failure) -> None:
    for secret in (KEY, "pass@", "me:", "token=abc"):
        assert secret not in failure.sentence
        assert secret not in repr(failure)
        assert secret not in repr(AT)
    assert "\n" not in failure.sentence
    assert failure.sentence.endswith(".")


def tls(reason: str) -> ssl.SSLError:
    error = ssl.SSLError(1, f"[SSL: {reason}] something (_ssl.c:1006)")
    error.reason = reason
    return error


@pytest.mark.parametrize(
    ("behind", "why", "what"),
    [
        (socket.gaierror(-2, "Name or service not known"), "there is no server of that name", "a network"),
        (socket.gaierror(socket.EAI_AGAIN, "Temporary"), "its name cannot be looked up", "check the network"),
        (ConnectionRefusedError(111, "Connect call failed ('::1', 1)"), "nothing listens there", "start the"),
        (OSError(113, "Connect call failed ('10.0.0.1', 80)"), "no route to host", "server runs"),
        (TimeoutError(), "no answer", "server runs"),
        (tls("WRONG_VERSION_NUMBER"), "it does not speak https", "http://"),
        (tls("UNEXPECTED_EOF_WHILE_READING"), "it broke off before anything was encrypted", "server runs"),
        (
            untrusted("self-signed certificate"),
            "its certificate is not trusted: self-signed certificate",
            "knows who issued it",
        ),
        (ValueError("[Errno 7] of somebody"), "", "server runs"),
    ],
)
def test_why_a_server_cannot_be_reached_is_said_without_the_systems_numbers(
    behind: Exception, why: str, what: str
) -> None:
    try:
        try:
            raise ExceptionGroup("several addresses", [behind])
        except ExceptionGroup as group:
            raise RuntimeError(f"All connection attempts failed: {behind}") from group
    except RuntimeError as error:
        failure = unreachable_failure(AT, error)
    assert failure.retry == ("certificate" not in why), "who issued it will be unknown in two minutes, too"
    shown = f" ({why}" if why else ": check"
    assert failure.sentence.startswith(f"Cannot connect to https://api.example.com/v1{shown}")
    assert what in failure.sentence and AT.url_name in failure.sentence
    assert "rrno" not in failure.sentence and "_ssl" not in failure.sentence
    assert failure.sentence.endswith(".")


@pytest.mark.parametrize("key", ["EMPTY", "x", "e"])
def test_what_is_too_short_for_a_key_leaves_foreign_words_whole(key: str) -> None:
    said = "The EMPTY example exists"
    assert said in status_failure(replace(AT, key=key), 400, body(said), {}).sentence


def test_foreign_words_in_a_sentence_are_one_line_without_control_characters() -> None:
    failure = status_failure(AT, 400, body("bad\x1b[2J\nthing " + "x" * 1000), {})
    assert failure.sentence.isprintable()
    assert len(failure.sentence) < 500


def test_a_page_of_html_is_not_quoted() -> None:
    assert "html" not in status_failure(AT, 502, "<html><body>Bad gateway</body></html>", {}).sentence


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, 1.0),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0"}, 0.0),
        ({"retry-after": "90"}, 90.0),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after": "soon"}, 1.0),
        (
            {"retry-after": "Wed, 21 Oct 2026 07:28:05 GMT", "date": "Wed, 21 Oct 2026 07:28:00 GMT"},
            5.0,
        ),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:05 GMT"}, 1.0),
        ({"retry-after": "nan"}, 1.0),
    ],
)
def test_the_first_wait_is_what_the_server_asked_for(headers: dict[str, str], seconds: float) -> None:
    assert status_failure(AT, 429, "", headers).seconds_before(1) == seconds


def test_waits_grow_where_the_server_asks_for_none() -> None:
    assert [broken_failure(AT).seconds_before(attempt) for attempt in (1, 2, 3, 8)] == [1.0, 2.0, 4.0, 30.0]


def test_retries_end_after_two_minutes_of_waiting_whatever_a_server_asks_for() -> None:
    retries = Retries()
    busy = status_failure(AT, 429, body("busy"), {"retry-after": "50"})
    assert [retries.wait(busy) for _ in range(4)] == [50.0, 50.0, 20.0, None]


def test_a_server_that_stays_silent_is_not_asked_for_longer_than_others() -> None:
    retries = Retries()
    assert [retries.wait(stalled_failure(AT, 120)) for _ in range(2)] == [1.0, None]
