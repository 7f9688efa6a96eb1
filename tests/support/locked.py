"""Folders that may not be entered, for root as well: one thread lays its right to pass over modes aside.

On Linux it gives up CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH (`capset(2)`), as do threads it starts;
what is 0000 then is closed to its owner, too. Other users are kept out by modes alone.
"""

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager

_VERSION = 0x20080522
"""Of `capset(2)`: capabilities in two words of 32 bits."""
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
    """Within it, modes hold for this thread, and those it starts, whoever runs it."""
    if os.geteuid() != 0:
        yield
        return
    libc = ctypes.CDLL(None, use_errno=True)
    header, words = _Header(_VERSION, 0), (_Words * 2)()
    assert libc.capget(ctypes.byref(header), words) == 0, os.strerror(ctypes.get_errno())
    before = words[0].effective
    words[0].effective = before & ~_PASS_OVER_MODES
    assert libc.capset(ctypes.byref(header), words) == 0, os.strerror(ctypes.get_errno())
    try:
        yield
    finally:
        words[0].effective = before
        assert libc.capset(ctypes.byref(header), words) == 0, os.strerror(ctypes.get_errno())
