"""A server's settings, whose secrets nobody is shown; and its log: private, bounded, never in its way."""

from pathlib import Path

import pytest

from foldline.agent.extensions.mcp.transport import NO_VARIABLE, ServerConfig, ServerLog
from foldline.protocol import FoldlineError
from support.sentences import pattern


def written(log: ServerLog, text: str) -> str:
    with log.writer(lambda line: line.replace("s3cret", "***")) as writer:
        writer.write(text)
    assert log._follower is not None
    log._follower.join(20)
    return log.path.read_text()


def test_a_flood_is_taken_whole_and_its_end_is_kept(tmp_path: Path) -> None:
    log = ServerLog(tmp_path / "logs" / "a.log")
    kept = written(log, "".join(f"{nth:08} s3cret\n" for nth in range(400_000)))
    assert len(kept) < 300_000
    assert kept.endswith("00399999 ***\n")
    assert "s3cret" not in kept
    assert log.last == "00399999 ***"


def test_only_its_owner_may_read_it(tmp_path: Path) -> None:
    log = ServerLog(tmp_path / "logs" / "a.log")
    log.note("started")
    assert [path.stat().st_mode & 0o777 for path in (log.path, log.path.parent)] == [
        0o600,
        0o700,
    ]


def test_a_line_without_an_end_is_kept_in_pieces(tmp_path: Path) -> None:
    log = ServerLog(tmp_path / "a.log")
    assert written(log, "x" * 100_000).replace("\n", "") == "x" * 100_000


def test_a_log_that_cannot_be_written_holds_nothing_up(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    log = ServerLog(tmp_path / "file" / "a.log")
    with log.writer(str) as writer:
        writer.write("said\n" * 100_000)
    log.caught_up()
    assert log.last == "said"


def test_variables_are_filled_in_everywhere() -> None:
    config = ServerConfig(
        "s",
        command="${BIN}/x",
        args=("--at=${HOST}",),
        env={"KEY": "k-${TOKEN}"},
        cwd="${BIN}",
    )
    filled = config.filled_in({"BIN": "/bin", "HOST": "h", "TOKEN": "t0ken"}).config
    assert (filled.command, filled.args, filled.env, filled.cwd) == (
        "/bin/x",
        ("--at=h",),
        {"KEY": "k-t0ken"},
        "/bin",
    )


def test_a_variable_that_is_not_set_is_named() -> None:
    with pytest.raises(
        FoldlineError, match=pattern(NO_VARIABLE, server="s", variable="TOKEN")
    ):
        ServerConfig("s", url="http://x", headers={"A": "Bearer ${TOKEN}"}).filled_in(
            {}
        )


@pytest.mark.parametrize(
    "config", [ServerConfig("s"), ServerConfig("s", command="a", url="b")]
)
def test_a_server_is_either_a_program_or_an_address(config: ServerConfig) -> None:
    with pytest.raises(FoldlineError, match="either a command or a url"):
        config.filled_in({})


def test_no_value_of_env_headers_or_a_variable_is_shown() -> None:
    config = ServerConfig(
        "s",
        url="http://h/?key=${KEY}",
        headers={"A": "Bearer abcdef-token"},
        env={"P": "secret value"},
    )
    masked = config.filled_in({"KEY": "k123456"}).masked
    said = masked(
        "GET http://h/?key=k123456 Bearer abcdef-token (abcdef-token) secret value"
    )
    assert said == "GET http://h/?key=*** *** (***) ***"
    assert "token" not in repr(config)
    assert "value" not in repr(config)
