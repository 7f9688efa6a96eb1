"""The keys of the Rewind screen: one table that bindings, hints and the help list come from."""

from typing import Final

from foldline.tui.keys.table import ScreenKey, table
from foldline.tui.rewind.state import RewindState


def _has_steps(state: RewindState) -> bool:
    return any(place.kind == "step" for place in state.places)


def _has_conflicts(state: RewindState) -> bool:
    return state.outcome is not None and bool(state.outcome.conflicts)


KEYS: Final[tuple[ScreenKey[RewindState], ...]] = table(
    "rewind",
    ScreenKey(
        "both",
        ("b",),
        "To right before the marked place, with the context and the files that write and edit changed "
        "since. Says what that changes, and asks.",
        "Go back",
        "both",
        works=lambda state: state.can("both"),
    ),
    ScreenKey(
        "context",
        ("c",),
        "Only with what the model has: the files stay as they are. Asks, too.",
        "Go back",
        "context",
        works=lambda state: state.can("context"),
    ),
    ScreenKey(
        "files",
        ("f",),
        "Only with the files: the conversation goes on as it is. Asks, too.",
        "Go back",
        "files",
        works=lambda state: state.can("files"),
    ),
    ScreenKey(
        "overwrite",
        ("o",),
        "Puts back, too, what somebody else changed since; what they hold now is kept first. Again, spares "
        "them.",
        "Go back",
        "overwrite, too",
        works=_has_conflicts,
    ),
    ScreenKey(
        "go",
        ("ctrl+s",),
        "Goes back as the question says; no letter does, for it may be typed ahead. The prompt is then "
        "in the editor again. /undo takes it back.",
        "Go back",
        works=lambda state: state.asked is not None,
    ),
    ScreenKey("up", ("up", "k"), "To the place after.", "Choose"),
    ScreenKey("down", ("down", "j"), "To the place before.", "Choose"),
    ScreenKey("page-up", ("pageup",), "Ten places up.", "Choose"),
    ScreenKey("page-down", ("pagedown",), "Ten places down.", "Choose"),
    ScreenKey("first", ("home",), "To the newest place.", "Choose"),
    ScreenKey("last", ("end",), "To the oldest place.", "Choose"),
    ScreenKey(
        "steps",
        ("s", "enter"),
        "Lists the steps within the turns, or hides them.",
        "Choose",
        "steps",
        works=_has_steps,
    ),
    ScreenKey("help", ("f1", "question_mark"), "This list.", "Program", "keys", "?"),
    ScreenKey("close", ("escape",), "Leaves the question, else closes; nothing has changed.", "Program"),
)


def hints(state: RewindState) -> tuple[tuple[str, str], ...]:
    """(key, word) of what works at the mark."""
    return tuple((key.name, _word(key, state)) for key in KEYS if key.hint and key.works(state))


def _word(key: ScreenKey[RewindState], state: RewindState) -> str:
    match key.id:
        case "overwrite" if state.overwrite:
            return "spare them"
        case "steps" if state.steps:
            return "hide steps"
        case _:
            return key.hint
