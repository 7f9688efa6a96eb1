"""The Compact preview: a compaction that has not been applied yet.

Shows the cut, the draft and the facts that would be lost. The preview shows a `DraftState`, and sends
operations to its owner, `tui/app/preview_host.py`.
"""
