"""The keys of the Sessions screen: one table that bindings, hints and the help list come from."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from foldline.tui.keys.commands import key_of
from foldline.tui.keys.table import ScreenKey, name_of, table

Mode = Literal["list", "field", "renaming", "asking"]
"""What has the keys: the list, the search line, the field of a new title, or a question."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What decides which keys work."""

    mode: Mode = "list"
    row: bool = False
    """Whether the cursor stands on a session, or on a match in one."""
    ours: bool = True
    here: bool = False
    """It is the session of this chat."""
    readable: bool = True
    archived: bool = False
    in_strip: bool = False
    """The question has the focus."""
    busy: bool = False
    """Something asked for before is still being done."""


@dataclass(frozen=True, slots=True)
class SessionsKey(ScreenKey[Facts]):
    works: Callable[[Facts], bool] = lambda facts: facts.mode == "list"


def _on_a_row(facts: Facts) -> bool:
    return facts.mode == "list" and facts.row and not facts.busy


def _on_ours(facts: Facts) -> bool:
    return _on_a_row(facts) and facts.ours


def _on_another(facts: Facts) -> bool:
    return _on_ours(facts) and not facts.here


KEYS: Final[tuple[SessionsKey, ...]] = table(
    "sessions",
    SessionsKey(
        "resume",
        ("enter",),
        "Goes on with the session, in place of this chat. Where another process writes to it, asks what "
        "to do instead; another agent's is opened to be read.",
        "Session",
        "resume",
        works=lambda f: _on_a_row(f) and f.readable,
        own=True,
    ),
    SessionsKey(
        "read",
        ("o",),
        "Opens it in the Inspector, read-only: at the match, where the cursor stands on one. What is written "
        "meanwhile is followed.",
        "Session",
        "read",
        works=lambda f: _on_a_row(f) and f.readable,
    ),
    SessionsKey(
        "fork",
        ("f",),
        "Goes on in a copy; on a match, in one that ends there. The session stays as it is.",
        "Session",
        "fork",
        works=lambda f: _on_ours(f) and f.readable,
    ),
    SessionsKey(
        "import",
        ("i",),
        "Copies another agent's session and goes on in the copy. Its file stays as it is.",
        "Session",
        "import",
        works=lambda f: _on_a_row(f) and not f.ours,
    ),
    SessionsKey(
        "rename",
        ("r",),
        "Gives the session another title.",
        "Session",
        "rename",
        works=lambda f: _on_ours(f) and f.readable,
    ),
    SessionsKey(
        "archive",
        ("x",),
        "Puts the session away, where lists leave it out; an archived one comes back.",
        "Session",
        "archive",
        works=_on_another,
    ),
    SessionsKey(
        "delete",
        ("D",),
        "Deletes the session for good, after a question.",
        "Session",
        "delete",
        works=_on_another,
    ),
    SessionsKey(
        "search",
        ("/",),
        "To the search line: what titles and prompts hold is there at once, then what was ever said. "
        'Every word must occur in one entry; "quoted words" as they stand.',
        "List",
        "search",
    ),
    SessionsKey(
        "other",
        ("tab", "shift+tab"),
        "To the search line and back.",
        "List",
        works=lambda f: f.mode != "renaming",
    ),
    SessionsKey("scope-1", ("1",), "The sessions of this folder.", "List"),
    SessionsKey("scope-2", ("2",), "The sessions of all folders.", "List"),
    SessionsKey("scope-3", ("3",), "The archived sessions.", "List"),
    SessionsKey("scope-4", ("4",), "The sessions other agents keep in their own folders.", "List"),
    SessionsKey("scope", ("s",), "The next of these four.", "List", "scope", "s 1–4"),
    SessionsKey("move", ("up", "down", "k", "j"), "Moves the cursor.", "List", own=True),
    SessionsKey(
        "page",
        ("pageup", "pagedown", "home", "end"),
        "A screen up or down, the first row, the last one.",
        "List",
        own=True,
    ),
    SessionsKey(
        "help",
        ("?", "f1"),
        "This list.",
        "Program",
        "keys",
        "?",
        works=lambda f: f.mode in ("list", "field"),
    ),
    SessionsKey(
        "close",
        ("escape",),
        "Leaves the question, the field or the search line, ends the search, else closes the screen.",
        "Program",
        "close",
        "Esc",
        works=lambda _: True,
    ),
)


def _in_a_mode(mode: Mode) -> tuple[tuple[str, str], ...]:
    match mode:
        case "field":
            return (("Enter ↓", "to the list"), (key_of("help"), "keys"))
        case "renaming":
            return (("Enter", "takes the title"),)
        case _:
            return ()


def hints(facts: Facts, closes: str) -> tuple[tuple[str, str], ...]:
    """(keys, word) of what works now; the last one belongs at the right end. `closes` is what Esc does."""
    if facts.mode != "list":
        return (*_in_a_mode(facts.mode), ("Esc", closes))
    return tuple(
        (key.name, _word(key, facts, closes))
        for key in KEYS
        if key.hint and key.works(facts) and (facts.ours or key.id != "read")  # Enter reads them
    )


def _word(key: SessionsKey, facts: Facts, closes: str) -> str:
    match key.id:
        case "close":
            return closes
        case "archive" if facts.archived:
            return "bring back"
        case "resume" if facts.here:
            return "back to it"
        case "resume" if not facts.ours:
            return "read"
        case _:
            return key.hint


def called(command: str) -> str:
    """How a sentence calls the key of a command."""
    return name_of(KEYS, command)
