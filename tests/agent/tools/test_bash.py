import asyncio
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from foldline.agent.tools import ToolContext
from foldline.agent.tools.bash import TIMED_OUT
from foldline.agent.tools.process import MARK, spawn
from foldline.llm.providers import PROVIDERS
from foldline.view.tokens import estimate_tokens
from support.agents import PATIENCE
from support.processes import is_running, numbers_in, pids, process_ended
from support.tools import TOOLS, call

ESCAPES = (
    "env -i nohup setsid sh -c 'sleep 1000 & echo $! >>p' >/dev/null 2>&1; "
    "(env -i setsid sh -c 'trap \"\" TERM; echo $$ >>p; while :; do sleep 9; done' >/dev/null 2>&1 &); "
    "sleep 99"
)
"""Without its mark, in sessions of their own, detached from the output, their parents gone."""


async def test_output_and_errors_come_as_one_text(context: ToolContext) -> None:
    outcome = await call(context, "bash", command="echo out; echo err >&2")
    assert outcome.text == "out\nerr\n"
    assert (outcome.brief, outcome.is_error) == ("exit 0", False)


async def test_a_failing_command_says_its_exit_status(context: ToolContext) -> None:
    outcome = await call(context, "bash", command="echo no; exit 3")
    assert outcome.text == "no\n[exit 3]"
    assert (outcome.brief, outcome.is_error) == ("exit 3 ✗", True)


async def test_a_silent_command_says_that_it_ended(context: ToolContext) -> None:
    assert (await call(context, "bash", command="true")).text == "[no output, exit 0]"


async def test_a_command_ended_by_a_signal_says_which(context: ToolContext) -> None:
    assert (await call(context, "bash", command="kill -KILL $$")).brief == "SIGKILL ✗"


async def test_it_runs_in_a_group_of_its_own(context: ToolContext) -> None:
    shell, group = (
        await call(context, "bash", command="echo $$; ps -o pgid= -p $$")
    ).text.split()
    assert shell == group != str(os.getpgrp())


async def test_input_is_closed(context: ToolContext) -> None:
    assert (await call(context, "bash", command="cat; echo done")).text == "done\n"


async def test_it_runs_in_the_working_directory(context: ToolContext) -> None:
    assert (
        await call(context, "bash", command="pwd -P")
    ).text.strip() == os.path.realpath(context.cwd)


async def test_output_arrives_before_the_command_ends(context: ToolContext) -> None:
    arrived = asyncio.Event()
    context.output = lambda text: arrived.set() if "first" in text else None
    command = "echo first; while [ ! -e go ]; do sleep 0.01; done; echo second"
    running = asyncio.ensure_future(call(context, "bash", command=command))
    async with asyncio.timeout(PATIENCE):
        await arrived.wait()
        assert not running.done()
        (context.cwd / "go").touch()
        assert (await running).text == "first\nsecond\n"


async def test_all_output_reaches_the_screen(context: ToolContext) -> None:
    pieces: list[str] = []
    context.output = pieces.append
    await call(context, "bash", command="printf '中%.0s' {1..500}; printf end")
    assert "".join(pieces) == "中" * 500 + "end"


@pytest.fixture
def time_runs_out(
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[[float, Callable[[], object]], None]:
    """A limit of so many seconds runs out once something is so, and not before."""
    ordinary, watching = asyncio.timeout, set[asyncio.Task[None]]()

    def when(limit: float, condition: Callable[[], object]) -> None:
        def timeout(seconds: float | None) -> asyncio.Timeout:
            if seconds != limit:
                return ordinary(seconds)
            scope = ordinary(None)

            async def watch() -> None:
                while not condition():
                    await asyncio.sleep(0.005)
                scope.reschedule(asyncio.get_running_loop().time())

            watching.add(asyncio.create_task(watch()))
            return scope

        monkeypatch.setattr(asyncio, "timeout", timeout)

    return when


async def test_a_timed_out_command_says_so_and_keeps_what_it_printed(
    context: ToolContext, time_runs_out: Callable[[float, Callable[[], object]], None]
) -> None:
    printed: list[str] = []
    context.output = printed.append
    time_runs_out(2, lambda: printed)
    outcome = await call(context, "bash", command="echo $$; exec sleep 1000", timeout=2)
    pid = int(outcome.text.split()[0])
    assert TIMED_OUT.format(seconds=2) in outcome.text
    assert (outcome.brief, outcome.is_error) == ("timed out ✗", True)
    await process_ended(pid)


@pytest.mark.parametrize(
    "command",
    [
        "echo $$ >p; sleep 1000 & echo $! >>p; wait",
        "trap '' TERM; echo $$ >p; sleep 1000 & echo $! >>p; while true; do sleep 1; done",
        "(sleep 1000 & echo $! >p; (trap '' TERM HUP INT; sleep 1001) & echo $! >>p; wait) | cat",
        "nohup sleep 1000 >/dev/null 2>&1 & echo $! >p; echo $$ >>p; sleep 1000",
        "setsid sleep 1000 >/dev/null 2>&1 & echo $! >p; setsid sh -c 'sleep 999 & echo $! >>p'; sleep 99",
        """setsid sh -c 'trap "" TERM; (while :; do sleep 9; done) & echo $! >p'; echo $$ >>p; sleep 999""",
        "set -m; sleep 1000 & echo $! >p; env -i sh -c 'echo $$ >>p; exec sleep 1000'",
        ESCAPES,
    ],
)
async def test_cancelling_leaves_no_process_behind(
    context: ToolContext, command: str
) -> None:
    running = asyncio.ensure_future(call(context, "bash", command=command))
    started = await pids(context.cwd / "p", 2)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    for pid in started:
        await process_ended(pid)


async def test_a_second_cancel_while_the_group_is_ended_leaves_nobody_either(
    context: ToolContext,
) -> None:
    command = "trap '' TERM; echo $$ >p; sleep 1000 & echo $! >>p; while true; do sleep 1; done"
    running = asyncio.ensure_future(call(context, "bash", command=command))
    started = await pids(context.cwd / "p", 2)
    running.cancel()
    await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    for pid in started:
        await process_ended(pid)


@pytest.mark.parametrize("cancels", [1, 2])
async def test_a_cancel_during_the_start_ends_what_the_program_has_started(
    context: ToolContext, monkeypatch: pytest.MonkeyPatch, cancels: int
) -> None:
    start = subprocess.Popen

    def start_and_cancel(*words: Any, **options: Any) -> Any:
        program = start(*words, **options)
        deadline = time.monotonic() + PATIENCE
        while len(numbers_in(context.cwd / "p")) < 2 and time.monotonic() < deadline:
            time.sleep(0.005)
        for _ in range(cancels):
            loop.call_soon(running.cancel)
        return program

    loop = asyncio.get_running_loop()
    monkeypatch.setattr(subprocess, "Popen", start_and_cancel)
    command = "trap '' TERM; echo $$ >p; sleep 1000 & echo $! >>p; sleep 1000"
    running = asyncio.ensure_future(call(context, "bash", command=command))
    with pytest.raises(asyncio.CancelledError):
        await running
    started = numbers_in(context.cwd / "p")
    assert len(started) == 2
    for pid in started:
        await process_ended(pid)


@pytest.mark.skipif(
    not Path("/proc/self/environ").exists(), reason="no /proc to find them by"
)
@pytest.mark.parametrize(
    "command",
    [
        "setsid sleep 1000 >/dev/null 2>&1 & echo $! >p; setsid sh -c 'sleep 1000 & echo $! >>p'; sleep 99",
        ESCAPES,
    ],
)
async def test_a_timed_out_command_takes_those_with_it_who_left_its_group(
    context: ToolContext,
    time_runs_out: Callable[[float, Callable[[], object]], None],
    command: str,
) -> None:
    time_runs_out(1, lambda: len(numbers_in(context.cwd / "p")) == 2)
    await call(context, "bash", command=command, timeout=1)
    for pid in await pids(context.cwd / "p", 2):
        await process_ended(pid)


@pytest.mark.skipif(
    not Path("/proc/self/environ").exists(), reason="no /proc to find them by"
)
async def test_what_finished_commands_left_running_ends_with_the_agent(
    context: ToolContext,
) -> None:
    await call(context, "bash", command=ESCAPES.replace("sleep 99", "true"))
    await call(
        context, "bash", command=ESCAPES.replace("sleep 99", "true"), background=True
    )
    started = await pids(context.cwd / "p", 4)
    assert all(map(is_running, started))
    await context.jobs.aclose()
    for pid in started:
        await process_ended(pid)


@pytest.mark.parametrize("how", ["", "setsid "])
async def test_a_background_process_that_holds_the_output_does_not_hold_the_call(
    context: ToolContext, how: str
) -> None:
    outcome = await call(
        context, "bash", command=f"{how}sleep 1000 & echo $!", timeout=60
    )
    pid = int(outcome.text.split()[0])
    assert "background" in outcome.text
    assert outcome.brief == "exit 0"
    await process_ended(pid)


async def test_who_comes_late_to_the_output_of_a_finished_program_gets_all_of_it(
    tmp_path: Path,
) -> None:
    """The event loop may be held up for longer than others' hold on the output is waited for."""
    said, go = b"", tmp_path / "go"

    async def take(chunk: bytes) -> bool:
        nonlocal said
        said += chunk
        go.touch()
        async with asyncio.timeout(PATIENCE):
            while child.status is None:
                await asyncio.sleep(0.005)
        return True

    command = "echo first; while [ ! -e go ]; do sleep 0.01; done; echo second"
    async with spawn(["sh", "-c", command], tmp_path) as child:
        assert await child.follow(take, drain=0) == 0
    assert said == b"first\nsecond\n"


async def test_one_in_the_background_that_writes_on_and_on_does_not_hold_the_call(
    tmp_path: Path,
) -> None:
    said = 0

    async def take(chunk: bytes) -> bool:
        nonlocal said
        said += len(chunk)
        return True

    async with (
        asyncio.timeout(PATIENCE),
        spawn(["sh", "-c", "yes & echo $! >p"], tmp_path) as child,
    ):
        assert await child.follow(take, drain=0) is None
    await process_ended(int((tmp_path / "p").read_text()))


@pytest.mark.parametrize(
    ("how", "also"), [("", ""), ("setsid ", ""), ("setsid ", "; sleep 1000 &")]
)
async def test_what_a_finished_command_left_with_its_output_in_a_file_goes_on(
    context: ToolContext, how: str, also: str
) -> None:
    outcome = await call(
        context, "bash", command=f"{how}sleep 1000 >log 2>&1 & echo $!{also}"
    )
    pid = int(outcome.text.split()[0])
    try:
        assert is_running(pid)
    finally:
        os.kill(pid, signal.SIGKILL)


@pytest.mark.skipif(
    not Path("/proc/self/environ").exists(), reason="no /proc to find them by"
)
@pytest.mark.parametrize("how", ["", "nohup ", "setsid ", "env -i /bin/"])
async def test_a_process_that_outlives_its_command_is_named(
    context: ToolContext, how: str
) -> None:
    outcome = await call(
        context, "bash", command=f"({how}sleep 1000 >/dev/null 2>&1 & echo $! >p)"
    )
    (pid,) = await pids(context.cwd / "p", 1)
    assert f"(PID {pid})" in outcome.text and not outcome.is_error
    await context.jobs.aclose()
    await process_ended(pid)


async def test_a_command_that_leaves_nothing_says_nothing_of_it(
    context: ToolContext,
) -> None:
    outcome = await call(context, "bash", command="sleep 0 & wait; echo over")
    assert outcome.text == "over\n"


async def test_a_cancel_takes_no_one_elses_process(context: ToolContext) -> None:
    outcome = await call(context, "bash", command="sleep 1000 >log 2>&1 & echo $!")
    other = int(outcome.text.split()[0])
    running = asyncio.ensure_future(
        call(context, "bash", command="echo $$ >p; echo x >>p; sleep 1000")
    )
    async with asyncio.timeout(PATIENCE):
        while not (context.cwd / "p").exists():
            await asyncio.sleep(0.005)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    try:
        assert is_running(other)
    finally:
        os.kill(other, signal.SIGKILL)


async def test_a_call_within_a_call_carries_both_marks(
    context: ToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(MARK, "outer")
    assert (await call(context, "bash", command=f"echo ${MARK}")).text.split()[
        0
    ] == "outer"


async def test_commands_get_no_key_of_a_provider(
    context: ToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = {name for provider in PROVIDERS.values() for name in provider.key_envs}
    assert len(names) > 8
    for name in names:
        monkeypatch.setenv(name, "sk-planted")
    assert (
        "sk-planted"
        not in (await call(context, "bash", command="env; cat /proc/$PPID/comm")).text
    )


async def test_long_output_is_clipped_and_the_pointer_reads_back_what_was_left_out(
    context: ToolContext,
) -> None:
    context.max_tokens = 700
    outcome = await call(
        context,
        "bash",
        command="for i in {1..5000}; do echo line $i of output; done; exit 1",
    )
    assert estimate_tokens(outcome.text) <= 700
    assert outcome.text.startswith("line 1 of output\n")
    assert outcome.text.endswith("line 5000 of output\n[exit 1]")
    pointer = next(line for line in outcome.text.splitlines() if line.startswith("[…"))
    path = pointer.partition("`read` ")[2].partition(" with offset")[0]
    offset = int(pointer.partition("offset ")[2].split()[0])
    assert outcome.full_output == path
    context.max_tokens = 100_000
    rest = await call(context, "read", path=path, offset=offset, limit=1)
    assert rest.text.startswith(f"line {offset} of output\n")
    assert TOOLS["read"].inside({"path": path}, context)


async def test_short_output_leaves_no_file(context: ToolContext) -> None:
    outcome = await call(context, "bash", command="echo hi")
    assert outcome.full_output is None
    assert not context.spill_dir.exists()


async def test_an_endless_output_is_bounded_and_its_end_is_kept(
    context: ToolContext,
) -> None:
    context.max_tokens = 500
    outcome = await call(
        context, "bash", command="yes | head -c 40000000; echo the end"
    )
    assert "the end" in outcome.text
    assert outcome.full_output is not None
    assert Path(outcome.full_output).stat().st_size < 20_000_000
    assert "were not kept" in Path(outcome.full_output).read_text()


async def test_terminal_sequences_progress_and_nul_do_not_reach_the_model(
    context: ToolContext,
) -> None:
    command = r"printf '\033[31mred\033[0m \033]0;title\007x\n10%%\r50%%\r100%%\r\na\0b\xff\n'"
    assert (await call(context, "bash", command=command)).text == "red x\n100%\na�b�\n"


async def test_a_program_that_cannot_be_started_is_an_error_outcome(
    context: ToolContext,
) -> None:
    context.cwd = context.cwd / "gone"
    assert (await call(context, "bash", command="true")).is_error


async def test_a_nul_in_a_command_is_an_error_outcome(context: ToolContext) -> None:
    outcome = await call(context, "bash", command="echo a\x00b")
    assert TOOLS["bash"].inside({"command": "cat /a\x00b"}, context)
    assert outcome.is_error
    assert "NUL" in outcome.text


@pytest.mark.skipif(
    not Path("/proc/self/fd").is_dir(), reason="no /proc to count descriptors in"
)
async def test_no_descriptor_is_left_open(context: ToolContext) -> None:
    await call(context, "bash", command="true")
    before = len(list(Path("/proc/self/fd").iterdir()))
    for command in ["true", "sleep 100 & true", "exit 1"]:
        await call(context, "bash", command=command)
    with pytest.raises(FileNotFoundError):
        async with spawn(["/no/such/program"], context.cwd):
            pass
    async with asyncio.timeout(PATIENCE):
        while len(list(Path("/proc/self/fd").iterdir())) > before:
            await asyncio.sleep(0.005)


def test_the_title_is_the_whole_command_on_one_line() -> None:
    bash = TOOLS["bash"]
    assert bash.title({"command": "git status"}) == "git status"
    assert bash.title({"command": "git status\nrm -rf x"}) == "git status ⏎ rm -rf x"
    assert "\x1b" not in bash.title({"command": "echo \x1b[2J"})
    assert bash.title({"command": "echo a\u202eb"}) == "echo a\\u202eb"
    assert "⏎" not in bash.title({"command": "echo ⏎"})


@pytest.mark.parametrize(
    ("command", "inside"),
    [
        ("pytest tests -x", True),
        ("cat src/a.py", True),
        ("cat ../other/a", False),
        ("cat /etc/passwd", False),
        ("cat ~/.ssh/id", False),
        ("tool --file=/etc/passwd", False),
        ("cat $HOME/x", False),
        ("cat 'unclosed", False),
        ("make >/dev/null", True),
    ],
)
def test_words_that_name_places_outside_are_seen(
    context: ToolContext, command: str, inside: bool
) -> None:
    assert TOOLS["bash"].inside({"command": command}, context) is inside
