"""The Compact preview: the cut, the draft and what would be lost, before anything changes.

It shows a `PreviewState` and posts messages; its owner carries them out. The screen is imported from `screen`
when it is opened: only the state takes note of every event from the first one on."""

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
    "PreviewState",
    "RedraftWanted",
]
