"""Protects API keys in this process from other programs of the same user.

As long as a process runs, the system shows its initial environment to other programs (/proc/PID/environ, `ps
e`). The values are overwritten there. `os.environ` is Python's copy, which keeps them.
"""

import os
from collections.abc import Callable
from contextlib import suppress

_PR_SET_DUMPABLE = 4
"""Option of Linux's prctl(2).

It determines whether the user's other processes may trace this one or read its memory.
"""


def protect_process() -> None:
    """Overwrite API keys in the initial environment, and disable core files.

    On Linux, only root can trace the process or read its memory afterwards. Call this function before
    anything else, so that no other process has had time to read the keys.
    """
    with suppress(ImportError, OSError, ValueError):
        import resource

        _, hard_limit = resource.getrlimit(resource.RLIMIT_CORE)
        resource.setrlimit(resource.RLIMIT_CORE, (0, hard_limit))
    with suppress(OSError, AttributeError, TypeError):
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    wipe_environment(lambda name: name.endswith("_API_KEY"))


def wipe_environment(is_secret: Callable[[str], bool]) -> None:
    """Overwrite values in this process's initial environment.

    Does nothing if the C library has no `environ`.

    Args:
        is_secret: returns whether to overwrite the variable with this name.
    """
    import ctypes

    try:
        array = ctypes.POINTER(ctypes.c_void_p)
        pointers = array.in_dll(ctypes.CDLL(None), "environ")
    except (OSError, TypeError, ValueError):
        return
    position = 0
    while address := pointers[position]:
        name, _, value = ctypes.string_at(address).partition(b"=")
        if is_secret(os.fsdecode(name)):
            value_address = address + len(name) + 1
            ctypes.memset(value_address, ord("x"), len(value))
        position += 1
