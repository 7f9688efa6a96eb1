"""What is written to the terminal."""

import io
import os
import pty
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from foldline.tui.terminal.app import buffered
from support.terminal import PATIENCE


def test_a_frame_is_written_whole_though_signals_come_in_between() -> None:
    reads, writes = os.pipe()
    unbuffered = io.TextIOWrapper(
        io.FileIO(writes, "w"), encoding="utf-8", write_through=True
    )
    stream = buffered(unbuffered)
    assert stream is not None
    read: list[bytes] = []

    def reader() -> None:
        while chunk := os.read(reads, 4096):
            read.append(chunk)

    thread = threading.Thread(target=reader)
    before = signal.signal(signal.SIGALRM, lambda *_: None)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
        thread.start()
        frame = "┃ a frame ┃" * 20_000
        for _ in range(10):
            stream.write(frame)
            stream.flush()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        unbuffered.close()
        thread.join()
        os.close(reads)
    assert b"".join(read).decode() == frame * 10


@pytest.mark.slow
@pytest.mark.parametrize("does", ["streams", "is idle"])
def test_a_terminal_that_vanishes_without_a_signal_ends_the_program(
    tmp_path: Path, does: str
) -> None:
    """As with a lost connection, where the program is not in the foreground: nobody sends it SIGHUP."""
    master, slave = pty.openpty()
    env = {
        **os.environ,
        "FOLDLINE_HOME": str(tmp_path / "home"),
        "FOLDLINE_MODEL": "offline",
    }
    program = str(Path(sys.executable).with_name("foldline"))
    prompt = ["Tell me all that you can do"] if does == "streams" else []
    child = subprocess.Popen(
        [program, *prompt],
        cwd=tmp_path,
        env={**env, "TERM": "xterm-256color", "FOLDLINE_OFFLINE__PACE": "0.05"},
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,  # and so without a terminal that controls it
    )
    os.close(slave)
    seen = b""
    while (b"Writing" if prompt else b"everything") not in seen:
        seen += os.read(master, 65_536)
    os.close(master)
    try:
        assert child.wait(PATIENCE) == 129
    finally:
        child.kill()
