"""What was not sent is kept beside the session, and given back once."""

import stat
from pathlib import Path

import pytest

from foldline.history import Unsent, keep_unsent, take_unsent
from foldline.history.session import UNSENT


def test_it_is_given_back_once_and_read_by_nobody_else(tmp_path: Path) -> None:
    unsent = Unsent(("first 你好", "second"), "half a sen")
    keep_unsent(tmp_path, unsent)
    assert stat.S_IMODE((tmp_path / UNSENT).stat().st_mode) == 0o600
    assert take_unsent(tmp_path) == unsent
    assert take_unsent(tmp_path) == Unsent() and not list(tmp_path.iterdir())


def test_nothing_leaves_no_file(tmp_path: Path) -> None:
    keep_unsent(tmp_path, Unsent((), "  \n"))
    keep_unsent(tmp_path / "never came to disk", Unsent(("one",)))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("text", ["", "{", "[]", '{"queued": 3, "draft": ""}', '{"draft": "x"}', "\x00"])
def test_a_file_that_is_none_of_ours_gives_nothing_and_stays(tmp_path: Path, text: str) -> None:
    (tmp_path / UNSENT).write_text(text)
    assert take_unsent(tmp_path) == Unsent()
    assert (tmp_path / UNSENT).read_text() == text
