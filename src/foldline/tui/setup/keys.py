"""The keys of the setup screen: one table that bindings, hints and the help list come from."""

from typing import Final

from foldline.tui.keys.table import ScreenKey, table
from foldline.tui.setup.state import SetupState


def _has_list(state: SetupState) -> bool:
    return state.step in ("provider", "model")


def _may_go_on(state: SetupState) -> bool:
    """A model that is known may be taken while its server is still asked."""
    return not state.is_checking or (state.step == "model" and state.row is not None)


def _may_summarise(state: SetupState) -> bool:
    return state.step == "model" and bool(state.current[0]) and state.row is not None


def _has_known_key(state: SetupState) -> bool:
    pointed = state.pointed
    return (
        state.step == "provider"
        and pointed.key != "none"
        and not pointed.from_environment
        and (bool(pointed.key_in))
    )


KEYS: Final[tuple[ScreenKey[SetupState], ...]] = table(
    "setup",
    ScreenKey(
        "on",
        ("enter",),
        "Goes on: takes the provider, checks the key with one cheap call, takes the model. Where the server "
        "did not answer, asks it again.",
        "Steps",
        "goes on",
        works=_may_go_on,
    ),
    ScreenKey(
        "back",
        ("escape",),
        "Stops the check, else goes one step back. From the step it opened with, it leaves everything as it "
        "is; when nothing is set up, that is the offline model. /model opens this screen again.",
        "Steps",
        "back",
    ),
    ScreenKey(
        "providers",
        ("tab", "shift+tab"),
        "To the list of providers, from any step.",
        "Steps",
        "other providers",
        works=lambda state: state.step == "model" and not state.is_checking,
    ),
    ScreenKey(
        "summaries",
        ("alt+s",),
        "Lets the marked model write the summaries, in this session and in new ones, and the session go on "
        "with its own. On the one that does: no longer.",
        "Steps",
        "summaries",
        works=_may_summarise,
    ),
    ScreenKey(
        "anyway",
        ("ctrl+s",),
        "Goes on without a check, where the server did not answer: the model is then named by hand.",
        "Steps",
        "go on anyway",
        works=lambda state: state.may_go_on,
    ),
    ScreenKey(
        "key",
        ("k",),
        "Asks for another key than the one in the key file.",
        "Steps",
        "another key",
        works=_has_known_key,
    ),
    ScreenKey("up", ("up",), "One row up.", "List", works=_has_list),
    ScreenKey("down", ("down",), "One row down.", "List", works=_has_list),
    ScreenKey("page-up", ("pageup",), "Ten rows up.", "List", works=_has_list),
    ScreenKey("page-down", ("pagedown",), "Ten rows down.", "List", works=_has_list),
    ScreenKey("first", ("ctrl+home",), "To the first row.", "List", works=_has_list),
    ScreenKey("last", ("ctrl+end",), "To the last row.", "List", works=_has_list),
    ScreenKey("help", ("f1", "question_mark"), "This list.", "Program", "keys", "F1"),
    title="Choose a model",
)


def hints(state: SetupState) -> tuple[tuple[str, str], ...]:
    """(key, word) of what works now."""
    return tuple((key.name, _word(key, state)) for key in KEYS if key.hint and key.works(state))


def _word(key: ScreenKey[SetupState], state: SetupState) -> str:
    match key.id:
        case "on":
            return _on(state)
        case "back":
            return _back(state)
        case _:
            return key.hint


def _on(state: SetupState) -> str:
    if state.trouble is not None and state.trouble.kind == "unreachable" and state.step != "model":
        return "asks again"
    match state.step:
        case "model":
            return "takes it"
        case "key" if state.has_key_field:
            return "checks the key"
        case _:
            return "goes on"


def _back(state: SetupState) -> str:
    if state.is_checking:
        return "stops"
    if state.step != state.first:
        return "back"
    return "leaves it" if state.current[0] else "skips"
