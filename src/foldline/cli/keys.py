"""The keys on the screens that the user chose."""

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from foldline.agent.layers import keys_given

if TYPE_CHECKING:
    from foldline.history.doctor import Finding


def use_chosen_keys() -> None:
    """Let them be in force, before the first screen is made. Takes no time, and looks at no screen.

    Raises:
        FoldlineError: the file of settings cannot be read.
    """
    given = keys_given(os.environ)
    if given:
        from foldline.tui.keys.table import keymap_of, use

        use(keymap_of(given))


def check_chosen_keys() -> None:
    """Look whether they can be. Looks at the tables of the screens they are for, which takes a moment.

    Raises:
        FoldlineError: there is no such screen, command or key, or two commands share one.
    """
    given = keys_given(os.environ)
    if given:
        from foldline.tui.keys.configured import check

        check(given)


def examine_keys() -> "Iterator[Finding]":
    """What a doctor says of the chosen keys: what cannot be, and what may not arrive in every terminal."""
    from foldline.history.doctor import Finding
    from foldline.protocol import FoldlineError
    from foldline.tui.keys.configured import unsure_keys
    from foldline.tui.keys.table import keymap_of

    try:
        check_chosen_keys()
        unsure = list(unsure_keys(keymap_of(keys_given(os.environ))))
    except FoldlineError as error:
        yield Finding("bad", "keys", str(error).removesuffix("."), "docs/commands.md lists all of them")
        return
    for sentence in unsure:
        yield Finding("warn", "keys", sentence, "give it a second key, or find it in the palette")
