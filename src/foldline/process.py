"""Hides keys in this process from the user's other programs: in its environment and its memory.

The system shows the environment a process was started with while it runs (/proc/PID/environ, `ps e`).
`os.environ` is a copy of ours and keeps what is overwritten there.
"""

import os
from collections.abc import Callable
from contextlib import suppress

_PR_SET_DUMPABLE = 4
"""prctl(2), Linux: whether others of this user may trace the process, read its memory, or find it dumped."""


def protect_process() -> None:
    """Overwrites what is named like a key, and leaves no core file; on Linux nobody but root may trace the
    process or read its memory. To be called first: what nobody has asked for by then, nobody has read."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    with suppress(OSError, AttributeError, TypeError):
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    wipe_environment(lambda name: name.endswith("_API_KEY"))


def wipe_environment(is_secret: Callable[[str], bool]) -> None:
    """Overwrites the values of these variables in the environment this process was started with. Where the
    system has no such thing: nothing."""
    import ctypes

    try:
        pointers = ctypes.POINTER(ctypes.c_void_p).in_dll(ctypes.CDLL(None), "environ")
    except (OSError, TypeError, ValueError):
        return
    at = 0
    while address := pointers[at]:
        name, _, value = ctypes.string_at(address).partition(b"=")
        if is_secret(os.fsdecode(name)):
            ctypes.memset(address + len(name) + 1, ord("x"), len(value))
        at += 1
