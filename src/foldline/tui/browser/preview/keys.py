"""The preview's keys: one table for bindings, hints and help."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from foldline.frontend.keymap import (
    HELP,
    ScreenKey,
    cursor_keys,
    jump_keys,
    name_of,
    panel_keys,
    search_keys,
    table,
)

CUT: Final = 0
DRAFT: Final = 1
AUDIT: Final = 2
"""Numbers of the panels."""


@dataclass(frozen=True, slots=True)
class KeyState:
    """The state that determines which keys work."""

    panel: int = CUT
    """Number of the active panel."""
    in_panels: bool = True
    """Whether the panels receive keys, and not a field or a question."""
    decides: bool = False
    """Whether there is a proposal, and no draft is being written."""
    is_stale: bool = False
    is_editable: bool = False
    writes_text: bool = True
    """Whether the strategy writes a text, so that a new draft can be requested."""
    has_cut: bool = False
    has_earlier: bool = False
    """Whether the draft includes an earlier summary."""
    on_row: bool = False
    """Whether the cursor is on an item of the view, a ledger line or a fact."""


PreviewKey = ScreenKey[KeyState]


def _decides(state: KeyState) -> bool:
    return state.in_panels and state.decides


def _on_row(state: KeyState) -> bool:
    return _decides(state) and state.on_row


def _in_cut(state: KeyState) -> bool:
    return state.in_panels and state.panel == CUT


def _in_panels(keys: Iterable[ScreenKey[KeyState]]) -> list[ScreenKey[KeyState]]:
    """Restrict keys to the panels."""
    return [replace(key, works=lambda state: state.in_panels) for key in keys]


KEYS: Final = table(
    "preview",
    "Decide",
    PreviewKey(
        "apply",
        ("ctrl+s",),
        "Applies the compaction exactly as shown. A stale draft must be drafted again first.",
        hint="apply",
        works=lambda f: _decides(f) and not f.is_stale,
    ),
    PreviewKey(
        "redraft",
        ("R",),
        "Drafts again with the current cut and focus. You can say what the new draft should do better.",
        hint="new draft",
        works=lambda f: _decides(f) and f.writes_text,
    ),
    PreviewKey(
        "discard",
        ("x",),
        "Discards the proposal, after confirmation with Enter. The session does not change.",
        hint="discard",
        works=_decides,
    ),
    "Draft",
    PreviewKey(
        "edit",
        ("e",),
        "Edits the text of the draft, like Enter in the Draft panel. Esc keeps the text and leaves the "
        "editor.",
        hint="edit",
        works=lambda f: _decides(f) and f.is_editable,
    ),
    PreviewKey(
        "editor",
        ("ctrl+g",),
        "Edits the text of the draft in $VISUAL or $EDITOR. The text that you save becomes the draft.",
        works=lambda f: _decides(f) and f.is_editable,
    ),
    PreviewKey(
        "difference",
        ("d",),
        "Shows what the draft changes in the earlier summary. Again: shows the draft.",
        hint="changes",
        works=lambda f: _decides(f) and f.has_earlier,
    ),
    "Cut",
    PreviewKey(
        "keep-more",
        ("+", "="),
        "Moves the cut to the previous cut point, so that more is kept verbatim.",
        hint="cut",
        shown="+ -",
        works=lambda f: _decides(f) and f.has_cut,
    ),
    PreviewKey(
        "keep-less",
        ("-",),
        "Moves the cut to the next cut point, so that more is compacted.",
        works=lambda f: _decides(f) and f.has_cut,
    ),
    "Panels",
    PreviewKey(
        "enter",
        ("enter",),
        "In Cut: cuts at the nearest cut point at or before the cursor. In Draft: edits the text. In Audit: "
        "pins the entry that contains the fact.",
        works=_decides,
        own=True,
    ),
    PreviewKey(
        "pin",
        ("p",),
        "Pins an entry or a ledger line, so that it stays verbatim now and in later compactions. Again, in "
        "Cut and Draft: unpins it.",
        hint="pin",
        works=_on_row,
    ),
    PreviewKey(
        "drop",
        ("delete",),
        "In Draft: removes a line from the ledger.",
        hint="drop",
        works=lambda f: _on_row(f) and f.panel == DRAFT,
    ),
    PreviewKey(
        "focus",
        ("f",),
        "In Audit: adds the fact to the focus of the next draft.",
        hint="add to focus",
        works=lambda f: _on_row(f) and f.panel == AUDIT,
    ),
    PreviewKey(
        "entry",
        ("o",),
        "Opens the entry under the cursor.",
        works=lambda f: f.in_panels and f.on_row,
    ),
    *_in_panels(cursor_keys(hint="")),
    *jump_keys("prompt", ("[", "]"), verb="In Cut: goes", works=_in_cut),
    *_in_panels(
        panel_keys(
            "Cut: what is compacted and what is kept",
            "Draft: the text that replaces the compacted part",
            "Audit: facts that would be lost",
            mark="row",
        )
    ),
    "Search",
    *_in_panels(search_keys()),
    "Program",
    *_in_panels([HELP]),
    PreviewKey(
        "close",
        ("escape", "f3"),
        "Ends the search, or cancels the draft, or closes the preview and keeps the proposal.",
        hint="close",
        shown="Esc",
    ),
    title="Compact preview",
)

named = partial(name_of, KEYS)
"""Returns the name of a command's key, for use in a sentence."""
