"""The keys of the transcript."""

from dataclasses import dataclass
from functools import partial
from typing import Final

from foldline.frontend.keymap import (
    KeyTable,
    ScreenKey,
    cursor_keys,
    jump_keys,
    name_of,
    search_keys,
    table,
)


@dataclass(frozen=True, slots=True)
class ReadingFacts:
    """The state that determines which keys are active."""

    prompts: int = 0
    compactions: int = 0
    searched: bool = False
    """Whether there is a search with matches."""
    opens: bool = True
    """Whether the block at the cursor can be expanded or collapsed."""
    edits: bool = False
    """Whether the cursor is on a prompt."""
    undoes: bool = False
    """Whether the cursor is on the compaction that `/undo` would undo."""


KEYS: Final[KeyTable[ScreenKey[ReadingFacts]]] = table(
    "transcript",
    "Move",
    *cursor_keys(
        "Moves the cursor to the previous or next row, paragraph or code block.",
        "Scrolls a screen up or down, or to the first or last line. At the last line, it follows new output.",
    ),
    ScreenKey(
        "open",
        ("enter",),
        "Expands the tool call, summary, thought or prompt under the cursor. Press again to expand all of a "
        "long one, and again to collapse it. For a subagent, opens its session in the Inspector.",
        hint="open",
        works=lambda facts: facts.opens,
        own=True,
        title="Open or close",
    ),
    "Jump",
    *jump_keys(
        "prompt",
        ("[", "]"),
        hint="prompt",
        works=lambda now: now.prompts > 0,
    ),
    *jump_keys(
        "compaction",
        ("{", "}"),
        hint="compaction",
        works=lambda facts: facts.compactions > 0,
    ),
    "Search",
    *search_keys(
        "Finds text, including text in collapsed calls, thoughts and summaries.",
        "entry",
        hint="next",
        works=lambda facts: facts.searched,
    ),
    "Copy and inspect",
    ScreenKey(
        "copy",
        ("y",),
        "Copies the entry. On a code block, copies the code; press again to copy the whole entry. On a tool "
        "call, copies the result; press again to copy the arguments.",
        hint="copy",
        title="Copy",
    ),
    ScreenKey(
        "picture", ("v",), "Shows the pictures in the entry.", title="Show pictures"
    ),
    ScreenKey(
        "undo",
        ("u",),
        "Undoes the compaction under the cursor, if it is the newest change.",
        hint="undo",
        works=lambda facts: facts.undoes,
        title="Undo this compaction",
    ),
    ScreenKey(
        "edit",
        ("e",),
        "Edits an earlier prompt. When you send it, the context goes back to this point, and the new prompt "
        "replaces the old one. The old branch stays available in /rewind.",
        hint="edit",
        works=lambda facts: facts.edits,
        title="Edit this prompt",
    ),
    ScreenKey(
        "inspect",
        ("o",),
        "Opens the entry in the Inspector.",
        hint="inspect",
        title="Open in the Inspector",
    ),
)

key_name = partial(name_of, KEYS)
"""Returns the name of a command's key, for use in sentences."""
