"""Python's collector rests while many objects are made, and only then."""

import gc

import pytest

from foldline.history.stored import without_gc


def test_cycles_are_collected_again_afterwards_also_after_an_error() -> None:
    with pytest.raises(OSError, match="lost"), without_gc():
        assert not gc.isenabled()
        raise OSError("lost")
    assert gc.isenabled()


def test_who_had_it_off_finds_it_off() -> None:
    gc.disable()
    try:
        with without_gc():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
