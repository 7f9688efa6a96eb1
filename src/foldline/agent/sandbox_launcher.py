"""What runs between Foldline and a command in the sandbox: needs nothing but the standard library.

`filter_bytes` is a seccomp program, for bubblewrap to load. Run as a program, this file lays Landlock on
itself and becomes the command, with the same filter (`confine`) or below bubblewrap (`restrict`); or it holds
a network of its own open, where Foldline's proxy is all there is (`hold`). Numbers: linux/landlock.h,
linux/seccomp.h, asm/unistd.h.
"""

import os
import struct
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress

PORT = 3128
"""Of the proxy, in the network of the sandbox: the one that squid made usual."""

_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
# On x86_64, on arm64: what looks into others, loads into the kernel, or makes namespaces and mounts.
_REFUSED = (
    (101, 117), (310, 270), (311, 271), (312, 272), (438, 438),  # ptrace, process_vm_*, kcmp, pidfd_getfd
    (298, 241), (321, 280), (323, 282), (425, 425),  # perf_event_open, bpf, userfaultfd, io_uring_setup
    (248, 217), (249, 218), (250, 219),  # add_key, request_key, keyctl
    (165, 40), (166, 39), (155, 41), (161, 51), (308, 268),  # mount, umount2, pivot_root, chroot, setns
    (428, 428), (429, 429), (430, 430), (432, 432), (433, 433), (442, 442),  # the newer calls for mounts
    (304, 265), (103, 116), (163, 89), (179, 60), (443, 443),  # open_by_handle_at, syslog, acct, quotactl
    (246, 104), (320, 294), (175, 105), (313, 273), (176, 106),  # kexec, modules
    (167, 224), (168, 225), (169, 142),  # swapon, swapoff, reboot
)  # fmt: skip
_IOCTL, _SOCKET, _CLONE, _UNSHARE, _CLONE3 = (16, 29), (41, 198), (56, 220), (272, 97), 435
_TYPES_AHEAD = (0x5412, 0x541C)
"""TIOCSTI and TIOCLINUX: they put characters into the terminal's input."""
_NAMESPACES = 0x7E020000
"""All flags that make one; but for that of times, which `clone` takes for a signal."""
_VSOCK = 40
"""Sockets to the host of a virtual machine: they know no namespaces."""
_ALLOWED, _FAILS, _EPERM, _ENOSYS = 0x7FFF0000, 0x00050000, 1, 38
_Step = tuple[int, int, int, int]
"""An instruction: what to do, how far to jump where it is so and where not, and with which value."""
_LOAD, _EQUAL, _ABOVE, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06


def filter_bytes(machine: str, *, network: bool) -> bytes:
    """The seccomp program for a machine, as `os.uname` names it; empty for one that is not known. `network`:
    whether sockets may be made at all."""
    if machine not in _ARCHITECTURES:
        return b""
    at = [*_ARCHITECTURES].index(machine)
    refuse = (_RETURN, 0, 0, _FAILS | _EPERM)

    def checked(number: int, argument: int, test: int, values: Iterable[int]) -> Iterator[_Step]:
        for value in values:  # the low half of an argument is all that these calls look at
            yield (_EQUAL, 0, 4, number)
            yield (_LOAD, 0, 0, 16 + 8 * argument)
            yield (test, 0, 1, value)
            yield refuse
            yield (_LOAD, 0, 0, 0)

    code = [(_LOAD, 0, 0, 4), (_EQUAL, 1, 0, _ARCHITECTURES[machine]), refuse, (_LOAD, 0, 0, 0)]
    code += [(_ABOVE, 0, 1, 0x40000000), refuse]  # x32: the same calls by other numbers
    for pair in (*_REFUSED, *(() if network else (_SOCKET,))):
        code += [(_EQUAL, 0, 1, pair[at]), refuse]
    code += [(_EQUAL, 0, 1, _CLONE3), (_RETURN, 0, 0, _FAILS | _ENOSYS)]  # its flags are out of sight
    code += checked(_CLONE[at], 0, _ANY_BIT, [_NAMESPACES])
    code += checked(_UNSHARE[at], 0, _ANY_BIT, [_NAMESPACES | 0x80])
    code += checked(_IOCTL[at], 1, _EQUAL, _TYPES_AHEAD)
    code += checked(_SOCKET[at], 0, _EQUAL, [_VSOCK])
    return b"".join(struct.pack("=HBBI", *each) for each in [*code, (_RETURN, 0, 0, _ALLOWED)])


# --- Landlock -----------------------------------------------------------------------------------------

_READ, _LIST, _ALL_BEFORE_REFER = 0b101, 0b1000, (1 << 13) - 1
"""Files, to be read and run; folders, to be listed; all rights of the first version."""
_WRITE = 1 << 1
_REFER = 1 << 13
"""To move and to link between folders."""
_RESOLVE_UNIX = 1 << 16
"""To connect to a socket by its path."""
MOVES_SINCE, SOCKETS_SINCE = 2, 9
"""The versions of Landlock with the last two rights; the second came with Linux 7.1."""
_OF_FILES = 0b111 | 1 << 14 | 1 << 15 | _RESOLVE_UNIX
"""Those that a rule about something else than a folder may hold."""
_NODES = 1 << 6 | 1 << 10
"""The right to make devices. Commands never have it: root could read the disk through one."""
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
_KEPT_CAPABILITIES = (0, 1, 3, 4, 5, 6, 7)
"""Of root: to own, read and write files of anybody, to signal and to be another user: linux/capability.h."""


def landlock_version() -> int:
    """Of the kernel; 0 where it has none, or has it switched off."""
    if not sys.platform.startswith("linux"):
        return 0
    return max(_system_call(444, None, 0, 1), 0)


def _system_call(number: int, *arguments: object) -> int:
    import ctypes

    given = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
    return int(ctypes.CDLL(None, use_errno=True).syscall(ctypes.c_long(number), *given))


def _control(option: int, *arguments: object) -> None:
    import ctypes

    given = [ctypes.c_ulong(each) if isinstance(each, int) else each for each in arguments]
    if ctypes.CDLL(None, use_errno=True).prctl(option, *given):
        raise OSError(ctypes.get_errno(), "the kernel refused to confine the command")


def _beside(hidden: list[str]) -> Iterator[str]:
    """Everything but this: Landlock only allows, so that what lies beside it is named."""
    above = {"/"} | {path.rpartition("/")[0] or "/" for path in hidden}
    for path in list(above):
        parts = path.split("/")
        above.update("/".join(parts[:count]) or "/" for count in range(1, len(parts)))
    for folder in above - set(hidden):
        try:
            names = os.listdir(folder)  # noqa: PTH208 - read by a command's own start: nothing more is imported
        except OSError:
            continue
        for name in names:
            path = f"{folder.rstrip('/')}/{name}"
            if path not in above and path not in hidden:
                yield path


def _readable(reads: list[str], hidden: list[str]) -> Iterator[str]:
    beside = [*_beside(hidden)]
    for path in reads:
        below = f"{path.rstrip('/')}/"
        parted = any(each.startswith(below) for each in hidden)
        yield from (each for each in beside if each.startswith(below)) if parted else [path]


def confine(reads: list[str], writable: list[str], hidden: list[str]) -> None:
    """Lay Landlock and the filter on this process and whatever it becomes; it makes no sockets at all.

    Raises:
        OSError: the kernel refused.
    """
    import ctypes

    version = landlock_version()
    rights = _ALL_BEFORE_REFER | sum(
        1 << bit for bit, since in ((13, 2), (14, 3), (15, 5)) if version >= since
    )
    ports = 0b11 if version >= 4 else 0
    scopes = 0b11 if version >= 6 else 0  # abstract sockets, and signals
    size = 24 if version >= 6 else 16 if version >= 4 else 8
    rules = [("/", _LIST), *((path, _READ | _LIST) for path in _readable(reads, [*hidden, "/dev"]))]
    rules += [(path, rights & ~_NODES) for path in (*writable, *_DEVICES)]
    for capability in {*range(64)} - {*_KEPT_CAPABILITIES}:
        with suppress(OSError):  # only root has any
            _control(24, capability, 0, 0, 0)
    _control(38, 1, 0, 0, 0)  # no new privileges
    restrict(struct.pack("=QQQ", rights, ports, scopes)[:size], rules)
    program = filter_bytes(os.uname().machine, network=False)
    if program:
        kept = ctypes.create_string_buffer(program)
        packed = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(kept))
        _control(22, 2, ctypes.create_string_buffer(packed))


def restrict(attributes: bytes, rules: Iterable[tuple[str, int]]) -> None:
    """Lay Landlock on this process. `rules` are paths and rights; files get those that files can have.

    Raises:
        OSError: the kernel refused.
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
        wanted = rights & handled & (-1 if is_folder else _OF_FILES)
        rule = ctypes.create_string_buffer(struct.pack("=Qi", wanted, place))
        _system_call(445, ruleset, 1, rule, 0)
        os.close(place)
    if _system_call(446, ruleset, 0):
        raise OSError("Landlock was refused")
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
syscall(446, $ruleset, 0) == 0 or die "The command was not started: Landlock was refused: $!\n";
exec { $ARGV[0] } @ARGV or die "$ARGV[0]: $!\n";
"""
"""`restrict` in the words of perl, which most systems have: it starts in 3 ms, our Python in 50."""


def writing_rules(writable: Iterable[str], version: int) -> list[str]:
    """Return the arguments of `restrict` below bubblewrap: no opening for writing outside of these places.

    Read-only mounts do not refuse that for pipes. Newer versions of Landlock refuse sockets outside, too; the
    first one would forbid all moves between folders, so for it there are no rules."""
    if version < MOVES_SINCE:
        return []
    opens = _WRITE | (_RESOLVE_UNIX if version >= SOCKETS_SINCE else 0)
    rules = {"/": _REFER} | dict.fromkeys((*writable, "/dev", "/proc"), opens)
    words = [word for path, rights in rules.items() for word in (path, str(rights))]
    return [struct.pack("=Q", opens | _REFER).hex(), str(len(rules)), *words]


def hold(channel: int) -> None:
    """Hand Foldline the socket that listens in this network, and stay until it closes its end."""
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
            restrict(bytes.fromhex(words[0]), zip(words[2:count:2], map(int, words[3:count:2]), strict=True))
        else:
            import json

            count = 1
            given = json.loads(words[0])
            confine(given["reads"], given["writable"], given["hidden"])
        os.execvp(words[count], words[count:])  # noqa: S606 - what it becomes is the command's own shell
    except OSError as error:
        sys.exit(f"The command was not started: {error}.")


if __name__ == "__main__":
    main(*sys.argv[1:])
