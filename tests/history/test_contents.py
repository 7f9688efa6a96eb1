"""Kept file contents are named by their digest, written once, and ignored if damaged."""

import os
import stat
from pathlib import Path

import pytest

from foldline.history import CONTENTS, Contents, content_id
from foldline.history import contents as module


def test_a_kept_content_can_be_read_under_its_name(tmp_path: Path) -> None:
    contents = Contents(tmp_path)
    name = contents.keep(b"\0 any bytes \xff")
    assert (
        name == content_id(b"\0 any bytes \xff")
        and contents.read(name) == b"\0 any bytes \xff"
    )


def test_the_same_content_is_kept_once_and_readable_only_by_its_owner(
    tmp_path: Path,
) -> None:
    contents = Contents(tmp_path)
    assert contents.keep(b"x") == contents.keep(b"x")
    [file] = (tmp_path / CONTENTS).iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


def test_a_content_changed_on_disk_is_not_returned(tmp_path: Path) -> None:
    contents = Contents(tmp_path)
    name = contents.keep(b"x")
    (tmp_path / CONTENTS / name).write_bytes(b"y")
    assert contents.read(name) is None


def test_too_large_a_content_gets_a_name_but_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LARGEST_KEPT", 3)
    contents = Contents(tmp_path)
    assert (
        contents.read(contents.keep(b"four")) is None
        and contents.read(contents.keep(b"one")) == b"one"
    )


def test_a_failing_disk_leaves_no_partial_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(OSError, match="No space"):
        Contents(tmp_path).keep(b"x")
    assert list((tmp_path / CONTENTS).iterdir()) == []
