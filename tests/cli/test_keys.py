"""The keys a user chose, at the front door: before the first screen, and in the doctor's eyes."""

import re
from pathlib import Path

import pytest

from foldline.cli.chat import _Loader, _Start
from foldline.cli.screens import use_chosen_keys
from foldline.frontend.key_names import ALLOWED
from foldline.frontend.keymap import in_force, use
from foldline.protocol import FoldlineError
from foldline.tui.keys.registry import INVALID_KEY
from support.command_line import CommandLine

NO_KEY = INVALID_KEY.format(name="f99", allowed=ALLOWED)


def test_the_doctor_tells_what_cannot_be(cli: CommandLine) -> None:
    config = cli.home / "config.toml"
    config.parent.mkdir(exist_ok=True, parents=True)
    config.write_text('[keys.chat]\ninspector = "f99"\n')
    told = cli("doctor")
    assert f"{config}: keys.chat.inspector: {NO_KEY}".removesuffix(".") in told.out
    assert told.code == 1


def test_a_chat_opens_with_the_chosen_keys_and_ends_where_they_cannot_be(
    cli: CommandLine,
) -> None:
    config = cli.home / "config.toml"
    config.parent.mkdir(exist_ok=True, parents=True)
    config.write_text('[keys.chat]\ninspector = ["f3", "f99"]\n')
    before = in_force()
    use_chosen_keys()
    try:
        assert in_force().keys_of("chat", "inspector", ("f2",)) == ("f3",)
    finally:
        use(before)
    with pytest.raises(FoldlineError, match=re.escape(NO_KEY)):
        _Loader(_Start(None, Path.cwd()), {})()
