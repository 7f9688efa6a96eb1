"""The sandbox that commands of one session run in: which the system gives, how a command enters it, and what
it refused. What may be done there is in `sandbox_policy.py`."""

import asyncio
import functools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, NamedTuple

from foldline.data import config_dir, data_home, real_path, typed_path
from foldline.files import is_file, is_folder, is_there, write_new
from foldline.programs import find_program, keep_out, trusted_environment, why_missing

from .sandbox_acting import ActingEntry, acting_in
from .sandbox_launcher import (
    MOVES_SINCE,
    PERL,
    SOCKETS_SINCE,
    filter_bytes,
    landlock_version,
    writing_rules,
)
from .sandbox_network import LAUNCHER, REFUSED, Reach, SandboxNetwork, python_words
from .sandbox_policy import (
    SHELL_FILES,
    SandboxOptions,
    SandboxPolicy,
    bubblewrap_words,
    lies_in,
    places_written,
    policy_for,
    search_policy,
    seatbelt_profile,
)
from .sandbox_record import ActingRecord
from .tools.paths import acts_by_itself
from .tools.text import sized

_PATIENCE = 10.0
"""Seconds a first try may take."""
_PROCESSES = 4_096
"""A parallel build has hundreds; a fork bomb has as many as there may be."""
_PART_OF_DISK = 2
"""No file becomes larger than so many times less than what is free."""
_SEATBELT = "/usr/bin/sandbox-exec"
_PERL = "/usr/bin/perl"
_TEMPORARY = ("/tmp", "/var/tmp")  # noqa: S108 - it is these that commands do not get
_FILTER = 3
"""The descriptor by which bubblewrap is given its seccomp program."""


class Engine(NamedTuple):
    """What of the system confines commands here."""

    name: Literal["bubblewrap", "landlock", "seatbelt", ""]
    why: str = ""
    """Why it is none, or not all that is promised, as a sentence."""

    @property
    def holds(self) -> bool:
        """Whether all is held that a command needs no question for."""
        return self.name in ("bubblewrap", "seatbelt")


@functools.cache
def engine_here() -> Engine:
    """The best there is on this machine. Tries it once: call it off the event loop."""
    if sys.platform == "darwin":
        found = Path(_SEATBELT).exists()
        return Engine("seatbelt") if found else Engine("", "macOS has no sandbox-exec here.")
    if not sys.platform.startswith("linux"):
        return Engine("", "Foldline knows no sandbox of this system.")
    if find_program("bwrap") is None:
        why = f"bubblewrap cannot be used: {why_missing('bwrap')}"
    else:
        tried = bubblewrap_words(SandboxPolicy("/"), is_root=os.geteuid() == 0, filter_from=None)
        why = _failure([*tried, "/bin/sh", "-c", ":"])
        if not why:
            return Engine("bubblewrap", _beyond_this_kernel(landlock_version()))
        why = f"bubblewrap does not work here ({why})"
    if landlock_version() >= 1 and filter_bytes(os.uname().machine, network=False):
        return Engine(
            "landlock", f"{why}: Landlock alone cannot keep hooks and settings in the folder as they are."
        )
    return Engine("", f"{why}, and this kernel has no Landlock.")


def _beyond_this_kernel(landlock: int) -> str:
    """Name the gaps of bubblewrap with this version of Landlock, in a sentence."""
    if landlock >= SOCKETS_SINCE:
        return "This kernel cannot keep commands from reading named pipes in folders they see."
    if landlock >= MOVES_SINCE:
        return (
            "This kernel cannot keep commands from sockets in folders they see (Linux 7.1 can), "
            "nor from reading named pipes there."
        )
    return (
        "This kernel cannot keep commands from sockets and named pipes in folders they see "
        "(Linux 7.1 with Landlock can, but for reading pipes)."
    )


def _failure(argv: Sequence[str]) -> str:
    """What a program says that fails, in a line; empty where it does not."""
    try:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=_PATIENCE, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    said = done.stderr.decode("utf-8", "replace").strip().splitlines()
    return "" if done.returncode == 0 else (said or [f"exit {done.returncode}"])[-1]


class Refused(NamedTuple):
    """What a command was kept from, as far as is known."""

    words: str
    """`the network: example.org; to write outside: /etc/hosts`."""
    hosts: tuple[str, ...] = ()
    """Those it asked the proxy for, where that is all."""


class Seen(NamedTuple):
    """What there is to say of a command that has ended."""

    refused: Refused | None = None
    made: tuple[ActingEntry, ...] = ()
    """What acts by itself and is new."""

    @property
    def words(self) -> str:
        refused = f"[the sandbox refused {self.refused.words}]" if self.refused else ""
        paths = ", ".join(entry.path for entry in self.made)
        made = f"[new, and it acts by itself: {paths}]" if self.made else ""
        return "\n".join(filter(None, (refused, made)))


_END = r"\s'\"‘’`:"
"""Characters that end a path in a message."""
_PATH = rf"(?<![^{_END}])[^{_END}\w./]*(/[^{_END}]+|[\w.][^{_END}/]*/[^{_END}]*)['\"’`]?"
"""Tried once for each word: tools print lines of any length."""
_UNWRITABLE = "(?:Read-only file system|Operation not permitted|Device or resource busy|Permission denied)"
_PATHS = (
    re.compile(rf"{_PATH}: {_UNWRITABLE}", re.IGNORECASE),
    re.compile(rf"(?:Read-only file system|EROFS|Errno 30|os error 30).{{0,400}}?{_PATH}"),
)
_MISSING = (
    re.compile(rf"{_PATH}: No such file or directory", re.IGNORECASE),
    re.compile(rf"(?:No such file or directory|ENOENT|os error 2\)).{{0,400}}?{_PATH}", re.IGNORECASE),
)
_NO_NETWORK = re.compile(
    r"Could not resolve host|Temporary failure in name resolution|Name or service not known|ENETUNREACH"
    r"|Network is unreachable|EAI_AGAIN|getaddrinfo|Refused by Foldline's sandbox|dial tcp|dns error",
    re.IGNORECASE,
)
_NO_MEMORY = re.compile(
    r"MemoryError|Cannot allocate memory|ENOMEM|bad_alloc|out of memory|ReserveShadowMemory"
    r"|Sanitizer failed to allocate"
)
_LOOKED_AT = 64 * 1024
"""Characters of the end of an output."""
_NAMED = 3
"""Paths of a kind that are named."""


@dataclass(eq=False)
class Sandbox:
    """The sandbox of one session."""

    cwd: Path
    options: SandboxOptions = field(default_factory=SandboxOptions)
    kept: Path | None = None
    """Where whole outputs are kept: the one part of our own data that commands may read."""
    may_change: Callable[[], bool] = lambda: True
    """Whether the folder may be written now."""
    allowed: Callable[[str], bool] = lambda _: False
    """Whether the user allowed a host, beside those that were set."""
    engine: Engine | None = None
    """None until it is known: see `ready`."""
    acting: ActingRecord = field(default_factory=ActingRecord)
    """What acts by itself and is known to be there, the same for all sandboxes of the session."""
    _policy: SandboxPolicy | None = None
    """Of the newest command."""
    _network: SandboxNetwork | None = None
    _scratch: "tempfile.TemporaryDirectory[str] | None" = None
    _making_scratch: threading.Lock = field(default_factory=threading.Lock)
    _starting: asyncio.Lock = field(default_factory=asyncio.Lock)

    def for_server(self, writable: Sequence[str], hosts: Sequence[str]) -> "Sandbox":
        """One beside this, with a network of its own, where more may be written and reached."""
        given = self.options
        options = replace(given, writable=[*given.writable, *writable], hosts=[*given.hosts, *hosts])
        return Sandbox(self.cwd, options, may_change=self.may_change, engine=self.engine, acting=self.acting)

    async def ready(self) -> Engine:
        """Find out what the system gives, and begin what commands need."""
        async with self._starting:
            engine = await asyncio.to_thread(engine_here) if self.engine is None else self.engine
            self.engine = engine
            if engine.name == "bubblewrap" and self._network is None and find_program("nsenter"):
                network = SandboxNetwork(self._allows)
                try:
                    await network.start()
                    self._network = network
                except (OSError, ValueError):
                    await network.aclose()  # then there is none at all: each command gets an empty one
        return engine

    async def aclose(self) -> None:
        if self._network is not None:
            await self._network.aclose()
        if self._scratch is not None:
            self._scratch.cleanup()

    @property
    def scratch(self) -> str:
        """The folder of temporary files, made when it is first asked for."""
        with self._making_scratch:
            if self._scratch is None:
                made = tempfile.TemporaryDirectory(prefix="foldline-", ignore_cleanup_errors=True)
                folder = Path(made.name)
                program = filter_bytes(os.uname().machine, network=True)
                write_new(folder / "filter", program, durable=False)
                (folder / "files").mkdir()
                (folder / "files").chmod(0o1777)  # stands for /tmp, also for other users of a test
                (folder / "run").mkdir(0o700)
                self._scratch = made
        return f"{real_path(self._scratch.name)}/files"

    @property
    def _private(self) -> dict[str, str]:
        """Places of sockets and pipes, each with the session folder that replaces it."""
        if not sys.platform.startswith("linux"):
            return {}
        run = str(Path(self.scratch).with_name("run"))
        places = dict.fromkeys(_TEMPORARY, self.scratch) | {os.environ.get("XDG_RUNTIME_DIR", ""): run}
        return {real_path(place): own for place, own in places.items() if place and is_folder(place)}

    @property
    def _filter(self) -> str:
        """The file of the seccomp program: beside what commands write, so that none changes it."""
        return str(Path(self.scratch).with_name("filter"))

    def policy(self, read_only: Sequence[str] = ()) -> SandboxPolicy:
        """What commands may do now. `read_only` lies within what they write. Reads the disk."""
        own = [data_home(), config_dir(os.environ)]
        places = self._places()
        keep_out([self.cwd, *places])
        private = self._private
        if self.engine is not None and self.engine.name == "landlock":
            private = dict.fromkeys(private, "")  # it hides, and puts nothing in the place of another
        return policy_for(
            self.cwd,
            places=places,
            read_only=read_only,
            hidden=[*map(typed_path, self.options.hidden), *own, *_sockets()],
            shown=[
                *([self.kept] if self.kept else []),
                config_dir(os.environ) / "skills",
                *map(typed_path, self.options.writable),
                *(sys.base_prefix, LAUNCHER),
            ],
            private=private,
            home=typed_path("~"),
            environ=os.environ,
            network=self._network is not None,
        )

    def _places(self) -> Sequence[str]:
        may_change = self.may_change()
        added = map(typed_path, self.options.writable) if may_change else ()
        return places_written(self.cwd, [self.scratch, *added], may_change=may_change)

    def _search(self) -> list[ActingEntry]:
        """What acts by itself where commands write, but for temporary files."""
        scratch = self.scratch
        places = [path for path in self._places() if path != scratch]
        found = acting_in(places, _acts)
        return [
            entry for entry in found if lies_in(entry.path, places) and not lies_in(entry.path, [scratch])
        ]

    @asynccontextmanager
    async def entering(
        self, argv: Sequence[str], env: Mapping[str, str], at: str | Path = ""
    ) -> AsyncIterator["Entered"]:
        """`entered`, for a program that runs in there until this context is left.

        Raises:
            OSError: there is no sandbox.
        """
        self.acting.running += 1
        try:
            yield await asyncio.to_thread(self.entered, argv, env, at)
        finally:
            self.acting.running -= 1

    def entered(self, argv: Sequence[str], env: Mapping[str, str], at: str | Path = "") -> "Entered":
        """The words and the environment by which a command enters the sandbox, in another folder than that of
        the session where `at` names one. Reads the disk.

        Raises:
            OSError: there is none.
        """
        acting = self.acting.enter(self._search) if self.may_change() else []
        read_only = [entry.path for entry in acting if entry.is_held]
        policy, network = self.policy(read_only), self._network
        # No rename takes them away; what is in them is held each by itself.
        repositories = (entry.path for entry in acting if entry.is_repository)
        self._policy = policy = replace(policy, writable=(*policy.writable, *repositories))
        if network is not None:
            network.refused.clear()
            env = {**env, **network.environment}
        if at:
            policy = replace(policy, cwd=real_path(at))
        return self._entered(policy, argv, {**env, "TMPDIR": self.scratch}, network)

    def entered_search(
        self, argv: Sequence[str], env: Mapping[str, str], real: str, programs: Sequence[str | Path]
    ) -> "Entered":
        """`entered`, for a search of this place by these programs: it sees little else and has no network."""
        return self._entered(search_policy(self.policy(), real, programs), argv, env, None)

    def _entered(
        self,
        policy: SandboxPolicy,
        argv: Sequence[str],
        env: Mapping[str, str],
        network: SandboxNetwork | None,
    ) -> "Entered":
        """What of the environment would have a program load code is set only once it is inside."""
        outside = trusted_environment(env)
        if "PATH" in env:
            outside["PATH"] = env["PATH"]  # what enters the sandbox is started by whole paths
        inside = [f"{name}={value}" for name, value in env.items() if outside.get(name) != value]
        if inside:
            argv = ["/usr/bin/env", *inside, *argv]
        return Entered(self._words(policy, argv, network), outside)

    def _words(self, policy: SandboxPolicy, argv: Sequence[str], network: SandboxNetwork | None) -> list[str]:
        words = ["/bin/sh", "-c", f'{self._limits(policy.cwd)}; exec "$@"', "sh"]
        match self.engine.name if self.engine else "":
            case "bubblewrap":
                with_filter = [*words[:2], f'exec {_FILTER}<"$0"; {words[2]}', self._filter]
                is_root = os.geteuid() == 0
                inside = bubblewrap_words(policy, is_root=is_root, filter_from=_FILTER)
                entering = network.entering if network else ()
                return [*with_filter, *entering, *inside, *counted(), *_restricting(policy), *argv]
            case "landlock":
                if within := policy.keys_within:
                    raise OSError(0, f"Landlock cannot hide {within}, which lies in a folder to be written")
                reads = [*policy.reads, *policy.shown]
                given = {"reads": reads, "writable": policy.writable, "hidden": policy.hidden}
                return [*words, *python_words("confine", json.dumps(given)), *argv]
            case "seatbelt":
                return [*words, _SEATBELT, "-p", seatbelt_profile(policy), *argv]
        raise OSError(0, "there is no sandbox here")

    def _limits(self, cwd: str) -> str:
        """A shell's words that bound what one program takes of the disk and of memory; and if all of them
        together take too much, the kernel ends them before anybody else."""
        blocks = shutil.disk_usage(cwd).free // _PART_OF_DISK // 512
        memory = f"ulimit -d {self._memory // 1024} 2>/dev/null; " if self._memory else ""
        first = "{ echo 1000 >/proc/self/oom_score_adj; } 2>/dev/null"
        return f"ulimit -c 0; ulimit -f {blocks}; {memory}{first}"

    @property
    def _memory(self) -> int:
        """Bytes that one program may fill; 0: as much as there is."""
        return int(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") * self.options.memory / 100)

    def seen(self, output: str, *, failed: bool, is_asked: bool = False) -> Seen:
        """What there is to say of the command that has just ended. What it made, or those that run still, is
        said once; or, if it `is_asked` about, until that is settled. Reads the disk."""
        made = self.acting.look(self._search) if self.may_change() else ()
        if not is_asked:
            self.acting.settle(made)
        return Seen(self.refused(output, failed=failed), made)

    def refused(self, output: str, *, failed: bool = True) -> Refused | None:
        """What the newest command was kept from, by what it wrote and whom it asked for; None: nothing. One
        that did not fail may have got our refusal for a page."""
        text = output[-_LOOKED_AT:]
        if not failed and REFUSED not in text:
            return None
        policy = self._policy or self.policy()
        hosts = tuple(self._network.refused) if self._network is not None else ()
        memory = f"more memory than {sized(self._memory)}" if self._memory and _NO_MEMORY.search(text) else ""
        paths = self._named(text, _PATHS)
        named = {**paths, **self._named(text, _MISSING)}
        read = [path for path in named if policy.hides(path) and self._is_kept_back(path, policy)]
        written = [path for path in paths if path not in read and not policy.writes(path)]
        said = [
            f"the network: {', '.join(hosts)}" if hosts else "",
            "the network" if not hosts and _NO_NETWORK.search(text) else "",
            f"to write outside: {', '.join(written[:_NAMED])}" if written else "",
            f"to read what is hidden: {', '.join(read[:_NAMED])}" if read else "",
            memory,
        ]
        words = "; ".join(filter(None, said))
        return Refused(words, () if read or written or memory else hosts) if words else None

    @staticmethod
    def _is_kept_back(path: str, policy: SandboxPolicy) -> bool:
        """Return whether a hidden path, or its folder, exists outside."""
        above = os.path.dirname(path)  # noqa: PTH120 - a string, as the policy has them
        is_place = above in policy.hidden or above in dict(policy.private)
        return is_there(path) or (not is_place and is_there(above))

    def _named(self, text: str, patterns: Sequence[re.Pattern[str]]) -> dict[str, None]:
        """Return the paths named in a command's error messages, each once."""
        paths = (path for pattern in patterns for path in pattern.findall(text))
        return dict.fromkeys(os.path.normpath(self.cwd / path) for path in paths)

    def _allows(self, host: str) -> Reach:
        """A host from the settings may have any address. One that the user allowed by its name must have a
        public address."""
        hosts = [each.lower() for each in self.options.hosts]
        if any(host == each or (each.startswith("*.") and host.endswith(each[1:])) for each in hosts):
            return "any"
        return "public" if self.allowed(host) else ""


@functools.lru_cache(50_000)
def _acts(name: str) -> bool:
    """Whether what bears this name acts by itself. `HEAD` makes a repository of a folder."""
    return name == "HEAD" or name in SHELL_FILES or acts_by_itself(name)


class Entered(NamedTuple):
    """How a program is started so that it runs in the sandbox."""

    argv: list[str]
    env: Mapping[str, str]


def counted() -> list[str]:
    """A shell's words that bound the number of processes, where these are counted apart from the rest of the
    user's: inside."""
    limit = f"ulimit -u {_PROCESSES} 2>/dev/null || ulimit -p {_PROCESSES} 2>/dev/null"
    return ["/bin/sh", "-c", f'{limit}; exec "$@"', "sh"]


def _restricting(policy: SandboxPolicy) -> list[str]:
    """Return the words that put a command under Landlock; empty without kernel support."""
    places = [*policy.writable, *(place for place, _ in policy.private)]
    rules = writing_rules(places, landlock_version())
    if rules and is_file(_PERL):
        return ["/usr/bin/env", "PERL_BADLANG=0", _PERL, "-e", PERL, *rules]
    return [*python_words("restrict"), *rules] if rules else []


def _sockets() -> list[str]:
    """Sockets in the file system, by the names they were bound to: a read-only mount does not close one."""
    if landlock_version() >= SOCKETS_SINCE:
        return []
    try:
        lines = Path("/proc/net/unix").read_text(encoding="utf-8", errors="replace").splitlines()[1:]
    except OSError:
        return []
    fields = (line.split(maxsplit=7) for line in lines)  # Num RefCount Protocol Flags Type St Inode Path
    return [each[7] for each in fields if len(each) == 8 and each[7].startswith("/")]
