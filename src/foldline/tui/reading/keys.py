"""The keys of the transcript: one table that bindings, hints, help and sentences come from."""

from dataclasses import dataclass
from typing import Final

from foldline.tui.keys.table import ScreenKey, name_of, table


@dataclass(frozen=True, slots=True)
class ReadingFacts:
    """What decides which keys do anything."""

    prompts: int = 0
    folds: int = 0
    searched: bool = False
    """Whether something is looked for."""
    opens: bool = True
    """Whether the cursor stands on something that opens."""


KEYS: Final[tuple[ScreenKey[ReadingFacts], ...]] = table(
    "transcript",
    ScreenKey(
        "move",
        ("up", "down", "k", "j"),
        "Moves the cursor by a row, a paragraph, a piece of code.",
        "Move",
        "move",
        "↑↓",
        own=True,
        title="Move",
    ),
    ScreenKey(
        "page",
        ("pageup", "pagedown", "home", "end"),
        "A screen up or down, the first line, the last one. At the last line the transcript follows.",
        "Move",
        own=True,
        title="Page",
    ),
    ScreenKey(
        "open",
        ("enter",),
        "Opens in place what the cursor stands on: a tool call, a summary, a thought; once more, all of "
        "it where it is long; then closes it.",
        "Move",
        "open",
        works=lambda facts: facts.opens,
        own=True,
        title="Open or close",
    ),
    ScreenKey(
        "older-prompt",
        ("[",),
        "To the prompt before.",
        "Jump",
        "prompt",
        works=lambda facts: facts.prompts > 0,
        title="Previous prompt",
    ),
    ScreenKey(
        "newer-prompt",
        ("]",),
        "To the next prompt.",
        "Jump",
        "prompt",
        works=lambda facts: facts.prompts > 0,
        title="Next prompt",
    ),
    ScreenKey(
        "older-fold",
        ("{",),
        "To the fold before.",
        "Jump",
        "fold",
        works=lambda facts: facts.folds > 0,
        title="Previous fold",
    ),
    ScreenKey(
        "newer-fold",
        ("}",),
        "To the next fold.",
        "Jump",
        "fold",
        works=lambda facts: facts.folds > 0,
        title="Next fold",
    ),
    ScreenKey(
        "search",
        ("/",),
        "Finds text, also in closed calls, thoughts and summaries.",
        "Search",
        "search",
        title="Search the transcript",
    ),
    ScreenKey(
        "next-match",
        ("n",),
        "The next place that holds it.",
        "Search",
        "next",
        "n N",
        works=lambda facts: facts.searched,
        title="Next match",
    ),
    ScreenKey(
        "previous-match",
        ("N",),
        "The place before that holds it.",
        "Search",
        works=lambda facts: facts.searched,
        title="Previous match",
    ),
    ScreenKey(
        "copy",
        ("y",),
        "Copies the entry; of a piece of code only that, and pressed again the whole entry; of a tool "
        "call what it gave back, and pressed again what it was given.",
        "Take along",
        "copy",
        title="Copy",
    ),
    ScreenKey(
        "inspect",
        ("o",),
        "Opens the Inspector on this entry.",
        "Take along",
        "inspect",
        title="Open in the Inspector",
    ),
)


def key_name(command: str) -> str:
    """How a sentence calls the key of one of these."""
    return name_of(KEYS, command)
