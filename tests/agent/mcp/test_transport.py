"""The log of a server: private, bounded, without secrets, and never in the server's way."""

from pathlib import Path

from foldline.agent.mcp.transport import ServerLog


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
    assert [path.stat().st_mode & 0o777 for path in (log.path, log.path.parent)] == [0o600, 0o700]


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
