"""The window a server once announced is what a session is measured against, until it says otherwise."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from foldline.agent.settings.settings import connect_llm
from foldline.cli.agents import agent_for, open_for_writing
from foldline.cli.settings import settings_here
from support.command_line import CommandLine
from support.server_process import running_server

NOBODY = "http://127.0.0.1:9/v1"


@pytest.fixture
def held(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A session held with a server of 10,000 tokens that is gone since; its event file."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    with running_server(window=10_000) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        assert cli("run", "hello").code == 0
    monkeypatch.setenv("OPENAI_BASE_URL", NOBODY)
    [file] = cli.home.rglob("events.jsonl")
    yield file


@pytest.mark.parametrize("model", [None, "scripted-1"])
def test_resumed_it_counts_before_the_server_is_asked(
    cli: CommandLine, held: Path, model: str | None
) -> None:
    """Also where nobody named the model: it is the server's first, as it was."""
    settings = settings_here(model=model)
    session = open_for_writing(held, cli.cwd)
    agent = agent_for(
        session, settings, connect_llm(settings, os.environ), interactive=True
    )
    try:
        assert (agent.state.models.window, agent.state.models.window_is_assumed) == (
            10_000,
            False,
        )
        assert agent.state.budget.limits.window == 10_000
    finally:
        session.close()


def test_commands_that_only_look_count_with_it(cli: CommandLine, held: Path) -> None:
    assert cli("view", held, "--json").json["window"] == 10_000
    assert cli("compact", held, "--dry-run", "--json").json["window"] == 10_000


def test_another_model_is_not_measured_against_it(cli: CommandLine, held: Path) -> None:
    settings = settings_here(model="another-1")
    session = open_for_writing(held, cli.cwd)
    agent = agent_for(session, settings, connect_llm(settings, os.environ))
    assert agent.state.models.window_is_assumed
    session.close()


def test_it_is_known_although_no_request_went_through(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    refuses = [
        {"answer": {"fault": {"status": 401, "error": {"message": "no such key"}}}}
    ]
    with running_server(window=10_000, script=refuses) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        assert cli("run", "hello").code == 1
    [file] = cli.home.rglob("events.jsonl")
    assert cli("view", file, "--json").json["window"] == 10_000
