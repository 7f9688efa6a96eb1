"""The keys of the Approvals screen: one table that bindings, hints and the help list come from."""

from typing import Final

from foldline.tui.approvals.state import ApprovalsState
from foldline.tui.keys.table import ScreenKey, table


def _has_rules(state: ApprovalsState) -> bool:
    return state.marked is not None


KEYS: Final[tuple[ScreenKey[ApprovalsState], ...]] = table(
    "approvals",
    ScreenKey("ask", ("1",), "Reads run unasked; edits and commands ask.", "Mode", "ask"),
    ScreenKey("edits", ("2",), "Edits inside the folder run unasked, too.", "Mode", "edits"),
    ScreenKey(
        "all",
        ("3",),
        "Everything runs unasked, outside the folder, too, until you leave Foldline. Asks once more.",
        "Mode",
        "all",
    ),
    ScreenKey(
        "confirm",
        ("ctrl+s",),
        "Yes, everything: no sign that may be typed ahead says it.",
        "Mode",
        works=lambda state: state.confirming,
    ),
    ScreenKey(
        "revoke",
        ("x", "delete"),
        "Its like asks again from now on.",
        "Rules",
        "take back",
        works=_has_rules,
    ),
    ScreenKey("up", ("up", "k"), "To the rule above.", "Rules"),
    ScreenKey("down", ("down", "j"), "To the rule below.", "Rules"),
    ScreenKey("help", ("f1", "question_mark"), "This list.", "Program", "keys", "?"),
    ScreenKey("close", ("escape", "q"), "Closes.", "Program"),
)


def hints(state: ApprovalsState) -> tuple[tuple[str, str], ...]:
    """(key, word) of what works now, the modes apart."""
    return tuple(
        (key.name, key.hint) for key in KEYS if key.hint and key.group != "Mode" and key.works(state)
    )
