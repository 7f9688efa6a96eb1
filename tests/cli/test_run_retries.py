"""`foldline run` on a server that has to be asked twice."""

import pytest

from support.command_line import CommandLine
from support.server import MODEL, running_server

THROTTLES = {"fault": {"status": 429, "headers": {"retry-after": "0"}}}
SCRIPT = [
    {"when": {"nth": [1, 3]}, "answer": THROTTLES},
    {"answer": {"text": "Here you are."}},
]


def test_a_retry_is_told_on_stderr_and_is_an_event_of_its_own(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running_server(script=SCRIPT) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        told = cli("run", "hello", "-m", MODEL)
        lines = cli("run", "hello", "-m", MODEL, "--json").lines
    assert told.out == "Here you are.\n"
    assert "(429)" in told.err and "Trying again in 0 s (1 of 8)." in told.err
    [event] = [line for line in lines if line["type"] == "retrying"]
    assert (event["seconds"], event["attempt"], event["attempts"]) == (0.0, 1, 8)
    assert event["sentence"] in told.err
