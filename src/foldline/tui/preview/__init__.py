"""The Compact preview: a compaction that has not been applied yet.

Shows the cut, the draft and the facts that would be lost. The preview shows a `PreviewState`, and sends
operations to its owner, `tui.preview_host`. The screen is imported only when it is opened. The state is
imported at startup, because any event may change it.
"""

from foldline.tui.preview.state import Drafting, PreviewState

__all__ = ["Drafting", "PreviewState"]
