"""The keys of all modes of the browser: one table for bindings, hints and help."""

from collections.abc import Container, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from foldline.frontend.keymap import (
    HELP,
    ScreenKey,
    cursor_keys,
    hint_words,
    jump_keys,
    name_of,
    names_of,
    panel_keys,
    search_keys,
    table,
)

CUT: Final = 0
DRAFT: Final = 1
AUDIT: Final = 2
"""Numbers of the panels while a draft is shown."""


@dataclass(frozen=True, slots=True)
class KeyState:
    """The state that determines which keys work."""

    live: bool = False
    """Whether the view can be edited."""
    in_draft: bool = False
    """Whether a draft is shown. The other fields describe it."""
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


BrowserKey = ScreenKey[KeyState]


def _in_panels(state: KeyState) -> bool:
    return state.in_panels


def _without_draft(state: KeyState) -> bool:
    return not state.in_draft


def _decides(state: KeyState) -> bool:
    return state.in_panels and state.decides


def _on_row(state: KeyState) -> bool:
    return _decides(state) and state.on_row


def _everywhere(keys: Iterable[BrowserKey]) -> list[BrowserKey]:
    """Return keys that work in every mode, while the panels receive keys."""
    return [replace(key, works=_in_panels) for key in keys]


def _key(
    id: str,
    keys: str,
    help: str,
    title: str,
    hint: str = "",
    shown: str = "",
    *,
    own: bool = False,
) -> BrowserKey:
    """Return a key that works while no draft is shown."""
    return BrowserKey(
        id,
        tuple(keys.split()),
        help,
        "",
        hint,
        shown,
        own=own,
        title=title,
        works=_without_draft,
    )


def _edit_key(id: str, key: str, help: str) -> BrowserKey:
    return BrowserKey(
        id, (key,), help, "Edit", id, title=id.capitalize(), works=lambda f: f.live
    )


KEYS: Final = table(
    "inspector",
    "Move",
    *_everywhere(
        cursor_keys(
            "Moves the cursor up or down one entry.",
            "Goes up or down one screen, or to the first or last entry. At the last line, the panel follows "
            "new entries.",
        )
    ),
    BrowserKey(
        "open",
        ("enter",),
        "Expands or collapses an entry in place. On a file: goes to its latest access. Press again for "
        "earlier ones. In a draft: cuts at the nearest cut point, edits the text, or pins the entry that "
        "contains the fact.",
        hint="open",
        title="Open",
        works=lambda f: not f.in_draft or _decides(f),
        own=True,
    ),
    "Panels",
    *_everywhere(
        panel_keys(
            "History: all entries. In a draft: Cut, what is compacted and what is kept",
            "LLM view: the items of the next request. In a draft: Draft, the text that replaces the "
            "compacted part",
            "Files: modified and read files. In a draft: Audit, facts that would be lost",
            mark="entry",
            shown="Tab 1–3",
        )
    ),
    "Jump",
    _key(
        "compaction",
        "g",
        "Goes to the compaction that summarised or changed this entry; from a compaction, back to an entry.",
        "Its compaction",
        "compaction",
    ),
    BrowserKey(
        "subagent",
        ("o",),
        "Opens the session of the subagent that this entry started, or whose result this entry is. In a "
        "draft: shows the entry in History.",
        hint="subagent",
        title="Its subagent",
        works=lambda f: not f.in_draft or (f.in_panels and f.on_row),
    ),
    *_everywhere(jump_keys("prompt", ("[", "]"), hint="prompt")),
    *(
        replace(key, works=_without_draft)
        for key in jump_keys("compaction", ("{", "}"), hint="compaction")
    ),
    "Search",
    *_everywhere(
        search_keys(
            "Finds text in this panel, also in closed entries. Finds entries by their properties with "
            "tool:bash, kind:user, state:hidden or mark:failed.",
            "entry",
        )
    ),
    "Move",
    _key(
        "copy",
        "y",
        "Copies the text of the entry to the clipboard, through the terminal (OSC 52).",
        "Copy",
    ),
    BrowserKey(
        "pin",
        ("p",),
        "Restores an entry and its tool group verbatim, and keeps them in later compactions. Again: unpins "
        "them. In a draft: also pins a ledger line or the entry of a lost fact.",
        "Edit",
        "pin",
        title="Pin",
        works=lambda f: f.live or _on_row(f),
    ),
    _edit_key(
        "hide",
        "z",
        "Replaces a tool result with a placeholder. Again: shows it.",
    ),
    BrowserKey(
        "drop",
        ("x", "delete"),
        "Removes an entry and its tool group from the view. In a draft: removes a line from the ledger.",
        "Edit",
        "drop",
        title="Drop",
        works=lambda f: f.live or (_on_row(f) and f.panel == DRAFT),
    ),
    _edit_key("restore", "r", "Restores an entry and its tool group verbatim."),
    _edit_key(
        "undo",
        "u",
        "Undoes the newest change to the view (edit, compaction, clear or rewind). Press again for earlier "
        "ones.",
    ),
    "Time",
    _key(
        "older-request",
        ",",
        "Shows all panels as of the previous request, read-only.",
        "As of the previous request",
        "request",
    ),
    _key(
        "newer-request",
        ".",
        "Shows all panels as of the next request.",
        "As of the next request",
        "request",
    ),
    _key(
        "before-compaction",
        "<",
        "Goes back: all panels show the state just after the previous compaction.",
        "As of the previous compaction",
        "compaction",
    ),
    _key(
        "after-compaction",
        ">",
        "Goes forward: all panels show the state just after the next compaction.",
        "As of the next compaction",
        "compaction",
    ),
    _key(
        "now",
        "0",
        "Returns to the current state and your earlier position.",
        "Back to now",
        "now",
    ),
    _key(
        "timeline",
        "4",
        "Shows or hides the timeline, with the tokens per request.",
        "Timeline",
    ),
    _key(
        "first-entry",
        "f",
        "Goes to the first entry that the shown request added.",
        "First entry of the request",
    ),
    _key(
        "mark",
        "space",
        "Marks an entry, so that pin, hide, drop and restore act on all marked entries. In an earlier state: "
        "marks the shown request for comparison with others. Again: removes the mark.",
        "Mark",
        "mark",
    ),
    BrowserKey(
        "diff",
        ("d",),
        "Compares this request with the marked one, or with the previous one. On a compaction: compares the "
        "views before and after it. Again: shows the next of these comparisons. In a draft: shows what it "
        "changes in the earlier summary.",
        hint="compare",
        title="Compare requests",
        works=lambda f: not f.in_draft or (_decides(f) and f.has_earlier),
    ),
    "Draft",
    BrowserKey(
        "apply",
        ("ctrl+s",),
        "Applies the compaction exactly as shown. A stale draft must be drafted again first.",
        hint="apply",
        works=lambda f: _decides(f) and not f.is_stale,
    ),
    BrowserKey(
        "redraft",
        ("R",),
        "Drafts again with the current cut and focus. You can say what the new draft should do better.",
        hint="new draft",
        works=lambda f: _decides(f) and f.writes_text,
    ),
    BrowserKey(
        "discard",
        ("X",),
        "Discards the proposal, after confirmation with Enter. The session does not change.",
        hint="discard",
        works=_decides,
    ),
    BrowserKey(
        "edit",
        ("e",),
        "Edits the text of the draft, like Enter in the Draft panel. Esc keeps the text and leaves the "
        "editor.",
        hint="edit",
        works=lambda f: _decides(f) and f.is_editable,
    ),
    BrowserKey(
        "editor",
        ("ctrl+g",),
        "Edits the text of the draft in $VISUAL or $EDITOR. The text that you save becomes the draft.",
        works=lambda f: _decides(f) and f.is_editable,
    ),
    BrowserKey(
        "keep-more",
        ("+", "="),
        "Moves the cut to the previous cut point, so that more is kept verbatim.",
        hint="cut",
        shown="+ -",
        works=lambda f: _decides(f) and f.has_cut,
    ),
    BrowserKey(
        "keep-less",
        ("-",),
        "Moves the cut to the next cut point, so that more is compacted.",
        works=lambda f: _decides(f) and f.has_cut,
    ),
    BrowserKey(
        "focus",
        ("F",),
        "In Audit: adds the fact to the focus of the next draft.",
        hint="add to focus",
        works=lambda f: _on_row(f) and f.panel == AUDIT,
    ),
    "Panels",
    _key(
        "maximise",
        "m",
        "Shows the Inspector full screen. Again: beside the chat.",
        "Maximise",
    ),
    *_everywhere(
        [
            _key(
                "by-size",
                "s f4",
                "Shows what fills the window by category, and lists the items by size. Again: lists them in "
                "order.",
                "By size",
                "by size",
            ),
            _key(
                "draft",
                "f3",
                "Shows the proposed compaction, or starts one: the cut, the draft and the lost facts. Again: "
                "closes it and keeps the proposal.",
                "Compact preview",
            ),
            _key(
                "entries",
                "f2",
                "Shows the entries, after a draft or a list by size. Again: closes the Inspector.",
                "Entries",
            ),
        ]
    ),
    _key(
        "notes",
        "a",
        "Shows or hides system notes in History: requests, notices, approvals and edits.",
        "System notes",
    ),
    "Program",
    replace(HELP, works=_in_panels),
    BrowserKey(
        "close",
        ("escape", "q"),
        "Ends the search, or cancels the draft, or closes the Inspector. A finished draft is kept.",
        hint="close",
        shown="Esc",
        title="Close",
    ),
)
"""The key table of the browser."""

key_name = partial(name_of, KEYS)
"""Returns the name of a command's key, for use in a sentence."""

_TIME: Final = frozenset(
    {
        "older-request",
        "newer-request",
        "before-compaction",
        "after-compaction",
        "now",
        "mark",
    }
)
"""Commands whose hints are shown only in an earlier state."""
_OF_ROWS: Final = frozenset(
    key.id for key in KEYS if key.group in ("Jump", "Search")
) | {"move", "compaction", "subagent"}
"""Commands whose hints make room for those of `_TIME` in an earlier state."""
_NOT_IN_DRAFT: Final = frozenset(
    {"move", "open", "subagent", "older-prompt", "newer-prompt", "by-size"}
)
"""Commands whose hints make room for those of a draft."""


def hints(
    state: KeyState,
    *,
    past: bool = False,
    idle: Container[str] = (),
) -> list[tuple[str, str]]:
    """Return the (keys, word) pairs of the key hints, with the close key last.

    Args:
        past: whether an earlier state is shown.
        idle: commands that have no effect on the current row.
    """
    keys = [key for key in KEYS if key.id not in idle]
    if state.in_draft:
        keys = [key for key in keys if key.id not in _NOT_IN_DRAFT]
        keys.sort(key=_draft_rank)
    else:
        hidden = _OF_ROWS if past else _TIME
        keys = [key for key in keys if key.id not in hidden]
    return list(hint_words(keys, state))


def _draft_rank(key: BrowserKey) -> int:
    """Return the rank of a key's hint while a draft is shown."""
    if key.group == "Draft":
        return 0
    return {"diff": 1, "pin": 2, "drop": 2}.get(key.id, 3)


def scrubbing_words() -> str:
    """Return the hints at the bottom of the timeline: `, . request · < > compaction · 0 back to now`."""
    requests = names_of(KEYS, "older-request", "newer-request")
    compactions = names_of(KEYS, "before-compaction", "after-compaction")
    return (
        f"{requests} request · {compactions} compaction · {key_name('now')} back to now"
    )
