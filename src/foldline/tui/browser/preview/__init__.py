"""The Compact preview: a compaction that has not been applied yet.

Shows the cut, the draft and the facts that would be lost. The preview shows a `PreviewState`, and sends
operations to its owner, `tui/app/preview_host.py`. The screen is imported only when it is opened. The state
is imported at startup, because any event may change it.
"""

from foldline.tui.browser.preview.state import Drafting, PreviewState

__all__ = ["Drafting", "PreviewState"]
