"""Starts a command in the sandbox.

Uses only the standard library.

`filter_bytes` builds a seccomp program for bubblewrap. This file can also be run as a program, with one of
three subcommands. `confine` applies Landlock and the same filter, and executes the command. `restrict`
applies Landlock inside bubblewrap, and executes the command. `hold` keeps a network namespace open whose only
service is Foldline's proxy. The numeric constants are from linux/landlock.h, linux/seccomp.h and
asm/unistd.h.
"""

import os
import struct
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress

PORT = 3128
"""Port of the proxy in the sandbox's network, which is also squid's default port."""

_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
# System calls on x86_64 and arm64 that inspect processes, extend the kernel, or create namespaces or mounts.
_REFUSED = (
    (101, 117), (310, 270), (311, 271), (312, 272), (438, 438),  # ptrace, process_vm_*, kcmp, pidfd_getfd
    (298, 241), (321, 280), (323, 282), (425, 425),  # perf_event_open, bpf, userfaultfd, io_uring_setup
    (248, 217), (249, 218), (250, 219),  # add_key, request_key, keyctl
    (165, 40), (166, 39), (155, 41), (161, 51), (308, 268),  # mount, umount2, pivot_root, chroot, setns
    (428, 428), (429, 429), (430, 430), (432, 432), (433, 433), (442, 442),  # newer calls for mounts
    (304, 265), (103, 116), (163, 89), (179, 60), (443, 443),  # open_by_handle_at, syslog, acct, quotactl
    (246, 104), (320, 294), (175, 105), (313, 273), (176, 106),  # kexec, modules
    (167, 224), (168, 225), (169, 142),  # swapon, swapoff, reboot
)  # fmt: skip
_IOCTL = (16, 29)
_SOCKET = (41, 198)
_CLONE = (56, 220)
_UNSHARE = (272, 97)
_CLONE3 = 435
_TERMINAL_INPUT = (0x5412, 0x541C)
"""TIOCSTI and TIOCLINUX, which insert characters into the terminal's input."""
_NAMESPACES = 0x7E020000
"""All flags for new namespaces, except the one for time, because `clone` uses that bit for the signal."""
_VSOCK = 40
"""Address family of sockets that connect to a virtual machine's host. They bypass network namespaces."""
_ALLOWED = 0x7FFF0000
_FAILS = 0x00050000
_EPERM = 1
_ENOSYS = 38
_Step = tuple[int, int, int, int]
"""A seccomp instruction: operation, jump offset if true, jump offset if false, value."""
_LOAD = 0x20
_EQUAL = 0x15
_ABOVE = 0x35
_ANY_BIT = 0x45
_RETURN = 0x06


def filter_bytes(machine: str, *, network: bool) -> bytes:
    """Build the seccomp program for a machine.

    Returns an empty program if the type of machine is unknown.

    Args:
        machine: type of the machine, as returned by `os.uname`.
        network: whether the command may create sockets.
    """
    if machine not in _ARCHITECTURES:
        return b""
    column = list(_ARCHITECTURES).index(machine)
    refuse = (_RETURN, 0, 0, _FAILS | _EPERM)

    def checked(
        number: int, argument: int, test: int, values: Iterable[int]
    ) -> Iterator[_Step]:
        for value in (
            values
        ):  # the lower half is enough, because these calls ignore the upper one
            yield (_EQUAL, 0, 4, number)
            yield (_LOAD, 0, 0, 16 + 8 * argument)
            yield (test, 0, 1, value)
            yield refuse
            yield (_LOAD, 0, 0, 0)

    code = [
        (_LOAD, 0, 0, 4),
        (_EQUAL, 1, 0, _ARCHITECTURES[machine]),
        refuse,
        (_LOAD, 0, 0, 0),
    ]
    code += [
        (_ABOVE, 0, 1, 0x40000000),
        refuse,
    ]  # x32 has the same calls with different numbers
    for pair in _REFUSED:
        code += [(_EQUAL, 0, 1, pair[column]), refuse]
    if not network:
        code += [(_EQUAL, 0, 1, _SOCKET[column]), refuse]
    code += [
        (_EQUAL, 0, 1, _CLONE3),
        (_RETURN, 0, 0, _FAILS | _ENOSYS),
    ]  # its flags are in memory, which seccomp cannot read
    code += checked(_CLONE[column], 0, _ANY_BIT, [_NAMESPACES])
    code += checked(_UNSHARE[column], 0, _ANY_BIT, [_NAMESPACES | 0x80])
    code += checked(_IOCTL[column], 1, _EQUAL, _TERMINAL_INPUT)
    code += checked(_SOCKET[column], 0, _EQUAL, [_VSOCK])
    code.append((_RETURN, 0, 0, _ALLOWED))
    return b"".join(struct.pack("=HBBI", *step) for step in code)


# --- Landlock -----------------------------------------------------------------------------------------

_READ = 0b101
"""Right to read and execute files."""
_LIST = 0b1000
"""Right to list folders."""
_ALL_BEFORE_REFER = (1 << 13) - 1
"""All rights of Landlock's first version."""
_WRITE = 1 << 1
_REFER = 1 << 13
"""Right to move and link files between folders."""
_RESOLVE_UNIX = 1 << 16
"""Right to connect to a socket by its path."""
MOVES_SINCE = 2
"""Landlock version that introduced `_REFER`."""
SOCKETS_SINCE = 9
"""Landlock version that introduced `_RESOLVE_UNIX` (Linux 7.1)."""
_OF_FILES = 0b111 | 1 << 14 | 1 << 15 | _RESOLVE_UNIX
"""Rights that apply to files."""
_NODES = 1 << 6 | 1 << 10
"""Rights to create devices.

They are never granted, because root could read the disk through a device.
"""
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
_KEPT_CAPABILITIES = (0, 1, 3, 4, 5, 6, 7)
"""Root's capabilities that are kept, to access other users' files and processes (linux/capability.h)."""


def landlock_version() -> int:
    """Return the kernel's Landlock version, or 0 if Landlock is missing or disabled."""
    if not sys.platform.startswith("linux"):
        return 0
    return max(_system_call(444, None, 0, 1), 0)


def _system_call(number: int, *arguments: object) -> int:
    import ctypes

    values = [
        ctypes.c_long(value) if isinstance(value, int) else value for value in arguments
    ]
    return int(
        ctypes.CDLL(None, use_errno=True).syscall(ctypes.c_long(number), *values)
    )


def _control(option: int, *arguments: object) -> None:
    import ctypes

    values = [
        ctypes.c_ulong(value) if isinstance(value, int) else value
        for value in arguments
    ]
    if ctypes.CDLL(None, use_errno=True).prctl(option, *values):
        raise OSError(ctypes.get_errno(), "the kernel could not confine the command")


def _outside(hidden: list[str]) -> Iterator[str]:
    """Yield paths that cover all files except the hidden ones.

    Landlock cannot deny access to a path within an allowed one.
    """
    above = {"/"} | {path.rpartition("/")[0] or "/" for path in hidden}
    for path in list(above):
        parts = path.split("/")
        above.update("/".join(parts[:count]) or "/" for count in range(1, len(parts)))
    for folder in above - set(hidden):
        try:
            names = os.listdir(folder)  # noqa: PTH208 - importing pathlib would delay each command
        except OSError:
            continue
        for name in names:
            path = f"{folder.rstrip('/')}/{name}"
            if path not in above and path not in hidden:
                yield path


def _readable(reads: list[str], hidden: list[str]) -> Iterator[str]:
    outside = list(_outside(hidden))
    for path in reads:
        below = f"{path.rstrip('/')}/"
        if any(hidden_path.startswith(below) for hidden_path in hidden):
            yield from (other for other in outside if other.startswith(below))
        else:
            yield path


def confine(reads: list[str], writable: list[str], hidden: list[str]) -> None:
    """Apply Landlock and the filter to this process and its children, without network access.

    Raises:
        OSError: the kernel rejected a call.
    """
    import ctypes

    version = landlock_version()
    rights = _ALL_BEFORE_REFER | sum(
        1 << bit for bit, since in ((13, 2), (14, 3), (15, 5)) if version >= since
    )
    ports = 0b11 if version >= 4 else 0
    scopes = 0b11 if version >= 6 else 0  # abstract sockets, and signals
    size = 8
    if version >= 4:
        size = 24 if version >= 6 else 16
    rules = [
        ("/", _LIST),
        *((path, _READ | _LIST) for path in _readable(reads, [*hidden, "/dev"])),
    ]
    rules += [(path, rights & ~_NODES) for path in (*writable, *_DEVICES)]
    for capability in {*range(64)} - {*_KEPT_CAPABILITIES}:
        with suppress(OSError):  # only root has any capabilities
            _control(24, capability, 0, 0, 0)
    _control(38, 1, 0, 0, 0)  # no new privileges
    restrict(struct.pack("=QQQ", rights, ports, scopes)[:size], rules)
    program = filter_bytes(os.uname().machine, network=False)
    if program:
        code = ctypes.create_string_buffer(program)
        packed = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(code))
        _control(22, 2, ctypes.create_string_buffer(packed))


def restrict(attributes: bytes, rules: Iterable[tuple[str, int]]) -> None:
    """Apply Landlock to this process.

    Args:
        rules: paths and their rights. Rights that apply only to folders are dropped for files.

    Raises:
        OSError: the kernel rejected a call.
    """
    import ctypes

    ruleset = _system_call(444, attributes, len(attributes), 0)
    if ruleset < 0:
        raise OSError("this kernel has no Landlock")
    handled = struct.unpack_from("=Q", attributes)[0]
    for path, rights in rules:
        try:
            place = os.open(path, os.O_PATH | os.O_NOFOLLOW)
        except OSError:
            continue
        is_folder = os.fstat(place).st_mode & 0o170000 == 0o040000
        rights &= handled if is_folder else handled & _OF_FILES
        rule = ctypes.create_string_buffer(struct.pack("=Qi", rights, place))
        _system_call(445, ruleset, 1, rule, 0)
        os.close(place)
    if _system_call(446, ruleset, 0):
        raise OSError("Landlock could not be applied")
    os.close(ruleset)


PERL = r"""
delete $ENV{PERL_BADLANG};
my ($attributes, $count) = (pack("H*", shift), shift);
my $ruleset = syscall(444, $attributes, length $attributes, 0);
for (1 .. $count) {
    my ($path, $rights) = (shift, shift);
    next if -l $path or not sysopen(PLACE, $path, 0x200000);  # O_PATH
    my $rule = pack("Ql", $rights, fileno PLACE);
    syscall(445, $ruleset, 1, $rule, 0);
}
syscall(446, $ruleset, 0) == 0 or die "The command was not started: Landlock could not be applied: $!\n";
exec { $ARGV[0] } @ARGV or die "$ARGV[0]: $!\n";
"""
"""`restrict` written in Perl, which most systems have.

Perl starts in 3 ms, Python in 50 ms.
"""


def writing_rules(writable: Iterable[str], version: int) -> list[str]:
    """Return the arguments for `restrict` inside bubblewrap: write access to these paths only.

    This protects pipes, which read-only mounts do not, and with newer versions of Landlock also sockets. For
    the first version, the list is empty, because that version would forbid all moves between folders.
    """
    if version < MOVES_SINCE:
        return []
    opens = _WRITE | (_RESOLVE_UNIX if version >= SOCKETS_SINCE else 0)
    rules = {"/": _REFER} | dict.fromkeys((*writable, "/dev", "/proc"), opens)
    words = [word for path, rights in rules.items() for word in (path, str(rights))]
    return [struct.pack("=Q", opens | _REFER).hex(), str(len(rules)), *words]


def hold(channel: int) -> None:
    """Open a listening socket in this network, send it to Foldline, and wait until the channel is closed."""
    import socket

    listening = socket.create_server(("127.0.0.1", PORT))
    with socket.socket(fileno=channel) as back:
        socket.send_fds(back, [str(os.getpid()).encode()], [listening.fileno()])
        listening.close()
        back.recv(1)


def main(what: str, *words: str) -> None:
    if what == "hold":
        hold(int(words[0]))
        return
    try:
        if what == "restrict":
            count = 2 + 2 * int(words[1])
            restrict(
                bytes.fromhex(words[0]),
                zip(words[2:count:2], map(int, words[3:count:2]), strict=True),
            )
        else:
            import json

            count = 1
            paths = json.loads(words[0])
            confine(paths["reads"], paths["writable"], paths["hidden"])
        os.execvp(words[count], words[count:])  # noqa: S606 - it becomes the command's shell
    except OSError as error:
        sys.exit(f"The command was not started: {error}.")


if __name__ == "__main__":
    main(*sys.argv[1:])
