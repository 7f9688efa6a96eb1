"""`foldline run` goes on with the next model of `fallback` where one fails for good, and says so."""

import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from foldline.history import Session
from foldline.llm import failures
from foldline.protocol import ModelChange, RequestRecord
from support.command_line import CommandLine
from support.sentences import pattern
from support.server_process import RunningServer, running_server

DOWN = {
    "status": 503,
    "body": {"error": {"message": "overloaded"}},
    "headers": {"retry-after": "0"},
}
NO_KEY = {"status": 401, "body": {"error": {"message": "no such key"}}}


class Servers:
    """Servers of the user's own, by name, as their settings file has them."""

    def __init__(self, config: Path, stack: ExitStack) -> None:
        self._config = config
        self._stack = stack

    def add(
        self, name: str, *rules: dict[str, Any], window: int = 32_768
    ) -> RunningServer:
        script = [{"answer": {"fault": rule}} for rule in rules] or None
        server = self._stack.enter_context(
            running_server(window=window, script=script, model=f"{name}-1")
        )
        with self._config.open("a") as file:
            file.write(f'[providers.{name}]\nbase_url = "{server.base_url}"\n')
        return server


@pytest.fixture
def servers(cli: CommandLine) -> Iterator[Servers]:
    config = cli.home / "config.toml"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text('fallback = ["second-1@second", "third-1@third"]\n')
    with ExitStack() as stack:
        yield Servers(config, stack)


def held(cli: CommandLine) -> Session:
    [file] = cli.home.rglob("events.jsonl")
    return Session.open(file)


def test_a_run_goes_on_with_the_next_model_and_says_so(
    cli: CommandLine, servers: Servers
) -> None:
    servers.add("first", DOWN), servers.add("second"), servers.add("third")
    ran = cli("run", "-m", "first-1@first", "hello")
    assert (ran.code, ran.out) == (0, "You said: hello\n")
    assert len(re.findall("Continuing with second-1@second", ran.err)) == 1
    assert "503" in ran.err.split("Continuing")[0].splitlines()[-1], (
        "why is said beside it"
    )
    session = held(cli)
    assert [
        entry.model for entry in session.entries if isinstance(entry, RequestRecord)
    ][-1] == "second-1"
    [change] = [entry for entry in session.entries if isinstance(entry, ModelChange)]
    assert change.model == "second-1" and change.provider


@pytest.mark.slow
def test_the_next_but_one_takes_over_where_the_next_fails_too(
    cli: CommandLine, servers: Servers
) -> None:
    servers.add("first", DOWN), servers.add("second", DOWN), servers.add("third")
    ran = cli("run", "-m", "first-1@first", "hello")
    assert ran.code == 0
    assert re.findall("Continuing with (.*)[.]$", ran.err, re.MULTILINE) == [
        "second-1@second",
        "third-1@third",
    ]


def test_a_refused_key_is_said_before_another_model_answers(
    cli: CommandLine, servers: Servers
) -> None:
    servers.add("first", NO_KEY), servers.add("second"), servers.add("third")
    ran = cli("run", "-m", "first-1@first", "hello")
    assert ran.code == 0
    reason = pattern(failures.NO_KEY)
    assert re.search(f"{reason}.*Continuing with second-1@second", ran.err), ran.err


def test_what_was_sent_is_not_sent_elsewhere_where_it_was_refused(
    cli: CommandLine, servers: Servers
) -> None:
    servers.add("first", {"status": 400, "body": {"error": {"message": "bad role"}}})
    second, _ = servers.add("second"), servers.add("third")
    assert cli("run", "-m", "first-1@first", "hello").code == 1
    assert second.requests() == []


@pytest.mark.slow
def test_where_all_fail_the_last_one_says_why(
    cli: CommandLine, servers: Servers
) -> None:
    (
        servers.add("first", DOWN),
        servers.add("second", DOWN),
        servers.add("third", NO_KEY),
    )
    ran = cli("run", "-m", "first-1@first", "hello")
    assert ran.code == 1 and "key" in ran.err.splitlines()[-1]


def test_a_model_nobody_named_may_be_replaced_too(
    cli: CommandLine, servers: Servers
) -> None:
    """Its server does not even list one."""
    servers.add("second"), servers.add("third")
    config = cli.home / "config.toml"
    config.write_text(
        config.read_text() + '[providers.gone]\nbase_url = "http://127.0.0.1:9/v1"\n'
    )
    ran = cli("run", "-m", "@gone", "hello")
    assert (ran.code, ran.out) == (0, "You said: hello\n"), ran.err
