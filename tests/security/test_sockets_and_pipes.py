"""Sockets and named pipes of other programs, as seen from the sandbox."""

import asyncio
import os
import socket
import struct
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from foldline.agent.permissions import sandbox, sandbox_engine
from foldline.agent.permissions.sandbox import READ_ACCESS, WRITE_ACCESS
from foldline.agent.permissions.sandbox_launcher import landlock_version, writing_rules
from support.sandboxes import SandboxRunner, sandbox_in

pytestmark = [
    pytest.mark.quick_cases(1),
    pytest.mark.skipif(
        not sys.platform.startswith("linux"), reason="bubblewrap is Linux's"
    ),
]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "home"
    for name in ("project", "outside", "runtime", ".app"):
        (home / name).mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("FOLDLINE_HOME", str(home / "foldline"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(home / "runtime"))
    return home


@pytest.fixture
async def walls(home: Path) -> AsyncIterator[SandboxRunner]:
    async with sandbox_in(home / "project", "bubblewrap") as made:
        yield made


@pytest.fixture(params=["/tmp", "$XDG_RUNTIME_DIR", "a dot folder"])
def place(request: pytest.FixtureRequest, home: Path, tmp_path: Path) -> Path:
    """A folder in which programs leave their sockets and pipes."""
    return {
        "/tmp": tmp_path,
        "$XDG_RUNTIME_DIR": home / "runtime",
        "a dot folder": home / ".app",
    }[request.param]


def listening(path: str) -> socket.socket:
    made = socket.socket(socket.AF_UNIX)
    made.bind(path)
    made.listen()
    made.setblocking(False)
    return made


def is_reached(made: socket.socket) -> bool:
    try:
        made.accept()
    except BlockingIOError:
        return False
    return True


CONNECTS = "import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1]); print('connected')"
WAYS = ("by its name", "renamed", "relative", "linked")


@pytest.fixture(params=WAYS)
def server(
    request: pytest.FixtureRequest, place: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[socket.socket]:
    """Another program's server, with its socket `s` in that folder."""
    monkeypatch.chdir(place)
    bound = {"by its name": f"{place}/s", "relative": "s"}.get(
        request.param, f"{place}/other"
    )
    with listening(bound) as made:
        if request.param == "renamed":
            Path(bound).rename(place / "s")
        elif request.param == "linked":
            (place / "s").hardlink_to(bound)
        yield made


async def test_no_socket_is_reachable_under_any_name(
    walls: SandboxRunner, place: Path, server: socket.socket
) -> None:
    tried = await walls.python(CONNECTS, str(place / "s"))
    assert tried.status == 1
    assert not is_reached(server)


def test_a_socket_is_reachable_without_a_sandbox(
    place: Path, server: socket.socket
) -> None:
    subprocess.run(
        [sys.executable, "-c", CONNECTS, str(place / "s")],
        check=True,
        capture_output=True,
    )
    assert is_reached(server)


async def test_a_socket_newer_than_the_command_is_not_reachable(
    walls: SandboxRunner, place: Path
) -> None:
    code = (
        "import os, time\nopen('begun', 'w')\nwhile not os.path.exists('go'): time.sleep(.01)\n"
        + CONNECTS
    )
    running = asyncio.ensure_future(walls.python(code, str(place / "s")))
    while not (walls.cwd / "begun").exists():
        await asyncio.sleep(0.01)
    with listening(str(place / "s")) as made:
        (walls.cwd / "go").touch()
        assert (await running).status == 1
        assert not is_reached(made)


async def test_a_socket_in_a_visible_folder_is_unreachable_by_its_bound_name(
    walls: SandboxRunner, home: Path
) -> None:
    with listening(str(home / "outside" / "s")) as made:
        assert (await walls.python(CONNECTS, str(home / "outside" / "s"))).status == 1
        assert not is_reached(made)


async def test_sockets_in_the_working_folder_are_reachable_by_the_next_command(
    walls: SandboxRunner,
) -> None:
    serves = "import socket\ns = socket.socket(socket.AF_UNIX)\ns.bind('s')\ns.listen()\ns.accept()"
    server = asyncio.ensure_future(walls.python(serves))
    while not (walls.cwd / "s").exists():
        await asyncio.sleep(0.01)
    for _ in range(100):  # the socket exists before it listens
        if (tried := await walls.python(CONNECTS, "s")).status == 0:
            break
    assert tried.text == "connected\n"
    await server


# --- pipes ---------------------------------------------------------------------------------------------

WRITES = {
    "to write": 'timeout 5 sh -c "echo x >$1"',
    "to read and write": 'timeout 5 sh -c "echo x 1<>$1"',
    "by a link": 'ln -s "$1" l; timeout 5 sh -c "echo x >l"',
    "through /proc": 'timeout 5 sh -c "echo x >/proc/self/root$1"',
    "without waiting": "dd if=/etc/hostname of=$1 oflag=nonblock conv=notrunc,nocreat",
}


@pytest.fixture
def pipe(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Path, int]]:
    """A named pipe in a folder visible to commands, and its read end."""
    # All test folders are there, but this test needs one elsewhere.
    monkeypatch.setattr(sandbox, "_TEMPORARY", ())
    path = home / "outside" / "pipe"
    os.mkfifo(path)
    end = os.open(path, os.O_RDWR | os.O_NONBLOCK)
    yield path, end
    os.close(end)


def waiting(end: int) -> bytes:
    try:
        return os.read(end, 100)
    except BlockingIOError:
        return b""


@pytest.mark.parametrize("way", WRITES)
@pytest.mark.parametrize("with_perl", [True, False])
async def test_no_named_pipe_outside_can_be_written_to(
    walls: SandboxRunner,
    pipe: tuple[Path, int],
    way: str,
    with_perl: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if landlock_version() < 2:
        pytest.skip("this kernel's Landlock cannot; see what is said of it below")
    if not with_perl:
        monkeypatch.setattr(sandbox, "_PERL", "/nowhere/perl")
    await walls.run(WRITES[way], str(pipe[0]))
    assert waiting(pipe[1]) == b""


@pytest.mark.parametrize("way", [way for way in WRITES if way != "by a link"])
def test_a_named_pipe_can_be_written_to_without_a_sandbox(
    pipe: tuple[Path, int], way: str
) -> None:
    subprocess.run(["bash", "-c", WRITES[way], "sh", str(pipe[0])], check=False)
    assert waiting(pipe[1])


async def test_no_named_pipe_in_a_runtime_folder_can_be_read(
    walls: SandboxRunner, place: Path
) -> None:
    os.mkfifo(place / "pipe")
    end = os.open(place / "pipe", os.O_RDWR | os.O_NONBLOCK)
    os.write(end, b"for another")
    await walls.run('timeout 5 cat "$1/pipe"; echo x >"$1/pipe"', str(place))
    assert waiting(end) == b"for another"
    os.close(end)


USES = """
import multiprocessing, os, pty
multiprocessing.Lock()
master, slave = pty.openpty()
os.write(slave, b"x")
os.mkfifo("pipe")
end = os.open("pipe", os.O_RDWR)
os.write(end, b"x")
os.makedirs("a/b")
open("f", "w").write("x")
os.rename("f", "a/f")
os.link("a/f", "a/b/f")
os.rename("a/b", "b")
open("/dev/stderr", "w").write("")
open(f"/proc/self/fd/{os.memfd_create('m')}", "w").write("x")
open("/proc/self/comm", "w").write("x")
open("/dev/shm/x", "w").write("x")
print("all of it")
"""


async def test_pipes_and_sockets_work_inside_the_sandbox(walls: SandboxRunner) -> None:
    assert (await walls.python(USES)).text == "all of it\n"


# --- private folders -----------------------------------------------------------------------------------


async def test_commands_have_their_own_temporary_files(
    walls: SandboxRunner, tmp_path: Path
) -> None:
    (tmp_path / "theirs").write_text("theirs")
    name = f"foldline-test-{os.getpid()}"
    assert (
        await walls.run(
            'echo x >"/tmp/$1"; echo y >"/var/tmp/$1-2"; echo z >$XDG_RUNTIME_DIR/s',
            name,
        )
    ).status == 0
    assert (
        await walls.run('cat "/tmp/$1" "$TMPDIR/$1-2" $XDG_RUNTIME_DIR/s', name)
    ).text == "x\ny\nz\n"
    assert not Path("/tmp", name).exists()
    tried = await walls.run('cat "$1"', str(tmp_path / "theirs"))
    assert "theirs\n" not in tried.text
    assert tried.refused == READ_ACCESS.format(paths=tmp_path / "theirs")


async def test_running_services_are_invisible(walls: SandboxRunner) -> None:
    assert (
        await walls.run("find /run /var/run/ ! -type d ! -name '*resolv.conf'")
    ).text == ""
    tried = await walls.run("echo x >/run/new")
    assert tried.refused == WRITE_ACCESS.format(paths="/run/new")


async def test_a_folder_in_tmp_can_be_the_working_folder_with_its_repository_visible(
    tmp_path: Path,
) -> None:
    (tmp_path / "top" / ".git").mkdir(parents=True)
    (tmp_path / "top" / "part").mkdir()
    (tmp_path / "top" / "a").write_text("seen\n")
    for may_change in (True, False):
        async with sandbox_in(
            tmp_path / "top" / "part", "bubblewrap", may_change=may_change
        ) as made:
            assert (await made.run("cat ../a")).text == "seen\n"
            assert ((await made.run("echo x >new")).status == 0) is may_change


# --- kernel versions -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "rights", "unheld"),
    [
        (0, 0, "sockets and named pipes"),
        (1, 0, "sockets and named pipes"),
        (2, 0b10, "(Linux 7.1 can)"),
        (9, 0b10 | 1 << 16, "reading named pipes"),
    ],
)
def test_each_version_of_landlock_is_used_and_its_gaps_are_reported(
    version: int, rights: int, unheld: str
) -> None:
    rules = writing_rules(["/work"], version)
    assert unheld in sandbox_engine._beyond_this_kernel(version)
    assert bool(rules) is (version > 1), (
        "the first one would forbid all moves between folders"
    )
    if rules:
        moves = 1 << 13
        assert struct.unpack("=Q", bytes.fromhex(rules[0])) == (rights | moves,)
        places = dict(zip(rules[2::2], map(int, rules[3::2]), strict=True))
        assert places == {"/": moves, "/work": rights, "/dev": rights, "/proc": rights}
    assert ("sockets" in sandbox_engine._beyond_this_kernel(version)) is (version < 9)
