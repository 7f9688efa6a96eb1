"""Real programs that try to get out of the sandbox: with bubblewrap, and with Landlock alone.

Escapes are harmless: the files and processes under attack belong to the test.
"""

import asyncio
import os
import pty
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from foldline.agent.permissions import sandbox
from foldline.agent.permissions.sandbox import (
    MORE_MEMORY,
    NETWORK_ACCESS,
    READ_ACCESS,
    WRITE_ACCESS,
)
from foldline.agent.permissions.sandbox_engine import Engine
from foldline.agent.permissions.sandbox_policy import SandboxPolicy, bubblewrap_words
from foldline.agent.tools.process import environment
from support.agents import PATIENCE
from support.sandboxes import EngineName, SandboxRunner, require_engine, sandbox_in

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not sys.platform.startswith("linux"),
        reason="bubblewrap and Landlock are Linux's",
    ),
]

KEY = "-----BEGIN A KEY THAT NOBODY MAY READ-----"
KEYS = (
    ".ssh/id_ed25519",
    ".aws/credentials",
    ".netrc",
    ".config/gh/hosts.yml",
    ".mozilla/firefox/x.default/key4.db",
    "foldline/keys.toml",
    "foldline/config.toml",
    "foldline/sessions/a/events.jsonl",
)
"""Paths below the home folder."""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder with keys, some of them Foldline's."""
    home = tmp_path / "home"
    for name in KEYS:
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(KEY)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("FOLDLINE_HOME", str(home / "foldline"))
    return home


@pytest.fixture
def outside(home: Path) -> Path:
    """A folder next to the project with a file commands can see: not in `/tmp`, which is hidden from them."""
    (home / "outside").mkdir()
    (home / "outside" / "file").write_text("as it was")
    return home / "outside"


@pytest.fixture
def project(home: Path) -> Path:
    (home / "project").mkdir()
    return home / "project"


@pytest.fixture(params=["bubblewrap", "landlock"])
async def box(
    request: pytest.FixtureRequest, project: Path
) -> AsyncIterator[SandboxRunner]:
    async with sandbox_in(project, request.param) as made:
        yield made


@pytest.fixture
async def walls(project: Path) -> AsyncIterator[SandboxRunner]:
    """The bubblewrap sandbox, for protections Landlock alone does not provide."""
    async with sandbox_in(project, "bubblewrap") as made:
        yield made


# --- writing -------------------------------------------------------------------------------------------

WRITES = {
    "the path": 'echo x >"$1/new"; echo x >"$1/file"',
    "the way up": "echo x >../outside/new; echo x >../outside/file",
    "a symbolic link to the file": 'ln -s "$1/file" l; echo x >l',
    "a symbolic link to the folder": 'ln -s "$1" l; echo x >l/new; echo x >l/file',
    "a hard link": 'ln "$1/file" h; echo x >h',
    "a rename out": 'echo x >f; mv f "$1/new"; echo x >g; mv g "$1/file"',
    "a rename in": 'mv "$1/file" stolen; mv "$1" stolen-folder',
    "a removal": 'rm -f "$1/file"; rm -rf "$1"',
    "a truncation": 'truncate -s 0 "$1/file"',
    "the root of a process": 'echo x >"/proc/self/root$1/new"; echo x >"/proc/$PPID/root$1/file"',
    "the folder of a process": 'cd "$1"; echo x >/proc/self/cwd/new; echo x >/proc/$$/cwd/file',
    "an open descriptor": 'exec 7<"$1/file"; echo x >/proc/self/fd/7',
    "a mount made anew": 'mount -o remount,rw /; mount -o remount,rw,bind "$1"; echo x >"$1/new"',
    "a mount": 'mkdir m; mount --bind "$1" m; echo x >m/new',
    "a namespace of its own": 'unshare -Urm sh -c "mount -o remount,rw,bind /; echo x >$1/new"',
    "the shell of another user": 'su -c "echo x >$1/file" </dev/null; sudo -n sh -c "echo x >$1/file"',
}


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("way", WRITES)
async def test_nothing_is_written_outside(
    box: SandboxRunner, outside: Path, way: str
) -> None:
    await box.run(WRITES[way], str(outside))
    assert [path.name for path in outside.iterdir()] == ["file"]
    assert (outside / "file").read_text() == "as it was"


async def test_files_written_inside_and_temporary_files_persist(
    box: SandboxRunner,
) -> None:
    tried = await box.run(
        'echo a >new && mkdir d && mv new d/ && rm d/new && echo b >"$TMPDIR/t" && cat "$TMPDIR/t"'
    )
    assert (tried.status, tried.text) == (0, "b\n")
    assert (box.cwd / "d").is_dir()


async def test_a_folder_the_user_added_is_writable(
    project: Path, outside: Path
) -> None:
    async with sandbox_in(project, "bubblewrap", writable=[str(outside)]) as made:
        assert (await made.run('echo x >"$1/new"', str(outside))).status == 0
    assert (outside / "new").exists()


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("engine", ["bubblewrap", "landlock"])
async def test_a_read_only_command_writes_nowhere(
    project: Path, engine: EngineName
) -> None:
    async with sandbox_in(project, engine, may_change=False) as made:
        tried = await made.run("echo x >new; cat /etc/hostname >/dev/null && echo read")
    assert tried.text.endswith("read\n")
    assert list(project.iterdir()) == []


async def test_modes_and_times_of_files_outside_do_not_change(
    walls: SandboxRunner, outside: Path
) -> None:
    before = (outside / "file").stat()
    await walls.run(
        'chmod 777 "$1"; touch -d 2001-01-01 "$1"; chown 12345 "$1"',
        str(outside / "file"),
    )
    assert (outside / "file").stat() == before


SETTINGS_OF_THE_KERNEL = """
import sys
opened = []
for path in ("/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sysrq-trigger",
             "/sys/kernel/uevent_helper", "/proc/sys/vm/drop_caches"):
    try:
        open(path, "r+b").close()  # opened to be written, and not written
        opened.append(path)
    except OSError:
        pass
print(opened)
"""


async def test_kernel_settings_cannot_be_written(box: SandboxRunner) -> None:
    assert (await box.python(SETTINGS_OF_THE_KERNEL)).text == "[]\n"


DEVICES = """
import os, stat
found = []
for name in sorted(os.listdir("/sys/block")) or ["vda"]:
    try:
        number = open(f"/sys/block/{name}/dev").read().split(":")
        os.mknod("made", 0o600 | stat.S_IFBLK, os.makedev(*map(int, number)))
    except OSError:
        pass
    for path in ("made", f"/dev/{name}", "/dev/mem", "/proc/kcore"):
        try:
            found += [path] if open(path, "rb").read(1) else []
        except OSError:
            pass
print(found)
"""


async def test_no_device_of_the_machine_can_be_created_or_read(
    box: SandboxRunner,
) -> None:
    assert (await box.python(DEVICES)).text == "[]\n"


WORKING_ESCAPES = (
    "the path",
    "a symbolic link to the file",
    "a hard link",
    "a rename out",
    "the root of a process",
)


@pytest.mark.parametrize("way", WORKING_ESCAPES)
def test_the_same_programs_escape_without_a_sandbox(
    project: Path, outside: Path, way: str
) -> None:
    """Otherwise the attempts prove nothing."""
    subprocess.run(
        ["bash", "-c", WRITES[way], "sh", str(outside)], cwd=project, check=False
    )
    written = {path.name: path.read_text() for path in outside.iterdir()}
    assert written != {"file": "as it was"}


# --- files that get executed ---------------------------------------------------------------------------

EXECUTED_FILES = (
    ".git/hooks/pre-commit", ".git/config", ".git/info/attributes", ".foldline.toml", ".claude/settings.json",
    ".envrc", ".vscode/tasks.json", ".bashrc", "AGENTS.md", "part/.vscode/tasks.json", "part/.git/config",
)  # fmt: skip


@pytest.mark.quick
async def test_files_that_get_executed_are_read_only(walls: SandboxRunner) -> None:
    for name in EXECUTED_FILES:
        (walls.cwd / name).parent.mkdir(parents=True, exist_ok=True)
        (walls.cwd / name).write_text("as it was")
    (walls.cwd / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    for name in EXECUTED_FILES:
        await walls.run(
            'echo x >"$1"; rm -f "$1"; echo x >n; mv n "$1"; ln -f n "$1"', name
        )
    assert {
        name: (walls.cwd / name).read_text() for name in EXECUTED_FILES
    } == dict.fromkeys(EXECUTED_FILES, "as it was")


async def test_a_repository_cannot_be_replaced_by_another(walls: SandboxRunner) -> None:
    (walls.cwd / ".git" / "hooks").mkdir(parents=True)
    (walls.cwd / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    await walls.run(
        "mv .git other && mkdir -p .git/hooks && echo x >.git/hooks/pre-commit"
    )
    await walls.run(
        "mv .git/hooks other && mkdir .git/hooks && echo x >.git/hooks/pre-commit"
    )
    assert list((walls.cwd / ".git" / "hooks").iterdir()) == []


async def test_a_worktrees_git_file_cannot_point_to_another_repository(
    walls: SandboxRunner,
) -> None:
    (walls.cwd / ".git").write_text("gitdir: as-it-was\n")
    await walls.run(
        'mkdir -p evil/hooks; echo "gitdir: evil" >.git; rm -f .git; echo x >n; mv n .git'
    )
    assert (walls.cwd / ".git").read_text() == "gitdir: as-it-was\n"


async def test_the_settings_of_a_bare_repository_are_read_only(
    walls: SandboxRunner,
) -> None:
    for name in ("hooks", "objects", "refs"):
        (walls.cwd / "bare" / name).mkdir(parents=True)
    for name in ("HEAD", "config"):
        (walls.cwd / "bare" / name).write_text("as it was")
    await walls.run("echo x >bare/config; echo x >bare/hooks/post-update")
    assert (walls.cwd / "bare" / "config").read_text() == "as it was"
    assert list((walls.cwd / "bare" / "hooks").iterdir()) == []


def new_files(trial: SandboxRunner) -> tuple[str, ...]:
    """Return the new files after a command, by path."""
    return tuple(entry.path for entry in trial.sandbox.report("", failed=False).created)


NEW = {
    ".envrc": "echo x >.envrc",
    ".foldline.toml": "echo x >n && mv n .foldline.toml",
    ".claude": "mkdir .claude && echo x >.claude/settings.json",
    ".git": "mkdir -p .git/hooks && echo x >.git/hooks/pre-commit",
    "part/.vscode": "mkdir -p part/.vscode && echo x >part/.vscode/tasks.json",
    "part/.git": "mkdir part && echo 'gitdir: ../evil' >part/.git",
    ".bashrc": "echo x >.bashrc",
}


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("name", NEW)
async def test_a_new_file_that_gets_executed_is_reported_once(
    box: SandboxRunner, name: str
) -> None:
    await box.run(NEW[name] + "; echo x >other; mkdir -p .venv $TMPDIR/.git/hooks")
    assert new_files(box) == (str(box.cwd / name),)
    assert new_files(box) == ()


async def test_files_of_a_cancelled_command_are_reported_after_the_next_command(
    walls: SandboxRunner,
) -> None:
    await walls.run("echo x >.envrc")  # and nothing checks
    await walls.run("true")
    assert new_files(walls) == (str(walls.cwd / ".envrc"),)
    (walls.cwd / ".exrc").touch()  # the user's own
    await walls.run("true")
    assert new_files(walls) == ()


async def test_new_hooks_are_reported(walls: SandboxRunner) -> None:
    (walls.cwd / ".git" / "info").mkdir(parents=True)
    await walls.run("mkdir .git/hooks && echo x >.git/hooks/pre-commit")
    assert new_files(walls) == (str(walls.cwd / ".git" / "hooks"),)


async def test_a_git_file_makes_no_other_folder_writable(
    walls: SandboxRunner, outside: Path
) -> None:
    (walls.cwd / ".git").write_text(f"gitdir: {outside}\n")
    (outside / "gitdir").write_text(f"{walls.cwd}/.git\n")
    (outside / "commondir").write_text("..\n")
    await walls.run('echo x >"$1/file"', str(outside))
    assert (outside / "file").read_text() == "as it was"


# --- reading -------------------------------------------------------------------------------------------

READS = {
    "the path": 'cat "$HOME/$1"',
    "a link": 'ln -s "$HOME/$1" l; cat l',
    "a hard link": 'ln "$HOME/$1" h; cat h',
    "the root of a process": 'for each in self 1 $PPID; do cat "/proc/$each/root$HOME/$1"; done',
    "a copy": 'cp -r "$HOME" copy; cat "copy/$1"',
    "a mount": 'mkdir m; mount --bind "$HOME" m; cat "m/$1"',
    "a namespace of its own": 'unshare -Urm sh -c "umount -l $HOME/.ssh $HOME/$1; cat $HOME/$1"',
    "a rename of what is above": 'mv "$HOME" "$HOME-2"; cat "$HOME-2/$1"',
}


READ_EACH = """
for key; do
    mkdir "$((count += 1))"
    (cd "$count" && set -- "$key" && {way})
done
echo "$count tried"
"""


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("way", READS)
async def test_no_key_can_be_read(box: SandboxRunner, way: str) -> None:
    said = (await box.run(READ_EACH.replace("{way}", READS[way]), *KEYS)).text
    assert f"{len(KEYS)} tried" in said
    assert KEY not in said


async def test_files_that_are_not_keys_can_be_read(
    box: SandboxRunner, home: Path
) -> None:
    (home / "notes").write_text("hello")
    assert (await box.run('cat "$HOME/notes"')).text == "hello"


async def test_a_search_sees_its_folder_and_little_else(
    box: SandboxRunner, home: Path, outside: Path
) -> None:
    """A shell takes ripgrep's place, to imitate hostile ignore files and links."""
    (home / "notes").write_text("hello")
    (box.cwd / "link").symlink_to(outside)
    (box.cwd / "a").write_text("a\n")
    looks = 'cat a; cat "$1/file" link/file "$HOME/notes" "$HOME/.netrc" /etc/hostname; echo x >new; ls "$1"'
    words = ["/bin/sh", "-c", looks, "sh", str(outside)]

    def searched(place: Path) -> bytes:
        entered = box.sandbox.entered_search(words, environment(), str(place), [])
        return subprocess.run(
            entered.argv,
            env=entered.env,
            cwd=box.cwd,
            stdout=subprocess.PIPE,
            check=False,
        ).stdout

    # Landlock allows listing names.
    names = b"file\n" if box.sandbox.engine == Engine("landlock", "for a test") else b""
    assert await asyncio.to_thread(searched, box.cwd) == b"a\n" + names
    assert (
        await asyncio.to_thread(searched, outside) == b"a\nas it wasas it wasfile\n"
    )  # allowed explicitly
    assert not (box.cwd / "new").exists()


async def test_a_denied_access_is_reported(box: SandboxRunner, outside: Path) -> None:
    assert (
        await box.run('echo x >"$1/new"', str(outside))
    ).refused == WRITE_ACCESS.format(paths=outside / "new")
    said = (await box.run('cat "$HOME/.ssh/id_ed25519"')).refused
    assert said == "" or said.startswith(READ_ACCESS.format(paths=""))


# --- the network ---------------------------------------------------------------------------------------


class Listeners:
    """Servers on this machine outside of the sandbox, which record every connection."""

    def __init__(self, folder: Path) -> None:
        self.waiting = {
            kind: threading.Event() for kind in ("tcp", "udp", "unix", "abstract")
        }
        self.path = str(folder / "s")
        self.name = f"\0foldline-{os.getpid()}-{id(self)}"
        self._open = {
            "tcp": socket.create_server(("127.0.0.1", 0)),
            "udp": socket.socket(socket.AF_INET, socket.SOCK_DGRAM),
            "unix": socket.socket(socket.AF_UNIX),
            "abstract": socket.socket(socket.AF_UNIX),
        }
        self._open["udp"].bind(("127.0.0.1", 0))
        self._open["unix"].bind(self.path)
        self._open["abstract"].bind(self.name)
        for kind, each in self._open.items():
            if kind != "udp":
                each.listen()
            threading.Thread(target=self._wait, args=(kind, each), daemon=True).start()

    def _wait(self, kind: str, listening: socket.socket) -> None:
        with suppress(OSError):
            listening.recv(10) if kind == "udp" else listening.accept()
            self.waiting[kind].set()

    @property
    def reached(self) -> list[str]:
        return [kind for kind, event in self.waiting.items() if event.is_set()]

    def port(self, kind: str) -> str:
        return str(self._open[kind].getsockname()[1])

    def close(self) -> None:
        for each in self._open.values():
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()


@pytest.fixture
def listeners(outside: Path) -> Iterator[Listeners]:
    made = Listeners(outside)
    yield made
    made.close()


CONNECTS = """
import socket, sys
kind, tcp, udp, path, name = sys.argv[1:]
name = chr(0) + name
match kind:
    case "tcp":
        socket.create_connection(("127.0.0.1", int(tcp)), 5)
    case "udp":
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", int(udp)))
    case "unix":
        socket.socket(socket.AF_UNIX).connect(path)
    case "abstract":
        socket.socket(socket.AF_UNIX).connect(name)
    case "vsock":
        socket.socket(40, socket.SOCK_STREAM)
    case "raw":
        socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
print("connected")
"""


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("kind", ["tcp", "udp", "unix", "abstract", "vsock", "raw"])
async def test_no_server_is_reachable(
    box: SandboxRunner, listeners: Listeners, kind: str
) -> None:
    words = (
        kind,
        listeners.port("tcp"),
        listeners.port("udp"),
        listeners.path,
        listeners.name[1:],
    )
    tried = await box.python(CONNECTS, *words)
    # UDP packets, and a private network namespace, reach no other process.
    assert "connected" not in tried.text or kind == "udp"
    assert listeners.reached == []


@pytest.mark.parametrize("kind", ["tcp", "udp", "unix", "abstract"])
def test_all_servers_are_reachable_without_a_sandbox(
    listeners: Listeners, kind: str
) -> None:
    words = (
        kind,
        listeners.port("tcp"),
        listeners.port("udp"),
        listeners.path,
        listeners.name[1:],
    )
    done = subprocess.run(
        [sys.executable, "-c", CONNECTS, *words], check=False, capture_output=True
    )
    assert done.stdout == b"connected\n"
    assert listeners.waiting[kind].wait(PATIENCE)


async def test_no_host_name_can_be_resolved(box: SandboxRunner) -> None:
    tried = await box.python(
        "import socket; print(socket.getaddrinfo('example.org', 80))"
    )
    assert tried.status == 1
    assert "gaierror" in tried.text


@pytest.mark.quick
async def test_a_host_that_is_not_allowed_is_refused_and_named(
    walls: SandboxRunner,
) -> None:
    code = "import urllib.request as u; u.urlopen('http://example.org/?' + 'what-leaks', timeout=9)"
    tried = await walls.python(code)
    assert "403" in tried.text
    assert tried.refused == f"{NETWORK_ACCESS}: example.org"


# --- other processes -----------------------------------------------------------------------------------


def start(*words: str) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(words)


INSPECTS = """
import ctypes, os, sys
pid, libc = int(sys.argv[1]), ctypes.CDLL(None, use_errno=True)
got = []
for name, path in (("memory", "mem"), ("environment", "environ"), ("maps", "maps")):
    try:
        with open(f"/proc/{pid}/{path}", "rb") as file:
            file.read(1) if name != "memory" else None
            got.append(name)
    except OSError:
        pass
try:
    os.kill(pid, 0)
    got.append("signal")
except OSError:
    pass
if libc.ptrace(16, pid, 0, 0) == 0:
    got.append("trace")
if libc.ptrace(0, 0, 0, 0) == 0:
    got.append("being traced")
buffer = ctypes.create_string_buffer(8)
vector = (ctypes.c_size_t * 2)(ctypes.addressof(buffer), 8)
if libc.process_vm_readv(pid, vector, 1, vector, 1, 0) > 0 or ctypes.get_errno() == 14:
    got.append("read")
if libc.syscall(425, 1, ctypes.create_string_buffer(200)) >= 0:
    got.append("ring")
print(got)
"""


async def test_no_process_of_the_user_can_be_inspected_or_signalled(
    box: SandboxRunner,
) -> None:
    other = start("sleep", "1000")
    try:
        assert (await box.python(INSPECTS, str(other.pid))).text == "[]\n"
        assert (await box.python(INSPECTS, str(os.getpid()))).text == "[]\n"
        await box.run("kill -9 $1", str(other.pid))
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


async def test_other_processes_are_invisible(walls: SandboxRunner) -> None:
    assert len((await walls.run("ls -d /proc/[0-9]*")).text.splitlines()) < 10


OUTLIVES = """
import os, sys, time
os.write(1, b"begun\\n")
if os.fork():
    time.sleep(1000)
os.setsid()
if os.fork():
    os._exit(0)
os.closerange(0, 256)
os.execve("/bin/sleep", ["sleep", sys.argv[1]], {})
"""
"""The process leaves its session, environment, files and parents, so nothing identifies it."""


def sleeping(seconds: str) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if path.read_bytes() == f"sleep\0{seconds}\0".encode():
                found.append(int(path.parent.name))
    return found


async def test_no_process_outlives_its_command(walls: SandboxRunner) -> None:
    seconds = f"9{os.getpid()}"
    running = asyncio.ensure_future(walls.python(OUTLIVES, seconds))
    async with asyncio.timeout(PATIENCE):
        while not sleeping(seconds):
            await asyncio.sleep(0.01)
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running
    async with asyncio.timeout(PATIENCE):
        while sleeping(seconds):
            await asyncio.sleep(0.01)


PARENT = """
import asyncio, sys
from pathlib import Path
from foldline.agent.permissions.sandbox import Sandbox
from foldline.agent.tools.process import environment, spawn

async def main():
    box = Sandbox(Path(sys.argv[1]))
    await box.ready()
    async with spawn(["sleep", sys.argv[2]], Path(sys.argv[1]), environment(), None, box) as child:
        await child.follow(lambda piece: asyncio.sleep(0, True))

asyncio.run(main())
"""


async def test_no_process_outlives_a_killed_foldline(project: Path) -> None:
    require_engine("bubblewrap")
    seconds = f"8{os.getpid()}"
    parent = start(sys.executable, "-c", PARENT, str(project), seconds)
    try:
        async with asyncio.timeout(PATIENCE):
            while not sleeping(seconds):
                await asyncio.sleep(0.01)
    finally:
        parent.kill()
        parent.wait()
    async with asyncio.timeout(PATIENCE):
        while sleeping(seconds):
            await asyncio.sleep(0.01)


# --- the terminal --------------------------------------------------------------------------------------

TYPES = """
import fcntl, os, sys
done = []
for path in ("/dev/tty", sys.argv[1], *(f"/proc/{pid}/fd/0" for pid in (1, os.getppid()))):
    for flags in (os.O_RDWR, os.O_RDONLY, os.O_WRONLY):
        try:
            terminal = os.open(path, flags | os.O_NOCTTY | os.O_NONBLOCK)
        except OSError:
            continue
        if os.path.realpath(path) == "/dev/null" or not os.isatty(terminal):
            continue
        for command in (0x5412, 0x1_0000_5412, 0x541C):
            try:
                fcntl.ioctl(terminal, command & 0xFFFFFFFF, b"x")
                done.append(hex(command))
            except OSError:
                pass
        try:
            os.write(terminal, b"written")
            done.append("written")
        except OSError:
            pass
print(done)
"""


async def test_the_terminal_can_be_neither_typed_into_nor_written_to(
    box: SandboxRunner,
) -> None:
    master, slave = pty.openpty()
    try:
        assert (await box.python(TYPES, os.ttyname(slave))).text == "[]\n"
    finally:
        os.close(master)
        os.close(slave)


def test_the_terminal_is_written_to_without_a_sandbox() -> None:
    master, slave = pty.openpty()
    done = subprocess.run(
        [sys.executable, "-c", TYPES, os.ttyname(slave)],
        check=False,
        capture_output=True,
    )
    os.close(master)
    os.close(slave)
    assert b"written" in done.stdout


async def test_a_program_can_have_its_own_terminal_but_not_type_into_it(
    walls: SandboxRunner,
) -> None:
    code = "import fcntl, pty\nmaster, slave = pty.openpty()\nfcntl.ioctl(slave, 0x5412, b'x')"
    assert "PermissionError" in (await walls.python(code)).text


# --- resource limits -----------------------------------------------------------------------------------


async def test_no_file_grows_beyond_half_of_the_free_space(box: SandboxRunner) -> None:
    beyond = shutil.disk_usage(box.cwd).free // 2 + 2**20
    code = (
        "import sys\n"
        "with open('big', 'wb') as file:\n"
        "    file.seek(int(sys.argv[1]))\n"
        "    file.write(b'x')"
    )
    tried = await box.python(code, str(beyond))  # a hole: it would take no room
    assert "File too large" in tried.text or tried.status != 0
    assert not (box.cwd / "big").exists() or (box.cwd / "big").stat().st_size < beyond


EATS = """
import sys
eaten = []
try:
    for count in range(64):
        eaten.append(bytearray(2**24))
        print(count, flush=True)
except MemoryError:
    print("MemoryError")
"""


async def test_no_program_uses_more_memory_than_its_share(
    box: SandboxRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = os.sysconf("SC_PHYS_PAGES")
    pages = 2**29 // os.sysconf("SC_PAGE_SIZE")
    monkeypatch.setattr(
        os, "sysconf", lambda name: pages if name == "SC_PHYS_PAGES" else sysconf(name)
    )
    tried = await box.python(EATS)  # half of 512 MB
    assert tried.text.endswith("MemoryError\n")
    assert 2 < len(tried.text.splitlines()) < 17
    assert tried.refused == MORE_MEMORY.format(size="268.4 MB")
    monkeypatch.undo()
    assert os.sysconf("SC_PHYS_PAGES") == whole
    assert (await box.python(EATS)).text.endswith("63\n")


async def test_sandboxed_programs_are_killed_first_when_memory_runs_out(
    walls: SandboxRunner,
) -> None:
    assert (await walls.run("cat /proc/self/oom_score_adj")).text == "1000\n"


sysconf = os.sysconf

FORKS = """
import os, signal, sys
count = 0
try:
    for count in range(1000):
        if os.fork() == 0:
            signal.pause()
except OSError as error:
    print(count, error.strerror)
"""


async def test_a_fork_bomb_is_stopped_by_the_process_limit(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox, "_PROCESSES", 50)
    if os.geteuid() == 0:
        pytest.skip(
            "the system sets root no limit of processes; see the test of an ordinary user's"
        )
    async with sandbox_in(project, "bubblewrap") as made:
        tried = await made.python(FORKS)
    assert "Resource temporarily unavailable" in tried.text
    assert int(tried.text.split()[0]) <= 50


def test_an_ordinary_users_fork_bomb_is_stopped_by_the_process_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    require_engine("bubblewrap")
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("only root can be somebody else for a test")
    monkeypatch.setattr(sandbox, "_PROCESSES", 50)
    words = bubblewrap_words(SandboxPolicy("/"), is_root=False, filter_from=None)
    command = [*sandbox.counted(), "/usr/bin/python3", "-c", FORKS]
    nobody = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
    done = subprocess.run(
        [*nobody, *words, *command], capture_output=True, text=True, check=False
    )
    assert "Resource temporarily unavailable" in done.stdout, done.stderr
    assert int(done.stdout.split()[0]) <= 50
