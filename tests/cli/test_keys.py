"""The keys a user chose, at the front door: before the first screen, and in the doctor's eyes."""

from pathlib import Path

import pytest

from foldline.cli.chat import _load, _Start
from foldline.cli.screens import use_chosen_keys
from foldline.protocol import FoldlineError
from foldline.tui.keys.table import in_force, use
from support.front_door import FrontDoor


def test_the_doctor_tells_what_may_not_arrive_and_what_cannot_be(door: FrontDoor) -> None:
    config = door.home / "config.toml"
    config.parent.mkdir(exist_ok=True, parents=True)
    config.write_text('[keys.chat]\ninspector = "f11"\n')
    assert "keys.chat.inspector: F11 may not arrive" in door("doctor").out
    config.write_text('[keys.chat]\ninspector = "f3"\n')
    told = door("doctor")
    assert (
        f"{config}: keys.chat.inspector cannot be 'F3': that is keys.chat.preview" in told.out
        and told.code == 1
    )


def test_a_chat_opens_with_the_chosen_keys_and_ends_where_they_cannot_be(door: FrontDoor) -> None:
    config = door.home / "config.toml"
    config.parent.mkdir(exist_ok=True, parents=True)
    config.write_text('[keys.chat]\ninspector = "f3"\n')
    before = in_force()
    use_chosen_keys()
    try:
        assert in_force().keys_of("chat", "inspector", ("f2",)) == ("f3",)
    finally:
        use(before)
    with pytest.raises(FoldlineError, match=r"keys\.chat\.inspector cannot be 'F3'"):
        _load(_Start(None, Path.cwd()), {})
