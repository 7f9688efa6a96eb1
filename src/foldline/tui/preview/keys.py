"""The preview's keys: one table that bindings, hints and the help list come from."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Literal

from foldline.tui.keys.table import (
    HELP,
    ScreenKey,
    cursor_keys,
    jump_keys,
    name_of,
    panel_keys,
    search_keys,
    table,
)

Mode = Literal["panels", "editing", "finding", "guiding", "asked"]
"""What has the keys: the panels, the text of the draft, the search, the guidance, or a question."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What decides which keys work."""

    mode: Mode = "panels"
    panel: int = 0
    """0 Cut, 1 Draft, 2 Audit."""
    drafting: bool = False
    proposal: bool = False
    stale: bool = False
    editable: bool = False
    textless: bool = False
    """Whether the compaction writes no text: no model is asked for one."""
    has_cut: bool = False
    has_earlier: bool = False
    """Whether an earlier summary goes into the draft."""
    differing: bool = False
    """Whether the Draft panel shows what it changes in that."""
    facts: bool = False
    """Whether anything is lost."""
    on_ledger: bool = False
    """Whether the cursor is on a line of the ledger."""
    searching: bool = False


PreviewKey = ScreenKey[Facts]


def _decidable(facts: Facts) -> bool:
    return facts.mode == "panels" and facts.proposal and not facts.drafting


def _in_cut(facts: Facts) -> bool:
    return _decidable(facts) and facts.panel == 0


def _in_audit(facts: Facts) -> bool:
    return _decidable(facts) and facts.panel == 2 and facts.facts


def _in_ledger(facts: Facts) -> bool:
    return _decidable(facts) and facts.panel == 1 and facts.on_ledger


def _in_panels(keys: Iterable[ScreenKey[Facts]]) -> list[ScreenKey[Facts]]:
    """Keys that mean something to the panels only."""
    return [replace(key, works=lambda facts: facts.mode == "panels") for key in keys]


KEYS: Final = table(
    "preview",
    "Decide",
    PreviewKey(
        "apply",
        ("ctrl+s",),
        "Applies the compaction exactly as it is shown. A stale draft has to be drafted again first.",
        hint="apply",
        works=lambda f: _decidable(f) and not f.stale,
    ),
    PreviewKey(
        "redraft",
        ("R",),
        "Drafts again, for the cut and the focus as they are now; asks what to do better, if anything.",
        hint="new draft",
        works=lambda f: _decidable(f) and not f.textless,
    ),
    PreviewKey(
        "discard",
        ("x",),
        "Throws the proposal away, once Enter confirms it. The session stays as it is.",
        hint="throw away",
        works=_decidable,
    ),
    "Draft",
    PreviewKey(
        "edit",
        ("e",),
        "Edits the text of the draft, as Enter does in its panel. Esc keeps the text and leaves.",
        hint="edit",
        works=lambda f: _decidable(f) and f.editable,
    ),
    PreviewKey(
        "editor",
        ("ctrl+g",),
        "Edits the text of the draft in $VISUAL or $EDITOR; what is saved there is the draft.",
        works=lambda f: _decidable(f) and f.editable,
    ),
    PreviewKey(
        "difference",
        ("d",),
        "Shows what the draft changes in the earlier summary; again: the draft.",
        works=lambda f: _decidable(f) and f.has_earlier,
    ),
    "Cut",
    PreviewKey(
        "keep-more",
        ("+", "="),
        "Moves the cut to the cut point before: more stays verbatim.",
        hint="cut",
        shown="+ -",
        works=lambda f: _decidable(f) and f.has_cut,
    ),
    PreviewKey(
        "keep-less",
        ("-",),
        "Moves the cut to the next cut point: more is compacted.",
        works=lambda f: _decidable(f) and f.has_cut,
    ),
    "Panels",
    PreviewKey(
        "enter",
        ("enter",),
        "In Cut: cuts at the nearest cut point at or before the cursor. In Draft: edits. In Audit: pins "
        "what holds the fact, or all marked ones.",
        works=_decidable,
        own=True,
    ),
    PreviewKey(
        "pin",
        ("p",),
        "Pins: it stays verbatim, now and in later compactions; so does a line of the ledger. In Cut and "
        "Draft a second press takes that back.",
        hint="pin",
        works=lambda f: _in_cut(f) or _in_audit(f) or _in_ledger(f),
    ),
    PreviewKey(
        "drop",
        ("delete",),
        "In Draft: takes a line out of the ledger.",
        hint="drop",
        works=_in_ledger,
    ),
    "Audit",
    PreviewKey(
        "focus",
        ("f",),
        "Adds the fact, or all marked ones, to the focus: what the next draft dwells on.",
        hint="to the focus",
        works=_in_audit,
    ),
    PreviewKey(
        "mark",
        ("space",),
        "Marks a fact, or takes the mark away.",
        hint="mark",
        shown="Space",
        works=_in_audit,
    ),
    "Panels",
    PreviewKey(
        "entry",
        ("o",),
        "Opens the entry under the cursor.",
        works=lambda f: f.mode == "panels" and (f.panel != 1 or f.on_ledger),
    ),
    *_in_panels(cursor_keys(hint="")),
    *_in_panels(jump_keys("prompt", ("[", "]"), to="In Cut: to the")),
    *_in_panels(
        panel_keys(
            "Cut: what is compacted and what is kept",
            "Draft: the text that stands for what is compacted",
            "Audit: what would be lost",
            mark="row",
            below="the audit",
        )
    ),
    "Search",
    *_in_panels(search_keys()),
    "Program",
    *_in_panels([HELP]),
    PreviewKey(
        "close",
        ("escape", "f3"),
        "Ends the search, stops drafting, else closes the preview; the proposal is kept.",
        hint="close",
        shown="Esc",
        works=lambda _: True,
    ),
    title="Compact preview",
)

named = partial(name_of, KEYS)
"""How sentences call the key of a command."""


def hints_in_mode(mode: Mode) -> tuple[tuple[str, str], ...]:
    """(keys, word) of what works beside the panels; the last one belongs at the right end."""
    leave = named("close")
    match mode:
        case "editing":
            outside = (named("editor"), "in $EDITOR")
            return ((named("apply"), "takes the text"), outside, (leave, "keeps the text and leaves"))
        case "finding":
            return (("Enter", "finds"), (leave, "leaves"))
        case _:
            return (("Enter", "drafts"), (leave, "leaves, nothing is drafted"))
