"""Commands in the background: `bash` with `background`, and `jobs`."""

import asyncio
import os
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from foldline.agent.settings.api_keys import Mask
from foldline.agent.tools import ToolContext, ToolOutcome, bash, jobs
from foldline.agent.tools.jobs import BackgroundJob
from foldline.agent.tools.process import SEVERAL_RUNNING, STILL_RUNNING
from foldline.view.tokens import estimate_tokens
from support.agents import PATIENCE
from support.sentences import says
from support.tools import TOOLS, call, tool_context

from .test_bash import is_running, pids, process_ended


@pytest.fixture
async def context(tmp_path: Path) -> AsyncIterator[ToolContext]:
    cwd = tmp_path / "project"
    cwd.mkdir()
    context = tool_context(cwd)
    yield context
    await context.jobs.aclose()


@pytest.fixture
def until_it_speaks(monkeypatch: pytest.MonkeyPatch) -> None:
    """`bash` looks at what it has started once there is something to see, however slow the machine is."""
    ordinary = BackgroundJob.wait

    async def wait(job: BackgroundJob, seconds: float) -> None:
        if seconds != bash._START_SECONDS:
            await ordinary(job, seconds)
            return
        async with asyncio.timeout(PATIENCE):
            while job.is_running and not job.output.text():
                await asyncio.sleep(0.005)

    monkeypatch.setattr(BackgroundJob, "wait", wait)


@pytest.fixture
def until_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """`bash` looks at what it has started once it has ended."""
    monkeypatch.setattr(bash, "_START_SECONDS", PATIENCE)


async def start(context: ToolContext, command: str, **more: object) -> ToolOutcome:
    return await call(context, "bash", command=command, background=True, **more)


def output_of(context: ToolContext, number: int) -> Path:
    return context.spill_dir / f"job-{number}.txt"


@pytest.mark.usefixtures("until_it_speaks")
async def test_a_job_goes_on_after_its_call_and_its_output_can_be_read(
    context: ToolContext,
) -> None:
    started = await start(
        context,
        "echo $$ >p; echo hello; while [ ! -e go ]; do sleep 0.01; done; echo bye",
    )
    assert "hello\n[job 1 runs" in started.text
    assert started.brief == "job 1 runs"
    assert "hello" in (await call(context, "jobs", action="output", job=1)).text
    (context.cwd / "go").touch()
    ended = await call(context, "jobs", action="wait", job=1)
    assert ended.text.startswith("hello\nbye\n[job 1 ended: exit 0")
    assert started.full_output == str(output_of(context, 1))
    assert (
        await call(context, "read", path=started.full_output)
    ).text == "hello\nbye\n"
    assert stat.S_IMODE(output_of(context, 1).stat().st_mode) == 0o600
    assert stat.S_IMODE(context.spill_dir.stat().st_mode) == 0o700


@pytest.mark.usefixtures("until_it_ends")
async def test_a_job_that_fails_at_once_says_so_at_once(context: ToolContext) -> None:
    outcome = await start(context, "echo oh no >&2; exit 3")
    assert outcome.is_error
    assert outcome.text.startswith("oh no\n[job 1 ended: exit 3")


async def test_waiting_ends_after_the_time_that_was_given(context: ToolContext) -> None:
    await start(context, "sleep 1000")
    assert (
        "[job 1 runs"
        in (await call(context, "jobs", action="wait", job=1, seconds=0.01)).text
    )


async def test_stopping_a_job_ends_all_it_started(context: ToolContext) -> None:
    await start(
        context,
        "setsid sleep 1000 >/dev/null 2>&1 & echo $! >p; sleep 1000 & echo $! >>p; wait",
    )
    started = await pids(context.cwd / "p", 2)
    outcome = await call(context, "jobs", action="stop", job=1)
    assert "[job 1 ended: stopped" in outcome.text
    for pid in started:
        await process_ended(pid)


async def test_a_job_can_have_an_end_in_time(context: ToolContext) -> None:
    await start(context, "sleep 1000", timeout=0.05)
    outcome = await call(context, "jobs", action="wait", job=1)
    assert f"ended: {jobs.TIMED_OUT.format(seconds=0.05)}" in outcome.text


async def test_a_script_that_leaves_its_server_behind_is_that_server(
    context: ToolContext,
) -> None:
    await start(
        context,
        "echo $$ >p; (echo $BASHPID >>p; echo ready; exec sleep 1000) & sleep 0.05",
    )
    script, server = await pids(context.cwd / "p", 2)
    await process_ended(script)
    assert is_running(server)
    async with asyncio.timeout(PATIENCE):
        while (
            "ready\n[job 1 runs"
            not in (await call(context, "jobs", action="output", job=1)).text
        ):
            await asyncio.sleep(0.005)
    await call(context, "jobs", action="stop", job=1)
    await process_ended(server)


def runs_on(text: str) -> bool:
    return says(text, STILL_RUNNING) or says(text, SEVERAL_RUNNING)


@pytest.mark.skipif(
    not Path("/proc/self/environ").exists(), reason="no /proc to find them by"
)
async def test_a_job_that_puts_itself_in_the_background_is_known_to_run_on(
    context: ToolContext,
) -> None:
    command = "nohup sleep 1000 >/dev/null 2>&1 & setsid sleep 1000 >/dev/null 2>&1 & echo $! >p; echo up"
    await start(context, command)
    ended = await call(context, "jobs", action="wait", job=1)
    (pid,) = await pids(context.cwd / "p", 1)
    assert says(ended.text, SEVERAL_RUNNING, count=2) and str(pid) in ended.text
    assert str(pid) in (await call(context, "jobs")).text
    stopped = await call(context, "jobs", action="stop", job=1)
    await process_ended(pid)
    assert not runs_on(stopped.text + (await call(context, "jobs")).text)


@pytest.mark.skipif(
    not Path("/proc/self/environ").exists(), reason="no /proc to find them by"
)
async def test_a_process_of_a_job_that_ends_later_is_not_named_any_more(
    context: ToolContext,
) -> None:
    await start(
        context, "(while [ ! -e go ]; do sleep 0.01; done) >/dev/null 2>&1 & echo $! >p"
    )
    (pid,) = await pids(context.cwd / "p", 1)
    assert runs_on((await call(context, "jobs")).text)  # `sleep` may be there, too
    (context.cwd / "go").touch()
    await process_ended(pid)
    async with asyncio.timeout(PATIENCE):
        while runs_on((await call(context, "jobs")).text):
            await asyncio.sleep(0.005)


async def test_jobs_of_an_earlier_run_are_listed_with_their_output(
    context: ToolContext,
) -> None:
    context.spill_dir.mkdir()
    for name in ("job-4.txt", "job-12.txt", "job-x.txt", "bash-1234.txt"):
        (context.spill_dir / name).write_text("from before\n")
    listed = (await call(context, "jobs")).text.splitlines()
    assert [line.split()[0] for line in listed] == ["4", "12"]
    assert str(output_of(context, 12)) in listed[1]


async def test_cancelling_a_wait_does_not_touch_the_job(context: ToolContext) -> None:
    await start(context, "echo $$ >p; exec sleep 1000")
    (pid,) = await pids(context.cwd / "p", 1)
    waiting = asyncio.ensure_future(call(context, "jobs", action="wait", job=1))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert is_running(pid)


async def test_closing_ends_all_jobs_without_a_word(context: ToolContext) -> None:
    said: list[BackgroundJob] = []
    context.jobs.on_end = said.append
    for _ in range(3):
        await start(context, "echo $$ >>p; exec sleep 1000")
    started = await pids(context.cwd / "p", 3)
    await context.jobs.aclose()
    assert said == []
    for pid in started:
        await process_ended(pid)


async def test_the_end_of_a_job_is_said_once_to_each(context: ToolContext) -> None:
    said: list[str] = []
    context.jobs.on_end = lambda job: said.append(job.state)
    await start(context, "while [ ! -e go ]; do sleep 0.01; done; exit 7")
    assert context.jobs.unreported() == []
    (context.cwd / "go").touch()
    await context.jobs.all()[0].wait(PATIENCE)
    assert said == ["ended: exit 7"]
    assert len(context.jobs.unreported()) == 1
    assert "ended: exit 7" in (await call(context, "jobs")).text
    assert context.jobs.unreported() == [], "the listing has told the model"


async def test_a_job_that_is_stopped_before_it_began_has_ended(
    context: ToolContext,
) -> None:
    job = context.jobs.start(
        ["touch", "x"], "touch x", context.cwd, {}, context.spill_dir, None, Mask()
    )
    await context.jobs.stop(job)
    assert job.state == "ended: stopped"


@pytest.mark.usefixtures("until_it_ends")
async def test_a_job_that_cannot_be_started_says_why(context: ToolContext) -> None:
    context.cwd = context.cwd / "gone"
    assert "could not be started: no such file" in (await start(context, "true")).text


async def test_only_so_many_run_at_a_time(context: ToolContext) -> None:
    for _ in range(16):
        context.jobs.start(
            ["sleep", "1000"],
            "sleep 1000",
            context.cwd,
            os.environ,
            context.spill_dir,
            None,
            Mask(),
        )
    refused = await start(context, "echo no")
    assert refused.is_error
    assert refused.text == jobs.TOO_MANY_JOBS.format(jobs="16 jobs")


async def test_numbers_go_on_in_a_resumed_session_and_old_jobs_are_known_to_have_ended(
    context: ToolContext,
) -> None:
    context.spill_dir.mkdir()
    output_of(context, 4).write_text("from before\n")
    assert "job 5 " in (await start(context, "true")).text
    old = await call(context, "jobs", action="output", job=4)
    path = output_of(context, 4)
    assert old.text == bash.EARLIER_JOB.format(number=4, closed=bash.CLOSED, path=path)
    missing = await call(context, "jobs", action="stop", job=9)
    assert says(missing.text, bash.NO_JOB, number=9)
    unnamed = await call(context, "jobs", action="wait")
    assert unnamed.text == bash.NO_NUMBER.format(action="wait")


async def test_a_long_output_is_clipped_and_the_pointer_shows_the_rest(
    context: ToolContext,
) -> None:
    await start(context, "for i in {1..5000}; do echo line $i of output; done")
    await context.jobs.all()[0].wait(PATIENCE)
    context.max_tokens = 700
    outcome = await call(context, "jobs", action="output", job=1, lines=4000)
    assert estimate_tokens(outcome.text) <= 700
    assert outcome.text.startswith("line 1001 of output\n")
    assert "lines 1001–5000 shown" in outcome.text
    pointer = next(line for line in outcome.text.splitlines() if line.startswith("[…"))
    path = pointer.partition("`read` ")[2].partition(" with offset")[0]
    offset, limit = (
        int(pointer.partition("offset ")[2].split()[0]),
        int(pointer.partition("limit ")[2].split()[0]),
    )
    shown = outcome.text.splitlines()
    at = shown.index(pointer)
    context.max_tokens = 100_000
    rest = (
        await call(context, "read", path=path, offset=offset, limit=limit)
    ).text.splitlines()[:-1]
    assert [*shown[:at], *rest, *shown[at + 1 : -1]] == [
        f"line {n} of output" for n in range(1001, 5001)
    ]
    assert TOOLS["read"].inside({"path": path}, context)


async def test_what_a_terminal_would_not_show_is_not_kept(context: ToolContext) -> None:
    await start(
        context,
        r"printf '\033[31mred\033[0m\n10%%\r50%%\r'; sleep 0.1; printf '100%%\na\0b\n'",
    )
    await context.jobs.all()[0].wait(PATIENCE)
    assert output_of(context, 1).read_text() == "red\n100%\na�b\n"


@pytest.mark.usefixtures("until_it_speaks")
async def test_an_unfinished_line_is_shown(context: ToolContext) -> None:
    assert (
        "Password: \n[job 1 runs"
        in (await start(context, "printf 'Password: '; sleep 1000")).text
    )


async def test_a_runaway_writer_does_not_fill_the_disk_and_its_end_is_kept(
    context: ToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "KEPT_START", 100_000)
    monkeypatch.setattr(jobs, "KEPT_END", 50_000)
    await start(context, "echo the start; seq 1 1000000; touch done; sleep 1000")
    async with asyncio.timeout(PATIENCE):
        while not (context.cwd / "done").exists():
            await asyncio.sleep(0.01)
            assert (
                not output_of(context, 1).exists()
                or output_of(context, 1).stat().st_size < 300_000
            )
        while (
            "1000000\n[job 1 runs"
            not in (await call(context, "jobs", action="output", job=1)).text
        ):
            await asyncio.sleep(0.01)
    kept = output_of(context, 1).read_text()
    assert kept.startswith("the start\n1\n2\n")
    assert kept.count("of output were not kept") == 1
    assert kept.endswith("\n999999\n1000000\n")


async def test_a_full_disk_is_told_and_does_not_end_the_job(
    context: ToolContext,
) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full")
    context.spill_dir.mkdir()
    full = open("/dev/full", "wb", buffering=0)  # noqa: PTH123, SIM115
    keeper = jobs.JobOutput(1, Path("/dev/null"), full, Mask())
    assert await keeper.take(b"text\n")
    assert "no space left" in keeper.trouble.lower()
    keeper.close()
