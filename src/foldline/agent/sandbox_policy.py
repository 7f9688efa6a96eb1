"""What a command in the sandbox may do, and the same in the words of bubblewrap and of macOS' Seatbelt.

Read is the system without what runs in it (`/run`, `/tmp`), and of home folders what builds need; written is
the working folder, what the user added and a folder for temporary files, but not what acts by itself; the
network is reached through a proxy alone (decision 44).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from foldline.data import real_path, typed_path
from foldline.files import is_file, is_folder, is_there, read_regular
from foldline.programs import own_places, program

from .discovery import up_to_top
from .sandbox_home import build_places, links_to, moved_keys, open_entries, private_entries

_OF_THE_SYSTEM = (
    "/etc/shadow", "/etc/gshadow", "/etc/sudoers.d", "/etc/ssh", "/etc/NetworkManager", "/etc/wireguard",
)  # fmt: skip
"""Where a command runs as root, it could read these."""
_HOMES = ("/home", "/root", "/Users")
_RUNNING = ("/run", "/var/run")
"""Sockets and pipes of services, and keys mounted into containers."""
_OF_RUNNING = ("/etc/resolv.conf", "/run/current-system", "/run/opengl-driver", "/home/linuxbrew/.linuxbrew")
"""What programs need of them: the first may be a link, and NixOS and Homebrew keep programs there."""
_SYSTEM = ("/usr", "/etc", "/opt", "/bin", "/lib", "/lib64", "/sbin", "/dev", "/proc", "/nix", "/gnu")
"""No variable hides these, whatever its name."""
SHELL_FILES = (
    ".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".profile", ".zshrc", ".zshenv", ".zprofile",
    ".zlogin", ".zlogout", ".vimrc", ".gvimrc", ".vim", ".emacs", ".emacs.d", ".config/fish", ".config/nvim",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class SandboxOptions:
    """What the user set."""

    writable: Sequence[str] = ()
    hidden: Sequence[str] = ()
    hosts: Sequence[str] = ()
    memory: float = 50
    """Percent of the machine's that one program may fill; 0: as much as there is."""
    shell: bool = True
    """Whether the user's own `!` commands run in it, too."""


@dataclass(frozen=True, slots=True)
class SandboxPolicy:
    """Whole paths without links, all of them there."""

    cwd: str
    writable: tuple[str, ...] = ()
    read_only: tuple[str, ...] = ()
    """Within what may be written."""
    hidden: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()
    """Within what is hidden, and read all the same."""
    private: tuple[tuple[str, str], ...] = ()
    """Places in whose stead commands have a folder of the session's own, with that folder."""
    links: tuple[tuple[str, str], ...] = ()
    """Links within what is hidden, with what they hold."""
    network: bool = False
    """Whether there is the proxy's."""
    reads: tuple[str, ...] = ("/",)
    """What there is at all."""

    @property
    def keys_within(self) -> str:
        """What is hidden within what may be written: Landlock cannot keep both; empty where nothing is."""
        return next((path for path in self.hidden if lies_in(path, self.writable)), "")

    def hides(self, path: str) -> bool:
        """Return whether a path is hidden. The deepest place decides."""
        hidden = dict.fromkeys((*self.hidden, *(place for place, _ in self.private)), True)
        return _nearest(path, hidden | dict.fromkeys((*self.shown, *self.writable), False))

    def writes(self, path: str) -> bool:
        """Return whether a path may be written. The deepest place decides."""
        private = (place for place, _ in self.private)
        places = dict.fromkeys((*self.hidden, *self.shown), False)
        places |= dict.fromkeys((*self.writable, *private, "/proc", "/dev"), True)
        return _nearest(path, places | dict.fromkeys(self.read_only, False))


def places_written(cwd: Path, writable: Iterable[str | Path], *, may_change: bool = True) -> tuple[str, ...]:
    """What commands write: the folder with its repository, and what is given. Reads the disk."""
    folder = real_path(cwd)
    own = [folder, *_git_folders(folder)] if may_change else []
    return tuple(_there([*own, *writable]))


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
    """Return what commands may do now. Reads the disk.

    Args:
        places: what commands write.
        read_only: what lies within these and is not written.
        private: places with the folder that commands get in place of each, if any.
    """
    folder = real_path(cwd)
    own = own_places(places)
    # A mount cannot be renamed: so no folder above them is put aside for another.
    above = (str(parent) for place in own for parent in Path(place).parents if lies_in(str(parent), places))
    held = (*read_only, *_there(own))
    top = real_path(up_to_top(Path(folder))[-1])
    worked_in = (folder, top, *places)
    apart = {place: own for place, own in private.items() if not lies_in(place, worked_in)}
    replaced = {place: own for place, own in apart.items() if own}
    closed = [*_there([*_OF_THE_SYSTEM, *hidden])]
    of_home = _home_places(Path(real_path(home)), environ, worked_in)
    seen = {path for path in _there(of_home.shown) if not lies_in(path, closed)}
    seen |= {path for path in _there([*_OF_RUNNING, *shown, folder, top]) if path not in closed}
    unseen = {*_there([*closed, *of_home.hidden, *_RUNNING, *apart])} - seen - replaced.keys()
    is_hidden = dict.fromkeys([*unseen, *replaced], True) | dict.fromkeys([*seen, *places], False)
    root = of_home.root if replaced else ""  # else a home folder in `/tmp` would be as writable as that
    return SandboxPolicy(
        folder,
        tuple(_there([*places, *above])),
        tuple(path for path in held if lies_in(path, places) and path not in places),
        hidden=tuple(path for path in unseen if path == root or not _nearest(_above(path), is_hidden)),
        shown=tuple(path for path in seen if _nearest(_above(path), is_hidden)),
        private=tuple(replaced.items()),
        links=tuple(link for link in of_home.links if _nearest(link[0], is_hidden)),
        network=network,
    )


class HomePlaces(NamedTuple):
    """The hidden and shown parts of home folders."""

    root: str
    """The user's own home folder, if it is hidden but for what is shown."""
    hidden: Sequence[str]
    shown: Sequence[str]
    links: Sequence[tuple[str, str]]
    """Links that lead to what is shown, with what they hold."""


def _home_places(home: Path, environ: Mapping[str, str], worked_in: Sequence[str]) -> HomePlaces:
    """Return the hidden and shown parts of home folders.

    A home folder that is the working folder keeps its new files: only its private entries are hidden."""
    needed, entries = build_places(home, environ), private_entries(home)
    outside = (*_SYSTEM, *worked_in)
    moved = [path for path in map(real_path, moved_keys(environ)) if not lies_in(path, outside)]
    moved = [path for path in moved if not any(lies_in(each, [path]) for each in (str(home), *worked_in))]
    links = links_to(needed, home)
    if lies_in(str(home), worked_in) or str(home) == "/":
        return HomePlaces("", [*entries, *moved], needed, links)
    linked = [path for path in map(real_path, entries) if not lies_in(path, (str(home), *outside))]
    entries = [path for path in open_entries(home) if not lies_in(path, (*linked, *moved))]
    return HomePlaces(str(home), [*_HOMES, str(home), *linked, *moved], [*needed, *entries], links)


def _nearest(path: str, places: Mapping[str, bool]) -> bool:
    """Return the value of the deepest place that holds a path; False outside of all."""
    while path and path not in places:
        path = _above(path)
    return places.get(path, False)


def _above(path: str) -> str:
    return path.rpartition("/")[0]


_OF_PROGRAMS = ("/usr", "/bin", "/lib", "/lib64", "/etc/ld.so.cache", "/nix/store", "/gnu/store")
"""What a program of the system needs in order to start."""
_OF_SEARCHES = (".gitconfig", ".config/git/ignore")
"""Below the home folder: what git leaves out, ripgrep does, too."""


def search_policy(policy: SandboxPolicy, real: str, programs: Iterable[str | Path]) -> SandboxPolicy:
    """Narrow a policy to a search: it reads its target, the repository and its program. Reads the disk."""
    home = Path(real_path(typed_path("~")))
    top = up_to_top(Path(policy.cwd))[-1]
    of_system = filter(is_there, _OF_PROGRAMS)  # by these names, though they may be links
    of_home = (home / name for name in _OF_SEARCHES)
    reads = (*of_system, *_there([*programs, *of_home, top, *policy.writable]))
    if not lies_in(real, reads):  # within what commands write, it might be a link by now
        reads = (*reads, real)
    entries = _there(private_entries(home)) if lies_in(str(home), reads) else ()
    hidden = (
        path for path in {*policy.hidden, *entries} if lies_in(path, reads) and not lies_in(real, [path])
    )
    return SandboxPolicy(policy.cwd, hidden=tuple(hidden), reads=reads)


def _there(paths: Iterable[str | Path]) -> Iterator[str]:
    """Those that are there, each once, by the path that names it."""
    seen = set[str]()
    for path in paths:
        if is_there(path) and (real := real_path(path)) not in seen and real != "/":
            seen.add(real)
            yield real


def lies_in(path: str, folders: Sequence[str]) -> bool:
    return any(path == folder or path.startswith(f"{folder}/") for folder in folders)


def _git_folders(cwd: str) -> list[str]:
    """The folders of the repository that a working tree belongs to: its own, and what it shares with others.
    A file `.git` may name any folder: it counts where that one names the file in turn, as git's own do."""
    top = up_to_top(Path(cwd))[-1] / ".git"
    if is_folder(top):
        return [real_path(top)]
    if not is_file(top):
        return []
    try:
        named = read_regular(top, 4096).decode().removeprefix("gitdir:").strip()
        own = real_path(top.parent / named)
        back = read_regular(f"{own}/gitdir", 4096).decode().strip()
        shared = real_path(Path(own, read_regular(f"{own}/commondir", 4096).decode().strip()))
    except (OSError, UnicodeDecodeError):
        return []
    is_worktree = real_path(Path(own, back)) == real_path(top) and own.startswith(f"{shared}/worktrees/")
    return [shared] if is_worktree else []


# --- bubblewrap ---------------------------------------------------------------------------------------

_KEPT_OF_ROOT = ("CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID")
"""Root keeps its ways with files of others, which a namespace of users would take from it."""


def bubblewrap_words(policy: SandboxPolicy, *, is_root: bool, filter_from: int | None) -> list[str]:
    """The words of bubblewrap before the command; `filter_from` is the descriptor of a seccomp program.

    Raises:
        FileNotFoundError: bubblewrap counts as not installed.
    """
    words = [program("bwrap"), "--die-with-parent", "--unshare-pid", "--unshare-ipc", "--unshare-uts"]
    words += ["--unshare-cgroup-try", "--cap-drop", "ALL"]
    if is_root:
        words += [word for name in _KEPT_OF_ROOT for word in ("--cap-add", f"CAP_{name}")]
    else:
        words += ["--unshare-user"]
    if not policy.network:
        words += ["--unshare-net"]
    words += [word for path in sorted(policy.reads) for word in ("--ro-bind", path, path)]
    words += ["--dev", "/dev", "--proc", "/proc"]
    # bubblewrap leaves them to the user's rights; root, also one of a namespace, may write them.
    for path in ("/proc/sys", "/proc/sysrq-trigger"):
        words += ["--ro-bind-try", path, path]
    words += _mount_words(policy)
    if filter_from is not None:
        words += ["--seccomp", str(filter_from)]
    return [*words, "--chdir", policy.cwd, "--"]


def _mount_words(policy: SandboxPolicy) -> list[str]:
    private, links = dict(policy.private), dict(policy.links)
    words, empty = list[str](), list[str]()
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
    return words + empty  # last: what is read-only holds no places for other mounts


def _by_depth(policy: SandboxPolicy) -> list[tuple[str, str]]:
    """List each place with its kind. The deeper one comes later and wins."""
    kinds = dict.fromkeys(policy.hidden, "hidden") | dict.fromkeys(policy.shown, "read")
    kinds |= dict.fromkeys((place for place, _ in policy.private), "private")
    kinds |= dict.fromkeys((place for place, _ in policy.links), "link")
    kinds |= dict.fromkeys((path for path in policy.writable if path not in policy.hidden), "writable")
    kinds |= dict.fromkeys((path for path in policy.read_only if path not in policy.hidden), "read")
    return sorted(kinds.items(), key=lambda place: (place[0].count("/"), place[0]))


# --- Seatbelt -----------------------------------------------------------------------------------------


def seatbelt_profile(policy: SandboxPolicy) -> str:
    """The profile for macOS' `sandbox-exec`; the last rule that fits wins."""
    rules = {
        "hidden": "(deny file-read* file-write* {0})\n(allow file-read-metadata {0})",  # to follow paths
        "read": "(allow file-read* {0})\n(deny file-write* {0})",
        "writable": "(allow file-read* file-write* {0})",
    }
    lines = [
        "(version 1)",
        "(allow default)",
        "(deny file-write*)",
        *(f'(allow file-write* (subpath "{path}"))' for path in ("/dev/null", "/dev/zero", "/dev/tty")),
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
