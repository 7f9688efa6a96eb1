"""The permissions of commands in the sandbox, for bubblewrap and for Seatbelt on macOS.

Commands can read the system (except `/run` and `/tmp`) and those parts of home folders that builds need. They
can write to the working folder, to folders that the user has chosen, and to temporary files, but not to
self-executing files. They can reach the network only through a proxy (decision 44).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from foldline.agent.project.discovery import up_to_top
from foldline.data import real_path, typed_path
from foldline.files import is_file, is_folder, is_there, read_regular
from foldline.programs import own_places, program

from .sandbox_home import (
    build_places,
    links_to,
    moved_keys,
    open_entries,
    private_entries,
)

_OF_THE_SYSTEM = (
    "/etc/shadow", "/etc/gshadow", "/etc/sudoers.d", "/etc/ssh", "/etc/NetworkManager", "/etc/wireguard",
)  # fmt: skip
"""System files with secrets, hidden because a command run by root could read them."""
_HOMES = ("/home", "/root", "/Users")
_RUNNING = ("/run", "/var/run")
"""Folders with services' sockets and pipes, and with keys that are mounted into containers."""
_OF_RUNNING = (
    "/etc/resolv.conf",
    "/run/current-system",
    "/run/opengl-driver",
    "/home/linuxbrew/.linuxbrew",
)
"""Paths in `_RUNNING` that programs need.

The first may be a link. NixOS and Homebrew keep programs in the others.
"""
_SYSTEM = (
    "/usr",
    "/etc",
    "/opt",
    "/bin",
    "/lib",
    "/lib64",
    "/sbin",
    "/dev",
    "/proc",
    "/nix",
    "/gnu",
)
"""Folders that are never hidden, even if an environment variable points to them."""
SHELL_FILES = (
    ".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".profile", ".zshrc", ".zshenv", ".zprofile",
    ".zlogin", ".zlogout", ".vimrc", ".gvimrc", ".vim", ".emacs", ".emacs.d", ".config/fish", ".config/nvim",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class SandboxOptions:
    """The user's sandbox settings."""

    writable: Sequence[str] = ()
    hidden: Sequence[str] = ()
    hosts: Sequence[str] = ()
    memory: float = 50
    """Memory limit of one program, as a percentage of the machine's memory.

    0 means no limit.
    """


@dataclass(frozen=True, slots=True)
class SandboxPolicy:
    """A command's permissions.

    All paths are resolved and exist.
    """

    cwd: str
    writable: tuple[str, ...] = ()
    read_only: tuple[str, ...] = ()
    """Read-only paths inside writable ones."""
    hidden: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()
    """Readable paths inside hidden ones."""
    private: tuple[tuple[str, str], ...] = ()
    """Folders, each with the session's own folder that replaces it in the sandbox."""
    links: tuple[tuple[str, str], ...] = ()
    """Links inside hidden folders, with their targets. They are created again in the sandbox."""
    network: bool = False
    """Whether the proxy is reachable."""
    reads: tuple[str, ...] = ("/",)
    """Paths that are visible, except for the hidden ones in them."""

    @property
    def keys_within(self) -> str:
        """A hidden path inside a writable one; empty if there is none.

        Landlock cannot protect such paths.
        """
        return next((path for path in self.hidden if lies_in(path, self.writable)), "")

    def hides(self, path: str) -> bool:
        """Return whether a path is hidden.

        The deepest listed path that contains it decides.
        """
        hidden = dict.fromkeys(
            (*self.hidden, *(place for place, _ in self.private)), True
        )
        return _nearest(
            path, hidden | dict.fromkeys((*self.shown, *self.writable), False)
        )

    def writes(self, path: str) -> bool:
        """Return whether a path is writable.

        The deepest listed path that contains it decides.
        """
        private = (place for place, _ in self.private)
        places = dict.fromkeys((*self.hidden, *self.shown), False)
        places |= dict.fromkeys((*self.writable, *private, "/proc", "/dev"), True)
        return _nearest(path, places | dict.fromkeys(self.read_only, False))


def places_written(
    cwd: Path, writable: Iterable[str | Path], *, may_change: bool = True
) -> tuple[str, ...]:
    """Return the writable paths. Reads from disk.

    These are the paths in `writable` and, if it may change, the working folder with its repository.
    """
    folder = real_path(cwd)
    own = [folder, *_git_folders(folder)] if may_change else []
    return tuple(_existing([*own, *writable]))


def policy_for(
    cwd: Path,
    *,
    places: Sequence[str],
    read_only: Iterable[str] = (),
    hidden: Iterable[str | Path] = (),
    shown: Iterable[str | Path] = (),
    private: Mapping[str, str],
    home: Path,
    environ: Mapping[str, str],
    network: bool = False,
) -> SandboxPolicy:
    """Return the policy for a command. Reads from disk.

    Args:
        places: writable paths.
        read_only: read-only paths inside the writable ones.
        private: folders, each with the session's folder that replaces it, or an empty string to hide the
            folder instead.
    """
    folder = real_path(cwd)
    own = own_places(places)
    # Mount the parent folders of our own programs, because a mounted folder cannot be renamed.
    above = (
        str(parent)
        for place in own
        for parent in Path(place).parents
        if lies_in(str(parent), places)
    )
    protected = (*read_only, *_existing(own))
    top = real_path(up_to_top(Path(folder))[-1])
    worked_in = (folder, top, *places)
    apart = {
        place: own for place, own in private.items() if not lies_in(place, worked_in)
    }
    replaced = {place: own for place, own in apart.items() if own}
    closed = list(_existing([*_OF_THE_SYSTEM, *hidden]))
    of_home = _home_places(Path(real_path(home)), environ, worked_in)
    seen = {path for path in _existing(of_home.shown) if not lies_in(path, closed)}
    seen |= {
        path
        for path in _existing([*_OF_RUNNING, *shown, folder, top])
        if path not in closed
    }
    unseen = (
        {*_existing([*closed, *of_home.hidden, *_RUNNING, *apart])}
        - seen
        - replaced.keys()
    )
    is_hidden = dict.fromkeys([*unseen, *replaced], True) | dict.fromkeys(
        [*seen, *places], False
    )
    root = (
        of_home.root if replaced else ""
    )  # otherwise a home folder in `/tmp` would be writable
    return SandboxPolicy(
        folder,
        tuple(_existing([*places, *above])),
        tuple(
            path for path in protected if lies_in(path, places) and path not in places
        ),
        hidden=tuple(
            path
            for path in unseen
            if path == root or not _nearest(_above(path), is_hidden)
        ),
        shown=tuple(path for path in seen if _nearest(_above(path), is_hidden)),
        private=tuple(replaced.items()),
        links=tuple(link for link in of_home.links if _nearest(link[0], is_hidden)),
        network=network,
    )


class HomePlaces(NamedTuple):
    """The parts of home folders that are hidden and shown."""

    root: str
    """The user's home folder, if only some parts of it are shown."""
    hidden: Sequence[str]
    shown: Sequence[str]
    links: Sequence[tuple[str, str]]
    """Links to shown paths, with their targets."""


def _home_places(
    home: Path, environ: Mapping[str, str], worked_in: Sequence[str]
) -> HomePlaces:
    """Return the parts of home folders that are hidden and shown.

    If the working folder is the home folder or contains it, only the private entries are hidden, so that new
    files stay visible.
    """
    needed = build_places(home, environ)
    entries = private_entries(home)
    outside = (*_SYSTEM, *worked_in)
    moved = [
        path
        for path in map(real_path, moved_keys(environ))
        if not lies_in(path, outside)
    ]
    moved = [
        path
        for path in moved
        if not any(lies_in(folder, [path]) for folder in (str(home), *worked_in))
    ]
    links = links_to(needed, home)
    if lies_in(str(home), worked_in) or str(home) == "/":
        return HomePlaces("", [*entries, *moved], needed, links)
    linked = [
        path
        for path in map(real_path, entries)
        if not lies_in(path, (str(home), *outside))
    ]
    entries = [
        path for path in open_entries(home) if not lies_in(path, (*linked, *moved))
    ]
    return HomePlaces(
        str(home), [*_HOMES, str(home), *linked, *moved], [*needed, *entries], links
    )


def _nearest(path: str, places: Mapping[str, bool]) -> bool:
    """Return the value of the deepest listed path that contains a path.

    Returns False if no listed path contains it.
    """
    while path and path not in places:
        path = _above(path)
    return places.get(path, False)


def _above(path: str) -> str:
    return path.rpartition("/")[0]


_OF_PROGRAMS = (
    "/usr",
    "/bin",
    "/lib",
    "/lib64",
    "/etc/ld.so.cache",
    "/nix/store",
    "/gnu/store",
)
"""Paths that a program installed on the system needs to start."""
_OF_SEARCHES = (".gitconfig", ".config/git/ignore")
"""Files in the home folder with ignore rules for ripgrep."""


def search_policy(
    policy: SandboxPolicy, real: str, programs: Iterable[str | Path]
) -> SandboxPolicy:
    """Restrict a policy to the needs of a search.

    A search only reads its target, the repository and its program.

    Reads from disk.
    """
    home = Path(real_path(typed_path("~")))
    top = up_to_top(Path(policy.cwd))[-1]
    of_system = filter(
        is_there, _OF_PROGRAMS
    )  # not resolved, because programs use these paths
    of_home = (home / name for name in _OF_SEARCHES)
    reads = (*of_system, *_existing([*programs, *of_home, top, *policy.writable]))
    if not lies_in(
        real, reads
    ):  # the target's path may contain a link to a different folder
        reads = (*reads, real)
    entries = _existing(private_entries(home)) if lies_in(str(home), reads) else ()
    hidden = (
        path
        for path in {*policy.hidden, *entries}
        if lies_in(path, reads) and not lies_in(real, [path])
    )
    return SandboxPolicy(policy.cwd, hidden=tuple(hidden), reads=reads)


def _existing(paths: Iterable[str | Path]) -> Iterator[str]:
    """Yield the paths that exist, resolved, without duplicates and without the root folder."""
    seen = set[str]()
    for path in paths:
        if is_there(path) and (real := real_path(path)) not in seen and real != "/":
            seen.add(real)
            yield real


def lies_in(path: str, folders: Sequence[str]) -> bool:
    return any(path == folder or path.startswith(f"{folder}/") for folder in folders)


def _git_folders(cwd: str) -> list[str]:
    """Return a working tree's repository folders.

    A file named `.git` may point to any folder. That folder counts only if it points back to the file.
    """
    top = up_to_top(Path(cwd))[-1] / ".git"
    if is_folder(top):
        return [real_path(top)]
    if not is_file(top):
        return []
    try:
        named = read_regular(top, 4096).decode().removeprefix("gitdir:").strip()
        own = real_path(top.parent / named)
        back = read_regular(f"{own}/gitdir", 4096).decode().strip()
        shared = real_path(
            Path(own, read_regular(f"{own}/commondir", 4096).decode().strip())
        )
    except (OSError, UnicodeDecodeError):
        return []
    is_worktree = real_path(Path(own, back)) == real_path(top) and own.startswith(
        f"{shared}/worktrees/"
    )
    return [shared] if is_worktree else []


# --- bubblewrap ---------------------------------------------------------------------------------------

_KEPT_OF_ROOT = (
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "SETGID",
    "SETUID",
)
"""Root's capabilities that are kept, to access other users' files.

A user namespace would drop them.
"""


def bubblewrap_words(
    policy: SandboxPolicy, *, is_root: bool, filter_from: int | None
) -> list[str]:
    """Return bubblewrap's command line, to which the command to run is appended.

    Args:
        filter_from: file descriptor of a seccomp program.

    Raises:
        FileNotFoundError: bubblewrap is not installed.
    """
    words = [
        program("bwrap"),
        "--die-with-parent",
        "--unshare-pid",
        "--unshare-ipc",
        "--unshare-uts",
    ]
    words += ["--unshare-cgroup-try", "--cap-drop", "ALL"]
    if is_root:
        words += [
            word for name in _KEPT_OF_ROOT for word in ("--cap-add", f"CAP_{name}")
        ]
    else:
        words += ["--unshare-user"]
    if not policy.network:
        words += ["--unshare-net"]
    words += [
        word for path in sorted(policy.reads) for word in ("--ro-bind", path, path)
    ]
    words += ["--dev", "/dev", "--proc", "/proc"]
    # bubblewrap leaves these paths writable, so that root could write to them even in a namespace.
    for path in ("/proc/sys", "/proc/sysrq-trigger"):
        words += ["--ro-bind-try", path, path]
    words += _mount_words(policy)
    if filter_from is not None:
        words += ["--seccomp", str(filter_from)]
    return [*words, "--chdir", policy.cwd, "--"]


def _mount_words(policy: SandboxPolicy) -> list[str]:
    private = dict(policy.private)
    links = dict(policy.links)
    words: list[str] = []
    empty: list[str] = []
    for path, kind in _by_depth(policy):
        match kind:
            case "hidden" if is_folder(path):
                words += ["--tmpfs", path]
                empty += ["--remount-ro", path]
            case "hidden":
                words += ["--ro-bind", "/dev/null", path]
            case "private":
                words += ["--bind", private[path], path]
            case "link":
                words += ["--symlink", links[path], path]
            case "writable":
                words += ["--bind", path, path]
            case _:
                words += ["--ro-bind", path, path]
    return (
        words + empty
    )  # last, because mount points cannot be created in read-only folders


def _by_depth(policy: SandboxPolicy) -> list[tuple[str, str]]:
    """Return each path with its kind.

    Deeper paths come later, and take precedence.
    """
    kinds = dict.fromkeys(policy.hidden, "hidden") | dict.fromkeys(policy.shown, "read")
    kinds |= dict.fromkeys((place for place, _ in policy.private), "private")
    kinds |= dict.fromkeys((place for place, _ in policy.links), "link")
    kinds |= dict.fromkeys(
        (path for path in policy.writable if path not in policy.hidden), "writable"
    )
    kinds |= dict.fromkeys(
        (path for path in policy.read_only if path not in policy.hidden), "read"
    )
    return sorted(kinds.items(), key=lambda place: (place[0].count("/"), place[0]))


# --- Seatbelt -----------------------------------------------------------------------------------------


def seatbelt_profile(policy: SandboxPolicy) -> str:
    """Return the profile for macOS's `sandbox-exec`.

    The last matching rule in the profile takes precedence.
    """
    rules = {
        # Metadata stays readable, so that paths can be followed.
        "hidden": "(deny file-read* file-write* {0})\n(allow file-read-metadata {0})",
        "read": "(allow file-read* {0})\n(deny file-write* {0})",
        "writable": "(allow file-read* file-write* {0})",
    }
    lines = [
        "(version 1)",
        "(allow default)",
        "(deny file-write*)",
        *(
            f'(allow file-write* (subpath "{path}"))'
            for path in ("/dev/null", "/dev/zero", "/dev/tty")
        ),
        *(
            rules[kind].format(f'(subpath "{_quoted(path)}")')
            for path, kind in _by_depth(policy)
            if kind in rules
        ),
        "(deny network*)",
        '(allow network-bind network-inbound (local ip "localhost:*"))',
        "(deny appleevent-send)",
        "(deny process-info* (target others))",
        "(deny signal (target others))",
        "(allow signal (target children) (target pgrp))",
        '(deny mach-lookup (global-name "com.apple.coreservices.launchservicesd"))',
    ]
    return "\n".join(lines)


def _quoted(path: str) -> str:
    return path.replace("\\", "\\\\").replace('"', '\\"')
