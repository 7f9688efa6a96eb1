"""What commands may do in the sandbox, and that what people do every day still works in it."""

import asyncio
import os
import shutil
import struct
import subprocess
import sysconfig
import threading
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from foldline.agent.permissions.confinement import BLOCKED
from foldline.agent.permissions.sandbox import NETWORK_ACCESS, WRITE_ACCESS, Sandbox
from foldline.agent.permissions.sandbox_engine import Engine, engine_here
from foldline.agent.permissions.sandbox_launcher import filter_bytes
from foldline.agent.permissions.sandbox_network import REFUSED
from foldline.agent.permissions.sandbox_policy import (
    SandboxOptions,
    SandboxPolicy,
    bubblewrap_words,
    places_written,
    policy_for,
    seatbelt_profile,
)
from foldline.agent.tools import ToolContext, search
from foldline.agent.tools.search import NO_MATCH
from foldline.files import write_new
from foldline.programs import why_missing
from support.sandboxes import EngineName, SandboxRunner, sandbox_in
from support.tools import call, tool_context

POLICY = SandboxPolicy(
    "/home/me/shop",
    writable=("/home/me/shop", "/tmp/foldline-1"),
    read_only=("/home/me/shop/.envrc",),
    hidden=("/home/me/.ssh", "/home/me/.netrc"),
    shown=("/home/me/.ssh/known",),
)


def pairs(words: list[str]) -> list[tuple[str, ...]]:
    return list(zip(words, words[1:], words[2:], strict=False))


def policy(
    folder: Path,
    writable: Sequence[Path] = (),
    *,
    may_change: bool = True,
    **given: object,
) -> SandboxPolicy:
    places = places_written(folder, writable, may_change=may_change)
    settings = {
        "places": places,
        "home": folder.parent / "home",
        "environ": {},
        "private": {},
        **given,
    }
    return policy_for(folder, **settings)  # type: ignore[arg-type]


def test_bubblewrap_is_told_the_deeper_path_later() -> None:
    words = bubblewrap_words(POLICY, is_root=False, filter_from=7)
    assert pairs(words).index(("--ro-bind", "/", "/")) < words.index("/home/me/shop")
    assert words.index("/home/me/shop") < words.index("/home/me/shop/.envrc")
    assert ("--ro-bind", "/home/me/shop/.envrc", "/home/me/shop/.envrc") in pairs(words)
    assert ("--ro-bind", "/dev/null", "/home/me/.netrc") in pairs(words)
    assert words[-1] == "--"
    assert {
        "--unshare-user",
        "--unshare-pid",
        "--unshare-net",
        "--die-with-parent",
    } < set(words)
    assert words[words.index("--seccomp") + 1] == "7"


def test_root_keeps_its_ways_with_files_and_no_power_over_the_machine() -> None:
    words = bubblewrap_words(POLICY, is_root=True, filter_from=None)
    assert "CAP_DAC_OVERRIDE" in words
    assert not {
        "CAP_SYS_ADMIN",
        "CAP_MKNOD",
        "CAP_NET_ADMIN",
        "CAP_SYS_PTRACE",
        "ALL_CAPS",
    } & set(words)
    assert words[words.index("--cap-drop") + 1] == "ALL"


def test_in_the_profile_of_seatbelt_the_deeper_path_comes_later_and_so_wins() -> None:
    lines = seatbelt_profile(
        replace(POLICY, hidden=("/home/me", "/home/me/shop/key"))
    ).splitlines()
    assert lines[0] == "(version 1)"
    wanted = [
        "(deny file-write*)",
        '(deny file-read* file-write* (subpath "/home/me"))',
        '(allow file-read-metadata (subpath "/home/me"))',
        '(allow file-read* file-write* (subpath "/home/me/shop"))',
        '(allow file-read* (subpath "/home/me/.ssh/known"))',
        '(deny file-write* (subpath "/home/me/shop/.envrc"))',
        '(deny file-read* file-write* (subpath "/home/me/shop/key"))',
        "(deny network*)",
    ]
    assert [line for line in lines if line in wanted] == wanted
    assert all(line.count("(") == line.count(")") for line in lines)


def test_a_path_with_quotes_ends_no_rule_of_seatbelt() -> None:
    odd = seatbelt_profile(SandboxPolicy("/x", writable=('/x") (subpath "/',)))
    assert r'(subpath "/x\") (subpath \"/")' in odd


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_the_filter_is_a_program_whose_jumps_stay_in_it(machine: str) -> None:
    steps = list(struct.iter_unpack("=HBBI", filter_bytes(machine, network=False)))
    assert 0 < len(steps) <= 4096  # BPF_MAXINSNS
    for at, (what, if_so, if_not, _) in enumerate(steps):
        assert what in (0x20, 0x15, 0x35, 0x45, 0x06)
        assert at + 1 + max(if_so, if_not) < len(steps) or what == 0x06
    assert steps[-1][:1] == (0x06,)


def test_for_a_machine_nobody_knows_there_is_no_filter() -> None:
    assert filter_bytes("pdp11", network=True) == b""


def test_only_what_is_there_is_named_and_by_its_real_path(tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    (tmp_path / "home").mkdir()
    (tmp_path / "link").symlink_to("shop")
    found = policy(tmp_path / "link", writable=[tmp_path / "missing"])
    assert found.cwd == os.path.realpath(tmp_path / "shop")
    assert found.writable == (found.cwd,)
    assert os.path.realpath(tmp_path / "home") in found.hidden


def test_what_may_change_nothing_writes_only_what_is_given(tmp_path: Path) -> None:
    (tmp_path / "shop" / ".git").mkdir(parents=True)
    (tmp_path / "scratch").mkdir()
    found = policy(tmp_path / "shop", writable=[tmp_path / "scratch"], may_change=False)
    assert found.writable == (os.path.realpath(tmp_path / "scratch"),)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            "touch: cannot touch '/etc/x': Read-only file system",
            "write access: /etc/x",
        ),
        (
            "OSError: [Errno 30] Read-only file system: '/opt/y'",
            "write access: /opt/y",
        ),
        ("open /opt/z/cache: read-only file system", "write access: /opt/z/cache"),
        ("curl: (6) Could not resolve host: example.org", NETWORK_ACCESS),
        ("E   AssertionError: assert 1 == 2", None),
        ("cat: data.txt: No such file or directory", None),
    ],
)
def test_what_a_command_writes_tells_what_it_was_kept_from(
    tmp_path: Path, words: str, said: str | None
) -> None:
    found = Sandbox(tmp_path).blocked(words, failed=True)
    assert (found.words if found else None) == said


def test_commands_that_start_together_have_one_whole_folder_of_temporary_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Sandbox(tmp_path)
    seen: list[tuple[str, bool]] = []
    second = threading.Thread(
        target=lambda: seen.append((made.scratch, Path(made.scratch).is_dir()))
    )

    def interrupted(path: Path, data: bytes, **options: bool) -> None:
        second.start()
        second.join(0.2)  # it ends by then, unless it waits for this thread
        write_new(path, data, **options)

    monkeypatch.setattr("foldline.agent.permissions.sandbox.write_new", interrupted)
    first = made.scratch
    second.join()
    assert seen == [(first, True)]


async def test_where_there_is_none_no_command_pretends_to_be_in_one(
    tmp_path: Path,
) -> None:
    context = tool_context(tmp_path)
    context.box = Sandbox(tmp_path, engine=Engine("", "there is nothing here"))
    outcome = await call(context, "bash", command="echo ran")
    assert outcome.is_error
    assert "ran" not in outcome.text


def test_without_bubblewrap_it_is_said_why(monkeypatch: pytest.MonkeyPatch) -> None:
    if not engine_here().name:
        pytest.skip("there is no Landlock here either")
    monkeypatch.setenv("PATH", "/nowhere")
    found = engine_here.__wrapped__()
    assert not found.holds
    assert why_missing("bwrap") in found.why


# --- what people do -----------------------------------------------------------------------------------


def git(folder: Path, *words: str) -> str:
    who = ["-c", "user.name=A", "-c", "user.email=a@b.c"]
    return subprocess.run(
        ["git", *who, *words], cwd=folder, check=True, capture_output=True, text=True
    ).stdout


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "shop"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    (folder / "a").write_text("a\n")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "first")
    return folder


COMMIT = (
    "echo b >b && git add . && "
    "git -c user.name=A -c user.email=a@b.c commit -q -m second && git status -s"
)


async def test_git_commits(repository: Path) -> None:
    async with sandbox_in(repository, "bubblewrap") as made:
        tried = await made.run(COMMIT)
    assert (tried.status, tried.text) == (0, "")
    assert git(repository, "log", "--format=%s") == "second\nfirst\n"


async def test_git_commits_in_a_working_tree_and_below_the_top(
    repository: Path, tmp_path: Path
) -> None:
    git(repository, "worktree", "add", "-q", str(tmp_path / "tree"))
    (repository / "below").mkdir()
    for folder in (tmp_path / "tree", repository / "below"):
        async with sandbox_in(folder, "bubblewrap") as made:
            tried = await made.run(COMMIT)
            hooks = await made.run(
                'echo x >"$(git rev-parse --git-common-dir)/hooks/pre-commit"'
            )
        assert (tried.status, tried.text) == (0, "")
        assert hooks.status == 1
    assert not (repository / ".git" / "hooks" / "pre-commit").exists()


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("engine", ["bubblewrap", "landlock"])
@pytest.mark.parametrize("with_ripgrep", [True, False])
async def test_grep_searches_in_it(
    tmp_path: Path,
    engine: EngineName,
    with_ripgrep: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What it may see is in `security/test_escapes.py`."""
    found = shutil.which("rg") or shutil.which("rg", path=sysconfig.get_path("scripts"))
    if with_ripgrep and found is None:
        pytest.skip("ripgrep is not installed")
    for name in ("shop/part/a.py", "shop/b.txt", "beside/c.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("needle\n")
    (tmp_path / "shop" / "link").symlink_to("part")
    context = tool_context(tmp_path / "shop")
    async with sandbox_in(tmp_path / "shop", engine) as made:
        chosen = found if with_ripgrep else None
        monkeypatch.setattr(search, "find_program", lambda name: chosen)
        context.box = made.sandbox
        here = await call(context, "grep", pattern="needle")
        linked = await call(context, "grep", pattern="needle", path="link", glob="*.py")
        beside = await call(
            context, "grep", pattern="needle", path=str(tmp_path / "beside")
        )
        none = await call(context, "grep", pattern="nothing")
    assert here.text == "b.txt:1: needle\npart/a.py:1: needle\n"
    assert linked.text == "link/a.py:1: needle\n"
    assert beside.text == f"{tmp_path}/beside/c.py:1: needle\n"
    assert none.text == NO_MATCH.format(pattern="nothing")


async def test_a_server_of_one_command_is_reached_by_the_next(tmp_path: Path) -> None:
    context = tool_context(tmp_path)
    async with sandbox_in(tmp_path, "bubblewrap") as made:
        context.box = made.sandbox
        (tmp_path / "index.html").write_text("hello")
        serve = "python3 -u -m http.server 8765 --bind 127.0.0.1"
        await call(context, "bash", command=serve, background=True)
        get = "until curl -s http://127.0.0.1:8765/index.html; do sleep 0.05; done"
        assert (await call(context, "bash", command=get)).text.startswith("hello")
        await context.jobs.aclose()


@pytest.fixture
async def site() -> AsyncIterator[int]:
    """A site of this machine, outside of the sandbox: its port."""

    async def answer(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        writer.write(
            b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + head.split(b"\r\n")[0]
        )
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    yield server.sockets[0].getsockname()[1]
    server.close()


async def got(made: SandboxRunner, url: str, *options: str) -> str:
    tried = await made.run('curl -sS --noproxy "" --max-time 20 "$@"', *options, url)
    return tried.text + tried.refused


async def test_a_host_that_was_set_is_reached_and_no_other(
    tmp_path: Path, site: int
) -> None:
    async with sandbox_in(tmp_path, "bubblewrap", hosts=["127.0.0.1"]) as made:
        assert (
            await got(made, f"http://127.0.0.1:{site}/a?b=c") == "GET /a?b=c HTTP/1.1"
        )
        assert (
            await got(made, f"http://127.0.0.1:{site}/a", "--proxytunnel")
            == "GET /a HTTP/1.1"
        )
        assert REFUSED in await got(made, f"http://localhost:{site}/")


async def test_a_host_that_was_allowed_by_its_name_leads_to_no_inner_address(
    tmp_path: Path, site: int
) -> None:
    async with sandbox_in(tmp_path, "bubblewrap") as made:
        made.sandbox.allowed = {"localhost"}.__contains__
        assert REFUSED in await got(made, f"http://localhost:{site}/")


def test_the_name_of_a_host_may_stand_for_all_below_it(tmp_path: Path) -> None:
    made = Sandbox(tmp_path, SandboxOptions(hosts=["*.example.org", "PyPI.org"]))
    assert [
        made._allows(host) for host in ("a.example.org", "example.org", "pypi.org")
    ] == ["any", "", "any"]
    assert not made._allows("badexample.org")


async def test_a_failing_command_says_to_the_model_what_the_sandbox_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "shop").mkdir()
    context: ToolContext = tool_context(tmp_path / "shop")
    async with sandbox_in(tmp_path / "shop", "bubblewrap") as made:
        context.box = made.sandbox
        outcome = await call(context, "bash", command="echo x >../new")
    access = WRITE_ACCESS.format(paths=tmp_path / "new")
    assert BLOCKED.format(access=access) in outcome.text
    assert outcome.refused is not None
