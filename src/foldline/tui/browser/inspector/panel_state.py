"""The state that one Inspector passes on to another."""

from dataclasses import dataclass

from foldline.tui.blocks.block import Key
from foldline.tui.browser.inspector.time_travel import NOW, Viewpoint
from foldline.tui.browser.panels.entry_list import ScrollPosition


@dataclass(frozen=True, slots=True)
class PanelState:
    """The state of the panels: what they show, positions, expanded rows and marks."""

    viewpoint: Viewpoint = NOW
    by_size: bool = False
    shows_notes: bool = False
    active: int = 0
    timeline: bool | None = None
    """Whether the timeline is shown; None if that depends on the height."""
    needle: str = ""
    picked: frozenset[int] = frozenset()
    opened: tuple[frozenset[Key], ...] = ()
    """The expanded rows of History and of the LLM view."""
    scrolls: tuple[ScrollPosition, ...] = ()
    """The scroll positions of History, LLM view and Files."""
