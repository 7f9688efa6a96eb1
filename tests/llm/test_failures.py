"""Failed requests: their meaning and the sentence shown."""

import json
import socket
import ssl
from dataclasses import replace

import pytest

from foldline.llm import failures
from foldline.llm.failures import (
    NO_CREDIT,
    Endpoint,
    Failure,
    Retries,
    broken_failure,
    stalled_failure,
    status_failure,
    stream_failure,
    unreachable_failure,
)
from support.sentences import says

KEY = "sk-very-secret-0123456789"
ENDPOINT = Endpoint("https://me:pass@api.example.com/v1?token=abc", "some-model", KEY)


def body(message: str, code: str | None = None, type: str | None = None) -> str:
    return json.dumps({"error": {"message": message, "code": code, "type": type}})


def untrusted(why: str) -> ssl.SSLCertVerificationError:
    error = ssl.SSLCertVerificationError(1, "certificate verify failed")
    error.verify_message = why
    return error


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 504, 529])
def test_temporary_failures_are_retried(status: int) -> None:
    failure = status_failure(ENDPOINT, status, body("try later"), {})
    assert failure.retry
    assert not failure.overflow


@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 422, 501])
def test_permanent_failures_are_not_retried(status: int) -> None:
    assert not status_failure(ENDPOINT, status, body("no"), {}).retry


def test_an_account_without_credit_is_not_retried() -> None:
    failure = status_failure(
        ENDPOINT, 429, body("You exceeded your current quota", "insufficient_quota"), {}
    )
    assert not failure.retry
    assert says(failure.sentence, NO_CREDIT)


def test_overflow_is_distinguished_from_throttling() -> None:
    assert status_failure(
        ENDPOINT, 400, body("x", "context_length_exceeded"), {}
    ).overflow
    assert status_failure(
        ENDPOINT,
        400,
        body("the request exceeds the available context size", type="x"),
        {},
    ).overflow
    assert not status_failure(
        ENDPOINT, 429, body("Too many tokens, please wait"), {}
    ).overflow
    assert stream_failure(
        ENDPOINT, {"code": "context_length_exceeded", "message": "x"}
    ).overflow


def test_an_error_inside_a_stream_may_contain_its_status() -> None:
    failure = stream_failure(ENDPOINT, {"code": 429, "message": "slow down"})
    assert failure.status == 429
    assert failure.retry
    assert not stream_failure(ENDPOINT, {"message": "model crashed"}).retry
    assert stream_failure(
        ENDPOINT, {"type": "overloaded_error", "message": "Overloaded"}
    ).retry


@pytest.mark.parametrize(
    "failure",
    [
        *(
            status_failure(ENDPOINT, status, body(f"key {KEY} is bad"), {})
            for status in (400, 401, 403, 404, 429, 500)
        ),
        status_failure(ENDPOINT, 400, f"plain {KEY}", {}),
        stream_failure(ENDPOINT, {"message": KEY}),
        unreachable_failure(ENDPOINT, untrusted(f"{KEY}\n")),
        broken_failure(ENDPOINT),
        stalled_failure(ENDPOINT, 120),
    ],
    ids=lambda failure: failure.sentence[:40],
)
def test_every_sentence_is_one_line_without_secrets(failure: Failure) -> None:
    for secret in (KEY, "pass@", "me:", "token=abc"):
        assert secret not in failure.sentence
        assert secret not in repr(failure)
        assert secret not in repr(ENDPOINT)
    assert "\n" not in failure.sentence
    assert failure.sentence.endswith(".")


def tls(reason: str) -> ssl.SSLError:
    error = ssl.SSLError(1, f"[SSL: {reason}] something (_ssl.c:1006)")
    error.reason = reason
    return error


@pytest.mark.parametrize(
    ("behind", "why", "advice"),
    [
        (
            socket.gaierror(-2, "Name or service not known"),
            failures.NO_SUCH_HOST,
            failures.CHECK_NETWORK,
        ),
        (
            socket.gaierror(socket.EAI_AGAIN, "Temporary"),
            failures.NOT_RESOLVED,
            failures.CHECK_NETWORK,
        ),
        (
            ConnectionRefusedError(111, "Connect call failed ('::1', 1)"),
            failures.NOT_LISTENING,
            failures.START_SERVER,
        ),
        (
            OSError(113, "Connect call failed ('10.0.0.1', 80)"),
            "no route to host",
            failures.CHECK_SERVER,
        ),
        (TimeoutError(), failures.NO_ANSWER, failures.CHECK_SERVER),
        (tls("WRONG_VERSION_NUMBER"), failures.NO_HTTPS, failures.USE_HTTP),
        (
            tls("UNEXPECTED_EOF_WHILE_READING"),
            failures.NO_HANDSHAKE,
            failures.CHECK_SERVER,
        ),
        (
            untrusted("self-signed certificate"),
            failures.UNTRUSTED.format(reason="self-signed certificate"),
            failures.CHECK_ISSUER,
        ),
        (ValueError("[Errno 7] of somebody"), "", failures.CHECK_SERVER),
    ],
)
def test_an_unreachable_server_is_explained_without_errno_numbers(
    behind: Exception, why: str, advice: str
) -> None:
    try:
        try:
            raise ExceptionGroup("several addresses", [behind])
        except ExceptionGroup as group:
            raise RuntimeError(f"All connection attempts failed: {behind}") from group
    except RuntimeError as error:
        failure = unreachable_failure(ENDPOINT, error)
    assert failure.retry == ("certificate" not in why), (
        "who issued it will be unknown in two minutes, too"
    )
    assert failure.sentence == failures.UNREACHABLE.format(
        at=ENDPOINT,
        why=f" ({why})" if why else "",
        advice=advice.format(at=ENDPOINT),
    )
    assert "rrno" not in failure.sentence and "_ssl" not in failure.sentence
    assert failure.sentence.endswith(".")


@pytest.mark.parametrize("key", ["EMPTY", "x", "e"])
def test_masking_ignores_keys_too_short_to_be_real(key: str) -> None:
    said = "The EMPTY example exists"
    assert (
        said in status_failure(replace(ENDPOINT, key=key), 400, body(said), {}).sentence
    )


def test_quoted_server_text_is_one_line_without_control_characters() -> None:
    failure = status_failure(ENDPOINT, 400, body("bad\x1b[2J\nthing " + "x" * 1000), {})
    assert failure.sentence.isprintable()
    assert len(failure.sentence) < 500


def test_an_html_page_is_not_quoted() -> None:
    assert (
        "html"
        not in status_failure(
            ENDPOINT, 502, "<html><body>Bad gateway</body></html>", {}
        ).sentence
    )


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
            {
                "retry-after": "Wed, 21 Oct 2026 07:28:05 GMT",
                "date": "Wed, 21 Oct 2026 07:28:00 GMT",
            },
            5.0,
        ),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:05 GMT"}, 1.0),
        ({"retry-after": "nan"}, 1.0),
    ],
)
def test_the_first_wait_is_the_one_the_server_requested(
    headers: dict[str, str], seconds: float
) -> None:
    assert status_failure(ENDPOINT, 429, "", headers).seconds_before(1) == seconds


def test_waits_grow_if_the_server_requests_none() -> None:
    assert [
        broken_failure(ENDPOINT).seconds_before(attempt) for attempt in (1, 2, 3, 8)
    ] == [
        1.0,
        2.0,
        4.0,
        30.0,
    ]


def test_retries_end_after_two_minutes_despite_longer_requested_waits() -> None:
    retries = Retries()
    busy = status_failure(ENDPOINT, 429, body("busy"), {"retry-after": "50"})
    assert [retries.wait(busy) for _ in range(4)] == [50.0, 50.0, 20.0, None]


def test_a_silent_server_is_retried_no_longer_than_others() -> None:
    retries = Retries()
    assert [retries.wait(stalled_failure(ENDPOINT, 120)) for _ in range(2)] == [
        1.0,
        None,
    ]
