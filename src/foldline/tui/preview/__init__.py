"""The Compact preview: the cut, the draft and what would be lost, before anything changes.

It shows a `PreviewState` and asks for operations; `tui.preview_host` owns it. The screen is imported from
`screen` when it is opened: only the state takes note of every event from the first one on."""

from foldline.tui.preview.state import Drafting, PreviewState

__all__ = ["Drafting", "PreviewState"]
