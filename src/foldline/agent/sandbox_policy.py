"""What a command in the sandbox may do, and the same in the words of bubblewrap and of macOS' Seatbelt.

Everything may be read but credentials; written is the working folder, what the user added and a folder for
temporary files, but not what acts by itself; the network is reached through a proxy alone (decision 44).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from foldline.data import real_path, typed_path
from foldline.files import is_file, is_folder, is_there, read_regular
from foldline.programs import own_places, program

from .discovery import up_to_top

CREDENTIALS = (
    ".ssh", ".gnupg", ".aws", ".azure", ".kube", ".config/gh", ".config/hub", ".config/gcloud", ".config/op",
    ".config/rclone", ".config/github-copilot", ".docker/config.json", ".docker/run", ".docker/desktop",
    ".netrc", ".pgpass", ".my.cnf", ".npmrc", ".yarnrc.yml", ".pypirc", ".git-credentials",
    ".config/git/credentials", ".cargo/credentials", ".cargo/credentials.toml", ".gem/credentials",
    ".m2/settings.xml", ".gradle/gradle.properties", ".terraform.d", ".vault-token", ".password-store",
    ".local/share/keyrings", ".local/share/kwalletd", ".claude/.credentials.json", ".codex/auth.json",
    ".gemini/oauth_creds.json", ".local/share/opencode/auth.json",
    ".mozilla", ".thunderbird", ".config/google-chrome", ".config/chromium", ".config/BraveSoftware",
    ".config/microsoft-edge", ".config/vivaldi", "snap/firefox", "Library/Keychains", "Library/Cookies",
    "Library/Application Support/Google/Chrome", "Library/Application Support/Firefox", "Library/Safari",
    ".bash_history", ".zsh_history", ".python_history", ".node_repl_history", ".psql_history",
)  # fmt: skip
"""Below the home folder: keys, what logs in, browser profiles, and what was typed."""
_OF_THE_SYSTEM = (
    "/etc/shadow", "/etc/gshadow", "/etc/sudoers.d", "/etc/ssh", "/etc/NetworkManager", "/etc/wireguard",
)  # fmt: skip
"""Where a command runs as root, it could read these."""
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
    network: bool = False
    """Whether there is the proxy's."""
    reads: tuple[str, ...] = ("/",)
    """What there is at all."""

    @property
    def keys_within(self) -> str:
        """What is hidden within what may be written: Landlock cannot keep both; empty where nothing is."""
        return next((path for path in self.hidden if lies_in(path, self.writable)), "")


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
    home: Path,
    network: bool = False,
) -> SandboxPolicy:
    """The policy of a folder as it is now. `places` are written. Reads the disk."""
    folder = real_path(cwd)
    below_home = (home / name for name in CREDENTIALS)
    own = own_places(places)
    # A mount cannot be renamed: so no folder above them is put aside for another.
    above = (str(parent) for place in own for parent in Path(place).parents if lies_in(str(parent), places))
    return SandboxPolicy(
        folder,
        tuple(_there([*places, *above])),
        tuple(path for path in (*read_only, *_there(own)) if lies_in(path, places) and path not in places),
        tuple(path for path in _there([*below_home, *_OF_THE_SYSTEM, *hidden]) if path != folder),
        tuple(_there(shown)),
        network,
    )


_OF_PROGRAMS = ("/usr", "/bin", "/lib", "/lib64", "/etc/ld.so.cache", "/nix/store", "/gnu/store")
"""What a program of the system needs in order to start."""
_OF_SEARCHES = (".gitconfig", ".config/git/ignore")
"""Below the home folder: what git leaves out, ripgrep does, too."""


def search_policy(policy: SandboxPolicy, real: str, programs: Iterable[str | Path]) -> SandboxPolicy:
    """What a search may do of what commands may: read what it searches, below the repository that it lies in,
    and what its own program needs. Reads the disk."""
    home = (typed_path("~") / name for name in _OF_SEARCHES)
    top = up_to_top(Path(policy.cwd))[-1]
    of_system = filter(is_there, _OF_PROGRAMS)  # by these names, though they may be links
    reads = (*of_system, *_there([*programs, *home, top, *policy.writable]))
    if not lies_in(real, reads):  # within what commands write, it might be a link by now
        reads = (*reads, real)
    hidden = (path for path in policy.hidden if lies_in(path, reads) and not lies_in(real, [path]))
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
    empty = []
    for path, how in sorted(_mounts(policy), key=lambda mount: (mount[0].count("/"), mount[0])):
        match how:
            case "hidden" if is_folder(path):
                words += ["--tmpfs", path]
                empty.append(path)
            case "hidden":
                words += ["--ro-bind", "/dev/null", path]
            case "writable":
                words += ["--bind", path, path]
            case _:
                words += ["--ro-bind", path, path]
    words += [word for path in empty for word in ("--remount-ro", path)]
    if filter_from is not None:
        words += ["--seccomp", str(filter_from)]
    return [*words, "--chdir", policy.cwd, "--"]


def _mounts(policy: SandboxPolicy) -> Iterator[tuple[str, str]]:
    """Each path once; the deeper one is mounted later, and so wins."""
    mounts = dict.fromkeys(policy.hidden, "hidden")
    mounts |= dict.fromkeys(policy.shown, "read")
    mounts |= dict.fromkeys((path for path in policy.writable if path not in policy.hidden), "writable")
    mounts |= dict.fromkeys((path for path in policy.read_only if mounts.get(path) != "hidden"), "read")
    yield from mounts.items()


# --- Seatbelt -----------------------------------------------------------------------------------------


def seatbelt_profile(policy: SandboxPolicy) -> str:
    """The profile for macOS' `sandbox-exec`; the last rule that fits wins."""
    writable = [*policy.writable, "/dev/null", "/dev/zero", "/dev/tty"]
    lines = [
        "(version 1)",
        "(allow default)",
        "(deny file-write*)",
        f"(allow file-write* {_places(writable)})",
        *([f"(deny file-write* {_places(policy.read_only)})"] if policy.read_only else []),
        *([f"(deny file-read* file-write* {_places(policy.hidden)})"] if policy.hidden else []),
        *([f"(allow file-read* {_places(policy.shown)})"] if policy.shown else []),
        "(deny network*)",
        '(allow network-bind network-inbound (local ip "localhost:*"))',
        "(deny appleevent-send)",
        "(deny process-info* (target others))",
        "(deny signal (target others))",
        "(allow signal (target children) (target pgrp))",
        '(deny mach-lookup (global-name "com.apple.coreservices.launchservicesd"))',
    ]
    return "\n".join(lines)


def _places(paths: Iterable[str]) -> str:
    return " ".join(f'(subpath "{_quoted(path)}")' for path in paths)


def _quoted(path: str) -> str:
    return path.replace("\\", "\\\\").replace('"', '\\"')
