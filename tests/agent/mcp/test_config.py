"""What is set for a server: variables in their places, and no value of them in anything that is said."""

import pytest

from foldline.agent.mcp import ServerConfig
from foldline.protocol import FoldlineError


def test_variables_are_filled_in_everywhere() -> None:
    config = ServerConfig(
        "s", command="${BIN}/x", args=("--at=${HOST}",), env={"KEY": "k-${TOKEN}"}, cwd="${BIN}"
    )
    filled = config.filled_in({"BIN": "/bin", "HOST": "h", "TOKEN": "t0ken"}).config
    assert (filled.command, filled.args, filled.env, filled.cwd) == (
        "/bin/x",
        ("--at=h",),
        {"KEY": "k-t0ken"},
        "/bin",
    )


def test_a_variable_that_is_not_set_is_named() -> None:
    with pytest.raises(FoldlineError, match=r"needs the environment variable TOKEN.*\[mcp\.s\]"):
        ServerConfig("s", url="http://x", headers={"A": "Bearer ${TOKEN}"}).filled_in({})


@pytest.mark.parametrize("config", [ServerConfig("s"), ServerConfig("s", command="a", url="b")])
def test_a_server_is_either_a_program_or_an_address(config: ServerConfig) -> None:
    with pytest.raises(FoldlineError, match="either a command or a url"):
        config.filled_in({})


def test_no_value_of_env_headers_or_a_variable_is_shown() -> None:
    config = ServerConfig(
        "s", url="http://h/?key=${KEY}", headers={"A": "Bearer abcdef-token"}, env={"P": "secret value"}
    )
    masked = config.filled_in({"KEY": "k123456"}).masked
    said = masked("GET http://h/?key=k123456 Bearer abcdef-token (abcdef-token) secret value")
    assert said == "GET http://h/?key=*** *** (***) ***"
    assert "token" not in repr(config)
    assert "value" not in repr(config)
