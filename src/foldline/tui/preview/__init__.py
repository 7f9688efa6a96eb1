"""The Compact preview: the cut, the draft and what would be lost, before anything changes. It shows a
`PreviewState` and posts messages; its owner carries them out."""

from typing import TYPE_CHECKING

from foldline.tui.preview.messages import (
    ApplyWanted,
    CancelWanted,
    Closed,
    CutMoved,
    DiscardWanted,
    EntryWanted,
    FocusAdded,
    NotesEdited,
    PinsChosen,
    PreviewMessage,
    RedraftWanted,
)
from foldline.tui.preview.state import Drafting, PreviewState

if TYPE_CHECKING:
    from foldline.tui.preview.screen import PreviewScreen

__all__ = [
    "ApplyWanted",
    "CancelWanted",
    "Closed",
    "CutMoved",
    "DiscardWanted",
    "Drafting",
    "EntryWanted",
    "FocusAdded",
    "NotesEdited",
    "PinsChosen",
    "PreviewMessage",
    "PreviewScreen",
    "PreviewState",
    "RedraftWanted",
]


def __getattr__(name: str) -> object:
    """The screen when it is opened: its state takes note of every event from the first one on."""
    if name != "PreviewScreen":
        raise AttributeError(name)
    from foldline.tui.preview.screen import PreviewScreen

    return PreviewScreen
