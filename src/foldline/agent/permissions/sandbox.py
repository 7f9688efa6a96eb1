"""A session's sandbox: detects the engine, starts commands in it, and reports blocked access.

The permissions are defined in `sandbox_policy.py`.
"""

import asyncio
import functools
import json
import os
import re
import shutil
import sys
import tempfile
import threading
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from foldline.data import config_dir, data_home, real_path, typed_path
from foldline.files import is_file, is_folder, is_there, write_new
from foldline.programs import find_program, keep_out, trusted_environment
from foldline.text.numbers import sized
from foldline.text.patterns import lazy_pattern

from .acting_names import acts_by_itself
from .confinement import BlockedAccess, Entered, SandboxReport
from .sandbox_acting import ActingEntry, acting_in
from .sandbox_engine import SEATBELT, Engine, engine_here
from .sandbox_launcher import (
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

NETWORK_ACCESS = "network access"
WRITE_ACCESS = "write access: {paths}"
READ_ACCESS = "read access to hidden files: {paths}"
MORE_MEMORY = "more than {size} of memory"
HIDDEN_INSIDE = "Landlock cannot hide {path}, because it is inside a writable folder"
NO_SANDBOX = "no sandbox is available"

_PROCESSES = 4_096
"""Maximum number of processes in a sandbox.

Starting more of them fails. Parallel builds need hundreds."""
_PART_OF_DISK = 2
"""A command may write files of at most the free disk space divided by this number."""
_PERL = "/usr/bin/perl"
_TEMPORARY = ("/tmp", "/var/tmp")  # noqa: S108 - commands get their own instead
_FILTER = 3
"""File descriptor of the seccomp program for bubblewrap."""


_END = r"\s'\"‘’`:"
"""Characters that end a path in an error message."""
_PATH = (
    rf"(?<![^{_END}])[^{_END}\w./]*(/[^{_END}]+|[\w.][^{_END}/]*/[^{_END}]*)['\"’`]?"
)
"""Matches a path in an error message, at most once per word because lines may be very long."""
_UNWRITABLE = "(?:Read-only file system|Operation not permitted|Device or resource busy|Permission denied)"
_PATHS = (
    lazy_pattern(rf"{_PATH}: {_UNWRITABLE}", re.IGNORECASE),
    lazy_pattern(
        rf"(?:Read-only file system|EROFS|Errno 30|os error 30).{{0,400}}?{_PATH}"
    ),
)
_MISSING = (
    lazy_pattern(rf"{_PATH}: No such file or directory", re.IGNORECASE),
    lazy_pattern(
        rf"(?:No such file or directory|ENOENT|os error 2\)).{{0,400}}?{_PATH}",
        re.IGNORECASE,
    ),
)
_NO_NETWORK = lazy_pattern(
    r"Could not resolve host|Temporary failure in name resolution|Name or service not known|ENETUNREACH"
    r"|Network is unreachable|EAI_AGAIN|getaddrinfo|Refused by Foldline's sandbox|dial tcp|dns error",
    re.IGNORECASE,
)
_NO_MEMORY = lazy_pattern(
    r"MemoryError|Cannot allocate memory|ENOMEM|bad_alloc|out of memory|ReserveShadowMemory"
    r"|Sanitizer failed to allocate"
)
_LOOKED_AT = 64 * 1024
"""Number of characters at the end of a command's output that are searched for denied accesses."""
_NAMED = 3
"""Maximum number of paths named in a message for each kind of access; the others are left out."""


@dataclass(eq=False)
class Sandbox:
    """The sandbox of one session."""

    cwd: Path
    options: SandboxOptions = field(default_factory=SandboxOptions)
    kept: Path | None = None
    """Folder for the full outputs of tools.

    It is the only part of Foldline's own data that commands may read.
    """
    may_change: Callable[[], bool] = lambda: True
    """Returns whether the working folder is writable in the current mode."""
    allowed: Callable[[str], bool] = lambda _: False
    """Returns whether the user has allowed a host, in addition to the settings."""
    engine: Engine | None = None
    """The engine; None until `ready` has detected it."""
    acting: ActingRecord = field(default_factory=ActingRecord)
    """Known self-executing files, shared by all sandboxes of the session."""
    _policy: SandboxPolicy | None = None
    """Policy of the newest command."""
    _network: SandboxNetwork | None = None
    _scratch: "tempfile.TemporaryDirectory[str] | None" = None
    _making_scratch: threading.Lock = field(default_factory=threading.Lock)
    _starting: asyncio.Lock = field(default_factory=asyncio.Lock)

    def for_server(self, writable: Sequence[str], hosts: Sequence[str]) -> "Sandbox":
        """Create a sandbox for a tool server, with its own network and additional permissions."""
        options = replace(
            self.options,
            writable=[*self.options.writable, *writable],
            hosts=[*self.options.hosts, *hosts],
        )
        return Sandbox(
            self.cwd,
            options,
            may_change=self.may_change,
            engine=self.engine,
            acting=self.acting,
        )

    async def ready(self) -> Engine:
        """Detect the engine and start the network."""
        async with self._starting:
            engine = (
                await asyncio.to_thread(engine_here)
                if self.engine is None
                else self.engine
            )
            self.engine = engine
            if (
                engine.name == "bubblewrap"
                and self._network is None
                and find_program("nsenter")
            ):
                network = SandboxNetwork(self._allows)
                try:
                    await network.start()
                    self._network = network
                except (OSError, ValueError):
                    await network.aclose()  # commands then get an empty network
        return engine

    async def aclose(self) -> None:
        if self._network is not None:
            await self._network.aclose()
        if self._scratch is not None:
            self._scratch.cleanup()

    @property
    def scratch(self) -> str:
        """Path of the folder for temporary files, created on first use."""
        with self._making_scratch:
            if self._scratch is None:
                scratch = tempfile.TemporaryDirectory(
                    prefix="foldline-", ignore_cleanup_errors=True
                )
                folder = Path(scratch.name)
                program = filter_bytes(os.uname().machine, network=True)
                write_new(folder / "filter", program, durable=False)
                (folder / "files").mkdir()
                (folder / "files").chmod(
                    0o1777
                )  # like /tmp: tests run as several users may write it
                (folder / "run").mkdir(0o700)
                self._scratch = scratch
        return f"{real_path(self._scratch.name)}/files"

    @property
    def _private(self) -> dict[str, str]:
        """Maps system folders for sockets and temporary files to the session's folders that replace them."""
        if not sys.platform.startswith("linux"):
            return {}
        run = str(Path(self.scratch).with_name("run"))
        places = dict.fromkeys(_TEMPORARY, self.scratch) | {
            os.environ.get("XDG_RUNTIME_DIR", ""): run
        }
        return {
            real_path(place): own
            for place, own in places.items()
            if place and is_folder(place)
        }

    @property
    def _filter(self) -> str:
        """Path of the seccomp program, outside the folders that commands can write to."""
        return str(Path(self.scratch).with_name("filter"))

    def policy(self, read_only: Sequence[str] = ()) -> SandboxPolicy:
        """Return the current policy. Reads from disk.

        Args:
            read_only: paths within the writable folders that must stay read-only.
        """
        own = [data_home(), config_dir(os.environ)]
        places = self._places()
        keep_out([self.cwd, *places])
        private = self._private
        if self.engine is not None and self.engine.name == "landlock":
            private = dict.fromkeys(
                private, ""
            )  # Landlock can hide folders, but cannot replace them
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
        """Find self-executing files in the writable folders, except temporary ones."""
        scratch = self.scratch
        places = [path for path in self._places() if path != scratch]
        return [
            entry
            for entry in acting_in(places, _acts)
            if lies_in(entry.path, places) and not lies_in(entry.path, [scratch])
        ]

    @asynccontextmanager
    async def entering(
        self, argv: Sequence[str], env: Mapping[str, str], at: str | Path = ""
    ) -> AsyncIterator["Entered"]:
        """Do the same as `entered`, for a program that runs until this context exits.

        Raises:
            OSError: no sandbox is available.
        """
        self.acting.running += 1
        try:
            yield await asyncio.to_thread(self.entered, argv, env, at)
        finally:
            self.acting.running -= 1

    def entered(
        self, argv: Sequence[str], env: Mapping[str, str], at: str | Path = ""
    ) -> "Entered":
        """Return the command line and environment for running a program in the sandbox.

        Reads from disk.

        Args:
            at: working folder of the program; by default the session's.

        Raises:
            OSError: no sandbox is available.
        """
        acting = self.acting.enter(self._search) if self.may_change() else []
        policy = self.policy([entry.path for entry in acting if entry.is_held])
        network = self._network
        # Mount the repositories, so that they cannot be renamed. Their entries are protected individually.
        repositories = (entry.path for entry in acting if entry.is_repository)
        self._policy = policy = replace(
            policy, writable=(*policy.writable, *repositories)
        )
        if network is not None:
            network.refused.clear()
            env = {**env, **network.environment}
        if at:
            policy = replace(policy, cwd=real_path(at))
        return self._entered(policy, argv, {**env, "TMPDIR": self.scratch}, network)

    def entered_search(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        real: str,
        programs: Sequence[str | Path],
    ) -> "Entered":
        """Do the same as `entered`, for a search.

        The search can access only its target and its programs, and has no network.
        """
        return self._entered(
            search_policy(self.policy(), real, programs), argv, env, None
        )

    def _entered(
        self,
        policy: SandboxPolicy,
        argv: Sequence[str],
        env: Mapping[str, str],
        network: SandboxNetwork | None,
    ) -> "Entered":
        """Build the command line and environment.

        Variables that could load code are set only inside the sandbox.
        """
        outside = trusted_environment(env)
        if "PATH" in env:
            outside["PATH"] = env[
                "PATH"
            ]  # safe, because the launchers are started by absolute paths
        inside = [
            f"{name}={value}"
            for name, value in env.items()
            if outside.get(name) != value
        ]
        if inside:
            argv = ["/usr/bin/env", *inside, *argv]
        return Entered(self._words(policy, argv, network), outside)

    def _words(
        self, policy: SandboxPolicy, argv: Sequence[str], network: SandboxNetwork | None
    ) -> list[str]:
        words = ["/bin/sh", "-c", f'{self._limits(policy.cwd)}; exec "$@"', "sh"]
        match self.engine.name if self.engine else "":
            case "bubblewrap":
                with_filter = [
                    *words[:2],
                    f'exec {_FILTER}<"$0"; {words[2]}',
                    self._filter,
                ]
                is_root = os.geteuid() == 0
                inside = bubblewrap_words(policy, is_root=is_root, filter_from=_FILTER)
                entering = network.entering if network else ()
                return [
                    *with_filter,
                    *entering,
                    *inside,
                    *counted(),
                    *_restricting(policy),
                    *argv,
                ]
            case "landlock":
                if within := policy.keys_within:
                    raise OSError(0, HIDDEN_INSIDE.format(path=within))
                paths = {
                    "reads": [*policy.reads, *policy.shown],
                    "writable": policy.writable,
                    "hidden": policy.hidden,
                }
                return [*words, *python_words("confine", json.dumps(paths)), *argv]
            case "seatbelt":
                return [*words, SEATBELT, "-p", seatbelt_profile(policy), *argv]
        raise OSError(0, NO_SANDBOX)

    def _limits(self, cwd: str) -> str:
        """Return shell commands that limit the file size and memory of each program.

        If memory runs out, the kernel kills these programs first.
        """
        blocks = shutil.disk_usage(cwd).free // _PART_OF_DISK // 512
        memory = (
            f"ulimit -d {self._memory // 1024} 2>/dev/null; " if self._memory else ""
        )
        first = "{ echo 1000 >/proc/self/oom_score_adj; } 2>/dev/null"
        return f"ulimit -c 0; ulimit -f {blocks}; {memory}{first}"

    @property
    def _memory(self) -> int:
        """Memory limit of one program in bytes; 0 for no limit."""
        return int(
            os.sysconf("SC_PHYS_PAGES")
            * os.sysconf("SC_PAGE_SIZE")
            * self.options.memory
            / 100
        )

    def report(
        self, output: str, *, failed: bool, is_asked: bool = False
    ) -> SandboxReport:
        """Report a finished command's blocked access and new self-executing files.

        New files, including those of commands that are still running, are reported only once. Reads from
        disk.

        Args:
            is_asked: whether the user will be asked about the new files. They are then reported again until
                `ActingRecord.settle` is called.
        """
        created = self.acting.look(self._search) if self.may_change() else ()
        if not is_asked:
            self.acting.settle(created)
        return SandboxReport(self.blocked(output, failed=failed), created)

    def blocked(self, output: str, *, failed: bool = True) -> BlockedAccess | None:
        """Return the access that was denied to the newest command.

        The access is determined from the command's output and from the hosts that the command requested. A
        command may succeed even though the proxy sent it a rejection instead of a page.
        """
        text = output[-_LOOKED_AT:]
        if not failed and REFUSED not in text:
            return None
        policy = self._policy or self.policy()
        hosts = tuple(self._network.refused) if self._network is not None else ()
        paths = self._named(text, _PATHS)
        candidates = {**paths, **self._named(text, _MISSING)}
        read = [
            path
            for path in candidates
            if policy.hides(path) and self._exists_outside(path, policy)
        ]
        written = [
            path for path in paths if path not in read and not policy.writes(path)
        ]
        network = []
        if hosts:
            network.append(f"{NETWORK_ACCESS}: {', '.join(hosts)}")
        elif _NO_NETWORK.search(text):
            network.append(NETWORK_ACCESS)
        others = []
        if written:
            others.append(WRITE_ACCESS.format(paths=", ".join(written[:_NAMED])))
        if read:
            others.append(READ_ACCESS.format(paths=", ".join(read[:_NAMED])))
        if self._memory and _NO_MEMORY.search(text):
            others.append(MORE_MEMORY.format(size=sized(self._memory)))
        if not network and not others:
            return None
        return BlockedAccess("; ".join(network + others), () if others else hosts)

    @staticmethod
    def _exists_outside(path: str, policy: SandboxPolicy) -> bool:
        """Return whether a hidden path, or its parent folder, exists outside the sandbox."""
        above = os.path.dirname(path)  # noqa: PTH120 - a string, as the policy has them
        is_place = above in policy.hidden or above in dict(policy.private)
        return is_there(path) or (not is_place and is_there(above))

    def _named(self, text: str, patterns: Sequence[re.Pattern[str]]) -> dict[str, None]:
        """Return the paths named in a command's error messages, without duplicates."""
        paths = (path for pattern in patterns for path in pattern.findall(text))
        return dict.fromkeys(os.path.normpath(self.cwd / path) for path in paths)

    def _allows(self, host: str) -> Reach:
        """Return which addresses of a host are allowed.

        If the settings list the host, any address is allowed. If the user approved it, only public ones are.
        """
        for pattern in map(str.lower, self.options.hosts):
            if host == pattern or (
                pattern.startswith("*.") and host.endswith(pattern[1:])
            ):
                return "any"
        return "public" if self.allowed(host) else ""


@functools.lru_cache(50_000)
def _acts(name: str) -> bool:
    """Return whether files with this name are self-executing.

    `HEAD` counts, because it turns its folder into a repository.
    """
    return name == "HEAD" or name in SHELL_FILES or acts_by_itself(name)


def counted() -> list[str]:
    """Return a command prefix that limits the number of processes.

    Use it inside the sandbox. Outside, all of the user's processes would count towards the limit.
    """
    limit = f"ulimit -u {_PROCESSES} 2>/dev/null || ulimit -p {_PROCESSES} 2>/dev/null"
    return ["/bin/sh", "-c", f'{limit}; exec "$@"', "sh"]


def _restricting(policy: SandboxPolicy) -> list[str]:
    """Return a command prefix that applies Landlock.

    Returns an empty list if the kernel does not support Landlock.
    """
    places = [*policy.writable, *(place for place, _ in policy.private)]
    rules = writing_rules(places, landlock_version())
    if rules and is_file(_PERL):
        return ["/usr/bin/env", "PERL_BADLANG=0", _PERL, "-e", PERL, *rules]
    return [*python_words("restrict"), *rules] if rules else []


def _sockets() -> list[str]:
    """Return the paths of sockets to hide.

    A read-only mount does not block connections to sockets. Returns an empty list if Landlock blocks them.
    """
    if landlock_version() >= SOCKETS_SINCE:
        return []
    try:
        lines = (
            Path("/proc/net/unix")
            .read_text(encoding="utf-8", errors="replace")
            .splitlines()[1:]
        )
    except OSError:
        return []
    fields = (
        line.split(maxsplit=7) for line in lines
    )  # the columns: Num RefCount Protocol Flags Type St Inode Path
    return [row[7] for row in fields if len(row) == 8 and row[7].startswith("/")]
