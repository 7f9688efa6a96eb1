"""Each session has one name for its provider's cache, in all its requests: across resumes and compactions."""

import pytest

from support.command_line import CommandLine
from support.server_process import Seen, running_server


def asked(cli: CommandLine, monkeypatch: pytest.MonkeyPatch, preset: str) -> list[Seen]:
    """The requests of a session that is resumed, compacted by hand, and resumed again."""
    with running_server() as server:
        file = cli.home / "config.toml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f'[providers.{preset}]\nbase_url = "{server.base_url}"\n')
        for name in ("OPENAI_API_KEY", "XAI_API_KEY"):
            monkeypatch.setenv(name, "sk-test-1")
        monkeypatch.setenv("FOLDLINE_MODEL", f"{server.model}@{preset}")
        for nth in range(4):
            assert (
                cli(
                    "run", *(("-c",) if nth else ()), f"tell me more, {nth} " * 300
                ).code
                == 0
            )
        [session] = cli("sessions", "--json").json
        assert cli("compact", session["id"], "--strategy", "summary").code == 0
        assert cli("run", "-c", "and now?").code == 0
        seen = server.requests()
    assert len(seen) == 6 and not any(each.violations or each.rejected for each in seen)
    return seen


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("preset", ["openai", "openai-responses"])
def test_openai_gets_it_as_the_key_of_its_cache(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch, preset: str
) -> None:
    [name] = {each.body["prompt_cache_key"] for each in asked(cli, monkeypatch, preset)}
    assert name


@pytest.mark.slow
def test_xai_gets_it_in_a_header(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = asked(cli, monkeypatch, "xai")
    [name] = {each.headers.get("x-grok-conv-id") for each in seen}
    assert name
    assert not any(name in each.raw.decode() for each in seen), (
        "a header, and no field beside it"
    )


@pytest.mark.slow
def test_another_session_has_another_name(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = asked(cli, monkeypatch, "xai")[0]
    with running_server() as server:
        file = cli.home / "config.toml"
        file.write_text(f'[providers.xai]\nbase_url = "{server.base_url}"\n')
        assert cli("run", "hello").code == 0
        [second] = server.requests()
    assert second.headers["x-grok-conv-id"] != first.headers["x-grok-conv-id"]
