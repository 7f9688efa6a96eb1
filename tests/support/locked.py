"""Folders without access, even for root: drops a thread's right to ignore file modes.

On Linux the thread gives up CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH (`capset(2)`), and so do threads it
starts; a folder of mode 0000 is then closed to its owner. Other users are subject to modes anyway.
"""

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager

_VERSION = 0x20080522
"""Version of `capset(2)` with capabilities in two 32-bit words."""
_PASS_OVER_MODES = 1 << 1 | 1 << 2


class _Header(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _Words(ctypes.Structure):
    _fields_ = (
        ("effective", ctypes.c_uint32),
        ("permitted", ctypes.c_uint32),
        ("inheritable", ctypes.c_uint32),
    )


@contextmanager
def modes_hold() -> Iterator[None]:
    """Enforce file modes in this thread and those it starts, for root too."""
    if os.geteuid() != 0:
        yield
        return
    libc = ctypes.CDLL(None, use_errno=True)
    header, words = _Header(_VERSION, 0), (_Words * 2)()
    assert libc.capget(ctypes.byref(header), words) == 0, os.strerror(
        ctypes.get_errno()
    )
    before = words[0].effective
    words[0].effective = before & ~_PASS_OVER_MODES
    assert libc.capset(ctypes.byref(header), words) == 0, os.strerror(
        ctypes.get_errno()
    )
    try:
        yield
    finally:
        words[0].effective = before
        assert libc.capset(ctypes.byref(header), words) == 0, os.strerror(
            ctypes.get_errno()
        )
